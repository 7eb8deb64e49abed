"""Which events are to be told again where records are read again."""

from agent.core.diagnosis.api import Finding, FindingState
from agent.core.diagnosis.severity import Severity
from agent.core.shadow.transitions import GroupCreated, LogPosition
from agent.persistence.cluster_state import ReplayPosition
from agent.runtime.export_deduplicator import ExportDeduplicator


def created(partition, offset, at_ms):
    return GroupCreated(LogPosition(partition, offset, at_ms), "g", "classic", observed=True)


def of_cluster(at_ms):
    return Finding(
        LogPosition(0, 5, at_ms),
        None,
        None,
        "coordinator_hotspot",
        Severity.INFO,
        FindingState.FIRING,
        at_ms,
        "s",
        "a",
        {},
    )


def test_nothing_is_safe_that_nobody_has_made_safe():
    outputs = [created(0, 1, 10), of_cluster(10)]
    assert ExportDeduplicator().unexported(outputs) == outputs


def test_what_is_safe_is_not_told_again():
    exported = ExportDeduplicator()
    exported.mark_exported(0, ReplayPosition(100, 1_000))
    before, later, elsewhere = created(0, 99, 1_000), created(0, 100, 900), created(1, 5, 5)
    # What time brought after that, of the last record before.
    by_time = created(0, 99, 1_001)
    assert exported.unexported([before, later, elsewhere, by_time]) == [later, elsewhere, by_time]


def test_what_the_state_has_passed_is_compared_no_longer():
    exported = ExportDeduplicator()
    exported.mark_exported(0, ReplayPosition(100, 1_000))
    exported.advance(0, ReplayPosition(100, 999))
    exported.advance(0, ReplayPosition(99, 1_000))
    exported.advance(1, ReplayPosition(500, 5_000))
    assert exported.unexported([created(0, 50, 50)]) == []
    exported.advance(0, ReplayPosition(100, 1_000))
    assert exported.unexported([created(0, 50, 50)]) == [created(0, 50, 50)]


def test_what_was_safe_before_stays_so_where_a_state_is_dropped_that_had_not_come_as_far():
    exported = ExportDeduplicator()
    exported.mark_exported(0, ReplayPosition(100, 1_000))
    exported.advance(0, ReplayPosition(10, 100))
    exported.mark_exported(0, ReplayPosition(10, 100))
    outputs = [created(0, 5, 50), created(0, 99, 1_000), created(0, 100, 1_001)]
    assert exported.unexported(outputs) == outputs[2:]
    exported.advance(0, ReplayPosition(100, 1_000))
    assert exported.unexported(outputs) == outputs


def test_the_clusters_findings_have_a_time_of_their_own():
    exported = ExportDeduplicator()
    exported.mark_exported(None, ReplayPosition(0, 1_000))
    assert exported.unexported([of_cluster(1_000), of_cluster(1_001), created(0, 1, 1)]) == [
        of_cluster(1_001),
        created(0, 1, 1),
    ]


def test_another_log_has_nothing_safe():
    exported = ExportDeduplicator()
    exported.mark_exported(0, ReplayPosition(100, 1_000))
    exported.mark_exported(1, ReplayPosition(100, 1_000))
    exported.mark_exported(None, ReplayPosition(0, 1_000))
    exported.forget([0])
    assert exported.unexported([created(0, 1, 1), created(1, 1, 1), of_cluster(5)]) == [created(0, 1, 1)]
    exported.forget()
    assert len(exported.unexported([created(1, 1, 1), of_cluster(5)])) == 2
