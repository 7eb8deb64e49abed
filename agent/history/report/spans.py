"""Ranges of time, and their days and hours as clocks in a time zone show them. Pure."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Literal, NamedTuple
from zoneinfo import ZoneInfo

from agent.common.units import DAY_MS, HOUR_MS

Step = Literal["day", "hour"]
_FORMATS: dict[Step, str] = {"day": "%Y-%m-%d", "hour": "%Y-%m-%d %H:00"}


class Range(NamedTuple):
    """Epoch milliseconds; the end is not part of it."""

    since_ms: int
    until_ms: int


def step_of(span: Range) -> Step:
    """Hours where the range is under three days."""
    return "hour" if span.until_ms - span.since_ms < 3 * DAY_MS else "day"


def starts(span: Range, zone: str, step: Step) -> list[str]:
    """Every step of a range, in order, as `start` of the tables names it."""
    there = ZoneInfo(zone)
    moments = range(span.since_ms, span.until_ms, HOUR_MS)
    return list(dict.fromkeys(start_of(datetime.fromtimestamp(at / 1000, there), step) for at in moments))


def start_of(local: datetime, step: Step) -> str:
    """The step that a moment of a clock lies in, as `start` of the tables names it."""
    return local.strftime(_FORMATS[step])


def has_whole_hours(span: Range, zone: str) -> bool:
    """Whether a time zone's hours begin with UTC's."""
    there = ZoneInfo(zone)
    offsets = (datetime.fromtimestamp(at / 1000, there).utcoffset() for at in span)
    return not any((offset or timedelta()).total_seconds() % 3600 for offset in offsets)


def halves(span: Range) -> tuple[Range, Range] | None:
    """Two of as many whole days, if there are two days; of an odd number the one in the middle is in neither."""
    days = (span.until_ms - span.since_ms) // (2 * DAY_MS)
    if not days:
        return None
    return Range(span.since_ms, span.since_ms + days * DAY_MS), Range(span.until_ms - days * DAY_MS, span.until_ms)
