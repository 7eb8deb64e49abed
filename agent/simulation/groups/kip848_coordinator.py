"""A KIP-848 consumer group as its coordinator keeps it: heartbeats and timers in, answers and records out.

After Kafka 4.3's `GroupMetadataManager` and `Kip848Coordinator`, in virtual time. A heartbeat does three things: it
brings the member up to date, which may raise the group's epoch; it has the target assignment computed where that is
older than the epoch; it takes its own member a step towards the target. So nothing moves but on heartbeats and
timers: a leave raises the epoch, and the next heartbeat of whoever stays computes the target.

Not modelled: regular expressions, racks of replicas, greatest sizes of groups, migration from and to
the classic protocol, deletion.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping

from msgspec.structs import replace

from agent.core.protocol.assignors import Assignment, AssignmentProblem, Slot
from agent.core.protocol.states import GroupState, consumer_state
from agent.simulation.groups.kip848_messages import (
    JOIN_EPOCH,
    LEAVE_EPOCH,
    STATIC_LEAVE_EPOCH,
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    ConsumerMemberMetadata,
    CurrentAssignment,
    CurrentAssignmentImage,
    EpochBumped,
    EpochImage,
    Kip848Effect,
    Kip848Image,
    MemberMetadataImage,
    MemberState,
    TargetAssignmentImage,
    TargetComputed,
    TargetEpochImage,
)
from agent.simulation.groups.kip848_reconciliation import Goal, reconcile
from agent.simulation.groups.kip848_roster import (
    FIRST_EPOCH,
    ConsumerGroupMember,
    Kip848Roster,
    TargetAssignment,
)
from agent.simulation.groups.messages import (
    ErrorCode,
    LeaveGroupRequest,
    LeaveGroupResponse,
    MemberRemoved,
    RebalanceReason,
    RecordAppended,
    ResponseSent,
    Token,
)
from agent.simulation.groups.roster import RequestRejected
from agent.simulation.groups.script import BrokerSettings
from agent.simulation.groups.timers import Timers, earliest


class Kip848Coordinator:
    """One group. `assignors` by name, the first of them is the broker's default.

    `new_id` makes ids for members that join without one, as clients of the API's version 0 do.
    """

    def __init__(
        self,
        group: str,
        settings: BrokerSettings,
        new_id: Callable[[], str],
        partitions: Mapping[str, int],
        assignors: Mapping[str, Callable[[AssignmentProblem], Assignment]],
    ) -> None:
        self._group = group
        self._settings = settings
        self._new_id = new_id
        self._partitions = dict(partitions)
        self._assignors = frozenset((None, *assignors))
        self.epoch = FIRST_EPOCH
        """The group's epoch: raised when the target has to be computed anew."""
        self._roster = Kip848Roster()
        self.members: Mapping[str, ConsumerGroupMember] = self._roster.members
        """The members by id, those included that left for a restart."""
        self._target = TargetAssignment(assignors)
        # By member id: when its session ends, and if it has to give up partitions, by when it must have done so.
        self._sessions = Timers()
        self._revocations = Timers()
        # The partitions of the subscribed topics as the last epoch found them, and whether topics may have changed.
        self._subscribed_partitions: dict[str, int] = {}
        self._metadata_may_have_changed = True
        self._exists = False
        self._now_ms = 0
        self._effects: list[Kip848Effect] = []

    # Views.

    @property
    def target_epoch(self) -> int:
        """The epoch for which the target was computed last."""
        return self._target.epoch

    @property
    def target(self) -> Mapping[str, frozenset[Slot]]:
        """What each member shall have; one that joined since the target was computed is not in it."""
        return self._target.by_member

    def knows_member_id(self, member_id: str) -> bool:
        """Whether the group has this member: a client makes its id itself."""
        return member_id in self.members

    @property
    def state(self) -> GroupState:
        """The group's state, in Kafka's names."""
        arrived = sum(member.has_reached(self._target.epoch) for member in self.members.values())
        return consumer_state(self.epoch, self._target.epoch, len(self.members), arrived)

    @property
    def due_ms(self) -> int | None:
        """When the next timer fires, None if none is set."""
        return earliest(self._sessions.due, self._revocations.due)

    def due_ms_without(self, member_ids: Container[str]) -> int | None:
        """When the next timer fires, the sessions of these members left aside."""
        silent = (due for member_id, due in self._sessions.items() if member_id not in member_ids)
        return min((*silent, *(due for _, due in self._revocations.items())), default=None)

    def deadline(self, member_id: str) -> int | None:
        """When the member's session ends if nothing is heard of it."""
        return self._sessions.due_of(member_id)

    def is_uneventful(self, member_id: str) -> bool:
        """Whether a heartbeat of this member that says nothing new would but renew its session (`renew_session`)."""
        member = self.members.get(member_id)
        up_to_date = self._target.epoch == self.epoch and not self._metadata_may_have_changed
        return member is not None and up_to_date and member.has_reached(self.epoch)

    # What happens to the group.

    def handle(
        self, request: ConsumerGroupHeartbeatRequest | LeaveGroupRequest, token: Token, now_ms: int
    ) -> list[Kip848Effect]:
        """Answer a request; the answer is the last effect."""
        self._now_ms = now_ms
        answer = (
            self._handle_leave_group(request)
            if isinstance(request, LeaveGroupRequest)
            else self._handle_heartbeat(request)
        )
        self._effects.append(ResponseSent(token, answer))
        return self._take_effects()

    def fire_timers(self, now_ms: int) -> list[Kip848Effect]:
        """Let the timers fire that are due by now, in order of time, each at its own."""
        while (due_ms := self.due_ms) is not None and due_ms <= now_ms:
            self._now_ms = due_ms
            for timers, reason in (
                (self._revocations, RebalanceReason.NOT_REJOINED),
                (self._sessions, RebalanceReason.SESSION_TIMEOUT),
            ):
                while (fired := timers.pop(due_ms)) is not None:
                    self._remove_members({str(fired[0]): reason})
        return self._take_effects()

    def set_partition_count(self, topic: str, count: int) -> None:
        """The topic has `count` partitions from now on, 0 if it is deleted; the next heartbeat takes note of it."""
        if count:
            self._partitions[topic] = count
        else:
            self._partitions.pop(topic, None)
        self._metadata_may_have_changed = True

    def renew_session(self, member_id: str, at_ms: int) -> None:
        """The member's heartbeat at this time had no effect but that its session begins again."""
        deadline = self.deadline(member_id)
        if deadline is not None and deadline < at_ms + self._settings.consumer_session_timeout_ms:
            self._restart_session(member_id, at_ms)

    # Heartbeats.

    def _handle_heartbeat(self, request: ConsumerGroupHeartbeatRequest) -> ConsumerGroupHeartbeatResponse:
        try:
            if not request.is_valid:
                raise RequestRejected(ErrorCode.INVALID_REQUEST)
            if request.server_assignor not in self._assignors:
                raise RequestRejected(ErrorCode.UNSUPPORTED_ASSIGNOR)
            if not self._exists and request.member_epoch != JOIN_EPOCH:
                raise RequestRejected(ErrorCode.GROUP_ID_NOT_FOUND)
            if request.member_epoch < JOIN_EPOCH:
                return self._handle_leaving_heartbeat(request)
            return self._process_heartbeat(request)
        except RequestRejected as refused:
            return ConsumerGroupHeartbeatResponse(refused.error)

    def _process_heartbeat(self, request: ConsumerGroupHeartbeatRequest) -> ConsumerGroupHeartbeatResponse:
        before = (
            self._joining_member(request) if request.member_epoch == JOIN_EPOCH else self._verified_member(request)
        )
        joins = request.member_epoch == JOIN_EPOCH and self.deadline(before.member_id) is None
        member = self._apply_heartbeat(before, request)
        if self._target.epoch < self.epoch:
            self._compute_target(member.member_id, joins)
        resubscribed = member.metadata.topics != before.metadata.topics
        current = self._reconcile_member(member, resubscribed, request.owned)
        self._restart_session(member.member_id, self._now_ms)
        told = request.is_full or current.assigned != before.current.assigned
        return ConsumerGroupHeartbeatResponse(
            ErrorCode.NONE,
            member.member_id,
            current.epoch,
            self._settings.consumer_heartbeat_interval_ms,
            frozenset(current.assigned) if told else None,
        )

    def _joining_member(self, request: ConsumerGroupHeartbeatRequest) -> ConsumerGroupMember:
        """The member that joins: a new one, one that is there and begins anew, or a static member's successor."""
        member_id = request.member_id or self._new_id()
        old = self._roster.static_member(request.instance_id)
        if old is None:
            return self.members.get(member_id) or ConsumerGroupMember(
                member_id, ConsumerMemberMetadata(), CurrentAssignment()
            )
        if old.current.epoch != STATIC_LEAVE_EPOCH:
            raise RequestRejected(ErrorCode.UNRELEASED_INSTANCE_ID)
        return self._replace(old, member_id)

    def _replace(self, old: ConsumerGroupMember, member_id: str) -> ConsumerGroupMember:
        """A static member takes over what its predecessor left: no epoch is raised for that."""
        target = self._target.slots_of(old.member_id)
        self._remove_member(old.member_id)
        if old.member_id != member_id:
            self._report(MemberRemoved, old.member_id, RebalanceReason.STATIC_REPLACED)
        current = replace(old.current, epoch=JOIN_EPOCH, previous_epoch=JOIN_EPOCH)
        member = ConsumerGroupMember(member_id, old.metadata, current)
        self._roster.put(member)
        self._target.by_member[member_id] = target
        self._write(MemberMetadataImage, member_id, member.metadata)
        self._write(TargetAssignmentImage, member_id, target)
        self._write(CurrentAssignmentImage, member_id, current)
        return member

    def _verified_member(self, request: ConsumerGroupHeartbeatRequest) -> ConsumerGroupMember:
        """The member that this is, if it may go on: it must be at its epoch, or have missed one answer only."""
        member = self._roster.find(request.member_id, request.instance_id)
        current = member.current
        missed = request.member_epoch == current.previous_epoch and request.member_epoch < current.epoch
        within = request.owned is not None and all(slot in current.assigned for slot in request.owned)
        if request.member_epoch != current.epoch and not (missed and within):
            raise RequestRejected(ErrorCode.FENCED_MEMBER_EPOCH)
        return member

    def _apply_heartbeat(
        self, before: ConsumerGroupMember, request: ConsumerGroupHeartbeatRequest
    ) -> ConsumerGroupMember:
        """The member with what it says now; the epoch is raised if its topics are others, or are not as they were."""
        member_id = before.member_id
        self._exists = True
        joined = member_id not in self.members
        member = replace(before, metadata=before.metadata.updated(request))
        if joined or member.metadata != before.metadata:
            self._write(MemberMetadataImage, member_id, member.metadata)
        self._roster.put(member)
        if member.metadata.topics != before.metadata.topics:
            self._bump_epoch(
                RebalanceReason.MEMBER_JOINED if joined else RebalanceReason.SUBSCRIPTION_CHANGED, member_id
            )
            self._metadata_may_have_changed = False
        elif self._metadata_may_have_changed:
            if self._subscribed_partitions != self._roster.subscribed_partitions(self._partitions):
                self._bump_epoch(RebalanceReason.PARTITIONS_CHANGED, member_id)
            self._metadata_may_have_changed = False
        return member

    def _compute_target(self, by: str, joins: bool) -> None:
        if not self._target.may_compute(self._settings.consumer_assignment_interval_ms, self._now_ms):
            return
        assignor, changed = self._target.compute(self._roster, self._partitions, self.epoch, by, joins, self._now_ms)
        for member_id in changed:
            self._write(TargetAssignmentImage, member_id, self._target.slots_of(member_id))
        self._write(TargetEpochImage, self.epoch)
        self._report(TargetComputed, self.epoch, assignor)

    def _reconcile_member(
        self, member: ConsumerGroupMember, resubscribed: bool, owned: frozenset[Slot] | None
    ) -> CurrentAssignment:
        """Take the member a step towards the target."""
        member_id = member.member_id
        topics = member.metadata.topics & self._partitions.keys()
        held = self._roster.held_by_another(member_id)
        goal = Goal(self._target.epoch, self._target.slots_of(member_id), topics, resubscribed, held)
        current = reconcile(member.current, goal, owned)
        if current == member.current:
            return current
        self._roster.put(replace(member, current=current))
        self._write(CurrentAssignmentImage, member_id, current)
        if current.state == MemberState.UNREVOKED_PARTITIONS:
            self._revocations.set(member_id, self._now_ms + member.metadata.rebalance_timeout_ms)
        else:
            self._revocations.cancel(member_id)
        return current

    # Ways to go.

    def _handle_leaving_heartbeat(self, request: ConsumerGroupHeartbeatRequest) -> ConsumerGroupHeartbeatResponse:
        member = self._roster.find(request.member_id, request.instance_id)
        if request.member_epoch == LEAVE_EPOCH:
            self._remove_members({member.member_id: request.reason})
        else:
            self._leave_temporarily(member)
        return ConsumerGroupHeartbeatResponse(ErrorCode.NONE, member.member_id, request.member_epoch)

    def _leave_temporarily(self, member: ConsumerGroupMember) -> None:
        """A static member goes for a restart: it keeps its partitions, and its session runs on."""
        kept = dict.fromkeys(member.current.assigned, JOIN_EPOCH)
        current = replace(member.current, epoch=STATIC_LEAVE_EPOCH, assigned=kept, revoking={})
        self._roster.put(replace(member, current=current))
        self._revocations.cancel(member.member_id)
        self._write(CurrentAssignmentImage, member.member_id, current)

    def _handle_leave_group(self, request: LeaveGroupRequest) -> LeaveGroupResponse:
        if not self._exists:
            return LeaveGroupResponse(ErrorCode.UNKNOWN_MEMBER_ID)
        going: dict[str, RebalanceReason] = {}
        errors: list[ErrorCode] = []
        for leaver in request.members:
            try:
                going.setdefault(self._roster.find_leaving(leaver).member_id, leaver.reason)
                errors.append(ErrorCode.NONE)
            except RequestRejected as refused:
                errors.append(refused.error)
        if going:
            self._remove_members(going)
        return LeaveGroupResponse(ErrorCode.NONE, tuple(errors))

    def _remove_members(self, going: Mapping[str, RebalanceReason]) -> None:
        """Members are no longer in the group, all in one epoch; the next heartbeat computes the target."""
        for member_id, reason in going.items():
            self._remove_member(member_id)
            self._report(MemberRemoved, member_id, reason)
        first = next(iter(going))
        self._bump_epoch(going[first], first)

    def _remove_member(self, member_id: str) -> None:
        self._roster.remove(member_id)
        self._target.by_member.pop(member_id, None)
        self._sessions.cancel(member_id)
        self._revocations.cancel(member_id)
        self._write(CurrentAssignmentImage, member_id, None)
        self._write(TargetAssignmentImage, member_id, None)
        self._write(MemberMetadataImage, member_id, None)

    # What all share.

    def _bump_epoch(self, reason: RebalanceReason, member_id: str) -> None:
        self.epoch += 1
        self._subscribed_partitions = self._roster.subscribed_partitions(self._partitions)
        self._write(EpochImage, self.epoch)
        self._report(EpochBumped, self.epoch, reason, member_id)

    def _restart_session(self, member_id: str, at_ms: int) -> None:
        self._sessions.set(member_id, at_ms + self._settings.consumer_session_timeout_ms)

    def _write(self, image: Callable[..., Kip848Image], *fields: object) -> None:
        self._effects.append(RecordAppended(image(self._group, self._now_ms, *fields)))

    def _report(self, effect: Callable[..., Kip848Effect], *fields: object) -> None:
        self._effects.append(effect(self._group, self._now_ms, *fields))

    def _take_effects(self) -> list[Kip848Effect]:
        effects, self._effects = self._effects, []
        return effects
