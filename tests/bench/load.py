"""A `__consumer_offsets` topic of a size: real records, made by `agent.wire`, written by a real producer.

Clients whose id is `__admin_client` may write into the topic (Kafka's `AdminUtils`), so the broker holds exactly
what it would have written itself. The topics that the groups consume exist, with the ids that the commits carry.
"""

from __future__ import annotations

import random
import struct
import time
from collections.abc import Iterator
from dataclasses import dataclass

from confluent_kafka import Consumer, Producer, TopicCollection
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from agent.coordinator.hashing import partition_of
from agent.wire.classic import GroupMetadataKey, GroupMetadataValue, MemberMetadata
from agent.wire.offsets import OffsetCommitKey, OffsetCommitValue
from agent.wire.payloads import (
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
    TopicPartition,
    encode_payload,
)
from agent.wire.primitives import Uuid
from agent.wire.records import RECORD_TYPES, encode_key, encode_value

TOPIC = "__consumer_offsets"
TOPICS = 100
TOPIC_PARTITIONS = 4
TOPICS_OF_A_GROUP = 5
COMMIT_MS = 5_000
"""From one commit of a position to its next: the default of auto.commit.interval.ms."""


@dataclass(frozen=True, slots=True)
class Load:
    """How much was written: records of the topic, of which that many are offset commits."""

    records: int
    commits: int
    groups: int
    group_partitions: int
    partitions: int


def write(bootstrap_servers: str, *, commits: int, groups: int, partitions: int = 50, seed: int = 1) -> Load:
    """Make the consumed topics and the offsets topic, then write the groups and their commits."""
    ids = _make_topics(bootstrap_servers)
    _make_offsets_topic(bootstrap_servers)
    producer = Producer(
        {
            "bootstrap.servers": bootstrap_servers,
            "client.id": "__admin_client",
            "linger.ms": 50,
            "batch.num.messages": 10_000,
            "queue.buffering.max.messages": 500_000,
            "compression.type": "none",
        }
    )
    written = group_partitions = 0
    for partition, at_ms, key, value in _records(ids, commits, groups, partitions, seed):
        if value[:2] == b"\x00\x03":
            group_partitions += TOPICS_OF_A_GROUP * TOPIC_PARTITIONS
        while True:
            try:
                producer.produce(TOPIC, value, key, partition, timestamp=at_ms)
                break
            except BufferError:
                producer.poll(0.1)
        written += 1
        if written % 10_000 == 0:
            producer.poll(0)
    left = producer.flush(60)
    if left:
        raise RuntimeError(f"{left} of {written} records were not written")
    return Load(written, written - groups, groups, group_partitions, partitions)


def _make_topics(bootstrap_servers: str) -> dict[str, Uuid]:
    admin = AdminClient({"bootstrap.servers": bootstrap_servers})
    names = [f"topic-{number:03d}" for number in range(TOPICS)]
    for future in admin.create_topics([NewTopic(name, TOPIC_PARTITIONS, 1) for name in names]).values():
        future.result(30)
    described = admin.describe_topics(TopicCollection(names))
    ids = {}
    for name, future in described.items():
        uuid = future.result(30).topic_id
        high, low = uuid.get_most_significant_bits(), uuid.get_least_significant_bits()
        ids[name] = Uuid(struct.pack(">qq", high, low))
    return ids


def _make_offsets_topic(bootstrap_servers: str) -> None:
    """The broker makes the topic when the first group asks for its coordinator."""
    consumer = Consumer({"bootstrap.servers": bootstrap_servers, "group.id": "bench-first"})
    try:
        deadline = time.monotonic() + 30
        consumer.subscribe(["topic-000"])
        while time.monotonic() < deadline:
            consumer.poll(0.2)
            if consumer.assignment():
                return
        raise RuntimeError("the broker did not make the offsets topic")
    finally:
        consumer.close()


def _records(
    ids: dict[str, Uuid], commits: int, groups: int, partitions: int, seed: int
) -> Iterator[tuple[int, int, bytes, bytes]]:
    """Partition, time, key, value: the groups, then their commits, round after round."""
    rng = random.Random(seed)
    names = list(ids)
    rounds = -(-commits // (groups * TOPICS_OF_A_GROUP * TOPIC_PARTITIONS))
    now_ms = int(time.time() * 1000) - rounds * COMMIT_MS
    commit_type, group_type = RECORD_TYPES[1], RECORD_TYPES[2]
    keys: list[tuple[int, bytes, Uuid]] = []
    for number in range(groups):
        group = f"team-{number % 40:02d}.service-{number:05d}"
        partition = partition_of(group, partitions)
        topics = sorted(rng.sample(names, TOPICS_OF_A_GROUP))
        yield partition, now_ms, encode_key(group_type, GroupMetadataKey(group)), _group(group, topics, now_ms)
        for topic in topics:
            for topic_partition in range(TOPIC_PARTITIONS):
                key = OffsetCommitKey(group, topic, topic_partition)
                keys.append((partition, encode_key(commit_type, key), ids[topic]))
    offset = left = 0
    for left in range(commits, 0, -len(keys)):
        offset += 100
        now_ms += COMMIT_MS
        # A consumer commits its partitions together, so they stand together in the log.
        for partition, key, topic_id in keys[:left]:
            value = OffsetCommitValue(offset, 0, "", now_ms, topic_id=topic_id)
            yield partition, now_ms, key, encode_value(commit_type, value, 4)


def _group(group: str, topics: list[str], now_ms: int) -> bytes:
    subscription = encode_payload(ConsumerProtocolSubscription(tuple(topics)), 3)
    members = tuple(
        MemberMetadata(
            member_id=f"{group}-{index}-00000000-0000-0000-0000-{index:012d}",
            client_id=f"{group}-{index}",
            client_host="/127.0.0.1",
            rebalance_timeout=300_000,
            session_timeout=45_000,
            subscription=subscription,
            assignment=encode_payload(
                ConsumerProtocolAssignment(tuple(TopicPartition(topic, (index,)) for topic in topics)), 3
            ),
        )
        for index in range(TOPIC_PARTITIONS)
    )
    value = GroupMetadataValue("consumer", 1, "range", members[0].member_id, now_ms, members)
    return encode_value(RECORD_TYPES[2], value, 3)
