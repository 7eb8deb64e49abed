"""The classic group: what a coordinator does with Join-, Sync- and LeaveGroup and Heartbeat, over virtual time.

After `GroupMetadataManager` and `ClassicGroup` of Kafka 4.3. Owns one group's members, its timers and its state;
every request is answered, at once or by a later effect. Refuses to know what members want or hold: that is for
their assignors.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping
from typing import Any

from agent.coordinator.hashing import in_hash_order
from agent.coordinator.member import ClassicMember
from agent.coordinator.requests import (
    Answered,
    Beaten,
    Effect,
    Error,
    GroupImage,
    Heartbeat,
    Joined,
    JoinGroup,
    LeaveGroup,
    Leaver,
    Left,
    Preparing,
    Prompted,
    Removed,
    Stabilized,
    Synced,
    SyncGroup,
    Token,
    Why,
    Wrote,
)
from agent.coordinator.script import BrokerSettings
from agent.coordinator.states import CLASSIC_MOVES, GroupState
from agent.coordinator.timers import Timers

EMPTY, PREPARING, COMPLETING, STABLE, DEAD = (
    GroupState.EMPTY,
    GroupState.PREPARING_REBALANCE,
    GroupState.COMPLETING_REBALANCE,
    GroupState.STABLE,
    GroupState.DEAD,
)

Request = JoinGroup | SyncGroup | Heartbeat | LeaveGroup

_JOIN = "join"
_SYNC = "sync"
_WRITE = "write"


class ClassicGroup:
    """One classic group and its members.

    `handle` and `fire` take the time, which must not go back, and give what follows, in order. A request that comes
    at the very moment at which a timer is due comes before it.
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
        self.leader: str | None = None
        self.members: dict[str, ClassicMember] = {}
        self.pending: dict[str, int] = {}
        """Member ids given out and not used yet, by the time at which they were."""
        self._new_id = new_id
        self._instances: dict[str, str] = {}
        self._unsynced: set[str] = set()
        self._timers = Timers()
        self._assignments: tuple[int, Mapping[str, Any]] = (-1, {})
        self._delay_left_ms = 0
        self._member_was_added = False
        self._most_members = 0
        self._now = now_ms
        self._effects: list[Effect] = []

    # What comes in.

    def handle(self, request: Request, token: Token, now_ms: int) -> list[Effect]:
        """Take a request; its answer carries `token`, and may come with a later call."""
        effects = self.fire(now_ms - 1)
        self._now = now_ms
        match request:
            case JoinGroup():
                self._join(request, token)
            case SyncGroup():
                self._answer(token, self._sync(request, token))
            case Heartbeat():
                self._answer(token, Beaten(self._beat(request)))
            case LeaveGroup():
                self._leave(request, token)
        return effects + self._taken()

    def fire(self, now_ms: int) -> list[Effect]:
        """Let the timers that are due at `now_ms` or before fire, each at its own time."""
        effects: list[Effect] = []
        while (timer := self._timers.pop(now_ms)) is not None:
            key, self._now = timer
            if key == _JOIN:
                self._join_time_is_up()
            elif key == _SYNC:
                self._sync_time_is_up()
            elif key == _WRITE:
                self._written()
            else:
                assert isinstance(key, tuple)
                self._session_is_over(key[0])
            effects += self._taken()
        self._now = max(self._now, now_ms)
        return effects

    def delete(self, now_ms: int) -> list[Effect]:
        """An admin deletes the group, or its last offset expired: Dead, with a tombstone. It must be empty."""
        if self.state is not EMPTY:
            raise ValueError(f"group {self.group!r}: Empty expected before it is deleted, it is {self.state}")
        self._now = now_ms
        self._move(DEAD)
        self._effects.append(Wrote(self.image()))
        return self._taken()

    def renew(self, member_id: str, at_ms: int) -> None:
        """A heartbeat came at `at_ms` and did nothing but put off the member's deadline.

        So that uneventful heartbeats need not be played one by one; true of a stable group only.
        """
        member = self.members[member_id]
        deadline = self.deadline(member_id)
        if deadline is None or deadline < at_ms + member.session_timeout_ms:
            self._timers.set((member_id,), at_ms + member.session_timeout_ms)

    # What can be asked.

    @property
    def due(self) -> int | None:
        """When the next timer fires."""
        return self._timers.due

    def due_without(self, member_ids: Container[str]) -> int | None:
        """When the next timer fires, the deadlines of these members left aside."""
        dues = (due for key, due in self._timers.items() if not (isinstance(key, tuple) and key[0] in member_ids))
        return min(dues, default=None)

    def deadline(self, member_id: str) -> int | None:
        """When the member is taken for dead if nothing is heard of it and it awaits no answer."""
        return self._timers.due_of((member_id,))

    def member_of(self, instance_id: str) -> str | None:
        """The member id that a static id has now."""
        return self._instances.get(instance_id)

    @property
    def rebalance_timeout_ms(self) -> int:
        """How long a join phase may take: the longest that a member asked for."""
        return max((member.rebalance_timeout_ms for member in self.members.values()), default=0)

    def image(self, assignments: Mapping[str, Any] | None = None) -> GroupImage:
        """The group as it goes into the log now; `assignments` in place of those that members have."""
        return GroupImage(
            self.group,
            self._now,
            self.generation,
            self.protocol_type,
            self.protocol,
            self.leader,
            self.state,
            self.state_since_ms,
            tuple(
                member.image(
                    self.protocol, member.assignment if assignments is None else assignments.get(member_id, ())
                )
                for member_id, member in self.members.items()
            ),
        )

    # JoinGroup.

    def _join(self, request: JoinGroup, token: Token) -> None:
        error = self._refusal(request)
        if error is not None:
            self._answer(token, Joined(error, "" if error is Error.GROUP_MAX_SIZE_REACHED else request.member_id))
        elif not request.member_id:
            self._join_as_new(request, token)
        elif request.member_id in self.pending:
            self._add(request, request.member_id, token)
        else:
            self._join_again(request, token)

    def _refusal(self, request: JoinGroup) -> Error | None:
        settings, member_id = self.settings, request.member_id
        if not settings.min_session_timeout_ms <= request.session_timeout_ms <= settings.max_session_timeout_ms:
            return Error.INVALID_SESSION_TIMEOUT
        if not _HAS_ROOM[self.state](self, member_id):
            # Of an id that was given out, nothing is left: the client begins anew.
            self._forget_pending(member_id)
            return Error.GROUP_MAX_SIZE_REACHED
        if self.state is DEAD:
            return Error.COORDINATOR_NOT_AVAILABLE
        if not self._supports(request):
            return Error.INCONSISTENT_GROUP_PROTOCOL
        if member_id in self.pending:
            return None if request.instance_id is None else Error.INVALID_REQUEST
        return self._stranger(member_id, request.instance_id) if member_id else None

    def _supports(self, request: JoinGroup) -> bool:
        if self.state is EMPTY:
            return bool(request.protocol_type and request.offers)
        if not self.members:
            return request.protocol_type == self.protocol_type and bool(request.offers)
        shared = self._candidates()
        return request.protocol_type == self.protocol_type and any(offer.name in shared for offer in request.offers)

    def _stranger(self, member_id: str, instance_id: str | None) -> Error | None:
        """What is wrong with who asks, None if it is who it says."""
        if instance_id is not None:
            known = self._instances.get(instance_id)
            if known is None:
                return Error.UNKNOWN_MEMBER_ID
            if known != member_id:
                return Error.FENCED_INSTANCE_ID
        return None if member_id in self.members else Error.UNKNOWN_MEMBER_ID

    def _join_as_new(self, request: JoinGroup, token: Token) -> None:
        instance_id = request.instance_id
        member_id = f"{request.client_id if instance_id is None else instance_id}-{self._new_id()}"
        if instance_id is not None and instance_id in self._instances:
            self._replace(request, instance_id, member_id, token)
        elif instance_id is None and request.requires_known_member_id:
            self.pending[member_id] = self._now
            self._timers.set((member_id,), self._now + request.session_timeout_ms)
            self._answer(token, Joined(Error.MEMBER_ID_REQUIRED, member_id))
        else:
            self._add(request, member_id, token)

    def _add(self, request: JoinGroup, member_id: str, token: Token) -> None:
        if not self.members:
            self.protocol_type = request.protocol_type
        self.pending.pop(member_id, None)
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
        if self.state is PREPARING and self.previous_state is EMPTY:
            self._member_was_added = True
        self.members[member_id] = member
        self._most_members = max(self._most_members, len(self.members))
        if request.instance_id is not None:
            self._instances[request.instance_id] = member_id
        if self.leader is None:
            self.leader = member_id
        # Not its session timeout: the join phase of a large group may take longer than that.
        self._timers.set((member_id,), self._now + self.settings.new_member_join_timeout_ms)
        self._rebalance(Why.MEMBER_JOINED, member_id)

    def _join_again(self, request: JoinGroup, token: Token) -> None:
        member = self.members[request.member_id]
        changed = member.offers != request.offers
        follows = self.state is STABLE and member.member_id != self.leader
        if not changed and (follows or self.state is COMPLETING):
            # It may have missed an answer: it gets the present generation again.
            self._answer(token, self._joined(member))
        else:
            prompts = self.state is not PREPARING
            self._update(member, request, token)
            why = request.why or (Why.SUBSCRIPTION_CHANGED if changed else Why.LEADER_REJOINED)
            self._rebalance(why if prompts else None, member.member_id)

    def _update(self, member: ClassicMember, request: JoinGroup, token: Token) -> None:
        member.offers = request.offers
        member.session_timeout_ms = request.session_timeout_ms
        member.rebalance_timeout_ms = request.rebalance_timeout_ms
        if member.awaits_join is not None and member.awaits_join != token:
            # It asked before and did not wait: that answer finds nobody.
            self._answer(member.awaits_join, Joined(Error.UNKNOWN_MEMBER_ID))
        member.awaits_join = token

    def _replace(self, request: JoinGroup, instance_id: str, member_id: str, token: Token) -> None:
        """A static member is back without its member id: it takes over what the old id had."""
        old = self.members.pop(self._instances[instance_id])
        self._timers.cancel((old.member_id,))
        fenced = Error.FENCED_INSTANCE_ID
        self._answer_join(old, Joined(fenced, old.member_id))
        self._answer_sync(old, Synced(fenced))
        self._unsynced.discard(old.member_id)
        member = ClassicMember(
            member_id,
            instance_id,
            old.client_id,
            old.client_host,
            request.session_timeout_ms,
            request.rebalance_timeout_ms,
            request.offers,
            old.assignment,
            awaits_join=token,
        )
        self.members[member_id] = member
        self._instances[instance_id] = member_id
        if self.leader == old.member_id:
            self.leader = member_id
        self._timers.set((member_id,), self._now + old.session_timeout_ms)
        self._effects.append(Removed(self.group, self._now, old.member_id, Why.STATIC_REPLACED))
        if self.state is STABLE and self._elected() == self.protocol:
            self._effects.append(Wrote(self.image()))
            answer = self._joined(member)
            self._answer_join(member, answer)
        elif self.state is COMPLETING:
            self._prepare(Why.STATIC_REPLACED, member_id)
        else:
            self._rebalance(Why.STATIC_REPLACED, member_id)

    def _joined(self, member: ClassicMember) -> Joined:
        leads = member.member_id == self.leader
        return Joined(
            Error.NONE,
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

    # The rebalance.

    def _rebalance(self, why: Why | None, member_id: str) -> None:
        """Begin a rebalance, or see whether the one being prepared can end."""
        if PREPARING in CLASSIC_MOVES[self.state]:
            self._prepare(why or Why.MEMBER_JOINED, member_id)
            return
        if why is not None and self.state is PREPARING:
            self._effects.append(Prompted(self.group, self._now, self.generation, why, member_id))
        self._complete_if_all_joined()

    def _prepare(self, why: Why, member_id: str) -> None:
        if self.state is COMPLETING:
            for member in self.members.values():
                member.assignment = ()
                if self._answer_sync(member, Synced(Error.REBALANCE_IN_PROGRESS)):
                    self._beat_of(member)
        self._unsynced.clear()
        self._timers.cancel(_SYNC)
        is_first = self.state is EMPTY
        self._move(PREPARING)
        self._effects.append(Preparing(self.group, self._now, self.generation, why, member_id))
        if is_first:
            delay = self.settings.initial_rebalance_delay_ms
            self._delay_left_ms = max(self.rebalance_timeout_ms - delay, 0)
            self._timers.set(_JOIN, self._now + delay)
        elif self._all_joined():
            self._complete()
        else:
            self._timers.set(_JOIN, self._now + self.rebalance_timeout_ms)

    def _join_time_is_up(self) -> None:
        if self.previous_state is EMPTY and self._member_was_added and self._delay_left_ms:
            # More are coming: wait once more for as long, but not beyond the rebalance timeout.
            self._member_was_added = False
            delay = min(self.settings.initial_rebalance_delay_ms, self._delay_left_ms)
            self._delay_left_ms = max(self._delay_left_ms - self.settings.initial_rebalance_delay_ms, 0)
            self._timers.set(_JOIN, self._now + delay)
        else:
            self._complete()

    def _all_joined(self) -> bool:
        return not self.pending and all(member.awaits_join is not None for member in self.members.values())

    def _complete_if_all_joined(self) -> None:
        # An empty group's first rebalance waits for its delay, whoever has joined.
        if self.state is PREPARING and self.previous_state is not EMPTY and self._all_joined():
            self._complete()

    def _complete(self) -> None:
        """End the join phase: who did not rejoin is out, unless static; the others are the next generation."""
        self._timers.cancel(_JOIN)
        for member in [it for it in self.members.values() if it.awaits_join is None and it.instance_id is None]:
            self._remove(member, Why.NOT_REJOINED)
        if self.members and not self._elect_leader():
            self._timers.set(_JOIN, self._now + self.rebalance_timeout_ms)
            return
        self._member_was_added = False
        self.generation += 1
        self._unsynced.clear()
        if not self.members:
            self.protocol = None
            self._move(EMPTY)
            self._effects.append(Wrote(self.image()))
            return
        self.protocol = self._elected()
        self._move(COMPLETING)
        self._effects.append(Stabilized(self.group, self._now, self.generation, len(self.members)))
        for member in self.members.values():
            self._answer_join(member, self._joined(member))
            member.is_new = False
            self._beat_of(member)
            self._unsynced.add(member.member_id)
        self._timers.set(_SYNC, self._now + self.rebalance_timeout_ms)

    def _elect_leader(self) -> bool:
        """Whether somebody leads who has rejoined; a leader that has not gives way to one that has."""
        if self.leader is not None and self.members[self.leader].awaits_join is not None:
            return True
        ready = [member_id for member_id, member in self.members.items() if member.awaits_join is not None]
        if ready:
            self.leader = in_hash_order(ready, self._most_members)[0]
        return bool(ready)

    def _candidates(self) -> set[str]:
        """The protocols that all members support."""
        return set.intersection(*(set(member.names) for member in self.members.values()))

    def _elected(self) -> str:
        """The vote: each member for its first preference among what all support; most votes win."""
        candidates = self._candidates()
        votes: dict[str, int] = {}
        for member in self.members.values():
            name = member.vote(candidates)
            votes[name] = votes.get(name, 0) + 1
        return max(in_hash_order(votes), key=lambda name: votes[name])

    # SyncGroup.

    def _sync(self, request: SyncGroup, token: Token) -> Synced | None:
        error = self._sync_refusal(request)
        if error is not None:
            return Synced(error)
        member = self.members[request.member_id]
        self._beat_of(member)
        self._unsynced.discard(member.member_id)
        if not self._unsynced:
            self._timers.cancel(_SYNC)
        if self.state is STABLE:
            return Synced(Error.NONE, member.assignment, self.protocol_type, self.protocol)
        if member.awaits_sync is not None:
            self._answer_sync(member, Synced(Error.REBALANCE_IN_PROGRESS))
        member.awaits_sync = token
        if member.member_id == self.leader:
            self._assign(request.assignments)
        return None

    def _sync_refusal(self, request: SyncGroup) -> Error | None:
        if self.state is DEAD:
            return Error.COORDINATOR_NOT_AVAILABLE
        if self.state is EMPTY:
            return Error.UNKNOWN_MEMBER_ID
        error = self._stranger(request.member_id, request.instance_id)
        if error is not None:
            return error
        if request.generation != self.generation:
            return Error.ILLEGAL_GENERATION
        for said, known in ((request.protocol_type, self.protocol_type), (request.protocol, self.protocol)):
            if said is not None and said != known:
                return Error.INCONSISTENT_GROUP_PROTOCOL
        return Error.REBALANCE_IN_PROGRESS if self.state is PREPARING else None

    def _assign(self, assignments: Mapping[str, Any]) -> None:
        # Written before it is handed out, so the record has the time at which the join phase ended.
        self._effects.append(Wrote(self.image(assignments)))
        self._assignments = self.generation, assignments
        if self.settings.write_ms:
            self._timers.set(_WRITE, self._now + self.settings.write_ms)
        else:
            self._written()

    def _written(self) -> None:
        generation, assignments = self._assignments
        if self.state is not COMPLETING or generation != self.generation:
            return
        self._move(STABLE)
        for member in self.members.values():
            member.assignment = assignments.get(member.member_id, ())
            if self._answer_sync(member, Synced(Error.NONE, member.assignment, self.protocol_type, self.protocol)):
                self._beat_of(member)

    def _sync_time_is_up(self) -> None:
        """Members that joined and never asked for their assignment are out."""
        late = in_hash_order(self._unsynced)
        for member_id in late:
            self._remove(self.members[member_id], Why.SYNC_TIMEOUT)
        self._prepare(Why.SYNC_TIMEOUT, late[0])

    # Heartbeat and LeaveGroup.

    def _beat(self, request: Heartbeat) -> Error:
        if self.state is DEAD:
            return Error.COORDINATOR_NOT_AVAILABLE
        error = self._stranger(request.member_id, request.instance_id)
        if error is not None:
            return error
        if request.generation != self.generation:
            return Error.ILLEGAL_GENERATION
        self._beat_of(self.members[request.member_id])
        return Error.REBALANCE_IN_PROGRESS if self.state is PREPARING else Error.NONE

    def _beat_of(self, member: ClassicMember) -> None:
        self._timers.set((member.member_id,), self._now + member.session_timeout_ms)

    def _leave(self, request: LeaveGroup, token: Token) -> None:
        if self.state is DEAD:
            self._answer(token, Left(Error.COORDINATOR_NOT_AVAILABLE))
            return
        errors = tuple(self._let_go(leaver) for leaver in request.members)
        gone = [it for it, error in zip(request.members, errors, strict=True) if error is Error.NONE]
        self._answer(token, Left(Error.NONE, errors))
        if gone and self.state is not EMPTY:
            self._rebalance(gone[0].why, gone[0].member_id)

    def _let_go(self, leaver: Leaver) -> Error:
        member_id = leaver.member_id
        if not member_id:
            member_id = self._instances.get(leaver.instance_id or "", "")
        elif member_id in self.pending:
            self._forget_pending(member_id)
            return Error.NONE
        error = self._stranger(member_id, leaver.instance_id)
        if error is None:
            self._remove(self.members[member_id], leaver.why)
        return error or Error.NONE

    # Who goes.

    def _session_is_over(self, member_id: str) -> None:
        if member_id in self.pending:
            self._forget_pending(member_id)
            self._effects.append(Removed(self.group, self._now, member_id, Why.PENDING_EXPIRED))
            self._complete_if_all_joined()
            return
        member = self.members[member_id]
        if not member.is_excused:
            self._remove(member, Why.SESSION_TIMEOUT)
            self._rebalance(Why.SESSION_TIMEOUT, member_id)

    def _forget_pending(self, member_id: str) -> None:
        if self.pending.pop(member_id, None) is not None:
            self._timers.cancel((member_id,))

    def _remove(self, member: ClassicMember, why: Why) -> None:
        self._answer_join(member, Joined(Error.UNKNOWN_MEMBER_ID))
        self._answer_sync(member, Synced(Error.UNKNOWN_MEMBER_ID))
        del self.members[member.member_id]
        self._unsynced.discard(member.member_id)
        self._timers.cancel((member.member_id,))
        if member.instance_id is not None:
            del self._instances[member.instance_id]
        if self.leader == member.member_id:
            self.leader = next(iter(in_hash_order(self.members, self._most_members)), None)
        self._effects.append(Removed(self.group, self._now, member.member_id, why))

    # What goes out.

    def _move(self, state: GroupState) -> None:
        if state not in CLASSIC_MOVES[self.state]:
            raise AssertionError(f"group {self.group!r}: no way from {self.state} to {state}")
        self.previous_state, self.state, self.state_since_ms = self.state, state, self._now

    def _answer(self, token: Token, answer: object) -> None:
        if answer is not None:
            self._effects.append(Answered(token, answer))

    def _answer_join(self, member: ClassicMember, answer: Joined) -> None:
        if member.awaits_join is not None:
            self._answer(member.awaits_join, answer)
            member.awaits_join = None

    def _answer_sync(self, member: ClassicMember, answer: Synced) -> bool:
        if member.awaits_sync is None:
            return False
        self._answer(member.awaits_sync, answer)
        member.awaits_sync = None
        return True

    def _taken(self) -> list[Effect]:
        effects, self._effects = self._effects, []
        return effects

    def _awaiting(self) -> int:
        return sum(member.awaits_join is not None for member in self.members.values())


def _has_room_to_prepare(group: ClassicGroup, member_id: str) -> bool:
    member = group.members.get(member_id)
    awaits = member is not None and member.awaits_join is not None
    return awaits or group._awaiting() < group.settings.max_size


def _has_room(group: ClassicGroup, member_id: str) -> bool:
    return member_id in group.members or len(group.members) < group.settings.max_size


_HAS_ROOM: Mapping[GroupState, Callable[[ClassicGroup, str], bool]] = {
    EMPTY: lambda group, member_id: True,
    PREPARING: _has_room_to_prepare,
    COMPLETING: _has_room,
    STABLE: _has_room,
    DEAD: lambda group, member_id: True,
}
"""Whether a member may join, by state (`group.max.size`): while members rejoin, the first to come are let in."""
