"""What the live agent remembers of the history, to tell of it when asked: the latest events, bounded.

The history itself goes elsewhere (a topic, files). This is memory: filled while catching up too, so that an agent
that has just started can tell all that the log still holds.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import chain

from agent.history.events import Event, event_of, in_order
from agent.shadow.transitions import Transition
from analyzers.api import Finding

PER_GROUP = 1_000
"""Events of one group: some 250 rebalances of one member each, a storm of hours. A rebalance of a hundred members
makes two hundred events, so of such groups less is kept."""

TOTAL = 50_000
"""Events of all groups: 25 for each of 2,000 groups. One takes some 650 bytes, so all take at most 36 MB. The oldest
go first, whoever's they are."""

SLACK = 0.1
"""How far over a bound it may grow before it is cut back to it: cutting takes time, so it is done seldom."""

OPEN_FINDINGS = 10_000
"""Findings that are open, kept apart: an old one that is still open must not be pushed out by news."""


class Recent:
    """The latest events by group. Not thread-safe: whoever asks holds the lock under which it is filled."""

    def __init__(self, *, cluster: str | None = None, per_group: int = PER_GROUP, total: int = TOTAL) -> None:
        self._cluster = cluster
        self._per_group, self._total = per_group, total
        # Transitions are kept as the mirror made them; an event is made of one when it is asked for.
        self._groups: dict[str | None, list[Transition | Event]] = {}
        self._size = 0
        self._complete_since: dict[str | None, int] = {}
        self._all_complete_since: int | None = None
        self._open: dict[tuple[object, ...], Event] = {}

    def __len__(self) -> int:
        return self._size

    def observe(self, items: Iterable[Transition | Finding | Event]) -> None:
        """Keep what happened, in its order; findings are kept as events."""
        for item in items:
            if isinstance(item, Finding):
                item = event_of(item, self._cluster)
            group = item["group"] if isinstance(item, dict) else item.group
            kept = self._groups.get(group)
            if kept is None:
                kept = self._groups[group] = []
            kept.append(item)
            self._size += 1
            if isinstance(item, dict):
                self._note(item)
            if len(kept) > self._per_group * (1 + SLACK):
                self._cut(group, kept, len(kept) - self._per_group)
        if self._size > self._total * (1 + SLACK):
            self._cut_all()

    def forget(self, partition: int) -> None:
        """Drop what one partition told: its records are to be read anew."""
        for group, kept in list(self._groups.items()):
            left = [item for item in kept if _place(item)[1] != partition]
            self._size -= len(kept) - len(left)
            if left:
                self._groups[group] = left
            else:
                del self._groups[group]
                self._complete_since.pop(group, None)
        self._open = {key: event for key, event in self._open.items() if event["partition"] != partition}

    def timeline(self, group: str) -> tuple[Kept, int | None]:
        """One group's events, and from when on they are all there are: None if from the beginning of the log."""
        since = self._complete_since.get(group)
        if self._all_complete_since is not None:
            since = max(since or 0, self._all_complete_since)
        return Kept(self._groups.get(group, ()), self._cluster), since

    def findings(self, group: str | None = None) -> Kept:
        """All events of findings (of one group), those of open ones at any rate."""
        groups = self._groups.values() if group is None else [self._groups.get(group, [])]
        events = [item for kept in groups for item in kept if isinstance(item, dict)]
        there = {event["event_id"] for event in events}
        held = (event for event in self._open.values() if group is None or event["group"] == group)
        return Kept([*(event for event in held if event["event_id"] not in there), *events], self._cluster)

    def _note(self, event: Event) -> None:
        """Follow which findings are open."""
        key = (event["analyzer"], event["group"], event["since_ms"])
        if event["state"] == "resolved":
            self._open.pop(key, None)
            return
        self._open[key] = event
        if len(self._open) > OPEN_FINDINGS:
            del self._open[next(iter(self._open))]

    def _cut(self, group: str | None, kept: list[Transition | Event], number: int) -> None:
        """Drop the oldest events of a group."""
        self._complete_since[group] = _place(kept[number - 1])[0] + 1
        del kept[:number]
        self._size -= number
        if not kept:
            del self._groups[group], self._complete_since[group]

    def _cut_all(self) -> None:
        """Drop the oldest events of all."""
        times = sorted(_place(item)[0] for item in chain.from_iterable(self._groups.values()))
        # What is as old as the newest that goes, goes as well: then a time says what is complete.
        last = times[self._size - self._total - 1]
        for group, kept in list(self._groups.items()):
            old = next((at for at, item in enumerate(kept) if _place(item)[0] > last), len(kept))
            if old:
                self._cut(group, kept, old)
        self._all_complete_since = max(self._all_complete_since or 0, last + 1)


class Kept:
    """Events that were picked under the lock, and are made and put in order when they are gone through."""

    def __init__(self, items: Iterable[Transition | Event], cluster: str | None) -> None:
        self._items = list(items)
        self._cluster = cluster

    def __iter__(self) -> Iterator[Event]:
        return iter(in_order(map(self._event, self._items)))

    def _event(self, item: Transition | Event) -> Event:
        return item if isinstance(item, dict) else event_of(item, self._cluster)


def _place(item: Transition | Event) -> tuple[int, int]:
    """Time and partition of an event."""
    if isinstance(item, dict):
        return item["at_ms"], item["partition"]
    return item.at.timestamp_ms, item.at.partition
