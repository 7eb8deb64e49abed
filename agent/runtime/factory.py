"""An agent from its settings: what reads, keeps, exports and watches, put together and with the same life.

Owns which setting goes where. What a setting means, each part says itself.
"""

from __future__ import annotations

import logging
import socket
from collections.abc import Callable, Collection
from hashlib import blake2b
from pathlib import Path
from typing import TYPE_CHECKING

from agent.config.settings import (
    BrokerLogSettings,
    ClusterSettings,
    GroupSource,
    KubernetesSettings,
    PartitionerChoice,
    ReadSettings,
)
from agent.config.values import Shard, SnapshotLocation
from agent.core.protocol.hashing import GroupPartitioner
from agent.kafka.admin_api.observer import AdminObserver
from agent.kafka.source.errors import SourceMisconfigured
from agent.kafka.source.group_locator import GroupLocator, locate_groups
from agent.kubernetes.errors import KubernetesMisconfigured
from agent.persistence.export.pipeline import ExportPipeline, SpoolSettings
from agent.persistence.export.sinks import Sink
from agent.persistence.snapshot.store import SnapshotStore
from agent.runtime.agent import Agent
from agent.runtime.checkpointer import OpenStore
from agent.runtime.parts import AgentOptions, Visibility
from agent.serving.metrics.compat import CompatOptions, Exporters
from analyzers.registry import parse_analyzer_names, select_analyzers

if TYPE_CHECKING:
    from agent.kafka.source.brokerlog import BrokerLogFollower
    from agent.kubernetes.watcher import KubernetesWatcher

log = logging.getLogger("kshadow")

UNNAMED_CLUSTER = "default"
"""What a cluster without a name is called in the names of files and of replicas."""


def make_agent(settings: ClusterSettings, kubernetes: KubernetesWatcher | None = None) -> Agent:
    """The agent that a cluster's settings ask for; `kubernetes` is what `make_watcher` gives for them. Opens what
    lies on disk, and connects to nothing but to learn the partitions of `--group`. Raises `SourceError`,
    `ExportError`, `StoreError`."""
    visibility = Visibility(settings.read.groups or None, settings.filters)
    rate = settings.admin.groups_per_s
    is_sampled = settings.read.source is GroupSource.ADMIN
    analyzers = select_analyzers(parse_analyzer_names(settings.analyzers.names), dict(settings.analyzers.tuning))
    if is_sampled:
        # What spans partitions of the topic is not to be seen where the topic is not.
        analyzers = analyzers._replace(cluster_analyzers=())
    located = _locate(settings)
    partitioner = _told_partitioner(settings.read) if located is None else located.partitioner
    options = AgentOptions(
        conf=settings.conf,
        settings=settings,
        partitions=_partitions(settings.read) if located is None else located.partitions_of(settings.read.groups),
        partitioner=partitioner,
        visibility=visibility,
        broker_log=_follower(settings.broker_log),
        observer=AdminObserver(settings.conf, groups_per_s=rate, partitioner=partitioner)
        if settings.admin.enabled and not is_sampled
        else None,
        origin_source=None if kubernetes is None else kubernetes.evidence,
        kubernetes=kubernetes,
        analyzers=analyzers,
        exports=_exports(settings),
        open_store=_store(settings),
        scope=_scope(settings.read),
    )
    return Agent(options)


def make_watcher(settings: KubernetesSettings) -> KubernetesWatcher | None:
    """What watches the members' pods; None where nobody asked for it. Connects to nothing yet. Raises
    `KubernetesMisconfigured`."""
    if not settings.enabled:
        return None
    try:
        from agent.kubernetes.connection import find_connection
        from agent.kubernetes.watcher import KubernetesWatcher
    except ImportError as error:
        raise KubernetesMisconfigured(
            f"--kubernetes needs a client of the API server ({error}): pip install 'kshadow[kubernetes]'"
        ) from error
    return KubernetesWatcher(find_connection(settings.context), settings.namespace)


def compat_of(settings: ClusterSettings) -> CompatOptions:
    """Which other exporters' names its groups have."""
    return CompatOptions(tuple(Exporters(it) for it in settings.metrics.compat), settings.name or "")


def _follower(settings: BrokerLogSettings) -> BrokerLogFollower | None:
    if not settings.paths:
        return None
    from agent.kafka.source.brokerlog import BrokerLogFollower
    from agent.kafka.source.time_zones import time_zone

    return BrokerLogFollower(settings.paths, time_zone(settings.time_zone))


def _told_partitioner(read: ReadSettings) -> GroupPartitioner | None:
    is_told = read.group_partitioner is not PartitionerChoice.AUTO
    return GroupPartitioner(read.group_partitioner) if is_told else None


def _locate(settings: ClusterSettings) -> GroupLocator | None:
    """Where the groups are that are to be read; None where all of the partitions' are."""
    read = settings.read
    if not read.groups or read.source is GroupSource.ADMIN:
        return None
    found = locate_groups(settings.conf, read.group_partitioner)
    say = log.info if found.partitioner is not None else log.warning
    numbers = found.partitions_of(read.groups)
    say("reading partitions %s of %d; groups are placed %s", numbers, found.partitions, found.describe())
    return found


def _partitions(read: ReadSettings) -> Collection[int] | Callable[[int], bool] | None:
    if read.shard is not None:
        shard = _resolved(read.shard)
        log.info("reading shard %s", shard)
        return lambda partition: partition % shard.count == shard.index
    return read.partitions


def _resolved(shard: Shard) -> Shard:
    """The shard of this host. Raises `SourceMisconfigured`."""
    try:
        return shard.resolve(socket.gethostname())
    except ValueError as error:
        raise SourceMisconfigured(f"--shard: {error}") from None


def _scope(read: ReadSettings) -> str:
    """Which partitions are read, as a part of a name; empty for all."""
    if read.shard is not None:
        shard = _resolved(read.shard)
        return f"{shard.index}-of-{shard.count}"
    some = read.partitions or read.groups
    return f"some-{blake2b(repr(some).encode(), digest_size=6).hexdigest()}" if some else ""


def _exports(settings: ClusterSettings) -> ExportPipeline | None:
    history = settings.history
    if not history.enabled:
        return None
    sinks: list[Sink] = []
    if history.topic is not None:
        from agent.persistence.export.topic_sink import TopicSink

        sinks.append(TopicSink(settings.conf, history.topic, create=history.create_topic))
    if history.parquet is not None:
        from agent.persistence.export.parquet_sink import ParquetSink

        sinks.append(ParquetSink(history.parquet, roll_s=history.roll_ms / 1000))
    if history.otlp is not None:
        from agent.persistence.export.otlp_sink import OtlpSink

        sinks.append(OtlpSink(history.otlp, settings.name))
    spool = None
    if settings.state_dir is not None:
        spool = SpoolSettings(Path(settings.state_dir), settings.name or UNNAMED_CLUSTER, history.spool_bytes)
    return ExportPipeline(sinks, spool=spool)


def _store(settings: ClusterSettings) -> OpenStore | None:
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

            return TopicStore(settings.conf, topic, cluster_id)
        from agent.persistence.snapshot.directory_store import DirectoryStore

        assert directory is not None, "a place is a directory or a topic"
        return DirectoryStore(directory)

    return opened
