"""`kshadow doctor`: what the agent needs, tried."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from agent.cli.options import bootstrap_option, client_properties, option, output_option, property_option
from agent.cli.output import UNREACHABLE, bold, echo, print_rows, printable
from agent.cli.run_options import Parsed
from agent.cli.tables import FOLDED, Column

if TYPE_CHECKING:
    from agent.config.settings import Address
    from agent.doctor import Check

_COLUMNS = {
    "check": Column("CHECK", folds=FOLDED),
    "on": Column("ON", folds=16),
    "outcome": Column("OUTCOME"),
    "found": Column("FOUND", folds=30),
}
_TOPIC = "kafka:"


@click.command()
@bootstrap_option
@property_option
@option("--admin/--no-admin", default=True, show_default=True, help="Whether the agent is to observe groups.")
@option("--lag/--no-lag", default=True, show_default=True, help="Whether the agent is to know lag.")
@option("--history-topic", metavar="NAME", help="The topic that the agent is to write the history to.")
@option(
    "--history-topic-create/--no-history-topic-create",
    default=True,
    show_default=True,
    help="Whether the agent is to make that topic.",
)
@option("--snapshots", metavar="DIR|kafka:TOPIC", help="Where the agent is to keep snapshots.")
@option("--state-dir", type=click.Path(path_type=Path), help="Where the agent is to keep what must last.")
@option("--share-group", metavar="ID", help="The group by which agents are to share the partitions.")
@option(
    "--listen",
    type=Parsed("HOST:PORT", "values:parse_address"),
    default="127.0.0.1:9308",
    show_default=True,
    metavar="HOST:PORT",
    help="Where it is to serve.",
)
@option(
    "--timeout",
    type=click.FloatRange(0.5, 600),
    default=10,
    show_default=True,
    metavar="SECONDS",
    help="How long each answer may take.",
)
@output_option()
def doctor(
    bootstrap_server: str | None,
    properties: tuple[tuple[str, str], ...],
    admin: bool,
    lag: bool,
    history_topic: str | None,
    history_topic_create: bool,
    snapshots: str | None,
    state_dir: Path | None,
    share_group: str | None,
    listen: Address,
    timeout: float,
    output: str,
) -> None:
    """Check connection, permissions, topic and clock: what works, and how to fix what does not.

    Takes the options that kshadow run is to be started with and tries what they need: names, connections, TLS, the
    login, every broker, each right by name, the topic's format, clocks, directories, the port. Writes nothing to the
    cluster. Exit code 3 if something that is needed fails; warnings do not count.

    \b
    Examples:
      kshadow doctor --bootstrap-server localhost:9092
      kshadow doctor --bootstrap-server localhost:9092 --no-admin --no-lag -o json
    """
    from agent.cli.access import reaching
    from agent.doctor import Outcome, Wanted, examine

    if bootstrap_server is None:
        raise click.UsageError("--bootstrap-server is needed (or KSHADOW_BOOTSTRAP_SERVER)")
    directories = {"state": state_dir} if state_dir is not None else {}
    snapshot_topic = snapshots.removeprefix(_TOPIC) if snapshots and snapshots.startswith(_TOPIC) else None
    if snapshots is not None and snapshot_topic is None:
        directories["snapshots"] = Path(snapshots)
    wanted = Wanted(
        client_properties(bootstrap_server, properties),
        observer=admin,
        lag=lag,
        history_topic=history_topic,
        history_topic_create=history_topic_create,
        snapshot_topic=snapshot_topic,
        share_group=share_group,
        directories=directories,
        listen=(listen.host, listen.port),
        timeout_s=timeout,
    )
    with reaching():
        made: list[Check] = []
        print_rows(_noted(examine(wanted), made), output, _COLUMNS)
    if output == "table":
        _print_fixes(made)
    if any(it.outcome is Outcome.FAILED for it in made):
        raise click.exceptions.Exit(UNREACHABLE)


def _noted(checks: Iterator[Check], made: list[Check]) -> Iterator[dict[str, Any]]:
    for check in checks:
        made.append(check)
        yield check.form()


def _print_fixes(made: list[Check]) -> None:
    """What to do, unfolded: commands are there to be copied."""
    for it in made:
        if it.fix:
            echo("\n" + bold(printable(f"{it.check}, {it.on}: {it.outcome}")))
            for fix in it.fix:
                echo(f"  {printable(fix)}")
