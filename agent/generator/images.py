"""A classic group as the model has it → the record that a broker writes of it.

Versions are those of Kafka 4.3: the record's value is of version 3, a consumer's subscription and assignment of
version 3 (its Java client's; librdkafka's assignments are of version 0, with the same fields). There is no user data.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from typing import Any, Protocol

from agent.coordinator.assignors import Slot
from agent.coordinator.requests import GroupImage, MemberImage
from agent.coordinator.states import GroupState
from agent.wire.classic import GroupMetadataKey, GroupMetadataValue, MemberMetadata
from agent.wire.payloads import (
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
    TopicPartition,
    encode_payload,
)
from agent.wire.records import RECORD_TYPES, encode_key, encode_value

_GROUP = RECORD_TYPES[2]
_VALUE_VERSION = 3
_PAYLOAD_VERSION = 3
_CONSUMER = "consumer"
_REMEMBERED = 4_096
"""Payloads kept by value: members that subscribe alike, and members that keep what they have, are encoded once."""


class Subscription(Protocol):
    """What a member of a consumers' group asks for; `generation` -1 where it owns nothing that it knows of."""

    topics: frozenset[str]
    owned: tuple[Slot, ...]
    generation: int
    rack: str | None


def record_of(image: GroupImage) -> tuple[bytes, bytes | None]:
    """Key and value of the record; no value (a tombstone) for a `Dead` group.

    In a consumers' group a member's metadata is a `Subscription`, its assignment slots; in any group both may be the
    bytes of its own protocol. Raises `TypeError` for others, `WireError` where a name is too long.
    """
    key = encode_key(_GROUP, GroupMetadataKey(image.group))
    if image.state is GroupState.DEAD:
        return key, None
    consumers = image.protocol_type == _CONSUMER
    value = GroupMetadataValue(
        image.protocol_type or "",  # a group that nobody has joined yet
        image.generation,
        image.protocol,
        image.leader,
        image.state_since_ms,
        tuple(_member(member, consumers=consumers) for member in image.members),
    )
    return key, encode_value(_GROUP, value, _VALUE_VERSION)


def _member(member: MemberImage, *, consumers: bool) -> MemberMetadata:
    return MemberMetadata(
        member.member_id,
        member.instance_id,
        member.client_id,
        member.client_host,
        member.rebalance_timeout_ms,
        member.session_timeout_ms,
        _subscription(member.metadata, consumers=consumers),
        _assignment(member.assignment, consumers=consumers),
    )


def _subscription(metadata: Any, *, consumers: bool) -> bytes:
    if isinstance(metadata, bytes):
        return metadata
    if not consumers:
        raise TypeError(f"bytes expected of a member that is no consumer, {type(metadata).__name__} came")
    wanted: Subscription = metadata
    return _subscription_payload(wanted.topics, wanted.owned, wanted.generation, wanted.rack)


def _assignment(assignment: Any, *, consumers: bool) -> bytes:
    if isinstance(assignment, bytes):
        return assignment
    if not consumers:
        raise TypeError(f"bytes expected of a member that is no consumer, {type(assignment).__name__} came")
    slots: tuple[Slot, ...] = assignment
    return _assignment_payload(slots)


@lru_cache(_REMEMBERED)
def _subscription_payload(
    topics: frozenset[str], owned: tuple[Slot, ...], generation: int, rack: str | None
) -> bytes:
    payload = ConsumerProtocolSubscription(tuple(sorted(topics)), None, _by_topic(owned), generation, rack)
    return encode_payload(payload, _PAYLOAD_VERSION)


@lru_cache(_REMEMBERED)
def _assignment_payload(slots: tuple[Slot, ...]) -> bytes:
    return encode_payload(ConsumerProtocolAssignment(_by_topic(slots)), _PAYLOAD_VERSION)


def _by_topic(slots: Iterable[Slot]) -> tuple[TopicPartition, ...]:
    """Each topic once, with its partitions in their order."""
    partitions: dict[str, list[int]] = {}
    for topic, number in slots:
        partitions.setdefault(topic, []).append(number)
    return tuple(TopicPartition(topic, tuple(numbers)) for topic, numbers in partitions.items())
