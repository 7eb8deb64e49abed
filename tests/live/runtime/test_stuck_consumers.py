"""Stuck consumers on a real broker: told within twice `silent_after_s`; a slow and a healthy one never."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaError, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from agent.tools.embedded import EmbeddedBroker, fetch_jars
from tests.harness.faults.agents import AgentProcess
from tests.unit.cli.running import kshadow
from tests.waiting import until

pytestmark = pytest.mark.usefixtures("kafka")

SILENT_AFTER_S = 20
PARTITIONS = 4
RECORDS_A_SECOND = 15
"""In each partition."""

GOOD_S, WATCHED_S = 20, 75
"""For so long all is well; and so long it is looked at from when something is stuck."""


class Running:
    """One consumer in a thread of its own; `is_stuck` makes it so."""

    def __init__(self, bootstrap: str, group: str, work: Callable[[Running, Consumer, Message], None]) -> None:
        self.is_stuck, self.stop = threading.Event(), threading.Event()
        self.last_moved_s, self._furthest = 0.0, -1
        self._conf = {
            "bootstrap.servers": bootstrap,
            "group.id": group,
            "client.id": f"{group}-client",
            "auto.offset.reset": "earliest",
            "auto.commit.interval.ms": 1000,
            "max.poll.interval.ms": 600_000,
        }
        self._work = work
        self.thread = threading.Thread(target=self._run)
        self.thread.start()

    def moved(self, offset: int) -> None:
        """What will be stuck says how far it came: on a busy machine it goes on for a while."""
        if offset > self._furthest:
            self.last_moved_s, self._furthest = time.time(), offset

    def _run(self) -> None:
        consumer = Consumer(self._conf)
        consumer.subscribe(["work"])
        while not self.stop.is_set():
            message = consumer.poll(0.1)
            if message is not None and message.error() is None:
                self._work(self, consumer, message)
            elif message is not None:
                assert message.error().code() == KafkaError._PARTITION_EOF, message.error()
        consumer.close()


def healthy(it: Running, consumer: Consumer, message: Message) -> None:
    """Keeps up."""


def slow(it: Running, consumer: Consumer, message: Message) -> None:
    """A tenth of what comes, and its lag grows all the time."""
    it.stop.wait(1 / (0.1 * PARTITIONS * RECORDS_A_SECOND))


def hangs(it: Running, consumer: Consumer, message: Message) -> None:
    """Waits for ever within a record's work: it polls no more, and its heartbeats go on."""
    it.moved(message.offset())
    if it.is_stuck.is_set():
        it.stop.wait()


def poison(it: Running, consumer: Consumer, message: Message) -> None:
    """A record of partition 0 fails each time: it commits where it stands and begins a few records before."""
    if it.is_stuck.is_set() and message.partition() == 0:
        place = TopicPartition("work", 0, message.offset())
        consumer.commit(offsets=[place], asynchronous=False)
        it.moved(message.offset())
        consumer.seek(TopicPartition("work", 0, message.offset()))
        it.stop.wait(0.2)


def back_and_forth(it: Running, consumer: Consumer, message: Message) -> None:
    """A record of partition 0 fails each time, and it goes back to the beginning of a batch, which it commits."""
    if not it.is_stuck.is_set() or message.partition() != 0:
        return
    first = it.__dict__.setdefault("first", message.offset())
    it.stop.wait(0.1)
    if message.offset() >= first + 10:
        consumer.seek(TopicPartition("work", 0, first))
    consumer.commit(offsets=[TopicPartition("work", 0, message.offset())], asynchronous=False)
    it.moved(message.offset())


def pauses_one(it: Running, consumer: Consumer, message: Message) -> None:
    """One partition of many is paused and never resumed."""
    if it.is_stuck.is_set() and message.partition() == 2:
        it.moved(message.offset())
        consumer.pause([TopicPartition("work", 2)])


STUCK = {"hangs": hangs, "poison": poison, "back-and-forth": back_and_forth, "pauses-one": pauses_one}
WELL = {"healthy": healthy, "slow": slow}

EXPECTED = {
    "hangs": ("STOP", [f"work-{it}" for it in range(PARTITIONS)]),
    "poison": ("STALL", ["work-0"]),
    "back-and-forth": ("STALL", ["work-0"]),
    "pauses-one": ("STOP", ["work-2"]),
}


@pytest.fixture(scope="module")
def broker() -> Iterator[EmbeddedBroker]:
    with EmbeddedBroker(fetch_jars(), properties={"offsets.topic.num.partitions": "4"}) as broker:
        conf = {"bootstrap.servers": broker.bootstrap_servers}
        admin = AdminClient(conf)
        admin.create_topics([NewTopic("work", PARTITIONS, 1)])["work"].result(20)
        stop = threading.Event()

        def produce() -> None:
            producer, number = Producer(conf), 0
            while not stop.wait(1 / RECORDS_A_SECOND):
                for partition in range(PARTITIONS):
                    producer.produce("work", str(number).encode(), partition=partition)
                producer.poll(0)
                number += 1
            assert producer.flush(20) == 0

        producing = threading.Thread(target=produce)
        producing.start()
        yield broker
        stop.set()
        producing.join(30)


@pytest.mark.thorough  # the analyzer's own tests have each of them, without a broker
def test_stuck_consumers_are_told_in_time_and_others_never(
    broker: EmbeddedBroker, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    bootstrap = broker.bootstrap_servers
    # The topic comes with the first group.
    clients = {group: Running(bootstrap, group, work) for group, work in {**STUCK, **WELL}.items()}

    def stop() -> None:
        for it in clients.values():
            it.stop.set()
        for it in clients.values():
            it.thread.join(60)

    request.addfinalizer(stop)
    admin = AdminClient({"bootstrap.servers": bootstrap})
    until(lambda: "__consumer_offsets" in admin.list_topics(timeout=5).topics, 60)
    history = tmp_path / "history"
    agent = AgentProcess(
        tmp_path,
        *("--bootstrap-server", bootstrap, "--lag-interval", "2s", "--no-admin"),
        *("--tune", f"stalled_consumer.silent_after_s={SILENT_AFTER_S}"),
        *("--history-parquet", str(history), "--history-samples", "10s", "--history-roll", "5s"),
    )
    request.addfinalizer(lambda: agent.is_running and agent.kill())
    agent.come_up()

    def found() -> dict[str, dict[str, Any]]:
        events = agent.json("/api/v1/findings")
        return {it["group"]: it for it in events if it["analyzer"] == "stalled_consumer"}

    def groups() -> set[str]:
        return {it["group"] for it in agent.json("/api/v1/groups") if it["state"] == "Stable"}

    until(lambda: groups() >= clients.keys(), 90, agent.tail)
    time.sleep(GOOD_S)
    assert found() == {}
    for it in clients.values():
        it.is_stuck.set()
    began_s = time.time()
    told: dict[str, tuple[float, dict[str, Any]]] = {}
    while time.time() - began_s < WATCHED_S:
        for group, event in found().items():
            if group not in told and event["numbers"]["status"] == EXPECTED.get(group, (None, []))[0]:
                told[group] = time.time() - began_s, event
        time.sleep(0.5)
    print({group: round(after_s, 1) for group, (after_s, _) in told.items()})
    assert found().keys() == STUCK.keys(), (found(), agent.tail())
    assert told.keys() == STUCK.keys()
    for group, (after_s, event) in told.items():
        numbers = event["numbers"]
        assert (numbers["status"], numbers["partitions"]) == EXPECTED[group], event
        assert SILENT_AFTER_S <= after_s <= 2 * SILENT_AFTER_S, (group, after_s)
        assert event["severity"] == "critical"
        assert numbers["clients"] == [f"{group}-client"]
        assert abs(numbers["since_ms"] / 1000 - clients[group].last_moved_s) < 10, event
        assert min(numbers["lags"]) > 10 * RECORDS_A_SECOND

    # A history with samples tells the same of the log.
    assert agent.stop() == 0, agent.tail()
    replayed = kshadow(
        *("replay", *map(str, broker.log_dirs), "--samples", str(history), "--event", "finding", "-o", "ndjson"),
        *("--tune", f"stalled_consumer.silent_after_s={SILENT_AFTER_S}"),
    )
    again = [it for it in map(json.loads, replayed.stdout.splitlines()) if it["analyzer"] == "stalled_consumer"]
    assert {it["group"] for it in again} == STUCK.keys()
    for group, (_, event) in told.items():
        same = next(
            it for it in again if it["group"] == group and it["numbers"]["status"] == event["numbers"]["status"]
        )
        assert same["numbers"]["partitions"] == event["numbers"]["partitions"]
        assert same["severity"] == event["severity"]
        assert abs(same["at_ms"] - event["at_ms"]) <= 25_000
