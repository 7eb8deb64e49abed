"""Python's collector of cycles, left out for a while."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Iterator

import pytest

from agent.common import collector
from agent.common.collector import collector_paused, no_cycle_collection


@pytest.fixture(autouse=True)
def _nothing_left_out(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    was_some_left_out = gc.get_freeze_count() > 0
    monkeypatch.setattr(collector, "_is_own_process", False)
    gc.unfreeze()
    yield
    gc.unfreeze()
    if was_some_left_out:
        gc.freeze()


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


def test_in_a_process_that_is_all_ours_it_is_never_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(collector, "_is_own_process", True)
    with no_cycle_collection():
        made = [[number] for number in range(1_000)]
    assert gc.get_freeze_count() >= len(made)


def test_a_pause_ends_whatever_happens_in_it() -> None:
    with collector_paused():
        assert not gc.isenabled()
    assert gc.isenabled()
    with pytest.raises(ZeroDivisionError), collector_paused():
        1 / 0  # noqa: B018
    assert gc.isenabled()
    with no_cycle_collection():
        with collector_paused():
            pass
        assert not gc.isenabled(), "the outer one has not ended"


class Cycle:
    itself: Cycle
