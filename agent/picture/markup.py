"""HTML and SVG with nothing of strangers' in it: each piece of text is made printable, bounded and escaped here."""

from __future__ import annotations

from collections.abc import Iterable
from html import escape
from unicodedata import east_asian_width

from agent.plain import printable

MAX_NAME = 120
"""Characters of a name: real ones are shorter, and a hostile one may have 32,767."""
MAX_TEXT = 2_000
"""Characters of a sentence, of which strangers may have written a part."""
EMPTY = '""'
"""A name of no letters: Kafka has such a group."""

_WIDE = "WFA"
_THIN = frozenset("fijlrtI.,:;|!'()[]/-· ")
_BROAD = frozenset("mwMW@%…")


class Html(str):
    """Markup of ours. Every other text is escaped before it stands in a page."""

    __slots__ = ()


def html(value: str, most: int = MAX_TEXT) -> Html:
    """A text as markup; what is markup already stays as it is."""
    return value if isinstance(value, Html) else Html(escape(shortened(value, most)))


def shortened(text: str, most: int = MAX_NAME) -> str:
    """Made printable, and cut as it is shown; `…` says that there is more."""
    # An escape is up to ten times as long as its character.
    shown = printable(text[: most + 1])
    return shown if len(shown) <= most else shown[: most - 1] + "…"


def name(text: str) -> Html:
    """A stranger's name, which turns no text around it."""
    return Html(f"<bdi>{escape(shortened(text) or EMPTY)}</bdi>")


def join(pieces: Iterable[str], between: str = "") -> Html:
    """Pieces, escaped where they are no markup."""
    return Html(between.join(map(html, pieces)))


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


def prose(text: str, most: int = MAX_TEXT) -> Html:
    """A sentence of the story: what stands between backticks is a name, and is set as one."""
    pieces = shortened(text, most).split("`")
    if len(pieces) % 2 == 0:
        # Somebody's name has a backtick: then none of them says anything.
        return html(text, most)
    return Html(
        "".join(f"<code><bdi>{escape(it)}</bdi></code>" if at % 2 else escape(it) for at, it in enumerate(pieces))
    )
