"""How a schema is written down here: small values put together."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from typing import Any

Schema = dict[str, Any]

ANY: Schema = {}
TEXT: Schema = {"type": "string"}
FLAG: Schema = {"type": "boolean"}
INTEGER: Schema = {"type": "integer"}
COUNT: Schema = {"type": "integer", "minimum": 0}
RATIO: Schema = {"type": "number", "minimum": 0}
SHARE: Schema = {"type": "number", "minimum": 0, "maximum": 1}
AT_MS: Schema = {"type": "integer", "description": "Epoch milliseconds, UTC."}
"""A time. There are logs whose clocks say anything, so no bounds."""

REF = "#/$defs/"


def described(schema: Schema, about: str) -> Schema:
    """With a sentence on what it means; of a reference, too."""
    return {**schema, "description": about}


def nullable(schema: Schema) -> Schema:
    """A schema that takes null, too; of a reference as well."""
    if "$ref" in schema:
        others = {key: value for key, value in schema.items() if key != "$ref"}
        return {"anyOf": [{"$ref": schema["$ref"]}, {"type": "null"}], **others}
    out = {**schema, "type": [schema["type"], "null"]}
    if "enum" in schema:
        out["enum"] = [*schema["enum"], None]
    return out


def array_of(item: Schema, *, least: int = 0) -> Schema:
    """A list whose items are all of one schema; `least`: how many it has at least."""
    return {"type": "array", "items": item} | ({"minItems": least} if least else {})


def map_of(value: Schema) -> Schema:
    """An object whose fields are names that somebody gave."""
    return {"type": "object", "additionalProperties": value}


def pair(first: Schema, second: Schema) -> Schema:
    """A list of two items, each with its own schema."""
    return {"type": "array", "prefixItems": [first, second], "minItems": 2, "maxItems": 2}


def closed_enum(words: Iterable[object]) -> Schema:
    """One of these, and no other will come within the version."""
    return {"type": "string", "enum": [str(it) for it in words]}


def open_enum(words: Iterable[object]) -> Schema:
    """One of these today; more may come."""
    return {"type": "string", "examples": [str(it) for it in words]}


def object_of(fields: Mapping[str, Schema], about: str = "", optional: Iterable[str] = ()) -> Schema:
    """An object with these fields, of which some may be missing; there may be more."""
    missing = set(optional)
    assert missing <= fields.keys(), missing - fields.keys()
    out: Schema = {"type": "object", "properties": dict(fields)}
    out["required"] = [name for name in fields if name not in missing]
    return described(out, about) if about else out


def ref(name: str) -> Schema:
    """A reference to the shape of that name, one of `DEFS`."""
    return {"$ref": REF + name}


def refs(schema: Any) -> list[str]:
    """The names that a schema refers to, as often as it does."""
    return _REFERENCE.findall(json.dumps(schema))


_REFERENCE = re.compile(f'"\\$ref": "{re.escape(REF)}([^"]+)"')
