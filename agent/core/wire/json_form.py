"""Kafka's own JSON forms of messages: camelCase names, UUIDs as Kafka prints them, bytes as base64.

What `kshadow decode` prints, and what Kafka's dump tool and console formatters print for the same records.
"""

from __future__ import annotations

import base64
from collections.abc import Callable
from typing import Any, NamedTuple

from agent.core.wire import classic
from agent.core.wire.errors import WireError
from agent.core.wire.payloads import PAYLOADS, decode_leniently
from agent.core.wire.primitives import Uuid
from agent.core.wire.records import Record, Tombstone
from agent.core.wire.schema import Message, WireType, field_specs


def camel_case(name: str) -> str:
    """`commit_timestamp` to `commitTimestamp`."""
    head, *tail = name.split("_")
    return head + "".join(word.capitalize() for word in tail)


def uuid_text(value: Uuid) -> str:
    """A UUID as Kafka prints it: URL-safe base64 without padding."""
    return base64.urlsafe_b64encode(value).decode().rstrip("=")


class _FieldPlan(NamedTuple):
    """How one field of one version goes into JSON. `convert` None: as it is. `leave_out`: only if not the default."""

    name: str
    key: str
    convert: Callable[[Any], Any] | None
    leave_out: bool
    default: Any


_PLANS: dict[tuple[type[Message], int], list[_FieldPlan]] = {}


def message_json(message: Message, version: int) -> dict[str, Any]:
    """The fields that `version` has; tagged fields at their default are left out, as Kafka does."""
    plan = _PLANS.get((type(message), version))
    if plan is None:
        plan = _PLANS[type(message), version] = [
            _FieldPlan(name, camel_case(name), _converter(spec.type, version), spec.tag is not None, default)
            for name, spec, default in field_specs(type(message))
            if spec.in_version(version)
        ]
    form: dict[str, Any] = {}
    for name, key, convert, leave_out, default in plan:
        value = getattr(message, name)
        if leave_out and value == default:
            continue
        form[key] = value if convert is None or value is None else convert(value)
    return form


def _converter(kind: WireType, version: int) -> Callable[[Any], Any] | None:
    match kind.name:
        case "uuid":
            return uuid_text
        case "bytes":
            return lambda value: base64.b64encode(value).decode()
        case "struct":
            return lambda value: message_json(value, version)
        case "array":
            assert kind.of is not None, "an array has an element type"
            convert = _converter(kind.of, version)
            return list if convert is None else lambda items: [convert(item) for item in items]
        case _:
            return None


def payload_json(message: type[Message], data: bytes) -> dict[str, Any] | None:
    """A member's payload as its fields plus `version`; None where the bytes are not such a payload."""
    try:
        version, payload, fields_version = decode_leniently(message, data)
    except WireError:
        return None
    return {"version": version, **message_json(payload, fields_version)}


def entry_json(entry: Record | Tombstone, *, expand: bool) -> dict[str, Any]:
    """`{"key": {"type", "data"}, "value": {"version", "data"} | null}`.

    With `expand`, a consumer member's `subscription` and `assignment` bytes are given as fields; bytes that
    are not such a payload stay base64.
    """
    key = {"type": entry.type.key_type, "data": message_json(entry.key, 0)}
    if isinstance(entry, Tombstone):
        return {"key": key, "value": None}
    data = message_json(entry.value, entry.version)
    if expand and isinstance(entry.value, classic.GroupMetadataValue) and entry.value.protocol_type == "consumer":
        subscription, assignment = PAYLOADS["consumer"]
        for member, form in zip(entry.value.members, data["members"], strict=True):
            form["subscription"] = payload_json(subscription, member.subscription) or form["subscription"]
            form["assignment"] = payload_json(assignment, member.assignment) or form["assignment"]
    return {"key": key, "value": {"version": entry.version, "data": data}}
