"""Which findings are open, and which were."""

from __future__ import annotations

from agent.presentation.narrative.findings import select_findings
from tests.unit.presentation.narrative import made as m
from tests.unit.presentation.narrative.made import MINUTE, T0

EVENTS = [
    m.finding("idle_members", T0),  # 0: open to the end
    m.finding("rebalance_storm", T0 + MINUTE),  # 1: becomes 3
    m.finding("rebalance_storm", T0 + MINUTE, group="other"),  # 2: resolved by 5
    m.finding("rebalance_storm", T0 + 2 * MINUTE, since_ms=T0 + MINUTE, severity="critical"),  # 3
    m.finding("coordinator_hotspot", T0 + 3 * MINUTE, group=None),  # 4: of the cluster
    m.finding("rebalance_storm", T0 + 4 * MINUTE, since_ms=T0 + MINUTE, group="other", state="resolved"),  # 5
    m.finding("rebalance_storm", T0 + 9 * MINUTE, group="other"),  # 6: the same anew
    m.event("group_deleted"),
]


def at(since: int | None, until: int | None, group: str | None = None) -> list[int]:
    """The places in EVENTS of what is answered; times in minutes after T0."""
    since, until = (None if it is None else T0 + it * MINUTE for it in (since, until))
    return [EVENTS.index(event) for event in select_findings(EVENTS, since, until, group)]


def test_open_at_the_end() -> None:
    assert at(None, None) == [0, 3, 4, 6]
    assert at(None, None, "g") == [0, 3]
    assert at(None, None, "nobody") == []


def test_open_in_a_range() -> None:
    assert at(0, 0) == [0]
    assert at(None, 1) == [0, 1, 2], "as they were then"
    assert at(1, 3) == [0, 3, 2, 4]
    assert at(4, 5) == [0, 3, 5, 4], "resolved as the range began"
    assert at(5, 8) == [0, 3, 4], "resolved before it"
    assert at(5, None) == [0, 3, 4, 6]
    assert at(0, 20, "other") == [5, 6]


def test_of_two_clusters() -> None:
    both = [{**EVENTS[0], "cluster": name} for name in ("east", "west")]
    assert select_findings(both, None, None) == both
