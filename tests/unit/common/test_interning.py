"""Equal values as one object, and not more of them than may be."""

from __future__ import annotations

from agent.common.interning import Interner, share_equal


def of(number: int) -> tuple[int, ...]:
    """An object of its own each time."""
    return (number,)


def test_what_is_equal_is_one_object() -> None:
    one: Interner[tuple[int, ...]] = Interner(10)
    first = one[of(1)]
    assert one[of(1)] is first
    assert one[of(2)] == (2,)


def test_it_begins_anew_when_it_is_full() -> None:
    one: Interner[tuple[int, ...]] = Interner(2)
    first, _ = one[of(1)], one[of(2)]
    assert one[of(3)] == (3,)
    assert one[of(1)] is not first


def test_equal_values_of_a_list_are_one_object() -> None:
    values = [int(text) for text in ("1000", "2000", "1000", "1000")]
    assert values[0] is not values[2]
    shared = share_equal(values)
    assert shared == values
    assert shared[0] is shared[2] is shared[3]
