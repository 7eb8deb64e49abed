"""The page: its sections in their order."""

from __future__ import annotations

from html import escape

from agent.history.report.page import markup as m
from agent.history.report.page import words as w
from agent.history.report.page.causes import causes
from agent.history.report.page.comparison import comparison
from agent.history.report.page.deploys import deploys
from agent.history.report.page.gains import gains
from agent.history.report.page.header import header
from agent.history.report.page.limits import limits
from agent.history.report.page.rankings import rankings
from agent.history.report.page.style import STYLE
from agent.history.report.page.week import week
from agent.history.report.report_data import ReportData
from agent.presentation.markup import style_policy

_SECTIONS = (
    ("groups", "Groups and teams", rankings),
    ("causes", "Causes", causes),
    ("when", "When", week),
    ("deploys", "Deploys", deploys),
    ("before-after", "Before and after", comparison),
    ("settings", "Settings", gains),
    ("limits", "What is not known", limits),
)
"""Each with its anchor, its line of the contents, and what makes it; one that there is nothing for is None."""


def render_document(found: ReportData) -> str:
    """HTML without scripts and other files; nothing in it asks for anything."""
    parts = [(key, said, part) for key, said, render in _SECTIONS if (part := render(found)) is not None]
    links = "".join(f'<li><a href="#{key}">{said}</a></li>' for key, said, _ in parts)
    title = f"kshadow: consumer groups, {w.moment(found.span.since_ms)[:10]} to {w.moment(found.span.until_ms)[:10]}"
    return f"""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{escape(style_policy(STYLE))}">
<meta name="viewport" content="width=device-width">
<meta name="referrer" content="no-referrer">
<meta name="color-scheme" content="light dark">
<link rel="icon" href="data:,">
<title>{m.html(title)}</title>
<style>{STYLE}</style>
</head>
<body>
{header(found)}
<nav aria-label="Sections"><ul>{links}</ul></nav>
<main>
{m.join((part for *_, part in parts), chr(10))}
</main>
</body>
</html>
"""
