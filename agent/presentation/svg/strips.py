"""What stands above the lanes: findings, generations, and how much stood still."""

from __future__ import annotations

from agent.presentation.markup import escape, fitting, width_of
from agent.presentation.narrative.findings import severity_rank
from agent.presentation.narrative.phrases import epochs
from agent.presentation.narrative.words import capitalized, count, grouped, timestamp
from agent.presentation.svg import captions
from agent.presentation.svg.canvas import SEVERITY_LETTERS, TIMES_SIGN, Canvas
from agent.presentation.svg.glyphs import look, rank
from agent.presentation.svg.issues import Issue
from agent.presentation.svg.lanes import Generation, Lanes
from agent.presentation.svg.shapes import rect, text

MAX_FINDINGS = 5
"""Rows of findings, one an analyzer."""
MAX_EPISODES = 40
"""Times that one analyzer's finding opened, drawn each."""
STANDSTILL_BIN_PX = 2.0
"""Pixels: so finely standstill is drawn."""
STANDSTILL_HEIGHT = 22.0


def draw_findings(canvas: Canvas, lanes: Lanes) -> None:
    """A row for each analyzer that found something, the worst first."""
    found = grouped(lanes.issues, lambda it: it.analyzer)
    if not found:
        return
    canvas.heading("Findings")
    for same in list(found.values())[:MAX_FINDINGS]:
        _draw_episodes(canvas, same)
        canvas.y += 20
    if len(found) > MAX_FINDINGS:
        said = f"and of {count(len(found) - MAX_FINDINGS, 'more analyzer')}"
        canvas.add(text("small", canvas.scale.left, canvas.y + 9, said))
        canvas.y += 14
    canvas.y += 8


def _draw_episodes(canvas: Canvas, same: list[Issue]) -> None:
    scale = canvas.scale
    worst_first = sorted(same, key=lambda it: (severity_rank(it.severity), it.since_ms))[:MAX_EPISODES]
    drawn = sorted(worst_first, key=lambda it: it.since_ms)
    for at, it in enumerate(drawn):
        left = scale.at(it.since_ms)
        right = scale.right if it.until_ms is None else scale.at(it.until_ms)
        left = min(left, scale.right - 18)
        right = max(right, left + 18)
        open_ = it.until_ms is None
        span = (
            f"open since {timestamp(it.since_ms)}"
            if open_
            else f"from {timestamp(it.since_ms)} to {timestamp(it.until_ms or 0)}"
        )
        kind = it.severity if it.severity in SEVERITY_LETTERS else "info"
        hover = escape(f"{it.analyzer} ({it.severity}), {span} UTC: {it.summary}")
        canvas.add(rect(kind, left, canvas.y, right - left, 16, round=3, title=hover))
        canvas.add(text(f"{kind} small", left + 6, canvas.y + 12, SEVERITY_LETTERS.get(it.severity, "?")))
        canvas.used.add(f"severity {kind}")
        name = it.analyzer.replace("_", " ")
        inside = fitting(name, 10.5, right - left - 25)
        if inside == name:
            canvas.add(text("small", left + 21, canvas.y + 12, escape(inside)))
            continue
        # It is too short for its name, which then stands beside it, where nothing else is.
        following = [scale.at(other.since_ms) for other in drawn[at + 1 : at + 2]]
        ends = min([*following, canvas.width])
        taken = scale.at(drawn[at - 1].until_ms or scale.until_ms) if at else scale.left
        if width_of(name, 10.5) <= ends - right - 10:
            canvas.add(text("small halo", right + 5, canvas.y + 12, escape(name)))
        elif width_of(name, 10.5) <= left - taken - 10:
            canvas.add(text("small halo end", left - 5, canvas.y + 12, escape(name)))
        elif inside:
            canvas.add(text("small", left + 21, canvas.y + 12, escape(inside)))


def draw_generations(canvas: Canvas, lanes: Lanes) -> None:
    """A block each, with its number and why it began; those too narrow for that as one."""
    if not lanes.generations:
        return
    unit = epochs(lanes.group_type)
    canvas.heading(f"{capitalized(unit)}s", "and its cause")
    end = canvas.scale.right + 8
    if lanes.deleted_ms is not None:
        end = canvas.scale.at(lanes.deleted_ms)
        said = "group deleted"
        if width_of(said, 10.5) + 8 < canvas.width - end:
            canvas.add(text("small strong", end + 6, canvas.y + 14, said))
    for left, right, same in _generation_blocks(canvas, lanes.generations, end):
        causes = [it.cause for it in same if it.cause is not None]
        hover = (
            captions.generation_caption(same[0], lanes.group_type)
            if len(same) == 1
            else captions.generations_caption(same, lanes.group_type)
        )
        canvas.add(rect("block", left, canvas.y, right - left, 20, title=hover))
        if causes:
            worst = min(causes, key=rank)
            canvas.used.add(worst)
            canvas.add(rect(look(worst).mark.kind, left, canvas.y, 3, 20))
        canvas.add(text("small number", left + 6, canvas.y + 14, escape(_block_label(same, right - left - 8))))
    canvas.y += 32 if canvas.gutter else 28


def _generation_blocks(
    canvas: Canvas, rounds: tuple[Generation, ...], end: float
) -> list[tuple[float, float, list[Generation]]]:
    out: list[tuple[float, float, list[Generation]]] = []
    heap: list[Generation] = []
    for at, it in enumerate(rounds):
        heap.append(it)
        left = canvas.scale.at(heap[0].since_ms)
        right = canvas.scale.at(rounds[at + 1].since_ms) if at + 1 < len(rounds) else end
        if right - left >= 15:
            out.append((left, right, heap))
            heap = []
    if heap:
        left = canvas.scale.at(heap[0].since_ms)
        if out and end - left < 15:
            left, _, before = out.pop()
            heap = before + heap
        out.append((left, max(end, left + 3), heap))
    return out


def _block_label(same: list[Generation], room: float) -> str:
    first, last = same[0], same[-1]
    if first.generation is None or last.generation is None:
        words = [
            f"{len(same)}{TIMES_SIGN}" if len(same) > 1 else look(first.cause).label if first.cause else "before"
        ]
    elif len(same) > 1:
        words = [
            f"{first.generation} to {last.generation}",
            f"{first.generation}-{last.generation}",
            f"{len(same)}{TIMES_SIGN}",
        ]
    elif first.cause is None:
        words = [f"{first.generation} (from before)", str(first.generation)]
    else:
        words = [f"{first.generation}: {look(first.cause).label}", str(first.generation)]
    return next((it for it in words if width_of(it, 10.5) <= room), "")


def draw_standstill(canvas: Canvas, lanes: Lanes) -> None:
    """Which share of the partitions stood still when. Its area is the stopped partition time."""
    total = captions.total_stopped(lanes)
    if not total:
        return
    canvas.heading("Stopped", f"{total} of partition time")
    scale, base = canvas.scale, canvas.y + STANDSTILL_HEIGHT
    bins = [0.0] * (int((scale.right - scale.left) / STANDSTILL_BIN_PX) + 1)
    per_px = (scale.until_ms - scale.since_ms) / (scale.right - scale.left)
    for it in lanes.rebalances:
        if it.stopped_since_ms is not None and it.share is not None:
            _add_to_bins(
                bins,
                scale.since_ms,
                per_px * STANDSTILL_BIN_PX,
                max(it.stopped_since_ms, scale.since_ms),
                it.since_ms,
                it.share,
            )
    canvas.add(rect("row", scale.left, canvas.y, scale.right - scale.left, STANDSTILL_HEIGHT))
    at = 0
    while at < len(bins):
        if not bins[at]:
            at += 1
            continue
        end = at
        way = ""
        while end < len(bins) and bins[end]:
            high = max(min(bins[end], 1.0) * STANDSTILL_HEIGHT, 3)
            way += f"V{base - high:.4g}h{STANDSTILL_BIN_PX:g}"
            end += 1
        left = scale.left + at * STANDSTILL_BIN_PX
        canvas.add(f'<path class="stopped" d="M{left:g} {base:g}{way}V{base:g}Z"/>')
        at = end
    canvas.used.add("standstill")
    canvas.y += STANDSTILL_HEIGHT + 10


def _add_to_bins(
    bins: list[float], origin_ms: int, bin_ms: float, since_ms: int, until_ms: int, share: float
) -> None:
    first, last = (since_ms - origin_ms) / bin_ms, (until_ms - origin_ms) / bin_ms
    for at in range(max(int(first), 0), min(int(last), len(bins) - 1) + 1):
        overlap = min(last, at + 1) - max(first, at)
        if overlap > 0 or int(first) == int(last):
            bins[at] += share * max(overlap, 1e-6)
