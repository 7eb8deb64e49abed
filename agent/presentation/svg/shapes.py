"""Pieces that the drawings are made of. Numbers are pixels of the drawing; texts come escaped."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

from agent.presentation.markup import Markup

T = TypeVar("T")


def rect(kind: str, x: float, y: float, width: float, height: float, *, round: float = 0, title: str = "") -> Markup:
    """A box; `title` is shown on hover."""
    corner = f' rx="{round:g}"' if round else ""
    box = f'<rect class="{kind}" x="{x:g}" y="{y:g}" width="{max(width, 0):.4g}" height="{height:g}"{corner}'
    return Markup(f"{box}><title>{title}</title></rect>" if title else f"{box}/>")


def text(kind: str, x: float, y: float, said: str) -> Markup:
    """A line of text, none where there is nothing to say."""
    return Markup(f'<text class="{kind}" x="{x:g}" y="{y:g}">{said}</text>') if said else Markup("")


def path(kind: str, way: str) -> Markup:
    """Lines along `way`, the `d` of an SVG path; none where that is empty."""
    return Markup(f'<path class="{kind}" d="{way}"/>') if way else Markup("")


def drawing(width: int, height: int, spoken: Markup, pieces: Sequence[str]) -> str:
    """The whole of it; `spoken` is for those who do not see it."""
    return (
        f'<svg class="lanes" xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" '
        f'height="{height}" role="img" aria-label="{spoken}">{"".join(pieces)}</svg>'
    )


def hatched(
    kind: str,
    lines: str,
    x: float,
    y: float,
    width: float,
    height: float,
    apart: float,
    *,
    round: float = 0,
    title: str = "",
) -> Markup:
    """A box under slanting lines of the kind `lines`."""
    return rect(kind, x, y, width, height, round=round, title=title) + path(
        lines, hatching(x, y, width, height, apart)
    )


def hatching(x: float, y: float, width: float, height: float, apart: float) -> str:
    """The way of slanting lines that fill a box. They are drawn and no pattern: that would need an id in the page."""
    out = []
    along = apart / 2
    while along < width + height:
        left = max(0.0, along - height)
        right = min(width, along)
        if right - left > 0.5:
            run = f"{right - left:.4g}"
            out.append(f"M{x + left:.5g} {y + along - left:.5g}l{run}-{run}")
        along += apart
    return "".join(out)


def dots(x: float, y: float, width: float, height: float, apart: float = 8) -> str:
    """The way of lines that a dotted stroke makes a field of."""
    rows = round(height / apart)
    return "".join(f"M{x + (4 if at % 2 else 0):g} {y + (at + 0.5) * apart:.5g}h{width:.4g}" for at in range(rows))


def clusters(items: Sequence[tuple[float, T]], apart: float) -> list[tuple[float, list[T]]]:
    """Items by their place, those nearer than `apart` to the first of a heap as one; its place is the middle."""
    out: list[list[tuple[float, T]]] = []
    for item in sorted(items, key=lambda it: it[0]):
        if out and item[0] - out[-1][0][0] < apart:
            out[-1].append(item)
        else:
            out.append([item])
    return [(round((heap[0][0] + heap[-1][0]) / 2, 1), [it for _, it in heap]) for heap in out]


def merged(spans: Sequence[tuple[float, float]], apart: float) -> list[tuple[float, float]]:
    """Spans in order, those with less than `apart` between them as one."""
    out: list[tuple[float, float]] = []
    for since, until in sorted(spans):
        if out and since - out[-1][1] < apart:
            out[-1] = (out[-1][0], max(until, out[-1][1]))
        else:
            out.append((since, until))
    return out
