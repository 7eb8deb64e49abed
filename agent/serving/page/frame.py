"""The document around each page: head, header, the keys, footer; and what the browser may do with it."""

from __future__ import annotations

from msgspec import Struct

from agent import __version__
from agent.core.queries import Health
from agent.presentation.markup import Markup
from agent.presentation.narrative.words import clock, timestamp
from agent.serving.page.markup import address, current, link, text
from agent.serving.page.static import static_address

HEADERS = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
    "img-src 'self' data:; base-uri 'none'; form-action 'self'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-store",
}
"""Nothing but the agent's own files may load or run, whatever slipped through."""

POLL_S = 3
"""How often an open page asks for news; while it is hidden, never."""

# Three swim lanes, one of which ends: the page's sign.
_LANES = "M2 4h12M2 8h5.5M11 8h3M2 12h12"
_ICON = (
    "data:image/svg+xml,%3Csvg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 16 16'%3E%3Crect width='16' "
    "height='16' rx='4' fill='%23274fb8'/%3E%3Cpath d='M3.5 5h9M3.5 8h3.6M10 8h2.5M3.5 11h9' stroke='%23fff' "
    "stroke-width='1.6' stroke-linecap='round'/%3E%3C/svg%3E"
)
_LOGO = (
    '<svg class="logo" viewBox="0 0 16 16" width="18" height="18" aria-hidden="true">'
    f'<path d="{_LANES}" fill="none" stroke="currentColor" stroke-width="2" stroke-linecap="round"/></svg>'
)

NAV_ITEMS = (("fleet", "/", "Fleet"), ("findings", "/findings", "Findings"))


class Page(Struct, frozen=True):
    """What a page has of its own. `announcement` is what somebody who hears it is told when it changes.

    `version` tells one state of what it shows from another; None where it is not asked for again.
    """

    title: str
    body: Markup
    at_ms: int
    nav_item: str = ""
    announcement: str = ""
    ready: Health | None = None
    version: str | None = None
    cluster: str | None = None
    status: int = 200


def main_part(page: Page) -> Markup:
    """The part that is asked for again and again."""
    poll = "" if page.version is None else f' data-poll="{POLL_S}" data-etag="{text(etag(page))}"'
    return Markup(
        f'<main id="main" tabindex="-1" data-title="{text(page.title)} · kshadow" data-now="{page.at_ms}"{poll} '
        f'data-says="{text(page.announcement, 500)}">{_health(page)}{page.body}</main>'
    )


def etag(page: Page) -> str:
    """The version as HTTP has it. Weak: what is shown is equal, not each byte of it (times pass)."""
    return f'W/"{page.version}"'


def _health(page: Page) -> Markup:
    if page.ready is None or page.ready.ready:
        return Markup("")
    # Who lost its brokers says what it knows: then it must say that this is of the past.
    return Markup(
        '<p class="notice bad" id="health"><strong>This agent is not up to date.</strong> '
        f"{text(page.ready.reason, 500)}. The page shows its last known state.</p>"
    )


def document(page: Page) -> Markup:
    """The page as HTML, from its doctype to its end."""
    return Markup(f"""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>{text(page.title)} · kshadow</title>
<link rel="icon" href="{_ICON}">
<link rel="stylesheet" href="{static_address("kshadow.css")}">
<script src="{static_address("theme.js")}"></script>
<script type="module" src="{static_address("kshadow.js")}"></script>
</head>
<body>
<a class="skip" href="#main">Skip to the content</a>
<header class="top">
<div class="bar">
<a class="brand" href="{text(address("/", cluster=page.cluster))}">{_LOGO}kshadow</a>
<nav aria-label="Pages">{_places(page)}</nav>
<div class="tools">
<span id="live" class="live" data-state="still">as of <time>{clock(page.at_ms)}</time> UTC</span>
<button type="button" id="pause" hidden>Pause</button>
<button type="button" id="theme" hidden>Theme</button>
<button type="button" id="help" hidden aria-haspopup="dialog"><kbd>?</kbd><span class="wide">Keys</span></button>
</div>
</div>
</header>
{main_part(page)}
<footer class="foot">
<p>kshadow {text(__version__)}. Times are UTC; this page was made at {timestamp(page.at_ms)}.
<span class="apis">{_APIS}</span></p>
</footer>
{_KEYS}
<p id="announce" class="sr" aria-live="polite"></p>
</body>
</html>
""")


def _places(page: Page) -> str:
    return "".join(
        link(address(path, cluster=page.cluster), words, **current(place == page.nav_item, "page"))
        for place, path, words in NAV_ITEMS
    )


_APIS = " ".join(link(path, path) for path in ("/metrics", "/api/v1/status", "/api/v1/groups", "/api/v1/findings"))


_KEYS = """<dialog id="keys" aria-labelledby="keys-title">
<h2 id="keys-title">Keys</h2>
<dl>
<div><dt><kbd>/</kbd></dt><dd>Filter</dd></div>
<div><dt><kbd>j</kbd> <kbd>k</kbd></dt><dd>Next, previous row (within a table also the arrow keys)</dd></div>
<div><dt><kbd>Enter</kbd></dt><dd>Open the row</dd></div>
<div><dt><kbd>h</kbd></dt><dd>All groups</dd></div>
<div><dt><kbd>f</kbd></dt><dd>Findings</dd></div>
<div><dt><kbd>p</kbd></dt><dd>Pause or resume updates</dd></div>
<div><dt><kbd>t</kbd></dt><dd>Theme: the system's, light, dark</dd></div>
<div><dt><kbd>Esc</kbd></dt><dd>Leave the filter, or close this list</dd></div>
</dl>
<p><label><input type="checkbox" id="keys-on" checked> Use single-key shortcuts</label></p>
<form method="dialog"><button>Close</button></form>
</dialog>"""
