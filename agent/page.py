"""The page for people at `/`: open findings and every group, as one HTML document without scripts or other files.

Names are strangers': each is escaped for HTML, and what is not printable is shown as an escape.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Mapping, Sequence
from hashlib import sha256
from html import escape
from typing import Any
from urllib.parse import quote

from agent import __version__
from agent.plain import printable
from agent.runtime import Health
from agent.story.words import count, duration, stamp
from analyzers.severity import Severity

MAX_ROWS = 2_000
"""Rows of a table: more is no page for people, and the API has all."""
MAX_TEXT = 200
"""Characters of a name; of what an analyzer says, five times as many."""

STYLE = """
:root { color-scheme: light dark; font: 15px/1.45 system-ui, sans-serif; }
body { margin: 1.5rem auto; max-width: 78rem; padding: 0 1rem; }
table { border-collapse: collapse; width: 100%; margin-bottom: 2rem; }
th, td { text-align: left; padding: .3rem .8rem .3rem 0; border-bottom: 1px solid #8884; vertical-align: top; }
td.long { overflow-wrap: anywhere; }
td.number, th.number { text-align: right; font-variant-numeric: tabular-nums; }
.critical { color: #c22; font-weight: bold; }
.warning { color: #b60; font-weight: bold; }
small { opacity: .75; }
"""

_HASH = b64encode(sha256(STYLE.encode()).digest()).decode()
HEADERS = {
    "Content-Security-Policy": f"default-src 'none'; style-src 'sha256-{_HASH}'; base-uri 'none'; "
    "form-action 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-store",
}
"""Nothing but the page's own style may load or run, whatever slipped through."""

Row = Mapping[str, Any]


def page(groups: Sequence[Row], findings: Sequence[Row], ready: Health, now_ms: int) -> str:
    """The document. `groups` are rows of the API, `findings` the events of those that are open."""
    worst = sorted(findings, key=lambda it: (-Severity.of(it["severity"]).rank, it["since_ms"]))
    return f"""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width">
<title>kshadow</title>
<style>{STYLE}</style>
</head>
<body>
<h1>kshadow</h1>
<p>{count(len(groups), "group")}, {count(len(findings), "open finding")} at {stamp(now_ms)} UTC.
The agent: {_text(ready.reason)}.</p>
<h2>Open findings</h2>
{_table(_FINDING_HEADS, [_finding(it, now_ms) for it in worst[:MAX_ROWS]], len(worst), "None.")}
<h2>Groups</h2>
{_table(_GROUP_HEADS, [_group(it, now_ms) for it in groups[:MAX_ROWS]], len(groups), "None.")}
<p><small>kshadow {_text(__version__)}. <a href="/metrics">/metrics</a>
<a href="/api/v1/groups">/api/v1/groups</a> <a href="/api/v1/findings">/api/v1/findings</a></small></p>
</body>
</html>
"""


_FINDING_HEADS = ("Severity", "Open for", "~Group", "Analyzer", "~What is wrong, and what to change")
_GROUP_HEADS = ("~Group", "Type", "State", "#Members", "#Partitions", "#Rebalances", "Last commit", "History")
"""`#`: a column of numbers; `~`: of words that may be of any length."""
_CLASSES = {"#": ' class="number"', "~": ' class="long"'}


def _finding(it: Row, now_ms: int) -> list[str]:
    return [
        f'<span class="{Severity.of(it["severity"])}">{_text(it["severity"])}</span>',
        _ago(it["since_ms"], now_ms),
        "-" if it["group"] is None else _link(it["group"], ""),
        _text(it["analyzer"]),
        f"{_text(it['summary'], 5 * MAX_TEXT)}<br><small>{_text(it['advice'], 5 * MAX_TEXT)}</small>",
    ]


def _group(it: Row, now_ms: int) -> list[str]:
    last = it["last_commit_ms"]
    return [
        _link(it["group"], ""),
        *(_text(it[key]) for key in ("group_type", "state", "members", "partitions", "rebalances")),
        "-" if last is None else f"{_ago(last, now_ms)} ago",
        _link(it["group"], "/timeline", "timeline"),
    ]


def _link(group: str, rest: str, text: str | None = None) -> str:
    shown = _text(group) if text is None else text
    try:
        # Dots too: a browser takes `..` for the folder above.
        address = quote(group, safe="").replace(".", "%2E")
    except UnicodeEncodeError:
        return shown
    return f'<a href="/api/v1/groups/{address}{rest}">{shown}</a>'


def _table(heads: Sequence[str], rows: Sequence[Sequence[str]], total: int, empty: str) -> str:
    if not rows:
        return f"<p>{empty}</p>"
    hows = [_CLASSES.get(head[0], "") for head in heads]
    head = "".join(f"<th{how}>{it.lstrip('#~')}</th>" for it, how in zip(heads, hows, strict=True))
    body = "\n".join(
        "<tr>" + "".join(f"<td{how}>{it}</td>" for it, how in zip(row, hows, strict=True)) + "</tr>" for row in rows
    )
    more = f"<p>And {total - len(rows)} more: the API has all.</p>" if total > len(rows) else ""
    return f"<table>\n<thead><tr>{head}</tr></thead>\n<tbody>\n{body}\n</tbody>\n</table>{more}"


def _text(value: object, most: int = MAX_TEXT) -> str:
    # Cut as it is shown: an escape is up to ten times as long as its character.
    shown = printable("-" if value is None else str(value)[: most + 1])
    return escape(shown if len(shown) <= most else shown[: most - 1] + "…")


def _ago(at_ms: int, now_ms: int) -> str:
    return duration(max(now_ms - at_ms, 0))
