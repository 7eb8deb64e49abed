"""Members' payloads: the rule for versions that are newer than one knows, leniency, and Connect's three versions."""

# ruff: noqa: E501 - the tables hold one row a line, to be read down their columns

from __future__ import annotations

import base64
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from random import Random

import pytest
from msgspec.structs import replace

from agent.core.wire import Invalid, TrailingBytes, Truncated, UnknownVersion, WireError, decode
from agent.core.wire.classic import GroupMetadataKey, GroupMetadataValue, MemberMetadata
from agent.core.wire.json_form import entry_json, payload_json, uuid_text
from agent.core.wire.payloads import (
    ConnectAssignment,
    ConnectorTasks,
    ConnectWorkerState,
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
    TopicPartition,
    decode_payload,
    encode_payload,
)
from agent.core.wire.primitives import ZERO_UUID, Uuid
from agent.core.wire.records import RECORD_TYPES, Record
from agent.core.wire.schema import INT32, MOST_REPEATED_BYTES, STRING, Message, array, wire

# A subscription to "t" without user data, owning t-0 of generation 7, in rack "r"; its version goes in front.
SUBSCRIPTION_3 = bytes.fromhex("00000001 0001 74 ffffffff 00000001 0001 74 00000001 00000000 00000007 0001 72")
SUBSCRIPTION = ConsumerProtocolSubscription(("t",), None, (TopicPartition("t", (0,)),), 7, "r")
ASSIGNMENT_3 = bytes.fromhex("00000001 0001 74 00000002 00000000 00000001 00000001 ff")
ASSIGNMENT = ConsumerProtocolAssignment((TopicPartition("t", (0, 1)),), b"\xff")

# Kafka Connect's schemas: ConnectProtocol (0), IncrementalCooperativeConnectProtocol (1, 2).
WORKER_0 = bytes.fromhex("0000 0002 7531 000000000000002a")
ASSIGNED_0 = bytes.fromhex(
    "0000 0000 0002 7731 0002 7531 000000000000002a 00000001 0001 63 00000002 ffffffff 00000000"
)
ASSIGNED_1 = bytes.fromhex(
    "0001 0001 0002 7731 0002 7531 000000000000002a ffffffff 00000001 0001 63 00000001 00000003 00000bb8"
)
ASSIGNED_2 = bytes.fromhex("0002 0000 0002 7731 0002 7531 000000000000002a 00000000 ffffffff 00000000")
WORKER_1 = bytes.fromhex("0001 0002 7531 000000000000002a ffffffff")
WORKER_2 = bytes.fromhex("0002 0002 7531 000000000000002a 00000020") + ASSIGNED_2

# Number, why, bytes, version, message.
BY_HAND: list[tuple[int, str, bytes, int, Message]] = [
    (1, "an eager worker", WORKER_0, 0, ConnectWorkerState("u1", 42)),
    (2, "a compatible worker that has nothing yet", WORKER_1, 1, ConnectWorkerState("u1", 42, None)),
    (3, "a sessioned worker with the assignment it has", WORKER_2, 2, ConnectWorkerState("u1", 42, ASSIGNED_2)),
    (4, "task -1 is the connector itself", ASSIGNED_0, 0, ConnectAssignment(0, "w1", "u1", 42, (ConnectorTasks("c", (-1, 0)),))),
    (5, "one task revoked, three seconds of delay, no list of new ones", ASSIGNED_1, 1, ConnectAssignment(1, "w1", "u1", 42, None, (ConnectorTasks("c", (3,)),), 3000)),
    (6, "nothing new, no list of revoked ones", ASSIGNED_2, 2, ConnectAssignment(0, "w1", "u1", 42, (), None, 0)),
    (7, "the newest subscription", b"\0\3" + SUBSCRIPTION_3, 3, SUBSCRIPTION),
    (8, "the oldest has topics and user data only", b"\0\0" + SUBSCRIPTION_3[:11], 0, ConsumerProtocolSubscription(("t",))),
    (9, "an assignment", b"\0\3" + ASSIGNMENT_3, 3, ASSIGNMENT),
    (10, "an assignment is the same in every version", b"\0\0" + ASSIGNMENT_3, 0, ASSIGNMENT),
]  # fmt: skip


@pytest.mark.parametrize(("number", "why", "data", "version", "message"), BY_HAND)
def test_by_hand(number: int, why: str, data: bytes, version: int, message: Message) -> None:
    assert decode_payload(type(message), data) == (version, message), f"row {number}: {why}"
    assert encode_payload(message, version) == data, f"row {number}: {why}"


def test_a_connect_workers_allocation_is_an_assignment() -> None:
    _, worker = decode_payload(ConnectWorkerState, WORKER_2)
    assert worker.allocation is not None
    assert decode_payload(ConnectAssignment, worker.allocation) == (
        2,
        ConnectAssignment(0, "w1", "u1", 42, (), None, 0),
    )


# Number, why, message, bytes, lenient, outcome. KIP-429: new versions only append, so old readers read on.
VERSIONS: list[tuple[int, str, type[Message], bytes, bool, tuple[int, Message] | type[WireError]]] = [
    (1, "version 4 as 3", ConsumerProtocolSubscription, b"\0\4" + SUBSCRIPTION_3, False, (4, SUBSCRIPTION)),
    (2, "version 4 with what we do not know", ConsumerProtocolSubscription, b"\0\4" + SUBSCRIPTION_3 + b"new", False, (4, SUBSCRIPTION)),
    (3, "version 100", ConsumerProtocolSubscription, b"\0\x64" + SUBSCRIPTION_3 + b"new", False, (100, SUBSCRIPTION)),
    (4, "the newest there can be", ConsumerProtocolAssignment, b"\x7f\xff" + ASSIGNMENT_3 + b"new", False, (32767, ASSIGNMENT)),
    (5, "a newer version lacks nothing of the newest known", ConsumerProtocolSubscription, b"\0\4" + SUBSCRIPTION_3[:-1], False, Truncated),
    (6, "a negative version", ConsumerProtocolSubscription, b"\xff\xff" + SUBSCRIPTION_3, False, UnknownVersion),
    (7, "the same, leniently", ConsumerProtocolSubscription, b"\xff\xff" + SUBSCRIPTION_3, True, UnknownVersion),
    (8, "a known version with bytes behind it", ConsumerProtocolSubscription, b"\0\3" + SUBSCRIPTION_3 + b"x", False, TrailingBytes),
    (9, "which Kafka's readers let be", ConsumerProtocolSubscription, b"\0\3" + SUBSCRIPTION_3 + b"x", True, (3, SUBSCRIPTION)),
    (10, "version 0 with a newer one's fields behind it", ConsumerProtocolSubscription, b"\0\0" + SUBSCRIPTION_3, True, (0, ConsumerProtocolSubscription(("t",)))),
    (11, "no bytes: a member that waits for its assignment", ConsumerProtocolAssignment, b"", True, Truncated),
    (12, "half a version", ConsumerProtocolAssignment, b"\0", False, Truncated),
    (13, "topics that are null", ConsumerProtocolSubscription, bytes.fromhex("0000 ffffffff ffffffff"), True, Invalid),
    (14, "a topic that is not UTF-8", ConsumerProtocolSubscription, bytes.fromhex("0000 00000001 0001 ff ffffffff"), True, Invalid),
    (15, "Connect version 3 as 2", ConnectWorkerState, b"\0\3" + WORKER_2[2:] + b"new", False, (3, ConnectWorkerState("u1", 42, ASSIGNED_2))),
    (16, "an eager assignment always has its list", ConnectAssignment, ASSIGNED_0[:20] + b"\xff\xff\xff\xff", False, Invalid),
]  # fmt: skip


@pytest.mark.parametrize(("number", "why", "message", "data", "lenient", "outcome"), VERSIONS)
def test_versions(
    number: int,
    why: str,
    message: type[Message],
    data: bytes,
    lenient: bool,
    outcome: tuple[int, Message] | type[WireError],
) -> None:
    if isinstance(outcome, tuple):
        assert decode_payload(message, data, lenient=lenient) == outcome, f"row {number}: {why}"
        return
    with pytest.raises(WireError, match=f"^{message.__name__}") as caught:
        decode_payload(message, data, lenient=lenient)
    assert type(caught.value) is outcome, f"row {number}: {why}"
    assert caught.value.path[0] == message.__name__


@pytest.mark.parametrize("version", [-1, 4])
def test_a_payload_is_written_in_known_versions_only(version: int) -> None:
    with pytest.raises(UnknownVersion, match=f"version {version}: expected 0 to 3"):
        encode_payload(SUBSCRIPTION, version)


def test_a_payloads_form() -> None:
    assert payload_json(ConsumerProtocolSubscription, b"\0\4" + SUBSCRIPTION_3 + b"new") == {
        "version": 4,
        "topics": ["t"],
        "userData": None,
        "ownedPartitions": [{"topic": "t", "partitions": [0]}],
        "generationId": 7,
        "rackId": "r",
    }
    assert payload_json(ConsumerProtocolSubscription, b"\0\0" + SUBSCRIPTION_3[:11]) == {
        "version": 0,
        "topics": ["t"],
        "userData": None,
    }
    # Bytes behind a known version: as lenient as Kafka's own readers.
    longer = payload_json(ConsumerProtocolAssignment, b"\0\3" + ASSIGNMENT_3 + b"x")
    assert longer == payload_json(ConsumerProtocolAssignment, b"\0\3" + ASSIGNMENT_3)
    assert longer == {"version": 3, "assignedPartitions": [{"topic": "t", "partitions": [0, 1]}], "userData": "/w=="}
    assert payload_json(ConsumerProtocolSubscription, b"not one") is None


MEMBER = MemberMetadata("m", None, "c", "/h", 300_000, 6_000, b"\0\3" + SUBSCRIPTION_3, b"\0\3" + ASSIGNMENT_3)
ODD = replace(MEMBER, subscription=b"junk", assignment=b"")


def group(protocol_type: str) -> Record:
    value = GroupMetadataValue(protocol_type, 1, "range", "m", 5, (MEMBER, ODD))
    return Record(RECORD_TYPES[2], GroupMetadataKey("g"), 3, value)


def test_a_consumers_payloads_are_expanded_where_they_are_payloads() -> None:
    form = entry_json(group("consumer"), expand=True)
    first, second = form["value"]["data"]["members"]
    assert first["subscription"] == payload_json(ConsumerProtocolSubscription, MEMBER.subscription)
    assert first["assignment"] == payload_json(ConsumerProtocolAssignment, MEMBER.assignment)
    assert second["subscription"] == base64.b64encode(b"junk").decode()
    assert second["assignment"] == ""


# Number, why, protocol type, expand.
RAW = [
    (1, "asked for as they are", "consumer", False),
    (2, "another protocol's bytes are not a consumer's", "connect", True),
    (3, "an empty group has no protocol type", "", True),
]


@pytest.mark.parametrize(("number", "why", "protocol_type", "expand"), RAW)
def test_payloads_stay_base64(number: int, why: str, protocol_type: str, expand: bool) -> None:
    form = entry_json(group(protocol_type), expand=expand)
    for member, printed in zip((MEMBER, ODD), form["value"]["data"]["members"], strict=True):
        assert printed["subscription"] == base64.b64encode(member.subscription).decode(), f"row {number}: {why}"
        assert printed["assignment"] == base64.b64encode(member.assignment).decode(), f"row {number}: {why}"


def test_a_tombstone_has_no_value_in_either_form() -> None:
    entry = decode(b"\0\2\0\1g", None)
    for expand in (False, True):
        assert entry_json(entry, expand=expand) == {"key": {"type": 2, "data": {"group": "g"}}, "value": None}  # type: ignore[arg-type]


# As Kafka prints them: in the capture, and Uuid.ZERO_UUID.
UUIDS = [
    (ZERO_UUID, "AAAAAAAAAAAAAAAAAAAAAA"),
    (Uuid(bytes.fromhex("aaaa8b29381c417e9f695c161bf43679")), "qqqLKTgcQX6faVwWG_Q2eQ"),
]


@pytest.mark.parametrize(("value", "text"), UUIDS)
def test_uuids(value: Uuid, text: str) -> None:
    assert uuid_text(value) == text


@pytest.mark.parametrize("seed", range(20))
def test_what_was_read_before_changes_nothing_of_what_is_read_next(seed: int) -> None:
    """Partitions of a topic are read once: others, damaged ones too, are read as by who has read none."""
    random = Random(seed)
    known = b"".join(
        _partitions(topic, numbers) for topic in ("", "t", "t\x00", "ü") for numbers in ((), (0,), (0, 1))
    )
    for at in (0, 1, 2):
        with suppress(WireError):
            TopicPartition.read(known, at, 3)
    for _ in range(500):
        data = bytearray(random.choice((known, known[random.randrange(20) :])))
        for _ in range(random.randrange(3)):
            data[random.randrange(len(data))] = random.choice((0, 1, 2, 127, 128, 255))
        data = data[: random.randrange(len(data) + 1)]
        at = random.randrange(len(data) + 1)
        _read_again(bytes(data), at)


def _partitions(topic: str, numbers: tuple[int, ...]) -> bytes:
    out = bytearray()
    TopicPartition(topic, numbers).write(out, 3)
    return bytes(out)


def _read_again(data: bytes, at: int) -> None:
    """Both ways, and twice: where the first is not known yet, and where it is."""

    def outcome(read: Callable[[bytes, int], tuple[TopicPartition, int]]) -> object:
        try:
            return read(data, at)
        except WireError as error:
            return type(error), str(error)

    expected = outcome(partial(_SinglePartitions.read, version=3))
    for _ in range(2):
        found = outcome(partial(TopicPartition.read, version=3))
        if isinstance(found, tuple) and isinstance(found[0], TopicPartition):
            found = _SinglePartitions(found[0].topic, found[0].partitions), found[1]
        assert found == expected, (data, at)


class _SinglePartitions(Message, frozen=True):
    """The same message, each of which is read."""

    versions = (0, 3)

    topic: str = wire(STRING)
    partitions: tuple[int, ...] = wire(array(INT32))


def test_what_repeats_is_read_as_one_object_unless_it_is_long() -> None:
    def read(topic: str, partitions: tuple[int, ...]) -> TopicPartition:
        out = bytearray()
        TopicPartition(topic, partitions).write(out, 3)
        return TopicPartition.read_whole(bytes(out), 0, 3)

    one, other = read("orders-of-this-test", (1_000, 2)), read("orders-of-this-test", (1_000, 2))
    assert one == other
    assert one.topic is other.topic
    assert one.partitions is other.partitions
    many = tuple(range(MOST_REPEATED_BYTES))
    assert read("t", many).partitions == many
    assert read("t", many).partitions is not read("t", many).partitions
