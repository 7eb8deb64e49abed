"""What no coordinator writes, written into the topic all the same: counted by reason, and nothing else changes.

Last, since the broker's own loading does not survive it.
"""

from __future__ import annotations

import struct
import time
from typing import Any

import pytest
from confluent_kafka import Producer

from tests.harness.faults.poison import COMMIT, POISON, text
from tests.live.scenarios.comparing import await_position
from tests.live.scenarios.conftest import Cluster
from tests.live.scenarios.scenarios import Is, reaches

pytestmark = pytest.mark.usefixtures("kafka")


def test_poison(cluster: Cluster, performance: object) -> None:
    await_position(cluster.agent, cluster.yardstick.ends())
    before = cluster.agent.queries.readings()
    good = {
        str(row["group"]): cluster.agent.queries.describe(str(row["group"])) for row in cluster.agent.queries.groups()
    }
    # A name that brokers let write there (KAFKA-5492's `__admin_client`), meant for Kafka's own tools.
    producer = Producer(
        {"bootstrap.servers": cluster.broker.bootstrap_servers, "client.id": "__admin_client", "log_level": 2}
    )
    refused: list[Any] = []
    for number, (key, value) in enumerate(POISON):
        producer.produce(
            "__consumer_offsets",
            key=key,
            value=value,
            partition=number % 8,
            on_delivery=lambda error, message: refused.append(error) if error else None,
        )
    assert producer.flush(20) == 0
    assert not refused
    cluster.poisoned = True

    deadline = time.monotonic() + 60
    expected = sum(before.error_counts.values()) + len(POISON) - 1  # 5 deletes what nobody knows
    while True:
        now = cluster.agent.queries.readings()
        if sum(now.error_counts.values()) >= expected or time.monotonic() > deadline:
            break
        time.sleep(0.1)
    reasons = {name: count - before.error_counts.get(name, 0) for name, count in now.error_counts.items()}
    print(f"\n{cluster.version}: {reasons}")
    assert sum(reasons.values()) == len(POISON), reasons
    assert len(reasons) >= 4
    assert cluster.agent.queries.alive().ready
    assert cluster.agent.queries.ready().ready
    after = {
        str(row["group"]): cluster.agent.queries.describe(str(row["group"])) for row in cluster.agent.queries.groups()
    }
    assert after == good
    # And goes on: a commit behind the poison, in each of its partitions.
    for partition in range(8):
        key = struct.pack(">h", 1) + text(f"good-{partition}") + text("topic") + struct.pack(">i", 0)
        producer.produce("__consumer_offsets", key=key, value=COMMIT, partition=partition)
    assert producer.flush(20) == 0
    await_position(cluster.agent, cluster.yardstick.ends())
    assert all(cluster.agent.queries.describe(f"good-{partition}") for partition in range(8))
    if cluster.version.startswith("4."):
        # The broker itself does not: "the state machine of the coordinator is out of sync with the underlying log".
        return
    group, topic = cluster.fleet.name("after-poison"), cluster.stage.topic(2, 3)
    member = cluster.stage.consumer(group, [topic])
    cluster.compare_some({group: Is("Stable", 1, reaches(6))})
    member.leave()
    cluster.compare_some({group: Is("Empty", 0)})


def test_the_segment_files_after_the_broker_ended(cluster: Cluster, performance: object) -> None:
    """The last of all: what the live agent held at the end is what the files of a dead broker say."""
    from agent.runtime.offline import load

    for client in cluster.fleet.clients:
        if client.runs:
            client.crash()
    await_position(cluster.agent, cluster.yardstick.ends())
    cluster.broker.kill()
    time.sleep(1)  # what the agent has not got yet comes no more
    said: list[str] = []
    loaded = load([str(cluster.broker.log_dirs[0])], on_problem=said.append, keep_events=False)
    assert loaded.groups() == cluster.agent.queries.groups()
    for row in cluster.agent.queries.groups():
        assert loaded.describe(str(row["group"])) == cluster.agent.queries.describe(str(row["group"]))
    assert not said
    assert loaded.mirror.error_counts() == cluster.agent.queries.readings().error_counts
