"""Parts of queries, by themselves."""

from __future__ import annotations

import pytest

from agent.history.engine import database
from agent.history.report.queries.views import summed_stopped


@pytest.mark.parametrize(
    ("hours", "stopped"),
    [
        ("(0, 0, 0), (2, NULL, 2)", None),  # a KIP-848 group: of no rebalance it is known
        ("(0, 0, 0), (2, NULL, 2), (1, 500, 0)", 500),
        ("(3, 700, 1)", 700),
        ("(0, 0, 0)", 0),
    ],
)
def test_stopped_time_of_which_nothing_is_known_is_null(hours: str, stopped: int | None) -> None:
    with database() as db:
        table = f"(VALUES {hours}) AS hours(rebalances, stopped_partition_ms, stopped_unknown)"
        assert db.sql(f"SELECT {summed_stopped()} FROM {table}").fetchall() == [(stopped,)]
