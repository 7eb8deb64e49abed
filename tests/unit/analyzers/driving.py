"""Runs one analyzer over a log of a test, as the agent does."""

from __future__ import annotations

from collections.abc import Mapping

from agent.core.diagnosis.api import Finding
from agent.core.diagnosis.cluster import ClusterDiagnosis
from agent.core.diagnosis.lag_source import LagSource
from agent.core.records import RecordBatch
from agent.core.shadow.cluster import ClusterMirror
from agent.kafka.source.segments import discover
from analyzers.registry import select_analyzers
from tests.unit.core.shadow import build as b
from tests.unit.core.shadow.build import Log
from tests.unit.core.wire.vectors import CAPTURE

MINUTE_MS = 60_000

OTHER_GROUP = "passes-the-time"
"""A group whose commits let time pass, for the groups that a test is about."""


def findings(log: Log, analyzer: str, lag_source: LagSource | None = None, **tuned: str) -> list[Finding]:
    """What an analyzer finds in a log, in order; `tuned`: its settings, as a user gives them."""
    mirror = ClusterMirror()
    chosen = select_analyzers({analyzer}, {f"{analyzer}.{setting}": value for setting, value in tuned.items()})
    found = ClusterDiagnosis(mirror, chosen, lag_source=lag_source).replay_batch(b.run_of(log.records))
    assert mirror.error_counts() == {}, "a test's records are sound"
    return [it for it in found if isinstance(it, Finding)]


def states(found: list[Finding]) -> list[tuple[str, str]]:
    """State and severity of each."""
    return [(str(it.state), str(it.severity)) for it in found]


def idle(log: Log, ms: int) -> Log:
    """Time passes."""
    return log.add(b.commit(group=OTHER_GROUP), after_ms=ms)


def commits(log: Log, minutes: int, moves: Mapping[tuple[str, int], int], *, start: int = 0, times: int = 1) -> Log:
    """Each minute, `times` commits of each partition, which move it on by so many records in all."""
    for minute in range(start + 1, start + minutes + 1):
        for time in range(times):
            after_ms = MINUTE_MS // times
            batch = [
                b.commit(
                    topic, number, minute * move - move * (times - 1 - time) // times, at_ms=log.now_ms + after_ms
                )
                for (topic, number), move in moves.items()
            ]
            log.add(*batch, after_ms=after_ms)
    return log


def of_the_capture(*analyzers: str) -> dict[str, list[Finding]]:
    """What they find in the capture, by group; the clusters' under "cluster"."""
    chosen = select_analyzers(analyzers)
    diagnosis = ClusterDiagnosis(ClusterMirror(), chosen)
    found: dict[str, list[Finding]] = {}
    for log in discover(CAPTURE / "segments"):
        for run in log.committed():
            assert isinstance(run, RecordBatch), run
            for it in diagnosis.replay_batch(run):
                if isinstance(it, Finding):
                    found.setdefault(it.group or "cluster", []).append(it)
    for it in diagnosis.finish():
        found.setdefault("cluster", []).append(it)
    return found
