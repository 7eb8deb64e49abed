"""History's Parquet columns: one for each field of the events (`agent.core.events.events`). Knows no pyarrow.

Structs where a field's shape is fixed, JSON in a string where it is free. What happened to members' pods (`origin` of
members, with `--kubernetes`) has a column beside them, `origins`: files of before lack it, and no struct changed.
What no column holds, or not of that type (the events of a newer agent), goes into `extra`, as JSON. Parquet's
strings are UTF-8, which has no lone surrogates: a row that has one is marked `escaped`, and in all its strings
backslashes are doubled and surrogates written as `\\udc80`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import msgspec
from msgspec import inspect

from agent.core.events.events import EVENT_CLASSES, Event, HistoryEvent
from agent.core.shadow.transitions import ORIGIN, SAMPLED_FIELDS

VERSION = 1
"""Of the columns: told in each file's metadata, `kshadow.columns`. A column that is added does not raise it."""

ColumnType = str | Mapping[str, str] | tuple[Mapping[str, str]] | tuple[str]
"""A name of arrow's, `json`, a struct of named fields, or a list of one of these (a tuple of one)."""


class Column(NamedTuple):
    """A column; `types` are the event types that have the field. Times are epoch milliseconds, UTC."""

    name: str
    kind: ColumnType
    types: tuple[str, ...]
    about: str


EVERY = ("*",)
ORIGINS = "origins"
"""The column of what members have as `origin`."""
_MEMBERS = ("joined", "left", "member", "old_member")
"""Fields that are a member, or a list of them."""


def _columns() -> tuple[Column, ...]:
    found = {field.name: _column(field, EVERY) for field in _fields(HistoryEvent)}
    # The order of the columns is that of the files there are: rebalances first.
    for event_type in sorted(EVENT_CLASSES, key=lambda name: name != "rebalance"):
        for field in _fields(EVENT_CLASSES[event_type]):
            column = found.setdefault(field.name, _column(field, ()))
            if column.types is not EVERY:
                found[field.name] = column._replace(types=(*column.types, event_type))
    with_members = tuple(name for name, it in EVENT_CLASSES.items() if {*_MEMBERS} & {*it.__struct_fields__})
    about = "what happened to members' pods, a JSON object by member id; null without `--kubernetes`"
    return (*found.values(), Column(ORIGINS, "json", with_members, about))


def _fields(event_class: type[HistoryEvent]) -> tuple[inspect.Field, ...]:
    described = inspect.type_info(event_class)
    assert isinstance(described, inspect.StructType)
    return described.fields


def _column(field: inspect.Field, types: tuple[str, ...]) -> Column:
    assert isinstance(field.type, inspect.Metadata), f"{field.name} has a description"
    return Column(field.name, _type(field.type), types, (field.type.extra_json_schema or {})["description"])


def _type(described: inspect.Type) -> Any:
    match described:
        case inspect.Metadata(extra={"column": str(name)}):
            return name
        case inspect.Metadata(type=of):
            return _type(of)
        case inspect.UnionType(types=(of, inspect.NoneType())):
            return _type(of)
        case inspect.ListType(item_type=of):
            return "json" if (item := _type(of)) == "json" else (item,)
        case inspect.StructType(fields=fields):
            return {field.name: _type(field.type) for field in fields if field.name != ORIGIN}
        case _:
            return _TYPES[type(described)]


_TYPES = {
    inspect.StrType: "string",
    inspect.IntType: "int64",
    inspect.FloatType: "double",
    inspect.BoolType: "bool",
    inspect.DictType: "json",
}

COLUMNS = _columns()
EXTRA, ESCAPED = "extra", "escaped"

_SURROGATE = re.compile("[\ud800-\udfff]")
_ESCAPE = re.compile(r"\\(\\|u[0-9a-f]{4})")


def event_to_row(event: Event) -> dict[str, Any]:
    """An event as a row: values that fit their columns, and the rest in `extra`."""
    kind = event["type"]
    row: dict[str, Any] = {}
    origins: dict[str, Any] = {}
    event = _without_origins(event, origins)
    if origins:
        row[ORIGINS] = origins
    for name, value in event.items():
        fits = None if name == ORIGINS else _FITS.get(name)  # no event has a field of that name
        if fits is not None and (_has(kind, name) if value is None else fits(value)):
            row[name] = value
    beside = {name: value for name, value in event.items() if name not in row or name == ORIGINS}
    if beside:
        row[EXTRA] = _json(beside)
    for name in _FREE:
        if row.get(name) is not None:
            row[name] = _json(row[name])
    return row


def escape_surrogates(row: dict[str, Any]) -> dict[str, Any]:
    """The row of texts that UTF-8 cannot say."""
    out: dict[str, Any] = _walk(row, _escape)
    out[ESCAPED] = True
    return out


def column_text(text: str) -> tuple[str, bool]:
    """A text as a column has it in the rows that are marked `escaped`; and whether in others it is as it stands."""
    return _escape(text), _SURROGATE.search(text) is None


def text_of_column(text: str, *, escaped: bool) -> str:
    """The text that stands in a column of a row that is marked so."""
    return _unescape(text) if escaped else text


def row_to_event(row: Mapping[str, Any]) -> Event:
    """The event that a row was made of: what its type has not is left out, and what its file has no column for."""
    values = _walk(dict(row), _unescape) if row[ESCAPED] else row
    extra: Event = json.loads(values[EXTRA]) if values[EXTRA] is not None else {}
    kind = extra.get("type", values["type"])
    out: Event = {}
    for column in COLUMNS:
        if column.name in extra or column.name not in values or column.name == ORIGINS:
            continue
        value = values[column.name]
        if value is not None or _has(kind, column.name):
            out[column.name] = json.loads(value) if column.kind == "json" and value is not None else value
    out |= extra
    origins = None if values.get(ORIGINS) is None else json.loads(values[ORIGINS])
    return _with_origins(out, origins) if isinstance(origins, dict) else out


def known_origins(event: Event) -> int:
    """Of how many members of an event it is known what happened to their pods."""
    found: dict[str, Any] = {}
    _without_origins(event, found)
    return sum(origin is not None for origin in found.values())


def _without_origins(event: Event, origins: dict[str, Any]) -> Event:
    """An event whose members have no `origin`, which `origins` has then by member id."""

    def taken(member: Any) -> Any:
        match member:
            case {"member_id": str(name), "origin": origin} if name not in origins or origins[name] == origin:
                origins[name] = origin
                return {field: value for field, value in member.items() if field != ORIGIN}
        return member

    out = event
    for name in _MEMBERS:
        value = event.get(name)
        changed = list(map(taken, value)) if type(value) is list else taken(value)
        if changed != value:
            out = {**out, name: changed}
    return out


def _with_origins(event: Event, origins: Mapping[str, Any]) -> Event:
    """The event whose members have theirs, behind what is known of the client."""

    def given(member: Any) -> Any:
        if not isinstance(member, dict) or member.get("member_id") not in origins:
            return member
        origin, out = origins[member["member_id"]], dict[str, Any]()
        for field, value in member.items():
            out[field] = value
            if field == "client_library":
                out[ORIGIN] = origin
        return {**out, ORIGIN: origin}

    members = {name: event[name] for name in _MEMBERS if name in event}
    return event | {name: list(map(given, it)) if isinstance(it, list) else given(it) for name, it in members.items()}


def _fitting(kind: ColumnType) -> Callable[[Any], bool]:
    """Whether a column of that kind can hold a value (which is not None) and give it back as it is."""
    match kind:
        case "json":
            return lambda value: True
        case "string":
            return lambda value: type(value) is str
        case "int32" | "int64":
            bound = 1 << (31 if kind == "int32" else 63)
            return lambda value: type(value) is int and -bound <= value < bound
        case "double":
            return lambda value: type(value) is float
        case "bool":
            return lambda value: type(value) is bool
        case (item,):
            fits = _fitting(item)
            return lambda value: type(value) is list and all(it is not None and fits(it) for it in value)
    assert isinstance(kind, Mapping)
    fields = {name: _fitting(it) for name, it in kind.items()}
    return lambda value: (
        type(value) is dict
        and value.keys() == fields.keys()
        and all(it is None or fields[name](it) for name, it in value.items())
    )


_FITS = {column.name: _fitting(column.kind) for column in COLUMNS}
_FREE = [column.name for column in COLUMNS if column.kind == "json"]
_HAS = {column.name: column.types for column in COLUMNS}
_OPTIONAL = (*SAMPLED_FIELDS, ORIGINS)
"""What only some events of a type have: those that looks at the groups showed, or whose members have origins."""


def _has(event_type: str, name: str) -> bool:
    """Whether the contract gives each event of that type the field, so that a null there says something."""
    types = _HAS[name]
    return name not in _OPTIONAL and (types is EVERY or event_type in types)


def _json(value: Any) -> str:
    try:
        return msgspec.json.encode(value).decode()
    except (UnicodeEncodeError, OverflowError):  # lone surrogates; numbers beyond 64 bits
        return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def _escape(text: str) -> str:
    return _SURROGATE.sub(lambda found: f"\\u{ord(found[0]):04x}", text.replace("\\", "\\\\"))


def _unescape(text: str) -> str:
    return _ESCAPE.sub(lambda found: "\\" if found[1] == "\\" else chr(int(found[1][1:], 16)), text)


def _walk(value: Any, change: Callable[[str], str]) -> Any:
    match value:
        case str():
            return change(value)
        case dict():
            return {name: _walk(it, change) for name, it in value.items()}
        case list():
            return [_walk(it, change) for it in value]
        case _:
            return value
