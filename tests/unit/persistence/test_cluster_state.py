"""Records of large groups, which are worked out aside: what comes of them, and what answers see meanwhile."""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from unittest.mock import patch

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from agent.common.collector import collector_paused
from agent.core.diagnosis.cluster import NO_ANALYZERS, AnalyzerSelection
from agent.core.shadow import mirror
from agent.persistence.cluster_state import ClusterState
from agent.simulation.whatif.recent_recordings import RecentRecordings
from tests import examples
from tests.harness.state_digest import state_digest
from tests.unit.cli.running import SEGMENTS
from tests.unit.core.diagnosis.test_properties import timed
from tests.unit.core.inference.test_origin_evidence import EveryPod, origin
from tests.unit.core.shadow import build as b
from tests.unit.core.shadow.build import Log, run_of
from tests.unit.persistence.snapshot.cutting import ALL, LOG, WITH_DOUBLES, digests, lines, reborn, remembered
from tests.unit.serving.routes.replayed import of_path
from tests.unit.simulation.generator.making import a_cluster

FAIR = settings(max_examples=examples(60), deadline=None, suppress_health_check=[HealthCheck.too_slow])


class Answers:
    """In place of the lock: sees that what is told does not change while it is not held."""

    def __init__(self, state: ClusterState, recordings: RecentRecordings) -> None:
        self._state, self._recordings = state, recordings
        self.told = self._told()

    def _told(self) -> str:
        mirrors = self._state.mirror.partitions
        groups = sorted({group for it in mirrors.values() for group in it.groups})
        return state_digest(
            [repr(it) for it in remembered(self._state)],
            [repr(self._recordings.recording(group)) for group in groups],
            [(it.origins.joined, it.origins.departed) for _, it in sorted(mirrors.items())],
            [(number, it.next_offset, sorted(it.names.items())) for number, it in sorted(mirrors.items())],
            [self._state.position(number) for number in self._state.partitions],
            sorted(self._state.diagnosis.records_ahead().items()),
        )

    def __enter__(self) -> None:
        assert self._told() == self.told

    def __exit__(self, *_: object) -> None:
        self.told = self._told()


@contextmanager
def every_group_is_large() -> Iterator[None]:
    with patch.multiple(mirror, LARGE_BYTES=-1, LARGE_GROUP=-1):
        yield


def both_ways(which: AnalyzerSelection) -> tuple[ClusterState, ClusterState, Answers, list[RecentRecordings]]:
    """A state whose records are applied as they come, and one where they are worked out aside."""
    recordings = [RecentRecordings(max_members=50), RecentRecordings(max_members=50)]
    one, other = (
        ClusterState(which, members=it, origin_source=EveryPod(origin("scaled_up"), origin("oom_killed")))
        for it in recordings
    )
    return one, other, Answers(other, recordings[1]), recordings


@FAIR
@given(st.data())
def test_what_is_worked_out_aside_is_the_same(data: st.DataObject) -> None:
    one, other, answers, recordings = both_ways(data.draw(st.sampled_from([WITH_DOUBLES, NO_ANALYZERS])))
    rows = data.draw(timed(0))
    while rows:
        count = data.draw(st.integers(1, len(rows)))
        run, rows = run_of(rows[:count]), rows[count:]
        with every_group_is_large():
            told = other.replay_batch(run, answers=answers)
        assert lines(told) == lines(one.replay_batch(run))
        assert digests(other) == digests(one)
        answers.told = answers._told()
    assert answers._told() == Answers(one, recordings[0]).told


def test_a_recorded_and_a_generated_cluster_worked_out_aside() -> None:
    batches = [*of_path(SEGMENTS)]
    records = sorted(a_cluster().records, key=lambda it: it.timestamp_ms)
    for number in sorted({it.partition for it in records}):
        batches.append(run_of([it for it in records if it.partition == number]))
    one, other, _, _ = both_ways(ALL)
    for run in batches:
        with every_group_is_large():
            told = other.replay_batch(run, answers=nullcontext())
        assert lines(told) == lines(one.replay_batch(run))
    assert digests(other) == digests(one)


def test_what_is_forgotten_leaves_no_cycles() -> None:
    """The collector of cycles does not look at what an agent knew as it became ready (`agent.common.collector`)."""
    recordings = RecentRecordings()
    state = ClusterState(ALL, members=recordings, log=LOG)
    for run in of_path(SEGMENTS):
        state.replay_batch(run)
    restored = reborn(state, ALL)
    assert remembered(state) == remembered(restored)
    gc.collect()
    gc.set_debug(gc.DEBUG_SAVEALL)
    try:
        for it in (state, restored):
            assert it.partitions
            for partition in [*it.partitions]:
                it.forget(partition)
        gc.collect()
        left = {it for it in map(type, gc.garbage) if it.__module__.startswith(("agent.", "analyzers."))}
    finally:
        gc.set_debug(0)
        gc.garbage.clear()
    assert not left


class CallCounter:
    """In place of the lock: counts the calls that are made while it is held."""

    def __init__(self) -> None:
        self.calls = 0

    def _count(self, frame: object, event: str, argument: object) -> None:
        self.calls += event in ("call", "c_call")

    def __enter__(self) -> None:
        sys.setprofile(self._count)

    def __exit__(self, *_: object) -> None:
        sys.setprofile(None)


def calls_under_lock(log: Log) -> int:
    """Of the last record of a log; not those by which the collector ends what other tests left."""
    state, counter = ClusterState(ALL, members=RecentRecordings()), CallCounter()
    *before, last = log.records
    state.replay_batch(run_of(before))
    with collector_paused():
        state.replay_batch(run_of([last]), answers=counter)
    return counter.calls


def moved(partitions: int) -> Log:
    """So many partitions move from one member to another."""
    log, held = Log(), {"t": list(range(partitions))}
    for number in range(partitions):
        log.add(b.commit("t", number, 1))
    for generation in (1, 2, 3):
        log.add(b.classic_group(generation, b.member(f"m-{generation % 2}", held)))
    return log


def emptied(members: int, partitions: int = 1) -> Log:
    """So many members leave at once, who held so many partitions each."""
    log = Log()
    numbers = [range(at * partitions, (at + 1) * partitions) for at in range(members)]
    log.add(b.classic_group(1, *(b.member(f"m-{at}", {"t": list(it)}) for at, it in enumerate(numbers))))
    log.add(b.classic_group(2))
    return log


def targeted(partitions: int) -> Log:
    """So many partitions are to be another member's."""
    log, held = Log(), {"t": list(range(partitions))}
    for epoch in (1, 2):
        log.add(b.c_member(f"m-{epoch}"), b.c_epoch(epoch), b.c_target(f"m-{epoch}", held))
        log.add(*([b.c_target("m-1", {})] if epoch == 2 else []), b.c_target_epoch(epoch))
    return log


@pytest.mark.parametrize("history", [moved, targeted], ids=lambda it: it.__name__)
def test_what_is_done_under_the_lock_does_not_grow_with_partitions(history: Callable[[int], Log]) -> None:
    calls_under_lock(history(2_000))  # with what is done once in a process
    assert calls_under_lock(history(3_000)) == calls_under_lock(history(1_000))


def test_what_is_done_under_the_lock_for_members_that_leave_is_little() -> None:
    """An event of each is kept; how each left is told before."""
    calls_under_lock(emptied(500))  # with what is done once in a process
    few, many = calls_under_lock(emptied(600)), calls_under_lock(emptied(1_000))
    assert (many - few) / 400 < 15
    assert calls_under_lock(emptied(600, 5)) == few


def test_what_a_large_group_is() -> None:
    state = ClusterState()
    log = Log()
    log.add(b.classic_group(1, b.member("m-1", {"t": list(range(mirror.LARGE_GROUP))})), b.classic_group(2))
    log.add(b.commit("t", 0, 1), b.no_classic_group(), (b"\x00\x02\xff", None), (b"\x00", None), (None, b"x"))
    run = run_of(log.records)
    here = state.mirror.partition(run.partition)
    assert here.costly_records(run) == [(0, True), (1, True), (3, True)]
    assert here.costly_records(run.part(0, 3)) == [(0, True), (1, True)]
    assert here.costly_records(run.part(1, 5)) == []
    state.replay_batch(run.part(0, 1))
    assert here.costly_records(run.part(1, 5)) == [(0, True), (2, True)]
    assert here.large_group(run.keys[1], run.values[1]) == b.GROUP
    assert here.large_group(run.keys[4], run.values[4]) is None
    state.replay_batch(run.part(1, 2))
    assert here.large_group(run.keys[3], run.values[3]) is None


def test_records_of_small_groups_are_together_no_more_than_one_of_a_large_group() -> None:
    here = ClusterState().mirror.partition(7)
    small = Log()
    small.add(*(b.classic_group(number, group=f"g{number}") for number in range(mirror.SMALL_AT_ONCE + 1)))
    assert here.costly_records(run_of(small.records)) == [(mirror.SMALL_AT_ONCE, False)]
    half = Log()
    member = b.member("m-1", {"t": list(range(mirror.LARGE_GROUP // 2))})
    half.add(*(b.classic_group(1, member, group=f"g{number}") for number in range(16)))
    run = run_of(half.records)
    # What they have is not known before they are decoded: by their bytes it may be less than a third of that.
    assert [index for index, _ in here.costly_records(run)] == [7, 14]
    again = Log()
    again.add(*(b.classic_group(number, member, group=f"g{number % 2}") for number in range(16)))
    assert [index for index, _ in here.costly_records(run_of(again.records))] == [7, 14], "nor of those before"
    here.replay_batch(run)
    assert here.costly_records(run) == [(index, False) for index in range(1, 16)]


def test_records_of_a_group_with_many_offsets_are_not_taken_together() -> None:
    here = ClusterState().mirror.partition(7)
    log = Log()
    log.add(*(b.commit("t", number, 1) for number in range(6)), b.classic_group(1), b.classic_group(2))
    here.replay_batch(run_of(log.records[:6]))
    groups = run_of(log.records[6:])
    assert here.costly_records(groups) == []
    with patch.multiple(mirror, LARGE_GROUP=5, POSITIONS_AS_ONE=1, LEAST_BYTES=1_000, SMALL_AT_ONCE=5):
        assert here.costly_records(groups) == [(0, True), (1, True)]


def test_a_group_that_migrates_may_be_large_though_its_record_is_small() -> None:
    log = Log()
    members = [f"m-{number}" for number in range(3)]
    log.add(*(b.c_member(it) for it in members), b.c_epoch(1))
    log.add(*(b.tombstone(5, it) for it in members), b.tombstone(3), b.classic_group(2))
    record = len(log.records) - 1
    run = run_of(log.records)
    here = ClusterState().mirror.partition(run.partition)
    assert here.costly_records(run)[-1] == (record, True)


def test_a_group_that_left_large_may_come_back_with_a_small_record() -> None:
    log = Log()
    log.add(b.classic_group(1, *(b.member(f"m-{number}", {"t": [number]}) for number in range(40))))
    log.add(b.no_classic_group(), b.classic_group(2))
    run = run_of(log.records)
    here = ClusterState().mirror.partition(run.partition)
    here.replay_batch(run.part(0, 2))
    with patch.object(mirror, "LARGE_GROUP", 60):
        assert here.costly_records(run.part(2, 3)) == [(0, True)]


def test_small_records_of_parts_of_a_large_group_are_applied_together() -> None:
    """Aside, one by one, those of 1,000 members with 100 partitions each took 4.0 s, not 0.2."""
    members = [f"m-{number}" for number in range(100)]
    state, log = ClusterState(), Log()
    log.add(*(b.c_member(it) for it in members), b.c_epoch(1))
    log.add(*(b.c_target(it, {"t": [number]}) for number, it in enumerate(members)))
    run = run_of(log.records)
    state.replay_batch(run.part(0, 101))
    with patch.object(mirror, "LARGE_GROUP", 50), patch.object(state, "_replay_aside", None):
        state.replay_batch(run.part(101, 201), answers=nullcontext())


def test_names_are_learnt_when_answers_are_kept_away() -> None:
    """Of topics, by id, as a record of them is worked out aside."""
    one, other, answers, _ = both_ways(ALL)
    log = Log()
    log.add(b.c_member("m-1"), b.c_topics("t", "u"), b.c_epoch(1), b.c_target("m-1", {"t": [0], "u": [1]}))
    log.add(b.c_target_epoch(1), b.c_topics("t", "v"))
    log.add(b.s_member("m-1", group="s"), b.s_topics({"w": [0]}, group="s"))
    with every_group_is_large():
        told = other.replay_batch(run_of(log.records), answers=answers)
    assert lines(told) == lines(one.replay_batch(run_of(log.records)))
    assert digests(other) == digests(one)
    assert set(other.mirror.topic_names().values()) == {"t", "u", "v", "w"}
    mirrors = [it.mirror.partitions[log.partition] for it in (one, other)]
    assert mirrors[0].names_version == mirrors[1].names_version == 4
