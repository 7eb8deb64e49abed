"""A report on this machine: the tables are opened where they lie, and nothing of Spark is needed."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Any

from agent.history.arrow_types import arrow_schema
from agent.history.engine import database, rows
from agent.history.errors import HistoryError
from agent.history.opening import EVERY_DAY, Bounds, View, local_path, open_tables
from agent.history.report import gains
from agent.history.report.building import Engine, Written, build_report
from agent.history.report.destination import LocalFiles
from agent.history.report.queries.views import READ
from agent.history.report.request import Report, ReportRequest, validate
from agent.history.tables import TABLES
from agent.presentation.narrative.words import day


def run(job: Report, *, now_ms: int, memory_mb: int, command: str = "history") -> Written:
    """Write the page and the summary. Raises `HistoryError`. `command`: the word after `kshadow` that runs it."""
    it = validate(job)
    it = it._replace(page=_here("--out", it.page), summary=_here("--summary", it.summary))
    replayed = None if job.what_if is None else gains.documents(job.what_if)
    with database(memory_mb) as db, open_rollups(db, job.rollups, days_of(it)):
        return build_report(
            db,
            job,
            it,
            LocalFiles(),
            engine=Engine(command, f"DuckDB {_version()}"),
            made_at_ms=now_ms,
            replayed=replayed,
            dates=lambda: _dates(db, job.rollups),
        )


def _here(option: str, path: str) -> str:
    """A path that may be a URL (`file:///…`) as this machine's files have it."""
    here = local_path(path)
    if here is None:
        raise HistoryError(f"{option} {path}: expected a path of this machine; kshadow spark report writes elsewhere")
    return str(here)


def days_of(it: ReportRequest) -> Bounds:
    """The days whose rows a report may need: an hour before the end of a day is of that day."""
    spans = [it.span, *(it.before_after or ())]
    first, last = min(span.since_ms for span in spans), max(span.until_ms for span in spans)
    return Bounds(day(first), day(last))


def open_rollups(db: Any, rollups: str, days: Bounds = EVERY_DAY, suffix: str = "") -> AbstractContextManager[None]:
    """Views of the rollup tables, with the columns that reports are made of. Raises `HistoryError`."""
    return open_tables(db, [rollups], {name: _view(name, suffix) for name in READ}, days)


def _view(name: str, suffix: str) -> View:
    wanted = arrow_schema(column for column in TABLES[name] if column.name in READ[name])
    missing = f"expected the table {name} of rollups; kshadow history rollup or kshadow spark rollup makes it"
    return View(f"{name}{suffix}", wanted, missing)


def _dates(db: Any, rollups: str) -> list[str]:
    with open_rollups(db, rollups, suffix=" of every day"):
        found = rows(db, 'SELECT DISTINCT date FROM "groups of every day" WHERE "window" = \'1h\' ORDER BY date')
    return [str(row["date"]) for row in found]


def _version() -> str:
    import duckdb

    return str(duckdb.__version__)
