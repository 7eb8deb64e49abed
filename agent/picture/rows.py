"""Which lanes get a row of their own, and how high rows are."""

from __future__ import annotations

from dataclasses import dataclass

from agent.picture.lanes import Lanes
from agent.picture.seats import Lane, Stay
from agent.story.words import count

MAX_LANES = 40
"""Rows with a name. What is beyond shares one."""
ROOMY = 14
"""Up to so many lanes all are drawn, whether anything happened in them or not."""
TIGHT = 20
"""From so many rows on they are lower, and what tells seats apart stands beside the name."""


@dataclass(frozen=True, slots=True)
class Row:
    """One line of the drawing: a lane, or several that share it."""

    label: str
    about: str
    lanes: tuple[Lane, ...]
    height: float
    bar_at: float
    bar: float
    tight: bool


def rows(lanes: Lanes, idle: bool | None, *, beside: bool) -> list[Row]:
    """The rows, the troubled first. `beside`: names stand beside their lanes, else above."""
    every = lanes.lanes
    if idle is None:
        idle = len(every) <= ROOMY
    own = [lane for lane in every if idle or not lane.is_idle]
    still = len(every) - len(own)
    rest = own[MAX_LANES:]
    own = own[:MAX_LANES]
    tight = len(own) > TIGHT
    hosts = {lane.about for lane in every}
    names = [lane.label for lane in every]
    # What is the same for all tells nothing apart.
    tells = len(hosts) > 1 or len(set(names)) < len(names)
    height, at, bar = _sizes(tight=tight, beside=beside)
    out = [Row(lane.label, _about(lane, tells), (lane,), height, at, bar, tight=tight or not beside) for lane in own]
    if rest:
        out.append(Row(f"{len(rest)} more", "their marks as one", tuple(rest), height, at, bar, tight=tight))
    if still or lanes.unnamed:
        quiet = tuple(lane for lane in every if lane.is_idle) if still else ()
        if lanes.unnamed:
            quiet += (Lane("", "", False, (Stay(lanes.since_ms, lanes.until_ms),), (), (), ()),)
        text = count(still + lanes.unnamed, "member")
        out.append(Row(f"{text} without change", "", quiet, height, at, bar, tight=tight))
    return out


def _about(lane: Lane, tells: bool) -> str:
    often = f"went {len(lane.departures)}\u00d7" if len(lane.departures) > 1 else ""
    static = "static" if lane.is_static else ""
    return " · ".join(part for part in (often, static, lane.about if tells else "") if part)


def _sizes(*, tight: bool, beside: bool) -> tuple[float, float, float]:
    if not beside:
        return (34, 16, 14)
    return (22, 5, 12) if tight else (32, 9, 14)
