"""What a scrape needs, as plain values: who fills them in knows nothing of Prometheus."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from msgspec import Struct, field

from agent.config.settings import Granularity as Granularity
from agent.kafka.admin_api.divergence import ObserverReading
from agent.kubernetes.health import KubernetesReading
from agent.serving.metrics.group_metrics import GroupReading


class SinkReading(NamedTuple):
    """Where history goes to: events written and dropped since the start, those that wait, and for how many seconds
    the oldest of them has (None: none waits)."""

    events: int
    buffered: int
    dropped: int
    oldest_s: float | None = None


class SnapshotReading(Struct, frozen=True):
    """`age_s` is None before the first was written or read; `writes` by outcome, `refused` by reason."""

    age_s: float | None = None
    writes: Mapping[str, int] = field(default_factory=dict)
    refused: Mapping[str, int] = field(default_factory=dict)


class ReloadReading(NamedTuple):
    """The latest attempt to read the configuration, and when one last succeeded (epoch seconds; None: never)."""

    successful: bool
    success_s: float | None


class Readings(Struct):
    """What a scrape needs of one cluster, taken at one time. What is None or empty is not exported."""

    caught_up: Mapping[int, bool]
    behind_records: Mapping[int, int]
    healthy: bool
    record_counts: Mapping[str, int]
    error_counts: Mapping[str, int]
    groups: Sequence[GroupReading] = ()
    """By name, each once."""
    findings: Sequence[tuple[tuple[str, str], bool]] = ()
    """The cluster's own, as in `GroupCounts`."""
    series_left_out: Mapping[str, int] = field(default_factory=dict)
    """By reason, where there is a limit: the exporter fills it in."""
    partitions_owned: int | None = None
    observed: ObserverReading | None = None
    kubernetes: KubernetesReading | None = None
    lag_requests: Mapping[str, int] = field(default_factory=dict)
    history: Mapping[str, SinkReading] = field(default_factory=dict)
    snapshots: SnapshotReading | None = None
    open_transaction_s: Mapping[int, float] = field(default_factory=dict)
    """By partition: for how long its oldest open transaction has been open; 0 where none is."""
    records_ahead: Mapping[int, int] = field(default_factory=dict)
    """By partition: records whose times are ahead of the agent's clock or of the records around them."""
    records_quarantined: Mapping[str, int] = field(default_factory=dict)
    """By reason: records that could not be read and were passed over."""


def unread() -> Readings:
    """Of a cluster of which nothing can be told but that it is not read."""
    return Readings(caught_up={}, behind_records={}, healthy=False, record_counts={}, error_counts={})
