"""Which records' times may move the event clock: not those that are ahead of what is written around them.

Whoever may write to the topic gives a record any time that its broker accepts, by default up to an hour ahead. The
clock is for all groups of the partition, so one such record would let what is due for others come early, and freeze
them afterwards. So a record does not move the clock where it is more than `TOLERANCE_MS` ahead of two of the next
three records of its partition: two, since one of them may have a wrong time itself. What follows the last records of
a partition is not known. Neighbours can agree on a wrong time, where one client wrote three records in a row; so all
are held to the time on the wall as well, where the caller knows one. Records that are late never move the clock.

What was written before, as in files, is to say the same on every machine. Neighbours that agree on a time that is
further ahead of the wall than brokers let a record be say that the wall is behind: then it holds nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from agent.core.records import RecordBatch

FOLLOWERS = 3
"""How many of the records behind are asked. Two of three outvote one that has a wrong time itself."""

TOLERANCE_MS = 5_000
"""By how much an honest record may be ahead: brokers' clocks differ, and coordinators change."""

ENDLESS_MS = 1 << 63
"""Later than any record."""

MOST_AHEAD_MS = 2 * 3_600_000
"""No record is as far ahead of the wall: brokers let one be half of it ahead of theirs, unless told otherwise
(message.timestamp.after.max.ms)."""

LATE_MS = -1
"""In place of a time that moves no clock."""


class Context(NamedTuple):
    """What is known of what comes behind a batch: `next_ms` are the times of the records that follow it, up to
    `FOLLOWERS`; no record that is still to come has an honest time after `latest_ms` (epoch milliseconds)."""

    next_ms: Sequence[int] = ()
    latest_ms: int = ENDLESS_MS


UNKNOWN = Context()
"""Nothing is known of what follows: the last records are believed."""


def believed_times(batch: RecordBatch, context: Context = UNKNOWN) -> Sequence[int]:
    """The times of consecutive records, with `LATE_MS` in place of those that are ahead; the batch's own column where
    the times are in order and all of them are believed."""
    out = batch.timestamps_ms
    latest_ms = context.latest_ms
    after = [*context.next_ms[:FOLLOWERS], *[latest_ms] * FOLLOWERS][:FOLLOWERS]
    if not out or (batch.is_in_time_order and out[-1] <= min(latest_ms, *after) + TOLERANCE_MS):
        return out
    padded = [*out, *after]
    return [
        time
        if time <= min(latest_ms, _second_of(padded[i + 1], padded[i + 2], padded[i + 3])) + TOLERANCE_MS
        else LATE_MS
        for i, time in enumerate(out)
    ]


def newest_believed_ms(batch: RecordBatch, context: Context) -> int:
    """The latest time of a batch that is believed; `LATE_MS` where none is."""
    believed = believed_times(batch, context)
    return batch.newest_ms if believed is batch.timestamps_ms else max(believed)


def _second_of(a: int, b: int, c: int) -> int:
    """The one in the middle."""
    if a > b:
        a, b = b, a
    return a if c <= a else min(b, c)


class Lookahead:
    """Holds back the newest records of each partition until it is known what follows them: no more than these, so
    that the others are applied while the processor still has them at hand. `is_history`: what is read was written
    before, and the wall may be behind it."""

    def __init__(self, *, is_history: bool = False) -> None:
        self._held: dict[int, RecordBatch] = {}
        self._is_history = is_history
        self._past_the_wall: set[int] = set()
        """Partitions that show that the wall is behind."""

    def put(
        self, batch: RecordBatch, latest_ms: int = ENDLESS_MS, *, is_last: bool = False
    ) -> Iterator[tuple[RecordBatch, Context]]:
        """One more batch: all records that are followed by enough; all that there are, if it `is_last` for now."""
        if not len(batch):
            return
        held = self._held.pop(batch.partition, None)
        if held is not None:
            batch = held.followed_by(batch)
        if is_last:
            yield batch, Context(latest_ms=self._latest_ms(batch.partition, latest_ms))
            return
        count = len(batch) - FOLLOWERS
        if count <= 0:
            self._held[batch.partition] = batch
            return
        rest = self._held[batch.partition] = batch.part(count, len(batch))
        first, behind = batch.part(0, count), Context(rest.timestamps_ms)
        if self._is_history and newest_believed_ms(first, behind) > latest_ms + MOST_AHEAD_MS:
            self._past_the_wall.add(batch.partition)
        yield first, behind._replace(latest_ms=self._latest_ms(batch.partition, latest_ms))

    def take(
        self, latest_ms: int = ENDLESS_MS, *, of: Callable[[int], bool] = lambda partition: True
    ) -> Iterator[tuple[RecordBatch, Context]]:
        """All that is held back `of` these partitions: nothing follows, or nobody waits for it."""
        for partition in sorted(filter(of, self._held)):
            yield self._held.pop(partition), Context(latest_ms=self._latest_ms(partition, latest_ms))

    def _latest_ms(self, partition: int, latest_ms: int) -> int:
        return ENDLESS_MS if partition in self._past_the_wall else latest_ms

    def forget(self, partition: int) -> None:
        """A partition is to be read anew."""
        self._held.pop(partition, None)

    def clear(self) -> None:
        """All are to be read anew."""
        self._held.clear()
