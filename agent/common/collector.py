"""Python's collector of cycles, left out where much is made and nothing is dropped."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def no_cycle_collection() -> Iterator[None]:
    """Without looking for cycles, in any thread: reading 3 million records leaves some 600 objects in any.

    What was made meanwhile counts as old then, or all of it would be looked at as soon as this ends."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            leave_out_what_is_there()
            gc.enable()


def leave_out_what_is_there() -> None:
    """Let the collector look less often at what there is now.

    Not at all where the process has objects that are never looked at, as the command line has: to look at what an
    agent knows of 100,000 positions stops all of its threads for 0.8 s, and finds nothing. Elsewhere, where the
    objects may be anybody's, they count as old.
    """
    is_never_looked_at = gc.get_freeze_count() > 0
    gc.freeze()
    if not is_never_looked_at:
        gc.unfreeze()
