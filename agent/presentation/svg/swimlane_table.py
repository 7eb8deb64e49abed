"""The picture in rows: for who cannot see it, and for who wants to copy it."""

from __future__ import annotations

from agent.presentation.markup import Markup, escape, shortened
from agent.presentation.narrative.events import Departure
from agent.presentation.narrative.origins import origins_suffix
from agent.presentation.narrative.phrases import because, epochs
from agent.presentation.narrative.words import capitalized, count, duration, grouped, timestamp
from agent.presentation.svg import captions
from agent.presentation.svg.lanes import Generation, Lanes

MAX_ROWS = 120
"""Rebalances in rows: more are counted, the latest are shown."""


def swimlane_table(lanes: Lanes) -> str:
    """One `<table>`: a row for each rebalance of the range, in order."""
    done = lanes.rebalances
    shown = done[-MAX_ROWS:]
    unit = capitalized(epochs(lanes.group_type))
    left_out = f"; the last {len(shown)} of {len(done)}" if len(shown) < len(done) else ""
    of = f" of {shortened(lanes.group)}" if lanes.group else ""
    caption = f"{count(len(done), 'rebalance')}{of}, times in UTC{left_out}"
    heads = ("When", unit, "Why", "Came", "Went", "Members", "Stopped partition time")
    head = "".join(f'<th scope="col">{it}</th>' for it in heads)
    body = "".join(_row(it) for it in shown)
    return f"<table><caption>{escape(caption)}</caption><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def _row(generation: Generation) -> str:
    done = generation.rebalance
    joined, left = ((), ()) if done is None else (done.joined, done.left)
    ways = "; ".join(
        f"{captions.member_names(gone.member for gone in same)} {captions.departure_phrase(cause, confidence)}"
        f"{shortened(origins_suffix(same), 200)}"
        for (cause, confidence, _), same in grouped(left, _told_as).items()
    )
    cells: list[str] = [
        "" if generation.generation is None else str(generation.generation),
        because(generation.cause or "unknown"),
        captions.member_names(joined) if joined else "",
        ways,
        str(generation.members),
        "not known" if generation.stopped_ms is None else duration(generation.stopped_ms),
    ]
    row = "".join(f"<td>{_cell(cell)}</td>" for cell in cells)
    return f'<tr><th scope="row">{timestamp(generation.since_ms)}</th>{row}</tr>'


def _told_as(gone: Departure) -> tuple[str, float, str | None]:
    return gone.cause, gone.confidence, None if gone.member.origin is None else gone.member.origin.words


def _cell(text: str) -> Markup:
    return escape(text) if text else Markup("-")
