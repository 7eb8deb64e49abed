"""Every metric of a group, one entry each: name, type, labels, help, and the function from a reading to its values.

To add a metric: an entry in `GROUP_METRICS`; where it needs more of a group than a reading has, a field of
`GroupShape` and its value in `GroupShape.of`. The exporter, the limit of series, the documentation and the dashboards
read the table. What is None in a reading is not known, and is not exported.
"""

from __future__ import annotations

from abc import abstractmethod
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial
from operator import attrgetter
from typing import Any, NamedTuple

from agent.core.events.counts import PartitionCounts
from agent.core.shadow.views import GroupView
from agent.kafka.lag.lag_calculator import PartitionLag, TopicLag
from agent.serving.metrics.text import Escaped, Metric, format_number, format_seconds
from analyzers.balance import assignment_imbalance


class GroupShape(NamedTuple):
    """What of a group changes with its own records alone; the same object for as long as nothing did."""

    group: str
    group_type: str
    state: str
    generation: int | None
    members: int
    idle_members: int
    imbalance: float | None
    state_since_ms: int
    protocol: str | None = None
    libraries: tuple[tuple[str, int], ...] = ()
    """Members by client library, sorted by name."""

    @classmethod
    def of(cls, view: GroupView) -> GroupShape:
        """The shape of a group as the mirror shows it."""
        return cls(
            view.group,
            view.group_type,
            view.state,
            None if view.is_sampled else view.generation,
            len(view.members),
            sum(1 for member in view.members if not member.partitions),
            rounded(assignment_imbalance(view)),
            view.state_since_ms,
            view.protocol,
            tuple(sorted(Counter(member.client_library for member in view.members).items())),
        )


def rounded(ratio: float | None) -> float | None:
    """A ratio with as many digits as are exported."""
    return None if ratio is None else round(ratio, 4)


class GroupCounts(NamedTuple):
    """What happened to a group: rebalances and departures by cause, stopped partition time (None: no rebalance
    told), by analyzer and severity whether such a finding is open, and departures by origin."""

    rebalances: Sequence[tuple[str, int]] = ()
    departures: Sequence[tuple[str, int]] = ()
    stopped_ms: int | None = None
    findings: Sequence[tuple[tuple[str, str], bool]] = ()
    origins: Sequence[tuple[str, int]] = ()

    @classmethod
    def of(cls, counts: PartitionCounts | None, group: str) -> GroupCounts:
        """A group's, from those of its partition; of the cluster itself under the group ""."""
        if counts is None:
            return NO_GROUP_COUNTS
        rebalances, departures = counts.rebalances.get(group), counts.departures.get(group)
        findings, origins = counts.findings.get(group), counts.origins.get(group)
        return cls(
            () if rebalances is None else tuple(rebalances.items()),
            () if departures is None else tuple(departures.items()),
            counts.stopped_ms.get(group),
            () if findings is None else tuple(findings.items()),
            () if origins is None else tuple(origins.items()),
        )


NO_GROUP_COUNTS = GroupCounts()


class RolloutReading(NamedTuple):
    """The newest rollout of a group: the verdict on it, or that it is pending, and when it began (epoch ms)."""

    verdict: str
    began_ms: int


class GroupReading(NamedTuple):
    """One group at the time of a scrape. What is finer than groups is empty unless it is exported."""

    shape: GroupShape
    load_imbalance: float | None = None
    last_commit_ms: int | None = None
    counts: GroupCounts = NO_GROUP_COUNTS
    topics: Sequence[TopicLag] = ()
    partitions: Sequence[PartitionLag] = ()
    rollout: RolloutReading | None = None
    stale: int | None = None
    """1 where an open transaction hides what was written of it lately."""

    @property
    def rollout_began_ms(self) -> int | None:
        """When that began."""
        return None if self.rollout is None else self.rollout.began_ms


Labelled = tuple[Sequence[Any], Sequence[str]]
"""Things that have a sample, and the labels of each as they are written. Labels stand in alphabetical order, as
prometheus_client writes them; of those that a metric adds only `analyzer` and `cause` come before the group's."""


class LabelledGroups:
    """The groups of one scrape, each with the labels that all its lines have: the cluster's and the group's."""

    def __init__(self, groups: Iterable[tuple[GroupReading, str]], escaped: Escaped) -> None:
        self.groups, self.escaped = list(groups), escaped
        self.readings: Labelled = ([group for group, _ in self.groups], [labels for _, labels in self.groups])
        self._topics: Labelled | None = None
        self._partitions: Labelled | None = None

    def topics(self, topic: str) -> Labelled:
        """All `TopicLag`s; `topic` is what the label is called."""
        if self._topics is None:
            escaped = self.escaped
            self._topics = (
                [lag for group, _ in self.groups for lag in group.topics],
                [f'{labels},{topic}="{escaped[lag.topic]}"' for group, labels in self.groups for lag in group.topics],
            )
        return self._topics

    def partitions(self, topic: str, partition: str) -> Labelled:
        """All `PartitionLag`s, and what the labels are called."""
        if self._partitions is None:
            escaped, between = self.escaped, f'",{topic}="'
            begins = [(f'{labels},{partition}="', group.partitions) for group, labels in self.groups]
            self._partitions = (
                [at for _, found in begins for at in found],
                [f'{begin}{at.partition}{between}{escaped[at.topic]}"' for begin, found in begins for at in found],
            )
        return self._partitions


@dataclass(frozen=True, slots=True)
class GroupMetric(Metric):
    """A metric of groups. The first of its labels is the group's name."""

    of_shape: bool = field(default=False, kw_only=True)
    """Whether it is of the shape alone: then its lines are kept for as long as the shape is the same."""

    @abstractmethod
    def lines(self, groups: LabelledGroups) -> list[str]:
        """The samples as lines of the text format."""


@dataclass(frozen=True, slots=True)
class PerGroup(GroupMetric):
    """One sample for each group whose value is known."""

    value: Callable[[Any], float | None]
    written: Callable[..., str] = format_number
    """How the value is written: what is in milliseconds is exported in seconds."""

    def lines(self, groups: LabelledGroups) -> list[str]:
        """One for each value that is known."""
        begin, written = f"{self.sample_name}{{", self.written
        items, labelled = self.items(groups)
        return [
            f"{begin}{labels}}} {written(value)}\n"
            for labels, value in zip(labelled, map(self.value, items), strict=True)
            if value is not None
        ]

    def items(self, groups: LabelledGroups) -> Labelled:
        """What `value` is a function of."""
        return groups.readings


class PerTopic(PerGroup):
    """One for each topic that a group commits to: `value` is of its `TopicLag`; the second label names the topic."""

    __slots__ = ()

    def items(self, groups: LabelledGroups) -> Labelled:
        """Every group's topics."""
        return groups.topics(self.labels[1])


class PerPartition(PerGroup):
    """One for each partition that a group commits to, of its `PartitionLag`; labels: group, topic, partition."""

    __slots__ = ()

    def items(self, groups: LabelledGroups) -> Labelled:
        """Every group's partitions."""
        return groups.partitions(*self.labels[1:])


@dataclass(frozen=True, slots=True)
class PerLabel(GroupMetric):
    """A sample for each value of the one label after the group's."""

    values: Callable[[GroupReading], Sequence[tuple[Any, float]]]

    def lines(self, groups: LabelledGroups) -> list[str]:
        """All of a group one after another."""
        name, values, escaped, label = self.sample_name, self.values, groups.escaped, self.labels[1]
        if label < self.labels[0]:
            return [
                f'{name}{{{label}="{escaped[key]}",{labels}}} {format_number(value)}\n'
                for group, labels in groups.groups
                for key, value in values(group)
            ]
        return [
            f'{name}{{{labels},{label}="{escaped[key]}"}} {format_number(value)}\n'
            for group, labels in groups.groups
            for key, value in values(group)
        ]


class PerLabels(PerLabel):
    """A sample for each combination of the labels after the group's, given as a tuple."""

    __slots__ = ()

    def lines(self, groups: LabelledGroups) -> list[str]:
        """All of a group one after another."""
        group_label, *own = self.labels
        at = sum(name < group_label for name in own)
        names = [f'{name}="%s"' for name in own]
        line = f"{self.sample_name}{{{','.join([*names[:at], '%s', *names[at:]])}}} %s\n"
        out = []
        for group, labels in groups.groups:
            for keys, value in self.values(group):
                said = [groups.escaped[key] for key in keys]
                out.append(line % (*said[:at], labels, *said[at:], format_number(value)))
        return out


def _per_group(kind: str, name: str, path: str, text: str, written: Callable[..., str] = format_number) -> PerGroup:
    """A metric of what stands at `path` in a reading."""
    of_shape = path.startswith("shape.")
    return PerGroup(name, kind, ("group",), text, attrgetter(path), written, of_shape=of_shape)


_gauge, _counter = partial(_per_group, "gauge"), partial(_per_group, "counter")


def _by_cause(name: str, path: str, text: str) -> PerLabel:
    return PerLabel(name, "counter", ("group", "cause"), text, attrgetter(path))


FINDINGS = PerLabels(
    "kshadow_finding_active",
    "gauge",
    ("group", "analyzer", "severity"),
    "1 while a finding is open, 0 once it has closed; `group` is empty for findings about the cluster.",
    attrgetter("counts.findings"),
)

GROUP_METRICS: tuple[GroupMetric, ...] = (
    PerLabels(
        "kshadow_group_state",
        "gauge",
        ("group", "group_type", "state"),
        "1 for the group's current state.",
        lambda group: [((group.shape.group_type, group.shape.state), 1)],
        of_shape=True,
    ),
    _gauge(
        "kshadow_group_stale",
        "stale",
        "1 while an open transaction hides what was written of the group since it began; absent otherwise.",
    ),
    _gauge("kshadow_group_members", "shape.members", "Members of the group."),
    _gauge(
        "kshadow_group_generation",
        "shape.generation",
        "Generation of the group; for KIP-848, share and streams groups its epoch.",
    ),
    _gauge("kshadow_group_idle_members", "shape.idle_members", "Members that hold no partition."),
    PerLabel(
        "kshadow_group_client_libraries",
        "gauge",
        ("group", "library"),
        "Members of the group by client library; `unknown` if it cannot be recognized.",
        attrgetter("shape.libraries"),
        of_shape=True,
    ),
    _by_cause("kshadow_group_rebalances", "counts.rebalances", "Rebalances that completed since the log begins."),
    _by_cause("kshadow_group_member_departures", "counts.departures", "Members that left the group."),
    PerLabel(
        "kshadow_group_departures_by_origin",
        "counter",
        ("group", "origin"),
        "Members that left the group, by what happened to their pods; only with `--kubernetes`, and only those of "
        "which it is known.",
        attrgetter("counts.origins"),
    ),
    _counter(
        "kshadow_group_rebalance_stopped_partition_seconds",
        "counts.stopped_ms",
        "Time that rebalances stopped partitions, summed over the partitions.",
        format_seconds,
    ),
    _gauge(
        "kshadow_group_assignment_imbalance_ratio",
        "shape.imbalance",
        "Largest share of partitions (or tasks) divided by a fair share; 1 is even.",
    ),
    _gauge(
        "kshadow_group_load_imbalance_ratio",
        "load_imbalance",
        "Largest share of the records consumed in the last 15 minutes divided by a fair share; 1 is even.",
    ),
    _gauge(
        "kshadow_group_last_commit_timestamp_seconds",
        "last_commit_ms",
        "Time of the group's last commit that still stands, Unix time.",
        format_seconds,
    ),
    PerTopic(
        "kshadow_group_topic_lag_records",
        "gauge",
        ("group", "topic"),
        "Records between the group's committed offsets and the end of the topic; absent if an end is unknown.",
        attrgetter("records"),
    ),
    PerTopic(
        "kshadow_group_topic_lag_seconds",
        "gauge",
        ("group", "topic"),
        "Age of the next record that the group will read, in its slowest partition.",
        attrgetter("seconds"),
    ),
    PerPartition(
        "kshadow_group_partition_committed_offset",
        "gauge",
        ("group", "topic", "partition"),
        "The group's committed offset.",
        attrgetter("committed"),
    ),
    PerPartition(
        "kshadow_group_partition_lag_records",
        "gauge",
        ("group", "topic", "partition"),
        "Records between the committed offset and the end of the partition; absent if the end is unknown.",
        attrgetter("records"),
    ),
    PerLabel(
        "kshadow_group_rollout_verdict",
        "gauge",
        ("group", "verdict"),
        "1 for the verdict on the group's newest rollout: better, same, worse, harmful; pending until there is one.",
        lambda group: [] if group.rollout is None else [(group.rollout.verdict, 1)],
    ),
    _gauge(
        "kshadow_group_rollout_began_timestamp_seconds",
        "rollout_began_ms",
        "When the group's newest rollout began, Unix time.",
        format_seconds,
    ),
    FINDINGS,
)
"""In the order in which they are exported."""

SHAPE_METRICS = tuple(metric for metric in GROUP_METRICS if metric.of_shape)
