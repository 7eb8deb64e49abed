"""`kshadow groups`: every group, a row each."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NoReturn

import click

from agent.cli.options import follow_options, output_option, source_options
from agent.cli.query import Query, pass_query
from agent.cli.sort_filter import match_option, matches_any, sort_option, state_option, type_option
from agent.cli.tables import Column, with_cluster
from agent.cli.text import iso_time
from agent.presentation.narrative.phrases import known_generation

if TYPE_CHECKING:
    from agent.cli.answers import Answers

_COLUMNS = {
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
_FOLLOWED_COLUMNS = ("group", "group_type", "state", "generation", "protocol", "members", "partitions", "rebalances")
"""Columns in which a change is news."""


@click.command()
@source_options
@match_option
@state_option
@type_option
@sort_option(_COLUMNS, "group")
@follow_options
@output_option()
@pass_query
def groups(
    query: Query, /, match: tuple[str, ...], states: tuple[str, ...], types: tuple[str, ...], **_: Any
) -> None:
    """List the groups.

    LAG is what an agent knows; kshadow lag asks the brokers for the lag of one group.

    With --follow a group is printed again when its state, generation, members or partitions change. A deleted group
    is Dead.

    \b
    Examples:
      kshadow groups --from /var/lib/kafka/data --sort-by rebalances:desc --type classic
      kshadow groups --from /var/lib/kafka/data
      kshadow groups --bootstrap-server localhost:9092 -o json
      kshadow groups --agent http://localhost:9308
    """

    def is_wanted(row: dict[str, Any]) -> bool:
        return (
            matches_any(row["group"], match)
            and (not states or row["state"] in states)
            and (not types or row["group_type"] in types)
        )

    if query.follows:
        _follow(query, is_wanted)
    empty = "no group is like that" if match or states or types else "no groups"
    from agent.cli.answers import warn_stale

    with query.open() as answers:
        known = answers.groups()
        rows = [*filter(is_wanted, known)]
        query.print_rows(rows, with_cluster(_COLUMNS, known), shown=_shown, empty=empty)
        warn_stale(rows, answers)


def _shown(row: dict[str, Any]) -> dict[str, Any]:
    return {
        **row,
        "state": _state(row),
        "generation": known_generation(row),
        "last_commit": iso_time(row["last_commit_ms"]),
        "state_since": iso_time(row["state_since_ms"]),
    }


def _state(row: dict[str, Any]) -> str:
    """With the time that it is of, where it may be another by now."""
    stale = row.get("stale")
    return str(row["state"]) if stale is None else f"{row['state']} as of {iso_time(stale['since_ms'])}"


def _follow(query: Query, is_wanted: Callable[[dict[str, Any]], bool]) -> NoReturn:
    from agent.cli.following import RowPrinter

    columns = {"seen": Column("SEEN"), **{key: _COLUMNS[key] for key in _FOLLOWED_COLUMNS}}
    lines: RowPrinter | None = None
    before: dict[tuple[str | None, str], dict[str, Any]] = {}

    def poll(answers: Answers) -> None:
        nonlocal before, lines
        rows = {(row.get("cluster"), row["group"]): row for row in answers.groups()}
        gone = [{**row, "state": "Dead", "members": 0} for key, row in before.items() if key not in rows]
        new = [row for key, row in rows.items() if _fingerprint(row) != _fingerprint(before.get(key))]
        before = rows
        lines = lines or RowPrinter(
            query.output,
            with_cluster(columns, rows.values()),
            lambda row: {**_shown(row), "seen": iso_time(row["seen_ms"])},
        )
        lines.print({**row, "seen_ms": answers.now_ms} for row in filter(is_wanted, [*new, *gone]))

    query.follow(poll)


def _fingerprint(row: dict[str, Any] | None) -> list[Any] | None:
    return None if row is None else [*(row.get(key) for key in _FOLLOWED_COLUMNS), row.get("stale") is None]
