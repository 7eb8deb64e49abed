"""The events of the history, one shape a type, from the table of their fields (`agent.export.columns`)."""

from __future__ import annotations

from collections.abc import Mapping

from agent.coordinator.states import GroupState, GroupType
from agent.export.columns import COLUMNS, EVERY, GONE, MEMBER, Column
from agent.history.events import SCHEMA
from agent.history.samples import SAMPLE
from agent.schemas.kinds import (
    ANY,
    AT_MS,
    COUNT,
    FLAG,
    INTEGER,
    NUMBER,
    RATIO,
    SHARE,
    TEXT,
    Schema,
    each,
    maybe,
    one_of,
    ref,
    said,
    shape,
    word,
)
from agent.shadow.causes import Cause
from agent.shadow.transitions import EVENT_TYPES
from analyzers.severity import Severity

FINDING = "finding"
TYPES = (*EVENT_TYPES, FINDING, SAMPLE)
"""Every type of event."""
STATES = ("firing", "resolved")
"""A finding's."""

CAUSE = word(Cause)
GROUP_TYPE = word(GroupType)
GROUP_STATE = word(GroupState)
SEVERITY = word(Severity)

_KINDS: Mapping[str, Schema] = {
    "int32": INTEGER,
    "int64": INTEGER,
    "double": NUMBER,
    "bool": FLAG,
    "string": TEXT,
    "json": ANY,
}
_CLOSER: Mapping[str, Schema] = {
    "schema": {"type": "integer", "const": SCHEMA},
    "event_id": {"type": "string", "pattern": "^[0-9]+-[0-9]+-[0-9a-f]+$"},
    "group_type": GROUP_TYPE,
    "at_ms": AT_MS,
    "since_ms": AT_MS,
    "partition": COUNT,
    "offset": COUNT,
    "cause": CAUSE,
    "causes": each(CAUSE),
    "confidence": SHARE,
    "evidence": each(shape({"kind": TEXT}, "What speaks for it; fields by its kind.", optional=["kind"])),
    "joined": each(ref("event_member")),
    "left": each(ref("event_departure")),
    "members": COUNT,
    "sync_ms": INTEGER,
    "join_ms": INTEGER,
    "stopped_partition_ms": COUNT,
    "member": ref("event_member"),
    "old_member": ref("event_member"),
    "assigned_partitions": COUNT,
    "gained_partitions": COUNT,
    "lost_partitions": COUNT,
    "imbalance_ratio": RATIO,
    "load_imbalance_ratio": RATIO,
    "topic_partition": COUNT,
    "severity": SEVERITY,
    "numbers": {"type": "object", "additionalProperties": ANY},
    "partitions": COUNT,
    "lag_records": COUNT,
    "lag_seconds": RATIO,
    "lag_partitions": COUNT,
}
"""What a field holds, where that is more than its column's type."""

_NULL: Mapping[str, tuple[str, ...]] = {
    "cluster": EVERY,
    "group": (FINDING,),
    "group_type": (FINDING,),
    "previous_generation": EVERY,
    "protocol": EVERY,
    "sync_ms": EVERY,
    "join_ms": EVERY,
    "stopped_partition_ms": EVERY,
    "imbalance_ratio": EVERY,
    "load_imbalance_ratio": EVERY,
    "lag_records": EVERY,
    "lag_seconds": EVERY,
}
"""Fields that may be null, and in which types."""

_ABOUT = {
    "group_created": "A group is in the log for the first time. `observed` is false where it must be older.",
    "rebalance": "A generation was completed, or an epoch raised: why, who came and went, what it cost.",
    "member_joined": "A member is in the group that was not.",
    "member_left": "A member is gone, and how.",
    "static_member_replaced": "A static member came back under a new member id.",
    "assignment_changed": "Partitions (of Connect and Streams: tasks) have another owner, or one has none any more.",
    "group_emptied": "The last member is gone.",
    "group_deleted": "The group itself is gone.",
    "offsets_deleted": "A committed offset was deleted: by an admin, or because it expired.",
    FINDING: "An analyzer's finding opened, changed its severity, or closed. Without a group: the cluster's.",
    SAMPLE: "How a group stands at one time. An agent writes it that is asked to (`--history-samples`).",
}


def _field(column: Column, event_type: str) -> Schema:
    schema = _CLOSER.get(column.name) or (_KINDS[column.kind] if isinstance(column.kind, str) else ANY)
    if column.name == "state":
        schema = one_of(STATES) if event_type == FINDING else GROUP_STATE
    nullable = _NULL.get(column.name, ())
    if nullable is EVERY or event_type in nullable:
        schema = maybe(schema)
    return said(schema, column.about[0].upper() + column.about[1:] + ".")


def _event(event_type: str) -> Schema:
    fields = {it.name: _field(it, event_type) for it in COLUMNS if it.types is EVERY or event_type in it.types}
    fields["type"] = {"type": "string", "const": event_type}
    return shape(fields, _ABOUT[event_type])


def _other() -> Schema:
    """An event of a type that came later: to be passed over."""
    fields = {it.name: _field(it, FINDING) for it in COLUMNS if it.types is EVERY}
    fields["type"] = {"type": "string", "not": {"enum": list(TYPES)}}
    return shape(fields, "An event of a type that is not known yet: who reads passes over it.")


_MEMBER: dict[str, Schema] = {name: maybe(TEXT) if name == "instance_id" else TEXT for name in MEMBER}

EVENT_DEFS: dict[str, Schema] = {
    "event_member": shape(_MEMBER, "A member: its id, and its client."),
    "event_departure": shape(
        {**_MEMBER, **{name: _CLOSER[name] for name in GONE if name not in MEMBER}}, "A member that went, and how."
    ),
    **{f"event_{event_type}": _event(event_type) for event_type in TYPES},
    "event_other": _other(),
    "event": {
        "description": "What happened to one group, or was found. `type` says which shape it has.",
        "oneOf": [ref(f"event_{name}") for name in (*TYPES, "other")],
    },
}
