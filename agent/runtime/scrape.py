"""What a scrape of a running agent exports."""

from __future__ import annotations

from agent.config.settings import Granularity
from agent.kafka.admin_api.sampled_reader import SampledReader
from agent.kafka.source.quarantine import QuarantineReason
from agent.kafka.source.shared import SharedTopicReader
from agent.runtime.parts import AgentParts
from agent.runtime.reader_loop import ReaderLoop
from agent.serving.metrics.group_collector import GroupCollector, cluster_findings
from agent.serving.metrics.readings import Readings, SinkReading, SnapshotReading


class ScrapeReader:
    """Takes an agent's readings; of groups only once the topic was read to its end."""

    def __init__(self, parts: AgentParts, loop: ReaderLoop) -> None:
        self._parts, self._loop = parts, loop
        self._granularity = parts.options.settings.metrics.granularity
        self._groups = self._collector()

    def _collector(self) -> GroupCollector:
        parts = self._parts
        return GroupCollector(
            parts.state,
            parts.lock,
            granularity=self._granularity,
            lags=parts.lags.scraped,
            shows=parts.options.visibility.shows_group,
            stale=tuple if parts.transactions is None else parts.transactions.hiding,
        )

    def change_granularity(self, granularity: Granularity) -> None:
        """From the next scrape on, tell groups that finely."""
        if granularity is not self._granularity:
            self._granularity = granularity
            self._groups = self._collector()

    def read(self) -> Readings:
        """As of now."""
        parts, reader, state = self._parts, self._parts.reader, self._parts.state
        # What the reader says of itself is as of its thread's end.
        reads = self._loop.ended_by is None and self._loop.standstill is None
        is_whole = self._loop.has_caught_up and reader.caught_up and parts.is_sole_owner
        with parts.lock:
            readings = Readings(
                caught_up=reader.caught_up_partitions,
                behind_records=reader.behind_records if reads else {},
                healthy=reads and parts.reading_problem is None,
                record_counts=state.mirror.record_counts(),
                error_counts=state.mirror.error_counts(),
                records_ahead={number: it.records for number, it in state.diagnosis.records_ahead().items()},
                findings=cluster_findings(state) if is_whole else (),
            )
        if is_whole:
            rollouts = parts.rollouts.readings()
            groups = self._groups.read()
            readings.groups = [
                it if (found := rollouts.get(it.shape.group)) is None else it._replace(rollout=found) for it in groups
            ]
        if parts.transactions is not None and reads:
            readings.open_transaction_s = parts.transactions.ages_s()
        if isinstance(reader, SampledReader):
            readings.observed = reader.readings()
        else:
            readings.records_quarantined = {it: reader.quarantine.records.get(it, 0) for it in QuarantineReason}
        if parts.options.observer is not None:
            readings.observed = parts.options.observer.readings()
        if parts.checkpointer is not None:
            stored = parts.checkpointer.reading()
            readings.snapshots = SnapshotReading(stored.oldest_age_s, stored.writes, stored.refused)
        if parts.options.exports is not None:
            readings.history = {
                it.name: SinkReading(it.events, it.buffered, sum(it.dropped.values()), it.oldest_age_s)
                for it in parts.options.exports.readings()
            }
        if parts.options.kubernetes is not None:
            readings.kubernetes = parts.options.kubernetes.reading()
        if parts.lags.watcher is not None:
            readings.lag_requests = parts.lags.watcher.requests
        if isinstance(reader, SharedTopicReader):
            readings.partitions_owned = len(reader.positions)
        return readings
