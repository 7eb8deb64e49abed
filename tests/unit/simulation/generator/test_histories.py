"""Generated records, held to the model that made them by the mirror, which knows neither."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import pytest
from msgspec.structs import replace

from agent.core.protocol.hashing import partition_for_group
from agent.core.records import RawRecord
from agent.core.wire import Record, Tombstone, decode
from agent.core.wire.classic import GroupMetadataKey, GroupMetadataValue
from agent.core.wire.offset_commit_fastpath import read_commit, read_commit_key
from agent.core.wire.payloads import ConsumerProtocolAssignment, decode_payload
from agent.simulation.generator.histories import generate
from agent.simulation.generator.scenario_kinds import SCENARIO_KINDS, GroupKind
from agent.simulation.generator.settings import IntegerRange
from agent.simulation.groups.messages import RebalanceReason
from tests.unit.simulation.generator.making import SMALL, T0, Generated, a_cluster, all_alike, mirrored

CURRENT = 8
every_fate = pytest.mark.parametrize("fate", SCENARIO_KINDS)


def test_the_same_settings_give_the_same_bytes_and_others_give_others() -> None:
    first = a_cluster()
    truths: list[Any] = []
    assert list(generate(SMALL, truths.append)) == first.records
    assert {truth["group"]: truth for truth in truths} == first.truths
    assert json.loads(json.dumps(first.truths)) == first.truths
    for change in (
        {"seed": 1},
        {"start_ms": T0 + 1},
        {"commit_interval_ms": 20_001},
        {"members": IntegerRange(2, 2)},
    ):
        assert list(generate(replace(SMALL, groups=4, **change))) != list(generate(replace(SMALL, groups=4)))


def test_a_group_is_the_same_however_many_others_there_are() -> None:
    few = replace(SMALL, groups=6)
    groups = {number: [] for number in (few.groups, SMALL.groups)}
    for settings in (few, SMALL):
        for record in generate(settings):
            groups[settings.groups].append((record.timestamp_ms, record.key, record.value))
    assert set(groups[few.groups]) < set(groups[SMALL.groups])


def test_every_fate_comes_in_its_share() -> None:
    fates = Counter(truth["fate"] for truth in a_cluster().truths.values())
    assert fates.keys() == SCENARIO_KINDS.keys()
    assert set(fates.values()) <= {3, 4, 5}, "76 groups of 19 kinds"
    cluster = mirrored(replace(SMALL, groups=20, mix={"crash": 3, "simple": 1}, duration_ms=60_000))
    assert Counter(truth["fate"] for truth in cluster.truths.values()) == {"crash": 15, "simple": 5}


def test_places_and_times() -> None:
    cluster = a_cluster()
    counts: Counter[int] = Counter()
    newest = dict.fromkeys(range(50), T0)
    for record in cluster.records:
        assert record.offset == counts[record.partition]
        counts[record.partition] += 1
        assert newest[record.partition] <= record.timestamp_ms <= SMALL.until_ms
        newest[record.partition] = record.timestamp_ms
        key: Any = decode(record.key, record.value).key
        group = key.group if hasattr(key, "group") else key.group_id
        assert record.partition == partition_for_group(group, 50) == cluster.truths[group]["partition"]
    other = replace(SMALL, groups=20, offsets_partitions=3)
    assert {record.partition for record in generate(other)} == {0, 1, 2}


def in_the_log(truth: Any) -> list[int]:
    """The generations that have records: all epochs of a KIP-848 group, of others what was completed."""
    every = SCENARIO_KINDS[truth["fate"]].kind is GroupKind.CONSUMER
    return [it["generation"] for it in truth["rebalances"] if every or it["completed_ms"] is not None]


@every_fate
def test_the_mirror_sees_what_the_model_did(fate: str) -> None:
    cluster = all_alike(fate)
    assert not cluster.complaints
    for group, truth in cluster.truths.items():
        made = in_the_log(truth)
        assert [it["generation"] for it in cluster.rebalances[group]] == made
        form = cluster.forms[group]
        if form is None:
            assert truth["state"] == "Dead"
            continue
        lost = {it["generation"] for it in truth["rebalances"]} - set(made)
        assert {it["kind"] for it in form["anomalies"]} == ({"generation_gap"} if lost else set())
        assert len(form["members"]) == len(truth["members"])
        seen = {it["member_id"]: (it["client_id"], it["assignment"]) for it in form["members"]}
        assert seen == {it["member_id"]: (it["client"], it["assignment"]) for it in truth["members"]}
        if truth["generation"] is not None:
            assert (form["generation"], form["state"]) == (truth["generation"], truth["state"])
            assert form["protocol"] == truth["protocol"]


def idle(truth: Any) -> int:
    return sum(not member["assignment"] for member in truth["members"])


def largest(truth: Any) -> float:
    held = [sum(map(len, member["assignment"].values())) for member in truth["members"]]
    return max(held) * len(held) / sum(held)


def newest_commits(cluster: Generated, group: str) -> list[int]:
    form = cluster.forms[group]
    assert form is not None
    return [it["committed_ms"] for it in form["offsets"]]


HOLDS: dict[str, Callable[[Generated, Any, set[str]], bool]] = {
    "steady": lambda _, it, why: why == {"member_joined"} and not it["departures"],
    "rolling_deploy": lambda _, it, why: {"member_left"} <= why and len(it["departures"]) == it["clients"],
    "static_deploy": lambda _, it, why: why == {"member_joined"} and it["generation"] <= 2,
    "crash": lambda _, it, why: "session_timeout" in {gone["cause"] for gone in it["departures"]},
    "poll_stall": lambda _, it, why: {gone["cause"] for gone in it["departures"]} == {"poll_timeout"},
    "storm": lambda _, it, why: (
        len(it["departures"]) >= 6 and len({gone["client"] for gone in it["departures"]}) == 1
    ),
    "scaling": lambda _, it, why: why == {"member_joined", "member_left"},
    "idle_members": lambda _, it, why: idle(it) > 0,
    "skewed": lambda _, it, why: largest(it) >= 2,
    "resubscribe": lambda _, it, why: "subscription_changed" in why,
    "growing_topic": lambda _, it, why: "partitions_changed" in why,
    "emptied": lambda _, it, why: it["state"] == "Empty" and not it["members"] and "member_left" in why,
    "deleted": lambda cluster, it, why: it["state"] == "Dead" and cluster.forms[it["group"]] is None,
    "simple": lambda cluster, it, _: not it["rebalances"] and min(newest_commits(cluster, it["group"])) > T0,
    "kip848_steady": lambda _, it, why: why == {"member_joined"} and not it["departures"] and it["state"] == "Stable",
    "kip848_deploy": lambda _, it, why: "member_left" in why and len(it["departures"]) == it["clients"],
    "kip848_crash": lambda _, it, why: "session_timeout" in {gone["cause"] for gone in it["departures"]},
    "connect_bounce": lambda cluster, it, why: (
        "member_left" in why and cluster.forms[it["group"]]["group_type"] == "connect"
    ),
    "stalled_consumer": lambda cluster, it, why: (
        it["state"] == "Stable" and min(newest_commits(cluster, it["group"])) < T0 + SMALL.duration_ms * 0.51
    ),
}


@every_fate
def test_each_fate_comes_about(fate: str) -> None:
    cluster = all_alike(fate)
    for truth in cluster.truths.values():
        # Where assignors are cooperative, one rebalance may need another.
        causes = {why for it in truth["rebalances"] for why in it["causes"]} - {"cooperative_followup"}
        assert causes <= set(RebalanceReason)
        assert HOLDS[fate](cluster, truth, causes), truth


def commits(records: list[RawRecord]) -> Any:
    """Group, topic, partition, commit and record, in order; in between the groups' records, decoded.

    Of KIP-848 groups, where members stand, with the member in place of the partition.
    """
    for record in records:
        place = read_commit_key(record.key)
        if place is not None:
            yield *place, record.value and read_commit(record.value), record
        else:
            entry = decode(record.key, record.value)
            if isinstance(entry, Record) and isinstance(entry.value, GroupMetadataValue):
                assert isinstance(entry.key, GroupMetadataKey)
                yield entry.key.group, None, None, entry.value, record
            elif isinstance(entry, Record | Tombstone) and entry.type.key_type == CURRENT:
                value = entry.value if isinstance(entry, Record) else None
                yield entry.key.group_id, None, entry.key.member_id, value, record


@every_fate
def test_only_who_holds_a_partition_commits_it_and_does_so_while_it_works(fate: str) -> None:
    cluster = all_alike(fate)
    held: dict[str, set[tuple[str, int]]] = defaultdict(set)
    current: dict[str, dict[str, set[tuple[str, int]]]] = defaultdict(dict)
    names = topic_names(cluster)
    offsets: dict[tuple[str, str, int], int] = {}
    seen = defaultdict(set)
    for group, topic, partition, value, record in commits(cluster.records):
        if topic is None and partition is not None:
            current[group][partition] = (
                {
                    (names[it.topic_id], number)
                    for it in (*value.assigned_partitions, *value.partitions_pending_revocation)
                    for number in it.partitions
                }
                if value
                else set()
            )
            held[group] = set().union(*current[group].values())
        elif topic is None and value.protocol_type == "connect":
            assert SCENARIO_KINDS[fate].kind is GroupKind.CONNECT
        elif topic is None:
            held[group] = {
                (it.topic, number)
                for member in value.members
                for it in decode_payload(ConsumerProtocolAssignment, member.assignment)[1].assigned_partitions
                for number in it.partitions
            }
        elif value is None:
            offsets.pop((group, topic, partition))
        else:
            assert fate == "simple" or (topic, partition) in held[group]
            assert value.commit_ms == record.timestamp_ms
            assert value.offset >= offsets.get((group, topic, partition), 0)
            assert any(value.topic_id)
            assert 0 <= value.leader_epoch <= 20
            offsets[group, topic, partition] = value.offset
            seen[group].add((topic, partition))
    if fate not in ("simple", "emptied", "deleted"):
        assert all(held[group] <= seen[group] for group in cluster.truths)
    assert any(seen.values()) == (SCENARIO_KINDS[fate].kind is not GroupKind.CONNECT)
    if fate == "deleted":
        assert not offsets, "each was deleted"


def times_of(cluster: Generated, group: str, slots: set[tuple[str, int]]) -> list[int]:
    return [
        it[4].timestamp_ms
        for it in commits(cluster.records)
        if it[0] == group and it[1] is not None and it[1:3] in slots
    ]


def test_who_leaves_commits_first_and_who_dies_does_not() -> None:
    """The gap between a member's last commit and its departure, which is the strongest evidence there is."""
    gaps = defaultdict(list)
    for fate in ("rolling_deploy", "crash", "poll_stall", "kip848_deploy", "kip848_crash"):
        cluster = all_alike(fate)
        for group, truth in cluster.truths.items():
            first = truth["departures"][0]
            slots = {(t, n) for t, numbers in last_assignment(cluster, first["member_id"]) for n in numbers}
            if slots:
                newest = max(ms for ms in times_of(cluster, group, slots) if ms <= first["at_ms"])
                gaps[fate, first["cause"]].append(first["at_ms"] - newest)
    assert max(gaps["rolling_deploy", "member_left"]) == 0, "its last commit comes just before its goodbye"
    assert max(gaps["kip848_deploy", "member_left"]) == 0
    assert min(gaps["kip848_crash", "session_timeout"]) > 45_000 - 5_000 - 10
    assert min(gaps["crash", "session_timeout"]) >= 10_000
    assert min(gaps["poll_stall", "poll_timeout"]) > 290_000
    assert min(map(len, gaps.values())) >= 4


def last_assignment(cluster: Generated, member_id: str) -> Any:
    out: Any = ()
    for _, topic, member, value, _ in commits(cluster.records):
        if topic is None and member is None:
            for it in value.members:
                if it.member_id == member_id:
                    assigned = decode_payload(ConsumerProtocolAssignment, it.assignment)[1]
                    out = [(it.topic, it.partitions) for it in assigned.assigned_partitions]
        elif topic is None and member == member_id and value is not None:
            names = topic_names(cluster)
            out = [(names[it.topic_id], it.partitions) for it in value.assigned_partitions]
    return out


def topic_names(cluster: Generated) -> dict[Any, str]:
    return {value.topic_id: topic for _, topic, _, value, _ in commits(cluster.records) if topic and value}


def test_members_commit_at_their_pace() -> None:
    cluster = all_alike("steady")
    for group in cluster.truths:
        (slot, *_) = [it[1:3] for it in commits(cluster.records) if it[0] == group and it[1] is not None]
        gaps = {later - earlier for earlier, later in pairwise(times_of(cluster, group, {slot})[2:])}
        assert len(gaps) == 1
        assert gaps.pop() % SMALL.commit_interval_ms // 2 <= 200


def test_settings_reach_the_records() -> None:
    settings = replace(
        SMALL,
        groups=12,
        session_timeout_ms=600_000,
        assignors={"roundrobin": 1},
        mix={"steady": 1},
        duration_ms=60_000,
    )
    for form in mirrored(settings).forms.values():
        assert form is not None
        assert form["protocol"] == "roundrobin"
        assert {it["session_timeout_ms"] for it in form["members"]} == {600_000}
        assert all(it["client_host"].startswith("/10.") for it in form["members"])


@every_fate
@pytest.mark.parametrize(
    "change",
    [
        {"duration_ms": 60_000},
        {"partitions": IntegerRange(1, 1), "topics": 1, "members": IntegerRange(1, 1)},
        {"members": IntegerRange(30, 30), "commit_interval_ms": 600_000},
        {"duration_ms": 14 * 3_600_000, "commit_interval_ms": 600_000},
    ],
    ids=["a minute", "small", "large", "long"],
)
def test_extremes(fate: str, change: dict[str, Any]) -> None:
    cluster = mirrored(replace(SMALL, groups=2, mix={fate: 1}, **change))
    assert not cluster.complaints
    for group, truth in cluster.truths.items():
        assert [it["generation"] for it in cluster.rebalances[group]] == in_the_log(truth)


def test_score_of_the_causes(capsys: pytest.CaptureFixture[str]) -> None:
    """What the mirror infers against what was: printed. That it is not far off, is held."""
    score: dict[str, Counter[str]] = defaultdict(Counter)
    for fate in SCENARIO_KINDS:
        cluster = all_alike(fate)
        for group, truth in cluster.truths.items():
            causes = {it["generation"]: it["causes"][0] for it in truth["rebalances"]}
            for event in cluster.rebalances[group]:
                was, said = causes[event["generation"]], event["cause"]
                score[fate]["right" if said == was else f"{was} → {said}"] += 1
    with capsys.disabled():
        for fate, counts in score.items():
            print(f"\n{fate:16} {', '.join(f'{count} {what}' for what, count in counts.most_common())}", end="")
    total = sum((counts for counts in score.values()), Counter[str]())
    assert total["right"] / total.total() > 0.85
