"""Memory that was freed, and is the process's still."""

from __future__ import annotations

import ctypes

_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3
_USUAL_MMAP_THRESHOLD, _MOST_MMAP_THRESHOLD = 4 << 20, 32 << 20
"""M_TRIM_THRESHOLD and M_MMAP_THRESHOLD of malloc.h, and of the second the most that it may be, and what is set once
it was more: glibc, which begins with 128 KB, raises it to the size of what is freed only until it is told one."""


def return_freed_memory() -> None:
    """Give the system back what is free.

    glibc keeps it, in a heap of each thread, as long as anything behind it is in use: of an agent that has read its
    topic that was a fifth of all. It takes 0.05 s of CPU for each GB. Where the C library has no such function,
    nothing happens.
    """
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)


def keep_freed_memory(size: int | None = None) -> None:
    """Have glibc keep what is freed, of each thread up to `size` bytes, and use it again; None: as much as it does by
    itself where blocks of some MB were freed.

    Where blocks of some MB come and go all the time, as a broker's answers do, each is else a fault for each of its
    pages: 0.1 s of CPU for each GB. What is kept for long is memory that nobody uses.
    """
    set_option = getattr(ctypes.CDLL(None), "mallopt", None)
    if set_option is not None:
        mmap_threshold = _USUAL_MMAP_THRESHOLD if size is None else min(size, _MOST_MMAP_THRESHOLD)
        set_option(_MMAP_THRESHOLD, mmap_threshold)
        set_option(_TRIM_THRESHOLD, 2 * mmap_threshold if size is None else size)  # twice, as it sets itself
