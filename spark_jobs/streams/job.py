"""The job: a stream of raw records → history, or a stream of history → rollups, until it is stopped.

Each batch is written under its number, in place of what an earlier try of the same batch had written.
"""

from __future__ import annotations

import json
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from datetime import timedelta
from types import FrameType
from typing import Any

from py4j.protocol import Py4JError
from pyspark import StorageLevel
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming import StreamingQuery

from agent.config.values import Address, parse_address
from agent.history.parquet_directory import ENDING, ParquetDirectory
from agent.history.tables import STREAMED
from agent.kafka.source.segments import TOPIC
from agent.persistence.export.encoded_event import MAX_MESSAGE_BYTES
from agent.persistence.export.log_clock import LogClock
from agent.tools.spark_submit.checkpoint import check_tables, claim
from agent.tools.spark_submit.errors import SubmitError
from agent.tools.spark_submit.jobs import Kafka, Stream
from agent.tools.spark_submit.paths import local_directory
from spark_jobs.backfill.job import ORDER, driver_notes, events, warn
from spark_jobs.backfill.sources import milliseconds
from spark_jobs.errors import GAVE_UP, JobError, Unreachable, explained
from spark_jobs.formats.api import HISTORY, WAIT_S
from spark_jobs.formats.delta import is_delta
from spark_jobs.formats.opening import conformed, open_output
from spark_jobs.formats.parquet import leased
from spark_jobs.formats.s3_lease import S3Lease, is_s3
from spark_jobs.history import FILES, from_columns, from_json
from spark_jobs.kafka import PREFIX, assigned, readable, with_broker_sessions
from spark_jobs.log_clocks import keep_clock
from spark_jobs.progress import print_status
from spark_jobs.raw import KEY, OFFSET, PARTITION, VALUE
from spark_jobs.rollups.rolling import table_of
from spark_jobs.rows import NOTE, PartitionDone, PartitionLoads, lines_of
from spark_jobs.session import session
from spark_jobs.streams.cluster_findings import ClusterFindings
from spark_jobs.streams.listening import ProgressListener, StartCounter
from spark_jobs.streams.metrics import StreamProgress, serving
from spark_jobs.streams.mirror import mirror_stream, told_rows
from spark_jobs.streams.rolling import roll_up_stream
from spark_jobs.streams.topic_log import TopicLog
from spark_jobs.writing import HadoopFileSystem, literal

Write = Callable[[DataFrame, int], None]
Check = Callable[[], None]
"""Raises `JobError` where the stream must not go on."""
WHO = "kshadow spark stream"
CHECKED_S = 30.0
"""How often it is looked whether the stream may go on, at least."""
_PRODUCER = {f"{PREFIX}max.request.size": str(MAX_MESSAGE_BYTES), f"{PREFIX}compression.type": "zstd"}
"""As the history's topic takes them, where Java's producer would send 1 MB. Compressed an event is a seventh of its
size, so a topic as the broker makes one takes most."""


def run(job: Stream) -> int:
    """Run it until it is stopped, or has read what was there; the exit code."""
    with session("stream") as spark:
        return follow(spark, job)


def follow(spark: SparkSession, job: Stream) -> int:
    """The same in a session. Raises `JobError` where the checkpoint or the tables are another stream's."""
    with _held(spark, job.checkpoint) as check_held:
        with _refusing():
            claim(job, HadoopFileSystem(spark))
        return _follow(spark, job, check_held)


def _check_tables(spark: SparkSession, job: Stream) -> None:
    with _refusing():
        check_tables(job, HadoopFileSystem(spark))


@contextmanager
def _refusing() -> Iterator[None]:
    """Raises `JobError` for what belongs to another stream, or is gone."""
    try:
        yield
    except SubmitError as error:
        raise JobError(str(error)) from error


@contextmanager
def _held(spark: SparkSession, checkpoint: str) -> Iterator[Check]:
    """Be the only one who goes on from a checkpoint, on this machine and on S3; gives what looks whether that is
    still so. Spark finds out that it is not when a batch ends; by then both may have written the batch."""
    here = local_directory(checkpoint)
    if here is not None:
        with leased(ParquetDirectory(here), WHO, WAIT_S):
            yield lambda: None
    elif is_s3(checkpoint):
        lease = S3Lease(spark, f"{checkpoint}/_kshadow_lease", WHO)
        with lease.held(WAIT_S):
            yield lease.check
    else:
        yield lambda: None


def _follow(spark: SparkSession, job: Stream, check_held: Check) -> int:
    topic = TOPIC if job.reads == "topic" else job.history_topic
    log = None if topic is None else TopicLog(spark, job.checkpoint, _kafka(job), topic)
    checks: list[Check] = [check_held, lambda: _check_tables(spark, job)]
    if log is not None:
        checks.append(log.check)

    def check_all() -> None:
        for check in checks:
            check()

    check_all()
    progress = StreamProgress("mirror" if job.reads == "topic" else "rollups")
    if job.reads == "topic":
        assert log is not None, "a topic is read"
        rows, write = _mirror(spark, job, log)
    else:
        rows, write = _rollups(spark, job, progress)
    trigger: dict[str, Any] = {"availableNow": True}
    if not job.available_now:
        trigger = {"processingTime": f"{int(job.trigger_s * 1000)} milliseconds"}
    stream = rows.writeStream.option("checkpointLocation", job.checkpoint).outputMode("append")
    starts = StartCounter(spark, job.checkpoint)

    def checked(batch: DataFrame, batch_id: int) -> None:
        check_all()
        write(batch, batch_id)

    with _served(job, progress):
        starts.begin(progress)
        spark.streams.addListener(ProgressListener(progress, {} if topic is None else {topic: topic}))
        query = stream.queryName(f"kshadow {progress.query}").foreachBatch(checked).trigger(**trigger).start()
        wait(query, check_all)
        starts.end(progress)
    return 0


@contextmanager
def _served(job: Stream, progress: StreamProgress) -> Iterator[None]:
    """Serve the metrics while the block runs, where that is asked for. Raises `JobError`."""
    if job.listen is None:
        yield
        return
    address = parse_address(job.listen)
    with ExitStack() as held:
        try:
            port = held.enter_context(serving(progress, address))
        except OSError as error:
            raise JobError(f"--listen {job.listen}: cannot listen there: {error.strerror}") from error
        print_status(f"metrics at http://{Address(address.host, port)}/metrics")
        yield


def wait(query: StreamingQuery, check: Check) -> None:
    """Until the query ends; a signal lets the batch that is under way end first where it can. Raises `JobError` where
    the stream must not go on, for which no batch may come: of a topic that was made anew Spark waits for partitions
    that are not there any more, and for offsets that the old one had."""
    stopped = threading.Event()

    def stop(number: int, frame: FrameType | None) -> None:
        stopped.set()

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, stop)
    told, unknown, checked_s = -1, "", time.monotonic()
    while not stopped.is_set() and not query.awaitTermination(1):
        progress = query.lastProgress
        if progress is not None and progress["batchId"] != told and progress["numInputRows"]:
            told = progress["batchId"]
            rate = progress.get("processedRowsPerSecond", 0.0)
            print_status(f"batch {told}: {progress['numInputRows']:,} records, {rate:,.0f}/s")
        if time.monotonic() - checked_s < CHECKED_S:
            continue
        try:
            check()
            unknown = ""
        except (Unreachable, Py4JError) as error:
            # Brokers may come back, and so may the store that the checkpoint and the tables are in.
            why = str(explained(str(error))).removeprefix(GAVE_UP) if isinstance(error, Py4JError) else str(error)
            if why != unknown:
                print_status(f"whether the stream may go on is not known: {why}; it is looked at again")
            unknown = why
        except JobError:
            query.stop()
            raise
        checked_s = time.monotonic()
    if stopped.is_set():
        query.stop()
        print_status("stopped; the same command goes on from here")


def _mirror(spark: SparkSession, job: Stream, log: TopicLog) -> tuple[DataFrame, Write]:
    read = _topic(spark, job, TOPIC).option("kafka.isolation.level", "read_committed").load()
    records = read.select(PARTITION, OFFSET, milliseconds(F.col("timestamp")), KEY, VALUE)
    across = ClusterFindings(spark, job.checkpoint, job.diagnosis)
    target = open_output(spark, job.format, job.out, (HISTORY,), "stream")
    passed_ms = 0

    def write(batch: DataFrame, batch_id: int) -> None:
        nonlocal passed_ms
        rows = batch.persist(StorageLevel.DISK_ONLY)
        try:
            notes = driver_notes(rows)
            warn(notes)
            found = across.findings(batch_id, notes)
            if found or not rows.where(F.col(NOTE).isNull()).isEmpty():
                told = events(told_rows(rows), found, job.cluster)
                target.append({HISTORY: told}, stream_id(spark, job.checkpoint), batch_id, ORDER)
                if job.events_topic is not None:
                    _produce(lines_of(told), job, job.events_topic)
            # A partition of which nothing was planned was at its end then.
            clocks = [it.clock_ms for it in notes if isinstance(it, PartitionLoads) and it.clock_ms is not None]
            read = [it.partition for it in notes if isinstance(it, PartitionDone)]
            if job.format != "iceberg" and clocks and min(clocks) > passed_ms and not log.unread(batch_id, read):
                passed_ms = min(clocks)
                keep_clock(spark, job.out, LogClock("stream", job.cluster, passed_ms))
        finally:
            rows.unpersist()

    return mirror_stream(records, with_broker_sessions(job.diagnosis, _kafka(job)), job.cluster), write


def _rollups(spark: SparkSession, job: Stream, progress: StreamProgress) -> tuple[DataFrame, Write]:
    if job.reads == "history-topic":
        assert job.history_topic is not None, "the command sees to it"
        told = from_json(_topic(spark, job, job.history_topic).load().select("value"))
    else:
        assert job.history is not None, "the command sees to it"
        told = from_columns(history_files(spark, job.history, job.most_files)).drop("date")
    target = open_output(spark, job.format, job.out, tuple(STREAMED), "stream")
    # Only what a process writes first may have been written before.
    is_first = True

    def write(batch: DataFrame, batch_id: int) -> None:
        nonlocal is_first
        rows = batch.persist(StorageLevel.DISK_ONLY)
        try:
            counts = {row["table"]: row["count"] for row in rows.groupBy("table").count().collect()}
            tables = {name: table_of(rows, name) for name in STREAMED if counts.get(name) or is_first}
            if tables:
                target.append(tables, stream_id(spark, job.checkpoint), batch_id)
            is_first = False
            for name, table in tables.items():
                if job.events_topic is not None and name != "set_aside":
                    _produce(_as_json(table, name), job, job.events_topic)
            if aside := counts.get("set_aside"):
                progress.set_aside += aside
                print_status(
                    f"batch {batch_id}: {aside:,} events were set aside, late, of no time or no events: see"
                    f" {job.out}/set_aside"
                )
        finally:
            rows.unpersist()

    return roll_up_stream(told, timedelta(seconds=job.watermark_s)), write


def stream_id(spark: SparkSession, checkpoint: str) -> str:
    """What Spark calls the stream, for as long as its checkpoint is there."""
    kept = HadoopFileSystem(spark).read(f"{checkpoint}/metadata")
    assert kept is not None, "Spark writes it before the first batch"
    return str(json.loads(kept)["id"])


def history_files(spark: SparkSession, place: str, most_files: int) -> DataFrame:
    """A stream of the rows of a history, of files that come: at most so many in a batch."""
    read = spark.readStream.option("maxFilesPerTrigger", most_files)
    if is_delta(spark, place):
        # What is replaced there, by a second backfill, was read already.
        return conformed(read.format("delta").option("skipChangeCommits", "true").load(place), FILES)
    # What else somebody leaves beside them is not read, as it is not on one machine.
    read = read.option("basePath", place).option("pathGlobFilter", f"*{ENDING}")
    return read.schema(FILES).parquet(literal(place))


def _topic(spark: SparkSession, job: Stream, topic: str) -> Any:
    kafka = _kafka(job)
    read = spark.readStream.format("kafka").options(**readable(kafka), **assigned(kafka, topic))
    read = read.option("startingOffsets", "earliest").option("failOnDataLoss", "false")
    return read.option("maxOffsetsPerTrigger", str(job.most_records))


def _produce(records: DataFrame, job: Stream, topic: str) -> None:
    """Write records (`key`, `value`). A batch that is made again writes them again."""
    records.write.format("kafka").options(**{**_PRODUCER, **readable(_kafka(job))}).option("topic", topic).save()


def _as_json(table: DataFrame, name: str) -> DataFrame:
    """Rows of a table as records, by group: its columns, and its name as `table`."""
    columns = [F.lit(name).alias("table"), *(it for it in table.columns if it != "date")]
    return table.select(F.coalesce("group", "cluster").alias("key"), F.to_json(F.struct(*columns)).alias("value"))


def _kafka(job: Stream) -> Kafka:
    if job.kafka is None:
        raise JobError("expected a cluster (--bootstrap-server), got none")
    return job.kafka
