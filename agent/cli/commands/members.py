"""`kshadow members`: the members of one group, and what they hold."""

from __future__ import annotations

from typing import Any

import click

from agent.cli.options import output_option, source_options
from agent.cli.query import Query, pass_query
from agent.cli.sort_filter import sort_option
from agent.cli.tables import MIN_FOLDED_WIDTH, Column

MEMBER_COLUMNS = {
    "member_id": Column("MEMBER", folds=MIN_FOLDED_WIDTH),
    "client_id": Column("CLIENT", folds=MIN_FOLDED_WIDTH),
    "client_host": Column("HOST", folds=MIN_FOLDED_WIDTH),
    "instance_id": Column("INSTANCE", folds=MIN_FOLDED_WIDTH, spare=2),
    "client_library": Column("LIBRARY", spare=5),
    "session_timeout_ms": Column("SESSION", spare=3, unit="ms"),
    "rebalance_timeout_ms": Column("REBALANCE", spare=4, unit="ms"),
    "count": Column("PARTITIONS", spare=1),
    "assignment": Column("ASSIGNMENT", folds=MIN_FOLDED_WIDTH),
}


@click.command()
@click.argument("group")
@source_options
@sort_option(MEMBER_COLUMNS, "member")
@output_option()
@pass_query
def members(query: Query, /, group: str, **_: Any) -> None:
    """List the members of one group.

    With their timeouts and their assigned partitions.

    \b
    Example:
      kshadow members payments --from /var/lib/kafka/data
    """
    from agent.cli.answers import find_group

    # How many partitions a member has is a column of tables; elsewhere its assignment tells.
    names = {} if query.is_table else {"count": "assignment", "partitions": "assignment"}
    with query.open(group) as answers:
        rows = find_group(answers, group)["members"]
        query.print_rows(
            member_rows(rows) if query.is_table else rows, MEMBER_COLUMNS, names=names, empty="no members"
        )


def member_rows(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Members for a table: with how many partitions they hold."""
    return [{**row, "count": sum(len(items) for items in row["assignment"].values())} for row in rows]
