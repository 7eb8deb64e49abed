"""What the shapes mean: only those that are there."""

from __future__ import annotations

from typing import TYPE_CHECKING

from agent.picture.glyphs import ORDER, glyph, look
from agent.picture.lanes import Lanes
from agent.picture.markup import Html, html, width_of
from agent.picture.shapes import dots, hatching, path, rect, text
from agent.picture.strips import LETTERS

if TYPE_CHECKING:
    from agent.picture.svg import Canvas

_BOX = 22.0


def legend(canvas: Canvas, lanes: Lanes) -> None:
    """Entries in as many lines as they take."""
    x = left = 4.0
    canvas.y += 6
    for key, said in _entries(canvas, lanes):
        takes = _BOX + 8 + width_of(said, 10.5) + 14
        if x + takes > canvas.width and x > left:
            x = left
            canvas.y += 20
        canvas.add(_sample(key, x, canvas.y), text("small", x + _BOX + 6, canvas.y + 11, html(said)))
        x += takes
    canvas.y += 20


def _entries(canvas: Canvas, lanes: Lanes) -> list[tuple[str, str]]:
    used = canvas.used
    out = [
        (cause, look(cause).word) for cause in (*ORDER, *sorted(used.difference(ORDER, _SAMPLES))) if cause in used
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
    out += [(f"severity {it}", it) for it in LETTERS if f"severity {it}" in used]
    return out


_SAMPLES = ("stay", "silent", "pause", "nobody", "forgotten", "standstill")


def _sample(key: str, x: float, y: float) -> Html:
    high = 14.0
    match key:
        case "stay":
            return rect("stay", x, y + 1, _BOX, 11, round=3)
        case "silent":
            return Html(rect("silent", x, y, _BOX, high, round=3) + path("hatch", hatching(x, y, _BOX, high, 5)))
        case "pause":
            return Html(rect("paused", x, y, _BOX, high) + path("pause", hatching(x, y, _BOX, high, 8)))
        case "nobody":
            return Html(rect("nobody", x, y, _BOX, high) + path("dots", dots(x + 2, y, _BOX - 4, high)))
        case "forgotten":
            return Html(rect("forgotten", x, y, _BOX, high) + path("rule", hatching(x, y, _BOX, high, 8)))
        case "standstill":
            return rect("stopped", x, y + 1, _BOX, 11)
    if key.startswith("severity "):
        kind = key.removeprefix("severity ")
        return Html(
            rect(kind, x, y - 1, _BOX, 15, round=3)
            + text(f"{kind} small middle", x + _BOX / 2, y + 11, LETTERS[kind])
        )
    return glyph(key, x + _BOX / 2, y + 7, small=key == "member_joined")
