"""`spark_jobs/TABLES.md`: every table that the jobs write, from the declarations. To write it anew:

python -m tests.generate.spark_tables_page
"""

from __future__ import annotations

from agent.history.report.columns import SUMMARY
from agent.history.tables import ROLLED_UP, STREAMED, VERSION, Column
from agent.persistence.export import columns as history
from tests import ROOT

PAGE = ROOT / "spark_jobs" / "TABLES.md"

HISTORY = f"""\
# Tables

What `kshadow history` and `kshadow spark` read and write, as Parquet, Delta Lake or Iceberg tables. Times are epoch
milliseconds, UTC; a column's unit ends its name. A column that is added does not raise a version: take those that you
know by name. Unknown is null, never 0. This page is written by `python -m tests.generate.spark_tables_page`.

## History, version {history.VERSION}

One row an event, in `<out>/date=YYYY-MM-DD/` by the day (UTC) of `at_ms`: what `kshadow spark backfill`,
`kshadow spark stream --reads topic` and `kshadow run --history-parquet` write. The agent's are there at least once:
remove duplicates by `event_id`.

| column | type | of | |
|---|---|---|---|
"""
ROLLUPS = f"""
Parquet's strings are UTF-8, in which a lone surrogate cannot be: in a row that is `escaped` backslashes are doubled
and surrogates written as `\\udc80`.

## Rollups, version {VERSION}

`<out>/<table>/date=YYYY-MM-DD/` by the day (UTC) in which the window or the episode begins: what `kshadow history
rollup`, `kshadow spark rollup` and `kshadow spark stream` write.
"""
ABOUT = {
    "groups": """\
A row for each group and window: of an hour and of a day while the group is there, of five minutes where something
was told of it.""",
    "causes": "A row for each group, window, kind and cause that there was.",
    "episodes": "A row for each busy time of a group: rebalances with less than ten minutes from one to the next.",
    "standing": """\
Of a rollup: a row for each group and day that is over: how it stood when the day ended. The next rollup begins with
it, so it reads no days before. A day that is rolled up anew takes those of later days away.""",
    "set_aside": """\
Of a stream: what no window has, each time that it came. Late duplicates of what was counted are among it.""",
}
SUMMARIES = """
## The report's summary

`<page>-summary/<table>/`: the numbers of the page.
"""
_KINDS = {"int32": "int", "int64": "bigint", "bool": "boolean", "json": "string (JSON)"}
_MORE = (
    (history.EXTRA, "string (JSON)", "any", "fields that the table does not have, or not of that type"),
    (history.ESCAPED, "boolean", "every event", "whether texts have lone surrogates, escaped (see below)"),
)


def page() -> str:
    """The page, as Markdown."""
    out = [HISTORY]
    for column in history.COLUMNS:
        types = "every event" if column.types is history.EVERY else ", ".join(f"`{it}`" for it in column.types)
        out.append(_row(column.name, _kind(column.kind), types, column.about))
    out += [_row(*more) for more in _MORE]
    out.append(ROLLUPS)
    for name, table in (ROLLED_UP | STREAMED).items():
        out.append(f"\n### `{name}`\n\n{ABOUT[name]}\n{_rows(table)}")
    out.append(SUMMARIES)
    for name, table in SUMMARY.items():
        out.append(f"\n### `{name}`\n{_rows(table)}")
    return "".join(out)


def _rows(table: tuple[Column, ...]) -> str:
    rows = "".join(_row(it.name, it.kind, it.about) for it in table)
    return f"\n| column | type | |\n|---|---|---|\n{rows}"


def _row(name: str, *cells: str) -> str:
    return f"| `{name}` | {' | '.join(cells)} |\n"


def _kind(kind: history.ColumnType) -> str:
    match kind:
        case str():
            return _KINDS.get(kind, kind)
        case (item,):
            return f"array of {_kind(item)}"
        case _:
            return "struct of " + ", ".join(f"`{name}`" for name in kind)


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
