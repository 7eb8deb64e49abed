"""Words and numbers as markup. Whatever strangers wrote becomes HTML here, and nowhere else.

Names are escaped, and what is not printable is shown as an escape; all else that is here makes small pieces of HTML
of our own numbers. Nothing carries a `style` attribute: the policy of the page would not have it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from html import escape
from urllib.parse import quote, urlencode

from agent.common.text import runs
from agent.core.diagnosis.severity import Severity
from agent.presentation import markup
from agent.presentation.markup import Markup
from agent.presentation.narrative.words import clock, day, iso, timestamp

MAX_TEXT = 200
"""Characters of a name."""
MAX_SENTENCE = 1_000
"""Characters of what an analyzer or the story says at a time."""
AGO = " ago"
JUST_NOW_MS = 5_000
"""What is that young changes with each look, and what changes draws eyes."""
MANY = 100_000
"""Numbers from here on are shown in thousands, millions, …; the title has all digits."""
_UNITS = "kMGTPE"

WIDE, NARROW = 1240, 320
"""Widths that pictures are drawn at, for a desk and for a phone: the page shows one of them."""


def text(value: object, most: int = MAX_TEXT) -> Markup:
    """Anything as text that does nothing; `…` says that there is more of it."""
    return markup.escape("-" if value is None else str(value), most)


name = partial(markup.name, most=MAX_TEXT)
"""A stranger's name, which turns no text around it; Kafka has a group of no letters."""


def sentences(value: str, most: int = MAX_SENTENCE) -> Markup:
    """A stranger's or the story's sentences; what stands between backticks is set as code."""
    return markup.prose(value, most)


def hidden(words: str) -> Markup:
    """Words for those who hear the page."""
    return Markup(f'<span class="sr">{words}</span>')


def section(key: str, title: str, inner: str) -> Markup:
    """A part of a page under its heading."""
    return Markup(f"""<section aria-labelledby="{key}-title" id="{key}">
<h2 id="{key}-title">{title}</h2>
{inner}
</section>""")


def table(kind: str, what: str, caption: str, heads: str, rows: str, *, body_id: str = "") -> Markup:
    """A table of `what`, which scrolls by itself where it is wide, by keyboard too. `heads` and `rows` are markup."""
    of = f' id="{body_id}"' if body_id else ""
    return Markup(f"""<div class="scroll" role="region" aria-label="Table of {what}" tabindex="0">
<table class="{kind}">
<caption class="sr">{caption}</caption>
<thead><tr>{heads}</tr></thead>
<tbody{of}>{rows}</tbody>
</table>
</div>""")


def more(rest: int, words: str) -> Markup:
    """That there are `rest` more than are shown; nothing where there are none."""
    return Markup(f'<p class="more">And {rest} {words}</p>' if rest > 0 else "")


# Addresses.


def group_address(group: str, cluster: str | None = None, **more: str | None) -> str | None:
    """Where a group's page is; None for a name that is no text, which has no address."""
    query = {"cluster": cluster, **more}
    try:
        if group.strip(".") == "" and len(group) < 3:
            # A browser takes `.` and `..` for folders, however they are written.
            return address("/groups/", group=group, **query)
        # Other dots too, for whoever is between.
        return address("/groups/" + quote(group, safe="").replace(".", "%2E"), **query)
    except UnicodeEncodeError:
        return None


def address(path: str, **query: str | None) -> str:
    """A path with what of the query is there."""
    asked = {name: value for name, value in query.items() if value is not None}
    return f"{path}?{urlencode(asked)}" if asked else path


def link(href: str | None, inner: str, **attributes: str) -> Markup:
    """A link around `inner`, which is escaped unless it is markup; that alone where there is no address."""
    shown = inner if isinstance(inner, Markup) else text(inner, MAX_SENTENCE)
    if href is None:
        return shown
    more = "".join(f' {name.rstrip("_").replace("_", "-")}="{escape(value)}"' for name, value in attributes.items())
    return Markup(f'<a href="{escape(href)}"{more}>{shown}</a>')


def current(is_here: bool, what: str = "true") -> dict[str, str]:
    """The attribute of a link to what is shown."""
    return {"aria_current": what} if is_here else {}


def chips(key: str, label: str, links: str) -> Markup:
    """A row of links, of which one is chosen."""
    return Markup(f'<nav class="chips" aria-label="{label}" id="{key}">{links}</nav>')


# Numbers and times.


def number(value: int | None, what: str = "not known") -> Markup:
    """A number as people read it; a dash for what is not known, which is never shown as 0."""
    if value is None:
        return Markup(
            f'<span class="unknown" title="{what}"><span aria-hidden="true">\u2013</span>{hidden(what)}</span>'
        )
    if abs(value) < MANY:
        return Markup(f"{value:,}")
    # What rounds to a thousand of a unit is one of the next.
    power = next((it for it in range(1, len(_UNITS)) if abs(value) < 999.5 * 1000**it), len(_UNITS))
    return Markup(f'<span title="{value:,}">{value / 1000**power:.3g} {_UNITS[power - 1]}</span>')


def at_least(shown: Markup) -> Markup:
    """A number of events, of which the agent has let older ones go."""
    return Markup(f'<span title="at least: the agent has let older events go">\u2265 {shown}</span>')


def number_ranges(numbers: Sequence[int]) -> str:
    """`0-3, 7`: runs of numbers, in order."""
    said = runs(numbers)
    return ", ".join(said[:20]) + (f" and {len(said) - 20} more" if len(said) > 20 else "")


def ago(at_ms: int | None, now_ms: int, *, after: str = AGO, none: str = "never") -> Markup:
    """How long ago, to one unit; the title has the time, and the script keeps the words true."""
    if at_ms is None:
        return number(None, none)
    words = "just now" if now_ms - at_ms < JUST_NOW_MS and after == AGO else f"{rough(now_ms - at_ms)}{after}"
    ours = f'data-ago="{at_ms}" data-after="{after}"'
    return Markup(f'<time datetime="{iso(at_ms)}" {ours} title="{timestamp(at_ms)} UTC">{words}</time>')


def at(at_ms: int, today: str | None = None) -> Markup:
    """A time of day, with the date where it is not `today`'s."""
    said = clock(at_ms) if today == day(at_ms) else timestamp(at_ms)
    return Markup(f'<time datetime="{iso(at_ms)}" title="{timestamp(at_ms)} UTC">{said}</time>')


def rough(ms: int) -> str:
    """A duration to one unit, rounded down: `0 s`, `12 s`, `5 min`, `3 h`, `2 d`. The script has the same."""
    seconds = max(ms, 0) // 1000
    for unit, size in (("d", 86_400), ("h", 3_600), ("min", 60)):
        if seconds >= size * (2 if unit == "d" else 1):
            return f"{seconds // size} {unit}"
    return f"{seconds} s"


# Marks: a shape and a word each, so that colour says nothing that they do not.

_SHAPES = {
    "critical": '<path d="M6 .8 11.6 11H.4z"/>',
    "warning": '<path d="M6 .4 11.6 6 6 11.6.4 6z"/>',
    "info": '<circle cx="6" cy="6" r="4.2"/>',
    "steady": '<circle cx="6" cy="6" r="3.6"/>',
    "moving": '<path d="M6 1.5a4.5 4.5 0 1 1-4.3 3.2" class="line"/><path d="M.4 1.6 1.4 5.5 5 4z"/>',
    "empty": '<circle cx="6" cy="6" r="3.6" class="line"/>',
    "gone": '<path d="m2.5 2.5 7 7m0-7-7 7" class="line"/>',
}
STATES = {
    "Stable": "steady",
    "PreparingRebalance": "moving",
    "CompletingRebalance": "moving",
    "Assigning": "moving",
    "Reconciling": "moving",
    "NotReady": "moving",
    "Empty": "empty",
    "Dead": "gone",
}


def mark(kind: str) -> Markup:
    """A small shape, which says nothing to who hears the page."""
    return Markup(
        f'<svg class="mark" viewBox="0 0 12 12" width="12" height="12" aria-hidden="true">{_SHAPES[kind]}</svg>'
    )


def severity(said: str, words: str | None = None) -> Markup:
    """How much a finding matters; one of another version's agent keeps its word, and looks like the least."""
    kind = Severity.of(said)
    return Markup(f'<span class="severity {kind}">{mark(kind)}{text(said if words is None else words, 40)}</span>')


def state(said: object) -> Markup:
    """A group's state, by Kafka's name."""
    kind = STATES.get(str(said), "empty")
    return Markup(f'<span class="state {kind}">{mark(kind)}{text(said)}</span>')


def bars(counts: Iterable[int], *, words: str, most: int = 1, wide: int = 5, high: int = 18) -> Markup:
    """Counts as bars, `most` of them being full height at least; `words` say the same."""
    counts = [*counts]
    top = max(most, *counts, 1)
    path = "".join(
        f"M{at * wide} {high}v-{max(2, round(count / top * (high - 1)))}h{wide - 1}V{high}z"
        for at, count in enumerate(counts)
        if count
    )
    width = len(counts) * wide
    return Markup(
        f'<svg class="bars" viewBox="0 0 {width} {high}" width="{width}" height="{high}" role="img" '
        f'aria-label="{escape(words)}"><path class="ground" d="M0 {high - 0.5}h{width - 1}"/><path d="{path}"/></svg>'
    )


def choices(name: str, chosen: str, options: Mapping[str, str]) -> Markup:
    """The options of a `<select>`, by value."""
    given = "".join(
        f'<option value="{escape(value)}"{" selected" if value == chosen else ""}>{text(words)}</option>'
        for value, words in options.items()
    )
    return Markup(f'<select name="{name}" id="{name}">{given}</select>')
