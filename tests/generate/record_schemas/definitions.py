"""The message definitions in Kafka's jars, from which its classes are generated, as flat tables of fields."""

from __future__ import annotations

import json
import re
import zipfile
from collections.abc import Iterator, Mapping
from typing import Any

from agent.tools.embedded import Jars

Fields = dict[str, str]
"""By the path of a field: its type, and what a reader must know of it. In the order of the bytes, tags last."""
Schemas = dict[str, Fields]
"""By `17 streams_group_metadata value 0`, or `ConsumerProtocolAssignment 3`."""

PAYLOADS = ("ConsumerProtocolSubscription", "ConsumerProtocolAssignment")
_WHERE = "common/message/"
_COMMENT_OR_TEXT = re.compile(r'"(?:\\.|[^"\\])*"|//[^\n]*')
_ZERO = {"string": "", "bytes": "", "bool": False, "uuid": 0}
_SIZED = ("string", "bytes", "array")
"""Whose size is written otherwise in flexible versions."""


def definitions_of(jars: Jars) -> dict[str, dict[str, Any]]:
    """By name, the definitions of records and of what members tell each other through them."""
    out: dict[str, dict[str, Any]] = {}
    for name, wanted in (("kafka-group-coordinator", None), ("kafka-clients", PAYLOADS)):
        with zipfile.ZipFile(jars.directory / f"{name}-{jars.version}.jar") as jar:
            for path in jar.namelist():
                message = path.removeprefix(_WHERE).removesuffix(".json")
                if path == f"{_WHERE}{message}.json" and (wanted is None or message in wanted):
                    text = jar.read(path).decode()
                    out[message] = json.loads(_COMMENT_OR_TEXT.sub(_without_comment, text))
    return out


def _without_comment(found: re.Match[str]) -> str:
    return "" if found[0].startswith("//") else found[0]


def schemas_of(jars: Jars) -> Schemas:
    """What a Kafka writes. Raises `ValueError` where its definitions do not say which record they are for."""
    definitions = definitions_of(jars)
    out: Schemas = {}
    for message, definition in definitions.items():
        if message in PAYLOADS:
            title = message
        elif "apiKey" in definition:
            record, part = re.fullmatch("(.+)(Key|Value)", message).groups()  # type: ignore[union-attr]
            name = re.sub("(?<!^)(?=[A-Z])", "_", record).lower()
            title = f"{definition['apiKey']} {name} {part.lower()}"
        else:
            raise ValueError(f"{message} of Kafka {jars.version} does not say its key type; 4.1 and newer do")
        for version in versions(definition["validVersions"]):
            out[f"{title} {version}"] = dict(_fields(definition, version))
    return out


def versions(text: str, newest: int = 99) -> range:
    """`0-3`, `2+`, `1` or `none`."""
    first, _, last = text.partition("-")
    if text == "none":
        return range(0)
    if first.endswith("+"):
        return range(int(first[:-1]), newest + 1)
    return range(int(first), int(last or first) + 1)


def _fields(definition: Mapping[str, Any], version: int) -> Iterator[tuple[str, str]]:
    flexible = version in versions(definition["flexibleVersions"])
    structs = {it["name"]: it["fields"] for it in definition.get("commonStructs", ())}

    def of(rows: list[Mapping[str, Any]], above: str) -> Iterator[tuple[str, str]]:
        # A field may be there in a tag's versions alone.
        present = [it for it in rows if version in versions(it.get("versions") or it["taggedVersions"])]
        for field in sorted(present, key=lambda it: it.get("tag", -1)):
            path = above + field["name"][0].lower() + field["name"][1:]
            kind = field["type"].removeprefix("[]")
            nested = field.get("fields") or structs.get(kind)
            shape = "struct" if nested else kind
            if field["type"].startswith("[]"):
                shape = f"array of {_sized(shape, flexible)}"
            nullable = version in versions(field.get("nullableVersions", "none"))
            yield path, described(shape, flexible, nullable, field.get("tag"), _default(field, shape))
            if nested:
                yield from of(nested, f"{path}.")

    yield from of(definition["fields"], "")


def _default(field: Mapping[str, Any], shape: str) -> Any:
    """Null where it says the word; a bare null is what Kafka's generator takes for empty."""
    default = field.get("default")
    if default == "null":
        return None
    if shape.startswith("array") or shape == "struct":
        return ""
    if default is None:
        return _ZERO.get(shape, 0)
    return int(default, 0) if isinstance(default, str) and shape not in _ZERO else default


def described(shape: str, flexible: bool, nullable: bool, tag: int | None, default: Any) -> str:
    """A field in words."""
    parts = [_sized(shape, flexible) + (" or null" if nullable else "")]
    if tag is not None:
        parts.append(f"tag {tag}")
    parts.append("else null" if default is None else f"else {default}" if default != "" else "else empty")
    return ", ".join(parts)


def _sized(shape: str, flexible: bool) -> str:
    return f"compact {shape}" if flexible and shape.startswith(_SIZED) else shape
