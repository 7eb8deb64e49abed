"""Everything that `kshadow run` can be told: each field of these classes is one option, with all that is known of it.

To add an option, add a field here and use it where it takes effect: click's options, the keys of the file, `config
show`, docs/reference/options.md, the chart's schema and what a reload may change follow from the field. The order of
the fields is that of the help.
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from enum import StrEnum
from typing import Any, get_type_hints

import click

from agent.config.command_config import CommandConfig
from agent.config.filters import check_pattern, check_topic_pattern
from agent.config.options import (
    ANALYZERS,
    BOOTSTRAP_SERVER,
    BROKER_CONFIG,
    BROKER_LOG,
    BROKER_LOG_TIMEZONE,
    COMMAND_CONFIG,
    GROUP_PARTITIONER,
    PLACE,
    PROPERTY,
    TUNE,
    FloatRange,
    MinDuration,
    OptionSpec,
    Parsed,
    Place,
    Size,
)
from agent.config.values import (
    Address,
    OtlpEndpoint,
    Shard,
    SnapshotLocation,
    check_allowed_host,
    parse_address,
    parse_cluster,
    parse_otlp_endpoint,
    parse_partitions,
    parse_shard,
    parse_size,
    parse_snapshot_location,
    parse_topic,
)

SPEC = "spec"
"""Key of a field's metadata: its `OptionSpec`."""


def option(*flags: str, help: str, **attributes: Any) -> Any:
    """A field for an option. The attributes are those of `OptionSpec`."""
    return _field(OptionSpec(flags, help, **attributes))


def _field(spec: OptionSpec) -> Any:
    return field(default=spec.typed_default, metadata={SPEC: spec}, repr=not spec.secret)


def options_of(settings: type[Any]) -> dict[str, OptionSpec]:
    """The options that a class of settings holds, those of classes within it included, by name."""
    hints = get_type_hints(settings)
    out: dict[str, OptionSpec] = {}
    for it in fields(settings):
        out |= {it.metadata[SPEC].name: it.metadata[SPEC]} if SPEC in it.metadata else options_of(hints[it.name])
    return out


class GroupSource(StrEnum):
    """Where groups are read from: the topic, or, where that is not to be had, the Admin API alone."""

    TOPIC = "topic"
    ADMIN = "admin"


class PartitionerChoice(StrEnum):
    """By which hash a group has its partition: Kafka's or Redpanda's, or the one that is seen to hold."""

    AUTO = "auto"
    KAFKA = "kafka"
    REDPANDA = "redpanda"


class Granularity(StrEnum):
    """How fine the metrics of a group are: sums over the group, each topic, or each partition."""

    GROUP = "group"
    TOPIC = "topic"
    PARTITION = "partition"


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadSettings:
    """What of the topic is read. At most one of groups, partitions, shard and share group is given; else all."""

    source: GroupSource = option(
        "--source",
        type=click.Choice(["topic", "admin"]),
        default="topic",
        help="Where groups are read from: the topic, or the Admin API if you may not read the topic.",
    )
    groups: tuple[str, ...] = option(
        "--group",
        parameter="groups",
        multiple=True,
        help="Read only the partitions that hold these groups, as a sidecar does. Repeatable.",
    )
    group_partitioner: PartitionerChoice = _field(GROUP_PARTITIONER)
    partitions: tuple[int, ...] | None = option(
        "--partitions",
        type=Parsed("0-24,30", parse_partitions),
        help="Read only these partitions of the topic.",
    )
    shard: Shard | None = option(
        "--shard",
        type=Parsed("I/N", parse_shard),
        help="Read one of N equal shares of the partitions, counted from 0; auto/N takes the "
        "number at the end of the host's name, as in a StatefulSet.",
        chart="chart",
    )
    share_group: str | None = option(
        "--share-group",
        metavar="ID",
        help="Share the partitions with the other agents of this consumer group; needs Read on that group.",
    )
    share_instance_id: str | None = option(
        "--share-instance-id",
        metavar="ID",
        goes_with=("share-group",),
        help="This agent's group.instance.id in the --share-group.",
    )
    workers: int | None = option(
        "--workers",
        type=click.IntRange(1),
        metavar="N",
        help="Processes that share the partitions until the topic's end is reached first "
        "[half of the processors, where there is enough to read].",
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerLogSettings:
    """The brokers' own logs, and the zone of their times."""

    paths: tuple[str, ...] = _field(BROKER_LOG)
    time_zone: str = _field(BROKER_LOG_TIMEZONE)


@dataclass(frozen=True, slots=True, kw_only=True)
class KubernetesSettings:
    """Whether the pods of members are looked up, and where."""

    enabled: bool = option(
        "--kubernetes/--no-kubernetes",
        default=False,
        help="Watch pods, and what makes and removes them, to say why members left and joined; in a pod by its "
        "service account, elsewhere by a kubeconfig. Needs kshadow[kubernetes].",
        chart="chart, or a cluster",
    )
    namespace: str | None = option(
        "--kubernetes-namespace",
        metavar="NAMESPACE",
        goes_with=("kubernetes",),
        help="Watch only this namespace; nodes lie in none.",
        chart="chart, or a cluster",
    )
    context: str | None = option(
        "--kubernetes-context",
        metavar="NAME",
        goes_with=("kubernetes",),
        help="The context of the kubeconfig that names the cluster.",
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotSettings:
    """Where the state is kept for the next start (None: nowhere), and how often."""

    location: SnapshotLocation | None = option(
        "--snapshots",
        type=Parsed("DIR|kafka:TOPIC", parse_snapshot_location),
        help="Where snapshots of the state are saved, a directory or a topic, so that the next "
        "start reads only newer records.",
    )
    interval_ms: int = option(
        "--snapshot-interval",
        type=MinDuration("1s"),
        default="60s",
        goes_with=("snapshots", "state-dir"),
        help="How often a snapshot is saved; less often where that takes more than a tenth of a core.",
    )

    @property
    def interval_s(self) -> float:
        """The same in seconds."""
        return self.interval_ms / 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class HistorySettings:
    """Where events go. `spool_bytes` bounds those that wait in the state directory while a sink is away.

    `samples_ms`: how often a sample of each group goes with them, None for never.
    """

    topic: str | None = option(
        "--history-topic",
        type=Parsed("TOPIC", parse_topic),
        help="The topic of the cluster to which every event is written.",
    )
    create_topic: bool = option(
        "--history-topic-create/--no-history-topic-create",
        default=True,
        goes_with=("history-topic",),
        help="Create that topic if it does not exist.",
    )
    parquet: str | None = option(
        "--history-parquet",
        type=PLACE,
        metavar="URL",
        help="The directory or URL to which events are written as Parquet.",
        secret=True,
    )
    roll_ms: int = option(
        "--history-roll",
        type=MinDuration("1s"),
        default="5m",
        goes_with=("history-parquet",),
        help="How long events go to one file.",
    )
    otlp: OtlpEndpoint | None = option(
        "--otlp",
        type=Parsed("ENDPOINT", parse_otlp_endpoint),
        help="The OTLP receiver to which events are sent as log records, and the metrics of "
        "/metrics: http://HOST:4318 or grpc://HOST:4317, with TLS https and grpcs. Headers, "
        "certificates and timeouts: OTEL_EXPORTER_OTLP_*.",
    )
    otlp_interval_ms: int = option(
        "--otlp-interval",
        type=MinDuration("1s"),
        default="60s",
        goes_with=("otlp",),
        help="How often the metrics are sent.",
    )
    samples_ms: int | None = option(
        "--history-samples",
        type=MinDuration("10s"),
        goes_with=("history-topic", "history-parquet", "otlp"),
        help="How often the state, members and lag of each group are written as group_sample "
        "events; at least 10s. Never by default.",
        live=True,
    )
    spool_bytes: int = option(
        "--spool-size",
        type=Size("SIZE", parse_size),
        default="1GiB",
        goes_with=("state-dir",),
        help="The most bytes of events that wait in the --state-dir while they cannot be written.",
    )

    @property
    def samples_s(self) -> float | None:
        """How often each group is sampled, in seconds; None for never."""
        return None if self.samples_ms is None else self.samples_ms / 1000

    @property
    def enabled(self) -> bool:
        """Whether events go anywhere."""
        return self.topic is not None or self.parquet is not None or self.otlp is not None


@dataclass(frozen=True, slots=True, kw_only=True)
class AdminSettings:
    """What is asked of the Admin API: whether at all, and how many groups a second are described at most; where it is
    all there is (`--source admin`), how many requests a second."""

    enabled: bool = option(
        "--admin/--no-admin",
        default=True,
        help="Observe groups through the Admin API: times join phases, and compares the mirror with the brokers.",
    )
    groups_per_s: float = option(
        "--admin-rate",
        type=FloatRange(0.1, 1000),
        default=20,
        metavar="GROUPS",
        goes_with=("admin",),
        help="The most groups per second that the brokers are asked to describe.",
        live=True,
    )
    requests_per_s: float = option(
        "--admin-requests-per-second",
        type=FloatRange(1, 10_000),
        default=50,
        metavar="REQUESTS",
        help="With --source admin: the most requests per second to all brokers together.",
        live=True,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class LagSettings:
    """Whether the ends of the groups' partitions are asked for, and how often."""

    enabled: bool = option(
        "--lag/--no-lag",
        default=True,
        help="Request the end offsets of the groups' partitions, for their lag; needs Describe on their topics.",
    )
    interval_ms: int = option(
        "--lag-interval",
        type=MinDuration("1s"),
        default="30s",
        goes_with=("lag",),
        help="How often end offsets are requested.",
        live=True,
    )

    share: bool = option(
        "--share-lag/--no-share-lag",
        default=True,
        goes_with=("lag",),
        help="If there are share groups, read __share_group_state for their positions and lag; "
        "needs Read and Describe on it.",
    )

    @property
    def interval_s(self) -> float | None:
        """How often the ends are asked for, in seconds; None for never."""
        return self.interval_ms / 1000 if self.enabled else None


@dataclass(frozen=True, slots=True, kw_only=True)
class AnalyzerSettings:
    """Which analyzers run: `all`, `none` or names with commas; and `analyzer.setting` with its value."""

    names: str = _field(ANALYZERS)
    tuning: tuple[tuple[str, str], ...] = _field(TUNE)


def _patterns(flag: str, parameter: str, help: str) -> Any:
    kind = Parsed("PATTERN", check_pattern if "group" in flag else check_topic_pattern, keeps_text=True)
    more = (
        "a name, or /a regular expression/ (RE2) that matches the whole name. Repeatable; separated in the variable "
        "by blanks."
    )
    return option(flag, parameter=parameter, type=kind, multiple=True, help=f"{help} {more}", live=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class FilterSettings:
    """Patterns as `agent.config.filters` reads them."""

    allow_groups: tuple[str, ...] = _patterns("--allow-group", "allow_groups", "Show and export only these groups:")
    deny_groups: tuple[str, ...] = _patterns("--deny-group", "deny_groups", "Exclude these, even if allowed:")
    allow_topics: tuple[str, ...] = _patterns("--allow-topic", "allow_topics", "Show and export only these topics:")
    deny_topics: tuple[str, ...] = _patterns("--deny-topic", "deny_topics", "Exclude these, even if allowed:")


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricsSettings:
    """How many series there are: how fine, how many at most, and when a dead group's go (None: never); and the other
    exporters whose names groups have as well."""

    granularity: Granularity = option(
        "--granularity",
        type=click.Choice(["group", "topic", "partition"]),
        default="topic",
        help="The granularity of a group's metrics.",
        live=True,
    )
    max_series: int = option(
        "--max-series",
        type=click.IntRange(1),
        default=500_000,
        metavar="N",
        help="The most time series; groups beyond it are left out, and counted.",
        live=True,
    )
    expire_after_ms: int | None = option(
        "--expire-after",
        type=MinDuration("1m", never=True),
        default="7d",
        help="When the series of a group without members and commits end; or never.",
        live=True,
    )
    compat: tuple[str, ...] = option(
        "--compat-metrics",
        type=click.Choice(["burrow", "kafka_exporter", "kafka-lag-exporter", "kminion"]),
        multiple=True,
        help="Also export metrics under the names of this exporter, for its dashboards and alerts. "
        "Repeatable; separated in the variable by blanks.",
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterSettings:
    """One cluster: how it is reached, what is read of it, and what is made of that.

    `name` is None where one cluster is read and nobody named it. `properties` are librdkafka's, `bootstrap.servers`
    apart; they win over the `command_config`. Among both are passwords.
    """

    name: str | None = option(
        "--cluster",
        type=Parsed("NAME", parse_cluster),
        help="Your name for the cluster: a field of its events, and a label if several clusters are read.",
    )
    bootstrap_server: str = _field(BOOTSTRAP_SERVER)
    command_config: CommandConfig | None = _field(COMMAND_CONFIG)
    properties: tuple[tuple[str, str], ...] = _field(PROPERTY)
    read: ReadSettings = ReadSettings()
    broker_log: BrokerLogSettings = BrokerLogSettings()
    broker_config: tuple[tuple[str, str], ...] = _field(BROKER_CONFIG)
    kubernetes: KubernetesSettings = KubernetesSettings()
    state_dir: str | None = option(
        "--state-dir",
        type=Place(file_okay=False),
        metavar="DIR",
        help="The directory of the agent's own files.",
        chart="chart",
    )
    snapshots: SnapshotSettings = SnapshotSettings()
    history: HistorySettings = HistorySettings()
    admin: AdminSettings = AdminSettings()
    lag: LagSettings = LagSettings()
    analyzers: AnalyzerSettings = AnalyzerSettings()
    filters: FilterSettings = FilterSettings()
    metrics: MetricsSettings = MetricsSettings()

    @property
    def conf(self) -> dict[str, str]:
        """librdkafka's configuration."""
        given = dict(self.properties)
        file = given if self.command_config is None else self.command_config.merged_with(given)
        return {**file, "bootstrap.servers": self.bootstrap_server, **given}


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessSettings:
    """How the process lives: whether it outlives a cluster that cannot be read."""

    keep_trying: bool = option(
        "--keep-trying/--no-keep-trying",
        default=False,
        help="Retry instead of ending if no broker is reached or a right is missing; /readyz has "
        "the reason. For sidecars, which must not end before their pod. Always on with "
        "several clusters.",
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpSettings:
    """The web server: where it listens, by which names, and the file of certificates and users."""

    listen: Address = option(
        "--listen",
        type=Parsed("HOST:PORT", parse_address),
        default="127.0.0.1:9308",
        help="The address to serve HTTP on.",
        chart="chart",
    )
    web_config: str | None = option(
        "--web-config",
        type=Place(dir_okay=False),
        metavar="FILE",
        help="TLS and users of the web server, in the format of Prometheus' exporters.",
        live=True,
        chart="chart",
    )
    allowed_hosts: tuple[str, ...] = option(
        "--allowed-host",
        parameter="allowed_hosts",
        type=Parsed("NAME", check_allowed_host, keeps_text=True),
        multiple=True,
        help="Answer requests only to this host name (*.NAME for those below it, * for any), to localhost and to IP "
        "addresses; others get 421. By default any, or none if --listen is a loopback address. Repeatable; separated "
        "in the variable by blanks.",
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class LogSettings:
    """The agent's own log: `text` or `json`; debug, info, warning or error."""

    format: str = option(
        "--log-format", type=click.Choice(["text", "json"]), default="text", help="The format of the log."
    )
    level: str = option(
        "--log-level",
        type=click.Choice(["debug", "info", "warning", "error"]),
        default="info",
        help="The least level that is logged.",
        live=True,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class RunSettings:
    """All of `kshadow run`. `warnings` say what is allowed but perhaps not meant, a sentence each."""

    clusters: tuple[ClusterSettings, ...]
    process: ProcessSettings
    http: HttpSettings
    log: LogSettings
    warnings: tuple[str, ...] = ()


OF_CLUSTER = options_of(ClusterSettings)
PLAIN_CLUSTER = ClusterSettings(
    lag=LagSettings(enabled=False), metrics=MetricsSettings(granularity=Granularity.TOPIC)
)
"""For agents that are made without settings: everything is at its default, and no lag is asked for."""
PER_CLUSTER = frozenset(OF_CLUSTER) - {"cluster"}
"""Options that may differ by cluster."""
OPTIONS = OF_CLUSTER | options_of(ProcessSettings) | options_of(HttpSettings) | options_of(LogSettings)
"""Every option of `kshadow run` by its name, in the order of the help."""
PER_PROCESS = OPTIONS.keys() - OF_CLUSTER.keys()
"""Options that cannot differ by cluster."""
