"""The collector: what the mirror and the reader know, as Prometheus metric families.

Nothing of a group is exported before the topic was read to its end: half a replay shows groups as they once were.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.metrics_core import Metric as Family
from prometheus_client.registry import Collector

from agent import __version__
from agent.metrics.table import METRICS
from agent.shadow.transitions import MemberLeft, Rebalanced, Transition
from agent.shadow.views import GroupView

UNKNOWN = "unknown"
UNKNOWN_DEPARTURE = "unknown_departure"


class EventCounts:
    """Counters that grow with transitions: rebalances and departures, by group and cause."""

    def __init__(self) -> None:
        self.rebalances: Counter[tuple[str, str]] = Counter()
        self.departures: Counter[tuple[str, str]] = Counter()

    def observe(self, transitions: Iterable[Transition]) -> None:
        """Count what happened. Causes are not inferred yet, so every one is unknown."""
        for transition in transitions:
            match transition:
                case Rebalanced():
                    self.rebalances[transition.group, UNKNOWN] += 1
                case MemberLeft():
                    self.departures[transition.group, UNKNOWN_DEPARTURE] += 1

    def totals(self) -> tuple[Counter[str], Counter[str]]:
        """Rebalances and departures by group, over all causes."""
        rebalances: Counter[str] = Counter()
        departures: Counter[str] = Counter()
        for (group, _), count in self.rebalances.items():
            rebalances[group] += count
        for (group, _), count in self.departures.items():
            departures[group] += count
        return rebalances, departures


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
    for view in it.views:
        group = (view.group,)
        yield "kshadow_group_state", (view.group, view.group_type, view.state), 1
        yield "kshadow_group_members", group, len(view.members)
        yield "kshadow_group_generation", group, view.generation
        yield "kshadow_group_idle_members", group, sum(1 for member in view.members if not member.partitions)
        if view.last_commit_ms is not None:
            yield "kshadow_group_last_commit_timestamp_seconds", group, view.last_commit_ms / 1000
    for labels, count in it.rebalances.items():
        yield "kshadow_group_rebalances", labels, count
    for labels, count in it.departures.items():
        yield "kshadow_group_member_departures", labels, count
    for record_type, count in it.record_counts.items():
        yield "kshadow_records", (record_type,), count
    for reason, count in it.error_counts.items():
        yield "kshadow_decode_errors", (reason,), count
    for partition, behind in it.behind_records.items():
        yield "kshadow_topic_behind_records", (str(partition),), behind
    for partition, reached in it.caught_up.items():
        yield "kshadow_caught_up", (str(partition),), reached
    yield "kshadow_source_healthy", (), it.healthy
    yield "kshadow_build_info", (__version__,), 1
