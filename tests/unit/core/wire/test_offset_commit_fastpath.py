"""The offset-commit path against the general way: whatever the bytes, the two agree."""

from __future__ import annotations

import struct

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from agent.core.wire import WireError, encode_key, encode_value
from agent.core.wire.classic import GroupMetadataValue
from agent.core.wire.offset_commit_fastpath import (
    Commit,
    canonical_key,
    commit_from_message,
    commit_key,
    commit_value,
    has_fixed_layout,
    have_one_fixed_layout,
    is_commit_key,
    one_slot,
    read_commit,
    read_commit_key,
    read_commit_slot,
    slot_by_key_end,
    slot_of,
    topic_id_of,
)
from agent.core.wire.offsets import OffsetCommitKey, OffsetCommitValue
from agent.core.wire.primitives import ZERO_UUID, Uuid
from agent.core.wire.records import RECORD_TYPES, Tombstone, decode, decode_key, decode_value
from tests import examples
from tests.unit.core.wire.strategies import messages

LEGACY, COMMIT = RECORD_TYPES[0], RECORD_TYPES[1]

TOPIC_ID = Uuid(bytes(range(16)))
V3 = bytes.fromhex("0003 000000000000002a 00000007 0000 000001a1fd017c09")
V4 = bytes.fromhex("0004 000000000000002a 00000007 01 000001a1fd017c09 00")
V4_TOPIC_ID = V4[:-1] + bytes.fromhex("01 00 10") + TOPIC_ID
LAYOUTS = {"v3": V3, "v4": V4, "v4 with a topic id": V4_TOPIC_ID}

# As near to the fixed layouts as random bytes get: their sizes and versions, with anything at the places that decide.
NEAR = st.builds(
    lambda version, body, size: struct.pack(">h", version) + body[:12] + body[12 : size - 2],
    st.integers(-1, 5),
    st.lists(st.sampled_from([0, 1, 2, 16, 17, 255]), min_size=41, max_size=41).map(bytes),
    st.integers(23, 43),
)
REAL = st.integers(0, 4).flatmap(
    lambda version: messages(OffsetCommitValue, version).map(lambda value: encode_value(COMMIT, value, version))
)
LAID_OUT: SearchStrategy[bytes] = st.builds(
    lambda value, at, by: value[:at] + by + value[at + len(by) :],
    st.sampled_from([V3, V4, V4_TOPIC_ID]),
    st.sampled_from([2, 6, 10, 16, 26]),
    st.binary(max_size=4),
)
ANY = st.binary(max_size=60) | NEAR | REAL | LAID_OUT


def general(value: bytes) -> Commit | None:
    try:
        return commit_from_message(decode_value(COMMIT, value)[1])
    except WireError:
        return None


def fast(value: bytes) -> Commit | None:
    try:
        return read_commit(value)
    except WireError:
        return None


@settings(max_examples=examples(1500), deadline=None)
@given(ANY)
@example(b"")
@example(V3)
@example(V4)
@example(V4_TOPIC_ID)
def test_any_bytes_are_read_as_the_general_way_reads_them(value: bytes) -> None:
    commit = general(value)
    assert fast(value) == commit
    if has_fixed_layout(value):
        assert commit is not None, "plain means that it decodes"
        assert commit.metadata == ""


@settings(max_examples=examples(500), deadline=None)
@given(messages(OffsetCommitValue, 3) | messages(OffsetCommitValue, 4), st.sampled_from([3, 4]))
def test_every_commit_without_metadata_and_unknown_tags_is_plain(value: OffsetCommitValue, version: int) -> None:
    """Otherwise the path is right and never taken."""
    raw = encode_value(COMMIT, value, version)
    tags = version == 4 and value.unknown_tags
    assert has_fixed_layout(raw) == (value.metadata == "" and not tags)


def test_each_layout_holds_what_it_says() -> None:
    # Written by hand from the schema, not by our writer.
    assert read_commit(V3) == read_commit(V4) == Commit(42, 7, "", 1795246095369, -1, ZERO_UUID)
    assert read_commit(V4_TOPIC_ID) == Commit(42, 7, "", 1795246095369, -1, TOPIC_ID)
    assert [has_fixed_layout(value) for value in LAYOUTS.values()] == [True] * 3


@pytest.mark.parametrize("value", LAYOUTS.values(), ids=LAYOUTS)
def test_any_byte_of_a_real_commit_changed(value: bytes) -> None:
    """Every place times every byte: the whole neighbourhood, not a sample."""
    for at in range(len(value)):
        for byte in range(256):
            changed = value[:at] + bytes([byte]) + value[at + 1 :]
            assert fast(changed) == general(changed)
            assert not has_fixed_layout(changed) or general(changed) is not None
            # One column of bytes at a time must see a difference in any row.
            same_layout = has_fixed_layout(changed) and changed[:2] == value[:2]
            assert have_one_fixed_layout([value, changed, value]) == same_layout
            assert have_one_fixed_layout([changed, value]) == same_layout


@pytest.mark.parametrize("value", LAYOUTS.values(), ids=LAYOUTS)
def test_a_commit_cut_or_lengthened_is_not_plain(value: bytes) -> None:
    for changed in [*(value[:end] for end in range(len(value))), value + b"\x00"]:
        assert not has_fixed_layout(changed)
        assert fast(changed) is None


@settings(max_examples=examples(1000), deadline=None)
@given(
    st.lists(LAID_OUT | NEAR | REAL | st.none(), min_size=1, max_size=5)
    | st.builds(lambda value, count: [value] * count, LAID_OUT, st.integers(1, 4))
)
def test_all_plain_is_every_value_plain_in_one_layout(values: list[bytes | None]) -> None:
    layouts = {value and (len(value), value[:2]) for value in values}
    each = all(value is not None and has_fixed_layout(value) for value in values)
    assert have_one_fixed_layout(values) == (each and len(layouts) == 1)


ALL_PLAIN = [
    (1, "one value", [V4], True),
    (2, "the same layout with other contents", [V4_TOPIC_ID, V4_TOPIC_ID[:26] + bytes(16)], True),
    (3, "version 3 and 4 have one size but two layouts", [V3, V4], False),
    (4, "and the other way round", [V4, V3], False),
    (5, "a tombstone first", [None, V4], False),
    (6, "a tombstone later", [V4, None], False),
    (
        7,
        "three commits cut at the wrong places: the total and every column are right",
        [V4, (V4 * 2)[:23], (V4 * 2)[23:]],
        False,
    ),
    (8, "another total", [V4, V4_TOPIC_ID], False),
    (9, "a first value that is not plain, however many like it", [b"", b""], False),
    (10, "metadata in a later value", [V3, V3[:14] + b"\x00\x01" + V3[16:]], False),
]


@pytest.mark.parametrize(("number", "why", "values", "expected"), ALL_PLAIN)
def test_all_plain(number: int, why: str, values: list[bytes | None], expected: bool) -> None:
    assert have_one_fixed_layout(values) is expected, f"row {number}: {why}"


KEYS = [
    (1, "an offset commit", b"\x00\x01\x00\x01g\x00\x01t\x00\x00\x00\x00", True),
    (2, "one from before Kafka 0.9", b"\x00\x00\x00\x01g\x00\x01t\x00\x00\x00\x00", True),
    (3, "malformed behind its type: the general way says so", b"\x00\x01", True),
    (4, "a classic group", b"\x00\x02\x00\x01g", False),
    (5, "a type of one byte", b"\x00", False),
    (6, "an empty key", b"", False),
    (7, "no key", None, False),
    (8, "256, whose second byte is 0", b"\x01\x00", False),
]


@pytest.mark.parametrize(("number", "why", "key", "expected"), KEYS)
def test_is_commit_key(number: int, why: str, key: bytes | None, expected: bool) -> None:
    assert is_commit_key(key) is expected, f"row {number}: {why}"


@given(messages(OffsetCommitKey, 0))
def test_a_canonical_key_names_the_same_position(key: OffsetCommitKey) -> None:
    raw = encode_key(COMMIT, key)
    assert canonical_key(encode_key(LEGACY, key)) == canonical_key(raw) == raw
    assert decode_key(raw) == (COMMIT, key)


@given(st.binary(max_size=12) | messages(OffsetCommitKey, 0).map(lambda key: encode_key(LEGACY, key)))
def test_a_canonical_key_decodes_where_the_key_does(raw: bytes) -> None:
    legacy = b"\x00\x00" + raw[2:]
    decoded: list[object] = []
    for key in (legacy, canonical_key(legacy)):
        try:
            decoded.append(decode_key(key)[1])
        except WireError as error:
            decoded.append(str(error))
    assert decoded[0] == decoded[1]


@settings(max_examples=examples(300), deadline=None)
@given(messages(LEGACY.value, 0) | messages(OffsetCommitValue, 1))
def test_a_legacy_value_is_read_as_its_own_type_reads_it(value: object) -> None:
    if isinstance(value, OffsetCommitValue):
        raw = encode_value(COMMIT, value, 1)
        assert read_commit(raw).expire_ms == value.expire_timestamp
        return
    assert isinstance(value, LEGACY.value)
    raw = encode_value(LEGACY, value, 0)
    assert read_commit(raw) == commit_from_message(value) == commit_from_message(decode_value(LEGACY, raw)[1])


def test_commit_of_takes_nothing_but_commits() -> None:
    with pytest.raises(TypeError, match="got GroupMetadataValue"):
        commit_from_message(GroupMetadataValue())


@given(st.binary(max_size=60) | messages(OffsetCommitKey, 0).map(lambda key: encode_key(COMMIT, key)))
@example(b"\x00\x01")
@example(b"\x00\x01\x00\x01g\x00\x01t\x00\x00\x00\x07")
@example(b"\x00\x00\x00\x01g\x00\x01t\x00\x00\x00\x07")
@example(b"\x00\x01\xff\xff\x00\x01t\x00\x00\x00\x07")
@example(b"\x00\x01\x00\x01g\xff\xfft\x00\x00\x00\x07")
@example(b"\x00\x01\x00\x01\xff\x00\x01t\x00\x00\x00\x07")
@example(b"\x00\x01\x00\x01g\x00\x01t\x00\x00\x00\x07\x00")
@example(b"\x00\x01\x00\x01g\x00\x01t\x00\x00\x00")
@example(b"\x00\x01\x00\x00\x00\xfa" + b"t" * 250 + b"\x00\x00\x00\x07")  # begins with its own length
def test_keys_are_read_as_the_general_way_reads_them(raw: bytes) -> None:
    """The quick way answers just where the general way finds a well-formed key of type 1, and the same."""
    entry = decode(raw, None)
    if isinstance(entry, Tombstone) and entry.type.key_type == 1:
        assert isinstance(entry.key, OffsetCommitKey)
        assert read_commit_key(raw) == (entry.key.group, entry.key.topic, entry.key.partition)
    else:
        assert read_commit_key(raw) is None


def test_no_key_is_no_commit_key() -> None:
    assert read_commit_key(None) is None


def test_a_position_is_one_object_in_the_keys_of_all_groups() -> None:
    slots = [read_commit_slot(commit_key(group, "t", 7)) for group in ("g", "another")]
    assert [it[0] for it in slots if it is not None] == ["g", "another"]
    one, other = (it[1] for it in slots if it is not None)
    assert one is other
    assert one == ("t", 7)


def test_what_strangers_write_takes_bounded_memory() -> None:
    """Names as long as a key may have them, and more positions than any cluster has."""
    long_name = "x" * 30_000
    assert read_commit_slot(commit_key("g", long_name, 1)) == ("g", (long_name, 1))
    assert slot_of(long_name, 1) == one_slot[long_name, 1] == (long_name, 1)
    assert max(map(len, slot_by_key_end)) <= 300
    assert max(len(topic) for topic, _ in one_slot) <= 300
    for partition in range((1 << 16) + 10):
        read_commit_slot(commit_key("g", "t", partition))
    assert len(slot_by_key_end) <= 1 << 16
    assert read_commit_slot(commit_key("g", "t", 3)) == ("g", ("t", 3))


NAMES = st.text(max_size=20) | st.sampled_from(["", "x" * 32_767, "é" * 100])
INT32, INT64 = st.integers(-(1 << 31), (1 << 31) - 1), st.integers(-(1 << 63), (1 << 63) - 1)


@given(NAMES, NAMES, INT32)
def test_a_commits_key_is_written_as_the_general_way_writes_it(group: str, topic: str, partition: int) -> None:
    key = commit_key(group, topic, partition)
    assert key == encode_key(COMMIT, OffsetCommitKey(group, topic, partition))
    assert read_commit_key(key) == (group, topic, partition)


@given(INT64, INT64, INT32, NAMES, st.just(ZERO_UUID) | st.binary(min_size=16, max_size=16).map(Uuid))
def test_a_commits_value_is_written_as_the_general_way_writes_it(
    offset: int, commit_ms: int, epoch: int, metadata: str, topic_id: Uuid
) -> None:
    value = commit_value(offset, commit_ms, epoch, metadata, topic_id)
    assert value == encode_value(COMMIT, OffsetCommitValue(offset, epoch, metadata, commit_ms, topic_id=topic_id), 4)
    assert read_commit(value) == Commit(offset, epoch, metadata, commit_ms, -1, topic_id)
    assert topic_id_of(value) == topic_id
    assert has_fixed_layout(value) == (metadata == "")


@pytest.mark.parametrize("names", [("x" * 32_768, "t"), ("g", "é" * 16_384)])
def test_a_name_too_long_for_a_key_is_told(names: tuple[str, str]) -> None:
    with pytest.raises(WireError, match="string of 32768 bytes, at most 32767 can be written"):
        commit_key(*names, 0)
