"""Every metric of a group, one entry each: name, type, labels, help, and the function from a reading to its values.

To add a metric: an entry in `GROUP_METRICS`; where it needs more of a group than a reading has, a field of
`GroupShape` and its value in `GroupShape.of`. The exporter, the limit of series, the documentation and the dashboards
read the table. What is None in a reading is not known, and is not exported.
"""

from __future__ import annotations

from abc import abstractmethod
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from operator import attrgetter
from typing import Any, NamedTuple

from msgspec import Struct

from agent.core.end_offsets import PartitionId
from agent.core.events.counts import PartitionCounts
from agent.core.shadow.views import GroupView
from agent.kafka.lag.lag_calculator import NO_POSITIONS, Positions, TopicLag
from agent.serving.metrics.text import PLAIN_BELOW, Escaped, Metric, format_number, format_seconds
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


class GroupCounts(Struct, frozen=True, gc=False):
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
    """The newest rollout of a group: the verdict on it, or why there is none, and when it began (epoch ms)."""

    verdict: str
    began_ms: int


class GroupReading(NamedTuple):
    """One group at the time of a scrape. What is finer than groups is empty unless it is exported."""

    shape: GroupShape
    load_imbalance: float | None = None
    last_commit_ms: int | None = None
    counts: GroupCounts = NO_GROUP_COUNTS
    topics: Sequence[TopicLag] = ()
    partitions: Positions = NO_POSITIONS
    rollout: RolloutReading | None = None
    stale: int | None = None
    """1 where an open transaction hides what was written of it lately."""

    @property
    def seldom(self) -> tuple[object, ...]:
        """What changes neither with commits nor with ends: what lines that are kept are made of."""
        return self.shape, self.counts, self.rollout, self.stale

    @property
    def rollout_began_ms(self) -> int | None:
        """When that began."""
        return None if self.rollout is None else self.rollout.began_ms


class PlaceLabels(dict[PartitionId, str]):
    """The labels of partitions of topics as they are written behind those of a group. One for each scrape."""

    def __init__(self, escaped: Escaped, topic: str, partition: str) -> None:
        """`topic` and `partition` are what the labels are called."""
        super().__init__()
        self._escaped, self._begin, self._between = escaped, f',{partition}="', f'",{topic}="'

    def __missing__(self, place: PartitionId) -> str:
        topic, partition = place
        self[place] = written = f'{self._begin}{partition}{self._between}{self._escaped[topic]}"}} '
        return written


class LabelWriter:
    """Strangers' texts as labels, each written once. One for each scrape."""

    def __init__(self) -> None:
        self.escaped = Escaped()
        self._places: dict[tuple[str, str], PlaceLabels] = {}

    def places(self, topic: str, partition: str) -> PlaceLabels:
        """Those of partitions; `topic` and `partition` are what the labels are called."""
        found = self._places.get((topic, partition))
        if found is None:
            found = self._places[topic, partition] = PlaceLabels(self.escaped, topic, partition)
        return found


class LabelledGroups(NamedTuple):
    """Groups, and the labels that all lines of each have: the cluster's and the group's. Labels stand in alphabetical
    order, as prometheus_client writes them; of those that a metric adds only `analyzer` and `cause` come before."""

    readings: Sequence[GroupReading]
    labels: Sequence[str]
    writer: LabelWriter


class GroupMetric(Metric, frozen=True, kw_only=True):
    """A metric of groups. The first of its labels is the group's name."""

    is_kept: bool = False
    """Whether it is of what seldom changes: `GroupReading.seldom`. Then its lines are kept from scrape to scrape."""

    @abstractmethod
    def texts(self, groups: LabelledGroups) -> list[str]:
        """The samples of each group as lines of the text format, in one text a group."""


class PerGroup(GroupMetric, frozen=True):
    """One sample for each group whose value is known."""

    value: Callable[[Any], Any]
    written: Callable[..., str] = format_number
    """How the value is written: what is in milliseconds is exported in seconds."""

    def texts(self, groups: LabelledGroups) -> list[str]:
        """One line where the value is known."""
        begin, written = f"{self.sample_name}{{", self.written
        return [
            "" if value is None else f"{begin}{labels}}} {written(value)}\n"
            for labels, value in zip(groups.labels, map(self.value, groups.readings), strict=True)
        ]


class PerTopic(PerGroup, frozen=True):
    """One for each topic that a group commits to: `value` is of its `TopicLag`; the second label names the topic."""

    def texts(self, groups: LabelledGroups) -> list[str]:
        """A line for each topic."""
        begin, value, written, escaped = f"{self.sample_name}{{", self.value, self.written, groups.writer.escaped
        between = f',{self.labels[1]}="'
        return [
            "".join(
                [
                    f'{begin}{labels}{between}{escaped[lag.topic]}"}} {written(found)}\n'
                    for lag in group.topics
                    if (found := value(lag)) is not None
                ]
            )
            for group, labels in zip(groups.readings, groups.labels, strict=True)
        ]


class PerPartition(PerGroup, frozen=True):
    """One for each partition that a group commits to: `value` is a column of its `Positions`; labels: group, topic,
    partition."""

    def texts(self, groups: LabelledGroups) -> list[str]:
        """A line for each partition."""
        begin, column, below, written = f"{self.sample_name}{{", self.value, PLAIN_BELOW, self.written
        label_of = groups.writer.places(*self.labels[1:]).__getitem__
        return [
            "".join(
                [
                    f"{begin}{labels}{place}{value}.0\n"
                    if 0 <= value < below
                    else f"{begin}{labels}{place}{written(value)}\n"
                    for place, value in zip(
                        map(label_of, group.partitions.places), column(group.partitions), strict=True
                    )
                    if value is not None
                ]
            )
            for group, labels in zip(groups.readings, groups.labels, strict=True)
        ]


class PerLabel(GroupMetric, frozen=True):
    """A sample for each value of the one label after the group's."""

    values: Callable[[GroupReading], Sequence[tuple[Any, float]]]

    def rows(self, group: GroupReading) -> Iterable[tuple[Sequence[Any], float]]:
        """The values of the labels, and the value, of each sample."""
        return [((key,), value) for key, value in self.values(group)]

    def texts(self, groups: LabelledGroups) -> list[str]:
        """All of a group one after another."""
        group_label, *own = self.labels
        at = sum(name < group_label for name in own)
        names = [f'{name}="%s"' for name in own]
        line = f"{self.sample_name}{{{','.join([*names[:at], '%s', *names[at:]])}}} %s\n"
        rows, escaped = self.rows, groups.writer.escaped
        out = []
        for group, labels in zip(groups.readings, groups.labels, strict=True):
            lines = []
            for keys, value in rows(group):
                said = [escaped[key] for key in keys]
                lines.append(line % (*said[:at], labels, *said[at:], format_number(value)))
            out.append("".join(lines))
        return out


class PerLabels(PerLabel, frozen=True):
    """A sample for each combination of the labels after the group's, given as a tuple."""

    def rows(self, group: GroupReading) -> Iterable[tuple[Sequence[Any], float]]:
        """As they are given."""
        return self.values(group)


_OFTEN = ("last_commit_ms", "load_imbalance")
"""What changes as a group consumes."""


def _per_group(kind: str, name: str, path: str, text: str, written: Callable[..., str] = format_number) -> PerGroup:
    """A metric of what stands at `path` in a reading."""
    is_kept = path not in _OFTEN
    return PerGroup(name, kind, ("group",), text, attrgetter(path), written, is_kept=is_kept)


_gauge, _counter = partial(_per_group, "gauge"), partial(_per_group, "counter")


def _by_cause(name: str, path: str, text: str) -> PerLabel:
    return PerLabel(name, "counter", ("group", "cause"), text, attrgetter(path), is_kept=True)


FINDINGS = PerLabels(
    "kshadow_finding_active",
    "gauge",
    ("group", "analyzer", "severity"),
    "1 while a finding is open, 0 once it has closed; `group` is empty for findings about the cluster.",
    attrgetter("counts.findings"),
    is_kept=True,
)

GROUP_METRICS: tuple[GroupMetric, ...] = (
    PerLabels(
        "kshadow_group_state",
        "gauge",
        ("group", "group_type", "state"),
        "1 for the group's current state.",
        lambda group: [((group.shape.group_type, group.shape.state), 1)],
        is_kept=True,
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
        is_kept=True,
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
        is_kept=True,
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
        "Records between the group's committed offsets and the end of the topic; if some ends are unknown, "
        "the sum of the others, absent if that is 0.",
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
        "1 for the verdict on the group's newest rollout: better, same, worse, harmful; pending until there is one; "
        "'not known' where all members left before one could be told.",
        lambda group: [] if group.rollout is None else [(group.rollout.verdict, 1)],
        is_kept=True,
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
