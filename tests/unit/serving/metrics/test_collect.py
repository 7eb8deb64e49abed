"""Groups read while records come: what is kept between two readings never shows."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from itertools import pairwise

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from agent.kafka.lag.lag_calculator import Positions
from agent.persistence.cluster_state import ClusterState
from agent.serving.metrics import group_collector
from agent.serving.metrics.group_collector import GroupCollector, cluster_findings
from agent.serving.metrics.group_metrics import GroupCounts, GroupReading
from agent.serving.metrics.readings import Granularity
from analyzers.registry import select_analyzers
from tests import examples
from tests.unit.core.diagnosis.doubles import Twice, chosen, generations
from tests.unit.core.diagnosis.test_properties import timed
from tests.unit.core.shadow import build as b
from tests.unit.core.shadow.build import Log, run_of
from tests.unit.serving.metrics import oracle
from tests.unit.serving.metrics.oracle import FixedLags
from tests.unit.serving.routes.replayed import of_log
from tests.unit.simulation.generator.making import a_cluster, runs


def plain(found: Sequence[GroupReading]) -> list[GroupReading]:
    """With tuples for columns, of which a reading may have slices."""
    return [it._replace(partitions=Positions(*map(tuple, it.partitions))) for it in found]


FAIR = settings(max_examples=examples(60), deadline=None, suppress_health_check=[HealthCheck.too_slow])


@FAIR
@given(st.data(), st.sampled_from(Granularity), st.sampled_from([None, FixedLags()]))
def test_a_reading_is_what_the_mirror_says_now(
    data: st.DataObject, granularity: Granularity, lags: FixedLags | None
) -> None:
    records = data.draw(timed(7))
    state = ClusterState(select_analyzers())
    groups = GroupCollector(state, nullcontext(), granularity=granularity, lags=lags)
    cuts = sorted(data.draw(st.sets(st.integers(0, len(records)), max_size=8)) | {0, len(records)})
    for start, end in pairwise(cuts):
        state.replay_batch(run_of(records[start:end]))
        assert plain(groups.read()) == oracle.groups(state, granularity, lags)
        if data.draw(st.booleans()):
            state.advance(records[end - 1].timestamp_ms + data.draw(st.sampled_from([0, 70_000, 400_000, 10**7])))
            assert plain(groups.read()) == oracle.groups(state, granularity, lags)
    state.forget(7)
    assert groups.read() == []


def test_every_kind_of_group_reads_as_the_mirror_says() -> None:
    records = sorted(a_cluster().records, key=lambda it: it.timestamp_ms)
    state = ClusterState(select_analyzers())
    groups = GroupCollector(state, nullcontext(), granularity=Granularity.PARTITION)
    loads = set()
    step = len(records) // 40
    for start in range(0, len(records), step):
        by_partition = sorted(records[start : start + step], key=lambda it: it.partition)
        for run in runs(by_partition):
            state.replay_batch(run)
        found = groups.read()
        assert plain(found) == oracle.groups(state, Granularity.PARTITION)
        loads |= {it.load_imbalance for it in found}
    assert len(found) > 50
    assert len(loads) > 50


def taken(
    *batches: Sequence[tuple[bytes, bytes | None]], partition: int = 7
) -> tuple[ClusterState, GroupCollector, Log]:
    log, state = Log(partition), ClusterState(select_analyzers())
    groups = GroupCollector(state, nullcontext())
    for batch in batches:
        apply(state, log, *batch)
    return state, groups, log


def apply(state: ClusterState, log: Log, *batch: tuple[bytes, bytes | None]) -> None:
    known = len(log.records)
    log.add(*batch)
    state.replay_batch(run_of(log.records[known:]))


def imbalances(found: Sequence[GroupReading]) -> dict[str, float | None]:
    return {it.shape.group: it.shape.imbalance for it in found}


def test_what_did_not_change_is_the_same_object() -> None:
    state, groups, log = taken([b.classic_group(1, b.member("m-1", {"t": [0]})), b.commit(at_ms=b.T0)])
    (first,) = groups.read()
    apply(state, log, b.commit(offset=11, at_ms=b.T0 + 5))
    (second,) = groups.read()
    assert (first.last_commit_ms, second.last_commit_ms) == (b.T0, b.T0 + 5)
    assert second.shape is first.shape
    apply(state, log, b.classic_group(2, b.member("m-1", {"t": [0]})))
    (third,) = groups.read()
    assert third.shape is not first.shape
    assert third.shape.generation == 2


def test_the_time_of_a_last_commit_without_one_is_not_known() -> None:
    _, groups, _ = taken([b.commit(at_ms=-1)])
    assert [it.last_commit_ms for it in groups.read()] == [None]


def uneven() -> list[tuple[bytes, bytes | None]]:
    """A KIP-848 group whose members could share out evenly what they hold, as far as topics are known by name."""
    held = {"m1": {"t": range(4)}, "m2": {"u": range(1)}}
    members = [b.c_member(name, topics=["t", "u"]) for name in held]
    targets = [b.c_target(name, parts) for name, parts in held.items()]
    current = [b.c_current(name, 1, parts) for name, parts in held.items()]
    return [*members, b.c_epoch(1), *targets, b.c_target_epoch(1), *current]


def named(topic: str, group: str = b.GROUP, *, topic_id: str | None = None) -> tuple[bytes, bytes | None]:
    return b.commit(topic, group=group, version=4, id_of_topic=b.topic_id(topic_id or topic))


def test_a_topics_name_that_comes_later_changes_a_group() -> None:
    """Until then its members seem to hold what they did not subscribe to."""
    state, groups, _ = taken(uneven())
    assert imbalances(groups.read()) == {b.GROUP: 1.0}
    # Another partition of the topic shows the names.
    other = Log(8)
    apply(state, other, named("t", "g"), named("u", "g"))
    assert imbalances(groups.read()) == {"g": None, b.GROUP: 1.6}
    state.forget(8)
    assert imbalances(groups.read()) == {b.GROUP: 1.0}
    # And one that is known already.
    other = Log(9)
    apply(state, other, b.commit("v", group="g"))
    assert imbalances(groups.read()) == {"g": None, b.GROUP: 1.0}
    apply(state, other, named("t", "g"), named("u", "g"))
    assert imbalances(groups.read()) == {"g": None, b.GROUP: 1.6}


def test_the_groups_own_commits_may_bring_a_name() -> None:
    """A topic that was made anew has another id, which shows in commits of positions that are known."""
    state, groups, log = taken([named("t", topic_id="old t"), named("u", topic_id="old u"), *uneven()])
    assert imbalances(groups.read()) == {b.GROUP: 1.0}
    apply(state, log, named("t"), named("u"))
    assert imbalances(groups.read()) == {b.GROUP: 1.6}


def test_a_group_in_two_partitions_is_read_once() -> None:
    """It is where it is newest, as both are empty, and what happened to it happened in both."""
    state = ClusterState(select_analyzers())
    for partition, state_ms, causes in ((1, b.T0 + 1, 1), (2, b.T0, 2)):
        log = Log(partition).add(b.new_group())
        for generation in range(1, causes + 1):
            log.add(b.classic_group(generation, b.member("m-1", {"t": [0]}), state_ms=state_ms))
        log.add(b.classic_group(9, state_ms=state_ms))
        for run in of_log(log):
            state.replay_batch(run)
    (found,) = GroupCollector(state, nullcontext()).read()
    assert (found.shape.generation, found.shape.state_since_ms) == (9, b.T0 + 1)
    assert sum(count for _, count in found.counts.rebalances) == 5
    assert sum(count for _, count in found.counts.departures) == 2


def test_findings_of_a_group_in_two_partitions() -> None:
    state = ClusterState(chosen(Twice))
    for partition, times in ((1, (1_000, 2_000)), (2, (1_000, 2_000, 900_000))):
        records = [it._replace(partition=partition) for it in generations(*times).records]
        state.replay_batch(run_of(records))
    (found,) = GroupCollector(state, nullcontext()).read()
    assert list(found.counts.findings) == [(("twice", "warning"), True)]
    assert cluster_findings(state) == ()


def test_only_what_is_asked_for() -> None:
    state, _, _ = taken([b.new_group("a"), b.new_group("b")])
    found = GroupCollector(state, nullcontext(), shows=lambda group: group == "b").read()
    assert [it.shape.group for it in found] == ["b"]


def test_the_load_changes_with_each_sample_and_where_offsets_are_deleted() -> None:
    """Where much is committed a sample comes each minute, several in a window."""
    log = Log().add(b.classic_group(1, b.member("m0-1", {"t": [0]}), b.member("m1-1", {"t": [1]})))
    state = ClusterState(select_analyzers())
    groups = GroupCollector(state, nullcontext())
    state.replay_batch(run_of(log.records))
    loads = []
    for minute in range(4):
        known = len(log.records)
        for second in range(60):
            at = minute * 60 + second
            # The first partition ever faster, the second as before.
            log.add(b.commit("t", 0, at * at, at_ms=log.now_ms), *[b.commit("t", 1, at * 60, at_ms=log.now_ms)] * 199)
        state.replay_batch(run_of(log.records[known:]))
        assert groups.read() == oracle.groups(state, Granularity.GROUP)
        loads.append(groups.read()[0].load_imbalance)
    assert len(set(loads)) == 4
    apply(state, log, b.uncommit("t", 1))
    assert groups.read()[0].load_imbalance == 2.0


def test_without_analyzers_there_is_no_load() -> None:
    state = ClusterState()
    for run in of_log(Log().add(b.classic_group(1, b.member("m-1", {"t": [0]})), b.commit())):
        state.replay_batch(run)
    (found,) = GroupCollector(state, nullcontext()).read()
    assert (found.load_imbalance, found.counts.departures) == (None, ())
    assert GroupCollector(ClusterState(), nullcontext()).read() == []


def test_nothing_counted_is_no_count() -> None:
    _, groups, _ = taken([b.commit()])
    (found,) = groups.read()
    assert found.counts == GroupCounts()


def test_the_lock_is_let_go_of_between(monkeypatch: pytest.MonkeyPatch) -> None:
    """With thousands of groups in one partition whoever waits for the lock gets it long before all are read."""
    state = ClusterState()
    log = Log()
    for number in range(2_000):
        log.add(b.new_group(f"g{number}"), after_ms=0)
    state.replay_batch(run_of(log.records))
    monkeypatch.setattr(group_collector, "LOCK_HOLD_S", 0.0)
    lock, taken_at, ended = threading.Lock(), list[float](), threading.Event()

    def wait() -> None:
        while not ended.is_set():
            with lock:
                taken_at.append(time.perf_counter())
            time.sleep(0)

    other = threading.Thread(target=wait)
    other.start()
    found = GroupCollector(state, lock).read()
    ended.set()
    other.join()
    assert len(found) == 2_000
    assert len(taken_at) > 200


class Lock:
    """Free at first; then, each time that it is asked for, something else comes before."""

    def __init__(self, *before: Callable[[], object]) -> None:
        self._before = list(before)

    def __enter__(self) -> None:
        if self._before:
            self._before.pop(0)()

    def __exit__(self, *_: object) -> None:
        pass


def nothing() -> None:
    pass


@pytest.fixture
def five(monkeypatch: pytest.MonkeyPatch) -> tuple[ClusterState, Log]:
    """Five groups in a partition, for each of which the lock is taken anew."""
    monkeypatch.setattr(group_collector, "LOCK_HOLD_S", 0.0)
    state, log = ClusterState(), Log()
    apply(state, log, *(b.new_group(f"g{number}") for number in range(5)))
    return state, log


def test_groups_may_go_while_they_are_read(five: tuple[ClusterState, Log]) -> None:
    state, log = five

    def delete() -> None:
        apply(state, log, b.no_classic_group("g0"), b.no_classic_group("g4"))

    # The lock is taken for the partitions, for the names of the groups, for g0, and now for g1.
    groups = GroupCollector(state, Lock(nothing, nothing, nothing, delete))
    assert [it.shape.group for it in groups.read()] == ["g0", "g1", "g2", "g3"]
    assert [it.shape.group for it in groups.read()] == ["g1", "g2", "g3"]


def test_a_partition_may_be_begun_anew_while_it_is_read(five: tuple[ClusterState, Log]) -> None:
    state, _ = five

    def forget() -> None:
        state.forget(7)
        apply(state, Log(), b.classic_group(3, group="g1"))

    groups = GroupCollector(state, Lock(nothing, nothing, nothing, forget))
    assert [it.shape.group for it in groups.read()] == ["g0"]
    assert [(it.shape.group, it.shape.generation) for it in groups.read()] == [("g1", 3)]
