"""Numbers as the page shows them."""

from __future__ import annotations

import pytest

from agent.history.report.page import words as w
from agent.history.report.page.markup import first_of
from agent.history.report.spans import Range, halves, has_whole_hours, starts, step_of

HOUR, DAY = 3_600_000, 86_400_000


@pytest.mark.parametrize(
    ("value", "shown"),
    [(None, None), (0, "0"), (0.001, "<0.01"), (-0.001, ">\N{MINUS SIGN}0.01"), (0.042, "0.04"), (3.0000001, "3.0"),
     (51.26, "51.3"), (12_345.6, "12,346"), (-1.5, "\N{MINUS SIGN}1.5")],
)  # fmt: skip
def test_decimals(value: float | None, shown: str | None) -> None:
    assert w.decimal(value) == shown


def test_what_is_counted() -> None:
    assert [w.count(it, "group") for it in (0, 1, 1_234)] == ["0 groups", "1 group", "1,234 groups"]
    assert [first_of(*it, "group") for it in ((1, 1), (2, 2), (2, 1_234))] == [
        "The only group",
        "All 2 groups",
        "The first 2 of 1,234 groups",
    ]


@pytest.mark.parametrize(
    ("ms", "shown"),
    [(None, None), (0, "0"), (320, "320 ms"), (4_800_000, "1 h 20 min"),
     (-2_000, "\N{MINUS SIGN}2.0 s"), (0.2, "0 ms"),
     (1_234_000 * DAY / 1000, "1,234 d"), (5_000_000 * DAY, "5,000,000 d")],
)  # fmt: skip
def test_times(ms: float | None, shown: str | None) -> None:
    assert w.time(ms) == shown


@pytest.mark.parametrize(
    ("some", "of_all", "shown"),
    [(None, 1, None), (1, None, None), (1, 0, None), (0, 5, "0 %"), (5, 5, "100 %"), (9_999, 10_000, ">99.9 %"),
     (1, 10_000, "<0.1 %"), (1, 3, "33 %"), (996, 1000, "99.6 %")],
)  # fmt: skip
def test_parts(some: float | None, of_all: float | None, shown: str | None) -> None:
    assert w.part(some, of_all) == shown


@pytest.mark.parametrize(
    ("before", "after", "shown"),
    [(None, 1, None), (1, None, None), (0, 0, "0 %"), (0, 3, "from 0"), (4, 1, "\N{MINUS SIGN}75 %"), (4, 5, "+25 %"),
     (4, 4, "0 %"), (1, 40, "40 times as much"), (4, 0, "\N{MINUS SIGN}100 %")],
)  # fmt: skip
def test_changes(before: float | None, after: float | None, shown: str | None) -> None:
    assert w.changed(before, after) == shown


def test_ratios() -> None:
    assert [w.ratio(it) for it in (None, 0, 1.256, -0.001, -1.5)] == [None, "0", "1.26", "0", "\N{MINUS SIGN}1.50"]


def test_signs() -> None:
    assert [w.signed(it) for it in (None, "0", "3", "\N{MINUS SIGN}3")] == [None, "0", "+3", "\N{MINUS SIGN}3"]


def test_steps_follow_a_clock() -> None:
    # 2026-10-24 22:00 UTC: the day has 25 hours in Berlin, and one of them comes twice.
    begin = 1_792_879_200_000
    day = Range(begin, begin + 25 * HOUR)
    assert step_of(day) == "hour"
    assert len(starts(day, "Europe/Berlin", "hour")) == 24
    assert (
        starts(day, "Europe/Berlin", "day")
        == ["2026-10-25", "2026-10-26"][: len(starts(day, "Europe/Berlin", "day"))]
    )
    assert step_of(Range(0, 3 * DAY)) == "day"


def test_hours_between_hours() -> None:
    day = Range(0, DAY)
    assert has_whole_hours(day, "Europe/Berlin")
    assert not has_whole_hours(day, "Asia/Kolkata")


def test_halves() -> None:
    assert halves(Range(0, 5 * DAY)) == (Range(0, 2 * DAY), Range(3 * DAY, 5 * DAY))
    assert halves(Range(0, 2 * DAY - 1)) is None
