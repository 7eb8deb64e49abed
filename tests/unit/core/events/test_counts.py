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
    assert (counts.totals(), counts.rebalances, counts.findings) == (({}, {}), {}, {})


def test_a_partition_goes_alone() -> None:
    counts = EventCounts()
    counts.observe([rebalanced("a", 1, 5), rebalanced("b", 2, 7), finding("a", 1, FindingState.FIRING)])
    counts.observe([finding(None, 1, FindingState.FIRING)])
    assert counts.findings == {("a", "slow", "warning"): True, ("", "slow", "warning"): True}
    counts.forget(1)
    assert counts.rebalances == {("b", "unknown"): 1}
    assert counts.stopped_partition_ms == {"b": 7}
    assert counts.findings == {("", "slow", "warning"): True}, "what spans partitions is of none of them"


def test_a_group_in_two_partitions_is_one() -> None:
    counts = EventCounts()
    counts.observe([rebalanced("a", 1, 5), rebalanced("a", 2, 7), finding("a", 1, FindingState.FIRING)])
    counts.observe([finding("a", 2, FindingState.FIRING), finding("a", 2, FindingState.RESOLVED)])
    assert counts.rebalances == {("a", "unknown"): 2}
    assert counts.totals() == (Counter(a=2), Counter())
    assert counts.stopped_partition_ms == {"a": 12}
    assert counts.findings == {("a", "slow", "warning"): True}, "it is still open in the other"


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
