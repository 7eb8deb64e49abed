"""Timers over virtual time."""

from __future__ import annotations

from collections.abc import Iterator

from agent.simulation.groups.timers import Timers


def fired(timers: Timers, until: int) -> Iterator[tuple[object, int]]:
    while (timer := timers.pop(until)) is not None:
        yield timer


def test_they_fire_in_order_of_time_and_then_of_setting() -> None:
    timers = Timers()
    for key, due in (("a", 5), ("b", 3), ("c", 5), ("d", 9)):
        timers.set(key, due)
    assert timers.due == 3
    assert list(fired(timers, 5)) == [("b", 3), ("a", 5), ("c", 5)]
    assert (timers.due, dict(timers.items())) == (9, {"d": 9})


def test_one_that_is_put_off_fires_once_and_keeps_its_place() -> None:
    timers = Timers()
    timers.set("a", 1)
    timers.set("b", 7)
    for due in (5, 7, 6, 7):
        timers.set("a", due)
    assert timers.due_of("a") == 7
    assert list(fired(timers, 6)) == []
    assert list(fired(timers, 9)) == [("a", 7), ("b", 7)]
    # Anew it is the last.
    timers.set("b", 8)
    timers.set("a", 8)
    assert list(fired(timers, 8)) == [("b", 8), ("a", 8)]


def test_one_that_is_cancelled_never_fires() -> None:
    timers = Timers()
    timers.set("a", 1)
    timers.cancel("a")
    timers.cancel("nobody")
    assert (timers.due, timers.due_of("a"), timers.pop(9)) == (None, None, None)


def test_putting_off_does_not_pile_up() -> None:
    timers = Timers()
    for due in range(1_000):
        timers.set("a", due)
        timers.set("b", due + 1)
    assert len(timers._heap) < 30
    assert list(fired(timers, 2_000)) == [("a", 999), ("b", 1_000)]
