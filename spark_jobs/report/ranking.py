"""Totals, groups and teams. Every function takes rows of an hour (`reading.of_hours`)."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from agent.history.report.columns import RANKING, TEAMS
from spark_jobs.report.frames import KEY, join_null_safe, mean, per_day, select_columns, team, with_rank

STATES = ("stable_ms", "empty_ms", "preparing_rebalance_ms", "completing_rebalance_ms")
_SUMS = (
    "known_ms",
    *STATES,
    "rebalances",
    "departures",
    "stopped_partition_ms",
    "rebalance_gaps",
    "rebalance_gap_ms",
)


def summed(hours: DataFrame, *keys: str) -> DataFrame:
    """What adds up, and means of what does not, by `keys`; without keys of all."""
    return hours.groupBy(*keys).agg(
        *(F.sum(name).alias(name) for name in (*_SUMS, "lag_samples")),
        F.max_by("group_type", "start_ms").alias("group_type"),
        mean("members_avg", "known_ms").alias("members_avg"),
        mean("imbalance_avg", "known_ms").alias("imbalance_avg"),
        mean("lag_records_p99", "lag_samples").alias("lag_records_p99"),
        mean("lag_seconds_p99", "lag_samples").alias("lag_seconds_p99"),
    )


def totals(hours: DataFrame) -> DataFrame:
    """One row."""
    groups = hours.select(*KEY).distinct()
    sums = hours.agg(*(F.sum(name).alias(name) for name in _SUMS))
    return sums.crossJoin(groups.agg(F.count(F.lit(1)).alias("groups"))).crossJoin(
        groups.agg(F.sort_array(F.collect_set(F.coalesce("cluster", F.lit("")))).alias("clusters"))
    )


def main_causes(causes: DataFrame, *keys: str) -> DataFrame:
    """Which cause most rebalances had, and its part of them."""
    counted = causes.where(F.col("kind") == "rebalance").groupBy(*keys, "cause").agg(F.sum("count").alias("count"))
    most = counted.groupBy(*keys).agg(
        F.max(F.struct("count", "cause")).alias("most"), F.sum("count").alias("all_of_them")
    )
    return most.select(
        *keys,
        F.col("most.cause").alias("main_cause"),
        F.try_divide(F.col("most.count"), F.col("all_of_them")).alias("main_cause_share"),
    )


def ranking(hours: DataFrame, causes: DataFrame) -> DataFrame:
    """`RANKING`: groups, by stopped partition time."""
    groups = join_null_safe(summed(hours, *KEY), main_causes(causes, *KEY), KEY, how="left")
    rows = _with_share(groups).select(
        "*",
        team().alias("team"),
        per_day("rebalances").alias("rebalances_per_day"),
        F.try_divide("rebalance_gap_ms", "rebalance_gaps").alias("mean_time_between_rebalances_ms"),
    )
    return select_columns(with_rank(rows, "stopped_partition_ms", "cluster", "group"), RANKING)


def teams(ranking: DataFrame, causes: DataFrame) -> DataFrame:
    """`TEAMS`, of the ranking of groups."""
    names = ("known_ms", "rebalances", "stopped_partition_ms", "departures")
    sums = ranking.groupBy("team").agg(
        F.count(F.lit(1)).alias("groups"), *(F.sum(name).alias(name) for name in names)
    )
    main = main_causes(causes.withColumn("team", team()), "team")
    rows = _with_share(join_null_safe(sums, main, ("team",), how="left"))
    rows = rows.withColumn("rebalances_per_day", per_day("rebalances"))
    return select_columns(with_rank(rows, "stopped_partition_ms", "team"), TEAMS)


def _with_share(rows: DataFrame) -> DataFrame:
    every = rows.agg(F.sum("stopped_partition_ms").alias("of_all"))
    return rows.crossJoin(every).withColumn("stopped_share", F.try_divide("stopped_partition_ms", "of_all"))


def departures(causes: DataFrame) -> DataFrame:
    """`cause` and `count` of members that went, most first."""
    gone = causes.where(F.col("kind") == "departure")
    return gone.groupBy("cause").agg(F.sum("count").alias("count")).orderBy(F.desc("count"), "cause")


def findings(causes: DataFrame) -> DataFrame:
    """`analyzer`, `count` of findings that began to fire, `groups` that had them, and `most`: three with most."""
    of_groups = (
        causes.where(F.col("kind") == "finding")
        .groupBy(F.col("cause").alias("analyzer"), *KEY)
        .agg(F.sum("count").alias("count"))
    )
    by_count = F.sort_array(
        F.collect_list(F.when(F.col("group").isNotNull(), F.struct(-F.col("count"), F.col("group"))))
    )
    return (
        of_groups.groupBy("analyzer")
        .agg(
            F.sum("count").alias("count"),
            F.count("group").alias("groups"),
            F.slice(by_count, 1, 3)["group"].alias("most"),
        )
        .orderBy(F.desc("count"), "analyzer")
    )


def unknown(ranking: DataFrame, span_ms: int) -> DataFrame:
    """One row: of how many groups something is not known. `half`: less than half of `span_ms` is known."""

    def number(condition: Column, name: str) -> Column:
        return F.count_if(condition).alias(name)

    return ranking.agg(
        F.count(F.lit(1)).alias("groups"),
        F.sum("known_ms").alias("known_ms"),
        number(F.coalesce("known_ms", F.lit(0)) < span_ms / 2, "half"),
        number(F.col("members_avg").isNull(), "members"),
        number(F.col("imbalance_avg").isNull(), "imbalance"),
        number(F.coalesce("lag_samples", F.lit(0)) == 0, "lag"),
        number(F.col("stopped_partition_ms").isNull(), "stopped"),
    )
