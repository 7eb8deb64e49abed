"""`kshadow history`: months of history on one machine, without Spark and Java."""

from __future__ import annotations

import csv
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack
from itertools import islice
from typing import Any

import click

from agent.cli.data_source import history_errors_reported
from agent.cli.options import FORMATS, Decorator, combined, note_wide, option, resolve_range
from agent.cli.output import Column, echo, print_rows, printable, warn
from agent.cli.spark_options import DAY, RANGE, TIME_ZONE
from agent.cli.tables import MIN_FOLDED_WIDTH
from agent.cli.text import json_text
from agent.config.options import PLACE, TIME, Parsed

DEFAULT_MEMORY = "1g"
EVERY_S = 5.0
MAX_TABLE_ROWS = 1_000


def parse_size(text: str) -> int:
    """An amount of memory in MB."""
    number, unit = text[:-1], text[-1:].lower()
    if unit not in ("m", "g") or not number.isascii() or not number.isdecimal() or int(number) == 0:
        raise ValueError(f"expected a size (512m, 2g), got {text!r}")
    megabytes = int(number) * (1024 if unit == "g" else 1)
    if megabytes < LEAST_MB:
        raise ValueError(f"expected a size of at least {LEAST_MB}m, got {text!r}")
    return megabytes


LEAST_MB = 64

memory_option = option(
    "--memory",
    "memory_mb",
    type=Parsed("SIZE", parse_size),
    default=DEFAULT_MEMORY,
    help="What the engine may take; what does not fit goes to disk, below TMPDIR.",
)

rollup_options: Decorator = combined(
    option(
        "--history",
        multiple=True,
        required=True,
        type=PLACE,
        metavar="DIR",
        help="A directory of events as Parquet, or a Delta table of them, as backfill, stream and kshadow run write "
        "them. Repeatable.",
    ),
    option("--out", type=PLACE, metavar="DIR", required=True, help="Where the tables go, as Parquet."),
    option("--since", type=DAY, help="The first day (UTC): 2026-11-01, or 30d before now [the first there is]."),
    option("--until", type=DAY, help="The last day, itself included [the last there is]."),
)

report_options: Decorator = combined(
    option("--rollups", type=PLACE, metavar="DIR", required=True, help="What rollup or stream wrote."),
    option("--out", type=PLACE, metavar="FILE.html", required=True, help="The page."),
    option("--summary", type=PLACE, metavar="DIR", help="The summary as Parquet [beside the page, of its name]."),
    option("--since", type=TIME, help="Only from this time on: 30d before now, 2026-11-01 (UTC unless told)."),
    option("--until", type=TIME, help="Only up to this time, written as for --since."),
    option("--before", type=RANGE, help="Times or days (UTC unless told) to compare --after with."),
    option("--after", type=RANGE, help="What is compared with --before; a day as TO is part of it."),
    option("--timezone", "time_zone", type=TIME_ZONE, default="UTC", help="Of hours and weekdays."),
    option(
        "--whatif",
        "what_if",
        metavar="PATH",
        help="What kshadow whatif -o json said: a file, or a directory of such.",
    ),
    option("--top", "most_groups", type=click.IntRange(1, 1000), default=20, help="Groups in each ranking."),
)
"""Of `report`, here and of `kshadow spark`."""


@click.group()
def history() -> None:
    """Aggregate, report and query months of history on this machine.

    The same tables and the same page as kshadow spark makes, without Spark and Java (install kshadow[history]).
    docs/history.md says from what size Spark pays.

    \b
    Examples:
      kshadow history rollup --history /data/history --out /data/rollups
      kshadow history report --rollups /data/rollups --out report.html
      kshadow history query --rollups /data/rollups 'FROM episodes LIMIT 10'
    """


@history.command()
@rollup_options
@memory_option
@click.pass_context
def rollup(
    ctx: click.Context,
    /,
    history: tuple[str, ...],
    out: str,
    since: str | None,
    until: str | None,
    memory_mb: int,
) -> None:
    """Aggregate the history by five minutes, hours and days.

    Replaces the days it reads in --out, whole days of UTC, in one commit, and leaves others. Its rows are those that
    the rollup by Spark gives.

    \b
    Examples:
      kshadow history rollup --history /data/history --out /data/rollups
      kshadow history rollup --history /data/history --out /data/rollups --since 2026-11-01
    """
    from agent.common.clock import now_ms

    check_days(since, until)
    with history_errors_reported():
        from agent.history.planning import left_out, no_window_over, not_over
        from agent.history.rollup import roll_up
        from agent.persistence.export.arrow import date_of
        from analyzers.formatting import count_text

        done = roll_up(
            history,
            out,
            since,
            until,
            now_ms=now_ms(),
            memory_mb=memory_mb,
            say=warn,
            on_progress=_progress("rolling up"),
        )
    told = ", ".join(f"{count_text(number, 'row')} of {name}" for name, number in done.rows.items())
    days = f"{count_text(done.days, 'day')} from {date_of(done.within.since_ms)}"
    echo(f"{printable(out)}: {count_text(done.events, 'event')}, {days}: {told}")
    if not done.rows["groups"]:
        warn(no_window_over(done.within))
    if done.open_episodes:
        warn(not_over(done.open_episodes))
    if done.left_out:
        warn(left_out(done.left_out))
        ctx.exit(1)


@history.command()
@report_options
@memory_option
@click.pass_context
def report(ctx: click.Context, /, memory_mb: int, **_: Any) -> None:
    """Write an HTML page from the rollups: which groups cost most, when and why.

    \b
    Examples:
      kshadow history report --rollups /data/rollups --out report.html
      kshadow history report --rollups /data/rollups --out june.html --since 7d --timezone Europe/Berlin
    """
    write_report(ctx, memory_mb=memory_mb, command="history")


@history.command()
@click.argument("sql", metavar="SQL", type=Parsed("SQL", str.encode, keeps_text=True))
@option(
    "--history",
    multiple=True,
    type=PLACE,
    metavar="DIR",
    help="A directory of events as Parquet, or a Delta table of them: the table history. Repeatable.",
)
@option(
    "--rollups",
    type=PLACE,
    metavar="DIR",
    help="What rollup or stream wrote: the tables groups, causes and episodes.",
)
@memory_option
@option(
    "-o",
    "--output",
    type=click.Choice((*FORMATS, "csv")),
    default="table",
    callback=note_wide,
    help=f"How to print it; a table has the first {MAX_TABLE_ROWS:,} rows, wide is one with every column.",
)
def query(sql: str, history: tuple[str, ...], rollups: str | None, memory_mb: int, output: str) -> None:
    """Query the tables in SQL (DuckDB).

    One SELECT over the tables history, groups, causes and episodes, whose columns spark_jobs/TABLES.md and
    docs/reference/events.md tell. DESCRIBE, SHOW TABLES and SUMMARIZE tell what is there. Other files cannot be read,
    and nothing can be written.

    \b
    Examples:
      kshadow history query --rollups /data/rollups 'FROM episodes LIMIT 10'
      kshadow history query --history /data/history -o csv "FROM history WHERE type = 'finding'"
    """
    if not history and rollups is None:
        raise click.UsageError("--history or --rollups is needed, or both: what is asked")
    with ExitStack() as opened:
        opened.enter_context(history_errors_reported())
        from agent.history.querying import ask, open_for_queries

        db = opened.enter_context(open_for_queries(history, rollups, memory_mb=memory_mb))
        answer = ask(db, sql)
        if output == "csv":
            print_csv(answer.columns, answer.rows)
            return
        columns = {name: Column(printable(name), folds=MIN_FOLDED_WIDTH) for name in answer.columns}
        if output != "table":
            print_rows(answer.rows, output, columns)
            return
        rows = list(islice(answer.rows, MAX_TABLE_ROWS + 1))
        print_rows(rows[:MAX_TABLE_ROWS], output, columns, empty="no rows")
        if len(rows) > MAX_TABLE_ROWS:
            warn(f"(only the first {MAX_TABLE_ROWS:,} rows; -o ndjson and -o csv give all)")


def print_csv(columns: Sequence[str], rows: Iterable[Mapping[str, Any]]) -> None:
    """RFC 4180, with a heading; what is null is empty, lists and structs are JSON, and what could move a terminal's
    cursor is shown as an escape."""

    def text(value: Any) -> Any:
        if isinstance(value, bool):
            return "true" if value else "false"
        if isinstance(value, list | dict):
            return json_text(value)
        return printable(value) if isinstance(value, str) else value

    write = csv.writer(_Lines(), lineterminator="\n").writerow
    write([printable(name) for name in columns])
    for row in rows:
        write([text(value) for value in row.values()])


class _Lines:
    """Standard output as a file to write to."""

    def write(self, line: str) -> None:
        echo(line, nl=False)


def write_report(ctx: click.Context, *, memory_mb: int, command: str) -> None:
    """Make the report that the options tell of, on this machine."""
    from agent.common.clock import now_ms

    with history_errors_reported():
        from agent.history.report.local import run

        written = run(report_job(ctx), now_ms=now_ms(), memory_mb=memory_mb, command=command)
    echo(printable(str(written)))


def report_job(ctx: click.Context) -> Any:
    """The report that the options tell of. Raises `click.UsageError`."""
    from agent.common.clock import now_ms
    from agent.history.report.request import Report

    params = ctx.params
    if (params["before"] is None) != (params["after"] is None):
        raise click.UsageError("--before and --after go together: the one is compared with the other")
    since_ms, until_ms = resolve_range(params["since"], params["until"], now_ms())
    named = {name: params[name] for name in Report.__struct_fields__ if name in params}
    return Report(**{**named, "since_ms": since_ms, "until_ms": until_ms})


def check_days(since: str | None, until: str | None) -> None:
    """Raise `click.UsageError` for a range that ends before it begins."""
    if since is not None and until is not None and since > until:
        raise click.UsageError("the range ends before it begins: --since is later than --until")


def _progress(what: str) -> Callable[[int], None]:
    """Says every few seconds how many events were taken."""
    began = last = time.monotonic()

    def on_progress(events: int) -> None:
        nonlocal last
        now = time.monotonic()
        if now - last >= EVERY_S:
            last = now
            warn(f"{what}: {events:,} events, {now - began:.0f} s")

    return on_progress
