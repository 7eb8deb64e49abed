"""Lines: events as they go out. Encoded once, for all sinks; nothing that an event may hold can keep it from that."""

from __future__ import annotations

import json
import math
import struct
from collections.abc import Mapping
from typing import Any, NamedTuple

import msgspec

from agent.core.events.events import Event

MAX_MESSAGE_BYTES = 8 * 1024 * 1024
"""What an event may take in a topic: a rebalance of 10,000 members is 3 MB, Kafka's default is 1 MB."""


class EncodedEvent(NamedTuple):
    """One event: its JSON, and of it what sinks need beside. Times are epoch milliseconds.

    `key` is what keeps its order in a topic: the group, for findings of the cluster the cluster's name, None where it
    has none. `put_ms` is when it came to us, by the steady clock.
    """

    key: bytes | None
    type: str
    schema: int
    at_ms: int
    put_ms: int
    body: bytes


_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder().decode


def encode_event(event: Event, put_ms: int) -> EncodedEvent:
    """The line of an event. Never raises for what is in its texts and numbers."""
    try:
        body = _encode(event)
    except (TypeError, ValueError, OverflowError, msgspec.MsgspecError):
        body = json.dumps(_json_safe(event), separators=(",", ":")).encode("ascii")
    owner = event["group"] if event["group"] is not None else event["cluster"]
    # A lone surrogate has no UTF-8: it is written as in the JSON, \udc80.
    key = None if owner is None else owner.encode("utf-8", "backslashreplace")
    return EncodedEvent(key, event["type"], event["schema"], event["at_ms"], put_ms, body)


def decode_event(line: EncodedEvent) -> tuple[Event, bool]:
    """The event that a line was made of, and whether all its text is UTF-8 (no lone surrogates)."""
    try:
        return _decode(line.body), True
    except msgspec.DecodeError:  # lone surrogates, which json takes
        return json.loads(line.body), False


def _json_safe(value: Any) -> Any:
    """The nearest that JSON can say: third parties' analyzers put into `numbers` what they like."""
    match value:
        case None | bool() | int() | str():
            return value
        case float():
            return value if math.isfinite(value) else None
        case Mapping():
            return {str(key): _json_safe(it) for key, it in value.items()}
        case list() | tuple():
            return [_json_safe(it) for it in value]
        case _:
            return str(value)


_HEAD = struct.Struct(">qqHHi")  # put_ms, at_ms, schema, length of the type, length of the key (-1: None)


def pack_event(line: EncodedEvent) -> bytes:
    """A line as it stands in a spool."""
    kind = line.type.encode("utf-8", "backslashreplace")
    key = line.key
    size = -1 if key is None else len(key)
    head = _HEAD.pack(line.put_ms, line.at_ms, line.schema, len(kind), size)
    return b"".join((head, kind, key or b"", line.body))


def unpack_event(data: bytes) -> EncodedEvent:
    """The line that `pack` was given."""
    put_ms, at_ms, schema, kind_size, key_size = _HEAD.unpack_from(data)
    at = _HEAD.size
    kind = data[at : at + kind_size].decode()
    at += kind_size
    key = None if key_size < 0 else data[at : at + key_size]
    return EncodedEvent(key, kind, schema, at_ms, put_ms, data[at + max(key_size, 0) :])
