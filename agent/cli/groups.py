"""`kshadow groups`, `describe` and `members`: the mirror's view, from files, a broker or an agent."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NoReturn

import click

from agent.cli.arranging import arranged, match_option, matches, sort_option, state_option, topic_option, type_option
from agent.cli.follow_options import follow_options
from agent.cli.options import output_option, source_options
from agent.cli.output import echo, print_rows, print_value, warn
from agent.cli.tables import FOLDED, Column
from agent.cli.text import MAX_TEXT, cell, shortened, when

if TYPE_CHECKING:
    from agent.cli.access import Answers

_GROUP_COLUMNS = {
    "group": Column("GROUP", folds=20),
    "group_type": Column("TYPE"),
    "state": Column("STATE"),
    "generation": Column("GENERATION", spare=3),
    "protocol": Column("PROTOCOL", spare=4),
    "members": Column("MEMBERS"),
    "partitions": Column("PARTITIONS"),
    "rebalances": Column("REBALANCES"),
    "lag": Column("LAG", spare=1, unit="count"),
    "last_commit": Column("LAST COMMIT", spare=2),
    "state_since": Column("STATE SINCE", wide=True),
    "committed_partitions": Column("COMMITTED", wide=True),
    "coordinator_partition": Column("COORDINATOR", wide=True),
    "generations_skipped": Column("SKIPPED", wide=True),
    "anomalies": Column("ANOMALIES", wide=True),
}
_MEMBER_COLUMNS = {
    "member_id": Column("MEMBER", folds=FOLDED),
    "client_id": Column("CLIENT", folds=FOLDED),
    "client_host": Column("HOST", folds=FOLDED),
    "instance_id": Column("INSTANCE", folds=FOLDED, spare=2),
    "session_timeout_ms": Column("SESSION", spare=3, unit="ms"),
    "rebalance_timeout_ms": Column("REBALANCE", spare=4, unit="ms"),
    "count": Column("PARTITIONS", spare=1),
    "assignment": Column("ASSIGNMENT", folds=FOLDED),
}
_OFFSET_COLUMNS = {
    "topic": Column("TOPIC", folds=FOLDED),
    "partition": Column("PARTITION"),
    "offset": Column("OFFSET", unit="count"),
    "lag": Column("LAG", unit="count"),
    "lag_seconds": Column("SECONDS"),
    "committed": Column("COMMITTED", spare=1),
    "metadata": Column("METADATA", folds=FOLDED, spare=2),
}
_FOLLOWED = ("group", "group_type", "state", "generation", "protocol", "members", "partitions", "rebalances")
"""Columns in which a change is news."""
MAX_COMPARED = 10_000
"""Names of groups that a name without a group is compared with."""


@click.command()
@source_options
@match_option
@state_option
@type_option
@sort_option
@follow_options
@output_option()
@click.pass_context
def groups(
    ctx: click.Context,
    /,
    match: tuple[str, ...],
    states: tuple[str, ...],
    types: tuple[str, ...],
    sort_by: tuple[str, ...],
    follows: bool,
    interval: float,
    output: str,
    **_: Any,
) -> None:
    """List the groups.

    With --follow each whose state, generation, members or partitions change, again; Dead is one that is gone.

    \b
    Examples:
      kshadow groups --from /var/lib/kafka/data --sort-by rebalances:desc --type classic
      kshadow groups --from /var/lib/kafka/data
      kshadow groups --bootstrap-server localhost:9092 -o json
      kshadow groups --agent http://localhost:9308
    """
    from agent.cli.access import ask

    def is_wanted(row: dict[str, Any]) -> bool:
        return (
            matches(row["group"], match)
            and (not states or row["state"] in states)
            and (not types or row["group_type"] in types)
        )

    if follows:
        _follow(ctx, is_wanted, interval, output)
    with ask(ctx) as answers:
        rows = list(filter(is_wanted, answers.groups()))
        rows = arranged(rows, sort_by, _GROUP_COLUMNS)
        if output == "table":
            rows = [
                {**row, "last_commit": when(row["last_commit_ms"]), "state_since": when(row["state_since_ms"])}
                for row in rows
            ]
        print_rows(
            rows, output, _GROUP_COLUMNS, empty="no group is like that" if match or states or types else "no groups"
        )
        if answers.report(warn):
            ctx.exit(1)


def _follow(
    ctx: click.Context, is_wanted: Callable[[dict[str, Any]], bool], interval_s: float, output: str
) -> NoReturn:
    from agent.cli.following import Lines, Live, follow

    lines = Lines(output, {"seen": Column("SEEN"), **{key: _GROUP_COLUMNS[key] for key in _FOLLOWED}})
    before: dict[str, dict[str, Any]] = {}

    def poll(answers: Live) -> None:
        nonlocal before
        rows = {row["group"]: row for row in answers.groups()}
        gone = [{**row, "state": "Dead", "members": 0} for name, row in before.items() if name not in rows]
        new = [row for name, row in rows.items() if _fingerprint(row) != _fingerprint(before.get(name))]
        before = rows
        seen: dict[str, Any] = {"seen_ms": answers.now_ms}
        if output == "table":
            seen["seen"] = when(answers.now_ms)
        lines.show([{**row, **seen} for row in filter(is_wanted, [*new, *gone])])

    follow(ctx, poll, interval_s=interval_s, output=output)


def _fingerprint(row: dict[str, Any] | None) -> list[Any] | None:
    return None if row is None else [row.get(key) for key in _FOLLOWED]


@click.command()
@click.argument("group")
@source_options
@topic_option
@sort_option
@output_option()
@click.pass_context
def describe(
    ctx: click.Context, /, group: str, topics: tuple[str, ...], sort_by: tuple[str, ...], output: str, **_: Any
) -> None:
    """Show one group: state, members, assignment, offsets.

    --topic and --sort-by are for the offsets.

    \b
    Example:
      kshadow describe payments --bootstrap-server localhost:9092
    """
    from agent.cli.access import ask

    with ask(ctx, group, lag=True) as answers:
        form = find(ctx, answers, group)
        offsets = [row for row in form["offsets"] if matches(row["topic"], topics)]
        form = {**form, "offsets": arranged(offsets, sort_by, _OFFSET_COLUMNS)}
        if output != "table":
            print_value(form, output)
        else:
            _print_group(form)
        if answers.report(warn):
            ctx.exit(1)


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
    from agent.cli.access import ask

    with ask(ctx, group) as answers:
        rows = find(ctx, answers, group)["members"]
        if output == "table":
            rows = _member_rows(rows)
        rows = arranged(rows, _as_fields(sort_by, output), _MEMBER_COLUMNS)
        print_rows(rows, output, _MEMBER_COLUMNS, empty="no members")
        if answers.report(warn):
            ctx.exit(1)


def find(ctx: click.Context, answers: Answers, group: str) -> dict[str, Any]:
    """One group in full; ends the command where there is none."""
    form = answers.describe(group)
    if form is None:
        no_such_group(ctx, answers, group)
    return form


def no_such_group(ctx: click.Context, answers: Answers, group: str) -> NoReturn:
    """Say that there is no such group, and which may have been meant."""
    answers.report(warn)
    text = f"Error: no group {shortened(repr(group), MAX_TEXT)} {answers.where}"
    similar = _similar(group, [row["group"] for row in answers.groups()])
    warn(f"{text}; did you mean {similar}?" if similar else f"{text}; kshadow groups lists those there are")
    ctx.exit(1)


def _similar(group: str, groups: list[str]) -> str:
    from difflib import get_close_matches

    # Comparing takes the product of two lengths; it is for typing errors.
    names = [name for name in groups[:MAX_COMPARED] if len(name) <= MAX_TEXT]
    return " or ".join(map(repr, get_close_matches(group[:MAX_TEXT], names)))


def _member_rows(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [{**row, "count": sum(len(items) for items in row["assignment"].values())} for row in rows]


def _as_fields(keys: tuple[str, ...], output: str) -> list[str]:
    """How many partitions a member has is a column of tables; elsewhere its assignment tells."""
    names = {"count": "assignment", "partitions": "assignment"} if output != "table" else {}
    parts = [key.partition(":") for key in keys]
    return [names.get(name.lower(), name) + colon + direction for name, colon, direction in parts]


def _print_group(form: dict[str, Any]) -> None:
    facts = {
        "Group": form["group"],
        "Type": form["group_type"],
        "State": f"{form['state']} since {when(form['state_since_ms']) or 'an unknown time'}",
        "Generation": form["generation"],
        "Target": form.get("target_generation"),
        "Protocol": form.get("protocol"),
        "Leader": form.get("leader"),
        "Coordinator partition": form.get("coordinator_partition"),
        "Rebalances seen": form.get("rebalances"),
        "Never completed": form.get("generations_skipped") or None,
        "Last commit": when(form["last_commit_ms"]),
    }
    for name, value in facts.items():
        if value is not None:
            echo(f"{name + ':':<23}{cell(value)}")
    echo(f"\nMembers: {len(form['members']) or 'none'}")
    if form["members"]:
        print_rows(_member_rows(form["members"]), "table", _MEMBER_COLUMNS)
    echo(f"\nCommitted offsets: {len(form['offsets']) or 'none'}")
    if form["offsets"]:
        offsets = [{**row, "committed": when(row["committed_ms"])} for row in form["offsets"]]
        print_rows(offsets, "table", _OFFSET_COLUMNS)
    if form["anomalies"]:
        echo("\nAnomalies in the log:")
        for item in form["anomalies"]:
            echo(cell(f"  offset {item['offset']}, {when(item['at_ms'])}: {item['kind']}: {item['message']}"))
