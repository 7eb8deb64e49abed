"""The offset-commit path: 999 of 1,000 records of the topic, so many at a time and without decoding each.

A commit's raw key is its own identity: whoever keeps the newest raw value by raw key need not take either
apart until someone asks. What must be known at once is only that the value *would* decode. Nearly every value
has one of three layouts of fixed size (empty metadata; version 3, or version 4 with or without a topic id), and a
fixed layout is checked by looking at a few bytes. Anything else takes the general way, `agent.core.wire.records`.
The answers are the same; a test holds the two against each other. What writes commits is the same way back.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import NamedTuple

from agent.common.interning import Interner, are_short
from agent.core.wire.offsets import LegacyOffsetCommitValue, OffsetCommitKey, OffsetCommitValue
from agent.core.wire.primitives import ZERO_UUID, Uuid
from agent.core.wire.records import RECORD_TYPES, decode_value, encode_key, encode_value, unwrapped_key

_OFFSET_COMMIT = RECORD_TYPES[1]

# version, offset, leader epoch, then:
# version 3: int16 metadata length (0), commit timestamp
# version 4: compact metadata length (1: empty), commit timestamp, number of tags (0)
# version 4 with a topic id: as before, number of tags (1), tag (0), size (16), topic id
_V3 = struct.Struct(">hqihq")
_V4 = struct.Struct(">hqiBqB")
_V4_TOPIC_ID = struct.Struct(">hqiBqBBB16s")
_LENGTH, _PARTITION = struct.Struct(">h"), struct.Struct(">i")
_SHORT, _LONG = _V3.size, _V4_TOPIC_ID.size
assert _V4.size == _SHORT, "the two layouts without a topic id have one size"

_KEY_START = struct.Struct(">hh")  # key type, length of the group's name
_LONGEST_NAME = 0x7FFF

_VERSION_3, _VERSION_4 = b"\x00\x03", b"\x00\x04"
_TOPIC_ID_TAG = b"\x01\x00\x10"
_EMPTY_V3 = b"\x00\x00"


Slot = tuple[str, int]
"""A topic and its partition."""


class Commit(NamedTuple):
    """A committed position. Times are epoch milliseconds; `expire_ms` and `leader_epoch` -1 and a zero `topic_id`
    mean that the record has none."""

    offset: int
    leader_epoch: int
    metadata: str
    commit_ms: int
    expire_ms: int
    topic_id: Uuid


def is_commit_key(key: bytes | None) -> bool:
    """Whether a key says that it is an offset commit, of either type; it may still be malformed behind that."""
    return key is not None and key[:2] in (b"\x00\x01", b"\x00\x00")


one_slot: Interner[Slot] = Interner(1 << 16, lambda slot: are_short(slot[0]))
"""One object for a topic and partition, as long as there are not too many."""

_one_topic: Interner[str] = Interner(4_096, are_short)


def slot_of(topic: str, partition: int) -> Slot:
    """A topic and partition as one object with its equals, and so the topic's name."""
    return one_slot[_one_topic[topic], partition]


class _SlotsByKeyEnd(dict[bytes, Slot]):
    """Topic and partition by the bytes of a key behind its group: few, since groups have the same.

    Raises `ValueError` for bytes that are none.
    """

    def __missing__(self, end: bytes) -> Slot:
        size, name = int.from_bytes(end[: _LENGTH.size]), end[_LENGTH.size : -_PARTITION.size]
        if size > _LONGEST_NAME or len(end) != _LENGTH.size + size + _PARTITION.size:
            raise ValueError(f"expected a topic's name and a partition, got {end!r}")
        topic, (partition,) = name.decode(), _PARTITION.unpack(end[-_PARTITION.size :])
        if len(end) > _MOST_KEPT_BYTES:
            return topic, partition
        if len(self) >= _MOST_KEPT:
            self.clear()
        slot = self[end] = slot_of(topic, partition)
        return slot


_MOST_KEPT, _MOST_KEPT_BYTES = 1 << 16, 300
"""Ends of keys that are kept, and how long one may be: Kafka's own topics have names of 249 at most."""

slot_by_key_end = _SlotsByKeyEnd()


def read_commit_slot(key: bytes | None) -> tuple[str, Slot] | None:
    """A well-formed key of type 1: its group, and topic and partition, one object for all keys that have the same.

    None for any other: the general way says what it is."""
    if key is None or key[:2] != b"\x00\x01":
        return None
    try:
        (size,) = _LENGTH.unpack_from(key, 2)
        group_end = 4 + size
        return None if size < 0 else (key[4:group_end].decode(), slot_by_key_end[key[group_end:]])
    except (struct.error, ValueError):
        return None


def read_commit_key(key: bytes | None) -> tuple[str, str, int] | None:
    """The same as group, topic and partition."""
    found = read_commit_slot(key)
    return None if found is None else (found[0], *found[1])


def commit_key(group: str, topic: str, partition: int) -> bytes:
    """A commit's key, of type 1. Raises `WireError` where a name is too long."""
    group_name, topic_name = group.encode(), topic.encode()
    if len(group_name) > _LONGEST_NAME or len(topic_name) > _LONGEST_NAME:
        return encode_key(_OFFSET_COMMIT, OffsetCommitKey(group, topic, partition))  # it says what is wrong
    return b"".join(
        (
            _KEY_START.pack(1, len(group_name)),
            group_name,
            _LENGTH.pack(len(topic_name)),
            topic_name,
            _PARTITION.pack(partition),
        )
    )


def commit_key_start(group: str) -> bytes:
    """What all keys of a group's commits begin with, and no other group's."""
    name = group.encode()
    return _KEY_START.pack(1, len(name)) + name


def commit_value(
    offset: int, commit_ms: int, leader_epoch: int = -1, metadata: str = "", topic_id: Uuid = ZERO_UUID
) -> bytes:
    """A commit's value in version 4, which Kafka 4.1 and newer write; `commit_ms` is epoch milliseconds.

    With a zero `topic_id` there is none in it. Raises `WireError` where the metadata is too long.
    """
    if metadata:
        value = OffsetCommitValue(offset, leader_epoch, metadata, commit_ms, topic_id=topic_id)
        return encode_value(_OFFSET_COMMIT, value, 4)
    if topic_id == ZERO_UUID:
        return _V4.pack(4, offset, leader_epoch, 1, commit_ms, 0)
    return _V4_TOPIC_ID.pack(4, offset, leader_epoch, 1, commit_ms, 1, 0, 16, topic_id)


def canonical_key(key: bytes) -> bytes:
    """The key under type 1, without a length in front (`unwrapped_key`). Types 0 and 1 have one layout and name the
    same position."""
    return b"\x00\x01" + unwrapped_key(key)[2:]


def has_fixed_layout(value: bytes) -> bool:
    """Whether a commit's value has one of the three fixed layouts, and so is known to decode."""
    size = len(value)
    if size == _LONG:
        return value[14] == 1 and value[23:26] == _TOPIC_ID_TAG and value[:2] == _VERSION_4
    if size == _SHORT:
        version = value[:2]
        if version == _VERSION_3:
            return value[14:16] == _EMPTY_V3
        return version == _VERSION_4 and value[14] == 1 and value[23] == 0
    return False


def have_one_fixed_layout(values: Sequence[bytes | None]) -> bool:
    """Whether every value has the same of the three fixed layouts. False may mean no more than a mixture."""
    first = values[0]
    if first is None or not has_fixed_layout(first):
        return False
    size = len(first)
    try:
        joined = b"".join(values)  # type: ignore[arg-type]  # a None among them is the TypeError below
    except TypeError:
        return False
    count = len(values)
    if len(joined) != size * count or set(map(len, values)) != {size}:  # type: ignore[arg-type]
        return False
    # One column of bytes at a time: the places that a layout fixes must hold what the first value holds.
    fixed = (0, 1, 14, 23, 24, 25) if size == _LONG else (0, 1, 14, 15) if first[1] == 3 else (0, 1, 14, 23)
    return all(joined[at::size].count(first[at]) == count for at in fixed)


def read_commit(value: bytes) -> Commit:
    """A value under a key of type 1 (or 0, whose one version has the layout of this one's version 0).

    Raises `WireError` where the general way would.
    """
    if has_fixed_layout(value):
        if len(value) == _LONG:
            _, offset, epoch, _, commit_ms, _, _, _, topic_id = _V4_TOPIC_ID.unpack(value)
            return Commit(offset, epoch, "", commit_ms, -1, Uuid(topic_id))
        form = _V3 if value[1] == 3 else _V4
        _, offset, epoch, _, commit_ms, *_ = form.unpack(value)
        return Commit(offset, epoch, "", commit_ms, -1, ZERO_UUID)
    return commit_from_message(decode_value(_OFFSET_COMMIT, value)[1])


def topic_id_of(value: bytes) -> Uuid:
    """The same value's topic id alone, zero where it has none."""
    if has_fixed_layout(value):
        return fixed_topic_id(value) or ZERO_UUID
    return read_commit(value).topic_id


def fixed_topic_id(value: bytes) -> Uuid | None:
    """The topic id of a value that has a fixed layout; None for a layout without one."""
    return Uuid(value[-len(ZERO_UUID) :]) if len(value) == _LONG else None


def commit_from_message(value: object) -> Commit:
    """The same from a decoded value of either key type."""
    match value:
        case OffsetCommitValue():
            return Commit(
                value.offset,
                value.leader_epoch,
                value.metadata,
                value.commit_timestamp,
                value.expire_timestamp,
                value.topic_id,
            )
        case LegacyOffsetCommitValue():
            return Commit(value.offset, -1, value.metadata, value.commit_timestamp, -1, ZERO_UUID)
        case _:
            raise TypeError(f"expected an offset commit's value, got {type(value).__name__}")
