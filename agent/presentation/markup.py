"""HTML and SVG with nothing of strangers' in it: each piece of text is made printable, bounded and escaped here.

`Markup` is markupsafe's: functions that make pages and drawings take and give it, so that a text which nobody escaped
is a type error. It is made of f-strings: for a table's row `Markup.format` takes ten times as long, `%` five times,
a Jinja2 macro eight (100 rows, Python 3.11), and their templates would be no shorter.
"""

from __future__ import annotations

import html
from base64 import b64encode
from collections.abc import Iterable
from hashlib import sha256
from unicodedata import east_asian_width

from markupsafe import Markup as Markup

from agent.common.text import printable_truncated
from agent.presentation.narrative.words import QUOTED

MAX_NAME = 120
"""Characters of a name: real ones are shorter, and a hostile one may have 32,767."""
MAX_TEXT = 2_000
"""Characters of a sentence, of which strangers may have written a part."""
EMPTY = '""'
"""A name of no letters: Kafka has such a group."""

_WIDE = "WFA"
_THIN = frozenset("fijlrtI.,:;|!'()[]/-· ")
_BROAD = frozenset("mwMW@%…")


def escape(value: str, most: int = MAX_TEXT) -> Markup:
    """A text as markup, made printable and cut; what is markup already stays as it is."""
    # Not markupsafe's own `escape`: quotes are written as they always were, and texts are bounded.
    return value if isinstance(value, Markup) else Markup(html.escape(shortened(value, most)))


def shortened(text: str, most: int = MAX_NAME) -> str:
    """Made printable, and cut as it is shown; `…` says that there is more."""
    return printable_truncated(text, most)


def name(text: str, most: int = MAX_NAME) -> Markup:
    """A stranger's name, which turns no text around it."""
    return Markup(f"<bdi>{html.escape(shortened(text, most) or EMPTY)}</bdi>")


def join(pieces: Iterable[str], between: str = "") -> Markup:
    """Pieces, escaped where they are no markup."""
    return Markup(between.join(map(escape, pieces)))


def width_of(text: str, size: float) -> float:
    """About how many pixels a line takes in a sans-serif of `size` pixels: rather too many than too few."""
    return size * sum(map(_width, text))


def _width(char: str) -> float:
    if char in _THIN:
        return 0.4
    if char in _BROAD or (char > "\u1100" and east_asian_width(char) in _WIDE):
        return 1.05
    return 0.7 if char.isupper() else 0.61


def fitting(text: str, size: float, room: float) -> str:
    """As much of a text as has room, made printable; `…` says that there is more, nothing that not even that fits."""
    shown = shortened(text)
    if width_of(shown, size) <= room:
        return shown
    room -= width_of("…", size)
    out = ""
    for char in shown:
        room -= size * _width(char)
        if room < 0:
            break
        out += char
    return f"{out.rstrip()}…" if out else ""


def name_fitting(text: str, size: float, room: float) -> str:
    """As `fitting`, but cut in the middle: names of one fleet differ at their ends."""
    shown = shortened(text)
    if width_of(shown, size) <= room:
        return shown
    head = fitting(shown, size, room * 0.45).removesuffix("…")
    tail = fitting(shown[::-1], size, room - width_of(head + "…", size)).removesuffix("…")[::-1]
    return f"{head}…{tail}"


def prose(text: str, most: int = MAX_TEXT) -> Markup:
    """A sentence of the story: what stands between backticks is a name, and is set as one."""
    said = [html.escape(piece) for piece in QUOTED.split(shortened(text, most))]
    said[1::2] = [f"<code><bdi>{it or EMPTY}</bdi></code>" for it in said[1::2]]
    return Markup("".join(said))


def style_policy(style: str) -> str:
    """The Content-Security-Policy of a page that has this style, pictures in itself, and nothing that is loaded or
    run."""
    digest = b64encode(sha256(style.encode()).digest()).decode()
    return f"default-src 'none'; img-src data:; style-src 'sha256-{digest}'; base-uri 'none'; form-action 'none'"
