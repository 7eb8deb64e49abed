"""Key type and value version to message: one table, and the two directions over it.

`decode` never raises: whatever the bytes, it answers with one of four entries, and what cannot be decoded
keeps its bytes and the reason.

Redpanda writes Kafka's records but for two things. Each member of a group has its version in front. And for a time
the keys of tombstones had their length in front, four bytes with the lowest first. A key of Kafka's that reads as its
own length that way is of a group with an empty name and of a topic whose name is longer than topics have.
"""

from __future__ import annotations

from contextlib import suppress

from msgspec import Struct

from agent.core.wire import classic, consumer, offsets, share, streams
from agent.core.wire import primitives as p
from agent.core.wire.errors import Invalid, UnknownKeyType, UnknownVersion, WireError
from agent.core.wire.schema import Message


class RecordType(Struct, frozen=True):
    """A key type (the int16 that starts every key) and its messages. A key has one version, the key type itself."""

    key_type: int
    name: str
    key: type[Message]
    value: type[Message]


_GROUP, _MEMBER = consumer.GroupIdKey, consumer.GroupMemberKey
_TARGET_EPOCH, _TARGET = consumer.TargetAssignmentMetadataValue, consumer.TargetAssignmentMemberValue

_TYPES = (
    (0, "legacy_offset_commit", offsets.OffsetCommitKey, offsets.LegacyOffsetCommitValue),
    (1, "offset_commit", offsets.OffsetCommitKey, offsets.OffsetCommitValue),
    (2, "group_metadata", classic.GroupMetadataKey, classic.GroupMetadataValue),
    (3, "consumer_group_metadata", _GROUP, consumer.ConsumerGroupMetadataValue),
    (4, "consumer_group_partition_metadata", _GROUP, consumer.ConsumerGroupPartitionMetadataValue),
    (5, "consumer_group_member_metadata", _MEMBER, consumer.ConsumerGroupMemberMetadataValue),
    (6, "consumer_group_target_assignment_metadata", _GROUP, _TARGET_EPOCH),
    (7, "consumer_group_target_assignment_member", _MEMBER, _TARGET),
    (8, "consumer_group_current_member_assignment", _MEMBER, consumer.ConsumerGroupCurrentMemberAssignmentValue),
    (10, "share_group_member_metadata", _MEMBER, share.ShareGroupMemberMetadataValue),
    (11, "share_group_metadata", _GROUP, share.ShareGroupMetadataValue),
    (12, "share_group_target_assignment_metadata", _GROUP, _TARGET_EPOCH),
    (13, "share_group_target_assignment_member", _MEMBER, _TARGET),
    (14, "share_group_current_member_assignment", _MEMBER, share.ShareGroupCurrentMemberAssignmentValue),
    (15, "share_group_state_partition_metadata", _GROUP, share.ShareGroupStatePartitionMetadataValue),
    (
        16,
        "consumer_group_regular_expression",
        consumer.ConsumerGroupRegularExpressionKey,
        consumer.ConsumerGroupRegularExpressionValue,
    ),
    (17, "streams_group_metadata", _GROUP, streams.StreamsGroupMetadataValue),
    (19, "streams_group_member_metadata", _MEMBER, streams.StreamsGroupMemberMetadataValue),
    (20, "streams_group_target_assignment_metadata", _GROUP, _TARGET_EPOCH),
    (21, "streams_group_target_assignment_member", _MEMBER, streams.StreamsGroupTargetAssignmentMemberValue),
    (22, "streams_group_current_member_assignment", _MEMBER, streams.StreamsGroupCurrentMemberAssignmentValue),
    (23, "streams_group_topology", _GROUP, streams.StreamsGroupTopologyValue),
)

RECORD_TYPES: dict[int, RecordType] = {row[0]: RecordType(*row) for row in _TYPES}
"""Every key type that Kafka 4.4.0 writes. 9 and 18 were given up before a release."""


class Record(Struct, frozen=True):
    """A decoded key with its decoded value."""

    type: RecordType
    key: Message
    version: int
    value: Message


class Tombstone(Struct, frozen=True):
    """A decoded key without a value: what it names was deleted."""

    type: RecordType
    key: Message


class TransactionMarker(Struct, frozen=True):
    """The end of a transaction, `commit` or `abort`."""

    outcome: str
    coordinator_epoch: int


class Undecodable(Struct, frozen=True):
    """Bytes that could not be decoded, and why."""

    error: WireError
    key: bytes | None
    value: bytes | None


DecodedRecord = Record | Tombstone | TransactionMarker | Undecodable


def decode(key: bytes | None, value: bytes | None, *, control: bool = False) -> DecodedRecord:
    """One record of the topic, whatever it is. `control` says that the log marked it as a transaction marker."""
    try:
        if control:
            return decode_marker(key, value)
        record_type, message = decode_key(key)
        if value is None:
            return Tombstone(record_type, message)
        version, body = decode_value(record_type, value)
        return Record(record_type, message, version, body)
    except WireError as error:
        # Kept for long, perhaps; its traceback would keep the frames, and all they hold, as long. What it came of has
        # another, and the text that is none.
        error.__context__ = None
        return Undecodable(error.with_traceback(None), key, value)


def decode_key(key: bytes | None) -> tuple[RecordType, Message]:
    """A key: its type and message. Raises `WireError`."""
    try:
        if key is None:
            raise Invalid("expected a key, got none")
        key = unwrapped_key(key)
        number, at = p.read_int16(key, 0)
        record_type = RECORD_TYPES.get(number)
        if record_type is None:
            raise UnknownKeyType(f"key type {number}; known are 0 to 8, 10 to 17 and 19 to 23")
        return record_type, record_type.key.read_whole(key, at, 0)
    except WireError as error:
        error.prepend_path("key")
        raise


_WRAPPING = 4


def unwrapped_key(key: bytes) -> bytes:
    """A key without the length that Redpanda put in front of tombstones' (`maybe_unwrap_from_iobuf`).

    A commit's key of an empty group, and of a topic of 250 bytes, begins with its own length as well: there what is
    behind it is no key.
    """
    if (
        len(key) > _WRAPPING
        and int.from_bytes(key[:_WRAPPING], "little") == len(key) - _WRAPPING
        and int.from_bytes(key[_WRAPPING : _WRAPPING + 2]) in RECORD_TYPES
    ):
        return key[_WRAPPING:]
    return key


def decode_value(record_type: RecordType, value: bytes) -> tuple[int, Message]:
    """A value under a key of `record_type`: its version and message. Raises `WireError`."""
    try:
        version, at = p.read_int16(value, 0)
        lowest, highest = record_type.value.versions
        if not lowest <= version <= highest:
            raise UnknownVersion(f"version {version} of {record_type.name}; known are {lowest} to {highest}")
        try:
            return version, record_type.value.read_whole(value, at, version)
        except WireError:
            if record_type.value is classic.GroupMetadataValue and version == classic.REDPANDA_VERSION:
                with suppress(WireError):
                    return version, classic.RedpandaGroupMetadataValue.read_whole(value, at, 0).as_kafkas()
            raise
    except WireError as error:
        error.prepend_path("value")
        raise


def encode_key(record_type: RecordType, key: Message) -> bytes:
    """A key as Kafka writes it."""
    assert isinstance(key, record_type.key), f"{record_type.name} has keys of {record_type.key.__name__}"
    out = bytearray()
    p.write_int16(out, record_type.key_type)
    key.write(out, 0)
    return bytes(out)


def encode_value(record_type: RecordType, value: Message, version: int) -> bytes:
    """A value as Kafka writes it in `version`."""
    assert isinstance(value, record_type.value), f"{record_type.name} has values of {record_type.value.__name__}"
    lowest, highest = record_type.value.versions
    if not lowest <= version <= highest:
        raise UnknownVersion(f"version {version} of {record_type.name}; known are {lowest} to {highest}")
    out = bytearray()
    p.write_int16(out, version)
    value.write(out, version)
    return bytes(out)


_OUTCOMES = {0: "abort", 1: "commit"}


def decode_marker(key: bytes | None, value: bytes | None) -> TransactionMarker:
    """A transaction marker: key int16 version, int16 type; value int16 version, int32 coordinator epoch (KIP-98)."""
    if key is None or value is None:
        raise Invalid("a transaction marker has a key and a value")
    try:
        version, at = p.read_int16(key, 0)
        number, at = p.read_int16(key, at)
        if number not in _OUTCOMES:
            raise UnknownKeyType(f"control record of type {number} (version {version}); known are 0 and 1")
        _, at = p.read_int16(value, 0)
        epoch, _ = p.read_int32(value, at)
    except WireError as error:
        error.prepend_path("marker")
        raise
    return TransactionMarker(_OUTCOMES[number], epoch)
