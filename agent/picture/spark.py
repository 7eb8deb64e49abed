"""A sparkline: how a number went, in the height of a line of text."""

from __future__ import annotations

from collections.abc import Sequence

from agent.picture.markup import html

MAX_POINTS = 400
"""Points drawn; of more, the greatest of so many neighbours each."""

Point = tuple[int, float | None]


def sparkline(
    points: Sequence[Point],
    *,
    label: str = "",
    width: int = 160,
    height: int = 28,
    since_ms: int | None = None,
    until_ms: int | None = None,
    most: float | None = None,
) -> str:
    """One `<svg>` of `(epoch milliseconds, value)` in order; None is a gap. `label` says in words what it shows.

    The range is that of the points unless given; the height is from 0 to `most`, or to the greatest value.
    """
    points = _thinned(points)
    first = points[0][0] if points and since_ms is None else since_ms or 0
    last = points[-1][0] if points and until_ms is None else until_ms or 0
    top = max([value for _, value in points if value is not None], default=0.0) if most is None else most
    span, top = max(last - first, 1), top if top > 0 else 1.0

    def place(at_ms: int, value: float) -> tuple[float, float]:
        x = 1 + min(max((at_ms - first) / span, 0), 1) * (width - 2)
        y = height - 2 - min(max(value / top, 0), 1) * (height - 4)
        return round(x, 1), round(y, 1)

    lines, areas, dots = "", "", ""
    for stretch in _stretches(points):
        places = [place(at, value) for at, value in stretch]
        (left, start), (right, _) = places[0], places[-1]
        if len(places) == 1:
            dots += f'<circle class="dot" cx="{left:g}" cy="{start:g}" r="1.5"/>'
            continue
        way = "L".join(f"{x:g} {y:g}" for x, y in places)
        lines += f"M{way}"
        areas += f"M{left:g} {height - 2}L{way}L{right:g} {height - 2}Z"
    drawn = (f'<path class="area" d="{areas}"/><path class="path" d="{lines}"/>' if lines else "") + dots
    said = f'role="img" aria-label="{html(label)}"' if label else 'aria-hidden="true"'
    return (
        f'<svg class="spark" xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" '
        f'height="{height}" {said}>{drawn}</svg>'
    )


def _thinned(points: Sequence[Point]) -> list[Point]:
    if len(points) <= MAX_POINTS:
        return list(points)
    step = -(-len(points) // MAX_POINTS)
    out: list[Point] = []
    for at in range(0, len(points), step):
        heap = points[at : at + step]
        # A gap stays one: what is not known is not drawn over.
        gap = next((it for it in heap if it[1] is None), None)
        out.append(gap if gap is not None else max(heap, key=lambda it: it[1] or 0.0))
    return out


def _stretches(points: Sequence[Point]) -> list[list[tuple[int, float]]]:
    out: list[list[tuple[int, float]]] = [[]]
    for at_ms, value in points:
        if value is None:
            out.append([])
        else:
            out[-1].append((at_ms, value))
    return [stretch for stretch in out if stretch]
