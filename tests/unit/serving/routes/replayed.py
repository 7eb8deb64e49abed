"""What answers as an agent does, over records that were replayed: no broker, no thread."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import nullcontext

from agent.core.diagnosis.cluster import AnalyzerSelection
from agent.core.inference.origins import OriginSource
from agent.core.queries import Health, JsonObject, Timeline
from agent.core.records import RecordBatch
from agent.core.shadow.mirror import PartitionMirror
from agent.kafka.admin_api.divergence import ObserverReading
from agent.kafka.source.paths import committed_batches_of
from agent.persistence.cluster_state import ClusterState
from agent.presentation.json_views import describe_json, group_json
from agent.presentation.narrative import findings
from agent.presentation.narrative.events import events_within
from agent.serving.metrics.group_collector import GroupCollector, cluster_findings
from agent.serving.metrics.readings import Readings
from agent.serving.queries import ServedQueries
from agent.serving.server import serving
from agent.simulation.whatif.recent_recordings import RecentRecordings
from agent.simulation.whatif.recorder import GroupRecording
from analyzers.registry import select_analyzers
from tests.unit.core.shadow.build import Log, run_of

served = serving
"""The address of a server over one."""


class Replayed(ServedQueries):
    """A mirror of runs, and the health that it is told to have."""

    def __init__(
        self,
        runs: Iterable[RecordBatch],
        *,
        has_caught_up: bool = True,
        stopped: str | None = None,
        chosen: AnalyzerSelection | None = None,
        observed: ObserverReading | None = None,
        mirror_class: type[PartitionMirror] = PartitionMirror,
        origin_source: OriginSource | None = None,
    ) -> None:
        self.recordings = RecentRecordings()
        self.state = state = ClusterState(
            select_analyzers() if chosen is None else chosen,
            mirror_class=mirror_class,
            members=self.recordings,
            origin_source=origin_source,
        )
        self.mirror, self.counts, self.recent = state.mirror, state.counts, state.recent
        self._groups = GroupCollector(state, nullcontext())
        self.has_caught_up = has_caught_up
        self.stopped_why = stopped
        self._observed = observed
        for run in runs:
            state.observe_origins(state.replay_batch(run), 0.0, 0)
        state.settle_origins(0.0, all_of_them=True)

    has_caught_up = True
    now_ms = 0

    def alive(self) -> Health:
        return Health(True, "reading")

    def ready(self) -> Health:
        if not self.has_caught_up:
            return Health(False, "catching up with the topic's end: 12 records to go")
        return Health(self.stopped_why is None, self.stopped_why or "caught up")

    def groups(self) -> list[JsonObject]:
        return [group_json(view) for view in sorted(self.mirror.views(), key=lambda view: view.group)]

    def describe(self, group: str) -> JsonObject | None:
        found = self.mirror.find(group)
        return None if found is None else describe_json(*found)

    def timeline(self, group: str, since_ms: int | None = None, until_ms: int | None = None) -> Timeline | None:
        kept, complete_since_ms = self.recent.timeline(group)
        events = list(kept)
        if not events and self.mirror.find(group) is None:
            return None
        return Timeline(events_within(events, since_ms, until_ms), complete_since_ms)

    def findings(
        self, since_ms: int | None = None, until_ms: int | None = None, group: str | None = None
    ) -> list[JsonObject]:
        return findings.select_findings(self.recent.findings(group), since_ms, until_ms)

    def findings_complete_since_ms(self, group: str | None = None) -> int | None:
        return self.recent.findings_complete_since(group)

    def recording(self, group: str) -> GroupRecording | None:
        return self.recordings.recording(group)

    def readings(self) -> Readings:
        """As `AgentQueries.readings`: nothing of groups before the topic was read to its end."""
        readings = Readings(
            caught_up=dict.fromkeys(self.mirror.partitions, self.has_caught_up),
            behind_records=dict.fromkeys(self.mirror.partitions, 0 if self.has_caught_up else 6),
            healthy=self.stopped_why is None,
            record_counts=self.mirror.record_counts(),
            error_counts=self.mirror.error_counts(),
            observed=self._observed,
        )
        if self.has_caught_up:
            readings.groups = self._groups.read()
            readings.findings = cluster_findings(self.state)
        return readings


def of_path(path: object) -> Iterable[RecordBatch]:
    """The runs of a PATH that is whole."""
    for item in committed_batches_of(str(path)):
        assert isinstance(item, RecordBatch), str(item)
        yield item


def of_log(log: Log) -> Iterable[RecordBatch]:
    yield run_of(log.records)


def let_go(agent: Replayed, group: str, number: int) -> None:
    """As an agent does whose memory for events is full: a group's oldest."""
    partition = next(it for it in agent.recent.partitions.values() if group in it.groups)
    partition.cut(group, number)
