"""Numbers, times and names as people say them."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.presentation.narrative import words as w


@pytest.mark.parametrize(
    ("ms", "said"),
    [
        (0, "0 ms"),  # 1
        (999, "999 ms"),  # 2
        (1_000, "1.0 s"),  # 3
        (7_606, "7.6 s"),  # 4
        (59_949, "59.9 s"),  # 5: below the next
        (59_950, "1 min"),  # 6: and no 60.0 s
        (125_000, "2 min 5 s"),  # 7
        (3_599_499, "59 min 59 s"),  # 8
        (3_599_500, "1 h"),  # 9: and no 60 min
        (4_320_000, "1 h 12 min"),  # 10
        (86_399_999, "1 d"),  # 11
        (100 * 3_600_000, "4 d 4 h"),  # 12
        (400 * 86_400_000, "400 d"),  # 13
        (-30, "-30 ms"),  # 14: clocks may go back
    ],
)
def test_durations(ms: int, said: str) -> None:
    assert w.duration(ms) == said


@given(st.integers(0, 10**13))
def test_a_duration_is_near_what_it_says(ms: int) -> None:
    units = {"ms": 1, "s": 1e3, "min": 6e4, "h": 3.6e6, "d": 8.64e7}
    parts = w.duration(ms).split()
    said = sum(float(number) * units[unit] for number, unit in zip(parts[::2], parts[1::2], strict=True))
    assert said == pytest.approx(ms, rel=0.06, abs=1)
    assert len(parts) <= 4


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ([6_000], "6.0 s"),  # 1
        ([6_000, 7_606], "6.0 to 7.6 s"),  # 2
        ([6_000, 6_004], "6.0 s"),  # 3: the same as it is said
        ([79, 1_400], "79 ms to 1.4 s"),  # 4
        ([61_000, 125_000], "1 min 1 s to 2 min 5 s"),  # 5
    ],
)
def test_ranges(values: list[int], said: str) -> None:
    assert w.duration_range(values) == said


def test_numbers_and_lists() -> None:
    assert [w.count(n, "member") for n in (0, 1, 2)] == ["no members", "1 member", "2 members"]
    assert [w.times(n) for n in (1, 2, 3)] == ["once", "twice", "3 times"]
    assert [w.percent(it) for it in (0, 0.0004, 0.004, 0.0994, 0.1, 1.5)] == [
        "0 %",
        "less than 0.1 %",
        "0.4 %",
        "10 %",
        "10 %",
        "150 %",
    ]
    assert [w.certainty_percent(it) for it in (0.5, 0.65, 0.87, 0.9, 0.999)] == [
        *("a guess, 50 %", "likely, 65 %", "likely, 87 %", "very likely, 90 %", "very likely, 99 %")
    ]
    assert [w.certainty(it) for it in (1.0, 0.999, -1.0)] == ["certain", "very likely", "a guess"]
    assert w.percent_range([0.94, 0.971, 0.94]) == "94 to 97 %"
    assert [w.join_words(list("abcdef"[:n])) for n in (1, 2, 4, 6)] == [
        "a",
        "a and b",
        "a, b, c and d",
        "a, b, c and 3 more",
    ]
    assert w.join_counted("abacab") == "a (3), b (2) and c"
    assert [w.sentence(it) for it in ("a", "a. ", "a!")] == ["a.", "a.", "a!"]
    assert w.capitalized("at once") == "At once"
    assert [w.first_sentence(it) for it in ("", "a", "a. b. c.", "a.b")] == ["", "a.", "a.", "a.b."]


def test_a_long_name_is_cut() -> None:
    assert w.name("orders") == "`orders`"
    assert w.name("x" * 32_767) == f"`{'x' * (w.MAX_NAME - 1)}…`"


@given(st.datetimes(min_value=datetime(1, 1, 1), max_value=datetime(9999, 12, 31)))  # noqa: DTZ001  # UTC below
def test_dates_are_those_of_the_calendar(moment: datetime) -> None:
    at_ms = round(moment.replace(tzinfo=UTC, microsecond=0).timestamp() * 1000)
    assert w.timestamp(at_ms) == moment.isoformat(" ", "seconds")


def test_any_integer_has_a_date() -> None:
    for at_ms in (-1, -(2**63), 2**63 - 1):
        assert w.timestamp(at_ms)


def test_the_date_is_said_where_it_takes_one() -> None:
    one, two = w.Calendar(0, 86_399_999), w.Calendar(0, 86_400_000)
    assert (one.day, one.at(1_000), one.at(86_400_000)) == ("1970-01-01", "00:00:01", "1970-01-02 00:00:00")
    assert (two.day, two.at(1_000)) == (None, "1970-01-01 00:00:01")
