"""A group's image as the general encoder, and as a broker, writes it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from agent.core.protocol.states import GroupState
from agent.core.wire import Record, Tombstone, WireError, decode
from agent.core.wire.classic import GroupMetadataKey, GroupMetadataValue, MemberMetadata
from agent.core.wire.payloads import (
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
    TopicPartition,
    decode_payload,
)
from agent.simulation.groups.messages import ClassicGroupImage, ClassicMemberImage
from tests.unit.simulation.generator.made import Wants, encode_image

NAMES = st.text(max_size=8)
SLOTS = st.lists(st.tuples(st.sampled_from(["orders", "clicks", "é"]), st.integers(0, 50)), max_size=8).map(tuple)
MEMBERS = st.builds(
    ClassicMemberImage,
    NAMES,
    st.none() | NAMES,
    NAMES,
    NAMES,
    st.integers(0, 1 << 30),
    st.integers(0, 1 << 30),
    st.builds(Wants, st.frozensets(NAMES, max_size=4), SLOTS, st.integers(-1, 9)),
    SLOTS,
)
IMAGES = st.builds(
    ClassicGroupImage,
    NAMES,
    st.integers(0, 1 << 40),
    st.integers(0, 1 << 30),
    st.just("consumer"),
    st.none() | NAMES,
    st.none() | NAMES,
    st.sampled_from([GroupState.STABLE, GroupState.EMPTY]),
    st.integers(-1, 1 << 40),
    st.lists(MEMBERS, max_size=4).map(tuple),
)
MEMBER = ClassicMemberImage("m", None, "c", "/h", 1, 2, Wants(frozenset({"b", "a"})), ())
GROUP = ClassicGroupImage("g", 5, 3, "consumer", "range", "m", GroupState.STABLE, 4, (MEMBER,))


def value_of(image: ClassicGroupImage) -> GroupMetadataValue:
    entry = decode(*encode_image(image))
    assert isinstance(entry, Record)
    assert (entry.type.key_type, entry.version, entry.key) == (2, 3, GroupMetadataKey(image.group))
    assert isinstance(entry.value, GroupMetadataValue)
    return entry.value


@given(IMAGES)
def test_the_record_holds_what_the_image_has(image: ClassicGroupImage) -> None:
    value = value_of(image)
    assert (value.generation, value.protocol_type, value.protocol, value.leader, value.current_state_timestamp) == (
        image.generation,
        image.protocol_type,
        image.protocol,
        image.leader,
        image.state_since_ms,
    )
    for member, it in zip(value.members, image.members, strict=True):
        assert member == MemberMetadata(
            it.member_id,
            it.instance_id,
            it.client_id,
            it.client_host,
            it.rebalance_timeout_ms,
            it.session_timeout_ms,
            member.subscription,
            member.assignment,
        )
        version, wanted = decode_payload(ConsumerProtocolSubscription, member.subscription)
        assert (version, wanted.user_data) == (3, None)
        assert list(wanted.topics) == sorted(it.metadata.topics)
        assert (wanted.generation_id, wanted.rack_id) == (it.metadata.generation, None)
        assert by_topic(wanted.owned_partitions) == slots_by_topic(it.metadata.owned)
        version, given_ = decode_payload(ConsumerProtocolAssignment, member.assignment)
        assert (version, given_.user_data) == (3, None)
        assert by_topic(given_.assigned_partitions) == slots_by_topic(it.assignment)


def by_topic(partitions: tuple[TopicPartition, ...]) -> dict[str, list[int]]:
    out = {it.topic: list(it.partitions) for it in partitions}
    assert len(out) == len(partitions), "each topic once"
    return out


def slots_by_topic(slots: tuple[tuple[str, int], ...]) -> dict[str, list[int]]:
    return {topic: [number for name, number in slots if name == topic] for topic, _ in slots}


def test_a_dead_group_is_a_tombstone() -> None:
    key, value = encode_image(replace(GROUP, state=GroupState.DEAD, members=()))
    assert value is None
    entry = decode(key, value)
    assert isinstance(entry, Tombstone)
    assert entry.key == GroupMetadataKey("g")


def test_a_group_as_it_is_created_is_what_a_broker_writes() -> None:
    """The value of the capture's first group: generation 0, nobody joined yet."""
    image = ClassicGroupImage("stock-coop", 7, 0, None, None, None, GroupState.EMPTY, 1795246108068, ())
    assert encode_image(image) == (
        bytes.fromhex("0002 000a") + b"stock-coop",
        bytes.fromhex("0003 0000 00000000 ffff ffff") + (1795246108068).to_bytes(8) + bytes(4),
    )


def test_another_protocols_bytes_are_taken_as_they_are() -> None:
    member = replace(MEMBER, metadata=b"worker", assignment=b"tasks")
    (it,) = value_of(replace(GROUP, protocol_type="connect", members=(member,))).members
    assert (it.subscription, it.assignment) == (b"worker", b"tasks")


@pytest.mark.parametrize("changed", [{"metadata": b"worker"}, {"assignment": b"tasks"}])
def test_what_another_protocol_has_in_place_of_bytes_is_refused(changed: dict[str, bytes]) -> None:
    member = replace(MEMBER, **changed)
    with pytest.raises(TypeError, match=r"expected bytes of a member of a mirror-maker group, got (tuple|Wants)"):
        encode_image(replace(GROUP, protocol_type="mirror-maker", members=(member,)))


def test_a_name_that_does_not_fit_is_told() -> None:
    with pytest.raises(WireError, match="at most 32767 can be written"):
        encode_image(replace(GROUP, group="x" * 32_768))
