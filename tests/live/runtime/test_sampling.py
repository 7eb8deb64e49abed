"""Samples by `kshadow run` as it is installed, in a topic and in Parquet: their lag is that of `kshadow lag`."""

from __future__ import annotations

import itertools
import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow.parquet
import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from agent.persistence.export.columns import row_to_event
from agent.persistence.export.log_clock import decode_clock
from agent.tools.embedded import EmbeddedBroker, fetch_jars
from tests.harness.faults.agents import AgentProcess
from tests.harness.faults.truth import history
from tests.live.scenarios.committing import commit
from tests.unit.cli.running import kshadow
from tests.waiting import until

pytestmark = pytest.mark.usefixtures("kafka")

Event = dict[str, Any]

COMMITS = {"behind": {0: 3, 1: 20, 2: 0}, "level": {0: 20, 1: 20, 2: 20}}
"""What these groups have committed, by partition, of 20 records each."""


@pytest.fixture(scope="module")
def bootstrap() -> Iterator[str]:
    with EmbeddedBroker(fetch_jars(), properties={"offsets.topic.num.partitions": "4"}) as broker:
        conf = {"bootstrap.servers": broker.bootstrap_servers}
        admin = AdminClient(conf)
        admin.create_topics([NewTopic("t", 3, 1)])["t"].result(20)
        producer = Producer(conf)
        for number in range(60):
            producer.produce("t", b"x", partition=number % 3)
        assert producer.flush(20) == 0
        for group, offsets in COMMITS.items():
            positions = [TopicPartition("t", *it) for it in offsets.items()]
            commit(admin, group, positions)
        member = Consumer({**conf, "group.id": "alive", "auto.offset.reset": "earliest"})
        member.subscribe(["t"])
        until(lambda: member.poll(0.2) is not None, 30)
        member.commit(asynchronous=False)
        yield broker.bootstrap_servers
        member.close()


def samples(events: list[dict[str, object]]) -> list[Event]:
    return [it for it in events if it["type"] == "group_sample"]


def test_samples_are_in_every_sink_and_as_the_lag_that_is_told(
    bootstrap: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    parquet = tmp_path / "history"
    running = AgentProcess(
        tmp_path,
        *("--bootstrap-server", bootstrap, "--history-topic", "sampled", "--history-parquet", str(parquet)),
        *("--history-samples", "10s", "--lag-interval", "1s", "--history-roll", "5s", "--deny-group", "truth"),
        *("--state-dir", str(tmp_path / "state")),
    )
    request.addfinalizer(lambda: running.is_running and running.kill())
    running.start().wait_level()

    def told() -> list[Event]:
        try:
            return samples(history(bootstrap, "sampled"))
        except KeyError:  # not made yet
            return []

    until(lambda: len({it["at_ms"] for it in told() if it["group"] == "behind"}) >= 2, 240, running.tail)
    exported = told()
    # Timeline, findings and what is counted know nothing of them.
    timeline = running.json("/api/v1/groups/behind/timeline")
    assert "group_sample" not in json.dumps(timeline)
    forms = {group: running.json(f"/api/v1/groups/{group}") for group in (*COMMITS, "alive")}
    assert running.stop() == 0, running.tail()

    # Up to when time has passed is told at least once a minute, in a file of its own.
    (clock,) = (decode_clock(it.read_bytes()) for it in (parquet / "_clock").iterdir())
    latest_ms = max(it["at_ms"] for it in exported)
    assert (clock.writer, clock.cluster, clock.shard) == ("agent", None, None)
    assert latest_ms - 240_000 < clock.clock_ms < latest_ms + 240_000

    ids = [it["event_id"] for it in exported]
    assert len(set(ids)) == len(ids)
    assert {it["group"] for it in exported} == {*COMMITS, "alive"}
    for group, form in forms.items():
        rows = json.loads(kshadow("lag", group, "--bootstrap-server", bootstrap, "-o", "json").stdout)
        mine = [it for it in exported if it["group"] == group]
        times = [it["at_ms"] for it in mine]
        assert all(9_000 <= after - before <= 15_000 for before, after in itertools.pairwise(times))
        assert abs(times[-1] - time.time() * 1000) < 60_000
        newest = mine[-1]
        assert newest["lag_records"] == sum(row["lag"] for row in rows if row["lag"] is not None)
        committed = [row for row in rows if row["lag_note"] != "not_committed"]
        assert (newest["partitions"], newest["lag_partitions"]) == (len(committed), len(committed))
        seconds = max(row["lag_seconds"] for row in committed)
        assert newest["lag_seconds"] == pytest.approx(seconds, abs=40)
        assert (newest["lag_seconds"] == 0) == (seconds == 0)
        assert (newest["state"], newest["members"]) == (form["state"], len(form["members"]))
        assert newest["partition"] == form["coordinator_partition"]
    alive = next(it for it in exported if it["group"] == "alive")
    assert (alive["state"], alive["members"], alive["imbalance_ratio"]) == ("Stable", 1, 1.0)
    behind = next(it for it in exported if it["group"] == "behind")
    assert (behind["lag_records"], behind["imbalance_ratio"]) == (17 + 0 + 20, None)

    files = sorted(parquet.rglob("*.parquet"))
    rows = [row for path in files for row in pyarrow.parquet.ParquetFile(path).read().to_pylist()]
    assert all(row["extra"] is None for row in rows)
    kept = {it["event_id"]: it for it in samples([row_to_event(row) for row in rows])}
    assert {it["event_id"]: it for it in told()} == kept
    assert kept.keys() >= set(ids)


def test_without_the_option_there_is_none_until_it_comes(bootstrap: str, tmp_path: Path) -> None:
    config = tmp_path / "kshadow.yaml"
    config.write_text(f"run: {{bootstrap-server: '{bootstrap}', history-topic: plain}}\n", encoding="utf-8")
    running = AgentProcess(tmp_path)
    running.start(KSHADOW_CONFIG=str(config)).wait_level()
    time.sleep(12)

    def kinds() -> set[object]:
        return {it["type"] for it in history(bootstrap, "plain")}

    assert "group_created" in kinds()
    assert "group_sample" not in kinds()
    text = config.read_text(encoding="utf-8").replace("plain", "plain, history-samples: 10s")
    config.write_text(text, encoding="utf-8")
    until(lambda: "group_sample" in kinds(), 180, running.tail)
    assert running.stop() == 0, running.tail()
