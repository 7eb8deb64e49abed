"""What a scrape has to say, the slow way: every group looked at anew, every sample encoded by prometheus_client."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.exposition import generate_latest
from prometheus_client.metrics_core import Metric as Family
from prometheus_client.openmetrics.exposition import generate_latest as generate_openmetrics
from prometheus_client.registry import Collector

from agent.core.shadow.offsets import CommittedOffsets
from agent.kafka.lag.end_offset_history import EndOffsetHistory
from agent.kafka.lag.lag_calculator import positions_of
from agent.kafka.lag.scraped import NOTHING_COMMITTED, LagSnapshot, ScrapedLags
from agent.persistence.cluster_state import ClusterState
from agent.serving.metrics.group_metrics import GROUP_METRICS, GroupCounts, GroupReading, GroupShape
from agent.serving.metrics.readings import Granularity, Readings
from agent.serving.metrics.text import safe_label
from analyzers.balance import assignment_imbalance, load_imbalance
from tests.unit.core.shadow import build as b

Row = tuple[tuple[str, ...], float]


class TopicLag(NamedTuple):
    topic: str
    records: int | None
    seconds: float | None


class FixedLags(ScrapedLags):
    """Topics "t" to "v" of ten partitions end at 15 and at 1,000 a day later; now is an hour after that."""

    NOW_MS = b.T0 + 25 * 3_600_000

    def __init__(self) -> None:
        history = EndOffsetHistory(24 * 3_600_000)
        for at_ms, end in ((b.T0, 15), (b.T0 + 24 * 3_600_000, 1_000)):
            history.add_high_watermarks({(topic, at): end for topic in "tuv" for at in range(10)}, at_ms)
            ends = history.publish(at_ms)
        super().__init__(lambda: ends)

    def take(self, partition: int, offsets: CommittedOffsets) -> LagSnapshot:
        return super().take(partition, offsets)._replace(now_ms=self.NOW_MS)


def groups(state: ClusterState, granularity: Granularity, lags: ScrapedLags | None = None) -> list[GroupReading]:
    """`agent.serving.metrics.group_collector.GroupCollector.read`, from the views of the mirror alone; of one
    partition of the topic."""
    out = []
    for view in state.mirror.views():
        number, name = view.coordinator_partition, view.group
        ratio = assignment_imbalance(view)
        load = load_imbalance(view, state.diagnosis.partitions[number].consumed(name))
        counts = state.counts.partitions.get(number)
        offsets = state.mirror.partition(number).offsets
        found = {} if lags is None else lags.take(number, offsets).groups(topics=True, partitions=True)
        its = found.get(name, NOTHING_COMMITTED)
        topics = () if granularity is Granularity.GROUP else its.topics
        partitions: list[tuple[tuple[str, int], int, int | None]] = []
        if granularity is Granularity.PARTITION:
            partitions = sorted(((topic, at), it.offset, None) for topic, at, it in offsets.commits(name))
            if lags is not None:
                partitions = list(zip(*its.shown, strict=True))
        reading = GroupReading(
            GroupShape(
                name,
                view.group_type,
                view.state,
                view.generation,
                len(view.members),
                sum(1 for member in view.members if not member.partitions),
                None if ratio is None else round(ratio, 4),
                view.state_since_ms,
                view.protocol,
                tuple(sorted(Counter(member.client_library for member in view.members).items())),
            ),
            None if load is None else round(load, 4),
            view.last_commit_ms,
            GroupCounts()
            if counts is None
            else GroupCounts(
                tuple(counts.rebalances.get(name, {}).items()),
                tuple(counts.departures.get(name, {}).items()),
                counts.stopped_ms.get(name),
                tuple(counts.findings.get(name, {}).items()),
                tuple(counts.origins.get(name, {}).items()),
            ),
            topics,
            positions_of(partitions),
        )
        out.append(reading)
    return sorted(out, key=lambda it: it.shape.group)


def text(clusters: list[tuple[str | None, Readings]], *, openmetrics: bool) -> str:
    """The families that have samples for each group, as prometheus_client writes them."""
    families: dict[str, Family] = {}
    for metric in GROUP_METRICS:
        name = metric.name
        rows = [(cluster, row) for cluster, it in clusters for row in _ROWS[name](it)]
        if not rows:
            continue
        make = CounterMetricFamily if metric.kind == "counter" else GaugeMetricFamily
        families[name] = make(name, metric.help)
        sample = f"{name}_total" if metric.kind == "counter" else name
        for cluster, (values, value) in rows:
            labels = dict(zip(metric.labels, map(safe_label, values), strict=True))
            if cluster is not None:
                labels["cluster"] = safe_label(cluster)
            families[name].add_sample(sample, labels, value)

    class All(Collector):
        def collect(self) -> Iterator[Family]:
            yield from families.values()

    return (generate_openmetrics if openmetrics else generate_latest)(All()).decode()


Labelled = Iterable[tuple[tuple[str, ...], float | None]]


def _each(found: Callable[[GroupReading], Labelled]) -> Callable[[Readings], Iterator[Row]]:
    """Of each group what is known: labels behind the group's, and a value."""

    def rows(it: Readings) -> Iterator[Row]:
        for group in it.groups:
            for labels, value in found(group):
                if value is not None:
                    yield (group.shape.group, *labels), value

    return rows


def _one(value: Callable[[GroupReading], float | None]) -> Callable[[Readings], Iterator[Row]]:
    return _each(lambda it: [((), value(it))])


def _by(values: Callable[[GroupReading], Iterable[tuple[str, float | None]]]) -> Callable[[Readings], Iterator[Row]]:
    return _each(lambda it: (((label,), value) for label, value in values(it)))


def _findings(it: Readings) -> Iterator[Row]:
    yield from ((("", *labels), is_open) for labels, is_open in it.findings)
    yield from _each(lambda group: group.counts.findings)(it)


def _in_seconds(milliseconds: int | None) -> float | None:
    return None if milliseconds is None else milliseconds / 1000


def _positions(group: GroupReading) -> Iterator[tuple[tuple[str, str], int, int | None]]:
    for (topic, partition), committed, records in zip(*group.partitions, strict=True):
        yield (topic, str(partition)), committed, records


_ROWS: dict[str, Callable[[Readings], Iterator[Row]]] = {
    "kshadow_group_state": _each(lambda it: [((it.shape.group_type, it.shape.state), 1)]),
    "kshadow_group_stale": _one(lambda it: it.stale),
    "kshadow_group_members": _one(lambda it: it.shape.members),
    "kshadow_group_generation": _one(lambda it: it.shape.generation),
    "kshadow_group_idle_members": _one(lambda it: it.shape.idle_members),
    "kshadow_group_client_libraries": _by(lambda it: it.shape.libraries),
    "kshadow_group_rebalances": _by(lambda it: it.counts.rebalances),
    "kshadow_group_member_departures": _by(lambda it: it.counts.departures),
    "kshadow_group_departures_by_origin": _by(lambda it: it.counts.origins),
    "kshadow_group_rebalance_stopped_partition_seconds": _one(lambda it: _in_seconds(it.counts.stopped_ms)),
    "kshadow_group_assignment_imbalance_ratio": _one(lambda it: it.shape.imbalance),
    "kshadow_group_load_imbalance_ratio": _one(lambda it: it.load_imbalance),
    "kshadow_group_last_commit_timestamp_seconds": _one(lambda it: _in_seconds(it.last_commit_ms)),
    "kshadow_group_rollout_verdict": _by(lambda it: [] if it.rollout is None else [(it.rollout.verdict, 1)]),
    "kshadow_group_rollout_began_timestamp_seconds": _one(lambda it: _in_seconds(it.rollout_began_ms)),
    "kshadow_group_topic_lag_records": _by(lambda it: ((lag.topic, lag.records) for lag in it.topics)),
    "kshadow_group_topic_lag_seconds": _by(lambda it: ((lag.topic, lag.seconds) for lag in it.topics)),
    "kshadow_group_partition_committed_offset": _each(lambda it: ((place, at) for place, at, _ in _positions(it))),
    "kshadow_group_partition_lag_records": _each(lambda it: ((place, lag) for place, _, lag in _positions(it))),
    "kshadow_finding_active": _findings,
}
