"""History's Parquet columns: one for each field of the events (`agent.core.events.events`). Knows no pyarrow.

Structs where a field's shape is fixed, JSON in a string where it is free. What no column holds, or not of that type
(the events of a newer agent), goes into `extra`, as JSON. Parquet's strings are UTF-8, which has no lone surrogates:
a row that has one is marked `escaped`, and in all its strings backslashes are doubled and surrogates written as
`\\udc80`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import msgspec
from msgspec import inspect

from agent.core.events.events import EVENT_CLASSES, Event, HistoryEvent

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


def _columns() -> tuple[Column, ...]:
    found = {field.name: _column(field, EVERY) for field in _fields(HistoryEvent)}
    # The order of the columns is that of the files there are: rebalances first.
    for event_type in sorted(EVENT_CLASSES, key=lambda name: name != "rebalance"):
        for field in _fields(EVENT_CLASSES[event_type]):
            column = found.setdefault(field.name, _column(field, ()))
            if column.types is not EVERY:
                found[field.name] = column._replace(types=(*column.types, event_type))
    return tuple(found.values())


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
            return {field.name: _type(field.type) for field in fields}
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
    row = {}
    for name, value in event.items():
        fits = _FITS.get(name)
        if fits is not None and (_has(kind, name) if value is None else fits(value)):
            row[name] = value
    if len(row) < len(event):
        row[EXTRA] = _json({name: value for name, value in event.items() if name not in row})
    for name in _FREE:
        if row.get(name) is not None:
            row[name] = _json(row[name])
    return row


def escape_surrogates(row: dict[str, Any]) -> dict[str, Any]:
    """The row of texts that UTF-8 cannot say."""
    out: dict[str, Any] = _walk(row, _escape)
    out[ESCAPED] = True
    return out


def row_to_event(row: Mapping[str, Any]) -> Event:
    """The event that a row was made of: what its type has not is left out, and what its file has no column for."""
    values = _walk(dict(row), _unescape) if row[ESCAPED] else row
    extra: Event = json.loads(values[EXTRA]) if values[EXTRA] is not None else {}
    kind = extra.get("type", values["type"])
    out: Event = {}
    for column in COLUMNS:
        if column.name in extra or column.name not in values:
            continue
        value = values[column.name]
        if value is not None or _has(kind, column.name):
            out[column.name] = json.loads(value) if column.kind == "json" and value is not None else value
    return {**out, **extra}


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
_OPTIONAL = ("sampled", "sampled_every_ms")
"""What only some events of a type have: those that were seen by looks at the groups."""


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
