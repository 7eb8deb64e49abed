"""Offset commits: key types 0 and 1."""

from __future__ import annotations

from agent.core.wire.primitives import Uuid
from agent.core.wire.schema import INT32, INT64, STRING, UUID, Message, wire


class OffsetCommitKey(Message, frozen=True):
    """Whose offset this is. Key types 0 and 1 share it."""

    group: str = wire(STRING)
    topic: str = wire(STRING)
    partition: int = wire(INT32)


class LegacyOffsetCommitValue(Message, frozen=True):
    """The value under key type 0, from before Kafka 0.9."""

    offset: int = wire(INT64)
    metadata: str = wire(STRING)
    commit_timestamp: int = wire(INT64)


class OffsetCommitValue(Message, frozen=True):
    """A committed position: the offset of the next record that the group would read.

    `commit_timestamp` and `expire_timestamp` are epoch milliseconds; -1 is none. Version 4 (Kafka 4.1) is
    the first flexible one (KIP-915) and may carry the topic's id.
    """

    versions = (0, 4)
    flexible = 4

    offset: int = wire(INT64)
    leader_epoch: int = wire(INT32, since=3, default=-1)
    metadata: str = wire(STRING)
    commit_timestamp: int = wire(INT64)
    expire_timestamp: int = wire(INT64, since=1, until=1, default=-1)
    topic_id: Uuid = wire(UUID, since=4, tag=0)
