"""The page: HTML without scripts, that asks for nothing."""

from __future__ import annotations

from agent.picture.markup import Html, html, join, name, shortened
from agent.report.elements import paragraphs, section
from agent.report.facts import Facts
from agent.report.fleet import fleet, lead, others, totals
from agent.report.groups import anchor, of_group
from agent.report.style import STYLE, policy
from agent.story.words import count, duration, stamp

MAX_PROBLEMS = 50
MAX_TITLE = 200

Part = tuple[str, str, Html]
"""An anchor, a line of the contents, and the section."""


def document(facts: Facts) -> str:
    """The whole of it."""
    parts = _parts(facts)
    title = html(facts.made.title or _title(facts), MAX_TITLE)
    contents = "".join(f'<li><a href="#{key}">{said}</a></li>' for key, said, _ in parts)
    return f"""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{html(policy())}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="referrer" content="no-referrer">
<meta name="color-scheme" content="light dark">
<meta name="generator" content="kshadow {html(facts.made.version)}">
<link rel="icon" href="data:,">
<title>{title}</title>
<style>{STYLE}</style>
</head>
<body>
<a class="skip" href="#main">To the report</a>
<header>
<h1>{title}</h1>
<p class="meta">{html(_span(facts))}<br>{html(_source(facts))}</p>
{lead(facts)}
{totals(facts) if len(facts.rows) != 1 else ""}
</header>
<nav aria-labelledby="contents"><h2 id="contents">Contents</h2><ol>{contents}</ol></nav>
<main id="main">
{join((part for _, _, part in parts), chr(10))}
</main>
<footer><p class="meta">Made by kshadow {html(facts.made.version)} on {stamp(facts.made.at_ms)} UTC. This page is one
file: it runs no script and asks for nothing.</p></footer>
</body>
</html>
"""


def _title(facts: Facts) -> str:
    if facts.asked_for and len(facts.rows) == 1:
        return f"What happened to {shortened(facts.rows[0].group, 80)}"
    number = len(facts.rows)
    return f"What happened to {number:,} consumer group{'' if number == 1 else 's'}"


def _span(facts: Facts) -> str:
    lasted = duration(facts.until_ms - facts.since_ms)
    return f"From {stamp(facts.since_ms)} to {stamp(facts.until_ms)} UTC ({lasted})"


def _source(facts: Facts) -> str:
    made = facts.made
    return f"Read {shortened(made.where, 300)} by kshadow {made.version}; made {stamp(made.at_ms)} UTC"


def _parts(facts: Facts) -> list[Part]:
    out: list[Part] = []
    if len(facts.rows) != 1:
        out.append(("fleet", "All groups together", fleet(facts)))
    for it in facts.detailed:
        out.append((anchor(it.row.group), name(it.row.group), of_group(it, facts.since_ms, facts.until_ms)))
    if len(facts.rows) > len(facts.detailed):
        out.append(("others", "Other groups", others(facts)))
    out.append(("limits", "What this report cannot tell", _limits(facts)))
    return out


def _limits(facts: Facts) -> Html:
    said = [
        "Causes are inferred from what brokers write: each has the probability that it is right. Who is called "
        "thrown out fell silent; why it did, its own log knows.",
        "How long partitions stood still is summed over them, and says nothing of how many records waited. Where "
        "everybody is drawn as waiting, the beginning of that time is an estimate.",
    ]
    early = [it.complete_since_ms for it in facts.detailed if it.complete_since_ms is not None]
    if early:
        said.append(
            f"An agent keeps the latest events only: of some groups those before {stamp(max(early))} UTC are "
            "missing. The same report with --bootstrap-server reads all that the topic still holds."
        )
    if facts.not_asked:
        said.append(
            f"{count(facts.not_asked, 'group')} of the agent's {'was' if facts.not_asked == 1 else 'were'} not asked "
            "what happened, to be gentle with it: those have a ? in the table. Name a group to have it told of."
        )
    parts: list[str] = [paragraphs(said)]
    if facts.made.problems:
        shown = [*facts.made.problems[:MAX_PROBLEMS]]
        if len(facts.made.problems) > len(shown):
            shown.append(f"and {len(facts.made.problems) - len(shown):,} more")
        items = "".join(f"<li>{html(it, 400)}</li>" for it in shown)
        parts.append(f"<h3>What was wrong with the data</h3><ul>{items}</ul>")
    return section("limits", "What this report cannot tell", *parts)
