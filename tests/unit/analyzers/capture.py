"""What the analyzers find in the capture of a real broker, each run once."""

from __future__ import annotations

from functools import cache

from agent.core.diagnosis.api import Finding
from agent.core.diagnosis.cluster import ClusterDiagnosis
from agent.core.records import RecordBatch
from agent.core.shadow.cluster import ClusterMirror
from agent.kafka.source.segments import discover
from analyzers.registry import select_analyzers
from tests.unit.core.wire.vectors import CAPTURE


@cache
def found(analyzer: str) -> tuple[Finding, ...]:
    """Findings of one analyzer, partition by partition."""
    chosen = select_analyzers([analyzer])
    diagnosis = ClusterDiagnosis(ClusterMirror(), chosen)
    out: list[Finding] = []
    for log in discover(CAPTURE / "segments"):
        for run in log.committed():
            assert isinstance(run, RecordBatch), run
            out += [it for it in diagnosis.replay_batch(run) if isinstance(it, Finding)]
    return tuple(out) + tuple(diagnosis.finish())


def groups_found(analyzer: str) -> set[str]:
    """Groups with a finding."""
    return {str(it.group) for it in found(analyzer)}


def clients_found(analyzer: str, group: str) -> list[str]:
    """The clients that the last finding of a group names."""
    clients: list[str] = next(it for it in reversed(found(analyzer)) if it.group == group).numbers["clients"]
    return clients
