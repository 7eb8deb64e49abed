"""Groups that change their type: between classic and KIP-848 with their members, and empty ones of any type."""

from __future__ import annotations

from typing import Any

import pytest

from agent.core.shadow.transitions import (
    AssignmentChanged,
    GroupCreated,
    MemberLeft,
    Rebalanced,
    StaticMemberReplaced,
    Transition,
)
from tests.unit.core.shadow import build as b
from tests.unit.core.shadow.build import GROUP, Log
from tests.unit.core.shadow.scripts import (
    CONSUMER,
    STREAMS,
    ClassicScript,
    ModernScript,
    downgrade,
    downgrade_in_place,
    upgrade,
    upgrade_in_place,
)


def of(transitions: list[Transition], kind: type[Any]) -> list[Any]:
    return [transition for transition in transitions if isinstance(transition, kind)]


def ids(members: Any) -> list[str]:
    return [member.member_id for member in members]


def said_since(log: Log, before: int) -> list[str]:
    return [kind for kinds in log.said()[before:] for kind in kinds]


def classic_of_two() -> tuple[Log, ClassicScript]:
    log, classic = Log(), ClassicScript(GROUP)
    log.add(*classic.create())
    log.add(*classic.rebalance({"a-1": None, "b-1": "I"}, failed=2))
    return log, classic


def upgraded() -> tuple[Log, ModernScript]:
    """A classic group of two in generation 3 that a KIP-848 member, c-1, has joined."""
    log, classic = classic_of_two()
    script, records = upgrade(classic)
    log.add(*records, *script.join("c-1"))
    return log, script


def test_a_group_goes_on_when_it_is_upgraded() -> None:
    log, classic = classic_of_two()
    before = len(log.records)
    script, records = upgrade(classic)
    log.add(*records, *script.join("c-1"))
    assert said_since(log, before) == ["rebalance", "member_joined", "assignment_changed"]
    mirror, transitions = log.replayed()
    last = of(transitions, Rebalanced)[-1]
    assert (last.group_type, last.generation, last.previous_generation) == ("consumer", 4, 3)
    assert (ids(last.joined), last.left, last.members) == (["c-1"], (), 3)
    view = mirror.view(GROUP)
    assert view is not None
    assert (view.group_type, view.generation, view.rebalances, view.generations_skipped) == ("consumer", 4, 2, 2)
    assert ids(view.members) == ["a-1", "b-1", "c-1"]
    assert [it.uses_classic_protocol for it in view.members] == [True, True, False]
    assert [it.session_timeout_ms for it in view.members] == [45_000, 45_000, None]
    assert [it.kind for it in view.anomalies] == ["generation_gap"], "what was noted before is kept"


def test_an_upgrade_moves_only_what_the_new_member_gets() -> None:
    log, _ = upgraded()
    changes = of(log.replayed()[1], AssignmentChanged)
    # a: 024, b: 135 | a: 03, b: 14, c: 25; the topic's name is never known here
    assert [(it.generation, it.assigned, it.gained, it.lost) for it in changes] == [(3, 6, 6, 0), (4, 6, 4, 0)]


def test_an_upgrade_of_a_group_with_offsets() -> None:
    log, classic = classic_of_two()
    log.add(b.commit())
    before = len(log.records)
    script, records = upgrade(classic)
    log.add(*records, *script.join("c-1"))
    assert said_since(log, before) == ["rebalance", "member_joined", "assignment_changed"]
    assert log.view().committed_partitions == 1


def test_who_left_while_the_classic_group_rebalanced_is_not_lost_in_an_upgrade() -> None:
    # a-1 left; before its departure was written, c-1 came and the group was converted without a-1.
    log, classic = classic_of_two()
    log.add(b.commit())
    del classic.members["a-1"]
    script, records = upgrade(classic)
    log.add(*records, *script.join("c-1"))
    last = of(log.replayed()[1], Rebalanced)[-1]
    assert (ids(last.left), ids(last.joined), last.members) == (["a-1"], ["c-1"], 2)
    log.add(*script.leave("c-1"))
    last = of(log.replayed()[1], Rebalanced)[-1]
    assert ids(last.left) == ["c-1"], "said once"


def test_a_member_that_joined_while_the_classic_group_rebalanced() -> None:
    log, classic = classic_of_two()
    classic.members["d-1"] = None
    script, records = upgrade(classic)
    log.add(*records, *script.join("c-1"))
    last = of(log.replayed()[1], Rebalanced)[-1]
    assert (ids(last.joined), last.left) == (["d-1", "c-1"], ())


def test_a_group_goes_on_when_it_is_downgraded() -> None:
    log, script = upgraded()
    before = len(log.records)
    classic, records = downgrade(script, "c-1")
    log.add(*records)
    assert said_since(log, before) == [], "the group is in the generation it had; a rebalance follows"
    view = log.view()
    assert (view.group_type, view.state, view.generation, view.rebalances) == ("classic", "Stable", 4, 2)
    assert ids(view.members) == ["a-1", "b-1"]

    before = len(log.records)
    log.add(*classic.rebalance(classic.members))
    assert said_since(log, before) == ["rebalance", "member_left", "assignment_changed"]
    last = of(log.replayed()[1], Rebalanced)[-1]
    assert (last.group_type, last.generation, last.previous_generation) == ("classic", 5, 4)
    assert (ids(last.left), last.joined) == (["c-1"], ())
    view = log.view()
    assert (view.rebalances, view.generations_skipped) == (3, 2)
    assert [it.kind for it in view.anomalies] == ["generation_gap"]


def test_what_the_last_kip_848_member_had_stood_still_until_the_rebalance_after_the_downgrade() -> None:
    log, script = upgraded()
    classic, records = downgrade(script, "c-1")
    log.add(*records)
    log.add(*classic.rebalance(classic.members))
    assert of(log.replayed()[1], Rebalanced)[-1].stopped_partition_ms is None, "topics are known by their ids alone"


@pytest.mark.parametrize("had_committed", [False, True])
def test_what_it_had_stood_still_where_commits_name_the_topic(*, had_committed: bool) -> None:
    """Also where the group had committed before its brokers were upgraded, without the topic's id."""
    log, script = upgraded()
    if had_committed:
        log.add(*(b.commit("t", it) for it in range(6)))
    # Each gives up what it has to, then gets what is free.
    for member_id in 3 * list(script.members):
        log.add(*script.reconcile(member_id))
    log.add(
        *(b.commit("t", it, at_ms=log.now_ms, version=4, id_of_topic=b.topic_id("t")) for it in range(6)), after_ms=0
    )
    before = {it.member_id: it.partitions for it in log.view().members}
    assert before == {"a-1": 2, "b-1": 2, "c-1": 2}
    classic, records = downgrade(script, "c-1")
    log.add(*records, after_ms=10)
    classic.rebalance(classic.members)
    joined_ms = log.now_ms + 3_000
    log.add(b.classic_group(classic.generation, *classic.metadata(), state_ms=joined_ms), after_ms=3_000)
    transitions = log.replayed()[1]
    assert [it.inferred.cause for it in of(transitions, MemberLeft)] == ["member_left"]
    stopped_ms = of(transitions, Rebalanced)[-1].stopped_partition_ms
    assert stopped_ms is not None
    assert stopped_ms >= 2 * 3_000, "the two partitions of c-1, at least"


def test_who_left_with_a_downgrade_is_not_lost_in_an_upgrade_before_the_rebalance() -> None:
    log, script = upgraded()
    classic, records = downgrade(script, "c-1")
    log.add(*records)
    again, records = upgrade(classic)
    log.add(*records, *again.join("c-2"))
    last = of(log.replayed()[1], Rebalanced)[-1]
    assert (ids(last.joined), ids(last.left), last.members) == (["c-2"], ["c-1"], 3)


def test_who_left_before_an_upgrade_that_is_no_rebalance_is_told_with_it() -> None:
    log, script = upgraded()
    classic, records = downgrade(script, "c-1")
    log.add(*records)
    before = len(log.records)
    again, records = upgrade_in_place(classic, "b-1", "b-2")
    log.add(*records)
    assert said_since(log, before) == ["member_left", "static_member_replaced"]
    (left,) = of(log.replayed()[1], MemberLeft)
    assert left.member.member_id == "c-1"
    log.add(*again.join("d-1"), after_ms=3_600_000)
    last = of(log.replayed()[1], Rebalanced)[-1]
    assert (ids(last.joined), last.left) == (["d-1"], ())


def test_a_downgrade_by_a_static_member_that_did_not_come_back() -> None:
    log, classic = classic_of_two()
    script, records = upgrade(classic)
    log.add(*records, *script.join("c-1", "IC"))
    log.add(*script.static_leave("c-1"))
    classic, records = downgrade(script, "c-1")
    log.add(*records, after_ms=45_000)
    log.add(*classic.rebalance(classic.members))
    (left,) = of(log.replayed()[1], MemberLeft)
    assert (left.member.member_id, left.group_type) == ("c-1", "classic")
    assert left.inferred is not None
    assert (left.inferred.cause, left.inferred.confidence) == ("session_timeout", 1.0)


def test_there_and_back_and_there_again() -> None:
    log, script = upgraded()
    classic, records = downgrade(script, "c-1")
    log.add(*records)
    log.add(*classic.rebalance(classic.members))
    again, records = upgrade(classic)
    log.add(*records, *again.join("c-2"))
    rounds = [
        (it.group_type, it.generation, ids(it.joined), ids(it.left)) for it in of(log.replayed()[1], Rebalanced)
    ]
    assert rounds == [
        ("classic", 3, ["a-1", "b-1"], []),
        ("consumer", 4, ["c-1"], []),
        ("classic", 5, [], ["c-1"]),
        ("consumer", 6, ["c-2"], []),
    ]
    assert len(of(log.replayed()[1], GroupCreated)) == 1


def test_an_upgrade_by_a_static_member_that_takes_a_place_is_no_rebalance() -> None:
    log, classic = classic_of_two()
    before = len(log.records)
    script, records = upgrade_in_place(classic, "b-1", "b-2")
    log.add(*records)
    assert said_since(log, before) == ["static_member_replaced"]
    assert (log.view().group_type, log.view().generation, ids(log.view().members)) == ("consumer", 3, ["a-1", "b-2"])
    # Nor is the next one, however late it comes, for the migration.
    log.add(*script.join("c-1"), after_ms=3_600_000)
    last = of(log.replayed()[1], Rebalanced)[-1]
    assert (last.generation, ids(last.joined), last.left) == (4, ["c-1"], ())
    assert (last.inferred.cause, last.inferred.causes) == ("member_joined", ("member_joined",))


def test_the_pace_of_commits_is_known_after_an_upgrade_by_a_static_member() -> None:
    log, classic = classic_of_two()
    script, records = upgrade_in_place(classic, "b-1", "b-2")
    log.add(*records)
    for _ in range(20):
        commits = [
            b.commit("t", it, at_ms=log.now_ms + 1_000, version=4, id_of_topic=b.topic_id("t")) for it in range(6)
        ]
        log.add(*commits)
    log.add(*script.leave("a-1"), after_ms=10)
    (left,) = of(log.replayed()[1], MemberLeft)
    assert left.inferred is not None
    assert left.inferred.evidence["commits_every_ms"] == 1_026


def downgraded_by_a_static_member() -> tuple[Log, ClassicScript]:
    """A group in which static members of the classic protocol took the places of those that had taken theirs."""
    log, classic = Log(), ClassicScript(GROUP)
    log.add(*classic.create())
    log.add(*classic.rebalance({"a-1": "IA", "b-1": "IB"}))
    script, records = upgrade_in_place(classic, "b-1", "b-2")
    log.add(*records)
    log.add(*(b.commit("t", number, at_ms=log.now_ms + 900) for number in range(6)))
    classic, records = downgrade_in_place(script, "b-2", "b-3")
    log.add(*records)
    return log, classic


def test_a_downgrade_by_a_static_member_that_takes_a_place_is_no_rebalance() -> None:
    log, classic = downgraded_by_a_static_member()
    _, transitions = log.replayed()
    assert [it.kind for it in transitions[-2:]] == ["static_member_replaced", "static_member_replaced"]
    places = [(it.old.member_id, it.new.member_id) for it in of(transitions, StaticMemberReplaced)]
    assert places == [("b-1", "b-2"), ("b-2", "b-3")]
    view = log.view()
    assert (view.group_type, view.state, view.generation, view.rebalances) == ("classic", "Stable", 1, 1)
    log.add(*classic.rebalance({**classic.members, "c-1": None}), after_ms=3_600_000)
    last = of(log.replayed()[1], Rebalanced)[-1]
    assert (ids(last.joined), last.left, last.inferred.causes) == (["c-1"], (), ("member_joined",))


def test_how_a_member_leaves_is_not_judged_by_a_downgrade_before() -> None:
    # Its last commit was 100 ms before the downgrade: as of a member that closes. It died an hour later.
    log, _ = downgraded_by_a_static_member()
    for _ in range(100):
        log.add(*(b.commit("t", number, at_ms=log.now_ms + 5_000) for number in range(6)), after_ms=5_000)
    log.add(*(b.commit("t", number, at_ms=log.now_ms + 30_000) for number in (1, 3, 5)), after_ms=30_000)
    alone = b.member("b-3", {"t": range(6)}, instance_id="IB")
    log.add(b.classic_group(2, alone, state_ms=log.now_ms + 15_000), after_ms=15_000)
    (left,) = of(log.replayed()[1], MemberLeft)
    assert left.member.member_id == "a-1"
    assert left.inferred is not None
    assert left.inferred.cause == "session_timeout"


def test_an_empty_classic_group_starts_anew_as_a_consumer_group() -> None:
    # `maybeDeleteEmptyClassicGroup`: the group is deleted and a new one starts at epoch 1; its offsets stay.
    for number, offsets in enumerate(([], [b.commit()]), 1):
        log, classic = classic_of_two()
        log.add(*offsets)
        log.add(*classic.rebalance({}))
        before = len(log.records)
        log.add(b.no_classic_group(), *ModernScript(CONSUMER, GROUP).join("c-1"))
        said = said_since(log, before)
        assert said == ["group_deleted", "group_created", "rebalance", "member_joined", "assignment_changed"], number
        mirror, transitions = log.replayed()
        assert of(transitions, Rebalanced)[-1].previous_generation is None
        view = mirror.view(GROUP)
        assert view is not None
        assert (view.group_type, view.generation, view.state) == ("consumer", 2, "Stable")
        assert view.anomalies == (), "epoch 2 does not follow generation 4"
        assert view.committed_partitions == len(offsets)


def test_an_offset_only_group_gets_its_first_kip_848_member() -> None:
    # The broker writes a tombstone for it as for any empty classic group, though there is nothing to delete.
    log = Log().add(b.commit())
    log.add(b.no_classic_group(), *ModernScript(CONSUMER, GROUP).join("c-1"))
    said = ["group_deleted", "group_created", "rebalance", "member_joined", "assignment_changed"]
    assert said_since(log, 1) == said
    assert (log.view().group_type, log.view().committed_partitions) == ("consumer", 1)
    # In a compacted log that tombstone may be gone.
    log = Log().add(b.commit()).add(*ModernScript(CONSUMER, GROUP).join("c-1"))
    assert said_since(log, 1) == said[2:]
    assert log.view().anomalies == ()


def test_an_empty_modern_group_starts_anew_as_a_classic_group() -> None:
    for number, (kind, offsets) in enumerate([(CONSUMER, []), (CONSUMER, [b.commit()]), (STREAMS, [b.commit()])], 1):
        log, script = Log(), ModernScript(kind, GROUP)
        log.add(*script.join("c-1"), *offsets)
        log.add(*script.leave("c-1"))
        before = len(log.records)
        log.add(*script.delete(), *ClassicScript(GROUP).create())
        assert said_since(log, before) == ["group_deleted", "group_created"], number
        view = log.view()
        assert (view.group_type, view.generation, view.anomalies) == ("classic", 0, ())


def test_in_the_middle_of_a_migration() -> None:
    # As a broker that loads the log so far: no group, or one of offsets only.
    log, _ = classic_of_two()
    assert log.add(b.no_classic_group()).mirror().view(GROUP) is None
    log, _ = classic_of_two()
    assert log.add(b.commit()).add(b.no_classic_group()).view().generation == -1
