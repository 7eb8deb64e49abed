"""The Parquet schema of history, as a table: one column a field of the contract. Pure; pyarrow is elsewhere.

Structs where a field's shape is fixed, JSON in a string where it is free. What the table does not have, or not of
that type (the events of a newer agent), goes into `extra`, as JSON. Parquet's strings are UTF-8, in which a lone
surrogate cannot be: a row that has one is marked `escaped`, and in all its strings backslashes are doubled and
surrogates written as `\\udc80`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import msgspec

from agent.history.events import Event

VERSION = 1
"""Of this table: told in each file's metadata, `kshadow.columns`. A column that is added does not raise it."""

MEMBER = {"member_id": "string", "client_id": "string", "client_host": "string", "instance_id": "string"}
GONE = {**MEMBER, "cause": "string", "confidence": "double"}

Kind = str | Mapping[str, str] | tuple[Mapping[str, str]] | tuple[str]
"""A type: a name of arrow's, `json`, a struct of named fields, or a list of one of these (a tuple of one)."""


class Column(NamedTuple):
    """A column; `types` are the event types that have the field. Times are epoch milliseconds, UTC."""

    name: str
    kind: Kind
    types: tuple[str, ...]
    about: str


EVERY = ("*",)
_MEMBERSHIP = ("member_joined", "member_left", "static_member_replaced")
_GENERATION = ("rebalance", *_MEMBERSHIP, "assignment_changed", "group_emptied")

COLUMNS = (
    Column("schema", "int32", EVERY, "the schema's version, 1"),
    Column("event_id", "string", EVERY, "the same on every replay of the same log"),
    Column("type", "string", EVERY, "what happened"),
    Column("cluster", "string", EVERY, "the cluster's name; null where it has none"),
    Column("group", "string", EVERY, "the group; null in findings of the cluster"),
    Column("group_type", "string", EVERY, "classic, connect, consumer, share or streams"),
    Column("at_ms", "int64", EVERY, "when"),
    Column("partition", "int32", EVERY, "the partition of the topic"),
    Column("offset", "int64", EVERY, "the offset of the record that shows it"),
    Column("generation", "int64", _GENERATION, "the generation or epoch that it led to"),
    Column("previous_generation", "int64", ("rebalance",), "the one before; null if the log does not hold it"),
    Column("cause", "string", ("rebalance", "member_left"), "what triggered it, or how the member left"),
    Column("causes", ("string",), ("rebalance",), "all that led to it, sorted"),
    Column("confidence", "double", ("rebalance", "member_left"), "how sure the cause is, 0 to 1"),
    Column("evidence", "json", ("rebalance",), "why, a JSON list of objects"),
    Column("observed", "bool", ("rebalance", "group_created"), "false when inferred"),
    Column("joined", (MEMBER,), ("rebalance",), "members that came"),
    Column("left", (GONE,), ("rebalance",), "members that went, each with its own cause"),
    Column("protocol", "string", ("rebalance",), "the assignor"),
    Column("members", "int64", ("rebalance", "group_sample"), "members after it, or now"),
    Column("sync_ms", "int64", ("rebalance",), "how long the sync phase took; null if not known"),
    Column("join_ms", "int64", ("rebalance",), "how long the join phase took; null if not known"),
    Column(
        "stopped_partition_ms",
        "int64",
        ("rebalance",),
        "time that partitions had nobody, summed over them; null if not known",
    ),
    Column("member", MEMBER, _MEMBERSHIP, "whom it is about"),
    Column("old_member", MEMBER, ("static_member_replaced",), "whom it replaced"),
    Column("assigned_partitions", "int64", ("assignment_changed",), "partitions with an owner"),
    Column("gained_partitions", "int64", ("assignment_changed",), "those with another owner than before"),
    Column("lost_partitions", "int64", ("assignment_changed",), "those without one any more"),
    Column(
        "imbalance_ratio",
        "double",
        ("assignment_changed", "group_sample"),
        "largest share of partitions by a fair one, 1 is even; null where none are shared out",
    ),
    Column("topic", "string", ("offsets_deleted",), "the topic of the offset"),
    Column("topic_partition", "int32", ("offsets_deleted",), "and its partition"),
    Column("committed_offset", "int64", ("offsets_deleted",), "the last that was committed"),
    Column("analyzer", "string", ("finding",), "who found it"),
    Column("severity", "string", ("finding",), "info, warning or critical"),
    Column(
        "state",
        "string",
        ("finding", "group_sample"),
        "of a finding firing or resolved; of a sample Kafka's name of the group's state",
    ),
    Column("since_ms", "int64", ("finding",), "since when it holds"),
    Column("summary", "string", ("finding",), "a sentence"),
    Column("advice", "string", ("finding",), "what to do"),
    Column("numbers", "json", ("finding",), "what it rests on, a JSON object"),
    Column("partitions", "int64", ("group_sample",), "committed positions"),
    Column(
        "lag_records",
        "int64",
        ("group_sample",),
        "lag summed over the partitions of which it is known; null where of none",
    ),
    Column("lag_seconds", "double", ("group_sample",), "the longest of them"),
    Column("lag_partitions", "int64", ("group_sample",), "of how many lag is known"),
    Column("lag_at_least", "bool", ("group_sample",), "whether it may be longer"),
    Column(
        "load_imbalance_ratio",
        "double",
        ("group_sample",),
        "the same by records consumed lately; null where not known",
    ),
)
EXTRA, ESCAPED = "extra", "escaped"

_SURROGATE = re.compile("[\ud800-\udfff]")
_ESCAPE = re.compile(r"\\(\\|u[0-9a-f]{4})")


def row_of(event: Event) -> dict[str, Any]:
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


def escaped(row: dict[str, Any]) -> dict[str, Any]:
    """The row of texts that UTF-8 cannot say."""
    out: dict[str, Any] = _walk(row, _escape)
    out[ESCAPED] = True
    return out


def event_of_row(row: Mapping[str, Any]) -> Event:
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


def _fitting(kind: Kind) -> Callable[[Any], bool]:
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


def _has(event_type: str, name: str) -> bool:
    """Whether the contract gives events of that type the field, so that a null there says something."""
    types = _HAS[name]
    return types is EVERY or event_type in types


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
