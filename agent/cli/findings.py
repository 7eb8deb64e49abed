"""`kshadow findings`: what the analyzers found."""

from __future__ import annotations

from typing import Any

import click

from agent.cli.arranging import arranged, match_option, matches, sort_option
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
    "summary": Column("SUMMARY", folds=16),
    "advice": Column("ADVICE", folds=24, spare=2),
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
    with ask(ctx, history=True) as answers:
        since_ms, until_ms = resolved(since, until, answers.now_ms)
        rows = [
            event
            for event in answers.findings(since_ms, until_ms)
            if (not groups or event["group"] in groups)
            and (not match or (event["group"] is not None and matches(event["group"], match)))
            and (not only or event["analyzer"] in only)
            and Severity.of(event["severity"]).rank >= least
        ]
        rows = _arranged(rows, sort_by)
        if output == "table":
            rows = [
                {
                    **event,
                    "since": when(event["since_ms"]),
                    "until": when(event["at_ms"]) if event["state"] == "resolved" else None,
                }
                for event in rows
            ]
        print_rows(rows, output, _COLUMNS, empty="no findings")
        if answers.report(warn):
            ctx.exit(1)


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
