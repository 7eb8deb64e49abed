"""What rebalance storms look like, what to say of each, and what is normal for a group."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from enum import StrEnum
from typing import ClassVar

from agent.core.state_fields import StateFields
from analyzers.formatting import names_text

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


def pattern_clause(pattern: StormPattern, clients: Sequence[str], times: str, causes: Counter[str]) -> str:
    """A clause of the summary; `times` says how many departures there were of those clients."""
    who = names_text(clients) if clients else "members"
    match pattern:
        case StormPattern.CRASH_LOOP:
            return f"{who} left and joined again repeatedly ({times})"
        case StormPattern.FLAPPING_SESSIONS:
            return f"sessions of {who} timed out repeatedly ({times})"
        case StormPattern.POLL_STALLS:
            return f"{who} repeatedly did not poll in time ({times})"
        case StormPattern.CHURN:
            return f"members are replaced repeatedly: {who} ({times})"
        case StormPattern.COOPERATIVE_ROUNDS:
            return "cooperative rebalances repeat without end"
        case StormPattern.REJOIN_LOOP:
            return "the same members rejoin, and nothing else changes"
        case StormPattern.SUBSCRIPTION_CHANGES:
            return "subscriptions or partitions keep changing"
        case StormPattern.NEVER_COMPLETED:
            return "rebalances begin and do not complete"
    listed = sorted(causes.items(), key=lambda item: (-item[1], item[0]))[:3]
    return f"several causes: {', '.join(f'{cause} {count}' for cause, count in listed)}"


_PLANNED_RESTARTS = (
    " For planned restarts set group.instance.id, with a session.timeout.ms longer than a restart; a dead member is "
    "then detected later."
)
SEVERAL_LOOPS_ADVICE = (
    "Find what those clients have in common (a release, a host, brokers or a network that did not answer), and why "
    f"each of them stops (log, exit code, OOM kills, liveness probe).{_PLANNED_RESTARTS}"
)
"""Of crash loops of more than one client: to keep all of them stopped may be to stop the group."""
PATTERN_ADVICE = {
    StormPattern.CRASH_LOOP: (
        "Find why that client stops (log, exit code, OOM kills, liveness probe), and keep it stopped until then; the "
        f"price is its capacity.{_PLANNED_RESTARTS}"
    ),
    StormPattern.FLAPPING_SESSIONS: (
        "Raise session.timeout.ms (45 s by default), with heartbeat.interval.ms at a third of it or less; a dead "
        "member is then detected later. The consumers run, but their heartbeats are late: check garbage collection, "
        "CPU limits and the network."
    ),
    StormPattern.POLL_STALLS: (
        "Lower max.poll.records, or raise max.poll.interval.ms above the slowest batch; a stuck consumer is then "
        "detected later. Or process records off the poll thread (pause(), keep polling, resume())."
    ),
    StormPattern.CHURN: (
        "Slow down the deploy or the autoscaler (a longer stabilization window, larger steps); scaling then takes "
        "longer. partition.assignment.strategy=CooperativeStickyAssignor, or group.protocol=consumer, lets members "
        "that stay continue. group.instance.id avoids rebalances where members return under the same identity."
    ),
    StormPattern.COOPERATIVE_ROUNDS: (
        "Give all members the same partition.assignment.strategy and subscription; the price is one deploy. Each "
        "rebalance revokes what the next assigns again: a custom assignor must be sticky. With "
        "group.protocol=consumer the broker assigns."
    ),
    StormPattern.REJOIN_LOOP: (
        "Find in the members' logs who asks for the rebalance: enforceRebalance() in the application, a join "
        "that fails, "
        "or a leader whose topic metadata changes. For the last raise metadata.max.age.ms (300000 by default); new "
        "partitions are then found later."
    ),
    StormPattern.SUBSCRIPTION_CHANGES: (
        "Create topics at one time, narrow the subscribed pattern, and subscribe once; the price is that new topics "
        "are found later. Each new topic, added partition and changed subscription rebalances the group; "
        "metadata.max.age.ms sets how often clients look."
    ),
    StormPattern.NEVER_COMPLETED: (
        "Check the members' logs for JoinGroup and SyncGroup errors: members join and leave before the assignment "
        "arrives. Raise max.poll.interval.ms if they rejoin too late, and group.initial.rebalance.delay.ms on the "
        "brokers if many start at once; new groups then start later."
    ),
    StormPattern.MIXTURE: (
        "Begin with the clients that leave most often. Then raise session.timeout.ms and max.poll.interval.ms above "
        "what the consumers need; dead members are then detected later. group.instance.id avoids rebalances at "
        "restarts, and partition.assignment.strategy=CooperativeStickyAssignor or group.protocol=consumer lets "
        "members that stay continue."
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

    __slots__ = ("_at_ms", "_constant_ms", "_level", "since_ms")

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
