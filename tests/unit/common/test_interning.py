"""Equal values as one object, and not more of them than may be."""

from __future__ import annotations

from agent.common.interning import Interner, are_short, remembered, share_equal


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


def test_what_is_not_to_be_kept_is_itself() -> None:
    one: Interner[str] = Interner(10, are_short)
    long_name = "x" * 30_000
    assert one[long_name] is long_name
    assert one["x"] == "x"
    assert [*one] == ["x"]


def test_answers_to_long_names_are_given_and_not_remembered() -> None:
    asked: list[str] = []

    @remembered(10)
    def length(first: str, second: str = "") -> int:
        asked.append(first)
        return len(first) + len(second)

    assert [length("ab"), length("ab"), length("ab", "c")] == [2, 2, 3]
    assert [length("x" * 200, "y" * 200), length("x" * 200, "y" * 200)] == [400, 400]
    assert asked == ["ab", "ab", "x" * 200, "x" * 200]
