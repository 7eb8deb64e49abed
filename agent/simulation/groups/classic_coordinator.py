"""The coordinator of a classic group: what it answers to each request, and what it writes, over virtual time.

After `GroupMetadataManager` of Kafka 4.3. Every request is answered, at once or by a later effect. The states and
timers are `ClassicGroupMachine`'s. It must not know what members want or hold: that is for their assignors.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping

from agent.core.protocol.hashing import OFFSETS_PARTITIONS, partition_for_group
from agent.simulation.groups.classic_group import COMPLETING, EMPTY, PREPARING, STABLE, ClassicGroupMachine
from agent.simulation.groups.classic_roster import ClassicMember
from agent.simulation.groups.messages import (
    ClassicRequest,
    Effect,
    ErrorCode,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
    HeartbeatRequest,
    HeartbeatResponse,
    JoinGroupRequest,
    JoinGroupResponse,
    LeaveGroupRequest,
    LeaveGroupResponse,
    LeavingMember,
    RebalanceReason,
    RecordAppended,
    ResponseSent,
    SyncGroupRequest,
    SyncGroupResponse,
    Token,
)
from agent.simulation.groups.roster import RequestRejected
from agent.simulation.groups.script import BrokerSettings


class ClassicCoordinator:
    """The coordinator of the one classic group `name`. `group` is None until somebody joins.

    `handle` and `fire_timers` take the time (milliseconds), which must not decrease, and return the effects in order.
    A request that arrives at the moment at which a timer is due comes before the timer. `new_id` makes the second
    half of member ids.
    """

    def __init__(
        self,
        name: str,
        settings: BrokerSettings,
        new_id: Callable[[], str],
        offsets_partitions: int = OFFSETS_PARTITIONS,
    ) -> None:
        self.group: ClassicGroupMachine | None = None
        self._name = name
        self._settings = settings
        self._new_id = new_id
        self._offsets_partitions = offsets_partitions

    @property
    def members(self) -> Mapping[str, ClassicMember]:
        """The members by id, in the order in which they joined."""
        return {} if self.group is None else self.group.members

    def knows_member_id(self, member_id: str) -> bool:
        """Whether the group has this member, or has given out its id."""
        return self.group is not None and self.group.roster.knows_member_id(member_id)

    @property
    def due_ms(self) -> int | None:
        """When the next timer fires, None if none is set."""
        return None if self.group is None else self.group.due_ms

    def due_ms_without(self, member_ids: Container[str]) -> int | None:
        """When the next timer fires, not counting the session deadlines of these members."""
        return None if self.group is None else self.group.due_ms_without(member_ids)

    def handle(self, request: ClassicRequest, token: Token, now_ms: int) -> list[Effect]:
        """Take a request. Its response carries `token`, and may come with a later call.

        The first member that joins without a member id creates the group, even if the join itself is rejected.
        """
        if isinstance(request, FindCoordinatorRequest):
            partition = partition_for_group(request.group, self._offsets_partitions)
            return [ResponseSent(token, FindCoordinatorResponse(partition))]
        if self.group is not None:
            return _handle(self.group, request, token, now_ms)
        group = ClassicGroupMachine(self._name, self._settings, self._new_id, now_ms)
        if not isinstance(request, JoinGroupRequest) or not _session_timeout_is_allowed(self._settings, request):
            # As an empty group would.
            return _handle(group, request, token, now_ms)
        if request.member_id:
            return [ResponseSent(token, JoinGroupResponse(ErrorCode.UNKNOWN_MEMBER_ID, request.member_id))]
        self.group, created = group, group.image()
        return [*_handle(group, request, token, now_ms), RecordAppended(created)]

    def fire_timers(self, now_ms: int) -> list[Effect]:
        """Let all timers fire that are due at `now_ms` or before."""
        return [] if self.group is None else self.group.fire_timers(now_ms)

    def renew_session(self, member_id: str, at_ms: int) -> None:
        """Extend the member's session as an uneventful heartbeat at `at_ms` would; the group must be stable."""
        assert self.group is not None
        self.group.renew_session(member_id, at_ms)

    def delete_group(self, now_ms: int) -> list[Effect]:
        """Delete the group, which must exist. Raises `ValueError` if it has members."""
        assert self.group is not None
        effects = self.group.delete(now_ms)
        self.group = None
        return effects


def _handle(group: ClassicGroupMachine, request: ClassicRequest, token: Token, now_ms: int) -> list[Effect]:
    effects = group.fire_timers(now_ms - 1)
    group.now_ms = now_ms
    try:
        match request:
            case JoinGroupRequest():
                _join(group, request, token)
            case SyncGroupRequest():
                _sync(group, request, token)
            case HeartbeatRequest():
                group.respond(token, HeartbeatResponse(_heartbeat(group, request)))
            case LeaveGroupRequest():
                _leave(group, request, token)
    except RequestRejected as rejected:
        group.respond(token, _rejection(request, rejected.error))
    return effects + group.take_effects()


def _rejection(
    request: ClassicRequest, error: ErrorCode
) -> JoinGroupResponse | SyncGroupResponse | HeartbeatResponse:
    match request:
        case JoinGroupRequest():
            return JoinGroupResponse(error, "" if error is ErrorCode.UNKNOWN_SERVER_ERROR else request.member_id)
        case SyncGroupRequest():
            return SyncGroupResponse(error)
        case _:
            return HeartbeatResponse(error)


# JoinGroup.


def _join(group: ClassicGroupMachine, request: JoinGroupRequest, token: Token) -> None:
    _check_join(group, request)
    if not request.member_id:
        _join_as_new(group, request, token)
    elif request.member_id in group.roster.pending_member_ids:
        _add_new_member(group, request, request.member_id, token)
    else:
        _rejoin(group, request, token)


def _check_join(group: ClassicGroupMachine, request: JoinGroupRequest) -> None:
    member_id = request.member_id
    if not _session_timeout_is_allowed(group.settings, request):
        raise RequestRejected(ErrorCode.INVALID_SESSION_TIMEOUT)
    if not _supports(group, request):
        raise RequestRejected(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
    if member_id in group.roster.pending_member_ids:
        if request.instance_id is not None:
            # A static member is never given an id to come back with; the broker has no better error for it.
            raise RequestRejected(ErrorCode.UNKNOWN_SERVER_ERROR)
    elif member_id:
        group.roster.find(member_id, request.instance_id)


def _supports(group: ClassicGroupMachine, request: JoinGroupRequest) -> bool:
    if group.state is EMPTY:
        return bool(request.protocol_type and request.protocols)
    return request.protocol_type == group.protocol_type and group.roster.supports(request.protocols)


def _join_as_new(group: ClassicGroupMachine, request: JoinGroupRequest, token: Token) -> None:
    instance_id = request.instance_id
    member_id = f"{request.client_id if instance_id is None else instance_id}-{group.new_id()}"
    known = group.roster.static_member(instance_id)
    if known is not None:
        _replace(group, request, known, member_id, token)
    elif instance_id is None:
        group.add_pending(member_id, request.session_timeout_ms)
        group.respond(token, JoinGroupResponse(ErrorCode.MEMBER_ID_REQUIRED, member_id))
    else:
        _add_new_member(group, request, member_id, token)


def _add_new_member(group: ClassicGroupMachine, request: JoinGroupRequest, member_id: str, token: Token) -> None:
    if not group.members:
        group.protocol_type = request.protocol_type
    group.add_member(ClassicMember(member_id, request, is_new=True, pending_join=token))


def _rejoin(group: ClassicGroupMachine, request: JoinGroupRequest, token: Token) -> None:
    member = group.members[request.member_id]
    changed = member.request.protocols != request.protocols
    follows = group.state is STABLE and member.member_id != group.leader
    if not changed and (follows or group.state is COMPLETING):
        # It may have missed a response: it gets the current generation again.
        group.respond(token, group.join_response(member))
    else:
        _update(group, member, request, token)
        if group.state is PREPARING:
            group.complete_if_all_joined()
        else:
            reason = RebalanceReason.SUBSCRIPTION_CHANGED if changed else RebalanceReason.LEADER_REJOINED
            group.prepare_rebalance(request.reason or reason, member.member_id)


def _update(group: ClassicGroupMachine, member: ClassicMember, request: JoinGroupRequest, token: Token) -> None:
    member.request = member.renewed(request)
    if member.pending_join is not None and member.pending_join != token:
        # The member sent a JoinGroup before and did not wait for its response.
        group.respond(member.pending_join, JoinGroupResponse(ErrorCode.UNKNOWN_MEMBER_ID))
    member.pending_join = token


def _replace(
    group: ClassicGroupMachine, request: JoinGroupRequest, old: ClassicMember, member_id: str, token: Token
) -> None:
    """A static member rejoins without its member id: the new id takes over the assignment of the old one."""
    new = ClassicMember(member_id, old.renewed(request), old.assignment, pending_join=token)
    group.replace_static_member(old, new)


# SyncGroup.


def _sync(group: ClassicGroupMachine, request: SyncGroupRequest, token: Token) -> None:
    member = _current_member(group, request)
    for said, known in ((request.protocol_type, group.protocol_type), (request.protocol, group.protocol)):
        if None not in (said, known) and said != known:
            raise RequestRejected(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
    if group.state is PREPARING:
        raise RequestRejected(ErrorCode.REBALANCE_IN_PROGRESS)
    group.record_sync(member)
    if group.state is STABLE:
        assigned = SyncGroupResponse(ErrorCode.NONE, member.assignment, group.protocol_type, group.protocol)
        group.respond(token, assigned)
        return
    if member.pending_sync is not None:
        group.respond_to_sync(member, SyncGroupResponse(ErrorCode.REBALANCE_IN_PROGRESS))
    member.pending_sync = token
    if member.member_id == group.leader:
        group.assign(request.assignments)


def _current_member(group: ClassicGroupMachine, request: SyncGroupRequest | HeartbeatRequest) -> ClassicMember:
    """The member that asks, if it is in the present generation."""
    member = group.roster.find(request.member_id, request.instance_id)
    if request.generation != group.generation:
        raise RequestRejected(ErrorCode.ILLEGAL_GENERATION)
    return member


# Heartbeat and LeaveGroup.


def _heartbeat(group: ClassicGroupMachine, request: HeartbeatRequest) -> ErrorCode:
    group.extend_deadline(_current_member(group, request))
    return ErrorCode.REBALANCE_IN_PROGRESS if group.state is PREPARING else ErrorCode.NONE


def _leave(group: ClassicGroupMachine, request: LeaveGroupRequest, token: Token) -> None:
    errors = tuple(_remove_leaving_member(group, leaver) for leaver in request.members)
    left = [leaver for leaver, error in zip(request.members, errors, strict=True) if error is ErrorCode.NONE]
    group.respond(token, LeaveGroupResponse(ErrorCode.NONE, errors))
    if left and group.state is not EMPTY:
        group.request_rebalance(left[0].reason, left[0].member_id)


def _remove_leaving_member(group: ClassicGroupMachine, leaver: LeavingMember) -> ErrorCode:
    if leaver.member_id in group.roster.pending_member_ids:
        group.forget_pending(leaver.member_id)
        return ErrorCode.NONE
    try:
        group.remove_member(group.roster.find_leaving(leaver), leaver.reason)
    except RequestRejected as rejected:
        return rejected.error
    return ErrorCode.NONE


def _session_timeout_is_allowed(settings: BrokerSettings, request: JoinGroupRequest) -> bool:
    """Whether the session timeout that is asked for is within the broker's bounds."""
    return settings.min_session_timeout_ms <= request.session_timeout_ms <= settings.max_session_timeout_ms
