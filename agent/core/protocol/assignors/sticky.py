"""`StickyAssignor` and `CooperativeStickyAssignor`: as even as can be, and of what members have, as much as may stay.

Racks are not considered: Kafka's sticky assignors give up stickiness for them where they are known.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping

from agent.core.protocol.assignors.general_sticky import GeneralAssign, OwnershipClaims
from agent.core.protocol.assignors.problem import Assignment, AssignmentProblem, Slot, java_sort_key, to_assignment
from agent.core.protocol.hashing import hash_map_order

NO_GENERATION = -1
"""What a member counts as that does not say in which generation it got what it has."""


def sticky_assignor(problem: AssignmentProblem) -> Assignment:
    """`StickyAssignor`: an eager assignor, so that each partition goes to its owner to be at once."""
    return to_assignment(problem, _assign(problem)[0])


def cooperative_sticky_assignor(problem: AssignmentProblem) -> Assignment:
    """`CooperativeStickyAssignor`: the same, less what another member must give up first.

    Whoever owned such a partition loses it now; when it rejoined without it, the next round gives it away.
    """
    held, moving = _assign(problem)
    return to_assignment(
        problem, {member_id: [slot for slot in slots if slot not in moving] for member_id, slots in held.items()}
    )


def _assign(problem: AssignmentProblem) -> tuple[Mapping[str, list[Slot]], set[Slot]]:
    """The whole assignment, and which partitions in it go from one member to another."""
    if not problem.members:
        return {}, set()
    claims = _ownership_claims(problem)
    if problem.has_equal_subscriptions():
        equal = _ConstrainedAssign(problem, claims)
        equal.run()
        return equal.held, equal.moving
    held = GeneralAssign(problem, claims).run()
    return held, _moving_partitions(problem, held)


def _moving_partitions(problem: AssignmentProblem, held: Mapping[str, list[Slot]]) -> set[Slot]:
    """What somebody gets that somebody else says to have."""
    gained: set[Slot] = set()
    lost: set[Slot] = set()
    for member_id, member in problem.members.items():
        gained |= set(held[member_id]).difference(member.owned)
        lost |= set(member.owned).difference(held[member_id])
    return gained & lost


def _ownership_claims(problem: AssignmentProblem) -> OwnershipClaims:
    """Who has what, among what is shared out: of several claims the newest counts, of two as new neither."""
    wanted = problem.subscribed_topics()
    owned: dict[str, dict[Slot, None]] = {member_id: {} for member_id in hash_map_order(problem.members)}
    latest: dict[Slot, str] = {}
    disputed: set[Slot] = set()
    for member_id, mine in owned.items():
        generation = _generation(problem, member_id)
        for slot in problem.members[member_id].owned:
            if not 0 <= slot[1] < wanted.get(slot[0], 0):
                continue
            other = latest.get(slot)
            if other is not None:
                theirs = _generation(problem, other)
                if generation < theirs:
                    continue
                owned[other].pop(slot, None)
                if generation == theirs:
                    disputed.add(slot)
                    latest[slot] = member_id
                    continue
            latest[slot] = member_id
            mine[slot] = None
    return OwnershipClaims(
        {member_id: list(mine) for member_id, mine in owned.items()}, disputed, _previous_owners(problem)
    )


def _previous_owners(problem: AssignmentProblem) -> dict[Slot, str]:
    """By partition, the member that had it newest in a generation that is no more."""
    newest = max((_generation(problem, member_id) for member_id in problem.members), default=NO_GENERATION)
    found: dict[Slot, tuple[int, str]] = {}
    for member_id in hash_map_order(problem.members):
        member = problem.members[member_id]
        generation = _generation(problem, member_id)
        if generation < newest:
            for slot in member.owned:
                if slot not in found or generation > found[slot][0]:
                    found[slot] = (generation, member_id)
    return {slot: member_id for slot, (_, member_id) in found.items() if slot[0] in problem.members[member_id].topics}


def _generation(problem: AssignmentProblem, member_id: str) -> int:
    generation = problem.members[member_id].generation
    return NO_GENERATION if generation is None else generation


class _ConstrainedAssign:
    """All members want the same topics: each gets `least` partitions, and `more` of them one on top."""

    def __init__(self, problem: AssignmentProblem, claims: OwnershipClaims) -> None:
        self.held: dict[str, list[Slot]] = {member_id: [] for member_id in claims.owned}
        self.moving: set[Slot] = set()
        self._slots = [
            (topic, number) for topic, count in problem.subscribed_topics().items() for number in range(count)
        ]
        self._claims = claims
        self._least, self._more = divmod(len(self._slots), len(self.held))
        self._short: list[str] = []
        self._at_least: list[str] = []
        self._given_up: dict[Slot, str] = {}

    def run(self) -> None:
        """Let members keep what they may, then deal out the rest."""
        for member_id in self.held:
            self._keep(member_id)
        kept = {slot for slots in self.held.values() for slot in slots}
        left = deque(slot for slot in self._slots if slot not in kept)
        filled: list[str] = []
        turn = sorted(self._short, key=java_sort_key)
        while turn:
            again: list[str] = []
            for member_id in turn:
                self._give(left.popleft(), member_id)
                (filled if len(self.held[member_id]) == self._least else again).append(member_id)
            turn = again
        more = [*sorted(self._at_least, key=java_sort_key), *filled]
        for slot, member_id in zip(left, more, strict=False):
            self._give(slot, member_id)

    def _keep(self, member_id: str) -> None:
        """Of what it has, as much as its share: the first by partition number."""
        owned = sorted(
            (slot for slot in self._claims.owned[member_id] if slot not in self._claims.disputed),
            key=lambda slot: (slot[1], slot[0]),
        )
        if len(owned) < self._least:
            share = len(owned)
            self._short.append(member_id)
        elif len(owned) > self._least and self._more > 0:
            share = self._least + 1
            self._more -= 1
            if not self._more:
                # No more members get one on top.
                self._at_least.clear()
        else:
            share = self._least
            if self._more > 0:
                self._at_least.append(member_id)
        self.held[member_id] += owned[:share]
        self._given_up.update(dict.fromkeys(owned[share:], member_id))

    def _give(self, slot: Slot, member_id: str) -> None:
        self.held[member_id].append(slot)
        if self._given_up.get(slot, member_id) != member_id or slot in self._claims.disputed:
            self.moving.add(slot)
