"""Kafka's own JSON forms of messages: camelCase names, UUIDs as Kafka prints them, bytes as base64.

What `kshadow decode` prints, and what Kafka's dump tool and console formatters print for the same records.
"""

from __future__ import annotations

import base64
from typing import Any

from agent.wire import classic
from agent.wire.errors import WireError
from agent.wire.payloads import PAYLOADS, decode_payload
from agent.wire.primitives import Uuid
from agent.wire.records import Record, Tombstone
from agent.wire.schema import Message, Type, specs


def camel(name: str) -> str:
    """`commit_timestamp` to `commitTimestamp`."""
    head, *tail = name.split("_")
    return head + "".join(word.capitalize() for word in tail)


def uuid_text(value: Uuid) -> str:
    """A UUID as Kafka prints it: URL-safe base64 without padding."""
    return base64.urlsafe_b64encode(value).decode().rstrip("=")


def message_form(message: Message, version: int) -> dict[str, Any]:
    """The fields that `version` has; tagged fields at their default are left out, as Kafka does."""
    form: dict[str, Any] = {}
    for name, spec, default in specs(type(message)):
        value = getattr(message, name)
        if spec.in_version(version) and not (spec.tag is not None and value == default):
            form[camel(name)] = _value_form(value, spec.type, version)
    return form


def _value_form(value: Any, kind: Type, version: int) -> Any:
    if value is None:
        return None
    match kind.name:
        case "uuid":
            return uuid_text(value)
        case "bytes":
            return base64.b64encode(value).decode()
        case "struct":
            return message_form(value, version)
        case "array":
            assert kind.of is not None, "an array has an element type"
            return [_value_form(item, kind.of, version) for item in value]
        case _:
            return value


def payload_form(message: type[Message], data: bytes) -> dict[str, Any] | None:
    """A member's payload as its fields plus `version`; None where the bytes are not such a payload."""
    try:
        version, payload = decode_payload(message, data, lenient=True)
    except WireError:
        return None
    return {"version": version, **message_form(payload, min(version, message.versions[1]))}


def entry_form(entry: Record | Tombstone, *, expand: bool) -> dict[str, Any]:
    """`{"key": {"type", "data"}, "value": {"version", "data"} | null}`.

    With `expand`, a consumer member's `subscription` and `assignment` bytes are given as fields; bytes that
    are not such a payload stay base64.
    """
    key = {"type": entry.type.key_type, "data": message_form(entry.key, 0)}
    if isinstance(entry, Tombstone):
        return {"key": key, "value": None}
    data = message_form(entry.value, entry.version)
    if expand and isinstance(entry.value, classic.GroupMetadataValue) and entry.value.protocol_type == "consumer":
        subscription, assignment = PAYLOADS["consumer"]
        for member, form in zip(entry.value.members, data["members"], strict=True):
            form["subscription"] = payload_form(subscription, member.subscription) or form["subscription"]
            form["assignment"] = payload_form(assignment, member.assignment) or form["assignment"]
    return {"key": key, "value": {"version": entry.version, "data": data}}
