"""Batches that no client can take apart: they are passed over, told of, and cost nobody else anything."""

from __future__ import annotations

import json
import random
import re
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]

from agent.core.protocol.hashing import partition_for_group
from agent.core.wire.offset_commit_fastpath import commit_key, commit_value
from agent.kafka.source.topic import TopicReader
from agent.tools.embedded import EmbeddedBroker, fetch_jars
from tests.harness.faults.agents import AgentProcess
from tests.unit.cli.running import kshadow
from tests.waiting import until

pytestmark = pytest.mark.usefixtures("kafka")

PARTITIONS = 4
CAUGHT_UP, LIVE, DAMAGED, SOUND = range(PARTITIONS)
"""The partitions, by what is in them: a bomb from the start, one that comes later, damage on disk, nothing bad."""

TOPIC = "__consumer_offsets"
KEY = b"\0\0"
"""That names nothing."""


@pytest.fixture(scope="module")
def broker() -> Iterator[EmbeddedBroker]:
    with EmbeddedBroker(fetch_jars(), properties={"offsets.topic.num.partitions": str(PARTITIONS)}) as it:
        client = AdminClient({"bootstrap.servers": it.bootstrap_servers, "log_level": 0})
        client.create_topics([NewTopic("orders", 1)])["orders"].result(20)
        asking = Consumer({"bootstrap.servers": it.bootstrap_servers, "group.id": "asks", "log_level": 0})
        with suppress(KafkaException):  # it makes the offsets topic, which may take longer
            asking.committed([TopicPartition("orders", 0)], 10)
        asking.close()
        for number in range(PARTITIONS):
            commit(it, name(number, "before"))
        bomb(it, CAUGHT_UP)
        bomb(it, CAUGHT_UP, records=3_000)
        commit(it, name(CAUGHT_UP, "behind"))
        damage(it, DAMAGED)
        commit(it, name(DAMAGED, "behind"))
        yield it


def name(partition: int, text: str) -> str:
    """A group's in that partition."""
    numbered = (f"{text}-{number}" for number in range(1000))
    return next(it for it in numbered if partition_for_group(it, PARTITIONS) == partition)


def commit(broker: EmbeddedBroker, group: str) -> None:
    """One position of a group without members, as its coordinator writes it. That one would refuse once others have
    written to its partition."""
    value = commit_value(1, round(time.time() * 1000))
    produce(broker, partition_for_group(group, PARTITIONS), [(commit_key(group, "orders", 0), value)], "none")


def produce(broker: EmbeddedBroker, partition: int, records: list[tuple[bytes, bytes]], codec: str) -> None:
    """One batch."""
    producer = Producer(
        {
            "bootstrap.servers": broker.bootstrap_servers,
            "client.id": "__admin_client",
            "compression.type": codec,
            "message.max.bytes": 1_000_000_000,
            "batch.size": 1_000_000_000,
            "linger.ms": 30_000,  # until `flush`, however slow the machine is
            "log_level": 0,
        }
    )
    offsets: list[int | None] = []
    for key, value in records:
        producer.produce(TOPIC, value, key, partition, on_delivery=lambda error, it: offsets.append(it.offset()))
    assert producer.flush(30) == 0
    assert None not in offsets


def bomb(broker: EmbeddedBroker, partition: int, records: int = 1) -> None:
    """Some 40 MB of zeros in one batch of a few kilobytes."""
    produce(broker, partition, [(KEY, bytes((40 << 20) // records))] * records, "zstd")


def damage(broker: EmbeddedBroker, partition: int) -> None:
    """One batch that the disk has changed."""
    produce(broker, partition, [(KEY, random.Random(1).randbytes(500))] * 2, "none")
    (segment,) = broker.log_dirs[0].glob(f"{TOPIC}-{partition}/*.log")
    with segment.open("r+b") as file:
        file.seek(segment.stat().st_size - 300)
        file.write(b"changed")


@pytest.fixture(scope="module")
def agent(broker: EmbeddedBroker, tmp_path_factory: pytest.TempPathFactory) -> Iterator[AgentProcess]:
    """One that has caught up with what was there, bombs and all."""
    it = AgentProcess(tmp_path_factory.mktemp("agent"), "--bootstrap-server", broker.bootstrap_servers)
    it.start()
    try:
        until(lambda: it.get("/readyz")[0] == 200)
        yield it
    finally:
        it.stop()


def groups(agent: AgentProcess) -> set[str]:
    return {row["group"] for row in agent.json("/api/v1/groups")}


def quarantined(agent: AgentProcess, reason: str) -> float:
    return agent.metrics()["kshadow_records_quarantined_total", f'reason="{reason}"']


def test_the_agent_becomes_ready_and_tells(agent: AgentProcess) -> None:
    assert groups(agent) == {
        *(name(number, "before") for number in range(PARTITIONS)),
        name(CAUGHT_UP, "behind"),
        name(DAMAGED, "behind"),
    }
    pieces = {it["partition"]: it for it in agent.json("/api/v1/status")["quarantined"]}
    bombs, damaged = pieces[CAUGHT_UP], pieces[DAMAGED]
    assert (bombs["first_offset"], bombs["next_offset"], bombs["reason"]) == (1, 3_002, "unpack")
    assert (damaged["first_offset"], damaged["next_offset"], damaged["reason"]) == (1, 3, "corrupt")
    assert "receive.message.max.bytes" in bombs["message"]
    status, body = agent.get("/readyz")
    assert status == 200
    assert b"3003 records could not be read and were passed over (partitions 0, 2)" in body
    assert (quarantined(agent, "unpack"), quarantined(agent, "corrupt")) == (3_001, 2)
    told = {row["coordinator_partition"]: row.get("quarantined") for row in agent.json("/api/v1/groups")}
    assert told == {CAUGHT_UP: {"records": 3_001}, DAMAGED: {"records": 2}, LIVE: None, SOUND: None}
    before = name(DAMAGED, "before")
    assert agent.json(f"/api/v1/groups/{before}")["quarantined"] == {"records": 2}
    answer = kshadow("describe", before, "--agent", f"http://127.0.0.1:{agent.port}")
    assert (answer.exit_code, answer.stderr) == (
        0,
        f"`{before}` may stand otherwise than is told: 2 records of partition {DAMAGED} of __consumer_offsets could"
        " not be read.\n",
    )
    told_of = re.findall(
        r"partition 0 offset (\d+)(?: to (\d+))?: passed over \(unpack\)", agent.log.read_text(encoding="utf-8")
    )
    # A line for each batch: as many as the producer made of them.
    spans = [(int(first), int(last or first)) for first, last in told_of]
    assert [first for first, _ in spans] == [1, *(last + 1 for _, last in spans[:-1])]
    assert spans[-1][1] == 3_001


def test_one_that_comes_later_stops_nobody(broker: EmbeddedBroker, agent: AgentProcess) -> None:
    before = quarantined(agent, "unpack")
    bomb(broker, LIVE)
    commit(broker, name(SOUND, "meanwhile"))
    until(lambda: name(SOUND, "meanwhile") in groups(agent))
    assert agent.get("/readyz")[0] == 200
    commit(broker, name(LIVE, "behind"))
    until(lambda: name(LIVE, "behind") in groups(agent))
    assert agent.get("/readyz")[0] == 200
    assert quarantined(agent, "unpack") == before + 1


def test_after_a_restart_it_is_passed_over_again(broker: EmbeddedBroker, tmp_path: Path, agent: AgentProcess) -> None:
    snapshots = ("--snapshots", str(tmp_path / "snapshots"), "--snapshot-interval", "1s")
    again = AgentProcess(tmp_path, "--bootstrap-server", broker.bootstrap_servers, *snapshots)
    for _ in range(2):
        again.start()
        until(lambda: again.get("/readyz")[0] == 200)
        assert groups(again) >= {name(CAUGHT_UP, "behind"), name(DAMAGED, "behind")}
        again.stop()


def test_a_command_says_what_it_did_not_read(broker: EmbeddedBroker) -> None:
    source = ("--bootstrap-server", broker.bootstrap_servers)
    listed = kshadow("groups", *source, "-o", "json")
    assert listed.exit_code == 1
    assert name(CAUGHT_UP, "behind") in {row["group"] for row in json.loads(listed.stdout)}
    # One line, or one for each batch that the producer made.
    assert re.search(r"partition 0 offset 1( to \d+)?: passed over \(unpack\)", listed.stderr)
    assert re.search(r"partition 0 offset (\d+ to )?3001: passed over \(unpack\)", listed.stderr)
    # There it is, though perhaps not as it is told; where there is none, it may be among what was not read.
    for group, code in (
        (name(CAUGHT_UP, "before"), 1),
        (name(CAUGHT_UP, "nobody"), 3),
        (name(SOUND, "before"), 0),
        (name(SOUND, "nobody"), 1),
    ):
        result = kshadow("describe", group, *source)
        assert (group, result.exit_code) == (group, code)
        assert ("passed over" in result.stderr) == (partition_for_group(group, PARTITIONS) == CAUGHT_UP)
    assert "could not be read" in kshadow("describe", name(DAMAGED, "nobody"), *source).stderr


def test_with_the_setting_it_is_read(broker: EmbeddedBroker) -> None:
    conf = {"bootstrap.servers": broker.bootstrap_servers, "receive.message.max.bytes": "100000000"}
    with TopicReader(conf, partitions=[CAUGHT_UP]) as reader:
        reader.connect()
        rows: list[int] = []
        deadline = time.monotonic() + 60
        while not reader.caught_up and time.monotonic() < deadline:
            rows += (offset for run in reader.poll() for offset in run.offsets)
        assert rows[:3_002] == list(range(3_002))
        assert reader.quarantine.pieces == ()
