"""What the model writes of a group → the record that a broker writes. Here of classic groups, Connect's too.

Versions are those of Kafka 4.3: the record's value is of version 3, a consumer's subscription and assignment of
version 3 (its Java client's; librdkafka's assignments are of version 0, with the same fields). There is no user data.
KIP-848 groups are in `kip848_images.py`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Any

from agent.core.protocol.assignors import MemberSubscription, Slot, by_topic
from agent.core.protocol.states import GroupState
from agent.core.wire.classic import GroupMetadataKey, GroupMetadataValue, MemberMetadata
from agent.core.wire.payloads import (
    ConnectAssignment,
    ConnectorTasks,
    ConnectWorkerState,
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
    TopicPartition,
    encode_payload,
)
from agent.core.wire.records import RECORD_TYPES, encode_key, encode_value
from agent.simulation.generator.kip848_images import encode_kip848_image
from agent.simulation.generator.topics import TopicIds
from agent.simulation.groups.connect import (
    EAGER_PROTOCOL,
    ConnectProtocol,
    ConnectWork,
    WorkerAssignment,
    WorkerState,
    in_wire_order,
)
from agent.simulation.groups.kip848_messages import Kip848Image
from agent.simulation.groups.messages import ClassicGroupImage, ClassicMemberImage

_GROUP = RECORD_TYPES[2]
_VALUE_VERSION = 3
_PAYLOAD_VERSION = 3
_REMEMBERED = 4_096
"""Payloads kept by value: members that subscribe alike, and members that keep what they have, are encoded once."""


def encode_image(image: ClassicGroupImage | Kip848Image, topic_id: TopicIds) -> tuple[bytes, bytes | None]:
    """Key and value of the record; no value (a tombstone) for a `Dead` group, or of a KIP-848 member that is gone.

    In a consumers' group a member's metadata is a `MemberSubscription`, its assignment slots; in a Connect cluster
    they are a `WorkerState` and a `WorkerAssignment`; in any classic group both may be the bytes of its own protocol.
    Raises `TypeError` for others, `WireError` where a name is too long. `topic_id` gives topics their ids.
    """
    if isinstance(image, ClassicGroupImage):
        return _classic_record_of(image)
    return encode_kip848_image(image, topic_id)


def _classic_record_of(image: ClassicGroupImage) -> tuple[bytes, bytes | None]:
    key = encode_key(_GROUP, GroupMetadataKey(image.group))
    if image.state is GroupState.DEAD:
        return key, None
    value = GroupMetadataValue(
        image.protocol_type or "",  # a group that nobody has joined yet
        image.generation,
        image.protocol,
        image.leader,
        image.state_since_ms,
        tuple(_member(member, image) for member in image.members),
    )
    return key, encode_value(_GROUP, value, _VALUE_VERSION)


def _member(member: ClassicMemberImage, image: ClassicGroupImage) -> MemberMetadata:
    return MemberMetadata(
        member.member_id,
        member.instance_id,
        member.client_id,
        member.client_host,
        member.rebalance_timeout_ms,
        member.session_timeout_ms,
        _subscription(member.metadata, image),
        _assignment(member.assignment, image),
    )


def _subscription(metadata: Any, image: ClassicGroupImage) -> bytes:
    match image.protocol_type, metadata:
        case _, bytes():
            return metadata
        case "consumer", _:
            wanted: MemberSubscription = metadata
            generation = -1 if wanted.generation is None else wanted.generation
            return _subscription_payload(wanted.topics, wanted.owned, generation)
        case "connect", WorkerState():
            return encode_worker_state(metadata, PAYLOAD_VERSIONS[image.protocol or ""])
    raise _unexpected(metadata, image)


def _assignment(assignment: Any, image: ClassicGroupImage) -> bytes:
    match image.protocol_type, assignment:
        case _, bytes():
            return assignment
        case "consumer", _:
            slots: tuple[Slot, ...] = assignment
            return _assignment_payload(slots)
        case "connect", WorkerAssignment():
            return encode_assignment(assignment, PAYLOAD_VERSIONS[image.protocol or ""])
        case "connect", ():
            return b""  # the leader named it not
    raise _unexpected(assignment, image)


def _unexpected(value: Any, image: ClassicGroupImage) -> TypeError:
    return TypeError(f"expected bytes of a member of a {image.protocol_type} group, got {type(value).__name__}")


@lru_cache(_REMEMBERED)
def _subscription_payload(topics: frozenset[str], owned: tuple[Slot, ...], generation: int) -> bytes:
    payload = ConsumerProtocolSubscription(tuple(sorted(topics)), None, _topic_partitions(owned), generation, None)
    return encode_payload(payload, _PAYLOAD_VERSION)


@lru_cache(_REMEMBERED)
def _assignment_payload(slots: tuple[Slot, ...]) -> bytes:
    return encode_payload(ConsumerProtocolAssignment(_topic_partitions(slots)), _PAYLOAD_VERSION)


def _topic_partitions(slots: Iterable[Slot]) -> tuple[TopicPartition, ...]:
    return tuple(TopicPartition(topic, tuple(numbers)) for topic, numbers in by_topic(slots).items())


# Payloads of Connect workers: the version follows from the protocol that the group speaks.

PAYLOAD_VERSIONS: Mapping[str, int] = {EAGER_PROTOCOL: 0, ConnectProtocol.COMPATIBLE: 1, ConnectProtocol.SESSIONED: 2}
"""By the protocol's name, the version of its payloads."""

_ITSELF = -1
"""Stands among a connector's tasks for the connector."""


def encode_worker_state(state: WorkerState, version: int) -> bytes:
    """A worker's metadata; from version 1 on with its latest assignment in it."""
    held = None if version == 0 or state.allocation is None else encode_assignment(state.allocation, version)
    return encode_payload(ConnectWorkerState(state.url, state.config_offset, held), version)


def encode_assignment(given: WorkerAssignment, version: int) -> bytes:
    """What a worker is given; version 0 has neither what is revoked nor a delay."""
    payload = ConnectAssignment(
        given.error,
        given.leader,
        given.leader_url,
        given.config_offset,
        _by_connector(in_wire_order(given.assigned)),
        _by_connector(given.revoked),
        given.delay_ms,
    )
    return encode_payload(payload, version)


def _by_connector(work: ConnectWork) -> tuple[ConnectorTasks, ...]:
    tasks: dict[str, list[int]] = {name: [_ITSELF] for name in work.connectors}
    for name, number in work.tasks:
        tasks.setdefault(name, []).append(number)
    return tuple(ConnectorTasks(name, tuple(numbers)) for name, numbers in tasks.items())
