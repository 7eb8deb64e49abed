"""What the shapes mean: only those that are there."""

from __future__ import annotations

from agent.presentation.markup import Markup, escape, width_of
from agent.presentation.svg.canvas import SEVERITY_LETTERS, Canvas
from agent.presentation.svg.glyphs import ORDER, glyph, look
from agent.presentation.svg.shapes import dots, hatched, path, rect, text

_SWATCH_WIDTH = 22.0


def draw_legend(canvas: Canvas) -> None:
    """Entries in as many lines as they take."""
    x = left = 4.0
    canvas.y += 6
    for key, said in _entries(canvas.used):
        takes = _SWATCH_WIDTH + 8 + width_of(said, 10.5) + 14
        if x + takes > canvas.width and x > left:
            x = left
            canvas.y += 20
        canvas.add(_swatch(key, x, canvas.y), text("small", x + _SWATCH_WIDTH + 6, canvas.y + 11, escape(said)))
        x += takes
    canvas.y += 20


def _entries(used: set[str]) -> list[tuple[str, str]]:
    others = (it for it in used.difference(ORDER, _SWATCHES) if not it.startswith("severity "))
    out = [(cause, look(cause).label) for cause in (*ORDER, *sorted(others)) if cause in used]
    out += [(key, said) for key, said in _SWATCHES.items() if key in used]
    return out + [(f"severity {it}", it) for it in SEVERITY_LETTERS if f"severity {it}" in used]


_SWATCHES = {
    "stay": "member of the group",
    "silent": "no commits until removed",
    "pause": "all members waited for the rebalance (estimate)",
    "nobody": "no members",
    "forgotten": "before the agent's oldest event",
    "standstill": "share of partitions stopped",
}


def _swatch(key: str, x: float, y: float) -> Markup:
    wide, high = _SWATCH_WIDTH, 14.0
    match key:
        case "stay":
            return rect("stay", x, y + 1, wide, 11, round=3)
        case "silent":
            return hatched("silent", "hatch", x, y, wide, high, 5, round=3)
        case "pause":
            return hatched("paused", "pause", x, y, wide, high, 8)
        case "nobody":
            return rect("nobody", x, y, wide, high) + path("dots", dots(x + 2, y, wide - 4, high))
        case "forgotten":
            return hatched("forgotten", "rule", x, y, wide, high, 8)
        case "standstill":
            return rect("stopped", x, y + 1, wide, 11)
    if key.startswith("severity "):
        kind = key.removeprefix("severity ")
        letter = text(f"{kind} small middle", x + wide / 2, y + 11, SEVERITY_LETTERS[kind])
        return rect(kind, x, y - 1, wide, 15, round=3) + letter
    return glyph(key, x + wide / 2, y + 7, small=key == "member_joined")
