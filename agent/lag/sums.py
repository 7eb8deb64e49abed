"""The lag of all groups at once: by group and topic, for a scrape; and where groups have committed, for the watch.

A scrape of 100,000 positions has no time for a call of each. So what changes seldom is kept: which positions groups
have, in order, and the partitions' numbers among the ends. Of raw commits only columns are read; seconds are looked
up where they may be the topic's longest. What is special goes the general way, `Ends.lag`; a test holds the two
against each other.

Pure, and one thread's at a time. `take` must see the mirror at rest; the rest does not touch it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby, repeat
from typing import NamedTuple

from agent.lag.ends import UNHEARD_OF, Ends, Lag, Place, between
from agent.shadow.offsets import Offsets
from agent.wire.hot import read_columns
from agent.wire.primitives import ZERO_UUID

ABSENT = -1


class TopicLag(NamedTuple):
    """A group's lag in one topic: the sum of records and the longest of seconds, of the partitions that it committed.

    Those of which the lag is not known (`unknown` of `partitions`) count for nothing; None where it is of none.
    `at_least`: the seconds are a bound.
    """

    topic: str
    records: int | None
    seconds: float | None
    partitions: int
    unknown: int
    at_least: bool = False


class Row(NamedTuple):
    """The positions of one group in one topic: a range of the layout's places."""

    group: str
    topic: str
    start: int
    stop: int


@dataclass(slots=True)
class Layout:
    """Which positions groups have in one partition of the offsets topic, by group, topic and partition."""

    offsets: Offsets
    version: int
    keys: list[bytes]
    places: list[Place]
    rows: list[Row]
    numbered: tuple[Mapping[Place, int], Sequence[int]] = ({}, ())
    """The numbers of ends, and the places' among them: one value, since several threads may make it."""


class Positions(NamedTuple):
    """What groups have committed, at one time."""

    layout: Layout
    values: list[bytes]


class Sums:
    """Keeps the layouts, by partition of the offsets topic."""

    def __init__(self) -> None:
        self._layouts: dict[int, Layout] = {}

    def take(self, partition: int, offsets: Offsets) -> Positions:
        """What groups have committed now."""
        layout = self._layouts.get(partition)
        if layout is None or layout.offsets is not offsets or layout.version != offsets.version:
            layout = self._layouts[partition] = _layout(offsets)
        return Positions(layout, list(map(offsets.latest.__getitem__, layout.keys)))


def _layout(offsets: Offsets) -> Layout:
    keys: list[bytes] = []
    places: list[Place] = []
    rows: list[Row] = []
    for group, slots in offsets.groups.items():
        ordered = sorted(slots.items(), key=lambda item: item[1])
        for topic, items in groupby(ordered, key=lambda item: item[1][0]):
            start = len(keys)
            for key, place in items:
                keys.append(key)
                places.append(place)
            rows.append(Row(group, topic, start, len(keys)))
    return Layout(offsets, offsets.version, keys, places, rows)


def lowest(all_positions: Sequence[Positions]) -> dict[str, dict[int, int]]:
    """By topic and partition the lowest offset that a group has committed there: what the watch wants."""
    out: dict[str, dict[int, int]] = {}
    for layout, values in all_positions:
        offsets, _, _ = read_columns(values)
        for row in layout.rows:
            known = out.setdefault(row.topic, {})
            for at in range(row.start, row.stop):
                partition, offset = layout.places[at][1], offsets[at]
                if known.get(partition, offset) >= offset:
                    known[partition] = offset
    return out


def lags(positions: Positions, ends: Ends, now_ms: int) -> Iterator[tuple[str, TopicLag]]:
    """By group and topic, in the layout's order."""
    look = _Look(positions, ends, now_ms)
    for row in positions.layout.rows:
        yield row.group, look.row(row)


class PartitionLag(NamedTuple):
    """A group's position in one partition, and how many records that is behind; None where that is not known."""

    group: str
    topic: str
    partition: int
    committed: int
    records: int | None


def partition_lags(positions: Positions, ends: Ends, now_ms: int) -> Iterator[PartitionLag]:
    """Every position, in the layout's order."""
    look = _Look(positions, ends, now_ms)
    for row in positions.layout.rows:
        for at in range(row.start, row.stop):
            partition = positions.layout.places[at][1]
            yield PartitionLag(row.group, row.topic, partition, look.offsets[at], look.lag(at).records)


def totals(lags: Iterable[tuple[str, TopicLag]]) -> dict[str, int]:
    """By group the records over all topics, as far as they are known; without those of which nothing is."""
    out: dict[str, int] = {}
    for group, lag in lags:
        if lag.records is not None:
            out[group] = out.get(group, 0) + lag.records
    return out


class _Look:
    """One pass over the positions of one layout."""

    def __init__(self, positions: Positions, ends: Ends, now_ms: int) -> None:
        layout = positions.layout
        numbers_of, numbers = layout.numbered
        if numbers_of is not ends.numbers or len(numbers) != len(layout.places):
            numbers = list(map(ends.numbers.get, layout.places, repeat(ABSENT)))
            layout.numbered = (ends.numbers, numbers)
        self._ends, self._now_ms, self._places, self._numbers = ends, now_ms, layout.places, numbers
        self.offsets, self._times, self._topic_ids = read_columns(positions.values)
        self._is_fresh = now_ms - ends.at_ms <= ends.stale_ms

    def row(self, row: Row) -> TopicLag:
        """One group's lag in one topic."""
        ends, offsets, topic_ids, numbers = self._ends, self.offsets, self._topic_ids, self._numbers
        newest, starts, stable, columns = ends.newest, ends.starts, ends.stable, ends.columns
        known = ends.topics.get(row.topic, UNHEARD_OF)
        is_plain = self._is_fresh and not known.since_ms and known.absent is None
        ids = (known.topic_id, ZERO_UUID) if known.topic_id != ZERO_UUID else None
        records = unknown = 0
        at_least = is_unknown_since = False
        oldest: float | None = None
        # The look behind which nothing of this row was passed yet: the oldest goes down with what is older.
        look = len(columns) - 1
        for at in range(row.start, row.stop):
            number, offset = numbers[at], offsets[at]
            if (
                not is_plain
                or number < 0
                or (ids is not None and topic_ids[at] not in ids)
                or ends.seen_ms[number] != ends.at_ms
                or number in stable
                or offset < starts[number]
                or offset > newest[number]
            ):
                lag = self.lag(at)
                if lag.records is None:
                    unknown += 1
                    continue
                records += lag.records
                if lag.records == 0:
                    continue
                passed = None if lag.seconds is None else self._now_ms - lag.seconds * 1000
                is_bound = lag.at_least
            elif offset == newest[number]:
                continue
            else:
                records += newest[number] - offset
                if number >= len(columns[0]) or columns[0][number] > offset:
                    passed, is_bound = ends.passed_ms(number, offset)
                else:
                    if columns[look][number] <= offset:
                        # Younger than the oldest by a look.
                        continue
                    while columns[look - 1][number] > offset:
                        look -= 1
                    passed, is_bound = self._passed(look, number, offset), False
            at_least |= is_bound
            if passed is None:
                is_unknown_since = True
            elif oldest is None or passed < oldest:
                oldest = passed
        count = row.stop - row.start
        if unknown == count:
            return TopicLag(row.topic, None, None, count, unknown)
        seconds = 0.0 if oldest is None else max(self._now_ms - oldest, 0) / 1000
        return TopicLag(row.topic, records, None if is_unknown_since else seconds, count, unknown, at_least)

    def lag(self, at: int) -> Lag:
        """One position's, the general way."""
        topic, partition = self._places[at]
        return self._ends.lag(topic, partition, self.offsets[at], self._times[at], self._topic_ids[at], self._now_ms)

    def _passed(self, look: int, number: int, offset: int) -> float:
        before, after = self._ends.columns[look - 1][number], self._ends.columns[look][number]
        times_ms = self._ends.times_ms
        return between((times_ms[look - 1], before), (times_ms[look], after), offset)
