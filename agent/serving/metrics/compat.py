"""The names that other exporters have for what kshadow knows, for dashboards and alerts that were made for those.

Names, labels and meanings are those of the exporters' own sources: kminion, Burrow, kafka_exporter (danielqsj's) and
kafka-lag-exporter (seglo's). What kshadow does not know is absent, where they have -1 or 0, and labels without bound
(member ids, hosts) are left out. `docs/migration.md` says what is not there, and why.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from enum import StrEnum
from operator import attrgetter

from msgspec import Struct

from agent.core.diagnosis.severity import Severity
from agent.serving.metrics.group_metrics import (
    GroupMetric,
    GroupReading,
    PerGroup,
    PerLabel,
    PerLabels,
    PerPartition,
    PerTopic,
)

STALLED_ANALYZER = "stalled_consumer"
"""The analyzer that has Burrow's rules."""


class Exporters(StrEnum):
    """Whose names there are."""

    BURROW = "burrow"
    KAFKA_EXPORTER = "kafka_exporter"
    KAFKA_LAG_EXPORTER = "kafka-lag-exporter"
    KMINION = "kminion"


class CompatOptions(Struct, frozen=True):
    """Whose names are to be exported of one cluster, and what they call that."""

    exporters: tuple[Exporters, ...] = ()
    cluster: str = ""


NO_COMPAT = CompatOptions()


def _info(group: GroupReading) -> list[tuple[tuple[str, ...], float]]:
    shape = group.shape
    kind = "consumer" if shape.group_type == "classic" else shape.group_type
    return [((shape.protocol or "", kind, shape.state), shape.state == "Stable")]


def _empty_members(group: GroupReading) -> int | None:
    # There is no such series for a group where each member has something.
    return group.shape.idle_members or None


def _sum_lag(group: GroupReading) -> int | None:
    known = [topic.records for topic in group.topics if topic.records is not None]
    return sum(known) if known else None


def _max_lag(group: GroupReading) -> int | None:
    return max((records for records in group.partitions.records if records is not None), default=None)


def _max_lag_seconds(group: GroupReading) -> float | None:
    return max((topic.seconds for topic in group.topics if topic.seconds is not None), default=None)


def _topic_offsets(group: GroupReading) -> list[tuple[str, float]]:
    sums: Counter[str] = Counter()
    for (topic, _), committed in zip(group.partitions.places, group.partitions.committed, strict=True):
        sums[topic] += committed
    return [*sums.items()]


def _status(group: GroupReading) -> int | None:
    """3 is ERR, 2 WARN. No finding is not Burrow's 1 (OK): it judges within ten commits, `stalled_consumer` in
    minutes."""
    found = {severity for (name, severity), is_open in group.counts.findings if name == STALLED_ANALYZER and is_open}
    return None if not found else 2 if found == {Severity.INFO} else 3


Labels = tuple[str, ...]


def _gauge(name: str, labels: Labels, text: str, value: Callable[[GroupReading], float | None]) -> GroupMetric:
    return PerGroup(name, "gauge", labels, text, value, is_kept=value in _SELDOM)


def _topic_lag(name: str, labels: Labels) -> GroupMetric:
    return PerTopic(name, "gauge", labels, "Lag in records, over the topic's partitions.", attrgetter("records"))


def _topic_offset(name: str, labels: Labels) -> GroupMetric:
    return PerLabel(name, "gauge", labels, "Committed offsets, summed over the topic's partitions.", _topic_offsets)


def _partition_lag(name: str, labels: Labels) -> GroupMetric:
    return PerPartition(name, "gauge", labels, "Lag in records, of a partition.", attrgetter("records"))


def _partition_offset(name: str, labels: Labels) -> GroupMetric:
    return PerPartition(name, "gauge", labels, "The group's committed offset.", attrgetter("committed"))


_KMINION = "kminion_kafka_consumer_group_"
_EXPORTER = "kafka_consumergroup_"
_BURROW = "burrow_kafka_consumer_"
_LAG = "kafka_consumergroup_group_"
_G, _GT, _GTP = ("group_id",), ("group_id", "topic_name"), ("group_id", "topic_name", "partition_id")
_C, _CT, _CTP = ("consumergroup",), ("consumergroup", "topic"), ("consumergroup", "topic", "partition")
_B, _BTP = ("consumer_group",), ("consumer_group", "topic", "partition")
_L, _LT, _LTP = ("group",), ("group", "topic"), ("group", "topic", "partition")
_ALL_LAG = "Lag in records, over all partitions."
_MEMBERS = attrgetter("shape.members")
_SELDOM = (_MEMBERS, _empty_members, _status)
"""What changes with neither commits nor ends."""

COMPAT_METRICS: Mapping[Exporters, tuple[GroupMetric, ...]] = {
    Exporters.KMINION: (
        PerLabels(
            f"{_KMINION}info",
            "gauge",
            ("group_id", "protocol", "protocol_type", "state"),
            "1 if the group is stable, else 0.",
            _info,
            is_kept=True,
        ),
        _gauge(f"{_KMINION}members", _G, "Members of the group.", _MEMBERS),
        _gauge(
            f"{_KMINION}empty_members",
            _G,
            "Members that hold no partition; absent where there is none.",
            _empty_members,
        ),
        _topic_lag(f"{_KMINION}topic_lag", _GT),
        _topic_offset(f"{_KMINION}topic_offset_sum", _GT),
        _partition_lag(f"{_KMINION}topic_partition_lag", _GTP),
    ),
    Exporters.BURROW: (
        _gauge(f"{_BURROW}lag_total", _B, _ALL_LAG, _sum_lag),
        _gauge(f"{_BURROW}status", _B, "3 (ERR), 2 (WARN) while stalled_consumer finds it, else absent.", _status),
        _partition_offset(f"{_BURROW}current_offset", _BTP),
        _partition_lag(f"{_BURROW}partition_lag", _BTP),
    ),
    Exporters.KAFKA_EXPORTER: (
        _gauge(f"{_EXPORTER}members", _C, "Members of the group.", _MEMBERS),
        _topic_lag(f"{_EXPORTER}lag_sum", _CT),
        _topic_offset(f"{_EXPORTER}current_offset_sum", _CT),
        _partition_offset(f"{_EXPORTER}current_offset", _CTP),
        _partition_lag(f"{_EXPORTER}lag", _CTP),
    ),
    Exporters.KAFKA_LAG_EXPORTER: (
        _gauge(f"{_LAG}sum_lag", _L, _ALL_LAG, _sum_lag),
        _topic_lag(f"{_LAG}topic_sum_lag", _LT),
        _gauge(
            f"{_LAG}max_lag_seconds",
            _L,
            "For how long the group's oldest unread record has been there.",
            _max_lag_seconds,
        ),
        _gauge(f"{_LAG}max_lag", _L, "Lag in records, of the partition that has most.", _max_lag),
        _partition_offset(f"{_LAG}offset", _LTP),
        _partition_lag(f"{_LAG}lag", _LTP),
    ),
}
"""By exporter what is exported of theirs."""

CLUSTER_LABELS = {Exporters.BURROW: "cluster", Exporters.KAFKA_LAG_EXPORTER: "cluster_name"}
"""The label by which an exporter names the cluster, where it does."""

FAMILIES: Mapping[str, GroupMetric] = {it.name: it for metrics in COMPAT_METRICS.values() for it in metrics}


def chosen_metrics(options: CompatOptions) -> Iterator[tuple[GroupMetric, str | None]]:
    """What there is to export, each with the exporter's label for the cluster."""
    for exporter in dict.fromkeys(options.exporters):
        for metric in COMPAT_METRICS[exporter]:
            yield metric, CLUSTER_LABELS.get(exporter)
