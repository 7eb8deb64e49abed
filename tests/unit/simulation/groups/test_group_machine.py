"""A classic group under arbitrary requests: nothing breaks it, everybody is answered, and nobody stays for ever."""

from __future__ import annotations

from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from agent.core.protocol.states import CLASSIC_MOVES, GroupState
from agent.simulation.groups.classic_coordinator import ClassicCoordinator
from agent.simulation.groups.classic_group import ClassicGroupMachine
from agent.simulation.groups.messages import (
    ClassicRequest,
    Effect,
    HeartbeatRequest,
    JoinGroupRequest,
    JoinGroupResponse,
    LeaveGroupRequest,
    LeavingMember,
    MemberRemoved,
    RecordAppended,
    ResponseSent,
    SupportedProtocol,
    SyncGroupRequest,
)
from agent.simulation.groups.script import BrokerSettings
from agent.simulation.groups.simulation import member_id_suffixes
from tests import examples

S = 1000
SESSIONS, REBALANCES = (6 * S, 20 * S), (5 * S, 40 * S)
OFFERS = (("range",), ("sticky", "range"), ("range", "sticky"), ("range", "roundrobin"), ("sticky",), ())
INSTANCES = (None, None, "i-1", "i-2")
LONGEST_MS = 300 * S
"""By then a group of which nobody hears anything is empty: several join phases, and a session."""

instances = st.sampled_from(INSTANCES)
places = st.integers(0, 9)
"""Which of the ids that were given out so far, counted from the newest."""


class GroupMachine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.settings = BrokerSettings(
            initial_rebalance_delay_ms=3 * S, new_member_join_timeout_ms=50 * S, replication_ms=20
        )
        self.coordinator = ClassicCoordinator("g", self.settings, member_id_suffixes("g", 0))
        self.now = 0
        self.asked: dict[int, int] = {}
        self.open: set[int] = set()
        self.ids: list[str] = ["", "stranger"]
        self.generation = 0
        self.moves: list[GroupState] = []

    @property
    def group(self) -> ClassicGroupMachine | None:
        return self.coordinator.group

    def ask(self, request: ClassicRequest) -> None:
        token = len(self.asked)
        self.asked[token] = self.now
        self.open.add(token)
        self.take(self.coordinator.handle(request, token, self.now))
        self.take(self.coordinator.fire_timers(self.now))

    def take(self, effects: list[Effect]) -> None:
        for effect in effects:
            match effect:
                case ResponseSent():
                    # Once, and once only.
                    self.open.remove(effect.token)  # type: ignore[arg-type]
                    if isinstance(effect.response, JoinGroupResponse) and effect.response.member_id not in self.ids:
                        self.ids.append(effect.response.member_id)
                case RecordAppended():
                    assert effect.image.at_ms <= self.now
                case MemberRemoved():
                    assert effect.member_id
                case _:
                    pass

    def id_at(self, place: int) -> str:
        return self.ids[-1 - place % len(self.ids)]

    @rule(
        place=places,
        is_new=st.booleans(),
        instance_id=instances,
        offers=st.sampled_from(OFFERS),
        session=st.sampled_from(SESSIONS),
        rebalance=st.sampled_from(REBALANCES),
        protocol_type=st.sampled_from(("consumer", "consumer", "consumer", "connect", "")),
    )
    def join(self, place: int, is_new: bool, offers: tuple[str, ...], **asked: Any) -> None:
        self.ask(
            JoinGroupRequest(
                "g",
                asked["session"],
                asked["rebalance"],
                "" if is_new else self.id_at(place),
                asked["protocol_type"],
                tuple(SupportedProtocol(name, len(self.asked) % 2) for name in offers),
                asked["instance_id"],
                "c",
            )
        )

    @rule()
    def all_rejoin(self) -> None:
        """So that phases end for once."""
        for member in list(self.group.members.values()) if self.group is not None else []:
            if member.pending_join is None:
                self.ask(
                    JoinGroupRequest(
                        "g",
                        member.request.session_timeout_ms,
                        member.request.rebalance_timeout_ms,
                        member.member_id,
                        str(self.group and self.group.protocol_type),
                        member.request.protocols,
                        member.instance_id,
                    )
                )

    @rule(place=places, instance_id=instances, back=st.integers(-1, 1))
    def sync(self, place: int, instance_id: str | None, back: int) -> None:
        assignments = {member_id: len(self.asked) for member_id in self.ids}
        self.ask(
            SyncGroupRequest("g", self.generation - back, self.id_at(place), instance_id, assignments=assignments)
        )

    @rule()
    def leader_syncs(self) -> None:
        if self.group is not None and self.group.leader is not None:
            member = self.group.members[self.group.leader]
            self.ask(SyncGroupRequest("g", self.group.generation, member.member_id, member.instance_id))

    @rule(place=places, instance_id=instances, back=st.integers(-1, 1))
    def beat(self, place: int, instance_id: str | None, back: int) -> None:
        self.ask(HeartbeatRequest("g", self.generation - back, self.id_at(place), instance_id))

    @rule(leavers=st.lists(st.tuples(places, instances), max_size=3))
    def leave(self, leavers: list[tuple[int, str | None]]) -> None:
        self.ask(
            LeaveGroupRequest("g", tuple(LeavingMember(self.id_at(place), instance) for place, instance in leavers))
        )

    @rule(for_ms=st.sampled_from([1, 19, 20, 1 * S, 3 * S, 6 * S, 30 * S]))
    def let_pass(self, for_ms: int) -> None:
        self.now += for_ms
        self.take(self.coordinator.fire_timers(self.now))

    @rule()
    def delete(self) -> None:
        if self.group is not None and self.group.state is GroupState.EMPTY:
            self.take(self.coordinator.delete_group(self.now))
            self.generation = 0

    @invariant()
    def generations_grow(self) -> None:
        if self.group is not None:
            assert self.group.generation >= self.generation
            self.generation = self.group.generation

    @invariant()
    def everybody_is_somebody(self) -> None:
        group = self.group
        if group is None:
            return
        assert group.state in CLASSIC_MOVES
        assert group.state is not GroupState.DEAD
        assert (group.leader in group.members) if group.members else group.leader is None
        assert not group.roster.pending_member_ids & set(group.members)
        named = {member.instance_id: it for it, member in group.members.items() if member.instance_id is not None}
        assert all(group.roster.static_member(instance_id) is group.members[it] for instance_id, it in named.items())
        assert all(group.roster.static_member(it) is None for it in INSTANCES if it not in named)
        if group.state in (GroupState.EMPTY, GroupState.STABLE, GroupState.COMPLETING_REBALANCE):
            assert all(member.pending_join is None for member in group.members.values())
        if group.state is not GroupState.COMPLETING_REBALANCE:
            assert all(member.pending_sync is None for member in group.members.values())
        assert bool(group.members) or group.state in (GroupState.EMPTY, GroupState.PREPARING_REBALANCE)
        assert group.due_ms is None or group.due_ms >= self.now

    @invariant()
    def whoever_is_not_answered_is_awaited(self) -> None:
        members = self.group.members.values() if self.group is not None else ()
        waiting = {it for member in members for it in (member.pending_join, member.pending_sync) if it is not None}
        assert waiting == self.open

    def teardown(self) -> None:
        self.now += LONGEST_MS
        self.take(self.coordinator.fire_timers(self.now))
        assert self.open == set()
        if self.group is not None:
            assert self.group.state is GroupState.EMPTY
            assert self.group.roster.pending_member_ids == set()
            assert self.group.due_ms is None


GroupMachine.TestCase.settings = settings(max_examples=examples(100), stateful_step_count=40, deadline=None)
TestGroupMachine = GroupMachine.TestCase
