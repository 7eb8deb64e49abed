"""Bytes that no writer may produce: each is a typed error that says where, keeps the bytes, and is counted by kind."""

# ruff: noqa: E501 - the tables hold one row a line, to be read down their columns

from __future__ import annotations

import pytest
from msgspec.structs import replace

from agent.core.wire import (
    DecodedRecord,
    Invalid,
    Record,
    TrailingBytes,
    TransactionMarker,
    Truncated,
    Undecodable,
    UnknownKeyType,
    UnknownVersion,
    WireError,
    decode,
    encode_key,
    encode_value,
)
from agent.core.wire.classic import GroupMetadataKey, GroupMetadataValue, MemberMetadata
from agent.core.wire.consumer import (
    ConsumerGroupMemberMetadataValue,
    ConsumerGroupMetadataValue,
    OwnedTopicPartitions,
    TopicPartitions,
)
from agent.core.wire.errors import KINDS, InternalFault
from agent.core.wire.offsets import OffsetCommitValue
from agent.core.wire.primitives import MAX_STRING, ZERO_UUID, Uuid
from agent.core.wire.records import RECORD_TYPES
from agent.core.wire.share import ShareGroupCurrentMemberAssignmentValue

COMMIT_KEY = "0001 0001 67 0001 74 00000003"
GROUP_KEY = "0002 0001 67"
EPOCH_KEY = "0003 0001 67"
MEMBER_KEY = "0005 0001 67 0001 6d"
ASSIGNMENT_KEY = "0007 0001 67 0001 6d"
CURRENT_KEY = "0008 0001 67 0001 6d"
REGEX_KEY = "0010 0001 67 0001 72"
STREAMS_KEY = "0011 0001 67"
STREAMS_MEMBER_KEY = "0013 0001 67 0001 6d"

# A commit of version 4 up to its metadata, and of version 0.
COMMIT_4 = "0004 000000000000002a 00000007"
COMMIT_0 = "0000 000000000000002a"
TIME = "000001a1fd017c09"
# A group of version 0 up to its protocol: protocol type "c", generation 1.
GROUP_0 = "0000 0001 63 00000001"
# A KIP-848 member with every field empty or null, up to its tags.
MEMBER = "0000 00 00 01 01 01 00 ffffffff 00"

Row = tuple[int, str, str | None, str | None, type[WireError], str]

# Number, why, key, value, error, the start of what it says.
ROWS: list[Row] = [
    # Keys.
    (1, "no key at all", None, "00", Invalid, "key: expected a key"),
    (2, "an empty key has no type", "", "00", Truncated, "key: int16 of 2 bytes expected at byte 0, 0 left"),
    (3, "half a type", "00", "00", Truncated, "key: int16 of 2 bytes expected at byte 0, 1 left"),
    (4, "given up before a release: share group partition metadata", "0009", "00", UnknownKeyType, "key: key type 9;"),
    (5, "given up before a release", "0012", "00", UnknownKeyType, "key: key type 18;"),
    (6, "one beyond the last", "0018 0001 67", "00", UnknownKeyType, "key: key type 24;"),
    (7, "a type is signed", "ffff", "00", UnknownKeyType, "key: key type -1;"),
    (8, "a tombstone under an unknown type", "0018 0001 67", None, UnknownKeyType, "key: key type 24;"),
    (9, "a group of negative length", "0002 fffe", "00", Invalid, "key.group: string at byte 2 has the length -2"),
    (10, "a group that is null", "0002 ffff", "00", Invalid, "key.group: string at byte 2 is null"),
    (11, "a group that is not UTF-8", "0002 0001 ff", "00", Invalid, "key.group: string at byte 4 is not UTF-8"),
    (12, "a surrogate is not UTF-8", "0002 0003 eda080", "00", Invalid, "key.group: string at byte 4 is not UTF-8"),
    (13, "a byte behind a tombstone's key", GROUP_KEY + "00", None, TrailingBytes, "key: GroupMetadataKey ends at byte 5"),
    (14, "a broken key is said before a broken value", "0002 0001", "", Truncated, "key.group: string of 1 bytes"),
    # Versions.
    (20, "an empty value is not a tombstone", COMMIT_KEY, "", Truncated, "value: int16 of 2 bytes expected at byte 0"),
    (21, "one beyond the newest", COMMIT_KEY, "0005 00", UnknownVersion, "value: version 5 of offset_commit; known are 0 to 4"),
    (22, "a version is signed", COMMIT_KEY, "ffff", UnknownVersion, "value: version -1 of offset_commit"),
    (23, "a type with one version", EPOCH_KEY, "0001 00", UnknownVersion, "value: version 1 of consumer_group_metadata"),
    (24, "type 0 has version 0 only", "0000 0001 67 0001 74 00000003", "0001", UnknownVersion, "value: version 1 of legacy"),
    # Classic lengths and nulls.
    (30, "metadata that is null", COMMIT_KEY, f"{COMMIT_0} ffff {TIME}", Invalid, "value.metadata: string at byte 10 is null"),
    (31, "metadata of the most negative length", COMMIT_KEY, f"{COMMIT_0} 8000", Invalid, "value.metadata: string at byte 10 has the length -32768"),
    (32, "a protocol may be null, but not of length -2", GROUP_KEY, f"{GROUP_0} fffe", Invalid, "value.protocol: string at byte 9 has the length -2"),
    (33, "members that are null", GROUP_KEY, f"{GROUP_0} ffff ffff ffffffff", Invalid, "value.members: array at byte 13 is null"),
    (34, "members of negative count", GROUP_KEY, f"{GROUP_0} ffff ffff 80000000", Invalid, "value.members: array at byte 13 has the length -2147483648"),
    (35, "two thousand million members", GROUP_KEY, f"{GROUP_0} ffff ffff 7fffffff 00", Truncated, "value.members: array of 2147483647 elements expected at byte 17, 1 bytes left"),
    (36, "a subscription that is null", GROUP_KEY, f"{GROUP_0} ffff ffff 00000001 0000 0000 0000 00000000 ffffffff", Invalid, "value.members.subscription: bytes at byte 27 is null"),
    (37, "a subscription longer than the value", GROUP_KEY, f"{GROUP_0} ffff ffff 00000001 0000 0000 0000 00000000 7fffffff", Truncated, "value.members.subscription: bytes of 2147483647 bytes expected at byte 31, 0 left"),
    (38, "one element more than there can be: refused before the first is read", GROUP_KEY, f"{GROUP_0} ffff ffff 00000003 0000", Truncated, "value.members: array of 3 elements expected at byte 17, 2 bytes left"),
    # Varints and compact lengths.
    (40, "a varint of six bytes", COMMIT_KEY, f"{COMMIT_4} 808080808001", Invalid, "value.metadata: varint at byte 14 is longer than five bytes"),
    (41, "a varint of 33 bits", COMMIT_KEY, f"{COMMIT_4} 8080808010", Invalid, "value.metadata: varint at byte 14 exceeds 32 bits"),
    (42, "a varint cut in the middle", COMMIT_KEY, f"{COMMIT_4} 8080", Truncated, "value.metadata: varint expected at byte 14, the bytes end at 16"),
    (43, "the longest varint, as a length", COMMIT_KEY, f"{COMMIT_4} ffffffff0f", Invalid, "value.metadata: string at byte 14 has the length 4294967294, at most 32767"),
    (44, "one beyond the longest string", COMMIT_KEY, f"{COMMIT_4} 818002" + "78" * 32_768, Invalid, "value.metadata: string at byte 14 has the length 32768, at most 32767"),
    (45, "compact metadata that is null", COMMIT_KEY, f"{COMMIT_4} 00", Invalid, "value.metadata: string at byte 14 is null"),
    (46, "compact metadata that is not UTF-8", COMMIT_KEY, f"{COMMIT_4} 02 80", Invalid, "value.metadata: string at byte 15 is not UTF-8"),
    (47, "a huge compact array", REGEX_KEY, "0000 ffffffff0f", Truncated, "value.topics: array of 4294967294 elements expected at byte 7, 0 bytes left"),
    (48, "a compact array that is null", REGEX_KEY, "0000 00", Invalid, "value.topics: array at byte 2 is null"),
    (49, "a null element, where only fields may be null", REGEX_KEY, "0000 02 00", Invalid, "value.topics: string at byte 3 is null"),
    (50, "compact bytes that are null", MEMBER_KEY, f"{MEMBER} 01 00 09 01 00000000 02 01 00 00 00", Invalid, "value.tags.supported_protocols.metadata: bytes at byte 23 is null"),
    (51, "half a uuid", ASSIGNMENT_KEY, "0000 02 0011223344556677", Truncated, "value.topic_partitions.topic_id: uuid of 16 bytes expected at byte 3, 8 left"),
    # Tags.
    (60, "a tag twice", EPOCH_KEY, "0000 00000001 02 01 00 01 00", Invalid, "value.tags: tag 1 at byte 9 follows tag 1; tags ascend"),
    (61, "tags that descend", EPOCH_KEY, "0000 00000001 02 05 00 04 00", Invalid, "value.tags: tag 4 at byte 9 follows tag 5; tags ascend"),
    (62, "no number of tags", EPOCH_KEY, "0000 00000001", Truncated, "value.tags: varint expected at byte 6"),
    (63, "fewer tags than announced", EPOCH_KEY, "0000 00000001 ffffffff0f 01 00", Truncated, "value.tags: varint expected at byte 13"),
    (64, "a tag without a size", EPOCH_KEY, "0000 00000001 01 00", Truncated, "value.tags: varint expected at byte 8"),
    (65, "an unknown tag longer than the value", EPOCH_KEY, "0000 00000001 01 05 02 00", Truncated, "value.tags: tag 5 of 2 bytes expected at byte 9, 1 left"),
    (66, "a known tag longer than the value", EPOCH_KEY, "0000 00000001 01 00 08 00", Truncated, "value.tags: tag 0 of 8 bytes expected at byte 9, 1 left"),
    (67, "a known tag whose value is shorter than it says", EPOCH_KEY, "0000 00000001 01 00 09 000000000000002a 00", Invalid, "value.tags: tag 0 (metadata_hash) declares 9 bytes at byte 9, its value takes 8"),
    (68, "a byte behind the tags", EPOCH_KEY, "0000 00000001 00 00", TrailingBytes, "value: ConsumerGroupMetadataValue ends at byte 7, 1 bytes follow"),
    (69, "a tagged struct without the rest of it", MEMBER_KEY, f"{MEMBER} 01 00 01 01", Truncated, "value.tags.session_timeout_ms: int32 of 4 bytes expected at byte 17"),
    (70, "a tagged struct that is null and then goes on", MEMBER_KEY, f"{MEMBER} 01 00 02 00 00", Invalid, "value.tags: tag 0 (classic_member_metadata) declares 2 bytes at byte 16, its value takes 1"),
    (71, "a tagged field of no bytes", MEMBER_KEY, f"{MEMBER} 01 00 00", Truncated, "value.tags: varint expected at byte 16"),
    (72, "an endpoint without the rest of it", STREAMS_MEMBER_KEY, "0000 00 00 01 01 00000000 00000000 01 01 02 68", Truncated, "value.user_endpoint.port: uint16"),
    (73, "an endpoint without its first byte", STREAMS_MEMBER_KEY, "0000 00 00 01 01 00000000 00000000 01", Truncated, "value.user_endpoint: int8 of 1 bytes expected at byte 15"),
]  # fmt: skip


def refused(key: str | None, value: str | None, *, control: bool = False) -> WireError:
    raw_key = None if key is None else bytes.fromhex(key)
    raw_value = None if value is None else bytes.fromhex(value)
    entry = decode(raw_key, raw_value, control=control)
    assert isinstance(entry, Undecodable), entry
    assert (entry.key, entry.value) == (raw_key, raw_value)
    assert entry.error.kind in KINDS
    return entry.error


@pytest.mark.parametrize(("number", "why", "key", "value", "kind", "says"), ROWS, ids=lambda part: _row_id(part))
def test_refused(number: int, why: str, key: str | None, value: str | None, kind: type[WireError], says: str) -> None:
    error = refused(key, value)
    assert type(error) is kind, f"row {number}: {why}"
    assert str(error).startswith(says), f"row {number}: {why}"


def _row_id(part: object) -> str | None:
    return str(part) if isinstance(part, int) else ""


def test_a_tag_within_its_size_only() -> None:
    """A size that is too small for the value: the field may not run into the bytes of what follows."""
    error = refused(EPOCH_KEY, "0000 00000001 02 00 04 00000000 05 04 00000000")
    assert str(error).startswith("value.tags: tag 0 (metadata_hash) declares 4 bytes at byte 9, its value takes 8")


def test_every_kind_has_a_row() -> None:
    # What is decoded and cannot be applied is told likewise, and no bytes are.
    assert {kind.kind for *_, kind, _ in ROWS} == set(KINDS) - {InternalFault.kind}
    assert len({number for number, *_ in ROWS}) == len(ROWS)


# A KIP-848 member whose nullable texts are null.
NULLS = ConsumerGroupMemberMetadataValue(
    instance_id=None, rack_id=None, subscribed_topic_regex=None, server_assignor=None
)

# Number, why, key, value, what it stands for. What is odd and still right: readers must not be too strict.
ACCEPTED: list[tuple[int, str, str, str, object]] = [
    (1, "a varint longer than need be", COMMIT_KEY, f"{COMMIT_4} 8100 {TIME} 00", OffsetCommitValue(42, 7, "", 1795246095369)),
    (2, "a tag at its default", COMMIT_KEY, f"{COMMIT_4} 01 {TIME} 01 00 10" + "00" * 16, OffsetCommitValue(42, 7, "", 1795246095369)),
    (3, "an unknown tag before and behind", EPOCH_KEY, "0000 00000001 02 07 01 aa ffffffff0f 00", ConsumerGroupMetadataValue(1, unknown_tags=((7, b"\xaa"), (0xFFFFFFFF, b"")))),
    (4, "a classic member that is null: a tagged struct's null is the varint 0, not the byte -1", MEMBER_KEY, f"{MEMBER} 01 00 01 00", replace(NULLS, classic_member_metadata=None)),
    (5, "a missing classic member is an empty one", MEMBER_KEY, f"{MEMBER} 00", NULLS),
    (6, "the same, written out", MEMBER_KEY, f"{MEMBER} 01 00 07 01 00000000 01 00", NULLS),
    (7, "a NUL in a text", COMMIT_KEY, f"{COMMIT_0} 0001 00 {TIME}", OffsetCommitValue(42, -1, "\0", 1795246095369)),
]  # fmt: skip


@pytest.mark.parametrize(("number", "why", "key", "value", "expected"), ACCEPTED, ids=lambda part: _row_id(part))
def test_accepted(number: int, why: str, key: str, value: str, expected: object) -> None:
    entry = decode(bytes.fromhex(key), bytes.fromhex(value))
    assert isinstance(entry, Record), f"row {number}: {why}: {entry}"
    assert entry.value == expected, f"row {number}: {why}"


# Number, why, key, value, what the fields stand for that the bytes do not have: Kafka's own defaults.
DEFAULTS: list[tuple[int, str, str, str, dict[str, object]]] = [
    (1, "a commit before leader epochs and after expiry", COMMIT_KEY, f"{COMMIT_0} 0000 {TIME}", {"leader_epoch": -1, "expire_timestamp": -1, "topic_id": bytes(16)}),
    (2, "a group before its state's timestamp", GROUP_KEY, f"{GROUP_0} ffff ffff 00000001 0000 0000 0000 00000000 00000000 00000000", {"current_state_timestamp": -1, "members": (MemberMetadata("", None, "", "", -1, 0, b"", b""),)}),
    (3, "a streams group without tags", STREAMS_KEY, "0000 00000001 0000000000000002 00", {"metadata_hash": 2, "validated_topology_epoch": -1, "last_assignment_configs": ()}),
    (4, "a consumer group of Kafka 4.0", EPOCH_KEY, "0000 00000001 00", {"epoch": 1, "metadata_hash": 0}),
    (5, "a target assignment before Kafka 4.3", "0006 0001 67", "0000 00000001 00", {"assignment_epoch": 1, "assignment_timestamp": 0}),
    (6, "partitions without assignment epochs", CURRENT_KEY, "0000 00000001 00000000 00 02" + "00" * 16 + "01 00 01 00", {"assigned_partitions": (OwnedTopicPartitions(ZERO_UUID, (), ()),)}),
]  # fmt: skip


@pytest.mark.parametrize(("number", "why", "key", "value", "fields"), DEFAULTS, ids=lambda part: _row_id(part))
def test_defaults(number: int, why: str, key: str, value: str, fields: dict[str, object]) -> None:
    entry = decode(bytes.fromhex(key), bytes.fromhex(value))
    assert isinstance(entry, Record), f"row {number}: {why}: {entry}"
    assert {name: getattr(entry.value, name) for name in fields} == fields, f"row {number}: {why}"


# Control records, as the log marks them. Number, why, key, value, what comes.
MARKERS: list[tuple[int, str, str | None, str | None, DecodedRecord | type[WireError]]] = [
    (1, "a commit, as a broker wrote it", "0000 0001", "0000 00000000", TransactionMarker("commit", 0)),
    (2, "an abort, as a broker wrote it", "0000 0000", "0000 00000000", TransactionMarker("abort", 0)),
    (3, "an epoch", "0000 0001", "0000 7fffffff", TransactionMarker("commit", 2**31 - 1)),
    (4, "a newer version may append", "0001 0001 ff", "0001 00000005 ff", TransactionMarker("commit", 5)),
    (5, "a leader change has no place in this topic", "0000 0002", "0000 00000000", UnknownKeyType),
    (6, "a type is signed", "0000 ffff", "0000 00000000", UnknownKeyType),
    (7, "a key cut short", "0000 00", "0000 00000000", Truncated),
    (8, "an empty key", "", "0000 00000000", Truncated),
    (9, "a value cut short", "0000 0001", "0000 000000", Truncated),
    (10, "an empty value", "0000 0001", "", Truncated),
    (11, "no key", None, "0000 00000000", Invalid),
    (12, "no value", "0000 0001", None, Invalid),
]


@pytest.mark.parametrize(("number", "why", "key", "value", "expected"), MARKERS, ids=lambda part: _row_id(part))
def test_control_records(
    number: int, why: str, key: str | None, value: str | None, expected: DecodedRecord | type[WireError]
) -> None:
    if isinstance(expected, type):
        assert type(refused(key, value, control=True)) is expected, f"row {number}: {why}"
        return
    assert key is not None
    assert value is not None
    entry = decode(bytes.fromhex(key), bytes.fromhex(value), control=True)
    assert entry == expected, f"row {number}: {why}"


def test_a_marker_is_not_taken_for_a_record_nor_the_other_way_round() -> None:
    """The key of a commit marker starts like an offset commit of type 0: only the log's flag tells them apart."""
    assert type(refused("0000 0001", "0000 00000000")) is Truncated
    assert decode(b"\0\0\0\1", bytes(6), control=True) == TransactionMarker("commit", 0)


# Writers. Number, why, key type, value, version, what it says.
WRITERS = [
    (1, "a text that no reader takes", 1, OffsetCommitValue(metadata="é" * 16_384), 4, "string of 32768 bytes, at most 32767"),
    (2, "the same in classic form", 1, OffsetCommitValue(metadata="x" * 32_768), 3, "string of 32768 bytes, at most 32767"),
    (3, "null where the version has no null", 2, GroupMetadataValue(protocol_type=None), 3, "null given"),  # type: ignore[arg-type]
    (4, "null bytes", 2, GroupMetadataValue(members=(MemberMetadata(subscription=None),)), 3, "null given"),  # type: ignore[arg-type]
    (5, "a null array", 2, GroupMetadataValue(members=None), 4, "null given"),  # type: ignore[arg-type]
    (6, "a version beyond the newest", 1, OffsetCommitValue(), 5, "version 5 of offset_commit; known are 0 to 4"),
    (7, "a negative version", 1, OffsetCommitValue(), -1, "version -1 of offset_commit; known are 0 to 4"),
]  # fmt: skip


@pytest.mark.parametrize(("number", "why", "key_type", "value", "version", "says"), WRITERS)
def test_a_writer_refuses(number: int, why: str, key_type: int, value: object, version: int, says: str) -> None:
    with pytest.raises(WireError, match=says):
        encode_value(RECORD_TYPES[key_type], value, version)  # type: ignore[arg-type]


def test_the_longest_text_is_written_and_read() -> None:
    value = OffsetCommitValue(metadata="x" * MAX_STRING)
    raw = encode_value(RECORD_TYPES[1], value, 4)
    assert decode(bytes.fromhex(COMMIT_KEY), raw).value == value  # type: ignore[union-attr]


def test_an_error_that_is_kept_holds_no_bytes() -> None:
    found = decode(b"\0\2" + (30_000).to_bytes(2, "big") + b"\xff" * 30_000, None)
    assert isinstance(found, Undecodable)
    assert (found.error.__context__, found.error.__cause__, found.error.__traceback__) == (None, None, None)
    assert len(str(found.error)) < 100


def test_our_own_mistakes_are_assertions() -> None:
    with pytest.raises(AssertionError, match="has keys of OffsetCommitKey"):
        encode_key(RECORD_TYPES[1], GroupMetadataKey("g"))
    with pytest.raises(AssertionError, match="has values of OffsetCommitValue"):
        encode_value(RECORD_TYPES[1], GroupMetadataValue(), 0)
    short = ShareGroupCurrentMemberAssignmentValue(assigned_partitions=(TopicPartitions(Uuid(b"short")),))
    with pytest.raises(AssertionError, match="16 bytes"):
        encode_value(RECORD_TYPES[14], short, 0)


def test_an_error_says_where() -> None:
    error = WireError("what came")
    assert str(error) == "what came"
    error.prepend_path("field")
    error.prepend_path("message")
    assert str(error) == "message.field: what came"
    assert error.path == ("message", "field")
    assert isinstance(error, ValueError)
