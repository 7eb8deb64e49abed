"""What clients put into a classic member's `subscription` and `assignment` bytes.

Two protocols: the consumer's (Streams uses it too, with its own bytes as user data) and Connect's. Each
payload starts with an int16 version. The consumer's rule for a version newer than one knows: read what one
knows, and let the rest be (new versions only append). Connect's compatible protocols follow the same rule.
"""

from __future__ import annotations

import struct
from contextlib import suppress
from typing import Generic, NamedTuple, TypeVar

from agent.core.wire import primitives as p
from agent.core.wire.errors import Truncated, UnknownVersion, WireError
from agent.core.wire.schema import BYTES, INT16, INT32, INT64, STRING, Message, array, wire

_LENGTH, _COUNT = struct.Struct(">h"), struct.Struct(">i")


class TopicPartition(Message, frozen=True):
    """Partitions of one topic, by name."""

    versions = (0, 3)

    topic: str = wire(STRING, repeats=True)
    partitions: tuple[int, ...] = wire(array(INT32), repeats=True)

    @staticmethod
    def end_of(buffer: bytes, at: int) -> int:
        """Behind the text and the numbers, each with its length in front."""
        count_at: int = at + _LENGTH.size + _LENGTH.unpack_from(buffer, at)[0]
        end: int = count_at + _COUNT.size * (1 + _COUNT.unpack_from(buffer, count_at)[0])
        return end


class ConsumerProtocolSubscription(Message, frozen=True):
    """What a consumer asks for. `generation_id` -1: it owns nothing from a generation it knows."""

    versions = (0, 3)

    topics: tuple[str, ...] = wire(array(STRING))
    user_data: bytes | None = wire(BYTES, nullable=0, default=None)
    owned_partitions: tuple[TopicPartition, ...] = wire(array(TopicPartition), since=1)  # KIP-429
    generation_id: int = wire(INT32, since=2, default=-1)
    rack_id: str | None = wire(STRING, since=3, nullable=3, default=None)  # KIP-881


class ConsumerProtocolAssignment(Message, frozen=True):
    """What the leader gives a consumer."""

    versions = (0, 3)

    assigned_partitions: tuple[TopicPartition, ...] = wire(array(TopicPartition))
    user_data: bytes | None = wire(BYTES, nullable=0, default=None)


class ConnectorTasks(Message, frozen=True):
    """A connector and its tasks; task -1 is the connector itself."""

    versions = (0, 2)

    connector: str = wire(STRING)
    tasks: tuple[int, ...] = wire(array(INT32))


class ConnectWorkerState(Message, frozen=True):
    """What a Connect worker says of itself. `allocation` (version 1 on, KIP-415) holds the assignment it has.

    Version 0 is the eager protocol, 1 "compatible", 2 "sessioned".
    """

    versions = (0, 2)

    url: str = wire(STRING)
    config_offset: int = wire(INT64)
    allocation: bytes | None = wire(BYTES, since=1, nullable=1, default=None)


class ConnectAssignment(Message, frozen=True):
    """What the leading worker gives a worker. `delay` is milliseconds until the scheduled rebalance, 0 for none."""

    versions = (0, 2)

    error: int = wire(INT16)
    leader: str = wire(STRING)
    leader_url: str = wire(STRING)
    config_offset: int = wire(INT64)
    assignment: tuple[ConnectorTasks, ...] | None = wire(array(ConnectorTasks), nullable=1)
    revoked: tuple[ConnectorTasks, ...] | None = wire(array(ConnectorTasks), since=1, nullable=1)
    delay: int = wire(INT32, since=1)


Payload = TypeVar("Payload", bound=Message)


class LenientPayload(NamedTuple, Generic[Payload]):
    """A payload, its version as written, and the version that its fields are of: an older one where it ends early."""

    version: int
    message: Payload
    fields_version: int


def decode_leniently(message: type[Payload], data: bytes) -> LenientPayload[Payload]:
    """Read a payload as Kafka's own readers do.

    A version newer than the newest known is read as that one, trailing bytes are let be, and a payload that ends
    where an older version would (kafka-go's subscriptions say 1 and lack `owned_partitions`) is read as that one.
    Raises `WireError`.
    """
    try:
        version, at = p.read_int16(data, 0)
        lowest, highest = message.versions
        if version < lowest:
            raise UnknownVersion(f"version {version}: expected {lowest} or newer")
        newest = min(version, highest)
        try:
            return LenientPayload(version, message.read(data, at, newest)[0], newest)
        except Truncated:
            for older in range(newest - 1, lowest - 1, -1):
                with suppress(WireError):
                    return LenientPayload(version, message.read_whole(data, at, older), older)
            raise
    except WireError as error:
        error.prepend_path(message.__name__)
        raise


def decode_payload(message: type[Payload], data: bytes, *, lenient: bool = False) -> tuple[int, Payload]:
    """Read a payload with its version: `(version as written, message)`.

    A version newer than the newest known is read as that one, and what follows is let be. Else the payload must end
    where its version does, unless `lenient`: see `decode_leniently`. Raises `WireError`.
    """
    if lenient or int.from_bytes(data[:2], signed=True) not in range(message.versions[0], message.versions[1] + 1):
        return decode_leniently(message, data)[:2]
    try:
        version, at = p.read_int16(data, 0)
        return version, message.read_whole(data, at, version)
    except WireError as error:
        error.prepend_path(message.__name__)
        raise


def encode_payload(message: Message, version: int) -> bytes:
    """A payload as `version` would write it, its version in front."""
    lowest, highest = type(message).versions
    if not lowest <= version <= highest:
        raise UnknownVersion(f"version {version}: expected {lowest} to {highest}")
    out = bytearray()
    p.write_int16(out, version)
    message.write(out, version)
    return bytes(out)


PAYLOADS: dict[str, tuple[type[Message], type[Message]]] = {
    "consumer": (ConsumerProtocolSubscription, ConsumerProtocolAssignment),
    "connect": (ConnectWorkerState, ConnectAssignment),
}
"""By a classic group's protocol type: what its members' subscription and assignment bytes hold."""
