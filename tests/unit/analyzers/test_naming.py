"""What findings' texts are made of."""

from __future__ import annotations

import pytest

from analyzers.formatting import (
    count_text,
    distinct_names,
    duration_text,
    list_text,
    names_text,
    round_up_to_seconds_ms,
    truncated,
)


@pytest.mark.parametrize(
    ("names", "text"),
    [
        (["a"], "a"),
        (["a", "b"], "a and b"),
        (["a", "b", "a", "c"], "a, b and c"),
        (["a", "b", "c", "d", "e"], "a, b, c and 2 more"),
    ],
)
def test_names_in_a_sentence(names: list[str], text: str) -> None:
    assert names_text(names) == text


def test_doubles_are_dropped_where_names_count_and_kept_where_things_do() -> None:
    names = ["a"] * 1_005
    assert (names_text(names), list_text(names), list_text(["a", "a"])) == ("a", "a, a, a and 1,002 more", "a and a")


def test_names_are_clipped_and_lists_short() -> None:
    assert truncated("x" * 64) == "x" * 64
    assert truncated("x" * 65) == "x" * 63 + "…"
    assert distinct_names(str(number) for number in range(9)) == ["0", "1", "2", "3", "4"]


@pytest.mark.parametrize(
    ("ms", "text"),
    [
        (800, "0.8 s"),
        (4_404, "4.4 s"),
        (45_000, "45 s"),
        (60_000, "1 min"),
        (5_400_000, "1.5 h"),
        (86_400_000, "24 h"),
        (259_200_000, "3 days"),
    ],
)
def test_durations(ms: int, text: str) -> None:
    assert duration_text(ms) == text


def test_numbers() -> None:
    assert (count_text(1, "member"), count_text(1_200, "member")) == ("1 member", "1,200 members")
    assert (round_up_to_seconds_ms(1), round_up_to_seconds_ms(5_000)) == (1_000, 5_000)
