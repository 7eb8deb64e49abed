"""What tasks give back: history events as rows, and beside them notes for the job, in one schema.

A note is JSON in the column `note`; what has none is an event. Both come out of the same pass over the records, and a
pass is too dear to be made twice.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any

import msgspec
import pyarrow as pa
from msgspec import Struct
from pyspark.sql import DataFrame

from agent.core.diagnosis.api import PartitionLoad
from agent.core.diagnosis.cluster import ClusterDiagnosis
from agent.core.diagnosis.engine import DiagnosisOutput
from agent.core.events.events import event_of
from agent.persistence.export.arrow import HISTORY, Row, date_of, line_to_row, rows_to_arrays
from agent.persistence.export.columns import row_to_event
from agent.persistence.export.encoded_event import encode_event

NOTE, DATE = "note", "date"

SCHEMA = pa.schema([*HISTORY, (NOTE, pa.string()), (DATE, pa.string())])
"""History's columns, the note, and the day (UTC)."""

BATCH = 2_000
"""Rows at a time."""


class SourceProblem(Struct, frozen=True, tag="problem"):
    """Something is wrong with the data: what, as a sentence."""

    text: str


class DecodeErrors(Struct, frozen=True, tag="errors"):
    """So many records of a partition could not be decoded, of which `texts` tells of the latest."""

    partition: int
    count: int
    texts: list[str]


class PartitionLoads(Struct, frozen=True, tag="loads"):
    """What a partition took in by windows: their end, the load, and the offset of the last record by then. `clock_ms`
    is the partition's event clock, None where it has none."""

    partition: int
    clock_ms: int | None
    windows: list[tuple[int, PartitionLoad, int]]

    @classmethod
    def of(
        cls, partition: int, clock_ms: int | None, loads: Mapping[int, tuple[PartitionLoad, int]]
    ) -> PartitionLoads:
        """The note of a diagnosis' loads."""
        return cls(partition, clock_ms, [(end_ms, load, at) for end_ms, (load, at) in sorted(loads.items())])

    def add_to(self, whole: ClusterDiagnosis) -> None:
        """Tell them to a diagnosis of what spans partitions."""
        loads = {end_ms: (load, at) for end_ms, load, at in self.windows}
        whole.merge_partition(self.partition, loads, self.clock_ms or 0)


class PartitionDone(Struct, frozen=True, tag="done"):
    """A partition was read: so many records."""

    partition: int
    records: int


Note = SourceProblem | DecodeErrors | PartitionLoads | PartitionDone

note_of = msgspec.json.Decoder(Note).decode
"""The note that a text says."""

_encode = msgspec.json.Encoder().encode


def event_rows(outputs: Iterable[DiagnosisOutput], cluster: str | None) -> Iterator[Row]:
    """Outputs as rows of history: what the agent's own files have of the same events."""
    for output in outputs:
        line = encode_event(event_of(output, cluster), 0)
        yield {**line_to_row(line), DATE: date_of(line.at_ms)}


def note_row(note: Note) -> Row:
    """A note as a row."""
    return {NOTE: _encode(note).decode(), DATE: "notes"}


def lines_of(history: DataFrame) -> DataFrame:
    """Rows of history → `key` and `value` of the records that the agent itself would write of these events."""
    return history.select(*HISTORY.names).mapInArrow(_lines, "key binary, value binary")


def _lines(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        lines = [encode_event(row_to_event(row), 0) for row in batch.to_pylist()]
        columns = [[line.key for line in lines], [line.body for line in lines]]
        yield pa.RecordBatch.from_arrays([pa.array(it, pa.binary()) for it in columns], ["key", "value"])


def batches_of(rows: Iterable[Row], schema: Any = SCHEMA) -> Iterator[pa.RecordBatch]:
    """Rows as Arrow, so many at a time."""
    rows = iter(rows)
    while some := list(islice(rows, BATCH)):
        yield batch_of(some, schema)


def batch_of(rows: Sequence[Row], schema: Any = SCHEMA) -> Any:
    """Rows as one batch."""
    return pa.RecordBatch.from_arrays(rows_to_arrays(rows, schema), schema=schema.remove_metadata())
