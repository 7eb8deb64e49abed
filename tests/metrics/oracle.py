"""What a scrape has to say, the slow way: every group looked at anew, every sample encoded by prometheus_client."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.exposition import generate_latest
from prometheus_client.metrics_core import Metric as Family
from prometheus_client.openmetrics.exposition import generate_latest as generate_openmetrics
from prometheus_client.registry import Collector

from agent.metrics.labels import label
from agent.metrics.lines import FAMILIES
from agent.metrics.readings import Counts, Granularity, GroupReading, Lags, Readings, Shape
from agent.metrics.table import METRICS
from agent.state import ClusterState
from analyzers.balance import assignment_imbalance, load_imbalance

Row = tuple[tuple[str, ...], float]


def groups(state: ClusterState, granularity: Granularity, lags: Lags | None = None) -> list[GroupReading]:
    """`agent.metrics.collect.Groups.read`, from the views of the mirror alone; of one partition of the topic."""
    out = []
    for view in state.mirror.views():
        number, name = view.coordinator_partition, view.group
        ratio, load = assignment_imbalance(view), load_imbalance(view, state.diagnosis.consumed(number, name))
        counts = state.counts.partitions.get(number)
        committed = list(state.mirror.partition(number).offsets.commits(name))
        slots = [(topic, partition) for topic, partition, _ in committed]
        positions = [(commit.offset, commit.commit_ms) for _, _, commit in committed]
        fine = granularity is Granularity.PARTITION
        lag = lags.of(slots, positions) if lags and granularity is not Granularity.GROUP and slots else None
        reading = GroupReading(
            Shape(
                name,
                view.group_type,
                view.state,
                view.generation,
                len(view.members),
                sum(1 for member in view.members if not member.partitions),
                None if ratio is None else round(ratio, 4),
                view.state_since_ms,
            ),
            None if load is None else round(load, 4),
            view.last_commit_ms,
            Counts()
            if counts is None
            else Counts(
                tuple(counts.rebalances.get(name, {}).items()),
                tuple(counts.departures.get(name, {}).items()),
                counts.stopped_ms.get(name),
                tuple(counts.findings.get(name, {}).items()),
            ),
            slots if fine else (),
            positions if fine else (),
            lag,
        )
        out.append(reading)
    return sorted(out, key=lambda it: it.shape.group)


def text(clusters: list[tuple[str | None, Readings]], *, openmetrics: bool) -> str:
    """The families that have samples for each group, as prometheus_client writes them."""
    families: dict[str, Family] = {}
    for name in FAMILIES:
        rows = [(cluster, row) for cluster, it in clusters for row in _ROWS[name](it)]
        if not rows:
            continue
        metric = METRICS[name]
        make = CounterMetricFamily if metric.kind == "counter" else GaugeMetricFamily
        families[name] = make(name, metric.help)
        sample = f"{name}_total" if metric.kind == "counter" else name
        for cluster, (values, value) in rows:
            labels = dict(zip(metric.labels, map(label, values), strict=True))
            if cluster is not None:
                labels["cluster"] = label(cluster)
            families[name].add_sample(sample, labels, value)

    class All(Collector):
        def collect(self) -> Iterator[Family]:
            yield from families.values()

    return (generate_openmetrics if openmetrics else generate_latest)(All()).decode()


def _of_shapes(value: Callable[[Shape], float | None]) -> Callable[[Readings], Iterator[Row]]:
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


def _rebalances(it: Readings) -> Iterator[Row]:
    for group in it.groups:
        for cause, count in group.counts.rebalances:
            yield (group.shape.group, cause), count


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
        if it.granularity is Granularity.GROUP:
            return
        for group in it.groups:
            for lag in () if group.lag is None else group.lag.topics:
                value = getattr(lag, name)
                if value is not None:
                    yield (group.shape.group, lag.topic), value

    return rows


def _committed(it: Readings) -> Iterator[Row]:
    if it.granularity is Granularity.PARTITION:
        for group in it.groups:
            for (topic, partition), (offset, _) in zip(group.slots, group.positions, strict=True):
                yield (group.shape.group, topic, str(partition)), offset


def _behind(it: Readings) -> Iterator[Row]:
    if it.granularity is Granularity.PARTITION:
        for group in it.groups:
            if group.lag is not None:
                for (topic, partition), records in zip(group.slots, group.lag.records, strict=True):
                    if records is not None:
                        yield (group.shape.group, topic, str(partition)), records


def _in_seconds(milliseconds: int | None) -> float | None:
    return None if milliseconds is None else milliseconds / 1000


_ROWS: dict[str, Callable[[Readings], Iterator[Row]]] = {
    "kshadow_group_state": _states,
    "kshadow_group_members": _of_shapes(lambda it: it.members),
    "kshadow_group_generation": _of_shapes(lambda it: it.generation),
    "kshadow_group_idle_members": _of_shapes(lambda it: it.idle_members),
    "kshadow_group_rebalances": _rebalances,
    "kshadow_group_member_departures": _departures,
    "kshadow_group_rebalance_stopped_partition_seconds": _of_groups(lambda it: _in_seconds(it.counts.stopped_ms)),
    "kshadow_group_assignment_imbalance_ratio": _of_shapes(lambda it: it.imbalance),
    "kshadow_group_load_imbalance_ratio": _of_groups(lambda it: it.load_imbalance),
    "kshadow_group_last_commit_timestamp_seconds": _of_groups(lambda it: _in_seconds(it.last_commit_ms)),
    "kshadow_group_topic_lag_records": _topics("records"),
    "kshadow_group_topic_lag_seconds": _topics("seconds"),
    "kshadow_group_partition_committed_offset": _committed,
    "kshadow_group_partition_lag_records": _behind,
    "kshadow_finding_active": _findings,
}
