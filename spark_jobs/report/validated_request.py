"""What a report is told, checked before anything is read."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from agent.history.report.spans import Range
from agent.tools.spark_submit.jobs import Report
from spark_jobs.errors import JobError
from spark_jobs.report.reading import FIRST_MS, LAST_MS

ENDING = ".html"


class ReportRequest(NamedTuple):
    """A report's request that was checked: `page` and `summary` are paths, `before_after` two ranges to compare."""

    page: Path
    summary: str
    span: Range
    before_after: tuple[Range, Range] | None


def validate(job: Report) -> ReportRequest:
    """Raises `JobError` that says what was expected."""
    page = Path(job.out)
    if page.suffix != ENDING or page.is_dir():
        raise JobError(f"{job.out}: the name of a file that ends in {ENDING} expected")
    if job.most_groups < 1:
        raise JobError(f"at least one group in each ranking expected; {job.most_groups} came")
    _zone(job.time_zone)
    since = FIRST_MS if job.since_ms is None else job.since_ms
    until = LAST_MS if job.until_ms is None else job.until_ms
    span = _range("the range", (since, until))
    summary = str(page.with_suffix("")) + "-summary" if job.summary is None else job.summary
    return ReportRequest(page, summary, span, _before_after(job))


def _zone(name: str) -> None:
    try:
        ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise JobError(f"{name!r}: the name of an IANA time zone expected, such as Europe/Berlin or UTC") from None


def _range(name: str, bounds: tuple[int, int]) -> Range:
    since, until = bounds
    if not FIRST_MS <= since < until <= LAST_MS:
        raise JobError(
            f"{name}: a begin and a later end expected, in milliseconds since 1970; {since} to {until} came"
        )
    return Range(since, until)


def _before_after(job: Report) -> tuple[Range, Range] | None:
    if job.before is None and job.after is None:
        return None
    if job.before is None or job.after is None:
        raise JobError("before and after belong together: both or neither expected")
    before, after = _range("before", job.before), _range("after", job.after)
    if before.until_ms > after.since_ms:
        raise JobError("before must have ended when after begins")
    return before, after
