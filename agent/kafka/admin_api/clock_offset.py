"""How far our clock is ahead of that of a broker, which stamps the records of the groups that it coordinates.

Owns one estimate: a record comes some milliseconds after it was stamped, so the least of what arrivals of late differ
by is the difference of the clocks, and those few milliseconds. It needs no clock that is set right: the observer's
only has to run evenly (`time.monotonic`).
"""

from __future__ import annotations

from agent.common.units import MINUTE_MS

WINDOW_MS = MINUTE_MS
"""An arrival counts for so long at least, and for twice as long at most: clocks drift."""


class ClockOffset:
    """Our clock's lead over a broker's, by broker."""

    def __init__(self) -> None:
        # By broker: when its younger window began, the least lead in that one, and in the one before.
        self._windows: dict[int, tuple[int, int, int | None]] = {}

    def record_arrived(self, broker: int, timestamp_ms: int, now_ms: int) -> None:
        """A record that was stamped at `timestamp_ms` is here."""
        lead = now_ms - timestamp_ms
        began, least, before = self._windows.get(broker, (now_ms, lead, None))
        if now_ms - began >= 2 * WINDOW_MS:
            began, least, before = now_ms, lead, None
        elif now_ms - began >= WINDOW_MS:
            began, least, before = now_ms, lead, least
        self._windows[broker] = (began, min(least, lead), before)

    def ahead_ms(self, broker: int) -> int | None:
        """What to take from our time to have the broker's; None before anything came."""
        window = self._windows.get(broker)
        if window is None:
            return None
        _, least, before = window
        return least if before is None else min(least, before)
