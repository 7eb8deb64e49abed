"""Events of anyone's are looked at before they are told of."""

from __future__ import annotations

from typing import Any

import pytest

from agent.presentation.narrative.events import events_within, is_story_event
from tests.unit.presentation.narrative import made as m
from tests.unit.presentation.narrative.golden import histories
from tests.unit.presentation.narrative.made import T0

REBALANCE = m.rebalance(1, joined=[m.member("a")], left=[m.gone("b", "member_left")], evidence=[{}])

# 1-15: what no event is.
OTHERS: list[Any] = [
    None,  # 1
    {},  # 2
    {**REBALANCE, "at_ms": "now"},  # 3
    {**REBALANCE, "group": None},  # 4: only findings are the cluster's
    {**REBALANCE, "joined": [{"client_id": "a"}]},  # 5
    {**REBALANCE, "joined": ["a"]},  # 6
    {**REBALANCE, "left": [m.member("b")]},  # 7: how it went is missing
    {**REBALANCE, "evidence": ["x"]},  # 8
    {**REBALANCE, "causes": [1]},  # 9
    {**REBALANCE, "stopped_partition_ms": 1.5},  # 10
    m.event("member_joined", generation=1, member=None),  # 11
    m.event("member_joined", generation=1, member={**m.member("a"), "client_host": None}),  # 12
    m.event("static_member_replaced", generation=1, old_member={}, member=m.member("a")),  # 13
    m.event("offsets_deleted", topic="t"),  # 14
    {**m.finding(), "numbers": None},  # 15
]


@pytest.mark.parametrize("other", OTHERS)
def test_others(other: Any) -> None:
    assert not is_story_event(other)


def test_events() -> None:
    for told in histories().values():
        assert all(map(is_story_event, told.events))
    assert is_story_event(REBALANCE)
    assert is_story_event(m.finding(group=None, group_type=None))
    assert is_story_event(m.event("news", more={"a": 1})), "a later version may have more types"


def test_within() -> None:
    events = [m.event("group_deleted", T0 + at) for at in range(3)]
    assert events_within(events, T0 + 1, T0 + 1) == events[1:2]
    assert events_within(events, None, None) == events
