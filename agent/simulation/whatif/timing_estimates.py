"""What the log shows of settings that it does not hold: how often members send heartbeats, how long a broker waits.

Members that stay learn of a rebalance from the answer to a heartbeat, and their heartbeats count from the assignment
before. So from that assignment to the end of the next join phase whole heartbeat intervals pass.
"""

from __future__ import annotations

from collections.abc import Iterable

from agent.core.causes import Cause
from agent.simulation.whatif.clients import consecutive_states
from agent.simulation.whatif.recorder import GroupRecording, RecordedState

DEFAULT_HEARTBEAT_MS = 3_000
"""`heartbeat.interval.ms` of all clients."""

DEFAULT_DELAY_MS = 3_000
"""`group.initial.rebalance.delay.ms` of all brokers."""

STEP_MS, LEAST_MS = 250, 500
"""Intervals that people set are whole quarters of a second."""

DELAY_STEP_MS = 500
"""And delays are halves."""

ENOUGH = 3
"""So many rebalances tell an interval."""

MOST_WRONG = 0.2
"""Of those so many may be off: a member that came late, say."""

LATE_MS, DRIFT_MS = 30, 5
"""How far off a rebalance may be, and how much more for each interval."""

_TELLING_CAUSES = (Cause.MEMBER_JOINED, Cause.MEMBER_LEFT)


def estimate_heartbeat_ms(recording: GroupRecording) -> int | None:
    """The longest heartbeat interval, up to the default, that all rebalances fit; None if too few tell."""
    waits = list(_waits(recording))
    if len(waits) < ENOUGH:
        return None
    for interval in range(DEFAULT_HEARTBEAT_MS, LEAST_MS - 1, -STEP_MS):
        told = [fits for wait in waits if (fits := _fits(wait, interval)) is not None]
        if len(told) >= ENOUGH and told.count(False) <= MOST_WRONG * len(told):
            return interval
    return None


def _fits(wait_ms: int, interval_ms: int) -> bool | None:
    """Whether so long a wait is whole intervals; None where so many passed that it would be by chance."""
    beats = max(round(wait_ms / interval_ms), 1)
    most_off = LATE_MS + DRIFT_MS * beats
    return None if most_off > interval_ms / 6 else abs(wait_ms - beats * interval_ms) <= most_off


def _waits(recording: GroupRecording) -> Iterable[int]:
    for before, seen, _ in consecutive_states(recording):
        inferred = seen.inferred
        if inferred is None or not before.members.keys() & seen.members.keys():
            continue
        if inferred.cause in _TELLING_CAUSES and set(inferred.causes) <= set(_TELLING_CAUSES):
            yield seen.joined_ms - before.at_ms


def estimate_initial_delay_ms(recording: GroupRecording) -> int | None:
    """How long the broker waited for more members of the empty group, to half a second; None if the log does not
    tell: only newer brokers write when a group was made.

    One member waits once. Whoever comes meanwhile makes it wait once more, mostly: but a whole number of times the
    default is taken for so many waits of the default.
    """
    if recording.created_ms is None or not recording.states:
        return None
    first = recording.states[0]
    waited = round((first.joined_ms - recording.created_ms) / STEP_MS) * STEP_MS
    if waited < 0:
        # The clocks of two coordinators.
        return None
    if len(first.members) > 1 and waited % DEFAULT_DELAY_MS == 0:
        return min(waited, DEFAULT_DELAY_MS)
    return round(waited / (2 if len(first.members) > 1 else 1) / DELAY_STEP_MS) * DELAY_STEP_MS


def was_empty(before: RecordedState | None) -> bool:
    """Whether a rebalance began in a group without members."""
    return before is None or not before.members
