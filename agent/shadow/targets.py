"""The target assignment of a KIP-848, share or streams group: who is to have what, and what a new epoch changed.

A coordinator writes a target for each member whose target changes, then the epoch; so only those members are
looked at. Partitions go by topic id here: a name may become known between two epochs.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any

from agent.shadow.diff import AssignmentChange

Slot = tuple[object, int]
"""A topic id and a partition, or a subtopology and a task."""


class Targets:
    """The targets of one group's members."""

    def __init__(self, slots: Callable[[Any], Iterable[Slot]]) -> None:
        self.latest: dict[str, Any] = {}
        """By member id: the member's record as it stands."""
        self._slots = slots
        self._changed: set[str] = set()
        # As of the newest epoch: under which owner a member stood, what an owner had, how many have a slot (of a
        # share group's partition, several).
        self._owner: dict[str, str] = {}
        self._held: dict[str, frozenset[Slot]] = {}
        self._owners: Counter[Slot] = Counter()

    def put(self, member_id: str, value: Any) -> None:
        """Take a member's target; None deletes it."""
        if value is not None:
            self.latest[member_id] = value
        elif self.latest.pop(member_id, None) is None:
            return
        self._changed.add(member_id)

    def settle(self, owner_of: Callable[[str], str]) -> AssignmentChange:
        """Take an epoch: what changed since the one before. `owner_of` tells who a member is, by member id."""
        owners = {self._owner.pop(member_id) for member_id in self._changed if member_id in self._owner}
        now: dict[str, frozenset[Slot]] = {}
        for member_id in self._changed & self.latest.keys():
            owner = self._owner[member_id] = owner_of(member_id)
            now[owner] = frozenset(self._slots(self.latest[member_id]))
        self._changed.clear()
        gained: set[Slot] = set()
        given_up: set[Slot] = set()
        for owner in owners | now.keys():
            old, new = self._held.pop(owner, frozenset()), now.get(owner, frozenset())
            if new:
                self._held[owner] = new
            self._owners.update(new - old)
            self._owners.subtract(old - new)
            gained |= new - old
            given_up |= old - new
        lost = {slot for slot in given_up if not self._owners[slot]}
        for slot in lost:
            del self._owners[slot]
        return AssignmentChange(len(self._owners), len(gained), len(lost))

    def shares(self, member_ids: Iterable[str]) -> list[int]:
        """How much each of these members is to have, as of the newest epoch."""
        owner, held, nothing = self._owner, self._held, frozenset[Slot]()
        return [len(held.get(owner.get(member_id, ""), nothing)) for member_id in member_ids]

    def topics(self) -> set[Any]:
        """Of which anybody is to have something."""
        return {topic for topic, _ in self._owners}
