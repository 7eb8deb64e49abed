"""A replica that is stopped while it still connects has joined its group, and leaves it."""

import time

import pytest
from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from agent.kafka.source.shared import SESSION_S
from agent.tools.embedded import EmbeddedBroker, fetch_jars
from tests.harness.faults.agents import AgentProcess
from tests.waiting import until

pytestmark = pytest.mark.usefixtures("kafka")


@pytest.mark.parametrize("more", [(), ("--keep-trying",)], ids=["alone", "again"])
def test_a_replica_that_connects_leaves_its_group(more, tmp_path):
    """Nobody read its partitions for as long as its session lasts."""
    properties = {"offsets.topic.num.partitions": "2", "group.initial.rebalance.delay.ms": "0"}
    with EmbeddedBroker(fetch_jars(), properties=properties, heap="256m") as broker:
        admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
        admin.create_topics([NewTopic("orders", 1)])["orders"].result(30)
        consumer = Consumer({"bootstrap.servers": broker.bootstrap_servers, "group.id": "g"})
        until(lambda: not consumer.commit(offsets=[TopicPartition("orders", 0, 1)], asynchronous=False)[0].error)
        consumer.close()

        def members():
            return len(admin.describe_consumer_groups(["s"])["s"].result(30).members)

        agent = AgentProcess(tmp_path, "--bootstrap-server", broker.bootstrap_servers, "--share-group", "s", *more)
        try:
            agent.start()
            until(members, said=agent.tail)
            began = time.monotonic()
            agent.stop()
            until(lambda: not members())
            assert time.monotonic() - began < SESSION_S - 4
        finally:
            agent.kill()
