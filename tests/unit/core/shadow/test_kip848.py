"""KIP-848, share and streams groups, record by record in the order in which a coordinator writes them."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from agent.core.inference.external_evidence import KnownSessions
from agent.core.inference.session_settings import SessionSetting
from agent.core.shadow.kip848 import GROUP_CLASSES_BY_KEY_TYPE
from agent.core.shadow.mirror import PartitionMirror
from agent.core.shadow.transitions import (
    AssignmentChanged,
    GroupCreated,
    MemberJoined,
    MemberLeft,
    Rebalanced,
    StaticMemberReplaced,
    Transition,
)
from agent.core.wire.json_form import uuid_text
from agent.core.wire.records import RECORD_TYPES
from analyzers.windows import leaves_without_goodbye
from tests.unit.core.shadow import build as b
from tests.unit.core.shadow.build import GROUP, STEP_MS, T0, Log, Pair
from tests.unit.core.shadow.scripts import CONSUMER, KINDS, PARTITIONS, SHARE, STREAMS, Kind, ModernScript


def of(transitions: list[Transition], kind: type[Any]) -> list[Any]:
    return [transition for transition in transitions if isinstance(transition, kind)]


def ids(members: Any) -> list[str]:
    return [member.member_id for member in members]


def two(kind: Kind = CONSUMER) -> tuple[Log, ModernScript]:
    """A group in which two members are stable."""
    log, script = Log(), ModernScript(kind, GROUP)
    log.add(*script.join("a-1"))
    log.add(*script.join("b-1"))
    for member_id in ("a-1", "a-1", "b-1"):
        log.add(*script.heartbeat(member_id))
    assert log.view().state == "Stable"
    return log, script


# Number, why, one record, the state after it: a group's first two members, by `maybeUpdateGroupState`.
STATES: list[tuple[int, str, Pair, str]] = [
    (1, "a member without an assignment is at epoch 0, the target at 1", b.c_member("a-1"), "Reconciling"),
    (2, "the epoch is ahead of the target", b.c_epoch(2), "Assigning"),
    (3, "a target alone changes no state", b.c_target("a-1", {"t": [0, 1]}), "Assigning"),
    (4, "the target is there, the member is not", b.c_target_epoch(2), "Reconciling"),
    (5, "the member is", b.c_current("a-1", 2, {"t": [0, 1]}), "Stable"),
    (6, "a second member", b.c_member("b-1"), "Reconciling"),
    (7, "the epoch is raised for it", b.c_epoch(3), "Assigning"),
    (8, "one partition is to move", b.c_target("a-1", {"t": [0]}), "Assigning"),
    (9, "to the second", b.c_target("b-1", {"t": [1]}), "Assigning"),
    (10, "the targets are complete", b.c_target_epoch(3), "Reconciling"),
    (11, "the second waits for what is not released", b.c_current("b-1", 3, {}, state=2), "Reconciling"),
    (12, "the first revokes", b.c_current("a-1", 2, {"t": [0]}, state=1, revoking={"t": [1]}), "Reconciling"),
    (13, "the first is done", b.c_current("a-1", 3, {"t": [0]}), "Reconciling"),
    (14, "the second has it", b.c_current("b-1", 3, {"t": [1]}), "Stable"),
    (15, "an assignment is deleted", b.tombstone(8, "b-1"), "Reconciling"),
    (16, "its target", b.tombstone(7, "b-1"), "Reconciling"),
    (17, "the member: who stays is where it should be", b.tombstone(5, "b-1"), "Stable"),
    (18, "the epoch is raised for the departure", b.c_epoch(4), "Assigning"),
    (19, "a state that this version does not know is not stable", b.c_current("a-1", 4, {}, state=77), "Assigning"),
    (20, "the targets for it", b.c_target_epoch(4), "Reconciling"),
]


def test_the_state_after_each_record() -> None:
    log = Log()
    for number, (row, why, pair, state) in enumerate(STATES, 1):
        assert row == number
        assert log.add(pair).view().state == state, f"{row}: {why}"


def test_a_partition_that_waits_for_revocation_is_still_held() -> None:
    log = Log().add(b.c_topics("t"), *(row[2] for row in STATES[:12]))
    first, second = log.view().members
    assert (first.assignment, first.target) == ({"t": (0, 1)}, {"t": (0,)})
    assert (second.assignment, second.target) == ({}, {"t": (1,)})


def test_since_when_it_is_in_its_state() -> None:
    log = Log()
    for row in STATES[:5]:
        log.add(row[2])
    assert log.view().state_since_ms == T0 + 5 * STEP_MS
    log.add(b.c_target("a-1", {"t": [0]}))
    assert log.view().state_since_ms == T0 + 5 * STEP_MS, "still stable"


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
def test_a_group_from_its_first_member_to_its_deletion(kind: Kind) -> None:
    log, script = Log(), ModernScript(kind, GROUP)
    log.add(*script.join("a-1"))
    mirror, transitions = log.replayed()
    said = [transition.kind for transition in transitions]
    assert said == ["group_created", "rebalance", "member_joined", "assignment_changed"]
    assert of(transitions, GroupCreated)[0].observed
    assert {transition.group_type for transition in transitions} == {kind.name}
    first = of(transitions, Rebalanced)[0]
    assert (first.generation, first.previous_generation, first.members, first.sync_ms) == (2, None, 1, None)
    view = mirror.view(GROUP)
    assert view is not None
    assert (view.state, view.generation, view.target_generation, view.rebalances) == ("Stable", 2, 2, 1)
    assert view.protocol_type == kind.name
    assert view.partitions == len(PARTITIONS)

    before = len(log.said())
    log.add(*script.leave("a-1"))
    last = [kind_of for kinds in log.said()[before:] for kind_of in kinds]
    assert last == ["rebalance", "member_left", "group_emptied"]
    view = log.view()
    assert (view.state, view.members, view.generation) == ("Empty", (), 3)

    before = len(log.said())
    log.add(*script.delete())
    assert [kind_of for kinds in log.said()[before:] for kind_of in kinds] == ["group_deleted"]
    assert log.mirror().groups == {}


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
def test_who_left_is_said_with_what_it_held(kind: Kind) -> None:
    log, script = two(kind)
    log.add(*script.leave("a-1"))
    _, transitions = log.replayed()
    left = of(transitions, MemberLeft)
    assert ids(it.member for it in left) == ["a-1"]
    assert left[0].member.partitions == (len(PARTITIONS) if kind is SHARE else 3)
    last = of(transitions, Rebalanced)[-1]
    assert (ids(last.left), last.joined, last.generation, last.previous_generation) == (["a-1"], (), 4, 3)
    assert len(log.view().members) == 1


def test_a_members_fields() -> None:
    log = Log().add(
        b.c_member("a-1", instance_id="I", topics=("t", "u"), regex="t.*", assignor="range", host="/10.2.2.2"),
        b.c_member("b-1", classic_session_ms=30_000),
        b.c_epoch(2),
    )
    first, second = log.view().members
    assert (first.client_id, first.client_host, first.instance_id) == ("a", "/10.2.2.2", "I")
    assert (first.subscription, first.subscription_regex) == (("t", "u"), "t.*")
    assert (first.rebalance_timeout_ms, first.session_timeout_ms) == (300_000, None)
    assert (first.uses_classic_protocol, first.member_epoch) == (False, 0)
    assert (second.uses_classic_protocol, second.session_timeout_ms) == (True, 30_000)


def test_the_assignor_that_most_members_name() -> None:
    rows: list[tuple[int, str, list[str | None], str | None]] = [
        (1, "nobody names one: the broker's default", [None, None], None),
        (2, "one does", [None, "range"], "range"),
        (3, "the majority", ["range", "uniform", "uniform"], "uniform"),
    ]
    for number, why, names, expected in rows:
        pairs = [b.c_member(f"m-{at}", assignor=name) for at, name in enumerate(names)]
        assert Log().add(*pairs).view().protocol == expected, f"{number}: {why}"


def test_a_member_known_by_its_assignment_only() -> None:
    # As in a log that is compacted, and cut before the member's own record.
    view = Log().add(b.c_current("a-1", 5, {"t": [1]})).view()
    who = view.members[0]
    assert (who.member_id, who.client_id, who.member_epoch) == ("a-1", "", 5)
    assert Log().add(b.s_current("a-1", 5, {"t": [1]})).view().members[0].client_host == ""
    assert Log().add(b.k_current("a-1", 5, {"0": [1]})).view().members[0].assignment == {"0": (1,)}


def test_a_target_alone_makes_no_member() -> None:
    # `replay(ConsumerGroupTargetAssignmentMember…)` creates a group, but no member.
    view = Log().add(b.c_target("a-1", {"t": [0]}), b.c_target_epoch(2)).view()
    assert (view.state, view.members) == ("Empty", ())


def test_a_member_that_goes_after_the_clock_was_set_back() -> None:
    log, script = Log(), ModernScript(CONSUMER, GROUP)
    log.add(b.c_topics("t"), *script.join("a-1")).add(*script.heartbeat("a-1"))
    log.add(b.commit(partition=0)).add(*script.join("b-1")).add(*script.heartbeat("a-1"))
    log.add(*script.leave("a-1"), after_ms=-2 * 3_600_000)
    left = of(log.replayed()[1], MemberLeft)[0]
    assert left.inferred.member.member_id == "a-1"
    assert 0 <= left.inferred.confidence <= 1


# Static members.


def static() -> tuple[Log, ModernScript]:
    log, script = Log(), ModernScript(CONSUMER, GROUP)
    log.add(b.c_topics("t"), *script.join("a-1", "I"))
    log.add(*script.join("b-1"))
    for member_id in ("a-1", "a-1", "b-1"):
        log.add(*script.heartbeat(member_id))
    return log, script


def test_a_static_member_that_leaves_for_a_restart_stays_a_member() -> None:
    log, script = static()
    before = len(log.records)
    log.add(*script.static_leave("a-1"))
    assert log.said()[before:] == [[]]
    view = log.view()
    assert (view.state, [it.member_epoch for it in view.members]) == ("Reconciling", [-2, 3])


def test_a_static_member_that_returns_is_replaced() -> None:
    log, script = static()
    log.add(*script.static_leave("a-1"))
    before = len(log.records)
    log.add(*script.static_return("a-1", "a-2"))
    said = [kind for kinds in log.said()[before:] for kind in kinds]
    assert said == ["static_member_replaced"], "and no epoch, no departure, no other owner"
    _, transitions = log.replayed()
    replaced = of(transitions, StaticMemberReplaced)[0]
    assert (replaced.old.member_id, replaced.new.member_id, replaced.generation) == ("a-1", "a-2", 3)
    assert replaced.old.assignment == {"t": (0, 2, 4)}
    view = log.view()
    assert (ids(view.members), view.state, view.generation) == (["a-2", "b-1"], "Stable", 3)
    # The next rebalance has nothing left over of it.
    log.add(*script.join("c-1"))
    last = of(log.replayed()[1], Rebalanced)[-1]
    assert (ids(last.joined), last.left) == (["c-1"], ())


def test_a_static_member_that_takes_a_place_is_told_as_it_came() -> None:
    # `replaceMember` writes it as a copy of the one before; where it runs comes with the next record of it.
    log, script = static()
    log.add(*script.static_leave("a-1"))
    log.add(*script.static_return("a-1", "a-2", "/10.0.0.2"))
    (replaced,) = of(log.replayed()[1], StaticMemberReplaced)
    assert [(it.member_id, it.client_host) for it in (replaced.old, replaced.new)] == [
        ("a-1", b.HOST),
        ("a-2", "/10.0.0.2"),
    ]


def test_a_static_member_that_takes_a_place_while_the_topics_change() -> None:
    # The epoch that is raised for them comes before the member's next record; nobody left with it.
    log, script = static()
    log.add(*script.static_leave("a-1"))
    records = script.static_return("a-1", "a-2")
    log.add(*records[:-1], b.c_epoch(4, topics_hash=7), records[-1])
    _, transitions = log.replayed()
    (replaced,) = of(transitions, StaticMemberReplaced)
    assert (replaced.old.member_id, replaced.new.member_id, replaced.generation) == ("a-1", "a-2", 3)
    last = of(transitions, Rebalanced)[-1]
    assert (last.generation, last.joined, last.left) == (4, (), ())


def test_a_static_member_that_does_not_return_has_left() -> None:
    log, script = static()
    log.add(*script.static_leave("a-1"))
    log.add(*script.leave("a-1"))
    _, transitions = log.replayed()
    left = of(transitions, MemberLeft)
    assert ids(it.member for it in left) == ["a-1"]
    assert left[0].member.assignment == {"t": (0, 2, 4)}
    assert of(transitions, StaticMemberReplaced) == []


# 1-9: how a static member went that left for a restart or did not, so long after its last commit; the session is told
# where it is one.
USUAL = SessionSetting()
STATIC_DEPARTURES = [
    (1, "it left for a restart, and stayed away", True, None, 45_000, "session_timeout", "static_member_expired"),
    (2, "its session had begun a heartbeat before", True, USUAL, 40_100, "session_timeout", "static_member_expired"),
    (3, "nor is a short one over sooner", True, (6_000, 1_000), 5_100, "session_timeout", "static_member_expired"),
    (4, "it stopped, and an admin took it out", True, USUAL, 3_000, "admin_removed", "static_member_away"),
    (5, "before any session can be over", True, None, 500, "admin_removed", "static_member_away"),
    (6, "a session of which nobody told may be over", True, None, 20_000, "unknown_departure", "static_member_away"),
    (7, "it died", False, None, 45_000, "session_timeout", "commit_gap"),
    (8, "it died where the broker's session timeout is 6 s", False, None, 6_200, "session_timeout", "commit_gap"),
    (9, "it left for good (KIP-1092: member epoch -1)", False, None, 10, "member_left", "commit_gap"),
]


@pytest.mark.parametrize(
    ("number", "why", "for_restart", "session", "gap_ms", "cause", "evidence"), STATIC_DEPARTURES
)
def test_how_a_static_member_went(
    number: int,
    why: str,
    for_restart: bool,
    session: tuple[int, int] | None,
    gap_ms: int,
    cause: str,
    evidence: str,
) -> None:
    log, script = static()
    for _ in range(20):
        log.add(
            *(b.commit("t", it, at_ms=log.now_ms + 1_000, id_of_topic=b.topic_id("t"), version=4) for it in range(6))
        )
    if for_restart:
        log.add(*script.static_leave("a-1"), after_ms=0)
    log.add(*script.leave("a-1"), after_ms=gap_ms)
    told = KnownSessions({} if session is None else {"consumer": SessionSetting(*session)})
    mirror = PartitionMirror(log.partition, told)
    (left,) = (it for record in log.records for it in mirror.replay(record) if isinstance(it, MemberLeft))
    assert left.inferred is not None
    assert (left.inferred.cause, left.inferred.evidence["kind"]) == (cause, evidence)


def test_commits_of_before_the_brokers_were_upgraded_name_their_topics_later() -> None:
    """The id comes with a position's newest commit, not with its first."""
    log = Log().add(*(b.commit("t", number) for number in PARTITIONS))
    script = ModernScript(CONSUMER, GROUP)
    log.add(*script.join("a-1"), *script.heartbeat("a-1"), *script.join("b-1"), *script.heartbeat("a-1"))
    log.add(*script.heartbeat("a-1"), *script.heartbeat("b-1"))
    for _ in range(20):
        at_ms = log.now_ms + 1_000
        log.add(*(b.commit("t", it, at_ms=at_ms, id_of_topic=b.topic_id("t"), version=4) for it in range(6)))
    log.add(*script.leave("b-1"), after_ms=45_000)
    (left,) = of(log.replayed()[1], MemberLeft)
    assert left.inferred is not None
    assert (left.inferred.cause, left.inferred.evidence["gap_ms"] is None) == ("session_timeout", False)


# 1-5: how a member went that was asked to give up partitions and did not, so long after that; its limit is 5 min.
LATE_DEPARTURES = [
    (1, "the broker dropped it", 300_001, None, "rejoin_timeout"),
    (2, "so it does with a static one", 300_001, "I", "rejoin_timeout"),
    (3, "not that late: it may have died", 310_000, None, "unknown_departure"),
    (4, "nor as early: its session may have ended", 45_000, None, "unknown_departure"),
    (5, "it closed", 5, None, "member_left"),
]


@pytest.mark.parametrize("kind", [CONSUMER, STREAMS], ids=lambda it: it.name)
@pytest.mark.parametrize(("number", "why", "after_ms", "instance_id", "cause"), LATE_DEPARTURES)
def test_how_a_member_went_that_did_not_give_up_what_it_had_to(
    number: int, why: str, after_ms: int, instance_id: str | None, cause: str, kind: Kind
) -> None:
    script = ModernScript(kind, GROUP)
    log = Log().add(*script.join("a-1", instance_id))
    log.add(*script.join("b-1"))
    log.add(*script.heartbeat("a-1"))
    assert script.members["a-1"].revoking, "it is asked"
    log.add(*script.leave("a-1"), after_ms=after_ms)
    (left,) = of(log.replayed()[1], MemberLeft)
    assert left.inferred is not None
    assert left.inferred.cause == cause


@pytest.mark.parametrize(
    ("until_ms", "cause"),
    [
        (256_000, "session_timeout"),
        (1_000, "rejoin_timeout"),
        (60_000, "rejoin_timeout"),
        (240_000, "rejoin_timeout"),
        (299_000, "rejoin_timeout"),
    ],
)
def test_who_went_on_working_and_then_fell_silent_was_not_waited_for(until_ms: int, cause: str) -> None:
    """Its session ends by chance 5 minutes after it was asked: who polls gives up what it has to. One that works on
    what it polled commits until it is dropped, or until it hangs: no session ends by chance minutes after that."""
    script = ModernScript(CONSUMER, GROUP)
    log = Log().add(*script.join("a-1"), *script.join("b-1"), *script.heartbeat("a-1"))
    assert script.members["a-1"].revoking, "it is asked"
    asked_ms = log.now_ms
    for at_ms in range(asked_ms + 1_000, asked_ms + until_ms + 1, 1_000):
        log.add(*(b.commit("t", it, at_ms=at_ms, id_of_topic=b.topic_id("t"), version=4) for it in range(6)))
    log.add(*script.leave("a-1"), after_ms=asked_ms + 300_001 - log.now_ms)
    mirror = PartitionMirror(log.partition, KnownSessions({"consumer": SessionSetting()}))
    (left,) = (it for record in log.records for it in mirror.replay(record) if isinstance(it, MemberLeft))
    assert left.inferred is not None
    assert left.inferred.cause == cause


def test_a_static_member_of_the_classic_protocol_is_replaced_without_leaving() -> None:
    # `getOrMaybeSubscribeStaticConsumerGroupMember`: only between two KIP-848 members must the old one have left.
    log = Log()
    log.add(
        b.c_member("a-1", instance_id="I", classic_session_ms=30_000),
        b.c_epoch(2),
        b.c_target("a-1", {"t": [0]}),
        b.c_target_epoch(2),
        b.c_current("a-1", 2, {"t": [0]}),
    )
    log.add(
        b.tombstone(8, "a-1"),
        b.tombstone(7, "a-1"),
        b.tombstone(5, "a-1"),
        b.c_member("a-2", instance_id="I", classic_session_ms=30_000),
        b.c_target("a-2", {"t": [0]}),
        b.c_current("a-2", 0, {"t": [0]}),
        b.c_current("a-2", 2, {"t": [0]}),
    )
    assert [kind for kinds in log.said()[5:] for kind in kinds] == ["static_member_replaced"]
    log.add(b.c_epoch(3))
    last = of(log.replayed()[1], Rebalanced)[-1]
    assert (last.joined, last.left) == ((), ())


# Topics and names.


def test_topics_go_by_id_until_a_name_is_known() -> None:
    rows: list[tuple[int, str, list[Pair], str]] = [
        (1, "nothing names it", [], uuid_text(b.topic_id("t"))),
        (2, "up to Kafka 4.0 a record lists the topics", [b.c_topics("t", "u")], "t"),
        (3, "from 4.1 on commits may carry the id", [b.commit(version=4, id_of_topic=b.topic_id("t"))], "t"),
        (4, "a commit without one", [b.commit(version=4)], uuid_text(b.topic_id("t"))),
        (5, "another group's commit", [b.commit(group="g", version=4, id_of_topic=b.topic_id("t"))], "t"),
        (
            6,
            "a commit that came to have an id with a new version",
            [b.commit(), b.commit(version=4, id_of_topic=b.topic_id("t"))],
            "t",
        ),
    ]
    for number, why, pairs, name in rows:
        log = Log().add(b.c_member("a-1"), b.c_current("a-1", 1, {"t": [3, 1]})).add(*pairs)
        assert log.view().members[0].assignment == {name: (1, 3)}, f"{number}: {why}"


def test_names_may_come_from_elsewhere() -> None:
    mirror = Log().add(b.c_member("a-1"), b.c_current("a-1", 1, {"t": [1]})).mirror()
    view = mirror.view(GROUP, {b.topic_id("t"): "topic"})
    assert view is not None
    assert view.members[0].assignment == {"topic": (1,)}
    assert [it.members[0].assignment for it in mirror.views({b.topic_id("t"): "topic"})] == [{"topic": (1,)}]


def test_share_partitions_name_their_topics() -> None:
    log = Log().add(b.s_member("a-1"), b.s_topics({"t": [0]}, initializing={"u": [1]}))
    log.add(b.s_current("a-1", 1, {"t": [0], "u": [1]}))
    assert log.view().members[0].assignment == {"t": (0,), "u": (1,)}


def test_share_partitions_whose_state_is_made_raise_an_epoch() -> None:
    """A coordinator gives members no others (`initializedAssignmentPending`)."""
    log = Log().add(b.s_member("a-1"), b.s_epoch(2), b.s_topics({}, initializing={"t": [0, 1, 2]}))
    log.add(b.s_topics({"t": [0, 1]}, initializing={"t": [2]}), b.s_topics({"t": [0, 1, 2]}))
    log.add(b.s_epoch(3))
    log.add(b.s_topics({}))
    log.add(b.s_epoch(4))
    _, *epochs = of(log.replayed()[1], Rebalanced)
    assert [it.inferred.cause for it in epochs] == ["partitions_changed", "unknown"]
    assert epochs[0].inferred.evidence == ({"kind": "partitions_initialized", "partitions": 3},)


def test_members_of_streams_groups_use_kafka_streams_and_say_goodbye() -> None:
    """Unlike those of classic groups."""
    (member,) = Log().add(b.k_topology(), b.k_member("n2gxZbbLT9CGbDPkuWvfHA"), b.k_epoch(2)).view().members
    assert member.client_library == "kafka-streams"
    assert not leaves_without_goodbye(member)
    assert leaves_without_goodbye(replace(member, uses_classic_protocol=True))


def test_a_name_that_becomes_known_moves_no_partition() -> None:
    log, script = Log(), ModernScript(CONSUMER, GROUP)
    log.add(*script.join("a-1"))
    log.add(b.commit(version=4, id_of_topic=b.topic_id("t")))
    log.add(script.raised(), *script.heartbeat("a-1"))
    changes = of(log.replayed()[1], AssignmentChanged)
    assert [(it.generation, it.assigned, it.gained, it.lost) for it in changes] == [(2, 6, 6, 0)]


# What moved.


def test_what_moves_with_each_target() -> None:
    log, script = Log(), ModernScript(CONSUMER, GROUP)
    for member_id in ("a-1", "b-1", "c-1"):
        log.add(*script.join(member_id))
    log.add(*script.leave("b-1"))
    log.add(*script.heartbeat("a-1"))
    changes = [(it.generation, it.assigned, it.gained, it.lost) for it in of(log.replayed()[1], AssignmentChanged)]
    # a: 012345 | a: 024, b: 135 | a: 03, b: 14, c: 25 | b is gone; a: 024, c: 135
    assert changes == [(2, 6, 6, 0), (3, 6, 3, 0), (4, 6, 4, 0), (5, 6, 4, 0)]


def test_partitions_that_nobody_is_to_have_are_lost() -> None:
    log = Log().add(b.c_member("a-1"), b.c_epoch(2), b.c_target("a-1", {"t": [0, 1]}), b.c_target_epoch(2))
    log.add(b.c_epoch(3), b.c_target("a-1", {"t": [1]}), b.c_target_epoch(3))
    log.add(b.tombstone(7, "x-1"), b.c_epoch(4), b.c_target_epoch(4))
    changes = of(log.replayed()[1], AssignmentChanged)
    assert [(it.assigned, it.gained, it.lost) for it in changes] == [(2, 2, 0), (1, 0, 1)]


def test_share_partitions_have_several_owners() -> None:
    log, script = Log(), ModernScript(SHARE, GROUP)
    for member_id in ("a-1", "b-1"):
        log.add(*script.join(member_id))
    log.add(*script.leave("b-1"))
    log.add(*script.heartbeat("a-1"))
    changes = [(it.assigned, it.gained, it.lost) for it in of(log.replayed()[1], AssignmentChanged)]
    assert changes == [(6, 6, 0), (6, 6, 0)], "who stays gains nothing when another goes, and nothing is lost"


def test_an_epoch_that_is_not_raised_is_no_rebalance() -> None:
    log, _ = two()
    before = log.view()
    log.add(b.c_epoch(3))
    assert log.said()[-1] == []
    assert log.view() == before


def test_an_epoch_that_goes_back_is_noted() -> None:
    log, _ = two()
    view = log.add(b.c_epoch(2)).view()
    assert [it.kind for it in view.anomalies] == ["generation_regressed"]


def test_a_member_that_came_and_went_between_two_epochs_is_not_mentioned() -> None:
    # A subscription by a regular expression raises the epoch only once it is resolved.
    log, _ = two()
    before = len(log.records)
    log.add(b.c_member("x-1", regex="x.*"))
    log.add(b.tombstone(8, "x-1"), b.tombstone(7, "x-1"), b.tombstone(5, "x-1"), b.c_epoch(4))
    assert [kind for kinds in log.said()[before:] for kind in kinds] == ["rebalance"]
    last = of(log.replayed()[1], Rebalanced)[-1]
    assert (last.joined, last.left, last.members) == ((), (), 2)


def test_a_member_with_an_unresolved_expression_joins_with_the_next_epoch() -> None:
    log, _ = two()
    before = len(log.records)
    log.add(b.c_member("x-1", topics=(), regex="x.*"), b.c_current("x-1", 3, {}))
    log.add(b.c_regex("x.*", "x1", "x2"), b.c_epoch(4))
    assert log.said()[before:] == [[], [], [], ["rebalance", "member_joined"]]
    log.add(b.tombstone(16, "x.*"))
    assert log.said()[-1] == []


# Tombstones, other types, first records.


@pytest.mark.parametrize("key_type", [number for number in RECORD_TYPES if number >= 3])
def test_a_tombstone_of_what_is_not_there(key_type: int) -> None:
    key = RECORD_TYPES[key_type].key
    pair = b.tombstone(key_type, "x-1" if "member_id" in key.__struct_fields__ or key_type == 16 else None)
    assert Log().add(pair).said() == [[]]
    assert Log().add(pair).mirror().groups == {}
    of_simple = Log().add(b.commit()).add(pair)
    assert of_simple.said() == [["group_created"], []]
    for kind in KINDS:
        script = ModernScript(kind, GROUP)
        log = Log().add(*script.join("a-1"))
        before, said = log.view(), len(log.records)
        if key_type in (3, 6, 11, 12, 17, 20, 23):
            continue  # of the group itself
        log.add(pair)
        assert log.said()[said:] == [[]]
        assert log.view() == before


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
@pytest.mark.parametrize("other", KINDS, ids=lambda kind: kind.name)
def test_a_record_of_another_type_of_group(kind: Kind, other: Kind) -> None:
    log = Log().add(*ModernScript(kind, GROUP).join("a-1"))
    before = len(log.records)
    log.add(other.member("x-1"))
    view = log.view()
    assert view.group_type == other.name
    assert log.said()[before] == []
    if kind is other:
        assert (len(view.members), view.anomalies) == (2, ())
    else:
        # Kafka's loading stops here with an exception; a mirror goes on with what came last, and says so.
        assert ids(view.members) == ["x-1"]
        assert [it.kind for it in view.anomalies] == ["wrong_group_type"]


def test_a_modern_record_for_a_classic_group_and_back() -> None:
    log = Log().add(b.classic_group(3, b.member("a-1", {"t": [0]}))).add(b.c_member("x-1"))
    view = log.view()
    assert (view.group_type, ids(view.members), [it.kind for it in view.anomalies]) == (
        "consumer",
        ["x-1"],
        ["wrong_group_type"],
    )
    log.add(b.classic_group(4, b.member("a-1", {"t": [0]})))
    view = log.view()
    assert (view.group_type, [it.kind for it in view.anomalies]) == ("classic", ["wrong_group_type"] * 2)


def test_whether_a_modern_groups_creation_was_seen() -> None:
    rows: list[tuple[int, str, list[Pair], bool]] = [
        (1, "a group starts with its first member", [b.c_member("a-1"), b.c_epoch(2)], True),
        (2, "so this one has lost that record", [b.c_epoch(9)], False),
        (3, "and this", [b.c_current("a-1", 9, {}), b.c_epoch(9)], False),
        (4, "a share group", [b.s_member("a-1"), b.s_epoch(2)], True),
        (5, "a streams group", [b.k_topology(), b.k_member("a-1"), b.k_epoch(2)], False),
        (6, "a first epoch as of Kafka 3.9", [b.c_member("a-1"), b.c_epoch(1)], True),
        (7, "of an old group compaction leaves a member first, too", [b.c_member("a-1"), b.c_epoch(57)], False),
        (8, "likewise", [b.s_member("a-1"), b.s_member("a-2"), b.s_epoch(3)], False),
        (9, "likewise", [b.k_member("a-1"), b.k_topology(), b.k_epoch(30)], False),
    ]
    for number, why, pairs, observed in rows:
        _, transitions = Log().add(*pairs).replayed()
        (told,) = of(transitions, GroupCreated)
        assert told.observed is observed, f"{number}: {why}"
        assert transitions[0] is told, f"{number}: {why}"


def test_a_compacted_log_of_a_modern_group() -> None:
    # What is left: tombstones of a member that nobody knows, commits before the group, the newest of the rest.
    log = Log().add(b.commit()).add(b.tombstone(8, "x-1"), b.tombstone(7, "x-1"), b.tombstone(5, "x-1"))
    log.add(b.c_current("a-1", 57, {"t": [0]}), b.c_epoch(57), b.c_target_epoch(57), b.c_member("a-1"))
    view = log.view()
    assert (view.group_type, view.state, view.generation) == ("consumer", "Stable", 57)
    assert view.committed_partitions == 1
    _, transitions = log.replayed()
    first = of(transitions, Rebalanced)[0]
    assert (first.generation, first.previous_generation) == (57, None)
    assert view.anomalies == ()


def test_a_deleted_modern_group_that_only_its_offsets_have_shown() -> None:
    # A compacted log may still hold a commit under key type 0; the tombstones are under key type 1. The broker
    # makes a simple group the modern group whose tombstones come, and then removes it.
    for number, kind in enumerate(KINDS, 1):
        log = Log().add(b.commit(key_type=0)).add(b.uncommit(), *ModernScript(kind, GROUP).delete())
        said = [transition.kind for transition in log.replayed()[1]]
        assert said == ["group_created", "offsets_deleted", "group_deleted"], number
        log = Log().add(b.commit()).add(*ModernScript(kind, GROUP).delete())
        assert [view.committed_partitions for view in log.mirror().views()] == [1], "offsets keep a group"


# Streams.


def test_a_streams_group_is_not_ready_until_its_topology_is_validated() -> None:
    rows: list[tuple[int, str, Pair, str]] = [
        (1, "no topology", b.k_member("a-1"), "NotReady"),
        (2, "a topology that is not validated", b.k_topology(0), "NotReady"),
        (3, "its topics are missing", b.k_epoch(2, validated=-1), "NotReady"),
        (4, "they are there", b.k_epoch(3, validated=0), "Assigning"),
        (5, "tasks", b.k_target("a-1", {"0": [0, 1]}), "Assigning"),
        (6, "for this epoch", b.k_target_epoch(3), "Reconciling"),
        (7, "the member has them; stable is 1 here", b.k_current("a-1", 3, {"0": [0, 1]}), "Stable"),
        (8, "0 is no state of a streams member", b.k_current("a-1", 3, {"0": [0, 1]}, state=0), "Reconciling"),
        (9, "a new topology", b.k_topology(1), "NotReady"),
        (10, "validated", b.k_epoch(4, validated=1), "Assigning"),
        (11, "no topology any more", b.tombstone(23), "NotReady"),
    ]
    log = Log()
    for number, why, pair, state in rows:
        assert log.add(pair).view().state == state, f"{number}: {why}"
    rebalanced = of(log.replayed()[1], Rebalanced)
    assert [(it.generation, it.previous_generation) for it in rebalanced] == [(2, None), (3, 2), (4, 3)]


def test_the_tasks_of_a_streams_member() -> None:
    log = Log().add(
        b.k_member("a-1"),
        b.k_target("a-1", {"0": [2, 1]}, standby={"1": [3]}),
        b.k_current("a-1", 2, {"0": [2, 1]}, revoking={"0": [5]}, standby={"1": [3]}, warmup={"1": [4]}, state=2),
    )
    who = log.view().members[0]
    assert (who.assignment, who.target) == ({"0": (1, 2)}, {"0": (1, 2)})
    assert (who.standby_tasks, who.warmup_tasks, who.partitions) == ({"1": (3,)}, {"1": (4,)}, 2)


@pytest.mark.parametrize(
    ("is_named", "silent_ms", "cause"),
    [(True, 45_000, "session_timeout"), (True, 100, "member_left"), (False, 45_000, "unknown_departure")],
)
def test_a_streams_member_commits_what_its_tasks_read(*, is_named: bool, silent_ms: int, cause: str) -> None:
    """A task reads its partition of each topic of its subtopology; what a pattern stands for is not written."""
    log = Log().add(b.k_topology(topics=("t", "u") if is_named else ()), b.k_member("a-1"), b.k_member("b-1"))
    log.add(b.k_epoch(2), b.k_target("a-1", {"0": [0]}), b.k_target("b-1", {"0": [1]}), b.k_target_epoch(2))
    log.add(b.k_current("a-1", 2, {"0": [0]}), b.k_current("b-1", 2, {"0": [1]}))
    for number in range(60):
        at_ms = log.now_ms + 2_000
        # Of the member that goes nothing comes to one of its topics; the other goes on all the time.
        log.add(b.commit("u", 0, number, at_ms=at_ms), b.commit("t", 1, number, at_ms=at_ms), after_ms=2_000)
    while silent_ms > 2_000:
        silent_ms -= 2_000
        log.add(b.commit("t", 1, silent_ms, at_ms=log.now_ms + 2_000), after_ms=2_000)
    gone = [b.tombstone(kind, "a-1") for kind in (22, 21, 19)]
    log.add(*gone, b.k_epoch(3), after_ms=silent_ms)
    (left,) = of(log.replayed()[1], MemberLeft)
    assert left.inferred is not None
    assert left.inferred.cause == cause
    assert left.member.assignment == {"0": (0,)}, "tasks are told as tasks"


def test_a_streams_groups_target_is_of_active_tasks() -> None:
    log, script = Log(), ModernScript(STREAMS, GROUP)
    log.add(*script.join("a-1"))
    log.add(script.raised(), b.k_target("a-1", {"0": list(PARTITIONS)}, standby={"1": [0]}), b.k_target_epoch(3))
    changes = of(log.replayed()[1], AssignmentChanged)
    assert [(it.assigned, it.gained, it.lost) for it in changes] == [(6, 6, 0)]


def test_every_key_type_has_a_group() -> None:
    assert set(GROUP_CLASSES_BY_KEY_TYPE) == {number for number in RECORD_TYPES if number > 2}


def test_thousands_of_members_join_one_after_another() -> None:
    # Each target changes for one member only: what an epoch costs must not grow with the group.
    log = Log()
    for number in range(1500):
        who = f"m-{number}"
        log.add(
            b.c_member(who), b.c_epoch(number + 2), b.c_target(who, {"t": [number]}), b.c_target_epoch(number + 2)
        )
    _, transitions = log.replayed()
    changes = of(transitions, AssignmentChanged)
    assert (len(changes), changes[-1].assigned, changes[-1].gained) == (1500, 1500, 1)
    assert len(of(transitions, MemberJoined)) == 1500


def test_of_members_with_one_static_id_the_last_by_name_has_its_targets_in_every_process() -> None:
    """No coordinator writes such; who may write to the topic can, and all processes are to tell the same."""
    log = Log()
    pairs = [(f"a-{number}", f"b-{number}", f"I{number}") for number in range(20)]
    log.add(*(b.c_member(it, instance_id=name) for *ids, name in pairs for it in ids), b.c_epoch(2))
    for first, last, name in pairs:
        log.add(b.c_target(first, {name: [1, 2]}), b.c_target(last, {name: [3]}))
    log.add(b.c_target_epoch(2))
    (change,) = of(log.replayed()[1], AssignmentChanged)
    assert (change.assigned, change.gained, change.lost) == (20, 20, 0)
