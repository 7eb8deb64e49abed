"""History events as Arrow: the table of `agent.persistence.export.columns` in pyarrow's terms, for files and for
Spark."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa

from agent.core.events.events import SCHEMA
from agent.persistence.export.columns import (
    COLUMNS,
    ESCAPED,
    EXTRA,
    VERSION,
    ColumnType,
    escape_surrogates,
    event_to_row,
)
from agent.persistence.export.encoded_event import EncodedEvent, decode_event

Row = dict[str, Any]

_NO_DATE = "1970-01-01"


def line_to_row(line: EncodedEvent) -> Row:
    """The row of an event that goes out. Raises `ValueError`, `TypeError`, `KeyError` for what is no event."""
    event, is_text = decode_event(line)
    row = event_to_row(event)
    if not is_text:
        return escape_surrogates(row)
    row[ESCAPED] = False
    return row


def date_of(at_ms: int) -> str:
    """The day (UTC) of a time as `2026-11-21`, by which files are parted; of what is no time the first of all."""
    try:
        return datetime.fromtimestamp(at_ms / 1000, UTC).date().isoformat()
    except (ValueError, OverflowError, OSError):
        return _NO_DATE


def rows_to_arrays(rows: Sequence[Mapping[str, Any]], schema: Any) -> list[Any]:
    """Rows as columns of a schema; what a row has not is null."""
    # An event has some seventeen of the forty fields: what it has not is not looked for.
    columns: dict[str, list[Any]] = {field.name: [None] * len(rows) for field in schema}
    for number, row in enumerate(rows):
        for name, value in row.items():
            columns[name][number] = value
    return [pa.array(columns[field.name], field.type) for field in schema]


def _type(kind: ColumnType) -> Any:
    match kind:
        case "json":
            return pa.string()
        case "double":
            return pa.float64()
        case "bool":
            return pa.bool_()
        case str():
            return getattr(pa, kind)()
        case (item,):
            return pa.list_(_type(item))
        case _:
            return pa.struct([(name, _type(it)) for name, it in kind.items()])


_FIELDS = [(column.name, _type(column.kind)) for column in COLUMNS] + [(EXTRA, pa.string()), (ESCAPED, pa.bool_())]
HISTORY = pa.schema(_FIELDS, metadata={"kshadow.schema": str(SCHEMA), "kshadow.columns": str(VERSION)})
"""The schema of history."""
