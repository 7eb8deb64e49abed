"""The mirror as a stateful operator: raw records as they come → history events. `transformWithState`, in Python.

Its key is the partition of the topic, in which its groups live whole: their timers run on its clock, which only its
records move, and topics go by the names that its records show. By group alone neither could be told, and events would
not be those of `kshadow replay`.

Python holds little at any time, however many records of a partition are in a batch: they come to the operator in
packets (`spark_jobs.raw`), one of which is unpacked at a time, and what is told goes out in portions.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Any

import pandas as pd
import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle, TimerValues

from agent.core.diagnosis.engine import DiagnosisOutput
from agent.core.events.events import event_of
from agent.core.records import RecordBatch
from agent.persistence.export.arrow import Row, date_of, line_to_row
from agent.persistence.export.encoded_event import EncodedEvent, encode_event
from agent.persistence.snapshot.errors import SnapshotRefused
from agent.tools.spark_submit.jobs import Diagnosis
from spark_jobs.errors import StateRefused
from spark_jobs.partition_reducer import PartitionReducer, TaskState, relax
from spark_jobs.raw import OFFSET, PACKET, PACKETS_DDL, PARTITION, packets, unpacked
from spark_jobs.rows import DATE, NOTE, SCHEMA, batches_of, note_row

_TOLD = "event string, note string, at_ms bigint"
_PORTION = 5_000
"""Rows that go out at a time."""

_COLUMNS = ("event", "note", "at_ms")
Told = tuple[str | None, str | None, int]
"""A row of `_TOLD`: an event, or a note."""


def mirror_stream(records: DataFrame, diagnosis: Diagnosis, cluster: str | None) -> DataFrame:
    """Raw records of a stream (`spark_jobs.raw.RAW_DDL`), as Spark's Kafka source gives them → what is told of them,
    for `told_rows`."""
    by_partition = records.mapInArrow(packets, PACKETS_DDL).groupBy(PARTITION)
    return by_partition.transformWithStateInPandas(
        statefulProcessor=MirrorProcessor(diagnosis, cluster),
        outputStructType=_TOLD,
        outputMode="Append",
        timeMode="None",
    )


def told_rows(told: DataFrame) -> DataFrame:
    """What was told in a batch → rows of `spark_jobs.rows.SCHEMA`.

    Apart from the stream itself, in which a second process of Python for each task would wait beside the first.
    """
    return told.mapInArrow(_rows, from_arrow_schema(SCHEMA))


class MirrorProcessor(StatefulProcessor):  # type: ignore[misc]  # pyspark is not typed for us
    """Keeps each partition's state as an image."""

    def __init__(self, diagnosis: Diagnosis, cluster: str | None) -> None:
        self._diagnosis, self._cluster = diagnosis, cluster

    def init(self, handle: StatefulProcessorHandle) -> None:
        """Before the first key of a batch."""
        relax()
        self._state = handle.getValueState("image", "image binary")
        self._task = TaskState(self._diagnosis)

    def handleInputRows(  # Spark's name
        self,
        key: Any,
        rows: Iterator[pd.DataFrame],
        timerValues: TimerValues,
    ) -> Iterator[pd.DataFrame]:
        """The records of a partition in this batch: what comes of them."""
        reduction = PartitionReducer(int(key[0]), self._task, is_live=True)
        kept = self._state.get()
        if kept is not None:
            try:
                reduction.restore(bytes(kept[0]))
            except SnapshotRefused as error:
                raise StateRefused(f"the mirror of partition {reduction.partition}: {error}") from error
        packed = [it for frame in rows for it in zip(frame[OFFSET].tolist(), frame[PACKET].tolist(), strict=True)]
        told = self._told(reduction, unpacked(packed, reduction.next_offset))
        del packed
        while portion := list(islice(told, _PORTION)):
            yield pd.DataFrame(portion, columns=_COLUMNS, dtype=object)
        self._state.update((reduction.image(),))

    def _told(self, reduction: PartitionReducer, runs: Iterable[RecordBatch]) -> Iterator[Told]:
        for output in _outputs(reduction, runs):
            line = encode_event(event_of(output, self._cluster), 0)
            yield line.body.decode("utf-8"), None, line.at_ms
        for note in reduction.notes():
            yield None, note_row(note)[NOTE], 0

    def close(self) -> None:
        """Nothing is held."""


def _outputs(reduction: PartitionReducer, runs: Iterable[RecordBatch]) -> Iterator[DiagnosisOutput]:
    for run in runs:
        yield from reduction.take(run)
    yield from reduction.take_rest()


def _rows(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    def rows() -> Iterator[Row]:
        for batch in batches:
            for event, note, at_ms in zip(*(batch.column(n).to_pylist() for n in range(3)), strict=True):
                if note is not None:
                    yield {NOTE: note, DATE: "notes"}
                else:
                    yield {**line_to_row(EncodedEvent(None, "", 0, at_ms, 0, event.encode())), DATE: date_of(at_ms)}

    return batches_of(rows())
