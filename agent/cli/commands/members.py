"""`kshadow members`: the members of one group, and what they hold."""

from __future__ import annotations

from typing import Any

import click

from agent.cli.options import output_option, source_options
from agent.cli.output import print_rows, warn
from agent.cli.sort_filter import sort_option, sort_rows
from agent.cli.tables import MIN_FOLDED_WIDTH, Column

LISTED = {"section": "See what is going on", "place": 3, "number": 7, "help": "List the members of one group."}

MEMBER_COLUMNS = {
    "member_id": Column("MEMBER", folds=MIN_FOLDED_WIDTH),
    "client_id": Column("CLIENT", folds=MIN_FOLDED_WIDTH),
    "client_host": Column("HOST", folds=MIN_FOLDED_WIDTH),
    "instance_id": Column("INSTANCE", folds=MIN_FOLDED_WIDTH, spare=2),
    "session_timeout_ms": Column("SESSION", spare=3, unit="ms"),
    "rebalance_timeout_ms": Column("REBALANCE", spare=4, unit="ms"),
    "count": Column("PARTITIONS", spare=1),
    "assignment": Column("ASSIGNMENT", folds=MIN_FOLDED_WIDTH),
}


@click.command()
@click.argument("group")
@source_options
@sort_option
@output_option()
@click.pass_context
def members(ctx: click.Context, /, group: str, sort_by: tuple[str, ...], output: str, **_: Any) -> None:
    """List the members of one group.

    With their timeouts in milliseconds and the partitions they hold.

    \b
    Example:
      kshadow members payments --from /var/lib/kafka/data
    """
    from agent.cli.answers import find_group
    from agent.cli.data_source import open_source

    with open_source(ctx, group) as answers:
        rows = find_group(ctx, answers, group)["members"]
        if output == "table":
            rows = member_rows(rows)
        rows = sort_rows(rows, _as_fields(sort_by, output), MEMBER_COLUMNS)
        print_rows(rows, output, MEMBER_COLUMNS, empty="no members")
        if answers.report(warn):
            ctx.exit(1)


def member_rows(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Members for a table: with how many partitions they hold."""
    return [{**row, "count": sum(len(items) for items in row["assignment"].values())} for row in rows]


def _as_fields(keys: tuple[str, ...], output: str) -> list[str]:
    """How many partitions a member has is a column of tables; elsewhere its assignment tells."""
    names = {"count": "assignment", "partitions": "assignment"} if output != "table" else {}
    parts = [key.partition(":") for key in keys]
    return [names.get(name.lower(), name) + colon + direction for name, colon, direction in parts]
