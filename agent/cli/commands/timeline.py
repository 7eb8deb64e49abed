"""`kshadow timeline`: what happened to one group, in order."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NoReturn

import click

from agent.cli.options import (
    analyzer_options,
    follow_options,
    option,
    output_option,
    range_options,
    resolve_range,
    source_options,
)
from agent.cli.output import print_rows, warn
from agent.cli.sort_filter import cause_option, event_matches, event_option, sort_option, sort_rows
from agent.cli.tables import Column
from agent.cli.text import iso_time
from agent.common.timespec import TimeSpec

if TYPE_CHECKING:
    from agent.cli.answers import Answers

LISTED = {
    "section": "Find out why, and what to change",
    "place": 2,
    "number": 9,
    "help": "Tell what happened to one group, in order.",
}

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
@event_option
@cause_option
@sort_option
@option("--limit", type=click.IntRange(min=1), metavar="N", help="Only the newest N lines (events in other formats).")
@follow_options
@output_option()
@click.pass_context
def timeline(
    ctx: click.Context,
    /,
    group: str,
    since: TimeSpec | None,
    until: TimeSpec | None,
    event_types: tuple[str, ...],
    causes: tuple[str, ...],
    sort_by: tuple[str, ...],
    limit: int | None,
    follows: bool,
    interval: float,
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
      kshadow timeline payments --agent http://localhost:9308 --follow
    """
    from agent.cli.answers import no_such_group
    from agent.cli.data_source import open_source

    if follows:
        _follow(ctx, group, since, event_types, causes, interval, output)
    with open_source(ctx, group, history=True) as answers:
        since_ms, until_ms = resolve_range(since, until, answers.now_ms)
        past = answers.timeline(group, since_ms, until_ms)
        if past is None:
            no_such_group(ctx, answers, group)
        rows: list[Any] = [event for event in past.events if event_matches(event, event_types, causes)]
        if output == "table":
            rows = _lines(rows)
        left_out = 0 if limit is None else max(len(rows) - limit, 0)
        rows = sort_rows(rows[left_out:], _as_fields(sort_by, output), _COLUMNS)
        if output == "table":
            rows = list(map(_shown, rows))
        what = "nothing like that" if event_types or causes else "nothing"
        print_rows(rows, output, _COLUMNS, empty=f"{what} happened in that time")
        if left_out:
            warn(f"({left_out} earlier left out by --limit)")
        if past.complete_since_ms is not None and (since_ms is None or since_ms < past.complete_since_ms):
            warn(f"(the agent keeps the latest events only: here those from {iso_time(past.complete_since_ms)} on)")
        if answers.report(warn):
            ctx.exit(1)


def _lines(events: list[Any]) -> list[dict[str, Any]]:
    from agent.presentation.narrative.timeline import timeline_entries

    return [
        {"at_ms": line.at_ms, "event": line.label, "what": line.text, "cost_ms": line.cost_ms}
        for line in timeline_entries(events)
    ]


def _shown(row: dict[str, Any]) -> dict[str, Any]:
    from agent.presentation.narrative.words import duration

    cost_ms = row["cost_ms"]
    return {**row, "at": iso_time(row["at_ms"]), "cost": None if cost_ms is None else duration(cost_ms)}


def _follow(
    ctx: click.Context,
    group: str,
    since: TimeSpec | None,
    event_types: tuple[str, ...],
    causes: tuple[str, ...],
    interval_s: float,
    output: str,
) -> NoReturn:
    from agent.cli.answers import no_such_group
    from agent.cli.following import OVERLAP_MS, RowPrinter, SeenEvents, follow
    from agent.common.clock import now_ms

    seen, lines = SeenEvents(), RowPrinter(output, _COLUMNS)
    since_ms = None if since is None else since.before(now_ms())
    newest_ms: int | None = None

    def poll(answers: Answers) -> None:
        nonlocal newest_ms
        again_ms = None if newest_ms is None else max(newest_ms - OVERLAP_MS, since_ms or 0)
        past = answers.timeline(group, since_ms if again_ms is None else again_ms)
        if past is None:
            if newest_ms is None:
                no_such_group(ctx, answers, group)
            return  # deleted meanwhile, and long forgotten
        new = [event for event in seen.only_new(past.events) if event_matches(event, event_types, causes)]
        newest_ms = max([newest_ms or 0, *(event["at_ms"] for event in past.events)])
        lines.print(list(map(_shown, _lines(new))) if output == "table" else new)

    follow(ctx, poll, interval_s=interval_s, output=output, group=group)


def _as_fields(keys: tuple[str, ...], output: str) -> list[str]:
    """The table's columns are made of events; their own fields have other names."""
    names = {} if output == "table" else {"cost": "stopped_partition_ms", "event": "type"}
    parts = [key.partition(":") for key in keys]
    return [names.get(name.lower(), name) + colon + direction for name, colon, direction in parts]
