"""The JSON Schemas of events: msgspec's own, of the classes that have their fields (`agent.core.events.events`)."""

from __future__ import annotations

import msgspec

from agent.core.events.events import (
    EVENT_CLASSES,
    FINDING,
    EventDeparture,
    EventMember,
    EventOrigin,
    EventPositionBehind,
    HistoryEvent,
)
from agent.core.shadow.transitions import ORIGIN, SAMPLED_FIELDS
from agent.persistence.export.columns import COLUMNS
from agent.presentation.schemas.builders import REF, Schema, ref

_NAMES = {
    **{event_class.__name__: f"event_{event_type}" for event_type, event_class in EVENT_CLASSES.items()},
    HistoryEvent.__name__: "event_other",
    EventOrigin.__name__: "event_origin",
    EventMember.__name__: "event_member",
    EventDeparture.__name__: "event_departure",
    EventPositionBehind.__name__: "event_position_behind",
}

# What schemas say, and the fields of events, in the order of the files that there are.
_KEYWORDS = (
    *("$ref", "anyOf", "type", "const", "not", "pattern", "enum", "examples", "minimum", "maximum"),
    *("items", "properties", "additionalProperties", "required", "description"),
)
_FIELDS = {column.name: place for place, column in enumerate(COLUMNS)}


def _adapted(schema: Schema) -> Schema:
    """A schema of msgspec's as the others are: `null` as one of two types, our names, no defaults."""
    out = dict(schema)
    if "anyOf" in out:
        of = out.pop("anyOf")[0]
        out |= {"anyOf": [_adapted(of), {"type": "null"}]} if "$ref" in of else {**of, "type": [of["type"], "null"]}
    if "$ref" in out:
        out["$ref"] = REF + _NAMES[out["$ref"].rpartition("/")[2]]
    if "items" in out:
        out["items"] = _adapted(out["items"])
    if "title" in out:
        fields = sorted(out["properties"], key=lambda name: _FIELDS.get(name, 0))
        out["properties"] = {name: _sentence(_adapted(out["properties"][name])) for name in fields}
        out["required"] = [name for name in fields if name not in (*SAMPLED_FIELDS, ORIGIN)]
    return {name: out[name] for name in _KEYWORDS if name in out}


def _sentence(schema: Schema) -> Schema:
    about = schema.get("description")
    return schema if about is None else {**schema, "description": about[0].upper() + about[1:] + "."}


def _definitions() -> dict[str, Schema]:
    _, found = msgspec.json.schema_components([*EVENT_CLASSES.values(), HistoryEvent, EventMember, EventDeparture])
    out = {_NAMES[name]: _adapted(schema) for name, schema in found.items()}
    for event_type in EVENT_CLASSES:
        fields = out[f"event_{event_type}"]["properties"]
        fields["type"] = {"type": "string", "const": event_type}
        if event_type != FINDING:  # every other is of a group
            fields["group"]["type"] = fields["group_type"]["type"] = "string"
    out["event_other"]["properties"]["type"] = {"type": "string", "not": {"enum": list(EVENT_CLASSES)}}
    return out


EVENT_DEFS: dict[str, Schema] = {
    **_definitions(),
    "event": {
        "description": "What happened to one group, or was found. `type` says which shape it has.",
        "oneOf": [ref(f"event_{name}") for name in (*EVENT_CLASSES, "other")],
    },
}
