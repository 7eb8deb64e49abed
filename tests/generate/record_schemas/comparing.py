"""Our record classes in the same tables, and what differs."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from agent.core.wire.json_form import camel_case
from agent.core.wire.payloads import PAYLOADS
from agent.core.wire.primitives import ZERO_UUID
from agent.core.wire.records import RECORD_TYPES
from agent.core.wire.schema import Message, WireType, field_specs, is_flexible
from tests.generate.record_schemas.definitions import Fields, Schemas, described


class Differences(NamedTuple):
    """What ours lack or have otherwise, and what they have that this Kafka has not: a newer one has it."""

    wrong: list[str]
    newer: list[str]


def compare(theirs: Schemas, ours: Schemas) -> Differences:
    """Every field of every version of every record and payload."""
    wrong = [f"{title}: missing" for title in theirs if title not in ours]
    newer = [f"{title}: only here" for title in ours if title not in theirs]
    for title in (it for it in theirs if it in ours):
        mine, yours = ours[title], theirs[title]
        for path, text in yours.items():
            if path not in mine:
                wrong.append(f"{title}: {path} is missing ({text})")
            elif mine[path] != text:
                wrong.append(f"{title}: {path} is {mine[path]!r} here, {text!r} in Kafka")
        for path in (it for it in mine if it not in yours):
            # What is no tag moves all behind it.
            found = newer if ", tag " in _outermost(mine, path) else wrong
            found.append(f"{title}: {path} is only here ({mine[path]})")
        here, there = [it for it in mine if it in yours], [it for it in yours if it in mine]
        if here != there:
            wrong.append(f"{title}: fields in the order {here} here, {there} in Kafka")
    return Differences(wrong, newer)


def _outermost(fields: Fields, path: str) -> str:
    return fields[path.partition(".")[0]]


def our_schemas() -> Schemas:
    """Of all that `agent.core.wire` decodes."""
    out: Schemas = {}
    for number, it in RECORD_TYPES.items():
        out[f"{number} {it.name} key 0"] = dict(_fields(it.key, 0, ""))
        out |= _versions(f"{number} {it.name} value", it.value)
    for message in PAYLOADS["consumer"]:
        out |= _versions(message.__name__, message)
    return out


def _versions(title: str, message: type[Message]) -> Schemas:
    lowest, highest = message.versions
    return {f"{title} {number}": dict(_fields(message, number, "")) for number in range(lowest, highest + 1)}


def _fields(message: type[Message], version: int, above: str) -> Iterator[tuple[str, str]]:
    flexible = is_flexible(message, version)
    for name, spec, default in sorted(field_specs(message), key=lambda it: -1 if it[1].tag is None else it[1].tag):
        if not spec.in_version(version):
            continue
        path = above + camel_case(name)
        nullable = spec.nullable is not None and version >= spec.nullable
        shape, struct = _shape(spec.type, flexible)
        yield path, described(shape, flexible, nullable, spec.tag, _plain(default, nullable))
        if struct:
            yield from _fields(struct, version, f"{path}.")


def _shape(kind: WireType, flexible: bool) -> tuple[str, type[Message] | None]:
    if kind.of is not None:
        element, struct = _shape(kind.of, flexible)
        compact = "compact " * (flexible and element in ("string", "bytes"))
        return f"array of {compact}{element}", struct
    return kind.name, kind.struct


def _plain(default: Any, nullable: bool) -> Any:
    if default is None:
        return None if nullable else ""
    if default == ZERO_UUID:
        return 0
    return "" if isinstance(default, Message) or default in ((), b"") else default
