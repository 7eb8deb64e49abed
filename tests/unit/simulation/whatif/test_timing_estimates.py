"""What the log shows of heartbeats and of the initial delay."""

from __future__ import annotations

import pytest

from agent.simulation.whatif.timing_estimates import estimate_heartbeat_ms, estimate_initial_delay_ms
from tests.unit.core.shadow import build as b
from tests.unit.simulation.whatif.made import History, shared_out

Waits = list[int]


def growing(waits: Waits, first_ms: int = 0) -> History:
    """A group that gets one more member with each rebalance, each so long after the one before."""
    history = History()
    at_ms = first_ms
    history.at(at_ms, *shared_out(["c0-1"], partitions=12))
    for number, wait in enumerate(waits, 1):
        at_ms += wait
        history.at(at_ms, *shared_out([f"c{it}-1" for it in range(number + 1)], partitions=12))
    return history


@pytest.mark.parametrize(
    ("waits", "told"),
    [
        pytest.param([3_000, 6_010, 9_005], 3_000, id="1: the default fits"),
        pytest.param([1_505, 4_510, 3_010, 1_500], 1_500, id="2: half of it"),
        pytest.param([1_505, 3_010], None, id="3: too few"),
        pytest.param([3_000, 6_000, 9_000, 6_000, 3_000, 4_000], 3_000, id="4: one in six may be off"),
        pytest.param([3_000, 6_000, 4_000, 7_100], None, id="5: half are off"),
        pytest.param([3_000, 6_000, 900_000], None, id="6: after long anything fits, so it tells nothing"),
        pytest.param([100, 200, 350, 120], None, id="7: nobody needed a heartbeat"),
    ],
)
def test_the_heartbeat_interval(waits: Waits, told: int | None) -> None:
    assert estimate_heartbeat_ms(growing(waits).recording()) == told


def test_what_is_waited_for_else_tells_nothing() -> None:
    history = History()
    for at_ms in (0, 3_000, 6_000, 9_000, 12_000):
        history.at(at_ms, *shared_out(["a-1"]))
    history.at(15_000)
    history.at(18_000, *shared_out(["a-2"]))
    assert estimate_heartbeat_ms(history.recording()) is None


@pytest.mark.parametrize(
    ("first_ms", "members", "told"),
    [
        pytest.param(80, 1, 0, id="1: at once"),
        pytest.param(80, 2, 0, id="2: at once, whoever came"),
        pytest.param(3_060, 1, 3_000, id="3: after the delay"),
        pytest.param(6_000, 2, 3_000, id="4: two delays of the default, not one of six seconds"),
        pytest.param(9_020, 4, 3_000, id="5: three"),
        pytest.param(2_030, 4, 1_000, id="6: twice one second"),
        pytest.param(-5_000, 1, None, id="7: not by the clocks of two coordinators"),
    ],
)
def test_the_initial_delay(first_ms: int, members: int, told: int | None) -> None:
    history = History()
    history.at(first_ms, *shared_out([f"c{it}-1" for it in range(members)]))
    assert estimate_initial_delay_ms(history.recording()) == told


def test_older_brokers_do_not_write_when_a_group_was_made() -> None:
    history = History(created=False, generation=3)
    history.at(0, *shared_out(["a-1"]))
    assert estimate_initial_delay_ms(history.recording()) is None
    assert estimate_initial_delay_ms(history.recording().between(None, b.T0 - 1)) is None
