"""Static members of classic groups: replaced without a rebalance, and when it is one. Against Kafka 4.3.

Names in capitals are static.
"""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from agent.simulation.groups.messages import (
    HeartbeatRequest,
    JoinGroupRequest,
    LeaveGroupRequest,
    LeavingMember,
    RebalancePrepared,
    RebalanceReason,
    SupportedProtocol,
    SyncGroupRequest,
)
from tests.unit.simulation.groups.driving import AT_ONCE, Driven, stable

S = 1000


def back(group: Driven, who: str, at: int, **changes: Any) -> Any:
    """Comes back without its member id, as another process: `who` + "2"."""
    again = f"{who}2"
    group.settings[again] = dict(group.settings[who])
    return group.join(again, at, **changes)


def test_a_restart_inside_the_session_timeout_is_no_rebalance() -> None:
    group = stable("a", "B")
    writes = len(group.images)
    answer = back(group, "B", 5 * S, session=8 * S, metadata="wants u")
    assert (answer.error, answer.generation, answer.leader) == ("NONE", 2, group.ids["a"])
    assert (answer.members, answer.skip_assignment) == ((), False)
    assert group.ids["B2"] != group.ids["B"]
    assert group.state == "Stable"
    # Its first deadline goes by what the old one had asked for; it is in force from the next heartbeat on.
    assert group.deadline("B2") == 15 * S
    assert group.deadline("B") is None
    assert group.removed() == [("B", 5 * S, RebalanceReason.STATIC_REPLACED)]
    # The new id, with the old assignment and the new subscription, is written.
    (image,) = group.images[writes:]
    assert (image.at_ms, image.generation, image.state, image.state_since_ms) == (5 * S, 2, "Stable", 0)
    member = image.members[-1]
    assert (member.member_id, member.instance_id, member.assignment) == (group.ids["B2"], "B", "B's")
    assert (member.session_timeout_ms, member.metadata) == (8 * S, "wants u")
    assert group.sync("B2", 6 * S).assignment == "B's"
    assert group.deadline("B2") == 14 * S


def test_a_leader_that_comes_back_leads_on_and_assigns_nothing() -> None:
    group = stable("A", "b")
    answer = back(group, "A", 5 * S)
    assert (answer.leader, answer.skip_assignment) == (group.ids["A2"], True)
    assert {member_id for member_id, _, _ in answer.members} == {group.ids["A2"], group.ids["b"]}
    assert group.images[-1].leader == group.ids["A2"]
    assert group.sync("A2", 6 * S).assignment == "A's"
    assert group.state == "Stable"


def test_what_a_client_says_of_itself_stays_as_it_was() -> None:
    group = stable("a", "B")
    request = JoinGroupRequest(
        "g", 10 * S, 60 * S, "", "consumer", (SupportedProtocol("range", ""),), "B", "other", "/10.0.0.9"
    )
    answer = group.ask("B", request, 1)
    member = group.group.members[answer.member_id]
    assert (member.request.client_id, member.request.client_host) == ("B", "/127.0.0.1")


def test_the_former_id_is_fenced() -> None:
    group = stable("a", "B")
    back(group, "B", 1)
    old = group.ids["B"]
    assert group.ask("x", HeartbeatRequest("g", 2, old, "B"), 2).error == "FENCED_INSTANCE_ID"
    assert group.ask("x", SyncGroupRequest("g", 2, old, "B"), 2).error == "FENCED_INSTANCE_ID"
    assert group.ask("x", LeaveGroupRequest("g", (LeavingMember(old, "B"),)), 2).members == ("FENCED_INSTANCE_ID",)
    assert group.join("x", 2, member_id=old, instance_id="B").error == "FENCED_INSTANCE_ID"


def test_two_processes_with_one_static_id_fence_each_other_while_they_join() -> None:
    group = stable("a", "B")
    group.join("B", 1, metadata="new")
    assert group.state == "PreparingRebalance"
    assert back(group, "B", 2) is None
    assert [(it.error, it.member_id) for it in group.answers["B"]] == [("FENCED_INSTANCE_ID", group.ids["B"])]
    group.join("a", 3)
    assert group.joined("B2").generation == 3
    assert len(group.group.members) == 2


def test_replaced_while_assignments_are_awaited() -> None:
    group = Driven()
    group.join("a", 0)
    group.admit("B", 0, "a", instance_id="B")
    group.sync("B", 1)
    assert back(group, "B", 2) is None
    assert group.answers["B"][-1].error == "FENCED_INSTANCE_ID"
    # The leader was told of the former id: a new generation is needed.
    assert (group.state, group.of(RebalancePrepared)[-1].reason) == (
        "PreparingRebalance",
        RebalanceReason.STATIC_REPLACED,
    )
    group.join("a", 3)
    assert group.joined("B2").generation == 3


def test_replaced_while_the_first_rebalance_waits() -> None:
    group = Driven(replace(AT_ONCE, initial_rebalance_delay_ms=3 * S))
    group.join("B", 0, instance_id="B")
    group.ids["B"] = next(iter(group.group.members))
    back(group, "B", 1 * S)
    assert group.answers["B"][-1].error == "FENCED_INSTANCE_ID"
    group.until(3 * S)
    assert group.joined("B2").generation == 1
    assert list(group.group.members) == [group.ids["B2"]]


def test_a_replacement_that_ends_the_join_phase() -> None:
    group = stable("a", "B")
    group.join("a", 1)
    assert group.state == "PreparingRebalance"
    back(group, "B", 2)
    assert group.joined("B2").generation == 3
    assert group.state == "CompletingRebalance"


def test_a_change_of_protocol_is_a_rebalance() -> None:
    group = Driven()
    group.join("a", 0, offers=("range", "sticky"))
    group.admit("B", 0, "a", instance_id="B", offers=("range", "sticky"))
    group.settle(0, "a", "B")
    assert back(group, "B", 1, offers=("sticky",)) is None
    assert group.state == "PreparingRebalance"
    group.join("a", 2)
    assert group.joined("B2").protocol == "sticky"


def test_who_is_replaced_before_it_synced_is_waited_for_all_the_same() -> None:
    group = Driven()
    group.join("a", 0)
    group.admit("B", 0, "a", instance_id="B")
    group.sync("a", 1 * S, {"a": "a's", "B": "B's"})
    assert group.state == "Stable"
    assert back(group, "B", 2 * S).error == "NONE"
    assert group.sync("B2", 3 * S).assignment == "B's"
    for second in range(4, 60, 5):
        assert (group.beat("a", second * S), group.beat("B2", second * S)) == ("NONE", "NONE")
    # The broker awaits a SyncGroup of the id that is gone: nobody is dropped for it, but a rebalance begins.
    group.until(60 * S)
    assert group.removed() == [("B", 2 * S, RebalanceReason.STATIC_REPLACED)]
    assert (group.state, group.of(RebalancePrepared)[-1].reason) == (
        "PreparingRebalance",
        RebalanceReason.SYNC_TIMEOUT,
    )
    assert group.of(RebalancePrepared)[-1].at_ms == 60 * S


# Who says that it leaves.


def rebalances(group: Driven, after: int) -> list[tuple[int, RebalanceReason]]:
    return [(it.at_ms, it.reason) for it in group.of(RebalancePrepared) if it.at_ms > after]


def test_a_static_members_leave_group_is_a_rebalance() -> None:
    group = stable("A", "B")
    assert group.leave(1 * S, "B").members == ("NONE",)
    assert rebalances(group, 0) == [(1 * S, RebalanceReason.MEMBER_LEFT)]
    # Its place is free: who comes with its id is new.
    group.join("A", 2 * S)
    group.joined("A")
    group.settle(2 * S, "A")
    back(group, "B", 3 * S)
    assert rebalances(group, 1 * S) == [(3 * S, RebalanceReason.MEMBER_JOINED)]
