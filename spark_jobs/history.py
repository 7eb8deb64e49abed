"""History events as the rollups take them, from files of the agent or of the backfill, and from the history topic.

Each event is a row of `EVENTS_DDL`: what it is sorted by, and its JSON, of which the reducer reads what it needs.
Columns and fields that a newer agent adds are passed over.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import DateType, StructField, StructType

from agent.history.rolling import AHEAD_MS, EARLIEST_MS
from agent.history.rollup_reducer import Event
from agent.persistence.export.arrow import HISTORY

FILES = StructType([*from_arrow_schema(HISTORY).fields, StructField("date", DateType())])
"""Every column of `agent.persistence.export.columns`, and the day by which the files are parted."""

EVENTS_DDL = "cluster string, group string, event_id string, type string, at_ms bigint, body string"


def from_files(spark: SparkSession, paths: Sequence[str]) -> DataFrame:
    """History events in Parquet: rows of `EVENTS_DDL`, and the day by which the files are parted as `date`."""
    return from_columns(reduce(DataFrame.unionByName, [spark.read.schema(FILES).parquet(path) for path in paths]))


def from_columns(table: DataFrame) -> DataFrame:
    """A table of history → rows of `EVENTS_DDL`, and `date`."""
    body = F.to_json(F.struct(*Event.__struct_fields__)).alias("body")
    return table.select("cluster", "group", "event_id", "type", "at_ms", body, "date")


def from_json(values: DataFrame) -> DataFrame:
    """Values of the history topic (a column `value`, binary) → rows of `EVENTS_DDL`.

    What is no JSON, or no event, has nulls.
    """
    text = F.col("value").cast("string")
    read = F.from_json(text, "cluster string, group string, event_id string, type string, at_ms bigint")
    return values.select(read.alias("it"), text.alias("body")).select("it.*", "body")


def has_time(now: F.Column) -> F.Column:
    """Whether an event is one, and of a time that can be. `now` is a timestamp."""
    least, most = F.lit(EARLIEST_MS), F.unix_millis(now) + AHEAD_MS
    return F.col("event_id").isNotNull() & F.col("type").isNotNull() & F.col("at_ms").between(least, most)
