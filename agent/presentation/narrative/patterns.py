"""What several rebalances have in common: members that come back, and members that are changed one by one."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence

from msgspec import Struct

from agent.core.causes import TIMEOUT_CAUSES
from agent.presentation.narrative.events import Departure, Rebalance
from agent.presentation.narrative.words import duration, times

RESTART_MS = 300_000
"""A member that joins within this time of a goodbye is taken for the one that left, restarted: pods that are slow to
start included."""

ROLLING_RESTART_FROM = 2
"""From how many restarts on, one after another, it is called a rolling one."""

CRASH_LOOP_FROM = 2
"""From how many deaths of one client on, with a return between them, it is called a loop."""


class CrashLoop(Struct, frozen=True):
    """A client that was removed and joined again, repeatedly."""

    client: str
    host: str
    losses: tuple[Departure, ...]
    returns: int


def find_restarts(rebalances: Sequence[Rebalance]) -> list[int]:
    """Goodbyes with a join that followed: for how many milliseconds each was away. None where the group became empty:
    that was no rolling restart."""
    waiting: list[Departure] = []
    out: list[int] = []
    for it in rebalances:
        waiting += [gone for gone in it.left if gone.cause == "member_left" and gone.member.instance_id is None]
        if not it.members:
            waiting.clear()
        for _ in it.joined:
            waiting = [gone for gone in waiting if it.at_ms - gone.at_ms <= RESTART_MS]
            if waiting:
                out.append(it.at_ms - waiting.pop(0).at_ms)
    return out


def rolling_restart_phrase(rebalances: Sequence[Rebalance]) -> str:
    """`twice a member left and another joined within 8.0 s, as in a rolling restart`, or ""."""
    away_ms = find_restarts(rebalances)
    if len(away_ms) < ROLLING_RESTART_FROM:
        return ""
    within = duration(max(away_ms))
    return f"{times(len(away_ms))} a member left and another joined within {within}, as in a rolling restart"


def find_crash_loops(rebalances: Sequence[Rebalance], causes: Collection[str] = TIMEOUT_CAUSES) -> list[CrashLoop]:
    """Clients that went by these causes (were taken out, unless told) and came back, the most frequent first."""
    losses: dict[tuple[str, str], list[Departure]] = {}
    returns: Counter[tuple[str, str]] = Counter()
    for it in rebalances:
        for gone in it.left:
            if gone.cause in causes:
                losses.setdefault((gone.member.label, gone.member.host), []).append(gone)
        for came in it.joined:
            if (came.label, came.host) in losses:
                returns[came.label, came.host] += 1
    found = [
        CrashLoop(client, host, tuple(gone), returns[client, host])
        for (client, host), gone in losses.items()
        # A fleet under one client id is many clients: no more may come back than were lost.
        if len(gone) >= CRASH_LOOP_FROM and 0 < returns[client, host] <= len(gone)
    ]
    return sorted(found, key=lambda loop: -len(loop.losses))
