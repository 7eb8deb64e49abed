"""Python's collector of cycles, left out where much is made and nothing is dropped."""

from __future__ import annotations

import atexit
import gc
from collections.abc import Iterator
from contextlib import contextmanager

_is_own_process = False
"""Whether all objects of this process are ours. Elsewhere, in a notebook say, they may be anybody's."""


def relax_collector() -> None:
    """Let the collector of a process that is all ours look less often.

    Reading makes and drops millions of objects without a cycle among them; at Python's defaults looking for some
    took a third of the time to read 3 million records. Reference counting still frees everything at once. All threads
    stand still while it looks through what is new, so that is not too much either: 0.02 s of CPU, and 0.07 s where it
    looks through what was new the last two times as well.
    """
    global _is_own_process
    _is_own_process = True
    gc.freeze()
    # At the end the system takes all memory back: to look for cycles in it first took half a second of it.
    atexit.register(gc.freeze)
    gc.set_threshold(50_000, 2, 2_500)


@contextmanager
def collector_paused() -> Iterator[bool]:
    """Without looking for cycles meanwhile, in any thread: for what makes much, of which nothing is left at its end.
    Gives whether they were looked for before."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield was_enabled
    finally:
        if was_enabled:
            gc.enable()


@contextmanager
def no_cycle_collection() -> Iterator[None]:
    """Without looking for cycles, in any thread: reading 3 million records leaves some 600 objects in any.

    What was made meanwhile counts as old then, or all of it would be looked at as soon as this ends."""
    with collector_paused() as was_enabled:
        try:
            yield
        finally:
            if was_enabled:
                leave_out_what_is_there()


def leave_out_what_is_there() -> None:
    """Let the collector look less often at what there is now; this costs nothing.

    Not at all in a process that is all ours: to look at what an agent knows of 100,000 positions stops all of its
    threads for 0.8 s, and finds nothing. Elsewhere objects count as old.
    """
    gc.freeze()
    if not _is_own_process:
        gc.unfreeze()


def collect_all() -> None:
    """Look at all that there is, what is left out as well: once something large has ended that holds cycles. All
    threads stand still meanwhile."""
    gc.unfreeze()
    gc.collect()
    leave_out_what_is_there()
