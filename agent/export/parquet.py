"""History to Parquet files: `<url>/date=2026-11-21/<first time>-<hash>.parquet`, the date of `at_ms` in UTC.

A file is written when so many events wait, or when the oldest has waited for `roll_s`. Until then they are in the
spool, where a crash does not reach them; without a spool they are in memory, a crash loses what is not in a file yet
(as far as the log is not read again from before it), and each barrier ends the files.

Files appear whole. Their name tells the time of the first event and a hash of all, so a batch that is written
again replaces itself, and those of several agents do not meet. After a crash the same event may be in two
files: consumers tell by `event_id`. Columns: `agent.export.columns`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from hashlib import blake2b
from typing import Any

from agent.export.columns import COLUMNS, ESCAPED, EXTRA, VERSION, Kind, escaped, row_of
from agent.export.errors import SinkDown
from agent.export.lines import Line, event_of_line
from agent.export.places import needed, open_place
from agent.export.sinks import Batching, Refused
from agent.history.events import SCHEMA

ROLL_S = 300.0
FILE_EVENTS = 50_000
FILE_BYTES = 24 * 1024 * 1024
"""Of JSON: what a file takes of memory while it is made is some ten times that, on disk a twentieth."""

_NO_DATE = "1970-01-01"


class ParquetSink:
    """Writes each batch as one file for each date in it."""

    name = "parquet"

    def __init__(self, url: str, *, roll_s: float = ROLL_S, file_events: int = FILE_EVENTS) -> None:
        """`url`: a directory, or any of fsspec's. Raises `ExportMisconfigured`."""
        self._arrow, self._parquet = needed("pyarrow"), needed("pyarrow.parquet")
        self._url, self._place = url, open_place(url)
        self._schema = _schema(self._arrow)
        self.batching = Batching(file_events, FILE_BYTES, roll_s)

    def write(self, batch: Sequence[Line]) -> Sequence[Refused]:
        """Write the files of a batch. Raises `SinkDown` where one cannot be written now."""
        dates: dict[str, list[Line]] = {}
        for line in batch:
            dates.setdefault(_date(line.at_ms), []).append(line)
        refused: list[Refused] = []
        for date, lines in dates.items():
            rows = [row for line in lines if (row := _row(line, refused)) is not None]
            name = f"date={date}/{_stem(lines)}.parquet"
            try:
                self._place.put(name, self._file(rows))
            except Exception as error:
                # Stores raise what they like: OSError, botocore's, HTTP clients'.
                raise SinkDown(f"writing {name} to {self._url}: {type(error).__name__}: {error}") from error
        return refused

    def close(self) -> None:
        """Nothing is held open."""

    def _file(self, rows: Sequence[Mapping[str, Any]]) -> bytes:
        # An event has some seventeen of the forty fields: what it has not is not looked for.
        columns: dict[str, list[Any]] = {field.name: [None] * len(rows) for field in self._schema}
        for number, row in enumerate(rows):
            for name, value in row.items():
                columns[name][number] = value
        arrays = [self._arrow.array(columns[field.name], field.type) for field in self._schema]
        out = self._arrow.BufferOutputStream()
        table = self._arrow.Table.from_arrays(arrays, schema=self._schema)
        self._parquet.write_table(table, out, compression="zstd")
        data: bytes = out.getvalue().to_pybytes()
        return data


def _row(line: Line, refused: list[Refused]) -> dict[str, Any] | None:
    try:
        event, is_text = event_of_line(line)
        row = row_of(event)
    except (ValueError, TypeError, KeyError) as error:
        refused.append(Refused(line, f"no event: {type(error).__name__}"))
        return None
    if not is_text:
        return escaped(row)
    row[ESCAPED] = False
    return row


def _stem(lines: Sequence[Line]) -> str:
    digest = blake2b(digest_size=8)
    for line in lines:
        digest.update(line.body)
    return f"{lines[0].at_ms}-{digest.hexdigest()}"


def _date(at_ms: int) -> str:
    try:
        return datetime.fromtimestamp(at_ms / 1000, UTC).date().isoformat()
    except (ValueError, OverflowError, OSError):
        return _NO_DATE  # a time that is none


def _schema(arrow: Any) -> Any:
    fields = [(column.name, _type(arrow, column.kind)) for column in COLUMNS]
    fields += [(EXTRA, arrow.string()), (ESCAPED, arrow.bool_())]
    return arrow.schema(fields, metadata={"kshadow.schema": str(SCHEMA), "kshadow.columns": str(VERSION)})


def _type(arrow: Any, kind: Kind) -> Any:
    match kind:
        case "json":
            return arrow.string()
        case "double":
            return arrow.float64()
        case "bool":
            return arrow.bool_()
        case str():
            return getattr(arrow, kind)()
        case (item,):
            return arrow.list_(_type(arrow, item))
        case _:
            return arrow.struct([(name, _type(arrow, it)) for name, it in kind.items()])
