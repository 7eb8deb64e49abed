"""The assignors that look at nothing but subscriptions (and racks): range and roundrobin."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence

from agent.core.protocol.assignors.problem import (
    Assignment,
    AssignmentProblem,
    Slot,
    sorted_member_ids,
    to_assignment,
)


def range_assignor(problem: AssignmentProblem) -> Assignment:
    """`RangeAssignor`: each topic by itself, in consecutive pieces, the first members get one more each.

    Many topics with few partitions so pile up on the first members. Where racks are known on both sides and differ
    from partition to partition, each member first gets of its fair share what has a replica in its rack.
    """
    topics = _topics(problem)
    if any(topic.needs_racks for topic in topics):
        _match_racks(topics)
    held: dict[str, list[Slot]] = defaultdict(list)
    for topic in topics:
        topic.deal()
        for member_id, numbers in topic.given.items():
            held[member_id] += [(topic.name, number) for number in numbers]
    return to_assignment(problem, held)


def server_range_assignor(problem: AssignmentProblem) -> Assignment:
    """The coordinator's own `range` (KIP-848): the same pieces, and racks do not matter."""
    return range_assignor(AssignmentProblem(problem.partitions, problem.members))


def roundrobin_assignor(problem: AssignmentProblem) -> Assignment:
    """`RoundRobinAssignor`: all partitions in a row, one to each member in turn, skipping who does not want it."""
    held: dict[str, list[Slot]] = defaultdict(list)
    order = sorted_member_ids(problem)
    turn = 0
    for topic, count in problem.subscribed_topics().items():
        for number in range(count):
            while topic not in problem.members[order[turn % len(order)]].topics:
                turn += 1
            held[order[turn % len(order)]].append((topic, number))
            turn += 1
    return to_assignment(problem, held)


class _TopicShares:
    """A topic that is being shared out: how many partitions each taker gets at most, and which it has."""

    def __init__(self, problem: AssignmentProblem, name: str, count: int, takers: Sequence[str]) -> None:
        self.name = name
        self.takers = {member_id: problem.members[member_id].rack or None for member_id in takers}
        self.racks: list[frozenset[str]] = []
        member_racks = {rack for rack in self.takers.values() if rack is not None}
        if member_racks:
            self.racks = [problem.racks.get((name, number), frozenset()) for number in range(count)]
        every = frozenset[str]().union(*self.racks)
        # Replicas of every partition in every rack leave nothing to choose.
        self.needs_racks = bool(member_racks & every) and any(racks != every for racks in self.racks)
        self.given: dict[str, list[int]] = {}
        self._left = dict.fromkeys(range(count))
        self._each, self._more = divmod(count, len(self.takers))

    def room(self, member_id: str) -> int:
        """How many partitions the member may still get; not above zero if it may get none."""
        return self._each + (self._more > 0) - len(self.given.get(member_id, ()))

    def give(self, member_id: str, numbers: Sequence[int]) -> None:
        """Partitions to a member."""
        mine = self.given.setdefault(member_id, [])
        mine += numbers
        self._more -= len(mine) > self._each
        for number in numbers:
            del self._left[number]

    def fits(self, member_id: str, number: int) -> bool:
        """Whether a replica is in the member's rack; any is, for one without."""
        rack = self.takers[member_id]
        return rack is None or rack in self.racks[number]

    def deal(self, *, by_rack: bool = False) -> None:
        """What is left, member by member up to its share; `by_rack`: only what fits."""
        for member_id in self.takers:
            if not self._left:
                break
            room, numbers = self.room(member_id), list[int]()
            if room <= 0:
                continue
            for number in self._left:
                if not by_rack or self.fits(member_id, number):
                    numbers.append(number)
                    if len(numbers) == room:
                        break
            if numbers:
                self.give(member_id, numbers)


def _topics(problem: AssignmentProblem) -> list[_TopicShares]:
    takers: Mapping[str, list[str]] = defaultdict(list)
    for member_id in sorted_member_ids(problem):
        for topic in problem.members[member_id].topics:
            takers[topic].append(member_id)
    return [_TopicShares(problem, name, count, takers[name]) for name, count in problem.subscribed_topics().items()]


def _match_racks(topics: Sequence[_TopicShares]) -> None:
    """Topics of the same size with the same takers stay together: a number goes to the same member in all of them."""
    alike: dict[tuple[frozenset[str], int], list[_TopicShares]] = defaultdict(list)
    for topic in topics:
        alike[frozenset(topic.takers), len(topic.racks)].append(topic)
    for (_, count), together in alike.items():
        if len(together) > 1:
            _match_together(together, count)
        elif together[0].needs_racks:
            together[0].deal(by_rack=True)


def _match_together(topics: Sequence[_TopicShares], count: int) -> None:
    takers = list(topics[0].takers)
    for number in range(count):
        taker = next(
            (it for it in takers if all(topic.fits(it, number) and topic.room(it) > 0 for topic in topics)), None
        )
        if taker is not None:
            for topic in topics:
                topic.give(taker, [number])
