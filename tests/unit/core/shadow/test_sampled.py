"""Groups that are looked at: what looks show to have changed, and what they do not."""

from __future__ import annotations

import time
from typing import Any

from agent.core.diagnosis.api import Finding
from agent.core.diagnosis.cluster import NO_ANALYZERS, ClusterDiagnosis
from agent.core.events.events import event_of
from agent.core.shadow.cluster import ClusterMirror
from agent.core.shadow.sampled_mirror import SampledMirror, look_key, shard_of
from agent.core.shadow.transitions import Rebalanced, Transition
from analyzers.registry import select_analyzers
from tests.unit.core.shadow.build import Log
from tests.unit.core.shadow.looks import T0, Looks, seen, working

A, B, B2 = seen("a", 0, 1), seen("b", 2, 3), seen("b", 2, 3, member_id="b-2")
BOTH, ALL = [A, B], seen("a", 0, 1, 2, 3)


def replay(looks: Looks, mirror: SampledMirror | None = None) -> tuple[list[Transition], SampledMirror]:
    mirror = SampledMirror(shard_of(looks.group)) if mirror is None else mirror
    return mirror.replay_batch(looks.batch()), mirror


def events(looks: Looks) -> list[dict[str, Any]]:
    return [event_of(it) for it in replay(looks)[0]]


def rebalances(looks: Looks) -> list[Rebalanced]:
    return [it for it in replay(looks)[0] if isinstance(it, Rebalanced)]


def test_the_first_look_shows_a_group_and_no_change() -> None:
    """1"""
    out = events(Looks().look(0, "Stable", A, B, positions={0: 5}))
    assert [(it["type"], it["observed"]) for it in out] == [("group_created", False)]
    _, mirror = replay(Looks().look(0, "Stable", A, B, positions={0: 5}))
    view = mirror.view("g")
    assert view is not None
    assert (view.state, view.generation, view.coordinator_partition, view.rebalances) == ("Stable", -1, -1, 0)
    assert view.last_commit_ms is None, "that it is there does not say when it came"
    assert mirror.undated("g") == {("t", 0)}


def test_a_group_that_a_list_before_did_not_show_is_new_and_so_are_its_members() -> None:
    """2"""
    looks = Looks()
    looks._swept_ms = T0 - 1000
    looks.state(0, "PreparingRebalance").look(500, "Stable", A, B, positions={})
    out = events(looks)
    kinds = ["group_created", "rebalance", "member_joined", "member_joined", "assignment_changed"]
    assert [it["type"] for it in out] == kinds
    assert out[0]["observed"]
    assert (out[1]["cause"], out[1]["members"]) == ("member_joined", 2)


def test_events_of_looks_have_no_place_in_the_log_and_say_how_often_it_is_looked() -> None:
    """3"""
    looks = Looks().look(0, "Stable", A, positions={}).state(1000, "PreparingRebalance")
    for it in events(looks.look(2000, "Stable", A, B, positions={})):
        assert it["partition"] is it["offset"] is None
        assert it["sampled"]
        assert it["sampled_every_ms"] == 250
        assert it.get("generation") is it.get("previous_generation") is None


def test_a_member_that_fell_silent_for_long_timed_out() -> None:
    """4"""
    looks = Looks()
    working(looks, BOTH, 30_000)
    for at_ms in range(30_000, 40_000, 500):
        looks.look(at_ms, "Stable", A, B, positions={0: at_ms, 1: at_ms} if at_ms % 1000 == 0 else {})
    looks.state(40_000, "PreparingRebalance").look(40_100, "PreparingRebalance", seen("a"), positions={})
    looks.look(42_000, "Stable", ALL, rested_ms=41_800, positions={})
    (it,) = rebalances(looks)
    departure = it.inferred.departures["b-1"]
    assert (it.inferred.cause, departure.cause) == ("session_timeout", "session_timeout")
    assert departure.confidence >= 0.7
    assert departure.evidence["gap_least_ms"] <= 11_000 <= departure.evidence["gap_most_ms"] + 500
    assert it.observed
    assert it.join_ms is not None
    assert abs(it.join_ms - 2_000) <= 700


def test_many_members_that_go_at_once_are_not_each_held_against_all() -> None:
    """As where half of a deployment is scaled away: it took 2 s of the time in which no look is taken."""
    fleet = [seen(f"c{number}", *range(5 * number, 5 * number + 5)) for number in range(500)]
    looks = Looks()
    for at_ms in (0, 1_000, 2_000):
        looks.look(at_ms, "Stable", *fleet, positions=dict.fromkeys(range(2_500), at_ms))
    looks.look(3_000, "Stable", *fleet[250:], positions={})
    began = time.process_time()
    (it,) = rebalances(looks)
    assert len(it.left) == 250
    assert time.process_time() - began < 1


def test_a_member_that_committed_as_it_went_said_goodbye() -> None:
    """5"""
    looks = Looks()
    offset = working(looks, BOTH, 30_000)
    looks.state(30_000, "PreparingRebalance")
    looks.look(30_100, "PreparingRebalance", seen("a"), positions={2: offset + 1, 3: offset + 1})
    looks.look(31_000, "Stable", ALL, rested_ms=30_900, positions={})
    (it,) = rebalances(looks)
    assert (it.inferred.cause, it.inferred.departures["b-1"].cause) == ("member_left", "member_left")
    assert it.join_ms is not None
    assert it.stopped_partition_ms == 2 * it.join_ms, "who stays worked on, for all that looks show"


def test_where_it_is_not_known_when_a_position_moved_nothing_is_told() -> None:
    """6: a minute between two looks fits a goodbye and a death."""
    looks = Looks()
    working(looks, BOTH, 300_000, every_ms=60_000)
    looks.look(300_000, "Stable", ALL, positions={0: 1_000, 2: 1_000})
    (it,) = rebalances(looks)
    assert it.inferred.cause == "unknown_departure"
    assert not it.observed
    assert it.join_ms is None
    assert it.stopped_partition_ms is None


def test_who_never_committed_leaves_no_trace() -> None:
    """7"""
    looks = Looks().look(0, "Stable", A, B, positions={}).state(9_000, "PreparingRebalance")
    (it,) = rebalances(looks.look(9_500, "Stable", ALL, positions={}))
    assert it.inferred.departures["b-1"].cause == "unknown_departure"


def test_what_came_first_is_told_by_the_looks_while_it_prepares() -> None:
    """8: the new one is there, and the dead one too; so the join set it off, and the session ran out in it."""
    looks = Looks()
    working(looks, BOTH, 30_000)
    looks.state(33_000, "PreparingRebalance")
    looks.look(33_100, "PreparingRebalance", seen("a"), seen("b"), seen("b", member_id="b-2"), positions={})
    looks.look(41_000, "PreparingRebalance", seen("a"), seen("b", member_id="b-2"), positions={})
    looks.look(41_500, "Stable", A, B2, positions={})
    (it,) = rebalances(looks)
    assert it.inferred.cause == "member_joined"
    assert [member.member_id for member in it.left] == ["b-1"]
    assert it.inferred.evidence[0]["client_is_back"]


def test_who_came_and_went_between_two_looks_is_not_told_apart() -> None:
    """9"""
    looks = Looks().look(0, "Stable", A, B, positions={}).look(60_000, "Stable", A, seen("c", 2, 3), positions={})
    (it,) = rebalances(looks)
    assert (it.inferred.cause, it.inferred.confidence) == ("unknown", 0.0)
    assert it.inferred.causes == ("member_joined", "unknown_departure")


def test_a_rebalance_that_is_over_before_its_members_are_looked_at_is_counted() -> None:
    """10"""
    looks = Looks().look(0, "Stable", A, B, positions={}).state(1000, "PreparingRebalance")
    looks.state(3000, "PreparingRebalance", rested_ms=2000).look(4000, "Stable", A, B, positions={}, rested_ms=3500)
    out = rebalances(looks)
    assert len(out) == 2
    assert [it.inferred.cause for it in out] == ["unknown", "unknown"]


def test_what_members_that_stay_lost_is_not_known_to_be_nothing() -> None:
    """19: it was over before any of them need have heard of it."""
    looks = Looks().look(0, "Stable", A, B, positions={}).state(1000, "PreparingRebalance")
    (it,) = rebalances(looks.look(1300, "Stable", A, B, seen("c"), positions={}))
    assert it.join_ms is not None
    assert it.stopped_partition_ms is None
    idle = Looks().look(0, "Stable", seen("a"), positions={}).state(1000, "PreparingRebalance")
    (it,) = rebalances(idle.look(1300, "Stable", seen("a", 0), positions={}))
    assert it.stopped_partition_ms == 0, "nobody had any"


def test_nothing_changed_is_no_rebalance() -> None:
    """11"""
    looks = Looks()
    working(looks, BOTH, 20_000)
    assert rebalances(looks) == []


def test_more_partitions_of_a_topic_are_a_cause() -> None:
    """12"""
    looks = Looks().look(0, "Stable", A, B, positions={}).state(1000, "PreparingRebalance")
    (it,) = rebalances(looks.look(2000, "Stable", seen("a", 0, 1, 4), seen("b", 2, 3, 5), positions={}))
    assert it.inferred.cause == "partitions_changed"
    assert it.inferred.evidence[-1]["topics"] == {"t": [4, 6]}


def test_a_group_empties_and_goes() -> None:
    """13"""
    looks = Looks().look(0, "Stable", A, positions={0: 1}).state(1000, "Empty").gone(9000)
    out = events(looks)
    kinds = ["group_created", "rebalance", "member_left", "assignment_changed", "group_emptied", "group_deleted"]
    assert [it["type"] for it in out] == kinds
    _, mirror = replay(looks)
    assert mirror.view("g") is None
    assert mirror.offsets.count("g") == 0


def test_epoch_groups_tell_each_change_and_their_targets_follow() -> None:
    """14"""
    looks = Looks("k", group_type="consumer").look(0, "Stable", seen("a", 0, 1, target=(0, 1)), positions={})
    looks.look(500, "Unknown", seen("a", 0, 1, target=(0, 1)), seen("b", target=()), positions={})
    looks.look(1000, "Unknown", seen("a", 0, 1, target=(0,)), seen("b", target=(1,)), positions={})
    looks.look(1500, "Stable", seen("a", 0, target=(0,)), seen("b", 1, target=(1,)), positions={})
    looks.look(9000, "Stable", seen("b", 0, 1, target=(0, 1)), positions={})
    out = events(looks)
    assert [it["cause"] for it in out if it["type"] == "rebalance"] == ["member_joined", "unknown_departure"]
    assert [it["assigned_partitions"] for it in out if it["type"] == "assignment_changed"] == [2, 2]


def test_ids_say_what_was_seen_and_not_when() -> None:
    """15"""

    def ids(shift_ms: int) -> list[str]:
        looks = Looks().look(shift_ms, "Stable", A, B, positions={})
        return [it["event_id"] for it in events(looks.look(shift_ms + 60_000, "Stable", ALL, positions={}))]

    assert ids(0) == ids(700)
    assert len(set(ids(0))) == 4
    other = Looks().look(0, "Stable", A, B, positions={}).look(60_000, "Stable", B, positions={})
    assert not {it["event_id"] for it in events(other)[1:]} & set(ids(0))


def test_a_member_that_leaves_and_joins_under_one_id_again_and_again_is_told_each_time() -> None:
    """As members of KIP-848 groups do: their clients make their ids."""
    looks = Looks(group_type="consumer").look(0, "Stable", seen("a", target=()), seen("b", 0, target=(0,)))
    for at_ms in range(60_000, 300_000, 120_000):
        looks.look(at_ms, "Stable", seen("b", 0, target=(0,)))
        looks.look(at_ms + 60_000, "Stable", seen("a", target=()), seen("b", 0, target=(0,)))
    out = [it for it in events(looks) if it["type"] in ("member_left", "member_joined")]
    assert [(it["type"], it["member"]["member_id"]) for it in out] == [
        ("member_left", "a-1"),
        ("member_joined", "a-1"),
    ] * 2
    assert len({it["event_id"] for it in out}) == 4


def test_lopsided_shares_are_seen_though_nobody_tells_subscriptions() -> None:
    """16"""
    looks = Looks().look(0, "Stable", A, positions={}).look(1000, "Stable", ALL, seen("b"), positions={})
    *_, change = events(looks)
    assert change["imbalance_ratio"] == 2.0


def test_a_look_that_is_none_is_counted_and_kept_out() -> None:
    """17"""
    mirror = SampledMirror(0)
    log = Log(0).add((look_key("g"), b'{"state": 5}'))
    assert [mirror.replay(record) for record in log.records] == [[]]
    assert mirror.error_counts == {"invalid": 1}
    assert mirror.take_rejects()


def test_what_idle_members_subscribe_to_is_not_made_up() -> None:
    """18: no look tells it, so that they subscribe to nothing is not known."""
    looks = (
        Looks().look(0, "Stable", A, B, seen("c"), positions={}).look(60_000, "Stable", A, B, seen("c"), positions={})
    )
    mirror = ClusterMirror(mirror_class=SampledMirror)
    told = ClusterDiagnosis(mirror, select_analyzers({"idle_members"})).replay_batch(looks.batch())
    (found,) = [it for it in told if isinstance(it, Finding)]
    assert found.summary == (
        "1 of 3 members has no partition while the others hold 4: c; the assignor gave them none, though there are "
        "enough partitions."
    )
    assert found.numbers["nothing_subscribed"] == 0


def test_a_group_that_cannot_be_seen_any_more_is_forgotten_and_not_told_to_be_deleted() -> None:
    looks = Looks().look(0, "Stable", A, B, positions={0: 5}).withheld(1000)
    diagnosis = ClusterDiagnosis(ClusterMirror(mirror_class=SampledMirror), select_analyzers())
    out = [event_of(it) for it in diagnosis.replay_batch(looks.batch()) if isinstance(it, Transition)]
    assert [it["type"] for it in out] == ["group_created"]
    mirror = diagnosis.mirror.partitions[shard_of("g")]
    assert mirror.view("g") is None
    assert not mirror.offsets.count("g")


def test_what_is_withheld_is_no_event_where_no_analyzer_runs_either() -> None:
    looks = Looks().look(0, "Stable", A, B, positions={0: 5}).withheld(1000, "t").withheld(2000)
    diagnosis = ClusterDiagnosis(ClusterMirror(mirror_class=SampledMirror), NO_ANALYZERS)
    assert [it.kind for it in diagnosis.replay_batch(looks.batch())] == ["group_created"]


def test_offsets_that_cannot_be_seen_any_more_are_forgotten_and_not_told_to_be_deleted() -> None:
    looks = Looks().look(0, "Stable", A, B, positions={0: 5}).withheld(1000, "other").withheld(2000, "t")
    diagnosis = ClusterDiagnosis(ClusterMirror(mirror_class=SampledMirror), select_analyzers())
    out = [event_of(it) for it in diagnosis.replay_batch(looks.batch()) if isinstance(it, Transition)]
    assert [it["type"] for it in out] == ["group_created"]
    mirror = diagnosis.mirror.partitions[shard_of("g")]
    view = mirror.view("g")
    assert view is not None
    assert (len(view.members), mirror.offsets.count("g")) == (2, 0)
