"""`kshadow groups`, `describe` and `members`: the mirror's view, from files, a broker or an agent."""

from __future__ import annotations

from typing import Any

import click

from agent.cli.options import output_option, source_options
from agent.cli.output import cell, echo, print_rows, print_table, print_value, printable, warn, when

_GROUP_COLUMNS = {
    "group": "GROUP",
    "group_type": "TYPE",
    "state": "STATE",
    "generation": "GENERATION",
    "protocol": "PROTOCOL",
    "members": "MEMBERS",
    "partitions": "PARTITIONS",
    "rebalances": "REBALANCES",
    "last_commit": "LAST COMMIT",
}
_MEMBER_COLUMNS = {
    "member_id": "MEMBER",
    "client_id": "CLIENT",
    "client_host": "HOST",
    "instance_id": "INSTANCE",
    "session_timeout_ms": "SESSION MS",
    "rebalance_timeout_ms": "REBALANCE MS",
    "count": "PARTITIONS",
    "assignment": "ASSIGNMENT",
}
_OFFSET_COLUMNS = {
    "topic": "TOPIC",
    "partition": "PARTITION",
    "offset": "OFFSET",
    "lag": "LAG",
    "committed": "COMMITTED",
    "metadata": "METADATA",
}

Source = dict[str, Any]


@click.command()
@source_options
@output_option()
@click.pass_context
def groups(ctx: click.Context, /, output: str, **source: Any) -> None:
    """List the groups.

    \b
    Examples:
      kshadow groups --from /var/lib/kafka/data
      kshadow groups --bootstrap-server localhost:9092 -o json
      kshadow groups --agent http://localhost:9308
    """
    with _asking(source) as answers:
        rows = answers.groups()
        if output == "table":
            rows = [{**row, "last_commit": when(row["last_commit_ms"])} for row in rows]
        print_rows(rows, output, _GROUP_COLUMNS, empty="no groups")
        if answers.report(warn):
            ctx.exit(1)


@click.command()
@click.argument("group")
@source_options
@output_option()
@click.pass_context
def describe(ctx: click.Context, /, group: str, output: str, **source: Any) -> None:
    """Show one group: its state, its members with what they hold, its committed offsets.

    \b
    Example:
      kshadow describe payments --bootstrap-server localhost:9092
    """
    with _asking(source, group) as answers:
        form = _find(ctx, answers, group)
        if output != "table":
            print_value(form, output)
        else:
            _print_group(form)
        if answers.report(warn):
            ctx.exit(1)


@click.command()
@click.argument("group")
@source_options
@output_option()
@click.pass_context
def members(ctx: click.Context, /, group: str, output: str, **source: Any) -> None:
    """List the members of one group with their timeouts and what they hold.

    \b
    Example:
      kshadow members payments --from /var/lib/kafka/data
    """
    with _asking(source, group) as answers:
        rows = _find(ctx, answers, group)["members"]
        print_rows(_member_rows(rows) if output == "table" else rows, output, _MEMBER_COLUMNS, empty="no members")
        if answers.report(warn):
            ctx.exit(1)


def _asking(source: Source, group: str | None = None) -> Any:
    from agent.cli.access import ask

    path: str | None = source.pop("from_path")
    return ask(from_path=path, group=group, **source)


def _find(ctx: click.Context, answers: Any, group: str) -> dict[str, Any]:
    form: dict[str, Any] | None = answers.describe(group)
    if form is None:
        answers.report(warn)
        warn(f"no group {group!r} {answers.where}")
        ctx.exit(1)
    return form


def _member_rows(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [{**row, "count": sum(map(len, row["assignment"].values()))} for row in rows]


def _print_group(form: dict[str, Any]) -> None:
    facts = {
        "Group": form["group"],
        "Type": form["group_type"],
        "State": f"{form['state']} since {when(form['state_since_ms'])}",
        "Generation": form["generation"],
        "Target": form["target_generation"],
        "Protocol": form["protocol"],
        "Leader": form["leader"],
        "Coordinator partition": form["coordinator_partition"],
        "Rebalances seen": form["rebalances"],
        "Never completed": form["generations_skipped"] or None,
        "Last commit": when(form["last_commit_ms"]),
    }
    for name, value in facts.items():
        if value is not None:
            echo(f"{name + ':':<23}{cell(value)}")
    echo(f"\nMembers: {len(form['members']) or 'none'}")
    if form["members"]:
        rows = [[row.get(key) for key in _MEMBER_COLUMNS] for row in _member_rows(form["members"])]
        print_table(rows, list(_MEMBER_COLUMNS.values()))
    echo(f"\nCommitted offsets: {len(form['offsets']) or 'none'}")
    if form["offsets"]:
        offsets = [{**row, "committed": when(row["committed_ms"])} for row in form["offsets"]]
        print_table([[row.get(key) for key in _OFFSET_COLUMNS] for row in offsets], list(_OFFSET_COLUMNS.values()))
    if form["anomalies"]:
        echo("\nAnomalies in the log:")
        for item in form["anomalies"]:
            echo(printable(f"  offset {item['offset']}, {when(item['at_ms'])}: {item['kind']}: {item['message']}"))
