"""`kshadow run`: the agent."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from types import FrameType
from typing import TYPE_CHECKING, NoReturn

import click

from agent.cli.options import (
    analyzer_options,
    bootstrap_option,
    broker_log_options,
    chosen_analyzers,
    client_properties,
    option,
    property_option,
)

if TYPE_CHECKING:
    from agent.shadow.told import Witness


@click.command()
@bootstrap_option
@property_option
@option(
    "--group",
    "groups",
    multiple=True,
    help="Read only the partitions that hold these groups, as a sidecar does. Repeatable.",
)
@broker_log_options
@option("--listen", default="127.0.0.1:9308", show_default=True, metavar="HOST:PORT", help="Where to serve HTTP.")
@analyzer_options
@option(
    "--admin/--no-admin",
    default=True,
    show_default=True,
    help="Observe through the Admin API: times join phases, compares the mirror with the brokers.",
)
@option(
    "--admin-rate",
    type=click.FloatRange(0.1, 1000),
    default=20,
    show_default=True,
    metavar="GROUPS",
    help="How many groups a second the brokers are asked to describe, at most.",
)
@option(
    "--log-level",
    type=click.Choice(["debug", "info", "warning", "error"]),
    default="info",
    show_default=True,
    help="How much to log.",
)
def run(
    bootstrap_server: str | None,
    properties: tuple[tuple[str, str], ...],
    groups: tuple[str, ...],
    broker_logs: tuple[str, ...],
    broker_log_timezone: str,
    listen: str,
    analyzer_names: str,
    tuned: tuple[tuple[str, str], ...],
    admin: bool,
    admin_rate: float,
    log_level: str,
) -> None:
    """Run the agent: follow the topic and serve metrics and the API.

    Serves /metrics, /healthz, /readyz (503 until caught up, and again when reading has stopped), /api/v1/groups,
    /api/v1/findings, and a page for people at /. Needs Read and Describe on the topic __consumer_offsets, and for
    what is observed through the Admin API Describe on the groups; with --no-admin no other right than those on the
    topic. Beside a broker, --broker-log lets its own log say why members left and rebalances began.

    \b
    Examples:
      kshadow run --bootstrap-server localhost:9092
      kshadow run --bootstrap-server localhost:9092 --group payments
      kshadow run --bootstrap-server localhost:9092 --broker-log /opt/kafka/logs/server.log
    """
    import logging
    import sys

    from agent.cli.access import reaching
    from agent.coordinator.hashing import partition_of
    from agent.observer.observer import Observer
    from agent.runtime import Agent
    from agent.source.brokers import coordinators

    if bootstrap_server is None:
        raise click.UsageError("--bootstrap-server is needed (or KSHADOW_BOOTSTRAP_SERVER)")
    host, port = address(listen)
    logging.basicConfig(
        stream=sys.stderr, level=log_level.upper(), format="%(asctime)s %(levelname)s %(name)s: %(message)s"
    )
    conf = client_properties(bootstrap_server, properties)
    chosen = chosen_analyzers(analyzer_names, tuned)
    with stopped_by_signals(), reaching(), _following(broker_logs, broker_log_timezone) as witness:
        partitions = None
        if groups:
            count, _ = coordinators(conf)
            partitions = sorted({partition_of(group, count) for group in groups})
            logging.getLogger("kshadow").info("reading partitions %s of %d", partitions, count)
        observer = Observer(conf, groups_per_s=admin_rate) if admin else None
        agent = Agent(
            conf, partitions=partitions, groups=groups or None, witness=witness, observer=observer, chosen=chosen
        )
        agent.start()
        try:
            # The web server takes longest to import; by now the topic is being read.
            from agent.serve import serve

            serve(agent, host, port)
        finally:
            agent.stop()


@contextmanager
def _following(paths: tuple[str, ...], zone: str) -> Iterator[Witness | None]:
    """The brokers' logs, followed for as long as the block lasts."""
    if not paths:
        yield None
        return
    from agent.source.brokerlog import BrokerLogFollower, time_zone

    follower = BrokerLogFollower(paths, time_zone(zone))
    follower.start()
    try:
        yield follower
    finally:
        follower.stop()


@contextmanager
def stopped_by_signals() -> Iterator[None]:
    """Ctrl-C and SIGTERM end the block and are no errors: it is how an agent stops.

    The web server, once it has answered what was asked, gives the signal back to whoever handled it before.
    """

    def interrupt(number: int, frame: FrameType | None) -> NoReturn:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, interrupt)
    try:
        with suppress(KeyboardInterrupt):
            yield
    finally:
        signal.signal(signal.SIGTERM, before)


def address(listen: str) -> tuple[str, int]:
    """`HOST:PORT` as both; a usage error says what came instead."""
    host, colon, port = listen.rpartition(":")
    if not colon or not port.isdecimal() or int(port) > 65535:
        raise click.UsageError(f"--listen: HOST:PORT expected, {listen!r} came")
    # An empty host is every interface, as in ":9308".
    return host.strip("[]") or "0.0.0.0", int(port)
