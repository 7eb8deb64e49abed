"""Whether a schema may stand in the place of an older one of the same version: only additions may have come."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

Schema = dict[str, Any]

_EVENTS = (
    "event_group_created",
    "event_rebalance",
    "event_member_joined",
    "event_member_left",
    "event_static_member_replaced",
    "event_assignment_changed",
    "event_group_emptied",
    "event_group_deleted",
    "event_offsets_deleted",
    "event_finding",
    "event_group_sample",
    "event_other",
)

_SAME = ("const", "pattern", "additionalProperties", "prefixItems", "anyOf", "not", "$ref")
"""What may not change at all, but for where more was taken in."""


NULL_WHERE_SAMPLED = (
    *(f"/{event}/{field}" for event in _EVENTS for field in ("partition", "offset", "generation")),
    "/member/uses_classic_protocol",
)
"""Fields that are null where groups are looked at (of events: where `sampled` is true): who reads an agent of the
topic never meets that."""


def broken(old: Schema, new: Schema, where: str = "") -> Iterator[str]:
    """What of the old one's promises to readers the new one does not keep."""
    for name, shape in old.get("$defs", {}).items():
        if name not in new.get("$defs", {}):
            yield f"{where}/$defs/{name}: is gone"
        else:
            yield from broken(shape, new["$defs"][name], f"{where}/$defs/{name}")
    for name, field in old.get("properties", {}).items():
        at = f"{where}/{name}"
        if name not in new.get("properties", {}):
            yield f"{at}: is gone"
        else:
            yield from broken(field, new["properties"][name], at)
    for name in old.get("required", ()):
        if name in old.get("properties", {}) and name not in new.get("required", ()):
            yield f"{where}/{name}: may be missing now"
    more = _types(new) - _types(old) if "type" in old else set()
    if more and not (more == {"null"} and where.endswith(NULL_WHERE_SAMPLED)):
        yield f"{where}: may be {' or '.join(sorted(more))} now"
    if "type" in old and "type" not in new:
        yield f"{where}: may be anything now"
    if "enum" in old and set(map(str, new.get("enum", ()))) - set(map(str, old["enum"])):
        yield f"{where}: another word than {old['enum']}"
    if "enum" in old and "enum" not in new:
        yield f"{where}: any word now"
    if "oneOf" in old and (missing := [it for it in old["oneOf"] if it not in new.get("oneOf", ())]):
        yield f"{where}: {missing} are gone"
    for key in _SAME:
        if key in old and old[key] != new.get(key) and not _grew(key, old[key], new.get(key)):
            yield f"{where}: {key} was {old[key]}, is {new.get(key)}"
    for key, is_less in (("minimum", True), ("maximum", False)):
        if key in old and (key not in new or (new[key] < old[key] if is_less else new[key] > old[key])):
            yield f"{where}: {key} was {old[key]}, is {new.get(key)}"
    if isinstance(old.get("items"), dict):
        yield from broken(old["items"], new.get("items", {}), f"{where}[]")


def _grew(key: str, old: Any, new: Any) -> bool:
    """`not` names the words that are described elsewhere: more of them may be."""
    if key == "not":
        return isinstance(new, dict) and set(old["enum"]) <= set(new.get("enum", ()))
    if key == "additionalProperties" and isinstance(old, dict) and isinstance(new, dict):
        return not list(broken(old, new))
    return False


def _types(schema: Schema) -> set[str]:
    found = schema.get("type", [])
    types = {found} if isinstance(found, str) else set(found)
    return types | {"integer"} if "number" in types else types
