"""Consumer groups of KIP-848: key types 3 to 8 and 16."""

from __future__ import annotations

from agent.core.wire.primitives import Uuid
from agent.core.wire.schema import BYTES, INT8, INT32, INT64, STRING, UUID, Message, array, nested, wire


class GroupIdKey(Message, frozen=True):
    """A group: the key of every record that there is one of in a group."""

    group_id: str = wire(STRING)


class GroupMemberKey(Message, frozen=True):
    """A member of a group: the key of every record that there is one of for each member."""

    group_id: str = wire(STRING)
    member_id: str = wire(STRING)


class ConsumerGroupRegularExpressionKey(Message, frozen=True):
    """A regular expression that members of a group subscribe to."""

    group_id: str = wire(STRING)
    regular_expression: str = wire(STRING)


class ConsumerGroupMetadataValue(Message, frozen=True):
    """The group epoch: a bump asks for a new target assignment. The hash stands for the topics (KIP-1101, 4.1)."""

    flexible = 0

    epoch: int = wire(INT32)
    metadata_hash: int = wire(INT64, tag=0)


class PartitionRacks(Message, frozen=True):
    """The racks that hold one partition."""

    flexible = 0

    partition: int = wire(INT32)
    racks: tuple[str, ...] = wire(array(STRING))


class TopicMetadata(Message, frozen=True):
    """A topic as the coordinator knew it. `partition_metadata` is not used after Kafka 4.0."""

    flexible = 0

    topic_id: Uuid = wire(UUID)
    topic_name: str = wire(STRING)
    num_partitions: int = wire(INT32)
    partition_metadata: tuple[PartitionRacks, ...] = wire(array(PartitionRacks))


class ConsumerGroupPartitionMetadataValue(Message, frozen=True):
    """The subscribed topics; up to Kafka 4.0, replaced by `metadata_hash` (KIP-1101)."""

    flexible = 0

    topics: tuple[TopicMetadata, ...] = wire(array(TopicMetadata))


class ClassicProtocol(Message, frozen=True):
    """One protocol of a member that still speaks the classic protocol, with its subscription bytes."""

    flexible = 0

    name: str = wire(STRING)
    metadata: bytes = wire(BYTES)


class ClassicMemberMetadata(Message, frozen=True):
    """What is kept of a member that speaks the classic protocol inside a consumer group (a migration)."""

    flexible = 0

    session_timeout_ms: int = wire(INT32)
    supported_protocols: tuple[ClassicProtocol, ...] = wire(array(ClassicProtocol))


class ConsumerGroupMemberMetadataValue(Message, frozen=True):
    """One member and what it subscribes to. `classic_member_metadata` is None for a KIP-848 member.

    Kafka's schema gives that field a JSON null as its default, which its generator reads as an empty struct:
    so a missing tag is an empty struct, and null is written out.
    """

    flexible = 0

    instance_id: str | None = wire(STRING, nullable=0)
    rack_id: str | None = wire(STRING, nullable=0, repeats=True)
    client_id: str = wire(STRING)
    client_host: str = wire(STRING, repeats=True)
    subscribed_topic_names: tuple[str, ...] = wire(array(STRING), repeats=True)
    subscribed_topic_regex: str | None = wire(STRING, nullable=0)
    rebalance_timeout_ms: int = wire(INT32, default=-1, repeats=True)
    server_assignor: str | None = wire(STRING, nullable=0, repeats=True)
    classic_member_metadata: ClassicMemberMetadata | None = wire(
        nested(ClassicMemberMetadata), nullable=0, tag=0, default=ClassicMemberMetadata()
    )


class TargetAssignmentMetadataValue(Message, frozen=True):
    """The epoch of the newest target assignment, and since 4.3 (KIP-1263) when it was computed, epoch ms.

    Key types 6, 12 and 20 share it.
    """

    flexible = 0

    assignment_epoch: int = wire(INT32)
    assignment_timestamp: int = wire(INT64, tag=0)


class TopicPartitions(Message, frozen=True):
    """Partitions of one topic."""

    flexible = 0

    topic_id: Uuid = wire(UUID, repeats=True)
    partitions: tuple[int, ...] = wire(array(INT32), repeats=True)


class TargetAssignmentMemberValue(Message, frozen=True):
    """What the assignor wants one member to have. Key types 7 and 13 share it."""

    flexible = 0

    topic_partitions: tuple[TopicPartitions, ...] = wire(array(TopicPartitions))


class OwnedTopicPartitions(Message, frozen=True):
    """Partitions of one topic with the epoch at which each was assigned, where written.

    As with `classic_member_metadata`, a missing tag is an empty list and null is written out.
    """

    flexible = 0

    topic_id: Uuid = wire(UUID, repeats=True)
    partitions: tuple[int, ...] = wire(array(INT32), repeats=True)
    assignment_epochs: tuple[int, ...] | None = wire(array(INT32), nullable=0, tag=0, default=())


class ConsumerGroupCurrentMemberAssignmentValue(Message, frozen=True):
    """What one member has now. `state` is `MemberState`'s number: 0 stable, 1 and 2 unrevoked and unreleased."""

    flexible = 0

    member_epoch: int = wire(INT32)
    previous_member_epoch: int = wire(INT32)
    state: int = wire(INT8)
    assigned_partitions: tuple[OwnedTopicPartitions, ...] = wire(array(OwnedTopicPartitions))
    partitions_pending_revocation: tuple[OwnedTopicPartitions, ...] = wire(array(OwnedTopicPartitions))


class ConsumerGroupRegularExpressionValue(Message, frozen=True):
    """The topics that a regular expression resolved to; `timestamp` is epoch milliseconds."""

    flexible = 0

    topics: tuple[str, ...] = wire(array(STRING))
    version: int = wire(INT64)
    timestamp: int = wire(INT64)
