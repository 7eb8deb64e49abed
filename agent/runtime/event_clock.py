"""What time it is in the log, where nothing is written: so that what is due comes due.

The clock on this machine's wall may be wrong (a machine that has just booted) or jump (somebody sets it, NTP steps
it); the records tell the brokers' time. So the time is that of the newest record, and what passed since by a clock
that never jumps; but never more than the wall shows, since a record may claim any time. Pure: clocks are arguments.
"""

from __future__ import annotations

from collections.abc import Collection
from statistics import median_low

from agent.core.record_time import TOLERANCE_MS

PATIENCE_S = 30.0
"""How long a first record of now is waited for, before the wall is believed without one."""

WITNESSES = 3
"""From how many partitions on the time of their records is believed rather than the wall's: one of them may hold a
record with a time that is wrong."""


class EventClock:
    """The time in the log, from records that have just been written and from a steady clock."""

    def __init__(self) -> None:
        self._ahead_ms: float | None = None
        self._newest_ms = 0
        self._ahead_by_partition: dict[int, float] = {}
        self._asked_s: float | None = None

    def record_read(self, partition: int, timestamp_ms: int, steady_s: float) -> None:
        """A record of a partition came that was written then, whenever that is."""
        self._newest_ms = max(self._newest_ms, timestamp_ms)
        self._ahead_by_partition[partition] = timestamp_ms - steady_s * 1000

    def forget(self, partitions: Collection[int]) -> None:
        """Another replica has them now: what their records told of the time grows old."""
        for partition in partitions:
            self._ahead_by_partition.pop(partition, None)

    def latest_ms(self, steady_s: float, wall_ms: int) -> int:
        """The latest time, epoch milliseconds, that a record can honestly have: the wall's, unless half of the
        partitions, of three at least, show that the wall is behind."""
        ahead = self._ahead_by_partition
        if len(ahead) < WITNESSES:
            return wall_ms
        return max(wall_ms, round(steady_s * 1000 + median_low(ahead.values())))

    def record_arrived(self, timestamp_ms: int, steady_s: float, latest_ms: int) -> None:
        """A record came that was written then, or a little before; unless that is after `latest_ms`, the latest time
        that it can honestly have."""
        if timestamp_ms > latest_ms + TOLERANCE_MS:
            return
        ahead_ms = timestamp_ms - steady_s * 1000
        if self._ahead_ms is None or ahead_ms > self._ahead_ms:
            self._ahead_ms = ahead_ms

    def now_ms(self, steady_s: float, wall_ms: int) -> int | None:
        """The time now, epoch milliseconds; None as long as it is not known.

        That is the wall's where no record has told another: at once if the newest one is hardly older than that, and
        after some patience if nothing is written.
        """
        if self._ahead_ms is not None:
            return min(round(steady_s * 1000 + self._ahead_ms), wall_ms)
        if self._asked_s is None:
            self._asked_s = steady_s
        is_near = abs(wall_ms - self._newest_ms) < PATIENCE_S * 1000
        return wall_ms if is_near or steady_s - self._asked_s >= PATIENCE_S else None
