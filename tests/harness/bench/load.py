"""A `__consumer_offsets` topic of a size: real records, made by `agent.core.wire`, written by a real producer.

Clients whose id is `__admin_client` may write into the topic (Kafka's `AdminUtils`), so the broker holds exactly
what it would have written itself. The topics that the groups consume exist, with the ids that the commits carry, and
hold records: every group is `LAG` behind their ends.
"""

from __future__ import annotations

import random
import struct
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass

from confluent_kafka import Consumer, KafkaException, Producer, TopicCollection
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from agent.core.protocol.hashing import partition_for_group
from agent.core.wire.classic import GroupMetadataKey, GroupMetadataValue, MemberMetadata
from agent.core.wire.offset_commit_fastpath import commit_key, commit_value
from agent.core.wire.payloads import (
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
    TopicPartition,
    encode_payload,
)
from agent.core.wire.primitives import Uuid
from agent.core.wire.records import RECORD_TYPES, encode_key, encode_value

TOPIC = "__consumer_offsets"
PARTITIONS = 50
COMMIT_MS = 5_000
"""From one commit of a position to its next: the default of auto.commit.interval.ms."""

MEMBERS = 4
LAG = 100
SESSION_MS = 3_600_000
"""A broker that loads these groups waits for their members this long before it writes that they are gone."""


@dataclass(frozen=True, slots=True)
class Shape:
    """What the cluster looks like: its topics, and what one group consumes. A group's positions are the product."""

    topics: int = 100
    topic_partitions: int = 4
    topics_of_a_group: int = 5
    rounds: int = 75
    """How often each position is committed."""
    seed: int = 1

    @property
    def positions(self) -> int:
        """Group-partitions of one group."""
        return self.topics_of_a_group * self.topic_partitions


@dataclass(frozen=True, slots=True)
class Load:
    """How much was written: records of the topic, of which that many are offset commits."""

    records: int
    commits: int
    groups: int
    group_partitions: int


@dataclass(frozen=True, slots=True)
class Slot:
    """A position: the topic's partition that its records go to, its raw key, and its topic's id."""

    partition: int
    key: bytes
    topic_id: Uuid


def producer(bootstrap_servers: str) -> Producer:
    """One that may write into the offsets topic."""
    return Producer(
        {
            "bootstrap.servers": bootstrap_servers,
            "client.id": "__admin_client",
            "linger.ms": 20,
            "batch.num.messages": 10_000,
            "queue.buffering.max.messages": 500_000,
            "compression.type": "none",
            "log_level": "2",
        }
    )


def make_topics(bootstrap_servers: str, shape: Shape) -> dict[str, Uuid]:
    """The consumed topics, with as many records as are consumed and `LAG` more, and the offsets topic; their ids."""
    admin = AdminClient({"bootstrap.servers": bootstrap_servers, "log_level": "2"})
    names = [f"topic-{number:03d}" for number in range(shape.topics)]
    for future in admin.create_topics([NewTopic(name, shape.topic_partitions, 1) for name in names]).values():
        future.result(60)
    _make_offsets_topic(bootstrap_servers, names[0])
    writing = producer(bootstrap_servers)
    for name in names:
        for partition in range(shape.topic_partitions):
            for _ in range(shape.rounds + LAG):
                _produce(writing, name, b"", None, partition, -1)
    _flush(writing)
    return topic_ids(bootstrap_servers, shape)


def topic_ids(bootstrap_servers: str, shape: Shape) -> dict[str, Uuid]:
    """The consumed topics' ids."""
    admin = AdminClient({"bootstrap.servers": bootstrap_servers, "log_level": "2"})
    names = [f"topic-{number:03d}" for number in range(shape.topics)]
    ids = {}
    for name, future in admin.describe_topics(TopicCollection(names)).items():
        uuid = future.result(30).topic_id
        high, low = uuid.get_most_significant_bits(), uuid.get_least_significant_bits()
        ids[name] = Uuid(struct.pack(">qq", high, low))
    return ids


def write(bootstrap_servers: str, ids: dict[str, Uuid], shape: Shape, groups: range) -> Load:
    """Write the groups of these numbers, and their commits round after round up to now."""
    writing = producer(bootstrap_servers)
    now_ms = int(time.time() * 1000) - shape.rounds * COMMIT_MS
    written = 0
    for number in groups:
        name = group_name(number)
        partition = partition_for_group(name, PARTITIONS)
        key = encode_key(RECORD_TYPES[2], GroupMetadataKey(name))
        value = _group(name, topics_of(number, list(ids), shape), shape.topic_partitions, now_ms)
        _produce(writing, TOPIC, value, key, partition, now_ms)
    every = [slot for number in groups for slot in slots(number, ids, shape)]
    for offset in range(1, shape.rounds + 1):
        now_ms += COMMIT_MS
        # A consumer commits its partitions together, so they stand together in the log.
        for slot in every:
            value = commit_value(offset, now_ms, leader_epoch=0, topic_id=slot.topic_id)
            _produce(writing, TOPIC, value, slot.key, slot.partition, now_ms)
            written += 1
    _flush(writing)
    return Load(written + len(groups), written, len(groups), len(every))


def await_groups(bootstrap_servers: str, count: int, timeout_s: float = 120.0) -> None:
    """Wait until the broker knows so many groups."""
    admin = AdminClient({"bootstrap.servers": bootstrap_servers, "log_level": "2"})
    deadline = time.monotonic() + timeout_s
    while time.monotonic() < deadline:
        with suppress(KafkaException):
            if len(admin.list_consumer_groups(request_timeout=30).result().valid) >= count:
                return
        time.sleep(0.2)
    raise RuntimeError(f"the broker did not load {count} groups within {timeout_s:.0f} s")


def group_name(number: int) -> str:
    """As names of groups are."""
    return f"team-{number % 40:02d}.service-{number:05d}"


def topics_of(number: int, names: list[str], shape: Shape) -> list[str]:
    """The topics that a group consumes; the same at each call."""
    return sorted(random.Random(shape.seed * 1_000_003 + number).sample(names, shape.topics_of_a_group))


def slots(number: int, ids: dict[str, Uuid], shape: Shape) -> Iterator[Slot]:
    """A group's positions."""
    group = group_name(number)
    partition = partition_for_group(group, PARTITIONS)
    for topic in topics_of(number, list(ids), shape):
        for topic_partition in range(shape.topic_partitions):
            yield Slot(partition, commit_key(group, topic, topic_partition), ids[topic])


def ends(bootstrap_servers: str) -> dict[int, int]:
    """Where each partition of the offsets topic ends."""
    from confluent_kafka import TopicPartition as Place

    consumer = Consumer({"bootstrap.servers": bootstrap_servers, "group.id": "bench-ends"})
    try:
        return {number: consumer.get_watermark_offsets(Place(TOPIC, number))[1] for number in range(PARTITIONS)}
    finally:
        consumer.close()


def _produce(writing: Producer, topic: str, value: bytes, key: bytes | None, partition: int, at_ms: int) -> None:
    while True:
        try:
            writing.produce(topic, value, key, partition, timestamp=max(at_ms, 0))
            return
        except BufferError:
            writing.poll(0.1)


def _flush(writing: Producer) -> None:
    left = writing.flush(120)
    if left:
        raise RuntimeError(f"{left} records were not written")


def _make_offsets_topic(bootstrap_servers: str, topic: str) -> None:
    """The broker makes the topic when the first group asks for its coordinator."""
    consumer = Consumer({"bootstrap.servers": bootstrap_servers, "group.id": "bench-first"})
    try:
        deadline = time.monotonic() + 60
        consumer.subscribe([topic])
        while time.monotonic() < deadline:
            consumer.poll(0.2)
            if consumer.assignment():
                return
        raise RuntimeError("the broker did not make the offsets topic")
    finally:
        consumer.close()


def _group(group: str, topics: list[str], topic_partitions: int, now_ms: int) -> bytes:
    subscription = encode_payload(ConsumerProtocolSubscription(tuple(topics)), 3)
    members = tuple(
        MemberMetadata(
            member_id=f"{group}-{index}-00000000-0000-0000-0000-{index:012d}",
            client_id=f"{group}-{index}",
            client_host="/127.0.0.1",
            rebalance_timeout=300_000,
            session_timeout=SESSION_MS,
            subscription=subscription,
            assignment=encode_payload(
                ConsumerProtocolAssignment(
                    tuple(
                        TopicPartition(topic, tuple(range(index, topic_partitions, MEMBERS)))
                        for topic in topics
                        if index < topic_partitions
                    )
                ),
                3,
            ),
        )
        for index in range(MEMBERS)
    )
    value = GroupMetadataValue("consumer", 1, "range", members[0].member_id, now_ms, members)
    return encode_value(RECORD_TYPES[2], value, 3)
