"""The target assignment of a KIP-848, share or streams group: who is to have what, and what a new epoch changed.

A coordinator writes a target for each member whose target changes, then the epoch; so only those members are
looked at. Partitions go by topic id here: a name may become known between two epochs.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any, ClassVar, Generic, TypeVar

from agent.core.shadow.diff import AssignmentDiff
from agent.core.state_fields import StateFields

TargetSlot = tuple[object, int]
"""A topic id and a partition, or a subtopology and a task."""


Topic = TypeVar("Topic")
Target = TypeVar("Target")


class TargetAssignments(Generic[Topic, Target]):
    """The targets of one group's members."""

    STATE: ClassVar = StateFields(
        {
            "latest": dict[str, Target],
            "_changed": set[str],
            "_owner": dict[str, str],
            "_held": dict[str, frozenset[tuple[Topic, int]]],
            "_owners": Counter[tuple[Topic, int]],
        }
    )

    def __init__(self, slots: Callable[[Any], Iterable[TargetSlot]]) -> None:
        self.latest: dict[str, Any] = {}
        """By member id: the member's record as it stands."""
        self.slots_of = slots
        self._changed: set[str] = set()
        # As of the newest epoch: under which owner a member stood, what an owner had, how many have a slot (of a
        # share group's partition, several).
        self._owner: dict[str, str] = {}
        self._held: dict[str, frozenset[TargetSlot]] = {}
        self._owners: Counter[TargetSlot] = Counter()

    def __copy__(self) -> TargetAssignments[Topic, Target]:
        out = TargetAssignments[Topic, Target](self.slots_of)
        out.latest, out._changed, out._owner = dict(self.latest), set(self._changed), dict(self._owner)
        out._held, out._owners = dict(self._held), self._owners.copy()
        return out

    @property
    def size(self) -> int:
        """The slots that have an owner, and those of the targets that came since the newest epoch."""
        came = self._changed & self.latest.keys()
        return len(self._owners) + sum(1 for it in came for _ in self.slots_of(self.latest[it]))

    def put(self, member_id: str, value: Any) -> None:
        """Take a member's target; None deletes it."""
        if value is not None:
            self.latest[member_id] = value
        elif self.latest.pop(member_id, None) is None:
            return
        self._changed.add(member_id)

    def apply_epoch(self, owner_of: Callable[[str], str]) -> AssignmentDiff:
        """Take an epoch: what changed since the one before. `owner_of` gives the owner's key of a member id."""
        owners = {self._owner.pop(member_id) for member_id in self._changed if member_id in self._owner}
        now: dict[str, frozenset[TargetSlot]] = {}
        # In an order that no process has of its own: two may stand under one owner, where strangers write.
        for member_id in sorted(self._changed & self.latest.keys()):
            owner = self._owner[member_id] = owner_of(member_id)
            now[owner] = frozenset(self.slots_of(self.latest[member_id]))
        self._changed.clear()
        gained: set[TargetSlot] = set()
        given_up: set[TargetSlot] = set()
        for owner in owners | now.keys():
            old, new = self._held.pop(owner, frozenset()), now.get(owner, frozenset())
            if new:
                self._held[owner] = new
            came, went = new - old, old - new
            self._owners.update(came)
            self._owners.subtract(went)
            gained |= came
            given_up |= went
        lost = {slot for slot in given_up if not self._owners[slot]}
        for slot in lost:
            del self._owners[slot]
        return AssignmentDiff(len(self._owners), len(gained), len(lost))

    def partition_counts(self, member_ids: Iterable[str]) -> list[int]:
        """How much each of these members is to have, as of the newest epoch."""
        owner, held, nothing = self._owner, self._held, frozenset[TargetSlot]()
        return [len(held.get(owner.get(member_id, ""), nothing)) for member_id in member_ids]

    def topics(self) -> set[Any]:
        """Of which anybody is to have something."""
        return {topic for topic, _ in self._owners}
