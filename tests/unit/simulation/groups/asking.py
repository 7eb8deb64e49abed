"""Asks a KIP-848 group by hand: heartbeats with times, and what came of them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from agent.core.protocol.assignors import Assignment, AssignmentProblem, Slot
from agent.simulation.groups.kip848_coordinator import Kip848Coordinator
from agent.simulation.groups.kip848_messages import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    CurrentAssignment,
    Kip848Effect,
)
from agent.simulation.groups.messages import (
    LeaveGroupRequest,
    LeaveGroupResponse,
    LeavingMember,
    RecordAppended,
    ResponseSent,
)
from agent.simulation.groups.script import BrokerSettings

TIMEOUT_MS = 10_000
"""The rebalance timeout of members, where a test does not say another."""


def slots(numbers: Iterable[int], topic: str = "t") -> frozenset[Slot]:
    return frozenset((topic, number) for number in numbers)


class Assignor:
    """Gives what the test says, by member id: numbers of topic `t`; nothing to others."""

    def __init__(self) -> None:
        self.gives: Mapping[str, Iterable[int]] = {}
        self.asked: list[AssignmentProblem] = []

    def __call__(self, problem: AssignmentProblem) -> Assignment:
        self.asked.append(problem)
        return {member_id: sorted(slots(self.gives.get(member_id, ()))) for member_id in problem.members}


class Asked:
    """A group under test. Its broker's default assignor gives what the test says."""

    def __init__(self, partitions: Mapping[str, int] | None = None, **settings: Any) -> None:
        self.uniform, self.other = Assignor(), Assignor()
        assignors = {"uniform": self.uniform, "range": self.other}
        counts = {"t": 4} if partitions is None else partitions
        made = iter(f"made-{number}" for number in range(9))
        self.group = Kip848Coordinator(
            "g",
            BrokerSettings(**{"consumer_assignment_interval_ms": 0, **settings}),
            made.__next__,
            counts,
            assignors,
        )
        self.last: list[Kip848Effect] = []
        self.effects: list[Kip848Effect] = []

    def gives(self, **numbers: Iterable[int]) -> None:
        self.uniform.gives = numbers

    def join(
        self, member_id: str, at: int = 0, topics: Iterable[str] = ("t",), **said: Any
    ) -> ConsumerGroupHeartbeatResponse:
        said = {"rebalance_timeout_ms": TIMEOUT_MS, "owned": frozenset(), **said}
        return self.beat(member_id, 0, at, subscribed_topics=frozenset(topics), **said)

    def beat(self, member_id: str, epoch: int, at: int = 0, **said: Any) -> ConsumerGroupHeartbeatResponse:
        answer = self._ask(ConsumerGroupHeartbeatRequest("g", member_id, epoch, **said), at)
        assert isinstance(answer, ConsumerGroupHeartbeatResponse)
        return answer

    def leave(self, *leavers: LeavingMember, at: int = 0) -> LeaveGroupResponse:
        answer = self._ask(LeaveGroupRequest("g", leavers), at)
        assert isinstance(answer, LeaveGroupResponse)
        return answer

    def fire(self, at: int) -> list[Kip848Effect]:
        self.last = self.group.fire_timers(at)
        self.effects += self.last
        return self.last

    def _ask(self, request: ConsumerGroupHeartbeatRequest | LeaveGroupRequest, at: int) -> Any:
        self.last = self.group.handle(request, "token", at)
        self.effects += self.last
        answered = self.last[-1]
        assert isinstance(answered, ResponseSent)
        assert answered.token == "token"
        return answered.response

    def of(self, kind: type) -> list[Any]:
        """Of the last request's effects, those of this kind."""
        return [effect for effect in self.last if isinstance(effect, kind)]

    @property
    def wrote(self) -> list[str]:
        """The kinds of records that the last request wrote, a tombstone with a dash before it."""
        return [_kind(effect.image) for effect in self.last if isinstance(effect, RecordAppended)]

    def current(self, member_id: str) -> CurrentAssignment:
        return self.group.members[member_id].current

    def at(self, member_id: str) -> tuple[int, int, str]:
        """A member's epoch, previous epoch and state."""
        current = self.current(member_id)
        return current.epoch, current.previous_epoch, current.state.name.split("_")[0].lower()

    def has(self, member_id: str) -> tuple[list[int], list[int]]:
        """The numbers of the partitions that are assigned to a member, and of those that it must give up."""
        current = self.current(member_id)
        return sorted(number for _, number in current.assigned), sorted(number for _, number in current.revoking)


def _kind(image: Any) -> str:
    name = type(image).__name__.removesuffix("Image").lower()
    value = next(
        (getattr(image, field) for field in ("metadata", "target", "current") if hasattr(image, field)), image
    )
    return f"-{name}" if value is None else name
