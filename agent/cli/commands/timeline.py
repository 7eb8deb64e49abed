"""`kshadow timeline`: what happened to one group, in order."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, NoReturn

import click

from agent.cli.options import follow_options, history_options, option, output_option
from agent.cli.output import warn
from agent.cli.query import Query, pass_query
from agent.cli.sort_filter import cause_option, event_matches, event_option, sort_option
from agent.cli.tables import Column
from agent.cli.text import iso_time
from agent.common.timespec import TimeSpec

if TYPE_CHECKING:
    from agent.cli.answers import Answers

_COLUMNS = {
    "at": Column("AT"),
    "event": Column("EVENT"),
    "what": Column("WHAT", folds=24),
    "cost": Column("COST"),
}


@click.command()
@click.argument("group")
@history_options
@event_option
@cause_option
@sort_option(_COLUMNS, "event")
@option("--limit", type=click.IntRange(min=1), metavar="N", help="Only the newest N lines (events in other formats).")
@follow_options
@output_option()
@pass_query
def timeline(
    query: Query,
    /,
    group: str,
    since: TimeSpec | None,
    event_types: tuple[str, ...],
    causes: tuple[str, ...],
    limit: int | None,
    **_: Any,
) -> None:
    """Show the events of one group, in order.

    The table has one line per rebalance and per other event. COST is stopped partition time; - where it is unknown.
    The other formats print the events.

    \b
    Examples:
      kshadow timeline payments --from /var/lib/kafka/data --since 2h
      kshadow timeline payments --agent http://localhost:9308 -o ndjson
      kshadow timeline payments --agent http://localhost:9308 --follow
    """
    from agent.cli.answers import no_such_group, warn_stale
    from agent.presentation.narrative.events import lost_before_ms

    def is_wanted(event: dict[str, Any]) -> bool:
        return event_matches(event, event_types, causes)

    if query.follows:
        _follow(query, group, since, is_wanted)
    with query.open(group, history=True, tables=True) as answers:
        since_ms, until_ms = query.range_ms(answers)
        past = answers.timeline(group, since_ms, until_ms)
        if past is None:
            no_such_group(answers, group)
        rows = _rows(query, filter(is_wanted, past.events))
        left_out = 0 if limit is None else max(len(rows) - limit, 0)
        what = "nothing like that" if event_types or causes else "nothing"
        # The table's columns are made of events; their own fields have other names.
        of_events = {"cost": "stopped_partition_ms", "event": "type"}
        names = {it: name for name, it in of_events.items()} if query.is_table else of_events
        empty = query.nothing_in_range(answers, since_ms, f"{what} happened in that time")
        if not past.events and until_ms is not None and past.complete_since_ms is None:
            whole = answers.timeline(group)
            if whole is not None and whole.events and whole.events[0]["at_ms"] > until_ms:
                first = iso_time(whole.events[0]["at_ms"])
                empty = f"(nothing is known of that time: the group's first event is from {first})"
        query.print_rows(rows[left_out:], _COLUMNS, shown=_shown, names=names, empty=empty)
        if left_out:
            warn(f"({left_out} earlier left out by --limit)")
        if (kept_ms := lost_before_ms(past.complete_since_ms, since_ms)) is not None:
            warn(f"(the agent keeps the latest events only: here those from {iso_time(kept_ms)} on)")
        if answers.capabilities.live:
            warn_stale([answers.describe(group)], answers)


def _rows(query: Query, events: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """The events, or the lines that a table makes of them."""
    if not query.is_table:
        return list(events)
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
    query: Query, group: str, since: TimeSpec | None, is_wanted: Callable[[dict[str, Any]], bool]
) -> NoReturn:
    from agent.cli.answers import no_such_group
    from agent.cli.following import OVERLAP_MS, RowPrinter, SeenEvents
    from agent.common.clock import now_ms

    seen, lines = SeenEvents(), RowPrinter(query.output, _COLUMNS, _shown)
    since_ms = None if since is None else since.before(now_ms())
    newest_ms: int | None = None

    def poll(answers: Answers) -> None:
        nonlocal newest_ms
        again_ms = None if newest_ms is None else max(newest_ms - OVERLAP_MS, since_ms or 0)
        past = answers.timeline(group, since_ms if again_ms is None else again_ms)
        if past is None:
            if newest_ms is None:
                no_such_group(answers, group)
            return  # deleted meanwhile, and long forgotten
        new = filter(is_wanted, seen.only_new(past.events))
        # What a broker dated ahead must not keep what comes next from being asked for.
        newest_ms = min(max([newest_ms or 0, *(event["at_ms"] for event in past.events)]), answers.now_ms)
        lines.print(_rows(query, new))

    query.follow(poll, group)
