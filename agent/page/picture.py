"""The swim lanes of a group's past, and what else the page shows of it as a picture."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from agent.picture.lanes import lanes
from agent.picture.svg import swimlanes

WIDE, NARROW = 1240, 320
"""Widths that it is drawn at, for a desk and for a phone: the page shows one of them."""


def picture(
    events: Sequence[dict[str, Any]],
    form: Mapping[str, Any] | None,
    since_ms: int,
    until_ms: int,
    ranges: str,
    known_since_ms: int | None = None,
) -> str:
    """Members as lanes from `since_ms` to `until_ms`, under the markup that chooses another range.

    `events` are all of the group's that are known, from `known_since_ms` on all there are; `form` its describe form.
    """
    drawn = lanes(
        events,
        since_ms=since_ms,
        until_ms=until_ms,
        members=() if form is None else form["members"],
        generation=None if form is None else form["generation"],
        known_since_ms=known_since_ms,
    )
    if drawn.lanes or drawn.rounds:
        inner = f"""<div class="picture wide-only">{swimlanes(drawn, width=WIDE)}</div>
<div class="picture narrow-only">{swimlanes(drawn, width=NARROW)}</div>
<p class="more">The same in words: <a href="#events">events</a>.</p>"""
    else:
        inner = '<p class="none">Nobody was in the group in this range.</p>'
    return f"""<section aria-labelledby="lanes-title" id="lanes">
<div class="heading"><h2 id="lanes-title">Members over time</h2>{ranges}</div>
{inner}
</section>"""
