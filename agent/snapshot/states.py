"""Which classes hold the mirror's and the analyzers' state, and which of their fields are it.

What is not declared here is derived, or comes from the running configuration: a test goes through real states and
finds any field that is missing here, and any object that two hold and that changes.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

from agent.diagnosis.consumption import WINDOWS, Base, Consumption
from agent.diagnosis.hysteresis import Hysteresis
from agent.shadow.causes import Departure
from agent.shadow.classic import ClassicGroup
from agent.shadow.modern import ConsumerGroup, MemberRecords, ModernGroup, Pending, ShareGroup, StreamsGroup
from agent.shadow.notes import KEPT, Notes
from agent.shadow.pace import Hold, Pace
from agent.shadow.targets import Targets
from agent.shadow.transitions import At
from agent.shadow.views import Anomaly, GroupView, Member, Position
from agent.snapshot.forms import STATES, State, at_most, by_slot, declare, fields_of, intern, state_form
from agent.wire.classic import MemberMetadata
from agent.wire.consumer import (
    ConsumerGroupCurrentMemberAssignmentValue,
    ConsumerGroupMemberMetadataValue,
    TargetAssignmentMemberValue,
)
from agent.wire.primitives import Uuid
from agent.wire.share import ShareGroupCurrentMemberAssignmentValue, ShareGroupMemberMetadataValue
from agent.wire.streams import (
    StreamsGroupCurrentMemberAssignmentValue,
    StreamsGroupMemberMetadataValue,
    StreamsGroupTargetAssignmentMemberValue,
)
from analyzers.api import Condition

INTERNED = (Member, Position)

for _cls in INTERNED:
    intern(_cls)

declare(Departure, fields_of(Departure))
declare(Notes, {"counts": Counter[str], "latest": at_most(Anomaly, KEPT)})
declare(
    Pace,
    {
        "since_ms": int | None,
        "usual_ms": int | None,
        "_holds": by_slot(Hold),
        "_counts": by_slot(int),
        "_notices": int,
        "_slowest_ms": int,
    },
)
declare(
    ClassicGroup,
    {
        "name": str,
        "created_at": At,
        "generation": int,
        "protocol_type": str | None,
        "protocol": str | None,
        "leader": str | None,
        "members": dict[str, Member],
        "state_since_ms": int,
        "version": int,
        "rebalances": int,
        "generations_skipped": int,
        "notes": Notes,
        "left_before": tuple[Member, ...],
        "_migrated": bool,
        "_told_before": dict[str, Departure],
        "_is_first": bool,
        "_withheld": by_slot(int),
        "pace": Pace,
        "_raw": dict[str, MemberMetadata],
    },
)
declare(Pending, {"joined": dict[str, None], "left": list[Member], "resubscribed": bool})


def _modern(cls: type[ModernGroup], part: Any, target: Any, metadata: Any, current: Any, **more: Any) -> None:
    """A group of KIP-848's kind: by what its targets name a topic, and what its members' records are."""
    slot: Any = tuple[part, int]
    held: Any = frozenset[slot]
    targets = {
        "latest": dict[str, target],
        "_changed": set[str],
        "_owner": dict[str, str],
        "_held": dict[str, held],
        "_owners": Counter[slot],
    }
    STATES[Targets] = State(Targets, tuple(targets))
    records = {
        "member_id": str,
        "metadata": metadata | None,
        "current": current | None,
        "last": Member | None,
    }
    STATES[MemberRecords] = State(MemberRecords, tuple(records))
    by_id: Any = dict[str, state_form(MemberRecords, records)]  # type: ignore[misc]  # a form stands for a type
    declare(
        cls,
        {
            "name": str,
            "created_at": At,
            "epoch": int,
            "target_epoch": int,
            "records": by_id,
            "state_since_ms": int,
            "version": int,
            "rebalances": int,
            "generations_skipped": int,
            "notes": Notes,
            "_epoch_seen": bool,
            "_reconciled": set[str],
            "_pending": Pending,
            "_pace": Pace,
            "_migrated": bool,
            "_vacated": dict[str, Member],
            "_had_members": bool,
            "_targets": state_form(Targets, targets, lambda: Targets(cls._slots)),
            "_before": dict[str, Member],
            "_taken_over_at": int | None,
            **more,
        },
    )


_modern(
    ConsumerGroup,
    Uuid,
    TargetAssignmentMemberValue,
    ConsumerGroupMemberMetadataValue,
    ConsumerGroupCurrentMemberAssignmentValue,
)
_modern(
    ShareGroup,
    Uuid,
    TargetAssignmentMemberValue,
    ShareGroupMemberMetadataValue,
    ShareGroupCurrentMemberAssignmentValue,
)
_modern(
    StreamsGroup,
    str,
    StreamsGroupTargetAssignmentMemberValue,
    StreamsGroupMemberMetadataValue,
    StreamsGroupCurrentMemberAssignmentValue,
    topology_epoch=int | None,
    validated_topology_epoch=int,
)

declare(GroupView, fields_of(GroupView))
declare(Base, {"window": int, "positions": by_slot(Position)})
declare(
    Consumption,
    {"_now": by_slot(Position), "_bases": at_most(Base, WINDOWS), "_window": int, "_commits": int, "version": int},
)
declare(
    Hysteresis,
    {
        "open": Condition | None,
        "since_ms": int,
        "due_ms": int | None,
        "_holds_ms": int | None,
        "_gone_ms": int | None,
        "_milder_ms": int | None,
    },
)
