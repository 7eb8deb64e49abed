"""The whole fleet in the page: the main thing, totals, causes over time, groups by trouble."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence

from agent.core.causes import TIMEOUT_CAUSES
from agent.presentation.markup import Markup, escape, join, name, prose, shortened
from agent.presentation.narrative.events import Event
from agent.presentation.narrative.findings import severity_rank
from agent.presentation.narrative.phrases import unknown_costs
from agent.presentation.narrative.words import (
    at_least,
    capitalized,
    clock,
    count,
    day,
    duration,
    join_words,
    sentence,
    times,
    timestamp,
)
from agent.presentation.narrative.words import name as quoted
from agent.presentation.report.elements import badge, counted, numbers, section, stopped_time, table
from agent.presentation.report.fleet_report import FleetReport, GroupSummary
from agent.presentation.report.group_section import causes_figure, group_anchor
from agent.presentation.svg.glyphs import look, rank

MAX_ROWS = 1_000
"""Rows of the table of all groups."""
MAX_FINDINGS = 300

_GROUP_HEADS = (
    "Group", "~Findings", "State", "#Members", "#Rebalances", "#Timeouts", "#Other departures",
    "#Stopped partition time",
)  # fmt: skip


def lead_paragraph(facts: FleetReport) -> Markup:
    """The main thing, in a few sentences."""
    moved = [row for row in facts.groups if row.rebalances]
    if not moved:
        return Markup('<p class="lead">No rebalance of any group is known in this range.</p>')
    if len(facts.groups) == 1:
        # Its own section says all of it.
        return Markup("")
    is_partial = facts.is_partial
    often = at_least(_times_word(facts.rebalances), is_partial)
    who = at_least(f"{len(moved):,}", any(row.is_partial and not row.rebalances for row in facts.groups))
    said = [f"{capitalized(who)} of {len(facts.groups):,} groups rebalanced, {often} in all."]
    timed_out = sum(row.timed_out for row in facts.groups)
    if timed_out:
        timeouts = {str(cause): cause.info.departure_noun or ("", "") for cause in TIMEOUT_CAUSES}
        ways = [
            f"{n:,} {timeouts[cause][n != 1].lower()}"
            for cause, n in facts.departures.most_common()
            if cause in timeouts
        ]
        said.append(f"Members timed out {at_least(_times_word(timed_out), is_partial)} ({join_words(ways)}).")
    if facts.stopped_ms:
        costliest = sorted((row for row in moved if row.stopped_ms), key=lambda row: -(row.stopped_ms or 0))[:3]
        shares = [f"{quoted(it.group)} {stopped_time(it.stopped_ms, it.is_cost_partial)}" for it in costliest]
        of = f"; the largest share: {join_words(shares)}" if len(costliest) > 1 else ""
        lasted = at_least(duration(facts.stopped_ms), is_partial or facts.unknown_costs > 0)
        said.append(f"Rebalances stopped partitions for {lasted}, summed over the partitions{of}.")
    if facts.unknown_costs:
        said.append(f"{capitalized(unknown_costs(facts.unknown_costs, facts.rebalances))}.")
    worst = facts.groups[0]
    if worst.findings:
        told = join_words(list(dict.fromkeys(str(it["analyzer"]).replace("_", " ") for it in worst.findings)))
        said.append(f"The most severe findings are on {quoted(worst.group)}: {told}.")
    return Markup(f'<p class="lead">{prose(" ".join(said))}</p>')


def _times_word(number: int) -> str:
    return times(number) if number < 1_000 else f"{number:,} times"


def headline_numbers(facts: FleetReport) -> Markup:
    """Headline numbers of all groups."""
    timed_out = sum(row.timed_out for row in facts.groups)
    worst = Counter(str(it["severity"]) for row in facts.groups for it in row.findings)
    told = (
        join_words([f"{n} {it}" for it, n in sorted(worst.items(), key=lambda it: severity_rank(it[0]))])
        if worst
        else ""
    )
    is_partial = facts.is_partial
    stopped = stopped_time(facts.stopped_ms, is_partial or facts.unknown_costs > 0)
    found = counted(sum(worst.values()), facts.findings_complete_since_ms is not None)
    return numbers(
        [
            ("Groups", f"{len(facts.groups):,}", "", False),
            ("Rebalances", counted(facts.rebalances, is_partial), "", False),
            ("Timeouts", counted(timed_out, is_partial), "session, poll or rejoin timeout", timed_out > 0),
            ("Other departures", counted(sum(facts.departures.values()) - timed_out, is_partial), "", False),
            ("Stopped partition time", stopped, "two partitions stopped for 3 s: 6 s", False),
            ("Findings", found, told, False),
        ]
    )


def fleet_section(facts: FleetReport) -> Markup:
    """The section of all groups together: pictures, and those in most trouble with links."""
    parts: list[str] = []
    if facts.causes:
        label = "Causes of rebalances, all groups"
        caption = "Causes of rebalances, all groups. All rows have the same scale. Times are UTC."
        parts.append(causes_figure(facts.causes, facts.since_ms, facts.until_ms, label, caption))
    shown = [it.summary for it in facts.details]
    if shown:
        links = {row.group for row in shown}
        parts.append(
            table(
                f"{_caption(facts)}, most severe findings first",
                _GROUP_HEADS,
                [_group_row(row, links) for row in shown],
            )
        )
    if facts.cluster_findings:
        parts += ["<h3>Findings on the cluster</h3>", findings_table(facts.cluster_findings)]
    return section("fleet", "All groups", *parts)


def _caption(facts: FleetReport) -> str:
    return "The requested groups" if facts.are_groups_named else f"{count(len(facts.details), 'group')} in full"


def other_groups_section(facts: FleetReport) -> Markup:
    """The section with the rest of the groups, as a table."""
    told = {it.summary.group for it in facts.details}
    rest = [row for row in facts.groups if row.group not in told]
    shown = rest[:MAX_ROWS]
    parts: list[str] = []
    caption = f"The first {len(shown):,} of {len(rest):,}" if len(shown) < len(rest) else count(len(rest), "group")
    parts.append(
        table(f"{caption}, most severe findings first", _GROUP_HEADS, [_group_row(row, ()) for row in shown])
    )
    left = rest[MAX_ROWS:]
    if left:
        quiet = sum(not row.is_noteworthy and not row.is_partial for row in left)
        are = "is" if len(left) == 1 else "are"
        parts.append(
            f'<p class="note">{len(left):,} more {are} not in the table; {quiet:,} of them had no events. '
            "Name them to include them, or choose a shorter range.</p>"
        )
    return section("others", "Other groups", *parts)


def _group_row(row: GroupSummary, links: Collection[str]) -> Sequence[str | None]:
    who = name(row.group)
    unknown = row.rebalances is None
    return (
        Markup(f'<a href="#{group_anchor(row.group)}">{who}</a>') if row.group in links else who,
        _badges(row.findings),
        row.state or "deleted",
        None if row.members is None else f"{row.members:,}",
        None if row.rebalances is None else counted(row.rebalances, row.is_partial),
        None if unknown else counted(row.timed_out, row.is_partial),
        None if unknown else _other_departures(row),
        stopped_time(row.stopped_ms, row.is_cost_partial),
    )


def _other_departures(row: GroupSummary) -> str | None:
    rest = {cause: n for cause, n in row.departures.items() if cause not in TIMEOUT_CAUSES}
    about = ", ".join(f"{look(cause).label} {n:,}" for cause, n in sorted(rest.items(), key=lambda it: rank(it[0])))
    total = counted(sum(rest.values()), row.is_partial)
    return Markup(f'<span title="{escape(about)}">{total}</span>') if about else total


def _badges(found: Sequence[Event]) -> Markup:
    worst: dict[str, str] = {}
    for it in sorted(found, key=lambda it: severity_rank(str(it["severity"]))):
        worst.setdefault(shortened(str(it["analyzer"]), 40).replace("_", " "), str(it["severity"]))
    return join((badge(severity, f"{severity}: {analyzer}") for analyzer, severity in worst.items()), " ")


def findings_table(found: Sequence[Event]) -> Markup:
    """Findings as a table."""
    worst = sorted(found, key=lambda it: (severity_rank(str(it["severity"])), it["since_ms"]))[:MAX_FINDINGS]
    rows = [
        (
            str(it["analyzer"]).replace("_", " "),
            badge(str(it["severity"])),
            f"{timestamp(it['since_ms'])} to {_end_of(it)}",
            Markup(f"{escape(sentence(it['summary']))}<br><small>{escape(it['advice'])}</small>"),
        )
        for it in worst
    ]
    return table(count(len(found), "finding"), ("Analyzer", "Severity", "Open (UTC)", "~Finding, and advice"), rows)


def _end_of(found: Event) -> str:
    """When a finding was over, with the date where it is another one than that of its beginning. The range may end
    long before now."""
    if found["state"] != "resolved":
        return "the end"
    is_same_day = day(found["at_ms"]) == day(found["since_ms"])
    return clock(found["at_ms"]) if is_same_day else timestamp(found["at_ms"])
