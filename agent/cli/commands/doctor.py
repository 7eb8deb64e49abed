"""`kshadow doctor`: what the agent needs, tried."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import msgspec
from msgspec.structs import replace

from agent.cli.next_command import next_command
from agent.cli.options import (
    broker_config_option,
    broker_options,
    librdkafka_config,
    option,
    output_option,
    partitioner_option,
    typed,
)
from agent.cli.output import EXIT_UNREACHABLE, bold, echo, print_rows, printable
from agent.cli.tables import MIN_FOLDED_WIDTH, Column
from agent.config.options import PLACE, FloatRange, Parsed
from agent.config.values import parse_address, parse_snapshot_location

if TYPE_CHECKING:
    from agent.config.settings import ClusterSettings
    from agent.config.values import Address, SnapshotLocation
    from agent.tools.doctor import Check, DoctorRequest

_COLUMNS = {
    "check": Column("CHECK", folds=MIN_FOLDED_WIDTH),
    "on": Column("ON", folds=16),
    "outcome": Column("OUTCOME"),
    "found": Column("FOUND", folds=30),
}


@click.command()
@broker_options
@option(
    "--source",
    type=click.Choice(["topic", "admin"]),
    default="topic",
    help="Where the agent is to read groups from: the topic, or the Admin API.",
)
@option("--admin/--no-admin", default=True, help="Whether the agent is to observe groups.")
@option("--lag/--no-lag", default=True, help="Whether the agent is to know lag.")
@option("--kubernetes/--no-kubernetes", default=False, help="Whether the agent is to watch the members' pods.")
@option("--kubernetes-namespace", metavar="NAMESPACE", help="The one namespace that it is to watch.")
@option("--kubernetes-context", metavar="NAME", help="The context of the kubeconfig that it is to take.")
@option("--history-topic", metavar="NAME", help="The topic that the agent is to write the history to.")
@option(
    "--history-topic-create/--no-history-topic-create",
    default=True,
    help="Whether the agent is to make that topic.",
)
@option(
    "--snapshots",
    type=Parsed("DIR|kafka:TOPIC", parse_snapshot_location),
    help="Where the agent is to keep snapshots.",
)
@option("--state-dir", type=PLACE, help="Where the agent is to keep what must last.")
@option("--share-group", metavar="ID", help="The group by which agents are to share the partitions.")
@partitioner_option
@broker_config_option
@option(
    "--listen",
    type=Parsed("HOST:PORT", parse_address),
    default="127.0.0.1:9308",
    help="Where it is to serve.",
)
@option(
    "--timeout",
    type=FloatRange(0.5, 600),
    default=10,
    metavar="SECONDS",
    help="How long each answer may take.",
)
@option("--cluster", metavar="NAME", help="One of the configuration file's clusters, with all that stands there.")
@output_option()
@click.pass_context
def doctor(
    ctx: click.Context,
    bootstrap_server: str | None,
    properties: tuple[tuple[str, str], ...],
    command_config: Any,
    source: str,
    admin: bool,
    lag: bool,
    kubernetes: bool,
    kubernetes_namespace: str | None,
    kubernetes_context: str | None,
    history_topic: str | None,
    history_topic_create: bool,
    snapshots: SnapshotLocation | None,
    state_dir: str | None,
    share_group: str | None,
    group_partitioner: str,
    broker_config: tuple[tuple[str, str], ...],
    listen: Address,
    timeout: float,
    cluster: str | None,
    output: str,
) -> None:
    """Check connection, permissions, topic and clock: what works, and how to fix what does not.

    Takes the options that kshadow run is to be started with and tries what they need: names, connections, TLS, the
    login, every broker, each right by name, the topic's format, clocks, directories, the port. Writes nothing to the
    cluster. The last line is the command to run next. Exit code 3 if something that is needed fails; warnings do not
    count.

    \b
    Examples:
      kshadow doctor --bootstrap-server localhost:9092
      kshadow doctor --bootstrap-server localhost:9092 --no-admin --no-lag -o json
      kshadow doctor --bootstrap-server localhost:9092 --source admin
    """
    from agent.cli.data_source import source_errors_reported
    from agent.cli.run_settings import cluster_settings as settings_of_cluster
    from agent.config.resolving import NEEDS_BROKERS
    from agent.config.settings import (
        AdminSettings,
        ClusterSettings,
        GroupSource,
        HistorySettings,
        KubernetesSettings,
        LagSettings,
        PartitionerChoice,
        ReadSettings,
        SnapshotSettings,
    )
    from agent.tools.doctor import CheckOutcome, examine

    if source == GroupSource.ADMIN and (wrong := "--share-group" if share_group else "" if admin else "--no-admin"):
        raise click.UsageError(f"{wrong} goes with --source topic, and --source is admin")
    # Where the command line says which brokers, the file's clusters are of no account.
    cluster_settings = None if typed(ctx, "bootstrap_server") else settings_of_cluster(ctx, cluster)
    if cluster_settings is not None:
        conf = cluster_settings.conf
    elif bootstrap_server is None:
        raise click.UsageError(NEEDS_BROKERS)
    else:
        conf = librdkafka_config(bootstrap_server, properties)
        cluster_settings = ClusterSettings(
            read=ReadSettings(
                source=GroupSource(source),
                share_group=share_group,
                group_partitioner=PartitionerChoice(group_partitioner),
            ),
            state_dir=state_dir,
            broker_config=broker_config,
            snapshots=SnapshotSettings(location=snapshots),
            history=HistorySettings(topic=history_topic, create_topic=history_topic_create),
            admin=AdminSettings(enabled=admin),
            lag=LagSettings(enabled=lag),
            kubernetes=KubernetesSettings(
                enabled=kubernetes, namespace=kubernetes_namespace, context=kubernetes_context
            ),
        )
    wanted = _request(conf, cluster_settings)
    wanted = replace(wanted, listen=(listen.host, listen.port), timeout_s=timeout)
    with source_errors_reported():
        made: list[Check] = []
        print_rows(_noted(examine(wanted), made), output, _COLUMNS)
    has_failed = any(it.outcome is CheckOutcome.FAILED for it in made)
    if output == "table":
        _print_fixes(made)
        if has_failed:
            echo(f"\nNext, when that is mended: {printable(next_command(ctx, 'doctor'))}")
        else:
            run = next_command(ctx, "run", without=("timeout", "output", "cluster"))
            echo(f"\nAll that is needed works. Next: {printable(run)}")
    if has_failed:
        raise click.exceptions.Exit(EXIT_UNREACHABLE)


def _request(conf: Mapping[str, str], settings: ClusterSettings) -> DoctorRequest:
    from agent.tools.doctor import DoctorRequest

    place, state_dir = settings.snapshots.location, settings.state_dir
    directories = {"state": state_dir, "snapshots": None if place is None else place.directory}
    return DoctorRequest(
        conf,
        source=settings.read.source,
        observer=settings.admin.enabled,
        lag=settings.lag.enabled,
        share_lag=settings.lag.share,
        history_topic=settings.history.topic,
        history_topic_create=settings.history.create_topic,
        snapshot_topic=None if place is None else place.topic,
        share_group=settings.read.share_group,
        group_partitioner=str(settings.read.group_partitioner),
        broker_config=settings.broker_config,
        kubernetes=settings.kubernetes,
        directories={name: Path(it) for name, it in directories.items() if it is not None},
    )


def _noted(checks: Iterator[Check], made: list[Check]) -> Iterator[dict[str, Any]]:
    for check in checks:
        made.append(check)
        yield {**msgspec.to_builtins(check), "fix": list(check.fix)}


def _print_fixes(made: list[Check]) -> None:
    """What to do, unfolded: commands are there to be copied."""
    for it in made:
        if it.fix:
            echo("\n" + bold(printable(f"{it.check}, {it.on}: {it.outcome}")))
            for fix in it.fix:
                echo(f"  {printable(fix)}")
