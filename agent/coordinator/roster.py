"""Who is in a classic group: its members, the ids given out and not used yet, static ids, and who leads.

Owns the rules about who is who and who may come in, and the elections. Knows no time, no states and no answers.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from agent.coordinator.hashing import in_hash_order
from agent.coordinator.member import ClassicMember
from agent.coordinator.requests import Error, Offer


class Roster:
    """A group's members by id, in the order in which they came."""

    def __init__(self) -> None:
        self.members: dict[str, ClassicMember] = {}
        self.pending: set[str] = set()
        """Member ids that were given out and not used yet."""
        self.leader: str | None = None
        self._instances: dict[str, str] = {}
        # By protocol, how many members support it.
        self._supporters: Counter[str] = Counter()
        # Java's map of members grows with them and never shrinks, and with it the order in which it gives them.
        self._most = 0

    # Who is who.

    def member_of(self, instance_id: str) -> str | None:
        """The member id that a static id has now."""
        return self._instances.get(instance_id)

    def stranger(self, member_id: str, instance_id: str | None) -> Error | None:
        """What is wrong with who asks, None if it is who it says."""
        if instance_id is not None:
            known = self._instances.get(instance_id)
            if known is None:
                return Error.UNKNOWN_MEMBER_ID
            if known != member_id:
                return Error.FENCED_INSTANCE_ID
        return None if member_id in self.members else Error.UNKNOWN_MEMBER_ID

    def late(self) -> list[ClassicMember]:
        """Members that have not rejoined, and are not excused from it by a static id."""
        return [it for it in self.members.values() if it.awaits_join is None and it.instance_id is None]

    @property
    def joining(self) -> int:
        """How many members have asked to join and have no answer yet."""
        return sum(member.awaits_join is not None for member in self.members.values())

    @property
    def has_all(self) -> bool:
        """Whether everybody has asked to join, and nobody is on the way."""
        return not self.pending and self.joining == len(self.members)

    @property
    def rebalance_timeout_ms(self) -> int:
        """How long a join phase may take: the longest that a member asked for."""
        return max((member.rebalance_timeout_ms for member in self.members.values()), default=0)

    # Who comes and goes.

    def add(self, member: ClassicMember) -> None:
        """A new member; the first one leads."""
        self.pending.discard(member.member_id)
        self.members[member.member_id] = member
        self._supporters.update(set(member.names))
        self._most = max(self._most, len(self.members))
        if member.instance_id is not None:
            self._instances[member.instance_id] = member.member_id
        if self.leader is None:
            self.leader = member.member_id

    def remove(self, member: ClassicMember) -> None:
        """A member goes; if it led, another one does."""
        del self.members[member.member_id]
        self._supporters.subtract(set(member.names))
        if member.instance_id is not None:
            del self._instances[member.instance_id]
        if self.leader == member.member_id:
            self.leader = next(iter(self._in_order(self.members)), None)

    def replace(self, old: ClassicMember, new: ClassicMember) -> None:
        """A static member goes on under a new member id, and leads if the old one did."""
        assert new.instance_id is not None
        del self.members[old.member_id]
        self.members[new.member_id] = new
        self._supporters.subtract(set(old.names))
        self._supporters.update(set(new.names))
        self._instances[new.instance_id] = new.member_id
        if self.leader == old.member_id:
            self.leader = new.member_id

    def offer(self, member: ClassicMember, offers: tuple[Offer, ...]) -> None:
        """A member supports other protocols, or says something else of itself."""
        self._supporters.subtract(set(member.names))
        member.offers = offers
        self._supporters.update(set(member.names))

    # Elections.

    def shared(self) -> set[str]:
        """The protocols that all members support; there must be a member."""
        return {name for name, count in self._supporters.items() if count == len(self.members)}

    def supports(self, offers: tuple[Offer, ...]) -> bool:
        """Whether one of these is supported by all members."""
        if not self.members:
            return bool(offers)
        shared = self.shared()
        return any(offer.name in shared for offer in offers)

    def elected(self) -> str:
        """The vote: each member for its first preference among what all support; most votes win."""
        shared = self.shared()
        votes: dict[str, int] = {}
        for member in self.members.values():
            name = member.vote(shared)
            votes[name] = votes.get(name, 0) + 1
        return max(in_hash_order(votes), key=lambda name: votes[name])

    def elect_leader(self) -> bool:
        """Whether somebody leads who has rejoined: a leader that has not gives way to one that has."""
        if self.leader is not None and self.members[self.leader].awaits_join is not None:
            return True
        ready = [member_id for member_id, member in self.members.items() if member.awaits_join is not None]
        if ready:
            self.leader = self._in_order(ready)[0]
        return bool(ready)

    def _in_order(self, member_ids: Iterable[str]) -> list[str]:
        return in_hash_order(member_ids, self._most)
