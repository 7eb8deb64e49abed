"""`kshadow describe`: one group in full."""

from __future__ import annotations

from typing import Any

import click

from agent.cli.commands.members import MEMBER_COLUMNS, member_rows
from agent.cli.options import output_option, source_options
from agent.cli.output import echo, print_rows, print_value
from agent.cli.query import Query, pass_query
from agent.cli.sort_filter import matches_any, sort_option, sort_rows, topic_option
from agent.cli.tables import MIN_FOLDED_WIDTH, Column
from agent.cli.text import cell, iso_time
from agent.presentation.narrative.phrases import known_generation

_OFFSET_COLUMNS = {
    "topic": Column("TOPIC", folds=MIN_FOLDED_WIDTH),
    "partition": Column("PARTITION"),
    "offset": Column("OFFSET", unit="count"),
    "lag": Column("LAG", unit="count"),
    "lag_seconds": Column("SECONDS"),
    "committed": Column("COMMITTED", spare=1),
    "metadata": Column("METADATA", folds=MIN_FOLDED_WIDTH, spare=2),
}


@click.command()
@click.argument("group")
@source_options
@topic_option
@sort_option(_OFFSET_COLUMNS, "offset")
@output_option()
@pass_query
def describe(query: Query, /, group: str, topics: tuple[str, ...], sort_by: tuple[str, ...], **_: Any) -> None:
    """Show one group: state, members, assignment, offsets.

    --topic and --sort-by apply to the offsets.

    \b
    Example:
      kshadow describe payments --bootstrap-server localhost:9092
    """
    from agent.cli.answers import find_group

    with query.open(group, lag=True) as answers:
        form = find_group(answers, group)
        offsets = [row for row in form["offsets"] if matches_any(row["topic"], topics)]
        none = "none of such a topic" if form["offsets"] else "none"
        form = {**form, "offsets": sort_rows(offsets, sort_by, _OFFSET_COLUMNS)}
        if query.is_table:
            _print_group(form, none=none)
        else:
            print_value(form, query.output)


def _print_group(form: dict[str, Any], *, none: str) -> None:
    facts = {
        "Group": form["group"],
        "Type": form["group_type"],
        "State": f"{form['state']} since {iso_time(form['state_since_ms']) or 'an unknown time'}",
        "As of": iso_time(form["stale"]["since_ms"]) if form.get("stale") else None,
        "Generation": known_generation(form),
        "Target": form.get("target_generation"),
        "Protocol": form.get("protocol"),
        "Leader": form.get("leader"),
        "Coordinator partition": form.get("coordinator_partition"),
        "Rebalances seen": form.get("rebalances"),
        "Never completed": form.get("generations_skipped") or None,
        "Last commit": iso_time(form["last_commit_ms"]),
    }
    for name, value in facts.items():
        if value is not None:
            echo(f"{name + ':':<23}{cell(value)}")
    echo(f"\nMembers: {len(form['members']) or 'none'}")
    if form["members"]:
        print_rows(member_rows(form["members"]), "table", MEMBER_COLUMNS)
    echo(f"\nCommitted offsets: {len(form['offsets']) or none}")
    if form["offsets"]:
        offsets = [{**row, "committed": iso_time(row["committed_ms"])} for row in form["offsets"]]
        print_rows(offsets, "table", _OFFSET_COLUMNS)
    if form["anomalies"]:
        echo("\nAnomalies in the log:")
        for item in form["anomalies"]:
            echo(cell(f"  offset {item['offset']}, {iso_time(item['at_ms'])}: {item['kind']}: {item['message']}"))
