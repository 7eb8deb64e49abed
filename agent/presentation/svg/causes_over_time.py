"""Causes over time: a row for each cause, bars for how often it came when."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from agent.presentation.markup import escape, fitting, width_of
from agent.presentation.narrative.words import dates, times, timestamp
from agent.presentation.svg.glyphs import glyph, look, rank
from agent.presentation.svg.scale import Scale
from agent.presentation.svg.shapes import drawing, path, rect, text

MIN_BAR_PX = 6.0
"""Pixels that one bar takes, at least."""
ROW_HEIGHT = 26.0
MAX_ROWS = 14

Causes = Mapping[str, Sequence[int]]
"""The times, epoch milliseconds, at which each cause came."""


def causes_over_time(
    causes: Causes, *, since_ms: int, until_ms: int, width: int = 960, label: str = "", bars: int | None = None
) -> str:
    """One `<svg>`; the rows share a scale, so that heights compare. `label` says what is counted.

    `bars`: into so many pieces the range is cut, each row then being one shape, a few bytes a bar; unless told, into
    as many as there is room for, each with its own hint on hover.
    """
    gutter = 190.0 if width >= 620 else 0.0
    scale = Scale(since_ms, max(until_ms, since_ms + 1_000), gutter + 8, width - 16.0)
    hints = bars is None
    bars = int((scale.right - scale.left) / MIN_BAR_PX) if bars is None else bars
    step = (scale.right - scale.left) / bars
    known = {cause: [at for at in when if since_ms <= at <= until_ms] for cause, when in causes.items()}
    rows = sorted(((cause, when) for cause, when in known.items() if when), key=lambda it: rank(it[0]))[:MAX_ROWS]
    binned = {cause: _binned(when, scale, bars) for cause, when in rows}
    most = max((max(it) for it in binned.values()), default=1)
    out: list[str] = []
    y = 4.0
    for cause, when in rows:
        word = f"{look(cause).label}: {len(when):,}"
        if not gutter:
            out += [glyph(cause, 10, y + 8, small=True), text("", 22, y + 12, escape(word))]
            y += 16
        base = y + ROW_HEIGHT
        if gutter:
            out.append(glyph(cause, 12, base - 10))
            out.append(text("", 26, base - 6, escape(fitting(word, 12, gutter - 28))))
        out.append(rect("row", scale.left, y, scale.right - scale.left, ROW_HEIGHT))
        kind = look(cause).mark.kind
        ways = []
        for at, number in enumerate(binned[cause]):
            if number:
                high = max(ROW_HEIGHT * number / most, 2.5)
                left = round(scale.left + at * step, 1)
                if not hints:
                    ways.append(f"M{left:g} {base:g}v-{high:.3g}h{step - 1:.4g}V{base:g}z")
                    continue
                hover = escape(
                    f"{times(number)} {look(cause).label}, from {timestamp(_bin_start_ms(at, scale, step))} UTC"
                )
                out.append(rect(kind, left, round(base - high, 1), step - 1, round(high, 1), title=hover))
        out.append(path(kind, "".join(ways)))
        y = base + 7
    for x, word in scale.ticks():
        half = width_of(word, 12) / 2
        place = "end" if x + half > width else "middle" if x - half > gutter else ""
        out.append(text(f"soft number {place}".strip(), min(max(x, 2), width - 2), y + 12, escape(word)))
    shown = fitting(dates(since_ms, until_ms), 12, gutter - 16 if gutter else width)
    out.append(text("soft", 2, y + (12 if gutter else 28), escape(shown)))
    out.append(path("rule", f"M{scale.left:g} {y - 3:g}H{scale.right:g}"))
    height = round(y + (18 if gutter else 34))
    said = ", ".join(f"{look(cause).label} {times(len(when))}" for cause, when in rows) or "none"
    spoken = escape(f"{label or 'Causes over time'}, {timestamp(since_ms)} to {timestamp(until_ms)} UTC: {said}.")
    return drawing(width, height, spoken, out)


def _binned(when: Sequence[int], scale: Scale, bars: int) -> list[int]:
    out = [0] * bars
    since_ms, span_ms = scale.since_ms, max(scale.until_ms - scale.since_ms, 1)
    for at_ms in when:
        # The end of the range belongs to the last.
        out[min((at_ms - since_ms) * bars // span_ms, bars - 1)] += 1
    return out


def _bin_start_ms(at: int, scale: Scale, step: float) -> int:
    part = at * step / (scale.right - scale.left)
    return scale.since_ms + round(part * (scale.until_ms - scale.since_ms))
