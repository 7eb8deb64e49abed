"""Where raw records come from: each source as a DataFrame of rows (`spark_jobs.rows.SCHEMA`), reduced.

In each, a partition of the topic is whole and in order within one task: segment files, since a task is given all of a
partition's; the live topic, since Spark's Kafka source makes one task of each; an archive by a shuffle, which spills.
"""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import TimestampType

from agent.kafka.source.segments import TOPIC, discover_all
from agent.tools.spark_submit.jobs import Diagnosis, Kafka
from spark_jobs.backfill.reducing import Files, files_reducer, rows_reducer
from spark_jobs.errors import JobError
from spark_jobs.kafka import assigned, readable, with_broker_sessions
from spark_jobs.parquet_files import schemas_of
from spark_jobs.raw import KEY, OFFSET, PARTITION, TIMESTAMP_MS, VALUE
from spark_jobs.rows import SCHEMA
from spark_jobs.writing import literal

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
    return records.mapInArrow(rows_reducer(with_broker_sessions(diagnosis, kafka), cluster), _SPARK_SCHEMA)


def from_archives(spark: SparkSession, paths: Sequence[str], diagnosis: Diagnosis, cluster: str | None) -> DataFrame:
    """Rows of raw records in Parquet. Raises `JobError` for files that have other columns."""
    read = archive(spark, paths).repartition(PARTITION).sortWithinPartitions(PARTITION, OFFSET)
    return read.mapInArrow(rows_reducer(diagnosis, cluster), _SPARK_SCHEMA)


def archive(spark: SparkSession, paths: Sequence[str]) -> DataFrame:
    """Raw records as Kafka's source gives them (`timestamp`), or with `timestamp_ms`; other topics are left out.

    Raises `JobError` for a file without the columns, or with others than the first file, `HistoryError` for one that
    is damaged.
    """
    first: tuple[str, dict[str, str]] | None = None
    for schema, file in schemas_of(spark, paths):
        there = {field.name: field.dataType.simpleString() for field in schema.fields}
        kinds = _kinds(file, there)
        if first is not None and kinds != first[1]:
            raise JobError(f"{file}: expected raw records as in {first[0]}, {first[1]}, got {kinds}")
        first = first or (file, kinds)
    if first is None:
        raise JobError(f"{', '.join(paths)}: expected raw records in Parquet, no files are there")
    read = spark.read.parquet(*map(literal, paths))
    if "topic" in read.columns:
        read = read.where(F.col("topic") == TOPIC)
    in_ms = F.col(TIMESTAMP_MS) if TIMESTAMP_MS in first[1] else None
    at = milliseconds(F.col("timestamp").cast(TimestampType())) if in_ms is None else in_ms
    return read.select(F.col(PARTITION).cast("int"), F.col(OFFSET).cast("bigint"), at, KEY, VALUE)


def _kinds(file: str, there: dict[str, str]) -> dict[str, str]:
    """The types of the columns that are read of a file. Raises `JobError` where they are not what is expected."""
    wanted = {PARTITION: ("int", "bigint"), OFFSET: ("int", "bigint"), KEY: ("binary",), VALUE: ("binary",)}
    times = {TIMESTAMP_MS: ("bigint",), "timestamp": ("timestamp", "timestamp_ntz")}
    wrong = [
        f"expected {name} {' or '.join(kinds)}, got {there.get(name, 'nothing')}"
        for name, kinds in wanted.items()
        if there.get(name) not in kinds
    ]
    time = next((name for name, kinds in times.items() if there.get(name) in kinds), None)
    if time is None:
        came = there.get(TIMESTAMP_MS) or there.get("timestamp", "nothing")
        wrong.append(f"expected {TIMESTAMP_MS} bigint or timestamp timestamp, got {came}")
    if wrong or time is None:
        raise JobError(f"{file}: expected raw records: {'; '.join(wrong)}")
    return {name: there[name] for name in (*wanted, time, *("topic",) * ("topic" in there))}


def milliseconds(timestamp: F.Column) -> F.Column:
    """A timestamp as epoch milliseconds."""
    return F.unix_millis(timestamp).alias(TIMESTAMP_MS)


def _tasks(paths: Sequence[str]) -> list[list[Files]]:
    """A task a partition, the largest first, so that it is not the last to end."""
    files: dict[int, list[Files]] = {}
    sizes: dict[int, int] = {}
    for log in discover_all(paths):
        files.setdefault(log.partition, []).append((log.partition, tuple(map(str, log.segments))))
        sizes[log.partition] = sizes.get(log.partition, 0) + sum(it.stat().st_size for it in log.segments)
    return [files[number] for number in sorted(files, key=lambda number: -sizes[number])]
