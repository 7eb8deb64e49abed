"""What several rebalances have in common: members that come back, and members that are changed one by one."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from agent.story.reading import TAKEN_OUT, Gone, Rebalance, Who

RESTART_MS = 300_000
"""A member that joins within this time of a goodbye is taken for the one that left, restarted: pods that are slow to
start included."""

ROLLING = 2
"""From how many restarts on, one after another, it is called a rolling one."""

LOOP = 2
"""From how many deaths of one client on, with a return between them, it is called a loop."""


@dataclass(frozen=True, slots=True)
class Restart:
    """A member said goodbye and another joined."""

    gone: Gone
    came: Who
    away_ms: int


@dataclass(frozen=True, slots=True)
class Loop:
    """A client that fell silent again and again and came back between."""

    client: str
    host: str
    losses: tuple[Gone, ...]
    returns: int


def restarts(done: Sequence[Rebalance]) -> list[Restart]:
    """Goodbyes with the join that followed each. None where the group became empty: that was no rolling restart."""
    waiting: list[Gone] = []
    out: list[Restart] = []
    for it in done:
        waiting += [gone for gone in it.left if gone.cause == "member_left" and gone.who.instance_id is None]
        if not it.members:
            waiting.clear()
        for came in it.joined:
            waiting = [gone for gone in waiting if it.at_ms - gone.at_ms <= RESTART_MS]
            if waiting:
                gone = waiting.pop(0)
                out.append(Restart(gone, came, it.at_ms - gone.at_ms))
    return out


def loops(done: Sequence[Rebalance], of: Collection[str] = TAKEN_OUT) -> list[Loop]:
    """Clients that went by causes `of` (were taken out, unless told) and came back, the most frequent first."""
    losses: dict[tuple[str, str], list[Gone]] = {}
    returns: Counter[tuple[str, str]] = Counter()
    for it in done:
        for gone in it.left:
            if gone.cause in of:
                losses.setdefault((gone.who.label, gone.who.host), []).append(gone)
        for came in it.joined:
            if (came.label, came.host) in losses:
                returns[came.label, came.host] += 1
    found = [
        Loop(client, host, tuple(gone), returns[client, host])
        for (client, host), gone in losses.items()
        # A fleet under one client id is many clients: no more may come back than were lost.
        if len(gone) >= LOOP and 0 < returns[client, host] <= len(gone)
    ]
    return sorted(found, key=lambda loop: -len(loop.losses))
