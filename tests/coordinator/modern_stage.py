"""A KIP-848 group and its consumers in virtual time, for tests: messages take a while each way, timers fire."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from heapq import heappop, heappush
from itertools import count
from typing import Any

from agent.coordinator.assignors import ASSIGNORS, Assignment, Problem, Slot
from agent.coordinator.consumer_group import ConsumerGroup
from agent.coordinator.modern_client import ModernConsumer
from agent.coordinator.modern_requests import ConsumerGroupBeaten, ConsumerGroupHeartbeat, ModernEffect
from agent.coordinator.requests import Answered, LeaveGroup, Leaver, Left, Why
from agent.coordinator.script import BrokerSettings, ClientSettings

GROUP = "g"
RANGE: Mapping[str, Callable[[Problem], Assignment]] = {"range": ASSIGNORS["range"]}


class Stage:
    """`consumers` by name, those included that ended; `effects` is all that the coordinator did."""

    def __init__(
        self,
        partitions: Mapping[str, int],
        broker: BrokerSettings | None = None,
        assignors: Mapping[str, Callable[[Problem], Assignment]] = RANGE,
        latency_ms: int = 1,
    ) -> None:
        numbers = count()
        self.new_id = lambda: f"m{next(numbers)}"
        self.group = ConsumerGroup(
            GROUP, broker or BrokerSettings(consumer_assignment_interval_ms=0), self.new_id, partitions, assignors
        )
        self.consumers: dict[str, ModernConsumer] = {}
        self.effects: list[ModernEffect] = []
        self.sent: list[tuple[int, str, ConsumerGroupHeartbeat]] = []
        self.now = 0
        self.watch: Callable[[], None] = lambda: None
        self._latency_ms = latency_ms
        self._messages: list[tuple[int, int, str, ModernConsumer | None, Any]] = []
        self._number = count()

    # What is done to consumers.

    def start(self, name: str, topics: str = "t", **settings: Any) -> ModernConsumer:
        chosen = ClientSettings(name, frozenset(topics.split()), **settings)
        self.consumers[name] = ModernConsumer(GROUP, chosen, self.new_id)
        self.do(name, "start")
        return self.consumers[name]

    def do(self, name: str, deed: str, *arguments: Any) -> None:
        consumer = self.consumers[name]
        self._send(name, consumer, getattr(consumer, deed)(*arguments, self.now))

    def remove(self, name: str) -> Left:
        """An admin removes a consumer's member."""
        consumer = self.consumers[name]
        instance_id = consumer.settings.instance_id
        leaver = Leaver(consumer.member_id if instance_id is None else "", instance_id, Why.ADMIN_REMOVED)
        effects = self.group.handle(LeaveGroup(GROUP, (leaver,)), "admin", self.now)
        self.effects += effects
        answer = effects[-1]
        assert isinstance(answer, Answered)
        return answer.answer

    def grow(self, topic: str, partitions: int) -> None:
        self.effects += self.group.grow(topic, partitions, self.now)

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
                if consumer.due is not None and consumer.due <= self.now:
                    self._send(name, consumer, consumer.wake(self.now))
                    assert consumer.due is None or consumer.due > self.now, "a consumer that woke is done for now"
            self.effects += self.group.fire(self.now)
            self.watch()
        self.now = until

    def _due(self) -> int | None:
        dues = [consumer.due for consumer in self.consumers.values()]
        dues += [self.group.due, self._messages[0][0] if self._messages else None]
        return min((due for due in dues if due is not None), default=None)

    def _send(self, name: str, consumer: ModernConsumer, requests: list[ConsumerGroupHeartbeat]) -> None:
        for request in requests:
            self.sent.append((self.now, name, request))
            heappush(
                self._messages, (self.now + self._latency_ms, next(self._number), name, None, (consumer, request))
            )

    def _deliver(self) -> None:
        _, _, name, consumer, what = heappop(self._messages)
        if consumer is not None:
            self._send(name, consumer, consumer.answered(what, self.now))
            return
        asker, request = what
        effects = self.group.handle(request, name, self.now)
        self.effects += effects
        answer = effects[-1]
        assert isinstance(answer, Answered)
        assert isinstance(answer.answer, ConsumerGroupBeaten)
        self._post(name, asker, answer.answer)

    def _post(self, name: str, to: ModernConsumer | None, what: Any) -> None:
        heappush(self._messages, (self.now + self._latency_ms, next(self._number), name, to, what))

    # What is there to see.

    def of(self, kind: type) -> list[Any]:
        return [effect for effect in self.effects if isinstance(effect, kind)]

    def owned(self) -> dict[str, list[Slot]]:
        return {name: sorted(consumer.owned) for name, consumer in self.consumers.items()}

    def held_twice(self) -> list[Slot]:
        """Partitions that two members hold, those counted that they have not given up yet."""
        held = [slot for member in self.group.members.values() for slot in member.held]
        return sorted({slot for slot in held if held.count(slot) > 1})
