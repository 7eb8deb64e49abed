"""Who is in a KIP-848 group, by which static ids, and who holds which partition."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping

from msgspec import Struct

from agent.core.protocol.assignors import Assignment, AssignmentProblem, MemberSubscription, Slot
from agent.core.protocol.hashing import java_string_hash
from agent.simulation.groups.kip848_messages import ConsumerMemberMetadata, CurrentAssignment, MemberState
from agent.simulation.groups.roster import Roster

_HASH_MULTIPLIER = -7046029254386353131
"""What `TimelineHashMap` multiplies hashes with (2^64 divided by the golden ratio)."""

FIRST_EPOCH = 1
"""What a group's epoch and target epoch begin with, before any is written."""


class ConsumerGroupMember(Struct, frozen=True):
    """A member as the coordinator knows it."""

    member_id: str
    metadata: ConsumerMemberMetadata
    current: CurrentAssignment

    @property
    def held_slots(self) -> Iterable[Slot]:
        """What no other member may have: what is assigned to it, and what it has not given up yet."""
        return (*self.current.assigned, *self.current.revoking)

    def has_reached(self, epoch: int) -> bool:
        """Whether it has all that it shall have at this target epoch, and nothing else."""
        return self.current.state == MemberState.STABLE and self.current.epoch == epoch


class Kip848Roster(Roster[ConsumerGroupMember]):
    """The members by id, those included that left for a restart."""

    def __init__(self) -> None:
        super().__init__()
        self._holders: dict[Slot, str] = {}
        self._peak_size_before_last_join = 0

    def put(self, member: ConsumerGroupMember) -> None:
        """A member is there, or has changed."""
        if member.member_id not in self.members:
            self._peak_size_before_last_join = self._peak_size
            self._peak_size = max(self._peak_size, len(self.members) + 1)
        self._release(member.member_id)
        self.members[member.member_id] = member
        self._holders.update(dict.fromkeys(member.held_slots, member.member_id))
        if member.metadata.instance_id is not None:
            self._static[member.metadata.instance_id] = member.member_id

    def remove(self, member_id: str) -> None:
        """A member is gone, and what it held is free."""
        self._release(member_id)
        about = self.members.pop(member_id).metadata
        if about.instance_id is not None:
            del self._static[about.instance_id]

    def _release(self, member_id: str) -> None:
        if member_id in self.members:
            for slot in self.members[member_id].held_slots:
                del self._holders[slot]

    def broker_order(self, newcomer: str | None) -> list[str]:
        """The members in the order in which a broker tells its assignor of them, who joins just now at the end."""
        ids = [member_id for member_id in self.members if member_id != newcomer]
        order = timeline_hash_map_order(
            ids, self._peak_size if newcomer is None else self._peak_size_before_last_join
        )
        return order if newcomer is None else [*order, newcomer]

    def held_by_another(self, member_id: str) -> Callable[[Slot], bool]:
        """Says of a partition whether a member other than this one holds it."""
        return lambda slot: self._holders.get(slot, member_id) != member_id

    def subscribed_partitions(self, partitions: Mapping[str, int]) -> dict[str, int]:
        """The partitions of those topics that somebody wants."""
        wanted = frozenset[str]().union(*(member.metadata.topics for member in self.members.values()))
        return {topic: count for topic, count in partitions.items() if topic in wanted}


class TargetAssignment:
    """What each member shall have, and for which epoch that was computed, when."""

    def __init__(self, assignors: Mapping[str, Callable[[AssignmentProblem], Assignment]]) -> None:
        self.epoch = FIRST_EPOCH
        self.by_member: dict[str, frozenset[Slot]] = {}
        self._assignors = assignors
        self._computed_ms: int | None = None

    def slots_of(self, member_id: str) -> frozenset[Slot]:
        """What this member shall have."""
        return self.by_member.get(member_id, frozenset())

    def may_compute(self, interval_ms: int, now_ms: int) -> bool:
        """Not sooner after the last time than the interval; the first time at once."""
        return self._computed_ms is None or interval_ms == 0 or now_ms >= self._computed_ms + interval_ms

    def compute(
        self, roster: Kip848Roster, partitions: Mapping[str, int], epoch: int, by: str, joins: bool, now_ms: int
    ) -> tuple[str, list[str]]:
        """Compute it for an epoch on the heartbeat of member `by`, which may be the one that it `joins` with.

        Answers the assignor's name, and whose target is another now.
        """
        members = roster.members
        order = roster.broker_order(by if joins else None)
        problem = AssignmentProblem(
            partitions, {member_id: self._subscribed(members[member_id]) for member_id in order}
        )
        assignor = self._voted(members, by)
        assignment = self._assignors[assignor](problem)
        changed = []
        for member_id in members:
            target = frozenset(assignment[member_id])
            if self.by_member.get(member_id) != target:
                self.by_member[member_id] = target
                changed.append(member_id)
        self.epoch, self._computed_ms = epoch, now_ms
        return assignor, changed

    def _subscribed(self, member: ConsumerGroupMember) -> MemberSubscription:
        # What an assignor of the coordinator takes for a member's own is what it was to have, not what it has got.
        about, owned = member.metadata, tuple(sorted(self.slots_of(member.member_id)))
        return MemberSubscription(about.topics, about.instance_id, owned)

    def _voted(self, members: Mapping[str, ConsumerGroupMember], by: str) -> str:
        """The assignor that most members want, the first of all if nobody says.

        Between equals a broker's hash tables decide, in which a vote that nobody else shares is put anew, at the
        end, on the voter's own heartbeat.
        """
        votes = Counter(name for member in members.values() if (name := member.metadata.server_assignor) is not None)
        order = timeline_hash_map_order(votes, len(votes))
        own = members[by].metadata.server_assignor
        order.sort(key=lambda name: name == own and votes[name] == 1)
        return max(order, key=lambda name: votes[name], default=next(iter(self._assignors)))


def timeline_hash_map_order(keys: Iterable[str], most: int) -> list[str]:
    """Keys in the order in which a broker's `TimelineHashMap` that got them one by one goes through them.

    `most` is how many it has ever held at a time. It spreads hashes by a multiplication, and goes through those that
    fall into one slot from the last to the first.
    """
    bits = 1
    while most * 3 > 4 << bits:
        bits += 1

    def slot(key: str) -> int:
        return (java_string_hash(key) * _HASH_MULTIPLIER & 2**64 - 1) >> 64 - bits

    items = list(keys)
    items.reverse()
    items.sort(key=slot)
    return items
