"""Virtual time: a script's clients, their coordinator, and the messages between them.

Deterministic: what happens at one moment happens in a fixed order (steps of the script, messages, what clients do by
themselves, the coordinator's timers). Hours in which members only send heartbeats cost nothing: heartbeats that could
do nothing but put off a deadline are not played one by one.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from hashlib import blake2b
from heapq import heappop, heappush
from itertools import count
from typing import Any
from uuid import UUID

from agent.simulation.groups import script as s
from agent.simulation.groups.classic_group import ClassicGroupMachine
from agent.simulation.groups.messages import (
    JoinGroupResponse,
    LeaveGroupRequest,
    LeavingMember,
    RebalanceReason,
    ResponseSent,
)
from agent.simulation.groups.protocol_models import AnyEffect, ClassicModel, SimulatedClient, protocol_model
from agent.simulation.groups.timers import Timers, earliest

SimulationObserver = Callable[["Simulation", int, list[AnyEffect]], None]
"""Told after each moment: the world, the time, and what the coordinator did."""


_CLIENT_ACTIONS: Mapping[type[s.Step], Callable[[SimulatedClient, Any, int], list[Any]]] = {
    s.Start: lambda client, step, now_ms: client.start(now_ms),
    s.Close: lambda client, step, now_ms: client.close(now_ms),
    s.Kill: lambda client, step, now_ms: client.kill(now_ms),
    s.Stall: lambda client, step, now_ms: client.stall(step.duration_ms, now_ms),
    s.Freeze: lambda client, step, now_ms: client.freeze(step.duration_ms, now_ms),
    s.Resubscribe: lambda client, step, now_ms: client.resubscribe(step.topics, now_ms),
    s.Rejoin: lambda client, step, now_ms: client.rejoin(now_ms),
}


class TooManyMoments(ValueError):
    """More happens in a script than anybody has time for: groups that time out every few milliseconds, for hours."""


class Simulation:
    """A script that is being played. `run` plays it to its end and calls the observer whenever something happened."""

    def __init__(self, script: s.Script, watch: SimulationObserver) -> None:
        self.script = script
        self.partitions = dict(script.partitions)
        self.clients: dict[str, SimulatedClient] = {}
        self.former_clients: list[SimulatedClient] = []
        """Former lives of clients that were started again, and ended without a word."""
        self.client_names: dict[str, str] = {}
        """Clients by the member ids that they know of."""
        self.model = protocol_model(script, self.partitions, member_id_suffixes(script.group, script.seed))
        self._watch = watch
        self._incarnations: dict[str, int] = {}
        self._messages: list[tuple[int, int, bool, tuple[str, int], Any]] = []
        self._sent = 0
        self._wakes = Timers()
        self._unreachable_until_ms: dict[str, int] = {}
        self._steps = deque(sorted(script.steps, key=lambda step: step.at_ms))

    @property
    def group(self) -> ClassicGroupMachine | None:
        """The script's group, once somebody has joined it; None where it is no classic one."""
        return self.model.coordinator.group if isinstance(self.model, ClassicModel) else None

    def run(self, max_moments: int | None = None) -> None:
        """Play from the first step to `until_ms`. Raises `TooManyMoments` where more happens than that."""
        moments = 0
        while (now_ms := self._next()) is not None and now_ms <= self.script.until_ms:
            if moments == max_moments:
                raise TooManyMoments(
                    f"expected at most {moments:,} moments at which something happens, got more by {now_ms} ms"
                )
            moments += 1
            effects: list[AnyEffect] = []
            while self._steps and self._steps[0].at_ms <= now_ms:
                effects += self._take_step(self._steps.popleft(), now_ms)
            while self._messages and self._messages[0][0] <= now_ms:
                effects += self._deliver(now_ms)
            for name in self._due_clients(now_ms):
                self._send(name, self.clients[name].wake(now_ms), now_ms)
            effects += self._send_responses(self.model.coordinator.fire_timers(now_ms), now_ms)
            self._watch(self, now_ms, effects)

    def _next(self) -> int | None:
        """When something happens next."""
        sent = self._messages[0][0] if self._messages else None
        step = self._steps[0].at_ms if self._steps else None
        if sent is None and self._wakes.due is not None:
            # Perhaps nothing but heartbeats, for long.
            self._skip_heartbeats()
        return earliest(self._wakes.due, self.model.coordinator.due_ms, sent, step)

    def _skip_heartbeats(self) -> None:
        reached = [client for name, client in self.clients.items() if name not in self._unreachable_until_ms]
        beating = self.model.clients_only_heartbeating(reached)
        if beating is None:
            return
        horizon = earliest(
            self.script.until_ms + 1,
            self._steps[0].at_ms if self._steps else None,
            self.model.coordinator.due_ms_without(beating),
            *(
                client.due_ms_except_heartbeats if client.member_id in beating else client.due_ms
                for client in self.clients.values()
            ),
        )
        assert horizon is not None, "a script ends"
        # What is still on its way when something happens may meet with another answer.
        until_ms = horizon - self.script.latency_ms
        for member_id, client in beating.items():
            last = client.skip_heartbeats(until_ms)
            if last is not None:
                self.model.coordinator.renew_session(member_id, last + self.script.latency_ms)
                client.coordinator_responded(last + 2 * self.script.latency_ms)
                self._schedule_wake(self.client_names[member_id])

    def _due_clients(self, now_ms: int) -> list[str]:
        """Who has something to do now, in an order that does not depend on what was skipped."""
        names = []
        while (wake := self._wakes.pop(now_ms)) is not None:
            names.append(str(wake[0]))
        return sorted(names)

    # Messages.

    def _send(self, name: str, requests: list[Any], now_ms: int) -> None:
        for request in requests:
            self._enqueue(now_ms, True, (name, self._incarnations[name]), request)
        member_id = self.clients[name].member_id
        if member_id:
            self.client_names[member_id] = name
        self._schedule_wake(name)

    def _enqueue(self, now_ms: int, is_request: bool, who: tuple[str, int], what: Any) -> None:
        self._sent += 1
        heappush(self._messages, (now_ms + self.script.latency_ms, self._sent, is_request, who, what))

    def _schedule_wake(self, name: str) -> None:
        due = self.clients[name].due_ms
        if due is None:
            self._wakes.cancel(name)
        else:
            self._wakes.set(name, due)

    def _deliver(self, now_ms: int) -> Sequence[AnyEffect]:
        _, _, is_request, who, what = heappop(self._messages)
        if self._is_cut(who[0], now_ms):
            return []
        if is_request:
            return self._send_responses(self.model.coordinator.handle(what, who, now_ms), now_ms)
        name, life = who
        if life == self._incarnations.get(name):
            self._send(name, self.clients[name].handle_response(what, now_ms), now_ms)
        return []

    def _send_responses(self, effects: Sequence[AnyEffect], now_ms: int) -> Sequence[AnyEffect]:
        for effect in effects:
            if isinstance(effect, ResponseSent):
                assert isinstance(effect.token, tuple)
                self._enqueue(now_ms, False, effect.token, effect.response)
                if isinstance(effect.response, JoinGroupResponse):
                    # Its client may not live to hear of it.
                    self.client_names.setdefault(effect.response.member_id, effect.token[0])
        return effects

    # The script.

    def _take_step(self, step: s.Step, now_ms: int) -> Sequence[AnyEffect]:
        if isinstance(step, s.SetPartitions):
            self._set_partitions(step, now_ms)
            return []
        name = step.client
        if isinstance(step, s.Start):
            self._incarnations[name] = self._incarnations.get(name, -1) + 1
            self._retire_former_client(name, now_ms)
            self.clients[name] = self.model.new_client(step.settings)
        client = self.clients.get(name)
        if client is None:
            raise ValueError(f"{step}: expected a client that was started before, {name!r} was not")
        if isinstance(step, s.CutOff):
            self._cut_off(step)
            return []
        if isinstance(step, s.AdminRemove):
            return self._remove(client, now_ms)
        self._send(name, _CLIENT_ACTIONS[type(step)](client, step, now_ms), now_ms)
        return []

    def _cut_off(self, step: s.CutOff) -> None:
        if not isinstance(self.model, ClassicModel):
            raise ValueError(f"{step}: expected a classic group, {self.script.group!r} is a KIP-848 one")
        self._unreachable_until_ms[step.client] = max(
            step.at_ms + step.duration_ms, self._unreachable_until_ms.get(step.client, step.at_ms)
        )

    def _is_cut(self, name: str, now_ms: int) -> bool:
        """Whether messages from and to this client are lost now."""
        if self._unreachable_until_ms.get(name, now_ms) > now_ms:
            return True
        self._unreachable_until_ms.pop(name, None)
        return False

    def _retire_former_client(self, name: str, now_ms: int) -> None:
        """If there was such a client, its life is over; what the group still has of it counts."""
        former = self.clients.get(name)
        if former is not None and former.is_running:
            former.kill(now_ms)
        lives = (*self.former_clients, *([former] if former is not None else []))
        self.former_clients = [client for client in lives if self.model.coordinator.knows_member_id(client.member_id)]

    def _set_partitions(self, step: s.SetPartitions, now_ms: int) -> None:
        self.partitions[step.topic] = step.partitions
        self.model.set_partition_count(step.topic, step.partitions)
        for name, client in self.clients.items():
            if client.is_running:
                self._send(name, client.metadata_changed(now_ms), now_ms)

    def _remove(self, client: SimulatedClient, now_ms: int) -> Sequence[AnyEffect]:
        instance_id = client.settings.instance_id
        member_id = client.member_id if instance_id is None else ""
        # An admin's request: its answer goes to nobody here.
        leaver = LeavingMember(member_id, instance_id, RebalanceReason.ADMIN_REMOVED)
        return self._send_responses(
            self.model.coordinator.handle(LeaveGroupRequest(self.script.group, (leaver,)), ("", 0), now_ms), now_ms
        )


def member_id_suffixes(group: str, seed: int) -> Callable[[], str]:
    """Makes member ids' second half, in the form of a UUID: the same ones for the same group and seed."""

    numbers = count()

    def next_suffix() -> str:
        name = f"{seed}\0{next(numbers)}\0{group}".encode("utf-8", "surrogatepass")
        return str(UUID(bytes=blake2b(name, digest_size=16).digest()))

    return next_suffix
