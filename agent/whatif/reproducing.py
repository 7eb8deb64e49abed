"""Whether a play comes to what the log shows: the same generations with the same clients in them.

The log bounds when something happened; within the bounds the first guess is taken that reproduces the log, or else
the one that comes nearest.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import NamedTuple

from agent.coordinator.play import Played
from agent.whatif.playing import played
from agent.whatif.recorded import Expected, Recorded, recorded
from agent.whatif.recorder import Recording

SHARES = (0.5, 0.9, 0.1)
"""How much of a heartbeat interval before the end of a join phase that came which set it off, as it is tried."""

INTERVALS_MS = (1_500, 1_000, 2_000)
"""Heartbeat intervals that are tried where the log does not tell it and the default reproduces less."""

NEAR = 16
"""So many generations ahead a play is searched for one that the log shows."""


class Shown(NamedTuple):
    """A generation of a play, numbered as the log's: when it was complete, and its clients."""

    generation: int
    at_ms: int
    clients: frozenset[str]


class Difference(NamedTuple):
    """A generation of the log that the play lacks (`played` None), or one of the play that the log lacks."""

    recorded: Expected | None
    played: Shown | None


@dataclass(frozen=True, slots=True)
class Reproduction:
    """Of `generations` that the log shows, `matched` came in their order with the same members.

    `late_ms`: by how much the play's assignments come later than the log's, of each that matched.
    """

    generations: int
    matched: int
    differences: tuple[Difference, ...]
    late_ms: tuple[int, ...]

    @property
    def is_exact(self) -> bool:
        """Whether every generation came, with its members, and no other."""
        return not self.differences


class Fitted(NamedTuple):
    """A recording as a script, its play, and how near that is."""

    recorded: Recorded
    played: Played
    reproduction: Reproduction


def fitted(
    recording: Recording,
    end_ms: int,
    *,
    heartbeat_ms: int | None = None,
    delay_ms: int | None = None,
    enough: Callable[[], bool] = lambda: False,
) -> Fitted:
    """The script that reproduces the log best.

    `heartbeat_ms` and `delay_ms` as for `recorded`. `enough` is asked after each guess: the best so far may do.
    Raises `NothingRecorded` and `NotPlayed`.
    """
    best: Fitted | None = None
    for found in _guesses(recording, end_ms, heartbeat_ms, delay_ms):
        if best is None or _rank(found) > _rank(best):
            best = found
        if best.reproduction.is_exact or enough():
            break
    assert best is not None, "there are guesses"
    return best


def _rank(found: Fitted) -> tuple[int, int]:
    return found.reproduction.matched, -len(found.reproduction.differences)


def _guesses(recording: Recording, end_ms: int, heartbeat_ms: int | None, delay_ms: int | None) -> Iterator[Fitted]:
    """What is told, or the default; then other heartbeat intervals, and no delay, where nobody told them."""
    first = recorded(recording, end_ms, heartbeat_ms=heartbeat_ms, delay_ms=delay_ms)
    intervals = (None,) if first.heartbeat_told else (None, *INTERVALS_MS)
    delays = (None,) if first.delay_told else (None, 0)
    for interval, delay in product(intervals, delays):
        for share in SHARES:
            found = recorded(
                recording,
                end_ms,
                heartbeat_ms=heartbeat_ms if interval is None else interval,
                delay_ms=delay_ms if delay is None else delay,
                share=share,
            )
            found = replace(found, heartbeat_told=first.heartbeat_told, delay_told=first.delay_told)
            came = played(found.script)
            yield Fitted(found, came, reproduction(found, came))


def shown(recorded: Recorded, came: Played) -> list[Shown]:
    """The generations of a play from the opening on that a broker would have written."""
    every = [
        Shown(it.generation, it.completed_ms, frozenset(it.clients))
        for it in came.rebalances
        if it.completed_ms is not None
    ]
    if recorded.opening is None:
        return every
    before = [it for it in every if it.at_ms <= recorded.opening_ms]
    shift = recorded.opening.generation - (before[-1].generation if before else 0)
    return [it._replace(generation=it.generation + shift) for it in every[len(before) :]]


def reproduction(recorded: Recorded, played: Played) -> Reproduction:
    """Compare in order: generations that match, and those that are in one of the two only."""
    came = shown(recorded, played)
    differences: list[Difference] = []
    late: list[int] = []
    at = 0
    for it in recorded.expected:
        found = _next(it, came, at)
        if found is None:
            differences.append(Difference(it, None))
            continue
        differences += [Difference(None, extra) for extra in came[at:found]]
        late.append(came[found].at_ms - it.at_ms)
        at = found + 1
    differences += [Difference(None, extra) for extra in came[at:]]
    return Reproduction(len(recorded.expected), len(late), tuple(differences), tuple(late))


def _next(it: Expected, came: Sequence[Shown], at: int) -> int | None:
    return next((index for index in range(at, min(at + NEAR, len(came))) if came[index].clients == it.clients), None)
