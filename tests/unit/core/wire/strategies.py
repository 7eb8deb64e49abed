"""Hypothesis strategies for any message of any version, built from the specs that the codecs are compiled from."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from agent.core.wire.records import RECORD_TYPES, RecordType
from agent.core.wire.schema import FieldSpec, Message, WireType, field_specs, is_flexible

_NUMBERS = {"int8": (8, True), "int16": (16, True), "uint16": (16, False), "int32": (32, True), "int64": (64, True)}

RECORD_VERSIONS: list[tuple[RecordType, int]] = [
    (record_type, version)
    for record_type in RECORD_TYPES.values()
    for version in range(record_type.value.versions[0], record_type.value.versions[1] + 1)
]


def values(kind: WireType, version: int) -> SearchStrategy[Any]:
    """Any value of a wire type."""
    if kind.struct is not None:
        return messages(kind.struct, version)
    if kind.of is not None:
        return st.lists(values(kind.of, version), max_size=3).map(tuple)
    if kind.name in _NUMBERS:
        bits, signed = _NUMBERS[kind.name]
        low, high = (-(1 << bits - 1), (1 << bits - 1) - 1) if signed else (0, (1 << bits) - 1)
        return st.sampled_from([low, high, 0, -1 if signed else 1]) | st.integers(low, high)
    match kind.name:
        case "uuid":
            return st.just(bytes(16)) | st.binary(min_size=16, max_size=16)
        case "bytes":
            return st.binary(max_size=200)
        case _:
            # 127 and 128 bytes: where a compact length takes its second byte.
            return st.text(max_size=20) | st.sampled_from(["x" * 126, "x" * 127, "é" * 64, "x" * 32_767])


def messages(message: type[Message], version: int) -> SearchStrategy[Any]:
    """Any message of a class that `version` can hold: fields it lacks are at their defaults."""
    fields = {
        name: _field(spec, default, version)
        for name, spec, default in field_specs(message)
        if spec.in_version(version)
    }
    if is_flexible(message, version):
        known = {spec.tag for _, spec, _ in field_specs(message) if spec.in_version(version)}
        tags = st.integers(0, 5) | st.sampled_from([127, 128, 0xFFFFFFFF])
        fields["unknown_tags"] = st.dictionaries(
            tags.filter(lambda tag: tag not in known), st.binary(max_size=140), max_size=2
        ).map(lambda tags: tuple(sorted(tags.items())))
    return st.builds(message, **fields)


def _field(spec: FieldSpec, default: Any, version: int) -> SearchStrategy[Any]:
    strategy = values(spec.type, version)
    if spec.tag is not None:
        strategy = st.just(default) | strategy
    if spec.nullable is not None and version >= spec.nullable:
        strategy = st.none() | strategy
    return strategy
