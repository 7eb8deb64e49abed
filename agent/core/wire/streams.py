"""Streams groups (KIP-1071): key types 17 and 19 to 23. Type 20 uses a message of `consumer`."""

from __future__ import annotations

from agent.core.wire.schema import (
    INT8,
    INT16,
    INT32,
    INT64,
    STRING,
    UINT16,
    Message,
    array,
    nested,
    wire,
)


class KeyValue(Message, frozen=True):
    """A pair of texts: a client tag or a configuration."""

    flexible = 0

    key: str = wire(STRING)
    value: str = wire(STRING)


class StreamsGroupMetadataValue(Message, frozen=True):
    """The group epoch, the hash of its topics, and the topology epoch whose topics were found valid (-1: none).

    A missing `last_assignment_configs` is an empty list and null is written out (see
    `ConsumerGroupMemberMetadataValue`). Since Kafka 4.4 (KIP-1331) two topology epochs say how far the group's
    description got with the broker's plugin: the one that it holds (-1: none, -2: an operation broke off), and the
    one that it refused for good (-1: none).
    """

    flexible = 0

    epoch: int = wire(INT32)
    metadata_hash: int = wire(INT64)
    validated_topology_epoch: int = wire(INT32, tag=0, default=-1)
    last_assignment_configs: tuple[KeyValue, ...] | None = wire(array(KeyValue), nullable=0, tag=1, default=())
    stored_description_topology_epoch: int = wire(INT32, tag=2, default=-1)
    failed_description_topology_epoch: int = wire(INT32, tag=3, default=-1)


class Endpoint(Message, frozen=True):
    """Where an instance answers interactive queries."""

    flexible = 0

    host: str = wire(STRING)
    port: int = wire(UINT16)


class StreamsGroupMemberMetadataValue(Message, frozen=True):
    """One member; `process_id` names the instance, which may have several members."""

    flexible = 0

    instance_id: str | None = wire(STRING, nullable=0)
    rack_id: str | None = wire(STRING, nullable=0)
    client_id: str = wire(STRING)
    client_host: str = wire(STRING)
    rebalance_timeout_ms: int = wire(INT32, default=-1)
    topology_epoch: int = wire(INT32)
    process_id: str = wire(STRING)
    user_endpoint: Endpoint | None = wire(nested(Endpoint), nullable=0)
    client_tags: tuple[KeyValue, ...] = wire(array(KeyValue))


class TaskIds(Message, frozen=True):
    """Tasks of one subtopology: the partitions of its input that they read."""

    flexible = 0

    subtopology_id: str = wire(STRING)
    partitions: tuple[int, ...] = wire(array(INT32))


class StreamsGroupTargetAssignmentMemberValue(Message, frozen=True):
    """What the assignor wants one member to have."""

    flexible = 0

    active_tasks: tuple[TaskIds, ...] = wire(array(TaskIds))
    standby_tasks: tuple[TaskIds, ...] = wire(array(TaskIds))
    warmup_tasks: tuple[TaskIds, ...] = wire(array(TaskIds))


class OwnedTaskIds(Message, frozen=True):
    """Tasks of one subtopology with the epoch at which each was assigned, where written."""

    flexible = 0

    subtopology_id: str = wire(STRING)
    partitions: tuple[int, ...] = wire(array(INT32))
    assignment_epochs: tuple[int, ...] | None = wire(array(INT32), nullable=0, tag=0, default=())


class StreamsGroupCurrentMemberAssignmentValue(Message, frozen=True):
    """What one member has now and what it must give up first."""

    flexible = 0

    member_epoch: int = wire(INT32)
    previous_member_epoch: int = wire(INT32)
    state: int = wire(INT8)
    active_tasks: tuple[OwnedTaskIds, ...] = wire(array(OwnedTaskIds))
    standby_tasks: tuple[OwnedTaskIds, ...] = wire(array(OwnedTaskIds))
    warmup_tasks: tuple[OwnedTaskIds, ...] = wire(array(OwnedTaskIds))
    active_tasks_pending_revocation: tuple[OwnedTaskIds, ...] = wire(array(OwnedTaskIds))
    standby_tasks_pending_revocation: tuple[OwnedTaskIds, ...] = wire(array(OwnedTaskIds))
    warmup_tasks_pending_revocation: tuple[OwnedTaskIds, ...] = wire(array(OwnedTaskIds))


class TopologyTopic(Message, frozen=True):
    """A changelog or repartition topic that a subtopology needs; 0 partitions: no number is enforced."""

    flexible = 0

    name: str = wire(STRING)
    partitions: int = wire(INT32)
    replication_factor: int = wire(INT16)
    topic_configs: tuple[KeyValue, ...] = wire(array(KeyValue))


class CopartitionGroup(Message, frozen=True):
    """Topics that must be partitioned alike, as indexes into the subtopology's arrays."""

    flexible = 0

    source_topics: tuple[int, ...] = wire(array(INT16))
    source_topic_regex: tuple[int, ...] = wire(array(INT16))
    repartition_source_topics: tuple[int, ...] = wire(array(INT16))


class Subtopology(Message, frozen=True):
    """A part of the topology that runs on its own: its sources, sinks and state."""

    flexible = 0

    subtopology_id: str = wire(STRING)
    source_topics: tuple[str, ...] = wire(array(STRING))
    source_topic_regex: tuple[str, ...] = wire(array(STRING))
    state_changelog_topics: tuple[TopologyTopic, ...] = wire(array(TopologyTopic))
    repartition_sink_topics: tuple[str, ...] = wire(array(STRING))
    repartition_source_topics: tuple[TopologyTopic, ...] = wire(array(TopologyTopic))
    copartition_groups: tuple[CopartitionGroup, ...] = wire(array(CopartitionGroup))


class StreamsGroupTopologyValue(Message, frozen=True):
    """The topology that the members run."""

    flexible = 0

    epoch: int = wire(INT32)
    subtopologies: tuple[Subtopology, ...] = wire(array(Subtopology))
