"""Everything that the agent can be told, as plain values: one field an option. Pure.

Each field names its option (which is also its key in the file, and its variable), and whether a change of it takes
effect while the agent runs. Defaults, types and help stand with the options themselves, in `agent.cli.run_options`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from enum import StrEnum
from typing import Any, get_type_hints

from agent.config.commandconfig import CommandConfig

LIVE = "live"
OPTION = "option"
"""Keys of a field's metadata."""


def option(name: str, *, live: bool = False, shown: bool = True) -> Any:
    """A field that is told by `--name`. `live`: can change while the agent runs. Not `shown`: may hold a secret."""
    return field(metadata={OPTION: name, LIVE: live}, repr=shown)


def options_of(settings: type[Any]) -> dict[str, bool]:
    """The options that a class of settings holds, those within it included, and whether each can change live."""
    hints = get_type_hints(settings)
    out: dict[str, bool] = {}
    for it in fields(settings):
        if OPTION in it.metadata:
            out[it.metadata[OPTION]] = it.metadata[LIVE]
        else:
            out |= options_of(hints[it.name])
    return out


class Granularity(StrEnum):
    """How fine the metrics of a group are: sums over the group, each topic, or each partition."""

    GROUP = "group"
    TOPIC = "topic"
    PARTITION = "partition"


class Source(StrEnum):
    """Where groups are read from: the topic, or, where that is not to be had, the Admin API alone."""

    TOPIC = "topic"
    ADMIN = "admin"


@dataclass(frozen=True, slots=True)
class Address:
    """Where to listen. The host is an address or a name, `::` every address; port 0 is any free one."""

    host: str
    port: int


@dataclass(frozen=True, slots=True)
class Shard:
    """One of `count` agents that share the partitions out: 0-based, None where the host's name tells which."""

    index: int | None
    count: int

    def __str__(self) -> str:
        return f"{'auto' if self.index is None else self.index}/{self.count}"

    def on(self, hostname: str) -> Shard:
        """As it is on this host. Raises `ValueError` where the host's name tells no shard of these."""
        if self.index is not None:
            return self
        name = hostname.split(".")[0]
        digits = name[len(name.rstrip("0123456789")) :]
        if not digits or len(digits) > 9 or int(digits) >= self.count:
            raise ValueError(
                f"shard {self}: a host name that ends in a number below {self.count} expected, {hostname!r} came"
            )
        return Shard(int(digits), self.count)


@dataclass(frozen=True, slots=True)
class SnapshotPlace:
    """Where snapshots are kept: a directory, or a topic of the cluster that is read. One of the two."""

    directory: str | None = None
    topic: str | None = None

    def __str__(self) -> str:
        return str(self.directory) if self.topic is None else f"kafka:{self.topic}"


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadSettings:
    """What of the topic is read. At most one of groups, partitions, shard and share group is given; else all."""

    source: Source = option("source")
    groups: tuple[str, ...] = option("group")
    partitions: tuple[int, ...] | None = option("partitions")
    shard: Shard | None = option("shard")
    share_group: str | None = option("share-group")
    share_instance_id: str | None = option("share-instance-id")


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerLogSettings:
    """The brokers' own logs, and the zone of their times."""

    paths: tuple[str, ...] = option("broker-log")
    time_zone: str = option("broker-log-timezone")


@dataclass(frozen=True, slots=True, kw_only=True)
class AnalyzerSettings:
    """Which analyzers run: `all`, `none` or names with commas; and `analyzer.setting` with its value."""

    names: str = option("analyzers")
    tuned: tuple[tuple[str, str], ...] = option("tune")


@dataclass(frozen=True, slots=True, kw_only=True)
class AdminSettings:
    """What is asked of the Admin API: whether at all, and how many groups a second are described at most."""

    on: bool = option("admin")
    groups_per_s: float = option("admin-rate", live=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotSettings:
    """Where the state is kept for the next start (None: nowhere), and how often."""

    place: SnapshotPlace | None = option("snapshots")
    interval_ms: int = option("snapshot-interval")


@dataclass(frozen=True, slots=True, kw_only=True)
class HistorySettings:
    """Where events go. `spool_bytes` bounds those that wait in the state directory while a sink is away.

    `samples_ms`: how often a sample of each group goes with them, None for never.
    """

    topic: str | None = option("history-topic")
    creates_topic: bool = option("history-topic-create")
    parquet: str | None = option("history-parquet", shown=False)
    roll_ms: int = option("history-roll")
    samples_ms: int | None = option("history-samples", live=True)
    spool_bytes: int = option("spool-size")

    @property
    def on(self) -> bool:
        """Whether events go anywhere."""
        return self.topic is not None or self.parquet is not None


@dataclass(frozen=True, slots=True, kw_only=True)
class LagSettings:
    """Whether the ends of the groups' partitions are asked for, and how often."""

    on: bool = option("lag")
    interval_ms: int = option("lag-interval", live=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class FilterSettings:
    """Patterns as `agent.config.filters` reads them."""

    allow_groups: tuple[str, ...] = option("allow-group", live=True)
    deny_groups: tuple[str, ...] = option("deny-group", live=True)
    allow_topics: tuple[str, ...] = option("allow-topic", live=True)
    deny_topics: tuple[str, ...] = option("deny-topic", live=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricsSettings:
    """How many series there are: how fine, how many at most, and when a dead group's go (None: never); and the other
    exporters whose names groups have as well."""

    granularity: Granularity = option("granularity", live=True)
    max_series: int = option("max-series", live=True)
    expire_after_ms: int | None = option("expire-after", live=True)
    compat: tuple[str, ...] = option("compat-metrics")


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterSettings:
    """One cluster: how it is reached, what is read of it, and what is made of that.

    `name` is None where one cluster is read and nobody named it. `properties` are librdkafka's, `bootstrap.servers`
    apart; they win over the `command_config`. Among both are passwords.
    """

    name: str | None = option("cluster")
    bootstrap_server: str = option("bootstrap-server")
    command_config: CommandConfig | None = option("command-config", shown=False)
    properties: tuple[tuple[str, str], ...] = option("property", shown=False)
    state_dir: str | None = option("state-dir")
    read: ReadSettings
    broker_log: BrokerLogSettings
    analyzers: AnalyzerSettings
    admin: AdminSettings
    snapshots: SnapshotSettings
    history: HistorySettings
    lag: LagSettings
    filters: FilterSettings
    metrics: MetricsSettings

    @property
    def conf(self) -> Mapping[str, str]:
        """librdkafka's configuration."""
        given = dict(self.properties)
        file = given if self.command_config is None else self.command_config.beside(given)
        return {**file, "bootstrap.servers": self.bootstrap_server, **given}


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessSettings:
    """How the process lives: whether it outlives a cluster that cannot be read."""

    keeps_trying: bool = option("keep-trying")


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpSettings:
    """The web server: where it listens, and the file that says with which certificate and for whom."""

    listen: Address = option("listen")
    web_config: str | None = option("web-config", live=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class LogSettings:
    """The agent's own log: `text` or `json`; debug, info, warning or error."""

    format: str = option("log-format")
    level: str = option("log-level", live=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class RunSettings:
    """All of `kshadow run`. `warnings` say what is allowed but perhaps not meant, a sentence each."""

    clusters: tuple[ClusterSettings, ...]
    process: ProcessSettings
    http: HttpSettings
    log: LogSettings
    warnings: tuple[str, ...] = ()
