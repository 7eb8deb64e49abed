"""`kshadow lag`: how far behind a group is, partition by partition."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby
from types import UnionType
from typing import TYPE_CHECKING, Any, NoReturn

import click

from agent.cli.options import follow_options, output_option, source_options
from agent.cli.output import echo, print_table, warn
from agent.cli.query import Query, pass_query
from agent.cli.sort_filter import matches_any, sort_option, topic_option
from agent.cli.tables import MIN_FOLDED_WIDTH, Column
from agent.cli.text import iso_time

if TYPE_CHECKING:
    from agent.cli.answers import Answers

Row = dict[str, Any]

_COLUMNS = {
    "topic": Column("TOPIC", folds=MIN_FOLDED_WIDTH),
    "partition": Column("PARTITION"),
    "offset": Column("COMMITTED", unit="count"),
    "log_start": Column("LOG START", spare=3, unit="count"),
    "end": Column("END", unit="count"),
    "lag": Column("LAG", unit="count"),
    "lag_seconds": Column("SECONDS"),
    "committed": Column("COMMITTED AT", spare=2),
    "member": Column("MEMBER", folds=MIN_FOLDED_WIDTH, spare=1),
    "lag_note": Column("NOTE", folds=MIN_FOLDED_WIDTH),
}
_TOTALS = (Column("TOPIC", folds=MIN_FOLDED_WIDTH), "PARTITIONS", Column("LAG", unit="count"), "SECONDS", "UNKNOWN")
_TEXTS = {
    "below_log_start": "records it had not read were deleted",
    "open_transaction": "more lies behind an open transaction",
    "unknown_end": "the end is not known",
    "stale_end": "the end was not seen lately",
    "topic_deleted": "the topic is gone",
    "topic_denied": "no right to Describe the topic",
    "topic_recreated": "committed in an earlier topic of that name",
    "beyond_end": "committed beyond the end",
    "not_committed": "nothing committed",
    "not_counted": "not counted by these brokers",
    "not_read": "what was committed lately is not known",
}


@click.command()
@click.argument("group")
@source_options
@topic_option
@sort_option(_COLUMNS, "lag")
@follow_options
@output_option()
@pass_query
def lag(query: Query, /, group: str, topics: tuple[str, ...], **_: Any) -> None:
    """Show the lag of one group, by partition.

    Lag is given in records, and in seconds as the age of the next record to read; what is unknown is absent (null).
    An agent tells END and LAG as of its last look at the ends; COMMITTED may be newer. Lag needs Describe on the
    topics that the group commits to. Files do not contain the end offsets of topics.
    --follow prints each topic whose lag has changed (with -o ndjson each partition).

    \b
    Examples:
      kshadow lag payments --bootstrap-server localhost:9092
      kshadow lag payments --agent http://localhost:9308 -o json
    """
    from agent.cli.answers import find_group

    if query.follows:
        _follow(query, group, topics)
    with query.open(group, lag=True) as answers:
        form = find_group(answers, group)
        every = lag_rows(form)
        rows = [row for row in every if matches_any(row["topic"], topics)]
        empty = "no offsets of such a topic" if every else "no offsets committed"
        query.print_rows(rows, _COLUMNS, shown=_shown, view=_sortable, empty=empty if query.is_table else "nothing")
        if query.is_table and rows:
            echo("")
            print_table([[*it.values()] for it in _totals(rows)], _TOTALS)
        if query.ctx.params["from_path"] is not None and not answers.capabilities.live:
            warn("lag is not known: files do not say where topics end; --bootstrap-server and --agent do")
        if isinstance(seen_ms := form.get("offsets_seen_ms"), int):
            from agent.presentation.narrative.sampling import COUNTED_AS_LAG

            warn(f"(the committed offsets were read at {iso_time(seen_ms)}; {COUNTED_AS_LAG})")


def _follow(query: Query, group: str, topics: tuple[str, ...]) -> NoReturn:
    from agent.cli.answers import find_group
    from agent.cli.following import RowPrinter

    columns = {key: Column(key.upper()) for key in ("seen", "topic", "partitions", "lag", "seconds", "unknown")}
    lines = RowPrinter(query.output, columns)
    before: dict[tuple[str, int], Any] = {}

    def poll(answers: Answers) -> None:
        nonlocal before
        form = answers.describe(group) if before else find_group(answers, group)
        rows = [row for row in lag_rows(form or {**_NOTHING}) if matches_any(row["topic"], topics)]
        now = {(row["topic"], row["partition"]): row["lag"] for row in rows}
        new = [row for row in rows if before.get(key := (row["topic"], row["partition"]), key) != row["lag"]]
        before = now
        if not query.is_table:
            lines.print({**row, "seen_ms": answers.now_ms} for row in new)
            return
        changed = {row["topic"] for row in new}
        seen = {"seen": iso_time(answers.now_ms)}
        lines.print(seen | total for total in _totals(rows) if total["topic"] in changed)

    query.follow(poll, group, lag=True)


_NOTHING: Row = {"members": [], "offsets": [], "group_type": ""}


def lag_rows(form: Row) -> list[Row]:
    """A description's partitions, by topic: those that were committed, and those that a member holds without."""
    owners = {
        (topic, partition): member
        for member in form["members"]
        for topic, partitions in member["assignment"].items()
        if isinstance(partitions, list)
        for partition in partitions
        if isinstance(partition, int)
    }
    committed = {(it["topic"], it["partition"]): it for it in form["offsets"]}
    rows = []
    for topic, partition in sorted(committed.keys() | (owners.keys() if _has_topics(form) else set())):
        it = committed.get((topic, partition), {})
        owner = owners.get((topic, partition), {})
        rows.append(
            {
                "topic": topic,
                "partition": partition,
                **{name: _of_kind(it.get(name), kind) for name, kind in _LAG.items()},
                **{name: owner.get(name) for name in ("member_id", "client_id", "client_host")},
            }
        )
        if not it:
            rows[-1]["lag_note"] = "not_committed"
    return rows


_LAG: dict[str, type | UnionType] = {
    "offset": int,
    "log_start": int,
    "end": int,
    "lag": int,
    "lag_seconds": int | float,
    "lag_seconds_at_least": bool,
    "lag_note": str,
    "held_back": int,
    "lost": int,
    "committed_ms": int,
}


def _of_kind(value: Any, kind: type | UnionType) -> Any:
    """What an agent of another version, or anybody, does not say so is not known."""
    return value if isinstance(value, kind) else None


def _has_topics(form: Row) -> bool:
    """Whether its members hold partitions of topics, and not tasks."""
    return form["group_type"] in ("classic", "consumer")


def _shown(row: Row) -> Row:
    note = row["lag_note"]
    seconds = row["lag_seconds"]
    return {
        **row,
        "lag_seconds": f"≥ {seconds:g}" if seconds is not None and row["lag_seconds_at_least"] else seconds,
        "committed": iso_time(row["committed_ms"]),
        "member": row["client_id"] if row["client_id"] else row["member_id"],
        "lag_note": _TEXTS.get(note, note),
    }


def _sortable(row: Row) -> Row:
    return {**row, "member": row["client_id"] or row["member_id"]}


def _totals(rows: list[Row]) -> Iterator[Row]:
    """Of each topic: its partitions, their lag, the longest lag in seconds, and of how many the lag is not known."""
    for topic, of_topic in groupby(rows, lambda row: row["topic"]):
        partitions = list(of_topic)
        known = [row for row in partitions if row["lag"] is not None]
        seconds = [row["lag_seconds"] for row in known]
        longest = None if not seconds or None in seconds else max(seconds)
        at_least = longest is not None and any(row["lag_seconds_at_least"] for row in known)
        yield {
            "topic": topic,
            "partitions": len(partitions),
            "lag": sum(row["lag"] for row in known) if known else None,
            "seconds": f"≥ {longest:g}" if at_least else longest,
            "unknown": len(partitions) - len(known),
        }
