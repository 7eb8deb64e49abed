"""Encoded records of `__consumer_offsets`, one function a kind of record, and a log to put them into.

What a coordinator writes for one operation, in its order, is in `tests.unit.core.shadow.scripts`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from agent.core.records import RawRecord, RecordBatch
from agent.core.shadow.mirror import PartitionMirror
from agent.core.shadow.transitions import Transition
from agent.core.shadow.views import GroupView
from agent.core.wire import classic, consumer, offsets, share, streams
from agent.core.wire.payloads import (
    ConnectAssignment,
    ConnectorTasks,
    ConnectWorkerState,
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
    TopicPartition,
    encode_payload,
)
from agent.core.wire.primitives import ZERO_UUID, Uuid
from agent.core.wire.records import RECORD_TYPES, encode_key, encode_value
from agent.core.wire.schema import Message

T0 = 1_790_000_000_000
"""The first record's time, epoch milliseconds."""

STEP_MS = 1000
GROUP = "orders"
HOST = "/10.0.0.1"

Pair = tuple[bytes, bytes | None]
"""A key and a value."""

Parts = Mapping[str, Sequence[int]]
"""Partitions by topic name (by subtopology in Streams)."""


class Log:
    """One partition's records: offsets from 0 on, one second from batch to batch."""

    def __init__(self, partition: int = 7) -> None:
        self.partition = partition
        self.records: list[RawRecord] = []
        self.now_ms = T0

    def add(self, *batch: Pair, after_ms: int = STEP_MS) -> Log:
        """Append a batch; all its records have one timestamp, as a coordinator's have."""
        self.now_ms += after_ms
        for key, value in batch:
            self.records.append(RawRecord(self.partition, len(self.records), self.now_ms, key, value))
        return self

    def mirror(self) -> PartitionMirror:
        return self.replayed()[0]

    def replayed(self) -> tuple[PartitionMirror, list[Transition]]:
        """A mirror of all records, and every transition."""
        mirror = PartitionMirror(self.partition)
        return mirror, [transition for record in self.records for transition in mirror.replay(record)]

    def view(self, group: str = GROUP) -> GroupView:
        view = self.mirror().view(group)
        assert view is not None, f"{group} is in the log"
        return view

    def said(self) -> list[list[str]]:
        """For each record: the kinds of its transitions."""
        mirror = PartitionMirror(self.partition)
        return [[transition.kind for transition in mirror.replay(record)] for record in self.records]


def run_of(records: Sequence[RawRecord]) -> RecordBatch:
    """Records of one partition as columns."""
    return RecordBatch.of(records)


def topic_id(name: str) -> Uuid:
    """A fixed id for a topic of a test."""
    return Uuid(name.encode()[:16].ljust(16, b"\x01"))


def key(key_type: int, message: Message) -> bytes:
    return encode_key(RECORD_TYPES[key_type], message)


def record(key_type: int, key_message: Message, value: Message | None, version: int = 0) -> Pair:
    """Any record; without a value a tombstone."""
    record_type = RECORD_TYPES[key_type]
    return encode_key(record_type, key_message), None if value is None else encode_value(record_type, value, version)


# Committed offsets.


def commit(
    topic: str = "t",
    partition: int = 0,
    offset: int = 10,
    *,
    group: str = GROUP,
    version: int = 3,
    at_ms: int = T0,
    metadata: str = "",
    id_of_topic: Uuid = ZERO_UUID,
    key_type: int = 1,
) -> Pair:
    where = offsets.OffsetCommitKey(group, topic, partition)
    if key_type == 0:
        return record(0, where, offsets.LegacyOffsetCommitValue(offset, metadata, at_ms))
    value = offsets.OffsetCommitValue(
        offset=offset, leader_epoch=3, metadata=metadata, commit_timestamp=at_ms, topic_id=id_of_topic
    )
    return record(1, where, value, version)


def uncommit(topic: str = "t", partition: int = 0, *, group: str = GROUP, key_type: int = 1) -> Pair:
    return record(key_type, offsets.OffsetCommitKey(group, topic, partition), None)


# Classic groups.


def parts(assignment: Parts) -> tuple[TopicPartition, ...]:
    return tuple(TopicPartition(topic, tuple(numbers)) for topic, numbers in assignment.items())


def member(
    member_id: str,
    assigned: Parts | None = None,
    *,
    instance_id: str | None = None,
    topics: Iterable[str] = ("t",),
    owned: Parts | None = None,
    rack_id: str | None = None,
    session_ms: int = 45_000,
    rebalance_ms: int = 300_000,
    host: str = HOST,
    subscription: bytes | None = None,
    assignment: bytes | None = None,
) -> classic.MemberMetadata:
    """A member of a classic consumer group; `assigned` None is a member whose assignment bytes are empty."""
    wanted = ConsumerProtocolSubscription(tuple(topics), None, parts(owned or {}), rack_id=rack_id)
    given = b"" if assigned is None else encode_payload(ConsumerProtocolAssignment(parts(assigned)), 3)
    return classic.MemberMetadata(
        member_id=member_id,
        group_instance_id=instance_id,
        client_id=member_id.partition("-")[0],
        client_host=host,
        rebalance_timeout=rebalance_ms,
        session_timeout=session_ms,
        subscription=encode_payload(wanted, 3) if subscription is None else subscription,
        assignment=given if assignment is None else assignment,
    )


def worker(
    member_id: str,
    tasks: Parts | None,
    *,
    version: int = 1,
    revoked: Parts | None = None,
    delay_ms: int = 0,
    error: int = 0,
) -> classic.MemberMetadata:
    """A Connect worker; `tasks` None: the leader sent it a null list."""

    def connectors(items: Parts | None) -> tuple[ConnectorTasks, ...] | None:
        return None if items is None else tuple(ConnectorTasks(name, tuple(ids)) for name, ids in items.items())

    given = ConnectAssignment(error, "w-1", "http://w-1/", 5, connectors(tasks), connectors(revoked), delay_ms)
    return member(
        member_id,
        subscription=encode_payload(ConnectWorkerState(f"http://{member_id}/", 5, None), version),
        assignment=encode_payload(given, version),
    )


def classic_group(
    generation: int,
    *members: classic.MemberMetadata,
    group: str = GROUP,
    version: int = 3,
    protocol_type: str = "consumer",
    protocol: str | None = "range",
    leader: str | None = None,
    state_ms: int = T0,
) -> Pair:
    """A group as of the end of a rebalance; without members: as it became empty."""
    value = classic.GroupMetadataValue(
        protocol_type=protocol_type,
        generation=generation,
        protocol=protocol if members else None,
        leader=leader or (members[0].member_id if members else None),
        current_state_timestamp=state_ms,
        members=members,
    )
    return record(2, classic.GroupMetadataKey(group), value, version)


def new_group(group: str = GROUP) -> Pair:
    """`newEmptyGroupMetadataRecord`: a classic group at its creation."""
    return classic_group(0, group=group, protocol_type="")


def no_classic_group(group: str = GROUP) -> Pair:
    return record(2, classic.GroupMetadataKey(group), None)


# KIP-848, share and streams groups.


def tombstone(key_type: int, member_id: str | None = None, *, group: str = GROUP) -> Pair:
    """A tombstone of any record of a group (3 to 23), `member_id` where the key has one."""
    if key_type == 16:
        return record(16, consumer.ConsumerGroupRegularExpressionKey(group, member_id or ""), None)
    where = consumer.GroupIdKey(group) if member_id is None else consumer.GroupMemberKey(group, member_id)
    return record(key_type, where, None)


def _of(key_type: int, group: str, value: Message) -> Pair:
    return record(key_type, consumer.GroupIdKey(group), value)


def _of_member(key_type: int, group: str, member_id: str, value: Message) -> Pair:
    return record(key_type, consumer.GroupMemberKey(group, member_id), value)


def c_member(
    member_id: str,
    *,
    group: str = GROUP,
    instance_id: str | None = None,
    topics: Iterable[str] = ("t",),
    regex: str | None = None,
    assignor: str | None = None,
    classic_session_ms: int | None = None,
    rebalance_ms: int = 300_000,
    host: str = HOST,
) -> Pair:
    """Key type 5. `classic_session_ms`: the member speaks the classic protocol."""
    of_classic = None if classic_session_ms is None else consumer.ClassicMemberMetadata(classic_session_ms)
    value = consumer.ConsumerGroupMemberMetadataValue(
        instance_id=instance_id,
        rack_id=None,
        client_id=member_id.partition("-")[0],
        client_host=host,
        subscribed_topic_names=tuple(topics),
        subscribed_topic_regex=regex,
        rebalance_timeout_ms=rebalance_ms,
        server_assignor=assignor,
        classic_member_metadata=of_classic,
    )
    return _of_member(5, group, member_id, value)


def c_epoch(epoch: int, *, group: str = GROUP, topics_hash: int = 99) -> Pair:
    return _of(3, group, consumer.ConsumerGroupMetadataValue(epoch, topics_hash))


def c_topics(*names: str, group: str = GROUP) -> Pair:
    """Key type 4: the subscribed topics, up to Kafka 4.0."""
    topics = tuple(consumer.TopicMetadata(topic_id(name), name, 6) for name in names)
    return _of(4, group, consumer.ConsumerGroupPartitionMetadataValue(topics))


def c_regex(regex: str, *topics: str, group: str = GROUP) -> Pair:
    where = consumer.ConsumerGroupRegularExpressionKey(group, regex)
    return record(16, where, consumer.ConsumerGroupRegularExpressionValue(topics, 5, T0))


def _topic_partitions(assignment: Parts) -> tuple[consumer.TopicPartitions, ...]:
    return tuple(consumer.TopicPartitions(topic_id(topic), tuple(items)) for topic, items in assignment.items())


def _owned_partitions(assignment: Parts) -> tuple[consumer.OwnedTopicPartitions, ...]:
    return tuple(consumer.OwnedTopicPartitions(topic_id(topic), tuple(items)) for topic, items in assignment.items())


def c_target(member_id: str, assignment: Parts, *, group: str = GROUP) -> Pair:
    return _of_member(7, group, member_id, consumer.TargetAssignmentMemberValue(_topic_partitions(assignment)))


def c_target_epoch(epoch: int, *, group: str = GROUP) -> Pair:
    return _of(6, group, consumer.TargetAssignmentMetadataValue(epoch, T0))


def c_current(
    member_id: str,
    epoch: int,
    assigned: Parts,
    *,
    group: str = GROUP,
    state: int = 0,
    revoking: Parts | None = None,
    previous: int = 0,
) -> Pair:
    value = consumer.ConsumerGroupCurrentMemberAssignmentValue(
        epoch, previous, state, _owned_partitions(assigned), _owned_partitions(revoking or {})
    )
    return _of_member(8, group, member_id, value)


def s_member(member_id: str, *, group: str = GROUP) -> Pair:
    value = share.ShareGroupMemberMetadataValue("r1", member_id.partition("-")[0], HOST, ("t",))
    return _of_member(10, group, member_id, value)


def s_epoch(epoch: int, *, group: str = GROUP, topics_hash: int = 99) -> Pair:
    return _of(11, group, share.ShareGroupMetadataValue(epoch, topics_hash))


def s_topics(initialized: Parts, *, group: str = GROUP, initializing: Parts | None = None) -> Pair:
    """Key type 15."""

    def infos(items: Parts) -> tuple[share.TopicPartitionsInfo, ...]:
        return tuple(share.TopicPartitionsInfo(topic_id(name), name, tuple(ids)) for name, ids in items.items())

    value = share.ShareGroupStatePartitionMetadataValue(infos(initializing or {}), infos(initialized), ())
    return _of(15, group, value)


def s_target(member_id: str, assignment: Parts, *, group: str = GROUP) -> Pair:
    return _of_member(13, group, member_id, consumer.TargetAssignmentMemberValue(_topic_partitions(assignment)))


def s_target_epoch(epoch: int, *, group: str = GROUP) -> Pair:
    return _of(12, group, consumer.TargetAssignmentMetadataValue(epoch, T0))


def s_current(member_id: str, epoch: int, assigned: Parts, *, group: str = GROUP) -> Pair:
    value = share.ShareGroupCurrentMemberAssignmentValue(epoch, 0, 0, _topic_partitions(assigned))
    return _of_member(14, group, member_id, value)


def k_member(member_id: str, *, group: str = GROUP) -> Pair:
    value = streams.StreamsGroupMemberMetadataValue(
        instance_id=None,
        rack_id=None,
        client_id=member_id.partition("-")[0],
        client_host=HOST,
        rebalance_timeout_ms=300_000,
        topology_epoch=0,
        process_id="process",
        user_endpoint=None,
    )
    return _of_member(19, group, member_id, value)


def k_epoch(epoch: int, *, group: str = GROUP, validated: int = 0, topics_hash: int = 99) -> Pair:
    return _of(17, group, streams.StreamsGroupMetadataValue(epoch, topics_hash, validated))


def k_topology(epoch: int = 0, *, group: str = GROUP, topics: Sequence[str] = ("t",)) -> Pair:
    return _of(23, group, streams.StreamsGroupTopologyValue(epoch, (streams.Subtopology("0", tuple(topics)),)))


def k_target(member_id: str, tasks: Parts, *, group: str = GROUP, standby: Parts | None = None) -> Pair:
    value = streams.StreamsGroupTargetAssignmentMemberValue(_tasks(tasks), _tasks(standby or {}))
    return _of_member(21, group, member_id, value)


def k_target_epoch(epoch: int, *, group: str = GROUP) -> Pair:
    return _of(20, group, consumer.TargetAssignmentMetadataValue(epoch, T0))


def k_current(
    member_id: str,
    epoch: int,
    tasks: Parts,
    *,
    group: str = GROUP,
    state: int = 1,
    revoking: Parts | None = None,
    standby: Parts | None = None,
    warmup: Parts | None = None,
) -> Pair:
    value = streams.StreamsGroupCurrentMemberAssignmentValue(
        epoch, 0, state, _owned(tasks), _owned(standby or {}), _owned(warmup or {}), _owned(revoking or {})
    )
    return _of_member(22, group, member_id, value)


def _tasks(tasks: Parts) -> tuple[streams.TaskIds, ...]:
    return tuple(streams.TaskIds(subtopology, tuple(ids)) for subtopology, ids in tasks.items())


def _owned(tasks: Parts) -> tuple[streams.OwnedTaskIds, ...]:
    return tuple(streams.OwnedTaskIds(subtopology, tuple(ids)) for subtopology, ids in tasks.items())
