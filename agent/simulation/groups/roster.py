"""Who is who in a group: members by member id and by static id, as coordinators of both protocols find them."""

from __future__ import annotations

from typing import Generic, TypeVar

from agent.simulation.groups.messages import ErrorCode, LeavingMember

Member = TypeVar("Member")


class RequestRejected(Exception):
    """The request is answered with an error, and changes nothing."""

    def __init__(self, error: ErrorCode) -> None:
        super().__init__(error)
        self.error = error


class Roster(Generic[Member]):
    """The members by id, in the order in which they came, and the member ids that static ids have now."""

    def __init__(self) -> None:
        self.members: dict[str, Member] = {}
        self._static: dict[str, str] = {}
        # Java's map of members grows with them and never shrinks, and with it the order in which it gives them.
        self._peak_size = 0

    def static_member(self, instance_id: str | None) -> Member | None:
        """The member that has this static id, None where nobody has."""
        if instance_id not in self._static:
            return None
        return self._named(self._static[instance_id])

    def find(self, member_id: str, instance_id: str | None) -> Member:
        """The member that asks: by its id, or where it names a static id, by that, if it is still the one.

        Raises `RequestRejected`.
        """
        if instance_id is None:
            return self._named(member_id)
        if instance_id not in self._static:
            raise RequestRejected(ErrorCode.UNKNOWN_MEMBER_ID)
        member = self._named(self._static[instance_id])
        if self._static[instance_id] != member_id:
            raise RequestRejected(ErrorCode.FENCED_INSTANCE_ID)
        return member

    def find_leaving(self, leaver: LeavingMember) -> Member:
        """The member that is to leave; an admin names a static one by that id alone. Raises `RequestRejected`."""
        static = self.static_member(leaver.instance_id) if leaver.member_id == "" else None
        return static or self.find(leaver.member_id, leaver.instance_id)

    def _named(self, member_id: str) -> Member:
        # A static id may outlive its member, if that took another static id.
        if member_id not in self.members:
            raise RequestRejected(ErrorCode.UNKNOWN_MEMBER_ID)
        return self.members[member_id]
