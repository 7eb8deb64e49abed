"""What the analyzers find in the capture of a real broker, each run once."""

from __future__ import annotations

from functools import cache

from agent.diagnosis.cluster import ClusterDiagnosis
from agent.diagnosis.registry import choose
from agent.records import Run
from agent.shadow.cluster import ClusterMirror
from agent.source.segments import discover
from analyzers.api import Finding
from tests.wire.vectors import CAPTURE


@cache
def found(analyzer: str) -> tuple[Finding, ...]:
    """Findings of one analyzer, partition by partition."""
    chosen = choose([analyzer])
    diagnosis = ClusterDiagnosis(ClusterMirror(), chosen)
    out: list[Finding] = []
    for log in discover(CAPTURE / "segments"):
        for run in log.committed():
            assert isinstance(run, Run), run
            out += [it for it in diagnosis.replay_run(run) if isinstance(it, Finding)]
    return tuple(out) + tuple(diagnosis.finish())


def groups_found(analyzer: str) -> set[str]:
    """Groups with a finding."""
    return {str(it.group) for it in found(analyzer)}


def clients_found(analyzer: str, group: str) -> list[str]:
    """The clients that the last finding of a group names."""
    clients: list[str] = next(it for it in reversed(found(analyzer)) if it.group == group).numbers["clients"]
    return clients
