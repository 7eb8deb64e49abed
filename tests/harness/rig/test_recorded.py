"""Groups of real clients on real brokers that were told wrong with confidence: `tests/data/causes` has their records.

The truth is what the broker's log said of each generation, and what was done to the member. Where the records do not
tell it, another answer is one without confidence.
"""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from agent.core.inference.external_evidence import KnownSessions
from agent.core.inference.session_settings import session_settings
from agent.core.records import RecordBatch
from agent.core.shadow.mirror import PartitionMirror
from agent.core.shadow.transitions import Rebalanced, Transition
from agent.runtime.offline import load
from tests import ROOT
from tests.harness.rig.accuracy import SURE
from tests.harness.rig.settings import BROKER_CONFIG

JOINED, LEFT, DIED, REMOVED = "member_joined", "member_left", "session_timeout", "admin_removed"
CHANGED, STALLED, FOLLOWED = "subscription_changed", "poll_timeout", "cooperative_followup"
DROPPED = "rejoin_timeout"

# File, why, by generation (epoch) the cause, of members that went as well; generations of which none need be told.
RECORDED: list[tuple[str, str, dict[int, str], set[int]]] = [
    ("transactional", "commits in transactions renew no session: it ran from the last heartbeat",
     {4: LEFT, 6: DIED, 8: DIED, 10: LEFT, 12: LEFT, 13: LEFT, 14: LEFT}, set()),
    ("static_back", "static members came back as their sessions had run out, and new ones with them",
     {3: DIED, 4: DIED, 5: DIED, 6: DIED}, {3, 4, 6}),
    ("static_assignor", "a static member came back with another assignor", {2: CHANGED, 3: DIED}, set()),
    ("kip848_static_removed", "an admin removed static members, which leave for a restart as they close",
     {5: REMOVED, 7: REMOVED, 9: LEFT, 10: DIED, 11: DIED}, set()),
    ("kip848_classic_members", "no commit renews the session of a classic member in a KIP-848 group",
     {4: DIED, 5: LEFT, 6: DIED, 7: LEFT}, set()),
    ("joined_and_left", "a client joined, and left again before the rebalance was complete",
     {3: JOINED, 4: JOINED, 5: JOINED, 6: JOINED}, {3, 4, 5, 6}),
    ("unmoved", "aiokafka's members closed before what they had just been given moved",
     {3: DIED, 5: DIED, 7: DIED, 9: LEFT, 10: LEFT}, set()),
    ("slow_work", "members closed while the others were at work for longer than a session",
     {3: LEFT, 5: LEFT, 7: LEFT}, {3, 5, 7}),
    ("streams_leave", "Streams said goodbye as it was closed, since it was told to", {10: LEFT}, set()),
    ("streams_static_leave", "static members of Streams said goodbye", {5: LEFT, 9: DIED, 13: LEFT}, {13}),
    ("static_leave", "Java's static members said goodbye as they were closed (KIP-1092), and another did not",
     {5: LEFT, 6: LEFT, 9: LEFT, 12: DIED, 13: LEFT}, {6}),
    ("streams_thread_removed", "a thread of Streams was removed just after its first round, and had not committed",
     {5: LEFT, 8: LEFT, 10: DIED}, {8}),
    ("all_removed", "an admin removed all at once, and then they were closed",
     {3: LEFT, 7: REMOVED, 10: REMOVED, 13: LEFT, 14: LEFT, 15: LEFT}, {7, 10}),
    ("all_removed_in_step", "the same of members that all commit at the same times", {5: REMOVED}, {5}),
    ("equal_timeouts", "session and poll timeout are the same",
     {2: DIED, 4: STALLED, 6: DIED, 8: LEFT, 10: LEFT}, {2, 4}),
    ("first_metadata", "a client joined before it knew its topic's partitions", {2: "leader_rejoined"}, {2}),
    ("connect_delayed", "connectors were made and deleted while Connect's leader waited for a worker to come back",
     dict.fromkeys((12, 13, 14, 21, 22), "leader_rejoined") | dict.fromkeys((15, 16, 18, 23), FOLLOWED),
     {12, 13, 14, 21, 22}),
    ("equal_timeouts_stall", "the same, and a poll loop stalled", {4: DIED, 5: STALLED}, {4, 5}),
]  # fmt: skip

# File, why, and by generation its cause and those of its members, by the ends of their client ids.
MIXED: list[tuple[str, str, dict[int, tuple[str, dict[str, str]]]]] = [
    ("closed_or_died", "the group was emptied: some were closed, and the others had died just before or after",
     {3: (LEFT, {"d1": LEFT, "e2": LEFT, "h3": LEFT, "d4": LEFT, "d5": DIED, "h6": LEFT}),
      11: (LEFT, {"h11": LEFT, "e12": DIED, "f13": DIED}), 14: (DIED, {"d14": DIED, "d15": LEFT})}),
    ("closed_and_died_idle", "the same, and one of those that died had never committed",
     {13: (LEFT, {"d7": LEFT, "g8": LEFT, "a9": DIED, "a10": LEFT, "h11": DIED, "h12": LEFT})}),
    ("closed_and_died", "the same, once with a generation that never completed",
     {9: (LEFT, {"f5": LEFT, "c6": DIED, "g7": LEFT, "e8": LEFT, "b9": LEFT, "d10": DIED}),
      12: (LEFT, {"f11": DIED, "c12": LEFT, "a13": LEFT})}),
    ("left_before_sync", "one died as it joined, and one was closed in the next generation, which never completed",
     {6: (FOLLOWED, {"e4": LEFT, "b5": DIED})}),
    ("replaced_at_once", "a member was closed, and another came in its place, both within 0.2 s",
     {3: (LEFT, {"f1": LEFT})}),
    ("skipped_twice", "all four were replaced, and two generations of those that came between never completed",
     {5: (LEFT, {"c1": LEFT, "g2": LEFT, "h3": LEFT, "c4": DIED})}),
    ("died_and_stalled", "one died, and the poll loop of another stalled, within one rebalance",
     {3: (DIED, {"c1": DIED, "b2": STALLED})}),
    ("stalled_and_died", "the same the other way round", {5: (STALLED, {"h4": STALLED, "h1": DIED})}),
    ("stalled_and_rejoined", "a poll loop of aiokafka's stalled, and its client rejoined by itself meanwhile",
     {4: (STALLED, {"g3": STALLED}), 11: (STALLED, {"b6": STALLED})}),
    ("left_as_it_began", "one left 1 ms after a cooperative round, and another as the next one never completed",
     {7: (LEFT, {"b5": LEFT, "e3": LEFT})}),
    ("dropped_dead", "Java's poll limit is below the session: those that died are dropped before it ends",
     {4: (JOINED, {"f1": DROPPED}), 5: (DIED, {"f1": DIED}), 8: (JOINED, {"b2": DROPPED}),
      9: (JOINED, {"b2": DROPPED})}),
    ("coordinator_back", "a member died, and the others were closed as the coordinator was back",
     {7: (LEFT, {"e3": LEFT, "f4": DIED, "f5": LEFT, "a6": LEFT, "d7": LEFT, "c8": LEFT})}),
    ("commit_held_up", "a poll loop stalled, and its last commit waited for a coordinator",
     {4: (STALLED, {"b1": STALLED})}),
]  # fmt: skip


def path_of(name: str) -> Path:
    return ROOT / "tests" / "data" / "causes" / f"{name}.ndjson.gz"


@pytest.mark.parametrize(("name", "why", "truth", "untold"), RECORDED, ids=[it[0] for it in RECORDED])
def test_what_is_told_with_confidence_is_right(name: str, why: str, truth: dict[int, str], untold: set[int]) -> None:
    witness = KnownSessions(session_settings(BROKER_CONFIG))
    rebalances: dict[int, dict[str, Any]] = {
        it["generation"]: it
        for it in load([str(path_of(name))], on_problem=pytest.fail, witness=witness).events()
        if it["type"] == "rebalance"
    }
    for number, cause in truth.items():
        for told in (rebalances[number], *rebalances[number]["left"]):
            right = told["cause"] == cause
            assert right or (number in untold and told["confidence"] < SURE), (why, number, told["cause"])


@pytest.mark.parametrize(("name", "why", "truth"), MIXED, ids=[it[0] for it in MIXED])
def test_what_is_told_of_each_with_confidence_is_right(
    name: str, why: str, truth: dict[int, tuple[str, dict[str, str]]]
) -> None:
    inferences = {it.generation: it.inferred for it in transitions_of(name) if isinstance(it, Rebalanced)}
    for number, (cause, members) in truth.items():
        told = inferences[number]
        left = {it.member.client_id.rpartition("-")[2]: it for it in told.departures.values()}
        assert left.keys() == members.keys()
        for it, right in ((told, cause), *((left[client], way) for client, way in members.items())):
            assert it.cause == right or it.confidence < SURE, (why, number, it.cause, right)


def test_a_goodbye_is_sure_where_no_session_had_run_out() -> None:
    """Though two left, of which one joined a generation that never completed."""
    (told,) = (it for it in transitions_of("closed_in_time") if isinstance(it, Rebalanced) and it.generation == 9)
    assert [it.cause for it in told.inferred.departures.values()] == [LEFT, LEFT]
    assert min(told.inferred.confidence, *(it.confidence for it in told.inferred.departures.values())) >= SURE


def test_a_close_that_takes_a_while_is_no_removal() -> None:
    """Both were closed, the last one within 80 ms of its commit."""
    events = load([str(ROOT / "docs" / "examples")], on_problem=pytest.fail).events()
    (told,) = (it for it in events if it["group"] == "emails-crash" and it.get("generation") == 6 and "left" in it)
    assert [(it["cause"], it["confidence"] >= SURE) for it in (told, *told["left"])] == [(LEFT, True)] * 3


def transitions_of(name: str) -> list[Transition]:
    """What the records of one partition tell, with the leaders that appended them."""
    with gzip.open(path_of(name)) as lines:
        rows = [json.loads(line) for line in lines]
    batch = RecordBatch(
        rows[0]["partition"],
        [it["offset"] for it in rows],
        [it["timestamp"] for it in rows],
        [bytes.fromhex(it["key"]) for it in rows],
        [None if it["value"] is None else bytes.fromhex(it["value"]) for it in rows],
        leader_epochs=[it.get("leaderEpoch", -1) for it in rows],
    )
    return PartitionMirror(batch.partition).replay_batch(batch)
