"""States that are cut: the image of one goes on in another, and tells what the first would have told."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence

from agent.diagnosis.cluster import Chosen
from agent.diagnosis.engine import Output
from agent.diagnosis.registry import choose
from agent.history.events import event_of
from agent.records import LogId, RawRecord, Run
from agent.state import ClusterState
from tests.diagnosis.doubles import Consumes, Twice, chosen
from tests.shadow.build import run_of

ALL = choose()
WITH_DOUBLES = Chosen((*ALL.makes, *chosen(Twice, Consumes).makes), ALL.cluster)
LOG = LogId("cluster-1", "topic-1")

Step = Run | int
"""Records of a partition, or the time on the wall that `advance` is given."""


def new(which: Chosen = WITH_DOUBLES) -> ClusterState:
    return ClusterState(which, log=LOG)


def lines(outputs: Iterable[Output]) -> list[str]:
    return [json.dumps(event_of(it)) for it in outputs]


def take(state: ClusterState, steps: Iterable[Step]) -> list[str]:
    out: list[str] = []
    for step in steps:
        out += lines(state.advance(step) if isinstance(step, int) else state.replay_run(step))
    return out


def reborn(state: ClusterState, which: Chosen = WITH_DOUBLES) -> ClusterState:
    """Another state, from the snapshots of one."""
    out = new(which)
    for partition in state.partitions:
        assert out.restore(partition, state.image(partition)) == state.position(partition)
    out.restore_cluster(state.cluster_image())
    return out


def digests(state: ClusterState) -> list[str]:
    return [*map(state.digest, state.partitions), state.cluster_digest()]


def remembered(state: ClusterState) -> list[object]:
    """What is told when asked."""
    groups = sorted({group for mirror in state.mirror.partitions.values() for group in mirror.groups})
    timelines = [(list(kept), since) for kept, since in map(state.recent.timeline, groups)]
    return [
        list(state.mirror.views()),
        timelines,
        list(state.recent.findings()),
        state.counts.findings,
        state.counts.rebalances,
        state.counts.departures,
        state.counts.stopped_partition_ms,
        state.mirror.record_counts(),
        state.mirror.error_counts(),
    ]


def assert_goes_on(steps: Sequence[Step], cuts: Iterable[int], which: Chosen = WITH_DOUBLES) -> list[str]:
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


def halves(records: Sequence[RawRecord], cut: int) -> list[Run]:
    return [run_of(rows) for rows in (records[:cut], records[cut:]) if rows]
