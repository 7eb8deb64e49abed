"""Who is in a KIP-848 group, by which static ids, and who holds which partition."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from agent.coordinator.assignors import Assignment, Problem, Slot, Subscribed
from agent.coordinator.modern_requests import About, Current, MemberState
from agent.coordinator.requests import Error

FIRST_EPOCH = 1
"""What a group's epoch and target epoch begin with, before any is written."""


class Refused(Exception):
    """The request is answered with an error, and changes nothing."""

    def __init__(self, error: Error) -> None:
        super().__init__(error)
        self.error = error


@dataclass(frozen=True, slots=True)
class GroupMember:
    """A member as the coordinator knows it."""

    member_id: str
    about: About
    current: Current

    @property
    def held(self) -> Iterable[Slot]:
        """What no other member may have: what is assigned to it, and what it has not given up yet."""
        return (*self.current.assigned, *self.current.revoking)

    def arrived(self, epoch: int) -> bool:
        """Whether it has all that it shall have at this target epoch, and nothing else."""
        return self.current.state == MemberState.STABLE and self.current.epoch == epoch


class Roster:
    """The members by id, those included that left for a restart."""

    def __init__(self) -> None:
        self.members: dict[str, GroupMember] = {}
        self._static: dict[str, str] = {}
        self._holders: dict[Slot, str] = {}

    def put(self, member: GroupMember) -> None:
        """A member is there, or has changed."""
        self._release(member.member_id)
        self.members[member.member_id] = member
        self._holders.update(dict.fromkeys(member.held, member.member_id))
        if member.about.instance_id is not None:
            self._static[member.about.instance_id] = member.member_id

    def remove(self, member_id: str) -> None:
        """A member is gone, and what it held is free."""
        self._release(member_id)
        about = self.members.pop(member_id).about
        if about.instance_id is not None:
            del self._static[about.instance_id]

    def _release(self, member_id: str) -> None:
        if member_id in self.members:
            for slot in self.members[member_id].held:
                del self._holders[slot]

    def held_by_another(self, member_id: str) -> Callable[[Slot], bool]:
        """Says of a partition whether a member other than this one holds it."""
        return lambda slot: self._holders.get(slot, member_id) != member_id

    def static(self, instance_id: str | None) -> GroupMember | None:
        """The member that has this static id, None where nobody has."""
        if instance_id not in self._static:
            return None
        return self._named(self._static[instance_id])

    def find(self, member_id: str, instance_id: str | None) -> GroupMember:
        """The member that asks: by its id, or where it names a static id, by that, if it is still the one."""
        if instance_id is None:
            return self._named(member_id)
        member = self.static(instance_id)
        if member is None:
            raise Refused(Error.UNKNOWN_MEMBER_ID)
        if member.member_id != member_id:
            raise Refused(Error.FENCED_INSTANCE_ID)
        return member

    def _named(self, member_id: str) -> GroupMember:
        # A static id may outlive its member, if that took another static id.
        if member_id not in self.members:
            raise Refused(Error.UNKNOWN_MEMBER_ID)
        return self.members[member_id]

    def found(self, partitions: Mapping[str, int]) -> dict[str, int]:
        """The partitions of those topics that somebody wants."""
        wanted = frozenset[str]().union(*(member.about.topics for member in self.members.values()))
        return {topic: count for topic, count in partitions.items() if topic in wanted}


class Target:
    """What each member shall have, and for which epoch that was computed, when."""

    def __init__(self, assignors: Mapping[str, Callable[[Problem], Assignment]]) -> None:
        self.epoch = FIRST_EPOCH
        self.by_member: dict[str, frozenset[Slot]] = {}
        self._assignors = assignors
        self._computed_ms: int | None = None

    def of(self, member_id: str) -> frozenset[Slot]:
        """What this member shall have."""
        return self.by_member.get(member_id, frozenset())

    def may_compute(self, interval_ms: int, now_ms: int) -> bool:
        """Not sooner after the last time than the interval; the first time at once."""
        return self._computed_ms is None or interval_ms == 0 or now_ms >= self._computed_ms + interval_ms

    def compute(
        self, members: Mapping[str, GroupMember], partitions: Mapping[str, int], epoch: int, now_ms: int
    ) -> tuple[str, list[str]]:
        """Compute it for an epoch; answers the assignor's name, and whose target is another now."""
        problem = Problem(
            partitions,
            {
                member_id: Subscribed(
                    member.about.topics, member.about.instance_id, tuple(sorted(self.of(member_id)))
                )
                for member_id, member in members.items()
            },
        )
        assignor = self._voted(members)
        assignment = self._assignors[assignor](problem)
        changed = []
        for member_id in members:
            target = frozenset(assignment[member_id])
            if self.by_member.get(member_id) != target:
                self.by_member[member_id] = target
                changed.append(member_id)
        self.epoch, self._computed_ms = epoch, now_ms
        return assignor, changed

    def _voted(self, members: Mapping[str, GroupMember]) -> str:
        """The assignor that most members want; the first is the default.

        Between equals a broker's hash tables decide; here the first does.
        """
        votes = Counter(member.about.server_assignor for member in members.values())
        return max(self._assignors, key=lambda name: votes[name])
