"""The lag of all groups at once: by group and topic, for a scrape; and where groups have committed, for the watch.

A scrape of 100,000 positions has no time for a call of each. So what changes seldom is kept: which positions groups
have, in order, the partitions' numbers among the ends, and the ids of topics. Of commits only columns are read;
seconds are looked up where they may be the topic's longest. What is special goes the general way, `Ends.lag`; a test
holds the two against each other.

Pure, and one thread's at a time. `take` must see the mirror at rest; the rest does not touch it.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections.abc import Container, Iterable, Mapping, Sequence
from functools import cached_property
from hashlib import sha256
from itertools import accumulate, groupby, repeat
from operator import gt, sub
from typing import NamedTuple
from weakref import WeakKeyDictionary

from msgspec import Struct, field

from agent.common.interning import Interner
from agent.core.end_offsets import UNKNOWN_TOPIC, EndOffsets, Lag, PartitionId
from agent.core.shadow.offsets import NEVER_LOWER, NOT_LOOKED, CommittedOffsets, LookedOffsets
from agent.core.wire.commit_table import CommitBlock
from agent.core.wire.primitives import ZERO_UUID

ABSENT = -1

_one_id: Interner[bytes] = Interner(1 << 16)
"""Ids of topics: groups of all partitions have the same."""


class TopicLag(Struct, frozen=True, order=True):
    """A group's lag in one topic: the sum of records and the longest of seconds, of the partitions that it committed.

    Those of which the lag is not known (`unknown` of `partitions`) count for nothing, so both are the least that it
    is; None where it is of none, and where all others have nothing to read: that is not 0. `at_least`: the seconds
    are a bound.
    """

    topic: str
    records: int | None
    seconds: float | None
    partitions: int
    unknown: int
    at_least: bool = False


class Positions(NamedTuple):
    """Positions of one group, a row each: where they are, and how many records behind; None where that is unknown."""

    places: Sequence[PartitionId] = ()
    committed: Sequence[int] = ()
    records: Sequence[int | None] = ()


NO_POSITIONS = Positions()


def positions_of(rows: Iterable[tuple[PartitionId, int, int | None]]) -> Positions:
    """From rows of these columns."""
    columns = [*zip(*rows, strict=True)]
    return Positions(*columns) if columns else NO_POSITIONS


class GroupTopicRange(NamedTuple):
    """The positions of one group in one topic: a range of the layout's places."""

    group: str
    topic: str
    start: int
    stop: int


class GroupRange(NamedTuple):
    """One group's part of a layout: of its rows, and of its places."""

    group: str
    rows: slice
    places: slice


class PositionLayout(Struct):
    """Which positions groups have in one partition of the offsets topic, by group, topic and partition; `version`: of
    its offsets."""

    version: int
    positions: array[int]
    """Their numbers in `offsets`."""
    places: list[PartitionId]
    rows: list[GroupTopicRange]
    groups: list[GroupRange] = field(default_factory=list)
    """Those of `rows`."""
    numbered: tuple[Mapping[PartitionId, int], Sequence[int]] = ({}, ())
    """The numbers of ends, and the places' among them: one value, since several threads may make it."""
    topic_ids: tuple[bytes, Sequence[bytes]] = (b"", ())
    """The ids of the places' topics, and a digest by which it is told that none has changed: likewise."""

    def __post_init__(self) -> None:
        for group, rows in groupby(enumerate(self.rows), key=lambda it: it[1].group):
            found = list(rows)
            (first, start), (last, stop) = found[0], found[-1]
            self.groups.append(GroupRange(group, slice(first, last + 1), slice(start.start, stop.stop)))


class CommittedPositions(NamedTuple):
    """What groups have committed, at one time; and as the ends were looked at last."""

    layout: PositionLayout
    block: CommitBlock
    looked: LookedOffsets = NOT_LOOKED


def positions_of_groups(positions: CommittedPositions, groups: Container[str]) -> CommittedPositions:
    """The same of some groups alone."""
    layout = positions.layout
    numbers, places, rows = array("q"), list[PartitionId](), list[GroupTopicRange]()
    for row in layout.rows:
        if row.group in groups:
            start, found = len(places), slice(row.start, row.stop)
            numbers += layout.positions[found]
            places += layout.places[found]
            rows.append(row._replace(start=start, stop=len(places)))
    return positions._replace(layout=PositionLayout(layout.version, numbers, places, rows))


class LagCalculator:
    """Keeps the layouts, each as long as the offsets are there that it is of: partitions go, and begin anew."""

    def __init__(self) -> None:
        self._layouts: WeakKeyDictionary[CommittedOffsets, PositionLayout] = WeakKeyDictionary()

    def take(self, offsets: CommittedOffsets) -> CommittedPositions:
        """What groups have committed now in one partition of the offsets topic."""
        layout = self._layouts.get(offsets)
        if layout is None or layout.version != offsets.version:
            layout = self._layouts[offsets] = _layout(offsets)
        return CommittedPositions(layout, offsets.block(), offsets.looked)


def _layout(offsets: CommittedOffsets) -> PositionLayout:
    numbers = array("q")
    places: list[PartitionId] = []
    rows: list[GroupTopicRange] = []
    for group, slots in offsets.numbered():
        ordered = sorted(slots.items(), key=lambda item: item[1])
        for topic, items in groupby(ordered, key=lambda item: item[1][0]):
            start = len(numbers)
            for number, place in items:
                numbers.append(number)
                places.append(place)
            rows.append(GroupTopicRange(group, topic, start, len(numbers)))
    return PositionLayout(offsets.version, numbers, places, rows)


def lowest_committed(all_positions: Iterable[CommittedPositions]) -> dict[str, dict[int, int]]:
    """By topic and partition the lowest offset that a group has committed there: what the watch wants."""
    out: dict[str, dict[int, int]] = {}
    for layout, block, _ in all_positions:
        offsets = block.offsets(layout.positions)
        for row in layout.rows:
            known = out.setdefault(row.topic, {})
            for at in range(row.start, row.stop):
                partition, offset = layout.places[at][1], offsets[at]
                if known.get(partition, offset) >= offset:
                    known[partition] = offset
    return out


class LagPass:
    """One pass over the positions of one layout: their columns, in the layout's order, and their lags at `now_ms`."""

    def __init__(self, positions: CommittedPositions, ends: EndOffsets, now_ms: int) -> None:
        self.layout, self._block, self._looked = positions
        self._ends, self._now_ms = ends, now_ms
        self.offsets = self._block.offsets(self.layout.positions)

    @cached_property
    def _counted(self) -> Sequence[int]:
        """The offsets from which lag is counted: those of when these ends were looked at, as what was written since
        is not known. Of a position that went back since, where it is now."""
        known = self._looked.offsets
        if self._looked.at_ms != self._ends.at_ms or not known:
            return self.offsets
        try:
            then: Iterable[int] = list(map(known.__getitem__, self.layout.positions))
        except IndexError:  # positions came since
            count = len(known)
            then = [known[at] if at < count else NEVER_LOWER for at in self.layout.positions]
        return list(map(min, self.offsets, then))

    @cached_property
    def _numbers(self) -> Sequence[int]:
        """Of each position the number of its partition among the ends."""
        layout, numbers_of = self.layout, self._ends.numbers
        if layout.numbered[0] is not numbers_of or len(layout.numbered[1]) != len(layout.places):
            layout.numbered = (numbers_of, list(map(numbers_of.get, layout.places, repeat(ABSENT))))
        return layout.numbered[1]

    @cached_property
    def times_ms(self) -> Sequence[int]:
        """When each position was committed, epoch milliseconds."""
        return self._block.times_ms(self.layout.positions)

    @cached_property
    def topic_ids(self) -> Sequence[bytes]:
        """Of each position the id of its topic, zero where the commit has none."""
        layout, told_by = self.layout, sha256(self._block.topic_id_bytes()).digest()
        if layout.topic_ids[0] != told_by:
            # Equal ones are one object: they are counted, row by row.
            layout.topic_ids = (told_by, list(map(_one_id.__getitem__, self._block.columns(layout.positions)[2])))
        return layout.topic_ids[1]

    @property
    def records(self) -> list[int | None]:
        """How many records each position is behind; None where that is not known."""
        return self._records[0]

    @cached_property
    def _records(self) -> tuple[list[int | None], dict[int, Lag]]:
        """And, by place, the lags of those that went the general way."""
        rows, offsets, ends = self.layout.rows, self._counted, self._ends
        if not ends.newest or not rows:
            return [None] * len(offsets), {}
        numbers, starts, odd = self._numbers, ends.starts, ends.odd
        if ABSENT in numbers:
            odd = odd | {ABSENT}
        # In bulk what is so for nearly all. What is absent has another's end and start here; it is odd.
        lags = list(map(sub, map(ends.newest.__getitem__, numbers), offsets))
        behind: list[int | None] = [*lags]
        if min(lags) < 0:
            # Committed since the look at the ends; or of another log.
            newer_ms, beyond = ends.at_ms - ends.interval_ms, [at for at, lag in enumerate(lags) if lag < 0]
            for at in beyond:
                behind[at] = 0 if self.times_ms[at] > newer_ms else None
        special = [at for row in rows if not self._is_plain(row) for at in range(row.start, row.stop)]
        if odd:
            special += [at for at, number in enumerate(numbers) if number in odd]
        if any(map(gt, map(starts.__getitem__, numbers), offsets)):
            special += [at for at, number in enumerate(numbers) if offsets[at] < starts[number]]
        found = {at: self._lag(at) for at in special}
        for at, lag in found.items():
            behind[at] = lag.records
        return behind, found

    def lags(self) -> list[TopicLag]:
        """Of each row of the layout."""
        behind = self.records
        is_all_known = None not in behind
        up_to = [0, *accumulate(it or 0 for it in behind)]
        topics: list[TopicLag] = []
        for _, topic, start, stop in self.layout.rows:
            total = up_to[stop] - up_to[start]
            unknown = 0 if is_all_known else behind[start:stop].count(None)
            if unknown and not total:
                topics.append(TopicLag(topic, None, None, stop - start, unknown))
                continue
            seconds, at_least = self._seconds(range(start, stop)) if total else (0.0, False)
            topics.append(TopicLag(topic, total, seconds, stop - start, unknown, at_least))
        return topics

    def _seconds(self, places: range) -> tuple[float | None, bool]:
        """The longest of positions of which any is behind, None where that is not known; whether it is a bound."""
        (behind, special), ends, now_ms = self._records, self._ends, self._now_ms
        numbers, offsets, columns = self._numbers, self._counted, ends.columns
        at_least = is_unknown = False
        has_moved = offsets is not self.offsets
        oldest = float(now_ms)
        # The first look that is no older than the oldest so far: what it did not pass is younger.
        look = columns[-1]
        for at in places:
            if not behind[at]:
                continue
            number, offset = numbers[at], offsets[at]
            if special and (lag := special.get(at)) is not None:
                passed, is_bound = None if lag.seconds is None else now_ms - lag.seconds * 1000, lag.at_least
            elif number < len(look) and look[number] <= offset:
                continue
            else:
                passed, is_bound = ends.passed_ms(number, offset)
                if has_moved and passed is not None and offset < self.offsets[at]:
                    # It was so old as the ends were looked at, and was consumed since.
                    passed += now_ms - ends.at_ms
            at_least |= is_bound
            if passed is None:
                is_unknown = True
            elif passed < oldest:
                oldest = passed
                look = columns[min(bisect_left(ends.times_ms, oldest), len(columns) - 1)]
        return None if is_unknown else (now_ms - oldest) / 1000, at_least

    def _is_plain(self, row: GroupTopicRange) -> bool:
        """Whether ends of now are those of the topic that a group committed to."""
        ends = self._ends
        known = ends.topics.get(row.topic, UNKNOWN_TOPIC)
        if known.since_ms or known.absent is not None or self._now_ms - ends.at_ms > ends.stale_ms:
            return False
        if known.topic_id == ZERO_UUID:
            return True
        ids = self.topic_ids[row.start : row.stop]
        return ids.count(known.topic_id) + ids.count(ZERO_UUID) == len(ids)

    def _lag(self, at: int) -> Lag:
        """One position's, the general way."""
        topic, partition = self.layout.places[at]
        offset, looked = self.offsets[at], self._counted[at]
        times_ms, topic_ids = self.times_ms, self.topic_ids
        return self._ends.lag(topic, partition, offset, times_ms[at], topic_ids[at], self._now_ms, looked=looked)
