"""A shape and a colour for each cause, the same wherever a cause is drawn."""

from __future__ import annotations

from typing import NamedTuple

from agent.picture.markup import Html

RADIUS = 7.5


class Cause(NamedTuple):
    """How a cause is drawn: the class of its colour, its outline, what is inside, and a word or two for it."""

    kind: str
    shape: str
    ink: str
    word: str


_CIRCLE = f'<circle r="{RADIUS}"/>'
_SQUARE = '<rect x="-7" y="-7" width="14" height="14" rx="2"/>'
_DIAMOND = '<path d="M0-8.6L8.6 0L0 8.6L-8.6 0Z"/>'
_CROSS = "M-3.2-3.2L3.2 3.2M3.2-3.2L-3.2 3.2"
_GLASS = "M-3-4H3L-3 4H3Z"
_AWAY = "M-3.6 0H3.4M.6-2.9L3.6 0L.6 2.9"
_MINUS = "M-3.6 0H3.6"
_QUESTION = "M-2.2-1.8C-2.2-4.8 2.4-4.8 2.4-1.8C2.4 .2 0-.2 0 1.6M0 4.2V4.3"
_PLUS = "M-3.4 0H3.4M0-3.4V3.4"
_AGAIN = "M2.9-1.6A3.4 3.4 0 1 0 3.3 1.2M3.2-4.2V-1.4H.4"
_DOT = "M-.4 0H.4"

_CAUSES = {
    "session_timeout": Cause("session", _CIRCLE, _CROSS, "session timed out"),
    "poll_timeout": Cause("poll", _SQUARE, _GLASS, "did not poll in time"),
    "member_left": Cause("left", _CIRCLE, _AWAY, "left by itself"),
    "admin_removed": Cause("removed", _DIAMOND, _MINUS, "removed by an admin"),
    "unknown_departure": Cause("unknown", _CIRCLE, _QUESTION, "went, unknown how"),
    "member_joined": Cause("joined", _CIRCLE, _PLUS, "joined"),
    "subscription_changed": Cause("other", _SQUARE, _DOT, "subscription changed"),
    "partitions_changed": Cause("other", _SQUARE, _DOT, "partitions changed"),
    "cooperative_followup": Cause("other", _SQUARE, _DOT, "second round"),
    "leader_rejoined": Cause("other", _SQUARE, _DOT, "leader rejoined"),
    "protocol_migrated": Cause("other", _SQUARE, _DOT, "protocol changed"),
    "unknown": Cause("unknown", _CIRCLE, _QUESTION, "cause unknown"),
    "replaced": Cause("replaced", _DIAMOND, _AGAIN, "static member came back"),
}

ORDER = tuple(_CAUSES)
"""The worst first, as far as causes are better or worse."""


def look(cause: str) -> Cause:
    """How it is drawn; causes may be added at any time."""
    return _CAUSES.get(cause) or Cause("other", _SQUARE, _DOT, cause.replace("_", " ")[:40])


def glyph(cause: str, x: float, y: float, title: str = "", *, small: bool = False) -> Html:
    """The mark of a cause at a place. `title` is shown on hover, and is markup already escaped."""
    it = look(cause)
    scale = " scale(.72)" if small else ""
    hover = f"<title>{title}</title>" if title else ""
    shape = it.shape.replace("/>", ' class="edge"/>', 1)
    drawn = f'{hover}{shape}<path class="ink" d="{it.ink}"/>'
    return Html(f'<g class="{it.kind}" transform="translate({x:g} {y:g}){scale}">{drawn}</g>')


def rank(cause: str) -> int:
    """Which of several is shown where there is room for one: the smallest."""
    return ORDER.index(cause) if cause in ORDER else len(ORDER)
