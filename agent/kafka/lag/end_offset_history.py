"""The history of ends as it grows: looks are taken in, thinned out, and given to readers as `Ends`.

Owns what is kept and for how long. Pure, and one thread's: what others read is made anew by `publish`.

Memory: eight bytes for each partition and each look that is kept, and those are some 45, whatever the interval.
"""

from __future__ import annotations

from array import array
from collections.abc import Collection, Iterable, Mapping, Sequence

from agent.common.units import DAY_MS
from agent.core.end_offsets import (
    NO_END_OFFSETS,
    NOT_ASKED,
    UNKNOWN_TOPIC,
    EndOffsets,
    LagNote,
    PartitionId,
    TimedOffset,
    TopicState,
)
from agent.core.wire.primitives import ZERO_UUID

KEPT_MS = 7 * DAY_MS
"""How far back the history goes."""
SPACING = 4
"""Looks are kept so dense that between two of them is a quarter of their age at most: what is interpolated is within
that. Eight days of looks are some 45 then."""
MAX_UNUSED_NUMBERS = 1_000
"""Numbers of partitions that are gone, beyond as many as there are, before all are given anew."""


class EndOffsetHistory:
    """What is known of all partitions that are looked at."""

    def __init__(self, interval_ms: int) -> None:
        """`interval_ms`: how long from look to look; what was not seen for three is not told."""
        self._interval_ms = interval_ms
        self._numbers: dict[PartitionId, int] = {}
        self._topics: dict[str, TopicState] = {}
        self._times_ms: list[int] = []
        self._columns: list[array[int]] = []
        self._now, self._seen_ms, self._starts = array("q"), array("q"), array("q")
        self._stable: dict[int, int] = {}
        self._seeds: dict[int, tuple[TimedOffset, ...]] = {}
        self._complete: set[int] = set()
        self._missing: dict[PartitionId, int] = {}
        """What the brokers said once that it is not there, and when it was last seen."""
        self._shrunk: dict[str, int] = {}
        """Topics whose ends went back, and when they were last seen before."""
        self._answered: set[str] = set()
        """Topics that were seen at the last look."""
        self.snapshot: EndOffsets = NO_END_OFFSETS
        """As last published."""

    def change_interval(self, interval_ms: int) -> None:
        """Looks come that often from now on."""
        self._interval_ms = interval_ms

    def begin_anew(self) -> None:
        """Another clock shows the time: nothing is told before the next look, and its past is asked for."""
        self._times_ms, self._columns = [], []
        self._seen_ms = array("q", bytes(self._seen_ms.itemsize * len(self._seen_ms)))
        self._seeds.clear()
        self._complete.clear()
        self.snapshot = NO_END_OFFSETS

    def __len__(self) -> int:
        return len(self._numbers)

    # What was asked.

    def add_high_watermarks(self, ends: Mapping[PartitionId, int], at_ms: int) -> tuple[list[PartitionId], set[str]]:
        """High watermarks, asked for at this time: the places whose last stable offset is to be asked for, as it may
        be another one than the end, and the topics with a partition that ends before where it did."""
        numbers, now = self._numbers, self._now
        shrunk = {place[0] for place, end in ends.items() if place in numbers and end < now[numbers[place]]}
        for topic in shrunk:
            # Another topic of that name, or what was written was lost: what is known is not of this log.
            known = self._topics.get(topic, UNKNOWN_TOPIC)
            since_ms = self._shrunk[topic] = self._forget_topic(topic)
            if known.topic_id == ZERO_UUID:
                self._topics[topic] = known._replace(since_ms=since_ms)
        moved: list[PartitionId] = []
        for place, end in ends.items():
            number = numbers.get(place)
            if number is None:
                numbers[place] = len(now)
                now.append(end)
                self._seen_ms.append(at_ms)
                self._starts.append(NOT_ASKED)
                moved.append(place)
            else:
                if end != now[number] or number in self._stable:
                    moved.append(place)
                now[number], self._seen_ms[number] = end, at_ms
            self._missing.pop(place, None)
        self._answered = {topic for topic, _ in ends}
        for topic in self._answered & self._topics.keys():
            self._topics[topic] = self._topics[topic]._replace(absent=None)
        return moved, shrunk

    def add_last_stable(self, offsets: Mapping[PartitionId, int]) -> None:
        """Last stable offsets, asked for after the ends."""
        for place, stable in offsets.items():
            number = self._numbers.get(place)
            if number is None:
                continue
            if stable < self._now[number]:
                self._stable[number] = stable
            else:
                self._stable.pop(number, None)

    def add_log_starts(self, starts: Mapping[PartitionId, int]) -> None:
        """Where logs start."""
        for place, start in starts.items():
            number = self._numbers.get(place)
            if number is not None:
                self._starts[number] = start

    def add_seeds(self, place: PartitionId, points: Sequence[TimedOffset], *, is_complete: bool) -> None:
        """Points of before the first look, oldest first; `is_complete`: there is no asking further back."""
        number = self._numbers.get(place)
        if number is None:
            return
        first_ms, first = self._first(number)
        self._seeds[number] = tuple((at_ms, min(end, first)) for at_ms, end in points if at_ms < first_ms)
        if is_complete:
            self._complete.add(number)

    def wants_seeds(self, place: PartitionId, offset: int) -> bool:
        """Whether the past of a partition is to be asked for, as somebody's position is of before what is known."""
        number = self._numbers.get(place)
        offset = self.next_kept(place, offset)
        if number is None or number in self._complete or offset >= self._now[number]:
            return False
        seeds = self._seeds.get(number)
        return offset < (seeds[0][1] if seeds else self._first(number)[1])

    def next_kept(self, place: PartitionId, offset: int) -> int:
        """Of an offset whose record was deleted that of the first that is there: no other's time can be asked for."""
        number = self._numbers.get(place)
        return offset if number is None else max(offset, self._starts[number])

    def end(self, place: PartitionId) -> int | None:
        """Where a partition ended when last seen."""
        number = self._numbers.get(place)
        return None if number is None else self._now[number]

    def add_topic_ids(self, ids: Mapping[str, bytes]) -> set[str]:
        """The topics' ids: those topics that are others than they were, of which nothing is known any more but what
        was seen since their ends went back."""
        recreated = set()
        for topic, topic_id in ids.items():
            known = self._topics.get(topic, UNKNOWN_TOPIC)
            since_ms = self._shrunk.pop(topic, None)
            if known.topic_id in (ZERO_UUID, topic_id):
                self._topics[topic] = known._replace(topic_id=topic_id)
                continue
            self._topics[topic] = TopicState(topic_id, self._forget_topic(topic) if since_ms is None else since_ms)
            recreated.add(topic)
        return recreated

    @property
    def unidentified(self) -> list[str]:
        """Topics that have ends, whose ids are to be asked for: not known, or perhaps another one now."""
        known = self._topics
        return [
            it for it in self._answered if it in self._shrunk or known.get(it, UNKNOWN_TOPIC).topic_id == ZERO_UUID
        ]

    def add_missing(self, places: Iterable[PartitionId]) -> None:
        """There are no such partitions, the brokers say.

        Once may be a broker that does not know yet: nothing is told as long as it says so. Twice, they are forgotten.
        """
        for place in places:
            topic, number = place[0], self._numbers.get(place)
            known = self._topics.get(topic, UNKNOWN_TOPIC)
            if number is not None and place not in self._missing:
                self._missing[place], self._seen_ms[number] = self._seen_ms[number], 0
            elif number is not None:
                self._drop(place)
            if topic not in self._answered:
                known = known._replace(absent=LagNote.TOPIC_DELETED)
                if number is not None and place not in self._numbers:
                    # Whatever comes under that name is another.
                    known = TopicState(ZERO_UUID, max(known.since_ms, self._missing.pop(place)), known.absent)
            self._topics[topic] = known

    def add_denied(self, topic: str) -> None:
        """We may not ask for this topic."""
        self._topics[topic] = self._topics.get(topic, UNKNOWN_TOPIC)._replace(absent=LagNote.TOPIC_DENIED)

    def retain(self, wanted: Mapping[str, Collection[int]]) -> None:
        """Forget what nobody wants to know any more."""
        for place in [it for it in self._numbers if it[0] not in wanted or it[1] not in wanted[it[0]]]:
            self._drop(place)
        self._missing = {place: at_ms for place, at_ms in self._missing.items() if place[0] in wanted}
        self._shrunk = {topic: at_ms for topic, at_ms in self._shrunk.items() if topic in wanted}
        self._topics = {topic: known for topic, known in self._topics.items() if topic in wanted}

    def _first(self, number: int) -> TimedOffset:
        for at_ms, column in zip(self._times_ms, self._columns, strict=True):
            if number < len(column):
                return at_ms, column[number]
        return self._seen_ms[number], self._now[number]

    def _forget_topic(self, topic: str) -> int:
        """When it was last seen."""
        places = [place for place in self._numbers if place[0] == topic]
        seen_ms = max((self._seen_ms[self._numbers[place]] for place in places), default=0)
        for place in places:
            self._drop(place)
        return seen_ms

    def _drop(self, place: PartitionId) -> None:
        number = self._numbers.pop(place)
        self._stable.pop(number, None)
        self._seeds.pop(number, None)
        self._complete.discard(number)

    # What is kept.

    def publish(self, at_ms: int) -> EndOffsets:
        """The look is over: keep it, and what is known now as a value."""
        if len(self._now) > 2 * len(self._numbers) + MAX_UNUSED_NUMBERS:
            self._renumber()
        self._times_ms.append(at_ms)
        self._columns.append(self._now[:])
        kept = thinned_indices(self._times_ms)
        self._times_ms = [self._times_ms[at] for at in kept]
        self._columns = [self._columns[at] for at in kept]
        return self.republish()

    def republish(self) -> EndOffsets:
        """What is known now as a value, without another look."""
        self.snapshot = EndOffsets(
            numbers=dict(self._numbers),
            times_ms=tuple(self._times_ms),
            columns=tuple(self._columns),
            seen_ms=self._seen_ms[:],
            starts=self._starts[:],
            stable=dict(self._stable),
            seeds=dict(self._seeds),
            complete=frozenset(self._complete),
            topics=dict(self._topics),
            interval_ms=self._interval_ms,
        )
        return self.snapshot

    def _renumber(self) -> None:
        """In the same order, so that what came later is still at the end."""
        live = sorted(self._numbers.values())
        numbers = {old: new for new, old in enumerate(live)}
        self._numbers = {place: numbers[old] for place, old in self._numbers.items()}
        self._now, self._seen_ms, self._starts, *self._columns = (
            array("q", [column[old] for old in live if old < len(column)])
            for column in (self._now, self._seen_ms, self._starts, *self._columns)
        )
        self._stable = {numbers[old]: stable for old, stable in self._stable.items()}
        self._seeds = {numbers[old]: points for old, points in self._seeds.items()}
        self._complete = {numbers[old] for old in self._complete}


def thinned_indices(times_ms: Sequence[int]) -> list[int]:
    """Which of the looks are kept, oldest first: dense lately, sparser further back."""
    newest_ms = times_ms[-1]
    kept = [len(times_ms) - 1]
    for at in range(len(times_ms) - 2, -1, -1):
        if newest_ms - times_ms[at] > KEPT_MS:
            break
        # It may go if the one before it is near enough to the one behind it.
        behind_ms = times_ms[kept[-1]]
        spared = at > 0 and (behind_ms - times_ms[at - 1]) * SPACING <= newest_ms - times_ms[at - 1]
        if not (spared and newest_ms - times_ms[at - 1] <= KEPT_MS):
            kept.append(at)
    return kept[::-1]
