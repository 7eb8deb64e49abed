"""The wall clock, and one that no correction of it moves. The core knows none: what it needs of time is handed to
it."""

from __future__ import annotations

import time


def now_ms() -> int:
    """The time as epoch milliseconds, rounded down."""
    return time.time_ns() // 1_000_000


def steady_ms() -> int:
    """Epoch milliseconds: what the wall clock said when the process began, and what has passed since. For how long
    something has waited, over restarts as well."""
    return (_BEGAN_NS + round(time.monotonic() * 1e9)) // 1_000_000


_BEGAN_NS = time.time_ns() - round(time.monotonic() * 1e9)
"""When the steady clock showed 0. To the nanosecond: two clocks rounded each by itself differ by one more."""
