"""Which days are read."""

from __future__ import annotations

import pytest

from agent.history.days import Days, Reading, is_day, range_of_days, reading_of
from agent.history.errors import HistoryError
from agent.history.planning import days_asked, days_together
from agent.history.rolling import EARLIEST_MS, start_of

YEAR = [f"2026-{month:02d}-{day:02d}" for month in range(1, 13) for day in range(1, 29)]


@pytest.mark.parametrize(
    ("asked", "standings", "reads"),
    [
        # 1: it is known how groups stood: the day, and the one behind it
        (("2026-06-10", "2026-06-10"), ["2026-06-09"], (("2026-06-10", "2026-06-11"), None, "2026-06-09")),
        # 2: known of two days before: the day between as well
        (("2026-06-10", "2026-06-10"), ["2026-06-08"], (("2026-06-09", "2026-06-11"), None, "2026-06-08")),
        # 3: known of a while before: of what is between, what is carried
        (
            ("2026-06-10", "2026-06-12"),
            ["2026-06-01", "2026-05-01"],
            (("2026-06-09", "2026-06-13"), ("2026-06-02", "2026-06-08"), "2026-06-01"),
        ),
        # 4: known of later days alone, which is no use
        (
            ("2026-06-10", "2026-06-10"),
            ["2026-06-10"],
            (("2026-06-09", "2026-06-11"), ("2026-01-01", "2026-06-08"), None),
        ),
        # 5: from the first day on there is nothing before
        (("2026-01-01", "2026-12-28"), [], (("2026-01-01", "2026-12-29"), None, None)),
        # 6: one day is before, and it is read whole
        (("2026-01-02", "2026-01-02"), [], (("2026-01-01", "2026-01-03"), None, None)),
    ],
)
def test_what_is_read(
    asked: tuple[str, str], standings: list[str], reads: tuple[tuple[str, str], tuple[str, str] | None, str | None]
) -> None:
    whole, carried, standing = reads
    expected = Reading(Days(*whole), None if carried is None else Days(*carried), standing)
    assert reading_of(Days(*asked), YEAR, standings) == expected


def test_a_day_in_which_nothing_happened_is_one_where_events_came_before() -> None:
    clocks = {"here": start_of("2027-01-03") + 1, "gone": start_of("2010-01-01"), "wrong": 0}
    assert days_asked(None, None, YEAR, clocks) == Days("2026-01-01", "2027-01-03")
    assert days_asked("2027-01-02", None, YEAR, clocks) == Days("2027-01-02", "2027-01-03")


def test_the_days_are_those_there_are() -> None:
    assert range_of_days(None, None, YEAR) == Days("2026-01-01", "2026-12-28")
    assert range_of_days("2026-03-01", None, YEAR) == Days("2026-03-01", "2026-12-28")


@pytest.mark.parametrize(
    ("since", "until", "said"),
    [
        ("2026-07-09", "2026-07-06", "expected a first day before the last, got 2026-07-09 and 2026-07-06"),
        ("2027-08-01", None, "expected days from 2026-01-01 to 2026-12-28, .* got 2027-08-01$"),
        (None, "2025-08-01", "expected days from 2026-01-01 to 2026-12-28, .* got 2025-08-01$"),
        (
            "2027-08-01",
            "2027-08-02",
            "expected days from 2026-01-01 to 2026-12-28, .* got 2027-08-01 to 2027-08-02",
        ),
    ],
)
def test_days_without_events(since: str | None, until: str | None, said: str) -> None:
    with pytest.raises(HistoryError, match=said):
        range_of_days(since, until, YEAR)


@pytest.mark.parametrize("text", ["1970-01-01", "2009-12-31", "__HIVE_DEFAULT_PARTITION__", "2026-1-1", "2026-02-30"])
def test_what_is_no_day(text: str) -> None:
    assert not is_day(text)


def test_days_are_of_utc() -> None:
    assert is_day("2026-11-21")
    assert start_of("1970-01-02") == 86_400_000
    assert Days("2026-06-10", "2026-06-11").of(YEAR) == ["2026-06-10", "2026-06-11"]


@pytest.mark.parametrize(
    ("since", "until", "first"),
    [
        # 1: what is more than a year before all others has a wrong date, and is not carried along either
        (None, None, "2026-01-01"),
        ("2026-03-01", None, "2026-01-01"),
        (None, "2026-03-01", "2026-01-01"),
        # 2: unless it is asked for
        ("2010-01-01", None, "2010-01-01"),
        (None, "2015-01-01", "2010-01-01"),
    ],
)
def test_days_together(since: str | None, until: str | None, first: str) -> None:
    assert days_together(["2010-01-01", *YEAR], since, until)[0][0] == first


def test_a_year_without_an_event_is_a_history() -> None:
    dates = ["2025-01-02", "2026-01-03"]
    assert days_together(dates, None, None) == (dates, EARLIEST_MS)
    assert days_together(["2025-01-01", *dates[1:]], None, None) == (dates[1:], start_of(dates[1]))
    assert days_together([], None, None) == ([], EARLIEST_MS)
