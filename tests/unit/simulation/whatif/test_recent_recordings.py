"""What an agent keeps of groups' states: the newest, within bounds, and of the right groups."""

from __future__ import annotations

from msgspec.structs import replace

from agent.core.records import RecordBatch
from agent.persistence.cluster_state import ClusterState
from agent.simulation.whatif.recent_recordings import RecentRecordings
from agent.simulation.whatif.recorder import GroupRecorder
from analyzers.registry import select_analyzers
from tests.unit.core.shadow import build as b
from tests.unit.core.shadow.build import Log, run_of


def generation(number: int, *members: str, group: str = "orders") -> b.Pair:
    them = [b.member(it, {"t": [at]}) for at, it in enumerate(members)]
    return b.classic_group(number, *them, group=group, state_ms=b.T0 + number)


def state_of(log: Log, kept: RecentRecordings) -> ClusterState:
    state = ClusterState(select_analyzers(), members=kept)
    state.replay_batch(run_of(log.records))
    return state


def numbers(kept: RecentRecordings, group: str = "orders") -> list[int]:
    recording = kept.recording(group)
    return [] if recording is None else [it.view.generation for it in recording.states]


def test_it_keeps_what_a_recorder_of_one_group_keeps() -> None:
    log = Log().add(generation(1, "a"), generation(2, "a", "b"), generation(3, "b"))
    log.add(*(b.commit("t", at, 5, group="other") for at in range(3)))
    kept = RecentRecordings()
    state_of(log, kept)
    one = GroupRecorder("orders")
    mirror = ClusterState().mirror.partition(log.records[0].partition)
    batch: RecordBatch = run_of(log.records)
    one.replay_batch(mirror, batch)
    assert kept.recording("orders") == one.recording()
    assert kept.recording("other") is None, "it only commits offsets"
    assert kept.recording("nobody") is None


def test_the_oldest_states_go_first_and_the_newest_of_a_group_stays() -> None:
    log = Log().add(generation(1, "a", "b", group="still"))
    for number in range(1, 21):
        log.add(generation(number, "a", "b"))
    kept = RecentRecordings(max_members=10)
    state_of(log, kept)
    assert numbers(kept, "still") == [1], "nothing newer tells of it"
    assert numbers(kept) == [16, 17, 18, 19, 20]
    assert len(kept) == 10
    of_one = RecentRecordings(max_states_per_group=3)
    state_of(log, of_one)
    assert numbers(of_one) == [18, 19, 20]


def test_a_state_whose_group_was_alone_with_it_goes_once_there_are_newer_ones() -> None:
    log = Log().add(generation(1, "a"), *(generation(1, "x", group=f"g-{at}") for at in range(5)))
    kept = RecentRecordings(max_members=3)
    state = state_of(log, kept)
    assert numbers(kept) == [1]
    for number in range(2, 8):
        log.add(generation(number, "a"))
        state.replay_batch(run_of(log.records[-1:]))
    assert numbers(kept) == [5, 6, 7]


def test_where_the_first_states_are_gone_nothing_tells_when_the_group_was_made() -> None:
    log = Log().add(b.new_group(), *(generation(number, "a", "b") for number in range(1, 6)))
    for kept, created_ms in (
        (RecentRecordings(), b.T0 + b.STEP_MS),
        (RecentRecordings(max_states_per_group=5), b.T0 + b.STEP_MS),
        (RecentRecordings(max_states_per_group=4), None),
        (RecentRecordings(max_members=8), None),
    ):
        state_of(log, kept)
        recording = kept.recording("orders")
        assert recording is not None
        assert recording.created_ms == created_ms


def test_what_is_gone_is_not_kept() -> None:
    log = Log().add(generation(1, "a"), generation(1, "a", group="other"))
    kept = RecentRecordings()
    state = state_of(log, kept)
    log.add(generation(2), (generation(2)[0], None))
    state.replay_batch(run_of(log.records[-2:]))
    there = [name for name in ("orders", "other") if kept.recording(name) is not None]
    assert there == ["other"], "a console consumer comes under a new name each time"
    state.forget(log.records[0].partition)
    assert kept.recording("other") is None


def test_after_a_restore_it_begins_with_how_groups_were_found() -> None:
    log = Log().add(generation(1, "a"), generation(2, "a", "b"))
    before = state_of(log, RecentRecordings())
    partition = log.records[0].partition
    kept = RecentRecordings()
    after = ClusterState(select_analyzers(), members=kept)
    after.restore(partition, before.capture(partition).encode())
    assert numbers(kept) == [2]
    log.add(generation(3, "b"))
    after.replay_batch(run_of(log.records[-1:]))
    assert numbers(kept) == [2, 3], "who was there before is known, so what moved is as well"


def test_what_members_hold_counts_as_well() -> None:
    kept = RecentRecordings()
    record = b.classic_group(1, b.member("m", {"t": list(range(1_000))}), b.member("n", {"u": [0]}), group="orders")
    state_of(Log(1).add(record), kept)
    assert len(kept) == 2 + 1_000 // 25


def test_what_members_are_called_counts_as_well() -> None:
    """Strangers choose their names: at one for each member, 20,000 of them would be a gigabyte."""
    kept = RecentRecordings()
    long_named = replace(b.member("m"), client_id="c" * 30_000, client_host="h" * 30_000)
    state_of(Log(1).add(b.classic_group(1, long_named, b.member("n"), group="orders")), kept)
    assert 60 <= len(kept) <= 65
