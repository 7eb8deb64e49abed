"""Throws: the same ones for ever, in their bounds and shares."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from agent.simulation.generator.seeded_random import SeededRandom, weighted_choice_at


def test_what_was_thrown_once_is_thrown_for_ever() -> None:
    dice = SeededRandom(1, "orders")
    assert [dice.integer(0, 999) for _ in range(6)] == [345, 271, 388, 205, 270, 573]
    assert dice.bytes(3).hex() == "b7bd5f"


@given(st.integers(), st.text(max_size=5), st.integers(-9, 9), st.integers(0, 50))
def test_bounds(seed: int, name: str, least: int, more: int) -> None:
    dice = SeededRandom(seed, name.encode("utf-8", "replace").decode())
    assert least <= dice.integer(least, least + more) <= least + more
    small = 1 + abs(least)
    assert small <= dice.pareto_integer(small, small + more) <= small + more


def test_twice_as_large_is_half_as_frequent() -> None:
    dice = SeededRandom(0)
    thrown = [dice.pareto_integer(1, 99) for _ in range(4_000)]
    shares = [sum(it >= least for it in thrown) / 4_000 for least in (2, 4, 8)]
    assert shares[0] > 0.45
    assert all(0.4 < second / first < 0.6 for first, second in pairwise(shares))
    assert max(thrown) > 50
    assert Counter(dice.chance(0.2) for _ in range(4_000))[True] / 4_000 > 0.17
    assert {dice.pareto_integer(7, 7) for _ in range(9)} == {7}


def test_seeds_that_join_to_one_text_differ() -> None:
    assert SeededRandom(1, 23).bytes(8) != SeededRandom(12, 3).bytes(8)


def test_weights() -> None:
    assert [weighted_choice_at({"a": 1, "none": 0, "b": 3}, share) for share in (0, 0.249, 0.25, 0.999)] == [
        "a",
        "a",
        "b",
        "b",
    ]
    dice = SeededRandom(5)
    counts = Counter(dice.weighted_choice({"a": 1, "b": 3}) for _ in range(4_000))
    assert 0.7 < counts["b"] / 4_000 < 0.8


def test_rounding_leads_to_the_last_one_that_has_weight() -> None:
    assert weighted_choice_at({"a": 0.1, "b": 0.2, "none": 0}, 1.0) == "b"
