"""Who is in a classic group: its members, the ids given out and not used yet, static ids, and who leads.

Owns the rules about who is who and who may come in, and the elections. Knows no time, no states and no answers.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from agent.core.protocol.hashing import hash_map_order
from agent.simulation.groups.messages import ClassicMemberImage, JoinGroupRequest, SupportedProtocol, Token
from agent.simulation.groups.roster import Roster


class ClassicMember(Struct):
    """`request` is its latest JoinGroup, with the static id, client id and host of its first one.

    `pending_join` and `pending_sync` are the tokens of requests that are not answered yet. `is_new` until its first
    join is answered: a new member may be expired while it waits.
    """

    member_id: str
    request: JoinGroupRequest
    assignment: Any = ()
    is_new: bool = False
    pending_join: Token | None = None
    pending_sync: Token | None = None

    @property
    def instance_id(self) -> str | None:
        """Its static id."""
        return self.request.instance_id

    @property
    def protocol_names(self) -> list[str]:
        """The protocols it supports, in its order of preference."""
        return [offer.name for offer in self.request.protocols]

    def renewed(self, request: JoinGroupRequest) -> JoinGroupRequest:
        """A later JoinGroup of this member, or of its successor: who it is stays."""
        first = self.request
        return replace(
            request, instance_id=first.instance_id, client_id=first.client_id, client_host=first.client_host
        )

    @property
    def is_waiting_for_response(self) -> bool:
        """Whether its silence means nothing: it waits for an answer, and has been in a generation before."""
        return not self.is_new and (self.pending_join is not None or self.pending_sync is not None)

    def metadata(self, protocol: str | None) -> Any:
        """What it said of itself for `protocol`."""
        return next((offer.metadata for offer in self.request.protocols if offer.name == protocol), None)

    def image(self, protocol: str | None, assignment: Any) -> ClassicMemberImage:
        """As it goes into the log."""
        return ClassicMemberImage(
            self.member_id,
            self.instance_id,
            self.request.client_id,
            self.request.client_host,
            self.request.session_timeout_ms,
            self.request.rebalance_timeout_ms,
            self.metadata(protocol),
            assignment,
        )


class ClassicRoster(Roster[ClassicMember]):
    """A group's members by id, in the order in which they came."""

    def __init__(self) -> None:
        super().__init__()
        self.pending_member_ids: set[str] = set()
        """Member ids that were given out and not used yet."""
        self.leader: str | None = None

    # Who is who.

    def knows_member_id(self, member_id: str) -> bool:
        """Whether there is this member, or its id was given out."""
        return member_id in self.members or member_id in self.pending_member_ids

    def members_not_rejoined(self) -> list[ClassicMember]:
        """Members that have not rejoined, and are not excused from it by a static id."""
        return [it for it in self.members.values() if it.pending_join is None and it.instance_id is None]

    @property
    def all_joined(self) -> bool:
        """Whether everybody has asked to join, and nobody is on the way."""
        return not self.pending_member_ids and all(it.pending_join is not None for it in self.members.values())

    @property
    def rebalance_timeout_ms(self) -> int:
        """How long a join phase may take: the longest that a member asked for."""
        return max((member.request.rebalance_timeout_ms for member in self.members.values()), default=0)

    # Who comes and goes.

    def add(self, member: ClassicMember) -> None:
        """A new member; the first one leads."""
        self.pending_member_ids.discard(member.member_id)
        self.members[member.member_id] = member
        self._peak_size = max(self._peak_size, len(self.members))
        if member.instance_id is not None:
            self._static[member.instance_id] = member.member_id
        if self.leader is None:
            self.leader = member.member_id

    def remove(self, member: ClassicMember) -> None:
        """A member goes; if it led, another one does."""
        del self.members[member.member_id]
        if member.instance_id is not None:
            del self._static[member.instance_id]
        if self.leader == member.member_id:
            self.leader = next(iter(self._in_order(self.members)), None)

    def replace(self, old: ClassicMember, new: ClassicMember) -> None:
        """A static member goes on under a new member id, and leads if the old one did."""
        assert new.instance_id is not None
        del self.members[old.member_id]
        self.members[new.member_id] = new
        self._static[new.instance_id] = new.member_id
        if self.leader == old.member_id:
            self.leader = new.member_id

    # Elections.

    def common_protocols(self) -> set[str]:
        """The protocols that all members support; there must be a member."""
        return set.intersection(*(set(member.protocol_names) for member in self.members.values()))

    def supports(self, offers: tuple[SupportedProtocol, ...]) -> bool:
        """Whether one of these is supported by all members."""
        if not self.members:
            return bool(offers)
        shared = self.common_protocols()
        return any(offer.name in shared for offer in offers)

    def elected_protocol(self) -> str:
        """The vote: each member for its first preference among what all support; most votes win."""
        shared = self.common_protocols()
        votes: dict[str, int] = {}
        for member in self.members.values():
            name = next(name for name in member.protocol_names if name in shared)
            votes[name] = votes.get(name, 0) + 1
        return max(hash_map_order(votes), key=lambda name: votes[name])

    def elect_leader(self) -> bool:
        """Whether somebody leads who has rejoined: a leader that has not gives way to one that has."""
        if self.leader is not None and self.members[self.leader].pending_join is not None:
            return True
        ready = [member_id for member_id, member in self.members.items() if member.pending_join is not None]
        if ready:
            self.leader = self._in_order(ready)[0]
        return bool(ready)

    def _in_order(self, member_ids: Iterable[str]) -> list[str]:
        return hash_map_order(member_ids, self._peak_size)
