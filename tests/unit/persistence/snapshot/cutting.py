"""States that are cut: the image of one goes on in another, and tells what the first would have told."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence

from agent.core.diagnosis.cluster import AnalyzerSelection
from agent.core.diagnosis.engine import DiagnosisOutput
from agent.core.events.counts import PartitionCounts
from agent.core.events.events import event_of
from agent.core.records import LogId, RawRecord, RecordBatch
from agent.persistence.cluster_state import ClusterState
from analyzers.registry import select_analyzers
from tests.harness.state_digest import cluster_digest, digest
from tests.unit.core.diagnosis.doubles import Consumes, Twice, chosen
from tests.unit.core.shadow.build import run_of

ALL = select_analyzers()
WITH_DOUBLES = AnalyzerSelection((*ALL.makes, *chosen(Twice, Consumes).makes), ALL.cluster_analyzers)
LOG = LogId("cluster-1", "topic-1")

Step = RecordBatch | int
"""Records of a partition, or the time on the wall that `advance` is given."""


def new(which: AnalyzerSelection = WITH_DOUBLES) -> ClusterState:
    return ClusterState(which, log=LOG)


def lines(outputs: Iterable[DiagnosisOutput]) -> list[str]:
    return [json.dumps(event_of(it)) for it in outputs]


def take(state: ClusterState, steps: Iterable[Step]) -> list[str]:
    out: list[str] = []
    for step in steps:
        out += lines(state.advance(step) if isinstance(step, int) else state.replay_batch(step))
    return out


def reborn(state: ClusterState, which: AnalyzerSelection = WITH_DOUBLES) -> ClusterState:
    """Another state, from the snapshots of one."""
    out = new(which)
    for partition in state.partitions:
        assert out.restore(partition, state.capture(partition).encode()) == state.position(partition)
    out.restore_cluster(state.capture_cluster().encode())
    return out


def digests(state: ClusterState) -> list[str]:
    return [*(digest(state, it) for it in state.partitions), cluster_digest(state)]


def remembered(state: ClusterState) -> list[object]:
    """What is told when asked."""
    groups = sorted({group for mirror in state.mirror.partitions.values() for group in mirror.groups})
    timelines = [(list(kept), since) for kept, since in map(state.recent.timeline, groups)]
    return [
        list(state.mirror.views()),
        timelines,
        list(state.recent.findings()),
        {number: it for number, it in state.counts.partitions.items() if it != PartitionCounts()},
        state.mirror.record_counts(),
        state.mirror.error_counts(),
    ]


def assert_goes_on(steps: Sequence[Step], cuts: Iterable[int], which: AnalyzerSelection = WITH_DOUBLES) -> list[str]:
    """Cut at each of these steps: the same events, the same state."""
    whole = new(which)
    expected = take(whole, steps)
    part, told, begin = new(which), list[str](), 0
    for cut in sorted(set(cuts)):
        told += take(part, steps[begin:cut])
        before, part, begin = part, reborn(part, which), cut
        assert digests(part) == digests(before)
    told += take(part, steps[begin:])
    assert told == expected
    assert digests(part) == digests(whole)
    assert remembered(part) == remembered(whole)
    return expected


def halves(records: Sequence[RawRecord], cut: int) -> list[RecordBatch]:
    return [run_of(rows) for rows in (records[:cut], records[cut:]) if rows]
