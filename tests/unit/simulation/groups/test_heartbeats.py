"""The rule of heartbeats, with the timelines of its worked examples: when silence means death."""

from __future__ import annotations

from msgspec.structs import replace

from agent.simulation.groups.messages import RebalanceReason
from tests.unit.simulation.groups.driving import AT_ONCE, Driven

S = 1000


def test_a_deadline_is_renewed_by_each_answer_and_each_sync() -> None:
    group = Driven(replace(AT_ONCE, min_session_timeout_ms=5 * S, replication_ms=2 * S))
    group.join("c1", 0, session=5 * S)
    assert group.joined("c1").generation == 1
    assert group.deadline("c1") == 5 * S
    assert group.sync("c1", 1 * S) is None
    assert group.deadline("c1") == 6 * S
    group.until(3 * S)
    assert group.answers["c1"][-1].error == "NONE"
    assert group.deadline("c1") == 8 * S
    assert group.beat("c1", 7 * S) == "NONE"
    assert group.deadline("c1") == 12 * S


def test_who_awaits_its_sync_answer_lives() -> None:
    group = Driven(replace(AT_ONCE, initial_rebalance_delay_ms=1, replication_ms=5 * S))
    for who, session in (("c2", 20), ("c1", 10), ("c3", 40)):
        group.join(who, -2, session=session * S)
    group.until(0)
    for who in ("c1", "c2", "c3"):
        assert group.joined(who).leader == group.ids["c2"]
    assert [group.deadline(who) for who in ("c1", "c2", "c3")] == [10 * S, 20 * S, 40 * S]
    group.sync("c1", 3 * S)
    assert group.deadline("c1") == 13 * S
    group.until(19 * S)
    assert group.removed() == []
    # The leader comes at the very last moment; what it brings takes five seconds to be written.
    group.sync("c2", 20 * S)
    assert group.deadline("c2") == 40 * S
    group.until(25 * S)
    assert [group.deadline(who) for who in ("c1", "c2", "c3")] == [35 * S, 45 * S, 40 * S]
    group.beat("c1", 34 * S)
    group.sync("c3", 40 * S)
    assert group.deadline("c3") == 80 * S
    assert group.removed() == []


def stable_with_two() -> Driven:
    """C1 (10 s) and C2 (20 s), stable since 0 s."""
    group = Driven()
    group.join("c1", 0, session=10 * S)
    group.joined("c1")
    group.sync("c1", 0)
    group.join("c2", 0, session=20 * S)
    group.join("c1", 0)
    group.joined("c2")
    group.sync("c2", 0)
    group.sync("c1", 0)
    assert group.group.state == "Stable"
    assert [group.deadline(who) for who in ("c1", "c2")] == [10 * S, 20 * S]
    return group


def test_who_awaits_its_join_answer_lives() -> None:
    group = stable_with_two()
    group.join("c3", 2 * S, session=40 * S)
    group.join("c1", 3 * S)
    assert group.deadline("c1") == 10 * S
    group.until(14 * S)
    assert group.removed() == []
    assert group.deadline("c1") is None
    group.join("c2", 15 * S)
    assert group.group.state == "CompletingRebalance"
    assert group.removed() == []
    for who in ("c1", "c2", "c3"):
        assert group.joined(who).generation == 3
    assert [group.deadline(who) for who in ("c1", "c2", "c3")] == [25 * S, 35 * S, 55 * S]


def test_who_does_not_rejoin_is_out_when_its_session_ends() -> None:
    group = stable_with_two()
    group.join("c3", 2 * S, session=40 * S)
    group.join("c1", 3 * S)
    group.until(19 * S)
    assert group.group.state == "PreparingRebalance"
    group.until(20 * S)
    assert group.removed() == [("c2", 20 * S, RebalanceReason.SESSION_TIMEOUT)]
    assert group.group.state == "CompletingRebalance"
    assert {group.joined(who).generation for who in ("c1", "c3")} == {3}
    assert [group.deadline(who) for who in ("c1", "c3")] == [30 * S, 60 * S]
