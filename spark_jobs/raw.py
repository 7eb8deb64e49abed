"""Raw records as they come from a DataFrame → `RecordBatch`es.

Owns the columns' names and the way from Arrow's buffers to Python's bytes, which every record takes. Refuses to know
what is in a record.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from agent.core.records import RecordBatch

PARTITION, OFFSET, TIMESTAMP_MS, KEY, VALUE = "partition", "offset", "timestamp_ms", "key", "value"

RAW_DDL = f"{PARTITION} int, {OFFSET} bigint, {TIMESTAMP_MS} bigint, {KEY} binary, {VALUE} binary"
"""A raw record as a row. Times are epoch milliseconds."""


def record_batches(batches: Iterable[pa.RecordBatch]) -> Iterator[RecordBatch]:
    """Rows, in the order of partition and offset, as runs. A record that comes twice in a row comes once."""
    last: tuple[int, int] | None = None
    for batch in batches:
        start = 0
        for stop in pc.run_end_encode(batch.column(PARTITION)).run_ends.to_pylist():
            run = _record_batch(batch.slice(start, stop - start))
            start = stop
            if last is not None and last[0] == run.partition and run.offsets[0] <= last[1]:
                run = _continues(run, last[1])
                if not len(run):
                    continue
            elif not _ascends(run.offsets):
                run = _continues(run, run.offsets[0] - 1)
            last = run.partition, run.offsets[-1]
            yield run


def _record_batch(batch: pa.RecordBatch) -> RecordBatch:
    return RecordBatch(
        batch.column(PARTITION)[0].as_py(),
        batch.column(OFFSET).to_pylist(),
        batch.column(TIMESTAMP_MS).to_pylist(),
        octets(batch.column(KEY)),
        octets(batch.column(VALUE)),
    )


def octets(column: Any) -> list[bytes | None]:
    """A column of binaries as bytes: from its buffers, a third of what `to_pylist` takes."""
    if column.null_count or not pa.types.is_binary(column.type):
        out: list[bytes | None] = column.to_pylist()
        return out
    _, offsets, data = column.buffers()
    ends = memoryview(offsets).cast("i")[column.offset : column.offset + len(column) + 1].tolist()
    if data is None:
        return [b""] * len(column)
    base = ends[0]
    octets = data.slice(base, ends[-1] - base).to_pybytes()
    return [octets[start - base : end - base] for start, end in pairwise(ends)]


def _ascends(offsets: Sequence[int]) -> bool:
    return all(map(int.__lt__, offsets, offsets[1:]))


def _continues(run: RecordBatch, last: int) -> RecordBatch:
    """The records behind an offset, each once."""
    kept = []
    for index, offset in enumerate(run.offsets):
        if offset > last:
            kept.append(index)
            last = offset
    columns: tuple[Sequence[Any], ...] = (run.offsets, run.timestamps_ms, run.keys, run.values)
    return RecordBatch(run.partition, *([column[index] for index in kept] for column in columns))
