"""One group as it is watched: its form, its events put together over many answers, what moved, its lag over time."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from typing import Any

from msgspec import Struct

from agent.cli.following import OVERLAP_MS
from agent.cli.tui.fleet import JsonView, Key
from agent.presentation.narrative.timeline import TimelineEntry, timeline_entries

PartitionKey = tuple[str, int]
"""A topic and one of its partitions; of Connect groups, a connector and one of its tasks."""

MAX_EVENTS = 1_000
"""Events of a group that are kept to be shown: the newest."""
MAX_POINTS = 512
"""Points of lag that are kept of a group: the newest."""

LagPoints = Sequence[tuple[int, int | None]]


class GroupState(Struct, frozen=True):
    """A group as it is shown. `form` is None where it is gone; `moved` are the partitions whose member changed
    with its latest generation; `moves_known` says whether that one was seen to come."""

    key: Key
    form: JsonView | None
    entries: tuple[TimelineEntry, ...] = ()
    findings: tuple[JsonView, ...] = ()
    moved: frozenset[PartitionKey] = frozenset()
    moves_known: bool = False
    lag: LagPoints = ()
    at_ms: int = 0
    complete_since_ms: int | None = None


class PartitionMoves:
    """Which partitions have another member than before the generation last changed."""

    def __init__(self) -> None:
        self._owners: dict[PartitionKey, str] | None = None
        self._generation: int | None = None
        self.moved: frozenset[PartitionKey] = frozenset()
        self.known = False

    def update(self, members: Sequence[JsonView], generation: int) -> None:
        """The members as they are now."""
        now = partition_owners(members)
        was, self._owners = self._owners, now
        before, self._generation = self._generation, generation
        if was is None:
            return
        moved = frozenset(place for place, member in now.items() if was.get(place) != member)
        if before != generation:
            self.moved, self.known = moved, True
        elif moved:
            # Newer group types hand partitions over one by one, within one epoch.
            self.moved, self.known = self.moved | moved, True


def partition_owners(members: Sequence[JsonView]) -> dict[PartitionKey, str]:
    """Who holds each partition."""
    return {
        (topic, partition): member["member_id"]
        for member in members
        for topic, partitions in member["assignment"].items()
        for partition in partitions
    }


class EventHistory:
    """A group's events, from many answers that overlap."""

    def __init__(self) -> None:
        self._events: dict[str, dict[str, Any]] = {}
        self.complete_since_ms: int | None = None
        self._entries: tuple[TimelineEntry, ...] = ()
        self._stale = False

    def since_ms(self, now_ms: int) -> int | None:
        """From when on to ask, some time before the newest there is: events come in the order of the log, not of
        time, and what happened to pods is told later. What a broker dated ahead must not keep what comes next from
        being asked for. None before the first answer."""
        newest_ms = max((event["at_ms"] for event in self._events.values()), default=None)
        return None if newest_ms is None else min(newest_ms, now_ms) - OVERLAP_MS

    def add(self, events: Sequence[dict[str, Any]], complete_since_ms: int | None) -> None:
        """An answer. What is there already comes to nothing, unless more is known of it."""
        if not self._events:
            self.complete_since_ms = complete_since_ms
        for event in events[-MAX_EVENTS:]:
            if self._events.get(event["event_id"]) != event:
                self._events[event["event_id"]] = event
                self._stale = True
        while len(self._events) > MAX_EVENTS:
            gone = self._events.pop(next(iter(self._events)))
            self.complete_since_ms = gone["at_ms"] + 1

    @property
    def entries(self) -> tuple[TimelineEntry, ...]:
        """The timeline's lines, the oldest first."""
        if self._stale:
            self._stale = False
            self._entries = tuple(timeline_entries(self._events.values()))
        return self._entries


class LagHistory:
    """Lag of each group over time; of groups whose lag was never known, nothing."""

    def __init__(self) -> None:
        self._points: dict[Key, deque[tuple[int, int | None]]] = {}

    def record(self, lags: Mapping[Key, int | None], at_ms: int) -> None:
        """A look at all groups."""
        for key, lag in lags.items():
            points = self._points.get(key)
            if points is None:
                if lag is None:
                    continue
                points = self._points[key] = deque(maxlen=MAX_POINTS)
            points.append((at_ms, lag))
        for key in [key for key in self._points if key not in lags]:
            del self._points[key]

    def points(self, key: Key) -> LagPoints:
        """The oldest first."""
        return tuple(self._points.get(key, ()))
