"""When which consumer of a play commits what: `auto.commit` of the Java client, over virtual time.

A consumer commits all that it holds each interval while it is in its group and polls, and once more when it gives
partitions back or closes; dead, stalled and fenced ones commit nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

from agent.coordinator.assignors import Slot
from agent.coordinator.client import Consumer
from agent.coordinator.group_client import Phase
from agent.coordinator.modern_client import ModernPhase
from agent.coordinator.script import Close, Script
from agent.coordinator.sides import Client
from agent.coordinator.world import World

_WORKING = frozenset({Phase.STABLE, ModernPhase.STABLE, ModernPhase.RECONCILING})
"""In these phases consumers commit from time to time."""

Slots = frozenset[Slot]


class Span(NamedTuple):
    """These partitions are committed at `first_ms` and each `every_ms` from then on, before `end_ms`."""

    first_ms: int
    every_ms: int
    end_ms: int
    slots: Slots


@dataclass(slots=True)
class _Seen:
    """How a consumer was when last looked at."""

    client: Client
    phase: StrEnum = Phase.STOPPED
    owned: Slots = frozenset()
    member_id: str = ""
    generation: int = -1
    down_since: int | None = None
    first_ms: int | None = None
    """When it commits next, None while it does not consume."""


class Commits:
    """Watches a world: `watch` is to be called at each of its moments, `close` at its end.

    `every_ms` says how long each client waits from commit to commit; who is in `silent_from_ms` commits nothing from
    then on.
    """

    def __init__(self, script: Script, every_ms: Mapping[str, int], silent_from_ms: Mapping[str, int]) -> None:
        self.spans: list[Span] = []
        self._latency_ms = script.latency_ms
        self._every_ms = every_ms
        self._silent_from_ms = silent_from_ms
        self._closes = {(step.client, step.at_ms) for step in script.steps if isinstance(step, Close)}
        self._seen: dict[str, _Seen] = {}

    def watch(self, world: World, now: int) -> None:
        """Take note of what happened at `now`."""
        for name, client in world.clients.items():
            seen = self._seen.get(name)
            if seen is None or seen.client is not client:
                # What it was in a former life, it was told when that ended.
                seen = self._seen[name] = _Seen(client)
            if (
                seen.phase is not client.phase
                or seen.owned is not client.owned
                or seen.down_since != client.down_since
            ):
                self._changed(world, name, seen, now)

    def close(self, now: int) -> None:
        """End all that goes on."""
        for name, seen in self._seen.items():
            self._end(name, seen, now)

    def _changed(self, world: World, name: str, seen: _Seen, now: int) -> None:
        client = seen.client
        self._end(name, seen, now)
        arrives = now + self._latency_ms
        if seen.owned and self._says_goodbye(name, seen, now) and _is_known(world, seen.member_id, seen.generation):
            self._add(name, Span(arrives, 1, arrives + 1, seen.owned))
        if client.phase in _WORKING and client.down_since is None and client.owned:
            # After a stall its time to commit has long come.
            is_back = seen.phase in _WORKING and seen.down_since is not None
            if _is_known(world, client.member_id, _generation(client)):
                seen.first_ms = arrives if is_back else now + self._every_ms[name]
        seen.phase, seen.owned, seen.down_since = client.phase, client.owned, client.down_since
        seen.member_id, seen.generation = client.member_id, _generation(client)

    def _says_goodbye(self, name: str, seen: _Seen, now: int) -> bool:
        """Whether it commits what it held: before it joins again as who it was, or gives up some of it (KIP-848), and
        when it closes while it polls."""
        if seen.phase not in _WORKING:
            return False
        client = seen.client
        if client.phase is Phase.JOINING:
            return (client.member_id, _generation(client)) == (seen.member_id, seen.generation)
        if client.phase in _WORKING:
            return not seen.owned <= client.owned
        return client.phase == Phase.STOPPED and seen.down_since is None and (name, now) in self._closes

    def _end(self, name: str, seen: _Seen, now: int) -> None:
        if seen.first_ms is not None:
            self._add(name, Span(seen.first_ms, self._every_ms[name], now, seen.owned))
            seen.first_ms = None

    def _add(self, name: str, span: Span) -> None:
        end_ms = min(span.end_ms, self._silent_from_ms.get(name, span.end_ms))
        if span.first_ms < end_ms:
            self.spans.append(span._replace(end_ms=end_ms))


def _is_known(world: World, member_id: str, generation: int) -> bool:
    """Whether the coordinator takes commits of this member now."""
    group = world.group
    return world.side.has(member_id) and (group is None or generation == group.generation)


def _generation(client: Client) -> int:
    """The one that it is in; who joins and commits by epochs has none."""
    return client.generation if isinstance(client, Consumer) else -1
