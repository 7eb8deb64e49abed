"""`kshadow timeline`: what happened to one group, in order."""

from __future__ import annotations

from typing import Any

import click

from agent.cli.options import analyzer_options, option, output_option, source_options
from agent.cli.output import print_rows, warn
from agent.cli.tables import Column
from agent.cli.text import when
from agent.cli.times import range_options, resolved
from agent.moments import Moment

_COLUMNS = {
    "at": Column("AT"),
    "event": Column("EVENT"),
    "what": Column("WHAT", folds=24),
    "cost": Column("COST"),
}


@click.command()
@click.argument("group")
@source_options
@range_options
@analyzer_options
@option("--limit", type=click.IntRange(min=1), metavar="N", help="Only the newest N lines (events in other formats).")
@output_option()
@click.pass_context
def timeline(
    ctx: click.Context,
    /,
    group: str,
    since: Moment | None,
    until: Moment | None,
    limit: int | None,
    output: str,
    **_: Any,
) -> None:
    """Tell what happened to one group, in order.

    The table has one line for all that one rebalance did. COST is how long partitions stood still for it, summed
    over the partitions; - where the log does not tell. The other formats print the history's events.

    \b
    Examples:
      kshadow timeline payments --from /var/lib/kafka/data --since 2h
      kshadow timeline payments --agent http://localhost:9308 -o ndjson
    """
    from agent.cli.access import ask
    from agent.cli.groups import no_such_group
    from agent.story.timeline import entries
    from agent.story.words import duration

    with ask(ctx, group, history=True) as answers:
        since_ms, until_ms = resolved(since, until, answers.now_ms)
        past = answers.past(group, since_ms, until_ms)
        if past is None:
            no_such_group(ctx, answers, group)
        rows: list[Any] = past.events
        if output == "table":
            rows = [
                {
                    "at": when(line.at_ms),
                    "event": line.label,
                    "what": line.what,
                    "cost": None if line.cost_ms is None else duration(line.cost_ms),
                }
                for line in entries(rows)
            ]
        left_out = 0 if limit is None else max(len(rows) - limit, 0)
        print_rows(rows[left_out:], output, _COLUMNS, empty="nothing happened in that time")
        if left_out:
            warn(f"({left_out} earlier left out by --limit)")
        if past.complete_since_ms is not None and (since_ms is None or since_ms < past.complete_since_ms):
            warn(f"(the agent keeps the latest events only: here those from {when(past.complete_since_ms)} on)")
        if answers.report(warn):
            ctx.exit(1)
