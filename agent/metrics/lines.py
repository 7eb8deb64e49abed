"""The lines of the families that have samples for each group."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from agent.metrics.labels import label
from agent.metrics.readings import GroupReading, Readings, Shape
from agent.metrics.table import METRICS
from agent.metrics.text import escaped, number, sample_name, seconds

FAMILIES = tuple(name for name, metric in METRICS.items() if "group" in metric.labels)
"""What is written here, in the order of the table."""

# Labels stand in alphabetical order, as prometheus_client writes them: `cluster` and `group` lead all but
# `analyzer` and `cause`.
_REBALANCES = sample_name(METRICS["kshadow_group_rebalances"])
_DEPARTURES = sample_name(METRICS["kshadow_group_member_departures"])
_STOPPED = sample_name(METRICS["kshadow_group_rebalance_stopped_partition_seconds"])


def series(it: GroupReading) -> int:
    """How many series a group has here, as if each lag were known: it may be by the next scrape."""
    counts = it.counts
    found = 8 - (it.shape.imbalance, it.load_imbalance, it.last_commit_ms, counts.stopped_ms).count(None)
    found += len(counts.rebalances) + len(counts.departures) + len(counts.findings)
    return found + 2 * (len(it.topics) + len(it.partitions))


class _Fixed:
    """The lines of one group that stand for as long as its shape does."""

    __slots__ = ("generation", "idle_members", "imbalance", "lead", "members", "shape", "state")

    def __init__(self, shape: Shape, cluster: str) -> None:
        self.shape = shape
        lead = self.lead = f'{cluster}group="{escaped(label(shape.group))}"'
        self.state = f'kshadow_group_state{{{lead},group_type="{shape.group_type}",state="{shape.state}"}} 1.0\n'
        self.members = f"kshadow_group_members{{{lead}}} {number(shape.members)}\n"
        self.generation = f"kshadow_group_generation{{{lead}}} {number(shape.generation)}\n"
        self.idle_members = f"kshadow_group_idle_members{{{lead}}} {number(shape.idle_members)}\n"
        self.imbalance: str | None = None
        if shape.imbalance is not None:
            self.imbalance = f"kshadow_group_assignment_imbalance_ratio{{{lead}}} {number(shape.imbalance)}\n"


class GroupLines:
    """Writes the groups of one cluster, again and again."""

    def __init__(self, cluster: str | None) -> None:
        """`cluster` is the label that each line bears; None: it bears none."""
        self._cluster = "" if cluster is None else f'cluster="{escaped(label(cluster))}",'
        self._fixed: dict[str, _Fixed] = {}

    def write(self, it: Readings) -> dict[str, list[str]]:
        """Lines by the name of their family."""
        fixed = self._fixed = self._fixed_of(it.groups)
        both = list(zip(it.groups, fixed.values(), strict=True))
        out: dict[str, list[str]] = {
            "kshadow_group_state": [kept.state for kept in fixed.values()],
            "kshadow_group_members": [kept.members for kept in fixed.values()],
            "kshadow_group_generation": [kept.generation for kept in fixed.values()],
            "kshadow_group_idle_members": [kept.idle_members for kept in fixed.values()],
            "kshadow_group_rebalances": [
                f'{_REBALANCES}{{cause="{cause}",{kept.lead}}} {number(count)}\n'
                for group, kept in both
                for cause, count in group.counts.rebalances
            ],
            "kshadow_group_member_departures": [
                f'{_DEPARTURES}{{cause="{cause}",{kept.lead}}} {number(count)}\n'
                for group, kept in both
                for cause, count in group.counts.departures
            ],
            "kshadow_group_rebalance_stopped_partition_seconds": [
                f"{_STOPPED}{{{kept.lead}}} {seconds(group.counts.stopped_ms)}\n"
                for group, kept in both
                if group.counts.stopped_ms is not None
            ],
            "kshadow_group_assignment_imbalance_ratio": [
                kept.imbalance for kept in fixed.values() if kept.imbalance is not None
            ],
            "kshadow_group_load_imbalance_ratio": [
                f"kshadow_group_load_imbalance_ratio{{{kept.lead}}} {number(group.load_imbalance)}\n"
                for group, kept in both
                if group.load_imbalance is not None
            ],
            "kshadow_group_last_commit_timestamp_seconds": [
                f"kshadow_group_last_commit_timestamp_seconds{{{kept.lead}}} {seconds(group.last_commit_ms)}\n"
                for group, kept in both
                if group.last_commit_ms is not None
            ],
        }
        _topics(both, out)
        _partitions(both, out)
        found = out["kshadow_finding_active"] = list(self._findings(f'{self._cluster}group=""', it.findings))
        for group, kept in both:
            if group.counts.findings:
                found += self._findings(kept.lead, group.counts.findings)
        return out

    def _fixed_of(self, groups: Iterable[GroupReading]) -> dict[str, _Fixed]:
        before, after = self._fixed, dict[str, _Fixed]()
        for group in groups:
            shape = group.shape
            kept = before.get(shape.group)
            if kept is None or kept.shape is not shape:
                kept = _Fixed(shape, self._cluster)
            after[shape.group] = kept
        return after

    def _findings(self, lead: str, findings: Iterable[tuple[tuple[str, str], bool]]) -> Iterable[str]:
        return (
            f'kshadow_finding_active{{analyzer="{escaped(label(analyzer))}",{lead},severity="{severity}"}} '
            f"{number(is_open)}\n"
            for (analyzer, severity), is_open in findings
        )


def _topics(both: Sequence[tuple[GroupReading, _Fixed]], out: dict[str, list[str]]) -> None:
    records = out["kshadow_group_topic_lag_records"] = []
    waited = out["kshadow_group_topic_lag_seconds"] = []
    shown: dict[str, str] = {}
    for group, kept in both:
        for lag in group.topics:
            if (topic := shown.get(lag.topic)) is None:
                topic = shown[lag.topic] = escaped(label(lag.topic))
            labels = f'{kept.lead},topic="{topic}"'
            if lag.records is not None:
                records.append(f"kshadow_group_topic_lag_records{{{labels}}} {number(lag.records)}\n")
            if lag.seconds is not None:
                waited.append(f"kshadow_group_topic_lag_seconds{{{labels}}} {number(lag.seconds)}\n")


def _partitions(both: Sequence[tuple[GroupReading, _Fixed]], out: dict[str, list[str]]) -> None:
    committed = out["kshadow_group_partition_committed_offset"] = []
    behind = out["kshadow_group_partition_lag_records"] = []
    shown: dict[str, str] = {}
    for group, kept in both:
        for it in group.partitions:
            if (topic := shown.get(it.topic)) is None:
                topic = shown[it.topic] = escaped(label(it.topic))
            labels = f'{kept.lead},partition="{it.partition}",topic="{topic}"'
            committed.append(f"kshadow_group_partition_committed_offset{{{labels}}} {number(it.committed)}\n")
            if it.records is not None:
                behind.append(f"kshadow_group_partition_lag_records{{{labels}}} {number(it.records)}\n")
