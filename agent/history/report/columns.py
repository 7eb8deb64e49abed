"""The tables of the Parquet summary: every column with its type and unit. The page shows the same numbers.

Each is a directory of Parquet files below the summary's. All are there, also those without rows. Of groups: those
that were known in the range, from rows of an hour that lie wholly in it.
"""

from __future__ import annotations

from agent.history.tables import Column

_GROUP = (
    Column("cluster", "string", "the cluster's name; null where it has none"),
    Column("group", "string", "the group"),
    Column("team", "string", "the group's name up to the first of . - _"),
)

_COST = (
    Column(
        "stopped_partition_ms",
        "bigint",
        "stopped partition time, summed over the rebalances for which it is known; null where it is "
        "known of none of them",
    ),
    Column("stopped_unknown", "bigint", "rebalances for which it is not known"),
    Column("stopped_share", "double", "its share of the total, 0 to 1"),
    Column("main_cause", "string", "the cause of most rebalances"),
    Column("main_cause_share", "double", "its share of the rebalances, 0 to 1"),
    Column("departures", "bigint", "members that left"),
)

RANKING = (
    Column("rank", "int", "1 is the group with the most stopped partition time"),
    *_GROUP,
    Column("group_type", "string", "classic, connect, consumer, share or streams; the latest"),
    Column("known_ms", "bigint", "for how long the group was there and its state known"),
    Column("rebalances", "bigint", "rebalances that completed"),
    Column("rebalances_per_day", "double", "by known_ms"),
    Column("mean_time_between_rebalances_ms", "double", "the mean gap between one and the next; null without any"),
    *_COST,
    Column("members_avg", "double", "members, the mean over the time that they were known"),
    Column("imbalance_avg", "double", "largest share of partitions by a fair one, the mean over hours by known_ms"),
    Column("lag_samples", "bigint", "how often lag was looked at and known"),
    Column("lag_records_p99", "double", "p99 of an hour's lag in records, the mean over hours by samples"),
    Column("lag_seconds_p99", "double", "the same in seconds"),
)
"""A row for each group."""

TEAMS = (
    Column("rank", "int", "1 is the team whose groups have the most stopped partition time"),
    Column("team", "string", "groups' names up to the first of . - _"),
    Column("groups", "bigint", "its groups"),
    Column("known_ms", "bigint", "for how long they were known, summed"),
    Column("rebalances", "bigint", "rebalances that completed"),
    Column("rebalances_per_day", "double", "of a group, by known_ms"),
    *_COST,
)
"""A row for each team."""

CAUSES_BY_DAY = (
    Column("step", "string", "day, or hour where the range is under three days"),
    Column("start", "string", "YYYY-MM-DD or YYYY-MM-DD HH:00, in the report's time zone"),
    Column("kind", "string", "rebalance or departure"),
    Column("cause", "string", "the cause"),
    Column("count", "bigint", "how many"),
    Column("stopped_partition_ms", "bigint", "what those rebalances cost, where it is known; null for what is none"),
    Column("stopped_unknown", "bigint", "rebalances for which it is not known; null for what is none"),
)
"""A row for each step, kind and cause that there was."""

HEAT_MAP = (
    Column("weekday", "int", "1 Monday to 7 Sunday, in the report's time zone"),
    Column("hour", "int", "0 to 23; a window counts where it begins"),
    Column("hours", "bigint", "such hours of the range in which a group was known"),
    Column("rebalances", "bigint", "rebalances of all groups in them"),
    Column("stopped_partition_ms", "bigint", "what those cost of which it is known"),
    Column("stopped_unknown", "bigint", "rebalances for which it is not known"),
)
"""A row for each hour of a week that the range has."""

DEPLOYS = (
    Column("rank", "int", "1 is the group whose deploys cost the most"),
    *_GROUP,
    Column("deploys", "bigint", "episodes of kind deploy that began in the range"),
    Column("rebalances", "bigint", "rebalances in them"),
    Column("rebalances_per_deploy", "double", "the mean"),
    Column("stopped_partition_ms", "bigint", "stopped partition time, summed where it is known"),
    Column("stopped_unknown", "bigint", "rebalances in them of which it is not known"),
    Column("stopped_median_ms", "double", "of a deploy"),
    Column("members_replaced", "bigint", "the lesser of joins and departures, and static members that joined again"),
    Column("stopped_per_member_ms", "double", "stopped_partition_ms by members_replaced; null without any"),
)
"""A row for each group with deploys."""

COMPARISON = (
    Column("cluster", "string", "the cluster's name; null where it has none, and for all groups"),
    Column("group", "string", "the group; null for all groups"),
    Column("measure", "string", "see MEASURES"),
    Column("cause", "string", "of departures_per_day by cause; else null"),
    Column("before", "double", "its value in the range before"),
    Column("after", "double", "its value in the range after"),
    Column("change", "double", "after less before; null where one of them is not known"),
    Column(
        "before_known_ms",
        "bigint",
        "for how long the group was known in the range before; for all: summed over the groups that have both values",
    ),
    Column("after_known_ms", "bigint", "the same in the range after"),
    Column(
        "before_rebalances", "bigint", "rebalances in the range before; for all: of the groups that have both values"
    ),
    Column("after_rebalances", "bigint", "the same in the range after"),
    Column("before_unknown", "bigint", "those for which stopped partition time is not known, in the range before"),
    Column("after_unknown", "bigint", "the same in the range after"),
)
"""Rows for each group that was known in both ranges, and for all of those together."""

MEASURES = {
    "rebalances_per_day": "rebalances by known time; for all: of a group",
    "stopped_partition_ms_per_day": (
        "stopped partition time in milliseconds by known time; for all: of a group, of those that have both values"
    ),
    "departures_per_day": "members that left by known time; for all: of a group",
    "imbalance_avg": "as in the ranking; for all: the mean of the groups that have it in both ranges",
    "lag_records_p99": "the same",
    "lag_seconds_p99": "the same",
}
"""What is compared."""

GAINS = (
    Column("rank", "int", "1 is the group that would gain the most"),
    Column("group", "string", "the group"),
    Column("since_ms", "bigint", "the time that was replayed: its begin"),
    Column("until_ms", "bigint", "and its end"),
    Column("exact", "boolean", "whether the replay under today's settings came out as it was"),
    Column("setting", "string", "the setting that saves most"),
    Column("rebalances_now", "bigint", "rebalances in the replay under today's settings"),
    Column("rebalances_then", "bigint", "and under that setting"),
    Column(
        "stopped_now_ms",
        "bigint",
        "stopped partition time in the replay, with the time until dead members are detected: today",
    ),
    Column("stopped_then_ms", "bigint", "and under that setting"),
    Column("saved_partition_ms", "bigint", "the difference"),
    Column("assumptions", "array<string>", "what the model assumes"),
)
"""A row for each group for which a setting would have saved standstill."""

SUMMARY = {
    "ranking": RANKING,
    "teams": TEAMS,
    "causes_by_day": CAUSES_BY_DAY,
    "heat_map": HEAT_MAP,
    "deploys": DEPLOYS,
    "comparison": COMPARISON,
    "gains": GAINS,
}
"""Each table by its name, which is also that of its directory."""
