"""Causes over time: a row for each cause, bars for how often it came when."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from agent.picture.glyphs import glyph, look, rank
from agent.picture.markup import fitting, html, width_of
from agent.picture.scale import Scale
from agent.picture.shapes import path, rect, text
from agent.story.words import day, stamp, times

BAR = 6.0
"""Pixels that one bar takes, at least."""
HIGH = 26.0
MAX_ROWS = 14

Causes = Mapping[str, Sequence[int]]
"""The times, epoch milliseconds, at which each cause came."""


def causes_over_time(causes: Causes, *, since_ms: int, until_ms: int, width: int = 960, label: str = "") -> str:
    """One `<svg>`; the rows share a scale, so that heights compare. `label` says what is counted."""
    gutter = 190.0 if width >= 620 else 0.0
    scale = Scale(since_ms, max(until_ms, since_ms + 1_000), gutter + 8, width - 16.0)
    bars = int((scale.right - scale.left) / BAR)
    step = (scale.right - scale.left) / bars
    known = {cause: [at for at in when if since_ms <= at <= until_ms] for cause, when in causes.items()}
    rows = sorted(((cause, when) for cause, when in known.items() if when), key=lambda it: rank(it[0]))[:MAX_ROWS]
    binned = {cause: _binned(when, scale, step, bars) for cause, when in rows}
    most = max((max(it) for it in binned.values()), default=1)
    out: list[str] = []
    y = 4.0
    for cause, when in rows:
        word = f"{look(cause).word}: {len(when):,}"
        if not gutter:
            out += [glyph(cause, 10, y + 8, small=True), text("", 22, y + 12, html(word))]
            y += 16
        base = y + HIGH
        if gutter:
            out.append(glyph(cause, 12, base - 10))
            out.append(text("", 26, base - 6, html(fitting(word, 12, gutter - 28))))
        out.append(rect("row", scale.left, y, scale.right - scale.left, HIGH))
        kind = look(cause).kind
        for at, number in enumerate(binned[cause]):
            if number:
                high = max(HIGH * number / most, 2.5)
                hover = html(f"{times(number)} {look(cause).word}, from {stamp(_begins(at, scale, step))} UTC")
                left = round(scale.left + at * step, 1)
                out.append(rect(kind, left, round(base - high, 1), step - 1, round(high, 1), title=hover))
        y = base + 7
    for x, word in scale.ticks():
        half = width_of(word, 12) / 2
        place = "end" if x + half > width else "middle" if x - half > gutter else ""
        out.append(text(f"soft number {place}".strip(), min(max(x, 2), width - 2), y + 12, html(word)))
    first, last = day(since_ms), day(until_ms)
    dates = f"{first} UTC" if first == last else f"{first} to {last} UTC"
    out.append(
        text("soft", 2, y + (12 if gutter else 28), html(fitting(dates, 12, gutter - 16 if gutter else width)))
    )
    out.append(path("rule", f"M{scale.left:g} {y - 3:g}H{scale.right:g}"))
    height = round(y + (18 if gutter else 34))
    said = ", ".join(f"{look(cause).word} {times(len(when))}" for cause, when in rows) or "none"
    spoken = html(f"{label or 'Causes over time'}, {stamp(since_ms)} to {stamp(until_ms)} UTC: {said}.")
    return (
        f'<svg class="lanes" xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" '
        f'height="{height}" role="img" aria-label="{spoken}">{"".join(out)}</svg>'
    )


def _binned(when: Sequence[int], scale: Scale, step: float, bars: int) -> list[int]:
    out = [0] * bars
    for at_ms in when:
        out[min(int((scale.at(at_ms) - scale.left) / step), bars - 1)] += 1
    return out


def _begins(at: int, scale: Scale, step: float) -> int:
    part = at * step / (scale.right - scale.left)
    return scale.since_ms + round(part * (scale.until_ms - scale.since_ms))
