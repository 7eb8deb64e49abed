"""Which days are rolled up."""

from __future__ import annotations

import pytest

from agent.common.units import DAY_MS
from agent.history.errors import HistoryError
from agent.history.rolling import Range, range_of

T0 = 20_640 * DAY_MS
"""2026-07-06."""


@pytest.mark.parametrize(
    ("since", "until", "said"),
    [
        ("2026-07-09", "2026-07-06", "a first day before the last expected, 2026-07-09 and 2026-07-06 came"),
        ("2026-08-01", "2026-08-02", "days from 2026-07-06 to 2026-07-09 expected: .* 2026-08-01 to 2026-08-02 came"),
    ],
)
def test_days_without_events(since: str, until: str, said: str) -> None:
    with pytest.raises(HistoryError, match=said):
        range_of(since, until, T0, T0 + 3 * DAY_MS)


def test_the_range_is_that_of_the_events() -> None:
    assert range_of(None, None, T0 + 5, T0 + DAY_MS + 7) == Range(T0, T0 + 2 * DAY_MS, T0 + DAY_MS + 7)
