"""Our dataclasses against the schemas that Kafka 4.3.1's generated classes carry: names, order, types, tags.

What Kafka's generator does not say there, which structs may be null, is held by the vectors.
"""

from __future__ import annotations

import json
from typing import Any

import pytest

from agent.core.wire.payloads import PAYLOADS
from agent.core.wire.records import RECORD_TYPES
from agent.core.wire.schema import FieldSpec, Message, WireType, field_specs, is_flexible
from tests.unit.core.wire.vectors import SCHEMAS, needs

pytestmark = needs(SCHEMAS)


def schema(message: type[Message], version: int) -> list[Any]:
    """A message of ours in the notation of the schema file."""
    flexible = is_flexible(message, version)
    plain: list[Any] = []
    tagged: dict[str, Any] = {}
    for name, spec, _ in field_specs(message):
        if not spec.in_version(version):
            continue
        field = {"name": name, "type": _type(spec.type, spec, version, flexible)}
        if spec.tag is None:
            plain.append(field)
        else:
            tagged[str(spec.tag)] = field
    return [*plain, {"tagged": tagged}] if flexible else plain


def _type(kind: WireType, spec: FieldSpec | None, version: int, flexible: bool) -> Any:
    nullable = spec is not None and spec.nullable is not None and version >= spec.nullable
    if kind.struct is not None:
        return schema(kind.struct, version)
    if kind.of is not None:
        form = "compact" if flexible else "classic"
        return {"array": form, "nullable": nullable, "of": _type(kind.of, None, version, flexible)}
    if kind.name in ("string", "bytes"):
        return "COMPACT_" * flexible + "NULLABLE_" * nullable + kind.name.upper()
    return kind.name.upper()


def _theirs() -> dict[str, Any]:
    loaded: dict[str, Any] = json.loads(SCHEMAS.read_text(encoding="utf-8"))
    return loaded


def _versions(message: type[Message]) -> dict[str, list[Any]]:
    lowest, highest = message.versions
    return {str(version): schema(message, version) for version in range(lowest, highest + 1)}


def test_the_record_types_are_kafkas() -> None:
    theirs = {int(key): row for key, row in _theirs().items() if key.isdigit()}
    assert {number: row["name"].lower() for number, row in theirs.items()} == {
        number: row.name for number, row in RECORD_TYPES.items()
    }
    for number, row in theirs.items():
        assert RECORD_TYPES[number].value.versions == (row["lowestVersion"], row["highestVersion"])


@pytest.mark.parametrize("number", RECORD_TYPES)
def test_a_record_type_has_kafkas_fields_in_every_version(number: int) -> None:
    theirs, ours = _theirs()[str(number)], RECORD_TYPES[number]
    assert {"0": schema(ours.key, 0)} == theirs["key"]
    assert _versions(ours.value) == theirs["value"]


@pytest.mark.parametrize("message", PAYLOADS["consumer"], ids=lambda message: message.__name__)
def test_a_payload_has_kafkas_fields_in_every_version(message: type[Message]) -> None:
    assert _versions(message) == _theirs()[message.__name__]
