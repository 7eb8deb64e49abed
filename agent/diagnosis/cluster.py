"""The analyzers of all partitions that are read, and those that watch what spans partitions."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from agent.diagnosis.engine import Failure, Make, Output, PartitionDiagnosis, finding
from agent.diagnosis.hysteresis import Hysteresis
from agent.records import Run
from agent.shadow.cluster import ClusterMirror
from agent.shadow.transitions import At
from analyzers.api import WINDOW_MS, ClusterAnalyzer, Finding, Judgement, Load, Slot, Window


class Chosen(NamedTuple):
    """What runs: a maker for each analyzer of groups, and the cluster's analyzers."""

    makes: Sequence[Make] = ()
    cluster: Sequence[ClusterAnalyzer] = ()


NOTHING = Chosen()
"""No analyzers at all."""


class ClusterDiagnosis:
    """One diagnosis a partition, made as records of it come, and the cluster's own analyzers."""

    def __init__(
        self,
        mirror: ClusterMirror,
        chosen: Chosen,
        *,
        on_failure: Callable[[Failure], None] | None = None,
    ) -> None:
        """`on_failure` is told of analyzers that raise; without it their `Failure` is raised."""
        self.mirror = mirror
        self._makes = chosen.makes
        self._on_failure = on_failure
        self._partitions: dict[int, PartitionDiagnosis] = {}
        self._watches = [(analyzer, Hysteresis.of(analyzer.settings)) for analyzer in chosen.cluster]
        self._offsets: dict[int, int] = {}

    def replay_run(self, run: Run) -> list[Output]:
        """Apply consecutive records of one partition: transitions and findings, in order."""
        if not self._makes and not self._watches:
            return [*self.mirror.replay_run(run)]
        diagnosis = self._partitions.get(run.partition)
        if diagnosis is None:
            diagnosis = self._partitions[run.partition] = PartitionDiagnosis(
                self.mirror.partition(run.partition),
                self._makes,
                on_failure=self._on_failure,
            )
        return diagnosis.replay_run(run)

    def forget(self, partition: int) -> None:
        """Drop what is known of a partition, with its mirror, to begin it anew."""
        self.mirror.forget(partition)
        self._partitions.pop(partition, None)

    def advance(self, now_ms: int) -> list[Output]:
        """Live: let time pass where nothing is written; what is due by then, and the windows that ended by then."""
        out: list[Output] = []
        for _, diagnosis in sorted(self._partitions.items()):
            out += diagnosis.advance(now_ms)
        return [*out, *self._windows(now_ms)]

    def finish(self) -> list[Finding]:
        """Offline: what all partitions together show, once all of them were read."""
        clocks = [it.clock_ms for it in self._partitions.values() if it.clock_ms is not None]
        return self._windows(max(clocks, default=0), is_end=True)

    def clock_ms(self, partition: int) -> int | None:
        """The event clock of a partition; None where no analyzer runs, or no record came."""
        diagnosis = self._partitions.get(partition)
        return None if diagnosis is None else diagnosis.clock_ms

    def consumed(self, partition: int, group: str) -> Mapping[Slot, int]:
        """Records by partition that a group consumed in the last minutes."""
        diagnosis = self._partitions.get(partition)
        return {} if diagnosis is None else diagnosis.consumed(group)

    def _windows(self, until_ms: int, *, is_end: bool = False) -> list[Finding]:
        by_end: dict[int, dict[int, tuple[Load, int]]] = {}
        for partition, diagnosis in self._partitions.items():
            for end_ms, load in diagnosis.take_loads(until_ms, is_end=is_end).items():
                by_end.setdefault(end_ms, {})[partition] = load
        out: list[Finding] = []
        for end_ms, loads in sorted(by_end.items()):
            out += self._quiet(end_ms - WINDOW_MS)
            self._offsets.update((partition, offset) for partition, (_, offset) in loads.items())
            out += self._judge(end_ms, {partition: load for partition, (load, _) in sorted(loads.items())})
        return out + self._quiet(until_ms)

    def _quiet(self, until_ms: int) -> list[Finding]:
        """Windows without any record: only what waits for its time is looked at."""
        out: list[Finding] = []
        while dues := [it.due_ms for _, it in self._watches if it.due_ms is not None and it.due_ms <= until_ms]:
            out += self._judge(min(dues), {})
        return out

    def _judge(self, now_ms: int, loads: Mapping[int, Load]) -> list[Finding]:
        out: list[Finding] = []
        window = Window(now_ms - WINDOW_MS, now_ms, len(self._partitions), loads)
        for watch in list(self._watches):
            analyzer, hysteresis = watch
            try:
                change = hysteresis.take(analyzer.judge(window) if loads else Judgement(), now_ms)
            except Exception as error:
                failure = Failure(f"analyzer {analyzer.name}: {type(error).__name__}: {error}")
                if self._on_failure is None:
                    raise failure from error
                self._watches.remove(watch)
                self._on_failure(failure)
                continue
            if change is not None:
                partition = change.condition.partition or 0
                at = At(partition, self._offsets.get(partition, -1), now_ms)
                out.append(finding(at, None, None, analyzer.name, change))
        return out
