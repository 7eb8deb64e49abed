"""What other settings would have made of a group's newest history, for beside its findings."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from msgspec.structs import replace

from agent.presentation.narrative.gains import Gains
from agent.serving.replay_limit import TOO_LARGE, is_too_large
from agent.serving.replays import Replay, Replays
from agent.simulation.whatif.recorded_script import reason_not_replayable
from agent.simulation.whatif.recorder import GroupRecording

BUDGET_S = 3.0
"""For all settings of one group; looked at between two of them."""

Recommend = Callable[[GroupRecording, int | None, int | None, int, Callable[[], bool]], Gains]


class ReplayRequest(NamedTuple):
    """A group's recording, the range of it that counts, and the time now; epoch milliseconds. `key`: which group in
    which range, as it was asked for."""

    key: tuple[str | None, ...]
    recording: GroupRecording
    since_ms: int | None
    until_ms: int | None
    now_ms: int
    command: str

    def version(self) -> tuple[object, ...]:
        """The same for as long as a replay would be of the same records, with the same settings."""
        states = self.recording.states
        until_ms = self.now_ms if self.until_ms is None else self.until_ms
        before = sum(it.at_ms < self.since_ms for it in states) if self.since_ms is not None else 0
        within = sum(it.at_ms <= until_ms for it in states)
        told = self.recording.kip848_session
        return self.recording.earlier, before, within, states[-1].at_ms, self.until_ms, told


def gains_soon(replays: Replays, asked: ReplayRequest, recommend: Recommend | None = None) -> Gains | None:
    """What is known by now, of a moment ago where the group has moved since; None while nothing is.

    `recommend`: the replay itself, `agent.simulation.whatif.recommendations` unless told.
    """
    states = asked.recording.states
    if not any(it.inferred is not None for it in states):
        return Gains()
    if (reason := reason_not_replayable(asked.recording)) is not None:
        return Gains(untold=reason)
    if is_too_large(asked.recording):
        return Gains(untold=TOO_LARGE, command=asked.command)

    def run(enough: Callable[[], bool]) -> Gains:
        # Who never looks at a group's page has no use for the model.
        from agent.simulation.whatif.recommendations import recommend as by_model

        end_ms = asked.now_ms if asked.until_ms is None else min(asked.until_ms, asked.now_ms)
        found = (recommend or by_model)(asked.recording, asked.since_ms, asked.until_ms, end_ms, enough)
        return replace(found, command=asked.command) if found.untold else found

    def failed(reason: str) -> Gains:
        return Gains(untold=reason, command=asked.command)

    return replays.soon(Replay(("gains", *asked.key), asked.version(), BUDGET_S, run, failed))
