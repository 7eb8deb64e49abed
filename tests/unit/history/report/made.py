"""Rollup tables of a month of a made-up fleet: what happened to each group, and the rows that tell it."""

from __future__ import annotations

import random
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from agent.history.report.building import Written
from agent.history.report.local import run as run_locally
from agent.history.report.request import Report
from agent.history.tables import TABLES, WINDOWS

HOUR_MS, DAY_MS = 3_600_000, 86_400_000
BEGIN_MS = int(datetime(2026, 10, 19, tzinfo=UTC).timestamp() * 1000)
"""A Monday. On the Sunday after, clocks in Berlin go back."""
DAYS = 31
CHANGE_MS = BEGIN_MS + 16 * DAY_MS
"""From then on some groups do better, and some worse."""
TEAMS = ("orders", "payments", "search", "billing", "mail", "ads")
KINDS = ("quiet", "deploys", "timeouts", "scaling", "better", "storm", "quiet", "deploys", "worse", "quiet")

Row = dict[str, Any]
_ARROW = {
    "string": pa.string(),
    "bigint": pa.int64(),
    "double": pa.float64(),
}


def run(job: Report) -> Written:
    """Make a report on this machine."""
    return run_locally(job, now_ms=BEGIN_MS + DAYS * DAY_MS, memory_mb=512)


@dataclass
class Rows:
    """Rows of each table."""

    groups: list[Row] = field(default_factory=list)
    causes: list[Row] = field(default_factory=list)
    episodes: list[Row] = field(default_factory=list)

    def add(self, other: Rows) -> None:
        self.groups += other.groups
        self.causes += other.causes
        self.episodes += other.episodes

    def hours(self) -> list[Row]:
        return [row for row in self.groups if row["window"] == "1h" and row["group"] is not None]

    def hourly_causes(self) -> list[Row]:
        return [row for row in self.causes if row["window"] == "1h" and row["group"] is not None]

    def write(self, where: Path, part: int = 0) -> Path:
        """As the jobs do: by day, without the column that says the day."""
        for table, columns in TABLES.items():
            schema = pa.schema([(it.name, _ARROW[it.kind]) for it in columns if it.name != "date"])
            by_date: dict[date, list[Row]] = defaultdict(list)
            for row in getattr(self, table):
                by_date[datetime.fromtimestamp(row["start_ms"] / 1000, UTC).date()].append(row)
            (where / table).mkdir(parents=True, exist_ok=True)
            for day, rows in by_date.items():
                into = where / table / f"date={day}"
                into.mkdir(exist_ok=True)
                pq.write_table(pa.Table.from_pylist(rows, schema=schema), into / f"part-{part}.parquet")
        return where


@dataclass
class Episode:
    """A busy time of a group: `rebalances` are (when, cause, stopped partition time)."""

    kind: str
    rebalances: list[tuple[int, str, int]]
    joins: int = 0
    gone: list[str] = field(default_factory=list)
    replacements: int = 0


def fleet(groups: int = 60, days: int = DAYS, seed: int = 7) -> Rows:
    out = Rows()
    for rows in each(groups, days, seed):
        out.add(rows)
    return out


def each(groups: int, days: int = DAYS, seed: int = 7) -> Iterator[Rows]:
    """Group by group."""
    for at in range(groups):
        dice = random.Random(f"{seed} {at}")
        kind = KINDS[at % len(KINDS)]
        cluster = (None, "east", "west")[at % 3]
        name = f"{TEAMS[at % len(TEAMS)]}{'.-_'[at % 3]}{kind}.v{at}"
        first, last = (0, days * 24) if at % 13 else (days * 6, days * 20)
        yield rows_of(cluster, name, list(episodes(dice, kind, days)), first, last, dice, has_lag=at % 7 != 0)


def episodes(dice: random.Random, kind: str, days: int) -> Iterator[Episode]:
    cost = dice.randint(4_000, 90_000)
    for day in range(days):
        start = BEGIN_MS + day * DAY_MS
        late = start >= CHANGE_MS
        match kind:
            case "deploys" if day % 7 < 5:
                for hour in (10, 15):
                    yield rolling(dice, start + hour * HOUR_MS, 4, cost)
            case "timeouts":
                for _ in range(dice.randint(3, 7)):
                    yield crash(dice, start + dice.randrange(23 * HOUR_MS), "session_timeout", cost)
            case "better" | "worse" if (kind == "worse") == late or day % 5 == 0:
                for _ in range(6):
                    yield crash(dice, start + dice.randrange(23 * HOUR_MS), "poll_timeout", 3 * cost)
            case "storm" if day == 12:
                at = start + 2 * HOUR_MS
                hits = [(at + step * 30_000, "session_timeout", cost) for step in range(200)]
                yield Episode("other", hits, 200, ["session_timeout"] * 200)
            case "scaling":
                yield Episode("scale_out", [(start + 8 * HOUR_MS, "member_joined", cost)], 2)
                yield Episode("scale_in", [(start + 20 * HOUR_MS, "member_left", cost)], 0, ["member_left"] * 2)
            case _ if day % 6 == 2:
                yield Episode("other", [(start + dice.randrange(DAY_MS), "partitions_changed", cost // 4)])


def rolling(dice: random.Random, at: int, members: int, cost: int) -> Episode:
    done = []
    for _ in range(members):
        at += dice.randint(5_000, 60_000)
        done += [(at, "member_left", cost), (at + 4_000, "member_joined", dice.randint(100, cost))]
    return Episode("deploy", done, members, ["member_left"] * members, dice.randint(0, 1))


def crash(dice: random.Random, at: int, cause: str, cost: int) -> Episode:
    return Episode("other", [(at, cause, cost), (at + 20_000, "member_joined", dice.randint(100, cost))], 1, [cause])


def rows_of(
    cluster: str | None,
    group: str,
    episodes: Iterable[Episode],
    first_hour: int = 0,
    last_hour: int = DAYS * 24,
    dice: random.Random | None = None,
    *,
    has_lag: bool = True,
    begin_ms: int = BEGIN_MS,
) -> Rows:
    """A group that is there from one hour to another."""
    dice = dice or random.Random(group)
    out = Rows()
    who = {"cluster": cluster, "group": group, "group_type": "classic"}
    since, until = begin_ms + first_hour * HOUR_MS, begin_ms + last_hour * HOUR_MS
    members = dice.randint(2, 12)
    done: list[tuple[int, str, int]] = []
    gone: list[tuple[int, str]] = []
    joins: Counter[int] = Counter()
    for it in episodes:
        start, end = it.rebalances[0][0], it.rebalances[-1][0]
        if not since <= start <= end < until:
            continue
        done += it.rebalances
        gone += [(start, cause) for cause in it.gone]
        joins[start] += it.joins
        out.episodes.append(
            who
            | {
                "start_ms": start,
                "end_ms": end,
                "kind": it.kind,
                "rebalances": len(it.rebalances),
                "joins": it.joins,
                "departures": len(it.gone),
                "replacements": it.replacements,
                "members_before": members,
                "members_after": members + it.joins - len(it.gone),
                "stopped_partition_ms": sum(cost for _, _, cost in it.rebalances),
            }
        )
    done.sort()
    for window in WINDOWS:
        _add_windows(out, who, window, (since, until), (done, gone, joins), members, dice if has_lag else None)
    return out


def _add_windows(
    out: Rows,
    who: Row,
    window: str,
    span: tuple[int, int],
    happened: tuple[list[tuple[int, str, int]], list[tuple[int, str]], Counter[int]],
    members: int,
    dice: random.Random | None,
) -> None:
    length = WINDOWS[window]
    done, gone, joins = happened
    here: dict[int, list[tuple[int, str, int]]] = defaultdict(list)
    gaps: dict[int, list[int]] = defaultdict(list)
    left: dict[int, list[str]] = defaultdict(list)
    for at, it in enumerate(done):
        here[it[0] // length].append(it)
        if at:
            gaps[it[0] // length].append(it[0] - done[at - 1][0])
    for at_ms, cause in gone:
        left[at_ms // length].append(cause)
    came: Counter[int] = Counter()
    for at_ms, count in joins.items():
        came[at_ms // length] += count
    told = set(here) | set(left) | set(came)
    for slot in range(span[0] // length, -(-span[1] // length)):
        if window == "5m" and slot not in told:
            continue
        bounds = who | {"window": window, "start_ms": slot * length, "end_ms": (slot + 1) * length}
        known = min(span[1], (slot + 1) * length) - max(span[0], slot * length)
        rows, lag = here[slot], None if dice is None else dice.lognormvariate(6, 1)
        rebalancing = min(known // 3, 900 * len(rows))
        out.groups.append(
            bounds
            | {
                "known_ms": known,
                "stable_ms": known - 2 * rebalancing,
                "empty_ms": 0,
                "preparing_rebalance_ms": rebalancing,
                "completing_rebalance_ms": rebalancing,
                "rebalances": len(rows),
                "joins": came[slot],
                "departures": len(left[slot]),
                "replacements": 0,
                "stopped_partition_ms": sum(cost for _, _, cost in rows),
                "rebalance_gaps": len(gaps[slot]),
                "rebalance_gap_ms": sum(gaps[slot]),
                "mean_time_between_rebalances_ms": sum(gaps[slot]) / len(gaps[slot]) if gaps[slot] else None,
                "members_min": members,
                "members_max": members,
                "members_avg": float(members),
                "imbalance_max": 1.5,
                "imbalance_avg": 1.0 + len(rows) % 3 / 4,
                "lag_samples": 0 if lag is None else length // 30_000,
                "lag_records_p99": lag,
                "lag_seconds_p99": None if lag is None else lag / 40,
                "findings_opened": 0,
            }
        )
        counts = Counter(("rebalance", cause) for _, cause, _ in rows) + Counter(
            ("departure", it) for it in left[slot]
        )
        if len(rows) > 50:
            counts["finding", "rebalance_storm"] += 1
        for (kind, cause), count in counts.items():
            cost = sum(cost for _, its, cost in rows if its == cause) if kind == "rebalance" else None
            out.causes.append(bounds | {"kind": kind, "cause": cause, "count": count, "stopped_partition_ms": cost})
