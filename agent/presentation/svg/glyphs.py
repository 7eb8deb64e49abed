"""A shape and a colour for each cause, the same wherever a cause is drawn."""

from __future__ import annotations

from agent.core.causes import Cause, CauseInfo, Mark, cause_info
from agent.presentation.markup import Markup

RADIUS = 7.5


_OUTLINES = {
    "circle": f'<circle r="{RADIUS}"/>',
    "square": '<rect x="-7" y="-7" width="14" height="14" rx="2"/>',
    "diamond": '<path d="M0-8.6L8.6 0L0 8.6L-8.6 0Z"/>',
}
_SIGNS = {
    "cross": "M-3.2-3.2L3.2 3.2M3.2-3.2L-3.2 3.2",
    "hourglass": "M-3-4H3L-3 4H3Z",
    "arrow": "M-3.6 0H3.4M.6-2.9L3.6 0L.6 2.9",
    "minus": "M-3.6 0H3.6",
    "question": "M-2.2-1.8C-2.2-4.8 2.4-4.8 2.4-1.8C2.4 .2 0-.2 0 1.6M0 4.2V4.3",
    "plus": "M-3.4 0H3.4M0-3.4V3.4",
    "circling": "M2.9-1.6A3.4 3.4 0 1 0 3.3 1.2M3.2-4.2V-1.4H.4",
    "dot": "M-.4 0H.4",
}

_REPLACED = CauseInfo(
    label="static member joined again",
    because="",
    mark=Mark("replaced", "diamond", "circling"),
    severity_rank=len(Cause) + 1,
)
"""Drawn as causes are, and none."""

ORDER = (*sorted(map(str, Cause), key=lambda cause: cause_info(cause).severity_rank), "replaced")
"""The worst first, as far as causes are better or worse."""


def look(cause: str) -> CauseInfo:
    """How a cause is drawn, or the return of a static member (`replaced`)."""
    return _REPLACED if cause == "replaced" else cause_info(cause)


def glyph(cause: str, x: float, y: float, title: str = "", *, small: bool = False) -> Markup:
    """The mark of a cause at a place. `title` is shown on hover, and is markup already escaped."""
    kind, outline, sign = look(cause).mark
    scale = " scale(.72)" if small else ""
    hover = f"<title>{title}</title>" if title else ""
    shape = _OUTLINES[outline].replace("/>", ' class="edge"/>', 1)
    drawn = f'{hover}{shape}<path class="ink" d="{_SIGNS[sign]}"/>'
    return Markup(f'<g class="{kind}" transform="translate({x:g} {y:g}){scale}">{drawn}</g>')


def rank(cause: str) -> int:
    """Which of several is shown where there is room for one: the smallest."""
    return ORDER.index(cause) if cause in ORDER else len(ORDER)
