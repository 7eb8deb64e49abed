"""Raw records as they come from a DataFrame → `RecordBatch`es.

Owns the columns' names and the way from Arrow's buffers to Python's bytes, which every record takes; and packets, in
which records cross a shuffle: some thousand of one partition as one row, compressed. Refuses to know what is in a
record.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from operator import itemgetter
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.ipc as ipc

from agent.core.records import RecordBatch

PARTITION, OFFSET, TIMESTAMP_MS, KEY, VALUE = "partition", "offset", "timestamp_ms", "key", "value"

RAW_DDL = f"{PARTITION} int, {OFFSET} bigint, {TIMESTAMP_MS} bigint, {KEY} binary, {VALUE} binary"
"""A raw record as a row. Times are epoch milliseconds."""


PACKET, RECORDS = "packet", "records"
PACKETS_DDL = f"{PARTITION} int, {OFFSET} bigint, {RECORDS} int, {PACKET} binary"
"""A packet as a row: its partition, the offset of its first record, how many there are."""

PACKET_RECORDS = 2_000
"""In one at most: what whoever unpacks it holds at a time."""

_PACKETS = pa.schema([(PARTITION, pa.int32()), (OFFSET, pa.int64()), (RECORDS, pa.int32()), (PACKET, pa.binary())])
_IN_PACKETS = ipc.IpcWriteOptions(compression="zstd")


def packets(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Rows of `RAW_DDL`, whole partitions in the order of offsets → rows of `PACKETS_DDL`. For `mapInArrow`."""
    for batch in batches:
        start = 0
        rows: list[tuple[int, int, int, bytes]] = []
        for stop in pc.run_end_encode(batch.column(PARTITION)).run_ends.to_pylist():
            for first in range(start, stop, PACKET_RECORDS):
                some = batch.slice(first, min(PACKET_RECORDS, stop - first))
                rows.append(
                    (some.column(PARTITION)[0].as_py(), some.column(OFFSET)[0].as_py(), len(some), _packed(some))
                )
            start = stop
        if not rows:
            continue
        arrays = [pa.array(it, field.type) for it, field in zip(zip(*rows, strict=True), _PACKETS, strict=True)]
        yield pa.RecordBatch.from_arrays(arrays, schema=_PACKETS)


def _packed(batch: pa.RecordBatch) -> bytes:
    sink = pa.BufferOutputStream()
    with ipc.new_stream(sink, batch.schema, options=_IN_PACKETS) as writer:
        writer.write_batch(batch)
    return bytes(sink.getvalue())


def unpacked(packed: Iterable[tuple[int, bytes]], least: int) -> Iterator[RecordBatch]:
    """The records of one partition's packets, which come with the offset of their first record in any order: runs in
    the order of offsets, from `least` on, each record once. One packet at a time is unpacked."""
    batches = (batch for _, packet in sorted(packed, key=itemgetter(0)) for batch in ipc.open_stream(packet))
    for run in record_batches(batches):
        kept = run if run.offsets[0] >= least else _continues(run, least - 1)
        if len(kept):
            yield kept


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
