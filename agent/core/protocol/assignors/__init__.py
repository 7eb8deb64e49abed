"""Who gets which partition: what Kafka's assignors answer, from what they are asked.

Held to answers of Kafka's own classes (`tests/unit/simulation/groups`). Where these go through a hash map, the
order of its buckets decides between members that are otherwise alike, and so it does here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from agent.core.protocol.assignors.problem import (
    Assignment,
    AssignmentNeverEnds,
    AssignmentProblem,
    MemberSubscription,
    Slot,
    by_topic,
    sorted_member_ids,
)
from agent.core.protocol.assignors.range_roundrobin import range_assignor, roundrobin_assignor
from agent.core.protocol.assignors.sticky import cooperative_sticky_assignor, sticky_assignor
from agent.core.protocol.assignors.uniform import uniform_assignor

__all__ = [
    "ASSIGNORS",
    "SERVER_ASSIGNORS",
    "Assignment",
    "Assignor",
    "AssignmentNeverEnds",
    "AssignmentProblem",
    "Slot",
    "MemberSubscription",
    "by_topic",
    "sorted_member_ids",
]

Assignor = Callable[[AssignmentProblem], Assignment]
"""Raises `AssignmentNeverEnds` where Kafka's own would go on for ever."""

ASSIGNORS: Mapping[str, Assignor] = {
    "range": range_assignor,
    "roundrobin": roundrobin_assignor,
    "sticky": sticky_assignor,
    "cooperative-sticky": cooperative_sticky_assignor,
}
"""Of the consumer, by the name that members vote with."""

SERVER_ASSIGNORS: Mapping[str, Assignor] = {
    "uniform": uniform_assignor,
    "range": range_assignor,
}
"""Of the coordinator of KIP-848 groups, by the name in `group.remote.assignor`."""
