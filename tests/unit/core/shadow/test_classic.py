"""Classic groups: one record is the whole group. Each test replays what a coordinator writes."""

from __future__ import annotations

import string
import time
import tracemalloc
from itertools import product
from typing import Any

import pytest
from msgspec.structs import replace

from agent.core.inference.facts import Inference
from agent.core.shadow import classic
from agent.core.shadow.anomalies import ANOMALIES, MAX_ANOMALIES, MAX_MESSAGE, AnomalyLog
from agent.core.shadow.classic import ClassicGroup
from agent.core.shadow.mirror import PartitionMirror
from agent.core.shadow.transitions import (
    AssignmentChanged,
    GroupCreated,
    GroupDeleted,
    GroupEmptied,
    LogPosition,
    MemberJoined,
    MemberLeft,
    OffsetsDeleted,
    Rebalanced,
    StaticMemberReplaced,
    Transition,
)
from agent.core.wire.classic import MemberMetadata
from agent.core.wire.payloads import (
    ConnectAssignment,
    ConnectorTasks,
    ConnectWorkerState,
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
    TopicPartition,
    encode_payload,
)
from tests.unit.core.shadow.build import (
    GROUP,
    STEP_MS,
    T0,
    Log,
    Pair,
    classic_group,
    commit,
    member,
    new_group,
    no_classic_group,
    run_of,
    uncommit,
    worker,
)

A = member("a-1", {"t": [0, 1, 2]})
A_ALONE = member("a-1", {"t": [0, 1, 2, 3]})
B = member("b-1", {"t": [3]})
S = member("s-1", {"t": [0, 1, 2, 3]}, instance_id="S")
S2 = member("s-2", {"t": [0, 1, 2, 3]}, instance_id="S")


def kinds(transitions: list[Transition]) -> list[str]:
    return [transition.kind for transition in transitions]


def only(transitions: list[Transition], kind: type[Any]) -> Any:
    found = [transition for transition in transitions if isinstance(transition, kind)]
    assert len(found) == 1, found
    return found[0]


# Number, why, the batches, and the kinds of transitions that each record shows.
SAID: list[tuple[int, str, list[list[Pair]], list[list[str]]]] = [
    (1, "a group is created: nobody is in it yet", [[new_group()]], [["group_created"]]),
    (
        2,
        "the first member: generation 1 follows 0",
        [[new_group()], [classic_group(1, A_ALONE)]],
        [["group_created"], ["rebalance", "member_joined", "assignment_changed"]],
    ),
    (
        3,
        "Kafka before 4.0 writes no generation 0",
        [[classic_group(1, A_ALONE)]],
        [["group_created", "rebalance", "member_joined", "assignment_changed"]],
    ),
    (
        4,
        "a rebalance that changes nothing is still one",
        [[classic_group(1, A, B)], [classic_group(2, A, B)]],
        [["group_created", "rebalance", "member_joined", "member_joined", "assignment_changed"], ["rebalance"]],
    ),
    (
        5,
        "the last member leaves",
        [[classic_group(1, A_ALONE)], [classic_group(2)]],
        [
            ["group_created", "rebalance", "member_joined", "assignment_changed"],
            ["rebalance", "member_left", "assignment_changed", "group_emptied"],
        ],
    ),
    (
        6,
        "empty again, as when a member came and went before its first assignment",
        [[classic_group(1, A_ALONE)], [classic_group(2)], [classic_group(3)]],
        [
            ["group_created", "rebalance", "member_joined", "assignment_changed"],
            ["rebalance", "member_left", "assignment_changed", "group_emptied"],
            ["rebalance"],
        ],
    ),
    (
        7,
        "one goes and one comes in one rebalance: who left is said first",
        [[classic_group(1, A)], [classic_group(2, B)]],
        [
            ["group_created", "rebalance", "member_joined", "assignment_changed"],
            ["rebalance", "member_left", "member_joined", "assignment_changed"],
        ],
    ),
    (
        8,
        "a static member comes back in a stable group: no rebalance, no new owner",
        [[classic_group(1, S)], [classic_group(1, S2)]],
        [["group_created", "rebalance", "member_joined", "assignment_changed"], ["static_member_replaced"]],
    ),
    (
        9,
        "a static member comes back while the group rebalances, or with another protocol",
        [[classic_group(1, S)], [classic_group(2, S2)]],
        [
            ["group_created", "rebalance", "member_joined", "assignment_changed"],
            ["rebalance", "static_member_replaced"],
        ],
    ),
    (
        10,
        "deleted: the offsets' tombstones come first, the group's last",
        [
            [classic_group(1, A_ALONE)],
            [commit(partition=0)],
            [classic_group(2)],
            [uncommit(partition=0), no_classic_group()],
        ],
        [
            ["group_created", "rebalance", "member_joined", "assignment_changed"],
            [],
            ["rebalance", "member_left", "assignment_changed", "group_emptied"],
            ["offsets_deleted"],
            ["group_deleted"],
        ],
    ),
    (11, "the tombstone of a group that is not there", [[no_classic_group()]], [[]]),
    (
        12,
        "deleted, and made anew",
        [[new_group()], [no_classic_group()], [new_group()]],
        [["group_created"], ["group_deleted"], ["group_created"]],
    ),
    (
        13,
        "offsets alone make a group, as in the broker; it goes with the last of them, as 3.9 writes no more of it",
        [[commit()], [commit(offset=11)], [uncommit()], [uncommit()]],
        [["group_created"], [], ["offsets_deleted", "group_deleted"], []],
    ),
    (
        14,
        "an offset-only group expires in 4.x: its own tombstone says what the last offset's has said",
        [[commit()], [uncommit(), no_classic_group()]],
        [["group_created"], ["offsets_deleted", "group_deleted"], []],
    ),
    (
        15,
        "an offset-only group gets its first member: it is there already",
        [[commit()], [classic_group(1, A_ALONE)]],
        [["group_created"], ["rebalance", "member_joined", "assignment_changed"]],
    ),
    (
        16,
        "a compacted log starts at generation 57: the newest of a group is all that is left",
        [[classic_group(57, A_ALONE)]],
        [["group_created", "rebalance", "member_joined", "assignment_changed"]],
    ),
    (
        17,
        "a compacted log starts at an empty generation 57: that record says that the group became empty",
        [[classic_group(57)]],
        [["group_created", "rebalance", "group_emptied"]],
    ),
    (
        18,
        "members that differ within a generation: taken as they stand, and noted",
        [[classic_group(1, A)], [classic_group(1, B)], [classic_group(1)]],
        [
            ["group_created", "rebalance", "member_joined", "assignment_changed"],
            ["member_left", "member_joined", "assignment_changed"],
            ["member_left", "assignment_changed", "group_emptied"],
        ],
    ),
    (
        19,
        "the same record twice changes nothing",
        [[classic_group(1, A)], [classic_group(1, A)]],
        [["group_created", "rebalance", "member_joined", "assignment_changed"], []],
    ),
]


@pytest.mark.parametrize(("batches", "said"), [pytest.param(row[2], row[3], id=f"{row[0]}-{row[1]}") for row in SAID])
def test_what_each_record_says(batches: list[list[Pair]], said: list[list[str]]) -> None:
    log = Log()
    for batch in batches:
        log.add(*batch)
    assert log.said() == said


def test_a_new_group_is_empty_in_generation_0() -> None:
    view = Log().add(new_group()).view()
    assert (view.state, view.generation, view.group_type) == ("Empty", 0, "classic")
    assert (view.protocol_type, view.protocol, view.leader, view.members) == (None, None, None, ())
    assert (view.rebalances, view.target_generation, view.last_commit_ms) == (0, None, None)


def test_a_rebalance_has_its_numbers() -> None:
    log = Log().add(new_group()).add(classic_group(1, A, B, leader="b-1", state_ms=T0 + 1900))
    mirror, transitions = log.replayed()
    rebalanced = only(transitions, Rebalanced)
    assert (rebalanced.generation, rebalanced.previous_generation) == (1, 0)
    assert [who.member_id for who in rebalanced.joined] == ["a-1", "b-1"]
    assert (rebalanced.left, rebalanced.members, rebalanced.protocol) == ((), 2, "range")
    assert rebalanced.sync_ms == 100, "from the end of the join phase to the record"
    assert rebalanced.at == (log.partition, 1, T0 + 2 * STEP_MS)
    view = mirror.view(GROUP)
    assert view is not None
    assert (view.state, view.leader, view.state_since_ms, view.rebalances) == ("Stable", "b-1", T0 + 1900, 1)
    assert view.partitions == 4
    change = only(transitions, AssignmentChanged)
    assert (change.generation, change.assigned, change.gained, change.lost) == (1, 4, 4, 0)
    assert [who.member.member_id for who in transitions if isinstance(who, MemberJoined)] == ["a-1", "b-1"]


def test_a_clock_set_back_gives_no_negative_sync_time() -> None:
    _, transitions = Log().add(classic_group(1, A, state_ms=T0 + 3_000)).replayed()
    assert only(transitions, Rebalanced).sync_ms == 0


@pytest.mark.parametrize(
    ("why", "state_ms"),
    [
        ("1: nobody set it", 0),
        ("2: long before the generation before", T0 - 86_400_000),
        ("3: the generation before was not complete by then, by more than clocks differ", T0 - 6_000),
        ("4: it is still to come", T0 + 86_400_000),
    ],
)
def test_a_join_phase_that_cannot_have_ended_then_has_no_sync_time_and_no_cost(why: str, state_ms: int) -> None:
    log = (
        Log()
        .add(classic_group(1, A, B))
        .add(commit("t", 0, 5, at_ms=T0 + 1_500), commit("t", 3, 5, at_ms=T0 + 1_500))
    )
    mirror, transitions = log.add(classic_group(2, A, state_ms=state_ms)).replayed()
    rebalanced = [it for it in transitions if isinstance(it, Rebalanced)][-1]
    assert (rebalanced.sync_ms, rebalanced.stopped_partition_ms) == (None, None)
    view = mirror.view(GROUP)
    assert view is not None
    assert view.state_since_ms in (log.now_ms, T0 - 6_000), "what the record alone refutes is not its state's time"


def test_an_assignment_that_takes_longer_than_members_are_waited_for_tells_no_time() -> None:
    """Nothing precedes the record, so its own timeouts are all that bounds it."""
    for took_ms, told_ms in [(59_000, 59_000), (70_000, None)]:
        slow = member("a-1", {"t": [0]}, session_ms=10_000, rebalance_ms=60_000)
        log = Log().add(classic_group(7, slow, state_ms=T0 + 90_000 - took_ms), after_ms=90_000)
        assert only(log.replayed()[1], Rebalanced).sync_ms == told_ms
    endless = member("a-1", {"t": [0]}, rebalance_ms=(1 << 31) - 1)
    log = Log().add(classic_group(7, endless), after_ms=86_400_000)
    assert only(log.replayed()[1], Rebalanced).sync_ms is None, "a client may ask for any timeout"
    assert log.view().state_since_ms == log.now_ms


def test_a_static_member_that_returns_after_days_leaves_the_state_as_old_as_it_is() -> None:
    stable, back = (member(f"{name}-1", {"t": [0]}, instance_id="i") for name in "ab")
    log = Log().add(classic_group(1, stable)).add(classic_group(1, back), after_ms=3 * 86_400_000)
    assert log.view().state_since_ms == T0
    log.records.pop(0)
    assert log.view().state_since_ms == T0, "as where compaction left the newest record alone"


@pytest.mark.parametrize("state_ms", [1 << 62, (1 << 63) - 1])
def test_a_time_that_no_clock_shows_is_replayed(state_ms: int) -> None:
    log = Log().add(classic_group(1, A, state_ms=state_ms)).add(classic_group(2, B, state_ms=state_ms))
    assert log.said()[-1] == ["rebalance", "member_left", "member_joined", "assignment_changed"]
    # Up to version 1 the value has no time: then it is the record's.
    log = Log().add(classic_group(1, A, version=1), after_ms=state_ms - T0)
    log.add(classic_group(2, B, version=1), after_ms=0)
    assert log.said()[-1] == ["rebalance", "member_left", "member_joined", "assignment_changed"]


def test_a_clock_set_back_while_a_member_commits_what_does_not_move() -> None:
    # Of an unknown library with one timeout for both: it may commit what does not move.
    subscription = encode_payload(ConsumerProtocolSubscription(("t",), None, ()), 0)
    a = member("a-1", {"t": [0]}, session_ms=45_000, rebalance_ms=45_000, subscription=subscription)
    log = Log().add(classic_group(1, a))
    for offset, at_ms in [(10, 7_200_000), (11, 7_205_000), (11, 5_000), (11, 10_000)]:
        log.add(commit(offset=offset, at_ms=T0 + at_ms))
    log.add(classic_group(2, state_ms=T0 + 15_000))
    assert only(log.replayed()[1], MemberLeft).member.member_id == "a-1"


def test_a_leader_of_another_library_tells_nothing_of_who_follows_it() -> None:
    """Seen on 4.4.0: a Java client that followed librdkafka was told as franz-go, which has no poll limit."""

    def joined(name: str, user_data: bytes | None, rack_id: str | None) -> MemberMetadata:
        wanted = ConsumerProtocolSubscription(("t",), user_data, (), rack_id=rack_id)
        given = encode_payload(ConsumerProtocolAssignment(()), 0)
        subscription = encode_payload(wanted, 3)
        return member(name, subscription=subscription, assignment=given, rebalance_ms=12_000)

    java, librdkafka, franz_go = joined("a-1", None, None), joined("b-1", b"", ""), joined("c-1", None, None)
    led = Log().add(classic_group(1, java, librdkafka, leader="b-1")).view()
    assert [it.client_library for it in led.members] == ["unknown", "librdkafka"]
    leads = Log().add(classic_group(1, java, franz_go, leader="c-1")).view()
    assert [it.client_library for it in leads.members] == ["franz-go", "franz-go"]
    slower = replace(java, session_timeout=java.session_timeout + 1)
    mixed = Log().add(classic_group(1, slower, franz_go, leader="c-1")).view()
    assert [it.client_library for it in mixed.members] == ["unknown", "franz-go"]


def test_a_second_cooperative_round_moves_what_the_first_freed() -> None:
    log = Log().add(classic_group(1, member("a-1", {"t": [0, 1]}), protocol="cooperative-sticky"))
    log.add(classic_group(2, member("a-1", {"t": [0]}), member("b-1", {}), protocol="cooperative-sticky"))
    owned = member("a-1", {"t": [0]}, owned={"t": [0]})
    log.add(classic_group(3, owned, member("b-1", {"t": [1]}), protocol="cooperative-sticky"))
    _, transitions = log.replayed()
    changes = [(it.assigned, it.gained, it.lost) for it in transitions if isinstance(it, AssignmentChanged)]
    assert changes == [(2, 2, 0), (1, 0, 1), (2, 1, 0)]
    rounds = [(it.generation, len(it.joined), len(it.left)) for it in transitions if isinstance(it, Rebalanced)]
    assert rounds == [(1, 1, 0), (2, 1, 0), (3, 0, 0)]
    assert log.view().members[0].owned == {"t": (0,)}


def test_a_topic_that_comes_twice_in_an_assignment() -> None:
    """librdkafka's cooperative-sticky puts what is new behind what was there."""
    given = (TopicPartition("t", (0,)), TopicPartition("u", (1,)), TopicPartition("t", (3,)))
    assignment = encode_payload(ConsumerProtocolAssignment(given), 3)
    subscription = encode_payload(ConsumerProtocolSubscription(("t", "u"), None, given), 3)
    (view,) = (
        Log().add(classic_group(1, member("a-1", assignment=assignment, subscription=subscription))).view().members
    )
    assert view.assignment == view.owned == {"t": (0, 3), "u": (1,)}


def test_a_topic_that_comes_again_and_again_in_an_assignment_takes_no_longer_for_each() -> None:
    """A stranger who may join a group would hold up the agent for all of them."""
    assignment = encode_payload(ConsumerProtocolAssignment((TopicPartition("t", (7,)),) * 200_000), 0)
    log = Log().add(classic_group(1, member("a-1", assignment=assignment)))
    began = time.process_time()
    assert log.view().members[0].assignment == {"t": (7,) * 200_000}
    assert time.process_time() - began < 5


def test_a_static_member_that_comes_back_neither_left_nor_joined() -> None:
    _, transitions = Log().add(classic_group(1, S)).add(classic_group(2, S2)).replayed()
    last = [it for it in transitions if isinstance(it, Rebalanced)][-1]
    assert (last.joined, last.left, last.members) == ((), (), 1)
    replaced = only(transitions, StaticMemberReplaced)
    assert (replaced.old.member_id, replaced.new.member_id, replaced.generation) == ("s-1", "s-2", 2)


def test_static_members_that_change_places_with_others() -> None:
    other = member("x-1", {"t": [4]}, instance_id="X")
    dynamic = member("d-1", {"t": [5]})
    _, transitions = Log().add(classic_group(1, S, other, B)).add(classic_group(2, S2, dynamic)).replayed()
    last = [it for it in transitions if isinstance(it, Rebalanced)][-1]
    assert [who.member_id for who in last.left] == ["x-1", "b-1"]
    assert [who.member_id for who in last.joined] == ["d-1"]


@pytest.mark.parametrize("before", [(), (commit(),)], ids=["nothing", "offsets"])
def test_the_first_generation_that_is_seen_of_an_older_group_tells_no_cause(before: tuple[Pair, ...]) -> None:
    """Of a compacted topic, or of a log from its middle: the members may have been there for long."""
    log = Log().add(*before).add(classic_group(57, A, B, protocol="stream"))
    first = only(log.replayed()[1], Rebalanced)
    assert first.inferred == Inference()
    assert (len(first.joined), first.previous_generation, first.stopped_partition_ms) == (2, None, None)
    log.add(classic_group(58, A, B, protocol="stream"))
    second = [it for it in log.replayed()[1] if isinstance(it, Rebalanced)][-1]
    assert second.inferred.cause == "leader_rejoined", "not for internal topics, which the first generation makes"


def test_a_generation_gap_is_counted() -> None:
    view = Log().add(classic_group(1, A)).add(classic_group(4, A)).view()
    assert (view.rebalances, view.generations_skipped) == (2, 2)
    assert [(it.kind, it.offset, it.at_ms) for it in view.anomalies] == [("generation_gap", 1, T0 + 2 * STEP_MS)]


def test_a_generation_that_goes_back_is_noted() -> None:
    view = Log().add(classic_group(5, A)).add(classic_group(3, A)).view()
    assert (view.generation, view.generations_skipped) == (3, 0)
    assert [it.kind for it in view.anomalies] == ["generation_regressed"]


def test_members_that_differ_within_a_generation_are_noted() -> None:
    view = Log().add(classic_group(1, A)).add(classic_group(1, B)).view()
    assert [who.member_id for who in view.members] == ["b-1"]
    assert [it.kind for it in view.anomalies] == ["members_changed_without_rebalance"]
    assert view.rebalances == 1


@pytest.mark.parametrize(
    ("records", "noted"),
    [
        pytest.param([new_group(), classic_group(0, A)], ["impossible_move"], id="1: members without a rebalance"),
        pytest.param([classic_group(0, A)], ["impossible_move"], id="2: nor where the log begins with it"),
        pytest.param([commit(), classic_group(0, A)], ["impossible_move"], id="3: nor behind offsets"),
        pytest.param([classic_group(1, A), classic_group(1)], ["impossible_move"], id="4: they go by a rebalance"),
        pytest.param(
            [classic_group(1, A, B), classic_group(1, member("a-1", {"t": [0, 1, 3]}), member("b-1", {}))],
            ["assignment_changed_without_rebalance"],
            id="5: one generation has one assignment",
        ),
        pytest.param([classic_group(5, A), classic_group(3)], ["generation_regressed"], id="6: told once"),
        pytest.param([classic_group(1, S), classic_group(1, S2)], [], id="7: a static member comes back"),
        pytest.param([classic_group(1, A), classic_group(1, A)], [], id="8: written twice"),
        pytest.param([new_group(), new_group(), classic_group(1, A)], [], id="9: made twice"),
        pytest.param([classic_group(1, A), classic_group(2), classic_group(3)], [], id="10: it rests empty"),
        pytest.param([classic_group(57, A)], [], id="11: a compacted log"),
    ],
)
def test_moves_that_no_coordinator_makes_are_noted(records: list[Pair], noted: list[str]) -> None:
    log = Log()
    for pair in records:
        log.add(pair)
    assert [it.kind for it in log.view().anomalies] == noted


@pytest.mark.parametrize(
    ("data", "why"),
    [
        pytest.param(b"\x00", "1: half a version", id="1"),
        pytest.param(b"\xff\xff", "2: a version below 0", id="2"),
        pytest.param(b"\x00\x00\x00\x00\x00\x09", "3: an array that is longer than the bytes", id="3"),
    ],
)
def test_payloads_that_do_not_decode(data: bytes, why: str) -> None:
    broken = member("a-1", subscription=data, assignment=data)
    log = Log().add(classic_group(1, broken, B))
    log.add(classic_group(2, broken, B))
    view = log.view()
    assert [who.member_id for who in view.members] == ["a-1", "b-1"], why
    assert (view.members[0].subscription, view.members[0].assignment, view.members[0].owned) == ((), {}, None)
    assert view.members[1].assignment == {"t": (3,)}
    kinds_of = [it.kind for it in view.anomalies]
    assert kinds_of == ["undecodable_payload"] * 2, "once for each payload, not again while it stays as it is"


def test_an_anomaly_is_short_however_long_a_members_name_is() -> None:
    broken = member("a" * 30_000, subscription=b"\x00")
    view = Log().add(classic_group(1, broken)).view()
    assert [len(it.message) for it in view.anomalies] == [MAX_MESSAGE]


def test_a_member_with_no_assignment_bytes_holds_nothing_and_is_no_anomaly() -> None:
    view = Log().add(classic_group(1, member("a-1", None, subscription=b""))).view()
    assert (view.partitions, view.anomalies) == (0, ())


def test_payloads_of_a_protocol_that_is_neither_are_let_be() -> None:
    odd = member("a-1", subscription=b"\x00", assignment=b"\x00")
    view = Log().add(classic_group(1, odd, protocol_type="schema-registry")).view()
    assert (view.group_type, view.protocol_type, view.partitions, view.anomalies) == (
        "classic",
        "schema-registry",
        0,
        (),
    )


@pytest.mark.parametrize(
    ("version", "instance_id", "rebalance_ms", "since_ms"),
    [
        # 1: no rebalance timeout (the broker takes the session timeout), no timestamp, no static ids
        (0, None, 45_000, T0 + STEP_MS),
        # 2: the rebalance timeout
        (1, None, 300_000, T0 + STEP_MS),
        # 3: the timestamp
        (2, None, 300_000, T0),
        # 4: static ids
        (3, "S", 300_000, T0),
        # 5: flexible
        (4, "S", 300_000, T0),
    ],
)
def test_every_version_of_the_value(version: int, instance_id: str | None, rebalance_ms: int, since_ms: int) -> None:
    log = Log().add(classic_group(1, S, version=version))
    mirror, transitions = log.replayed()
    view = mirror.view(GROUP)
    assert view is not None
    who = view.members[0]
    assert (who.instance_id, who.rebalance_timeout_ms, who.session_timeout_ms) == (instance_id, rebalance_ms, 45_000)
    assert view.state_since_ms == since_ms
    sync_ms = only(transitions, Rebalanced).sync_ms
    assert sync_ms == (None if version < 2 else STEP_MS), "unknown is None, never 0"


def test_what_a_member_says_of_itself() -> None:
    who = Log().add(classic_group(1, member("a-1", {"t": [1]}, topics=("t", "u"), rack_id="r1"))).view().members[0]
    assert (who.client_id, who.client_host, who.subscription, who.rack_id) == ("a", "/10.0.0.1", ("t", "u"), "r1")
    assert (who.member_epoch, who.target, who.uses_classic_protocol) == (None, None, True)


@pytest.mark.parametrize("version", [0, 1, 2])
def test_connect_workers_of_every_protocol(version: int) -> None:
    workers = (worker("w-1", {"sink": [-1, 0]}, version=version), worker("w-2", {"sink": [1]}, version=version))
    view = Log().add(classic_group(1, *workers, protocol_type="connect", protocol="sessioned")).view()
    assert (view.group_type, view.protocol_type, view.partitions) == ("connect", "connect", 3)
    assert [who.assignment for who in view.members] == [{"sink": (-1, 0)}, {"sink": (1,)}]
    assert view.anomalies == ()


@pytest.mark.parametrize("version", [1, 2])
def test_a_connect_assignment_may_be_null(version: int) -> None:
    view = Log().add(classic_group(1, worker("w-1", None, version=version), protocol_type="connect")).view()
    assert (view.partitions, view.anomalies) == (0, ())


def test_a_broken_connect_payload() -> None:
    broken = member("w-1", subscription=b"\x00\x01", assignment=b"\x00\x01")
    view = Log().add(classic_group(1, broken, protocol_type="connect")).view()
    assert [it.kind for it in view.anomalies] == ["undecodable_payload"] * 2
    assert view.members[0].assignment == {}


def test_a_connect_group_stays_one_when_it_is_empty() -> None:
    log = Log().add(classic_group(1, worker("w-1", {}), protocol_type="connect"))
    assert log.add(classic_group(2, protocol_type="connect")).view().group_type == "connect"


def test_a_group_of_offsets_only() -> None:
    view = Log().add(commit(at_ms=T0 + 5), commit(partition=1, at_ms=T0 + 7)).view()
    assert (view.group_type, view.state, view.generation) == ("classic", "Empty", -1)
    assert (view.committed_partitions, view.last_commit_ms, view.rebalances) == (2, T0 + 7, 0)


def test_whether_a_groups_creation_was_seen() -> None:
    rows: list[tuple[int, Pair, bool]] = [
        (1, new_group(), True),
        (2, classic_group(1, A), True),
        (3, classic_group(2, A), False),  # generation 1 was compacted away
        (4, commit(), False),  # an offset says nothing of when its group came to be
    ]
    for number, pair, observed in rows:
        _, transitions = Log().add(pair).replayed()
        assert only(transitions, GroupCreated).observed is observed, number


def test_the_first_generation_of_a_promoted_group_follows_none() -> None:
    log = Log().add(commit()).add(classic_group(9, A))
    _, transitions = log.replayed()
    assert only(transitions, Rebalanced).previous_generation is None
    assert log.view().anomalies == (), "no gap: what came before is not known"


def test_what_is_said_of_deleted_offsets() -> None:
    log = Log().add(commit("t", 3, 55)).add(uncommit("t", 3))
    _, transitions = log.replayed()
    gone = only(transitions, OffsetsDeleted)
    assert (gone.topic, gone.topic_partition, gone.committed_offset, gone.group_type) == ("t", 3, 55, "classic")


def test_deleted_offsets_of_a_group_go_by_its_type() -> None:
    log = Log().add(classic_group(1, worker("w-1", {}), protocol_type="connect")).add(commit()).add(uncommit())
    _, transitions = log.replayed()
    assert only(transitions, OffsetsDeleted).group_type == "connect"


def test_a_deleted_group_is_gone() -> None:
    log = Log().add(classic_group(1, A)).add(classic_group(2)).add(no_classic_group())
    mirror, transitions = log.replayed()
    assert mirror.view(GROUP) is None
    assert (mirror.groups, list(mirror.views()), mirror.committed(GROUP)) == ({}, [], ())
    assert only(transitions, GroupDeleted).group == GROUP


@pytest.mark.parametrize("in_runs", [False, True])
def test_a_group_that_goes_with_its_members_is_deleted_when_no_migration_follows(in_runs: bool) -> None:
    """What a migration writes has one time, so commits of the same time tell nothing yet."""
    log = Log().add(commit("x", group="other"), commit("y", group="other"), classic_group(57, A, B))
    log.add(no_classic_group(), commit("x", 0, 11, group="other"), commit("y", 0, 11, group="other"))
    for offset in (12, 13):
        log.add(commit("x", 0, offset, group="other"), commit("y", 0, offset, group="other"))
    mirror = PartitionMirror(log.partition)
    if in_runs:
        runs = [run_of(log.records[start:end]) for start, end in ((0, 3), (3, 4), (4, 6), (6, 10))]
        said = [it for run in runs for it in mirror.replay_batch(run)]
    else:
        said = [it for record in log.records for it in mirror.replay(record)]
    deleted = only(said, GroupDeleted)
    assert (deleted.group, deleted.group_type, deleted.at.offset) == (GROUP, "classic", 6)
    assert mirror.offsets.commit("other", "x", 0)[0].offset == 13  # type: ignore[index]  # it is there
    assert mirror.record_counts["offset_commit"] == 8


def test_a_group_that_goes_with_its_members_and_keeps_offsets_is_not() -> None:
    log = Log().add(commit(), classic_group(57, A, B)).add(no_classic_group())
    log.add(commit("x", group="other")).add(uncommit("x", group="other"))
    assert [it.group for it in log.replayed()[1] if isinstance(it, GroupDeleted)] == ["other"]
    assert log.view().state == "Empty"


def test_a_tombstone_with_members_and_then_the_group_again() -> None:
    log = Log().add(classic_group(1, A)).add(no_classic_group())
    assert log.said()[-1] == [], "a migration may follow: what comes next decides"
    log.add(new_group())
    assert log.said()[-1] == ["group_deleted", "group_created"]
    assert [it.kind for it in log.view().anomalies] == ["tombstone_with_members"]


def test_two_tombstones_are_one_deletion() -> None:
    log = Log().add(classic_group(1, A)).add(classic_group(2)).add(commit())
    log.add(no_classic_group()).add(uncommit()).add(no_classic_group()).add(new_group())
    said = [kind for kinds_of in log.said()[3:] for kind in kinds_of]
    assert said == ["offsets_deleted", "group_deleted", "group_created"]


def test_anomalies_are_bounded() -> None:
    log = Log()
    for generation in range(1, 60, 2):
        log.add(classic_group(generation, A))
    mirror = log.mirror()
    notes = mirror.groups[GROUP].notes
    assert (len(notes.latest), notes.counts) == (MAX_ANOMALIES, {"generation_gap": 29})
    view = mirror.view(GROUP)
    assert view is not None
    assert (view.generations_skipped, view.rebalances, len(view.anomalies)) == (29, 30, MAX_ANOMALIES)
    assert set(notes.counts) <= set(ANOMALIES)
    assert not AnomalyLog().latest, "who has none shares one"


def test_a_members_metadata_may_change_without_its_coming_or_going() -> None:
    moved: MemberMetadata = member("a-1", {"t": [0, 1, 2]}, host="/10.9.9.9")
    log = Log().add(classic_group(1, A)).add(classic_group(2, moved))
    assert log.said()[-1] == ["rebalance"]
    assert log.view().members[0].client_host == "/10.9.9.9"


def test_what_is_left_of_a_group_says_who_left() -> None:
    _, transitions = Log().add(classic_group(1, A, B)).add(classic_group(2)).replayed()
    assert [it.member.member_id for it in transitions if isinstance(it, MemberLeft)] == ["a-1", "b-1"]
    assert [it.generation for it in transitions if isinstance(it, GroupEmptied)] == [2]
    last = [it for it in transitions if isinstance(it, Rebalanced)][-1]
    assert (last.sync_ms, last.members, last.protocol) == (None, 0, None)
    assert kinds(transitions)[-1] == "group_emptied"


def test_a_connect_worker_runs_what_it_brought_and_what_changed() -> None:
    """From version 1 on the leader sends changes only: what it takes back, and what it gives."""

    def tasks(**items: list[int]) -> tuple[ConnectorTasks, ...]:
        return tuple(ConnectorTasks(name, tuple(numbers)) for name, numbers in items.items())

    brought = ConnectAssignment(0, "w-1", "http://w-1/", 5, tasks(files=[-1, 0, 1], logs=[0]), None, 0)
    given = ConnectAssignment(0, "w-1", "http://w-1/", 5, tasks(mail=[0]), tasks(files=[1], logs=[0]), 0)
    worker = member(
        "w-1",
        subscription=encode_payload(ConnectWorkerState("http://w-1/", 5, encode_payload(brought, 2)), 2),
        assignment=encode_payload(given, 2),
    )
    log = Log().add(classic_group(1, worker, protocol_type="connect", protocol="sessioned"))
    assert log.view().members[0].assignment == {"files": (-1, 0), "mail": (0,)}


def departures_of(log: Log) -> list[Transition]:
    return [it for it in log.replayed()[1] if it.kind == "member_left"]


@pytest.mark.parametrize("rebalance_ms", [-(1 << 31), -70_000, 0, (1 << 31) - 1])
def test_a_client_may_ask_for_any_poll_timeout(rebalance_ms: int) -> None:
    """Brokers look at the session timeout alone."""
    log = Log()
    members = [member(f"m-{number}", {"t": [number]}, rebalance_ms=rebalance_ms) for number in range(3)]
    log.add(classic_group(1, *members)).add(classic_group(2, *members[:2], state_ms=T0 + 60_000))
    assert len(departures_of(log)) == 1


EXTREMES = [-(1 << 63), -1, 0, 1, T0, 1 << 62, (1 << 63) - 1]


@pytest.mark.parametrize("state_ms", EXTREMES)
@pytest.mark.parametrize("commit_ms", EXTREMES)
def test_a_strangers_record_may_hold_any_time(commit_ms: int, state_ms: int) -> None:
    log = Log()
    members = [member(f"m-{number}", {"t": [number]}) for number in range(3)]
    log.add(classic_group(1, *members))
    for at_ms in (commit_ms, T0 + 5_000, commit_ms):
        log.add(*(commit("t", number, 5, at_ms=at_ms) for number in range(3)))
    log.add(classic_group(2, *members[:2], state_ms=state_ms)).add(classic_group(3, state_ms=state_ms))
    log.records[-1] = log.records[-1]._replace(timestamp_ms=max(commit_ms, -1))
    assert len(departures_of(log)) == 3


def test_what_is_remembered_of_hostile_subscriptions_is_bounded() -> None:
    """Names of two letters take many times as much room once they are read: 1,024 such subscriptions took 66 MB."""
    letters = string.ascii_letters + string.digits
    names = ["".join(pair) for pair in product(letters, letters)]
    fitting = (classic._MAX_CACHED_BYTES - 40) // 4
    classic._subscription.cache_clear()
    tracemalloc.start()
    for number in range(1_024):
        topics = (f"topic-{number}", *names[:fitting])
        classic._read_subscription(encode_payload(ConsumerProtocolSubscription(topics, None, ()), 1))
    assert classic._subscription.cache_info().currsize == 1_024
    assert tracemalloc.get_traced_memory()[0] < 20_000_000
    tracemalloc.stop()
    classic._subscription.cache_clear()


def test_what_members_of_two_groups_hold_alike_is_kept_once() -> None:
    log = Log()
    for group in ("one", "other"):
        log.add(classic_group(1, member("m-1", {"t": [0, 1]}), member("m-2", {"t": [2]}), group=group))
    one, other = ([it.assignment for it in log.view(group).members] for group in ("one", "other"))
    assert one == other == [{"t": (0, 1)}, {"t": (2,)}]
    assert [*map(id, one)] == [*map(id, other)]


def test_what_is_remembered_of_hostile_assignments_is_bounded() -> None:
    letters = string.ascii_letters + string.digits
    names = ["".join(pair) for pair in product(letters, letters)]
    group = ClassicGroup("g", LogPosition(0, 0, T0))
    tracemalloc.start()
    for number in range(2 * classic._MOST_SHARED):
        some = (names[(number + at) % len(names)] for at in range(20))
        held = [TopicPartition(topic=it, partitions=()) for it in some]
        first = TopicPartition(topic=f"t-{number}", partitions=())
        data = encode_payload(ConsumerProtocolAssignment(assigned_partitions=(first, *held)), 0)
        assert len(data) <= classic._MAX_SHARED_BYTES
        group._assignment(replace(A, assignment=data), LogPosition(0, number, T0))
    assert len(classic._one_assignment) <= classic._MOST_SHARED
    assert tracemalloc.get_traced_memory()[0] < 20_000_000
    tracemalloc.stop()
    classic._one_assignment.clear()
