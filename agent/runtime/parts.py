"""What an agent is made of: its options as one value, and its collaborators built from them.

Owns how the collaborators are tied together. Starts and stops nothing: that is `agent.runtime.agent`.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Collection, Mapping
from typing import TYPE_CHECKING

from msgspec import Struct, field

from agent.common.threads import BothLocks
from agent.config.broker_settings import SESSION_NAMES
from agent.config.filters import Filters
from agent.config.settings import PLAIN_CLUSTER, ClusterSettings, FilterSettings, GroupSource
from agent.core.diagnosis.cluster import NO_ANALYZERS, AnalyzerSelection
from agent.core.diagnosis.engine import AnalyzerFailure, DiagnosisOutput
from agent.core.diagnosis.lag_source import WatchedLags
from agent.core.inference.external_evidence import CombinedEvidence
from agent.core.inference.origins import OriginSource
from agent.core.inference.session_settings import session_settings
from agent.core.protocol.hashing import GroupPartitioner
from agent.core.record_time import Lookahead
from agent.core.shadow.mirror import PartitionMirror
from agent.core.shadow.sampled_mirror import SampledMirror, shard_of
from agent.kafka.admin_api.observer import AdminObserver
from agent.kafka.admin_api.sampled_reader import SampledReader
from agent.kafka.admin_api.session_settings import SessionSettingsWatch, TypedGroup
from agent.kafka.source.shared import SharedTopicReader
from agent.kafka.source.topic import TopicReader
from agent.persistence.cluster_state import ClusterState
from agent.persistence.export.pipeline import ExportPipeline
from agent.presentation.narrative.sampling import unanswered_phrase
from agent.runtime.checkpointer import Checkpointer, OpenStore
from agent.runtime.event_clock import EventClock
from agent.runtime.export_deduplicator import ExportDeduplicator
from agent.runtime.group_lags import GroupLags
from agent.runtime.guarded_origins import GuardedOrigins
from agent.runtime.held_events import HeldEvents
from agent.runtime.rollout_watch import RolloutWatch
from agent.runtime.transaction_watch import TransactionWatch
from agent.simulation.whatif.recent_recordings import RecentRecordings

if TYPE_CHECKING:
    from agent.kafka.source.brokerlog import BrokerLogFollower
    from agent.kubernetes.watcher import KubernetesWatcher

log = logging.getLogger("kshadow")

MAX_BEHIND_RECORDS = 10_000
"""Records to the end of a partition: with fewer, what is known of it is as of now."""


class Visibility:
    """Which groups and topics are shown; the filters may change while the agent runs."""

    def __init__(self, groups: Collection[str] | None = None, filters: FilterSettings | None = None) -> None:
        """`groups`: the only ones to show; None for all. Raises `ValueError` for a pattern that is none."""
        self.groups = None if groups is None else frozenset(groups)
        """The only ones that may ever be asked for; None for all."""
        self.change(FilterSettings() if filters is None else filters)

    def change(self, it: FilterSettings) -> None:
        """Filter by other patterns from now on. Raises `ValueError` for one that is none."""
        self._filters = Filters(it.allow_groups, it.deny_groups, it.allow_topics, it.deny_topics)

    def remembers_group(self, group: str) -> bool:
        """Whether a group of this name may ever be asked for: filters may change."""
        return self.groups is None or group in self.groups

    def shows_group(self, group: str) -> bool:
        """Whether a group of this name is asked for."""
        return self.remembers_group(group) and self._filters.shows_group(group)

    def shows_topic(self, topic: str) -> bool:
        """Whether anything is told of a topic of this name."""
        return self._filters.shows_topic(topic)


class AgentOptions(Struct, frozen=True, kw_only=True):
    """What an agent is to do: its `settings`, and what is made of them.

    `partitions` to read (None: all; a rule holds for those to come as well), unless the settings share them with
    other replicas; `partitioner`: by which hash groups have theirs, where that is known or was told. `observe` is
    called in the reader's thread with what each batch changed, once the topic's end was reached. `broker_log` and
    `observer` may know more of a rebalance than the topic, `origin_source` what happened to members' pods, and
    `kubernetes` is what it learns from: whoever made it starts and stops it, since several agents may have one.
    Events go to `exports`, and so do samples of all groups.
    The state is kept across restarts in what `open_store` opens; `scope` names the partitions that are read, if they
    are some of them. `wall_s` is the clock on the wall, which may jump.
    """

    conf: Mapping[str, str]
    settings: ClusterSettings = PLAIN_CLUSTER
    partitions: Collection[int] | Callable[[int], bool] | None = None
    partitioner: GroupPartitioner | None = None
    visibility: Visibility = field(default_factory=Visibility)
    observe: Callable[[list[DiagnosisOutput]], None] | None = None
    broker_log: BrokerLogFollower | None = None
    observer: AdminObserver | None = None
    origin_source: OriginSource | None = None
    kubernetes: KubernetesWatcher | None = None
    analyzers: AnalyzerSelection = NO_ANALYZERS
    exports: ExportPipeline | None = None
    open_store: OpenStore | None = None
    scope: str = ""
    wall_s: Callable[[], float] = time.time


AnyReader = TopicReader | SampledReader
"""Where records come from: the topic, or looks through the Admin API where that is not to be had."""


class AgentParts(Struct, frozen=True, kw_only=True):
    """An agent's collaborators.

    `lock` is held for whatever is read from `state`, and while what is read changes. Whoever changes `state`, images
    it, or uses `deduplicator` or `held`, holds `writing`, and takes it before `lock`: so what takes long can be
    worked out while answers are given. `exclusive` is both.
    """

    options: AgentOptions
    state: ClusterState
    lock: threading.Lock
    writing: threading.Lock
    exclusive: BothLocks
    deduplicator: ExportDeduplicator
    checkpointer: Checkpointer | None
    reader: AnyReader
    lags: GroupLags
    recordings: RecentRecordings
    lookahead: Lookahead
    """Batches that wait, during the catch-up, for what follows them: of partitions that are read."""
    event_clock: EventClock
    held: HeldEvents | None
    """Where events wait on their way to `options.exports`; None where there are none."""
    rollouts: RolloutWatch
    transactions: TransactionWatch | None
    """What is held back in the topic; None where that is not read."""
    sessions: SessionSettingsWatch

    @property
    def is_sole_owner(self) -> bool:
        """Whether no other replica can have the partitions that are read by now."""
        return not isinstance(self.reader, SharedTopicReader) or self.reader.is_sole_owner

    @property
    def what_has_stopped(self) -> str:
        """Where not all is read: whether others are, as where some partitions have no leader."""
        is_all = all(map(self.reader.is_stopped, self.reader.positions))
        return "reading" if is_all else "reading some partitions"

    @property
    def reading_problem(self) -> str | None:
        """Why what is told of groups, of some at least, is not as of now, however far was read; None while it is."""
        if not self.reader.healthy:
            return f"{self.what_has_stopped} has stopped: {self.reader.last_error}"
        if isinstance(self.reader, SampledReader) and (unanswered := self.reader.unanswered):
            return unanswered_phrase(unanswered)
        if not self.is_sole_owner:
            return "no word from the brokers for long: other replicas may have these partitions now"
        return None


def build_parts(options: AgentOptions) -> AgentParts:
    """The collaborators, tied together; nothing is connected yet. Raises `SourceMisconfigured`."""
    conf, settings, shown = options.conf, options.settings, options.visibility

    def with_broker_sessions() -> list[TypedGroup]:
        with lock:
            mirrors = list(state.mirror.partitions.values())
            groups = [(name, str(it.group_type)) for mirror in mirrors for name, it in mirror.groups.items()]
        return [it for it in groups if it[1] in SESSION_NAMES and shown.shows_group(it[0])]

    told = session_settings(dict(settings.broker_config))
    sessions = SessionSettingsWatch(conf, told, with_broker_sessions)
    sources = [it for it in (options.broker_log, options.observer, sessions.known) if it is not None]
    is_sampled = settings.read.source is GroupSource.ADMIN
    recordings = RecentRecordings()
    state = ClusterState(
        options.analyzers,
        witness=CombinedEvidence(sources),
        origin_source=None if options.origin_source is None else GuardedOrigins(options.origin_source),
        is_remembered=shown.remembers_group,
        on_failure=_on_failure,
        cluster=settings.name,
        mirror_class=SampledMirror if is_sampled else PartitionMirror,
        members=recordings,
    )
    lock, writing = threading.Lock(), threading.Lock()
    exclusive = BothLocks(writing, lock)
    deduplicator, lookahead, event_clock = ExportDeduplicator(), Lookahead(), EventClock()
    held = None if options.exports is None else HeldEvents(options.exports, settings.name)
    checkpointer = None
    if options.open_store is not None:
        checkpointer = Checkpointer(
            options.open_store,
            state,
            exclusive,
            deduplicator,
            options.exports,
            held,
            # Asked only once there is something to store: the reader is there by then.
            is_current=lambda partition: _is_current(reader, partition),
            scope=options.scope if settings.read.share_group is None else None,
            interval_s=settings.snapshots.interval_s,
        )
    start = None if checkpointer is None else checkpointer.restorer.restore
    reader: AnyReader
    if is_sampled:
        reader = SampledReader(
            conf,
            RestoredGroups(state, lock),
            requests_per_s=settings.admin.requests_per_s,
            shows_group=shown.shows_group,
            start=start,
        )
    elif settings.read.share_group is None:
        reader = TopicReader(conf, partitions=options.partitions, start=start)
    else:

        def revoke(partitions: Collection[int], lost: bool) -> None:
            """Store them once more unless they are `lost`, then forget them."""
            log.info("partitions %s are %s", sorted(partitions), "lost" if lost else "given up")
            if checkpointer is not None:
                checkpointer.partitions_revoked(partitions, lost=lost)
            with exclusive:
                for partition in partitions:
                    lookahead.forget(partition)
                    state.forget(partition)
                deduplicator.forget(partitions)
            event_clock.forget(partitions)

        reader = SharedTopicReader(
            conf,
            group=settings.read.share_group,
            instance_id=settings.read.share_instance_id,
            on_revoked=revoke,
            start=start,
        )
    transactions = None
    if not isinstance(reader, SampledReader):

        def groups_in(partition: int) -> int:
            with lock:
                mirror = state.mirror.partitions.get(partition)
                return 0 if mirror is None else len(mirror.groups)

        transactions = TransactionWatch(
            conf, reader, wall_ms=lambda: round(options.wall_s() * 1000), groups_in=groups_in
        )
    hiding = dict if transactions is None else transactions.hiding
    lags = GroupLags(
        state,
        lock,
        conf,
        settings.lag.interval_s,
        shown.shows_topic,
        with_shares=settings.lag.share,
        is_hidden=lambda partition: (
            reader.is_stopped(partition)
            or not reader.current_partitions.get(partition, True)
            or partition in hiding()
        ),
    )
    if lags.watcher is not None:
        state.diagnosis.set_lag_source(WatchedLags(lags.ends))
    return AgentParts(
        options=options,
        state=state,
        lock=lock,
        writing=writing,
        exclusive=exclusive,
        deduplicator=deduplicator,
        checkpointer=checkpointer,
        reader=reader,
        lags=lags,
        recordings=recordings,
        lookahead=lookahead,
        event_clock=event_clock,
        held=held,
        rollouts=RolloutWatch(
            state,
            lock,
            None if lags.watcher is None else lags.scraped,
            shows=shown.shows_group,
            is_current=lambda: reader.healthy,
            hiding=hiding,
        ),
        transactions=transactions,
        sessions=sessions,
    )


class RestoredGroups:
    """What the mirrors have of groups that are looked at: `agent.kafka.admin_api.sampled_reader.KnownGroups`."""

    def __init__(self, state: ClusterState, lock: threading.Lock) -> None:
        """`lock` is held for whatever is read from `state`."""
        self._state, self._lock = state, lock

    def groups(self) -> Mapping[str, bool]:
        """Every group, and whether it has members."""
        with self._lock:
            return {view.group: bool(view.members) for view in self._state.mirror.views()}

    def positions(self, group: str) -> Mapping[tuple[str, int], int]:
        """Its committed offsets, by topic and partition."""
        with self._lock:
            mirror = self._state.mirror.partitions.get(shard_of(group))
            known = () if mirror is None else mirror.committed(group)
            return {(it.topic, it.partition): it.offset for it in known}


def _is_current(reader: AnyReader, partition: int) -> bool:
    if isinstance(reader, SampledReader):
        return reader.healthy
    if reader.is_stopped(partition):
        return False
    return reader.behind_records.get(partition, MAX_BEHIND_RECORDS) < MAX_BEHIND_RECORDS


def _on_failure(failure: AnalyzerFailure) -> None:
    log.error("%s; it is off for that group", failure, exc_info=failure.__cause__)
