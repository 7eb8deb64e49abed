"""The tables that the jobs write: every column with its type and unit. Spark's schemas and the docs come from here.

Times are epoch milliseconds, UTC. A window is named by its length and begins at a multiple of it; `date` is the day
(UTC) in which it begins, and what files are parted by. A column that is added does not raise `VERSION`; readers take
the columns they know by name.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

VERSION = 2
"""Of the rollup tables. That of the history is in `agent.persistence.export.columns`.

2: sums over what is not known are null, with counts of it beside; in version 1 they were 0."""

WINDOWS = {"5m": 300_000, "1h": 3_600_000, "1d": 86_400_000}
"""Each window's name, and its length in milliseconds."""


class Column(NamedTuple):
    """A column: `kind` is one of Spark's own names of types."""

    name: str
    kind: str
    about: str


_WINDOW = (
    Column("cluster", "string", "the cluster's name; null where it has none"),
    Column("group", "string", "the group; null for what is about the cluster"),
    Column("group_type", "string", "classic, connect, consumer, share or streams"),
    Column("window", "string", "5m, 1h or 1d"),
    Column("start_ms", "bigint", "when the window begins"),
    Column("end_ms", "bigint", "when it ends: not part of it"),
)
_DATE = Column("date", "date", "the day (UTC) in which it begins")


def _percentiles(name: str, about: str) -> Sequence[Column]:
    return (
        Column(f"{name}_p50", "double", f"{about}: the median of the samples; null without any"),
        Column(f"{name}_p90", "double", "the 90th percentile"),
        Column(f"{name}_p99", "double", "the 99th percentile"),
        Column(f"{name}_max", "double", "the greatest"),
    )


GROUPS = (
    *_WINDOW,
    Column("known_ms", "bigint", "for how long within the window the group was there and its state known"),
    Column("stable_ms", "bigint", "for how long with members, and not in a phase below (Kafka: Stable, Reconciling)"),
    Column("empty_ms", "bigint", "for how long without members (Empty)"),
    Column("preparing_rebalance_ms", "bigint", "for how long in join phases that are known; null where none is"),
    Column("completing_rebalance_ms", "bigint", "for how long in sync phases that are known; null where none is"),
    Column("join_unknown", "bigint", "rebalances for which it is not known how long the join phase took"),
    Column("sync_unknown", "bigint", "rebalances for which it is not known how long the sync phase took"),
    Column("rebalances", "bigint", "rebalances that completed"),
    Column("joins", "bigint", "members that joined"),
    Column("departures", "bigint", "members that left"),
    Column("replacements", "bigint", "static members that joined again under a new id"),
    Column(
        "stopped_partition_ms",
        "bigint",
        "stopped partition time, summed over the rebalances for which it is known; null where it is "
        "known of none of them",
    ),
    Column("stopped_unknown", "bigint", "rebalances for which it is not known"),
    Column("rebalance_gaps", "bigint", "rebalances before which there was another one"),
    Column("rebalance_gap_ms", "bigint", "the time between those and the ones before, summed"),
    Column("mean_time_between_rebalances_ms", "double", "the latter by the former; null without any"),
    Column("members_min", "bigint", "fewest members at any time; null where they are not known"),
    Column("members_max", "bigint", "most members at any time"),
    Column("members_avg", "double", "members, the mean over the part of known_ms in which they are known"),
    Column("imbalance_max", "double", "largest share of partitions by a fair one, at most; null where not known"),
    Column("imbalance_avg", "double", "the same, the mean over the time for which it was known"),
    Column("lag_samples", "bigint", "how often lag was looked at and known"),
    Column("lag_unknown", "bigint", "how often an agent looked at the group without knowing its lag"),
    *_percentiles("lag_records", "lag in records of the whole group"),
    *_percentiles("lag_seconds", "lag in seconds of the group's worst partition"),
    Column("findings_opened", "bigint", "findings that began to fire"),
    _DATE,
)
"""A row for each group and window: of an hour and of a day while the group is there, of five minutes where something
was told of it."""

CAUSES = (
    *_WINDOW,
    Column("kind", "string", "rebalance, departure, finding, or origin: of a departure, with `--kubernetes`"),
    Column("cause", "string", "the cause; of a finding its analyzer; what happened to the pod of a member that left"),
    Column("count", "bigint", "how many"),
    Column(
        "stopped_partition_ms",
        "bigint",
        "what those rebalances cost of which it is known; null where it is of none, and for what is no rebalance",
    ),
    Column("stopped_unknown", "bigint", "rebalances for which it is not known; null for what is no rebalance"),
    _DATE,
)
"""A row for each group, window, kind and cause that there was."""

EPISODES = (
    Column("cluster", "string", "the cluster's name; null where it has none"),
    Column("group", "string", "the group"),
    Column("group_type", "string", "classic, connect, consumer, share or streams"),
    Column("start_ms", "bigint", "its first rebalance"),
    Column("end_ms", "bigint", "its last"),
    Column(
        "kind",
        "string",
        "deploy: members were replaced; scale_out, scale_in: more or fewer after; other: else, and where members are "
        "not known",
    ),
    Column("rebalances", "bigint", "rebalances in it"),
    Column("joins", "bigint", "members that joined"),
    Column("departures", "bigint", "members that left"),
    Column("replacements", "bigint", "static members that joined again under a new id"),
    Column("members_before", "bigint", "members before it; null where they are not known"),
    Column("members_after", "bigint", "members after it"),
    Column(
        "stopped_partition_ms",
        "bigint",
        "stopped partition time, summed over the rebalances for which it is known; null where it is known "
        "of none of them",
    ),
    Column("stopped_unknown", "bigint", "rebalances in it of which it is not known"),
    _DATE,
)
"""A row for each busy time of a group: rebalances with less than ten minutes from one to the next."""

STANDING = (
    Column("cluster", "string", "the cluster's name; null where it has none"),
    Column("group", "string", "the group; null for what is about the cluster"),
    Column("group_type", "string", "classic, connect, consumer, share or streams"),
    Column("start_ms", "bigint", "when the day begins"),
    Column("end_ms", "bigint", "when it ends: the moment of which this tells"),
    Column("phase", "string", "stable, empty, preparing_rebalance or completing_rebalance; null if not known"),
    Column("members", "bigint", "members; null where they are not known"),
    Column("state", "string", "what a rollup of later days begins with: kshadow's own, and no business of others"),
    Column("state_version", "int", "of `state`: one of another version is passed over"),
    Column("history", "string", "the history that was read"),
    Column("date", "date", "the day (UTC)"),
)
"""Of a rollup: a row for each group and day that is over: how it stood when the day ended. The next rollup begins
with it, so it reads no days before."""

SET_ASIDE = (
    Column("cluster", "string", "the cluster's name; null where it has none"),
    Column("group", "string", "the group; null for what is about the cluster, and for what is no event"),
    Column("event_id", "string", "the event's id; null for what is no event"),
    Column("type", "string", "the event's type"),
    Column("at_ms", "bigint", "the event's time"),
    Column(
        "reason",
        "string",
        "late: behind the watermark; no_time: before 2010, from more than an hour ahead, or more than a year before "
        "all that comes later of the group; newer_schema: of a newer kshadow, whose fields may mean something else; "
        "no_event",
    ),
    Column("watermark_ms", "bigint", "the watermark as it came"),
    Column("body", "string", "what came"),
    Column("date", "date", "the day (UTC) of the watermark as it came"),
)
"""Of a stream: what no window has, each time that it came. Late duplicates of what was counted are among it."""

TABLES = {"groups": GROUPS, "causes": CAUSES, "episodes": EPISODES}
"""Each table by its name, which is also that of its directory below the output: `<out>/groups/date=2026-11-21/…`."""

ROLLED_UP = {**TABLES, "standing": STANDING}
"""Those that a rollup of whole days writes."""

STREAMED = {**TABLES, "set_aside": SET_ASIDE}
"""Those that a stream writes."""


def ddl(table: tuple[Column, ...]) -> str:
    """A schema as Spark reads it."""
    return ", ".join(f"`{column.name}` {column.kind}" for column in table)
