"""The classic group: what a coordinator does with Join-, Sync- and LeaveGroup and Heartbeat, over virtual time.

After `GroupMetadataManager` and `ClassicGroup` of Kafka 4.3. Every request is answered, at once or by a later effect.
Refuses to know what members want or hold: that is for their assignors.
"""

from __future__ import annotations

from agent.coordinator.member import ClassicMember
from agent.coordinator.rebalancing import COMPLETING, DEAD, EMPTY, PREPARING, STABLE, Rebalancing
from agent.coordinator.requests import (
    Beaten,
    Effect,
    Error,
    Heartbeat,
    Joined,
    JoinGroup,
    LeaveGroup,
    Leaver,
    Left,
    Synced,
    SyncGroup,
    Token,
    Why,
)
from agent.coordinator.script import BrokerSettings

Request = JoinGroup | SyncGroup | Heartbeat | LeaveGroup


class ClassicGroup(Rebalancing):
    """One classic group and its members.

    `handle` and `fire` take the time, which must not go back, and give what follows, in order. A request that comes
    at the very moment at which a timer is due comes before it.
    """

    def handle(self, request: Request, token: Token, now_ms: int) -> list[Effect]:
        """Take a request; its answer carries `token`, and may come with a later call."""
        effects = self.fire(now_ms - 1)
        self.now_ms = now_ms
        match request:
            case JoinGroup():
                self._join(request, token)
            case SyncGroup():
                synced = self._sync(request, token)
                if synced is not None:
                    self.answer(token, synced)
            case Heartbeat():
                self.answer(token, Beaten(self._beat(request)))
            case _:
                self._leave(request, token)
        return effects + self.taken()

    # JoinGroup.

    def _join(self, request: JoinGroup, token: Token) -> None:
        error = self._refusal(request)
        if error is not None:
            self.answer(token, Joined(error, "" if error in _WITHOUT_ID else request.member_id))
        elif not request.member_id:
            self._join_as_new(request, token)
        elif request.member_id in self.roster.pending:
            self._add(request, request.member_id, token)
        else:
            self._join_again(request, token)

    def _refusal(self, request: JoinGroup) -> Error | None:
        member_id = request.member_id
        if not has_fair_session(self.settings, request):
            return Error.INVALID_SESSION_TIMEOUT
        if not self._has_room(member_id):
            self._turn_away(member_id)
            return Error.GROUP_MAX_SIZE_REACHED
        if self.state is DEAD:
            return Error.COORDINATOR_NOT_AVAILABLE
        if not self._supports(request):
            return Error.INCONSISTENT_GROUP_PROTOCOL
        if member_id in self.roster.pending:
            # A static member is given no id to come back with; the broker has no better word for one that does.
            return None if request.instance_id is None else Error.UNKNOWN_SERVER_ERROR
        return self.roster.stranger(member_id, request.instance_id) if member_id else None

    def _supports(self, request: JoinGroup) -> bool:
        if self.state is EMPTY:
            return bool(request.protocol_type and request.offers)
        return request.protocol_type == self.protocol_type and self.roster.supports(request.offers)

    def _has_room(self, member_id: str) -> bool:
        """Whether a member may join (`group.max.size`): while members rejoin, the first to come are let in."""
        most = self.settings.max_size
        if self.state is PREPARING:
            member = self.members.get(member_id)
            return (member is not None and member.awaits_join is not None) or self.roster.joining < most
        return self.state in (EMPTY, DEAD) or member_id in self.members or len(self.members) < most

    def _turn_away(self, member_id: str) -> None:
        """There is no room for it: neither the id that it was given nor the member that it was is left.

        The join phase does not end by this, even if all others have joined.
        """
        self.forget_pending(member_id)
        if member_id in self.members:
            self.remove(self.members[member_id], Why.NOT_REJOINED)

    def _join_as_new(self, request: JoinGroup, token: Token) -> None:
        instance_id = request.instance_id
        member_id = f"{request.client_id if instance_id is None else instance_id}-{self.new_id()}"
        known = None if instance_id is None else self.roster.member_of(instance_id)
        if known is not None:
            self._replace(request, self.members[known], member_id, token)
        elif instance_id is None and request.requires_known_member_id:
            self.roster.pending.add(member_id)
            self.expire(member_id, request.session_timeout_ms)
            self.answer(token, Joined(Error.MEMBER_ID_REQUIRED, member_id))
        else:
            self._add(request, member_id, token)

    def _add(self, request: JoinGroup, member_id: str, token: Token) -> None:
        if not self.members:
            self.protocol_type = request.protocol_type
        member = ClassicMember(
            member_id,
            request.instance_id,
            request.client_id,
            request.client_host,
            request.session_timeout_ms,
            request.rebalance_timeout_ms,
            request.offers,
            is_new=True,
            awaits_join=token,
        )
        self.admit(member)

    def _join_again(self, request: JoinGroup, token: Token) -> None:
        member = self.members[request.member_id]
        changed = member.offers != request.offers
        follows = self.state is STABLE and member.member_id != self.leader
        if not changed and (follows or self.state is COMPLETING):
            # It may have missed an answer: it gets the present generation again.
            self.answer(token, self.joined(member))
        else:
            self._update(member, request, token)
            if self.state is PREPARING:
                self.complete_if_all_joined()
            else:
                self.prepare(request.why or _why(changed), member.member_id)

    def _update(self, member: ClassicMember, request: JoinGroup, token: Token) -> None:
        self.roster.offer(member, request.offers)
        member.session_timeout_ms = request.session_timeout_ms
        member.rebalance_timeout_ms = request.rebalance_timeout_ms
        if member.awaits_join is not None and member.awaits_join != token:
            # It asked before and did not wait: that answer finds nobody.
            self.answer(member.awaits_join, Joined(Error.UNKNOWN_MEMBER_ID))
        member.awaits_join = token

    def _replace(self, request: JoinGroup, old: ClassicMember, member_id: str, token: Token) -> None:
        """A static member is back without its member id: it takes over what the old id had."""
        new = ClassicMember(
            member_id,
            old.instance_id,
            old.client_id,
            old.client_host,
            request.session_timeout_ms,
            request.rebalance_timeout_ms,
            request.offers,
            old.assignment,
            awaits_join=token,
        )
        self.replace(old, new)

    # SyncGroup.

    def _sync(self, request: SyncGroup, token: Token) -> Synced | None:
        error = self._sync_refusal(request)
        if error is not None:
            return Synced(error)
        member = self.members[request.member_id]
        self.has_synced(member)
        if self.state is STABLE:
            return Synced(Error.NONE, member.assignment, self.protocol_type, self.protocol)
        if member.awaits_sync is not None:
            self.answer_sync(member, Synced(Error.REBALANCE_IN_PROGRESS))
        member.awaits_sync = token
        if member.member_id == self.leader:
            self.assign(request.assignments)
        return None

    def _sync_refusal(self, request: SyncGroup) -> Error | None:
        if self.state is DEAD:
            return Error.COORDINATOR_NOT_AVAILABLE
        if self.state is EMPTY:
            return Error.UNKNOWN_MEMBER_ID
        error = self.roster.stranger(request.member_id, request.instance_id)
        if error is not None:
            return error
        if request.generation != self.generation:
            return Error.ILLEGAL_GENERATION
        for said, known in ((request.protocol_type, self.protocol_type), (request.protocol, self.protocol)):
            if None not in (said, known) and said != known:
                return Error.INCONSISTENT_GROUP_PROTOCOL
        return Error.REBALANCE_IN_PROGRESS if self.state is PREPARING else None

    # Heartbeat and LeaveGroup.

    def _beat(self, request: Heartbeat) -> Error:
        if self.state is DEAD:
            return Error.COORDINATOR_NOT_AVAILABLE
        error = self.roster.stranger(request.member_id, request.instance_id)
        if error is not None:
            return error
        if request.generation != self.generation:
            return Error.ILLEGAL_GENERATION
        self.hear_of(self.members[request.member_id])
        return Error.REBALANCE_IN_PROGRESS if self.state is PREPARING else Error.NONE

    def _leave(self, request: LeaveGroup, token: Token) -> None:
        if self.state is DEAD:
            self.answer(token, Left(Error.COORDINATOR_NOT_AVAILABLE))
            return
        errors = tuple(self._let_go(leaver) for leaver in request.members)
        gone = [it for it, error in zip(request.members, errors, strict=True) if error is Error.NONE]
        self.answer(token, Left(Error.NONE, errors))
        if gone and self.state is not EMPTY:
            self.rebalance(gone[0].why, gone[0].member_id)

    def _let_go(self, leaver: Leaver) -> Error:
        member_id = leaver.member_id
        if not member_id:
            member_id = self.roster.member_of(leaver.instance_id or "") or ""
        elif member_id in self.roster.pending:
            self.forget_pending(member_id)
            return Error.NONE
        error = self.roster.stranger(member_id, leaver.instance_id)
        if error is None:
            self.remove(self.members[member_id], leaver.why)
        return error or Error.NONE


_WITHOUT_ID = (Error.GROUP_MAX_SIZE_REACHED, Error.UNKNOWN_SERVER_ERROR)
"""Refusals that do not repeat the member's id."""


def has_fair_session(settings: BrokerSettings, request: JoinGroup) -> bool:
    """Whether the session timeout that is asked for is within the broker's bounds."""
    return settings.min_session_timeout_ms <= request.session_timeout_ms <= settings.max_session_timeout_ms


def _why(changed: bool) -> Why:
    return Why.SUBSCRIPTION_CHANGED if changed else Why.LEADER_REJOINED
