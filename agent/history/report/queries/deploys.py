"""What deploys cost, over `begun`."""

from __future__ import annotations

from agent.history.report.queries.views import KEY, rank, share, team

DEPLOYS = f"""
WITH summed AS (
    SELECT {KEY}, count(*) AS deploys,
        CAST(sum(rebalances) AS BIGINT) AS rebalances,
        CAST(sum(stopped_partition_ms) AS BIGINT) AS stopped_partition_ms,
        CAST(sum(stopped_unknown) AS BIGINT) AS stopped_unknown,
        median(stopped_partition_ms) AS stopped_median_ms,
        CAST(sum(least(joins, departures) + coalesce(replacements, 0)) AS BIGINT) AS members_replaced
    FROM begun WHERE kind = 'deploy' GROUP BY {KEY}
)
SELECT *, {team()} AS team,
    {share("rebalances", "deploys")} AS rebalances_per_deploy,
    {share("stopped_partition_ms", "members_replaced")} AS stopped_per_member_ms,
    {rank("stopped_partition_ms", "cluster", '"group"')} AS rank
FROM summed"""
"""`columns.DEPLOYS`: groups, by what their deploys cost."""

KINDS = """
SELECT kind, count(*) AS episodes, CAST(sum(rebalances) AS BIGINT) AS rebalances,
    CAST(sum(stopped_partition_ms) AS BIGINT) AS stopped_partition_ms,
    CAST(sum(stopped_unknown) AS BIGINT) AS stopped_unknown
FROM begun GROUP BY kind ORDER BY kind"""
"""Of all groups."""
