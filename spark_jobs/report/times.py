"""When it happened: steps of a day or an hour, and hours of a week, as clocks in a time zone show them.

The session's own time zone must be UTC (`spark_jobs.session`).
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from agent.history.report.columns import CAUSES_BY_DAY, HEAT_MAP
from agent.history.report.spans import Step
from spark_jobs.report.frames import KEY, join_null_safe, select_columns

_FORMATS: dict[Step, str] = {"day": "yyyy-MM-dd", "hour": "yyyy-MM-dd HH:00"}


def _local(zone: str) -> Column:
    return F.from_utc_timestamp(F.timestamp_millis("start_ms"), zone)


def _start(zone: str, step: Step) -> Column:
    return F.date_format(_local(zone), _FORMATS[step])


def steps(hours: DataFrame, zone: str, step: Step) -> DataFrame:
    """`start`, `known_ms`, `rebalances` and `stopped_partition_ms` of all groups, by step."""
    names = ("known_ms", "rebalances", "stopped_partition_ms")
    return (
        hours.groupBy(_start(zone, step).alias("start"))
        .agg(*(F.sum(name).alias(name) for name in names))
        .orderBy("start")
    )


def of_each(hours: DataFrame, groups: DataFrame, zone: str, step: Step) -> DataFrame:
    """`rank`, `start` and `rebalances` of the groups of a ranking, by step."""
    rows = join_null_safe(hours, groups.select("rank", *KEY), KEY, how="inner")
    return rows.groupBy("rank", _start(zone, step).alias("start")).agg(F.sum("rebalances").alias("rebalances"))


def causes_by_step(causes: DataFrame, zone: str, step: Step) -> DataFrame:
    """`CAUSES_BY_DAY`."""
    rows = causes.where(F.col("kind").isin("rebalance", "departure"))
    sums = rows.groupBy(_start(zone, step).alias("start"), "kind", "cause").agg(
        F.sum("count").alias("count"), F.sum("stopped_partition_ms").alias("stopped_partition_ms")
    )
    return select_columns(sums.withColumn("step", F.lit(step)), CAUSES_BY_DAY)


def heat_map(hours: DataFrame, zone: str) -> DataFrame:
    """`HEAT_MAP`."""
    local = _local(zone)
    sums = hours.groupBy((F.weekday(local) + 1).alias("weekday"), F.hour(local).alias("hour")).agg(
        F.countDistinct(F.when(F.col("known_ms") > 0, F.col("start_ms"))).alias("hours"),
        F.sum("rebalances").alias("rebalances"),
        F.sum("stopped_partition_ms").alias("stopped_partition_ms"),
    )
    return select_columns(sums, HEAT_MAP)
