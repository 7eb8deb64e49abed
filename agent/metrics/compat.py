"""The names that other exporters have for what kshadow knows, for dashboards and alerts that were made for those.

Names, labels and meanings are those of the exporters' own sources: kminion, Burrow, kafka_exporter (danielqsj's) and
kafka-lag-exporter (seglo's). What kshadow does not know is absent, where they have -1 or 0, and labels without bound
(member ids, hosts) are left out. `docs/migration.md` says what is not there, and why.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

from agent.metrics.labels import label
from agent.metrics.readings import GroupReading, Readings
from agent.metrics.table import Metric
from agent.metrics.text import escaped, number

STALLED = "stalled_consumer"
"""The analyzer that has Burrow's rules."""


class Exporters(StrEnum):
    """Whose names there are."""

    BURROW = "burrow"
    KAFKA_EXPORTER = "kafka_exporter"
    KAFKA_LAG_EXPORTER = "kafka-lag-exporter"
    KMINION = "kminion"


Sample = tuple[tuple[str, ...], float]
"""Values of the labels, and the value."""


class Compat(NamedTuple):
    """A metric of theirs: what it is of one group, whether it is made of single partitions, and so needs them told,
    and the label that names the cluster (None: they have none)."""

    metric: Metric
    samples: Callable[[GroupReading], Iterable[Sample]]
    needs_partitions: bool = False
    cluster: str | None = None


@dataclass(frozen=True, slots=True)
class Wanted:
    """Whose names are to be exported of one cluster, and what they call that."""

    exporters: tuple[Exporters, ...] = ()
    cluster: str = ""


NOTHING = Wanted()


def _of_group(value: Callable[[GroupReading], float | None]) -> Callable[[GroupReading], Iterator[Sample]]:
    def samples(it: GroupReading) -> Iterator[Sample]:
        found = value(it)
        if found is not None:
            yield (it.shape.group,), found

    return samples


def _members(it: GroupReading) -> int:
    return it.shape.members


def _empty_members(it: GroupReading) -> int | None:
    # There is no such series for a group where each member has something.
    return it.shape.idle_members or None


def _info(it: GroupReading) -> Iterator[Sample]:
    shape = it.shape
    kind = "consumer" if shape.group_type == "classic" else shape.group_type
    yield (shape.group, shape.protocol or "", kind, shape.state), shape.state == "Stable"


def _sum_lag(it: GroupReading) -> int | None:
    known = [topic.records for topic in it.topics if topic.records is not None]
    return sum(known) if known else None


def _max_lag(it: GroupReading) -> int | None:
    return max((at.records for at in it.partitions if at.records is not None), default=None)


def _max_lag_seconds(it: GroupReading) -> float | None:
    return max((topic.seconds for topic in it.topics if topic.seconds is not None), default=None)


def _topic_lag(it: GroupReading) -> Iterator[Sample]:
    for topic in it.topics:
        if topic.records is not None:
            yield (it.shape.group, topic.topic), topic.records


def _topic_offsets(it: GroupReading) -> Iterator[Sample]:
    sums: dict[str, int] = defaultdict(int)
    for at in it.partitions:
        sums[at.topic] += at.committed
    for topic, committed in sums.items():
        yield (it.shape.group, topic), committed


def _partition_offset(it: GroupReading) -> Iterator[Sample]:
    for at in it.partitions:
        yield (it.shape.group, at.topic, str(at.partition)), at.committed


def _partition_lag(it: GroupReading) -> Iterator[Sample]:
    for at in it.partitions:
        if at.records is not None:
            yield (it.shape.group, at.topic, str(at.partition)), at.records


def _status(it: GroupReading) -> Iterator[Sample]:
    """3 is ERR. No finding is not Burrow's 1 (OK): it judges within ten commits, `STALLED` within minutes."""
    if any(analyzer == STALLED and is_open for (analyzer, _), is_open in it.counts.findings):
        yield (it.shape.group,), 3


def _gauge(name: str, labels: Sequence[str], text: str) -> Metric:
    return Metric(name, "gauge", tuple(labels), text)


_KMINION = "kminion_kafka_consumer_group_"
_EXPORTER = "kafka_consumergroup_"
_BURROW = "burrow_kafka_consumer_"
_LAG = "kafka_consumergroup_group_"
_G, _GT, _GTP = ("group_id",), ("group_id", "topic_name"), ("group_id", "topic_name", "partition_id")
_C, _CT, _CTP = ("consumergroup",), ("consumergroup", "topic"), ("consumergroup", "topic", "partition")
_B, _BTP = ("consumer_group",), ("consumer_group", "topic", "partition")
_L, _LT, _LTP = ("group",), ("group", "topic"), ("group", "topic", "partition")


def _naming_cluster(label: str, *rows: Compat) -> tuple[Compat, ...]:
    return tuple(it._replace(cluster=label) for it in rows)


TABLE: Mapping[Exporters, tuple[Compat, ...]] = {
    Exporters.KMINION: (
        Compat(
            _gauge(
                f"{_KMINION}info",
                ("group_id", "protocol", "protocol_type", "state"),
                "1 if the group is stable, else 0.",
            ),
            _info,
        ),
        Compat(_gauge(f"{_KMINION}members", _G, "Members of the group."), _of_group(_members)),
        Compat(
            _gauge(f"{_KMINION}empty_members", _G, "Members that hold no partition; absent where there is none."),
            _of_group(_empty_members),
        ),
        Compat(_gauge(f"{_KMINION}topic_lag", _GT, "Lag in records, over the topic's partitions."), _topic_lag),
        Compat(
            _gauge(f"{_KMINION}topic_offset_sum", _GT, "Committed offsets, summed over the topic's partitions."),
            _topic_offsets,
            True,
        ),
        Compat(
            _gauge(f"{_KMINION}topic_partition_lag", _GTP, "Lag in records, of a partition."),
            _partition_lag,
            True,
        ),
    ),
    Exporters.BURROW: _naming_cluster(
        "cluster",
        Compat(_gauge(f"{_BURROW}lag_total", _B, "Lag in records, over all partitions."), _of_group(_sum_lag)),
        Compat(
            _gauge(f"{_BURROW}status", _B, "3 (ERR) while stalled_consumer finds something, else absent."),
            _status,
        ),
        Compat(
            _gauge(f"{_BURROW}current_offset", _BTP, "The offset that the group committed."),
            _partition_offset,
            True,
        ),
        Compat(
            _gauge(f"{_BURROW}partition_lag", _BTP, "Lag in records, of a partition."),
            _partition_lag,
            True,
        ),
    ),
    Exporters.KAFKA_EXPORTER: (
        Compat(_gauge(f"{_EXPORTER}members", _C, "Members of the group."), _of_group(_members)),
        Compat(_gauge(f"{_EXPORTER}lag_sum", _CT, "Lag in records, over the topic's partitions."), _topic_lag),
        Compat(
            _gauge(f"{_EXPORTER}current_offset_sum", _CT, "Committed offsets, summed over the topic's partitions."),
            _topic_offsets,
            True,
        ),
        Compat(
            _gauge(f"{_EXPORTER}current_offset", _CTP, "The offset that the group committed."),
            _partition_offset,
            True,
        ),
        Compat(_gauge(f"{_EXPORTER}lag", _CTP, "Lag in records, of a partition."), _partition_lag, True),
    ),
    Exporters.KAFKA_LAG_EXPORTER: _naming_cluster(
        "cluster_name",
        Compat(_gauge(f"{_LAG}sum_lag", _L, "Lag in records, over all partitions."), _of_group(_sum_lag)),
        Compat(
            _gauge(f"{_LAG}topic_sum_lag", _LT, "Lag in records, over the topic's partitions."),
            _topic_lag,
        ),
        Compat(
            _gauge(f"{_LAG}max_lag_seconds", _L, "For how long the group's oldest unread record has been there."),
            _of_group(_max_lag_seconds),
        ),
        Compat(
            _gauge(f"{_LAG}max_lag", _L, "Lag in records, of the partition that has most."),
            _of_group(_max_lag),
            True,
        ),
        Compat(
            _gauge(f"{_LAG}offset", _LTP, "The offset that the group committed."),
            _partition_offset,
            True,
        ),
        Compat(_gauge(f"{_LAG}lag", _LTP, "Lag in records, of a partition."), _partition_lag, True),
    ),
}
"""By exporter what is exported of theirs."""

FAMILIES: Mapping[str, Metric] = {of.metric.name: of.metric for rows in TABLE.values() for of in rows}


def chosen(wanted: Wanted) -> Iterator[Compat]:
    """What there is to export."""
    for exporter in dict.fromkeys(wanted.exporters):
        yield from TABLE[exporter]


def series(it: GroupReading, wanted: Wanted) -> int:
    """How many series a group has here, as if each lag were known: it may be by the next scrape."""
    return sum(_most(of, it) for of in chosen(wanted))


def _most(of: Compat, it: GroupReading) -> int:
    labels = of.metric.labels
    if "partition" in labels or "partition_id" in labels:
        return len(it.partitions)
    if "topic" in labels or "topic_name" in labels:
        return len({at.topic for at in it.partitions}) if of.needs_partitions else len(it.topics)
    return 1


def lines(readings: Readings, wanted: Wanted, cluster: str | None) -> dict[str, list[str]]:
    """Lines by the name of their family. `cluster`: a label that each line bears where several are read."""
    return {of.metric.name: list(_lines(of, readings.groups, wanted, cluster)) for of in chosen(wanted)}


def _lines(of: Compat, groups: Iterable[GroupReading], wanted: Wanted, cluster: str | None) -> Iterator[str]:
    name, names = of.metric.name, of.metric.labels
    fixed = {} if cluster is None else {"cluster": cluster}
    if of.cluster is not None:
        fixed[of.cluster] = wanted.cluster
    # Labels stand in alphabetical order.
    order = sorted((*fixed, *names))
    shown: dict[str, str] = {}
    for group in groups:
        for values, value in of.samples(group):
            labels = {**fixed, **dict(zip(names, values, strict=True))}
            for text in labels.values():
                if text not in shown:
                    shown[text] = escaped(label(text))
            pairs = ",".join(f'{key}="{shown[labels[key]]}"' for key in order)
            yield f"{name}{{{pairs}}} {number(value)}\n"
