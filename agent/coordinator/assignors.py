"""Who gets which partition: what the assignors of Kafka's consumer answer, from what they are asked.

Held to answers of Kafka's own classes (`tests/coordinator/test_assignors.py`). Racks are not considered: an assignor
matches them only where it knows the racks of every partition's replicas, which the log of groups does not hold.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

Slot = tuple[str, int]
"""A topic's name and a partition of it."""

Assignment = dict[str, list[Slot]]
"""By member id, partitions sorted by topic and number; every member is in it."""


@dataclass(frozen=True, slots=True)
class Subscribed:
    """What an assignor knows of a member: the topics that it wants, its static id, and what it has."""

    topics: frozenset[str]
    instance_id: str | None = None
    owned: tuple[Slot, ...] = ()


@dataclass(frozen=True, slots=True)
class Problem:
    """What is to be assigned: how many partitions each topic has, and the members by id.

    A subscribed topic that is not in `partitions` does not exist.
    """

    partitions: Mapping[str, int]
    members: Mapping[str, Subscribed]


def range_assignor(problem: Problem) -> Assignment:
    """`RangeAssignor`: each topic by itself, in consecutive pieces, the first members get one more each.

    Many topics with few partitions so pile up on the first members.
    """
    out: Assignment = {member_id: [] for member_id in problem.members}
    order = in_order(problem)
    for topic, count in sorted(problem.partitions.items()):
        takers = [member_id for member_id in order if topic in problem.members[member_id].topics]
        first = 0
        for position, member_id in enumerate(takers):
            behind = first + count // len(takers) + (position < count % len(takers))
            out[member_id] += [(topic, number) for number in range(first, behind)]
            first = behind
    return out


def roundrobin_assignor(problem: Problem) -> Assignment:
    """`RoundRobinAssignor`: all partitions in a row, one to each member in turn, skipping who does not want it."""
    out: Assignment = {member_id: [] for member_id in problem.members}
    order = in_order(problem)
    turn = 0
    for topic, count in sorted(problem.partitions.items()):
        if not any(topic in member.topics for member in problem.members.values()):
            continue
        for number in range(count):
            while topic not in problem.members[order[turn % len(order)]].topics:
                turn += 1
            out[order[turn % len(order)]].append((topic, number))
            turn += 1
    return out


def in_order(problem: Problem) -> list[str]:
    """Member ids as assignors sort them (`MemberInfo.compareTo`): static members first, by their static ids."""

    def place(member_id: str) -> tuple[bool, bytes]:
        instance_id = problem.members[member_id].instance_id
        # Java compares strings by UTF-16 code units.
        return instance_id is None, (instance_id or member_id).encode("utf-16-be", "surrogatepass")

    return sorted(problem.members, key=place)


ASSIGNORS: Mapping[str, Callable[[Problem], Assignment]] = {
    "range": range_assignor,
    "roundrobin": roundrobin_assignor,
}
"""By the name that members vote with."""
