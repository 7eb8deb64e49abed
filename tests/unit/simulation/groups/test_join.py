"""JoinGroup of classic groups: who is let in, under which id, and when the join phase ends. Against Kafka 4.3."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from agent.simulation.groups.messages import (
    ErrorCode,
    MemberRemoved,
    RebalancePrepared,
    RebalanceReason,
    RejoinRequested,
)
from agent.simulation.groups.script import BrokerSettings
from tests.unit.simulation.groups.driving import AT_ONCE, Driven, stable

S = 1000

# Number, why, session timeout, error.
SESSIONS: list[tuple[int, str, int, str]] = [
    (1, "below the least", 5_999, "INVALID_SESSION_TIMEOUT"),
    (2, "the least", 6_000, "NONE"),
    (3, "the most", 1_800_000, "NONE"),
    (4, "above the most", 1_800_001, "INVALID_SESSION_TIMEOUT"),
]


@pytest.mark.parametrize("row", SESSIONS, ids=lambda row: f"{row[0]}-{row[1]}")
def test_session_timeouts_have_bounds(row: tuple[int, str, int, str]) -> None:
    _, _, session, error = row
    group = Driven()
    group.join("a", 0, session=session)
    assert group.joined("a").error == error
    assert (group.coordinator.group is not None) == (error == "NONE")


# The checks, in the broker's order: each row breaks the rules of all rows after it, too.
# Number, session timeout, protocol type, error.
ORDER: list[tuple[int, int, str, str]] = [
    (1, 1, "connect", "INVALID_SESSION_TIMEOUT"),
    (2, 10_000, "connect", "INCONSISTENT_GROUP_PROTOCOL"),
    (3, 10_000, "consumer", "FENCED_INSTANCE_ID"),
]


@pytest.mark.parametrize("row", ORDER, ids=lambda row: f"{row[0]}-{row[3]}")
def test_the_order_of_checks(row: tuple[int, int, str, str]) -> None:
    _, session, protocol_type, error = row
    group = stable("a", "B")
    answer = group.join("c", 1, member_id="x", instance_id="B", session=session, protocol_type=protocol_type)
    assert (answer.error, answer.member_id) == (error, "x")
    assert group.state == "Stable"


def test_the_order_of_checks_where_there_is_no_group() -> None:
    group = Driven()
    assert group.join("a", 0, member_id="x", session=1).error == "INVALID_SESSION_TIMEOUT"
    answer = group.join("a", 0, member_id="x", session=10_000, protocol_type="")
    assert (answer.error, answer.member_id) == ("UNKNOWN_MEMBER_ID", "x")
    assert group.coordinator.group is None
    assert group.images == []


def test_who_a_member_is_must_fit() -> None:
    group = stable("a", "B")
    # Known by its static id, but not by its member id.
    assert group.join("c", 1, member_id="x", instance_id=None).error == "UNKNOWN_MEMBER_ID"
    # Known by its member id, but not by its static id.
    assert group.join("c", 1, member_id=group.ids["a"], instance_id="Z").error == "UNKNOWN_MEMBER_ID"
    assert group.state == "Stable"


# Number, why, protocol type, offers, error.
PROTOCOLS: list[tuple[int, str, str, tuple[str, ...], str]] = [
    (1, "another type", "connect", ("range",), "INCONSISTENT_GROUP_PROTOCOL"),
    (2, "none that the group shares", "consumer", ("roundrobin",), "INCONSISTENT_GROUP_PROTOCOL"),
    (3, "one that only some support", "consumer", ("sticky",), "INCONSISTENT_GROUP_PROTOCOL"),
    (4, "nothing offered", "consumer", (), "INCONSISTENT_GROUP_PROTOCOL"),
    (5, "one of several", "consumer", ("roundrobin", "range"), "MEMBER_ID_REQUIRED"),
]


@pytest.mark.parametrize("row", PROTOCOLS, ids=lambda row: f"{row[0]}-{row[1]}")
def test_a_protocol_must_be_everybodys(row: tuple[int, str, str, tuple[str, ...], str]) -> None:
    *_, protocol_type, offers, error = row
    group = Driven()
    group.join("a", 0, offers=("range", "sticky"))
    group.admit("b", 0, "a", offers=("range",))
    group.settle(0, "a", "b")
    answer = group.join("c", 1, protocol_type=protocol_type, offers=offers, goes_on=False)
    assert answer.error == error
    assert group.state == "Stable"


def test_an_empty_group_takes_any_protocol() -> None:
    group = stable("a")
    group.leave(1, "a")
    assert group.state == "Empty"
    assert group.group.protocol_type == "consumer"
    group.join("w", 2, protocol_type="connect", offers=("compatible",))
    assert group.joined("w").protocol == "compatible"
    assert group.group.protocol_type == "connect"


@pytest.mark.parametrize(("protocol_type", "offers"), [("", ("range",)), ("consumer", ())])
def test_even_an_empty_group_wants_a_protocol(protocol_type: str, offers: tuple[str, ...]) -> None:
    group = Driven()
    answer = group.join("a", 5, protocol_type=protocol_type, offers=offers)
    assert (answer.error, answer.member_id) == ("INCONSISTENT_GROUP_PROTOCOL", "")
    # The broker has made the group by then, and writes so.
    assert [(it.at_ms, it.state, it.generation) for it in group.images] == [(5, "Empty", 0)]
    assert group.state == "Empty"


def test_a_rebalance_that_lost_all_members_keeps_its_type() -> None:
    group = stable("A", "b")
    group.join("c", 1, goes_on=False)
    # "c" has an id and does not come: the phase cannot end while the others leave.
    group.join("b", 2, offers=("range", "sticky"))
    group.leave(3, "A", "b")
    assert (group.state, list(group.group.members)) == ("PreparingRebalance", [])
    assert group.join("d", 4, protocol_type="connect").error == "INCONSISTENT_GROUP_PROTOCOL"
    assert (
        group.join("d", 4, protocol_type="consumer", offers=("sticky",), goes_on=False).error == "MEMBER_ID_REQUIRED"
    )


# Ids.


def test_a_dynamic_member_is_given_an_id_first() -> None:
    group = Driven()
    answer = group.join("a", 0, goes_on=False)
    assert answer.error is ErrorCode.MEMBER_ID_REQUIRED
    assert answer.member_id.startswith("a-")
    assert len(answer.member_id) == len("a-") + 36
    assert (group.state, group.group.roster.pending_member_ids) == ("Empty", {answer.member_id})
    group.join("a", 1, member_id=answer.member_id)
    assert group.joined("a").member_id == answer.member_id
    assert group.group.roster.pending_member_ids == set()


def test_static_members_join_at_once() -> None:
    group = Driven()
    group.join("B", 0, instance_id="i-1")
    group.joined("B")
    assert group.ids["B"].startswith("i-1-")
    assert len(group.ids["B"]) == len("i-1-") + 36


def test_an_id_that_was_given_out_is_no_static_members() -> None:
    group = Driven()
    given = group.join("a", 0, goes_on=False).member_id
    answer = group.join("a", 1, member_id=given, instance_id="i-1")
    assert (answer.error, answer.member_id) == ("UNKNOWN_SERVER_ERROR", "")
    assert group.group.roster.pending_member_ids == {given}


def test_an_id_that_is_not_used_expires_after_the_session_timeout() -> None:
    group = stable("a")
    group.ids["b"] = group.join("b", 1 * S, session=10 * S, goes_on=False).member_id
    # A pending id alone begins no rebalance.
    assert group.state == "Stable"
    group.beat("a", 9 * S)
    group.until(11 * S - 1)
    assert group.group.roster.pending_member_ids == {group.ids["b"]}
    group.until(11 * S)
    assert group.removed() == [("b", 11 * S, RebalanceReason.PENDING_EXPIRED)]
    assert group.group.roster.pending_member_ids == set()
    assert group.join("b", 12 * S).error == "UNKNOWN_MEMBER_ID"
    assert group.state == "Stable"


def test_a_join_phase_waits_for_pending_ids() -> None:
    group = stable("a", session=30 * S)
    group.join("b", 1 * S)
    given = group.join("c", 2 * S, session=10 * S, goes_on=False).member_id
    group.join("a", 3 * S)
    assert group.state == "PreparingRebalance"
    group.ids["c"] = given
    group.until(12 * S)
    assert group.state == "CompletingRebalance"
    assert group.joined("a").generation == group.joined("b").generation == 2
    assert group.removed() == [("c", 12 * S, RebalanceReason.PENDING_EXPIRED)]


def test_a_pending_id_may_leave() -> None:
    group = stable("a")
    group.ids["b"] = group.join("b", 1, goes_on=False).member_id
    assert group.leave(2, "b").members == ("NONE",)
    # The broker makes no difference here between who was in and who was not yet.
    assert (group.state, group.group.roster.pending_member_ids) == ("PreparingRebalance", set())
    assert group.group.due_ms_without(group.group.members) == 2 + 60 * S


def test_a_member_that_waits_is_no_reason_to_end_the_phase() -> None:
    group = stable("a", "b", session=20 * S)
    group.join("c", 0, session=60 * S, goes_on=False)
    group.join("a", 1)
    group.join("b", 2)
    # The deadlines of "a" and "b" pass; they wait for answers, and so nothing comes of it.
    group.until(59 * S)
    assert [group.deadline(who) for who in "ab"] == [None, None]
    assert group.state == "PreparingRebalance"


# The initial rebalance.


def test_the_first_join_phase_lasts_the_initial_delay() -> None:
    group = Driven(BrokerSettings())
    group.join("a", 0)
    group.until(2_999)
    assert group.state == "PreparingRebalance"
    group.until(3_000)
    assert group.joined("a").generation == 1


def test_the_initial_delay_is_prolonged_while_members_come() -> None:
    group = Driven(BrokerSettings())
    group.join("a", 0)
    group.join("b", 2 * S)
    group.until(3 * S)
    assert group.state == "PreparingRebalance"
    group.join("c", 5 * S)
    group.until(6 * S)
    assert group.state == "PreparingRebalance"
    group.until(9 * S - 1)
    assert group.state == "PreparingRebalance"
    group.until(9 * S)
    assert {group.joined(who).generation for who in "abc"} == {1}


def test_the_initial_delay_ends_with_the_rebalance_timeout() -> None:
    group = Driven(BrokerSettings())
    group.join("a", 0, rebalance=7 * S)
    for second in range(1, 7):
        group.join(f"m{second}", second * S, rebalance=7 * S)
    # 3 + 3 + 1 seconds.
    group.until(7 * S - 1)
    assert group.state == "PreparingRebalance"
    group.until(7 * S)
    assert (group.state, len(group.group.members)) == ("CompletingRebalance", 7)


def test_a_delay_longer_than_the_rebalance_timeout_is_not_prolonged() -> None:
    group = Driven(BrokerSettings())
    group.join("a", 0, rebalance=2 * S)
    group.join("b", 1 * S, rebalance=2 * S)
    group.until(3 * S)
    assert group.state == "CompletingRebalance"
    # The broker forgets only by prolonging that somebody came: the group's next life begins with a longer delay.
    for who in "ab":
        group.joined(who)
    group.leave(4 * S, "a", "b")
    assert group.state == "Empty"
    group.ids.clear()
    group.join("a", 10 * S, rebalance=60 * S)
    group.until(13 * S)
    assert group.state == "PreparingRebalance"
    group.until(16 * S)
    assert group.joined("a").generation == 3


def test_a_new_member_that_joins_the_first_phase_does_not_end_it() -> None:
    group = Driven(BrokerSettings())
    group.join("a", 0)
    group.join("a", 1)
    assert group.state == "PreparingRebalance"
    assert len(group.of(RebalancePrepared)) == 1


def test_a_new_member_that_waits_too_long_is_out() -> None:
    group = Driven(replace(AT_ONCE, new_member_join_timeout_ms=5 * S, initial_rebalance_delay_ms=10 * S))
    group.join("a", 0)
    group.ids["b"] = group.join("b", 1 * S, goes_on=False).member_id
    group.until(5 * S)
    assert group.answers["a"][-1].error == "UNKNOWN_MEMBER_ID"
    assert [(it.at_ms, it.reason) for it in group.of(MemberRemoved)] == [(5 * S, RebalanceReason.SESSION_TIMEOUT)]
    # Nobody is in, one is on the way: the phase waits, and "b" is welcome.
    assert group.state == "PreparingRebalance"
    assert group.join("b", 6 * S) is None
    assert list(group.group.members) == [group.ids["b"]]
    assert group.group.leader == group.ids["b"]


def test_an_expiry_ends_even_the_first_phase_if_all_have_joined() -> None:
    group = Driven(replace(AT_ONCE, initial_rebalance_delay_ms=20 * S))
    group.join("a", 0)
    group.join("b", 1 * S, session=6 * S, goes_on=False)
    group.until(7 * S)
    assert group.joined("a").generation == 1


# The end of the join phase.


def test_the_phase_ends_when_all_have_rejoined() -> None:
    group = stable("a", "b")
    group.join("c", 1)
    began = group.of(RebalancePrepared)[-1]
    assert (began.reason, began.member_id, began.at_ms) == (
        RebalanceReason.MEMBER_JOINED,
        list(group.group.members)[-1],
        1,
    )
    group.join("a", 2)
    assert group.state == "PreparingRebalance"
    group.join("b", 3)
    assert group.state == "CompletingRebalance"
    answers = {who: group.joined(who) for who in "abc"}
    assert {it.generation for it in answers.values()} == {3}
    assert {it.leader for it in answers.values()} == {group.ids["a"]}
    assert [member_id for member_id, _, _ in answers["a"].members] == [group.ids[who] for who in "abc"]
    assert answers["b"].members == answers["c"].members == ()
    assert {(it.protocol_type, it.protocol) for it in answers.values()} == {("consumer", "range")}


def test_who_does_not_rejoin_is_dropped_unless_static() -> None:
    group = stable("a", "b", "C", session=120 * S)
    group.join("d", 1 * S, rebalance=90 * S)
    group.join("a", 2 * S)
    # The longest rebalance timeout counts.
    group.until(1 * S + 90 * S - 1)
    assert group.state == "PreparingRebalance"
    group.until(1 * S + 90 * S)
    assert group.removed() == [("b", 91 * S, RebalanceReason.NOT_REJOINED)]
    assert {group.joined(who).generation for who in "ad"} == {4}
    assert [group.ids[who] for who in "aCd"] == list(group.group.members)
    assert {member_id for member_id, _, _ in group.joined("a").members} == {group.ids[who] for who in "aCd"}
    assert group.group.leader == group.ids["a"]


def test_a_leader_that_does_not_rejoin_leads_no_more() -> None:
    group = stable("A", "b", session=120 * S)
    assert group.group.leader == group.ids["A"]
    group.join("b", 1 * S, metadata="new")
    group.until(61 * S)
    # Static, so it stays; but somebody must assign.
    assert set(group.group.members) == {group.ids["A"], group.ids["b"]}
    assert group.joined("b").leader == group.ids["b"]
    assert len(group.joined("b").members) == 2


def test_if_nobody_rejoins_the_phase_begins_anew_until_sessions_end() -> None:
    group = stable("A", "B", "c", session=150 * S)
    group.leave(1 * S, "c")
    group.until(61 * S)
    assert group.state == "PreparingRebalance"
    assert group.group.generation == 3
    assert len(group.group.members) == 2
    group.until(150 * S)
    assert group.state == "Empty"
    assert group.removed()[1:] == [
        ("A", 150 * S, RebalanceReason.SESSION_TIMEOUT),
        ("B", 150 * S, RebalanceReason.SESSION_TIMEOUT),
    ]
    image = group.images[-1]
    assert (image.generation, image.leader, image.protocol, image.protocol_type) == (4, None, None, "consumer")
    assert (image.at_ms, image.state_since_ms, image.members) == (150 * S, 150 * S, ())


def test_who_rejoins_after_all_leads() -> None:
    group = stable("A", "B", "c", session=500 * S)
    group.leave(1 * S, "c")
    group.until(61 * S)
    group.join("B", 70 * S)
    group.until(121 * S)
    answer = group.joined("B")
    assert (answer.leader, answer.generation, len(answer.members)) == (group.ids["B"], 4, 2)


# Joining again.


def test_a_follower_that_joins_again_unchanged_gets_what_it_had() -> None:
    group = stable("a", "b")
    answer = group.join("b", 1)
    assert (answer.error, answer.generation, answer.leader, answer.members) == ("NONE", 2, group.ids["a"], ())
    assert group.state == "Stable"
    assert group.sync("b", 2).assignment == "b's"


# Number, why, who joins again, changed metadata, cause.
AGAIN: list[tuple[int, str, str, str, RebalanceReason]] = [
    (1, "the leader, unchanged", "a", "", RebalanceReason.LEADER_REJOINED),
    (2, "the leader, changed", "a", "new", RebalanceReason.SUBSCRIPTION_CHANGED),
    (3, "a follower, changed", "b", "new", RebalanceReason.SUBSCRIPTION_CHANGED),
]


@pytest.mark.parametrize("row", AGAIN, ids=lambda row: f"{row[0]}-{row[1]}")
def test_who_makes_a_stable_group_rebalance(row: tuple[int, str, str, str, RebalanceReason]) -> None:
    *_, who, metadata, why = row
    group = stable("a", "b")
    assert group.join(who, 1, metadata=metadata) is None
    assert group.state == "PreparingRebalance"
    assert (group.of(RebalancePrepared)[-1].reason, group.of(RebalancePrepared)[-1].member_id) == (
        why,
        group.ids[who],
    )


def test_joining_again_while_assignments_are_awaited() -> None:
    group = Driven()
    group.join("a", 0)
    group.admit("b", 0, "a")
    for who, members in (("a", 2), ("b", 0)):
        answer = group.join(who, 1)
        assert (answer.generation, len(answer.members), answer.skip_assignment) == (2, members, False)
    group.sync("b", 2)
    assert group.join("a", 3, metadata="new") is None
    assert group.answers["b"][-1].error == "REBALANCE_IN_PROGRESS"
    assert group.state == "PreparingRebalance"


def test_new_timeouts_come_with_a_join_that_counts() -> None:
    group = stable("a", "b")
    group.join("b", 1, session=20 * S, rebalance=30 * S)
    member = group.group.members[group.ids["b"]]
    assert (member.request.session_timeout_ms, member.request.rebalance_timeout_ms) == (10 * S, 60 * S)
    group.join("a", 2)
    group.join("b", 3)
    assert (member.request.session_timeout_ms, member.request.rebalance_timeout_ms) == (20 * S, 30 * S)
    group.joined("b")
    assert group.deadline("b") == 3 + 20 * S


def test_who_asks_twice_is_answered_once_in_good() -> None:
    group = stable("a", "b")
    assert group.join("a", 1) is None
    # Another connection of the same member.
    group.settings["a2"] = dict(group.settings["a"])
    group.ids["a2"] = group.ids["a"]
    group.join("a2", 2)
    assert group.answers["a"][-1].error == "UNKNOWN_MEMBER_ID"
    group.join("b", 3)
    assert group.answers["a2"][-1].error == "NONE"
    assert len(group.answers["a"]) == 1


def test_what_else_comes_while_a_rebalance_is_prepared() -> None:
    group = stable("a", "b", "c")
    group.join("a", 1)
    group.join("d", 2)
    group.leave(3, "b")
    assert [(it.reason, it.at_ms) for it in group.of(RejoinRequested)] == [
        (RebalanceReason.MEMBER_JOINED, 2),
        (RebalanceReason.MEMBER_LEFT, 3),
    ]
    assert len(group.of(RebalancePrepared)) == 4


# The vote. Number, why, offers by member, elected.
VOTES: list[tuple[int, str, dict[str, tuple[str, ...]], str]] = [
    (1, "most votes win", {"a": ("range", "sticky"), "b": ("sticky", "range"), "c": ("sticky", "range")}, "sticky"),
    (2, "only what all support", {"a": ("range", "sticky"), "b": ("sticky", "range"), "c": ("range",)}, "range"),
    (3, "a first preference that not all support passes on", {"a": ("x", "range"), "b": ("range",)}, "range"),
    # In a HashMap of 16 buckets "sticky" has bucket 8, "range" 9, "roundrobin" 10 (see `in_hash_order`).
    (4, "a tie: first in the broker's order", {"a": ("range", "sticky"), "b": ("sticky", "range")}, "sticky"),
    (5, "a tie, whoever came first", {"a": ("roundrobin", "range"), "b": ("range", "roundrobin")}, "range"),
]


@pytest.mark.parametrize("row", VOTES, ids=lambda row: f"{row[0]}-{row[1]}")
def test_the_vote(row: tuple[int, str, dict[str, tuple[str, ...]], str]) -> None:
    *_, offers, elected = row
    group = Driven()
    names = list(offers)
    for number, name in enumerate(names):
        group.admit(name, 0, *names[:number], offers=offers[name])
    assert group.joined(names[0]).protocol == elected
