"""What grows with transitions and findings, by partition of the topic: so that one can be forgotten, kept and given
back without the others.

Pure memory; how it becomes metrics is `agent.serving.metrics`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import ClassVar

from msgspec import Struct, field

from agent.core.causes import Cause
from agent.core.diagnosis.api import Finding, FindingState
from agent.core.inference.stopped_time import MOST_STOPPED_MS
from agent.core.shadow.transitions import GroupDeleted, MemberLeft, Rebalanced, Transition
from agent.core.state_fields import StateFields


class PartitionCounts(Struct):
    """What was counted of the groups of one partition, by group."""

    STATE: ClassVar = StateFields(
        {
            "rebalances": dict[str, Counter[Cause]],
            "departures": dict[str, Counter[Cause]],
            "origins": dict[str, Counter[str]],
            "stopped_ms": dict[str, int],
            "findings": dict[str, dict[tuple[str, str], bool]],
        }
    )

    rebalances: dict[str, Counter[Cause]] = field(default_factory=dict)
    departures: dict[str, Counter[Cause]] = field(default_factory=dict)
    origins: dict[str, Counter[str]] = field(default_factory=dict)
    """Departures whose origin is known, by its kind."""
    stopped_ms: dict[str, int] = field(default_factory=dict)
    findings: dict[str, dict[tuple[str, str], bool]] = field(default_factory=dict)
    """By analyzer and severity: whether such a finding is open."""

    def observe(self, item: Transition | Finding) -> None:
        """Count one thing that happened."""
        match item:
            case Rebalanced(group=group):
                self.rebalances.setdefault(group, Counter())[item.inferred.cause] += 1
                if item.stopped_partition_ms is not None:
                    stopped_ms = self.stopped_ms.get(group, 0) + item.stopped_partition_ms
                    self.stopped_ms[group] = min(stopped_ms, MOST_STOPPED_MS)
            case MemberLeft(group=group, inferred=inferred):
                cause = Cause.UNKNOWN_DEPARTURE if inferred is None else inferred.cause
                departures = self.departures.get(group)
                if departures is None:
                    departures = self.departures[group] = Counter()
                departures[cause] += 1
            case Finding():
                self._take(item)
            case GroupDeleted(group=group):
                for counts in (self.rebalances, self.departures, self.origins, self.stopped_ms, self.findings):
                    counts.pop(group, None)

    def _take(self, finding: Finding) -> None:
        name = finding.group or ""
        if finding.state is FindingState.RESOLVED and name not in self.findings:
            # It closed because its group was deleted, and that is gone already.
            return
        states = self.findings.setdefault(name, {})
        # One finding has one severity at a time.
        states.update((key, False) for key in states if key[0] == finding.analyzer)
        states[finding.analyzer, finding.severity] = finding.state is FindingState.FIRING


class EventCounts:
    """Rebalances and departures by group and cause, and findings' states.

    A deleted group's counters go with it: console consumers come under a new name each time. If the name comes
    back they start at zero, which Prometheus takes for the reset that it is.
    """

    def __init__(self) -> None:
        self.partitions: dict[int | None, PartitionCounts] = {}
        """By partition; under None what spans them: findings of the cluster."""

    def observe(self, items: Iterable[Transition | Finding]) -> None:
        """Count what happened, under the cause that was inferred."""
        for item in items:
            partition = item.at.partition if item.group is not None else None
            counts = self.partitions.get(partition)
            if counts is None:
                counts = self.partitions[partition] = PartitionCounts()
            counts.observe(item)

    def origin_known(self, partition: int, group: str, kind: str) -> None:
        """Count a departure, which was counted under its cause, under its origin as well."""
        counts = self.partitions.get(partition)
        if counts is not None and group in counts.departures:  # else the group was deleted meanwhile
            counts.origins.setdefault(group, Counter())[kind] += 1

    def forget(self, partition: int) -> None:
        """Drop what was counted in a partition: its records are to be read anew, or by somebody else."""
        self.partitions.pop(partition, None)

    def totals(self) -> tuple[Counter[str], Counter[str]]:
        """Rebalances and departures by group, over all causes, and over partitions: a group stands in two once the
        topic was given more of them."""
        counts = self.partitions.values()
        return _sums(it.rebalances for it in counts), _sums(it.departures for it in counts)


def _sums(partitions: Iterable[Mapping[str, Counter[Cause]]]) -> Counter[str]:
    out: Counter[str] = Counter()
    for counts in partitions:
        out.update({group: causes.total() for group, causes in counts.items()})
    return out
