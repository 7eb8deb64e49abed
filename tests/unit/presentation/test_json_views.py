"""The contract's JSON of groups, members and offsets."""

from __future__ import annotations

import json
from typing import Any

import yaml

from agent.core.shadow.sampled_mirror import SampledMirror, shard_of
from agent.presentation.json_views import NO_LAG, describe_json, group_json
from tests.unit.core.shadow import build as b
from tests.unit.core.shadow.build import GROUP, STEP_MS, T0, Log, commit, topic_id
from tests.unit.core.shadow.looks import Looks, seen
from tests.unit.core.shadow.scripts import CONSUMER, ModernScript


def described(log: Log, lag: Any = None) -> dict[str, Any]:
    mirror = log.mirror()
    view = mirror.view(GROUP)
    assert view is not None
    return describe_json(view, mirror.committed(GROUP), lag)


def classic() -> Log:
    who = b.member("a-1", {"t": [1, 0], "s": [2]}, instance_id="I", rack_id="r1", topics=("t", "s"))
    return Log().add(b.classic_group(1, who)).add(commit("t", 0, 10, version=4, id_of_topic=topic_id("t")))


def test_a_group() -> None:
    view = classic().view()
    assert group_json(view) == {
        "group": GROUP,
        "group_type": "classic",
        "state": "Stable",
        "generation": 1,
        "protocol_type": "consumer",
        "protocol": "range",
        "members": 1,
        "partitions": 3,
        "committed_partitions": 1,
        "coordinator_partition": 7,
        "state_since_ms": T0,
        "last_commit_ms": T0,
        "lag": None,
        "rebalances": 1,
        "generations_skipped": 0,
        "anomalies": 0,
    }


def test_whether_a_member_of_a_group_that_is_looked_at_uses_the_classic_protocol() -> None:
    """A KIP-848 group may have members of both, and the Admin API's description does not say which."""
    for group_type, uses_classic_protocol in (("classic", True), ("consumer", None)):
        mirror = SampledMirror(shard_of("a"))
        mirror.replay_batch(Looks("a", group_type=group_type).look(0, "Stable", seen("m", 0)).batch())
        view = mirror.view("a")
        assert view is not None
        (member,) = describe_json(view, ())["members"]
        assert member["uses_classic_protocol"] is uses_classic_protocol


def test_a_described_group() -> None:
    form = described(classic(), lambda it: {**NO_LAG, "lag": 5, "end": 15} if it.offset == 10 else NO_LAG)
    assert form["lag"] == 5
    assert (form["leader"], form["target_generation"], form["anomalies"]) == ("a-1", None, [])
    assert form["members"] == [
        {
            "member_id": "a-1",
            "client_id": "a",
            "client_host": "/10.0.0.1",
            "instance_id": "I",
            "rack_id": "r1",
            "session_timeout_ms": 45_000,
            "rebalance_timeout_ms": 300_000,
            "subscription": ["t", "s"],
            "subscription_regex": None,
            "assignment": {"s": [2], "t": [0, 1]},
            "member_epoch": None,
            "uses_classic_protocol": True,
            "client_library": "java",
            "library_evidence": (
                "its subscription is of version 3, has null as user data, has a rack, goes with an assignment of "
                "version 3; its assignor is range"
            ),
        }
    ]
    (offset,) = form["offsets"]
    assert offset == {
        "topic": "t",
        "partition": 0,
        "offset": 10,
        "committed_ms": T0,
        "lag": 5,
        "lag_seconds": None,
        "lag_seconds_at_least": False,
        "lag_note": None,
        "log_start": None,
        "end": 15,
        "held_back": None,
        "lost": None,
        "leader_epoch": 3,
        "metadata": "",
        "topic_id": "dAEBAQEBAQEBAQEBAQEBAQ",
    }


def test_a_commit_without_a_time_has_none() -> None:
    """A record says -1 for none, and clients of before Kafka 4.0 may say any time."""
    log = Log().add(commit("t", 0, at_ms=-1), commit("t", 1, at_ms=-(1 << 62)))
    form = described(log)
    assert [it["committed_ms"] for it in form["offsets"]] == [None, None]
    assert form["last_commit_ms"] is None
    form = described(log.add(commit("t", 2)))
    assert [it["committed_ms"] for it in form["offsets"]] == [None, None, T0]
    assert form["last_commit_ms"] == T0


def test_lag_that_is_not_known_is_null() -> None:
    assert described(classic())["offsets"][0]["lag"] is None
    form = described(classic(), lambda it: NO_LAG)
    assert form["offsets"][0]["lag"] is None
    assert form["lag"] is None


def test_lag_is_the_sum_of_what_is_known() -> None:
    log = classic().add(commit("t", 1, 11)).add(commit("t", 2, 12))
    assert described(log, lambda it: {**NO_LAG, "lag": None if it.partition == 1 else it.offset})["lag"] == 22
    assert group_json(log.view(), 22)["lag"] == 22


def test_nothing_to_read_where_that_is_known_is_not_nothing_to_read() -> None:
    log = classic().add(commit("t", 1, 11)).add(commit("t", 2, 12))
    assert described(log, lambda it: {**NO_LAG, "lag": None if it.partition == 1 else 0})["lag"] is None
    assert described(log, lambda it: {**NO_LAG, "lag": 0})["lag"] == 0
    deleted = {**NO_LAG, "lag_note": "topic_deleted"}
    assert described(log, lambda it: deleted if it.partition == 1 else {**NO_LAG, "lag": 0})["lag"] == 0
    assert described(log, lambda it: deleted)["lag"] is None


def test_a_modern_member_has_its_target_too() -> None:
    log = Log().add(b.c_topics("t"), *ModernScript(CONSUMER, GROUP).join("a-1"))
    (who,) = described(log)["members"]
    assert who["target"] == who["assignment"] == {"t": [0, 1, 2, 3, 4, 5]}
    assert "standby_tasks" not in who
    log = Log().add(b.k_member("a-1"), b.k_current("a-1", 1, {"0": [0]}, standby={"0": [1]}))
    (who,) = described(log)["members"]
    assert (who["standby_tasks"], who["warmup_tasks"], who["target"]) == ({"0": [1]}, {}, {})


def test_anomalies_are_told_in_full() -> None:
    form = described(Log().add(b.classic_group(1)).add(b.classic_group(4)))
    (anomaly,) = form["anomalies"]
    assert (anomaly["kind"], anomaly["offset"], anomaly["at_ms"]) == ("generation_gap", 1, T0 + 2 * STEP_MS)
    assert "2 never completed" in anomaly["message"]


def test_forms_are_plain_values() -> None:
    # PyYAML's safe dumper refuses what is not a str, though it be a subclass.
    for log in (classic(), Log().add(*ModernScript(CONSUMER, GROUP).join("a-1"))):
        form = described(log)
        assert json.loads(json.dumps(form)) == form
        assert yaml.safe_load(yaml.safe_dump(form)) == form
