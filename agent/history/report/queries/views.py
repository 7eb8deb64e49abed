"""The views that all queries read, over tables `groups`, `causes` and `episodes` that were registered before.

`hours`, `hourly_causes`: rows of groups, of windows of an hour that lie wholly in the range. `cluster_causes`: the
same of what is about a cluster and no group. `begun`: episodes that began in the range. `moments`: when each hour
begins, as clocks in the report's time zone show it.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import Any
from zoneinfo import ZoneInfo

from agent.common.units import DAY_MS
from agent.history.engine import rows
from agent.history.errors import HistoryError
from agent.history.report.spans import Range, Step, start_of
from agent.presentation.narrative.words import day

FIRST_MS, LAST_MS = 0, 253_402_300_799_000
"""A range with no bound: 1970 to 9999."""

MOST_DATES = 5
"""That an error names from each end."""

READ = {
    "groups": (
        *("cluster", "group", "group_type", "window", "start_ms", "end_ms", "known_ms", "stable_ms", "empty_ms"),
        *("preparing_rebalance_ms", "completing_rebalance_ms", "rebalances", "departures", "stopped_partition_ms"),
        *(
            "stopped_unknown",
            "join_unknown",
            "sync_unknown",
            "rebalance_gaps",
            "rebalance_gap_ms",
            "members_avg",
            "imbalance_avg",
            "lag_samples",
            "lag_records_p99",
        ),
        "lag_seconds_p99",
    ),
    "causes": (
        *("cluster", "group", "window", "start_ms", "end_ms", "kind", "cause", "count", "stopped_partition_ms"),
        "stopped_unknown",
    ),
    "episodes": (
        *("cluster", "group", "start_ms", "kind", "rebalances", "joins", "departures", "replacements"),
        *("stopped_partition_ms", "stopped_unknown"),
    ),
}
"""Each table of rollups, and the columns that are read of it, `date` beside them."""

KEY = 'cluster, "group"'
"""A group. The cluster may be null."""


def of_hours(table: str, span: Range) -> str:
    """Rows of an hour that lie wholly in a range."""
    return (
        f"SELECT * FROM {table} WHERE \"window\" = '1h' AND start_ms >= {span.since_ms}"
        f" AND end_ms <= {span.until_ms} AND {within_dates(span)}"
    )


def within_dates(span: Range) -> str:
    """Spares other days' files being read."""
    return f"date BETWEEN DATE '{day(span.since_ms)}' AND DATE '{day(span.until_ms)}'"


def make_views(db: Any, span: Range, zone: str, step: Step) -> None:
    """Make them of a range."""
    db.execute(f'CREATE VIEW hours AS {of_hours("groups", span)} AND "group" IS NOT NULL')
    db.execute(f'CREATE VIEW hourly_causes AS {of_hours("causes", span)} AND "group" IS NOT NULL')
    db.execute(f'CREATE VIEW cluster_causes AS {of_hours("causes", span)} AND "group" IS NULL')
    db.execute(
        f"CREATE VIEW begun AS SELECT * FROM episodes WHERE start_ms >= {span.since_ms}"
        f" AND start_ms < {span.until_ms} AND {within_dates(span)}"
    )
    db.execute("CREATE TABLE moments (start_ms BIGINT PRIMARY KEY, start VARCHAR, weekday INTEGER, hour INTEGER)")
    # By Python's own clocks, those by which the page's steps are counted: not by DuckDB's, which may know others.
    there = ZoneInfo(zone)
    moments = []
    for row in rows(db, "SELECT DISTINCT start_ms FROM (FROM hours UNION ALL BY NAME FROM hourly_causes)"):
        local = datetime.fromtimestamp(row["start_ms"] / 1000, there)
        moments.append((row["start_ms"], start_of(local, step), local.isoweekday(), local.hour))
    for at in range(0, len(moments), _PORTION):
        portion = moments[at : at + _PORTION]
        marks = ", ".join(["(?, ?, ?, ?)"] * len(portion))
        db.execute(f"INSERT INTO moments VALUES {marks}", [value for moment in portion for value in moment])


_PORTION = 500


def find_range(db: Any, asked: Range, dates: Callable[[], list[str]]) -> Range:
    """From the first hour with a row to the last. Raises `HistoryError` where there is none: with the dates that have
    rows of an hour, which `dates` gives (only those that were asked for are at hand)."""
    (row,) = rows(
        db,
        "SELECT min(start_ms) AS since, max(end_ms) AS until"
        f' FROM ({of_hours("groups", asked)} AND "group" IS NOT NULL)',
    )
    if row["since"] is None:
        raise HistoryError(
            f"no rows of an hour between {_day(asked.since_ms)} and {_day(asked.until_ms)}; {_there(dates())}"
        )
    return Range(row["since"], row["until"])


def _there(dates: list[str]) -> str:
    if not dates:
        return "the table groups has none yet: an hour is rolled up once it is over"
    shown = dates if len(dates) <= 2 * MOST_DATES else [*dates[:MOST_DATES], "…", *dates[-MOST_DATES:]]
    return f"there are {len(dates)} dates: {', '.join(shown)}"


def _day(at_ms: int) -> str:
    return {FIRST_MS: "the first", LAST_MS: "the last"}.get(at_ms) or day(at_ms)


# Parts of several queries.


def per_day(count: str) -> str:
    """So many by known time; null where none is known."""
    return f"{count} * CAST({DAY_MS} AS DOUBLE) / nullif(known_ms, 0)"


def share(part: str, whole: str) -> str:
    """A quotient; null of nothing."""
    return f"CAST({part} AS DOUBLE) / nullif({whole}, 0)"


def summed_stopped() -> str:
    """Stopped partition time; null where there were rebalances and of none of them it is known. Windows without one
    cost 0."""
    is_unknown = "sum(rebalances) > 0 AND sum(stopped_unknown) >= sum(rebalances)"
    return f"CASE WHEN {is_unknown} THEN NULL ELSE CAST(sum(stopped_partition_ms) AS BIGINT) END"


def mean(value: str, weight: str) -> str:
    """The mean of the rows that have a value, by weight; null without any. The same in every order of the rows."""
    known = f"sum({weight}) FILTER ({value} IS NOT NULL)"
    return f"fsum({value} * {weight} ORDER BY {value}, {weight}) / nullif({known}, 0)"


def team(group: str = '"group"') -> str:
    """A group's name up to the first of `.`, `-` and `_`; all of it where nothing stands before that."""
    return f"coalesce(nullif(regexp_extract({group}, '^[^._-]+'), ''), {group})"


def rank(by: str, *ties: str) -> str:
    """1 for the most; equals by name."""
    order = ", ".join([f"{by} DESC NULLS LAST", *(f"{it} NULLS FIRST" for it in ties)])
    return f"row_number() OVER (ORDER BY {order})"


def same(left: str, right: str, *keys: str) -> str:
    """A join's condition in which null is equal to null: clusters without a name are one cluster."""
    return " AND ".join(f'{left}."{key}" IS NOT DISTINCT FROM {right}."{key}"' for key in keys)
