"""Virtual time: a script's clients, their coordinator, and the messages between them.

Deterministic: what happens at one moment happens in a fixed order (steps of the script, messages, what clients do by
themselves, the coordinator's timers). Hours in which members only send heartbeats cost nothing: heartbeats that could
do nothing but put off a deadline are not played one by one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from hashlib import blake2b
from heapq import heappop, heappush
from typing import Any

from agent.coordinator import script as s
from agent.coordinator.classic import ClassicGroup
from agent.coordinator.requests import Answered, Joined, LeaveGroup, Leaver, Why
from agent.coordinator.sides import SIDES, AnyEffect, ClassicSide, Client
from agent.coordinator.timers import Timers, earliest

Watch = Callable[["World", int, list[AnyEffect]], None]
"""Told after each moment: the world, the time, and what the coordinator did."""


class Endless(ValueError):
    """More happens in a script than anybody has time for: groups that time out every few milliseconds, for hours."""


class World:
    """A script on its way. `run` plays it to its end, telling `watch` of every moment at which something happened."""

    def __init__(self, script: s.Script, watch: Watch) -> None:
        self.script = script
        self.partitions = dict(script.partitions)
        self.clients: dict[str, Client] = {}
        self.fallen: list[Client] = []
        """Former lives of clients that were started again, and ended without a word."""
        self.names: dict[str, str] = {}
        """Clients by the member ids that they know of."""
        self.side = SIDES[script.protocol](script, self.partitions, ids(script.group, script.seed))
        self._watch = watch
        self._lives: dict[str, int] = {}
        self._messages: list[tuple[int, int, bool, tuple[str, int], Any]] = []
        self._sent = 0
        self._wakes = Timers()
        self._cut: dict[str, int] = {}
        self._steps = sorted(script.steps, key=lambda step: step.at_ms)
        self._next_step = 0

    @property
    def group(self) -> ClassicGroup | None:
        """The script's group, once somebody has joined it; None where it is no classic one."""
        return self.side.group if isinstance(self.side, ClassicSide) else None

    def run(self, most_moments: int | None = None) -> None:
        """Play from the first step to `until_ms`. Raises `Endless` where more happens than that."""
        moments = 0
        while (now := self._next()) is not None and now <= self.script.until_ms:
            if moments == most_moments:
                raise Endless(
                    f"{moments:,} moments at which something happens expected at most, more came by {now} ms"
                )
            moments += 1
            effects: list[AnyEffect] = []
            while self._next_step < len(self._steps) and self._steps[self._next_step].at_ms <= now:
                step = self._steps[self._next_step]
                self._next_step += 1
                effects += self._take_step(step, now)
            while self._messages and self._messages[0][0] <= now:
                effects += self._deliver(now)
            for name in self._awake(now):
                self._send(name, self.clients[name].wake(now), now)
            effects += self._did(self.side.fire(now), now)
            self._watch(self, now, effects)

    def _next(self) -> int | None:
        """When something happens next."""
        sent = self._messages[0][0] if self._messages else None
        step = self._steps[self._next_step].at_ms if self._next_step < len(self._steps) else None
        if sent is None and self._wakes.due is not None:
            # Perhaps nothing but heartbeats, for long.
            self._skip_heartbeats()
        return earliest(self._wakes.due, self.side.due, sent, step)

    def _skip_heartbeats(self) -> None:
        reached = [client for name, client in self.clients.items() if name not in self._cut]
        beating = self.side.beating(reached)
        if beating is None:
            return
        horizon = [self.script.until_ms + 1]
        for client in self.clients.values():
            due = client.due_but_heartbeats if client.member_id in beating else client.due
            if due is not None:
                horizon.append(due)
        if self._next_step < len(self._steps):
            horizon.append(self._steps[self._next_step].at_ms)
        silent = self.side.due_without(beating)
        if silent is not None:
            horizon.append(silent)
        # What is still on its way when something happens may meet with another answer.
        until = min(horizon) - self.script.latency_ms
        for member_id, client in beating.items():
            last = client.skip_heartbeats(until)
            if last is not None:
                self.side.renew(client, last, self.script.latency_ms)
                self._plan(self.names[member_id])

    def _awake(self, now: int) -> list[str]:
        """Who has something to do now, in an order that does not depend on what was skipped."""
        names = []
        while (wake := self._wakes.pop(now)) is not None:
            names.append(str(wake[0]))
        return sorted(names)

    # Messages.

    def _send(self, name: str, requests: list[Any], now: int) -> None:
        for request in requests:
            self._post(now, True, (name, self._lives[name]), request)
        member_id = self.clients[name].member_id
        if member_id:
            self.names[member_id] = name
        self._plan(name)

    def _post(self, now: int, is_request: bool, who: tuple[str, int], what: Any) -> None:
        self._sent += 1
        heappush(self._messages, (now + self.script.latency_ms, self._sent, is_request, who, what))

    def _plan(self, name: str) -> None:
        due = self.clients[name].due
        if due is None:
            self._wakes.cancel(name)
        else:
            self._wakes.set(name, due)

    def _deliver(self, now: int) -> Sequence[AnyEffect]:
        _, _, is_request, who, what = heappop(self._messages)
        if self._is_cut(who[0], now):
            return []
        if is_request:
            return self._did(self.side.handle(what, who, now), now)
        name, life = who
        if life == self._lives.get(name):
            self._send(name, self.clients[name].answered(what, now), now)
        return []

    def _did(self, effects: Sequence[AnyEffect], now: int) -> Sequence[AnyEffect]:
        for effect in effects:
            if isinstance(effect, Answered):
                assert isinstance(effect.token, tuple)
                self._post(now, False, effect.token, effect.answer)
                if isinstance(effect.answer, Joined):
                    # Its client may not live to hear of it.
                    self.names.setdefault(effect.answer.member_id, effect.token[0])
        return effects

    # The script.

    def _take_step(self, step: s.Step, now: int) -> Sequence[AnyEffect]:
        if isinstance(step, s.Grow):
            return self._grow(step, now)
        name = step.client
        if isinstance(step, s.Start):
            self._lives[name] = self._lives.get(name, -1) + 1
            self._fall(name, now)
            self.clients[name] = self.side.client(step.settings)
        client = self.clients.get(name)
        if client is None:
            raise ValueError(f"{step}: a client that was started before expected, {name!r} was not")
        match step:
            case s.CutOff():
                self._cut_off(step)
                return []
            case s.Remove():
                return self._remove(client, now)
            case s.Start():
                requests = client.start(now)
            case s.Close():
                requests = client.close(now)
            case s.Kill():
                requests = client.kill(now)
            case s.Stall():
                requests = client.stall(step.for_ms, now)
            case s.Freeze():
                requests = client.freeze(step.for_ms, now)
            case s.Resubscribe():
                requests = client.resubscribe(step.topics, now)
            case _:
                requests = client.rejoin(now)
        self._send(name, requests, now)
        return []

    def _cut_off(self, step: s.CutOff) -> None:
        if not isinstance(self.side, ClassicSide):
            raise ValueError(f"{step}: a classic group expected, {self.script.group!r} is a KIP-848 one")
        self._cut[step.client] = max(step.at_ms + step.for_ms, self._cut.get(step.client, step.at_ms))

    def _is_cut(self, name: str, now: int) -> bool:
        """Whether messages from and to this client are lost now."""
        if self._cut.get(name, now) > now:
            return True
        self._cut.pop(name, None)
        return False

    def _fall(self, name: str, now: int) -> None:
        """If there was such a client, its life is over; what the group still has of it counts."""
        former = self.clients.get(name)
        if former is not None and former.is_running:
            former.kill(now)
        lives = (*self.fallen, *([former] if former is not None else []))
        self.fallen = [client for client in lives if self.side.knows(client.member_id)]

    def _grow(self, step: s.Grow, now: int) -> Sequence[AnyEffect]:
        self.partitions[step.topic] = step.partitions
        effects = self._did(self.side.grow(step.topic, step.partitions, now), now)
        for name, client in self.clients.items():
            if client.is_running:
                self._send(name, client.metadata_changed(now), now)
        return effects

    def _remove(self, client: Client, now: int) -> Sequence[AnyEffect]:
        instance_id = client.settings.instance_id
        member_id = client.member_id if instance_id is None else ""
        # An admin's request: its answer goes to nobody here.
        leaver = Leaver(member_id, instance_id, Why.ADMIN_REMOVED)
        return self._did(self.side.handle(LeaveGroup(self.script.group, (leaver,)), ("", 0), now), now)


def ids(group: str, seed: int) -> Callable[[], str]:
    """Makes member ids' second half, in the form of a UUID: the same ones for the same group and seed."""

    def made() -> Iterator[str]:
        number = 0
        while True:
            digest = blake2b(
                f"{seed}\0{number}\0{group}".encode("utf-8", "surrogatepass"), digest_size=16
            ).hexdigest()
            yield "-".join((digest[:8], digest[8:12], digest[12:16], digest[16:20], digest[20:]))
            number += 1

    return made().__next__
