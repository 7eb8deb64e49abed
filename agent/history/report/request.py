"""What a report is told, checked before anything is read."""

from __future__ import annotations

import re
from typing import NamedTuple
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from msgspec import Struct

from agent.history.errors import HistoryError
from agent.history.report.queries.views import FIRST_MS, LAST_MS
from agent.history.report.spans import Range

ENDING = ".html"


class Report(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag="report"):
    """Rollups → one HTML page and a Parquet summary."""

    rollups: str
    out: str
    """The page's file."""
    summary: str | None = None
    """The directory of the summary; None: beside the page, of its name."""
    since_ms: int | None = None
    until_ms: int | None = None
    before: tuple[int, int] | None = None
    """A range (epoch milliseconds) to compare `after` with; both or neither."""
    after: tuple[int, int] | None = None
    time_zone: str = "UTC"
    """Of hours and weekdays."""
    what_if: str | None = None
    """A file or directory of what `kshadow whatif -o json` said, of any number of groups."""
    most_groups: int = 20
    """In each ranking."""


class ReportRequest(NamedTuple):
    """A report's request that was checked: `page` and `summary` are paths, `before_after` two ranges to compare."""

    page: str
    summary: str
    span: Range
    before_after: tuple[Range, Range] | None


_NAMED_HTML = re.compile(r"[^/]\.html$", re.IGNORECASE)


def validate(job: Report) -> ReportRequest:
    """Raises `HistoryError` that says what was expected."""
    if not _NAMED_HTML.search(job.out):
        raise HistoryError(f"{job.out}: expected the name of a file that ends in {ENDING}")
    if job.most_groups < 1:
        raise HistoryError(f"expected at least one group in each ranking, got {job.most_groups}")
    _zone(job.time_zone)
    since = FIRST_MS if job.since_ms is None else job.since_ms
    until = LAST_MS if job.until_ms is None else job.until_ms
    span = _range("the range", (since, until))
    summary = f"{job.out[: -len(ENDING)]}-summary" if job.summary is None else job.summary.rstrip("/")
    return ReportRequest(job.out, summary, span, _before_after(job))


def _zone(name: str) -> None:
    try:
        ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise HistoryError(
            f"{name!r}: expected the name of an IANA time zone, such as Europe/Berlin or UTC"
        ) from None


def _range(name: str, bounds: tuple[int, int]) -> Range:
    since, until = bounds
    if not FIRST_MS <= since < until <= LAST_MS:
        raise HistoryError(
            f"{name}: expected a begin and a later end, in milliseconds since 1970, got {since} to {until}"
        )
    return Range(since, until)


def _before_after(job: Report) -> tuple[Range, Range] | None:
    if job.before is None and job.after is None:
        return None
    if job.before is None or job.after is None:
        raise HistoryError("before and after belong together: expected both or neither")
    before, after = _range("before", job.before), _range("after", job.after)
    if before.until_ms > after.since_ms:
        raise HistoryError("before must have ended when after begins")
    return before, after
