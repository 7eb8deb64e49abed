"""Times as people write them: so long before now, ISO 8601, or epoch milliseconds."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

from msgspec import Struct

from agent.common.units import DAY_MS, HOUR_MS, MINUTE_MS, SECOND_MS

EXPECTED = (
    "a duration before now (15m, 2h, 3d, 1h30m), a time (2026-11-21T10:02:00Z; UTC unless told) or epoch milliseconds"
)

_UNITS_MS = {"ms": 1, "s": SECOND_MS, "m": MINUTE_MS, "h": HOUR_MS, "d": DAY_MS, "w": 7 * DAY_MS}
_DURATION = re.compile(r"(?:[0-9]{1,9}(?:ms|[smhdw]))+")
_PART = re.compile(r"([0-9]+)([a-z]+)")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
LEAST_MS = 10**11
"""March 1973. What is less was meant as seconds, or as a duration without its unit."""


class TimeSpec(Struct, frozen=True):
    """A time, or how long it is before now: one of the two. Milliseconds."""

    at_ms: int | None = None
    ago_ms: int = 0

    def before(self, now_ms: int) -> int:
        """As epoch milliseconds."""
        return now_ms - self.ago_ms if self.at_ms is None else self.at_ms


def parse_time(text: str) -> TimeSpec:
    """A time as people write it. Raises `ValueError` that says what was expected."""
    text = text.strip()
    if text.isascii() and text.isdecimal():
        return _epoch(text)
    if _DURATION.fullmatch(text):
        return TimeSpec(ago_ms=parse_duration(text))
    if text == "now":
        return TimeSpec()
    try:
        moment = datetime.fromisoformat(text)
        if moment.tzinfo is None:
            moment = moment.replace(tzinfo=UTC)
        return TimeSpec(at_ms=(moment - _EPOCH) // timedelta(milliseconds=1))
    except (ValueError, OverflowError):
        raise ValueError(f"expected {EXPECTED}, got {text[:100]!r}") from None


def parse_duration(text: str) -> int:
    """A duration as people write it, as milliseconds. Raises `ValueError` that says what was expected."""
    text = text.strip()
    if not _DURATION.fullmatch(text):
        raise ValueError(f"expected a duration (500ms, 30s, 15m, 2h, 3d, 1h30m), got {text[:100]!r}")
    return sum(int(number) * _UNITS_MS[unit] for number, unit in _PART.findall(text))


def _epoch(text: str) -> TimeSpec:
    at_ms = int(text) if len(text) <= 18 else 0
    if at_ms >= LEAST_MS or text == "0":
        return TimeSpec(at_ms=at_ms)
    raise ValueError(f"expected {EXPECTED}, got {text[:100]!r}: seconds, or a duration without its unit?")


def parse_range(since: str | None, until: str | None, now_ms: int) -> tuple[int | None, int | None]:
    """A range as epoch milliseconds. Raises `ValueError` for what is no time or ends before it begins."""
    since_ms = None if since is None else parse_time(since).before(now_ms)
    until_ms = None if until is None else parse_time(until).before(now_ms)
    check_range(since_ms, until_ms)
    return since_ms, until_ms


def check_range(since_ms: int | None, until_ms: int | None) -> None:
    """Raise `ValueError` for a range that ends before it begins."""
    if since_ms is not None and until_ms is not None and since_ms > until_ms:
        raise ValueError("the range ends before it begins: since is later than until")
