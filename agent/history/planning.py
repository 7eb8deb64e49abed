"""What a rollup reads, and up to when time has passed in it: the steps that every engine takes alike.

An engine lists, opens and counts; what follows from that is found here, and what is out of the ordinary is said.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from itertools import pairwise

from agent.common.units import DAY_MS
from agent.history.days import Days, Reading, range_of_days, reading_of
from agent.history.errors import HistoryError
from agent.history.rolling import EARLIEST_MS, Clocks, Range, start_of
from agent.history.tables import WINDOWS
from agent.persistence.export.arrow import date_of
from agent.persistence.export.log_clock import LogClock, known_until
from agent.presentation.narrative.words import iso

Say = Callable[[str], None]

GAP_MS = 366 * DAY_MS
"""What is dated so long before all other events was dated wrong: it would fill years with windows of nothing."""

NOT_DATED = "files lie in no directory of a day (date=…): all of them are read"


def left_out(events: int) -> str:
    """Of a rollup that could not believe the times of so many."""
    what = "1 event was left out: it is" if events == 1 else f"{events:,} events were left out: they are"
    return (
        f"{what} from before 2010, from more than a year before all others (--since reads these), or from more than"
        " an hour ahead"
    )


def no_events(history: Sequence[str]) -> HistoryError:
    """Of a history in which there are none."""
    return HistoryError(f"{', '.join(history)}: expected history events, got none")


def known_clocks(told: Collection[tuple[str, Sequence[LogClock]]], now_ms: int, say: Say) -> dict[str | None, int]:
    """Up to when time is known to have passed, of what the writers of each path told; what none told is not in it."""
    if silent := [path for path, clocks in told if not clocks]:
        say(f"{', '.join(silent)}: up to when time has passed in the log is not there, so it is up to the last event")
    every = known_until(it for _, clocks in told for it in clocks)
    return {cluster: min(ms, now_ms) for cluster, ms in every.items()}


def days_together(dates: Sequence[str], since: str | None, until: str | None) -> tuple[list[str], int]:
    """Of the days with events, in order, those that a rollup is of: not what lies more than a year before all others
    (`GAP_MS`), unless it is asked for. And from when on events have a time that can be."""
    behind = [late for early, late in pairwise(dates) if start_of(late) - start_of(early) > GAP_MS]
    is_asked = behind and min(it for it in (since, until, behind[-1]) if it is not None) < behind[-1]
    if not behind or is_asked:
        return [*dates], EARLIEST_MS
    return [it for it in dates if it >= behind[-1]], start_of(behind[-1])


def days_asked(since: str | None, until: str | None, dates: Collection[str], clocks: Clocks) -> Days:
    """The days of a rollup. A day in which nothing happened is one of the history as well, but for those before the
    first with events: of a cluster that is gone the clock may be all that is left. Raises `HistoryError`."""
    told = {date_of(it - 1) for it in clocks.values()}
    return range_of_days(since, until, sorted({*dates, *(it for it in told if it > min(dates))}))


def planned_reading(
    asked: Days,
    dates: Collection[str],
    standings: Collection[str],
    place: str,
    is_ours: Callable[[str], bool],
    say: Say,
) -> Reading:
    """What to read. `standings` are the days for which `place` says how groups stood; `is_ours` looks whether it does
    for this history, by this version."""
    reading = reading_of(asked, dates, standings)
    if reading.standing is not None and not is_ours(reading.standing):
        say(f"{place}: how groups stood is of another history or of another version of kshadow: passed over")
        reading = reading_of(asked, dates, ())
    if reading.carried is not None:
        since = "the first" if reading.standing is None else f"the one behind {reading.standing}"
        say(
            f"how groups stood before {asked.first} is not in {place}: days from {since} on,"
            f" {len(reading.carried.of(dates))} of them, are read for it"
        )
    return reading


def range_of(since: str | None, until: str | None, first_ms: int, clocks: Clocks) -> Range:
    """The range of a rollup, of a history in no directories of days: its first event, and the last of each cluster.
    Raises `HistoryError`."""
    last_ms = max(clocks.values())
    asked = range_of_days(since, until, [date_of(first_ms), date_of(last_ms)])
    return Range(start_of(asked.first), start_of(asked.last) + DAY_MS, last_ms, clocks=clocks)


def range_read(asked: Days, reading: Reading, dates: Collection[str], ends: Clocks, clocks: Clocks) -> Range:
    """The range of a rollup, of a history with these dates. `ends` are the last times of events that are read: a
    cluster that has no clock is known up to then."""
    known = {it: max(ends.get(it, 0), clocks.get(it, 0)) for it in {*ends, *clocks}}
    behind = [start_of(it) for it in sorted(dates) if it > reading.whole.last]
    horizon_ms = max([*known.values(), *behind[:1]], default=start_of(asked.first))
    if len(known) == 1 and not clocks:
        # Later days are of the same cluster.
        known = dict.fromkeys(known, horizon_ms)
    return Range(start_of(asked.first), start_of(asked.last) + DAY_MS, horizon_ms, reading.begins_ms, known)


def not_over(episodes: int) -> str:
    """Of a rollup in whose days so many episodes began that have no row yet."""
    if episodes == 1:
        return "1 episode was not over, and has no row yet: once it is, roll up the day in which it began again"
    return (
        f"{episodes:,} episodes were not over, and have no row yet: once they are, roll up the days in which they"
        " began again"
    )


def no_window_over(within: Range) -> str:
    """Of a rollup that gave no row of a group."""
    shortest = min(WINDOWS, key=WINDOWS.__getitem__)
    return f"no window has ended yet: the shortest is {shortest}, and the log is known up to {iso(within.horizon_ms)}"
