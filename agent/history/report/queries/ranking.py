"""Totals, groups and teams, over `hours` and `hourly_causes`."""

from __future__ import annotations

from agent.history.report.queries.views import KEY, mean, per_day, rank, same, share, summed_stopped, team

_SUMS = (
    "known_ms",
    "stable_ms",
    "empty_ms",
    "preparing_rebalance_ms",
    "completing_rebalance_ms",
    "rebalances",
    "departures",
    "stopped_partition_ms",
    "stopped_unknown",
    "join_unknown",
    "sync_unknown",
    "rebalance_gaps",
    "rebalance_gap_ms",
)


def _sums(*names: str) -> str:
    sums = {name: f"CAST(sum({name}) AS BIGINT)" for name in names} | {"stopped_partition_ms": summed_stopped()}
    return ", ".join(f"{it} AS {name}" for name, it in sums.items())


def summed(hours: str, keys: str) -> str:
    """What adds up, and means of what does not, by `keys`."""
    return f"""
    SELECT {keys}, {_sums(*_SUMS, "lag_samples")},
        arg_max(group_type, start_ms) AS group_type,
        {mean("members_avg", "known_ms")} AS members_avg,
        {mean("imbalance_avg", "known_ms")} AS imbalance_avg,
        {mean("lag_records_p99", "lag_samples")} AS lag_records_p99,
        {mean("lag_seconds_p99", "lag_samples")} AS lag_seconds_p99
    FROM {hours} GROUP BY {keys}"""


TOTALS = f"""
WITH clusters AS (SELECT DISTINCT {KEY} FROM hours)
SELECT {_sums(*_SUMS)},
    (SELECT count(*) FROM clusters) AS groups,
    (SELECT list_sort(list(DISTINCT coalesce(cluster, ''))) FROM clusters) AS clusters
FROM hours"""
"""One row."""


def _main_causes(causes: str, keys: str) -> str:
    """Which cause most rebalances had, and its part of them."""
    return f"""
    SELECT {keys}, arg_max(cause, (count, cause)) AS main_cause,
        {share("max(count)", "sum(count)")} AS main_cause_share
    FROM (
        SELECT {keys}, cause, sum(count) AS count FROM {causes} WHERE kind = 'rebalance' GROUP BY {keys}, cause
    ) GROUP BY {keys}"""


RANKING = f"""
WITH groups_summed AS ({summed("hours", KEY)}), main AS ({_main_causes("hourly_causes", KEY)})
SELECT it.*, main_cause, main_cause_share,
    {team("it.group")} AS team,
    {share("stopped_partition_ms", "sum(stopped_partition_ms) OVER ()")} AS stopped_share,
    {per_day("rebalances")} AS rebalances_per_day,
    {share("rebalance_gap_ms", "rebalance_gaps")} AS mean_time_between_rebalances_ms,
    {rank("stopped_partition_ms", "it.cluster", "it.group")} AS rank
FROM groups_summed it LEFT JOIN main ON {same("it", "main", "cluster", "group")}"""
"""`columns.RANKING`: groups, by stopped partition time."""

_OF_TEAMS = ("known_ms", "rebalances", "stopped_partition_ms", "stopped_unknown", "departures")

TEAMS = f"""
WITH teams_summed AS (
    SELECT team, count(*) AS groups, {_sums(*_OF_TEAMS)}
    FROM ranking GROUP BY team
), main AS (
    {_main_causes(f"(SELECT *, {team()} AS team FROM hourly_causes)", "team")}
)
SELECT it.*, main_cause, main_cause_share,
    {share("stopped_partition_ms", "sum(stopped_partition_ms) OVER ()")} AS stopped_share,
    {per_day("rebalances")} AS rebalances_per_day,
    {rank("stopped_partition_ms", "it.team")} AS rank
FROM teams_summed it LEFT JOIN main ON {same("it", "main", "team")}"""
"""`columns.TEAMS`, of the table `ranking`."""

DEPARTURES = """
SELECT cause, CAST(sum(count) AS BIGINT) AS count FROM hourly_causes WHERE kind = 'departure'
GROUP BY cause ORDER BY count DESC, cause NULLS FIRST"""
"""`cause` and `count` of members that went, most first."""

ORIGINS = DEPARTURES.replace("'departure'", "'origin'")
"""The same by origin (`cause` is its kind), of those of which it is known."""

FINDINGS = f"""
WITH of_groups AS (
    SELECT cause AS analyzer, {KEY}, CAST(sum(count) AS BIGINT) AS count
    FROM (FROM hourly_causes UNION ALL BY NAME FROM cluster_causes) WHERE kind = 'finding'
    GROUP BY cause, {KEY}
)
SELECT analyzer, CAST(sum(count) AS BIGINT) AS count, count("group") AS groups,
    coalesce(
        list({{'cluster': cluster, 'group': "group"}} ORDER BY count DESC, "group", cluster NULLS FIRST)
        FILTER ("group" IS NOT NULL)[1:3], []
    ) AS most
FROM of_groups GROUP BY analyzer ORDER BY count DESC, analyzer"""
"""`analyzer`, `count` of findings that began to fire, `groups` that had them, and `most`: the `cluster` and
`group` of three with most."""


def unknown(span_ms: int) -> str:
    """One row: of how many groups of `ranking` something is not known. `half`: less than half of `span_ms` is."""
    return f"""
    SELECT count(*) AS groups, CAST(sum(known_ms) AS BIGINT) AS known_ms,
        count_if(coalesce(known_ms, 0) < {span_ms} / 2) AS half,
        count_if(members_avg IS NULL) AS members,
        count_if(imbalance_avg IS NULL) AS imbalance,
        count_if(coalesce(lag_samples, 0) = 0) AS lag,
        count_if(stopped_partition_ms IS NULL) AS stopped
    FROM ranking"""
