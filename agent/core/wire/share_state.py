"""The share coordinator's records, of the topic `__share_group_state` (KIP-932): how far each share-partition is.

A key's type is its first two bytes, as in `__consumer_offsets`, with numbers of this topic's own. The classes are
held to what Kafka 4.3.1's own write.
"""

from __future__ import annotations

from agent.core.wire import primitives as p
from agent.core.wire.errors import Invalid, UnknownKeyType, UnknownVersion, WireError
from agent.core.wire.primitives import Uuid
from agent.core.wire.schema import INT8, INT16, INT32, INT64, STRING, UUID, Message, array, wire


class SharePartitionKey(Message, frozen=True):
    """One share-partition: what a share group consumes of one partition. Both key types have it."""

    group_id: str = wire(STRING)
    topic_id: Uuid = wire(UUID)
    partition: int = wire(INT32)


class StateBatch(Message, frozen=True):
    """Records from the start offset on that were delivered. `delivery_state`: 0 available, 2 acknowledged, 4
    archived."""

    flexible = 0

    first_offset: int = wire(INT64)
    last_offset: int = wire(INT64)
    delivery_state: int = wire(INT8)
    delivery_count: int = wire(INT16)


class ShareSnapshotValue(Message, frozen=True):
    """All of a share-partition's state.

    `start_offset` is the first record that is not done with, -1 before that is known. `delivery_complete_count` (4.2,
    KIP-1226) is how many records behind it are done with all the same, -1 where nobody counted. Times are epoch
    milliseconds.
    """

    flexible = 0

    snapshot_epoch: int = wire(INT32)
    state_epoch: int = wire(INT32)
    leader_epoch: int = wire(INT32)
    start_offset: int = wire(INT64)
    delivery_complete_count: int = wire(INT32, tag=0, default=-1)
    create_timestamp: int = wire(INT64)
    write_timestamp: int = wire(INT64)
    state_batches: tuple[StateBatch, ...] = wire(array(StateBatch))


class ShareUpdateValue(Message, frozen=True):
    """What changed since the snapshot of that epoch: `start_offset` and `leader_epoch` -1 are as they were."""

    flexible = 0

    snapshot_epoch: int = wire(INT32)
    leader_epoch: int = wire(INT32)
    start_offset: int = wire(INT64)
    delivery_complete_count: int = wire(INT32, tag=0, default=-1)
    state_batches: tuple[StateBatch, ...] = wire(array(StateBatch))


ShareStateValue = ShareSnapshotValue | ShareUpdateValue

RECORD_TYPES: dict[int, type[ShareSnapshotValue | ShareUpdateValue]] = {0: ShareSnapshotValue, 1: ShareUpdateValue}


def decode_share_state(key: bytes | None, value: bytes | None) -> tuple[SharePartitionKey, ShareStateValue | None]:
    """A record's key, and its value; None for a tombstone, which deletes what the key names. Raises `WireError`."""
    if key is None:
        raise Invalid("key: expected a key, got none")
    try:
        number, at = p.read_int16(key, 0)
        message = RECORD_TYPES.get(number)
        if message is None:
            raise UnknownKeyType(f"key type {number} of the share coordinator; known are 0 and 1")
        place = SharePartitionKey.read_whole(key, at, 0)
    except WireError as error:
        error.prepend_path("key")
        raise
    if value is None:
        return place, None
    try:
        version, at = p.read_int16(value, 0)
        if version != 0:
            raise UnknownVersion(f"version {version} of {message.__name__}; known is 0")
        return place, message.read_whole(value, at, 0)
    except WireError as error:
        error.prepend_path("value")
        raise
