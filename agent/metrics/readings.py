"""What a scrape needs, as plain values: who fills them in knows nothing of Prometheus."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

from agent.config.settings import Granularity as Granularity
from agent.shadow.offsets import Offsets


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
    protocol: str | None = None


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


class PartitionLag(Protocol):
    """A group's position in a partition."""

    @property
    def topic(self) -> str:
        """The topic's name."""

    @property
    def partition(self) -> int:
        """The partition's number."""

    @property
    def committed(self) -> int:
        """The offset that the group is to read next."""

    @property
    def records(self) -> int | None:
        """How many records that is behind; None: unknown, and so absent."""


class Committed(NamedTuple):
    """A position of which nobody knows how far behind it is."""

    topic: str
    partition: int
    committed: int
    records: None = None


class Lagging(Protocol):
    """What groups had committed in one partition of the offsets topic at one time, and how far behind that is."""

    def topics(self) -> Iterable[tuple[str, TopicLag]]:
        """By group, those of one group together. Asked for without any lock, in the scrape's thread."""

    def partitions(self) -> Iterable[tuple[str, PartitionLag]]:
        """Likewise."""


class Lags(Protocol):
    """Who knows the ends of the topics that groups consume."""

    def take(self, partition: int, offsets: Offsets) -> Lagging:
        """Take what groups have committed in a partition of the offsets topic. The lock is held meanwhile."""


class GroupReading(NamedTuple):
    """One group. What is finer than groups is empty unless it is exported."""

    shape: Shape
    load_imbalance: float | None = None
    last_commit_ms: int | None = None
    counts: Counts = NO_COUNTS
    topics: Sequence[TopicLag] = ()
    partitions: Sequence[PartitionLag] = ()


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
    groups: Sequence[GroupReading] = ()
    """By name, each once."""
    findings: Sequence[tuple[tuple[str, str], bool]] = ()
    """The cluster's own, as in `Counts`."""
    partitions_owned: int | None = None
    observed: Observed | None = None
    lag_requests: Mapping[str, int] = field(default_factory=dict)
    history: Mapping[str, SinkReading] = field(default_factory=dict)
    snapshots: SnapshotReading | None = None
