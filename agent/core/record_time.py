"""Which records' times may move the event clock: not those that are ahead of what is written around them.

Whoever may write to the topic gives a record any time that its broker accepts, by default up to an hour ahead. The
clock is for all groups of the partition, so one such record would let what is due for others come early, and freeze
them afterwards. So a record does not move the clock where it is more than `TOLERANCE_MS` ahead of two of the next
three records of its partition: two, since one of them may have a wrong time itself. What follows the last records of
a partition is not known: they are held to the time on the wall, where the caller knows one. Records that are late
never move the clock.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from agent.core.records import RecordBatch

FOLLOWERS = 3
"""How many of the records behind are asked. Two of three outvote one that has a wrong time itself."""

TOLERANCE_MS = 5_000
"""By how much an honest record may be ahead: brokers' clocks differ, and coordinators change."""

ENDLESS_MS = 1 << 63
"""Later than any record."""

LATE_MS = -1
"""In place of a time that moves no clock."""


class Context(NamedTuple):
    """What is known of what comes behind a batch: `next_ms` are the times of the records that follow it, up to
    `FOLLOWERS`; no record that is still to come has an honest time after `latest_ms` (epoch milliseconds)."""

    next_ms: Sequence[int] = ()
    latest_ms: int = ENDLESS_MS


UNKNOWN = Context()
"""Nothing is known of what follows: the last records are believed."""


def believed_times(times: Sequence[int], context: Context = UNKNOWN) -> list[int]:
    """The times of consecutive records, with `LATE_MS` in place of those that are ahead."""
    out = times if isinstance(times, list) else list(times)
    after = [*context.next_ms[:FOLLOWERS], *[context.latest_ms] * FOLLOWERS][:FOLLOWERS]
    if not out or (out[-1] <= min(after) + TOLERANCE_MS and out == sorted(out)):
        return out
    padded = [*out, *after]
    return [
        time if time <= _second_of(padded[i + 1], padded[i + 2], padded[i + 3]) + TOLERANCE_MS else LATE_MS
        for i, time in enumerate(out)
    ]


def _second_of(a: int, b: int, c: int) -> int:
    """The one in the middle."""
    if a > b:
        a, b = b, a
    return a if c <= a else min(b, c)


class Lookahead:
    """Holds back the newest batches of each partition until it is known what follows them."""

    def __init__(self) -> None:
        self._held: dict[int, list[RecordBatch]] = {}

    def put(self, batch: RecordBatch) -> Iterator[tuple[RecordBatch, Context]]:
        """One more batch: those before it that are followed by enough."""
        if not len(batch):
            return
        held = self._held.setdefault(batch.partition, [])
        held.append(batch)
        while sum(map(len, held[1:])) >= FOLLOWERS:
            yield held.pop(0), _followed_by(held)

    def take(self, latest_ms: int = ENDLESS_MS) -> Iterator[tuple[RecordBatch, Context]]:
        """All that is held back: nothing follows, or nobody waits for it."""
        for partition in sorted(self._held):
            held = self._held.pop(partition)
            while held:
                yield held.pop(0), _followed_by(held)._replace(latest_ms=latest_ms)

    def forget(self, partition: int) -> None:
        """A partition is to be read anew."""
        self._held.pop(partition, None)

    def clear(self) -> None:
        """All are to be read anew."""
        self._held.clear()


def _followed_by(batches: Sequence[RecordBatch]) -> Context:
    times: list[int] = []
    for batch in batches:
        times += batch.timestamps_ms[: FOLLOWERS - len(times)]
        if len(times) == FOLLOWERS:
            break
    return Context(times)
