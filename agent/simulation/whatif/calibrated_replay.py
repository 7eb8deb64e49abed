"""Whether a play comes to what the log shows: the same generations with the same clients in them.

The log bounds when something happened; within the bounds the first guess is taken that reproduces the log, or else
the one that comes nearest.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import product
from typing import NamedTuple

from msgspec import Struct
from msgspec.structs import replace

from agent.core.protocol.assignors import ASSIGNORS, AssignmentNeverEnds
from agent.presentation.narrative.gains import are_alike
from agent.simulation.groups.script import Script
from agent.simulation.groups.simulate import SimulationResult, simulate
from agent.simulation.groups.simulation import TooManyMoments
from agent.simulation.whatif.changes import starts
from agent.simulation.whatif.recorded_script import Generation, RecordedScript, reconstruct
from agent.simulation.whatif.recorder import GroupRecording

TRIGGER_SHARES = (0.5, 0.9, 0.1)
"""How much of a heartbeat interval before the end of a join phase that came which set it off, as it is tried."""

HEARTBEAT_INTERVALS_MS = (1_500, 1_000, 2_000)
"""Heartbeat intervals that are tried where the log does not tell it and the default reproduces less."""

LOOKAHEAD_GENERATIONS = 16
"""So many generations ahead a play is searched for one that the log shows."""


MAX_MOMENTS = 20_000
"""Of one play; a day of storms comes to 500. Records that claim timeouts of a millisecond would make it billions, and
all of them are remembered."""


class CannotReplay(ValueError):
    """The model cannot play a script; the message says why."""


def replay(script: Script) -> SimulationResult:
    """Play a script. Raises `CannotReplay`."""
    settings = [it.settings for it in starts(script)]
    unknown = {name for it in settings for name in it.assignors} - ASSIGNORS.keys()
    if unknown:
        raise CannotReplay(f"the model has no assignor {' or '.join(sorted(unknown))}")
    try:
        return simulate(script, MAX_MOMENTS)
    except AssignmentNeverEnds as error:
        raise CannotReplay(str(error)) from None
    except TooManyMoments as error:
        raise CannotReplay(f"too much happens in this group to be played again: {error}") from None


class GenerationDifference(NamedTuple):
    """A generation of the log that the play lacks (`played` None), or one of the play that the log lacks."""

    recorded: Generation | None
    played: Generation | None


class ReplayAccuracy(Struct, frozen=True):
    """Of `generations` that the log shows, `matched` came in their order with the same members.

    `late_ms`: by how much the play's assignments come later than the log's, of each that matched. Of `costed` of them
    the log tells the standstill: `log_stopped_ms` partition-milliseconds, which are `stopped_ms` in the play.
    """

    generations: int
    matched: int
    differences: tuple[GenerationDifference, ...]
    late_ms: tuple[int, ...]
    costed: int = 0
    stopped_ms: int = 0
    log_stopped_ms: int = 0

    @property
    def is_exact(self) -> bool:
        """Whether every generation came, with its members, and no other."""
        return not self.differences

    @property
    def has_times_of_log(self) -> bool | None:
        """Whether partitions stand still for as long as in the log, to a factor of `ALIKE_FACTOR`; None where the log
        does not tell."""
        return are_alike(self.stopped_ms / 1000, self.log_stopped_ms / 1000) if self.costed else None


class CalibratedReplay(NamedTuple):
    """A recording as a script, its play, and how near that is."""

    recorded: RecordedScript
    result: SimulationResult
    reproduction: ReplayAccuracy


def calibrate(
    recording: GroupRecording,
    end_ms: int,
    *,
    heartbeat_ms: int | None = None,
    delay_ms: int | None = None,
    enough: Callable[[], bool] = lambda: False,
) -> CalibratedReplay:
    """The script that reproduces the log best.

    `heartbeat_ms` and `delay_ms` as for `reconstruct`. `enough` is asked after each guess: the best so far may do.
    Raises `NothingToReplay` and `CannotReplay`.
    """
    best: CalibratedReplay | None = None
    for found in _guesses(recording, end_ms, heartbeat_ms, delay_ms):
        if best is None or _rank(found) > _rank(best):
            best = found
        if best.reproduction.is_exact or enough():
            break
    assert best is not None, "there are guesses"
    return best


def _rank(found: CalibratedReplay) -> tuple[int, int]:
    return found.reproduction.matched, -len(found.reproduction.differences)


def _guesses(
    recording: GroupRecording, end_ms: int, heartbeat_ms: int | None, delay_ms: int | None
) -> Iterator[CalibratedReplay]:
    """What is told, or the default; then other heartbeat intervals, and no delay, where nobody told them."""
    first = reconstruct(recording, end_ms, heartbeat_ms=heartbeat_ms, delay_ms=delay_ms)
    intervals = () if first.heartbeat_told else HEARTBEAT_INTERVALS_MS
    delays = () if first.delay_told else (0,)
    for interval, delay, share in product(
        (first.heartbeat_ms, *intervals), (first.delay_ms, *delays), TRIGGER_SHARES
    ):
        found = reconstruct(recording, end_ms, heartbeat_ms=interval, delay_ms=delay, share=share)
        found = replace(found, heartbeat_told=first.heartbeat_told, delay_told=first.delay_told)
        played = replay(found.script)
        yield CalibratedReplay(found, played, replay_accuracy(found, played))


def simulated_generations(recorded: RecordedScript, came: SimulationResult) -> list[Generation]:
    """The generations of a play from the opening on that a broker would have written."""
    every: list[Generation] = []
    before_ms = 0
    for it in came.rebalances:
        if it.completed_ms is None:
            continue
        by_then_ms = sum(it.stopped_by_then)
        clients = frozenset(it.clients)
        every.append(Generation(it.generation, it.completed_ms, clients, stopped_ms=by_then_ms - before_ms))
        before_ms = by_then_ms
    if recorded.opening is None:
        return every
    before = [it for it in every if it.at_ms <= recorded.opening_ms]
    shift = recorded.opening.generation - (before[-1].generation if before else 0)
    return [it._replace(generation=it.generation + shift) for it in every[len(before) :]]


def replay_accuracy(recorded: RecordedScript, played: SimulationResult) -> ReplayAccuracy:
    """Compare in order: generations that match, and those that are in one of the two only."""
    left = simulated_generations(recorded, played)
    differences: list[GenerationDifference] = []
    late: list[int] = []
    costed = stopped_ms = log_stopped_ms = 0
    since_match: list[int | None] = []
    for expected in recorded.expected:
        since_match.append(expected.stopped_ms)
        ahead = [generation.clients for generation in left[:LOOKAHEAD_GENERATIONS]]
        if expected.clients not in ahead:
            differences.append(GenerationDifference(expected, None))
            continue
        found = ahead.index(expected.clients)
        differences += [GenerationDifference(None, extra) for extra in left[:found]]
        late.append(left[found].at_ms - expected.at_ms)
        known_ms = [it for it in since_match if it is not None]
        if len(known_ms) == len(since_match):
            costed += len(known_ms)
            log_stopped_ms += sum(known_ms)
            stopped_ms += sum(it.stopped_ms or 0 for it in left[: found + 1])
        since_match.clear()
        left = left[found + 1 :]
    differences += [GenerationDifference(None, extra) for extra in left]
    return ReplayAccuracy(
        len(recorded.expected), len(late), tuple(differences), tuple(late), costed, stopped_ms, log_stopped_ms
    )
