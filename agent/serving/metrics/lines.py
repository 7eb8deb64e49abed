"""Writes the lines of the metrics of groups: ours, and those that other exporters' names were asked for."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from agent.serving.metrics.compat import NO_COMPAT, CompatOptions, chosen_metrics
from agent.serving.metrics.group_metrics import (
    FINDINGS,
    GROUP_METRICS,
    SHAPE_METRICS,
    GroupCounts,
    GroupMetric,
    GroupReading,
    GroupShape,
    LabelledGroups,
    PerGroup,
    PerLabel,
    PerPartition,
    PerTopic,
)
from agent.serving.metrics.readings import Readings
from agent.serving.metrics.text import Escaped, escape_label, safe_label

_NOBODY = GroupReading(GroupShape("", "", "", 0, 0, 0, None, 0))


class _CachedGroup:
    """What is kept of a group from scrape to scrape: its name as it is written, and the lines of its shape."""

    __slots__ = ("labels", "series", "shape", "shape_lines")

    def __init__(self, group: GroupReading, prefix: str, escaped: Escaped) -> None:
        self.shape = group.shape
        self.labels = f'{prefix}{escape_label(safe_label(group.shape.group))}"'
        alone = LabelledGroups([(group, self.labels)], escaped)
        self.shape_lines = ["".join(metric.lines(alone)) for metric in SHAPE_METRICS]
        self.series = _shape_series(group)


class GroupLines:
    """Writes the groups of one cluster, again and again."""

    def __init__(self, cluster: str | None, compat: CompatOptions = NO_COMPAT) -> None:
        """`cluster` is the label that each line bears, None: it bears none; `compat`: whose names are wanted, too."""
        self._fixed = {} if cluster is None else {"cluster": cluster}
        self._compat = compat
        self._cached: dict[str, _CachedGroup] = {}
        # Of another exporter's values that are not known it is counted as if they were.
        chosen = [metric for metric, _ in chosen_metrics(compat)]
        counted = [*GROUP_METRICS, *(it for it in chosen if type(it) is not PerGroup)]
        self._always = len(GROUP_METRICS) + len(chosen) - len(counted)
        self._changing_series = _series_counter(it for it in counted if not it.of_shape)
        self._per_topic = sum(isinstance(it, PerTopic) for it in counted)
        self._per_partition = sum(isinstance(it, PerPartition) for it in counted)

    def series_count(self, group: GroupReading) -> int:
        """How many series a group has, as if each lag were known: it may be by the next scrape."""
        cached = self._cached.get(group.shape.group)
        if cached is not None and cached.shape is group.shape:
            found = cached.series
        else:
            found = _shape_series(group)
        found += self._always + self._changing_series(group)
        return found + self._per_topic * len(group.topics) + self._per_partition * len(group.partitions)

    def write(self, readings: Readings) -> dict[str, list[str]]:
        """Lines by the name of their metric."""
        groups, escaped = readings.groups, Escaped()
        cached = self._cached = self._cached_of(groups, escaped)
        out: dict[str, list[str]] = {}
        for at, metric in enumerate(SHAPE_METRICS):
            out[metric.name] = [lines for it in cached.values() if (lines := it.shape_lines[at])]
        labelled = LabelledGroups(zip(groups, [it.labels for it in cached.values()], strict=True), escaped)
        for metric in GROUP_METRICS:
            if not metric.of_shape:
                out[metric.name] = metric.lines(labelled)
        nobody = _NOBODY._replace(counts=GroupCounts(findings=readings.findings))
        of_cluster = FINDINGS.lines(LabelledGroups([(nobody, f'{self._prefix("group")}"')], escaped))
        out[FINDINGS.name] = of_cluster + out[FINDINGS.name]
        return out | dict(self._compat_lines(groups, escaped))

    def _cached_of(self, groups: Iterable[GroupReading], escaped: Escaped) -> dict[str, _CachedGroup]:
        before, after, prefix = self._cached, dict[str, _CachedGroup](), self._prefix("group")
        for group in groups:
            cached = before.get(group.shape.group)
            if cached is None or cached.shape is not group.shape:
                cached = _CachedGroup(group, prefix, escaped)
            after[group.shape.group] = cached
        return after

    def _compat_lines(self, groups: Iterable[GroupReading], escaped: Escaped) -> Iterator[tuple[str, list[str]]]:
        labelled: dict[str, LabelledGroups] = {}
        for metric, cluster_label in chosen_metrics(self._compat):
            fixed = self._fixed if cluster_label is None else {**self._fixed, cluster_label: self._compat.cluster}
            prefix = _prefix(fixed, metric.labels[0])
            if prefix not in labelled:
                names = ((it, f'{prefix}{escaped[it.shape.group]}"') for it in groups)
                labelled[prefix] = LabelledGroups(names, escaped)
            yield metric.name, metric.lines(labelled[prefix])

    def _prefix(self, group_label: str) -> str:
        return _prefix(self._fixed, group_label)


def _series_counter(metrics: Iterable[GroupMetric]) -> Callable[[GroupReading], int]:
    """What counts the series that a group has in those of the metrics that are of the group, or of a label."""
    metrics = list(metrics)
    one = [it.value for it in metrics if type(it) is PerGroup]
    several = [it.values for it in metrics if isinstance(it, PerLabel)]

    def count(group: GroupReading) -> int:
        found = 0
        for value in one:
            found += value(group) is not None
        for values in several:
            found += len(values(group))
        return found

    return count


_shape_series = _series_counter(SHAPE_METRICS)


def _prefix(fixed: dict[str, str], group_label: str) -> str:
    """What stands before a group's name: the cluster's labels, first in the alphabet, and the group's own label."""
    return "".join(f'{key}="{escape_label(safe_label(fixed[key]))}",' for key in sorted(fixed)) + f'{group_label}="'
