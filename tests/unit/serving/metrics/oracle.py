"""What a scrape has to say, the slow way: every group looked at anew, every sample encoded by prometheus_client."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.exposition import generate_latest
from prometheus_client.metrics_core import Metric as Family
from prometheus_client.openmetrics.exposition import generate_latest as generate_openmetrics
from prometheus_client.registry import Collector

from agent.core.shadow.offsets import CommittedOffsets
from agent.kafka.lag.end_offset_history import EndOffsetHistory
from agent.kafka.lag.lag_calculator import positions_of
from agent.kafka.lag.scraped import LagSnapshot, ScrapedLags
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
        topics: list[Any] = []
        if granularity is not Granularity.GROUP and lags is not None:
            topics = [lag for group, lag in lags.take(number, offsets).topics() if group == name]
        partitions: list[tuple[tuple[str, int], int, int | None]] = []
        if granularity is Granularity.PARTITION:
            partitions = sorted(((topic, at), it.offset, None) for topic, at, it in offsets.commits(name))
            if lags is not None:
                found = [lag for group, lag in lags.take(number, offsets).partitions() if group == name]
                partitions = [((it.topic, it.partition), it.committed, it.records) for it in found]
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
            topics or (),
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


def _of_shapes(value: Callable[[GroupShape], float | None]) -> Callable[[Readings], Iterator[Row]]:
    def rows(it: Readings) -> Iterator[Row]:
        for group in it.groups:
            if (found := value(group.shape)) is not None:
                yield (group.shape.group,), found

    return rows


def _of_groups(value: Callable[[GroupReading], float | None]) -> Callable[[Readings], Iterator[Row]]:
    def rows(it: Readings) -> Iterator[Row]:
        for group in it.groups:
            if (found := value(group)) is not None:
                yield (group.shape.group,), found

    return rows


def _states(it: Readings) -> Iterator[Row]:
    for group in it.groups:
        yield (group.shape.group, group.shape.group_type, group.shape.state), 1


def _libraries(it: Readings) -> Iterator[Row]:
    for group in it.groups:
        for library, count in group.shape.libraries:
            yield (group.shape.group, library), count


def _rebalances(it: Readings) -> Iterator[Row]:
    for group in it.groups:
        for cause, count in group.counts.rebalances:
            yield (group.shape.group, cause), count


def _origins(it: Readings) -> Iterator[Row]:
    for group in it.groups:
        for origin, count in group.counts.origins:
            yield (group.shape.group, origin), count


def _rollouts(it: Readings) -> Iterator[Row]:
    for group in it.groups:
        if group.rollout is not None:
            yield (group.shape.group, group.rollout.verdict), 1


def _departures(it: Readings) -> Iterator[Row]:
    for group in it.groups:
        for cause, count in group.counts.departures:
            yield (group.shape.group, cause), count


def _findings(it: Readings) -> Iterator[Row]:
    for (analyzer, severity), is_open in it.findings:
        yield ("", analyzer, severity), is_open
    for group in it.groups:
        for (analyzer, severity), is_open in group.counts.findings:
            yield (group.shape.group, analyzer, severity), is_open


def _topics(name: str) -> Callable[[Readings], Iterator[Row]]:
    def rows(it: Readings) -> Iterator[Row]:
        for group in it.groups:
            for lag in group.topics:
                value = getattr(lag, name)
                if value is not None:
                    yield (group.shape.group, lag.topic), value

    return rows


def _committed(it: Readings) -> Iterator[Row]:
    for group in it.groups:
        for (topic, partition), committed, _ in zip(*group.partitions, strict=True):
            yield (group.shape.group, topic, str(partition)), committed


def _behind(it: Readings) -> Iterator[Row]:
    for group in it.groups:
        for (topic, partition), _, records in zip(*group.partitions, strict=True):
            if records is not None:
                yield (group.shape.group, topic, str(partition)), records


def _in_seconds(milliseconds: int | None) -> float | None:
    return None if milliseconds is None else milliseconds / 1000


_ROWS: dict[str, Callable[[Readings], Iterator[Row]]] = {
    "kshadow_group_state": _states,
    "kshadow_group_stale": _of_groups(lambda it: it.stale),
    "kshadow_group_members": _of_shapes(lambda it: it.members),
    "kshadow_group_generation": _of_shapes(lambda it: it.generation),
    "kshadow_group_idle_members": _of_shapes(lambda it: it.idle_members),
    "kshadow_group_client_libraries": _libraries,
    "kshadow_group_rebalances": _rebalances,
    "kshadow_group_member_departures": _departures,
    "kshadow_group_departures_by_origin": _origins,
    "kshadow_group_rebalance_stopped_partition_seconds": _of_groups(lambda it: _in_seconds(it.counts.stopped_ms)),
    "kshadow_group_assignment_imbalance_ratio": _of_shapes(lambda it: it.imbalance),
    "kshadow_group_load_imbalance_ratio": _of_groups(lambda it: it.load_imbalance),
    "kshadow_group_last_commit_timestamp_seconds": _of_groups(lambda it: _in_seconds(it.last_commit_ms)),
    "kshadow_group_rollout_verdict": _rollouts,
    "kshadow_group_rollout_began_timestamp_seconds": _of_groups(lambda it: _in_seconds(it.rollout_began_ms)),
    "kshadow_group_topic_lag_records": _topics("records"),
    "kshadow_group_topic_lag_seconds": _topics("seconds"),
    "kshadow_group_partition_committed_offset": _committed,
    "kshadow_group_partition_lag_records": _behind,
    "kshadow_finding_active": _findings,
}
