"""Which lanes get a row of their own, and how high rows are."""

from __future__ import annotations

from msgspec import Struct

from agent.presentation.narrative.words import count
from agent.presentation.svg.lanes import Lanes
from agent.presentation.svg.member_slots import Lane, Span

MAX_LANES = 40
"""Rows with a name. What is beyond shares one."""
MAX_IDLE_SHOWN = 14
"""Up to so many lanes all are drawn, whether anything happened in them or not."""
COMPACT_FROM = 20
"""From so many rows on they are lower, and what tells seats apart stands beside the name."""


class LaneRow(Struct, frozen=True):
    """One line of the drawing: a lane, or several that share it."""

    label: str
    about: str
    lanes: tuple[Lane, ...]
    height: float
    bar_at: float
    bar: float
    is_compact: bool


def lane_rows(lanes: Lanes, *, beside: bool) -> list[LaneRow]:
    """The rows, the troubled first; of many, those in which nothing happened are only counted. `beside`: names stand
    beside their lanes, else above."""
    every = lanes.lanes
    own = [lane for lane in every if len(every) <= MAX_IDLE_SHOWN or not lane.is_idle]
    still = len(every) - len(own)
    rest = own[MAX_LANES:]
    own = own[:MAX_LANES]
    tight = len(own) > COMPACT_FROM
    hosts = {lane.about for lane in every}
    names = [lane.label for lane in every]
    # What is the same for all tells nothing apart.
    tells = len(hosts) > 1 or len(set(names)) < len(names)
    height, at, bar = _sizes(tight=tight, beside=beside)
    out = [
        LaneRow(lane.label, _about(lane, tells), (lane,), height, at, bar, is_compact=tight or not beside)
        for lane in own
    ]
    if rest:
        out.append(LaneRow(f"{len(rest)} more", "their marks as one", tuple(rest), height, at, bar, is_compact=tight))
    if still or lanes.unnamed:
        quiet = tuple(lane for lane in every if lane.is_idle) if still else ()
        if lanes.unnamed:
            quiet += (Lane("", "", False, (Span(lanes.since_ms, lanes.until_ms),), (), (), ()),)
        text = count(still + lanes.unnamed, "member")
        out.append(LaneRow(f"{text} without change", "", quiet, height, at, bar, is_compact=tight))
    return out


def _about(lane: Lane, tells: bool) -> str:
    often = f"left {len(lane.departures)}\u00d7" if len(lane.departures) > 1 else ""
    static = "static" if lane.is_static else ""
    return " · ".join(part for part in (often, static, lane.about if tells else "") if part)


def _sizes(*, tight: bool, beside: bool) -> tuple[float, float, float]:
    if not beside:
        return (34, 16, 14)
    return (22, 5, 12) if tight else (32, 9, 14)
