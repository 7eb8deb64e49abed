"""The coordinator of a KIP-848 group, request by request."""

from __future__ import annotations

from typing import Any

import pytest

from agent.core.protocol.states import GroupState
from agent.simulation.groups.kip848_messages import ConsumerGroupHeartbeatResponse, EpochBumped, TargetComputed
from agent.simulation.groups.messages import (
    ErrorCode,
    LeaveGroupResponse,
    LeavingMember,
    MemberRemoved,
    RebalanceReason,
)
from tests.unit.simulation.groups.asking import TIMEOUT_MS, Asked, slots

SESSION_MS = 45_000


def two_members() -> Asked:
    """`a` and `b` with two partitions each, both stable at epoch 3."""
    asked = Asked()
    asked.gives(a=[0, 1, 2, 3])
    asked.join("a")
    asked.gives(a=[0, 1], b=[2, 3])
    asked.join("b")
    asked.beat("a", 2, owned=slots([0, 1, 2, 3]))
    asked.beat("a", 2, owned=slots([0, 1]))
    asked.beat("b", 3)
    assert asked.group.state is GroupState.STABLE
    return asked


def static_member() -> Asked:
    """`a`, static as `i`, with all partitions at epoch 2."""
    asked = Asked()
    asked.gives(a=[0, 1, 2, 3])
    asked.join("a", instance_id="i")
    return asked


class TestJoining:
    def test_the_first_gets_all_at_once(self) -> None:
        asked = Asked()
        assert (asked.group.state, asked.group.epoch, asked.group.target_epoch) == (GroupState.EMPTY, 1, 1)
        asked.gives(a=[0, 1, 2, 3])
        answer = asked.join("a", at=7)
        assert answer == ConsumerGroupHeartbeatResponse(ErrorCode.NONE, "a", 2, 5_000, slots([0, 1, 2, 3]))
        assert asked.wrote == ["membermetadata", "epoch", "targetassignment", "targetepoch", "currentassignment"]
        assert asked.of(EpochBumped) == [EpochBumped("g", 7, 2, RebalanceReason.MEMBER_JOINED, "a")]
        assert asked.of(TargetComputed) == [TargetComputed("g", 7, 2, "uniform")]
        assert (asked.group.state, asked.group.epoch, asked.group.target_epoch) == (GroupState.STABLE, 2, 2)
        assert asked.at("a") == (2, 0, "stable")
        assert asked.group.target == {"a": slots([0, 1, 2, 3])}

    def test_the_second_waits_until_the_first_has_given_up(self) -> None:
        asked = Asked()
        asked.gives(a=[0, 1, 2, 3])
        asked.join("a")
        asked.gives(a=[0, 1], b=[2, 3])
        answer = asked.join("b")
        assert (answer.member_epoch, answer.assignment) == (3, frozenset())
        assert (asked.at("b"), asked.group.state) == ((3, 0, "unreleased"), GroupState.RECONCILING)
        # Its next heartbeat has nothing new but the previous epoch.
        assert asked.beat("b", 3).assignment is None
        assert asked.at("b") == (3, 3, "unreleased")
        assert asked.wrote == ["currentassignment"]
        asked.beat("b", 3)
        assert asked.wrote == []
        # The first is told what it shall keep, and stays at its epoch until it says that the rest is given up.
        assert asked.beat("a", 2).assignment == slots([0, 1])
        assert (asked.at("a"), asked.has("a")) == ((2, 2, "unrevoked"), ([0, 1], [2, 3]))
        assert asked.beat("a", 2, owned=slots([0, 1, 3])).assignment is None
        assert asked.beat("b", 3).assignment is None
        assert asked.beat("a", 2, owned=slots([0, 1])) == ConsumerGroupHeartbeatResponse(
            ErrorCode.NONE, "a", 3, 5_000, None
        )
        assert (asked.at("a"), asked.has("a")) == ((3, 2, "stable"), ([0, 1], []))
        assert asked.beat("b", 3).assignment == slots([2, 3])
        assert asked.group.state is GroupState.STABLE
        assert dict(asked.current("a").assigned) == {("t", 0): 2, ("t", 1): 2}
        assert dict(asked.current("b").assigned) == {("t", 2): 3, ("t", 3): 3}

    def test_a_part_that_is_free_is_given_at_once(self) -> None:
        asked = Asked({"t": 3})
        asked.gives(a=[0, 1])
        asked.join("a")
        asked.gives(a=[0], b=[1, 2])
        assert asked.join("b").assignment == slots([2])
        assert asked.at("b") == (3, 0, "unreleased")

    def test_without_topics_there_is_nothing_to_compute(self) -> None:
        asked = Asked()
        assert asked.join("a", topics=()).member_epoch == 1
        assert (asked.group.epoch, asked.wrote) == (1, ["membermetadata", "currentassignment"])
        assert asked.group.state is GroupState.STABLE

    def test_again_with_epoch_0_it_keeps_its_assignment(self) -> None:
        asked = two_members()
        assert asked.join("a").assignment == slots([0, 1])
        assert (asked.group.epoch, asked.wrote) == (3, [])

    def test_again_with_epoch_0_it_has_given_up_what_it_had_to(self) -> None:
        asked = two_members()
        asked.gives(a=[0], b=[1, 2, 3])
        asked.beat("b", 3, subscribed_topics=frozenset({"t", "u"}))
        asked.beat("a", 3)
        assert asked.at("a") == (3, 3, "unrevoked")
        assert asked.join("a").assignment == slots([0])
        assert asked.at("a") == (4, 3, "stable")

    def test_without_an_id_it_is_given_one(self) -> None:
        asked = Asked()
        assert asked.join("").member_id == "made-0"
        assert list(asked.group.members) == ["made-0"]


class TestAssignor:
    def test_most_votes_win_and_the_first_is_the_default(self) -> None:
        asked = Asked()
        asked.join("a")
        assert asked.of(TargetComputed)[0].assignor == "uniform"
        asked.join("b", server_assignor="range")
        assert asked.of(TargetComputed)[0].assignor == "range"
        asked.join("c", server_assignor="uniform")
        asked.join("d", server_assignor="uniform")
        assert asked.of(TargetComputed)[0].assignor == "uniform"
        asked.join("e", server_assignor="range")
        asked.join("f", server_assignor="range")
        assert asked.of(TargetComputed)[0].assignor == "range"

    def test_between_equals_a_vote_that_nobody_shares_loses_on_its_own_heartbeat(self) -> None:
        asked = Asked()
        asked.join("a", server_assignor="range")
        asked.join("b", server_assignor="uniform")
        assert asked.of(TargetComputed)[0].assignor == "range"
        asked.join("c")
        assert asked.of(TargetComputed)[0].assignor == "uniform"
        asked.beat("c", -1)
        asked.beat("a", 2)
        assert asked.of(TargetComputed)[0].assignor == "uniform"
        asked.beat("b", 3, subscribed_topics=frozenset({"t", "u"}))
        assert asked.of(TargetComputed)[0].assignor == "range"

    def test_it_hears_of_members_in_the_order_of_a_brokers_table(self) -> None:
        # Ids of a run of Kafka 4.3.1. They share a bucket of the assignor's, where who came last is first.
        first, last = "xe97953FTXGGP1KDLVlnuw", "G0gFHHPER6O5wxOUoyvZsw"
        asked = Asked()
        asked.join(first)
        asked.join(last)
        assert list(asked.uniform.asked[-1].members) == [first, last]
        asked.beat(first, 2, subscribed_topics=frozenset({"t", "u"}))
        assert list(asked.uniform.asked[-1].members) == [last, first]

    def test_it_is_told_what_each_member_shall_have_so_far(self) -> None:
        asked = two_members()
        asked.join("c", instance_id="i")
        problem = asked.uniform.asked[-1]
        assert {member_id: it.owned for member_id, it in problem.members.items()} == {
            "a": (("t", 0), ("t", 1)),
            "b": (("t", 2), ("t", 3)),
            "c": (),
        }
        assert problem.members["c"].instance_id == "i"

    def test_one_the_broker_has_not(self) -> None:
        asked = Asked()
        assert asked.join("a", server_assignor="sticky").error is ErrorCode.UNSUPPORTED_ASSIGNOR
        assert not asked.group.members


class TestInterval:
    """`group.consumer.assignment.interval.ms`: targets are not computed one right after the other."""

    def test_as_the_capture_has_it(self) -> None:
        asked = Asked(consumer_assignment_interval_ms=1_000)
        asked.gives(a=[0, 1, 2, 3])
        asked.join("a", at=383)
        asked.gives(a=[0, 1], b=[2], c=[3])
        assert asked.join("b", at=468).member_epoch == 2
        assert asked.join("c", at=514).member_epoch == 2
        assert (asked.group.epoch, asked.group.target_epoch, asked.group.state) == (4, 2, GroupState.ASSIGNING)
        assert asked.at("c") == (2, 0, "stable")
        asked.beat("b", 2, at=1_382)
        assert asked.group.target_epoch == 2
        asked.beat("b", 2, at=1_383)
        assert (asked.group.target_epoch, asked.group.state) == (4, GroupState.RECONCILING)
        assert asked.wrote == [
            "targetassignment",
            "targetassignment",
            "targetassignment",
            "targetepoch",
            "currentassignment",
        ]


class TestSubscription:
    def test_another_one_raises_the_epoch(self) -> None:
        asked = two_members()
        asked.beat("a", 3, at=9, subscribed_topics=frozenset({"t", "u"}))
        assert asked.of(EpochBumped) == [EpochBumped("g", 9, 4, RebalanceReason.SUBSCRIPTION_CHANGED, "a")]
        assert (asked.group.target_epoch, asked.wrote) == (
            4,
            ["membermetadata", "epoch", "targetepoch", "currentassignment"],
        )

    def test_the_same_one_does_not(self) -> None:
        asked = two_members()
        asked.beat("a", 3, subscribed_topics=frozenset({"t"}))
        assert (asked.group.epoch, asked.wrote) == (3, [])

    def test_something_else_about_a_member_is_written(self) -> None:
        asked = two_members()
        asked.beat("a", 3, rack_id="r1", client_id="other")
        assert (asked.group.epoch, asked.wrote) == (3, ["membermetadata"])
        assert asked.group.members["a"].metadata.rack_id == "r1"

    def test_what_is_no_longer_wanted_is_given_up_before_there_is_a_target(self) -> None:
        asked = Asked({"t": 2, "u": 1}, consumer_assignment_interval_ms=1_000)
        asked.gives(a=[0, 1])
        asked.join("a", topics=("t", "u"))
        answer = asked.beat("a", 2, at=5, subscribed_topics=frozenset({"u"}))
        assert (asked.group.target_epoch, answer.assignment) == (2, frozenset())
        assert (asked.at("a"), asked.has("a")) == ((2, 2, "unrevoked"), ([], [0, 1]))

    def test_what_it_had_given_up_already_is_free(self) -> None:
        asked = Asked({"t": 2, "u": 1}, consumer_assignment_interval_ms=1_000)
        asked.gives(a=[0, 1])
        asked.join("a", topics=("t", "u"))
        asked.beat("a", 2, at=5, subscribed_topics=frozenset({"u"}), owned=frozenset())
        assert (asked.at("a"), asked.has("a")) == ((2, 2, "stable"), ([], []))

    def test_a_full_request_is_answered_in_full(self) -> None:
        asked = two_members()
        said: dict[str, Any] = {"subscribed_topics": frozenset({"t"}), "owned": slots([0, 1])}
        assert asked.beat("a", 3, rebalance_timeout_ms=1, **said).assignment == slots([0, 1])
        assert asked.beat("a", 3, **said).assignment is None


class TestTopics:
    def test_more_partitions_are_seen_at_the_next_heartbeat(self) -> None:
        asked = two_members()
        assert asked.group.is_uneventful("a")
        asked.group.set_partition_count("t", 6)
        assert not asked.group.is_uneventful("a")
        asked.gives(a=[0, 1], b=[2, 3, 4, 5])
        asked.beat("a", 3, at=11)
        assert asked.of(EpochBumped) == [EpochBumped("g", 11, 4, RebalanceReason.PARTITIONS_CHANGED, "a")]
        assert asked.beat("b", 3, at=12).assignment == slots([2, 3, 4, 5])

    def test_topics_that_nobody_wants_are_nothing(self) -> None:
        asked = two_members()
        asked.group.set_partition_count("other", 6)
        asked.beat("a", 3, at=11)
        assert (asked.group.epoch, asked.wrote) == (3, [])
        assert asked.group.is_uneventful("a")

    def test_a_deleted_topic_is_given_up(self) -> None:
        asked = two_members()
        asked.group.set_partition_count("t", 0)
        asked.group.set_partition_count("never", 0)
        asked.gives()
        assert asked.beat("a", 3, at=11).assignment == frozenset()
        assert asked.has("a") == ([], [0, 1])

    def test_they_are_seen_when_somebody_goes_too(self) -> None:
        asked = two_members()
        asked.group.set_partition_count("t", 6)
        asked.beat("b", -1, at=11)
        asked.beat("a", 3, at=12)
        # The leave raised the epoch with the new count already.
        assert asked.group.epoch == 4


class TestEpochs:
    def test_of_the_future(self) -> None:
        asked = two_members()
        assert asked.beat("a", 4).error is ErrorCode.FENCED_MEMBER_EPOCH

    @pytest.mark.parametrize(
        ("owned", "error"),
        [
            ([0, 1], ErrorCode.NONE),
            ([], ErrorCode.NONE),
            ([0, 2], ErrorCode.FENCED_MEMBER_EPOCH),
            (None, ErrorCode.FENCED_MEMBER_EPOCH),
        ],
    )
    def test_the_previous_one_if_it_owns_no_more_than_its_own(
        self, owned: list[int] | None, error: ErrorCode
    ) -> None:
        asked = two_members()
        assert asked.at("a") == (3, 2, "stable")
        assert asked.beat("a", 2, owned=None if owned is None else slots(owned)).error is error

    def test_older_ones(self) -> None:
        asked = two_members()
        assert asked.beat("a", 1, owned=slots([0])).error is ErrorCode.FENCED_MEMBER_EPOCH

    def test_of_strangers(self) -> None:
        asked = Asked()
        for epoch in (1, -1):
            assert asked.beat("a", epoch).error is ErrorCode.GROUP_ID_NOT_FOUND
        asked.join("a")
        for epoch in (1, -1):
            assert asked.beat("b", epoch).error is ErrorCode.UNKNOWN_MEMBER_ID
            assert asked.beat("a", epoch, instance_id="i").error is ErrorCode.UNKNOWN_MEMBER_ID


@pytest.mark.parametrize(
    "said",
    [
        {"rebalance_timeout_ms": -1},
        {"owned": None},
        {"owned": slots([0])},
        {"instance_id": ""},
        {"rack_id": ""},
    ],
)
def test_joins_that_make_no_sense(said: dict[str, Any]) -> None:
    asked = Asked()
    assert asked.join("a", **said).error is ErrorCode.INVALID_REQUEST
    assert asked.beat("a", 0, rebalance_timeout_ms=1, owned=frozenset()).error is ErrorCode.INVALID_REQUEST
    assert not asked.group.members


@pytest.mark.parametrize(("member_id", "epoch"), [("", 1), ("", -1), ("a", -2), ("a", -3)])
def test_heartbeats_that_make_no_sense(member_id: str, epoch: int) -> None:
    asked = two_members()
    assert asked.beat(member_id, epoch).error is ErrorCode.INVALID_REQUEST


class TestLeaving:
    def test_the_next_heartbeat_computes_the_target(self) -> None:
        asked = two_members()
        assert asked.beat("b", -1, at=9) == ConsumerGroupHeartbeatResponse(ErrorCode.NONE, "b", -1)
        assert asked.wrote == ["-currentassignment", "-targetassignment", "-membermetadata", "epoch"]
        assert asked.of(MemberRemoved) == [MemberRemoved("g", 9, "b", RebalanceReason.MEMBER_LEFT)]
        assert asked.of(EpochBumped) == [EpochBumped("g", 9, 4, RebalanceReason.MEMBER_LEFT, "b")]
        assert (asked.group.state, asked.group.target_epoch) == (GroupState.ASSIGNING, 3)
        asked.gives(a=[0, 1, 2, 3])
        assert asked.beat("a", 3, at=10).assignment == slots([0, 1, 2, 3])
        assert asked.group.state is GroupState.STABLE

    def test_why_is_the_members_to_know(self) -> None:
        asked = two_members()
        asked.beat("b", -1, reason=RebalanceReason.POLL_TIMEOUT)
        assert asked.of(MemberRemoved)[0].reason is asked.of(EpochBumped)[0].reason is RebalanceReason.POLL_TIMEOUT

    def test_the_last_leaves_an_empty_group_that_goes_on_where_it_was(self) -> None:
        asked = Asked()
        asked.join("a")
        asked.beat("a", -1)
        assert (asked.group.state, asked.group.epoch, asked.group.target_epoch) == (GroupState.EMPTY, 3, 2)
        assert (asked.group.target, asked.group.due_ms) == ({}, None)
        assert asked.beat("a", 2).error is ErrorCode.UNKNOWN_MEMBER_ID
        asked.gives(b=[0])
        assert asked.join("b").member_epoch == 4

    def test_an_admin_removes_several_in_one_epoch(self) -> None:
        asked = two_members()
        asked.join("c", instance_id="i")
        leavers = [
            LeavingMember("a", reason=RebalanceReason.ADMIN_REMOVED),
            LeavingMember("nobody"),
            LeavingMember("", "i", reason=RebalanceReason.ADMIN_REMOVED),
            LeavingMember("", "other"),
            LeavingMember("wrong", "i"),
            LeavingMember("a"),
            LeavingMember(""),
        ]
        assert asked.leave(*leavers) == LeaveGroupResponse(
            ErrorCode.NONE,
            (
                ErrorCode.NONE,
                ErrorCode.UNKNOWN_MEMBER_ID,
                ErrorCode.NONE,
                ErrorCode.UNKNOWN_MEMBER_ID,
                ErrorCode.FENCED_INSTANCE_ID,
                ErrorCode.NONE,
                ErrorCode.UNKNOWN_MEMBER_ID,
            ),
        )
        assert [(it.member_id, it.reason) for it in asked.of(MemberRemoved)] == [
            ("a", RebalanceReason.ADMIN_REMOVED),
            ("c", RebalanceReason.ADMIN_REMOVED),
        ]
        assert asked.of(EpochBumped) == [EpochBumped("g", 0, 5, RebalanceReason.ADMIN_REMOVED, "a")]

    def test_an_admin_removes_nobody(self) -> None:
        assert Asked().leave(LeavingMember("a")) == LeaveGroupResponse(ErrorCode.UNKNOWN_MEMBER_ID)
        asked = two_members()
        assert asked.leave(LeavingMember("nobody")).members == (ErrorCode.UNKNOWN_MEMBER_ID,)
        assert asked.group.epoch == 3


class TestStatic:
    def test_a_restart_takes_over_without_an_epoch(self) -> None:
        asked = static_member()
        assert asked.beat("a", -2, at=5, instance_id="i") == ConsumerGroupHeartbeatResponse(ErrorCode.NONE, "a", -2)
        assert (asked.wrote, asked.at("a")) == (["currentassignment"], (-2, 0, "stable"))
        assert set(asked.current("a").assigned.values()) == {0}
        answer = asked.join("b", at=9, instance_id="i")
        assert (answer.member_epoch, answer.assignment) == (2, slots([0, 1, 2, 3]))
        assert asked.wrote == [
            "-currentassignment",
            "-targetassignment",
            "-membermetadata",
            "membermetadata",
            "targetassignment",
            "currentassignment",
            "currentassignment",
        ]
        assert asked.of(MemberRemoved) == [MemberRemoved("g", 9, "a", RebalanceReason.STATIC_REPLACED)]
        assert asked.of(EpochBumped) == []
        assert asked.group.target == {"b": slots([0, 1, 2, 3])}
        assert asked.at("b") == (2, 0, "stable")

    def test_under_its_old_id_nobody_is_removed(self) -> None:
        asked = static_member()
        asked.beat("a", -2, instance_id="i")
        assert asked.join("a", instance_id="i").assignment == slots([0, 1, 2, 3])
        assert asked.of(MemberRemoved) == []

    def test_with_another_subscription_the_epoch_is_raised(self) -> None:
        asked = static_member()
        asked.beat("a", -2, instance_id="i")
        asked.gives(b=[0])
        asked.join("b", topics=("t", "u"), instance_id="i", client_id="new")
        assert asked.of(EpochBumped)[0].reason is RebalanceReason.SUBSCRIPTION_CHANGED
        assert asked.at("b") == (3, 0, "stable")

    def test_what_it_had_to_give_up_is_free_when_it_steps_aside(self) -> None:
        asked = static_member()
        asked.gives(a=[0, 1], b=[2, 3])
        asked.join("b")
        asked.beat("a", 2, instance_id="i")
        assert asked.has("a") == ([0, 1], [2, 3])
        asked.beat("a", -2, at=1, instance_id="i")
        assert asked.group.due_ms_without(["a", "b"]) is None
        assert asked.beat("b", 3).assignment == slots([2, 3])
        assert asked.join("c", instance_id="i").assignment == slots([0, 1])
        assert asked.at("c") == (3, 0, "stable")

    def test_its_session_runs_on_meanwhile(self) -> None:
        asked = static_member()
        asked.beat("a", -2, at=5_000, instance_id="i")
        assert asked.group.due_ms == SESSION_MS
        asked.fire(SESSION_MS)
        assert asked.of(MemberRemoved) == [MemberRemoved("g", SESSION_MS, "a", RebalanceReason.SESSION_TIMEOUT)]
        assert asked.join("b", at=50_000, instance_id="i").member_epoch == 4

    def test_nobody_takes_it_before_it_has_stepped_aside(self) -> None:
        asked = static_member()
        assert asked.join("b", instance_id="i").error is ErrorCode.UNRELEASED_INSTANCE_ID
        assert asked.join("a", instance_id="i").error is ErrorCode.UNRELEASED_INSTANCE_ID
        assert list(asked.group.members) == ["a"]

    def test_its_predecessor_is_fenced(self) -> None:
        asked = static_member()
        asked.beat("a", -2, instance_id="i")
        asked.join("b", instance_id="i")
        for epoch in (2, -1, -2):
            assert asked.beat("a", epoch, instance_id="i").error is ErrorCode.FENCED_INSTANCE_ID

    def test_stepped_aside_it_cannot_go_on_but_for_good(self) -> None:
        asked = static_member()
        asked.beat("a", -2, instance_id="i")
        assert asked.beat("a", 2, instance_id="i").error is ErrorCode.FENCED_MEMBER_EPOCH
        assert asked.beat("a", -1, instance_id="i").error is ErrorCode.NONE
        assert asked.group.state is GroupState.EMPTY

    def test_a_static_id_that_its_member_gave_up_is_lost(self) -> None:
        # As in the broker: it forgets a static id with its member, and only the last one that it had.
        asked = static_member()
        asked.join("a", instance_id="j")
        asked.beat("a", -1)
        assert asked.join("b", instance_id="i").error is ErrorCode.UNKNOWN_MEMBER_ID
        assert asked.join("b", instance_id="j").error is ErrorCode.NONE


class TestTimers:
    def test_a_silent_member_is_gone_when_its_session_ends(self) -> None:
        asked = two_members()
        asked.beat("a", 3, at=1_000)
        assert asked.group.due_ms == asked.group.deadline("b") == SESSION_MS
        assert asked.group.due_ms_without(["b"]) == asked.group.deadline("a") == 1_000 + SESSION_MS
        assert asked.fire(SESSION_MS - 1) == []
        asked.fire(SESSION_MS + 500)
        assert asked.of(MemberRemoved) == [MemberRemoved("g", SESSION_MS, "b", RebalanceReason.SESSION_TIMEOUT)]
        assert asked.of(EpochBumped) == [EpochBumped("g", SESSION_MS, 4, RebalanceReason.SESSION_TIMEOUT, "b")]
        assert asked.group.deadline("b") is None
        assert asked.beat("b", 3, at=SESSION_MS + 600).error is ErrorCode.UNKNOWN_MEMBER_ID

    def test_several_each_at_its_time(self) -> None:
        asked = two_members()
        asked.beat("a", 3, at=1_000)
        asked.fire(100_000)
        assert [it.at_ms for it in asked.of(MemberRemoved)] == [SESSION_MS, SESSION_MS + 1_000]
        assert (asked.group.epoch, asked.group.state) == (5, GroupState.EMPTY)

    def test_who_does_not_give_up_in_time_is_gone(self) -> None:
        asked = Asked()
        asked.gives(a=[0, 1, 2, 3])
        asked.join("a")
        asked.gives(a=[0, 1], b=[2, 3])
        asked.join("b")
        asked.beat("a", 2, at=100)
        assert asked.group.due_ms == asked.group.due_ms_without(["a", "b"]) == 100 + TIMEOUT_MS
        # Heartbeats do not help, if they do not say that it has.
        asked.beat("a", 2, at=9_000, owned=slots([0, 1, 2, 3]))
        asked.fire(100 + TIMEOUT_MS)
        assert asked.of(MemberRemoved) == [MemberRemoved("g", 100 + TIMEOUT_MS, "a", RebalanceReason.NOT_REJOINED)]
        assert asked.beat("b", 3, at=11_000).assignment == slots([2, 3])

    def test_who_leaves_before_has_no_timers_left(self) -> None:
        asked = Asked()
        asked.gives(a=[0, 1])
        asked.join("a")
        asked.gives(a=[0], b=[1])
        asked.join("b")
        asked.beat("a", 2, at=100)
        asked.beat("a", -1, at=200)
        asked.beat("b", -1, at=200)
        assert (asked.group.due_ms, asked.fire(10**6)) == (None, [])

    def test_who_does_is_left_alone(self) -> None:
        asked = Asked()
        asked.gives(a=[0, 1])
        asked.join("a")
        asked.gives(a=[0], b=[1])
        asked.join("b")
        asked.beat("a", 2, at=100)
        asked.beat("a", 2, at=9_000, owned=slots([0]))
        assert asked.fire(100 + TIMEOUT_MS) == []

    def test_heartbeats_without_effect_can_be_skipped(self) -> None:
        asked = two_members()
        assert asked.group.is_uneventful("a")
        asked.group.renew_session("a", 30_000)
        asked.group.renew_session("a", 20_000)
        asked.group.renew_session("nobody", 20_000)
        assert (asked.group.deadline("a"), asked.group.deadline("nobody")) == (30_000 + SESSION_MS, None)
        asked.fire(SESSION_MS)
        assert list(asked.group.members) == ["a"]
        assert not asked.group.is_uneventful("a")
        assert not asked.group.is_uneventful("b")
