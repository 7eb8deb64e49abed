"""`kshadow findings`: what the analyzers found."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NoReturn

import click

from agent.cli.options import follow_options, history_options, option, output_option
from agent.cli.output import warn
from agent.cli.query import Query, pass_query
from agent.cli.sort_filter import is_about, match_option, sort_option
from agent.cli.tables import MIN_FOLDED_WIDTH, Column, with_cluster
from agent.cli.text import iso_time
from agent.common.timespec import TimeSpec
from agent.core.diagnosis.severity import Severity

if TYPE_CHECKING:
    from agent.cli.answers import Answers

_COLUMNS = {
    "since": Column("SINCE"),
    "until": Column("UNTIL", spare=1),
    "as_of": Column("AS OF", spare=2),
    "severity": Column("SEVERITY"),
    "analyzer": Column("ANALYZER", folds=MIN_FOLDED_WIDTH),
    "group": Column("GROUP", folds=MIN_FOLDED_WIDTH),
    "summary": Column("SUMMARY", folds=16, below=70),
    "advice": Column("ADVICE", folds=50, spare=3, below=70),
}


@click.command()
@history_options
@option("--group", "groups", multiple=True, help="Only findings on this group. Repeatable.")
@match_option
@option("--analyzer", "only", multiple=True, help="Only findings of this analyzer. Repeatable.")
@option("--severity", type=click.Choice(tuple(map(str, Severity))), help="Only findings at least as severe.")
@sort_option(_COLUMNS, "finding")
@follow_options
@output_option()
@pass_query
def findings(
    query: Query,
    /,
    since: TimeSpec | None,
    groups: tuple[str, ...],
    match: tuple[str, ...],
    only: tuple[str, ...],
    severity: str | None,
    **_: Any,
) -> None:
    """List the open findings, or those of a range.

    Without --since and --until: the findings that are open now (with --from: with the last record that the files
    have of the group's partition; what is due later is not known to have happened). With them: all that were open at
    some time in the range. SINCE is when the condition of a finding began to hold, UNTIL when it was resolved. AS OF
    is when the summary of an open one was written: as it opened or grew worse, not anew with each case. A finding
    about the cluster has no group.

    \b
    Examples:
      kshadow findings --agent http://localhost:9308 --severity warning
      kshadow findings --from /var/lib/kafka/data --since 1d -o json
    """
    least = 0 if severity is None else Severity(severity).rank

    def is_wanted(event: dict[str, Any]) -> bool:
        return (
            is_about(event, groups, match)
            and (not only or event["analyzer"] in only)
            and Severity.of(event["severity"]).rank >= least
        )

    from agent.cli.answers import warn_stale
    from agent.cli.data_source import finds_here

    if only and finds_here(query.ctx):
        _refuse_unknown(only)
    if query.follows:
        _follow(query, since, is_wanted)
    with query.open(history=True, tables=True) as answers:
        since_ms, until_ms = query.range_ms(answers)
        # What is open now may be over by then.
        found = [] if query.is_ahead(answers, since_ms) else answers.findings(since_ms, until_ms)
        for group in sorted({*groups} - {event["group"] for event in found}):
            _refuse_unknown_group(answers, group)
        rows = list(filter(is_wanted, found))
        is_idle = finds_here(query.ctx) and query.ctx.params["analyzer_names"] == "none"
        none = "no findings: no analyzer was run" if is_idle else "no findings"
        empty = query.nothing_in_range(answers, since_ms, none)
        known = answers.groups() if answers.capabilities.live else []
        query.print_rows(rows, with_cluster(_COLUMNS, known), shown=_shown, view=_sortable, empty=empty)
        if not rows and not answers.now_ms and answers.groups():
            warn("the records have no timestamps: nothing is found without times")
        if since_ms is not None or until_ms is not None:
            _warn_of_gaps(answers, groups, since_ms)
        if only and not rows:
            _warn_of_unknown(only)
        if answers.capabilities.live:
            warn_stale((it for it in known if is_about(it, groups, match)), answers)


def _warn_of_gaps(answers: Answers, groups: tuple[str, ...], since_ms: int | None) -> None:
    """An agent remembers the latest events only, so a finding of the range may be gone."""
    from agent.presentation.narrative.events import lost_before_ms

    bounds = [answers.findings_complete_since_ms(group) for group in groups or (None,)]
    latest_ms = max((it for it in bounds if it is not None), default=None)
    if (kept_ms := lost_before_ms(latest_ms, since_ms)) is not None:
        before = iso_time(kept_ms)
        warn(f"(the agent keeps the latest events only: findings that were over before {before} may be missing)")


def _shown(event: dict[str, Any]) -> dict[str, Any]:
    return {**event, "since": iso_time(event["since_ms"]), _end(event): iso_time(event["at_ms"])}


def _sortable(event: dict[str, Any]) -> dict[str, Any]:
    """Severities by how severe they are."""
    rank = Severity.of(event["severity"]).rank
    return {**event, "severity": rank, f"{_end(event)}_ms": event["at_ms"]}


def _end(event: dict[str, Any]) -> str:
    """The column of the time of a finding's newest event: UNTIL where it is over, AS OF while it is open."""
    return "until" if event["state"] == "resolved" else "as_of"


def _follow(query: Query, since: TimeSpec | None, is_wanted: Callable[[dict[str, Any]], bool]) -> NoReturn:
    """What is open (or was since then), and from then on whatever opens and is resolved."""
    from agent.cli.following import OVERLAP_MS, RowPrinter, SeenEvents

    seen = SeenEvents()
    lines: RowPrinter | None = None
    asked_ms: int | None = None

    def poll(answers: Answers) -> None:
        nonlocal asked_ms, lines
        lines = lines or RowPrinter(query.output, with_cluster(_COLUMNS, answers.groups()), _shown)
        if asked_ms is None:
            new = seen.only_new(answers.findings(None if since is None else since.before(answers.now_ms)))
            # What was resolved lately is no news.
            seen.only_new(answers.findings(answers.now_ms - OVERLAP_MS))
        else:
            new = seen.only_new(answers.findings(asked_ms - OVERLAP_MS))
        asked_ms = answers.now_ms
        lines.print(filter(is_wanted, new))

    query.follow(poll)


def _refuse_unknown(only: tuple[str, ...]) -> None:
    from analyzers.registry import AnalyzerConfigError, select_analyzers

    try:
        select_analyzers(only)
    except AnalyzerConfigError as error:
        raise click.UsageError(f"--analyzer: {error}") from error


def _refuse_unknown_group(answers: Answers, group: str) -> None:
    """That a group has no finding is an answer only where there is that group, or was."""
    from agent.cli.answers import no_such_group

    if group not in answers.group_names() and answers.timeline(group) is None:
        no_such_group(answers, group)


def _warn_of_unknown(only: tuple[str, ...]) -> None:
    """Who found them may have analyzers that are not here; a name that nobody knows is rather misspelt."""
    from difflib import get_close_matches

    from analyzers.registry import known_analyzers

    kinds = known_analyzers()
    for name in (it for it in only if it not in kinds):
        near = get_close_matches(name, kinds, n=1)
        hint = f"did you mean {near[0]!r}?" if near else "kshadow analyzers lists those there are"
        warn(f"(no analyzer is called {name!r} here; {hint})")
