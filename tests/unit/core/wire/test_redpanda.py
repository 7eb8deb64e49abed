"""Records as Redpanda writes them, built by hand from the layout in its public source; no Redpanda wrote these.

`src/v/kafka/server/group_metadata.cc` of redpanda-data/redpanda (December 2024): `group_metadata_key::encode`,
`group_metadata_value::encode`, `member_state::encode`, `offset_metadata_key::encode`,
`offset_metadata_value::encode`, `maybe_unwrap_from_iobuf`; primitives as `src/v/kafka/protocol/wire.h`
(`encoder::write`): big-endian, int16 lengths of strings, int32 lengths of bytes and arrays, -1 for what is not there.
"""

from __future__ import annotations

import pytest

from agent.core.wire import Invalid, Record, Tombstone, TrailingBytes, Truncated, Undecodable, decode, encode_key
from agent.core.wire.classic import GroupMetadataValue, MemberMetadata
from agent.core.wire.offset_commit_fastpath import canonical_key, commit_key
from agent.core.wire.offsets import OffsetCommitKey, OffsetCommitValue
from agent.core.wire.records import unwrapped_key
from tests.unit.core.redpanda import group_key, group_value, member, offset_key, offset_value, wrapped

AT = 1_795_000_000_000


def test_a_group_has_its_version_in_front_of_each_member() -> None:
    value = group_value(
        "consumer",
        7,
        "range",
        "m-1",
        AT,
        member("m-1", None, "c", "10.0.0.1", 300_000, 45_000, b"\0\1", b"\0\2\3"),
        member("m-2", "static", "c", "10.0.0.2", 300_000, 10_000, b"", b""),
    )
    assert value.hex().startswith("00030008636f6e73756d657200000007"), "version, protocol type, generation"
    entry = decode(group_key("payments"), value)
    assert isinstance(entry, Record)
    assert (entry.type.name, entry.version) == ("group_metadata", 3)
    assert entry.value == GroupMetadataValue(
        "consumer",
        7,
        "range",
        "m-1",
        AT,
        (
            MemberMetadata("m-1", None, "c", "10.0.0.1", 300_000, 45_000, b"\0\1", b"\0\2\3"),
            MemberMetadata("m-2", "static", "c", "10.0.0.2", 300_000, 10_000, b"", b""),
        ),
    )


# One of a single character would read as Kafka's of three: coordinators make them of a client's name and a UUID.
@pytest.mark.parametrize("member_id", ["", "abc", "consumer-1-0f1e2d3c-4b5a-6978-8796-a5b4c3d2e1f0", "x" * 300])
@pytest.mark.parametrize("instance_id", [None, "", "abc", "one-7"])
def test_members_of_the_two_forms_are_not_taken_for_each_other(member_id: str, instance_id: str | None) -> None:
    it = MemberMetadata(member_id, instance_id, "client", "/10.0.0.1", 300_000, 45_000, b"\0\0\0\0", b"\0\0")
    value = GroupMetadataValue("consumer", 1, "range", member_id, AT, (it, it))
    form = member(member_id, instance_id, "client", "/10.0.0.1", 300_000, 45_000, b"\0\0\0\0", b"\0\0")
    entry = decode(group_key("g"), group_value("consumer", 1, "range", member_id, AT, form, form))
    assert isinstance(entry, Record)
    assert entry.value == value
    out = bytearray(b"\0\3")
    value.write(out, 3)
    kafkas = decode(group_key("g"), bytes(out))
    assert isinstance(kafkas, Record)
    assert kafkas.value == value


def test_an_empty_group_is_as_kafka_writes_it() -> None:
    entry = decode(group_key("g"), group_value("consumer", 8, None, None, AT))
    assert isinstance(entry, Record)
    assert entry.value == GroupMetadataValue("consumer", 8, None, None, AT, ())
    out = bytearray(b"\0\3")
    entry.value.write(out, 3)
    assert bytes(out) == group_value("consumer", 8, None, None, AT)


def test_what_is_neither_form_is_told_by_kafkas() -> None:
    whole = group_value("consumer", 7, "range", "m", AT, member("m", None, "c", "h", 1, 2, b"", b""))
    for end in range(2, len(whole)):
        entry = decode(group_key("g"), whole[:end])
        assert isinstance(entry, Undecodable)
        assert type(entry.error) in (Truncated, Invalid, TrailingBytes)
    newer = whole.replace(b"\0\3\0\1m\xff\xff", b"\0\4\0\1m\xff\xff")
    assert newer != whole
    assert isinstance(decode(group_key("g"), newer), Undecodable), "a member of another version is not guessed at"


def test_a_commit_is_of_version_3_and_with_an_expiry_of_version_1() -> None:
    key = offset_key("payments", "orders", 5)
    assert key == commit_key("payments", "orders", 5)
    entry = decode(key, offset_value(42, 9, "note", AT))
    assert isinstance(entry, Record)
    assert (entry.version, entry.value) == (3, OffsetCommitValue(42, 9, "note", AT, -1))
    entry = decode(key, offset_value(42, 9, "", AT, expiry=AT + 86_400_000))
    assert isinstance(entry, Record)
    assert (entry.version, entry.value) == (1, OffsetCommitValue(42, -1, "", AT, AT + 86_400_000)), "no leader epoch"


@pytest.mark.parametrize("group", ["g", "payments", "x" * 248, "größe", "y" * 1_000])
def test_a_wrapped_key_is_the_same_key(group: str) -> None:
    for key in (group_key(group), offset_key(group, "orders", 5), offset_key(group, "t" * 249, 2**31 - 1)):
        assert unwrapped_key(key) == key
        assert unwrapped_key(wrapped(key)) == key
        plain, unwrapped = decode(key, None), decode(wrapped(key), None)
        assert isinstance(plain, Tombstone)
        assert unwrapped == plain
        assert encode_key(plain.type, plain.key) == key
        if isinstance(plain.key, OffsetCommitKey):
            assert canonical_key(wrapped(key)) == canonical_key(key) == key


@pytest.mark.parametrize("length", [0, 1, 2, 255, 256, 257, 512, 768, 32_512, 32_767])
def test_no_key_of_a_classic_group_is_taken_for_a_wrapped_one(length: int) -> None:
    for topic in (0, 1, 249, 250, 32_767):
        for key in (group_key("g" * length), offset_key("g" * length, "t" * topic, 0)):
            assert unwrapped_key(key) is key
