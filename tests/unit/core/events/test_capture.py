"""The events of a real broker's log, against the broker's own account of what happened."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

import pytest

from agent.core.events.events import event_of, sort_events
from agent.core.records import RecordBatch
from agent.core.shadow.cluster import ClusterMirror
from agent.kafka.source.segments import discover
from tests.unit.core.shadow.build import run_of
from tests.unit.core.wire.vectors import CAPTURE, needs

pytestmark = needs(CAPTURE)

NEVER_WRITTEN = {("audit-deploy", 2)}
"""A generation whose assignment never arrived: its members were gone before."""

Events = list[dict[str, Any]]


def runs() -> list[RecordBatch]:
    found = []
    for log in discover(CAPTURE / "segments"):
        for run in log.committed():
            assert isinstance(run, RecordBatch), run
            found.append(run)
    return found


@pytest.fixture(scope="module")
def cluster_and_events() -> tuple[ClusterMirror, Events]:
    cluster = ClusterMirror()
    return cluster, sort_events(event_of(it) for run in runs() for it in cluster.replay_batch(run))


@pytest.fixture(scope="module")
def cluster(cluster_and_events: tuple[ClusterMirror, Events]) -> ClusterMirror:
    return cluster_and_events[0]


@pytest.fixture(scope="module")
def events(cluster_and_events: tuple[ClusterMirror, Events]) -> Events:
    return cluster_and_events[1]


@pytest.fixture(scope="module")
def truth() -> list[dict[str, Any]]:
    text = (CAPTURE / "truth.ndjson").read_text(encoding="utf-8")
    return [json.loads(line) for line in text.splitlines()]


def classic_rebalances(events: Events) -> Events:
    return [it for it in events if it["type"] == "rebalance" and it["group_type"] in ("classic", "connect")]


def test_every_classic_rebalance_once_and_none_invented(events: Events, truth: list[dict[str, Any]]) -> None:
    ours = Counter((it["group"], it["generation"]) for it in classic_rebalances(events))
    theirs = Counter((it["group"], it["generation"]) for it in truth)
    assert ours - theirs == Counter(), "invented"
    assert theirs - ours == Counter(NEVER_WRITTEN), "missing"


def test_a_generation_that_never_reached_the_log_is_a_gap(cluster: ClusterMirror) -> None:
    gaps = {it.group: it.generations_skipped for it in cluster.views() if it.generations_skipped}
    assert gaps == {"audit-deploy": 1}
    anomalies = {it.group: [note.kind for note in it.anomalies] for it in cluster.views() if it.anomalies}
    assert anomalies == {"audit-deploy": ["generation_gap"]}


def test_who_joined_who_left_and_whether_the_group_became_empty(events: Events, truth: list[dict[str, Any]]) -> None:
    ours = {(it["group"], it["generation"]): it for it in classic_rebalances(events)}
    different = set()
    for row in truth:
        place = row["group"], row["generation"]
        if place in NEVER_WRITTEN:
            continue
        event = ours[place]
        assert (event["members"] == 0) == row["empty"], place
        # The broker's log does not list static joins.
        joined = {it["member_id"] for it in event["joined"] if it["instance_id"] is None}
        left = {it["member_id"] for it in event["left"]}
        if joined != set(row["joined"]) or left != {*row["left"], *row["failed"]}:
            different.add(place)
    # Who joined in the generation that was never written joins in the one after; the KIP-848 member that left a
    # migrated group is not in the lines about classic groups.
    assert different == {("audit-deploy", 3), ("ship-mig", 3)}


def test_every_group_that_left_members_behind_says_so(events: Events) -> None:
    present: dict[str, set[str]] = {}
    for it in events:
        members = present.setdefault(it["group"], set())
        match it["type"]:
            case "member_joined":
                assert it["member"]["member_id"] not in members
                members.add(it["member"]["member_id"])
            case "member_left":
                members.remove(it["member"]["member_id"])
            case "static_member_replaced":
                members.remove(it["old_member"]["member_id"])
                members.add(it["member"]["member_id"])
            case "group_emptied" | "group_deleted":
                assert not members
    # The scenario was over before the last member of this one left.
    assert {group: len(members) for group, members in present.items() if members} == {"risk-848re": 1}


def test_ids_are_unique_and_the_same_for_any_split(events: Events) -> None:
    assert len({it["event_id"] for it in events}) == len(events)
    singles, odd = ClusterMirror(), ClusterMirror()
    by_one: Events = []
    by_17: Events = []
    for run in runs():
        rows = list(run.records())
        by_one += [event_of(it) for row in rows for it in singles.replay(row)]
        by_17 += [
            event_of(it) for at in range(0, len(rows), 17) for it in odd.replay_batch(run_of(rows[at : at + 17]))
        ]
    assert sort_events(by_one) == sort_events(by_17) == events
    assert list(singles.views()) == list(odd.views())


def test_nothing_was_undecodable(cluster: ClusterMirror) -> None:
    assert cluster.error_counts() == Counter()


def test_one_deletion_one_bounce_and_the_migration(events: Events) -> None:
    assert [it["group"] for it in events if it["type"] == "group_deleted"] == ["feeds-del"]
    assert [it["group"] for it in events if it["type"] == "static_member_replaced"] == ["pricing-static"]
    assert {it["group"] for it in events if it["type"] == "offsets_deleted"} == {"feeds-del"}
    rounds = [
        (it["group_type"], it["generation"], len(it["joined"]), len(it["left"]))
        for it in events
        if it["type"] == "rebalance" and it["group"] == "ship-mig"
    ]
    assert rounds == [("classic", 1, 1, 0), ("consumer", 2, 1, 0), ("classic", 3, 0, 1), ("classic", 4, 0, 1)]


def test_types_and_states_at_the_end(cluster: ClusterMirror) -> None:
    assert Counter(it.group_type for it in cluster.views()) == {
        "classic": 14,
        "consumer": 2,
        "share": 1,
        "streams": 1,
    }
    states = {it.group: str(it.state) for it in cluster.views() if it.state != "Empty"}
    assert states == {"risk-848re": "Assigning"}
