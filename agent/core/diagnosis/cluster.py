"""The analyzers of all partitions that are read, and those that watch what spans partitions."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from copy import copy
from typing import NamedTuple

from agent.core.diagnosis.api import (
    WINDOW_MS,
    ClusterAnalyzer,
    Finding,
    LoadWindow,
    PartitionLoad,
    Verdict,
)
from agent.core.diagnosis.engine import (
    AnalyzerFactory,
    AnalyzerFailure,
    DiagnosisOutput,
    PartitionDiagnosis,
    RecordObserver,
    RecordsAhead,
    finding,
)
from agent.core.diagnosis.hysteresis import Hysteresis
from agent.core.diagnosis.lag_source import LagSource
from agent.core.record_time import UNKNOWN, Context
from agent.core.records import RecordBatch
from agent.core.shadow.cluster import ClusterMirror
from agent.core.shadow.mirror import PartitionMirror
from agent.core.shadow.transitions import LogPosition

LOADS_RETENTION_MS = 3_600_000
"""For how long a partition keeps what it took in, after it was judged: it may be given back to a state that judged
only until an earlier moment, which then lacks nothing."""


class AnalyzerSelection(NamedTuple):
    """What runs: a maker for each analyzer of groups, and the cluster's analyzers."""

    makes: Sequence[AnalyzerFactory] = ()
    cluster_analyzers: Sequence[ClusterAnalyzer] = ()


NO_ANALYZERS = AnalyzerSelection()
"""No analyzers at all."""


class ClusterDiagnosis:
    """One diagnosis a partition, made as records of it come, and the cluster's own analyzers."""

    def __init__(
        self,
        mirror: ClusterMirror,
        chosen: AnalyzerSelection,
        *,
        on_failure: Callable[[AnalyzerFailure], None] | None = None,
        observe: RecordObserver | None = None,
        lag_source: LagSource | None = None,
    ) -> None:
        """`on_failure` is told of analyzers that raise; without it their `AnalyzerFailure` is raised. `observe` is
        told of each record that changes a group, where any analyzer runs, after a restore too. `lag_source`: where
        lag is known from, if it is."""
        self.mirror = mirror
        self._makes = chosen.makes
        self._on_failure = on_failure
        self._observe = observe
        self._lag_source = lag_source
        self.partitions: dict[int, PartitionDiagnosis] = {}
        self.watches = [(analyzer, Hysteresis.of(analyzer.settings)) for analyzer in chosen.cluster_analyzers]
        self.offsets: dict[int, int] = {}
        """By partition: the offset of the last record by the end of the newest window that was judged."""
        self.judged_until_ms = 0
        """Up to when windows were judged. A finding of the cluster was told exactly if its time is not after this."""

    def replay_batch(self, run: RecordBatch, context: Context = UNKNOWN) -> list[DiagnosisOutput]:
        """Apply consecutive records of one partition: transitions and findings, in order. `context`: what is known of
        those that follow."""
        if not self._makes and not self.watches:
            mirror, passes_over = self.mirror.partition(run.partition), self._on_failure is not None
            return [it for it in mirror.replay_batch(run, passes_over=passes_over) if it.is_event]
        return self._diagnosis(run.partition).replay_batch(run, context)

    def _diagnosis(self, partition: int) -> PartitionDiagnosis:
        diagnosis = self.partitions.get(partition)
        if diagnosis is None:
            diagnosis = self.partitions[partition] = PartitionDiagnosis(
                self.mirror.partition(partition),
                self._makes,
                on_failure=self._on_failure,
                observe=self._observe,
                lag_source=self._lag_source,
            )
        return diagnosis

    def run_due(self, run: RecordBatch, context: Context = UNKNOWN) -> list[DiagnosisOutput]:
        """What is due before the first of these records: what `replay_batch` of them begins with."""
        self.mirror.partition(run.partition)
        if not self._makes and not self.watches:
            return []
        return self._diagnosis(run.partition).run_due(run, context)

    def fork(self, partition: int, group: str, observe: RecordObserver | None) -> ClusterDiagnosis:
        """One group of a partition alone, to apply its next record to while answers are told from here: nothing may
        be due before it (`run_due`). `adopt` takes what came of it; until then nothing else is done here."""
        out = copy(self)
        out.mirror, out.partitions = self.mirror.fork(partition, group), {}
        if partition in self.partitions:
            its = out.partitions[partition] = self.partitions[partition].fork(group, out.mirror.partition(partition))
            its.observer = observe
        return out

    def adopt(self, fork: ClusterDiagnosis, partition: int, group: str) -> None:
        """Take what a fork has of its group in place of what is here."""
        self.mirror.partition(partition).adopt(fork.mirror.partition(partition), group)
        if partition in self.partitions:
            self.partitions[partition].adopt(fork.partitions[partition], group)

    def put(self, partition: int, diagnosis: PartitionDiagnosis) -> None:
        """One that was restored, in place of what there is of its partition."""
        diagnosis.lag_source, diagnosis.observer = self._lag_source, self._observe
        self.partitions[partition] = diagnosis

    def set_lag_source(self, source: LagSource) -> None:
        """Lag is known from there from now on."""
        self._lag_source = source
        for diagnosis in self.partitions.values():
            diagnosis.lag_source = source

    def forget(self, partition: int) -> None:
        """Drop what is known of a partition, with its mirror, to begin it anew."""
        self.mirror.forget(partition)
        self.partitions.pop(partition, None)

    def advance(self, now_ms: int, partitions: Collection[int] | None = None) -> list[DiagnosisOutput]:
        """Live: let time pass where nothing is written (in `partitions`; everywhere unless told); what is due by
        then, and the windows that ended by then in all partitions."""
        out: list[DiagnosisOutput] = []
        for number, diagnosis in sorted(self.partitions.items()):
            if partitions is None or number in partitions:
                out += diagnosis.advance(now_ms)
        ended_ms = min([now_ms, *(it.clock_ms or 0 for it in self.partitions.values())])
        return [*out, *self._judge_windows(ended_ms // WINDOW_MS * WINDOW_MS)]

    def finish(self) -> list[Finding]:
        """Offline: what all partitions together show, once all of them were read."""
        for diagnosis in self.partitions.values():
            diagnosis.end_loads()
        return self._judge_windows(max((it.clock_ms or 0 for it in self.partitions.values()), default=0))

    def merge_partition(self, partition: int, loads: Mapping[int, tuple[PartitionLoad, int]], clock_ms: int) -> None:
        """Take what a diagnosis in another process says of a partition, up to `clock_ms` on its event clock.

        Then only what spans partitions is judged here: Spark reads each partition in a task of its own.
        """
        diagnosis = self.partitions.setdefault(partition, PartitionDiagnosis(PartitionMirror(partition), ()))
        diagnosis.loads.update(loads)
        diagnosis.clock_ms = max(diagnosis.clock_ms or 0, clock_ms)

    def records_ahead(self) -> dict[int, RecordsAhead]:
        """By partition: records whose times are ahead of what is written around them, where there are any."""
        return {number: it.ahead for number, it in sorted(self.partitions.items()) if it.ahead.records}

    def clock_ms(self, partition: int) -> int | None:
        """The event clock of a partition; None where no analyzer runs, or no record came."""
        diagnosis = self.partitions.get(partition)
        return None if diagnosis is None else diagnosis.clock_ms

    def partition(self, number: int) -> PartitionDiagnosis | None:
        """The analyzers of one partition's groups; None without any, and before its first record."""
        return self.partitions.get(number)

    def _judge_windows(self, until_ms: int) -> list[Finding]:
        """Judge the windows that ended by then, if that was not done before.

        What is due between is looked at only as far as windows have ended: so nothing depends on how time passed.
        """
        # Where a partition has let go of what was not judged yet there is nothing whole to judge.
        since_ms = max([self.judged_until_ms, *(it.loads_from_ms for it in self.partitions.values())])
        if until_ms <= since_ms:
            return []
        by_end: dict[int, dict[int, tuple[PartitionLoad, int]]] = {}
        for partition, diagnosis in sorted(self.partitions.items()):
            for end_ms, load in diagnosis.loads.items():
                if since_ms < end_ms <= until_ms:
                    by_end.setdefault(end_ms, {})[partition] = load
        out: list[Finding] = []
        for end_ms, loads in sorted(by_end.items()):
            out += self._judge_empty_windows(end_ms - WINDOW_MS)
            self.offsets.update((partition, offset) for partition, (_, offset) in loads.items())
            out += self._judge(end_ms, {partition: load for partition, (load, _) in loads.items()})
        out += self._judge_empty_windows(until_ms)
        self.judged_until_ms = until_ms
        for diagnosis in self.partitions.values():
            diagnosis.forget_loads(until_ms - LOADS_RETENTION_MS)
        return out

    def _judge_empty_windows(self, until_ms: int) -> list[Finding]:
        """Windows without any record: only what waits for its time is looked at."""
        out: list[Finding] = []
        while dues := [it.due_ms for _, it in self.watches if it.due_ms is not None and it.due_ms <= until_ms]:
            out += self._judge(min(dues), {})
        return out

    def _judge(self, now_ms: int, loads: Mapping[int, PartitionLoad]) -> list[Finding]:
        out: list[Finding] = []
        window = LoadWindow(now_ms - WINDOW_MS, now_ms, len(self.partitions), loads)
        for watch in list(self.watches):
            analyzer, hysteresis = watch
            try:
                change = hysteresis.apply(analyzer.judge(window) if loads else Verdict(), now_ms)
            except Exception as error:
                failure = AnalyzerFailure(f"analyzer {analyzer.name}: {type(error).__name__}: {error}")
                if self._on_failure is None:
                    raise failure from error
                self._on_failure(failure)
                self.watches.remove(watch)
                change = hysteresis.close()
            if change is not None:
                partition = change.condition.partition or 0
                at = LogPosition(partition, self.offsets.get(partition, -1), now_ms)
                out.append(finding(at, None, None, analyzer.name, change))
        return out
