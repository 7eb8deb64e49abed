"""The faults themselves: that what other tests do to the topic does happen to it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from confluent_kafka import Consumer, TopicPartition

from agent.tools.embedded import EmbeddedBroker, fetch_jars
from tests.harness.kafka import EmbeddedCluster
from tests.live.scenarios import faults
from tests.live.versions import SUPPORTED
from tests.waiting import until

pytestmark = pytest.mark.usefixtures("kafka")

PARTITIONS = 2
PROPERTIES = {**faults.PROPERTIES, "offsets.topic.num.partitions": str(PARTITIONS)}


def commit(kafka: faults.Kafka, count: int) -> int:
    """Commit one position `count` times, of the one topic there is; the partition that has the commits."""
    conf = {"bootstrap.servers": kafka.bootstrap_servers, "group.id": "orders", "log_level": 0}
    consumer = Consumer({**conf, "enable.auto.commit": False})
    for offset in range(count):
        faults.commit(consumer, TopicPartition(faults.TOPIC, 0, offset))
    consumer.close()
    return next(it for it in range(PARTITIONS) if faults.end(kafka, it) >= count)


@pytest.fixture(scope="module", params=SUPPORTED)
def broker(request: pytest.FixtureRequest) -> Iterator[EmbeddedBroker]:
    with EmbeddedBroker(fetch_jars(request.param), properties=PROPERTIES, heap="256m") as broker:
        faults.create(broker, PARTITIONS)
        yield broker


def test_compaction_leaves_the_newest_record_of_a_key(broker: EmbeddedBroker) -> None:
    partition = commit(broker, 20)
    end, before = faults.end(broker, partition), faults.offsets(broker, partition)
    faults.compact(broker, [partition])
    after = faults.offsets(broker, partition)
    assert before[-20:] == list(range(end - 20, end))
    assert [it for it in after if it < end] == [end - 1]


def test_segments_go_and_the_log_begins_later(broker: EmbeddedBroker) -> None:
    partition = commit(broker, 5)
    end = faults.end(broker, partition)
    begins = faults.delete_segments(broker, [partition])
    assert begins == {partition: end}
    commit(broker, 5)
    assert faults.offsets(broker, partition) == list(range(end, end + 6))


def test_the_topic_is_another_and_works(broker: EmbeddedBroker) -> None:
    commit(broker, 5)
    before = faults.topic_id(broker)
    faults.recreate(broker)
    assert faults.topic_id(broker) != before
    assert [faults.end(broker, it) for it in range(PARTITIONS)] == [0, 0]
    commit(broker, 5)


@pytest.mark.thorough
@pytest.mark.parametrize("version", SUPPORTED)
def test_a_cluster_loses_a_broker_and_its_leaders_move(version: str) -> None:
    with EmbeddedCluster(fetch_jars(version), properties=PROPERTIES) as cluster:
        faults.create(cluster, PARTITIONS, replicas=2)
        for broker in (2, 1):  # a tool reorders replicas, then an election is enough
            cluster.move_leaders(faults.TOPIC, dict.fromkeys(range(PARTITIONS), broker))
            assert set(cluster.leaders(faults.TOPIC).values()) == {broker}
        partition = commit(cluster, 5)
        faults.compact(cluster, [partition])
        for lose in ("kill", "stop", "pause"):
            cluster.await_in_sync()
            cluster.move_leaders(faults.TOPIC, dict.fromkeys(range(PARTITIONS), 1))
            getattr(cluster.brokers[1], lose)()
            until(lambda: set(cluster.leaders(faults.TOPIC).values()) == {2}, said="the other broker leads")
            commit(cluster, 5)
            if lose == "pause":
                cluster.brokers[1].resume()
            else:
                cluster.brokers[1].start()
        pids = [node.pid for node in cluster.brokers.values()]
        assert None not in pids
    assert cluster.brokers == {}
