"""History events as the story reads them: typed, and what a file or an agent may leave out as None.

An event is a flat dict of the history's schema 1 (`agent.core.events.events`). Kinds of causes and of evidence may be
added at any time, so none is an error here.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import msgspec
from msgspec import Struct

from agent.core.causes import Cause
from agent.core.events.events import EVENT_CLASSES, FINDING, HistoryEvent
from agent.core.events.events import Event as Event
from agent.core.inference.origins import Origin
from agent.core.protocol.client_libraries import UNKNOWN

Evidence = Mapping[str, Any]

NOT_LIKE_IT = (msgspec.ValidationError, UnicodeEncodeError)
"""What msgspec raises for JSON that is not of a type; the second where a lone surrogate stands for something else."""


class MemberRef(NamedTuple):
    """A member as an event names it."""

    member_id: str
    client_id: str
    host: str
    instance_id: str | None
    library: str = UNKNOWN
    origin: Origin | None = None
    """What happened to its pod, where somebody watches Kubernetes."""

    @property
    def label(self) -> str:
        """What people call it: its client id, or the member id where it has none."""
        return self.client_id or self.member_id


class Departure(NamedTuple):
    """A member that left, how, and the evidence for it; `observed` where somebody saw it and nothing was inferred."""

    member: MemberRef
    cause: str
    confidence: float
    observed: bool
    evidence: tuple[Evidence, ...]
    at_ms: int

    @property
    def way(self) -> tuple[str, bool]:
        """Its cause, and whether that was observed: departures of one way are told of together."""
        return self.cause, self.observed

    @property
    def told_as(self) -> tuple[str, bool, str | None]:
        """The same, and its origin."""
        return *self.way, None if self.member.origin is None else self.member.origin.words


GOODBYES = (Cause.MEMBER_LEFT, Cause.ADMIN_REMOVED)
"""Causes of departures of which the coordinator hears at once, so that no partition has waited."""

BROKER_LOG_EVIDENCE = "broker_log"
"""The kind of evidence of a witness who states causes; what it is certain of has confidence 1."""


class Rebalance(Struct, frozen=True):
    """A `rebalance` event. `stopped_ms` is stopped partition time, summed over partitions; None where the event has
    none, which is unknown only where `is_cost_unknown`."""

    at_ms: int
    generation: int | None
    previous_generation: int | None
    cause: str
    causes: tuple[str, ...]
    confidence: float
    observed: bool
    evidence: tuple[Evidence, ...]
    joined: tuple[MemberRef, ...]
    left: tuple[Departure, ...]
    protocol: str | None
    members: int
    stopped_ms: int | None
    is_cost_unknown: bool

    @property
    def is_beginning(self) -> bool:
        """Whether all its members seem to join with it: with the group, or the log, begins what is known of it."""
        return self.previous_generation is None and not self.left and len(self.joined) == self.members


def is_cost_unknown(event: Event) -> bool:
    """Whether partitions stopped for a `rebalance` event without stopped time: those of members that remained, or of
    a group that it emptied, if they waited for a timeout. Members that said goodbye had worked until then."""
    return event["stopped_partition_ms"] is None and (
        event["members"] > 0 or any(gone["cause"] not in GOODBYES for gone in event["left"])
    )


def parse_rebalance(event: Event) -> Rebalance:
    """The rebalance of an event."""
    evidence = tuple(event["evidence"])
    return Rebalance(
        at_ms=event["at_ms"],
        generation=event["generation"],
        previous_generation=event["previous_generation"],
        cause=event["cause"],
        causes=tuple(event["causes"]),
        confidence=event["confidence"],
        observed=_is_observed(event["confidence"], event["observed"], evidence),
        evidence=evidence,
        joined=tuple(map(member_ref, event["joined"])),
        left=tuple(_parse_left(form, event["at_ms"], evidence) for form in event["left"]),
        protocol=event["protocol"],
        members=event["members"],
        stopped_ms=event["stopped_partition_ms"],
        is_cost_unknown=is_cost_unknown(event),
    )


def member_ref(form: Mapping[str, Any]) -> MemberRef:
    """The member of an event's or a description's JSON."""
    # Events of the first release name no library.
    library = form.get("client_library", UNKNOWN)
    host = form["client_host"].lstrip("/")
    origin = _origin(form.get("origin"))
    return MemberRef(form["member_id"], form["client_id"], host, form["instance_id"], library, origin)


def _origin(form: Any) -> Origin | None:
    """A file may hold anything; what is no origin says nothing."""
    if form is None:
        return None
    try:
        return msgspec.convert(form, Origin)
    except NOT_LIKE_IT:
        return None


def parse_departure(event: Event) -> Departure:
    """The departure of a `member_left` event, which has no evidence of its own."""
    return Departure(member_ref(event["member"]), event["cause"], event["confidence"], False, (), event["at_ms"])


def _parse_left(form: Mapping[str, Any], at_ms: int, evidence: tuple[Evidence, ...]) -> Departure:
    member = member_ref(form)
    own = tuple(item for item in evidence if item.get("member_id") == member.member_id)
    cause, confidence = form["cause"], form["confidence"]
    return Departure(member, cause, confidence, _is_observed(confidence, True, own), own, at_ms)


def _is_observed(confidence: float, observed: bool, evidence: tuple[Evidence, ...]) -> bool:
    # A witness may have seen the rebalance and not its cause: then the cause is as inferred as ever.
    return observed and confidence >= 1 and any(item.get("kind") == BROKER_LOG_EVIDENCE for item in evidence)


def lost_before_ms(complete_since_ms: int | None, since_ms: int | None) -> int | None:
    """Before when something of a range that begins at `since_ms` (None: with the log) is not kept, where all of it is
    kept from `complete_since_ms` on (None: from the log's beginning); None where all of the range is."""
    if complete_since_ms is None or (since_ms is not None and since_ms >= complete_since_ms):
        return None
    return complete_since_ms


def events_within(
    events: Iterable[Event], since_ms: int | None, until_ms: int | None, time: str = "at_ms"
) -> list[Event]:
    """The events of a range, bounds included, by their field `time`; None bounds nothing."""
    return [
        event
        for event in events
        if (since_ms is None or event[time] >= since_ms) and (until_ms is None or event[time] <= until_ms)
    ]


def int_field(form: Mapping[str, Any], field: str) -> int | None:
    """A number of a JSON object; None where an agent of another version does not say it."""
    value = form.get(field)
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def is_story_event(form: Any) -> bool:
    """Whether JSON of anyone's is an event: its type's fields are there, each of its type. More may come, and do."""
    try:
        event = msgspec.convert(form, EVENT_CLASSES.get(msgspec.convert(form, HistoryEvent).type, HistoryEvent))
    except NOT_LIKE_IT:
        return False
    return event.group is not None or event.type == FINDING
