"""SyncGroup, Heartbeat and LeaveGroup of classic groups, deletion, and the records written. Against Kafka 4.3."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from agent.simulation.groups.messages import (
    ClassicRequest,
    ErrorCode,
    GenerationStabilized,
    HeartbeatRequest,
    HeartbeatResponse,
    LeaveGroupRequest,
    LeaveGroupResponse,
    LeavingMember,
    RebalancePrepared,
    RebalanceReason,
    RecordAppended,
    SyncGroupRequest,
)
from tests.unit.simulation.groups.driving import AT_ONCE, Driven, stable

S = 1000


def completing(*who: str, at: int = 0, **settings: Any) -> Driven:
    """These have joined and nobody has synced."""
    group = Driven(replace(AT_ONCE, **settings))
    for number, name in enumerate(who):
        group.admit(name, at, *who[:number], instance_id=name if name.isupper() else None)
    assert group.state == "CompletingRebalance"
    return group


# SyncGroup.

# Number, why, changes of a SyncGroup that would do, error.
SYNCS: list[tuple[int, str, dict[str, Any], str]] = [
    (1, "a stranger", {"member_id": "x"}, "UNKNOWN_MEMBER_ID"),
    (2, "a static id that nobody has", {"instance_id": "i"}, "UNKNOWN_MEMBER_ID"),
    (3, "a static id that another has", {"instance_id": "B"}, "FENCED_INSTANCE_ID"),
    (4, "who it is counts before the generation", {"instance_id": "B", "generation": 1}, "FENCED_INSTANCE_ID"),
    (5, "an earlier generation", {"generation": 1}, "ILLEGAL_GENERATION"),
    (6, "a later generation, before the protocol", {"generation": 3, "protocol": "x"}, "ILLEGAL_GENERATION"),
    (7, "another type", {"protocol_type": "connect"}, "INCONSISTENT_GROUP_PROTOCOL"),
    (8, "another protocol", {"protocol_type": "consumer", "protocol": "x"}, "INCONSISTENT_GROUP_PROTOCOL"),
    (9, "nothing wrong", {"protocol_type": "consumer", "protocol": "range"}, "NONE"),
    (10, "no word of protocols, from before version 5", {}, "NONE"),
]


@pytest.mark.parametrize("row", SYNCS, ids=lambda row: f"{row[0]}-{row[1]}")
def test_what_a_sync_is_answered(row: tuple[int, str, dict[str, Any], str]) -> None:
    *_, changes, error = row
    group = stable("a", "B")
    asked = {"group": "g", "generation": 2, "member_id": group.ids["a"], **changes}
    answer = group.ask("a", SyncGroupRequest(**asked), 1)
    assert answer.error == error
    assert answer.assignment == ("a's" if error == "NONE" else ())


def test_syncs_wait_for_the_leader() -> None:
    group = completing("a", "b", "c")
    assert group.sync("b", 1) is None
    # Only what the leader brings counts.
    assert group.sync("c", 2, {"b": "wrong"}) is None
    answer = group.sync("a", 3, {"a": "a's", "b": "b's", "c": "c's"})
    assert (answer.error, answer.assignment, answer.protocol_type, answer.protocol) == (
        "NONE",
        "a's",
        "consumer",
        "range",
    )
    assert [group.answers[who][-1].assignment for who in "bc"] == ["b's", "c's"]
    assert (group.state, group.group.state_since_ms) == ("Stable", 3)


def test_whom_the_leader_forgets_has_nothing() -> None:
    group = completing("a", "b")
    group.sync("a", 1, {"a": "a's"})
    assert group.sync("b", 2).assignment == ()
    assert [it.assignment for it in group.images[-1].members] == ["a's", ()]


def test_a_sync_that_comes_again_takes_the_place_of_the_first() -> None:
    group = completing("a", "b")
    group.settings["b2"], group.ids["b2"] = group.settings["b"], group.ids["b"]
    group.sync("b", 1)
    group.sync("b2", 2)
    assert group.answers["b"][-1].error == "REBALANCE_IN_PROGRESS"
    group.sync("a", 3, {"b": "b's"})
    assert group.answers["b2"][-1].assignment == "b's"


def test_no_sync_while_a_rebalance_is_prepared() -> None:
    group = completing("a", "b")
    group.sync("b", 1)
    group.join("c", 2)
    assert group.answers["b"][-1].error == "REBALANCE_IN_PROGRESS"
    assert group.sync("b", 3).error == "REBALANCE_IN_PROGRESS"
    assert [member.assignment for member in group.group.members.values()] == [(), (), ()]


def test_no_sync_before_the_first_generation() -> None:
    group = Driven(replace(AT_ONCE, initial_rebalance_delay_ms=9))
    given = group.join("a", 0, goes_on=False).member_id
    group.ids["a"] = given
    assert group.sync("a", 1).error == "UNKNOWN_MEMBER_ID"
    group.join("a", 1)
    # There is no protocol yet that this one could differ from.
    assert group.sync("a", 2, generation=0, protocol="x").error == "REBALANCE_IN_PROGRESS"


def test_an_assignment_is_handed_out_once_it_is_written() -> None:
    group = completing("a", "b", replication_ms=5)
    group.sync("a", 1, {"a": "a's", "b": "b's"})
    assert [it.at_ms for it in group.images[1:]] == [1]
    group.sync("b", 3)
    group.until(5)
    assert group.state == "CompletingRebalance"
    group.until(6)
    assert [group.answers[who][-1].assignment for who in "ab"] == ["a's", "b's"]
    assert group.group.state_since_ms == 6


def test_of_two_assignments_the_first_to_be_written_is_handed_out() -> None:
    group = completing("a", replication_ms=5)
    group.sync("a", 1, {"a": "first"})
    group.sync("a", 3, {"a": "second"})
    assert [it.members[0].assignment for it in group.images[1:]] == ["first", "second"]
    group.until(20)
    assert group.answers["a"][-1].assignment == "first"
    assert group.group.state_since_ms == 6


def test_an_assignment_that_a_rebalance_overtook_is_nobodys() -> None:
    group = completing("a", "b", replication_ms=50)
    group.sync("a", 1, {"a": "a's", "b": "b's"})
    group.join("b", 2, metadata="new")
    assert group.answers["a"][-1].error == "REBALANCE_IN_PROGRESS"
    group.join("a", 3)
    assert group.state == "CompletingRebalance"
    group.until(51)
    # Written, but of generation 2; the group is at 3.
    assert group.state == "CompletingRebalance"
    group.joined("b")
    group.sync("a", 52, {"a": "a's", "b": "b's"})
    group.until(102)
    assert group.state == "Stable"


def test_a_write_that_ends_while_a_rebalance_is_prepared_changes_nothing() -> None:
    group = completing("a", "b", replication_ms=5)
    group.sync("a", 1, {"a": "a's", "b": "b's"})
    group.join("b", 2, metadata="new")
    group.until(6)
    assert group.state == "PreparingRebalance"


def test_who_never_syncs_is_out_after_the_rebalance_timeout() -> None:
    group = completing("a", "b", "C")
    group.settle(1 * S, "a")
    for second in range(5, 61, 5):
        for who in "abC":
            if who in group.ids and group.ids[who] in group.group.members:
                group.beat(who, second * S - 1)
    assert group.state == "Stable"
    group.until(60 * S)
    assert sorted(group.removed()) == [
        ("C", 60 * S, RebalanceReason.SYNC_TIMEOUT),
        ("b", 60 * S, RebalanceReason.SYNC_TIMEOUT),
    ]
    assert group.state == "PreparingRebalance"
    assert group.of(RebalancePrepared)[-1].reason is RebalanceReason.SYNC_TIMEOUT


def test_a_group_whose_leader_never_syncs() -> None:
    group = completing("a", "b")
    group.sync("b", 1)
    group.until(10 * S)
    assert group.removed() == [("a", 10 * S, RebalanceReason.SESSION_TIMEOUT)]
    assert group.answers["b"][-1].error == "REBALANCE_IN_PROGRESS"
    group.join("b", 11 * S)
    assert group.joined("b").leader == group.ids["b"]


# Heartbeat.

# Number, why, changes of a Heartbeat that would do, error.
BEATS: list[tuple[int, str, dict[str, Any], str]] = [
    (1, "a stranger", {"member_id": "x"}, "UNKNOWN_MEMBER_ID"),
    (2, "a static id that nobody has", {"instance_id": "i"}, "UNKNOWN_MEMBER_ID"),
    (3, "a static id that another has", {"instance_id": "B"}, "FENCED_INSTANCE_ID"),
    (4, "an earlier generation", {"generation": 1}, "ILLEGAL_GENERATION"),
    (5, "nothing wrong", {}, "NONE"),
]


@pytest.mark.parametrize("row", BEATS, ids=lambda row: f"{row[0]}-{row[1]}")
def test_what_a_heartbeat_is_answered(row: tuple[int, str, dict[str, Any], str]) -> None:
    *_, changes, error = row
    group = stable("a", "B")
    asked = {"group": "g", "generation": 2, "member_id": group.ids["a"], **changes}
    assert group.ask("a", HeartbeatRequest(**asked), 4 * S).error == error
    assert group.deadline("a") == (14 * S if error == "NONE" else 10 * S)


def test_heartbeats_in_each_state() -> None:
    group = completing("a", "b")
    assert group.beat("b", 1) == "NONE"
    group.settle(2, "a", "b")
    assert group.beat("b", 3) == "NONE"
    group.join("c", 4)
    assert group.beat("b", 5) == "REBALANCE_IN_PROGRESS"
    assert group.deadline("b") == 5 + 10 * S
    group.ids["c"] = list(group.group.members)[-1]
    group.leave(6, "a", "b", "c")
    assert group.state == "Empty"
    assert group.beat("b", 7) == "UNKNOWN_MEMBER_ID"
    assert group.sync("b", 7).error == "UNKNOWN_MEMBER_ID"


# LeaveGroup.


def test_many_leave_at_once_and_each_is_answered() -> None:
    group = stable("a", "b", "C", "D")
    pending = group.join("e", 1, goes_on=False).member_id
    leavers = (
        LeavingMember("x"),
        LeavingMember(pending),
        LeavingMember(group.ids["b"]),
        LeavingMember(group.ids["b"]),
        LeavingMember("", "C", RebalanceReason.ADMIN_REMOVED),
        LeavingMember("x", "D"),
        LeavingMember(group.ids["D"], "D"),
        LeavingMember("", "nobody"),
        LeavingMember("", None),
    )
    answer = group.ask("a", LeaveGroupRequest("g", leavers), 2)
    assert answer.error is ErrorCode.NONE
    assert answer.members == (
        "UNKNOWN_MEMBER_ID",
        "NONE",
        "NONE",
        "UNKNOWN_MEMBER_ID",
        "NONE",
        "FENCED_INSTANCE_ID",
        "NONE",
        "UNKNOWN_MEMBER_ID",
        "UNKNOWN_MEMBER_ID",
    )
    assert group.removed() == [
        ("b", 2, RebalanceReason.MEMBER_LEFT),
        ("C", 2, RebalanceReason.ADMIN_REMOVED),
        ("D", 2, RebalanceReason.MEMBER_LEFT),
    ]
    assert list(group.group.members) == [group.ids["a"]]
    # One rebalance for all of them.
    assert [it.at_ms for it in group.of(RebalancePrepared)].count(2) == 1


def test_who_leaves_while_it_waits_is_told() -> None:
    group = stable("a", "b", "c")
    group.join("b", 1, metadata="new")
    group.leave(2, "b")
    assert [answer.error for answer in group.answers["b"] if not isinstance(answer, LeaveGroupResponse)] == [
        "UNKNOWN_MEMBER_ID"
    ]
    group.join("c", 3)
    group.join("a", 3)
    group.joined("c")
    group.sync("c", 4)
    group.ask("admin", LeaveGroupRequest("g", (LeavingMember(group.ids["c"]),)), 5)
    assert group.answers["c"][-1].error == "UNKNOWN_MEMBER_ID"


def test_the_last_to_leave_empties_the_group() -> None:
    group = stable("a")
    assert group.leave(5, "a").members == ("NONE",)
    image = group.images[-1]
    assert (image.at_ms, image.state, image.generation, image.members) == (5, "Empty", 2, ())
    assert (image.leader, image.protocol, image.protocol_type, image.state_since_ms) == (None, None, "consumer", 5)
    # Who leaves an empty group was not there.
    assert group.leave(6, "a").members == ("UNKNOWN_MEMBER_ID",)
    assert group.state == "Empty"
    # An id that was only given out may go, and that is all.
    group.ids["b"] = group.join("b", 7, goes_on=False).member_id
    assert group.leave(8, "b").members == ("NONE",)
    assert len(group.images) == 3
    assert group.group.due_ms is None


def test_a_leaver_that_led_is_followed_by_another() -> None:
    group = stable("a", "b")
    group.leave(1, "a")
    assert group.group.leader == group.ids["b"]
    group.join("b", 2)
    assert group.joined("b").leader == group.ids["b"]


# A group that is not there.


@pytest.mark.parametrize(
    ("request_", "answer"),
    [
        (SyncGroupRequest("g", 1, "x"), "UNKNOWN_MEMBER_ID"),
        (HeartbeatRequest("g", 1, "x"), "UNKNOWN_MEMBER_ID"),
        (LeaveGroupRequest("g", (LeavingMember("x"), LeavingMember("", "i"))), "NONE"),
    ],
)
def test_no_such_group(request_: ClassicRequest, answer: str) -> None:
    group = Driven()
    got = group.ask("a", request_, 0)
    assert got.error == answer
    if isinstance(got, LeaveGroupResponse):
        assert got.members == ("UNKNOWN_MEMBER_ID", "UNKNOWN_MEMBER_ID")
    assert group.coordinator.group is None


def test_an_empty_group_can_be_deleted() -> None:
    group = stable("a")
    with pytest.raises(ValueError, match="Empty expected"):
        group.coordinator.delete_group(1)
    group.leave(2, "a")
    (wrote,) = group.coordinator.delete_group(3)
    assert isinstance(wrote, RecordAppended)
    assert (wrote.image.group, wrote.image.at_ms, wrote.image.state) == ("g", 3, "Dead")
    assert group.coordinator.group is None
    # The next one begins at generation 1 again.
    group.ids.clear()
    group.join("a", 4)
    assert group.joined("a").generation == 1


# Records.


def test_the_records_of_a_groups_life() -> None:
    group = Driven(replace(AT_ONCE, initial_rebalance_delay_ms=3 * S, replication_ms=7))
    group.join("a", 1 * S, metadata="wants t", session=20 * S, rebalance=30 * S)
    group.join("B", 2 * S, metadata="wants u", instance_id="i-1")
    group.until(7 * S)
    group.joined("a")
    group.joined("B")
    group.sync("a", 8 * S, {"a": "a's", "B": "B's"})
    group.sync("B", 8 * S)
    group.until(9 * S)
    group.leave(10 * S, "B")
    group.leave(11 * S, "a")
    created, stable_, empty = group.images
    assert (created.at_ms, created.generation, created.protocol_type, created.protocol) == (1 * S, 0, None, None)
    assert (created.leader, created.state_since_ms, created.members) == (None, 1 * S, ())
    # The join phase was over at 7 s; the state in the record is older than the record.
    assert (stable_.at_ms, stable_.state, stable_.state_since_ms) == (8 * S, "Stable", 7 * S)
    assert (stable_.generation, stable_.leader, stable_.protocol_type) == (1, group.ids["a"], "consumer")
    first, second = stable_.members
    assert (first.member_id, first.instance_id, first.client_id, first.client_host) == (
        group.ids["a"],
        None,
        "a",
        "/127.0.0.1",
    )
    assert (first.session_timeout_ms, first.rebalance_timeout_ms) == (20 * S, 30 * S)
    assert (first.metadata, first.assignment) == ("wants t", "a's")
    assert (second.instance_id, second.metadata, second.assignment) == ("i-1", "wants u", "B's")
    assert (empty.at_ms, empty.generation, empty.state, empty.members) == (11 * S, 2, "Empty", ())


def test_what_the_broker_logs_of_a_rebalance() -> None:
    group = stable("a", "b")
    assert [(it.generation, it.members, it.at_ms) for it in group.of(GenerationStabilized)] == [(1, 1, 0), (2, 2, 0)]
    # The generation that is over is named.
    assert [(it.generation, it.reason) for it in group.of(RebalancePrepared)] == [
        (0, "member_joined"),
        (1, "member_joined"),
    ]


def test_a_deadline_is_put_off_but_never_brought_forward() -> None:
    group = stable("a")
    group.group.renew_session(group.ids["a"], 5 * S)
    assert group.deadline("a") == 15 * S
    group.group.renew_session(group.ids["a"], 4 * S)
    assert group.deadline("a") == 15 * S
    assert group.group.due_ms_without({group.ids["a"]}) is None
    assert group.group.due_ms_without(()) == 15 * S
    assert group.ask("a", HeartbeatRequest("g", 1, group.ids["a"]), 6 * S) == HeartbeatResponse(ErrorCode.NONE)
