"""What tasks give back: history events as rows, and beside them notes for the job, in one schema.

A note is JSON in the column `note`; what has none is an event. Both come out of the same pass over the records, and a
pass is too dear to be made twice.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import msgspec
import pyarrow as pa
from pyspark.sql import DataFrame

from agent.diagnosis.cluster import ClusterDiagnosis
from agent.diagnosis.engine import Output
from agent.export.arrow import HISTORY, Row, arrays_of, date_of, row_of_line
from agent.export.columns import event_of_row
from agent.export.lines import line_of
from agent.history.events import event_of
from analyzers.api import Load

NOTE, DATE = "note", "date"

SCHEMA = pa.schema([*HISTORY, (NOTE, pa.string()), (DATE, pa.string())])
"""History's columns, the note, and the day (UTC)."""

BATCH = 2_000
"""Rows at a time."""


class Problem(msgspec.Struct, frozen=True, tag="problem"):
    """Something is wrong with the data: what, as a sentence."""

    text: str


class Errors(msgspec.Struct, frozen=True, tag="errors"):
    """So many records of a partition could not be decoded, of which `texts` tells of the latest."""

    partition: int
    count: int
    texts: list[str]


class Loads(msgspec.Struct, frozen=True, tag="loads"):
    """What a partition took in by windows: their end, records, the group that committed most, its commits, and the
    offset of the last record by then. `clock_ms` is the partition's event clock, None where it has none."""

    partition: int
    clock_ms: int | None
    windows: list[tuple[int, int, str | None, int, int]]

    @classmethod
    def of(cls, partition: int, clock_ms: int | None, loads: Mapping[int, tuple[Load, int]]) -> Loads:
        """The note of a diagnosis' loads."""
        return cls(partition, clock_ms, [(end_ms, *load, at) for end_ms, (load, at) in sorted(loads.items())])

    def tell(self, whole: ClusterDiagnosis) -> None:
        """Tell them to a diagnosis of what spans partitions."""
        loads = {end: (Load(records, group, commits), at) for end, records, group, commits, at in self.windows}
        whole.told(self.partition, loads, self.clock_ms or 0)


class Done(msgspec.Struct, frozen=True, tag="done"):
    """A partition was read: so many records, from which offset to which."""

    partition: int
    records: int
    first_offset: int
    last_offset: int


Note = Problem | Errors | Loads | Done

note_of = msgspec.json.Decoder(Note).decode
"""The note that a text says."""

_encode = msgspec.json.Encoder().encode


def event_rows(outputs: Iterable[Output], cluster: str | None) -> Iterator[Row]:
    """Outputs as rows of history: what the agent's own files have of the same events."""
    for output in outputs:
        line = line_of(event_of(output, cluster), 0)
        yield {**row_of_line(line), DATE: date_of(line.at_ms)}


def note_row(note: Note) -> Row:
    """A note as a row."""
    return {NOTE: _encode(note).decode(), DATE: "notes"}


def lines_of(history: DataFrame) -> DataFrame:
    """Rows of history → `key` and `value` of the records that the agent itself would write of these events."""
    return history.select(*HISTORY.names).mapInArrow(_lines, "key binary, value binary")


def _lines(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        lines = [line_of(event_of_row(row), 0) for row in batch.to_pylist()]
        columns = [[line.key for line in lines], [line.body for line in lines]]
        yield pa.RecordBatch.from_arrays([pa.array(it, pa.binary()) for it in columns], ["key", "value"])


def batches_of(rows: Iterable[Row], schema: Any = SCHEMA, size: int = BATCH) -> Iterator[pa.RecordBatch]:
    """Rows as Arrow, so many at a time."""
    some: list[Row] = []
    for row in rows:
        some.append(row)
        if len(some) == size:
            yield batch_of(some, schema)
            some = []
    if some:
        yield batch_of(some, schema)


def batch_of(rows: Sequence[Row], schema: Any = SCHEMA) -> Any:
    """Rows as one batch."""
    return pa.RecordBatch.from_arrays(arrays_of(rows, schema), schema=schema.remove_metadata())
