"""The whole fleet in the page: the main thing, totals, causes over time, groups by trouble."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence

from agent.picture.causes import causes_over_time
from agent.picture.glyphs import look, rank
from agent.picture.markup import Html, html, join, name, prose, shortened
from agent.picture.troubles import rank as severity_rank
from agent.report.elements import badge, figure, numbers, section, table
from agent.report.facts import Facts, Row
from agent.report.groups import NARROW, WIDE, anchor
from agent.story.reading import TAKEN_OUT, Event
from agent.story.words import clock, count, duration, listed, sentence, stamp, times
from agent.story.words import name as quoted

MAX_ROWS = 1_000
"""Rows of the table of all groups."""
MAX_FINDINGS = 300

_HEADS = (
    "Group", "~Findings", "State", "#Members", "#Rebalances", "#Thrown out", "#Went otherwise",
    "#Stopped partition time",
)  # fmt: skip


def lead(facts: Facts) -> Html:
    """The main thing, in a few sentences."""
    moved = [row for row in facts.rows if row.rebalances]
    if not moved:
        return Html('<p class="lead">No group rebalanced in this time, as far as is known.</p>')
    if len(facts.rows) == 1:
        # Its own section says all of it.
        return Html("")
    said = [f"{len(moved):,} of {_groups(len(facts.rows))} rebalanced, {_times(facts.rebalances)} in all."]
    thrown = sum(row.thrown_out for row in facts.rows)
    if thrown:
        ways = [
            f"{n:,} {'session' if cause == 'session_timeout' else 'poll'} timeout{'' if n == 1 else 's'}"
            for cause, n in facts.went.most_common()
            if cause in TAKEN_OUT
        ]
        said.append(f"Members were thrown out {_times(thrown)} ({listed(ways)}).")
    if facts.stopped_ms:
        dearest = sorted((row for row in moved if row.stopped_ms), key=lambda row: -(row.stopped_ms or 0))[:3]
        most = listed([f"{quoted(row.group)} {duration(row.stopped_ms or 0)}" for row in dearest])
        of = f"; the dearest were {most}" if len(dearest) > 1 else ""
        said.append(f"Partitions stood still for {duration(facts.stopped_ms)}, summed over them{of}.")
    worst = facts.rows[0]
    if worst.findings:
        told = listed(list(dict.fromkeys(str(it["analyzer"]).replace("_", " ") for it in worst.findings)))
        said.append(f"In most trouble was {quoted(worst.group)}: {told}.")
    return Html(f'<p class="lead">{prose(" ".join(said))}</p>')


def _groups(number: int) -> str:
    return f"{number:,} group{'' if number == 1 else 's'}"


def _times(number: int) -> str:
    return times(number) if number < 1_000 else f"{number:,} times"


def totals(facts: Facts) -> Html:
    """Headline numbers of all groups."""
    thrown = sum(row.thrown_out for row in facts.rows)
    worst = Counter(str(it["severity"]) for row in facts.rows for it in row.findings)
    told = (
        listed([f"{n} {it}" for it, n in sorted(worst.items(), key=lambda it: severity_rank(it[0]))]) if worst else ""
    )
    stopped = None if facts.stopped_ms is None else duration(facts.stopped_ms)
    return numbers(
        [
            ("Groups", f"{len(facts.rows):,}", "", False),
            ("Rebalances", f"{facts.rebalances:,}", "", False),
            ("Thrown out", f"{thrown:,}", "sessions and polls that timed out", thrown > 0),
            ("Went otherwise", f"{sum(facts.went.values()) - thrown:,}", "", False),
            ("Stopped partition time", stopped, "two partitions for 3 s make 6 s", False),
            ("Findings", f"{sum(worst.values()):,}", told, False),
        ]
    )


def fleet(facts: Facts) -> Html:
    """The section of all groups together: pictures, and those in most trouble with links."""
    parts: list[str] = []
    if facts.causes:
        wide, narrow = (
            causes_over_time(
                facts.causes,
                since_ms=facts.since_ms,
                until_ms=facts.until_ms,
                width=width,
                label="What set off the rebalances of all groups",
            )
            for width in (WIDE, NARROW)
        )
        parts.append(figure(wide, narrow, "What set off rebalances, over all groups. The rows have one scale. UTC."))
    shown = [it.row for it in facts.detailed]
    if shown:
        links = {row.group for row in shown}
        parts.append(table(f"{_those(facts)}, the worst first", _HEADS, [_row(row, links) for row in shown]))
    if facts.cluster_findings:
        parts += ["<h3>Findings on the cluster</h3>", findings(facts.cluster_findings)]
    return section("fleet", "All groups together", *parts)


def _those(facts: Facts) -> str:
    return "The groups asked for" if facts.asked_for else f"{count(len(facts.detailed), 'group')} told of in full"


def others(facts: Facts) -> Html:
    """The section with the rest of the groups, as a table."""
    told = {it.row.group for it in facts.detailed}
    rest = [row for row in facts.rows if row.group not in told]
    shown = rest[:MAX_ROWS]
    parts: list[str] = []
    caption = f"The first {len(shown):,} of {len(rest):,}" if len(shown) < len(rest) else count(len(rest), "group")
    parts.append(table(f"{caption}, the worst first", _HEADS, [_row(row, ()) for row in shown]))
    left = rest[MAX_ROWS:]
    if left:
        quiet = sum(not row.is_worth_telling for row in left)
        parts.append(
            f'<p class="note">{len(left):,} more are not in the table; nothing happened to {quiet:,} of them. '
            "Name them to have them told of, or ask for a shorter time.</p>"
        )
    return section("others", "Other groups", *parts)


def _row(row: Row, links: Collection[str]) -> Sequence[str | None]:
    who = name(row.group)
    unknown = row.rebalances is None
    return (
        Html(f'<a href="#{anchor(row.group)}">{who}</a>') if row.group in links else who,
        _badges(row.findings),
        row.state or "gone",
        None if row.members is None else f"{row.members:,}",
        None if row.rebalances is None else f"{row.rebalances:,}",
        None if unknown else f"{row.thrown_out:,}",
        None if unknown else _others(row),
        None if row.stopped_ms is None else duration(row.stopped_ms),
    )


def _others(row: Row) -> Html:
    rest = {cause: n for cause, n in row.went.items() if cause not in TAKEN_OUT}
    about = ", ".join(f"{look(cause).word} {n:,}" for cause, n in sorted(rest.items(), key=lambda it: rank(it[0])))
    total = f"{sum(rest.values()):,}"
    return Html(f'<span title="{html(about)}">{total}</span>' if about else total)


def _badges(found: Sequence[Event]) -> Html:
    worst: dict[str, str] = {}
    for it in sorted(found, key=lambda it: severity_rank(str(it["severity"]))):
        worst.setdefault(shortened(str(it["analyzer"]), 40).replace("_", " "), str(it["severity"]))
    return join((badge(severity, f"{severity}: {analyzer}") for analyzer, severity in worst.items()), " ")


def findings(found: Sequence[Event]) -> Html:
    """Findings as a table."""
    worst = sorted(found, key=lambda it: (severity_rank(str(it["severity"])), it["since_ms"]))[:MAX_FINDINGS]
    rows = [
        (
            str(it["analyzer"]).replace("_", " "),
            badge(str(it["severity"])),
            f"{stamp(it['since_ms'])} to {'now' if it['state'] != 'resolved' else clock(it['at_ms'])}",
            Html(f"{html(sentence(it['summary']))}<br><small>{html(it['advice'])}</small>"),
        )
        for it in worst
    ]
    return table(
        count(len(found), "finding"), ("Analyzer", "Severity", "Open (UTC)", "~What, and what to change"), rows
    )
