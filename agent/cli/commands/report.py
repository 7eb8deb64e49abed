"""`kshadow report`: one HTML page about a time range."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from agent import __version__
from agent.cli.options import broker_log_options, history_options, option
from agent.cli.output import UnwritableOutput, echo, printable, warn
from agent.cli.query import Query, pass_query
from agent.config.options import Place

if TYPE_CHECKING:
    from agent.cli.answers import Answers
    from agent.presentation.narrative.gains import Gains
    from agent.presentation.report.fleet_report import GroupSummary
    from agent.presentation.report.gather import ReplayGains
    from agent.simulation.whatif.group_recorders import GroupRecorders

WHATIF_S = 30.0
"""For all groups together."""


@click.command()
@click.argument("groups", nargs=-1, metavar="[GROUP]…")
@history_options
@broker_log_options
@option("--out", metavar="FILE.html|-", type=Place(allow_dash=True), required=True, help="The page.")
@option("--title", metavar="TEXT", help="Its heading [what happened to whom].")
@option(
    "--top",
    type=click.IntRange(0, 200),
    default=20,
    help="Groups told of in full where none is named: those in most trouble. The others are a table.",
)
@option(
    "--whatif/--no-whatif",
    "is_with_whatif",
    default=True,
    help="Also replay what happened under other settings, as kshadow whatif does, for at most 30 s in all.",
)
@pass_query
def report(
    query: Query,
    /,
    groups: tuple[str, ...],
    broker_logs: tuple[str, ...],
    broker_log_timezone: str,
    out: str,
    title: str | None,
    top: int,
    is_with_whatif: bool,
    **_: Any,
) -> None:
    """Write one HTML page about a time range, to keep or to send.

    It has swim lanes, causes, costs, findings and advice for the groups named, or for those with the worst problems.
    The page is one file; it runs no scripts, loads nothing, and prints well. An existing page of that name is
    replaced only when the new one is complete.

    \b
    Examples:
      kshadow report --from /var/lib/kafka/data --out incident.html
      kshadow report payments --bootstrap-server localhost:9092 --since 6h --out payments.html
      kshadow report --from /var/lib/kafka/data --broker-log /opt/kafka/logs/server.log --out incident.html
      kshadow report --agent http://localhost:9308 --since 24h --title "Night of the 21st" --out night.html
    """
    from agent.cli.answers import no_such_group
    from agent.cli.commands.explain import open_broker_logs
    from agent.common.clock import now_ms
    from agent.presentation.narrative.words import count
    from agent.presentation.report.document import document
    from agent.presentation.report.fleet_report import ReportOrigin
    from agent.presentation.report.gather import NoSuchGroup, ReportRequest, gather
    from agent.simulation.whatif.group_recorders import GroupRecorders

    logs = open_broker_logs(query, broker_logs, broker_log_timezone)
    one = groups[0] if len(groups) == 1 else None
    recorders = GroupRecorders(groups) if is_with_whatif else None
    with query.open(one, history=True, recorder=recorders, witness=logs, is_reported=False, tables=True) as answers:
        if not answers.now_ms and answers.group_names():
            raise click.UsageError(
                f"expected records with times, got none {answers.where}: a report is of a time range; kshadow "
                "explain tells what happened without"
            )
        since_ms, until_ms = query.range_ms(answers)
        problems: list[str] = []
        if logs is not None:
            logs.report(problems.append)
        is_bad = answers.report(problems.append)
        for problem in problems:
            warn(problem)
        made = ReportOrigin(
            source=answers.where,
            version=__version__,
            made_at_ms=now_ms(),
            title=title,
            problems=tuple(problems),
        )
        try:
            gains = None if recorders is None else _gains(query, answers, recorders, since_ms, until_ms)
            facts = gather(answers, made, ReportRequest(groups, since_ms, until_ms, top), gains)
        except NoSuchGroup as missing:
            no_such_group(answers, str(missing))
        page = document(facts).encode("utf-8", "backslashreplace")
        _write(page, out)
        if out != "-":
            told = f"{len(facts.details)} of {count(len(facts.groups), 'group')} in full"
            echo(f"{printable(out)}: {told}, {max(len(page) // 1000, 1):,} kB")
        if is_bad:
            query.ctx.exit(1)


def _gains(
    query: Query, answers: Answers, recorders: GroupRecorders, since_ms: int | None, until_ms: int | None
) -> ReplayGains:
    """What replays each group, as long as there is time left."""
    from agent.cli.whatif_gains import BUDGET_S, gains_within_budget
    from agent.presentation.narrative.gains import Gains
    from agent.simulation.whatif.command_line import whatif_command

    over = time.monotonic() + WHATIF_S
    source = {query.source: query.ctx.params[query.source]}

    def gained(row: GroupSummary) -> Gains | None:
        if (row.rebalances or 0) < 2:
            # The first is how a group begins: there is nothing to save.
            return None
        whatif = whatif_command(row.group, source, since_ms, until_ms)
        if recorders.gave_up:
            return Gains(untold="so many groups are not replayed at once", command=whatif)
        if (recording := answers.recording(row.group)) is None:
            return None
        budget_s = min(BUDGET_S, max(over - time.monotonic(), 0))
        return gains_within_budget(recording, since_ms, until_ms, answers.now_ms, command=whatif, budget_s=budget_s)

    return gained


def _write(page: bytes, out: str) -> None:
    from agent.common.files import whole_or_not

    try:
        if out == "-":
            sys.stdout.flush()
            sys.stdout.buffer.write(page)
            return
        with whole_or_not(Path(out)) as file:
            file.write(page)
    except BrokenPipeError:
        raise
    except OSError as error:
        raise UnwritableOutput(f"{out}: expected a file to write to: {error.strerror or error}") from error
