"""The report's numbers once more, row by row, without Spark."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable
from datetime import datetime
from statistics import median
from typing import Any
from zoneinfo import ZoneInfo

from tests.unit.history.report.made import DAY_MS, Row, Rows

Key = tuple[str | None, str]


def key(row: Row) -> Key:
    return row["cluster"], row["group"]


def team(group: str) -> str:
    return re.split(r"[._-]", group)[0] or group


def by(rows: Iterable[Row], what: Callable[[Row], Any]) -> dict[Any, list[Row]]:
    out: dict[Any, list[Row]] = defaultdict(list)
    for row in rows:
        out[what(row)].append(row)
    return out


def total(rows: Iterable[Row], name: str) -> int:
    return sum(row[name] or 0 for row in rows)


def mean(rows: Iterable[Row], value: str, weight: str) -> float | None:
    known = [(row[value], row[weight]) for row in rows if row.get(value) is not None]
    weights = sum(weight for _, weight in known)
    return sum(value * weight for value, weight in known) / weights if weights else None


def within(rows: Iterable[Row], since: int, until: int) -> list[Row]:
    return [row for row in rows if row["start_ms"] >= since and row["end_ms"] <= until]


def ranking(rows: Rows) -> list[Row]:
    every = total(rows.hours(), "stopped_partition_ms")
    causes = by((row for row in rows.hourly_causes() if row["kind"] == "rebalance"), key)
    out = []
    for group, hours in by(rows.hours(), key).items():
        known, gaps = total(hours, "known_ms"), total(hours, "rebalance_gaps")
        counts: Counter[str] = Counter()
        for row in causes.get(group, ()):
            counts[row["cause"]] += row["count"]
        main = max(counts, key=lambda cause: (counts[cause], cause), default=None)
        stopped = total(hours, "stopped_partition_ms")
        out.append(
            {
                "cluster": group[0],
                "group": group[1],
                "team": team(group[1]),
                "group_type": "classic",
                "known_ms": known,
                "rebalances": total(hours, "rebalances"),
                "rebalances_per_day": total(hours, "rebalances") * DAY_MS / known,
                "mean_time_between_rebalances_ms": total(hours, "rebalance_gap_ms") / gaps if gaps else None,
                "stopped_partition_ms": stopped,
                "stopped_share": stopped / every,
                "main_cause": main,
                "main_cause_share": None if main is None else counts[main] / counts.total(),
                "departures": total(hours, "departures"),
                "members_avg": mean(hours, "members_avg", "known_ms"),
                "imbalance_avg": mean(hours, "imbalance_avg", "known_ms"),
                "lag_samples": total(hours, "lag_samples"),
                "lag_records_p99": mean(hours, "lag_records_p99", "lag_samples"),
                "lag_seconds_p99": mean(hours, "lag_seconds_p99", "lag_samples"),
            }
        )
    out.sort(key=lambda row: (-row["stopped_partition_ms"], row["cluster"] or "", row["group"]))
    return [{"rank": rank, **row} for rank, row in enumerate(out, 1)]


def heat_map(rows: Rows, zone: str) -> dict[tuple[int, int], tuple[int, int, int]]:
    """By weekday and hour: how many such hours, rebalances, stopped partition time."""

    def local(row: Row) -> tuple[int, int]:
        at = datetime.fromtimestamp(row["start_ms"] / 1000, ZoneInfo(zone))
        return at.isoweekday(), at.hour

    return {
        at: (
            len({row["start_ms"] for row in hours}),
            total(hours, "rebalances"),
            total(hours, "stopped_partition_ms"),
        )
        for at, hours in by(rows.hours(), local).items()
    }


def causes_by_day(rows: Rows, zone: str) -> dict[tuple[str, str, str], int]:
    out: Counter[tuple[str, str, str]] = Counter()
    for row in rows.hourly_causes():
        if row["kind"] != "finding":
            day = datetime.fromtimestamp(row["start_ms"] / 1000, ZoneInfo(zone)).strftime("%Y-%m-%d")
            out[day, row["kind"], row["cause"]] += row["count"]
    return dict(out)


def deploys(rows: Rows) -> dict[Key, Row]:
    out = {}
    for group, done in by((row for row in rows.episodes if row["kind"] == "deploy"), key).items():
        stopped = [row["stopped_partition_ms"] for row in done]
        replaced = sum(min(row["joins"], row["departures"]) + row["replacements"] for row in done)
        out[group] = {
            "deploys": len(done),
            "rebalances": total(done, "rebalances"),
            "rebalances_per_deploy": total(done, "rebalances") / len(done),
            "stopped_partition_ms": sum(stopped),
            "stopped_median_ms": median(stopped),
            "members_replaced": replaced,
            "stopped_per_member_ms": sum(stopped) / replaced,
        }
    return out


def rates(rows: Rows, since: int, until: int) -> dict[Key, dict[str, float | None]]:
    """Of each group in a range: measures by name, departures of a cause by `went CAUSE`."""
    out: dict[Key, dict[str, float | None]] = {}
    causes = by(within(rows.hourly_causes(), since, until), key)
    for group, hours in by(within(rows.hours(), since, until), key).items():
        known = total(hours, "known_ms")
        if not known:
            continue
        it: dict[str, float | None] = {
            "known": known,
            "rebalances_per_day": total(hours, "rebalances") * DAY_MS / known,
            "stopped_partition_ms_per_day": total(hours, "stopped_partition_ms") * DAY_MS / known,
            "departures_per_day": total(hours, "departures") * DAY_MS / known,
            "imbalance_avg": mean(hours, "imbalance_avg", "known_ms"),
            "lag_records_p99": mean(hours, "lag_records_p99", "lag_samples"),
            "lag_seconds_p99": mean(hours, "lag_seconds_p99", "lag_samples"),
        }
        gone: Counter[str] = Counter()
        for row in causes.get(group, ()):
            if row["kind"] == "departure":
                gone[row["cause"]] += row["count"]
        out[group] = it | {f"went {cause}": count * DAY_MS / known for cause, count in gone.items()}
    return out
