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

from agent.core.end_offsets import UNKNOWN_TOPIC, EndOffsets, Lag, PartitionId, interpolated_ms
from agent.core.shadow.offsets import CommittedOffsets
from agent.core.wire.offset_commit_fastpath import read_commit_columns
from agent.core.wire.primitives import ZERO_UUID

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


class GroupTopicRange(NamedTuple):
    """The positions of one group in one topic: a range of the layout's places."""

    group: str
    topic: str
    start: int
    stop: int


@dataclass(slots=True)
class PositionLayout:
    """Which positions groups have in one partition of the offsets topic, by group, topic and partition."""

    offsets: CommittedOffsets
    version: int
    keys: list[bytes]
    places: list[PartitionId]
    rows: list[GroupTopicRange]
    numbered: tuple[Mapping[PartitionId, int], Sequence[int]] = ({}, ())
    """The numbers of ends, and the places' among them: one value, since several threads may make it."""


class CommittedPositions(NamedTuple):
    """What groups have committed, at one time."""

    layout: PositionLayout
    values: list[bytes]


class LagCalculator:
    """Keeps the layouts, by partition of the offsets topic."""

    def __init__(self) -> None:
        self._layouts: dict[int, PositionLayout] = {}

    def take(self, partition: int, offsets: CommittedOffsets) -> CommittedPositions:
        """What groups have committed now."""
        layout = self._layouts.get(partition)
        if layout is None or layout.offsets is not offsets or layout.version != offsets.version:
            layout = self._layouts[partition] = _layout(offsets)
        return CommittedPositions(layout, list(map(offsets.latest.__getitem__, layout.keys)))


def _layout(offsets: CommittedOffsets) -> PositionLayout:
    keys: list[bytes] = []
    places: list[PartitionId] = []
    rows: list[GroupTopicRange] = []
    for group, slots in offsets.groups.items():
        ordered = sorted(slots.items(), key=lambda item: item[1])
        for topic, items in groupby(ordered, key=lambda item: item[1][0]):
            start = len(keys)
            for key, place in items:
                keys.append(key)
                places.append(place)
            rows.append(GroupTopicRange(group, topic, start, len(keys)))
    return PositionLayout(offsets, offsets.version, keys, places, rows)


def lowest_committed(all_positions: Sequence[CommittedPositions]) -> dict[str, dict[int, int]]:
    """By topic and partition the lowest offset that a group has committed there: what the watch wants."""
    out: dict[str, dict[int, int]] = {}
    for layout, values in all_positions:
        offsets, _, _ = read_commit_columns(values)
        for row in layout.rows:
            known = out.setdefault(row.topic, {})
            for at in range(row.start, row.stop):
                partition, offset = layout.places[at][1], offsets[at]
                if known.get(partition, offset) >= offset:
                    known[partition] = offset
    return out


def topic_lags(positions: CommittedPositions, ends: EndOffsets, now_ms: int) -> Iterator[tuple[str, TopicLag]]:
    """By group and topic, in the layout's order."""
    look = _LagPass(positions, ends, now_ms)
    for row in positions.layout.rows:
        yield row.group, look.topic_lag(row)


class PartitionLag(NamedTuple):
    """A group's position in one partition, and how many records that is behind; None where that is not known."""

    group: str
    topic: str
    partition: int
    committed: int
    records: int | None


def partition_lags(positions: CommittedPositions, ends: EndOffsets, now_ms: int) -> Iterator[PartitionLag]:
    """Every position, in the layout's order."""
    look = _LagPass(positions, ends, now_ms)
    for row in positions.layout.rows:
        for at in range(row.start, row.stop):
            partition = positions.layout.places[at][1]
            yield PartitionLag(row.group, row.topic, partition, look.offsets[at], look.lag(at).records)


def lag_totals(lags: Iterable[tuple[str, TopicLag]]) -> dict[str, int]:
    """By group the records over all topics, as far as they are known; without those of which nothing is."""
    out: dict[str, int] = {}
    for group, lag in lags:
        if lag.records is not None:
            out[group] = out.get(group, 0) + lag.records
    return out


class _LagPass:
    """One pass over the positions of one layout."""

    def __init__(self, positions: CommittedPositions, ends: EndOffsets, now_ms: int) -> None:
        layout = positions.layout
        numbers_of, numbers = layout.numbered
        if numbers_of is not ends.numbers or len(numbers) != len(layout.places):
            numbers = list(map(ends.numbers.get, layout.places, repeat(ABSENT)))
            layout.numbered = (ends.numbers, numbers)
        self._ends, self._now_ms, self._places, self._numbers = ends, now_ms, layout.places, numbers
        self.offsets, self._times, self._topic_ids = read_commit_columns(positions.values)
        self._is_fresh = now_ms - ends.at_ms <= ends.stale_ms

    def topic_lag(self, row: GroupTopicRange) -> TopicLag:
        """One group's lag in one topic."""
        ends, offsets, topic_ids, numbers = self._ends, self.offsets, self._topic_ids, self._numbers
        newest, starts, stable, columns = ends.newest, ends.starts, ends.stable, ends.columns
        known = ends.topics.get(row.topic, UNKNOWN_TOPIC)
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
        return interpolated_ms((times_ms[look - 1], before), (times_ms[look], after), offset)
