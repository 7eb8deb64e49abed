"""Events in order of time → rows of the rollup tables, of whole days: the batch's way through the reducer, whichever
engine reads and sorts.

Owns which events a range needs, the days of a range, and how rows are told apart. Knows no engine: it is handed
sorted events. `GroupRollup` says what the numbers mean.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import date
from itertools import groupby
from operator import itemgetter
from typing import NamedTuple

import msgspec
import pyarrow as pa

from agent.common.units import DAY_MS
from agent.history.errors import HistoryError
from agent.history.rollup_reducer import Event, GroupRollup, Row, Rows
from agent.history.tables import STREAMED
from agent.persistence.export.arrow import date_of

EARLIEST_MS = 1_262_304_000_000
"""2010: nothing in Kafka is older. What says so has no time, and would fill years with windows."""

AHEAD_MS = 3_600_000
"""Events from more than an hour ahead of the clock have no time that could be believed."""

CARRIED = (
    "group_created",
    "rebalance",
    "assignment_changed",
    "group_emptied",
    "group_deleted",
    "finding",
    "group_sample",
)
"""What shows how a group stands. Of each (of findings, of each analyzer) the newest tells all that the older did."""

_ARROW = {"string": pa.string(), "bigint": pa.int64(), "double": pa.float64(), "date": pa.string()}

ROWS = pa.schema(
    [("table", pa.string())]
    + [
        (name, _ARROW[kind])
        for name, kind in {column.name: column.kind for table in STREAMED.values() for column in table}.items()
    ]
)
"""One schema for all tables: a row has the columns of the table that stands in `table`, the others are null."""

BATCH = 5_000
"""Rows at a time."""

GroupEvent = tuple[str | None, str | None, Event]
"""The cluster, the group, and an event of it."""

event_of = msgspec.json.Decoder(Event).decode
"""The event in a body. Raises `msgspec.MsgspecError` for what is none."""


class Range(NamedTuple):
    """What is to be rolled up: windows that begin from `since_ms` on and before `until_ms`, both the beginnings of
    days. Time is known to have passed up to `horizon_ms`: windows that end later are not over."""

    since_ms: int
    until_ms: int
    horizon_ms: int

    @property
    def first_ms(self) -> int:
        """From when on all events are needed; of what was before, the newest of each `CARRIED` type."""
        return self.since_ms - DAY_MS

    @property
    def last_ms(self) -> int:
        """Up to when events matter: what began in the range may end on the day after."""
        return min(self.horizon_ms, self.until_ms + DAY_MS)


def range_of(since: str | None, until: str | None, first_ms: int, last_ms: int) -> Range:
    """The range of days `since` to `until` (YYYY-MM-DD, UTC, both part of it; None: the first and the last there
    is), of events from `first_ms` to `last_ms`. Raises `HistoryError` for days without any."""
    since_ms = _start(since) if since else first_ms // DAY_MS * DAY_MS
    until_ms = (_start(until) if until else last_ms // DAY_MS * DAY_MS) + DAY_MS
    if since_ms >= until_ms:
        raise HistoryError(
            f"a first day before the last expected, {date_of(since_ms)} and {date_of(until_ms - DAY_MS)} came"
        )
    if since_ms > last_ms or until_ms <= first_ms:
        came = f"{date_of(since_ms)} to {date_of(until_ms - DAY_MS)}"
        raise HistoryError(
            f"days from {date_of(first_ms)} to {date_of(last_ms)} expected: there are events of those; {came} came"
        )
    return Range(since_ms, until_ms, last_ms)


def roll_up_groups(events: Iterable[GroupEvent], within: Range) -> Rows:
    """Events in the order of cluster, group and time, some twice → the rows of the range.

    Equal times may come in any order: what one moment has is put in order here, each event once.
    """
    for (cluster, group), of_group in groupby(events, key=itemgetter(0, 1)):
        rollup = GroupRollup(cluster, group)
        for _, of_moment in groupby((event for *_, event in of_group), key=_at_ms):
            yield from _inside(rollup.take(in_order(of_moment)), within)
        yield from _inside(rollup.advance(within.last_ms), within)


def in_order(events: Iterable[Event]) -> list[Event]:
    """Events in the order in which they are to be taken, each once."""
    by_id = {event.event_id: event for event in events}
    return sorted(by_id.values(), key=lambda event: event.place)


def with_date(rows: Rows) -> Iterator[Row]:
    """Rows with the table that each is of, and its date: rows of `ROWS`."""
    for table, row in rows:
        yield {**row, "table": table, "date": date_of(row["start_ms"])}


def _inside(rows: Rows, within: Range) -> Rows:
    return ((table, row) for table, row in rows if within.since_ms <= row["start_ms"] < within.until_ms)


def _at_ms(event: Event) -> int:
    return event.at_ms


_EPOCH = date(1970, 1, 1)


def _start(day: str) -> int:
    return (date.fromisoformat(day) - _EPOCH).days * DAY_MS
