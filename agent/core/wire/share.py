"""Share groups (KIP-932): key types 10 to 15. Types 12 and 13 use the messages of `consumer`."""

from __future__ import annotations

from agent.core.wire.consumer import TopicPartitions
from agent.core.wire.primitives import Uuid
from agent.core.wire.schema import INT8, INT32, INT64, STRING, UUID, Message, array, wire


class ShareGroupMemberMetadataValue(Message, frozen=True):
    """One member and what it subscribes to."""

    flexible = 0

    rack_id: str | None = wire(STRING, nullable=0)
    client_id: str = wire(STRING)
    client_host: str = wire(STRING)
    subscribed_topic_names: tuple[str, ...] = wire(array(STRING))


class ShareGroupMetadataValue(Message, frozen=True):
    """The group epoch and the hash of its topics."""

    flexible = 0

    epoch: int = wire(INT32)
    metadata_hash: int = wire(INT64)


class ShareGroupCurrentMemberAssignmentValue(Message, frozen=True):
    """What one member has now; share members need not revoke, so `state` is always 0."""

    flexible = 0

    member_epoch: int = wire(INT32)
    previous_member_epoch: int = wire(INT32)
    state: int = wire(INT8)
    assigned_partitions: tuple[TopicPartitions, ...] = wire(array(TopicPartitions))


class TopicPartitionsInfo(Message, frozen=True):
    """Partitions of one topic, with its name."""

    flexible = 0

    topic_id: Uuid = wire(UUID)
    topic_name: str = wire(STRING)
    partitions: tuple[int, ...] = wire(array(INT32))


class TopicInfo(Message, frozen=True):
    """One topic by id and name."""

    flexible = 0

    topic_id: Uuid = wire(UUID)
    topic_name: str = wire(STRING)


class ShareGroupStatePartitionMetadataValue(Message, frozen=True):
    """Which share-partitions have their state initialised, which wait for it, which lose it."""

    flexible = 0

    initializing_topics: tuple[TopicPartitionsInfo, ...] = wire(array(TopicPartitionsInfo))
    initialized_topics: tuple[TopicPartitionsInfo, ...] = wire(array(TopicPartitionsInfo))
    deleting_topics: tuple[TopicInfo, ...] = wire(array(TopicInfo))
