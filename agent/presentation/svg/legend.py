"""What the shapes mean: only those that are there."""

from __future__ import annotations

from agent.presentation.markup import Markup, escape, width_of
from agent.presentation.svg.canvas import SEVERITY_LETTERS, Canvas
from agent.presentation.svg.glyphs import ORDER, glyph, look
from agent.presentation.svg.lanes import Lanes
from agent.presentation.svg.shapes import dots, hatching, path, rect, text

_SWATCH_WIDTH = 22.0


def draw_legend(canvas: Canvas, lanes: Lanes) -> None:
    """Entries in as many lines as they take."""
    x = left = 4.0
    canvas.y += 6
    for key, said in _entries(canvas, lanes):
        takes = _SWATCH_WIDTH + 8 + width_of(said, 10.5) + 14
        if x + takes > canvas.width and x > left:
            x = left
            canvas.y += 20
        canvas.add(_swatch(key, x, canvas.y), text("small", x + _SWATCH_WIDTH + 6, canvas.y + 11, escape(said)))
        x += takes
    canvas.y += 20


def _entries(canvas: Canvas, lanes: Lanes) -> list[tuple[str, str]]:
    used = canvas.used
    out = [
        (cause, look(cause).label) for cause in (*ORDER, *sorted(used.difference(ORDER, _SWATCHES))) if cause in used
    ]
    out = [it for it in out if not it[0].startswith("severity")]
    texts = {
        "stay": "member of the group",
        "silent": "no commit any more until thrown out",
        "pause": "all waited for the rebalance (about)",
        "nobody": "nobody in the group",
        "forgotten": "before what the agent remembers",
        "standstill": "share of partitions that stood still",
    }
    out += [(key, said) for key, said in texts.items() if key in used]
    out += [(f"severity {it}", it) for it in SEVERITY_LETTERS if f"severity {it}" in used]
    return out


_SWATCHES = ("stay", "silent", "pause", "nobody", "forgotten", "standstill")


def _swatch(key: str, x: float, y: float) -> Markup:
    high = 14.0
    match key:
        case "stay":
            return rect("stay", x, y + 1, _SWATCH_WIDTH, 11, round=3)
        case "silent":
            return Markup(
                rect("silent", x, y, _SWATCH_WIDTH, high, round=3)
                + path("hatch", hatching(x, y, _SWATCH_WIDTH, high, 5))
            )
        case "pause":
            return Markup(
                rect("paused", x, y, _SWATCH_WIDTH, high) + path("pause", hatching(x, y, _SWATCH_WIDTH, high, 8))
            )
        case "nobody":
            return Markup(
                rect("nobody", x, y, _SWATCH_WIDTH, high) + path("dots", dots(x + 2, y, _SWATCH_WIDTH - 4, high))
            )
        case "forgotten":
            return Markup(
                rect("forgotten", x, y, _SWATCH_WIDTH, high) + path("rule", hatching(x, y, _SWATCH_WIDTH, high, 8))
            )
        case "standstill":
            return rect("stopped", x, y + 1, _SWATCH_WIDTH, 11)
    if key.startswith("severity "):
        kind = key.removeprefix("severity ")
        return Markup(
            rect(kind, x, y - 1, _SWATCH_WIDTH, 15, round=3)
            + text(f"{kind} small middle", x + _SWATCH_WIDTH / 2, y + 11, SEVERITY_LETTERS[kind])
        )
    return glyph(key, x + _SWATCH_WIDTH / 2, y + 7, small=key == "member_joined")
