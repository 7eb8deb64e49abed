"""What is kept of one group while its partition is replayed."""

from __future__ import annotations

from agent.core.causes import Cause
from agent.core.shadow.mirror import PartitionMirror
from agent.simulation.whatif.calibrated_replay import calibrate
from agent.simulation.whatif.recorder import GroupRecorder, GroupRecording
from tests.unit.core.shadow import build as b
from tests.unit.simulation.whatif.made import History, shared_out


def test_every_record_is_kept_in_full() -> None:
    history = History()
    history.at(40, *shared_out(["a-1"]), sync_ms=10)
    history.commits(2_000, 0, 1)
    history.at(3_000, *shared_out(["a-1", "b-1"]))
    recording = history.recording()
    first, second = recording.states
    assert (recording.created_ms, recording.earlier) == (b.T0, 0)
    assert (first.view.generation, first.joined_ms, first.at_ms) == (1, b.T0 + 30, b.T0 + 40)
    assert list(second.members) == ["a-1", "b-1"]
    assert second.members["b-1"].subscription == ("t",)
    assert (second.view.protocol_type, second.view.protocol, second.view.leader) == ("consumer", "range", "a-1")
    assert second.inferred is not None
    assert second.inferred.cause is Cause.MEMBER_JOINED
    assert second.last_ms == {"a-1": b.T0 + 2_000}


def test_other_groups_are_none_of_its_business() -> None:
    log = b.Log().add(b.classic_group(1, b.member("a-1", {"t": [0]}), group="other"))
    recorder = GroupRecorder(b.GROUP)
    transitions = recorder.replay_batch(PartitionMirror(7), b.run_of(log.records))
    assert transitions
    assert recorder.recording() == GroupRecording(b.GROUP, ())


def test_offsets_alone_are_no_recording() -> None:
    log = b.Log().add(b.commit("t", 0))
    recorder = GroupRecorder(b.GROUP)
    recorder.replay_batch(PartitionMirror(7), b.run_of(log.records))
    assert recorder.recording().states == ()


def test_what_changes_nothing_of_the_members_is_not_kept() -> None:
    history = History()
    history.at(0, *shared_out(["a-1"]))
    history.commits(1_000, 0)
    history.add(b.uncommit("t", 0))
    assert len(history.recording().states) == 1


def test_a_static_member_that_came_back_is_kept_without_a_rebalance() -> None:
    history = History()
    history.at(0, b.member("a-1", {"t": [0]}, instance_id="i"))
    history.commits(4_000, 0)
    history.at(5_000, b.member("a-2", {"t": [0]}, instance_id="i"), same=True)
    second = history.recording().states[1]
    assert second.inferred is None
    assert second.last_ms == {"a-1": b.T0 + 4_000}
    assert second.joined_ms == second.at_ms == b.T0 + 5_000


def test_times_never_run_backwards() -> None:
    history = History()
    history.at(5_000, *shared_out(["a-1"]))
    history.at(4_000, *shared_out(["a-1", "b-1"]), sync_ms=3_000)
    second = history.recording().states[1]
    assert (second.joined_ms, second.at_ms) == (b.T0 + 5_000, b.T0 + 5_000)


def test_a_group_found_in_the_middle_was_not_made_just_now() -> None:
    history = History(created=False, generation=6)
    history.at(0, *shared_out(["a-1"]))
    assert history.recording().created_ms is None


def test_brokers_before_4_0_do_not_write_when_a_group_was_made() -> None:
    history = History(created=False)
    history.at(3_000, *shared_out(["a-1"]))
    recording = history.recording()
    assert (len(recording.states), recording.created_ms) == (1, None)


def test_a_deleted_group_stays_recorded_until_there_is_another() -> None:
    history = History()
    history.at(0, *shared_out(["a-1"]))
    history.at(1_000)
    history.add(b.no_classic_group())
    gone = history.recording()
    assert [it.view.generation for it in gone.states] == [1, 2]
    history.generation = 0
    history.add(b.new_group())
    history.at(9_000, *shared_out(["b-1"]))
    again = history.recording()
    assert [list(it.members) for it in again.states] == [["b-1"]]
    assert (again.earlier, again.created_ms) == (1, b.T0 + 3_000)


def test_a_group_that_counts_back_is_another() -> None:
    history = History()
    history.at(0, *shared_out(["a-1"]))
    history.at(1_000, *shared_out(["a-1", "b-1"]))
    history.generation = 0
    history.at(2_000, *shared_out(["c-1"]))
    assert [it.view.generation for it in history.recording().states] == [1]


def test_a_group_of_another_type_is_another() -> None:
    history = History()
    history.at(0, *shared_out(["a-1"]))
    history.add(b.no_classic_group(), b.c_member("m-1"), b.c_epoch(2))
    recording = history.recording()
    assert ({it.view.group_type for it in recording.states}, recording.earlier) == ({"consumer"}, 1)


def test_a_range_begins_with_how_the_group_was_found() -> None:
    history = History()
    for second in range(5):
        history.at(second * 10_000, *shared_out([f"a-{second}"]))
    recording = history.recording()
    part = recording.between(b.T0 + 15_000, b.T0 + 30_000)
    assert [(it.view.generation, it.at_ms - b.T0) for it in part.states] == [(2, 15_000), (3, 20_000), (4, 30_000)]
    assert (part.states[0].inferred, part.created_ms) == (None, None)
    assert recording.between(None, None) == recording
    assert recording.between(b.T0, None) == recording
    assert len(recording.between(None, b.T0 + 10_000).states) == 2


def test_a_range_that_begins_while_the_leader_assigns() -> None:
    """What led to that generation is not before how the group was found, or clients would go before they came."""
    history = History()
    history.at(0, *shared_out(["a-1", "b-1"]))
    history.at(60_000, *shared_out(["a-2", "b-2"]), sync_ms=40_000)
    part = history.recording().between(b.T0 + 50_000, None)
    assert [(it.joined_ms - b.T0, it.at_ms - b.T0) for it in part.states] == [(50_000, 50_000), (50_000, 60_000)]
    calibrate(part, b.T0 + 120_000)
