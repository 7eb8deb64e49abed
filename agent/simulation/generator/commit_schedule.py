"""When which consumer of a play commits what: `auto.commit` of the Java client, over virtual time.

A consumer commits all that it holds each interval while it is in its group and polls, and once more when it gives
partitions back or closes; dead, stalled and fenced ones commit nothing. In a classic group a commit renews its
member's session, so a dead one's runs from its last commit or heartbeat, whichever came later.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import NamedTuple

from msgspec import Struct

from agent.core.protocol.assignors import Slot
from agent.simulation.groups.classic_client import ClassicPhase
from agent.simulation.groups.classic_consumer import ClassicConsumer
from agent.simulation.groups.kip848_client import Kip848Phase
from agent.simulation.groups.protocol_models import SimulatedClient
from agent.simulation.groups.script import Close, Script
from agent.simulation.groups.simulation import Simulation

_WORKING = frozenset({ClassicPhase.STABLE, Kip848Phase.STABLE, Kip848Phase.RECONCILING})
"""In these phases consumers commit from time to time."""

Slots = frozenset[Slot]


class CommitSpan(NamedTuple):
    """These partitions are committed at `first_ms` and each `every_ms` from then on, before `end_ms`."""

    first_ms: int
    every_ms: int
    end_ms: int
    slots: Slots


class _ClientState(Struct):
    """How a consumer was when last looked at."""

    client: SimulatedClient
    phase: StrEnum = ClassicPhase.STOPPED
    owned: Slots = frozenset()
    member_id: str = ""
    generation: int = -1
    down_since: int | None = None
    first_ms: int | None = None
    """When it commits next, None while it does not consume."""


class CommitSchedule:
    """Watches a world: `observe` is to be called at each of its moments, `finish` at its end.

    `every_ms` says how long each client waits from commit to commit; who is in `silent_from_ms` commits nothing from
    then on.
    """

    def __init__(self, script: Script, every_ms: Mapping[str, int], silent_from_ms: Mapping[str, int]) -> None:
        self.spans: list[CommitSpan] = []
        self._latency_ms = script.latency_ms
        self._every_ms = every_ms
        self._silent_from_ms = silent_from_ms
        self._closes = {(step.client, step.at_ms) for step in script.steps if isinstance(step, Close)}
        self._seen: dict[str, _ClientState] = {}

    def observe(self, world: Simulation, now_ms: int) -> None:
        """Take note of what happened at `now_ms`."""
        for name, client in world.clients.items():
            seen = self._seen.get(name)
            if seen is None or seen.client is not client:
                # What it was in a former life, it was told when that ended.
                seen = self._seen[name] = _ClientState(client)
            if (
                seen.phase is not client.phase
                or seen.owned is not client.owned
                or seen.down_since != client.not_polling_since_ms
            ):
                self._changed(world, name, seen, now_ms)

    def finish(self, now_ms: int) -> None:
        """End all that goes on."""
        for name, seen in self._seen.items():
            self._end(name, seen, now_ms)

    def _changed(self, world: Simulation, name: str, seen: _ClientState, now_ms: int) -> None:
        client = seen.client
        last_ms = self._end(name, seen, now_ms)
        if last_ms is not None and world.group is not None and seen.member_id in world.group.members:
            world.group.renew_session(seen.member_id, last_ms)
        arrives = now_ms + self._latency_ms
        is_known = _is_known(world, seen.member_id, seen.generation)
        if seen.owned and is_known and self._says_goodbye(name, seen, now_ms):
            self._add(name, CommitSpan(arrives, 1, arrives + 1, seen.owned))
        if client.phase in _WORKING and client.not_polling_since_ms is None and client.owned:
            # After a stall its time to commit has long come.
            is_back = seen.phase in _WORKING and seen.down_since is not None
            if _is_known(world, client.member_id, _generation(client)):
                seen.first_ms = arrives if is_back else now_ms + self._every_ms[name]
        seen.phase, seen.owned, seen.down_since = client.phase, client.owned, client.not_polling_since_ms
        seen.member_id, seen.generation = client.member_id, _generation(client)

    def _says_goodbye(self, name: str, seen: _ClientState, now_ms: int) -> bool:
        """Whether it commits what it held: before it joins again as who it was, or gives up some of it (KIP-848), and
        when it closes while it polls."""
        if seen.phase not in _WORKING:
            return False
        client = seen.client
        if client.phase is ClassicPhase.JOINING:
            return (client.member_id, _generation(client)) == (seen.member_id, seen.generation)
        if client.phase in _WORKING:
            return not seen.owned <= client.owned
        return client.phase == ClassicPhase.STOPPED and seen.down_since is None and (name, now_ms) in self._closes

    def _end(self, name: str, seen: _ClientState, now_ms: int) -> int | None:
        if seen.first_ms is None:
            return None
        span, seen.first_ms = CommitSpan(seen.first_ms, self._every_ms[name], now_ms, seen.owned), None
        return self._add(name, span)

    def _add(self, name: str, span: CommitSpan) -> int | None:
        """Have these committed; when for the last time."""
        end_ms = min(span.end_ms, self._silent_from_ms.get(name, span.end_ms))
        if span.first_ms >= end_ms:
            return None
        self.spans.append(span._replace(end_ms=end_ms))
        return range(span.first_ms, end_ms, span.every_ms)[-1]


def _is_known(world: Simulation, member_id: str, generation: int) -> bool:
    """Whether the coordinator takes commits of this member now."""
    group = world.group
    return member_id in world.model.coordinator.members and (group is None or generation == group.generation)


def _generation(client: SimulatedClient) -> int:
    """The one that it is in; who joins and commits by epochs has none."""
    return client.generation if isinstance(client, ClassicConsumer) else -1
