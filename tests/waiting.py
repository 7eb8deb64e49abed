"""Waiting for what will be so."""

from __future__ import annotations

import time
from collections.abc import Callable


def until(is_so: Callable[[], object], timeout_s: float = 60.0, said: Callable[[], object] | str = "") -> float:
    """Wait until it holds; how long that took, seconds. Raises `AssertionError` with what is said of it."""
    began = time.monotonic()
    while not is_so():
        if time.monotonic() - began > timeout_s:
            raise AssertionError(f"not within {timeout_s:g} s: {said if isinstance(said, str) else said()}")
        time.sleep(0.05)
    return time.monotonic() - began
