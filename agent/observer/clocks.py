"""How far our clock is ahead of the one that stamped a partition's records.

Owns one estimate: a record comes some milliseconds after it was stamped, so the least of what arrivals of late differ
by is the difference of the clocks, and those few milliseconds. It needs no clock that is set right: the observer's
only has to run evenly (`time.monotonic`).
"""

from __future__ import annotations

WINDOW_MS = 60_000
"""For how long an arrival counts at least, and half as long as at most: clocks drift, and partitions move."""


class Lead:
    """Our clock's lead over a partition's, by partition."""

    def __init__(self) -> None:
        # By partition: when its younger window began, the least lead in that one, and in the one before.
        self._windows: dict[int, tuple[int, int, int | None]] = {}

    def arrived(self, partition: int, timestamp_ms: int, now_ms: int) -> None:
        """A record that was stamped at `timestamp_ms` is here."""
        lead = now_ms - timestamp_ms
        began, least, before = self._windows.get(partition, (now_ms, lead, None))
        if now_ms - began >= 2 * WINDOW_MS:
            began, least, before = now_ms, lead, None
        elif now_ms - began >= WINDOW_MS:
            began, least, before = now_ms, lead, least
        self._windows[partition] = (began, min(least, lead), before)

    def of(self, partition: int) -> int | None:
        """What to take from our time to have the partition's; None before anything came."""
        window = self._windows.get(partition)
        if window is None:
            return None
        _, least, before = window
        return least if before is None else min(least, before)
