"""Memory that was freed, and is the process's still."""

from __future__ import annotations

import ctypes


def return_freed_memory() -> None:
    """Give the system back what is free.

    glibc keeps it, in a heap of each thread, as long as anything behind it is in use: of an agent that has read its
    topic that was a fifth of all. It takes 0.05 s of CPU for each GB. Where the C library has no such function,
    nothing happens.
    """
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)
