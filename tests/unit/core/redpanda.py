"""Bytes as Redpanda writes them: see `tests/unit/core/wire/test_redpanda.py` for the functions whose layout this
is."""

from __future__ import annotations

import struct


def _string(text: str | None) -> bytes:
    if text is None:
        return b"\xff\xff"
    data = text.encode()
    return struct.pack(">h", len(data)) + data


def _bytes(data: bytes) -> bytes:
    return struct.pack(">i", len(data)) + data


def group_key(group: str) -> bytes:
    """`group_metadata_key::encode`."""
    return struct.pack(">h", 2) + _string(group)


def member(
    member_id: str,
    instance_id: str | None,
    client_id: str,
    host: str,
    rebalance_ms: int,
    session_ms: int,
    subscription: bytes,
    assignment: bytes,
) -> bytes:
    """`member_state::encode`: a version of its own in front."""
    return (
        struct.pack(">h", 3)
        + _string(member_id)
        + _string(instance_id)
        + _string(client_id)
        + _string(host)
        + struct.pack(">ii", rebalance_ms, session_ms)
        + _bytes(subscription)
        + _bytes(assignment)
    )


def group_value(
    protocol_type: str, generation: int, protocol: str | None, leader: str | None, at_ms: int, *members: bytes
) -> bytes:
    """`group_metadata_value::encode`."""
    head = struct.pack(">h", 3) + _string(protocol_type) + struct.pack(">i", generation)
    tail = _string(protocol) + _string(leader) + struct.pack(">qi", at_ms, len(members))
    return head + tail + b"".join(members)


def offset_key(group: str, topic: str, partition: int) -> bytes:
    """`offset_metadata_key::encode`."""
    return struct.pack(">h", 1) + _string(group) + _string(topic) + struct.pack(">i", partition)


def offset_value(offset: int, leader_epoch: int, metadata: str, commit_ms: int, expiry: int = -1) -> bytes:
    """`offset_metadata_value::encode`: version 1 where there is an expiry, else 3."""
    version = 3 if expiry == -1 else 1
    epoch = struct.pack(">i", leader_epoch) if version == 3 else b""
    end = b"" if version == 3 else struct.pack(">q", expiry)
    return struct.pack(">hq", version, offset) + epoch + _string(metadata) + struct.pack(">q", commit_ms) + end


def wrapped(key: bytes) -> bytes:
    """`reflection::to_iobuf` of a key, as tombstones had it: its size in front, the lowest byte first."""
    return struct.pack("<i", len(key)) + key
