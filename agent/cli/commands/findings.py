"""`kshadow findings`: what the analyzers found."""

from __future__ import annotations

from collections.abc import Callable
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
from agent.cli.sort_filter import match_option, matches_any, sort_option, sort_rows
from agent.cli.tables import MIN_FOLDED_WIDTH, Column
from agent.cli.text import iso_time
from agent.common.timespec import TimeSpec
from agent.core.diagnosis.severity import Severity

if TYPE_CHECKING:
    from agent.cli.answers import Answers

LISTED = {
    "section": "See what is going on",
    "place": 5,
    "number": 12,
    "help": "List what the analyzers hold open, or found in a range.",
}

_COLUMNS = {
    "since": Column("SINCE"),
    "until": Column("UNTIL", spare=1),
    "severity": Column("SEVERITY"),
    "analyzer": Column("ANALYZER", folds=MIN_FOLDED_WIDTH),
    "group": Column("GROUP", folds=MIN_FOLDED_WIDTH),
    "summary": Column("SUMMARY", folds=16, below=70),
    "advice": Column("ADVICE", folds=50, spare=2, below=70),
}


@click.command()
@source_options
@range_options
@analyzer_options
@option("--group", "groups", multiple=True, help="Only findings on this group. Repeatable.")
@match_option
@option("--analyzer", "only", multiple=True, help="Only findings of this analyzer. Repeatable.")
@option("--severity", type=click.Choice(tuple(map(str, Severity))), help="Only findings at least as severe.")
@sort_option
@follow_options
@output_option()
@click.pass_context
def findings(
    ctx: click.Context,
    /,
    since: TimeSpec | None,
    until: TimeSpec | None,
    groups: tuple[str, ...],
    match: tuple[str, ...],
    only: tuple[str, ...],
    severity: str | None,
    sort_by: tuple[str, ...],
    follows: bool,
    interval: float,
    output: str,
    **_: Any,
) -> None:
    """List what the analyzers hold open, or found in a range.

    Without --since and --until: what is open now (with --from: where the files end). With them: all that was open at
    some time in between, UNTIL when it was resolved. A finding about the cluster has no group.

    \b
    Examples:
      kshadow findings --agent http://localhost:9308 --severity warning
      kshadow findings --from /var/lib/kafka/data --since 1d -o json
    """
    from agent.cli.data_source import open_source

    least = 0 if severity is None else Severity(severity).rank

    def is_wanted(event: dict[str, Any]) -> bool:
        return (
            (not groups or event["group"] in groups)
            and (not match or (event["group"] is not None and matches_any(event["group"], match)))
            and (not only or event["analyzer"] in only)
            and Severity.of(event["severity"]).rank >= least
        )

    if follows:
        _follow(ctx, since, is_wanted, interval, output)
    with open_source(ctx, history=True) as answers:
        since_ms, until_ms = resolve_range(since, until, answers.now_ms)
        rows = list(filter(is_wanted, answers.findings(since_ms, until_ms)))
        rows = _arranged(rows, sort_by)
        if output == "table":
            rows = list(map(_shown, rows))
        print_rows(rows, output, _COLUMNS, empty="no findings")
        if only and not rows:
            _warn_of_unknown(only)
        if answers.report(warn):
            ctx.exit(1)


def _shown(event: dict[str, Any]) -> dict[str, Any]:
    until = iso_time(event["at_ms"]) if event["state"] == "resolved" else None
    return {**event, "since": iso_time(event["since_ms"]), "until": until}


def _follow(
    ctx: click.Context,
    since: TimeSpec | None,
    is_wanted: Callable[[dict[str, Any]], bool],
    interval_s: float,
    output: str,
) -> NoReturn:
    """What is open (or was since then), and from then on whatever opens and is resolved."""
    from agent.cli.following import OVERLAP_MS, RowPrinter, SeenEvents, follow

    seen, lines = SeenEvents(), RowPrinter(output, _COLUMNS)
    asked_ms: int | None = None

    def poll(answers: Answers) -> None:
        nonlocal asked_ms
        if asked_ms is None:
            new = seen.only_new(answers.findings(None if since is None else since.before(answers.now_ms)))
            # What was resolved lately is no news.
            seen.only_new(answers.findings(answers.now_ms - OVERLAP_MS))
        else:
            new = seen.only_new(answers.findings(asked_ms - OVERLAP_MS))
        asked_ms = answers.now_ms
        wanted = list(filter(is_wanted, new))
        lines.print(list(map(_shown, wanted)) if output == "table" else wanted)

    follow(ctx, poll, interval_s=interval_s, output=output)


def _warn_of_unknown(only: tuple[str, ...]) -> None:
    """An agent may have analyzers that are not here; a name that nobody knows is rather misspelt."""
    from difflib import get_close_matches

    from analyzers.registry import known_analyzers

    kinds = known_analyzers()
    for name in (it for it in only if it not in kinds):
        near = get_close_matches(name, kinds, n=1)
        hint = f"did you mean {near[0]!r}?" if near else "kshadow analyzers lists those there are"
        warn(f"(no analyzer is called {name!r} here; {hint})")


def _arranged(rows: list[dict[str, Any]], sort_by: tuple[str, ...]) -> list[dict[str, Any]]:
    """Severities by how severe they are; UNTIL is when a finding that is over was resolved."""
    more = [
        {
            **row,
            "severity": Severity.of(row["severity"]).rank,
            "until_ms": row["at_ms"] if row["state"] == "resolved" else None,
            "row": row,
        }
        for row in rows
    ]
    return [row["row"] for row in sort_rows(more, sort_by, _COLUMNS)]
