"""The picture in rows: for who cannot see it, and for who wants to copy it."""

from __future__ import annotations

from agent.picture import saying
from agent.picture.lanes import Lanes, Round
from agent.picture.markup import Html, html, shortened
from agent.story.phrases import because, epochs
from agent.story.reading import Who
from agent.story.words import capital, count, duration, stamp

MAX_ROWS = 120
"""Rebalances in rows: more are counted, the latest are shown."""


def swimlane_table(lanes: Lanes) -> str:
    """One `<table>`: a row for each rebalance of the range, in order."""
    done = lanes.rebalances
    shown = done[-MAX_ROWS:]
    unit = capital(epochs(lanes.group_type))
    left_out = f"; the last {len(shown)} of {len(done)}" if len(shown) < len(done) else ""
    of = f" of {shortened(lanes.group)}" if lanes.group else ""
    caption = f"{count(len(done), 'rebalance')}{of}, times in UTC{left_out}"
    heads = ("When", unit, "Why", "Came", "Went", "Members", "Stopped partition time")
    head = "".join(f'<th scope="col">{it}</th>' for it in heads)
    body = "".join(_row(it) for it in shown)
    return f"<table><caption>{html(caption)}</caption><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def _row(it: Round) -> str:
    went: dict[tuple[str, float], list[Who]] = {}
    for who, cause, confidence in it.went:
        went.setdefault((cause, confidence), []).append(who)
    ways = "; ".join(f"{saying.people(tuple(who))} {saying.how(*way)}" for way, who in went.items())
    cells: list[str] = [
        str(it.number),
        because(it.cause or "unknown"),
        saying.people(it.came) if it.came else "",
        ways,
        str(it.members),
        "not known" if it.stopped_ms is None else duration(it.stopped_ms),
    ]
    return f'<tr><th scope="row">{stamp(it.since_ms)}</th>{"".join(f"<td>{_cell(cell)}</td>" for cell in cells)}</tr>'


def _cell(text: str) -> Html:
    return html(text) if text else Html("-")
