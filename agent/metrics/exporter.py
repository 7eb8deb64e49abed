"""The collector: what the mirror and the reader know, as Prometheus metric families.

Nothing of a group is exported before the topic was read to its end: half a replay shows groups as they once were.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from hashlib import blake2b

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.metrics_core import Metric as Family
from prometheus_client.registry import Collector

from agent import __version__
from agent.metrics.table import METRICS
from agent.shadow.views import GroupView
from analyzers.api import Slot
from analyzers.balance import assignment_imbalance, load_imbalance

MAX_LABEL = 200
"""Characters of a label value. Group names may have 32,767, and stores refuse values far shorter than that."""


@dataclass(frozen=True, slots=True)
class Observed:
    """What the observer knows. `divergences` by field, empty before anything was compared; `rebalancing` by state."""

    requests: Mapping[str, int]
    compared_groups: int
    divergences: Mapping[str, int]
    rebalancing: Mapping[str, int]


@dataclass(slots=True)
class Readings:
    """What a scrape needs, taken at one time."""

    caught_up: Mapping[int, bool]
    behind_records: Mapping[int, int]
    healthy: bool
    record_counts: Mapping[str, int]
    error_counts: Mapping[str, int]
    views: list[GroupView] = field(default_factory=list)
    rebalances: Mapping[tuple[str, str], int] = field(default_factory=dict)
    departures: Mapping[tuple[str, str], int] = field(default_factory=dict)
    stopped_partition_ms: Mapping[str, int] = field(default_factory=dict)
    findings: Mapping[tuple[str, str, str], bool] = field(default_factory=dict)
    consumed: Mapping[tuple[int, str], Mapping[Slot, int]] = field(default_factory=dict)
    """By partition of the topic and group: the records by partition that it consumed lately."""
    observed: Observed | None = None


class Exporter(Collector):
    """Makes the families of one scrape from one set of readings."""

    def __init__(self, read: Callable[[], Readings]) -> None:
        self._read = read

    def describe(self) -> list[Family]:
        """Nothing: so that registering takes no readings."""
        return []

    def collect(self) -> Iterator[Family]:
        """All families; those without a sample are left out."""
        samples: dict[str, list[tuple[tuple[str, ...], float]]] = {name: [] for name in METRICS}
        readings = self._read()
        for name, labels, value in _samples(readings):
            samples[name].append((labels, value))
        for name, metric in METRICS.items():
            if not samples[name]:
                continue
            make = CounterMetricFamily if metric.kind == "counter" else GaugeMetricFamily
            family = make(name, metric.help, labels=metric.labels)
            for labels, value in samples[name]:
                family.add_metric(labels, value)
            yield family


def _samples(it: Readings) -> Iterator[tuple[str, tuple[str, ...], float]]:
    # A group stands in two partitions once the topic was given more of them: its newest state is the one it has.
    newest = {view.group: view for view in sorted(it.views, key=lambda view: view.state_since_ms)}
    for _, view in sorted(newest.items()):
        name = label(view.group)
        group = (name,)
        yield "kshadow_group_state", (name, view.group_type, view.state), 1
        yield "kshadow_group_members", group, len(view.members)
        yield "kshadow_group_generation", group, view.generation
        yield "kshadow_group_idle_members", group, sum(1 for member in view.members if not member.partitions)
        if (ratio := assignment_imbalance(view)) is not None:
            yield "kshadow_group_assignment_imbalance_ratio", group, round(ratio, 4)
        consumed = it.consumed.get((view.coordinator_partition, view.group), {})
        if (ratio := load_imbalance(view, consumed)) is not None:
            yield "kshadow_group_load_imbalance_ratio", group, round(ratio, 4)
        if view.last_commit_ms is not None:
            yield "kshadow_group_last_commit_timestamp_seconds", group, view.last_commit_ms / 1000
    for (group_name, cause), count in it.rebalances.items():
        yield "kshadow_group_rebalances", (label(group_name), cause), count
    for (group_name, cause), count in it.departures.items():
        yield "kshadow_group_member_departures", (label(group_name), cause), count
    for group_name, stopped_ms in it.stopped_partition_ms.items():
        yield "kshadow_group_rebalance_stopped_partition_seconds", (label(group_name),), stopped_ms / 1000
    for (group_name, analyzer, severity), is_open in it.findings.items():
        yield "kshadow_finding_active", (label(group_name), label(analyzer), severity), is_open
    for record_type, count in sorted(it.record_counts.items()):
        yield "kshadow_records", (record_type,), count
    for reason, count in it.error_counts.items():
        yield "kshadow_decode_errors", (reason,), count
    for partition, behind in it.behind_records.items():
        yield "kshadow_topic_behind_records", (str(partition),), behind
    for partition, reached in it.caught_up.items():
        yield "kshadow_caught_up", (str(partition),), reached
    if it.observed is not None:
        yield from _observed(it.observed)
    yield "kshadow_source_healthy", (), it.healthy
    yield "kshadow_build_info", (__version__,), 1


def _observed(it: Observed) -> Iterator[tuple[str, tuple[str, ...], float]]:
    for name, value in it.divergences.items():
        yield "kshadow_shadow_divergence_groups", (name,), value
    yield "kshadow_shadow_compared_groups", (), it.compared_groups
    for state, count in it.rebalancing.items():
        yield "kshadow_rebalancing_groups", (state,), count
    for outcome, count in it.requests.items():
        yield "kshadow_admin_requests", (outcome,), count


def label(text: str) -> str:
    """A stranger's text as a label value: printable, and of at most `MAX_LABEL` characters.

    What had to be changed ends in `~` and a hash of the original, so that two groups never become one series.
    """
    if text.isprintable() and len(text) <= MAX_LABEL:
        return text
    digest = blake2b(text.encode("utf-8", "surrogatepass"), digest_size=4).hexdigest()
    shown = "".join(char if char.isprintable() else f"\\u{ord(char):04x}" for char in text[:MAX_LABEL])
    return f"{shown[: MAX_LABEL - len(digest) - 1]}~{digest}"
