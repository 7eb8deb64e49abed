"""Where partitions end and since when, and what that makes of a commit: its lag in records and in seconds.

Pure: time is an argument (epoch milliseconds), answers are values. Owns every rule by which lag is told or is not.

*Records.* The high watermark less the committed offset, as Kafka's own tools count. Where a transaction is open, what
lies behind the last stable offset can be read by no read_committed consumer, and a commit does not tell how its
consumer reads: so a commit at or before the last stable offset counts up to that, and `held_back` says how much lies
behind it; a commit beyond it can only come from a read_uncommitted consumer and counts up to the high watermark.
Below the log's start only what is still there counts (`lost` says how much is not).

*Seconds.* How long ago the end passed the committed offset: how long the next record to read has been there. The end
is seen once an interval; between two looks it is taken to have moved evenly. It is 0 where nothing is to be read.
Beyond what is known of the past, a bound that is sure is told (`at_least`), and nothing otherwise.

*Nothing* is told, rather than something wrong, where the end is unknown or was not seen for three intervals, where
the topic was deleted, where the commit is one of another topic of that name, and where the commit lies beyond the
end although the end was seen after it.

Ends are as of the last look, and so is lag: of a group that committed since, what it had committed then counts, as
what was written since is not known. Where that is not known either, a commit that came since counts; if it lies
beyond the end that was seen, it is at the end, as far as anybody knows.
"""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from enum import StrEnum
from functools import cached_property
from typing import NamedTuple

from agent.core.wire.primitives import ZERO_UUID

PartitionId = tuple[str, int]
"""A topic and a partition of it."""
TimedOffset = tuple[int, int]
"""When, and where the partition ended then."""


class LagNote(StrEnum):
    """What is to be said of a lag, or why there is none."""

    BELOW_LOG_START = "below_log_start"
    OPEN_TRANSACTION = "open_transaction"
    # Without a lag:
    UNKNOWN_END = "unknown_end"
    STALE_END = "stale_end"
    TOPIC_DELETED = "topic_deleted"
    TOPIC_DENIED = "topic_denied"
    TOPIC_RECREATED = "topic_recreated"
    BEYOND_END = "beyond_end"
    NOT_COMMITTED = "not_committed"
    NOT_COUNTED = "not_counted"
    NOT_READ = "not_read"


class Lag(NamedTuple):
    """How far a commit is behind. None is unknown; `at_least`: the seconds are a bound, it may be longer.

    `held_back` records lie behind an open transaction and are not counted; `lost` records were deleted unread.
    """

    records: int | None = None
    seconds: float | None = None
    at_least: bool = False
    note: LagNote | None = None
    held_back: int = 0
    lost: int = 0


class PartitionEnd(NamedTuple):
    """One partition: where it starts (None if not asked for) and ends, and is stable up to; seen at `at_ms`."""

    start: int | None
    end: int
    stable: int
    at_ms: int


class TopicState(NamedTuple):
    """What is known of a topic as a whole.

    `topic_id` is zero if unknown. A topic of this name was seen to be another one up to `since_ms` (0: never).
    `absent` says why there are no ends of it.
    """

    topic_id: bytes = ZERO_UUID
    since_ms: int = 0
    absent: LagNote | None = None


UNKNOWN_TOPIC = TopicState()
NOT_ASKED = -1
"""Where a log starts, if that was not asked for: before any offset."""
CAUGHT_UP = Lag(0, 0.0)


class EndOffsets:
    """All that is known at one time. Never changed once made, so any thread may read it.

    The history is one column of ends for each look that is kept, by the partition's `number`: all partitions are
    looked at together, so they share the times. Numbers are given in order, so what came later is missing at the end
    of older columns. `seeds` are points of before the first column.
    """

    def __init__(
        self,
        *,
        numbers: Mapping[PartitionId, int],
        times_ms: Sequence[int],
        columns: Sequence[array[int]],
        seen_ms: array[int],
        starts: array[int],
        stable: Mapping[int, int],
        seeds: Mapping[int, Sequence[TimedOffset]],
        complete: frozenset[int],
        topics: Mapping[str, TopicState],
        interval_ms: int,
    ) -> None:
        """`stable`: last stable offsets, where they are behind the end. `complete`: partitions whose seeds go as far
        back as is ever asked."""
        self.numbers, self.times_ms, self.columns = numbers, times_ms, columns
        self.seen_ms, self.starts, self.stable, self.seeds = seen_ms, starts, stable, seeds
        self.topics, self.interval_ms = topics, interval_ms
        self.newest: Sequence[int] = columns[-1] if columns else array("q")
        """The ends as last seen, by number."""
        self.at_ms = times_ms[-1] if times_ms else 0
        """When all but those with an older `seen_ms` were."""
        self._complete = complete
        self._history: dict[int, tuple[Sequence[int], Sequence[int]]] = {}
        """By number, see `_history_of`. Where several threads make one, theirs are equal."""

    @cached_property
    def odd(self) -> frozenset[int]:
        """Numbers of which the lag is not told by the newest end alone: not seen with the others, or not stable."""
        unseen = (number for number, seen_ms in enumerate(self.seen_ms) if seen_ms != self.at_ms)
        return frozenset((*self.stable, *unseen))

    @property
    def stale_ms(self) -> int:
        """From when on (how long after it was seen) an end is not taken for known."""
        return 3 * self.interval_ms

    def end(self, topic: str, partition: int, now_ms: int) -> PartitionEnd | None:
        """Where a partition ends; None where that is not known."""
        number = self.numbers.get((topic, partition))
        if number is None or now_ms - self.seen_ms[number] > self.stale_ms:
            return None
        end, start = self.newest[number], self.starts[number]
        return PartitionEnd(
            None if start == NOT_ASKED else start, end, self.stable.get(number, end), self.seen_ms[number]
        )

    def lag(
        self,
        topic: str,
        partition: int,
        offset: int,
        committed_ms: int,
        topic_id: bytes,
        now_ms: int,
        *,
        looked: int | None = None,
    ) -> Lag:
        """How far a commit is behind; `topic_id` is the one in the commit, zero if it has none. `looked`: the offset
        that was committed there as the ends were looked at, which counts where the commit is beyond it; None: not
        known."""
        as_of_ms = now_ms
        if looked is not None and looked < offset:
            offset, as_of_ms = looked, self.at_ms
        known = self.topics.get(topic, UNKNOWN_TOPIC)
        number = self.numbers.get((topic, partition))
        if number is None:
            return Lag(note=known.absent or LagNote.UNKNOWN_END)
        if now_ms - self.seen_ms[number] > self.stale_ms:
            return Lag(note=known.absent or LagNote.STALE_END)
        if is_of_other_topic(known, topic_id, committed_ms):
            return Lag(note=LagNote.TOPIC_RECREATED)
        end = self.newest[number]
        if offset > end:
            # Clocks differ; and a commit that is older than one interval was there when the end was seen.
            is_newer = committed_ms > self.seen_ms[number] - self.interval_ms
            return CAUGHT_UP if is_newer else Lag(note=LagNote.BEYOND_END)
        stable = self.stable.get(number, end)
        note, held_back = None, 0
        if offset <= stable < end:
            note, held_back, end = LagNote.OPEN_TRANSACTION, end - stable, stable
        if offset == end:
            return Lag(0, 0.0, False, note, held_back)
        passed_ms, at_least = self.passed_ms(number, offset)
        seconds = None if passed_ms is None else max(as_of_ms - passed_ms, 0) / 1000
        start = self.starts[number]
        if offset < start:
            return Lag(max(end - start, 0), seconds, at_least, LagNote.BELOW_LOG_START, held_back, start - offset)
        return Lag(end - offset, seconds, at_least, note, held_back)

    def look_at(self, at_ms: int) -> int | None:
        """Which look was the last by then; None: none was, or it was too long before."""
        look = bisect_right(self.times_ms, at_ms) - 1
        return None if look < 0 or at_ms - self.times_ms[look] > self.stale_ms else look

    def lags_at(
        self,
        places: Sequence[PartitionId],
        offsets: Sequence[int],
        times_ms: Sequence[int],
        topic_ids: Sequence[bytes],
        at_ms: int,
    ) -> tuple[int, dict[PartitionId, int]]:
        """When the last look before `at_ms` was, and how many records commits, which are rows of these columns, were
        behind then: those of which it is known by the rules above. Whether a transaction is open, and which topic it
        is, is as of now."""
        look = self.look_at(at_ms)
        out: dict[PartitionId, int] = {}
        if look is None:
            return at_ms, out
        column, seen_ms, stale_ms = self.columns[look], self.times_ms[look], self.stale_ms
        # All of it is gone through for each position of each group: what is looked up is looked up once.
        number_of, topics, stable, starts = self.numbers.get, self.topics, self.stable, self.starts
        known_numbers, newer_ms = len(column), seen_ms - self.interval_ms
        topic, known = "", topics.get("")
        for place, offset, committed_ms, topic_id in zip(places, offsets, times_ms, topic_ids, strict=True):
            number = number_of(place)
            if number is None or number >= known_numbers:
                continue
            if self.seen_ms[number] < seen_ms and at_ms - self.seen_ms[number] > stale_ms:
                continue
            if place[0] is not topic:
                topic = place[0]
                known = topics.get(topic)
            if known is not None:
                # Nearly always it is the one that is known, and never was another.
                may_differ = topic_id != known.topic_id or known.since_ms
                if known.absent is not None or (may_differ and is_of_other_topic(known, topic_id, committed_ms)):
                    continue
            end = column[number]
            if offset >= end:
                # One that is older than an interval was there when the end was seen, and is of another log.
                if offset == end or committed_ms > newer_ms:
                    out[place] = 0
                continue
            if stable and offset <= stable.get(number, end) < end:
                end = stable[number]
            start = starts[number]
            out[place] = end - offset if offset >= start else max(end - start, 0)
        return seen_ms, out

    def passed_ms(self, number: int, offset: int) -> tuple[float | None, bool]:
        """When the record at this offset, which is before the end, was written; whether it may have been earlier."""
        times_ms, ends = self._history.get(number) or self._history_of(number)
        at = bisect_right(ends, offset)
        if at > 0:
            return interpolated_ms(times_ms[at - 1], ends[at - 1], times_ms[at], ends[at], offset), False
        # What was there before the log's start cannot be asked for, but was written no later than what follows it,
        # and that no later than it was seen.
        start = self.starts[number]
        if offset < start and 0 < (at := bisect_right(ends, start)) < len(ends):
            return times_ms[at], True
        return (times_ms[0], True) if number in self._complete else (None, False)

    def _history_of(self, number: int) -> tuple[Sequence[int], Sequence[int]]:
        """When a partition was looked at, seeds included, and its ends then. In columns these are far from each
        other, and many groups are behind in one partition, so they are put together once."""
        columns, seeds = self.columns, self.seeds.get(number, ())
        first = 0 if number < len(columns[0]) else bisect_right(columns, number, key=len)
        ends = array("q", [*(end for _, end in seeds), *(column[number] for column in columns[first:])])
        times_ms: Sequence[int] = self.times_ms
        if seeds or first:
            times_ms = array("q", [*(at_ms for at_ms, _ in seeds), *times_ms[first:]])
        self._history[number] = found = (times_ms, ends)
        return found


def interpolated_ms(since_ms: int, low: int, until_ms: int, high: int, offset: int) -> float:
    """When the end passed an offset, if it moved evenly: it was at most at it first, and behind it then."""
    return since_ms + (until_ms - since_ms) * (offset + 1 - low) / (high - low)


def is_of_other_topic(known: TopicState, topic_id: bytes, committed_ms: int) -> bool:
    """Whether a commit is one of another topic of that name, deleted since."""
    if topic_id != ZERO_UUID and known.topic_id != ZERO_UUID:
        return topic_id != known.topic_id
    # One without a time is of a topic that always was the same.
    return max(committed_ms, 0) < known.since_ms


NO_END_OFFSETS = EndOffsets(
    numbers={},
    times_ms=(),
    columns=(),
    seen_ms=array("q"),
    starts=array("q"),
    stable={},
    seeds={},
    complete=frozenset(),
    topics={},
    interval_ms=0,
)
