"""`kshadow coordinator`: which partition, and so which broker, a group belongs to."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import click

from agent.cli.data_source import check_source_options, open_source, source_errors_reported
from agent.cli.options import (
    SOURCES,
    exactly_one_of,
    librdkafka_config,
    option,
    output_option,
    source_options,
    strongest_given,
)
from agent.cli.output import print_rows, print_value, warn
from agent.cli.tables import MIN_FOLDED_WIDTH, Column

_NO_BROKER = {"broker_id": None, "host": None, "port": None}


@click.command()
@click.argument("group")
@source_options
@option(
    "--offsets-partitions",
    type=click.IntRange(min=1),
    help="Partitions of __consumer_offsets, where nobody is asked [50, Kafka's default; 16, Redpanda's].",
)
@output_option()
@click.pass_context
def coordinator(
    ctx: click.Context,
    /,
    group: str,
    bootstrap_server: str | None,
    properties: tuple[tuple[str, str], ...],
    offsets_partitions: int | None,
    group_partitioner: str,
    output: str,
    **_: Any,
) -> None:
    """Show the partition and broker that own a group.

    The partition follows from the group's name, the hash that the brokers use, Kafka's or Redpanda's, and the number
    of partitions. If nobody is asked, what is not given is taken to be Kafka's: the hash, and 50 partitions, which
    standard error then says. An agent and files (--from) tell the partition in which the group is. The broker that
    leads the partition is the group's coordinator; only a broker can tell which one that is.

    \b
    Examples:
      kshadow coordinator payments --offsets-partitions 50
      kshadow coordinator payments --bootstrap-server localhost:9092
      kshadow coordinator payments --from /var/lib/kafka/data
      kshadow coordinator payments --offsets-partitions 16 --group-partitioner redpanda
    """
    given = strongest_given(ctx, *SOURCES, "offsets_partitions")
    if "offsets_partitions" in given and len(given) > 1:
        raise click.UsageError(
            "--offsets-partitions is for where nobody is asked; the broker knows how many there are, and an agent or "
            "files say where the group is"
        )
    asked = None if given in ([], ["offsets_partitions"]) else exactly_one_of(ctx, *SOURCES)
    check_source_options(ctx, asked)
    if asked in (None, "bootstrap_server"):
        server = bootstrap_server if asked else None
        _print(_by_its_name(group, server, properties, offsets_partitions, group_partitioner), output)
        return
    from agent.cli.answers import find_group
    from agent.kafka.source.ndjson import is_ndjson

    with open_source(ctx, group) as answers:
        partition = find_group(answers, group)["coordinator_partition"]
        if partition is None:
            why = (
                "no name of a directory (__consumer_offsets-N) tells the partition"
                if asked == "from_path"
                else "this agent does not read __consumer_offsets (--source admin), so it does not know the partition"
            )
            warn(f"Error: {why}; --bootstrap-server asks a broker")
            ctx.exit(1)
        if asked == "from_path" and partition == 0 and is_ndjson(ctx.params["from_path"]):
            warn("(that is what the lines say: one that names no partition counts as of partition 0)")
        _print(
            {"group": group, "partition": partition, "partitions": None, "partitioner": None, **_NO_BROKER}, output
        )


def _print(form: dict[str, Any], output: str) -> None:
    if output != "table":
        print_value(form, output)
        return
    columns = {
        "group": Column("GROUP", folds=MIN_FOLDED_WIDTH),
        "partition": Column("PARTITION"),
        "partitions": Column("OF"),
        "partitioner": Column("BY", wide=True),
        "broker_id": Column("BROKER"),
        "host": Column("HOST", folds=MIN_FOLDED_WIDTH),
        "port": Column("PORT"),
    }
    print_rows([form], output, columns)


def _by_its_name(
    group: str,
    bootstrap_server: str | None,
    properties: tuple[tuple[str, str], ...],
    offsets_partitions: int | None,
    group_partitioner: str,
) -> dict[str, Any]:
    """The partition that a group of this name is in, there or not; with its leader where a broker is asked."""
    from agent.core.protocol.hashing import (
        OFFSETS_PARTITIONS,
        REDPANDA_OFFSETS_PARTITIONS,
        GroupPartitioner,
        partition_for_group,
    )

    leader: dict[str, Any] = _NO_BROKER
    partitioner: GroupPartitioner | None = GroupPartitioner.KAFKA
    if group_partitioner == GroupPartitioner.REDPANDA:
        partitioner = GroupPartitioner.REDPANDA
    usual = REDPANDA_OFFSETS_PARTITIONS if partitioner is GroupPartitioner.REDPANDA else OFFSETS_PARTITIONS
    partitions = offsets_partitions or usual
    brokers: Mapping[int, Any] = {}
    if bootstrap_server is not None:
        from agent.config.settings import PartitionerChoice
        from agent.kafka.source.brokers import require_topic
        from agent.kafka.source.group_locator import locate_groups

        conf = librdkafka_config(bootstrap_server, properties)
        with source_errors_reported():
            require_topic(conf)
            found = locate_groups(conf, PartitionerChoice(group_partitioner))
        partitions, brokers, partitioner = found.partitions, found.leaders, found.partitioner
        if partitioner is None:
            other = partition_for_group(group, partitions, GroupPartitioner.REDPANDA)
            warn(
                f"Warning: Kafka's hash is assumed. Whether it is Kafka's or Redpanda's (partition {other}) is not "
                f"known: {found.why}; --group-partitioner says which"
            )
    elif offsets_partitions is None:
        whose = "Redpanda's" if partitioner is GroupPartitioner.REDPANDA else "Kafka's"
        warn(
            f"Warning: {partitions} partitions of __consumer_offsets are assumed, {whose} default; "
            "--bootstrap-server asks a broker, --offsets-partitions says how many"
        )
    partition = partition_for_group(group, partitions, partitioner or GroupPartitioner.KAFKA)
    if (broker := brokers.get(partition)) is not None:
        leader = {"broker_id": broker.id, "host": broker.host, "port": broker.port}
    return {
        "group": group,
        "partition": partition,
        "partitions": partitions,
        "partitioner": None if partitioner is None else str(partitioner),
        **leader,
    }
