"""What is counted, by partition."""

from __future__ import annotations

from collections import Counter

from agent.core.diagnosis.api import Finding, FindingState, Severity
from agent.core.events.counts import EventCounts, PartitionCounts
from agent.core.shadow.transitions import GroupDeleted, LogPosition, Rebalanced


def rebalanced(group: str, partition: int, stopped_ms: int | None = None) -> Rebalanced:
    return Rebalanced(LogPosition(partition, 1, 1), group, "classic", 1, None, "range", (), (), 0, None, stopped_ms)


def finding(group: str | None, partition: int, state: FindingState) -> Finding:
    return Finding(
        LogPosition(partition, 1, 1), group, "classic", "slow", Severity.WARNING, state, 1, "It is slow.", "Wait.", {}
    )


def test_nothing_is_counted_of_nothing() -> None:
    counts = EventCounts()
    assert (counts.totals(), counts.partitions) == (({}, {}), {})


def test_a_partition_goes_alone() -> None:
    counts = EventCounts()
    counts.observe([rebalanced("a", 1, 5), rebalanced("b", 2, 7), finding("a", 1, FindingState.FIRING)])
    counts.observe([finding(None, 1, FindingState.FIRING)])
    assert counts.partitions[1].findings == {"a": {("slow", "warning"): True}}
    counts.forget(1)
    assert counts.partitions == {
        2: PartitionCounts(rebalances={"b": Counter(unknown=1)}, stopped_ms={"b": 7}),
        None: PartitionCounts(findings={"": {("slow", "warning"): True}}),
    }, "what spans partitions is of none of them"


def test_a_group_in_two_partitions_is_one() -> None:
    counts = EventCounts()
    counts.observe([rebalanced("a", 1), rebalanced("a", 2)])
    assert counts.totals() == (Counter(a=2), Counter())


def test_nothing_is_left_of_a_deleted_group() -> None:
    counts = EventCounts()
    counts.observe(
        [
            rebalanced("a", 1, 5),
            finding("a", 1, FindingState.FIRING),
            GroupDeleted(LogPosition(1, 2, 2), "a", "classic"),
        ]
    )
    counts.observe([finding("a", 1, FindingState.RESOLVED)])
    assert counts.partitions == {1: PartitionCounts()}
