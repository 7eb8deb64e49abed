"""`kshadow coordinator`: which partition, and so which broker, a group belongs to."""

from __future__ import annotations

from typing import Any

import click

from agent.cli.options import broker_options, librdkafka_config, option, output_option, strongest_given
from agent.cli.output import print_rows, print_value
from agent.cli.tables import MIN_FOLDED_WIDTH, Column


@click.command()
@click.argument("group")
@broker_options
@option(
    "--offsets-partitions",
    type=click.IntRange(min=1),
    help="Partitions of __consumer_offsets, where no broker is asked [50, Kafka's default].",
)
@output_option()
@click.pass_context
def coordinator(
    ctx: click.Context,
    group: str,
    bootstrap_server: str | None,
    properties: tuple[tuple[str, str], ...],
    command_config: Any,
    offsets_partitions: int | None,
    output: str,
) -> None:
    """Show the partition and broker that own a group.

    The partition follows from the group's name; the broker that leads it is the group's coordinator, and is
    known only where a broker is asked.

    \b
    Examples:
      kshadow coordinator payments
      kshadow coordinator payments --bootstrap-server localhost:9092
    """
    from agent.core.protocol.hashing import OFFSETS_PARTITIONS, partition_for_group

    given = strongest_given(ctx, "bootstrap_server", "offsets_partitions")
    if len(given) > 1:
        raise click.UsageError("--offsets-partitions is for where no broker is asked; the broker knows")
    leader: dict[str, Any] = {"broker_id": None, "host": None, "port": None}
    partitions = offsets_partitions or OFFSETS_PARTITIONS
    if bootstrap_server is not None and given == ["bootstrap_server"]:
        from agent.cli.data_source import source_errors_reported
        from agent.kafka.source.brokers import coordinators

        with source_errors_reported():
            partitions, brokers = coordinators(librdkafka_config(bootstrap_server, properties))
        broker = brokers.get(partition_for_group(group, partitions))
        if broker is not None:
            leader = {"broker_id": broker.id, "host": broker.host, "port": broker.port}
    form = {"group": group, "partition": partition_for_group(group, partitions), "partitions": partitions, **leader}
    if output == "table":
        columns = {
            "group": Column("GROUP", folds=MIN_FOLDED_WIDTH),
            "partition": Column("PARTITION"),
            "partitions": Column("OF"),
            "broker_id": Column("BROKER"),
            "host": Column("HOST", folds=MIN_FOLDED_WIDTH),
            "port": Column("PORT"),
        }
        print_rows([form], output, columns)
    else:
        print_value(form, output)
