"""An agent from its settings: what reads, keeps, exports and watches, put together and with the same life.

Owns which setting goes where. What a setting means, each part says itself.
"""

from __future__ import annotations

import logging
import socket
from collections.abc import Callable, Collection
from hashlib import blake2b
from pathlib import Path

from agent.config.settings import (
    ClusterSettings,
    GroupSource,
    HistorySettings,
    MetricsSettings,
    ReadSettings,
)
from agent.config.values import Shard, SnapshotLocation
from agent.core.protocol.hashing import partition_for_group
from agent.kafka.admin_api.observer import AdminObserver
from agent.kafka.source.brokerlog import BrokerLogFollower, time_zone
from agent.kafka.source.brokers import coordinators
from agent.persistence.export.pipeline import ExportPipeline, SpoolSettings
from agent.persistence.export.sinks import Sink
from agent.persistence.snapshot.store import SnapshotStore
from agent.runtime.admin_mode.agent import AdminAgent
from agent.runtime.agent import Agent
from agent.runtime.checkpointer import OpenStore
from agent.runtime.parts import AgentOptions, SharedGroup, Visibility, sample_interval_s
from agent.serving.metrics.compat import CompatOptions, Exporters
from agent.serving.metrics.limits import Limits
from analyzers.registry import parse_analyzer_names, select_analyzers

log = logging.getLogger("kshadow")

UNNAMED_CLUSTER = "default"
"""What a cluster without a name is called in the names of files and of replicas."""


AnyAgent = Agent | AdminAgent


def make_agent(settings: ClusterSettings) -> AnyAgent:
    """The agent that a cluster's settings ask for. Opens what lies on disk, and connects to nothing but to learn the
    partitions of `--group`. Raises `SourceError`, `ExportError`, `StoreError`."""
    visibility = Visibility(settings.read.groups or None, settings.filters)
    lag_interval_s = settings.lag.interval_ms / 1000 if settings.lag.enabled else None
    if settings.read.source is GroupSource.ADMIN:
        return AdminAgent(
            settings.conf,
            visibility=visibility,
            groups_per_s=settings.admin.groups_per_s,
            lag_interval_s=lag_interval_s,
        )
    conf, read = dict(settings.conf), settings.read
    options = AgentOptions(
        conf=conf,
        cluster=settings.name,
        partitions=_partitions(settings, conf),
        sharing=None if read.share_group is None else SharedGroup(read.share_group, read.share_instance_id),
        visibility=visibility,
        broker_log=_follower(settings),
        observer=AdminObserver(conf, groups_per_s=settings.admin.groups_per_s) if settings.admin.enabled else None,
        analyzers=select_analyzers(parse_analyzer_names(settings.analyzers.names), dict(settings.analyzers.tuning)),
        exports=_exports(settings, conf),
        open_store=_store(settings, conf),
        scope=_scope(read),
        snapshot_interval_s=settings.snapshots.interval_ms / 1000,
        sample_interval_s=sample_interval_s(settings.history),
        lag_interval_s=lag_interval_s,
        granularity=settings.metrics.granularity,
    )
    return Agent(options)


def limits_of(settings: MetricsSettings) -> Limits:
    """Which groups have series."""
    return Limits(settings.max_series, settings.expire_after_ms)


def compat_of(settings: ClusterSettings) -> CompatOptions:
    """Which other exporters' names its groups have."""
    return CompatOptions(tuple(Exporters(it) for it in settings.metrics.compat), settings.name or "")


def _follower(settings: ClusterSettings) -> BrokerLogFollower | None:
    if not settings.broker_log.paths:
        return None
    return BrokerLogFollower(settings.broker_log.paths, time_zone(settings.broker_log.time_zone))


def _partitions(settings: ClusterSettings, conf: dict[str, str]) -> Collection[int] | Callable[[int], bool] | None:
    read = settings.read
    if read.groups:
        count, _ = coordinators(conf)
        numbers = sorted({partition_for_group(group, count) for group in read.groups})
        log.info("reading partitions %s of %d", numbers, count)
        return numbers
    if read.shard is not None:
        shard = read.shard.resolve(socket.gethostname())
        log.info("reading shard %s", shard)
        return _in_shard(shard)
    return read.partitions


def _scope(read: ReadSettings) -> str:
    """Which partitions are read, as a part of a name; empty for all."""
    if read.shard is not None:
        shard = read.shard.resolve(socket.gethostname())
        return f"{shard.index}-of-{shard.count}"
    some = read.partitions or read.groups
    return f"some-{blake2b(repr(some).encode(), digest_size=6).hexdigest()}" if some else ""


def _in_shard(shard: Shard) -> Callable[[int], bool]:
    return lambda partition: partition % shard.count == shard.index


def _exports(settings: ClusterSettings, conf: dict[str, str]) -> ExportPipeline | None:
    history = settings.history
    if not history.enabled:
        return None
    spool = None
    if settings.state_dir is not None:
        spool = SpoolSettings(Path(settings.state_dir), settings.name or UNNAMED_CLUSTER, history.spool_bytes)
    return ExportPipeline(_sinks(history, conf), spool=spool)


def _sinks(history: HistorySettings, conf: dict[str, str]) -> list[Sink]:
    sinks: list[Sink] = []
    if history.topic is not None:
        from agent.persistence.export.topic_sink import TopicSink

        sinks.append(TopicSink(conf, history.topic, create=history.create_topic))
    if history.parquet is not None:
        from agent.persistence.export.parquet_sink import ParquetSink

        sinks.append(ParquetSink(history.parquet, roll_s=history.roll_ms / 1000))
    return sinks


def _store(settings: ClusterSettings, conf: dict[str, str]) -> OpenStore | None:
    place = settings.snapshots.location
    if place is None and settings.state_dir is not None:
        # Whoever gives the agent a place for files of its own wants it to begin where it ended.
        place = SnapshotLocation(
            directory=str(Path(settings.state_dir) / "snapshots" / (settings.name or UNNAMED_CLUSTER))
        )
    if place is None:
        return None
    topic, directory = place.topic, place.directory

    def opened(cluster_id: str) -> SnapshotStore:
        if topic is not None:
            from agent.persistence.snapshot.topic_store import TopicStore

            return TopicStore(conf, topic, cluster_id)
        from agent.persistence.snapshot.directory_store import DirectoryStore

        assert directory is not None, "a place is a directory or a topic"
        return DirectoryStore(directory)

    return opened
