"""Where raw records come from: each source as a DataFrame of rows (`spark_jobs.rows.SCHEMA`), reduced.

In each, a partition of the topic is whole and in order within one task: segment files, since a task is given all of a
partition's; the live topic, since Spark's Kafka source makes one task of each; an archive by a shuffle, which spills.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import TimestampType

from agent.kafka.source.segments import TOPIC, discover
from agent.tools.spark_submit.jobs import Diagnosis, Kafka
from spark_jobs.backfill.reducing import Files, files_reducer, rows_reducer
from spark_jobs.errors import JobError
from spark_jobs.kafka import assigned, readable
from spark_jobs.raw import KEY, OFFSET, PARTITION, TIMESTAMP_MS, VALUE
from spark_jobs.rows import SCHEMA

_SPARK_SCHEMA = from_arrow_schema(SCHEMA)


def from_segments(spark: SparkSession, paths: Sequence[str], diagnosis: Diagnosis, cluster: str | None) -> DataFrame:
    """Rows of segment files. Raises `SourcePathError` for what is none."""
    tasks = _tasks(paths)
    ids = spark.range(0, len(tasks), 1, len(tasks))
    return ids.mapInArrow(files_reducer(tasks, diagnosis, cluster), _SPARK_SCHEMA)


def from_topic(spark: SparkSession, kafka: Kafka, diagnosis: Diagnosis, cluster: str | None) -> DataFrame:
    """Rows of the live topic, from its beginning to where it ends now, of committed transactions.

    Raises `JobError`.
    """
    read = spark.read.format("kafka").options(**readable(kafka), **assigned(kafka, TOPIC))
    # A task a partition: `minPartitions` would part one. What was compacted or deleted is gone, and no error.
    read = read.option("failOnDataLoss", "false").option("kafka.isolation.level", "read_committed")
    records = read.load().select(PARTITION, OFFSET, milliseconds(F.col("timestamp")), KEY, VALUE)
    return records.mapInArrow(rows_reducer(diagnosis, cluster), _SPARK_SCHEMA)


def from_archives(spark: SparkSession, paths: Sequence[str], diagnosis: Diagnosis, cluster: str | None) -> DataFrame:
    """Rows of raw records in Parquet. Raises `JobError` for files that have other columns."""
    read = archive(spark, paths).repartition(PARTITION).sortWithinPartitions(PARTITION, OFFSET)
    return read.mapInArrow(rows_reducer(diagnosis, cluster), _SPARK_SCHEMA)


def archive(spark: SparkSession, paths: Sequence[str]) -> DataFrame:
    """Raw records as Kafka's source gives them (`timestamp`), or with `timestamp_ms`; other topics are left out."""
    read = spark.read.parquet(*paths)
    there = dict(read.dtypes)
    wanted = {PARTITION: ("int", "bigint"), OFFSET: ("int", "bigint"), KEY: ("binary",), VALUE: ("binary",)}
    times = {TIMESTAMP_MS: ("bigint",), "timestamp": ("timestamp", "timestamp_ntz")}
    wrong = [
        f"{name} {' or '.join(kinds)} expected, {there.get(name, 'nothing')} came"
        for name, kinds in wanted.items()
        if there.get(name) not in kinds
    ]
    time = next((name for name, kinds in times.items() if there.get(name) in kinds), None)
    if time is None:
        came = there.get(TIMESTAMP_MS) or there.get("timestamp", "nothing")
        wrong.append(f"{TIMESTAMP_MS} bigint or timestamp timestamp expected, {came} came")
    if wrong:
        raise JobError(f"{', '.join(paths)}: raw records expected: {'; '.join(wrong)}")
    if "topic" in there:
        read = read.where(F.col("topic") == TOPIC)
    at = F.col(TIMESTAMP_MS) if time == TIMESTAMP_MS else milliseconds(F.col("timestamp").cast(TimestampType()))
    return read.select(F.col(PARTITION).cast("int"), F.col(OFFSET).cast("bigint"), at, KEY, VALUE)


def milliseconds(timestamp: F.Column) -> F.Column:
    """A timestamp as epoch milliseconds."""
    return F.unix_millis(timestamp).alias(TIMESTAMP_MS)


def _tasks(paths: Sequence[str]) -> list[list[Files]]:
    """A task a partition, the largest first, so that it is not the last to end."""
    files: dict[int, list[Files]] = {}
    sizes: dict[int, int] = {}
    for path in paths:
        for log in discover(Path(path)):
            files.setdefault(log.partition, []).append((log.partition, tuple(map(str, log.segments))))
            sizes[log.partition] = sizes.get(log.partition, 0) + sum(it.stat().st_size for it in log.segments)
    return [files[number] for number in sorted(files, key=lambda number: -sizes[number])]
