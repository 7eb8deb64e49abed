"""What a task does: runs of whole partitions, in order → rows. The agent's own reducer, on an executor.

A partition of the topic is what a task reads whole: its event clock, when it is sampled and the topic names that its
records show are the partition's, and every group lives in one. Memory goes with its groups, not with its records.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import pyarrow as pa

from agent.core.records import RecordBatch
from agent.kafka.source.problems import SegmentProblem
from agent.kafka.source.segments import PartitionLog
from agent.persistence.export.arrow import Row
from agent.tools.spark_submit.jobs import Diagnosis
from spark_jobs.partition_reducer import PartitionReducer, TaskState, relax
from spark_jobs.raw import record_batches
from spark_jobs.rows import SourceProblem, batches_of, event_rows, note_row

Files = tuple[int, tuple[str, ...]]
"""A partition's segments: its number, and their paths in order."""


def rows_reducer(
    diagnosis: Diagnosis, cluster: str | None
) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """For `mapInArrow`: raw records, whole partitions in the order of offsets → rows."""

    def reduce(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        relax()
        return batches_of(_reduced(record_batches(batches), diagnosis, cluster))

    return reduce


def files_reducer(
    files: list[list[Files]], diagnosis: Diagnosis, cluster: str | None
) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """For `mapInArrow`: numbers of tasks, one a row → rows. Each task reads the files that stand under its number."""

    def reduce(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        relax()
        tasks = (number for batch in batches for number in batch.column(0).to_pylist())
        read = (item for number in tasks for item in _read(files[number]))
        return batches_of(_reduced(read, diagnosis, cluster))

    return reduce


def _read(files: Iterable[Files]) -> Iterator[RecordBatch | SegmentProblem]:
    for partition, paths in files:
        yield from PartitionLog(partition, tuple(map(Path, paths))).committed()


def _reduced(
    read: Iterable[RecordBatch | SegmentProblem], diagnosis: Diagnosis, cluster: str | None
) -> Iterator[Row]:
    now: PartitionReducer | None = None
    state = TaskState(diagnosis)
    for item in read:
        if isinstance(item, SegmentProblem):
            if not item.harmless:
                yield note_row(SourceProblem(str(item)))
            continue
        if now is None or now.partition != item.partition:
            if now is not None:
                yield from _finished(now, cluster)
            now = PartitionReducer(item.partition, state)
        yield from event_rows(now.take(item), cluster)
    if now is not None:
        yield from _finished(now, cluster)


def _finished(reducer: PartitionReducer, cluster: str | None) -> Iterator[Row]:
    yield from event_rows(reducer.take_rest(), cluster)
    yield from map(note_row, reducer.finish())
