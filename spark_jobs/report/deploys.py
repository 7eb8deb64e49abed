"""What deploys cost, of episodes that began in the range (`reading.begun`)."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from agent.history.report.columns import DEPLOYS
from spark_jobs.report.frames import KEY, select_columns, team, with_rank


def deploys(episodes: DataFrame) -> DataFrame:
    """`DEPLOYS`: groups, by what their deploys cost."""
    replaced = F.least("joins", "departures") + F.coalesce("replacements", F.lit(0))
    rows = (
        episodes.where(F.col("kind") == "deploy")
        .groupBy(*KEY)
        .agg(
            F.count(F.lit(1)).alias("deploys"),
            F.sum("rebalances").alias("rebalances"),
            F.sum("stopped_partition_ms").alias("stopped_partition_ms"),
            F.median("stopped_partition_ms").alias("stopped_median_ms"),
            F.sum(replaced).alias("members_replaced"),
        )
        .withColumns(
            {
                "team": team(),
                "rebalances_per_deploy": F.try_divide("rebalances", "deploys"),
                "stopped_per_member_ms": F.try_divide("stopped_partition_ms", "members_replaced"),
            }
        )
    )
    return select_columns(with_rank(rows, "stopped_partition_ms", "cluster", "group"), DEPLOYS)


def kinds(episodes: DataFrame) -> DataFrame:
    """`kind`, `episodes`, `rebalances` and `stopped_partition_ms` of all groups."""
    return episodes.groupBy("kind").agg(
        F.count(F.lit(1)).alias("episodes"),
        F.sum("rebalances").alias("rebalances"),
        F.sum("stopped_partition_ms").alias("stopped_partition_ms"),
    )
