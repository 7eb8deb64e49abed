"""A KIP-848 group and its consumers in virtual time, for tests: messages take a while each way, timers fire."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from heapq import heappop, heappush
from itertools import count
from typing import Any

from agent.core.protocol.assignors import ASSIGNORS, Assignment, AssignmentProblem, Slot
from agent.simulation.groups.kip848_client import Kip848Consumer
from agent.simulation.groups.kip848_coordinator import Kip848Coordinator
from agent.simulation.groups.kip848_messages import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    Kip848Effect,
)
from agent.simulation.groups.messages import (
    LeaveGroupRequest,
    LeaveGroupResponse,
    LeavingMember,
    RebalanceReason,
    ResponseSent,
)
from agent.simulation.groups.script import BrokerSettings, ClientSettings

GROUP = "g"
RANGE: Mapping[str, Callable[[AssignmentProblem], Assignment]] = {"range": ASSIGNORS["range"]}


class Stage:
    """`consumers` by name, those included that ended; `effects` is all that the coordinator did."""

    def __init__(
        self,
        partitions: Mapping[str, int],
        broker: BrokerSettings | None = None,
        assignors: Mapping[str, Callable[[AssignmentProblem], Assignment]] = RANGE,
        latency_ms: int = 1,
    ) -> None:
        numbers = count()
        self.new_id = lambda: f"m{next(numbers)}"
        self.group = Kip848Coordinator(
            GROUP, broker or BrokerSettings(consumer_assignment_interval_ms=0), self.new_id, partitions, assignors
        )
        self.consumers: dict[str, Kip848Consumer] = {}
        self.effects: list[Kip848Effect] = []
        self.sent: list[tuple[int, str, ConsumerGroupHeartbeatRequest]] = []
        self.now = 0
        self.watch: Callable[[], None] = lambda: None
        self._latency_ms = latency_ms
        self._messages: list[tuple[int, int, str, Kip848Consumer | None, Any]] = []
        self._number = count()

    # What is done to consumers.

    def start(self, name: str, topics: str = "t", **settings: Any) -> Kip848Consumer:
        chosen = ClientSettings(name, frozenset(topics.split()), **settings)
        self.consumers[name] = Kip848Consumer(GROUP, chosen, self.new_id)
        self.do(name, "start")
        return self.consumers[name]

    def do(self, name: str, deed: str, *arguments: Any) -> None:
        consumer = self.consumers[name]
        self._send(name, consumer, getattr(consumer, deed)(*arguments, self.now))

    def remove(self, name: str) -> LeaveGroupResponse:
        """An admin removes a consumer's member."""
        consumer = self.consumers[name]
        instance_id = consumer.settings.instance_id
        leaver = LeavingMember(
            consumer.member_id if instance_id is None else "", instance_id, RebalanceReason.ADMIN_REMOVED
        )
        effects = self.group.handle(LeaveGroupRequest(GROUP, (leaver,)), "admin", self.now)
        self.effects += effects
        answer = effects[-1]
        assert isinstance(answer, ResponseSent)
        return answer.response

    def grow(self, topic: str, partitions: int) -> None:
        self.group.set_partition_count(topic, partitions)

    # Time.

    def run(self, for_ms: int) -> None:
        """Let so much time pass."""
        until = self.now + for_ms
        while (due := self._due()) is not None and due <= until:
            assert due >= self.now, "time goes forward"
            self.now = due
            while self._messages and self._messages[0][0] <= self.now:
                self._deliver()
            for name, consumer in self.consumers.items():
                if consumer.due_ms is not None and consumer.due_ms <= self.now:
                    self._send(name, consumer, consumer.wake(self.now))
                    assert consumer.due_ms is None or consumer.due_ms > self.now, (
                        "a consumer that woke is done for now"
                    )
            self.effects += self.group.fire_timers(self.now)
            self.watch()
        self.now = until

    def _due(self) -> int | None:
        dues = [consumer.due_ms for consumer in self.consumers.values()]
        dues += [self.group.due_ms, self._messages[0][0] if self._messages else None]
        return min((due for due in dues if due is not None), default=None)

    def _send(self, name: str, consumer: Kip848Consumer, requests: list[ConsumerGroupHeartbeatRequest]) -> None:
        for request in requests:
            self.sent.append((self.now, name, request))
            heappush(
                self._messages, (self.now + self._latency_ms, next(self._number), name, None, (consumer, request))
            )

    def _deliver(self) -> None:
        _, _, name, consumer, what = heappop(self._messages)
        if consumer is not None:
            self._send(name, consumer, consumer.handle_response(what, self.now))
            return
        asker, request = what
        effects = self.group.handle(request, name, self.now)
        self.effects += effects
        answer = effects[-1]
        assert isinstance(answer, ResponseSent)
        assert isinstance(answer.response, ConsumerGroupHeartbeatResponse)
        self._post(name, asker, answer.response)

    def _post(self, name: str, to: Kip848Consumer | None, what: Any) -> None:
        heappush(self._messages, (self.now + self._latency_ms, next(self._number), name, to, what))

    # What is there to see.

    def of(self, kind: type) -> list[Any]:
        return [effect for effect in self.effects if isinstance(effect, kind)]

    def owned(self) -> dict[str, list[Slot]]:
        return {name: sorted(consumer.owned) for name, consumer in self.consumers.items()}

    def held_twice(self) -> list[Slot]:
        """Partitions that two members hold, those counted that they have not given up yet."""
        held = [slot for member in self.group.members.values() for slot in member.held_slots]
        return sorted({slot for slot in held if held.count(slot) > 1})
