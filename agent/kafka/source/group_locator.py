"""Which partitions of the topic hold a group: by the rule that was asked for, or by the one that the cluster uses.

Owns the asking: the topic's partitions, what the cluster calls itself, and the newest records of the partitions,
which show where groups stand. Redpanda's cluster ids start with its name (`metadata.cc`: `redpanda.UUID`), Kafka's
are a UUID in base64. Where nothing tells, the partitions of both rules are the answer, and never one of them alone.
"""

from __future__ import annotations

import re
import time
from collections.abc import Collection, Mapping
from contextlib import closing
from typing import NamedTuple

from confluent_kafka import KafkaError, Message, TopicPartition
from confluent_kafka.admin import BrokerMetadata  # type: ignore[attr-defined]

from agent.config.settings import PartitionerChoice
from agent.core.protocol.group_placement import GroupPlacement, observe_placement, possible_partitions
from agent.core.protocol.hashing import GroupPartitioner
from agent.core.wire.errors import WireError
from agent.core.wire.records import decode_key
from agent.kafka.client import kafka_errors, new_consumer
from agent.kafka.source import TOPIC
from agent.kafka.source.brokers import topic_metadata
from agent.kafka.source.client import consumer_properties, misconfigured
from agent.kafka.source.cluster import EARLIEST, LATEST, offsets_at
from agent.kafka.source.errors import SourceDenied, SourceError

REDPANDA_PREFIX = "redpanda."
_KAFKAS_ID = re.compile(r"[A-Za-z0-9_-]{22}")
RECORDS_PER_PARTITION = 20
"""The newest ones, which are looked at."""
TIMEOUT_S = 5.0
"""How long for all of them; what came by then counts."""
_POLL_S = 0.2


class GroupLocator(NamedTuple):
    """Where groups are. `partitioner` None: not known; `why` says in words how the rule is known, or why it is
    not."""

    partitions: int
    leaders: Mapping[int, BrokerMetadata]
    """By partition the broker that leads it; absent if none does."""
    partitioner: GroupPartitioner | None
    why: str
    is_by_neither: bool = False
    """Whether groups were seen to stand where no known rule puts them."""

    def partitions_of(self, groups: Collection[str]) -> list[int]:
        """The partitions to read for these groups: all there are, where no known rule holds."""
        if self.is_by_neither:
            return list(range(self.partitions))
        return sorted(
            {it for group in groups for it in possible_partitions(group, self.partitions, self.partitioner)}
        )

    def describe(self) -> str:
        """The rule, and why."""
        if self.partitioner is not None:
            return f"by {self.partitioner.name.capitalize()}'s hash of their names ({self.why})"
        wide = "all partitions are read" if self.is_by_neither else "the partitions of both are read"
        return (
            f"by Kafka's hash or by Redpanda's, which is not known ({self.why}): {wide}; "
            "--group-partitioner says which"
        )


def locate_groups(conf: Mapping[str, str], choice: PartitionerChoice) -> GroupLocator:
    """Ask the brokers. Needs Describe on the topic, and with `auto` Read to be sure.

    Raises `SourceUnreachable`, `TopicMissing`, `SourceDenied`, `SourceMisconfigured`; what is only to make sure of
    the rule raises nothing.
    """
    found = topic_metadata(conf)
    if choice is not PartitionerChoice.AUTO:
        return GroupLocator(found.partitions, found.leaders, GroupPartitioner(choice), "as told")
    if is_redpanda(found.cluster_id):
        why = f"the cluster calls itself {found.cluster_id!r:.100}"
        return GroupLocator(found.partitions, found.leaders, GroupPartitioner.REDPANDA, why)
    if found.partitions == 1:
        return GroupLocator(1, found.leaders, GroupPartitioner.KAFKA, "there is one partition")
    try:
        placement = sample_placement(conf, found.partitions)
        why = placement.describe()
    except SourceDenied:
        placement, why = GroupPlacement(found.partitions), f"there is no right to read {TOPIC}"
    except SourceError as error:
        placement, why = GroupPlacement(found.partitions), str(error)
    partitioner = placement.partitioner
    if partitioner is None and has_kafkas_id(found.cluster_id) and placement.by_kafka == placement.telling:
        partitioner, why = GroupPartitioner.KAFKA, f"the cluster's id has Kafka's form; {why}"
    return GroupLocator(found.partitions, found.leaders, partitioner, why, placement.is_by_neither)


def is_redpanda(cluster_id: str | None) -> bool:
    """Whether a cluster says of itself that it is one."""
    return cluster_id is not None and cluster_id.startswith(REDPANDA_PREFIX)


def has_kafkas_id(cluster_id: str | None) -> bool:
    """Whether a cluster's id is of the form that Kafka gives it: it speaks for Kafka where no group tells."""
    return cluster_id is not None and _KAFKAS_ID.fullmatch(cluster_id) is not None


def sample_placement(conf: Mapping[str, str], partitions: int) -> GroupPlacement:
    """Where the groups of the newest records stand, until that tells the rule or there are no more of them.

    Raises `SourceError`.
    """
    deadline = time.monotonic() + TIMEOUT_S
    with kafka_errors(misconfigured):
        consumer = new_consumer({**consumer_properties(conf), "isolation.level": "read_uncommitted"})
    seen: dict[str, int] = {}
    with closing(consumer):
        numbers = range(partitions)
        begins = offsets_at(consumer, TOPIC, numbers, EARLIEST, TIMEOUT_S)
        ends = offsets_at(consumer, TOPIC, numbers, LATEST, TIMEOUT_S)
        starts = {it: max(begins[it], ends[it] - RECORDS_PER_PARTITION) for it in numbers if begins[it] < ends[it]}
        consumer.assign([TopicPartition(TOPIC, number, at) for number, at in starts.items()])
        left = set(starts)
        placement = GroupPlacement(partitions)
        while left and time.monotonic() < deadline and placement.partitioner is None:
            for message in consumer.consume(len(starts) * RECORDS_PER_PARTITION, _POLL_S):
                _take(message, ends, left, seen)
            placement = observe_placement(seen.items(), partitions)
    return placement


def _take(message: Message, ends: Mapping[int, int], left: set[int], seen: dict[str, int]) -> None:
    partition, offset = message.partition(), message.offset()
    if message.topic() != TOPIC or partition is None:
        return
    error = message.error()
    if error is not None:
        if error.code() == KafkaError.TOPIC_AUTHORIZATION_FAILED:
            raise SourceDenied(error.str(), right=f"ACL operation Read on topic {TOPIC}")
        left.discard(partition)
        return
    if offset is not None and offset + 1 >= ends[partition]:
        left.discard(partition)
    if (group := group_of_key(message.key())) is not None:
        seen[group] = partition


def group_of_key(key: object) -> str | None:
    """The group that a record's key names, None where it cannot be decoded."""
    try:
        _, message = decode_key(key if isinstance(key, bytes) else None)
    except WireError:
        return None
    group: str | None = getattr(message, "group", None) or getattr(message, "group_id", None)
    return group
