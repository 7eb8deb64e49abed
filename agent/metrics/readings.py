"""What a scrape needs, as plain values: who fills them in knows nothing of Prometheus."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import NamedTuple, Protocol

from analyzers.api import Slot


class Granularity(StrEnum):
    """How finely groups are told: each has what the one before it has, and more."""

    GROUP = "group"
    TOPIC = "topic"
    PARTITION = "partition"


class Shape(NamedTuple):
    """What of a group changes with its own records alone; the same object for as long as nothing did."""

    group: str
    group_type: str
    state: str
    generation: int
    members: int
    idle_members: int
    imbalance: float | None
    state_since_ms: int


class Counts(NamedTuple):
    """What happened to a group: rebalances and departures by cause, for how long partitions stood still (None: no
    rebalance told), and by analyzer and severity whether such a finding is open."""

    rebalances: Sequence[tuple[str, int]] = ()
    departures: Sequence[tuple[str, int]] = ()
    stopped_ms: int | None = None
    findings: Sequence[tuple[tuple[str, str], bool]] = ()


NO_COUNTS = Counts()


class TopicLag(Protocol):
    """How far a group is behind in a topic; None: unknown, and so absent."""

    @property
    def topic(self) -> str:
        """Its name."""

    @property
    def records(self) -> int | None:
        """Records between what is committed and the end."""

    @property
    def seconds(self) -> float | None:
        """How long the group's next record has been there, in the slowest partition."""


class GroupLag(Protocol):
    """How far a group is behind."""

    @property
    def topics(self) -> Collection[TopicLag]:
        """Each topic that it has a position in."""

    @property
    def records(self) -> Sequence[int | None]:
        """Of each position, in the order in which they were handed in."""


class Lags(Protocol):
    """Who knows the ends of the topics that groups consume."""

    def of(self, slots: Sequence[Slot], positions: Sequence[tuple[int, int]]) -> GroupLag:
        """The lag of one group. `positions` are committed offsets, each with its commit's time in epoch milliseconds,
        `slots` where they are. Called for every group, in the scrape's thread and without any lock."""


class GroupReading(NamedTuple):
    """One group. `slots` and `positions` (offset, commit time) stand side by side; empty unless they are exported."""

    shape: Shape
    load_imbalance: float | None = None
    last_commit_ms: int | None = None
    counts: Counts = NO_COUNTS
    slots: Sequence[Slot] = ()
    positions: Sequence[tuple[int, int]] = ()
    lag: GroupLag | None = None


@dataclass(frozen=True, slots=True)
class Observed:
    """What the observer knows. `divergences` by field, empty before anything was compared; `rebalancing` by state."""

    requests: Mapping[str, int]
    compared_groups: int
    divergences: Mapping[str, int]
    rebalancing: Mapping[str, int]


class SinkReading(NamedTuple):
    """Where history goes to: events written and dropped since the start, those that wait, and for how many seconds
    the oldest of them has (None: none waits)."""

    events: int
    buffered: int
    dropped: int
    oldest_s: float | None = None


@dataclass(frozen=True, slots=True)
class SnapshotReading:
    """`age_s` is None before the first was written or read; `writes` by outcome, `refused` by reason."""

    age_s: float | None = None
    writes: Mapping[str, int] = field(default_factory=dict)
    refused: Mapping[str, int] = field(default_factory=dict)


class ReloadReading(NamedTuple):
    """The latest attempt to read the configuration, and when one last succeeded (epoch seconds; None: never)."""

    successful: bool
    success_s: float | None


@dataclass(slots=True)
class Readings:
    """What a scrape needs of one cluster, taken at one time. What is None or empty is not exported."""

    caught_up: Mapping[int, bool]
    behind_records: Mapping[int, int]
    healthy: bool
    record_counts: Mapping[str, int]
    error_counts: Mapping[str, int]
    granularity: Granularity = Granularity.GROUP
    groups: Sequence[GroupReading] = ()
    """By name, each once."""
    findings: Sequence[tuple[tuple[str, str], bool]] = ()
    """The cluster's own, as in `Counts`."""
    partitions_owned: int | None = None
    observed: Observed | None = None
    lag_requests: Mapping[str, int] = field(default_factory=dict)
    history: Mapping[str, SinkReading] = field(default_factory=dict)
    snapshots: SnapshotReading | None = None
