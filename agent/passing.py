"""What time it is in the log, where nothing is written: so that what is due comes due.

The clock on this machine's wall may jump (somebody sets it, NTP steps it); the records tell the brokers' time. So
the time is that of the newest record, and what passed since by a clock that never jumps; but never more than the wall
shows, since a record may claim any time. Pure: clocks are arguments.
"""

from __future__ import annotations


class Passing:
    """The time in the log, from records that have just been written and from a steady clock."""

    def __init__(self) -> None:
        self._ahead_ms: float | None = None

    def arrived(self, timestamp_ms: int, steady_s: float) -> None:
        """A record came that was written then, or a little before."""
        ahead_ms = timestamp_ms - steady_s * 1000
        if self._ahead_ms is None or ahead_ms > self._ahead_ms:
            self._ahead_ms = ahead_ms

    def now_ms(self, steady_s: float, wall_ms: int) -> int:
        """The time now, epoch milliseconds: the wall's, as long as no record has told another."""
        if self._ahead_ms is None:
            return wall_ms
        return min(round(steady_s * 1000 + self._ahead_ms), wall_ms)
