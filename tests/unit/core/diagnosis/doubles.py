"""Analyzers whose answers are easy to foretell, and a log of commits at given times."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import ClassVar

from agent.core.diagnosis.api import (
    Analyzer,
    Condition,
    Finding,
    GroupContext,
    LagLook,
    Sample,
    Settings,
    Severity,
    Verdict,
    setting,
)
from agent.core.diagnosis.cluster import AnalyzerSelection, ClusterDiagnosis
from agent.core.diagnosis.engine import DiagnosisOutput
from agent.core.diagnosis.lag_source import KnownLags, ReadCommits
from agent.core.records import RawRecord
from agent.core.shadow.cluster import ClusterMirror
from agent.core.shadow.transitions import Rebalanced, Transition
from tests.unit.core.shadow import build as b
from tests.unit.core.shadow.build import Log, run_of


@dataclass(frozen=True, slots=True, kw_only=True)
class TwiceSettings(Settings):
    window_s: float = setting(600.0, "seconds for which a rebalance counts")
    close_after_s: float = setting(60.0, "as for all")


class Twice(Analyzer):
    """Two rebalances within the window; critical with three."""

    name: ClassVar[str] = "twice"
    rule: ClassVar[str] = "two rebalances within window_s"
    false_alarms: ClassVar[str] = "none"
    settings_class = TwiceSettings

    def __init__(self, settings: Settings) -> None:
        super().__init__(settings)
        assert isinstance(settings, TwiceSettings)
        self._window_ms = round(settings.window_s * 1000)
        self._times: list[int] = []

    def observe(self, transition: Transition, group: GroupContext) -> None:
        if isinstance(transition, Rebalanced):
            self._times.append(group.now_ms)

    def judge(self, group: GroupContext) -> Verdict:
        self._times = [at_ms for at_ms in self._times if at_ms > group.now_ms - self._window_ms]
        wake = self._times[0] + self._window_ms if self._times else None
        count = len(self._times)
        if count < 2:
            return Verdict(None, wake)
        severity = Severity.CRITICAL if count > 2 else Severity.WARNING
        return Verdict(Condition(severity, f"{count} rebalances", "wait", {"rebalances": count}), wake)


class Consumes(Analyzer):
    """More than 1,000 records consumed lately; wants samples, and keeps them."""

    name: ClassVar[str] = "consumes"
    rule: ClassVar[str] = "more than 1,000 records"
    false_alarms: ClassVar[str] = "none"
    samples: ClassVar[bool] = True

    def __init__(self, settings: Settings) -> None:
        super().__init__(settings)
        self.taken: list[Sample] = []

    def sample(self, sample: Sample, group: GroupContext) -> None:
        self.taken.append(sample)

    def judge(self, group: GroupContext) -> Verdict:
        total = sum(group.consumed.values())
        if total <= 1000:
            return Verdict()
        return Verdict(Condition(Severity.INFO, f"{total} records", "", {"records": total}))


class LooksAtLag(Analyzer):
    """Wants to see lag each half minute, and keeps when it did."""

    name: ClassVar[str] = "looks_at_lag"
    rule: ClassVar[str] = "never"
    false_alarms: ClassVar[str] = "none"
    look_ms = 30_000

    def __init__(self, settings: Settings) -> None:
        super().__init__(settings)
        self.times_ms: list[int] = []

    def look(self, look: LagLook, group: GroupContext) -> None:
        self.times_ms.append(look.at_ms)

    def judge(self, group: GroupContext) -> Verdict:
        return Verdict()


class NothingBehind:
    """A lag source: no group is behind."""

    since_ms, until_ms = 0, None

    def lags(self, group: str, commits: ReadCommits, at_ms: int) -> KnownLags:
        return KnownLags(at_ms, dict.fromkeys(commits().slots, 0))


class Raises(Analyzer):
    """A third party's mistake."""

    name: ClassVar[str] = "raises"
    rule: ClassVar[str] = "never"
    false_alarms: ClassVar[str] = "none"

    def judge(self, group: GroupContext) -> Verdict:
        raise LookupError("no such luck")


class RaisesLater(Twice):
    """Another, when there are four."""

    name: ClassVar[str] = "raises_later"

    def judge(self, group: GroupContext) -> Verdict:
        if len(self._times) > 3:
            raise LookupError("no such luck")
        return super().judge(group)


def chosen(*kinds: type[Analyzer]) -> AnalyzerSelection:
    return AnalyzerSelection(tuple((lambda kind=kind: kind(kind.settings_class())) for kind in kinds))


def diagnosed(
    records: Sequence[RawRecord], which: AnalyzerSelection, cuts: Sequence[int] = ()
) -> list[DiagnosisOutput]:
    """What comes of the records of one partition, read in runs that end at `cuts`."""
    diagnosis = ClusterDiagnosis(ClusterMirror(), which)
    out: list[DiagnosisOutput] = []
    edges = [0, *sorted({cut for cut in cuts if 0 < cut < len(records)}), len(records)]
    for start, end in pairwise(edges):
        if start < end:
            out += diagnosis.replay_batch(run_of(records[start:end]))
    return [*out, *diagnosis.finish()]


def findings(outputs: Sequence[DiagnosisOutput]) -> list[tuple[str, str, int, int]]:
    """State, severity, when (milliseconds since the first record's time), since when."""
    return [
        (str(it.state), str(it.severity), it.at.timestamp_ms - b.T0, it.since_ms - b.T0)
        for it in outputs
        if isinstance(it, Finding)
    ]


def consuming(minutes: int, *per_minute: int) -> Log:
    """A group with a member for each partition of t, of which so many records a minute are consumed."""
    members = [b.member(f"m-{number}", {"t": [number]}) for number in range(len(per_minute))]
    log = Log().add(b.classic_group(1, *members))
    for step in range(minutes * 60 + 1):
        at_ms = log.now_ms + 1_000
        log.add(*(b.commit("t", it, step * n // 60, at_ms=at_ms) for it, n in enumerate(per_minute)), after_ms=1_000)
    return log


def generations(*at_ms: int) -> Log:
    """A group with one member that rebalances at these times, after T0."""
    log = Log()
    for generation, at in enumerate(at_ms, 1):
        log.add(b.classic_group(generation, b.member("m-1", {"t": [0]})), after_ms=b.T0 + at - log.now_ms)
    return log
