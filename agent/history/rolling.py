"""Events in order of time → rows of the rollup tables, of whole days: the batch's way through the reducer, whichever
engine reads and sorts.

Owns which events a range needs, the days of a range, and how rows are told apart. Knows no engine: it is handed
sorted events. `GroupRollup` says what the numbers mean.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from datetime import date
from itertools import groupby
from operator import itemgetter
from types import MappingProxyType
from typing import NamedTuple

import msgspec
import pyarrow as pa

from agent.common.units import DAY_MS
from agent.history.rollup_reducer import STATE_VERSION, Event, GroupRollup, Row, Rows
from agent.history.tables import ROLLED_UP, STREAMED
from agent.persistence.export.arrow import date_of

EARLIEST_MS = 1_262_304_000_000
"""2010: nothing in Kafka is older. What says so has no time, and would fill years with windows."""

AHEAD_MS = 3_600_000
"""Events from more than an hour ahead of the clock have no time that could be believed."""

_EPOCH = date(1970, 1, 1)

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

_ARROW = {"string": pa.string(), "bigint": pa.int64(), "int": pa.int32(), "double": pa.float64(), "date": pa.string()}

_EVERY = {**ROLLED_UP, **STREAMED}

ROWS = pa.schema(
    [("table", pa.string())]
    + [
        (name, _ARROW[kind])
        for name, kind in {column.name: column.kind for table in _EVERY.values() for column in table}.items()
    ]
)
"""One schema for all tables: a row has the columns of the table that stands in `table`, the others are null."""

BATCH = 5_000
"""Rows at a time."""

OPEN_EPISODES = "open episodes"
"""Beside the tables: a row, of its `start_ms` alone, for each episode of which nobody knows yet when it ends."""

GroupEvent = tuple[str | None, str | None, Event | GroupRollup]
"""The cluster, the group, and an event of it; or, before its first event, how it stood when a day had ended."""

Clocks = Mapping[str | None, int]
"""By cluster: up to when time is known to have passed in its log."""

event_of = msgspec.json.Decoder(Event).decode
"""The event in a body. Raises `msgspec.MsgspecError` for what is none."""


class Range(NamedTuple):
    """What is to be rolled up: windows that begin from `since_ms` on and before `until_ms`, both the beginnings of
    days. Time is known to have passed up to `horizon_ms`; in each cluster up to what `clocks` say, where they say
    anything, and one that is not among them was last heard of before. Windows that end later are not over. From
    `begins_ms` on all events are at hand, and what came before tells only how groups stood."""

    since_ms: int
    until_ms: int
    horizon_ms: int
    begins_ms: int | None = None
    """None: a day before the range."""
    clocks: Clocks = MappingProxyType({})

    @property
    def first_ms(self) -> int:
        """From when on all events are needed."""
        return self.since_ms - DAY_MS if self.begins_ms is None else self.begins_ms

    @property
    def last_ms(self) -> int:
        """Up to when events matter: what began in the range may end on the day after."""
        return min(self.horizon_ms, self.until_ms + DAY_MS)

    def not_after(self, now_ms: int) -> Range:
        """The same, of which no more is known than now: an event that is ahead shows no time to have passed."""
        clocks = {cluster: min(ms, now_ms) for cluster, ms in self.clocks.items()}
        return self._replace(horizon_ms=min(self.horizon_ms, now_ms), clocks=clocks)

    def last_ms_of(self, cluster: str | None) -> int:
        """The same of a cluster."""
        return min(self.clocks.get(cluster, self.first_ms), self.last_ms) if self.clocks else self.last_ms


def roll_up_groups(events: Iterable[GroupEvent], within: Range, history: str | None = None) -> Rows:
    """Events in the order of cluster, group and time, some twice → the rows of the range, `standing` among them, of
    which each says what `history` it is of; and one of `OPEN_EPISODES` for each that is not over.

    Equal times may come in any order: what one moment has is put in order here, each event once.
    """
    for (cluster, group), of_group in groupby(events, key=itemgetter(0, 1)):
        moments = groupby((it for *_, it in of_group), key=_at_ms)
        yield from _inside(_of_group(cluster, group, moments, within, history), within)


def _of_group(
    cluster: str | None,
    group: str | None,
    moments: Iterable[tuple[int, Iterable[Event | GroupRollup]]],
    within: Range,
    history: str | None,
) -> Rows:
    rollup = GroupRollup(cluster, group)
    last_ms = within.last_ms_of(cluster)
    day_end_ms = within.since_ms + DAY_MS
    for at_ms, items in moments:
        if at_ms < within.first_ms:
            came = list(items)
            rollup = next((it for it in came if isinstance(it, GroupRollup)), rollup)
            rollup.skip(at_ms)
            yield from rollup.take(in_order(it for it in came if isinstance(it, Event)))
            continue
        if rollup.clock_ms is not None and rollup.clock_ms < within.first_ms:
            rollup.skip(within.first_ms)
        while day_end_ms <= min(at_ms, last_ms, within.until_ms):
            yield from _standing(rollup, day_end_ms, history)
            day_end_ms += DAY_MS
        yield from rollup.take(in_order(it for it in items if isinstance(it, Event)))
    if rollup.clock_ms is not None and rollup.clock_ms < within.first_ms:
        rollup.skip(within.first_ms)
    while day_end_ms <= min(last_ms, within.until_ms):
        yield from _standing(rollup, day_end_ms, history)
        day_end_ms += DAY_MS
    yield from rollup.advance(last_ms)
    if rollup.episode is not None:
        yield OPEN_EPISODES, {"start_ms": rollup.episode.start_ms}
    # Time has passed in other clusters: of this one there are no windows, but later days go on from how it stands.
    while day_end_ms <= min(within.last_ms, within.until_ms):
        yield from _stood(rollup, day_end_ms, history)
        day_end_ms += DAY_MS


def _standing(rollup: GroupRollup, day_end_ms: int, history: str | None) -> Rows:
    """Let the day end: its rows, and how the group stands."""
    if rollup.clock_ms is None:
        return
    yield from rollup.advance(day_end_ms)
    yield from _stood(rollup, day_end_ms, history)


def _stood(rollup: GroupRollup, day_end_ms: int, history: str | None) -> Rows:
    """How the group stood when the day had ended."""
    rollup.skip(day_end_ms)
    if rollup.stands:
        row: Row = {"cluster": rollup.cluster, "group": rollup.group, "group_type": rollup.group_type}
        row |= {"start_ms": day_end_ms - DAY_MS, "end_ms": day_end_ms, "phase": rollup.phase}
        state = {"state": _encode(rollup).decode(), "state_version": STATE_VERSION, "history": history}
        yield "standing", {**row, "members": rollup.members, **state}


_encode = msgspec.json.Encoder(order="deterministic").encode
_decode = msgspec.json.Decoder(GroupRollup).decode


def standing_of(state: str) -> GroupRollup:
    """How a group stood, as the column `state` has it. Raises `msgspec.MsgspecError` for what is none."""
    rollup = _decode(state)
    # The text has them by name.
    rollup.told = dict(sorted(rollup.told.items(), key=itemgetter(1)))
    return rollup


def in_order(events: Iterable[Event]) -> list[Event]:
    """Events in the order in which they are to be taken, each once; what is told of two times stands at both."""
    told: dict[tuple[str, int], Event] = {}
    for event in events:
        key = event.event_id, event.at_ms
        known = told.setdefault(key, event)
        # One that was told again after a crash may have been told with less.
        if known != event and known.rank < event.rank:
            told[key] = event
    return sorted(told.values(), key=lambda event: event.place)


def with_date(rows: Rows) -> Iterator[Row]:
    """Rows with the table that each is of, and its date: rows of `ROWS`."""
    for table, row in rows:
        yield {**row, "table": table, "date": date_of(row["start_ms"])}


def _inside(rows: Rows, within: Range) -> Rows:
    return ((table, row) for table, row in rows if within.since_ms <= row["start_ms"] < within.until_ms)


def start_of(day: str) -> int:
    """When a day (UTC) begins, in epoch milliseconds."""
    return (date.fromisoformat(day) - _EPOCH).days * DAY_MS


def _at_ms(it: Event | GroupRollup) -> int:
    """Of a standing: just before what comes after it."""
    return it.at_ms if isinstance(it, Event) else (it.clock_ms or 0) - 1
