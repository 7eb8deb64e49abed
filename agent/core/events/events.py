"""The events of the history, schema version 1: one class for each type, and how it is made of what the mirror saw.

A class is the one place of its event's fields: their names, order, types and descriptions. JSON, the columns of
Parquet (`persistence.export.columns`), the JSON Schemas (`presentation.schemas.events`) and the check of what other
agents answer (`presentation.narrative.events`) follow from it. A field with a default came after the first release:
events of older agents lack it.

Events travel as JSON objects (`Event`), not as instances, since those of a newer agent may hold more fields.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from hashlib import blake2b
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from agent.core.causes import Cause
from agent.core.diagnosis.api import Finding, FindingState
from agent.core.diagnosis.severity import Severity
from agent.core.inference.facts import Departure
from agent.core.protocol.states import GroupState, GroupType
from agent.core.shadow import transitions as t
from agent.core.shadow.views import Member

FINDING, SAMPLE = "finding", "group_sample"
SCHEMA = 1
"""The version of the schema; raised where a field goes or changes its type."""

Event = dict[str, Any]
"""An event as the JSON object that it goes out as: the fields of one of the classes here, or what a newer agent made,
with fields that are not known here."""


def _words(words: Iterable[str]) -> Meta:
    """One of these today; more may come."""
    return Meta(extra_json_schema={"examples": [str(it) for it in words]})


Count = Annotated[int, Meta(ge=0)]
Ratio = Annotated[float, Meta(ge=0)]
CauseName = Annotated[str, _words(Cause)]
Confidence = Annotated[float, Meta(ge=0, le=1)]
GroupTypeName = Annotated[str, _words(GroupType)]
GroupStateName = Annotated[str, _words(GroupState)]
Int32 = Meta(extra={"column": "int32"})
"""Marks what a column of 32 bits holds; other integers have 64."""


SchemaVersion = Annotated[
    int, Int32, Meta(description="the schema's version, 1", extra_json_schema={"const": SCHEMA})
]


class EventMember(msgspec.Struct, frozen=True):
    """A member: its id, and its client."""

    member_id: str
    client_id: str
    client_host: str
    instance_id: str | None


class EventDeparture(EventMember, frozen=True):
    """A member that went, and how."""

    cause: CauseName
    confidence: Confidence


def _member(member: Member) -> Event:
    """The fields of `EventMember`."""
    return {
        "member_id": member.member_id,
        "client_id": member.client_id,
        "client_host": member.client_host,
        "instance_id": member.instance_id,
    }


def _departure(departure: Departure | None) -> Event:
    """Why a member left; None where a rebalance did not tell."""
    if departure is None:
        return {"cause": str(Cause.UNKNOWN_DEPARTURE), "confidence": 0.0}
    return {"cause": str(departure.cause), "confidence": departure.confidence}


class HistoryEvent(msgspec.Struct, frozen=True, kw_only=True):
    """An event of a type that is not known yet: who reads passes over it."""

    schema: Annotated[
        int, Int32, Meta(description="the schema's version, 1", extra_json_schema={"const": SCHEMA})
    ] = SCHEMA
    event_id: Annotated[
        str,
        Meta(
            description="the same on every replay of the same log",
            extra_json_schema={"pattern": "^[0-9]+-[0-9]+-[0-9a-f]+$"},
        ),
    ]
    type: Annotated[str, Meta(description="what happened")]
    cluster: Annotated[str | None, Meta(description="the cluster's name; null where it has none")] = None
    group: Annotated[str | None, Meta(description="the group; null in findings of the cluster")]
    group_type: Annotated[GroupTypeName | None, Meta(description="classic, connect, consumer, share or streams")]
    at_ms: Annotated[int, Meta(description="when")]
    partition: Annotated[Count, Int32, Meta(description="the partition of the topic")]
    offset: Annotated[Count, Meta(description="the offset of the record that shows it")]

    @classmethod
    def own_fields(cls, transition: Any) -> Event:
        """The fields that only this type has, in their order: the transition's of the same names, unless a class says
        otherwise. Plain objects, as this is called for each event that is exported."""
        return {name: getattr(transition, name) for name in cls.__struct_fields__[_COMMON:]}


_COMMON = len(HistoryEvent.__struct_fields__)


def _json_safe(value: Any) -> Any:
    # Third parties' analyzers put into `numbers` what they like.
    return dict(value) if isinstance(value, Mapping) else str(value)


Generation = Annotated[int, Meta(description="the generation or epoch that it led to")]
Observed = Annotated[bool, Meta(description="false when inferred")]
HowSure = Annotated[Confidence, Meta(description="how sure the cause is, 0 to 1")]
WhyCause = Annotated[CauseName, Meta(description="what triggered it, or how the member left")]
Whom = Annotated[EventMember, Meta(description="whom it is about")]
Members = Annotated[Count, Meta(description="members after it, or now")]
Imbalance = Annotated[
    Ratio | None,
    Meta(description="largest share of partitions by a fair one, 1 is even; null where none are shared out"),
]
STATE = "of a finding firing or resolved; of a sample Kafka's name of the group's state"


class GroupCreatedEvent(HistoryEvent, frozen=True, kw_only=True):
    """A group is in the log for the first time. `observed` is false where it must be older."""

    observed: Observed


class RebalanceEvent(HistoryEvent, frozen=True, kw_only=True):
    """A generation was completed, or an epoch raised: why, who came and went, what it cost."""

    generation: Generation
    previous_generation: Annotated[int | None, Meta(description="the one before; null if the log does not hold it")]
    cause: WhyCause
    causes: Annotated[list[CauseName], Meta(description="all that led to it, sorted")]
    confidence: HowSure
    evidence: Annotated[
        list[
            Annotated[
                dict[str, Any],
                Meta(
                    description="What speaks for it; fields by its kind.",
                    extra_json_schema={"properties": {"kind": {"type": "string"}}, "required": []},
                ),
            ]
        ],
        Meta(description="why, a JSON list of objects"),
    ]
    observed: Observed
    joined: Annotated[list[EventMember], Meta(description="members that came")]
    left: Annotated[list[EventDeparture], Meta(description="members that went, each with its own cause")]
    protocol: Annotated[str | None, Meta(description="the assignor")]
    members: Members
    sync_ms: Annotated[int | None, Meta(description="how long the sync phase took; null if not known")] = None
    join_ms: Annotated[int | None, Meta(description="how long the join phase took; null if not known")] = None
    stopped_partition_ms: Annotated[
        Count | None,
        Meta(description="time that partitions had nobody, summed over them; null if not known"),
    ]

    @classmethod
    def own_fields(cls, transition: t.Rebalanced) -> Event:
        """What is to be said of `Rebalanced`."""
        inferred = transition.inferred
        return {
            "generation": transition.generation,
            "previous_generation": transition.previous_generation,
            "cause": str(inferred.cause),
            "causes": [str(cause) for cause in inferred.causes],
            "confidence": round(inferred.confidence, 3),
            "evidence": list(inferred.evidence),
            "observed": transition.observed,
            "joined": [_member(member) for member in transition.joined],
            "left": [
                {**_member(member), **_departure(inferred.departures.get(member.member_id))}
                for member in transition.left
            ],
            "protocol": transition.protocol,
            "members": transition.members,
            "sync_ms": transition.sync_ms,
            "join_ms": transition.join_ms,
            "stopped_partition_ms": transition.stopped_partition_ms,
        }


class MemberJoinedEvent(HistoryEvent, frozen=True, kw_only=True):
    """A member is in the group that was not."""

    generation: Generation
    member: Whom

    @classmethod
    def own_fields(cls, transition: t.MemberJoined) -> Event:
        """What is to be said of `MemberJoined`."""
        return {"generation": transition.generation, "member": _member(transition.member)}


class MemberLeftEvent(HistoryEvent, frozen=True, kw_only=True):
    """A member is gone, and how."""

    generation: Generation
    member: Whom
    cause: WhyCause
    confidence: HowSure

    @classmethod
    def own_fields(cls, transition: t.MemberLeft) -> Event:
        """What is to be said of `MemberLeft`."""
        member = _member(transition.member)
        return {"generation": transition.generation, "member": member, **_departure(transition.inferred)}


class StaticMemberReplacedEvent(HistoryEvent, frozen=True, kw_only=True):
    """A static member came back under a new member id."""

    generation: Generation
    old_member: Annotated[EventMember, Meta(description="whom it replaced")]
    member: Whom

    @classmethod
    def own_fields(cls, transition: t.StaticMemberReplaced) -> Event:
        """What is to be said of `StaticMemberReplaced`."""
        return {
            "generation": transition.generation,
            "old_member": _member(transition.old),
            "member": _member(transition.new),
        }


class AssignmentChangedEvent(HistoryEvent, frozen=True, kw_only=True):
    """Partitions (of Connect and Streams: tasks) have another owner, or one has none any more."""

    generation: Generation
    assigned_partitions: Annotated[Count, Meta(description="partitions with an owner")]
    gained_partitions: Annotated[Count, Meta(description="those with another owner than before")]
    lost_partitions: Annotated[Count, Meta(description="those without one any more")]
    imbalance_ratio: Imbalance = None

    @classmethod
    def own_fields(cls, transition: t.AssignmentChanged) -> Event:
        """What is to be said of `AssignmentChanged`."""
        ratio = transition.imbalance_ratio
        return {
            "generation": transition.generation,
            "assigned_partitions": transition.assigned,
            "gained_partitions": transition.gained,
            "lost_partitions": transition.lost,
            "imbalance_ratio": None if ratio is None else round(ratio, 4),
        }


class GroupEmptiedEvent(HistoryEvent, frozen=True, kw_only=True):
    """The last member is gone."""

    generation: Generation


class GroupDeletedEvent(HistoryEvent, frozen=True, kw_only=True):
    """The group itself is gone."""


class OffsetsDeletedEvent(HistoryEvent, frozen=True, kw_only=True):
    """A committed offset was deleted: by an admin, or because it expired."""

    topic: Annotated[str, Meta(description="the topic of the offset")]
    topic_partition: Annotated[Count, Int32, Meta(description="and its partition")]
    committed_offset: Annotated[int, Meta(description="the last that was committed")]


class FindingEvent(HistoryEvent, frozen=True, kw_only=True):
    """An analyzer's finding opened, changed its severity, or closed. Without a group: the cluster's."""

    analyzer: Annotated[str, Meta(description="who found it")]
    severity: Annotated[str, _words(Severity), Meta(description="info, warning or critical")]
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


EVENT_CLASSES: dict[str, type[HistoryEvent]] = {
    t.GroupCreated.kind: GroupCreatedEvent,
    t.Rebalanced.kind: RebalanceEvent,
    t.MemberJoined.kind: MemberJoinedEvent,
    t.MemberLeft.kind: MemberLeftEvent,
    t.StaticMemberReplaced.kind: StaticMemberReplacedEvent,
    t.AssignmentChanged.kind: AssignmentChangedEvent,
    t.GroupEmptied.kind: GroupEmptiedEvent,
    t.GroupDeleted.kind: GroupDeletedEvent,
    t.OffsetsDeleted.kind: OffsetsDeletedEvent,
    FINDING: FindingEvent,
    SAMPLE: GroupSampleEvent,
}
"""By `type`, in the order of the documentation."""


def event_of(transition: t.Transition | Finding, cluster: str | None = None) -> Event:
    """One transition or finding as an event; `cluster` is the cluster's name, None where it has none.

    Times are epoch milliseconds; `partition` and `offset` are those of the record in `__consumer_offsets` that
    shows the change.
    """
    at = transition.at
    return {
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


def event_id(transition: t.Transition | Finding) -> str:
    """`<partition>-<offset>-<hash>`: where the event is in the log, and a hash of what makes it this event.

    Of the record only its place, its time and its group go in, not the cluster's name (which is what the reader
    calls it): so files and a live topic give the same ids, and two clusters still differ.
    """
    at = transition.at
    said = f"{transition.kind}\0{transition.group or ''}\0{at.timestamp_ms}\0{_subject(transition)}"
    digest = blake2b(said.encode("utf-8", "surrogatepass"), digest_size=6).hexdigest()
    return f"{at.partition}-{at.offset}-{digest}"


def _subject(transition: t.Transition | Finding) -> str:
    # What tells apart events of one type that one record shows.
    match transition:
        case t.MemberJoined() | t.MemberLeft():
            return transition.member.member_id
        case t.StaticMemberReplaced():
            return transition.new.member_id
        case Finding():
            return f"{transition.analyzer} {transition.state} {transition.severity}"
        case _:
            return ""


def sort_events(events: Iterable[Event]) -> list[Event]:
    """Events of several partitions in the order of the contract: time, partition, offset.

    The sort is stable, so events of one record stay as the mirror gave them.
    """
    return sorted(events, key=lambda event: (event["at_ms"], event["partition"], event["offset"]))
