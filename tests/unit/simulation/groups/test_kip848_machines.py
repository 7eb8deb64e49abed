"""A KIP-848 group under any requests, and under consumers to which anything happens: what always holds."""

from __future__ import annotations

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from agent.core.protocol.assignors import Slot
from agent.core.protocol.states import GroupState
from agent.simulation.groups.kip848_client import Kip848Phase
from agent.simulation.groups.kip848_coordinator import Kip848Coordinator
from agent.simulation.groups.kip848_messages import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    EpochBumped,
    Kip848Effect,
)
from agent.simulation.groups.messages import (
    ErrorCode,
    LeaveGroupRequest,
    LeaveGroupResponse,
    LeavingMember,
    MemberRemoved,
    ResponseSent,
)
from agent.simulation.groups.script import BrokerSettings
from tests import examples
from tests.unit.simulation.groups.kip848_stage import RANGE, Stage

TOPICS = {"t": 3, "u": 2}
SESSION_MS = 10_000
POLL_MS = 20_000
INTERVAL_MS = 1_000
BROKER = BrokerSettings(
    consumer_assignment_interval_ms=0, consumer_session_timeout_ms=SESSION_MS, consumer_heartbeat_interval_ms=3_000
)

slots = st.frozensets(
    st.sampled_from([(topic, number) for topic, count in TOPICS.items() for number in range(count)]), max_size=4
)
ids = st.sampled_from(["", "a", "b", "c", "d"])
static_ids = st.none() | st.sampled_from(["i", "j"])
topics = st.frozensets(st.sampled_from([*TOPICS, "unknown"]), max_size=3)


class AnyRequests(RuleBasedStateMachine):
    """Members that know no rules: any epoch, any static id, anything owned."""

    @initialize(interval_ms=st.sampled_from([0, INTERVAL_MS]))
    def begin(self, interval_ms: int) -> None:
        broker = BrokerSettings(
            consumer_session_timeout_ms=SESSION_MS,
            consumer_assignment_interval_ms=interval_ms,
        )
        numbers = iter(range(10**6))
        self.group = Kip848Coordinator("g", broker, lambda: f"n{next(numbers)}", TOPICS, RANGE)
        self.now = 0
        self.epoch = 1

    def take(self, effects: list[Kip848Effect]) -> None:
        for effect in effects:
            if isinstance(effect, EpochBumped):
                assert effect.epoch == self.epoch + 1, "epochs go up one by one"
                self.epoch = effect.epoch

    def ask(self, request: ConsumerGroupHeartbeatRequest | LeaveGroupRequest) -> object:
        effects = self.group.handle(request, ("token", self.now), self.now)
        self.take(effects)
        answers = [effect for effect in effects if isinstance(effect, ResponseSent)]
        assert answers == effects[-1:], "one answer, and it is the last that happens"
        assert answers[0].token == ("token", self.now)
        answer = answers[0].response
        if answer.error is not ErrorCode.NONE:
            assert len(effects) == 1, "what is refused changes nothing"
        return answer

    @rule(
        member_id=ids,
        instance_id=static_ids,
        wanted=topics,
        assignor=st.sampled_from([None, "range", "unknown"]),
        timeout_ms=st.sampled_from([-1, 1, 4_000]),
        owned=st.just(frozenset[Slot]()) | slots,
    )
    def joins(
        self,
        member_id: str,
        instance_id: str | None,
        wanted: frozenset[str],
        assignor: str | None,
        timeout_ms: int,
        owned: frozenset[Slot],
    ) -> None:
        answer = self.ask(
            ConsumerGroupHeartbeatRequest("g", member_id, 0, instance_id, None, timeout_ms, wanted, assignor, owned)
        )
        assert isinstance(answer, ConsumerGroupHeartbeatResponse)
        if answer.error is ErrorCode.NONE:
            current = self.group.members[answer.member_id].current
            assert (answer.member_epoch, answer.assignment) == (current.epoch, frozenset(current.assigned))

    @rule(
        member_id=ids,
        instance_id=static_ids,
        epoch=st.integers(-3, 6) | st.none(),
        wanted=st.none() | topics,
        owned=st.none() | slots,
    )
    def beats(
        self,
        member_id: str,
        instance_id: str | None,
        epoch: int | None,
        wanted: frozenset[str] | None,
        owned: frozenset[Slot] | None,
    ) -> None:
        if epoch is None:
            member = self.group.members.get(member_id)
            epoch = member.current.epoch if member is not None else 1
        request = ConsumerGroupHeartbeatRequest(
            "g", member_id, epoch, instance_id, subscribed_topics=wanted, owned=owned
        )
        calm = wanted is None and owned is None and epoch > 0 and self.group.is_uneventful(member_id)
        before = self.group.epoch, self.group.target_epoch, dict(self.group.members)
        answer = self.ask(request)
        assert isinstance(answer, ConsumerGroupHeartbeatResponse)
        if calm:
            assert before == (self.group.epoch, self.group.target_epoch, dict(self.group.members))

    @rule(leavers=st.lists(st.builds(LeavingMember, ids, static_ids), max_size=3))
    def leave(self, leavers: list[LeavingMember]) -> None:
        answer = self.ask(LeaveGroupRequest("g", tuple(leavers)))
        assert isinstance(answer, LeaveGroupResponse)
        assert answer.error is not ErrorCode.NONE or len(answer.members) == len(leavers)

    @rule(topic=st.sampled_from(["t", "u"]), count=st.integers(0, 4))
    def grow(self, topic: str, count: int) -> None:
        self.group.set_partition_count(topic, count)

    @rule(member_id=ids)
    def renew(self, member_id: str) -> None:
        self.group.renew_session(member_id, self.now)

    @rule(passes_ms=st.sampled_from([1, 500, 3_000, 12_000]))
    def time_passes(self, passes_ms: int) -> None:
        due = self.group.due_ms
        self.now += passes_ms
        effects = self.group.fire_timers(self.now)
        self.take(effects)
        times = [effect.at_ms for effect in effects if isinstance(effect, MemberRemoved)]
        assert times == sorted(times)
        assert all(due is not None and due <= at_ms <= self.now for at_ms in times)
        assert self.group.due_ms is None or self.group.due_ms > self.now

    @invariant()
    def nothing_is_held_twice(self) -> None:
        held = [slot for member in self.group.members.values() for slot in member.held_slots]
        assert len(held) == len(set(held))

    @invariant()
    def epochs_are_in_order(self) -> None:
        group = self.group
        assert group.epoch == self.epoch
        assert group.target_epoch <= group.epoch
        for member in group.members.values():
            assert member.current.epoch <= group.target_epoch
            assert all(epoch <= group.target_epoch for epoch in member.current.assigned.values())
            assert group.deadline(member.member_id) is not None
        assert (group.state is GroupState.EMPTY) == (not group.members)

    @invariant()
    def a_target_is_of_members_only(self) -> None:
        assert set(self.group.target) <= set(self.group.members)


class AnyFate(RuleBasedStateMachine):
    """Consumers that keep the rules, to which anything happens; at the end all is left alone for a while."""

    names = st.sampled_from(["a", "b", "c"])

    @initialize(interval_ms=st.sampled_from([0, INTERVAL_MS]), latency_ms=st.sampled_from([1, 40]))
    def begin(self, interval_ms: int, latency_ms: int) -> None:
        broker = BrokerSettings(
            consumer_session_timeout_ms=SESSION_MS,
            consumer_heartbeat_interval_ms=3_000,
            consumer_assignment_interval_ms=interval_ms,
        )
        self.stage = Stage(TOPICS, broker, latency_ms=latency_ms)
        self.stage.watch = self.nothing_is_held_twice

    @rule(name=names, wanted=st.sampled_from(["t", "u", "t u"]), static=st.booleans(), slow=st.booleans())
    def start(self, name: str, wanted: str, static: bool, slow: bool) -> None:
        old = self.stage.consumers.get(name)
        if old is None or not old.is_running:
            self.stage.start(
                name,
                wanted,
                instance_id=name if static else None,
                rejoin_delay_ms=2_500 if slow else 0,
                max_poll_interval_ms=POLL_MS,
            )

    @rule(name=names, deed=st.sampled_from(["close", "kill"]))
    def ends(self, name: str, deed: str) -> None:
        if name in self.stage.consumers:
            self.stage.do(name, deed)

    @rule(name=names, deed=st.sampled_from(["stall", "freeze"]), for_ms=st.sampled_from([400, 12_000, 25_000]))
    def stands_still(self, name: str, deed: str, for_ms: int) -> None:
        consumer = self.stage.consumers.get(name)
        if consumer is not None and consumer.is_running:
            self.stage.do(name, deed, for_ms)

    @rule(name=names, wanted=st.sampled_from(["t", "u", "t u"]))
    def resubscribes(self, name: str, wanted: str) -> None:
        if name in self.stage.consumers:
            self.stage.do(name, "resubscribe", frozenset(wanted.split()))

    @rule(name=names)
    def is_removed(self, name: str) -> None:
        if name in self.stage.consumers:
            self.stage.remove(name)

    @rule(topic=st.sampled_from(["t", "u"]), count=st.integers(0, 5))
    def grows(self, topic: str, count: int) -> None:
        self.stage.grow(topic, count)

    @rule(passes_ms=st.sampled_from([1, 30, 2_000, 9_000]))
    def time_passes(self, passes_ms: int) -> None:
        self.stage.run(passes_ms)

    @invariant()
    def nothing_is_held_twice(self) -> None:
        assert self.stage.held_twice() == []

    def teardown(self) -> None:
        stage = self.stage
        # The longest that somebody may stand still, be silent, or take to give up; then a few heartbeats each.
        stage.run(25_000 + POLL_MS + SESSION_MS)
        stage.run(6 * 3_000)
        running = {it.member_id: it for it in stage.consumers.values() if it.is_running}
        assert set(stage.group.members) == set(running), "who is silent is gone, who runs is there"
        assert stage.group.state is (GroupState.STABLE if running else GroupState.EMPTY)
        for member_id, consumer in running.items():
            assert consumer.phase is Kip848Phase.STABLE
            assert consumer.owned == stage.group.target[member_id] == set(stage.group.members[member_id].held_slots)


MANY = settings(
    max_examples=examples(60), stateful_step_count=30, deadline=None, suppress_health_check=list(HealthCheck)
)

TestAnyRequests = AnyRequests.TestCase
TestAnyRequests.settings = MANY
TestAnyFate = AnyFate.TestCase
TestAnyFate.settings = MANY
