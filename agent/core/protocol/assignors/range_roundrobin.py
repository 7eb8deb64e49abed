"""The assignors that look at nothing but subscriptions: range and roundrobin."""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict

from agent.core.protocol.assignors.problem import (
    Assignment,
    AssignmentProblem,
    Slot,
    sorted_member_ids,
    to_assignment,
)


def range_assignor(problem: AssignmentProblem) -> Assignment:
    """`RangeAssignor`, of the consumer and of the coordinator: each topic by itself, in consecutive pieces, the first
    members get one more each.

    Many topics with few partitions so pile up on the first members. Racks of replicas, which nobody here knows, would
    have the consumer's choose within each fair share.
    """
    takers: dict[str, list[str]] = defaultdict(list)
    for member_id in sorted_member_ids(problem):
        for topic in problem.members[member_id].topics:
            takers[topic].append(member_id)
    held: dict[str, list[Slot]] = defaultdict(list)
    for topic, count in problem.subscribed_topics().items():
        each, more = divmod(count, len(takers[topic]))
        first = 0
        for place, member_id in enumerate(takers[topic]):
            end = first + each + (place < more)
            held[member_id] += [(topic, number) for number in range(first, end)]
            first = end
    return to_assignment(problem, held)


def roundrobin_assignor(problem: AssignmentProblem) -> Assignment:
    """`RoundRobinAssignor`: all partitions in a row, one to each member in turn, skipping who does not want it."""
    held: dict[str, list[Slot]] = defaultdict(list)
    order = sorted_member_ids(problem)
    takers: dict[str, list[int]] = defaultdict(list)
    for place, member_id in enumerate(order):
        for topic in problem.members[member_id].topics:
            takers[topic].append(place)
    turn = 0
    for topic, count in problem.subscribed_topics().items():
        places = takers[topic]
        for number in range(count):
            # To skip one by one is quadratic where each pair of members has a topic of its own.
            place = places[bisect_left(places, turn) % len(places)]
            held[order[place]].append((topic, number))
            turn = place + 1
    return to_assignment(problem, held)
