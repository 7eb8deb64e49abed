"""Drives a classic group by hand: requests with times, and what came of them."""

from __future__ import annotations

from typing import Any

from agent.simulation.groups.classic_coordinator import ClassicCoordinator
from agent.simulation.groups.classic_group import ClassicGroupMachine
from agent.simulation.groups.messages import (
    ClassicGroupImage,
    ClassicRequest,
    Effect,
    HeartbeatRequest,
    JoinGroupRequest,
    LeaveGroupRequest,
    LeavingMember,
    MemberRemoved,
    RebalanceReason,
    RecordAppended,
    ResponseSent,
    SupportedProtocol,
    SyncGroupRequest,
)
from agent.simulation.groups.script import BrokerSettings
from agent.simulation.groups.simulation import member_id_suffixes

AT_ONCE = BrokerSettings(initial_rebalance_delay_ms=0)


class Driven:
    """A coordinator with one group; every request's token is the name of who asks and what for."""

    def __init__(self, settings: BrokerSettings = AT_ONCE, group: str = "g") -> None:
        self.coordinator = ClassicCoordinator(group, settings, member_id_suffixes(group, 0))
        self.name = group
        self.effects: list[Effect] = []
        self.answers: dict[str, list[Any]] = {}
        self.ids: dict[str, str] = {}
        self.settings: dict[str, dict[str, Any]] = {}

    @property
    def group(self) -> ClassicGroupMachine:
        assert self.coordinator.group is not None
        return self.coordinator.group

    def ask(self, who: str, request: ClassicRequest, at: int) -> Any:
        """The newest answer to `who` after this request, None if it has to wait."""
        self.answers[who] = []
        self._take(self.coordinator.handle(request, who, at))
        self._take(self.coordinator.fire_timers(at))
        return self.answers[who][-1] if self.answers[who] else None

    def until(self, at: int) -> None:
        self._take(self.coordinator.fire_timers(at))

    def _take(self, effects: list[Effect]) -> None:
        self.effects += effects
        for effect in effects:
            if isinstance(effect, ResponseSent):
                self.answers.setdefault(str(effect.token), []).append(effect.response)

    def of(self, kind: type) -> list[Any]:
        return [effect for effect in self.effects if isinstance(effect, kind)]

    @property
    def images(self) -> list[ClassicGroupImage]:
        return [wrote.image for wrote in self.of(RecordAppended)]

    @property
    def state(self) -> str:
        return str(self.group.state)

    def removed(self) -> list[tuple[str, int, RebalanceReason]]:
        names = {member_id: who for who, member_id in self.ids.items()}
        return [(names[it.member_id], it.at_ms, it.reason) for it in self.of(MemberRemoved)]

    # Members by name.

    def join(self, who: str, at: int, **changes: Any) -> Any:
        """Joins, or joins again; a dynamic member without an id takes the one that it is given at once."""
        conf = self.settings.setdefault(who, {})
        conf.update(changes)
        instance_id = conf.get("instance_id")
        offers = conf.get("offers", ("range",))
        request = JoinGroupRequest(
            self.name,
            conf.get("session", 10_000),
            conf.get("rebalance", 60_000),
            conf.get("member_id", self.ids.get(who, "")),
            conf.get("protocol_type", "consumer"),
            tuple(SupportedProtocol(name, conf.get("metadata", "")) for name in offers),
            instance_id,
            who,
        )
        answer = self.ask(who, request, at)
        if answer is not None and answer.error == "MEMBER_ID_REQUIRED" and conf.get("goes_on", True):
            self.ids[who] = answer.member_id
            return self.join(who, at)
        self._learn(who, answer)
        return answer

    def _learn(self, who: str, answer: Any) -> None:
        if answer is not None and answer.error == "NONE":
            self.ids[who] = answer.member_id

    def joined(self, who: str) -> Any:
        """The answer to its join, which has come by now."""
        answer = self.answers[who][-1]
        self._learn(who, answer)
        return answer

    def sync(self, who: str, at: int, assignments: dict[str, Any] | None = None, **changes: Any) -> Any:
        given = {self.ids[name]: slots for name, slots in (assignments or {}).items()}
        generation = changes.pop("generation", self.group.generation)
        instance_id = self.settings[who].get("instance_id")
        request = SyncGroupRequest(self.name, generation, self.ids[who], instance_id, assignments=given, **changes)
        return self.ask(who, request, at)

    def beat(self, who: str, at: int, **changes: Any) -> Any:
        generation = changes.pop("generation", self.group.generation)
        instance_id = changes.pop("instance_id", self.settings[who].get("instance_id"))
        return self.ask(who, HeartbeatRequest(self.name, generation, self.ids[who], instance_id), at).error

    def leave(self, at: int, *who: str) -> Any:
        leavers = tuple(LeavingMember(self.ids[it], self.settings[it].get("instance_id")) for it in who)
        return self.ask(who[0], LeaveGroupRequest(self.name, leavers), at)

    def deadline(self, who: str) -> int | None:
        return self.group.deadline(self.ids[who])

    def admit(self, who: str, at: int, *others: str, **changes: Any) -> None:
        """Joins, and the others join again: who must be all that there are."""
        self.join(who, at, **changes)
        for other in others:
            self.join(other, at)
        for name in (who, *others):
            self.joined(name)

    def settle(self, at: int, *who: str, **assignments: Any) -> None:
        """All of them sync, the leader among them."""
        for name in who:
            leads = self.ids[name] == self.group.leader
            self.sync(name, at, assignments or {it: f"{it}'s" for it in who} if leads else None)


def stable(*who: str, at: int = 0, **changes: Any) -> Driven:
    """These came one after the other; the first leads, and each has an assignment. Names in capitals are static."""
    group = Driven()
    for number, name in enumerate(who):
        instance_id = name if name.isupper() else None
        group.admit(name, at, *who[:number], instance_id=instance_id, **changes)
    group.settle(at, *who)
    assert group.state == "Stable"
    assert group.group.generation == len(who)
    return group
