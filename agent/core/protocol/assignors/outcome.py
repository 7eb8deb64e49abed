"""What an assignor's answer would mean for a group as it is now."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from msgspec.structs import replace

from agent.core.protocol.assignors import ASSIGNORS, SERVER_ASSIGNORS
from agent.core.protocol.assignors.problem import Assignment, AssignmentProblem, Slot

COOPERATIVE = "cooperative-sticky"
MAX_ROUNDS = 10
"""Rebalances after which a cooperative assignor is left alone. Most are done after two."""


class PartitionSpread(NamedTuple):
    """Partitions a member, and how many members have none."""

    least: int
    largest: int
    idle: int


class AssignmentOutcome(NamedTuple):
    """An assignor's answer when all rounds are over, against what members have (`MemberSubscription.owned`).

    `moves`: partitions whose owner changes. `stopped`: partitions that stop on the way; with an eager assignor all
    that anyone has. `rounds`: rebalances until then.
    """

    assignment: Assignment
    spread: PartitionSpread
    moves: int
    stopped: int
    rounds: int


def assignment_outcome(name: str, problem: AssignmentProblem, *, by_server: bool = False) -> AssignmentOutcome:
    """What the assignor of that name makes of the group: the consumer's, or the coordinator's (KIP-848).

    Raises `AssignmentNeverEnds`.
    """
    assignor = (SERVER_ASSIGNORS if by_server else ASSIGNORS)[name]
    assignment, rounds = assignor(problem), 1
    is_cooperative = not by_server and name == COOPERATIVE
    while is_cooperative and rounds < MAX_ROUNDS and _count(assignment) < sum(problem.subscribed_topics().values()):
        # What must be given up first is given away in the round after; that may move more, where members do not
        # subscribe alike.
        assignment, rounds = assignor(with_owned(problem, assignment)), rounds + 1
    before = owners(problem)
    after = {slot: member_id for member_id, slots in assignment.items() for slot in slots}
    moves = sum(after.get(slot) != member_id for slot, member_id in before.items())
    stopped = moves if by_server or is_cooperative else len(before)
    return AssignmentOutcome(assignment, partition_spread(assignment), moves, stopped, rounds)


def with_owned(problem: AssignmentProblem, assignment: Assignment) -> AssignmentProblem:
    """The same members with what they were given."""
    members = {
        member_id: replace(member, owned=tuple(assignment[member_id]), generation=None)
        for member_id, member in problem.members.items()
    }
    return replace(problem, members=members)


def owners(problem: AssignmentProblem) -> dict[Slot, str]:
    """Who has which partition now."""
    return {slot: member_id for member_id, member in problem.members.items() for slot in member.owned}


def partition_spread(assignment: Mapping[str, list[Slot]]) -> PartitionSpread:
    """How evenly partitions are shared out; without members all is 0."""
    sizes = [len(slots) for slots in assignment.values()]
    return PartitionSpread(min(sizes, default=0), max(sizes, default=0), sizes.count(0))


def _count(assignment: Assignment) -> int:
    return sum(map(len, assignment.values()))
