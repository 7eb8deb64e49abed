"""Python's collector of cycles, left out for a while."""

from __future__ import annotations

import gc
import weakref

from agent.common.collector import no_cycle_collection


def test_what_was_made_meanwhile_is_not_looked_at_as_new() -> None:
    with no_cycle_collection():
        assert not gc.isenabled()
        made = [[number] for number in range(3)]
    assert gc.isenabled()
    young = {id(it) for it in gc.get_objects(generation=0)}
    assert not young & set(map(id, made))


def test_cycles_that_were_made_meanwhile_are_still_found() -> None:
    with no_cycle_collection():
        cycle = Cycle()
        cycle.itself, seen = cycle, weakref.ref(cycle)
        del cycle
    gc.collect()
    assert seen() is None


class Cycle:
    itself: Cycle
