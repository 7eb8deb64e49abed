"""Before and after: what each group was like in two ranges, by known time."""

from __future__ import annotations

from agent.history.report.queries.ranking import summed
from agent.history.report.queries.views import KEY, of_hours, per_day, same, share
from agent.history.report.spans import Range

RATES = ("rebalances_per_day", "stopped_partition_ms_per_day", "departures_per_day")
LEVELS = ("imbalance_avg", "lag_records_p99", "lag_seconds_p99")
SIDES = ("before", "after")
COUNTED = {
    "{}_known_ms": "known_ms",
    "{}_rebalances": "rebalances",
    "{}_unknown": "coalesce(stopped_unknown, 0)",
}
"""What is told of each side beside the measure, by the column's name: for how long, of how many rebalances, and of
how many of those the cost is not known."""
_COUNTS = [name.format(side) for name in COUNTED for side in SIDES]
_HAS_BOTH = '"before" IS NOT NULL AND "after" IS NOT NULL'


def comparison(before: Range, after: Range) -> str:
    """`columns.COMPARISON`, of rows of an hour that lie wholly in one of two ranges."""
    return f"""
    WITH sided_hours AS ({_sided("groups", before, after)}),
    sided_causes AS ({_sided("causes", before, after)}),
    sums AS MATERIALIZED ({summed("sided_hours", f"{KEY}, side")}),
    known AS (
        SELECT {KEY}, {", ".join(_of_sides(value, name) for name, value in COUNTED.items())} FROM sums GROUP BY {KEY}
        HAVING max(known_ms) FILTER (side = 'before') > 0 AND max(known_ms) FILTER (side = 'after') > 0
    ),
    departed AS (
        SELECT {KEY}, side, coalesce(cause, 'unknown') AS cause, sum(count) AS count
        FROM sided_causes WHERE kind = 'departure' GROUP BY ALL
    ),
    valued AS (
        {_measures()}
        UNION ALL
        SELECT it.cluster, it.group, it.side, 'departures_per_day', cause, {per_day("count")}
        FROM departed it JOIN sums ON {same("it", "sums", "cluster", "group", "side")}
    ),
    measured AS (
        SELECT {KEY}, measure, cause, {_of_sides("value", '"{}"')} FROM valued GROUP BY {KEY}, measure, cause
    ),
    of_groups AS (
        -- No row of a cause: nobody went that way. Everything else without a value is not known.
        SELECT it.cluster, it.group, measure, cause,
            CASE WHEN cause IS NULL THEN "before" ELSE coalesce("before", 0) END AS "before",
            CASE WHEN cause IS NULL THEN "after" ELSE coalesce("after", 0) END AS "after",
            {", ".join(_COUNTS)}
        FROM measured it JOIN known ON {same("it", "known", "cluster", "group")}
    ),
    totals AS (SELECT {", ".join(f"sum({it}) AS {it}" for it in _COUNTS)} FROM known),
    -- Of groups that have both: rates by all their known time, levels as the mean.
    of_all AS (
        SELECT NULL AS cluster, NULL AS "group", measure, cause, {_of_all()}, {", ".join(map(_total, _COUNTS))}
        FROM of_groups CROSS JOIN totals GROUP BY measure, cause
    )
    SELECT *, "after" - "before" AS change FROM (FROM of_groups UNION ALL BY NAME FROM of_all)"""


def _measures() -> str:
    """A row for each group, side and measure: `value`."""
    values = {name: per_day(name.removesuffix("_per_day")) for name in RATES} | {name: name for name in LEVELS}
    return " UNION ALL ".join(
        f"SELECT {KEY}, side, '{measure}' AS measure, CAST(NULL AS VARCHAR) AS cause, {value} AS value FROM sums"
        for measure, value in values.items()
    )


def _sided(table: str, before: Range, after: Range) -> str:
    """Rows of groups in one of two ranges, with `side`."""
    within = (
        f"WHEN start_ms >= {span.since_ms} AND end_ms <= {span.until_ms} THEN '{side}'"
        for side, span in zip(SIDES, (before, after), strict=True)
    )
    whole = Range(before.since_ms, after.until_ms)
    return f"""
    SELECT * FROM (SELECT *, CASE {" ".join(within)} END AS side FROM ({of_hours(table, whole)}))
    WHERE side IS NOT NULL AND "group" IS NOT NULL"""


def _of_sides(value: str, name: str) -> str:
    """There is at most one row of a side."""
    return ", ".join(f"max({value}) FILTER (side = '{side}') AS {name.format(side)}" for side in SIDES)


def _of_all() -> str:
    rates = ", ".join(f"'{it}'" for it in RATES)
    # In an order, since a sum of floats depends on it.
    out = []
    for side in SIDES:
        known = f"{side}_known_ms"
        rate = share(f'fsum("{side}" * of_groups.{known} ORDER BY {KEY}) FILTER ({_HAS_BOTH})', _total_of(known))
        level = f"""favg("{side}" ORDER BY {KEY}) FILTER ({_HAS_BOTH})"""
        out.append(f'CASE WHEN measure IN ({rates}) THEN {rate} ELSE {level} END AS "{side}"')
    return ", ".join(out)


def _total(count: str) -> str:
    return f"CAST({_total_of(count)} AS BIGINT) AS {count}"


def _total_of(count: str) -> str:
    """Of the groups that a measure is of."""
    of_both = f"sum(of_groups.{count}) FILTER ({_HAS_BOTH})"
    return f"CASE WHEN cause IS NULL THEN {of_both} ELSE any_value(totals.{count}) END"


STANDSTILL = f"""
SELECT * FROM comparison WHERE "group" IS NOT NULL AND change IS NOT NULL
    AND measure = 'stopped_partition_ms_per_day' ORDER BY change, {KEY}"""
"""Of the table `comparison` the rows of groups whose stopped partition time is known in both ranges."""
