"""What the live agent remembers of the history, to tell of it when asked: the latest events, bounded.

The history itself goes elsewhere (a topic, files). This is memory: filled while catching up too, so that an agent
that has just started can tell all that the log still holds. It is kept by partition of the topic, so that one can be
forgotten, kept on disk and given back without the others.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from itertools import chain
from operator import attrgetter
from sys import getsizeof
from typing import Any, ClassVar, NamedTuple

import msgspec
from msgspec import Struct

from agent.common.interning import Interner
from agent.core.diagnosis.api import Finding
from agent.core.events.events import Event, event_of, sort_events
from agent.core.inference.facts import Evidence
from agent.core.shadow.transitions import (
    MemberJoined,
    MemberLeft,
    OffsetsDeleted,
    Rebalanced,
    StaticMemberReplaced,
    Transition,
)
from agent.core.shadow.views import Member
from agent.core.state_fields import StateFields

MAX_EVENTS_PER_GROUP = 1_000
"""Events of one group: some 250 rebalances of one member each, a storm of hours. A rebalance of a hundred members
makes two hundred events, so of such groups less is kept."""

EVENT_BYTES, MEMBER_BYTES, PARTITION_BYTES, TOPIC_BYTES = 400, 300, 40, 100
"""What an event takes, each member in it more, each partition that one held or topic of a long subscription, and each
topic that its evidence names; names that are longer than names commonly are count besides."""

_COMMON_TOPICS = 50
"""Shorter subscriptions are mostly one object in all members of an application."""

MAX_BYTES = 50_000 * (EVENT_BYTES + MEMBER_BYTES)
"""Of the events of all groups, by estimate: 25 events for each of 2,000 groups. Those that have most lose most."""

RECENT_GROUPS = 1_000
"""Where there are so many groups that each could keep less than a part in so many, half of the bytes is shared
equally, and the other half is for the groups of which something came last, up to such a part for each: enough to know
a rollout of a dozen members from its beginning, in a cluster of any size."""

SLACK = 0.1
"""How far over a bound it may grow before it is cut back to it: cutting takes time, so it is done seldom."""

MAX_OPEN_FINDINGS = 10_000
"""Findings that are open, kept apart: an old one that is still open must not be pushed out by news."""

MAX_OPEN_BYTES = 16 << 20
"""Of those, likewise; the largest go first."""

_COMMON_NAME, _JSON_BYTES = 100, 150

_one_size: Interner[int] = Interner(1_024)

GroupKey = tuple[int | None, str | None]
"""A partition of the topic, and a group."""

EventForm = Transition | Event | bytes
"""What is kept of an event: what the mirror made, or its JSON, or the event itself where JSON cannot say it."""


class RecentEvent:
    """One event that is remembered. Its form may change, and what it says does not."""

    __slots__ = ("at_ms", "form", "is_finding", "size")

    def __init__(self, at_ms: int, form: EventForm, is_finding: bool) -> None:
        self.at_ms, self.form, self.is_finding = at_ms, form, is_finding
        self.size = _one_size[estimated_bytes(form)]
        """What it takes at most, in whatever form, by estimate."""

    def encoded(self) -> bytes:
        """The event as JSON, which it is kept as from then on: so that this costs something once.

        May be called without the lock: it replaces one form by another that says the same.
        """
        form = self.form
        if isinstance(form, bytes):
            return form
        # Of one whose origins are not settled more may come to be known.
        if isinstance(form, dict):
            return _json(form)
        is_final = form.origins is None or form.origins.is_settled
        encoded = _json(event_of(form))
        if is_final and len(encoded) <= self.size:
            self.form = encoded
        return encoded


_size_of: Callable[[RecentEvent | GroupEvents], int] = attrgetter("size")


def _bytes_of(items: Iterable[RecentEvent | GroupEvents]) -> int:
    return sum(map(_size_of, items))


class GroupEvents(list[RecentEvent]):
    """The events of one group, in their order, and what they take."""

    __slots__ = ("size",)

    def __init__(self, events: Iterable[RecentEvent] = ()) -> None:
        super().__init__(events)
        self.size = _bytes_of(self)


def _json(event: Event) -> bytes:
    return msgspec.json.encode(event, enc_hook=str)


def estimated_bytes(form: EventForm) -> int:
    """Bytes that an event takes, as what it is or as JSON: members, and what they held, are kept with it."""
    if isinstance(form, bytes):
        return _JSON_BYTES + len(form)
    if isinstance(form, dict):
        return EVENT_BYTES + len(repr(form))
    size = EVENT_BYTES + _excess(form.group)
    match form:
        case Rebalanced():
            size += _excess(form.protocol) + sum(map(member_bytes, form.joined + form.left))
            size += sum(map(_evidence_bytes, form.inferred.evidence))
        case MemberJoined() | MemberLeft():
            size += member_bytes(form.member)
        case StaticMemberReplaced():
            size += member_bytes(form.old) + member_bytes(form.new)
        case OffsetsDeleted():
            size += _excess(form.topic)
    return size


def _evidence_bytes(said: Evidence) -> int:
    """Bytes that one item of evidence takes besides: of a member there may be as many topics as a record can name."""
    topics = [found for key in ("added", "removed", "topics") if (found := said.get(key))]
    texts = [it for it in said.values() if isinstance(it, str)]
    return TOPIC_BYTES * sum(map(len, topics)) + _excess(*texts, *chain.from_iterable(topics))


def member_bytes(member: Member) -> int:
    """Bytes that a member takes, by estimate: what it holds, and its names where they are long, are kept with it."""
    names = (member.member_id, member.client_id, member.client_host, member.instance_id, member.subscription_regex)
    held = (member.assignment, member.target, member.standby_tasks, member.warmup_tasks, member.owned)
    some = [topics for topics in held if topics]
    partitions = sum([sum(map(len, topics.values())) for topics in some])
    excess = _excess(*names, *member.subscription, *chain.from_iterable(some))
    # A member is in several events, so its topics may count for half of what they take.
    topics = max(len(member.subscription) - _COMMON_TOPICS, 0)
    return MEMBER_BYTES + PARTITION_BYTES * (partitions + topics) + excess


def _excess(*names: str | None) -> int:
    """What names take that are longer than names are."""
    return sum([getsizeof(name) for name in names if name is not None and len(name) > _COMMON_NAME])


class NotedEvent(NamedTuple):
    """An event of a partition and a group, to be kept; `finding` is the event itself where it is a finding's."""

    partition: int | None
    group: str | None
    item: RecentEvent
    finding: Event | None


def _noted(it: Transition | Finding | Event) -> NotedEvent:
    # Transitions are kept as the mirror made them; an event is made of one when it is asked for.
    if isinstance(it, Transition):
        return NotedEvent(it.at.partition, it.group, RecentEvent(it.at.timestamp_ms, it, False), None)
    event = event_of(it) if isinstance(it, Finding) else it
    form: EventForm = event
    # What cannot be written is said by who writes.
    with suppress(OverflowError, UnicodeEncodeError):
        form = _json(event)
    number = it.at.partition if isinstance(it, Finding) else event["partition"]
    return NotedEvent(number, event["group"], RecentEvent(event["at_ms"], form, True), event)


OpenKey = tuple[str, str | None, int]
"""Which finding it is: analyzer, group, since when."""


PackedEvents = tuple[
    list[tuple[str | None, int | None, tuple[list[int], list[bool], list[bytes]]]],
    int | None,
    list[tuple[OpenKey, int, bytes]],
]
"""By group its name, since when its events are all, and in columns times, whether they are findings, JSON; since when
the events of all groups are all; the open findings."""


class OpenFindings(NamedTuple):
    """How many findings are open (more), and what they take."""

    findings: int
    bytes: int


class PartitionRecentEvents:
    """What is remembered of one partition."""

    STATE: ClassVar = StateFields(
        {
            "groups": dict[str | None, GroupEvents],
            "complete_since": dict[str | None, int],
            "all_complete_since": int | None,
            "open": dict[OpenKey, RecentEvent],
        },
        packed=PackedEvents,
    )

    __slots__ = ("all_complete_since", "complete_since", "findings_complete_since", "groups", "open")

    def __init__(self) -> None:
        self.groups: dict[str | None, GroupEvents] = {}
        self.complete_since: dict[str | None, int] = {}
        """Of groups whose older events were let go: from when on these are all."""
        self.all_complete_since: int | None = None
        """The same, of groups of which nothing is left."""
        self.findings_complete_since: int | None = None
        """From when on every finding that was told is here; an image says only since when all events are."""
        self.open: dict[OpenKey, RecentEvent] = {}

    def __len__(self) -> int:
        return sum(map(len, self.groups.values()))

    def items(self) -> Iterable[RecentEvent]:
        """Every event."""
        return chain.from_iterable(self.groups.values())

    def cut(self, group: str | None, number: int, clock_ms: int | None = None) -> None:
        """Drop the oldest events of a group. `clock_ms`: what time it is in the log, if that is known; times that
        strangers wrote may be years ahead."""
        kept = self.groups[group]
        newest_ms = max(it.at_ms for it in kept[:number])
        since = 1 + (newest_ms if clock_ms is None else min(newest_ms, clock_ms))
        since = self.complete_since[group] = max(since, self.complete_since.get(group, since))
        for item in kept[:number]:
            kept.size -= item.size
            if item.is_finding:
                self._let_go_finding(item)
        del kept[:number]
        if not kept:
            del self.groups[group], self.complete_since[group]
            self.all_complete_since = max(self.all_complete_since or 0, since)

    def drop_open(self, key: OpenKey) -> OpenFindings:
        """Let go of an open finding; by how much they are more now."""
        gone = self.open.pop(key)
        self._let_go_finding(gone)
        return OpenFindings(-1, -gone.size)

    def _let_go_finding(self, item: RecentEvent) -> None:
        self.findings_complete_since = max(self.findings_complete_since or 0, item.at_ms + 1)

    def track_open_finding(self, event: Event, item: RecentEvent) -> OpenFindings:
        """Follow which findings are open; by how much they are more now."""
        key = (event["analyzer"], event["group"], event["since_ms"])
        before = self.open.get(key)
        gone = OpenFindings(0, 0) if before is None else OpenFindings(-1, -before.size)
        if event["state"] == "resolved":
            self.open.pop(key, None)
            return gone
        self.open[key] = item
        return OpenFindings(gone.findings + 1, gone.bytes + item.size)

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
    def from_state(cls, packed: PackedEvents) -> PartitionRecentEvents:
        """The events that were packed. Raises `ValueError` for what is none."""
        groups, all_complete_since, opened = packed
        out = cls()
        out.all_complete_since = all_complete_since
        findings: dict[bytes, RecentEvent] = {}
        for name, complete_since, (times, are_findings, forms) in groups:
            if not len(times) == len(forms) == len(are_findings) > 0:
                raise ValueError("expected columns of one length")
            events = out.groups[name] = GroupEvents(map(RecentEvent, times, forms, are_findings))
            for event, form in zip(events, forms, strict=True):
                _check_event(form)
                if event.is_finding:
                    findings[form] = event
            if complete_since is not None:
                out.complete_since[name] = complete_since
        bounds = (*out.complete_since.values(), all_complete_since)
        out.findings_complete_since = max((it for it in bounds if it is not None), default=None)
        for key, at_ms, form in opened:
            _check_event(form)
            out.open[key] = findings.get(form) or RecentEvent(at_ms, form, True)
        return out


class _EveryEvent(Struct):
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
        self,
        *,
        cluster: str | None = None,
        per_group: int = MAX_EVENTS_PER_GROUP,
        total_bytes: int = MAX_BYTES,
        clock_ms: Callable[[int], int | None] = lambda _: None,
    ) -> None:
        """`clock_ms` tells of a partition what time it is in its log."""
        self._cluster, self._clock_ms = cluster, clock_ms
        self._per_group, self._total_bytes = per_group, total_bytes
        self.partitions: dict[int | None, PartitionRecentEvents] = {}
        """By partition of the topic; under None what is of no group."""
        self.bytes = 0
        """What the events take, by estimate."""
        self._open = self._open_bytes = 0
        self._groups: dict[GroupKey, GroupEvents] = {}
        """The groups of all partitions, that of which something came last at the end."""

    def __len__(self) -> int:
        return sum(map(len, self.partitions.values()))

    def observe(self, items: Iterable[Transition | Finding | Event]) -> None:
        """Keep what happened, in its order; findings are kept as JSON."""
        self.keep(self.note(items))

    def note(self, items: Iterable[Transition | Finding | Event]) -> list[NotedEvent]:
        """What `keep` is to keep of what happened; needs no lock."""
        return list(map(_noted, items))

    def keep(self, noted: Iterable[NotedEvent]) -> None:
        """Keep what was noted, in its order."""
        for number, group, item, finding in noted:
            partition = self._keep(number, group, item)
            if finding is None:
                continue
            self._note_open(partition.track_open_finding(finding, item))
            while self._open > MAX_OPEN_FINDINGS or self._open_bytes > MAX_OPEN_BYTES:
                self._drop_open()

    def _note_open(self, change: OpenFindings) -> None:
        self._open += change.findings
        self._open_bytes += change.bytes

    def _drop_open(self) -> None:
        """Let go of an open finding: the oldest where most are, or the largest of all where it is for that."""
        if self._open > MAX_OPEN_FINDINGS:
            place = max(self.partitions.values(), key=lambda it: len(it.open))
            key = next(iter(place.open))
        else:
            place, key = max(
                ((it, key) for it in self.partitions.values() for key in it.open),
                key=lambda found: found[0].open[found[1]].size,
            )
        self._note_open(place.drop_open(key))

    def _keep(self, number: int | None, group: str | None, item: RecentEvent) -> PartitionRecentEvents:
        key = place, _ = None if group is None else number, group
        partition = self.partitions.get(place)
        if partition is None:
            partition = self.partitions[place] = PartitionRecentEvents()
        kept = self._groups.pop(key, None)
        if kept is None:
            kept = partition.groups[group] = GroupEvents()
            if partition.all_complete_since is not None:
                partition.complete_since[group] = partition.all_complete_since
        self._groups[key] = kept
        kept.append(item)
        kept.size += item.size
        self.bytes += item.size
        if len(kept) > self._per_group * (1 + SLACK):
            self._cut(key, len(kept) - self._per_group)
        if self.bytes > self._total_bytes * (1 + SLACK):
            self._cut_all()
        return partition

    def put(self, partition: int | None, kept: PartitionRecentEvents) -> None:
        """Give back what a partition told, in place of what is there."""
        self.forget(partition)
        self.partitions[partition] = kept
        self._groups |= {(partition, group): events for group, events in kept.groups.items()}
        self.bytes += _bytes_of(kept.groups.values())
        self._note_open(OpenFindings(len(kept.open), _bytes_of(kept.open.values())))
        if self.bytes > self._total_bytes * (1 + SLACK):
            self._cut_all()

    def forget(self, partition: int | None) -> None:
        """Drop what one partition told: its records are to be read anew, or by somebody else."""
        gone = self.partitions.pop(partition, None)
        if gone is not None:
            for group, events in gone.groups.items():
                del self._groups[partition, group]
                self.bytes -= events.size
            self._note_open(OpenFindings(-len(gone.open), -_bytes_of(gone.open.values())))

    def timeline(self, group: str) -> tuple[EventSelection, int | None]:
        """One group's events, and from when on they are all there are: None if from the beginning of the log."""
        holding = [it for it in self.partitions.values() if group in it.groups]
        items = chain.from_iterable(it.groups[group] for it in holding)
        bounds = [it.complete_since.get(group) for it in holding]
        if not holding:
            bounds = [it.all_complete_since for it in self.partitions.values()]
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

    def findings_complete_since(self, group: str | None = None) -> int | None:
        """From when on every finding (of one group) that was told is here: None if from the beginning of the log."""
        bounds = [it.findings_complete_since for it in self.partitions.values()]
        since = max((it for it in bounds if it is not None), default=None)
        if group is None or since is None:
            return since
        _, events_since = self.timeline(group)
        return None if events_since is None else min(since, events_since)

    def _cut(self, key: GroupKey, number: int) -> None:
        """Drop the oldest events of a group."""
        (place, group), kept = key, self._groups[key]
        self.bytes -= kept.size
        self.partitions[place].cut(group, number, None if place is None else self._clock_ms(place))
        self.bytes += kept.size
        if not kept:
            del self._groups[key]

    def _cut_all(self) -> None:
        """Drop the oldest events of the groups that have most, down to one level for all of them, or for all but
        those of which something came last (`RECENT_GROUPS`). What an event says of its time has no say in that, nor
        what other groups do, as long as there is room for one event of each."""
        sizes = sorted(map(_size_of, self._groups.values()), reverse=True)
        level, of_recent = _level(sizes, self.bytes - self._total_bytes), self._total_bytes / RECENT_GROUPS
        if level < of_recent:
            level = _level(sizes, self.bytes - self._total_bytes / 2)
        # One event of each is kept, however large: tens of thousands that have no other are not gone through.
        over = [(key, kept) for key, kept in self._groups.items() if kept.size > level and len(kept) > 1]
        left = self._total_bytes - self.bytes + sum(kept.size - max(level, kept[-1].size) for _, kept in over)
        for key, kept in reversed(over):
            most = max(level, min(kept.size, of_recent))
            left -= max(most - max(level, kept[-1].size), 0)
            size, number = kept.size, 0
            while size > (level if left < 0 else most) and number < len(kept) - 1:
                size -= kept[number].size
                number += 1
            if number:
                self._cut(key, number)
        for key in list(self._groups):
            if self.bytes <= self._total_bytes:
                break
            self._cut(key, len(self._groups[key]))


def _level(descending: Sequence[int], excess: float) -> float:
    """Down to where the largest of these sizes are cut, so that all of them are less by `excess`."""
    left = -excess
    for number, size in enumerate(descending):
        if left >= number * size and number:
            return left / number
        left += size
    return left / len(descending)


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
