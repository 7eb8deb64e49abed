"""The job: raw records of a whole topic → history events as a table, by date."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

import pyarrow as pa
from pyspark import StorageLevel
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from agent.core.diagnosis.api import Finding
from agent.core.diagnosis.cluster import ClusterDiagnosis
from agent.core.shadow.cluster import ClusterMirror
from agent.persistence.export.log_clock import LogClock
from agent.tools.spark_submit.jobs import Backfill, Diagnosis
from analyzers.formatting import count_text
from spark_jobs.backfill.sources import from_archives, from_segments, from_topic
from spark_jobs.errors import JobError
from spark_jobs.formats.api import HISTORY, TableOutput
from spark_jobs.formats.opening import open_output
from spark_jobs.log_clocks import keep_clock
from spark_jobs.partition_reducer import analyzers_of
from spark_jobs.progress import print_status, progress
from spark_jobs.rows import (
    NOTE,
    DecodeErrors,
    Note,
    PartitionDone,
    PartitionLoads,
    SourceProblem,
    batch_of,
    event_rows,
    note_of,
)
from spark_jobs.session import session

ORDER = ("group", "at_ms", "partition", "offset")
"""Of a day's events: a group's side by side."""


def run(job: Backfill) -> int:
    """Run it; the exit code: 1 if something was wrong with the data. Raises `JobError`, `SourcePathError`."""
    with session("backfill") as spark:
        target = open_output(spark, job.format, job.out, (HISTORY,), "backfill")
        with target.held():
            return _backfill(spark, job, target)


def _backfill(spark: SparkSession, job: Backfill, target: TableOutput) -> int:
    if not target.is_empty() and not job.overwrite:
        raise JobError(f"{job.out}: expected an empty directory, or none; there is something in it (--overwrite?)")
    with progress(spark, "reading records"):
        # Events and notes come of one pass.
        rows = _read(spark, job).persist(StorageLevel.DISK_ONLY)
        notes = driver_notes(rows)
    check_whole(notes)
    found = cluster_events(job.diagnosis, notes)
    with progress(spark, "writing events"):
        target.replace({HISTORY: events(rows, found, job.cluster)}, None, ORDER)
    # All of each partition was read, so what one has shows that time has passed for all.
    clocks = [note.clock_ms for note in notes if isinstance(note, PartitionLoads) and note.clock_ms is not None]
    if clocks and job.format != "iceberg":
        keep_clock(spark, job.out, LogClock("backfill", job.cluster, max(clocks)))
    # Not of what was written: that would be sorted out by dates once more.
    return _end(notes, rows.where(F.col(NOTE).isNull()).count() + len(found))


def driver_notes(rows: DataFrame) -> list[Note]:
    """What tasks noted: a few for each partition."""
    return [note_of(row[0]) for row in rows.where(F.col(NOTE).isNotNull()).select(NOTE).collect()]


def events(rows: DataFrame, found: Sequence[Finding], cluster: str | None) -> DataFrame:
    """The events among the rows, with the findings of the cluster."""
    out = rows.where(F.col(NOTE).isNull())
    if found:
        batch = batch_of(list(event_rows(found, cluster)))
        out = out.unionByName(rows.sparkSession.createDataFrame(pa.Table.from_batches([batch]), rows.schema))
    return out.drop(NOTE)


def check_whole(notes: Iterable[Note]) -> None:
    """Every partition was read by one task. Raises `JobError` otherwise: then its groups were torn apart."""
    tasks = Counter(note.partition for note in notes if isinstance(note, PartitionDone))
    torn = sorted(partition for partition, count in tasks.items() if count > 1)
    if torn:
        raise JobError(f"partitions {torn}: expected one task for each, several read them (minPartitions set?)")


def cluster_events(diagnosis: Diagnosis, notes: Iterable[Note]) -> list[Finding]:
    """What only all partitions together show."""
    whole = ClusterDiagnosis(ClusterMirror(), analyzers_of(diagnosis)._replace(makes=()))
    for note in notes:
        if isinstance(note, PartitionLoads):
            note.add_to(whole)
    return whole.finish()


def _read(spark: SparkSession, job: Backfill) -> DataFrame:
    if job.kafka is not None:
        return from_topic(spark, job.kafka, job.diagnosis, job.cluster)
    if job.archives:
        return from_archives(spark, job.archives, job.diagnosis, job.cluster)
    return from_segments(spark, job.paths, job.diagnosis, job.cluster)


def _end(notes: Sequence[Note], events_told: int) -> int:
    done = [note for note in notes if isinstance(note, PartitionDone)]
    wrong = warn(notes)
    records = count_text(sum(note.records for note in done), "record")
    print_status(f"{records} of {count_text(len(done), 'partition')}: {count_text(events_told, 'event')}")
    return int(wrong)


def warn(notes: Iterable[Note]) -> bool:
    """Say what was wrong with the data; whether anything was."""
    wrong = False
    for note in notes:
        match note:
            case SourceProblem(text):
                wrong = True
                print_status(text)
            case DecodeErrors(partition, count, texts):
                wrong = True
                for text in texts:
                    print_status(text)
                print_status(
                    f"partition {partition}: {count_text(count, 'record')} could not be decoded; what the others tell"
                    " is there"
                )
    return wrong
