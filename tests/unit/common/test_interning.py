"""Equal values as one object, and not more of them than may be."""

from __future__ import annotations

from agent.common.interning import Interner


def of(number: int) -> tuple[int, ...]:
    """An object of its own each time."""
    return (number,)


def test_what_is_equal_is_one_object() -> None:
    one = Interner(10)
    first = one(of(1))
    assert one(of(1)) is first
    assert one(of(2)) == (2,)


def test_it_begins_anew_when_it_is_full() -> None:
    one = Interner(2)
    first, _ = one(of(1)), one(of(2))
    assert one(of(3)) == (3,)
    assert one(of(1)) is not first
