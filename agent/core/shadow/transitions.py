"""What a record changed in a group: the mirror's output as it reads, and the input of analyzers and history.

All of it is observed, in the log, except what stands under `inferred`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, NamedTuple

from agent.core.inference.facts import Departure, Inference
from agent.core.shadow.views import Member


class LogPosition(NamedTuple):
    """Where and when: the record that shows the change, and its timestamp (epoch milliseconds)."""

    partition: int
    offset: int
    timestamp_ms: int


@dataclass(frozen=True, slots=True)
class Transition:
    """A change of one group. `kind` is the `type` of the history event that it becomes."""

    kind: ClassVar[str]

    at: LogPosition
    group: str
    group_type: str


@dataclass(frozen=True, slots=True)
class GroupCreated(Transition):
    """A group is in the log for the first time.

    `observed` is False where the group must be older than its first record (a generation above 1, say): the
    records before it were compacted away.
    """

    kind = "group_created"

    observed: bool


@dataclass(frozen=True, slots=True)
class Rebalanced(Transition):
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


@dataclass(frozen=True, slots=True)
class MemberJoined(Transition):
    """A member is in the group that was not."""

    kind = "member_joined"

    generation: int
    member: Member


@dataclass(frozen=True, slots=True)
class MemberLeft(Transition):
    """A member that was in the group is gone. `inferred`: how it went, None where a rebalance did not tell."""

    kind = "member_left"

    generation: int
    member: Member
    inferred: Departure | None = None


@dataclass(frozen=True, slots=True)
class StaticMemberReplaced(Transition):
    """A static member came back under a new member id."""

    kind = "static_member_replaced"

    generation: int
    old: Member
    new: Member


@dataclass(frozen=True, slots=True)
class AssignmentChanged(Transition):
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


@dataclass(frozen=True, slots=True)
class GroupEmptied(Transition):
    """The last member is gone."""

    kind = "group_emptied"

    generation: int


@dataclass(frozen=True, slots=True)
class GroupDeleted(Transition):
    """The group itself is gone."""

    kind = "group_deleted"


@dataclass(frozen=True, slots=True)
class OffsetsDeleted(Transition):
    """A committed offset was deleted: by an admin, or because it expired. `committed_offset` was the last."""

    kind = "offsets_deleted"

    topic: str
    topic_partition: int
    committed_offset: int
