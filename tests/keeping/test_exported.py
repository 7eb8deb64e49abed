"""Which events are to be told again where records are read again."""

from agent.exported import Exported
from agent.shadow.transitions import At, GroupCreated
from agent.state import Position
from analyzers.api import Finding, State
from analyzers.severity import Severity


def created(partition, offset, at_ms):
    return GroupCreated(At(partition, offset, at_ms), "g", "classic", observed=True)


def of_cluster(at_ms):
    return Finding(
        At(0, 5, at_ms), None, None, "coordinator_hotspot", Severity.INFO, State.FIRING, at_ms, "s", "a", {}
    )


def test_nothing_is_safe_that_nobody_has_made_safe():
    outputs = [created(0, 1, 10), of_cluster(10)]
    assert Exported().fresh(outputs) == outputs


def test_what_is_safe_is_not_told_again():
    exported = Exported()
    exported.learn(0, Position(100, 1_000))
    before, later, elsewhere = created(0, 99, 1_000), created(0, 100, 900), created(1, 5, 5)
    # What time brought after that, of the last record before.
    by_time = created(0, 99, 1_001)
    assert exported.fresh([before, later, elsewhere, by_time]) == [later, elsewhere, by_time]


def test_what_the_state_has_passed_is_compared_no_longer():
    exported = Exported()
    exported.learn(0, Position(100, 1_000))
    exported.passed(0, Position(100, 999))
    exported.passed(0, Position(99, 1_000))
    exported.passed(1, Position(500, 5_000))
    assert exported.fresh([created(0, 50, 50)]) == []
    exported.passed(0, Position(100, 1_000))
    assert exported.fresh([created(0, 50, 50)]) == [created(0, 50, 50)]


def test_the_clusters_findings_have_a_time_of_their_own():
    exported = Exported()
    exported.learn_cluster(1_000)
    assert exported.fresh([of_cluster(1_000), of_cluster(1_001), created(0, 1, 1)]) == [
        of_cluster(1_001),
        created(0, 1, 1),
    ]


def test_another_log_has_nothing_safe():
    exported = Exported()
    exported.learn(0, Position(100, 1_000))
    exported.learn(1, Position(100, 1_000))
    exported.learn_cluster(1_000)
    exported.forget([0])
    assert exported.fresh([created(0, 1, 1), created(1, 1, 1), of_cluster(5)]) == [created(0, 1, 1)]
    exported.forget()
    assert len(exported.fresh([created(1, 1, 1), of_cluster(5)])) == 2
