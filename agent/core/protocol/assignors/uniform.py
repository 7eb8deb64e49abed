"""`uniform`, the coordinator's own assignor of KIP-848 groups: even, and sticky within that.

Kafka orders topics by their ids, which a problem does not hold; here they go by name. So with several topics it may
be other partitions that move. As in Kafka 4.3; in 3.9 what did not come out even went to the first members, whatever
they had, and so moved more.
"""

from __future__ import annotations

from collections import defaultdict
from itertools import islice

from agent.core.protocol.assignors.problem import Assignment, AssignmentProblem, Slot, hash_set_order, to_assignment
from agent.core.protocol.hashing import hash_map_order

UNASSIGNED = -1
MAX_SWEEPS = 16
"""Over all topics; what is not even by then stays so."""


def uniform_assignor(problem: AssignmentProblem) -> Assignment:
    """`UniformAssignor`."""
    if not problem.members:
        return {}
    return to_assignment(
        problem,
        _assign_homogeneous(problem) if problem.has_equal_subscriptions() else _HeterogeneousAssign(problem).run(),
    )


def _assign_homogeneous(problem: AssignmentProblem) -> dict[str, list[Slot]]:
    """All want the same. Where they do not come out even, one more goes to members that have it, and to the last."""
    wanted = problem.subscribed_topics()
    owned = {member_id: _owned(problem, member_id, wanted) for member_id in hash_map_order(problem.members)}
    taken = {(topic, number) for topics in owned.values() for topic, numbers in topics.items() for number in numbers}
    left = [
        (topic, number) for topic, count in wanted.items() for number in range(count) if (topic, number) not in taken
    ]
    least, more = divmod(sum(wanted.values()), len(owned))
    held: dict[str, list[Slot]] = {}
    room: dict[str, int] = {}
    for at, (member_id, topics) in enumerate(owned.items()):
        free = least + (more > 0)
        held[member_id] = mine = []
        for topic, numbers in topics.items():
            order = numbers if len(numbers) <= free else hash_set_order(numbers)
            mine += [(topic, number) for number in order[:free]]
            left += [(topic, number) for number in order[free:]]
            free -= len(order[:free])
        if more:
            if free and len(owned) - at > more:
                free -= 1
            else:
                more -= 1
        room[member_id] = free
    rest = iter(left)
    for member_id, free in room.items():
        held[member_id] += islice(rest, free)
    return held


def _owned(problem: AssignmentProblem, member_id: str, wanted: dict[str, int]) -> dict[str, list[int]]:
    """By topic, what a member has of what it wants."""
    member = problem.members[member_id]
    out: dict[str, list[int]] = defaultdict(list)
    for topic, number in sorted(set(member.owned)):
        if topic in member.topics and 0 <= number < wanted.get(topic, 0):
            out[topic].append(number)
    return out


class _HeterogeneousAssign:
    """Members want different topics: deal out what is free, then even out topic by topic, and again.

    Members go by their place in the coordinator's hash map.
    """

    def __init__(self, problem: AssignmentProblem) -> None:
        self._ids = hash_map_order(problem.members)
        self._counts = problem.subscribed_topics()
        self._takers: dict[str, list[int]] = {topic: [] for topic in self._counts}
        self._owners = {topic: [UNASSIGNED] * count for topic, count in self._counts.items()}
        self._sizes = [0] * len(self._ids)
        for at, member_id in enumerate(self._ids):
            for topic in self._counts.keys() & problem.members[member_id].topics:
                self._takers[topic].append(at)
            for topic, numbers in _owned(problem, member_id, self._counts).items():
                for number in numbers:
                    self._give(topic, number, at)

    def run(self) -> dict[str, list[Slot]]:
        """By member id, what it is to have."""
        topics = sorted(
            self._counts,
            key=lambda topic: (-self._counts[topic] / len(self._takers[topic]), len(self._takers[topic]), topic),
        )
        for topic in topics:
            self._deal(topic)
        self._even_out([topic for topic in topics if len(self._takers[topic]) > 1])
        held: dict[str, list[Slot]] = {member_id: [] for member_id in self._ids}
        for topic, owners in self._owners.items():
            for number, owner in enumerate(owners):
                held[self._ids[owner]].append((topic, number))
        return held

    def _give(self, topic: str, number: int, at: int) -> None:
        old = self._owners[topic][number]
        if old != UNASSIGNED:
            self._sizes[old] -= 1
        self._owners[topic][number] = at
        self._sizes[at] += 1

    def _deal(self, topic: str) -> None:
        free = [number for number, owner in enumerate(self._owners[topic]) if owner == UNASSIGNED]
        if free:
            loads = _MembersByLoad(self._takers[topic], self._sizes)
            for number in free:
                self._give(topic, number, loads.lowest())

    def _even_out(self, topics: list[str]) -> None:
        last: int | None = None
        for _ in range(MAX_SWEEPS):
            for at, topic in enumerate(topics):
                if at == last:
                    # Once around, and nothing moved.
                    return
                if self._even_out_one(topic) or last is None:
                    last = at

    def _even_out_one(self, topic: str) -> bool:
        """Move partitions of a topic from those with the most to those with the least; whether one moved."""
        loads = _MembersByLoad(self._takers[topic], self._sizes)
        if loads.difference <= 1:
            return False
        theirs: dict[int, list[int]] = defaultdict(list)
        for number, owner in enumerate(self._owners[topic]):
            theirs[owner].append(number)
        has_moved = False
        while True:
            giver = loads.highest()
            while giver is not None and not theirs[giver]:
                loads.leave_out()
                giver = loads.highest()
            if giver is None:
                return has_moved
            number, taker = theirs[giver].pop(), loads.lowest()
            if loads.is_even():
                return has_moved
            self._give(topic, number, taker)
            has_moved = True


class _MembersByLoad:
    """Members by how many partitions they have: from the low end to be given one each in turn, from the high end to
    give one each, level by level. `sizes` change meanwhile."""

    def __init__(self, members: list[int], sizes: list[int]) -> None:
        self._order = sorted(members, key=lambda at: (sizes[at], at))
        self._size = sizes
        lowest, highest = sizes[self._order[0]], sizes[self._order[-1]]
        self.difference = highest - lowest
        self._low_end, self._low_level, self._next_low = 0, lowest - 1, 0
        self._high_start = self._high_end = len(self._order)
        self._high_level, self._next_high = highest + 1, len(self._order) - 1

    def is_even(self) -> bool:
        """Whether the two ends have met, as far as one partition goes."""
        return self._high_level - self._low_level <= 1

    def lowest(self) -> int:
        """Whose turn it is to get one."""
        if self._next_low >= self._low_end:
            self._low_level += 1
            while self._low_end < len(self._order) and self._size[self._order[self._low_end]] == self._low_level:
                self._low_end += 1
            self._next_low = 0
        self._next_low += 1
        return self._order[self._next_low - 1]

    def highest(self) -> int | None:
        """Whose turn it is to give one; None if nobody is left."""
        if self._next_high < self._high_start:
            if self._high_end <= self._high_start and self._high_start > 0:
                self._high_level = self._size[self._order[self._high_start - 1]]
            else:
                self._high_level -= 1
            while self._high_start > 0 and self._size[self._order[self._high_start - 1]] == self._high_level:
                self._high_start -= 1
            self._next_high = self._high_end - 1
        if self._next_high < 0:
            return None
        self._next_high -= 1
        return self._order[self._next_high + 1]

    def leave_out(self) -> None:
        """Whoever was just named has nothing to give."""
        here, end = self._next_high + 1, self._high_end - 1
        self._order[here], self._order[end] = self._order[end], self._order[here]
        self._high_end = end
