"""The event clock: what is due comes before the first later record, at the time at which it was due."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import pairwise
from typing import Any, NoReturn, TypeVar

import pytest

from agent.core.diagnosis.api import Analyzer, Finding
from agent.core.diagnosis.cluster import NO_ANALYZERS, AnalyzerSelection, ClusterDiagnosis
from agent.core.diagnosis.engine import AnalyzerFailure, DiagnosisOutput
from agent.core.diagnosis.lag_source import WatchedLags
from agent.core.records import RecordBatch
from agent.core.shadow.classic import ClassicGroup
from agent.core.shadow.cluster import ClusterMirror
from agent.core.shadow.transitions import Transition
from agent.kafka.lag.end_offset_history import EndOffsetHistory
from tests.unit.core.diagnosis.doubles import (
    Consumes,
    LooksAtLag,
    NothingBehind,
    Raises,
    RaisesLater,
    Twice,
    chosen,
    diagnosed,
    findings,
    generations,
)
from tests.unit.core.shadow import build as b
from tests.unit.core.shadow.build import Log, run_of

MINUTE = 60_000


def test_a_finding_opens_with_the_record_that_shows_it_and_closes_when_it_is_due() -> None:
    log = generations(1_000, 2_000, 900_000)
    # Two stand in the window until 601 s; a minute later, with nothing more, it closes: before the record at 900 s.
    assert findings(diagnosed(log.records, chosen(Twice))) == [
        ("firing", "warning", 2_000, 2_000),
        ("resolved", "warning", 661_000, 2_000),
    ]


def test_a_finding_carries_the_offset_of_the_last_record_before_it() -> None:
    log = generations(1_000, 2_000, 900_000)
    out = [it for it in diagnosed(log.records, chosen(Twice)) if isinstance(it, Finding)]
    assert [it.at.offset for it in out] == [1, 1]
    assert [(it.group, it.group_type, it.analyzer, it.numbers) for it in out] == [
        (b.GROUP, "classic", "twice", {"rebalances": 2})
    ] * 2


def test_what_is_due_as_a_record_comes_is_before_it() -> None:
    # At 661 s, when it is due to close, the next one begins: it closes all the same.
    log = generations(1_000, 2_000, 661_000)
    kinds = [it.kind for it in diagnosed(log.records, chosen(Twice))]
    assert kinds[-2:] == ["finding", "rebalance"]


def test_severity_rises_at_once() -> None:
    log = generations(1_000, 2_000, 3_000)
    assert findings(diagnosed(log.records, chosen(Twice))) == [
        ("firing", "warning", 2_000, 2_000),
        ("firing", "critical", 3_000, 2_000),
    ]


def test_the_clock_stands_at_the_last_record_at_the_end() -> None:
    assert findings(diagnosed(generations(1_000, 2_000).records, chosen(Twice))) == [
        ("firing", "warning", 2_000, 2_000)
    ]


def test_time_passes_live_without_records() -> None:
    diagnosis = ClusterDiagnosis(ClusterMirror(), chosen(Twice))
    opened = findings(diagnosis.replay_batch(run_of(generations(1_000, 2_000).records)))
    assert opened == [("firing", "warning", 2_000, 2_000)]
    assert findings(diagnosis.advance(b.T0 + 660_999)) == []
    assert findings(diagnosis.advance(b.T0 + 700_000)) == [("resolved", "warning", 661_000, 2_000)]
    assert diagnosis.advance(b.T0 + 600_000) == [], "the clock does not go back"


def test_time_does_not_pass_before_the_first_record() -> None:
    diagnosis = ClusterDiagnosis(ClusterMirror(), chosen(Twice))
    diagnosis.replay_batch(RecordBatch(7, [], [], [], []))
    assert diagnosis.advance(b.T0) == []


def test_a_record_that_is_late_does_not_turn_the_clock_back() -> None:
    log = generations(1_000, 500_000)
    late = log.records[1]._replace(timestamp_ms=b.T0)
    more = b.Log()
    more.records = [log.records[0], log.records[1], late._replace(offset=2)]
    out = diagnosed(more.records, chosen(Twice))
    assert all(it.at.timestamp_ms >= b.T0 + 500_000 for it in out if isinstance(it, Finding))


def test_the_findings_of_a_deleted_group_close_with_it() -> None:
    log = generations(1_000, 2_000)
    log.add(b.classic_group(3), after_ms=1_000).add(b.no_classic_group(), after_ms=1_000)
    out = diagnosed(log.records, chosen(Twice))
    assert [it[0] for it in findings(out)] == ["firing", "firing", "resolved"]
    assert out[-2].kind == "group_deleted"


def test_what_is_due_of_a_deleted_group_as_something_is_of_another() -> None:
    log = Log()
    for generation in (1, 2):
        member = b.member("m-1", {"t": [0]})
        log.add(*(b.classic_group(generation, member, group=name) for name in ("kept", "lost")), after_ms=1_000)
    log.add(b.classic_group(3, group="lost"), after_ms=1_000).add(b.no_classic_group("lost"), after_ms=1_000)
    diagnosis = ClusterDiagnosis(ClusterMirror(), chosen(Twice))
    diagnosis.replay_batch(run_of(log.records))
    assert findings(diagnosis.advance(log.now_ms + 700_000)) == [("resolved", "warning", 661_000, 2_000)]


FIRST = b.T0 // (5 * MINUTE) * 5 * MINUTE
"""When a window of five minutes begins."""


def committing(minutes: int, *, each: int = 60) -> Log:
    """A partition of which 600 records a minute are consumed, with so many commits."""
    log = Log()
    for number in range(minutes * each + 1):
        at_ms = FIRST + number * MINUTE // each
        log.add(b.commit("t", 0, number * 600 // each, at_ms=at_ms), after_ms=at_ms - log.now_ms)
    return log


Kind = TypeVar("Kind", bound=Analyzer)


def keeping(kind: type[Kind]) -> tuple[AnalyzerSelection, list[Kind]]:
    """An analyzer, and those that were made of it."""
    made: list[Kind] = []

    def make() -> Kind:
        made.append(kind(kind.settings_class()))
        return made[-1]

    return AnalyzerSelection((make,)), made


def sampled(log: Log) -> tuple[list[tuple[int, dict[tuple[str, int], int]]], list[DiagnosisOutput]]:
    """By minute since `FIRST`: the offsets that a sample had; and what came of it all."""
    which, made = keeping(Consumes)
    outputs = diagnosed(log.records, which)
    (consumes,) = made
    return [
        ((it.at_ms - FIRST) // MINUTE, {slot: at.offset for slot, at in it.positions.items()})
        for it in consumes.taken
    ], outputs


def test_samples_come_each_minute_that_had_enough_commits() -> None:
    log = committing(3)
    log.add(b.commit("t", 1, 7, at_ms=log.now_ms), after_ms=10 * MINUTE)
    log.add(b.commit("t", 1, 8, at_ms=log.now_ms), after_ms=10 * MINUTE)
    samples, outputs = sampled(log)
    assert samples == [
        (1, {("t", 0): 590}),
        (2, {("t", 0): 1190}),
        (3, {("t", 0): 1790}),
        (5, {("t", 0): 1800}),
        (15, {("t", 1): 7}),
    ]
    # Of 1,790 records the third sample saw 1,200 go by: more than 1,000.
    assert findings(outputs) == [("firing", "info", FIRST + 3 * MINUTE - b.T0, FIRST + 3 * MINUTE - b.T0)]


def test_where_commits_are_few_a_sample_waits_for_the_end_of_its_window() -> None:
    samples, _ = sampled(committing(11, each=2))
    assert [minute for minute, _ in samples] == [5, 10]


def looked(partition: int, cuts: Sequence[int]) -> list[int]:
    """When lag was looked at in five minutes of a partition of which a record comes each second."""
    which, made = keeping(LooksAtLag)
    log = Log(partition)
    for number in range(300):
        log.add(b.commit("t", 0, number, at_ms=log.now_ms + 1_000), after_ms=1_000)
    diagnosis = ClusterDiagnosis(ClusterMirror(), which)
    diagnosis.set_lag_source(NothingBehind())
    for start, end in pairwise([0, *cuts, 300]):
        diagnosis.replay_batch(run_of(log.records[start:end]))
    return made[0].times_ms


def test_looks_at_lag_are_as_often_as_is_wanted_wherever_batches_are_cut() -> None:
    for partition in (0, 7, 49):
        times_ms = looked(partition, [])
        assert {after - before for before, after in pairwise(times_ms)} == {30_000}
        assert len(times_ms) in (9, 10)
        assert looked(partition, [1, 2, 90, 91, 200]) == times_ms


def test_looks_of_many_partitions_do_not_come_at_once() -> None:
    # A minute in which fifty partitions are looked at twice: nowhere more than twice as many as if all were even.
    seconds = Counter(times_ms // 1_000 for number in range(50) for times_ms in looked(number, [])[2:4])
    assert max(seconds.values()) <= 4


def test_looks_at_times_of_which_nothing_is_known_read_no_commits(monkeypatch: pytest.MonkeyPatch) -> None:
    # A thousand looks are due at once when brokers are back after a night.
    which, made = keeping(LooksAtLag)
    mirror, history, log = ClusterMirror(), EndOffsetHistory(30_000), committing(3)
    diagnosis = ClusterDiagnosis(mirror, which)
    history.add_high_watermarks({("t", 0): 10_000}, log.now_ms)
    history.publish(log.now_ms)
    diagnosis.set_lag_source(WatchedLags(lambda: history.snapshot))
    diagnosis.replay_batch(run_of(log.records))
    diagnosis.advance(log.now_ms + 5 * MINUTE)
    known = len(made[0].times_ms)

    def unread(group: str) -> NoReturn:
        raise AssertionError(group)

    monkeypatch.setattr(mirror.partition(log.partition).offsets, "commit_columns", unread)
    diagnosis.advance(log.now_ms + 65 * MINUTE)
    assert len(made[0].times_ms) - known == 120


def test_an_analyzer_that_raises_is_dropped_for_its_group_and_told() -> None:
    told: list[str] = []
    diagnosis = ClusterDiagnosis(
        ClusterMirror(), chosen(Raises, Twice), on_failure=lambda failure: told.append(str(failure))
    )
    out: list[DiagnosisOutput] = diagnosis.replay_batch(run_of(generations(1_000, 2_000).records))
    assert told == ["analyzer raises on group 'orders': LookupError: no such luck"]
    assert [it[0] for it in findings(out)] == ["firing"], "the others go on"


def test_what_an_analyzer_found_closes_when_it_raises() -> None:
    """Nobody would close it else: an alert for ever."""
    diagnosis = ClusterDiagnosis(ClusterMirror(), chosen(RaisesLater), on_failure=lambda failure: None)
    out = diagnosis.replay_batch(run_of(generations(1_000, 2_000, 3_000, 4_000).records))
    assert findings(out) == [
        ("firing", "warning", 2_000, 2_000),
        ("firing", "critical", 3_000, 2_000),
        ("resolved", "critical", 4_000, 2_000),
    ]


def test_an_analyzer_that_raises_stops_who_did_not_ask_to_be_told() -> None:
    with pytest.raises(AnalyzerFailure, match="analyzer raises on group 'orders': LookupError: no such luck"):
        diagnosed(generations(1_000).records, chosen(Raises))


@pytest.mark.parametrize("size", [1, 4, 100])
@pytest.mark.parametrize("behind", [0, 2])
@pytest.mark.parametrize("which", [chosen(Twice), NO_ANALYZERS])
def test_a_record_that_raises_in_the_mirror_is_passed_over_and_told(
    size: int, behind: int, which: AnalyzerSelection, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One would blind an agent for all groups. What else the log holds is as without it."""
    replay = ClassicGroup.replay

    def fails(group: ClassicGroup, *given: Any) -> list[Transition]:
        if group.name == "bad":
            raise ZeroDivisionError("no such luck")
        return replay(group, *given)

    def commits(log: Log) -> Log:
        return log.add(*(b.commit(partition=number, offset=len(log.records)) for number in range(3)), after_ms=1_000)

    def read(log: Log) -> tuple[ClusterDiagnosis, list[DiagnosisOutput]]:
        diagnosis = ClusterDiagnosis(ClusterMirror(), which, on_failure=lambda failure: None)
        starts = range(0, len(log.records), size)
        return diagnosis, [it for at in starts for it in diagnosis.replay_batch(run_of(log.records[at : at + size]))]

    log = generations(1_000, 2_000)
    for _ in range(behind):
        commits(log)
    log.add(b.classic_group(1, b.member("m"), group="bad"))
    for _ in range(behind):
        commits(log)
    log.add(b.classic_group(4, b.member("a-1", {"t": [0]})))
    expected = [it for it in read(log)[1] if it.group != "bad"]
    monkeypatch.setattr(ClassicGroup, "replay", fails)
    diagnosis, out = read(log)
    assert [it for it in out if it.group != "bad"] == expected
    assert len(expected) >= 4
    mirror = diagnosis.mirror.partition(log.partition)
    assert mirror.error_counts == {"internal": 1}
    assert mirror.next_offset == len(log.records)
    (reject,) = mirror.take_rejects()
    assert reject.at.offset == 2 + 3 * behind
    assert "a fault of its own: ZeroDivisionError: no such luck (test_engine.py, line " in str(reject.error)
    with pytest.raises(ZeroDivisionError):
        diagnosed(log.records, which)


def test_without_analyzers_there_are_the_transitions_alone() -> None:
    log = generations(1_000, 2_000)
    out = diagnosed(log.records, NO_ANALYZERS)
    assert out == log.replayed()[1]


def test_a_partition_that_is_begun_anew_forgets_its_findings() -> None:
    diagnosis = ClusterDiagnosis(ClusterMirror(), chosen(Twice))
    log = generations(1_000, 2_000)
    diagnosis.replay_batch(run_of(log.records))
    diagnosis.forget(log.partition)
    assert findings(diagnosis.replay_batch(run_of(log.records))) == [("firing", "warning", 2_000, 2_000)]


def test_what_was_consumed_can_be_asked_for() -> None:
    diagnosis = ClusterDiagnosis(ClusterMirror(), chosen(Twice))
    diagnosis.replay_batch(run_of(committing(3).records))
    partition = diagnosis.partitions[7]
    assert partition.consumed(b.GROUP) == {("t", 0): 1200}
    diagnosis.advance(FIRST + 20 * MINUTE)
    assert partition.consumed(b.GROUP) == {}, "that was not lately"
    assert partition.consumed("nobody") == {}


def test_a_deleted_offset_is_consumed_no_more() -> None:
    diagnosis = ClusterDiagnosis(ClusterMirror(), chosen(Twice))
    diagnosis.replay_batch(run_of(committing(3).add(b.uncommit("t", 0), after_ms=1).records))
    assert diagnosis.partitions[7].consumed(b.GROUP) == {}
