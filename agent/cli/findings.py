"""`kshadow findings`: what the analyzers found."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NoReturn

import click

from agent.cli.arranging import arranged, match_option, matches, sort_option
from agent.cli.follow_options import follow_options
from agent.cli.options import analyzer_options, option, output_option, source_options
from agent.cli.output import print_rows, warn
from agent.cli.tables import FOLDED, Column
from agent.cli.text import when
from agent.cli.times import range_options, resolved
from agent.moments import Moment
from analyzers.severity import Severity

_COLUMNS = {
    "since": Column("SINCE"),
    "until": Column("UNTIL", spare=1),
    "severity": Column("SEVERITY"),
    "analyzer": Column("ANALYZER", folds=FOLDED),
    "group": Column("GROUP", folds=FOLDED),
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
    since: Moment | None,
    until: Moment | None,
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
    from agent.cli.access import ask

    least = 0 if severity is None else Severity(severity).rank

    def is_wanted(event: dict[str, Any]) -> bool:
        return (
            (not groups or event["group"] in groups)
            and (not match or (event["group"] is not None and matches(event["group"], match)))
            and (not only or event["analyzer"] in only)
            and Severity.of(event["severity"]).rank >= least
        )

    if follows:
        _follow(ctx, since, is_wanted, interval, output)
    with ask(ctx, history=True) as answers:
        since_ms, until_ms = resolved(since, until, answers.now_ms)
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
    until = when(event["at_ms"]) if event["state"] == "resolved" else None
    return {**event, "since": when(event["since_ms"]), "until": until}


def _follow(
    ctx: click.Context,
    since: Moment | None,
    is_wanted: Callable[[dict[str, Any]], bool],
    interval_s: float,
    output: str,
) -> NoReturn:
    """What is open (or was since then), and from then on whatever opens and is resolved."""
    from agent.cli.following import OVERLAP_MS, Lines, Live, Seen, follow

    seen, lines = Seen(), Lines(output, _COLUMNS)
    asked_ms: int | None = None

    def poll(answers: Live) -> None:
        nonlocal asked_ms
        if asked_ms is None:
            new = seen.new(answers.findings(None if since is None else since.before(answers.now_ms)))
            # What was resolved lately is no news.
            seen.new(answers.findings(answers.now_ms - OVERLAP_MS))
        else:
            new = seen.new(answers.findings(asked_ms - OVERLAP_MS))
        asked_ms = answers.now_ms
        wanted = list(filter(is_wanted, new))
        lines.show(list(map(_shown, wanted)) if output == "table" else wanted)

    follow(ctx, poll, interval_s=interval_s, output=output)


def _warn_of_unknown(only: tuple[str, ...]) -> None:
    """An agent may have analyzers that are not here; a name that nobody knows is rather misspelt."""
    from difflib import get_close_matches

    from agent.diagnosis.registry import known

    kinds = known()
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
    return [row["row"] for row in arranged(more, sort_by, _COLUMNS)]
