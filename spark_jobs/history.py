"""History events as the rollups take them, from files of the agent or of the backfill, and from the history topic.

Each event is a row of `EVENTS_DDL`: what it is sorted by, and its JSON, of which the reducer reads what it needs.
Columns and fields that a newer agent adds are passed over.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_schema, to_arrow_schema
from pyspark.sql.types import DateType, StructField, StructType

from agent.history.days import Days, is_day
from agent.history.errors import NO_HISTORY
from agent.history.input_schema import EVENTS, OF_EVENTS, check_columns
from agent.history.rolling import AHEAD_MS, EARLIEST_MS
from agent.persistence.export.arrow import HISTORY, date_of
from agent.persistence.export.columns import ESCAPED
from agent.tools.spark_submit.paths import ICEBERG
from spark_jobs.errors import JobError
from spark_jobs.formats.api import HISTORY as TABLE
from spark_jobs.formats.api import is_of
from spark_jobs.formats.iceberg import table_name
from spark_jobs.formats.opening import conformed, read_table
from spark_jobs.parquet_files import DatedDirectory, check_files
from spark_jobs.writing import literal

FILES = StructType([*from_arrow_schema(HISTORY).fields, StructField("date", DateType())])
"""Every column of `agent.persistence.export.columns`, and the day by which the files are parted."""

EVENTS_DDL = "cluster string, group string, event_id string, type string, at_ms bigint, schema int, body string"


class HistoryFiles:
    """Directories of history in Parquet, parted by date, Delta and Iceberg tables. What is read of them is looked at
    before."""

    def __init__(self, spark: SparkSession, paths: Sequence[str]) -> None:
        """Raises `JobError` for what is not there."""
        self._spark = spark
        found = [(path, read_table(spark, path, TABLE)) for path in paths]
        for path, table in found:
            if table is None and path.startswith(ICEBERG):
                raise JobError(f"{table_name(path, TABLE)} is not there: {NO_HISTORY}")
        self._tables = [(path, table) for path, table in found if table is not None]
        self._roots = [DatedDirectory(spark, path) for path, table in found if table is None]
        for path, table in self._tables:
            check_columns(path, to_arrow_schema(table.schema), EVENTS)

    @property
    def is_dated(self) -> bool:
        """Whether every file lies in the directory of a day, so that days can be read without opening others."""
        return not any(it.loose for it in self._roots)

    def dates(self, now_ms: int) -> list[str]:
        """The days there are, in order; but those of no time that could be believed."""
        last = date_of(now_ms + AHEAD_MS)
        of_tables = [{str(row[0]) for row in it.select("date").distinct().collect()} for _, it in self._tables]
        days = {it for root in self._roots for it in root.days}.union(*of_tables)
        return sorted(it for it in days if is_day(it) and it <= last)

    def read(self, *days: Days) -> DataFrame:
        """Events of some days, or of all: rows of `EVENTS_DDL`, and `date`. Raises `HistoryError` for a
        file without the columns that are read, or a damaged one."""
        frames = [conformed(table.where(is_of(*days)) if days else table, FILES) for _, table in self._tables]
        for root in self._roots:
            inside = root.paths(days)
            read = self._spark.read.schema(FILES)
            if inside:
                check_files(self._spark, inside)
                frames.append(read.option("basePath", root.path).parquet(*map(literal, inside)))
            if root.loose:
                check_files(self._spark, root.loose)
                frames.append(read.parquet(*map(literal, root.loose)))
        if not frames:
            frames = [self._spark.createDataFrame([], FILES)]
        return from_columns(reduce(DataFrame.unionByName, frames))


def from_columns(table: DataFrame) -> DataFrame:
    """A table of history → rows of `EVENTS_DDL`, and `date`."""
    body = F.to_json(F.struct(*OF_EVENTS)).alias("body")
    # A group has rows of both kinds where some of its clients' names are no UTF-8.
    plain = F.replace("group", F.lit("\\\\"), F.lit("\\"))
    group = F.when(F.col(ESCAPED), plain).otherwise(F.col("group")).alias("group")
    return table.select("cluster", group, "event_id", "type", "at_ms", "schema", body, "date")


def from_json(values: DataFrame) -> DataFrame:
    """Values of the history topic (a column `value`, binary) → rows of `EVENTS_DDL`.

    What is no JSON, or no event, has nulls. Of what is no UTF-8 the body has U+FFFD in its place: no process of
    Python's would take it as it is.
    """
    text = F.col("value").cast("string")
    fields = "cluster string, group string, event_id string, type string, at_ms bigint, schema int"
    read = F.from_json(F.when(F.is_valid_utf8(text), text), fields)
    return values.select(read.alias("it"), F.make_valid_utf8(text).alias("body")).select("it.*", "body")


def has_time(now: F.Column, earliest_ms: int = EARLIEST_MS) -> F.Column:
    """Whether an event is one, and of a time that can be. `now` is a timestamp."""
    least, most = F.lit(earliest_ms), F.unix_millis(now) + AHEAD_MS
    return F.col("event_id").isNotNull() & F.col("type").isNotNull() & F.col("at_ms").between(least, most)


def watermark_time(now: F.Column) -> F.Column:
    """The time by which an event moves the watermark, a timestamp: its own, but not after `now`, since brokers take
    records dated an hour ahead, and one alone would end everybody's windows of that hour. Null without `has_time`."""
    return F.when(has_time(now), F.timestamp_millis(F.least(F.col("at_ms"), F.unix_millis(now))))
