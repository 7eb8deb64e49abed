"""What a record changed in a group: the mirror's output as it reads, the input of analyzers. And what history says of
it: the event, schema version 1, that each change becomes.

A change and its event stand side by side: the one place of an event's fields, their names, order, types and
descriptions. JSON, the columns of Parquet (`persistence.export.columns`), the JSON Schemas
(`presentation.schemas.events`) and the check of what other agents answer (`presentation.narrative.events`) follow
from it. A field with a default came after the first release: events of older agents lack it. `core.events.events`
lists all events, with those of findings and samples.

All of a change is observed, in the log, except what stands under `inferred`. Events travel as JSON objects (`Event`),
not as instances, since those of a newer agent may hold more fields.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, Any, ClassVar, NamedTuple

import msgspec
from msgspec import Meta, Struct

from agent.core.causes import Cause
from agent.core.inference.facts import Departure, Inference
from agent.core.inference.origins import KINDS, MemberOrigins, Origin
from agent.core.protocol.client_libraries import UNKNOWN
from agent.core.protocol.states import GroupState, GroupType
from agent.core.shadow.views import Member

SCHEMA = 1
"""The version of the schema; raised where a field goes or changes its type."""

Event = dict[str, Any]
"""An event as the JSON object that it goes out as: the fields of one of the event classes, or what a newer agent
made, with fields that are not known here."""


def one_of(words: Iterable[str]) -> Meta:
    """One of these today; more may come."""
    return Meta(extra_json_schema={"examples": [str(it) for it in words]})


Count = Annotated[int, Meta(ge=0)]
Ratio = Annotated[float, Meta(ge=0)]
CauseName = Annotated[str, one_of(Cause)]
Confidence = Annotated[float, Meta(ge=0, le=1)]
GroupTypeName = Annotated[str, one_of(GroupType)]
GroupStateName = Annotated[str, one_of(GroupState)]
Int32 = Meta(extra={"column": "int32"})
"""Marks what a column of 32 bits holds; other integers have 64."""


class EventOrigin(Struct, frozen=True, kw_only=True):
    """What happened to a member's pod (`agent.core.inference.origins.Origin`)."""

    kind: Annotated[str, one_of(KINDS)]
    at_ms: Annotated[int, Meta(description="when it happened to the pod or the container")]
    namespace: str
    pod: str
    container: str | None
    node: str | None
    workload: Annotated[str | None, Meta(description="kind and name: `Deployment/payments`")]
    revision: Annotated[str | None, Meta(description="of the workload, now")]
    exit_code: int | None
    message: Annotated[str, Meta(description="the evidence in a sentence")]


class EventMember(Struct, frozen=True):
    """A member: its id, and its client."""

    member_id: str
    client_id: str
    client_host: str
    instance_id: str | None
    client_library: Annotated[
        str, Meta(description="its client library, as far as the log tells; else `unknown`")
    ] = UNKNOWN
    origin: Annotated[
        EventOrigin | None,
        Meta(description="what happened to its pod; null if not known; only with `--kubernetes`"),
    ] = None


class EventDeparture(EventMember, frozen=True, kw_only=True):
    """A member that went, and how."""

    cause: CauseName
    confidence: Confidence


def _member(member: Member, origins: MemberOrigins | None) -> Event:
    """The fields of `EventMember`; `origin` only where somebody was asked for it."""
    out: Event = {
        "member_id": member.member_id,
        "client_id": member.client_id,
        "client_host": member.client_host,
        "instance_id": member.instance_id,
        "client_library": member.client_library,
    }
    if origins is not None:
        out["origin"] = origin_form(origins.get(member.member_id))
    return out


def origin_form(origin: Origin | None) -> Event | None:
    """The fields of `EventOrigin`; null where it is not known."""
    return None if origin is None else msgspec.to_builtins(origin)


def _departure(departure: Departure | None) -> Event:
    """Why a member left; None where a rebalance did not tell."""
    if departure is None:
        return {"cause": str(Cause.UNKNOWN_DEPARTURE), "confidence": 0.0}
    return {"cause": str(departure.cause), "confidence": departure.confidence}


class HistoryEvent(Struct, frozen=True, kw_only=True):
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
    partition: Annotated[
        Count | None, Int32, Meta(description="the partition of the topic; null where that is not read")
    ]
    offset: Annotated[
        Count | None, Meta(description="the offset of the record that shows it; null where the topic is not read")
    ]
    sampled: Annotated[
        bool, Meta(description="whether it was seen by looks at the group (`--source admin`) and not in the topic")
    ] = False
    sampled_every_ms: Annotated[
        Count | None, Meta(description="how often the group's state is looked at; null where the topic is read")
    ] = None

    @classmethod
    def own_fields(cls, transition: Any) -> Event:
        """The fields that only this type has, in their order: the transition's of the same names, unless a class says
        otherwise. Plain objects, as this is called for each event that is exported."""
        return {name: getattr(transition, name) for name in cls.__struct_fields__[_COMMON:]}


_COMMON = len(HistoryEvent.__struct_fields__)
SAMPLED_FIELDS = ("sampled", "sampled_every_ms")
"""Fields that only events have which looks showed."""
ORIGIN = "origin"
"""The field that only members of an agent with `--kubernetes` have."""

Generation = Annotated[
    int | None,
    Meta(description="the generation or epoch that it led to; null where nothing tells (`--source admin`)"),
]
Observed = Annotated[bool, Meta(description="false when inferred")]
HowSure = Annotated[Confidence, Meta(description="how sure the cause is, 0 to 1")]
WhyCause = Annotated[CauseName, Meta(description="what triggered it, or how the member left")]
Whom = Annotated[EventMember, Meta(description="whom it is about")]
Members = Annotated[Count, Meta(description="members after it, or now")]
Imbalance = Annotated[
    Ratio | None,
    Meta(description="largest share of partitions by a fair one, 1 is even; null where none are shared out"),
]


class LogPosition(NamedTuple):
    """Where and when: the record that shows the change, and its timestamp (epoch milliseconds)."""

    partition: int
    offset: int
    timestamp_ms: int


class _KnownBeside(Struct, frozen=True, kw_only=True, gc=False):
    """What a change says beside what the records do. Apart, since a struct's class declares all of its own fields as
    given by name, or none."""

    sampled_every_ms: int | None = None
    """Where the group is looked at and no record is read: how often its state is."""
    origins: MemberOrigins | None = None
    """What happened to the pods of the members that came and went; None: nobody was asked."""


class Transition(_KnownBeside, frozen=True):
    """A change of one group. `kind` is the `type` of the history event that it becomes."""

    kind: ClassVar[str]
    is_event: ClassVar[bool] = True
    """Whether it is told; otherwise it is for those alone who keep something of the group."""

    at: LogPosition
    group: str
    group_type: str


class GroupCreated(Transition, frozen=True):
    """A group is in the log for the first time.

    `observed` is False where the group must be older than its first record (a generation above 1, say): the
    records before it were compacted away.
    """

    kind = "group_created"

    observed: bool


class GroupCreatedEvent(HistoryEvent, frozen=True, kw_only=True):
    """A group is in the log for the first time. `observed` is false where it must be older."""

    observed: Observed


class Rebalanced(Transition, frozen=True):
    """A classic group completed a generation, or became empty; another group's epoch was raised.

    `previous_generation` is None where the log does not hold it. `sync_ms` is the time from the end of the
    join phase to the arrival of the leader's assignment, None where no assignment was made. `stopped_partition_ms`
    is for how long partitions had nobody working on them, summed over them (`stopped_time`). `join_ms` is how
    long the join phase took, and `observed` that it was seen: both come from other evidence (`external_evidence`).
    """

    kind = "rebalance"

    generation: int
    previous_generation: int | None
    protocol: str | None
    joined: tuple[Member, ...]
    left: tuple[Member, ...]
    members: int
    sync_ms: int | None = None
    stopped_partition_ms: int | None = None
    join_ms: int | None = None
    observed: bool = False
    inferred: Inference = Inference()
    """Why it happened, which the log does not say."""


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
    def own_fields(cls, transition: Rebalanced) -> Event:
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
            "joined": [_member(member, transition.origins) for member in transition.joined],
            "left": [
                {**_member(member, transition.origins), **_departure(inferred.departures.get(member.member_id))}
                for member in transition.left
            ],
            "protocol": transition.protocol,
            "members": transition.members,
            "sync_ms": transition.sync_ms,
            "join_ms": transition.join_ms,
            "stopped_partition_ms": transition.stopped_partition_ms,
        }


class MemberJoined(Transition, frozen=True):
    """A member is in the group that was not."""

    kind = "member_joined"

    generation: int
    member: Member


class MemberJoinedEvent(HistoryEvent, frozen=True, kw_only=True):
    """A member is in the group that was not."""

    generation: Generation
    member: Whom

    @classmethod
    def own_fields(cls, transition: MemberJoined) -> Event:
        """What is to be said of `MemberJoined`."""
        return {"generation": transition.generation, "member": _member(transition.member, transition.origins)}


class MemberLeft(Transition, frozen=True):
    """A member that was in the group is gone. `inferred`: how it went, None where a rebalance did not tell."""

    kind = "member_left"

    generation: int
    member: Member
    inferred: Departure | None = None


class MemberLeftEvent(HistoryEvent, frozen=True, kw_only=True):
    """A member is gone, and how."""

    generation: Generation
    member: Whom
    cause: WhyCause
    confidence: HowSure

    @classmethod
    def own_fields(cls, transition: MemberLeft) -> Event:
        """What is to be said of `MemberLeft`."""
        member = _member(transition.member, transition.origins)
        return {"generation": transition.generation, "member": member, **_departure(transition.inferred)}


class StaticMemberReplaced(Transition, frozen=True):
    """A static member came back under a new member id."""

    kind = "static_member_replaced"

    generation: int
    old: Member
    new: Member


class StaticMemberReplacedEvent(HistoryEvent, frozen=True, kw_only=True):
    """A static member came back under a new member id."""

    generation: Generation
    old_member: Annotated[EventMember, Meta(description="whom it replaced")]
    member: Whom

    @classmethod
    def own_fields(cls, transition: StaticMemberReplaced) -> Event:
        """What is to be said of `StaticMemberReplaced`."""
        return {
            "generation": transition.generation,
            "old_member": _member(transition.old, transition.origins),
            "member": _member(transition.new, transition.origins),
        }


class AssignmentChanged(Transition, frozen=True):
    """Partitions (for Connect and Streams: tasks) have another owner, or one has none any more.

    Classic groups: the assignment of `generation`. Other groups: the newest target assignment, of that epoch.
    `imbalance_ratio` is the largest share of them / a fair one (`fairness`), None where nothing is shared out.
    """

    kind = "assignment_changed"

    generation: int
    assigned: int
    gained: int
    lost: int
    imbalance_ratio: float | None


class AssignmentChangedEvent(HistoryEvent, frozen=True, kw_only=True):
    """Partitions (of Connect and Streams: tasks) have another owner, or one has none any more."""

    generation: Generation
    assigned_partitions: Annotated[Count, Meta(description="partitions with an owner")]
    gained_partitions: Annotated[Count, Meta(description="those with another owner than before")]
    lost_partitions: Annotated[Count, Meta(description="those without one any more")]
    imbalance_ratio: Imbalance = None

    @classmethod
    def own_fields(cls, transition: AssignmentChanged) -> Event:
        """What is to be said of `AssignmentChanged`."""
        ratio = transition.imbalance_ratio
        return {
            "generation": transition.generation,
            "assigned_partitions": transition.assigned,
            "gained_partitions": transition.gained,
            "lost_partitions": transition.lost,
            "imbalance_ratio": None if ratio is None else round(ratio, 4),
        }


class GroupEmptied(Transition, frozen=True):
    """The last member is gone."""

    kind = "group_emptied"

    generation: int


class GroupEmptiedEvent(HistoryEvent, frozen=True, kw_only=True):
    """The last member is gone."""

    generation: Generation


class GroupDeleted(Transition, frozen=True):
    """The group itself is gone."""

    kind = "group_deleted"


class GroupWithheld(GroupDeleted, frozen=True):
    """The brokers do not show the group any more, for want of a right: whether it is there is not known."""

    kind = "group_withheld"
    is_event = False


class GroupDeletedEvent(HistoryEvent, frozen=True, kw_only=True):
    """The group itself is gone."""


class OffsetsDeleted(Transition, frozen=True):
    """A committed offset was deleted: by an admin, or because it expired. `committed_offset` was the last."""

    kind = "offsets_deleted"

    topic: str
    topic_partition: int
    committed_offset: int


class OffsetsWithheld(OffsetsDeleted, frozen=True):
    """The brokers do not show a committed offset any more, for want of a right."""

    kind = "offsets_withheld"
    is_event = False


class OffsetsDeletedEvent(HistoryEvent, frozen=True, kw_only=True):
    """A committed offset was deleted: by an admin, or because it expired."""

    topic: Annotated[str, Meta(description="the topic of the offset")]
    topic_partition: Annotated[Count, Int32, Meta(description="and its partition")]
    committed_offset: Annotated[int, Meta(description="the last that was committed")]


TRANSITION_EVENTS: dict[str, type[HistoryEvent]] = {
    GroupCreated.kind: GroupCreatedEvent,
    Rebalanced.kind: RebalanceEvent,
    MemberJoined.kind: MemberJoinedEvent,
    MemberLeft.kind: MemberLeftEvent,
    StaticMemberReplaced.kind: StaticMemberReplacedEvent,
    AssignmentChanged.kind: AssignmentChangedEvent,
    GroupEmptied.kind: GroupEmptiedEvent,
    GroupDeleted.kind: GroupDeletedEvent,
    OffsetsDeleted.kind: OffsetsDeletedEvent,
}
"""The event of each transition by its `kind`, in the order of the documentation."""
