"""The consumer of classic groups, request by request: what it sends and when, what it holds. As the Java client."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from agent.core.protocol.assignors import MemberSubscription, Slot
from agent.simulation.groups.classic_client import ClassicPhase
from agent.simulation.groups.classic_consumer import ClassicConsumer
from agent.simulation.groups.messages import (
    ErrorCode,
    HeartbeatRequest,
    HeartbeatResponse,
    JoinGroupRequest,
    JoinGroupResponse,
    LeaveGroupRequest,
    LeaveGroupResponse,
    LeavingMember,
    RebalanceReason,
    SyncGroupRequest,
    SyncGroupResponse,
)
from agent.simulation.groups.script import ClientSettings

S = 1000
P0, P1, P2 = ("t", 0), ("t", 1), ("t", 2)
COOPERATIVE = ("cooperative-sticky",)


def consumer(partitions: Mapping[str, int] | None = None, **settings: Any) -> ClassicConsumer:
    conf = ClientSettings(**{"client_id": "c", "topics": frozenset({"t"}), "assignors": ("range",), **settings})
    return ClassicConsumer("g", conf, {"t": 3} if partitions is None else partitions)


def joined(generation: int = 1, leader: str = "other", **changes: Any) -> JoinGroupResponse:
    return JoinGroupResponse(ErrorCode.NONE, "c-1", generation, "consumer", "range", leader, **changes)


def stable(*owned: Slot, at: int = 0, generation: int = 1, **settings: Any) -> ClassicConsumer:
    """A follower that holds these since `at`."""
    client = consumer(**settings)
    client.start(at)
    client.handle_response(joined(generation), at)
    assert client.handle_response(SyncGroupResponse(ErrorCode.NONE, owned), at) == []
    assert client.phase is ClassicPhase.STABLE
    return client


def one(requests: list[Any], kind: type) -> Any:
    (request,) = requests
    assert isinstance(request, kind)
    return request


def said(request: JoinGroupRequest) -> MemberSubscription:
    metadata = request.protocols[0].metadata
    assert isinstance(metadata, MemberSubscription)
    return metadata


# Joining.


def test_the_way_into_a_group() -> None:
    client = consumer(session_timeout_ms=7 * S, max_poll_interval_ms=9 * S, assignors=("range", "roundrobin"))
    asked = one(client.start(0), JoinGroupRequest)
    assert (asked.member_id, asked.session_timeout_ms, asked.rebalance_timeout_ms) == ("", 7 * S, 9 * S)
    assert [offer.name for offer in asked.protocols] == ["range", "roundrobin"]
    assert said(asked) == MemberSubscription(frozenset({"t"}))
    again = one(client.handle_response(JoinGroupResponse(ErrorCode.MEMBER_ID_REQUIRED, "c-1"), 1), JoinGroupRequest)
    assert again.member_id == "c-1"
    # Else it takes its coordinator for lost: five seconds after the longest rebalance.
    assert client.due_ms == 1 + 9 * S + 5 * S
    sync = one(client.handle_response(joined(5), 2), SyncGroupRequest)
    assert (sync.generation, sync.member_id, sync.protocol_type, sync.protocol) == (5, "c-1", "consumer", "range")
    assert sync.assignments == {}
    assert client.handle_response(SyncGroupResponse(ErrorCode.NONE, (P0, P1)), 3) == []
    assert (client.phase, client.generation, client.owned) == (ClassicPhase.STABLE, 5, {P0, P1})
    # Heartbeats count from JoinGroup's answer.
    assert client.due_ms == 2 + 3 * S


def test_a_leader_assigns() -> None:
    client = consumer({"t": 3, "u": 2})
    client.start(0)
    members = (
        ("c-1", None, MemberSubscription(frozenset({"t"}))),
        ("d-1", "i-1", MemberSubscription(frozenset({"t", "u"}))),
    )
    sync = one(client.handle_response(joined(1, "c-1", members=members), 1), SyncGroupRequest)
    # Static members come first.
    assert sync.assignments == {"d-1": (P0, P1, ("u", 0), ("u", 1)), "c-1": (P2,)}


def test_a_leader_that_was_only_replaced_assigns_nothing_but_looks_after_the_topics() -> None:
    partitions = {"t": 3}
    client = consumer(partitions, instance_id="i-1")
    client.start(0)
    members = (("c-1", "i-1", MemberSubscription(frozenset({"t"}))),)
    sync = one(client.handle_response(joined(4, "c-1", members=members, skip_assignment=True), 1), SyncGroupRequest)
    assert sync.assignments == {}
    client.handle_response(SyncGroupResponse(ErrorCode.NONE, (P0, P1, P2)), 2)
    assert client.metadata_changed(3) == []
    partitions["t"] = 4
    assert one(client.metadata_changed(4), JoinGroupRequest).reason is RebalanceReason.PARTITIONS_CHANGED


def test_an_eager_consumer_gives_everything_back_before_it_joins() -> None:
    client = stable(P0, P1)
    again = one(client.rejoin(5), JoinGroupRequest)
    assert client.owned == frozenset()
    assert said(again) == MemberSubscription(frozenset({"t"}), generation=1)


def test_one_eager_assignor_makes_a_consumer_eager() -> None:
    assert not consumer(assignors=("range", "cooperative-sticky")).is_cooperative
    assert consumer(assignors=COOPERATIVE).is_cooperative


def test_a_cooperative_consumer_keeps_what_it_has() -> None:
    client = stable(P1, P0, assignors=COOPERATIVE)
    again = one(client.rejoin(5), JoinGroupRequest)
    assert client.owned == {P0, P1}
    assert said(again) == MemberSubscription(frozenset({"t"}), None, (P0, P1), 1)


def test_a_cooperative_consumer_joins_again_once_it_gave_something_back() -> None:
    client = stable(P0, P1, assignors=COOPERATIVE)
    client.rejoin(5)
    client.handle_response(joined(2), 6)
    again = one(client.handle_response(SyncGroupResponse(ErrorCode.NONE, (P0,)), 7), JoinGroupRequest)
    assert again.reason is RebalanceReason.COOPERATIVE_FOLLOWUP
    assert said(again).owned == (P0,)
    client.handle_response(joined(3), 8)
    # What it gains needs no second round.
    assert client.handle_response(SyncGroupResponse(ErrorCode.NONE, (P0, P2)), 9) == []
    assert client.owned == {P0, P2}


def test_topics_no_longer_wanted_are_given_back_before_joining() -> None:
    client = stable(P0, ("u", 0), assignors=COOPERATIVE, topics=frozenset({"t", "u"}))
    again = one(client.resubscribe(frozenset({"u", "v"}), 5), JoinGroupRequest)
    assert again.reason is RebalanceReason.SUBSCRIPTION_CHANGED
    assert said(again) == MemberSubscription(frozenset({"u", "v"}), None, (("u", 0),), 1)
    assert client.owned == {("u", 0)}


def test_wanting_what_it_wants_already_is_nothing() -> None:
    client = stable(P0)
    assert client.resubscribe(frozenset({"t"}), 5) == []
    assert client.phase is ClassicPhase.STABLE


@pytest.mark.parametrize("assignors", [("range",), COOPERATIVE])
def test_an_assignment_that_is_out_of_date_is_not_taken_up(assignors: tuple[str, ...]) -> None:
    client = consumer(assignors=assignors)
    client.start(0)
    client.handle_response(joined(), 1)
    assert client.resubscribe(frozenset({"u"}), 2) == []
    again = one(client.handle_response(SyncGroupResponse(ErrorCode.NONE, (P0,)), 3), JoinGroupRequest)
    assert client.owned == frozenset()
    assert said(again) == MemberSubscription(frozenset({"u"}), generation=1)
    assert again.reason is RebalanceReason.SUBSCRIPTION_CHANGED


def test_a_wider_subscription_takes_what_comes_and_joins_again() -> None:
    client = consumer(assignors=COOPERATIVE)
    client.start(0)
    client.resubscribe(frozenset({"t", "u"}), 1)
    client.handle_response(joined(), 2)
    again = one(client.handle_response(SyncGroupResponse(ErrorCode.NONE, (P0,)), 3), JoinGroupRequest)
    assert (again.reason, client.owned) == (RebalanceReason.SUBSCRIPTION_CHANGED, {P0})


# Heartbeats.


def test_heartbeats_come_at_their_interval() -> None:
    client = stable(P0, at=0)
    beat = one(client.wake(3 * S), HeartbeatRequest)
    assert (beat.generation, beat.member_id, beat.instance_id) == (1, "c-1", None)
    assert client.due_ms == 6 * S
    assert client.handle_response(HeartbeatResponse(ErrorCode.NONE), 3 * S + 1) == []
    assert client.wake(4 * S) == []


def test_it_beats_while_it_waits_for_its_assignment() -> None:
    client = consumer()
    client.start(0)
    client.handle_response(joined(), 0)
    assert one(client.wake(3 * S), HeartbeatRequest).generation == 1
    # Not news while it waits.
    assert client.handle_response(HeartbeatResponse(ErrorCode.REBALANCE_IN_PROGRESS), 4 * S) == []
    assert client.phase is ClassicPhase.SYNCING


def test_who_hears_of_a_rebalance_joins_at_its_next_poll() -> None:
    client = stable(P0, rejoin_delay_ms=500)
    assert client.handle_response(HeartbeatResponse(ErrorCode.REBALANCE_IN_PROGRESS), 3 * S) == []
    assert client.owned == {P0}
    assert client.due_ms_except_heartbeats == 3_500
    # Once is enough.
    client.handle_response(HeartbeatResponse(ErrorCode.REBALANCE_IN_PROGRESS), 3 * S + 100)
    assert client.due_ms_except_heartbeats == 3_500
    beat, again = client.wake(3_500)
    assert isinstance(beat, HeartbeatRequest)
    assert isinstance(again, JoinGroupRequest)
    assert (again.member_id, again.reason, client.owned) == ("c-1", None, frozenset())
    # While it waits for the join phase's end, nothing is to be said.
    assert client.due_ms == 3_500 + client.settings.max_poll_interval_ms + 5 * S


def test_it_joins_at_once_if_it_polls_all_the_time() -> None:
    client = stable(P0)
    assert (
        one(
            client.handle_response(HeartbeatResponse(ErrorCode.REBALANCE_IN_PROGRESS), 3 * S), JoinGroupRequest
        ).member_id
        == "c-1"
    )


# Errors. Number, why, answer to a stable follower's heartbeat or sync, member id in the new JoinGroup.
LOST: list[tuple[int, str, ErrorCode, str]] = [
    (1, "the member is gone: it begins anew", ErrorCode.UNKNOWN_MEMBER_ID, ""),
    (2, "the generation is over: the id is good", ErrorCode.ILLEGAL_GENERATION, "c-1"),
]


@pytest.mark.parametrize("row", LOST, ids=lambda row: f"{row[0]}-{row[1]}")
@pytest.mark.parametrize("assignors", [("range",), COOPERATIVE])
def test_who_is_no_longer_in_the_generation_lost_everything(
    row: tuple[int, str, ErrorCode, str], assignors: tuple[str, ...]
) -> None:
    *_, error, member_id = row
    client = stable(P0, assignors=assignors)
    again = one(client.handle_response(HeartbeatResponse(error), 3 * S), JoinGroupRequest)
    assert (again.member_id, said(again).owned, said(again).generation) == (member_id, (), None)
    assert (client.owned, client.generation) == (frozenset(), -1)


@pytest.mark.parametrize("row", LOST, ids=lambda row: f"{row[0]}-{row[1]}")
def test_a_sync_refused(row: tuple[int, str, ErrorCode, str]) -> None:
    *_, error, member_id = row
    client = consumer()
    client.start(0)
    client.handle_response(joined(), 1)
    assert one(client.handle_response(SyncGroupResponse(error), 2), JoinGroupRequest).member_id == member_id
    assert client.phase is ClassicPhase.JOINING


def test_a_rebalance_while_it_syncs() -> None:
    client = stable(P0, assignors=COOPERATIVE)
    client.rejoin(1)
    client.handle_response(joined(2), 2)
    again = one(client.handle_response(SyncGroupResponse(ErrorCode.REBALANCE_IN_PROGRESS), 3), JoinGroupRequest)
    assert (again.member_id, said(again).owned, said(again).generation) == ("c-1", (P0,), 2)


def test_a_join_refused_for_an_unknown_id_begins_anew() -> None:
    client = stable(P0)
    client.rejoin(1)
    assert (
        one(client.handle_response(JoinGroupResponse(ErrorCode.UNKNOWN_MEMBER_ID), 2), JoinGroupRequest).member_id
        == ""
    )


@pytest.mark.parametrize(
    "error",
    [
        ErrorCode.FENCED_INSTANCE_ID,
        ErrorCode.INCONSISTENT_GROUP_PROTOCOL,
        ErrorCode.INVALID_SESSION_TIMEOUT,
    ],
)
def test_what_a_consumer_does_not_survive(error: ErrorCode) -> None:
    client = consumer()
    client.start(0)
    assert client.handle_response(JoinGroupResponse(error), 1) == []
    assert (client.phase, client.fatal_error, client.is_running, client.due_ms) == (
        ClassicPhase.FAILED,
        error,
        False,
        None,
    )
    assert client.handle_response(joined(), 2) == []


def test_a_fenced_member_stops() -> None:
    client = stable(P0, instance_id="i-1")
    assert client.handle_response(HeartbeatResponse(ErrorCode.FENCED_INSTANCE_ID), 3 * S) == []
    assert (client.phase, client.owned, client.due_ms) == (ClassicPhase.FAILED, frozenset(), None)


def test_a_coordinator_that_is_not_there_is_asked_again() -> None:
    client = stable(P0)
    assert client.handle_response(HeartbeatResponse(ErrorCode.COORDINATOR_NOT_AVAILABLE), 3 * S) == []
    assert client.due_ms == 3_100
    assert one(client.wake(3_100), JoinGroupRequest).member_id == "c-1"


def test_answers_that_come_too_late_say_nothing() -> None:
    client = stable(P0)
    assert client.handle_response(joined(7), 1) == []
    assert client.handle_response(SyncGroupResponse(ErrorCode.UNKNOWN_MEMBER_ID), 1) == []
    assert client.handle_response(LeaveGroupResponse(ErrorCode.NONE), 1) == []
    assert (client.phase, client.generation) == (ClassicPhase.STABLE, 1)
    client.rejoin(2)
    assert client.handle_response(HeartbeatResponse(ErrorCode.UNKNOWN_MEMBER_ID), 3) == []
    assert client.phase is ClassicPhase.JOINING
    with pytest.raises(TypeError, match="expected an answer of a coordinator"):
        client.handle_response("what?", 4)


# The poll loop stalls.


def test_a_short_stall_only_delays() -> None:
    client = stable(P0)
    client.stall(20 * S, 1 * S)
    assert one(client.wake(3 * S), HeartbeatRequest).generation == 1
    assert client.handle_response(HeartbeatResponse(ErrorCode.REBALANCE_IN_PROGRESS), 4 * S) == []
    assert isinstance(one(client.wake(6 * S), HeartbeatRequest), HeartbeatRequest)
    beat, again = client.wake(21 * S)
    assert (type(beat), type(again)) == (HeartbeatRequest, JoinGroupRequest)
    assert (client.not_polling_since_ms, client.phase) == (None, ClassicPhase.JOINING)


def test_stalls_add_up_to_the_longest() -> None:
    client = stable(P0)
    client.stall(20 * S, 0)
    client.stall(5 * S, 1 * S)
    assert (client.due_ms_except_heartbeats, client.not_polling_since_ms) == (20 * S, 0)
    client.stall(50 * S, 2 * S)
    assert (client.due_ms_except_heartbeats, client.not_polling_since_ms) == (52 * S, 0)


def test_a_dynamic_member_that_does_not_poll_leaves_and_comes_back_as_another() -> None:
    slow = {"heartbeat_interval_ms": 100 * S, "session_timeout_ms": 300 * S}
    client = stable(P0, assignors=COOPERATIVE, max_poll_interval_ms=60 * S, **slow)
    client.stall(90 * S, 5 * S)
    assert client.due_ms == 65 * S
    left = one(client.wake(65 * S), LeaveGroupRequest)
    assert left.members == (LeavingMember("c-1", None, RebalanceReason.POLL_TIMEOUT),)
    assert client.owned == {P0}
    assert client.due_ms == 95 * S
    again = one(client.wake(95 * S), JoinGroupRequest)
    assert (again.member_id, said(again).owned, said(again).generation) == ("", (), None)


def test_a_static_member_that_does_not_poll_goes_silent_and_comes_back_without_its_id() -> None:
    client = stable(P0, instance_id="i-1", max_poll_interval_ms=60 * S, heartbeat_interval_ms=100 * S)
    client.stall(90 * S, 5 * S)
    assert client.wake(65 * S) == []
    # The group knows it by its id for as long as its session lasts, and what it held waits for it.
    assert (client.member_id, client.owned, client.due_ms) == ("c-1", {P0}, 95 * S)
    again = one(client.wake(95 * S), JoinGroupRequest)
    assert (again.member_id, again.instance_id, client.owned) == ("", "i-1", frozenset())


def test_the_poll_timeout_counts_while_it_syncs_too() -> None:
    client = consumer(max_poll_interval_ms=10 * S, heartbeat_interval_ms=100 * S)
    client.start(0)
    client.handle_response(joined(), 1 * S)
    client.stall(60 * S, 2 * S)
    assert client.handle_response(SyncGroupResponse(ErrorCode.REBALANCE_IN_PROGRESS), 3 * S) == []
    # It has not joined again, but it is a member as before.
    assert one(client.wake(12 * S), LeaveGroupRequest).members[0].reason is RebalanceReason.POLL_TIMEOUT


def test_a_refused_sync_waits_for_the_next_poll() -> None:
    client = consumer()
    client.start(0)
    client.handle_response(joined(), 0)
    client.stall(10 * S, 1 * S)
    assert client.handle_response(SyncGroupResponse(ErrorCode.REBALANCE_IN_PROGRESS), 2 * S) == []
    assert one(client.wake(3 * S), HeartbeatRequest).generation == 1
    beat, again = client.wake(11 * S)
    assert (type(beat), type(again)) == (HeartbeatRequest, JoinGroupRequest)


def test_who_stalls_while_it_joins_hears_the_answer_at_its_next_poll() -> None:
    client = consumer()
    client.start(0)
    client.stall(30 * S, 1 * S)
    assert client.handle_response(JoinGroupResponse(ErrorCode.MEMBER_ID_REQUIRED, "c-1"), 2 * S) == []
    assert client.due_ms == 31 * S
    assert one(client.wake(31 * S), JoinGroupRequest).member_id == "c-1"


def test_who_lost_its_place_while_it_stalled_joins_when_it_polls() -> None:
    client = stable(P0)
    client.stall(30 * S, 1 * S)
    assert client.handle_response(HeartbeatResponse(ErrorCode.UNKNOWN_MEMBER_ID), 4 * S) == []
    assert client.due_ms == 31 * S
    assert one(client.wake(31 * S), JoinGroupRequest).member_id == ""


# The process stands still.


def test_a_frozen_process_says_and_hears_nothing() -> None:
    client = stable(P0)
    client.freeze(30 * S, 1 * S)
    assert client.due_ms == 31 * S
    assert client.wake(20 * S) == []
    assert client.handle_response(HeartbeatResponse(ErrorCode.REBALANCE_IN_PROGRESS), 5 * S) == []
    assert client.phase is ClassicPhase.STABLE
    # Then it takes what came meanwhile, in order.
    again = one(client.wake(31 * S), JoinGroupRequest)
    assert (again.member_id, client.not_polling_since_ms) == ("c-1", None)


def test_a_freeze_longer_than_the_poll_timeout_is_over_before_anybody_looks() -> None:
    client = stable(P0, max_poll_interval_ms=10 * S)
    client.freeze(30 * S, 1 * S)
    beat = one(client.wake(31 * S), HeartbeatRequest)
    assert beat.member_id == "c-1"
    assert (
        one(
            client.handle_response(HeartbeatResponse(ErrorCode.UNKNOWN_MEMBER_ID), 32 * S), JoinGroupRequest
        ).member_id
        == ""
    )


def test_a_freeze_within_a_stall_is_over_before_it() -> None:
    client = stable(P0)
    client.stall(60 * S, 1 * S)
    client.freeze(10 * S, 2 * S)
    assert client.due_ms == 12 * S
    assert isinstance(one(client.wake(12 * S), HeartbeatRequest), HeartbeatRequest)
    assert (client.due_ms, client.due_ms_except_heartbeats) == (15 * S, 61 * S)
    client.freeze(5 * S, 13 * S)
    client.freeze(1 * S, 14 * S)
    assert client.due_ms == 18 * S


def test_a_freeze_within_a_stall_shows_the_poll_timeout_late() -> None:
    client = stable(P0, max_poll_interval_ms=10 * S)
    client.stall(60 * S, 1 * S)
    client.freeze(20 * S, 2 * S)
    left, *rest = client.wake(22 * S)
    assert isinstance(left, LeaveGroupRequest)
    assert rest == []


def test_an_answer_to_join_waits_on_if_the_thaw_is_not_a_poll() -> None:
    client = consumer()
    client.start(0)
    client.stall(60 * S, 1 * S)
    client.freeze(10 * S, 2 * S)
    client.handle_response(joined(), 3 * S)
    assert client.wake(12 * S) == []
    assert one(client.wake(61 * S), SyncGroupRequest).generation == 1


# Ends.


def test_a_dynamic_member_says_that_it_closes() -> None:
    client = stable(P0)
    left = one(client.close(1), LeaveGroupRequest)
    assert left.members == (LeavingMember("c-1", None, RebalanceReason.MEMBER_LEFT),)
    assert (client.phase, client.owned, client.member_id, client.due_ms) == (
        ClassicPhase.STOPPED,
        frozenset(),
        "",
        None,
    )
    assert client.handle_response(LeaveGroupResponse(ErrorCode.NONE), 2) == []


def test_a_static_member_closes_without_a_word() -> None:
    client = stable(P0, instance_id="i-1")
    assert client.close(1) == []
    assert (client.phase, client.owned, client.member_id, client.not_polling_since_ms) == (
        ClassicPhase.STOPPED,
        {P0},
        "c-1",
        1,
    )


def test_closing_while_it_joins() -> None:
    client = stable(P0)
    client.rejoin(1)
    assert one(client.close(2), LeaveGroupRequest).members[0].member_id == "c-1"
    # The first answer is not there: no id, nothing to say.
    client = consumer()
    client.start(0)
    assert client.close(1) == []


def test_closing_after_it_was_cut_off_says_nothing() -> None:
    client = stable(P0)
    client.stall(60 * S, 1)
    client.handle_response(HeartbeatResponse(ErrorCode.ILLEGAL_GENERATION), 2)
    assert (client.phase, client.member_id) == (ClassicPhase.UNJOINED, "c-1")
    assert client.close(3) == []


def test_a_killed_client_is_as_it_was_but_silent() -> None:
    client = stable(P0)
    client.stall(60 * S, 1 * S)
    assert client.kill(5 * S) == []
    assert (client.phase, client.owned, client.member_id, client.not_polling_since_ms) == (
        ClassicPhase.STOPPED,
        {P0},
        "c-1",
        1 * S,
    )
    assert client.wake(61 * S) == []


# What a leader watches.


def leader(partitions: dict[str, int]) -> ClassicConsumer:
    client = consumer(partitions)
    client.start(0)
    members = (
        ("c-1", None, MemberSubscription(frozenset({"t"}))),
        ("d-1", None, MemberSubscription(frozenset({"u"}))),
    )
    client.handle_response(joined(1, "c-1", members=members), 0)
    return client


def test_a_leader_joins_again_when_a_topic_of_anybody_grows() -> None:
    partitions = {"t": 3}
    client = leader(partitions)
    client.handle_response(SyncGroupResponse(ErrorCode.NONE, ()), 0)
    partitions["v"] = 1
    assert client.metadata_changed(1) == []
    partitions["u"] = 1
    assert one(client.metadata_changed(2), JoinGroupRequest).reason is RebalanceReason.PARTITIONS_CHANGED


def test_a_topic_that_grows_while_the_leader_syncs_is_assigned_next() -> None:
    partitions = {"t": 3}
    client = leader(partitions)
    partitions["t"] = 4
    assert client.metadata_changed(1) == []
    assert (
        one(client.handle_response(SyncGroupResponse(ErrorCode.NONE, ()), 2), JoinGroupRequest).reason
        is RebalanceReason.PARTITIONS_CHANGED
    )


def test_a_topic_that_grows_while_the_leader_joins_is_assigned_then() -> None:
    partitions = {"t": 3}
    client = leader(partitions)
    client.handle_response(SyncGroupResponse(ErrorCode.NONE, ()), 0)
    client.rejoin(1)
    partitions["t"] = 4
    assert client.metadata_changed(2) == []
    client.handle_response(joined(2), 3)
    assert client.handle_response(SyncGroupResponse(ErrorCode.NONE, ()), 4) == []


def test_a_follower_does_not_look() -> None:
    partitions = {"t": 3}
    client = stable(P0, partitions=partitions)
    partitions["t"] = 4
    assert client.metadata_changed(1) == []


# Heartbeats that need not be played.


def test_skipped_heartbeats_keep_their_rhythm() -> None:
    client = stable(P0)
    assert client.beats_safely
    assert client.skip_heartbeats(3 * S) is None
    assert client.skip_heartbeats(9 * S) == 6 * S
    assert client.due_ms == 9 * S
    client.freeze(60 * S, 9 * S)
    assert client.skip_heartbeats(99 * S) is None
    assert not client.beats_safely
    assert not stable(P0, session_timeout_ms=6 * S).beats_safely
    assert not consumer().beats_safely
    assert consumer().skip_heartbeats(9 * S) is None
