"""History events: their fields by the contract, their ids, their order."""

from __future__ import annotations

import json
from typing import Any

import yaml
from hypothesis import given, settings

from agent.core.events.events import EVENT_CLASSES, FINDING, SAMPLE, event_of, sort_events
from agent.core.shadow.mirror import PartitionMirror
from tests import examples
from tests.unit.core.shadow import build as b
from tests.unit.core.shadow.build import GROUP, STEP_MS, T0, Log, run_of
from tests.unit.core.shadow.histories import histories

COMMON = ["schema", "event_id", "type", "cluster", "group", "group_type", "at_ms", "partition", "offset"]
REBALANCE = [
    *("generation", "previous_generation", "cause", "causes", "confidence", "evidence", "observed"),
    *("joined", "left", "protocol", "members", "sync_ms", "join_ms", "stopped_partition_ms"),
]
OWN: dict[str, list[str]] = {
    "group_created": ["observed"],
    "rebalance": REBALANCE,
    "member_joined": ["generation", "member"],
    "member_left": ["generation", "member", "cause", "confidence"],
    "static_member_replaced": ["generation", "old_member", "member"],
    "assignment_changed": [
        *("generation", "assigned_partitions", "gained_partitions", "lost_partitions", "imbalance_ratio"),
    ],
    "group_emptied": ["generation"],
    "group_deleted": [],
    "offsets_deleted": ["topic", "topic_partition", "committed_offset"],
}
CAUSES = {
    *("member_joined", "member_left", "session_timeout", "poll_timeout", "subscription_changed"),
    *("partitions_changed", "cooperative_followup", "leader_rejoined", "protocol_migrated", "admin_removed"),
    *("unknown_departure", "unknown"),
}


def events(log: Log, cluster: str | None = None) -> list[dict[str, Any]]:
    return [event_of(transition, cluster) for transition in log.replayed()[1]]


def life() -> Log:
    """A group that shows every type of event."""
    first, again = (b.member(f"a-{number}", {"t": [0]}, instance_id="I") for number in (1, 2))
    log = Log().add(b.new_group()).add(b.classic_group(1, first)).add(b.commit()).add(b.classic_group(1, again))
    return log.add(b.classic_group(2)).add(b.uncommit(), b.no_classic_group())


def test_every_type_has_its_fields_in_their_order() -> None:
    seen = {event["type"]: list(event) for event in events(life())}
    assert seen == {kind: COMMON + own for kind, own in OWN.items()}
    assert EVENT_CLASSES.keys() - {FINDING, SAMPLE} == OWN.keys()


def test_the_common_fields() -> None:
    created = events(life(), "prod")[0]
    assert created.pop("event_id").startswith("7-0-")
    assert created == {
        "schema": 1,
        "type": "group_created",
        "cluster": "prod",
        "group": GROUP,
        "group_type": "classic",
        "at_ms": T0 + STEP_MS,
        "partition": 7,
        "offset": 0,
        "observed": True,
    }


def test_a_rebalance() -> None:
    log = Log().add(b.classic_group(1, b.member("a-1", {"t": [0]}), state_ms=T0 + STEP_MS - 7))
    log.add(b.classic_group(2, b.member("b-1", {"t": [0]}, instance_id="I")))
    first, second = [event for event in events(log) if event["type"] == "rebalance"]
    who = {"member_id": "a-1", "client_id": "a", "client_host": "/10.0.0.1", "instance_id": None}
    who["client_library"] = "java"
    assert (first["generation"], first["previous_generation"], first["sync_ms"]) == (1, None, 7)
    assert (first["joined"], first["left"], first["protocol"], first["members"]) == ([who], [], "range", 1)
    # Its generation was over before any timeout could be: it must have left of its own accord.
    assert second["left"] == [{**who, "cause": "member_left", "confidence": 0.97}]
    assert second["joined"][0]["instance_id"] == "I"
    assert (first["cause"], first["causes"], first["confidence"]) == ("member_joined", ["member_joined"], 1.0)
    # Nobody stayed: had the old one gone first, the group would have become empty in between.
    assert (second["cause"], second["causes"]) == ("member_joined", ["member_joined", "member_left"])
    for event in (first, second):
        assert event["observed"] is False
        assert event["evidence"][-1]["kind"] == "joined"
        assert (event["join_ms"], event["stopped_partition_ms"] is None) == (None, False)
        assert {event["cause"], *event["causes"], *(it["cause"] for it in event["left"])} <= CAUSES


def test_events_are_plain_values() -> None:
    for event in events(life()):
        assert json.loads(json.dumps(event)) == event
        assert yaml.safe_load(yaml.safe_dump(event)) == event


def test_ids_do_not_depend_on_what_a_cluster_is_called() -> None:
    ours, theirs = events(life(), "a"), events(life(), "b")
    assert [event["event_id"] for event in ours] == [event["event_id"] for event in theirs]


def test_ids_stay_as_they_are() -> None:
    # Consumers of the history keep them: a change here is a new schema version.
    assert [event["event_id"] for event in events(life())] == PINNED


PINNED = [
    "7-0-4ba4678c6233",
    "7-1-761e7b8e592d",
    "7-1-c9cce25d03e6",
    "7-1-03107c8a1cc2",
    "7-3-856cef8d1e1d",
    "7-4-ef95472cd9b5",
    "7-4-79017267abd2",
    "7-4-8a10fb54d8e9",
    "7-4-442decbd8599",
    "7-5-abacb14cbea0",
    "7-6-63321e11fc3c",
]


def test_ids_tell_clusters_apart_by_time() -> None:
    early = Log().add(b.new_group())
    late = Log().add(b.new_group(), after_ms=STEP_MS + 1)
    assert events(early)[0]["event_id"] != events(late)[0]["event_id"]


@settings(max_examples=examples(100), deadline=None)
@given(histories())
def test_ids_are_unique_and_the_same_for_any_split(log: Log) -> None:
    single = events(log)
    assert len({event["event_id"] for event in single}) == len(single)
    for size in (1, 7, 1000):
        mirror = PartitionMirror(log.partition)
        runs = [log.records[at : at + size] for at in range(0, len(log.records), size)]
        assert [event_of(it) for rows in runs for it in mirror.replay_batch(run_of(rows))] == single


def test_order_is_by_time_partition_and_offset() -> None:
    def event(at_ms: int, partition: int, offset: int, note: str) -> dict[str, Any]:
        return {"at_ms": at_ms, "partition": partition, "offset": offset, "note": note}

    rows = [
        event(2, 0, 0, "time"),
        event(1, 1, 0, "partition"),
        event(1, 0, 9, "offset, as a number"),
        event(1, 0, 10, "first of a record"),
        event(1, 0, 10, "a second of a record"),
    ]
    assert [it["note"] for it in sort_events(rows)] == [
        "offset, as a number",
        "first of a record",
        "a second of a record",
        "partition",
        "time",
    ]
    assert sort_events([]) == []
