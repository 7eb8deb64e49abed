"""The rebalance of a classic group: its states, its timers, and how it moves from one to the next.

After `GroupMetadataManager` and `ClassicGroup` of Kafka 4.3. What members ask for is
`agent.simulation.groups.classic_coordinator`'s.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Hashable, Mapping
from typing import Any

from agent.core.protocol.hashing import hash_map_order
from agent.core.protocol.states import CLASSIC_MOVES, GroupState
from agent.simulation.groups.classic_roster import ClassicMember, ClassicRoster
from agent.simulation.groups.messages import (
    ClassicGroupImage,
    Effect,
    ErrorCode,
    GenerationStabilized,
    JoinGroupResponse,
    MemberRemoved,
    RebalancePrepared,
    RebalanceReason,
    RecordAppended,
    RejoinRequested,
    ResponseSent,
    SyncGroupResponse,
    Token,
)
from agent.simulation.groups.script import BrokerSettings
from agent.simulation.groups.timers import Timers

EMPTY, PREPARING, COMPLETING, STABLE, DEAD = (
    GroupState.EMPTY,
    GroupState.PREPARING_REBALANCE,
    GroupState.COMPLETING_REBALANCE,
    GroupState.STABLE,
    GroupState.DEAD,
)

_JOIN = "join"
_SYNC = "sync"
_WRITE = "write"


class ClassicGroupMachine:
    """A classic group that moves: with `prepare_rebalance` a join phase begins, which ends by itself or by a timer.

    Effects gather until `take_effects`. Members' deadlines are timers too, under a tuple of their id.
    """

    def __init__(self, group: str, settings: BrokerSettings, new_id: Callable[[], str], now_ms: int) -> None:
        self.group = group
        self.settings = settings
        self.state = EMPTY
        self.previous_state = EMPTY
        self.state_since_ms = now_ms
        self.generation = 0
        self.protocol_type: str | None = None
        self.protocol: str | None = None
        self.roster = ClassicRoster()
        self.members: Mapping[str, ClassicMember] = self.roster.members
        """The members by id, in the order in which they came."""
        self.new_id = new_id
        self.now_ms = now_ms
        self._timers = Timers()
        self._pending_sync_ids: set[str] = set()
        self._assignments: tuple[int, Mapping[str, Any]] = (-1, {})
        self._remaining_initial_delay_ms = 0
        self._member_was_added = False
        self._effects: list[Effect] = []
        self._timer_actions: Mapping[Hashable, Callable[[], None]] = {
            _JOIN: self._join_phase_expired,
            _SYNC: self._sync_phase_expired,
            _WRITE: self._assignment_replicated,
        }

    def fire_timers(self, now_ms: int) -> list[Effect]:
        """Let the timers that are due at `now_ms` or before fire, each at its own time."""
        while (timer := self._timers.pop(now_ms)) is not None:
            key, self.now_ms = timer
            if isinstance(key, tuple):
                self._session_expired(key[0])
            else:
                self._timer_actions[key]()
        self.now_ms = max(self.now_ms, now_ms)
        return self.take_effects()

    def delete(self, now_ms: int) -> list[Effect]:
        """An admin deletes the group, or its last offset expired: Dead, with a tombstone. It must be empty."""
        if self.state is not EMPTY:
            raise ValueError(f"group {self.group!r}: Empty expected before it is deleted, it is {self.state}")
        self.now_ms = now_ms
        self._move(DEAD)
        self._effects.append(RecordAppended(self.image()))
        return self.take_effects()

    def renew_session(self, member_id: str, at_ms: int) -> None:
        """A commit, or a heartbeat in a stable group, came at `at_ms` and only put off the member's deadline.

        So that these need not be played one by one.
        """
        member = self.members[member_id]
        deadline = at_ms + member.request.session_timeout_ms
        known = self.deadline(member_id)
        if known is None or known < deadline:
            self._timers.set((member_id,), deadline)

    # What can be asked.

    @property
    def leader(self) -> str | None:
        """The member that assigns."""
        return self.roster.leader

    @property
    def due_ms(self) -> int | None:
        """When the next timer fires."""
        return self._timers.due

    def due_ms_without(self, member_ids: Container[str]) -> int | None:
        """When the next timer fires, the deadlines of these members left aside."""
        dues = (due for key, due in self._timers.items() if not (isinstance(key, tuple) and key[0] in member_ids))
        return min(dues, default=None)

    def deadline(self, member_id: str) -> int | None:
        """When the member is taken for dead if nothing is heard of it and it awaits no answer."""
        return self._timers.due_of((member_id,))

    def image(
        self, state: GroupState | None = None, assignments: Mapping[str, Any] | None = None
    ) -> ClassicGroupImage:
        """The group as it goes into the log now: `state` and `assignments` in place of the present ones."""
        return ClassicGroupImage(
            self.group,
            self.now_ms,
            self.generation,
            self.protocol_type,
            self.protocol,
            self.leader,
            state or self.state,
            self.state_since_ms,
            tuple(
                member.image(
                    self.protocol, member.assignment if assignments is None else assignments.get(member_id, ())
                )
                for member_id, member in self.members.items()
            ),
        )

    # The rebalance.

    def request_rebalance(self, reason: RebalanceReason, member_id: str) -> None:
        """Begin a rebalance, or see whether the one being prepared can end now."""
        if PREPARING in CLASSIC_MOVES[self.state]:
            self.prepare_rebalance(reason, member_id)
        else:
            self._report(RejoinRequested, self.generation, reason, member_id)
            self.complete_if_all_joined()

    def prepare_rebalance(self, reason: RebalanceReason, member_id: str) -> None:
        """Begin a rebalance: from now on members are asked to join again, and those that wait for assignments too."""
        if self.state is COMPLETING:
            for member in self.members.values():
                member.assignment = ()
                if self.respond_to_sync(member, SyncGroupResponse(ErrorCode.REBALANCE_IN_PROGRESS)):
                    self.extend_deadline(member)
        self._pending_sync_ids.clear()
        self._timers.cancel(_SYNC)
        is_first = self.state is EMPTY
        self._move(PREPARING)
        self._report(RebalancePrepared, self.generation, reason, member_id)
        if is_first:
            delay = self.settings.initial_rebalance_delay_ms
            self._remaining_initial_delay_ms = max(self.roster.rebalance_timeout_ms - delay, 0)
            self._timers.set(_JOIN, self.now_ms + delay)
        elif self.roster.all_joined:
            self._complete_join_phase()
        else:
            self._timers.set(_JOIN, self.now_ms + self.roster.rebalance_timeout_ms)

    def _join_phase_expired(self) -> None:
        if self.previous_state is EMPTY and self._member_was_added and self._remaining_initial_delay_ms:
            # More are coming: wait once more for as long, but not beyond the rebalance timeout.
            self._member_was_added = False
            delay = min(self.settings.initial_rebalance_delay_ms, self._remaining_initial_delay_ms)
            self._remaining_initial_delay_ms = max(
                self._remaining_initial_delay_ms - self.settings.initial_rebalance_delay_ms, 0
            )
            self._timers.set(_JOIN, self.now_ms + delay)
        else:
            self._complete_join_phase()

    def complete_if_all_joined(self) -> None:
        """End the join phase if nobody is missing; an empty group's first one waits for its delay all the same."""
        if self.state is PREPARING and self.previous_state is not EMPTY and self.roster.all_joined:
            self._complete_join_phase()

    def _complete_join_phase(self) -> None:
        """End the join phase: who did not rejoin is out, unless static; the others are the next generation."""
        self._timers.cancel(_JOIN)
        for member in self.roster.members_not_rejoined():
            self.remove_member(member, RebalanceReason.NOT_REJOINED)
        if self.members and not self.roster.elect_leader():
            self._timers.set(_JOIN, self.now_ms + self.roster.rebalance_timeout_ms)
            return
        self.generation += 1
        self._pending_sync_ids.clear()
        if not self.members:
            self.protocol = None
            self._move(EMPTY)
            self._effects.append(RecordAppended(self.image()))
            return
        self.protocol = self.roster.elected_protocol()
        self._move(COMPLETING)
        self._report(GenerationStabilized, self.generation, len(self.members))
        for member in self.members.values():
            self.respond_to_join(member, self.join_response(member))
            member.is_new = False
            self.extend_deadline(member)
            self._pending_sync_ids.add(member.member_id)
        self._timers.set(_SYNC, self.now_ms + self.roster.rebalance_timeout_ms)

    def assign(self, assignments: Mapping[str, Any]) -> None:
        """The leader's assignment, by member id: it is written, and then handed out."""
        # The record says since when the group is in the state that it is about to leave: when the join phase ended.
        self._effects.append(RecordAppended(self.image(STABLE, assignments)))
        if self._timers.due_of(_WRITE) is not None and self._assignments[0] == self.generation:
            # It brings one a second time: the first to be replicated is handed out.
            return
        self._assignments = self.generation, assignments
        if self.settings.replication_ms:
            self._timers.set(_WRITE, self.now_ms + self.settings.replication_ms)
        else:
            self._assignment_replicated()

    def _assignment_replicated(self) -> None:
        generation, assignments = self._assignments
        if self.state is not COMPLETING or generation != self.generation:
            return
        self._move(STABLE)
        for member in self.members.values():
            member.assignment = assignments.get(member.member_id, ())
            if self.respond_to_sync(
                member, SyncGroupResponse(ErrorCode.NONE, member.assignment, self.protocol_type, self.protocol)
            ):
                self.extend_deadline(member)

    def _sync_phase_expired(self) -> None:
        """Members that joined and never asked for their assignment are out.

        Who was replaced by its static id before it asked counts among them: its successor is left in peace, but a
        rebalance begins all the same.
        """
        late = hash_map_order(self._pending_sync_ids)
        for member_id in late:
            if member_id in self.members:
                self.remove_member(self.members[member_id], RebalanceReason.SYNC_TIMEOUT)
        self.prepare_rebalance(RebalanceReason.SYNC_TIMEOUT, late[0])

    # Who goes.

    def _session_expired(self, member_id: str) -> None:
        if member_id in self.roster.pending_member_ids:
            self.forget_pending(member_id)
            self._report(MemberRemoved, member_id, RebalanceReason.PENDING_EXPIRED)
        elif self.members[member_id].is_waiting_for_response:
            return
        else:
            self.remove_member(self.members[member_id], RebalanceReason.SESSION_TIMEOUT)
            if self.state is not PREPARING:
                self.prepare_rebalance(RebalanceReason.SESSION_TIMEOUT, member_id)
                return
        if self.state is PREPARING and self.roster.all_joined:
            # Even where the group's first rebalance would still wait for its delay.
            self._complete_join_phase()

    def add_pending(self, member_id: str, timeout_ms: int) -> None:
        """An id is given out, and good for so long."""
        self.roster.pending_member_ids.add(member_id)
        self._timers.set((member_id,), self.now_ms + timeout_ms)

    def forget_pending(self, member_id: str) -> None:
        """Nothing is left of an id that was given out."""
        self.roster.pending_member_ids.remove(member_id)
        self._timers.cancel((member_id,))

    def remove_member(self, member: ClassicMember, reason: RebalanceReason) -> None:
        """A member is out, and is told so if it waits for an answer."""
        self.respond_to_join(member, JoinGroupResponse(ErrorCode.UNKNOWN_MEMBER_ID))
        self.respond_to_sync(member, SyncGroupResponse(ErrorCode.UNKNOWN_MEMBER_ID))
        self.roster.remove(member)
        self._pending_sync_ids.discard(member.member_id)
        self._timers.cancel((member.member_id,))
        self._report(MemberRemoved, member.member_id, reason)

    def extend_deadline(self, member: ClassicMember, timeout_ms: int | None = None) -> None:
        """Put off the member's deadline: by its session timeout from now, or by another one."""
        self._timers.set((member.member_id,), self.now_ms + (timeout_ms or member.request.session_timeout_ms))

    def add_member(self, member: ClassicMember) -> None:
        """A new member is in."""
        if self.state is PREPARING and self.previous_state is EMPTY:
            self._member_was_added = True
        self.roster.add(member)
        # Not its session timeout: the join phase of a large group may take longer than that.
        self.extend_deadline(member, self.settings.new_member_join_timeout_ms)
        self.request_rebalance(RebalanceReason.MEMBER_JOINED, member.member_id)

    def replace_static_member(self, old: ClassicMember, new: ClassicMember) -> None:
        """A static member goes on under another member id; whoever still uses the old one is fenced."""
        fenced = ErrorCode.FENCED_INSTANCE_ID
        self.respond_to_join(old, JoinGroupResponse(fenced, old.member_id))
        self.respond_to_sync(old, SyncGroupResponse(fenced))
        self._timers.cancel((old.member_id,))
        self.roster.replace(old, new)
        self.extend_deadline(new, old.request.session_timeout_ms)
        self._report(MemberRemoved, old.member_id, RebalanceReason.STATIC_REPLACED)
        if self.state is STABLE and self.roster.elected_protocol() == self.protocol:
            self._effects.append(RecordAppended(self.image()))
            self.respond_to_join(new, self.join_response(new))
        else:
            self.request_rebalance(RebalanceReason.STATIC_REPLACED, new.member_id)

    def record_sync(self, member: ClassicMember) -> None:
        """The member has asked for its assignment of this generation."""
        self.extend_deadline(member)
        self._pending_sync_ids.discard(member.member_id)
        if not self._pending_sync_ids:
            self._timers.cancel(_SYNC)

    # What goes out.

    def _move(self, state: GroupState) -> None:
        assert state in CLASSIC_MOVES[self.state], f"group {self.group!r}: no way from {self.state} to {state}"
        self.previous_state, self.state, self.state_since_ms = self.state, state, self.now_ms

    def _report(self, effect: Callable[..., Effect], *fields: object) -> None:
        self._effects.append(effect(self.group, self.now_ms, *fields))

    def respond(self, token: Token, answer: object) -> None:
        """Answer whoever asked under `token`."""
        self._effects.append(ResponseSent(token, answer))

    def respond_to_join(self, member: ClassicMember, answer: JoinGroupResponse) -> None:
        """Answer the member's JoinGroup, if one is open."""
        if member.pending_join is not None:
            self.respond(member.pending_join, answer)
            member.pending_join = None

    def respond_to_sync(self, member: ClassicMember, answer: SyncGroupResponse) -> bool:
        """Answer the member's SyncGroup, if one is open: whether one was."""
        if member.pending_sync is None:
            return False
        self.respond(member.pending_sync, answer)
        member.pending_sync = None
        return True

    def take_effects(self) -> list[Effect]:
        """What came of what was done since this was last asked."""
        effects, self._effects = self._effects, []
        return effects

    def join_response(self, member: ClassicMember) -> JoinGroupResponse:
        """What a member of the present generation is answered."""
        leads = member.member_id == self.leader
        return JoinGroupResponse(
            ErrorCode.NONE,
            member.member_id,
            self.generation,
            self.protocol_type,
            self.protocol,
            self.leader or "",
            tuple((it.member_id, it.instance_id, it.metadata(self.protocol)) for it in self.members.values())
            if leads
            else (),
            # A leader that was only replaced has nothing to assign anew.
            skip_assignment=leads and self.state is STABLE,
        )
