"""A KIP-848 group as the model has it → the records that a broker writes of it: key types 3, 5, 6, 7 and 8.

Versions and fields are those of Kafka 4.3, where every value is of version 0. What the model does not have is written
as for a Java client that subscribes to names: an empty regular expression, nothing of the classic protocol.

In a broker's record, topics and partitions stand in the order of its hash tables, which means nothing. Here they are
sorted, or in an assignment that grows, as they came. Kafka's metadata hash stands for the subscribed topics, their
partitions and racks; an image has none of them, so the hash is the group's name's, and stays when topics change.
"""

from __future__ import annotations

from collections.abc import Mapping
from hashlib import blake2b

from agent.core.protocol.assignors import Slot, by_topic
from agent.core.wire.consumer import (
    ConsumerGroupCurrentMemberAssignmentValue,
    ConsumerGroupMemberMetadataValue,
    ConsumerGroupMetadataValue,
    GroupIdKey,
    GroupMemberKey,
    OwnedTopicPartitions,
    TargetAssignmentMemberValue,
    TargetAssignmentMetadataValue,
    TopicPartitions,
)
from agent.core.wire.records import RECORD_TYPES, RecordType, encode_key, encode_value
from agent.core.wire.schema import Message
from agent.simulation.generator.topics import TopicIds
from agent.simulation.groups.kip848_messages import (
    ConsumerMemberMetadata,
    CurrentAssignment,
    EpochImage,
    Kip848Image,
    MemberMetadataImage,
    TargetAssignmentImage,
    TargetEpochImage,
)

_EPOCH, _ABOUT, _TARGET_EPOCH, _TARGET, _CURRENT = (RECORD_TYPES[number] for number in (3, 5, 6, 7, 8))
_VALUE_VERSION = 0


def encode_kip848_image(image: Kip848Image, topic_id: TopicIds) -> tuple[bytes, bytes | None]:
    """Key and value of the record; no value (a tombstone) of a member that is gone. Raises `WireError`."""
    member_id = getattr(image, "member_id", None)
    key = GroupIdKey(image.group) if member_id is None else GroupMemberKey(image.group, member_id)
    kind, value = _value_of(image, topic_id)
    return encode_key(kind, key), None if value is None else encode_value(kind, value, _VALUE_VERSION)


def _value_of(image: Kip848Image, topic_id: TopicIds) -> tuple[RecordType, Message | None]:
    match image:
        case EpochImage():
            return _EPOCH, ConsumerGroupMetadataValue(image.epoch, metadata_hash(image.group))
        case MemberMetadataImage(metadata=about):
            return _ABOUT, None if about is None else _about(about)
        case TargetEpochImage():
            return _TARGET_EPOCH, TargetAssignmentMetadataValue(image.epoch, image.at_ms)
        case TargetAssignmentImage(target=target):
            return _TARGET, None if target is None else _target(target, topic_id)
        case _:
            return _CURRENT, None if image.current is None else _current(image.current, topic_id)


def metadata_hash(group: str) -> int:
    """A number in place of Kafka's: always the same for a group, never 0, which means that there are no topics."""
    drawn = blake2b(group.encode("utf-8", "surrogatepass"), digest_size=8).digest()
    return int.from_bytes(drawn, signed=True) or 1


def _about(about: ConsumerMemberMetadata) -> ConsumerGroupMemberMetadataValue:
    return ConsumerGroupMemberMetadataValue(
        instance_id=about.instance_id,
        rack_id=about.rack_id,
        client_id=about.client_id,
        client_host=about.client_host,
        subscribed_topic_names=tuple(sorted(about.topics)),
        subscribed_topic_regex="",
        rebalance_timeout_ms=about.rebalance_timeout_ms,
        server_assignor=about.server_assignor,
        classic_member_metadata=None,
    )


def _target(target: frozenset[Slot], topic_id: TopicIds) -> TargetAssignmentMemberValue:
    return TargetAssignmentMemberValue(
        tuple(TopicPartitions(topic_id(topic), tuple(numbers)) for topic, numbers in by_topic(sorted(target)).items())
    )


def _current(current: CurrentAssignment, topic_id: TopicIds) -> ConsumerGroupCurrentMemberAssignmentValue:
    return ConsumerGroupCurrentMemberAssignmentValue(
        current.epoch,
        current.previous_epoch,
        current.state,
        _since_epochs(current.assigned, topic_id),
        _since_epochs(current.revoking, topic_id),
    )


def _since_epochs(slots: Mapping[Slot, int], topic_id: TopicIds) -> tuple[OwnedTopicPartitions, ...]:
    return tuple(
        OwnedTopicPartitions(topic_id(topic), tuple(numbers), tuple(slots[topic, number] for number in numbers))
        for topic, numbers in by_topic(slots).items()
    )
