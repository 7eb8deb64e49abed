"""The names of other exporters beside those exporters themselves, on the same groups of a real broker.

KMINION, BURROW and KAFKA_EXPORTER name their binaries; what is not named is skipped.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic
from prometheus_client.parser import text_string_to_metric_families

from agent.serving.metrics.compat import COMPAT_METRICS, Exporters
from agent.tools.embedded import EmbeddedBroker, fetch_jars
from tests.harness.bench.tools import Burrow, KafkaExporter, KMinion, KShadow, Running, Tool

pytestmark = pytest.mark.usefixtures("kafka")

PARTITIONS, RECORDS, COMMITS = 3, 40, 14
GROUPS = ("payments", "gone", 'odd "name" ü')
TOOLS: dict[Exporters, tuple[str, Callable[[str], Tool]]] = {
    Exporters.KMINION: ("KMINION", KMinion),
    Exporters.BURROW: ("BURROW", Burrow),
    Exporters.KAFKA_EXPORTER: ("KAFKA_EXPORTER", KafkaExporter),
}
UNKNOWN_HERE = {"coordinator_id"}
"""Labels of theirs that kshadow has not."""

Series = dict[tuple[str, frozenset[tuple[str, str]]], float]


@pytest.fixture(scope="module")
def servers() -> Iterator[str]:
    """A group with two members and one without, with lag, that committed so often that Burrow has a whole window."""
    with EmbeddedBroker(fetch_jars(), properties={"offsets.topic.num.partitions": "50"}) as broker:
        servers = broker.bootstrap_servers
        conf = {"bootstrap.servers": servers, "log_level": "2"}
        admin = AdminClient(conf)
        for topic in ("orders", "returns"):
            admin.create_topics([NewTopic(topic, PARTITIONS, 1)])[topic].result(30)
        producer = Producer(conf)
        for at in range(RECORDS * PARTITIONS):
            producer.produce("orders", b"x", partition=at % PARTITIONS)
        producer.flush()
        consumers = [joined(conf, group) for group in (*GROUPS, GROUPS[0])]
        try:
            settle(consumers)
            for at in range(1, COMMITS + 1):
                for consumer in consumers:
                    # As a consumer that has work and does it, but for the partition that nobody was given.
                    held = [of for of in consumer.assignment() if of.topic == "orders"]
                    if held:
                        commits = [TopicPartition("orders", of.partition, at + of.partition) for of in held]
                        consumer.commit(offsets=commits, asynchronous=False)
                settle(consumers, 0.6)
            consumers.pop(1).close()
            yield servers
        finally:
            for consumer in consumers:
                consumer.close()


def joined(conf: dict[str, str], group: str) -> Consumer:
    consumer = Consumer({**conf, "group.id": group, "enable.auto.commit": "false", "auto.offset.reset": "earliest"})
    consumer.subscribe(["orders", "returns"])
    return consumer


def settle(consumers: list[Consumer], seconds: float = 8.0) -> None:
    """They poll, so that they stay in their groups."""
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        for consumer in consumers:
            consumer.poll(0.05)


def series(it: Running, exporter: Exporters) -> Series:
    """What is there under the exporter's names, of our groups."""
    names = {of.name for of in COMPAT_METRICS[exporter]}
    groups = {"group_id", "consumergroup", "consumer_group", "group"}
    body = it.get("/metrics", 60.0)
    found: Series = {}
    for family in text_string_to_metric_families("" if body is None else body.decode()):
        for sample in family.samples if family.name in names else ():
            labels = {name: value for name, value in sample.labels.items() if value and name not in UNKNOWN_HERE}
            if any(labels.get(name) in GROUPS for name in groups):
                found[sample.name, frozenset(labels.items())] = sample.value
    return found


@pytest.mark.parametrize("exporter", list(TOOLS))
def test_each_series_is_theirs(servers: str, exporter: Exporters, tmp_path: Path) -> None:
    variable, make = TOOLS[exporter]
    binary = os.environ.get(variable)
    if not binary:
        pytest.skip(f"{variable} does not name its binary")
    options = (
        "--cluster",
        "local",
        "--compat-metrics",
        exporter,
        "--granularity",
        "partition",
        "--lag-interval",
        "1s",
    )
    with (
        make(binary).running(servers, tmp_path) as theirs,
        KShadow(options=options).running(servers, tmp_path) as ours,
    ):
        deadline = time.monotonic() + 90
        while True:
            told, wanted = series(ours, exporter), series(theirs, exporter)
            # Theirs look every ten seconds or so, and show what they have by then.
            if (wanted and differences(told, wanted) == []) or time.monotonic() > deadline:
                break
            time.sleep(1)
    print(f"{exporter}: {len(wanted)} series of theirs, {len(told)} of ours")
    assert len(wanted) > 5
    assert differences(told, wanted) == []


def differences(told: Series, wanted: Series) -> list[str]:
    """What differs, but for what kshadow leaves out on purpose."""
    out = []
    for key in sorted(told.keys() | wanted.keys(), key=str):
        ours, theirs = told.get(key), wanted.get(key)
        if ours != theirs and not (ours is None and is_left_out(*key, theirs)):
            out.append(f"{key[0]} {dict(key[1])}: {ours} here, {theirs} there")
    return out


def is_left_out(name: str, labels: frozenset[tuple[str, str]], value: float | None) -> bool:
    """A lag or an offset where nothing was committed, -1 to kafka_exporter and 0 to Burrow; Burrow's judgement of the
    last ten commits."""
    of = dict(labels)
    return value == -1 or (of.get("topic") == "returns" and value == 0) or name == "burrow_kafka_consumer_status"
