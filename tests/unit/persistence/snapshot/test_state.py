"""The state as a whole: what it forgets, what it is told, what it says of itself."""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar

import pytest

from agent.common.interning import Interner
from agent.core.diagnosis.api import (
    Analyzer,
    ClusterAnalyzer,
    Condition,
    GroupContext,
    LoadWindow,
    Settings,
    Severity,
    Verdict,
)
from agent.core.diagnosis.cluster import AnalyzerSelection
from agent.core.diagnosis.engine import AnalyzerFailure
from agent.core.events.recent import RecentEvents
from agent.core.shadow.classic import ClassicGroup
from agent.core.shadow.transitions import LogPosition
from agent.persistence.cluster_state import ClusterState, ReplayPosition
from agent.persistence.snapshot.codec import forms_of
from agent.persistence.snapshot.errors import UnwritableState
from agent.persistence.snapshot.migrations import FORMAT
from analyzers import windows
from analyzers.lost_members import LostMembersAnalyzer
from tests.harness.state_digest import canonical_form, digest
from tests.unit.core.diagnosis.doubles import Raises, Twice, chosen, generations
from tests.unit.core.shadow import build as b
from tests.unit.core.shadow.build import Log, run_of
from tests.unit.persistence.snapshot.cutting import ALL, LOG, WITH_DOUBLES, digests, lines, new, reborn, take
from tests.unit.persistence.snapshot.test_windows import FIRST, MINUTE
from tests.unit.simulation.generator.making import a_cluster, runs


class Fails(ClusterAnalyzer):
    name = "fails"
    rule = "never"
    false_alarms = "none"

    def judge(self, window: LoadWindow) -> Verdict:
        raise ArithmeticError("one too many")


def of(partition: int, *at_ms: int) -> Log:
    log = Log(partition)
    for generation, at in enumerate(at_ms, 1):
        log.add(b.classic_group(generation, b.member("m-1", {"t": [0]})), after_ms=b.T0 + at - log.now_ms)
    return log


def test_everything_of_a_partition_is_forgotten() -> None:
    state = new()
    state.replay_batch(run_of(of(1, 1_000, 2_000, 3_000).records))
    state.replay_batch(run_of(of(2, 1_000, 2_000).records))
    assert list(state.partitions) == [1, 2]
    assert state.counts.totals()[0].total() == 5
    state.forget(1)
    only = new()
    only.replay_batch(run_of(of(2, 1_000, 2_000).records))
    assert digests(state) == digests(only)
    assert state.position(1) == ReplayPosition(0, 0)
    assert state.position(2) == ReplayPosition(2, b.T0 + 2_000)
    assert len(state.recent) == len(only.recent)
    with pytest.raises(KeyError):
        state.capture(1).encode()


def test_time_is_part_of_the_position() -> None:
    state = new()
    state.replay_batch(run_of(of(1, 1_000).records))
    state.advance(b.T0 + 90_000)
    assert state.position(1) == ReplayPosition(1, b.T0 + 90_000)
    bare = ClusterState(log=LOG)
    bare.replay_batch(run_of(of(1, 5_000, 2_000).records))
    assert bare.position(1) == ReplayPosition(2, b.T0 + 5_000), "without analyzers the greatest timestamp"
    again = ClusterState(log=LOG)
    assert again.restore(1, bare.capture(1).encode()) == bare.position(1)
    assert digest(again, 1) == digest(bare, 1)


def test_only_what_is_remembered_is_counted() -> None:
    state = ClusterState(WITH_DOUBLES, log=LOG, is_remembered=lambda group: group != b.GROUP)
    assert state.replay_batch(run_of(of(1, 1_000, 2_000).records)) == []
    assert (state.counts.totals(), len(state.recent)) == (({}, {}), 0)
    assert b.GROUP in state.mirror.partitions[1].groups


def test_rejects_are_for_whoever_asks() -> None:
    state = new()
    assert state.take_rejects(1) == []
    log = Log(1).add((b"\x00\x63", b"x"))
    state.replay_batch(run_of(log.records))
    assert [it.error.kind for it in state.take_rejects(1)] == ["unknown_key_type"]
    assert state.take_rejects(1) == []
    assert reborn(state).mirror.error_counts() == {"unknown_key_type": 1}


def test_an_analyzer_that_was_dropped_stays_dropped() -> None:
    which = AnalyzerSelection(chosen(Raises, Twice).makes, (Fails(Settings()),))
    told: list[AnalyzerFailure] = []

    def make() -> ClusterState:
        return ClusterState(which, log=LOG, on_failure=told.append)

    state = make()
    records = generations(1_000, 2_000, 900_000, 901_000).records
    before = lines(state.replay_batch(run_of(records[:2])))
    assert len(told) == 1
    state.advance(FIRST + 20 * MINUTE)
    assert len(told) == 2
    other = make()
    (partition,) = state.partitions
    other.restore(partition, state.capture(partition).encode())
    other.restore_cluster(state.capture_cluster().encode())
    assert digests(other) == digests(state)
    assert other.diagnosis.watches == []
    assert take(other, [run_of(records[2:])]) == take(state, [run_of(records[2:])])
    assert len(told) == 2
    assert before


def test_no_more_is_remembered_than_before() -> None:
    """What is given back counts, and pushes out what is older."""
    state, other = new(), new()
    for partition in range(3):
        state.replay_batch(run_of(of(partition, *range(1_000, 21_000, 1_000)).records))
    other.recent = RecentEvents(total_bytes=9_000)
    for partition in state.partitions:
        other.restore(partition, state.capture(partition).encode())
    assert other.recent.bytes <= 9_900 < state.recent.bytes
    assert 0 < len(other.recent) < len(state.recent)
    _, since_ms = other.recent.timeline(b.GROUP)
    assert since_ms is not None


def test_what_nobody_declared_has_no_digest() -> None:
    with pytest.raises(TypeError, match="declares no state"):
        canonical_form(object())


def test_the_same_state_has_the_same_digest_however_it_came_to_be() -> None:
    """The order in which groups and positions came says nothing."""
    records = [Log(1).add(b.commit("t", 0, 5, group=name)).records[0] for name in ("a", "b", "c")]
    one, other = ClusterState(log=LOG), ClusterState(log=LOG)
    for state, order in ((one, records), (other, records[::-1])):
        for offset, record in enumerate(order):
            state.replay_batch(run_of([record._replace(offset=offset)]))
    mirrors = [state.mirror.partitions[1] for state in (one, other)]
    assert list(mirrors[0].offsets.latest) != list(mirrors[1].offsets.latest)
    for mirror in mirrors:
        for group in mirror.groups.values():
            group.created_at = LogPosition(1, 0, 0)
    assert canonical_form(mirrors[0]) == canonical_form(mirrors[1])
    key, value = b.commit("t", 0, 5, group="a")
    assert value is not None
    assert mirrors[0].offsets.put_known(key, value)
    assert canonical_form(mirrors[0]) != canonical_form(mirrors[1])


def test_how_far_back_a_group_is_remembered_comes_back() -> None:
    state = new()
    state.recent = RecentEvents(per_group=5)
    state.replay_batch(run_of(of(1, *range(1_000, 21_000, 1_000)).records))
    kept, since_ms = state.recent.timeline(b.GROUP)
    assert since_ms is not None
    again = reborn(state).recent.timeline(b.GROUP)
    assert (list(again[0]), again[1]) == (list(kept), since_ms)


class Says(Analyzer):
    """A third party's finding, with what a finding should not say."""

    name = "says"
    rule = "always"
    false_alarms = "none"
    what: ClassVar[object] = None

    def judge(self, group: GroupContext) -> Verdict:
        return Verdict(Condition(Severity.INFO, "so", "so", {"what": self.what}))


@pytest.mark.parametrize(("what", "said"), [(2**70, "OverflowError"), ("\ud800", "UnicodeEncodeError")])
def test_what_cannot_be_written_is_said(what: object, said: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Says, "what", what)
    state = ClusterState(chosen(Says), log=LOG)
    state.replay_batch(run_of(of(1, 1_000).records))
    with pytest.raises(UnwritableState, match=said):
        state.capture(1).encode()


def test_what_is_no_number_is_a_text(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Says, "what", Path("somewhere"))
    state = ClusterState(chosen(Says), log=LOG)
    state.replay_batch(run_of(of(1, 1_000).records))
    other = ClusterState(chosen(Says), log=LOG)
    other.restore(1, state.capture(1).encode())
    (finding,) = other.recent.findings()
    assert finding["numbers"] == {"what": "somewhere"}


def test_texts_are_one_object_after_a_restart_too(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each place would have one of its own else, which takes nearly as much memory as all the rest."""
    state = new(ALL)
    for run in runs(a_cluster().records):
        state.replay_batch(run)
    # As in a process that has just begun.
    monkeypatch.setattr(windows, "_one_identity", Interner(10_000))
    monkeypatch.setattr(windows, "_one_row", Interner(10_000))
    again, seats = reborn(state, ALL), 0
    for number in again.partitions:
        mirror, diagnosis, *_ = again.partition_state(number)
        for name, group in mirror.groups.items():
            if not isinstance(group, ClassicGroup):
                continue
            members = {it.client_id: it for it in group.members.values()}
            for raw in group._metadata:
                member = group.members[raw.member_id]
                assert (raw.member_id is member.member_id, raw.client_host is member.client_host) == (True, True)
            for analyzer in diagnosis._groups[name].analyzers if diagnosis is not None else ():
                if isinstance(analyzer, LostMembersAnalyzer):
                    for seat in analyzer._losses._seats._here:
                        assert seat.client_id not in members or seat.client_id is members[seat.client_id].client_id
                        seats += 1
    assert seats > 10


def test_analyzers_are_put_together_when_they_are_asked_for() -> None:
    """Those of a group that changes, and no others; an image has them as they were."""
    records = list(a_cluster().records)
    state = new()
    for run in runs(records[: len(records) // 2]):
        state.replay_batch(run)
    other, waiting = reborn(state), "_restore"
    watched = {
        name: it
        for partition in other.partitions
        if (diagnosis := other.diagnosis.partition(partition)) is not None
        for name, it in diagnosis._groups.items()
    }
    assert len(watched) > 3
    assert all(getattr(it, waiting) for it in watched.values())
    changed: set[str] = set()
    for run in runs(records[len(records) // 2 :]):
        changed |= {it.group for it in other.replay_batch(run) if it.group in watched}
        if changed:
            break
    put_together = {name for name, it in watched.items() if getattr(it, waiting) is None}
    assert changed <= put_together < watched.keys()


def test_a_state_that_is_gone_leaves_nothing_behind() -> None:
    """A stream makes one for each batch, in a process that goes on for months."""
    forms = forms_of(FORMAT)
    ClusterState(ALL)
    known = len(forms._forms)
    for _ in range(3):
        ClusterState(ALL)
    assert len(forms._forms) == known


def test_numbers_of_strangers_fit_into_an_image() -> None:
    """Times and offsets have 64 bits, and sums of them more than an image holds."""
    log, state = Log(), new()
    for generation in range(1, 6):
        members = b.member("m-1", {"t": range(20)}), b.member("m-2", {"t": range(20, 40)})
        log.add(b.classic_group(generation, *members, version=1), after_ms=1 << 60)
    state.replay_batch(run_of(log.records))
    assert state.counts.partitions[log.partition].stopped_ms[b.GROUP] >= 1 << 53, "it is said"
    state.capture(log.partition).encode()


def test_offsets_that_clients_jump_to_fit_into_an_image() -> None:
    log, state = Log(), new()
    log.add(b.classic_group(1, b.member("m-1", {"t": range(20)}), b.member("m-2", {"t": range(20, 40)})))
    for at in range(84):
        commits = ((number, (1 << 63) - 1 if number < 20 and at > 59 else at) for number in range(40))
        log.add(*(b.commit("t", number, offset, at_ms=log.now_ms) for number, offset in commits), after_ms=30_000)
        state.replay_batch(run_of(log.records[-40:]))
        state.capture(log.partition).encode()
