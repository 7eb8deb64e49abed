"""The events of the history, schema version 1: those of all transitions, and those of findings and samples.

The class of a transition's event, with what is to be said of its fields, stands beside the transition
(`core.shadow.transitions`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from hashlib import blake2b
from typing import Annotated, Any

import msgspec
from msgspec import Meta, Struct

from agent.core.diagnosis.api import Finding, FindingState
from agent.core.diagnosis.severity import Severity
from agent.core.protocol.states import GroupType
from agent.core.shadow.transitions import SCHEMA as SCHEMA
from agent.core.shadow.transitions import (
    TRANSITION_EVENTS,
    AssignmentChanged,
    Count,
    GroupCreated,
    GroupEmptied,
    GroupStateName,
    Imbalance,
    MemberJoined,
    MemberLeft,
    Members,
    OffsetsDeleted,
    Ratio,
    Rebalanced,
    StaticMemberReplaced,
    Transition,
    one_of,
)
from agent.core.shadow.transitions import Event as Event
from agent.core.shadow.transitions import EventDeparture as EventDeparture
from agent.core.shadow.transitions import EventMember as EventMember
from agent.core.shadow.transitions import EventOrigin as EventOrigin
from agent.core.shadow.transitions import HistoryEvent as HistoryEvent

FINDING, SAMPLE = "finding", "group_sample"
STATE = "of a finding firing or resolved; of a sample Kafka's name of the group's state"


def _json_safe(value: Any) -> Any:
    # Third parties' analyzers put into `numbers` what they like.
    return dict(value) if isinstance(value, Mapping) else str(value)


class FindingEvent(HistoryEvent, frozen=True, kw_only=True):
    """An analyzer's finding opened, changed its severity, or closed. Without a group: the cluster's."""

    analyzer: Annotated[str, Meta(description="who found it")]
    severity: Annotated[str, one_of(Severity), Meta(description="info, warning or critical")]
    state: Annotated[str, Meta(description=STATE, extra_json_schema={"enum": [str(it) for it in FindingState]})]
    since_ms: Annotated[int, Meta(description="since when it holds")]
    summary: Annotated[str, Meta(description="a sentence")]
    advice: Annotated[str, Meta(description="what to do")]
    numbers: Annotated[
        dict[str, Any],
        Meta(description="what it rests on, a JSON object", extra_json_schema={"additionalProperties": {}}),
    ]

    @classmethod
    def own_fields(cls, transition: Finding) -> Event:
        """The finding's own; its numbers as JSON can say them."""
        fields: Event = msgspec.to_builtins(super().own_fields(transition), enc_hook=_json_safe)
        return fields


class EventPositionBehind(Struct, frozen=True):
    """A committed position with something to read."""

    topic: str
    partition: int
    end: int


class GroupSampleEvent(HistoryEvent, frozen=True, kw_only=True):
    """How a group stands at one time. An agent writes it that is asked to (`--history-samples`)."""

    state: Annotated[GroupStateName, Meta(description=STATE)]
    members: Members
    partitions: Annotated[Count, Meta(description="committed positions")]
    lag_records: Annotated[
        Count | None,
        Meta(description="lag summed over the partitions of which it is known; null where of none"),
    ]
    lag_seconds: Annotated[Ratio | None, Meta(description="the longest of them")]
    lag_partitions: Annotated[Count, Meta(description="of how many lag is known")]
    lag_at_least: Annotated[bool, Meta(description="whether it may be longer")]
    imbalance_ratio: Imbalance
    load_imbalance_ratio: Annotated[
        Ratio | None, Meta(description="the same by records consumed lately; null where not known")
    ]
    ends_ms: Annotated[
        int | None, Meta(description="when the ends of partitions were seen; null where they are not known")
    ]
    behind: Annotated[
        list[EventPositionBehind],
        Meta(description="the 100 committed positions that are furthest behind, and where their partitions ended"),
    ]


EVENT_CLASSES: dict[str, type[HistoryEvent]] = {
    **TRANSITION_EVENTS,
    FINDING: FindingEvent,
    SAMPLE: GroupSampleEvent,
}
"""By `type`, in the order of the documentation."""


def event_of(transition: Transition | Finding, cluster: str | None = None) -> Event:
    """One transition or finding as an event; `cluster` is the cluster's name, None where it has none.

    Times are epoch milliseconds; `partition` and `offset` are those of the record in `__consumer_offsets` that
    shows the change.
    """
    at, every_ms = transition.at, transition.sampled_every_ms
    event = {
        "schema": SCHEMA,
        "event_id": event_id(transition),
        "type": transition.kind,
        "cluster": cluster,
        "group": transition.group,
        "group_type": None if transition.group_type is None else str(transition.group_type),
        "at_ms": at.timestamp_ms,
        "partition": at.partition,
        "offset": at.offset,
        **EVENT_CLASSES[transition.kind].own_fields(transition),
    }
    if every_ms is not None:
        # Looks have no place in the log, and number the rebalances that they saw for themselves.
        event |= {name: None for name in _OF_THE_LOG if name in event}
        event |= {"sampled": True, "sampled_every_ms": every_ms}
    return event


_OF_THE_LOG = ("partition", "offset", "generation", "previous_generation")


def event_id(transition: Transition | Finding) -> str:
    """`<partition>-<offset>-<hash>`: where the event is in the log, and a hash of what makes it this event. Of what a
    look at a group showed `0-0-<hash>`.

    Of the record only its place, its time and its group go in, not the cluster's name (which is what the reader
    calls it): so files and a live topic give the same ids, and two clusters still differ.
    """
    at = transition.at
    if transition.sampled_every_ms is not None:
        return _sampled_event_id(transition)
    said = f"{transition.kind}\0{transition.group or ''}\0{at.timestamp_ms}\0{_subject(transition)}"
    digest = blake2b(said.encode("utf-8", "surrogatepass"), digest_size=6).hexdigest()
    return f"{at.partition}-{at.offset}-{digest}"


def _sampled_event_id(transition: Transition | Finding) -> str:
    """Of an event that a look showed: by what it says, and not by when it was seen. So an agent that goes on from a
    snapshot gives what it had told already the same id."""
    said: list[object] = [transition.kind, transition.group, _subject(transition)]
    match transition:
        case Rebalanced():
            said += [transition.generation, *sorted(it.member_id for it in transition.joined), "left"]
            said += sorted(it.member_id for it in transition.left)
        case AssignmentChanged():
            said += [transition.generation, transition.assigned, transition.gained, transition.lost]
        case GroupEmptied():
            said += [transition.generation]
        case OffsetsDeleted():
            said += [transition.topic, transition.topic_partition, transition.committed_offset]
        case Finding():
            said += [transition.since_ms]
        case GroupCreated(observed=False):
            # Of one that was there before anybody looked, which each agent says that begins anew.
            said += ["before"]
        case MemberJoined() | MemberLeft():
            # A classic member's id is of one membership. Others keep theirs: they may leave, and join again.
            said += [] if transition.group_type == GroupType.CLASSIC else [transition.generation]
        case _:
            # A group may come, go and come again.
            said += [transition.at.timestamp_ms]
    text = "\0".join(map(str, said))
    return f"0-0-{blake2b(text.encode('utf-8', 'surrogatepass'), digest_size=10).hexdigest()}"


def _subject(transition: Transition | Finding) -> str:
    # What tells apart events of one type that one record shows.
    match transition:
        case MemberJoined() | MemberLeft():
            return transition.member.member_id
        case StaticMemberReplaced():
            return transition.new.member_id
        case Finding():
            return f"{transition.analyzer} {transition.state} {transition.severity}"
        case _:
            return ""


def sort_events(events: Iterable[Event]) -> list[Event]:
    """Events of several partitions in the order of the contract: time, partition, offset.

    The sort is stable, so events of one record stay as the mirror gave them.
    """
    return sorted(events, key=lambda event: (event["at_ms"], event["partition"] or 0, event["offset"] or 0))
