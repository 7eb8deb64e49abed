"""The wall clock. The core knows none: what it needs of time is handed to it."""

from __future__ import annotations

import time


def now_ms() -> int:
    """The time as epoch milliseconds, rounded down."""
    return time.time_ns() // 1_000_000
