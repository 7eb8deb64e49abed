"""The page: HTML without scripts, that asks for nothing."""

from __future__ import annotations

from agent.presentation.markup import Markup, escape, join, name, shortened, style_policy
from agent.presentation.narrative.words import count, duration, join_words, timestamp
from agent.presentation.report.elements import paragraphs, section
from agent.presentation.report.fleet_report import FleetReport
from agent.presentation.report.fleet_section import (
    fleet_section,
    headline_numbers,
    lead_paragraph,
    other_groups_section,
)
from agent.presentation.report.group_section import group_anchor, group_section
from agent.presentation.report.style import STYLE

MAX_PROBLEMS = 50
MAX_TITLE = 200

Section = tuple[str, str, Markup]
"""An anchor, a line of the contents, and the section."""


def document(facts: FleetReport) -> str:
    """The page as HTML, from its doctype to its end."""
    parts = _sections(facts)
    title = escape(facts.origin.title or _title(facts), MAX_TITLE)
    contents = "".join(f'<li><a href="#{key}">{said}</a></li>' for key, said, _ in parts)
    return f"""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{escape(style_policy(STYLE))}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="referrer" content="no-referrer">
<meta name="color-scheme" content="light dark">
<meta name="generator" content="kshadow {escape(facts.origin.version)}">
<link rel="icon" href="data:,">
<title>{title}</title>
<style>{STYLE}</style>
</head>
<body>
<a class="skip" href="#main">To the report</a>
<header>
<h1>{title}</h1>
<p class="meta">{escape(_range_line(facts))}<br>{escape(_source_line(facts))}</p>
{lead_paragraph(facts)}
{headline_numbers(facts) if len(facts.groups) != 1 else ""}
</header>
<nav aria-labelledby="contents"><h2 id="contents">Contents</h2><ol>{contents}</ol></nav>
<main id="main">
{join((part for _, _, part in parts), chr(10))}
</main>
<footer><p class="meta">{_made(facts)} This page is one
file: it runs no script and loads nothing.</p></footer>
</body>
</html>
"""


def _title(facts: FleetReport) -> str:
    if facts.are_groups_named and len(facts.groups) == 1:
        return f"What happened to {shortened(facts.groups[0].group, 80)}"
    number = len(facts.groups)
    return f"What happened to {number:,} consumer group{'' if number == 1 else 's'}"


def _range_line(facts: FleetReport) -> str:
    if not facts.until_ms:
        return "Nothing was read that has a time"
    lasted = duration(facts.until_ms - facts.since_ms)
    return f"From {timestamp(facts.since_ms)} to {timestamp(facts.until_ms)} UTC ({lasted})"


def _source_line(facts: FleetReport) -> str:
    made = facts.origin
    return f"Read {shortened(made.source, 300)} by kshadow {made.version}; made {timestamp(made.made_at_ms)} UTC"


def _made(facts: FleetReport) -> Markup:
    return escape(f"Made by kshadow {facts.origin.version} on {timestamp(facts.origin.made_at_ms)} UTC.")


def _sections(facts: FleetReport) -> list[Section]:
    out: list[Section] = []
    if len(facts.groups) != 1 or facts.cluster_findings:
        out.append(("fleet", "All groups", fleet_section(facts)))
    for it in facts.details:
        out.append(
            (
                group_anchor(it.summary.group),
                name(it.summary.group),
                group_section(it, facts.since_ms, facts.until_ms),
            )
        )
    if len(facts.groups) > len(facts.details):
        out.append(("others", "Other groups", other_groups_section(facts)))
    out.append(("limits", "What is not known", _limits(facts)))
    return out


def _limits(facts: FleetReport) -> Markup:
    said = [
        "Causes are inferred from what brokers write; each has a probability. Why a removed member stopped sending "
        "heartbeats or polling is in its own log.",
        "Stopped time is summed over partitions; it does not show how many records waited. Where all members "
        "are drawn "
        "as waiting, the beginning of that time is an estimate.",
    ]
    bounds = [*(row.complete_since_ms for row in facts.groups), *(it.complete_since_ms for it in facts.details)]
    early, early_findings = [it for it in bounds if it is not None], facts.findings_complete_since_ms
    if early or early_findings is not None:
        lacks = [f"some groups lack those before {timestamp(max(early))} UTC"] if early else []
        if early_findings is not None:
            lacks.append(f"findings that were over before {timestamp(early_findings)} UTC may be missing")
        said.append(
            f"The agent keeps the latest events only: {join_words(lacks)}. What is counted there is marked as the "
            "least there was; ? stands where nothing is known. With --bootstrap-server the report reads all that the "
            "topic still holds."
        )
    if facts.groups_without_history:
        said.append(
            f"{count(facts.groups_without_history, 'group')} of the agent's "
            f"{'was' if facts.groups_without_history == 1 else 'were'} not asked "
            "for its events, to limit the load: the table shows ? for those. Name a group to include it."
        )
    if not facts.are_deleted_listed and not facts.are_groups_named:
        said.append(
            "Groups that were deleted are missing, but for those with a finding: an agent lists the groups there "
            "are. With --bootstrap-server they are listed, as far as the topic holds them."
        )
    parts: list[str] = [paragraphs(said)]
    if facts.origin.problems:
        shown = [*facts.origin.problems[:MAX_PROBLEMS]]
        if len(facts.origin.problems) > len(shown):
            shown.append(f"and {len(facts.origin.problems) - len(shown):,} more")
        items = "".join(f"<li>{escape(it, 400)}</li>" for it in shown)
        parts.append(f"<h3>Problems in the data</h3><ul>{items}</ul>")
    return section("limits", "What is not known", *parts)
