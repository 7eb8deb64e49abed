"""Which days of a history a rollup reads. Pure: it is told which days there are.

A rollup of some days reads these and the one behind them, which shows how what began in them ended. How groups stood
before, a rollup that was made earlier has written down (the table `standing`). Where it has not, the day before is
read as well, and of the days before that, back to the newest for which it has, what shows how groups stood.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import NamedTuple

from agent.common.units import DAY_MS
from agent.history.errors import HistoryError
from agent.history.rolling import EARLIEST_MS, start_of
from agent.persistence.export.arrow import date_of


class Days(NamedTuple):
    """A first and a last day, both part of it, as `2026-11-21`."""

    first: str
    last: str

    def of(self, dates: Iterable[str]) -> list[str]:
        """Those of the dates that are among them."""
        return [it for it in dates if self.first <= it <= self.last]


class Reading(NamedTuple):
    """What is read for a range: `whole` days; of `carried` days only what shows how groups stand (None: there are
    none); and how groups stood when the day `standing` had ended (None: nobody has written that down)."""

    whole: Days
    carried: Days | None
    standing: str | None

    @property
    def begins_ms(self) -> int:
        """From when on all events are at hand."""
        return start_of(self.whole.first)


def is_day(text: str) -> bool:
    """Whether it is a day as we write it, and one that can have events."""
    try:
        return len(text) == len("2026-11-21") and start_of(text) >= EARLIEST_MS
    except ValueError:
        return False


def range_of_days(since: str | None, until: str | None, dates: Collection[str]) -> Days:
    """The days `since` to `until` (None: the first and the last there is) of a history that has these dates. Raises
    `HistoryError` for days without any."""
    if not dates:
        raise HistoryError("expected days with events, there are none")
    there = Days(min(dates), max(dates))
    asked = Days(since or there.first, until or there.last)
    if asked.first > there.last or asked.last < there.first:
        came = " to ".join(it for it in (since, until) if it)
        raise HistoryError(f"expected days from {there.first} to {there.last}, which have events, got {came}")
    if asked.first > asked.last:
        raise HistoryError(f"expected a first day before the last, got {asked.first} and {asked.last}")
    return asked


def reading_of(asked: Days, dates: Collection[str], standings: Collection[str]) -> Reading:
    """What to read for a range, of a history with these dates, where it is written down for these days how groups
    stood when they ended."""
    first_ms = start_of(asked.first)
    before, behind = date_of(first_ms - DAY_MS), date_of(start_of(asked.last) + DAY_MS)
    if before in standings or not any(it < asked.first for it in dates):
        return Reading(Days(asked.first, behind), None, before if before in standings else None)
    last_carried = date_of(first_ms - 2 * DAY_MS)
    standing = max((it for it in standings if it <= last_carried), default=None)
    carried = [it for it in dates if it <= last_carried and (standing is None or it > standing)]
    return Reading(Days(before, behind), Days(min(carried), max(carried)) if carried else None, standing)
