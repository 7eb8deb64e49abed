"""What spans partitions: windows of all of them, whatever order they were read in."""

from __future__ import annotations

from typing import ClassVar

import pytest

from agent.core.diagnosis.api import (
    ClusterAnalyzer,
    Condition,
    Finding,
    LoadWindow,
    PartitionLoad,
    Settings,
    Severity,
    Verdict,
)
from agent.core.diagnosis.cluster import AnalyzerSelection, ClusterDiagnosis
from agent.core.diagnosis.engine import AnalyzerFailure
from agent.core.records import RawRecord
from agent.core.shadow.cluster import ClusterMirror
from tests.unit.core.shadow import build as b
from tests.unit.core.shadow.build import Log, run_of

MINUTE, WINDOW = 60_000, 300_000
FIRST = b.T0 // WINDOW * WINDOW


class Busiest(ClusterAnalyzer):
    """A partition with ten times the records of all others."""

    name: ClassVar[str] = "busiest"
    rule: ClassVar[str] = "ten times the others"
    false_alarms: ClassVar[str] = "none"

    def __init__(self, settings: Settings) -> None:
        super().__init__(settings)
        self.windows: list[LoadWindow] = []

    def judge(self, window: LoadWindow) -> Verdict:
        self.windows.append(window)
        partition, load = max(window.loads.items(), key=lambda it: it[1].records)
        others = sum(it.records for it in window.loads.values()) - load.records
        if load.records < 10 * max(others, 1):
            return Verdict()
        return Verdict(Condition(Severity.INFO, "busy", "move", {"group": load.group}, partition=partition))


class Fails(Busiest):
    def judge(self, window: LoadWindow) -> Verdict:
        raise ArithmeticError("one too many")


def log_of(partition: int, counts: dict[int, int], groups: tuple[str, ...] = ("g",)) -> list[RawRecord]:
    """By minute of the first window: that many commits, each group in turn."""
    log = Log(partition)
    for minute, count in sorted(counts.items()):
        for number in range(count):
            at_ms = FIRST + minute * MINUTE + 10 + number
            group = groups[number % len(groups)]
            log.add(b.commit("t", 0, number, group=group, at_ms=at_ms), after_ms=at_ms - log.now_ms)
    return log.records


def diagnose(
    *logs: list[RawRecord], analyzer: Busiest | None = None
) -> tuple[list[Finding], Busiest, ClusterDiagnosis]:
    analyzer = analyzer or Busiest(Settings())
    diagnosis = ClusterDiagnosis(ClusterMirror(), AnalyzerSelection((), (analyzer,)))
    for records in logs:
        diagnosis.replay_batch(run_of(records))
    return diagnosis.finish(), analyzer, diagnosis


def test_each_window_has_the_load_of_every_partition() -> None:
    hot = log_of(1, {0: 9, 4: 3, 5: 1, 11: 1}, groups=("a", "b", "b"))
    cold = log_of(2, {1: 1, 11: 1})
    out, analyzer, _ = diagnose(hot, cold)
    assert [(it.start_ms, it.end_ms, it.partitions, dict(it.loads)) for it in analyzer.windows] == [
        (FIRST, FIRST + WINDOW, 2, {1: PartitionLoad(12, "b", 8), 2: PartitionLoad(1, "g", 1)}),
        (FIRST + WINDOW, FIRST + 2 * WINDOW, 2, {1: PartitionLoad(1, "a", 1)}),
    ]
    assert [(it.state, it.at.partition, it.at.offset, it.at.timestamp_ms - FIRST, it.group) for it in out] == [
        ("firing", 1, 11, WINDOW, None)
    ]


def test_commits_are_counted_once_though_the_group_is_another_kind_now() -> None:
    """As it was brought from one protocol to the other while it had no members: its positions stay."""
    log = Log(1).add(b.new_group(), b.classic_group(1, b.member("a-1", {"t": [0]})))
    log.add(*(b.commit("t", 0, offset, at_ms=log.now_ms) for offset in range(50)))
    log.add(b.classic_group(2), after_ms=1_000)
    log.add(b.no_classic_group(), b.c_member("b-1"), b.c_epoch(1), after_ms=2 * WINDOW)
    log.add(b.commit("t", 0, 60, at_ms=log.now_ms), *(b.commit("t", 0, 1, group="other") for _ in range(9)))
    log.add(b.commit("t", 0, 2, group="other"), after_ms=WINDOW)
    _, analyzer, _ = diagnose(log.records)
    assert [window.loads[1][:3] for window in analyzer.windows] == [(53, b.GROUP, 50), (13, "other", 9)]


def test_the_order_of_the_partitions_does_not_matter() -> None:
    hot, cold = log_of(1, {0: 20, 6: 1, 20: 1}), log_of(2, {1: 1, 30: 1})
    assert diagnose(hot, cold)[0] == diagnose(cold, hot)[0]
    assert [it.state for it in diagnose(hot, cold)[0]] == ["firing", "resolved"]


def test_a_finding_closes_in_time_though_no_record_comes() -> None:
    diagnosis = ClusterDiagnosis(ClusterMirror(), AnalyzerSelection((), (Busiest(Settings()),)))
    diagnosis.replay_batch(run_of(log_of(1, {0: 20, 5: 1})))
    diagnosis.replay_batch(run_of(log_of(2, {1: 1})))
    first = [it for it in diagnosis.advance(FIRST + WINDOW) if isinstance(it, Finding)]
    assert [it.state for it in first] == ["firing"]
    later = [it for it in diagnosis.advance(FIRST + 10 * WINDOW) if isinstance(it, Finding)]
    # The next window was quiet, and five minutes of that are enough.
    assert [(it.state, it.at.timestamp_ms - FIRST) for it in later] == [("resolved", 3 * WINDOW)]


def test_a_window_that_has_not_ended_is_not_judged() -> None:
    assert diagnose(log_of(1, {0: 20, 3: 1}))[1].windows == []


def test_one_that_raises_is_dropped_and_told() -> None:
    told: list[str] = []
    diagnosis = ClusterDiagnosis(
        ClusterMirror(),
        AnalyzerSelection((), (Fails(Settings()),)),
        on_failure=lambda failure: told.append(str(failure)),
    )
    diagnosis.replay_batch(run_of(log_of(1, {0: 2, 6: 1, 12: 1})))
    assert diagnosis.finish() == []
    assert told == ["analyzer busiest: ArithmeticError: one too many"]
    with pytest.raises(AnalyzerFailure, match="one too many"):
        diagnose(log_of(1, {0: 2, 6: 1}), analyzer=Fails(Settings()))


def test_what_one_found_closes_when_it_raises() -> None:
    class FailsLater(Busiest):
        def judge(self, window: LoadWindow) -> Verdict:
            if self.windows:
                raise ArithmeticError("one too many")
            return super().judge(window)

    analyzer = FailsLater(Settings())
    diagnosis = ClusterDiagnosis(ClusterMirror(), AnalyzerSelection((), (analyzer,)), on_failure=lambda failure: None)
    diagnosis.replay_batch(run_of(log_of(1, {0: 20, 6: 1, 12: 1})))
    told = [(it.state, it.at.timestamp_ms - FIRST) for it in diagnosis.finish()]
    assert told == [("firing", WINDOW), ("resolved", 2 * WINDOW)]


def test_input_that_ends_with_a_window_ends_no_other() -> None:
    diagnosis = ClusterDiagnosis(ClusterMirror(), AnalyzerSelection((), (Busiest(Settings()),)))
    diagnosis.replay_batch(run_of(log_of(1, {0: 20})))
    assert [it.kind for it in diagnosis.advance(FIRST + WINDOW)] == ["finding"]
    assert diagnosis.finish() == []
