"""What rebalance storms look like, what to say of each, and what is normal for a group."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from enum import StrEnum
from typing import ClassVar

from agent.core.state_fields import StateFields
from analyzers.formatting import count_text, names_text

DOMINANT_SHARE = 0.6
"""The share that makes a pattern; below it is a mixture."""


class StormPattern(StrEnum):
    """What a storm looks like."""

    CRASH_LOOP = "crash_loop"
    FLAPPING_SESSIONS = "flapping_sessions"
    POLL_STALLS = "poll_stalls"
    CHURN = "churn"
    COOPERATIVE_ROUNDS = "cooperative_rounds"
    REJOIN_LOOP = "rejoin_loop"
    SUBSCRIPTION_CHANGES = "subscription_changes"
    NEVER_COMPLETED = "never_completed"
    MIXTURE = "mixture"


def dominant_pattern(seen: Counter[StormPattern]) -> StormPattern:
    """The one that most of what was seen looks like."""
    most = max(seen, key=lambda pattern: (seen[pattern], pattern))
    return most if seen[most] >= DOMINANT_SHARE * seen.total() else StormPattern.MIXTURE


def pattern_clause(pattern: StormPattern, clients: Sequence[str], departures: int, causes: Counter[str]) -> str:
    """A clause of the summary; `departures` are of those clients."""
    who = names_text(clients) if clients else "members"
    times = count_text(departures, "departure")
    match pattern:
        case StormPattern.CRASH_LOOP:
            return f"{who} came back and went again and again ({times})"
        case StormPattern.FLAPPING_SESSIONS:
            return f"sessions of {who} ran out again and again ({times})"
        case StormPattern.POLL_STALLS:
            return f"{who} stayed away from poll again and again ({times})"
        case StormPattern.CHURN:
            return f"members are replaced again and again: {who} ({times})"
        case StormPattern.COOPERATIVE_ROUNDS:
            return "cooperative rounds follow each other and never settle"
        case StormPattern.REJOIN_LOOP:
            return "the same members rejoin, and nothing else changes"
        case StormPattern.SUBSCRIPTION_CHANGES:
            return "subscriptions, or the partitions of topics, keep changing"
        case StormPattern.NEVER_COMPLETED:
            return "generations begin and never complete"
    listed = sorted(causes.items(), key=lambda item: (-item[1], item[0]))[:3]
    return f"several causes: {', '.join(f'{cause} {count}' for cause, count in listed)}"


PATTERN_ADVICE = {
    StormPattern.CRASH_LOOP: (
        "Look for why that client ends (its log, exit code, OOM kill, liveness probe), and stop it until then: "
        "each of its starts and ends stops the group. For restarts that must be, group.instance.id with a "
        "session.timeout.ms longer than a restart keeps the group out of it."
    ),
    StormPattern.FLAPPING_SESSIONS: (
        "The consumers live but their heartbeats do not arrive in time: look for garbage collection, throttled CPUs "
        "and the network, and raise session.timeout.ms (45000 by default), with heartbeat.interval.ms at most a "
        "third of it."
    ),
    StormPattern.POLL_STALLS: (
        "Processing takes longer than max.poll.interval.ms: lower max.poll.records, take the work off the poll "
        "thread (pause(), keep polling, resume()), or raise max.poll.interval.ms above what the slowest batch takes."
    ),
    StormPattern.CHURN: (
        "Slow the deploy or the autoscaler down (a longer stabilization window, larger steps). "
        "partition.assignment.strategy=CooperativeStickyAssignor, or group.protocol=consumer, keeps those at work "
        "who stay; group.instance.id spares rebalances where members come back under the same identity; on the "
        "broker, group.initial.rebalance.delay.ms lets an empty group wait for all before it starts."
    ),
    StormPattern.COOPERATIVE_ROUNDS: (
        "Each round takes partitions back that the next gives away again. All members must run the same "
        "partition.assignment.strategy and subscription; a custom assignor must be sticky, or the rounds never end. "
        "group.protocol=consumer leaves assigning to the broker."
    ),
    StormPattern.REJOIN_LOOP: (
        "A member asks for rebalances though nobody came or went: enforceRebalance() in the application, a leader "
        "that sees topics change back and forth, or members whose join fails (their logs name the reason)."
    ),
    StormPattern.SUBSCRIPTION_CHANGES: (
        "Each new topic that a pattern matches, each topic that grows and each changed subscription rebalances the "
        "group: create topics in one go, narrow the pattern, and subscribe once instead of in turns. "
        "metadata.max.age.ms says how often clients look."
    ),
    StormPattern.NEVER_COMPLETED: (
        "Members come and go before the assignment is there: look for JoinGroup and SyncGroup errors in their logs, "
        "raise max.poll.interval.ms if they cannot rejoin in time, and on the broker "
        "group.initial.rebalance.delay.ms if many start at once."
    ),
    StormPattern.MIXTURE: (
        "Begin with the clients that go most often. Then session.timeout.ms and max.poll.interval.ms above what the "
        "consumers need, group.instance.id for restarts, and partition.assignment.strategy=CooperativeStickyAssignor "
        "or group.protocol=consumer so that those who stay keep working."
    ),
}


class BaselineRate:
    """A slow average of events on event time: exponentially weighted, with what was not seen left out."""

    STATE: ClassVar = StateFields(
        {
            "_constant_ms": int,
            "_level": float,
            "_at_ms": int,
            "since_ms": int | None,
        }
    )

    def __init__(self, constant_ms: int) -> None:
        """`constant_ms`: over how long to average."""
        self._constant_ms = constant_ms
        self._level = 0.0
        self._at_ms = 0
        self.since_ms: int | None = None
        """From when on events would have been seen."""

    def add(self, at_ms: int, count: int) -> None:
        """Count events; times ascend."""
        self._level = self._decayed(at_ms) + count
        self._at_ms = at_ms

    def _decayed(self, now_ms: int) -> float:
        return self._level * math.exp((self._at_ms - now_ms) / self._constant_ms)

    def per_ms(self, until_ms: int, least_ms: int) -> float | None:
        """Events a millisecond until then; None if less than `least_ms` was seen."""
        if self.since_ms is None or until_ms - self.since_ms < least_ms:
            return None
        seen = 1 - math.exp((self.since_ms - until_ms) / self._constant_ms)
        return self._decayed(until_ms) / self._constant_ms / seen
