"""When it happened: steps of a day or an hour, and hours of a week, over `hours`, `hourly_causes` and `moments`."""

from __future__ import annotations

from agent.history.report.queries.views import same, summed_stopped
from agent.history.report.spans import Step

STEPS = f"""
SELECT start, CAST(sum(known_ms) AS BIGINT) AS known_ms, CAST(sum(rebalances) AS BIGINT) AS rebalances,
    {summed_stopped()} AS stopped_partition_ms,
    CAST(sum(stopped_unknown) AS BIGINT) AS stopped_unknown
FROM hours JOIN moments USING (start_ms) GROUP BY start ORDER BY start"""
"""Of all groups, by step."""


def of_each(most_groups: int) -> str:
    """`rank`, `start` and `rebalances` of the first groups of `ranking`, by step."""
    return f"""
    SELECT rank, start, CAST(sum(hours.rebalances) AS BIGINT) AS rebalances
    FROM hours JOIN moments USING (start_ms)
    JOIN (FROM ranking WHERE rank <= {most_groups}) shown ON {same("hours", "shown", "cluster", "group")}
    GROUP BY rank, start ORDER BY rank, start"""


def causes_by_step(step: Step) -> str:
    """`columns.CAUSES_BY_DAY`."""
    return f"""
    SELECT '{step}' AS step, start, kind, cause, CAST(sum(count) AS BIGINT) AS count,
        CAST(sum(stopped_partition_ms) AS BIGINT) AS stopped_partition_ms,
        CAST(sum(stopped_unknown) AS BIGINT) AS stopped_unknown
    FROM hourly_causes JOIN moments USING (start_ms) WHERE kind IN ('rebalance', 'departure')
    GROUP BY start, kind, cause ORDER BY start, kind, cause NULLS FIRST"""


HEAT_MAP = f"""
SELECT weekday, hour, count(DISTINCT start_ms) FILTER (known_ms > 0) AS hours,
    CAST(sum(rebalances) AS BIGINT) AS rebalances,
    {summed_stopped()} AS stopped_partition_ms,
    CAST(sum(stopped_unknown) AS BIGINT) AS stopped_unknown
FROM hours JOIN moments USING (start_ms) GROUP BY weekday, hour ORDER BY weekday, hour"""
"""`columns.HEAT_MAP`."""
