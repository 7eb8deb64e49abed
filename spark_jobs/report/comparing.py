"""Before and after: what each group was like in two ranges, by known time."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from agent.history.report.columns import COMPARISON
from agent.history.report.spans import Range
from spark_jobs.report.frames import KEY, join_null_safe, per_day, select_columns
from spark_jobs.report.ranking import summed

RATES = ("rebalances_per_day", "stopped_partition_ms_per_day", "departures_per_day")
LEVELS = ("imbalance_avg", "lag_records_p99", "lag_seconds_p99")
SIDES = ("before", "after")


def with_side(hours: DataFrame, before: Range, after: Range) -> DataFrame:
    """Rows of an hour that lie wholly in one of two ranges, with `side`: `before` or `after`."""

    def within(span: Range) -> Column:
        return (F.col("start_ms") >= span.since_ms) & (F.col("end_ms") <= span.until_ms)

    side = F.when(within(before), "before").when(within(after), "after")
    return hours.withColumn("side", side).where(F.col("side").isNotNull())


def compare_ranges(hours: DataFrame, causes: DataFrame) -> DataFrame:
    """`COMPARISON`, of rows that have their `side`."""
    sums = summed(hours, *KEY, "side")
    known = (
        sums.groupBy(*KEY)
        .agg(*(_of_side(side, "known_ms", f"{side}_known_ms") for side in SIDES))
        .where((F.col("before_known_ms") > 0) & (F.col("after_known_ms") > 0))
    )
    measured = (
        _measures(sums)
        .unionByName(_departures(sums, causes))
        .groupBy(*KEY, "measure", "cause")
        .agg(*(_of_side(side, "value", side) for side in SIDES))
    )
    groups = join_null_safe(measured, known, KEY, how="inner").withColumns(
        {
            # No row of a cause: nobody went that way. Everything else without a value is not known.
            side: F.when(F.col("cause").isNotNull(), F.coalesce(side, F.lit(0.0))).otherwise(F.col(side))
            for side in SIDES
        }
    )
    rows = groups.unionByName(_of_all(groups, known))
    return select_columns(rows.withColumn("change", F.col("after") - F.col("before")), COMPARISON)


def _of_side(side: str, value: str, name: str) -> Column:
    """There is at most one row of a side."""
    return F.max(F.when(F.col("side") == side, F.col(value))).alias(name)


def _measures(sums: DataFrame) -> DataFrame:
    """A row for each group, side and measure: `value`."""
    wide = sums.select(
        *KEY,
        "side",
        per_day("rebalances").alias("rebalances_per_day"),
        per_day("stopped_partition_ms").alias("stopped_partition_ms_per_day"),
        per_day("departures").alias("departures_per_day"),
        *LEVELS,
    )
    rows = wide.unpivot([*KEY, "side"], [*RATES, *LEVELS], "measure", "value")
    return rows.withColumn("cause", F.lit(None).cast("string"))


def _departures(sums: DataFrame, causes: DataFrame) -> DataFrame:
    """The same of departures by cause."""
    cause = F.coalesce("cause", F.lit("unknown")).alias("cause")
    gone = causes.where(F.col("kind") == "departure").groupBy(*KEY, "side", cause)
    counted = gone.agg(F.sum("count").alias("count"))
    rows = join_null_safe(counted, sums.select(*KEY, "side", "known_ms"), (*KEY, "side"), how="inner")
    return rows.select(
        *KEY, "side", F.lit("departures_per_day").alias("measure"), per_day("count").alias("value"), "cause"
    )


def _of_all(groups: DataFrame, known: DataFrame) -> DataFrame:
    """A row for each measure: rates by all known time, levels as the mean of groups that have both."""
    sums = known.agg(
        F.sum("before_known_ms").alias("before_known_ms"), F.sum("after_known_ms").alias("after_known_ms")
    )
    both = F.col("before").isNotNull() & F.col("after").isNotNull()
    means = groups.groupBy("measure", "cause").agg(
        *(
            F.when(F.col("measure").isin(*RATES), F.sum(F.col(side) * F.col(f"{side}_known_ms")))
            .otherwise(F.avg(F.when(both, F.col(side))))
            .alias(side)
            for side in SIDES
        )
    )
    return means.crossJoin(sums).select(
        *(F.lit(None).cast("string").alias(key) for key in KEY),
        "measure",
        "cause",
        *(
            F.when(F.col("measure").isin(*RATES), F.try_divide(F.col(side), F.col(f"{side}_known_ms")))
            .otherwise(F.col(side))
            .alias(side)
            for side in SIDES
        ),
        "before_known_ms",
        "after_known_ms",
    )


def standstill(rows: DataFrame) -> DataFrame:
    """Of a comparison the rows of groups whose stopped partition time is known in both ranges."""
    of_groups = F.col("group").isNotNull() & F.col("change").isNotNull()
    measure = F.col("measure") == "stopped_partition_ms_per_day"
    return rows.where(of_groups & measure).orderBy("change", *KEY)
