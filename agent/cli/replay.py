"""`kshadow replay`: the history that the log tells."""

from __future__ import annotations

import click

from agent.cli.options import option, output_option
from agent.cli.output import print_rows, warn, when


@click.command()
@click.argument("paths", metavar="PATH…", nargs=-1, required=True, type=click.Path(allow_dash=True))
@option("--cluster", help="The cluster's name, written into each event.")
@option("--group", "groups", multiple=True, help="Only the events of this group. Repeatable.")
@output_option("ndjson")
@click.pass_context
def replay(
    ctx: click.Context,
    paths: tuple[str, ...],
    cluster: str | None,
    groups: tuple[str, ...],
    output: str,
) -> None:
    """Print the history that the log tells, as events in the order of time, partition and offset.

    PATH is as for decode. Transactions that were aborted or are still open are not applied.

    \b
    Example:
      kshadow replay /var/lib/kafka/data | jq 'select(.type == "rebalance")'
    """
    from agent.offline import load

    loaded = load(paths, cluster=cluster, on_problem=warn)
    rows = [event for event in loaded.events() if not groups or event["group"] in groups]
    if output == "table":
        rows = [{**row, "at": when(row["at_ms"]), "what": _what(row)} for row in rows]
    columns = {"at": "AT", "group": "GROUP", "group_type": "TYPE", "type": "EVENT", "what": "WHAT"}
    print_rows(rows, output, columns, empty="no events")
    if loaded.report(warn):
        ctx.exit(1)


def _what(event: dict[str, object]) -> str:
    match event["type"]:
        case "rebalance":
            joined, left = event["joined"], event["left"]
            assert isinstance(joined, list), "a list of members"
            assert isinstance(left, list), "a list of members"
            names = [f"+{member['client_id']}" for member in joined] + [f"-{member['client_id']}" for member in left]
            return f"generation {event['generation']}, {event['members']} members {' '.join(names)}".strip()
        case "member_joined" | "member_left" | "static_member_replaced":
            member = event["member"]
            assert isinstance(member, dict), "a member"
            return str(member["member_id"])
        case "assignment_changed":
            return (
                f"{event['assigned_partitions']} assigned, {event['gained_partitions']} moved, "
                f"{event['lost_partitions']} without an owner"
            )
        case "offsets_deleted":
            return f"{event['topic']}-{event['topic_partition']} at {event['committed_offset']}"
        case _:
            return ""
