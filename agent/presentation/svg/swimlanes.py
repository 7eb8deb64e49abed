"""Swim lanes drawn: one `<svg>` without scripts, styles, ids or references, for a page under a strict policy.

From top to bottom: findings, generations, standstill, lanes, time, legend. What would overlap is drawn as one with a
number, and what has no lane of its own is counted, so the size is bounded whatever the history. Colours come from
`agent.presentation.svg.style`.
"""

from __future__ import annotations

from collections.abc import Sequence

from agent.core.inference.origins import contradicts
from agent.presentation.markup import Markup, escape, fitting, name_fitting, width_of
from agent.presentation.narrative.words import count, dates, timestamp
from agent.presentation.svg import captions
from agent.presentation.svg.canvas import TIMES_SIGN, Canvas
from agent.presentation.svg.glyphs import glyph, look, rank
from agent.presentation.svg.lanes import Lanes
from agent.presentation.svg.legend import draw_legend
from agent.presentation.svg.member_slots import Lane, LaneDeparture
from agent.presentation.svg.rows import MAX_LANES, LaneRow, lane_rows
from agent.presentation.svg.scale import Scale
from agent.presentation.svg.shapes import clusters, dots, drawing, hatched, merged, path, rect, text
from agent.presentation.svg.strips import draw_findings, draw_generations, draw_standstill

NARROW_BELOW = 620
"""Below so many pixels names stand above their lanes and not beside them."""
MIN_MARK_DISTANCE = 15.0
"""Marks of one lane that are nearer than this are drawn as one."""
MAX_MARKS = 700
"""More than so many marks make no picture: then they must be farther apart."""

__all__ = ["MAX_LANES", "swimlanes"]


def swimlanes(lanes: Lanes, *, width: int = 960) -> str:
    """The drawing, `width` pixels wide and as high as it takes; it scales with its place in the page."""
    gutter = 0.0 if width < NARROW_BELOW else min(210.0, width * 0.2)
    since, until = lanes.since_ms, max(lanes.until_ms, lanes.since_ms + 1_000)
    canvas = Canvas(width, gutter, Scale(since, until, gutter + 8, width - 16.0))
    draw_findings(canvas, lanes)
    draw_generations(canvas, lanes)
    draw_standstill(canvas, lanes)
    _draw_lanes(canvas, lanes)
    _draw_axis(canvas, lanes)
    draw_legend(canvas)
    return drawing(width, round(canvas.y + 4), escape(captions.summary(lanes)), canvas.out)


def _draw_lanes(canvas: Canvas, lanes: Lanes) -> None:
    shown = lane_rows(lanes, beside=bool(canvas.gutter))
    top = canvas.y
    height = sum(row.height for row in shown)
    scale = canvas.scale
    places = []
    for at, row in enumerate(shown):
        if at % 2 == 0:
            canvas.add(rect("row", 0, canvas.y, canvas.width, row.height))
        places.append(canvas.y)
        canvas.y += row.height
    if not shown:
        canvas.add(text("soft", canvas.gutter + 8, canvas.y + 18, "The log shows no members of the group."))
        canvas.y += 28
        return
    turns = [x for x, _ in clusters([(scale.at(it.since_ms), it) for it in lanes.rebalances], 6)]
    for kind, places_x in (("rule", [x for x, _ in scale.ticks()]), ("turn", turns)):
        canvas.add(path(kind, "".join(f"M{x:g} {top:g}v{height:g}" for x in places_x)))
    _draw_empty_periods(canvas, lanes, top, height, shown[0].height / 2)
    if lanes.known_since_ms is not None:
        _draw_forgotten(canvas, scale.at(lanes.known_since_ms), top, height)
    for row, y in zip(shown, places, strict=True):
        _draw_bars(canvas, row, y)
    _draw_pauses(canvas, lanes, top, height)
    apart = _mark_distance(shown, scale)
    for row, y in zip(shown, places, strict=True):
        _draw_marks(canvas, row, y, apart)
        _draw_names(canvas, row, y)
    if lanes.deleted_ms is not None:
        x = scale.at(lanes.deleted_ms)
        canvas.add(path("hatch", f"M{x:g} {top:g}v{height:g}"))


def _draw_empty_periods(canvas: Canvas, lanes: Lanes, top: float, height: float, apart: float) -> None:
    """Fields of dots where nobody was in the group, `apart` pixels between their lines."""
    for empty in lanes.empty_periods:
        left, right = canvas.scale.at(empty.since_ms), canvas.scale.at(empty.until_ms)
        if right - left >= 3:
            canvas.used.add("nobody")
            span = f"{timestamp(empty.since_ms)} to {timestamp(empty.until_ms)}"
            said = escape(f"the group had no members from {span} UTC")
            canvas.add(rect("nobody", left, top, right - left, height, title=said))
            canvas.add(path("dots", dots(left + 3, top, right - left - 6, height, apart)))


def _draw_forgotten(canvas: Canvas, until: float, top: float, height: float) -> None:
    """The time of which the agent has forgotten what happened."""
    left = canvas.scale.left
    canvas.used.add("forgotten")
    said = "the agent has later events only"
    canvas.add(hatched("forgotten", "rule", left, top, until - left, height, 16, title=said))


def _draw_bars(canvas: Canvas, row: LaneRow, y: float) -> None:
    """Who was there, and since when it was silent."""
    scale, top = canvas.scale, y + row.bar_at
    spans = [(scale.at(it.since_ms), scale.at(it.until_ms)) for lane in row.lanes for it in lane.presences]
    if spans:
        canvas.used.add("stay")
    for left, right in merged(spans, 2):
        canvas.add(rect("stay", left, top, max(right - left, 2), row.bar, round=3))
    silent = [
        (scale.at(gone.silent_since_ms), scale.at(gone.at_ms))
        for lane in row.lanes
        for gone in lane.departures
        if gone.silent_since_ms is not None
    ]
    for left, right in _visible(silent):
        canvas.used.add("silent")
        canvas.add(hatched("silent", "hatch", left, top, right - left, row.bar, 5, round=3))


def _visible(spans: Sequence[tuple[float, float]]) -> list[tuple[float, float]]:
    # Many that are too short to be seen must not look like a long one.
    return merged([it for it in spans if it[1] - it[0] >= 2], 0)


def _draw_pauses(canvas: Canvas, lanes: Lanes, top: float, height: float) -> None:
    """Columns in which everybody waited."""
    scale = canvas.scale
    spans = [
        (scale.at(it.paused_since_ms), scale.at(it.since_ms))
        for it in lanes.rebalances
        if it.paused_since_ms is not None
    ]
    for left, right in _visible(spans):
        canvas.used.add("pause")
        canvas.add(hatched("paused", "pause", left, top, right - left, height, 8))


def _mark_distance(shown: Sequence[LaneRow], scale: Scale) -> float:
    """How far apart marks must be for there not to be too many of them."""
    apart = MIN_MARK_DISTANCE
    while sum(len(clusters(_mark_places(row, scale), apart)) for row in shown) > MAX_MARKS:
        apart *= 1.5
    return apart


Mark = tuple[str, int, Lane, LaneDeparture | None]
"""A cause, when, in which lane, and how, if it was a departure."""


def _mark_places(row: LaneRow, scale: Scale) -> list[tuple[float, Mark]]:
    out: list[tuple[float, Mark]] = []
    for lane in row.lanes:
        for gone in lane.departures:
            out.append((scale.at(gone.at_ms), (gone.cause, gone.at_ms, lane, gone)))
        out += [(scale.at(at), ("replaced", at, lane, None)) for at in lane.replaced]
        out += [(scale.at(at), ("member_joined", at, lane, None)) for at in lane.joined]
    return out


def _draw_marks(canvas: Canvas, row: LaneRow, y: float, apart: float) -> None:
    middle = y + row.bar_at + row.bar / 2
    heaps = clusters(_mark_places(row, canvas.scale), apart)
    bars = [
        (canvas.scale.at(it.since_ms), canvas.scale.at(it.until_ms)) for lane in row.lanes for it in lane.presences
    ]
    for at, (x, marks) in enumerate(heaps):
        cause = min((it[0] for it in marks), key=rank)
        canvas.used.add(cause)
        canvas.add(glyph(cause, x, middle, _mark_caption(marks, cause), small=_is_lone_join(marks)))
        ends = [canvas.width, *(it[0] for it in heaps[at + 1 : at + 2])]
        _draw_word(canvas, cause, [it[3] for it in marks if it[3] is not None], x, middle, bars, min(ends))


def _is_lone_join(marks: Sequence[Mark]) -> bool:
    return len(marks) == 1 and marks[0][0] == "member_joined"


def _mark_caption(marks: Sequence[Mark], cause: str) -> Markup:
    """On hover over what is drawn as one mark of its worst `cause`."""
    gone = [(lane, it) for _, _, lane, it in marks if it is not None]
    if len(gone) > 1:
        return captions.departures_caption([it for _, it in gone])
    if gone:
        return captions.departure_caption(*gone[0])
    return escape(f"{count(len(marks), 'member')}: {look(cause).label}, {timestamp(marks[0][1])} UTC")


def _draw_word(
    canvas: Canvas,
    cause: str,
    gone: Sequence[LaneDeparture],
    x: float,
    middle: float,
    bars: Sequence[tuple[float, float]],
    end: float,
) -> None:
    """A departure's word beside it, up to `end`: on the bar of who came back at once, or where nothing is."""
    over = any(left < x + 12 < right for left, right in bars)
    ends = [right if left < x + 12 else left for left, right in bars if right > x + 12]
    room = min([end, *ends]) - x - 20
    kind = "onbar" if over else "halo"
    if len(gone) > 1:
        word = f"{len(gone)}{TIMES_SIGN}"
        canvas.add(text(f"count {kind}", x + 10, middle + 3.5, word if room > 12 else ""))
    elif gone:
        sure = gone[0].confidence
        percent = f" ({min(round(100 * sure), 99)} %)" if 0 < sure < 1 else ""
        word = look(cause).label
        words = [word + percent, word]
        if (origin := gone[0].origin) is not None:
            # What happened says more than how the group noticed; both, where they cannot both be right.
            both = [f"{word}, {origin.words}?"] if contradicts(cause, origin.kind) else []
            words = [*both, origin.words, *words]
        fits = next((it for it in words if width_of(it, 10.5) <= room), "")
        canvas.add(text(f"small {kind}", x + 11, middle + 3.5, escape(fits)))


def _draw_names(canvas: Canvas, row: LaneRow, y: float) -> None:
    if canvas.gutter:
        room = canvas.gutter - 8
        if row.about and not row.is_compact:
            canvas.add(text("", 4, y + 13, escape(name_fitting(row.label, 12, room))))
            canvas.add(text("small", 4, y + 26, escape(fitting(row.about, 10.5, room))))
            return
        name = name_fitting(row.label, 12, room)
        canvas.add(text("", 4, y + row.height / 2 + 4, escape(name)))
        after = 10 + width_of(name, 12)
        if row.about and room - after > 40:
            canvas.add(text("small", after, y + row.height / 2 + 4, escape(fitting(row.about, 10.5, room - after))))
        return
    name = name_fitting(row.label, 12, canvas.width * 0.7)
    canvas.add(text("", 4, y + 12, escape(name)))
    after = 12 + width_of(name, 12)
    canvas.add(text("small", after, y + 12, escape(fitting(row.about, 10.5, canvas.width - after - 4))))


def _draw_axis(canvas: Canvas, lanes: Lanes) -> None:
    scale, y = canvas.scale, canvas.y + 0.5
    canvas.add(path("rule", f"M{scale.left:g} {y:g}H{scale.right:g}"))
    for x, word in scale.ticks():
        half = width_of(word, 12) / 2
        kind = "soft number " + ("end" if x + half > canvas.width else "" if x - half < canvas.gutter else "middle")
        at = x if "middle" in kind else min(x, canvas.width - 2) if "end" in kind else max(x - 4, 2)
        canvas.add(path("rule", f"M{x:g} {y:g}v5"), text(kind.strip(), at, y + 18, escape(word)))
    days = dates(lanes.since_ms, lanes.until_ms)
    if canvas.gutter:
        canvas.add(text("soft", 4, y + 18, escape(fitting(days, 12, canvas.gutter - 20))))
        canvas.y += 30
    else:
        canvas.add(text("soft", 2, y + 35, escape(days)))
        canvas.y += 46
