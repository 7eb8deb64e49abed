"""A KIP-848 consumer group as its coordinator keeps it: heartbeats and timers in, answers and records out.

After Kafka 4.3's `GroupMetadataManager` and `ConsumerGroup`, in virtual time. A heartbeat does three things: it
brings the member up to date, which may raise the group's epoch; it has the target assignment computed where that is
older than the epoch; it takes its own member a step towards the target. So nothing moves but on heartbeats and
timers: a leave raises the epoch, and the next heartbeat of whoever stays computes the target.

Not modelled: regular expressions, racks of replicas, migration from and to the classic protocol, deletion.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping
from dataclasses import replace

from agent.coordinator.assignors import Assignment, Problem, Slot
from agent.coordinator.modern_requests import (
    JOIN_EPOCH,
    LEAVE_EPOCH,
    STATIC_LEAVE_EPOCH,
    About,
    AboutImage,
    ConsumerGroupBeaten,
    ConsumerGroupHeartbeat,
    Current,
    CurrentImage,
    EpochBumped,
    EpochImage,
    MemberState,
    ModernEffect,
    ModernImage,
    Targeted,
    TargetEpochImage,
    TargetImage,
)
from agent.coordinator.modern_roster import FIRST_EPOCH, GroupMember, Refused, Roster, Target
from agent.coordinator.reconciliation import Goal, reconcile
from agent.coordinator.requests import Answered, Error, LeaveGroup, Leaver, Left, Removed, Token, Why, Wrote
from agent.coordinator.script import BrokerSettings
from agent.coordinator.states import GroupState, consumer_state
from agent.coordinator.timers import Timers, earliest


class ConsumerGroup:
    """One group. `assignors` by name, the first of them is the broker's default.

    `new_id` makes ids for members that join without one, as clients of the API's version 0 do.
    """

    def __init__(
        self,
        group: str,
        settings: BrokerSettings,
        new_id: Callable[[], str],
        partitions: Mapping[str, int],
        assignors: Mapping[str, Callable[[Problem], Assignment]],
    ) -> None:
        self._group = group
        self._settings = settings
        self._new_id = new_id
        self._partitions = dict(partitions)
        self._assignors = frozenset((None, *assignors))
        self._epoch = FIRST_EPOCH
        self._roster = Roster()
        self._target = Target(assignors)
        # By member id: when its session ends, and if it has to give up partitions, by when it must have done so.
        self._sessions = Timers()
        self._revocations = Timers()
        # The partitions of the subscribed topics as the last epoch found them, and whether topics may have changed.
        self._found: dict[str, int] = {}
        self._refresh = True
        self._exists = False
        self._effects: list[ModernEffect] = []

    # Views.

    @property
    def epoch(self) -> int:
        """The group's epoch: raised when the target has to be computed anew."""
        return self._epoch

    @property
    def target_epoch(self) -> int:
        """The epoch for which the target was computed last."""
        return self._target.epoch

    @property
    def target(self) -> Mapping[str, frozenset[Slot]]:
        """What each member shall have; one that joined since the target was computed is not in it."""
        return self._target.by_member

    @property
    def members(self) -> Mapping[str, GroupMember]:
        """The members by id, those included that left for a restart."""
        return self._roster.members

    @property
    def state(self) -> GroupState:
        """The group's state, in Kafka's names."""
        arrived = sum(member.arrived(self._target.epoch) for member in self.members.values())
        return consumer_state(self._epoch, self._target.epoch, len(self.members), arrived)

    @property
    def due(self) -> int | None:
        """When the next timer fires, None if none is set."""
        return earliest(self._sessions.due, self._revocations.due)

    def due_without(self, member_ids: Container[str]) -> int | None:
        """When the next timer fires, the sessions of these members left aside."""
        silent = (due for member_id, due in self._sessions.items() if member_id not in member_ids)
        return min((*silent, *(due for _, due in self._revocations.items())), default=None)

    def deadline(self, member_id: str) -> int | None:
        """When the member's session ends if nothing is heard of it."""
        return self._sessions.due_of(member_id)

    def is_uneventful(self, member_id: str) -> bool:
        """Whether a heartbeat of this member that says nothing new would but renew its session (`renew`)."""
        member = self.members.get(member_id)
        up_to_date = self._target.epoch == self._epoch and not self._refresh
        return member is not None and up_to_date and member.arrived(self._epoch)

    # What happens to the group.

    def handle(self, request: ConsumerGroupHeartbeat | LeaveGroup, token: Token, now_ms: int) -> list[ModernEffect]:
        """Answer a request; the answer is the last effect."""
        answer = self._left(request, now_ms) if isinstance(request, LeaveGroup) else self._beaten(request, now_ms)
        self._effects.append(Answered(token, answer))
        return self._flush()

    def fire(self, now_ms: int) -> list[ModernEffect]:
        """Let the timers fire that are due by now, in order of time, each at its own."""
        while (at_ms := self.due) is not None and at_ms <= now_ms:
            for timers, why in ((self._revocations, Why.NOT_REJOINED), (self._sessions, Why.SESSION_TIMEOUT)):
                while (fired := timers.pop(at_ms)) is not None:
                    self._fence({str(fired[0]): why}, at_ms)
        return self._flush()

    def grow(self, topic: str, count: int, now_ms: int) -> list[ModernEffect]:
        """The topic has so many partitions from now on, 0 if it is deleted.

        Nothing comes of it before the next heartbeat of any member.
        """
        if count:
            self._partitions[topic] = count
        else:
            self._partitions.pop(topic, None)
        self._refresh = True
        return []

    def renew(self, member_id: str, at_ms: int) -> None:
        """The member's heartbeat at this time had no effect but that its session begins again."""
        deadline = self.deadline(member_id)
        if deadline is not None and deadline < at_ms + self._settings.consumer_session_timeout_ms:
            self._begin_session(member_id, at_ms)

    # Heartbeats.

    def _beaten(self, request: ConsumerGroupHeartbeat, now_ms: int) -> ConsumerGroupBeaten:
        try:
            if not request.makes_sense:
                raise Refused(Error.INVALID_REQUEST)
            if request.server_assignor not in self._assignors:
                raise Refused(Error.UNSUPPORTED_ASSIGNOR)
            if not self._exists and request.member_epoch != JOIN_EPOCH:
                raise Refused(Error.GROUP_ID_NOT_FOUND)
            if request.member_epoch < JOIN_EPOCH:
                return self._leave(request, now_ms)
            return self._beat(request, now_ms)
        except Refused as refused:
            return ConsumerGroupBeaten(refused.error)

    def _beat(self, request: ConsumerGroupHeartbeat, now_ms: int) -> ConsumerGroupBeaten:
        if request.member_id not in self.members and len(self.members) >= self._settings.consumer_max_size:
            raise Refused(Error.GROUP_MAX_SIZE_REACHED)
        before = self._joining(request, now_ms) if request.member_epoch == JOIN_EPOCH else self._known(request)
        joins = request.member_epoch == JOIN_EPOCH and self.deadline(before.member_id) is None
        member = self._updated(before, request, now_ms)
        if self._target.epoch < self._epoch:
            self._compute(member.member_id, joins, now_ms)
        resubscribed = member.about.topics != before.about.topics
        current = self._step(member, resubscribed, request.owned, now_ms)
        self._begin_session(member.member_id, now_ms)
        told = request.full or current.assigned != before.current.assigned
        return ConsumerGroupBeaten(
            Error.NONE,
            member.member_id,
            current.epoch,
            self._settings.consumer_heartbeat_interval_ms,
            frozenset(current.assigned) if told else None,
        )

    def _joining(self, request: ConsumerGroupHeartbeat, now_ms: int) -> GroupMember:
        """The member that joins: a new one, one that is there and begins anew, or a static member's successor."""
        member_id = request.member_id or self._new_id()
        old = self._roster.static(request.instance_id)
        if old is None:
            return self.members.get(member_id) or GroupMember(member_id, About(), Current())
        if old.current.epoch != STATIC_LEAVE_EPOCH:
            raise Refused(Error.UNRELEASED_INSTANCE_ID)
        return self._replace(old, member_id, now_ms)

    def _replace(self, old: GroupMember, member_id: str, now_ms: int) -> GroupMember:
        """A static member takes over what its predecessor left: no epoch is raised for that."""
        target = self._target.of(old.member_id)
        self._forget(old.member_id, now_ms)
        if old.member_id != member_id:
            self._effects.append(Removed(self._group, now_ms, old.member_id, Why.STATIC_REPLACED))
        current = replace(old.current, epoch=JOIN_EPOCH, previous_epoch=JOIN_EPOCH)
        member = GroupMember(member_id, old.about, current)
        self._roster.put(member)
        self._target.by_member[member_id] = target
        self._write(AboutImage(self._group, now_ms, member_id, member.about))
        self._write(TargetImage(self._group, now_ms, member_id, target))
        self._write(CurrentImage(self._group, now_ms, member_id, current))
        return member

    def _known(self, request: ConsumerGroupHeartbeat) -> GroupMember:
        """The member that this is, if it may go on: it must be at its epoch, or have missed one answer only."""
        member = self._roster.find(request.member_id, request.instance_id)
        current = member.current
        missed = request.member_epoch == current.previous_epoch and request.member_epoch < current.epoch
        within = request.owned is not None and all(slot in current.assigned for slot in request.owned)
        if request.member_epoch != current.epoch and not (missed and within):
            raise Refused(Error.FENCED_MEMBER_EPOCH)
        return member

    def _updated(self, before: GroupMember, request: ConsumerGroupHeartbeat, now_ms: int) -> GroupMember:
        """The member with what it says now; the epoch is raised if its topics are others, or are not as they were."""
        member_id = before.member_id
        self._exists = True
        joined = member_id not in self.members
        member = replace(before, about=before.about.updated(request))
        if joined or member.about != before.about:
            self._write(AboutImage(self._group, now_ms, member_id, member.about))
        self._roster.put(member)
        if member.about.topics != before.about.topics:
            self._bump(Why.MEMBER_JOINED if joined else Why.SUBSCRIPTION_CHANGED, member_id, now_ms)
            self._refresh = False
        elif self._refresh:
            if self._found != self._roster.found(self._partitions):
                self._bump(Why.PARTITIONS_CHANGED, member_id, now_ms)
            self._refresh = False
        return member

    def _compute(self, by: str, joins: bool, now_ms: int) -> None:
        if not self._target.may_compute(self._settings.consumer_assignment_interval_ms, now_ms):
            return
        assignor, changed = self._target.compute(self._roster, self._partitions, self._epoch, by, joins, now_ms)
        for member_id in changed:
            self._write(TargetImage(self._group, now_ms, member_id, self._target.of(member_id)))
        self._write(TargetEpochImage(self._group, now_ms, self._epoch))
        self._effects.append(Targeted(self._group, now_ms, self._epoch, assignor))

    def _step(self, member: GroupMember, resubscribed: bool, owned: frozenset[Slot] | None, now_ms: int) -> Current:
        """Take the member a step towards the target."""
        member_id = member.member_id
        topics = member.about.topics & self._partitions.keys()
        held = self._roster.held_by_another(member_id)
        goal = Goal(self._target.epoch, self._target.of(member_id), topics, resubscribed, held)
        current = reconcile(member.current, goal, owned)
        if current == member.current:
            return current
        self._roster.put(replace(member, current=current))
        self._write(CurrentImage(self._group, now_ms, member_id, current))
        if current.state == MemberState.UNREVOKED_PARTITIONS:
            self._revocations.set(member_id, now_ms + member.about.rebalance_timeout_ms)
        else:
            self._revocations.cancel(member_id)
        return current

    # Ways to go.

    def _leave(self, request: ConsumerGroupHeartbeat, now_ms: int) -> ConsumerGroupBeaten:
        member = self._roster.find(request.member_id, request.instance_id)
        if request.member_epoch == LEAVE_EPOCH:
            self._fence({member.member_id: request.why}, now_ms)
        else:
            self._step_aside(member, now_ms)
        return ConsumerGroupBeaten(Error.NONE, member.member_id, request.member_epoch)

    def _step_aside(self, member: GroupMember, now_ms: int) -> None:
        """A static member goes for a restart: it keeps its partitions, and its session runs on."""
        kept = dict.fromkeys(member.current.assigned, JOIN_EPOCH)
        current = replace(member.current, epoch=STATIC_LEAVE_EPOCH, assigned=kept, revoking={})
        self._roster.put(replace(member, current=current))
        self._revocations.cancel(member.member_id)
        self._write(CurrentImage(self._group, now_ms, member.member_id, current))

    def _left(self, request: LeaveGroup, now_ms: int) -> Left:
        if not self._exists:
            return Left(Error.UNKNOWN_MEMBER_ID)
        going: dict[str, Why] = {}
        errors: list[Error] = []
        for leaver in request.members:
            try:
                going.setdefault(self._leaving(leaver).member_id, leaver.why)
                errors.append(Error.NONE)
            except Refused as refused:
                errors.append(refused.error)
        if going:
            self._fence(going, now_ms)
        return Left(Error.NONE, tuple(errors))

    def _leaving(self, leaver: Leaver) -> GroupMember:
        # An admin names a static member by its static id alone.
        static = self._roster.static(leaver.instance_id) if leaver.member_id == "" else None
        return static or self._roster.find(leaver.member_id, leaver.instance_id)

    def _fence(self, going: Mapping[str, Why], at_ms: int) -> None:
        """Members are no longer in the group, all in one epoch; the next heartbeat computes the target."""
        for member_id, why in going.items():
            self._forget(member_id, at_ms)
            self._effects.append(Removed(self._group, at_ms, member_id, why))
        first = next(iter(going))
        self._bump(going[first], first, at_ms)

    def _forget(self, member_id: str, at_ms: int) -> None:
        self._roster.remove(member_id)
        self._target.by_member.pop(member_id, None)
        self._sessions.cancel(member_id)
        self._revocations.cancel(member_id)
        self._write(CurrentImage(self._group, at_ms, member_id, None))
        self._write(TargetImage(self._group, at_ms, member_id, None))
        self._write(AboutImage(self._group, at_ms, member_id, None))

    # What all share.

    def _bump(self, why: Why, member_id: str, at_ms: int) -> None:
        self._epoch += 1
        self._found = self._roster.found(self._partitions)
        self._write(EpochImage(self._group, at_ms, self._epoch))
        self._effects.append(EpochBumped(self._group, at_ms, self._epoch, why, member_id))

    def _begin_session(self, member_id: str, at_ms: int) -> None:
        self._sessions.set(member_id, at_ms + self._settings.consumer_session_timeout_ms)

    def _write(self, image: ModernImage) -> None:
        self._effects.append(Wrote(image))

    def _flush(self) -> list[ModernEffect]:
        effects, self._effects = self._effects, []
        return effects
