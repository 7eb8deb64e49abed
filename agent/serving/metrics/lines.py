"""Writes the lines of the metrics of groups: ours, and those that other exporters' names were asked for."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from agent.serving.metrics.compat import NO_COMPAT, CompatOptions, chosen_metrics
from agent.serving.metrics.group_metrics import (
    FINDINGS,
    GROUP_METRICS,
    GroupCounts,
    GroupMetric,
    GroupReading,
    GroupShape,
    LabelledGroups,
    LabelWriter,
    PerGroup,
    PerLabel,
    PerPartition,
    PerTopic,
)
from agent.serving.metrics.readings import Readings
from agent.serving.metrics.text import escape_label, safe_label

_NOBODY = GroupReading(GroupShape("", "", "", 0, 0, 0, None, 0))

AT_ONCE = 500
"""Groups whose lines are written together: in bulk, and so few that their lines are no great part of a scrape's."""

SEPARATOR = b"\0"
"""Between the lines of one metric and the next one's, where they are kept: no label has it."""


class _KeptGroup:
    """What is kept of a group from scrape to scrape: the lines of what seldom changes, as one text, in which those of
    each metric are parted; how many; and what they were made of."""

    __slots__ = ("of", "series", "text")

    def __init__(self, of: tuple[object, ...], texts: Sequence[str]) -> None:
        self.of = of
        self.text = SEPARATOR.join([it.encode() for it in texts])
        self.series = self.text.count(b"\n")


class GroupLines:
    """Writes the groups of one cluster, again and again."""

    def __init__(self, cluster: str | None, compat: CompatOptions = NO_COMPAT) -> None:
        """`cluster` is the label that each line bears, None: it bears none; `compat`: whose names are wanted, too."""
        fixed = {} if cluster is None else {"cluster": cluster}
        self._prefix = _prefix(fixed, "group")
        prefixed = [(metric, self._prefix) for metric in GROUP_METRICS]
        for metric, label in chosen_metrics(compat):
            labels = fixed if label is None else {**fixed, label: compat.cluster}
            prefixed.append((metric, _prefix(labels, metric.labels[0])))
        self._kept_metrics = [it for it in prefixed if it[0].is_kept]
        self._metrics = [it for it in prefixed if not it[0].is_kept]
        self._kept: dict[str, _KeptGroup] = {}
        changing = [metric for metric, _ in self._metrics]
        # Of another exporter's values that are not known it is counted as if they were.
        self._known = [it.value for it in changing if type(it) is PerGroup and it in GROUP_METRICS]
        self._always = sum(type(it) is PerGroup for it in changing) - len(self._known)
        self._labelled = [it.values for it in changing if isinstance(it, PerLabel)]
        self._per_topic = sum(isinstance(it, PerTopic) for it in changing)
        self._per_partition = sum(isinstance(it, PerPartition) for it in changing)

    def keep(self, groups: Sequence[GroupReading]) -> None:
        """Make anew what changed of what is kept of these groups, and forget the others: before all else is asked."""
        kept: dict[str, _KeptGroup] = {}
        changed: list[GroupReading] = []
        for group in groups:
            known = self._kept.get(name := group.shape.group)
            # A comparison of the same shape ends at its identity.
            if known is None or known.of != group.seldom:
                changed.append(group)
            else:
                kept[name] = known
        writer = LabelWriter()
        for start in range(0, len(changed), AT_ONCE):
            some = changed[start : start + AT_ONCE]
            columns = [texts for _, texts in _texts(self._kept_metrics, some, writer)]
            for group, texts in zip(some, zip(*columns, strict=True), strict=True):
                kept[group.shape.group] = _KeptGroup(group.seldom, texts)
        self._kept = kept

    def series_count(self, group: GroupReading) -> int:
        """How many series a group that is kept has, as if each lag were known: it may be by the next scrape."""
        found = self._kept[group.shape.group].series + self._always
        for value in self._known:
            found += value(group) is not None
        for values in self._labelled:
            found += len(values(group))
        return found + self._per_topic * len(group.topics) + self._per_partition * len(group.partitions.places)

    def write(self, readings: Readings) -> dict[str, list[bytes]]:
        """Lines by the name of their metric, those of several groups together. The groups are kept."""
        groups, writer = readings.groups, LabelWriter()
        nobody = _NOBODY._replace(counts=GroupCounts(findings=readings.findings))
        of_cluster = FINDINGS.texts(LabelledGroups([nobody], [f'{self._prefix}"'], writer))
        out: dict[str, list[bytes]] = {metric.name: [] for metric, _ in (*self._kept_metrics, *self._metrics)}
        out[FINDINGS.name] = ["".join(of_cluster).encode()]
        for start in range(0, len(groups), AT_ONCE):
            some = groups[start : start + AT_ONCE]
            kept = [self._kept[it.shape.group].text.split(SEPARATOR) for it in some]
            for (metric, _), lines in zip(self._kept_metrics, zip(*kept, strict=True), strict=True):
                out[metric.name].append(b"".join(lines))
            for metric, texts in _texts(self._metrics, some, writer):
                out[metric.name].append("".join(texts).encode())
        return {name: found for name, parts in out.items() if (found := [it for it in parts if it])}


def _texts(
    metrics: Iterable[tuple[GroupMetric, str]], groups: Sequence[GroupReading], writer: LabelWriter
) -> Iterator[tuple[GroupMetric, list[str]]]:
    """What each metric, with what stands before a group's name in its lines, has of each group."""
    labelled: dict[str, LabelledGroups] = {}
    for metric, prefix in metrics:
        if prefix not in labelled:
            labels = [f'{prefix}{writer.escaped[it.shape.group]}"' for it in groups]
            labelled[prefix] = LabelledGroups(groups, labels, writer)
        yield metric, metric.texts(labelled[prefix])


def _prefix(fixed: dict[str, str], group_label: str) -> str:
    """What stands before a group's name: the cluster's labels, first in the alphabet, and the group's own label."""
    return "".join(f'{key}="{escape_label(safe_label(fixed[key]))}",' for key in sorted(fixed)) + f'{group_label}="'
