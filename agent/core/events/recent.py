"""What the live agent remembers of the history, to tell of it when asked: the latest events, bounded.

The history itself goes elsewhere (a topic, files). This is memory: filled while catching up too, so that an agent
that has just started can tell all that the log still holds. It is kept by partition of the topic, so that one can be
forgotten, kept on disk and given back without the others.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import chain
from typing import Any, ClassVar

import msgspec

from agent.core.diagnosis.api import Finding
from agent.core.events.events import Event, event_of, sort_events
from agent.core.shadow.transitions import Transition
from agent.core.state_fields import StateFields

MAX_EVENTS_PER_GROUP = 1_000
"""Events of one group: some 250 rebalances of one member each, a storm of hours. A rebalance of a hundred members
makes two hundred events, so of such groups less is kept."""

MAX_EVENTS = 50_000
"""Events of all groups: 25 for each of 2,000 groups. One takes some 700 bytes, so all take at most 39 MB. The oldest
go first, whoever's they are."""

SLACK = 0.1
"""How far over a bound it may grow before it is cut back to it: cutting takes time, so it is done seldom."""

MAX_OPEN_FINDINGS = 10_000
"""Findings that are open, kept apart: an old one that is still open must not be pushed out by news."""

EventForm = Transition | Event | bytes
"""What is kept of an event: what the mirror made, the event itself, or its JSON."""


class RecentEvent:
    """One event that is remembered. Its form may change, and what it says does not."""

    __slots__ = ("at_ms", "form", "is_finding")

    def __init__(self, at_ms: int, form: EventForm, is_finding: bool) -> None:
        self.at_ms, self.form, self.is_finding = at_ms, form, is_finding

    def encoded(self) -> bytes:
        """The event as JSON, which it is kept as from then on: so that this costs something once.

        May be called without the lock: it replaces one form by another that says the same.
        """
        form = self.form
        if isinstance(form, bytes):
            return form
        # Of one whose origins are not settled more may come to be known.
        is_final = isinstance(form, dict) or form.origins is None or form.origins.is_settled
        encoded = msgspec.json.encode(form if isinstance(form, dict) else event_of(form), enc_hook=str)
        if is_final:
            self.form = encoded
        return encoded


OpenKey = tuple[str, str | None, int]
"""Which finding it is: analyzer, group, since when."""


PackedEvents = tuple[
    list[tuple[str | None, int | None, tuple[list[int], list[bool], list[bytes]]]],
    int | None,
    list[tuple[OpenKey, int, bytes]],
]
"""By group its name, since when its events are all, and in columns times, whether they are findings, JSON; since when
the events of all groups are all; the open findings."""


class PartitionRecentEvents:
    """What is remembered of one partition."""

    STATE: ClassVar = StateFields(
        {
            "groups": dict[str | None, list[RecentEvent]],
            "complete_since": dict[str | None, int],
            "all_complete_since": int | None,
            "open": dict[OpenKey, RecentEvent],
        },
        packed=PackedEvents,
    )

    __slots__ = ("all_complete_since", "complete_since", "groups", "open")

    def __init__(self) -> None:
        self.groups: dict[str | None, list[RecentEvent]] = {}
        self.complete_since: dict[str | None, int] = {}
        """Of groups whose older events were let go: from when on these are all."""
        self.all_complete_since: int | None = None
        """The same, of all groups, from when the oldest of all went."""
        self.open: dict[OpenKey, RecentEvent] = {}

    def __len__(self) -> int:
        return sum(map(len, self.groups.values()))

    def items(self) -> Iterable[RecentEvent]:
        """Every event."""
        return chain.from_iterable(self.groups.values())

    def cut(self, group: str | None, kept: list[RecentEvent], number: int) -> None:
        """Drop the oldest events of a group."""
        self.complete_since[group] = kept[number - 1].at_ms + 1
        del kept[:number]
        if not kept:
            del self.groups[group], self.complete_since[group]

    def track_open_finding(self, event: Event, item: RecentEvent) -> int:
        """Follow which findings are open; by how many they are more now."""
        before = len(self.open)
        key = (event["analyzer"], event["group"], event["since_ms"])
        if event["state"] == "resolved":
            self.open.pop(key, None)
        else:
            self.open[key] = item
        return len(self.open) - before

    def pack_state(self) -> Any:
        """As `PackedEvents`, but for the events: those are encoded as the image is, without the lock."""
        groups = [
            (
                name,
                self.complete_since.get(name),
                ([it.at_ms for it in events], [it.is_finding for it in events], list(events)),
            )
            for name, events in self.groups.items()
        ]
        return groups, self.all_complete_since, [(key, it.at_ms, it) for key, it in self.open.items()]

    @classmethod
    def from_state(cls, packed: PackedEvents, slots: object) -> PartitionRecentEvents:
        """The events that were packed. Raises `ValueError` for what is none."""
        groups, all_complete_since, opened = packed
        out = cls()
        out.all_complete_since = all_complete_since
        findings: dict[bytes, RecentEvent] = {}
        for name, complete_since, (times, are_findings, forms) in groups:
            if not len(times) == len(forms) == len(are_findings) > 0:
                raise ValueError("expected columns of one length")
            events = out.groups[name] = list(map(RecentEvent, times, forms, are_findings))
            for event, form in zip(events, forms, strict=True):
                _check_event(form)
                if event.is_finding:
                    findings[form] = event
            if complete_since is not None:
                out.complete_since[name] = complete_since
        for key, at_ms, form in opened:
            _check_event(form)
            out.open[key] = findings.get(form) or RecentEvent(at_ms, form, True)
        return out


class _EveryEvent(msgspec.Struct):
    """What every event has."""

    type: str
    group: str | None
    at_ms: int
    partition: int | None
    offset: int | None


_check_event = msgspec.json.Decoder(_EveryEvent).decode


class RecentEvents:
    """The latest events by group. Not thread-safe: whoever asks holds the lock under which it is filled."""

    def __init__(
        self, *, cluster: str | None = None, per_group: int = MAX_EVENTS_PER_GROUP, total: int = MAX_EVENTS
    ) -> None:
        self._cluster = cluster
        self._per_group, self._total = per_group, total
        self.partitions: dict[int | None, PartitionRecentEvents] = {}
        """By partition of the topic; under None what is of no group."""
        self._size = 0
        self._open = 0

    def __len__(self) -> int:
        return self._size

    def observe(self, items: Iterable[Transition | Finding | Event]) -> None:
        """Keep what happened, in its order; findings are kept as events."""
        for it in items:
            # Transitions are kept as the mirror made them; an event is made of one when it is asked for.
            if isinstance(it, Transition):
                self._keep(it.at.partition, it.group, RecentEvent(it.at.timestamp_ms, it, False))
                continue
            event = event_of(it) if isinstance(it, Finding) else it
            item = RecentEvent(event["at_ms"], event, True)
            number = it.at.partition if isinstance(it, Finding) else event["partition"]
            partition = self._keep(number, event["group"], item)
            self._open += partition.track_open_finding(event, item)
            if self._open > MAX_OPEN_FINDINGS:
                most = max(self.partitions.values(), key=lambda it: len(it.open))
                del most.open[next(iter(most.open))]
                self._open -= 1

    def _keep(self, number: int | None, group: str | None, item: RecentEvent) -> PartitionRecentEvents:
        place = None if group is None else number
        partition = self.partitions.get(place)
        if partition is None:
            partition = self.partitions[place] = PartitionRecentEvents()
        kept = partition.groups.get(group)
        if kept is None:
            kept = partition.groups[group] = []
        kept.append(item)
        self._size += 1
        if len(kept) > self._per_group * (1 + SLACK):
            self._size -= len(kept) - self._per_group
            partition.cut(group, kept, len(kept) - self._per_group)
        if self._size > self._total * (1 + SLACK):
            self._cut_all()
        return partition

    def put(self, partition: int | None, kept: PartitionRecentEvents) -> None:
        """Give back what a partition told, in place of what is there."""
        self.forget(partition)
        self.partitions[partition] = kept
        self._size += len(kept)
        self._open += len(kept.open)
        if self._size > self._total * (1 + SLACK):
            self._cut_all()

    def forget(self, partition: int | None) -> None:
        """Drop what one partition told: its records are to be read anew, or by somebody else."""
        gone = self.partitions.pop(partition, None)
        if gone is not None:
            self._size -= len(gone)
            self._open -= len(gone.open)

    def timeline(self, group: str) -> tuple[EventSelection, int | None]:
        """One group's events, and from when on they are all there are: None if from the beginning of the log."""
        partitions = self.partitions.values()
        items = chain.from_iterable(it.groups.get(group, ()) for it in partitions)
        bounds = [bound for it in partitions for bound in (it.complete_since.get(group), it.all_complete_since)]
        return EventSelection(items, self._cluster), max((it for it in bounds if it is not None), default=None)

    def findings(self, group: str | None = None) -> EventSelection:
        """All events of findings (of one group), those of open ones at any rate."""
        partitions = self.partitions.values()
        if group is None:
            items = [item for it in partitions for item in it.items() if item.is_finding]
        else:
            items = [item for it in partitions for item in it.groups.get(group, ()) if item.is_finding]
        there = set(map(id, items))
        held = (item for it in partitions for key, item in it.open.items() if group is None or key[1] == group)
        return EventSelection([*(item for item in held if id(item) not in there), *items], self._cluster)

    def _cut_all(self) -> None:
        """Drop the oldest events of all."""
        times = sorted(item.at_ms for it in self.partitions.values() for item in it.items())
        # What is as old as the newest that goes, goes as well: then a time says what is complete.
        last = times[self._size - self._total - 1]
        for partition in self.partitions.values():
            for group, kept in list(partition.groups.items()):
                old = next((at for at, item in enumerate(kept) if item.at_ms > last), len(kept))
                if old:
                    self._size -= old
                    partition.cut(group, kept, old)
            partition.all_complete_since = max(partition.all_complete_since or 0, last + 1)


class EventSelection:
    """Events that were picked under the lock, and are made and put in order when they are gone through."""

    def __init__(self, items: Iterable[RecentEvent], cluster: str | None) -> None:
        self._items = list(items)
        self._cluster = cluster

    def __iter__(self) -> Iterator[Event]:
        return iter(sort_events(map(self._event, self._items)))

    def _event(self, item: RecentEvent) -> Event:
        form = item.form
        if isinstance(form, Transition):
            return event_of(form, self._cluster)
        event: Event = msgspec.json.decode(form) if isinstance(form, bytes) else form
        # What the reader calls the cluster is no part of what is kept: it may be called otherwise the next time.
        return event if self._cluster is None else event | {"cluster": self._cluster}
