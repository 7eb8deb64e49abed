"""What librdkafka's Admin lacks, as a Kafka request by hand: LeaveGroup in another's name.

Kafka's own Admin (`removeMembersFromConsumerGroup`) sends exactly this, with this reason, when an operator removes
members: dynamic ones by member id, static ones by instance id alone.
"""

from __future__ import annotations

import socket
import struct
import time

from confluent_kafka.admin import AdminClient

_LEAVE_GROUP = 13
REASON = "member was removed by an admin"


class RemovalFailedError(RuntimeError):
    """The coordinator refused."""


def remove_members(bootstrap: str, group: str, members: list[str], instances: list[str]) -> None:
    """Remove dynamic members by id and static ones by instance id, in one request to the only broker."""
    # LeaveGroup 5 (flexible, KIP-800): group, [member id, instance id, reason].
    who = [(member, None) for member in members] + [("", instance) for instance in instances]
    body = _compact(group) + _varint(len(who) + 1)
    for member, instance in who:
        body += _compact(member) + _compact(instance) + _compact(REASON) + b"\0"
    answer = _ask(bootstrap, _LEAVE_GROUP, 5, body + b"\0")
    # Header v1: correlation id, tags. Then throttle time, error code.
    (error,) = struct.unpack_from(">h", answer, 4 + 1 + 4)
    if error:
        raise RemovalFailedError(f"LeaveGroup for {group} was answered with error {error}")


def member_ids(admin: AdminClient, group: str, clients: set[str] | None = None) -> dict[str, str]:
    """Member id → client id, of a group's members as the broker describes them."""
    for _ in range(20):
        described = admin.describe_consumer_groups([group], request_timeout=5)[group].result(timeout=10)
        found = {m.member_id: m.client_id for m in described.members if clients is None or m.client_id in clients}
        if found:
            return found
        time.sleep(0.25)
    return {}


def _ask(bootstrap: str, api: int, version: int, body: bytes) -> bytes:
    host, port = bootstrap.rsplit(":", 1)
    # Request header v2: the client id is not compact there, then tags.
    header = struct.pack(">hhi", api, version, 1) + struct.pack(">h", 3) + b"rig" + b"\0"
    message = header + body
    with socket.create_connection((host, int(port)), timeout=10) as connection:
        connection.sendall(struct.pack(">i", len(message)) + message)
        (size,) = struct.unpack(">i", _exactly(connection, 4))
        return _exactly(connection, size)


def _exactly(connection: socket.socket, size: int) -> bytes:
    got = b""
    while len(got) < size:
        piece = connection.recv(size - len(got))
        if not piece:
            raise RemovalFailedError(f"the broker closed the connection after {len(got)} of {size} bytes")
        got += piece
    return got


def _compact(text: str | None) -> bytes:
    if text is None:
        return b"\0"
    data = text.encode()
    return _varint(len(data) + 1) + data


def _varint(number: int) -> bytes:
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)
