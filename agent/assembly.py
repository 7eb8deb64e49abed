"""An agent from its settings: what reads, keeps, exports and watches, put together and with the same life.

Owns which setting goes where. What a setting means, each part says itself.
"""

from __future__ import annotations

import logging
import socket
from collections.abc import Callable, Collection
from hashlib import blake2b
from pathlib import Path

from agent.admin.agent import AdminAgent
from agent.config.filters import Filters
from agent.config.settings import (
    ClusterSettings,
    FilterSettings,
    HistorySettings,
    MetricsSettings,
    ReadSettings,
    Shard,
    SnapshotPlace,
    Source,
)
from agent.coordinator.hashing import partition_of
from agent.diagnosis.registry import choose, named
from agent.export.pipeline import Exports, SpoolSettings
from agent.export.sinks import Sink
from agent.keeping import OpenStore
from agent.metrics.compat import Exporters, Wanted
from agent.metrics.limits import Limits
from agent.observer.observer import Observer
from agent.runtime import STOP_S, Agent, Sharing
from agent.snapshot.store import Store
from agent.source.brokerlog import BrokerLogFollower, time_zone
from agent.source.brokers import coordinators

log = logging.getLogger("kshadow")

UNNAMED = "default"
"""What a cluster without a name is called in the names of files and of replicas."""


class ClusterAgent(Agent):
    """The agent of one cluster, with all that its settings ask for."""

    def __init__(self, settings: ClusterSettings) -> None:
        """Opens what lies on disk. Raises `SourceError`, `ExportError`, `StoreError`."""
        conf = dict(settings.conf)
        self._filters = filters_of(settings.filters)
        self._follower = _follower(settings)
        self._rate_of = Observer(conf, groups_per_s=settings.admin.groups_per_s) if settings.admin.on else None
        read = settings.read
        super().__init__(
            conf,
            cluster=settings.name,
            partitions=_partitions(settings, conf),
            sharing=None if read.share_group is None else Sharing(read.share_group, read.share_instance_id),
            groups=read.groups or None,
            is_shown=lambda group: self._filters.shows_group(group),
            shows_topic=lambda topic: self._filters.shows_topic(topic),
            witness=self._follower,
            observer=self._rate_of,
            chosen=choose(named(settings.analyzers.names), dict(settings.analyzers.tuned)),
            exports=_exports(settings, conf),
            open_store=_store(settings, conf),
            scope=_scope(read),
            snapshot_interval_s=settings.snapshots.interval_ms / 1000,
            sample_interval_s=_sample_interval_s(settings.history),
            lag_interval_s=settings.lag.interval_ms / 1000 if settings.lag.on else None,
            granularity=settings.metrics.granularity,
        )

    def start(self, timeout_s: float = 10.0) -> None:
        """As `Agent.start`."""
        if self._follower is not None:
            self._follower.start()
        super().start(timeout_s)

    def stop(self, timeout_s: float = STOP_S) -> None:
        """As `Agent.stop`."""
        super().stop(timeout_s)
        if self._follower is not None:
            self._follower.stop()

    def change(self, settings: ClusterSettings) -> None:
        """Take what can change while it runs."""
        self._filters = filters_of(settings.filters)
        if self._rate_of is not None:
            self._rate_of.change_rate(settings.admin.groups_per_s)
        if self.lag is not None:
            self.lag.change_interval(settings.lag.interval_ms / 1000)
        if self.sampler is not None:
            self.sampler.change_interval(_sample_interval_s(settings.history))
        self.change_granularity(settings.metrics.granularity)


class ClusterAdminAgent(AdminAgent):
    """The same for a cluster whose topic nobody may read: by the Admin API alone."""

    def __init__(self, settings: ClusterSettings) -> None:
        """Connects to nothing yet. Raises `SourceMisconfigured`."""
        self._filters = filters_of(settings.filters)
        super().__init__(
            settings.conf,
            groups=settings.read.groups or None,
            is_shown=lambda group: self._filters.shows_group(group),
            groups_per_s=settings.admin.groups_per_s,
            lag_interval_s=settings.lag.interval_ms / 1000 if settings.lag.on else None,
        )

    def change(self, settings: ClusterSettings) -> None:
        """Take what can change while it runs."""
        self._filters = filters_of(settings.filters)
        self.change_pace(settings.admin.groups_per_s, settings.lag.interval_ms / 1000)


AnyAgent = ClusterAgent | ClusterAdminAgent


def agent_of(settings: ClusterSettings) -> AnyAgent:
    """The agent that a cluster's settings ask for. Raises as it does."""
    return ClusterAdminAgent(settings) if settings.read.source is Source.ADMIN else ClusterAgent(settings)


def limits_of(settings: MetricsSettings) -> Limits:
    """Which groups have series."""
    return Limits(settings.max_series, settings.expire_after_ms)


def compat_of(settings: ClusterSettings) -> Wanted:
    """Which other exporters' names its groups have."""
    return Wanted(tuple(Exporters(it) for it in settings.metrics.compat), settings.name or "")


def filters_of(settings: FilterSettings) -> Filters:
    """The filters that are asked for."""
    return Filters(settings.allow_groups, settings.deny_groups, settings.allow_topics, settings.deny_topics)


def _follower(settings: ClusterSettings) -> BrokerLogFollower | None:
    if not settings.broker_log.paths:
        return None
    return BrokerLogFollower(settings.broker_log.paths, time_zone(settings.broker_log.time_zone))


def _partitions(settings: ClusterSettings, conf: dict[str, str]) -> Collection[int] | Callable[[int], bool] | None:
    read = settings.read
    if read.groups:
        count, _ = coordinators(conf)
        numbers = sorted({partition_of(group, count) for group in read.groups})
        log.info("reading partitions %s of %d", numbers, count)
        return numbers
    if read.shard is not None:
        shard = read.shard.on(socket.gethostname())
        log.info("reading shard %s", shard)
        return _in_shard(shard)
    return read.partitions


def _scope(read: ReadSettings) -> str:
    """Which partitions are read, as a part of a name; empty for all."""
    if read.shard is not None:
        shard = read.shard.on(socket.gethostname())
        return f"{shard.index}-of-{shard.count}"
    some = read.partitions or read.groups
    return f"some-{blake2b(repr(some).encode(), digest_size=6).hexdigest()}" if some else ""


def _in_shard(shard: Shard) -> Callable[[int], bool]:
    return lambda partition: partition % shard.count == shard.index


def _exports(settings: ClusterSettings, conf: dict[str, str]) -> Exports | None:
    history = settings.history
    if not history.on:
        return None
    spool = None
    if settings.state_dir is not None:
        spool = SpoolSettings(Path(settings.state_dir), settings.name or UNNAMED, history.spool_bytes)
    return Exports(_sinks(history, conf), spool=spool)


def _sample_interval_s(history: HistorySettings) -> float | None:
    return None if history.samples_ms is None else history.samples_ms / 1000


def _sinks(history: HistorySettings, conf: dict[str, str]) -> list[Sink]:
    sinks: list[Sink] = []
    if history.topic is not None:
        from agent.export.topic import TopicSink

        sinks.append(TopicSink(conf, history.topic, create=history.creates_topic))
    if history.parquet is not None:
        from agent.export.parquet import ParquetSink

        sinks.append(ParquetSink(history.parquet, roll_s=history.roll_ms / 1000))
    return sinks


def _store(settings: ClusterSettings, conf: dict[str, str]) -> OpenStore | None:
    place = settings.snapshots.place
    if place is None and settings.state_dir is not None:
        # Whoever gives the agent a place for files of its own wants it to begin where it ended.
        place = SnapshotPlace(directory=str(Path(settings.state_dir) / "snapshots" / (settings.name or UNNAMED)))
    if place is None:
        return None
    topic, directory = place.topic, place.directory

    def opened(cluster_id: str) -> Store:
        if topic is not None:
            from agent.snapshot.topic import TopicStore

            return TopicStore(conf, topic, cluster_id)
        from agent.snapshot.directory import DirectoryStore

        assert directory is not None, "a place is a directory or a topic"
        return DirectoryStore(directory)

    return opened
