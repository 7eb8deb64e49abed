"""Rollups → page and summary. The summary first, then the page of what stands there: so they say the same.

Takes a database with the tables `groups`, `causes` and `episodes`, whoever read them. The page's totals, steps and
findings are queries of their own over the same views.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from io import BytesIO
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from agent import __version__
from agent.history import tables
from agent.history.arrow_types import arrow_schema
from agent.history.engine import columns_of, one_row, rows
from agent.history.errors import HistoryError
from agent.history.report import command_line, gains, spans
from agent.history.report.columns import SUMMARY
from agent.history.report.destination import Destination
from agent.history.report.page.document import render_document
from agent.history.report.page.words import moment
from agent.history.report.queries import comparing, deploys, ranking, times
from agent.history.report.queries.views import find_range, make_views
from agent.history.report.report_data import Comparison, Gains, ReportData
from agent.history.report.request import Report, ReportRequest
from agent.history.report.spans import Range
from agent.presentation.narrative.words import count


class Written(NamedTuple):
    """What a report came to, and where it is. `rows`: of each table of the summary."""

    page: str
    page_bytes: int
    groups: int
    span: Range
    summary: str
    rows: dict[str, int]

    def __str__(self) -> str:
        told = ", ".join(f"{number:,} of {name}" for name, number in self.rows.items())
        return (
            f"{self.page}: {count(self.groups, 'group')} from {moment(self.span.since_ms)} to"
            f" {moment(self.span.until_ms)} UTC, {max(self.page_bytes // 1000, 1):,} kB; summary in {self.summary}:"
            f" rows {told}"
        )


class Engine(NamedTuple):
    """Who read the tables: the word after `kshadow` that runs it, and its versions for the page."""

    command: str
    versions: str


def build_report(
    db: Any,
    job: Report,
    it: ReportRequest,
    destination: Destination,
    *,
    engine: Engine,
    made_at_ms: int,
    replayed: list[gains.WhatIfDocument] | None,
    dates: Callable[[], list[str]],
) -> Written:
    """Write the page and the summary. Raises `HistoryError`: nothing is written then, or the summary alone.

    `dates`: as for `find_range`.
    """
    span = find_range(db, it.span, dates)
    step = spans.step_of(span)
    make_views(db, span, job.time_zone, step)
    gained = gains.gains(replayed or ())
    summary = _make_summary(db, it, step, gained)
    compared = _compared(db, it.before_after)
    data = ReportData(
        span=span,
        zone=job.time_zone,
        step=step,
        most_groups=job.most_groups,
        totals=one_row(db, ranking.TOTALS),
        departures=rows(db, ranking.DEPARTURES),
        origins=rows(db, ranking.ORIGINS),
        ranking=rows(db, f"FROM ranking WHERE rank <= {job.most_groups} ORDER BY rank"),
        courses=_courses(db, job.most_groups),
        teams=rows(db, f"FROM teams WHERE rank <= {job.most_groups} ORDER BY rank"),
        teams_total=summary["teams"].num_rows,
        starts=spans.starts(span, job.time_zone, step),
        steps=rows(db, times.STEPS),
        causes=rows(db, "FROM causes_by_day ORDER BY start, kind, cause NULLS FIRST"),
        heat_map=rows(db, "FROM heat_map ORDER BY weekday, hour"),
        deploys=rows(db, f"FROM deploys WHERE rank <= {job.most_groups} ORDER BY rank"),
        deploys_total=summary["deploys"].num_rows,
        kinds=rows(db, deploys.KINDS),
        halves=None if compared is not None else _halves(db, span),
        compared=compared,
        gains=None
        if replayed is None
        else Gains(len({document.group for document in replayed}), gained, gains.doubtful(replayed)),
        findings=rows(db, ranking.FINDINGS),
        unknown=one_row(db, ranking.unknown(span.until_ms - span.since_ms)),
        made_at_ms=made_at_ms,
        made_with=f"kshadow {__version__}, rollup tables of version {tables.VERSION}, {engine.versions}",
        command=command_line.command(job, engine.command),
    )
    page = render_document(data).encode("utf-8")
    for name, table in summary.items():
        _write_table(destination, it.summary, name, table)
    destination.write(it.page, page)
    counts = {name: table.num_rows for name, table in summary.items()}
    return Written(it.page, len(page), data.totals["groups"], span, it.summary, counts)


def _make_summary(
    db: Any, it: ReportRequest, step: spans.Step, gained: Sequence[dict[str, Any]]
) -> dict[str, pa.Table]:
    """The summary's tables, in the database under their names, and as they are to be written."""
    queries: dict[str, tuple[str, str]] = {
        "ranking": (ranking.RANKING, "rank"),
        "teams": (ranking.TEAMS, "rank"),
        "causes_by_day": (times.causes_by_step(step), "start, kind, cause NULLS FIRST"),
        "heat_map": (times.HEAT_MAP, "weekday, hour"),
        "deploys": (deploys.DEPLOYS, "rank"),
    }
    if it.before_after is not None:
        order = 'cluster NULLS FIRST, "group" NULLS FIRST, measure, cause NULLS FIRST'
        queries["comparison"] = (comparing.comparison(*it.before_after), order)
    out = {}
    for name, columns in SUMMARY.items():
        schema = arrow_schema(columns)
        if name in queries:
            query, order = queries[name]
            db.execute(f"CREATE TABLE {name} AS SELECT {columns_of(columns)} FROM ({query})")
            out[name] = db.sql(f"FROM {name} ORDER BY {order}").to_arrow_table().cast(schema)
        else:
            out[name] = pa.Table.from_pylist(list(gained) if name == "gains" else [], schema=schema)
    return out


def _write_table(destination: Destination, summary: str, name: str, table: pa.Table) -> None:
    content = BytesIO()
    pq.write_table(table, content)
    path = f"{summary}/{name}/{name}.parquet"
    destination.write(path, content.getvalue())
    # Only once the new one is there: a reader sees a table twice rather than none.
    destination.remove_others(path)


def _courses(db: Any, most_groups: int) -> dict[int, dict[str, int | None]]:
    courses: dict[int, dict[str, int | None]] = defaultdict(dict)
    for row in rows(db, times.of_each(most_groups)):
        courses[row["rank"]][row["start"]] = row["rebalances"]
    return courses


def _compared(db: Any, ranges: tuple[Range, Range] | None) -> Comparison | None:
    if ranges is None:
        return None
    of_all = rows(db, 'FROM comparison WHERE "group" IS NULL')
    if not of_all:
        raise HistoryError("before and after: no group is known in both of them, by whole hours")
    return Comparison(*ranges, of_all, rows(db, comparing.STANDSTILL))


def _halves(db: Any, span: Range) -> Comparison | None:
    """The second half of a range against the first."""
    halves = spans.halves(span)
    if halves is None:
        return None
    return Comparison(*halves, rows(db, f'FROM ({comparing.comparison(*halves)}) WHERE "group" IS NULL'), ())
