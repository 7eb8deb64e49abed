"""What members of a KIP-848 group ask, what the coordinator answers, and what it writes and does: plain values.

After Kafka's ConsumerGroupHeartbeat API and the records of key types 3 and 5 to 8; field names are theirs. Times are
milliseconds of virtual time. Subscriptions are topic names: regular expressions are not modelled.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum

from msgspec import Struct, field

from agent.core.protocol.assignors import Slot
from agent.core.protocol.states import CONSUMER_MEMBER_STABLE
from agent.simulation.groups.messages import (
    ErrorCode,
    GroupEvent,
    MemberRemoved,
    RebalanceReason,
    RecordAppended,
    ResponseSent,
)

JOIN_EPOCH = 0
"""The member epoch that asks to join, or to join again without any partitions."""

LEAVE_EPOCH = -1
"""The member epoch that says: I leave for good."""

STATIC_LEAVE_EPOCH = -2
"""The member epoch of a static member that leaves for a restart: its place is kept for its session timeout."""

NO_TIMEOUT = -1
"""A rebalance timeout that a heartbeat does not repeat."""


class MemberState(IntEnum):
    """How far a member is on its way to the target assignment, in the numbers of its record (key type 8)."""

    STABLE = CONSUMER_MEMBER_STABLE
    UNREVOKED_PARTITIONS = 1
    UNRELEASED_PARTITIONS = 2


class ConsumerGroupHeartbeatRequest(Struct, frozen=True):
    """A member joins (epoch 0), is there (its epoch), or leaves (-1, -2).

    What has not changed since the last heartbeat is left out: None, and `NO_TIMEOUT`. `owned` is what the consumer
    holds, told after each change. `reason` is what only the member knows of its leaving; no broker is told it.
    """

    group: str
    member_id: str
    member_epoch: int
    instance_id: str | None = None
    rack_id: str | None = None
    rebalance_timeout_ms: int = NO_TIMEOUT
    subscribed_topics: frozenset[str] | None = None
    server_assignor: str | None = None
    owned: frozenset[Slot] | None = None
    client_id: str = ""
    client_host: str = "/127.0.0.1"
    reason: RebalanceReason = RebalanceReason.MEMBER_LEFT

    @property
    def is_full(self) -> bool:
        """Whether it leaves nothing out, as who joins, or begins anew after an error."""
        timeout = self.rebalance_timeout_ms != NO_TIMEOUT
        return timeout and self.subscribed_topics is not None and self.owned is not None

    @property
    def is_valid(self) -> bool:
        """Whether it is well-formed, whatever the group is; only who joins may leave its id to the coordinator."""
        if "" in (self.instance_id, self.rack_id):
            return False
        if self.member_epoch == JOIN_EPOCH:
            return self.is_full and not self.owned
        if self.member_epoch == STATIC_LEAVE_EPOCH:
            return self.instance_id is not None
        return self.member_epoch >= LEAVE_EPOCH and self.member_id != ""


class ConsumerGroupHeartbeatResponse(Struct, frozen=True):
    """What ConsumerGroupHeartbeat is answered; `assignment` only where the member must hear of it."""

    error: ErrorCode
    member_id: str = ""
    member_epoch: int = 0
    heartbeat_interval_ms: int = 0
    assignment: frozenset[Slot] | None = None


class ConsumerMemberMetadata(Struct, frozen=True):
    """What a member says of itself, as it stands after all its heartbeats."""

    instance_id: str | None = None
    rack_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    topics: frozenset[str] = frozenset()
    rebalance_timeout_ms: int = NO_TIMEOUT
    server_assignor: str | None = None

    def updated(self, request: ConsumerGroupHeartbeatRequest) -> ConsumerMemberMetadata:
        """What it said before, with what it says now."""
        timeout = request.rebalance_timeout_ms
        return ConsumerMemberMetadata(
            request.instance_id or self.instance_id,
            request.rack_id or self.rack_id,
            request.client_id,
            request.client_host,
            self.topics if request.subscribed_topics is None else request.subscribed_topics,
            self.rebalance_timeout_ms if timeout == NO_TIMEOUT else timeout,
            request.server_assignor or self.server_assignor,
        )


class CurrentAssignment(Struct, frozen=True):
    """Where a member stands: its epochs, and what it has and must give up, each since which epoch."""

    epoch: int = JOIN_EPOCH
    previous_epoch: int = JOIN_EPOCH
    state: MemberState = MemberState.STABLE
    assigned: Mapping[Slot, int] = field(default_factory=dict)
    revoking: Mapping[Slot, int] = field(default_factory=dict)


class _OfMember(GroupEvent, frozen=True):
    member_id: str


class EpochImage(GroupEvent, frozen=True):
    """The group's epoch (key type 3)."""

    epoch: int


class MemberMetadataImage(_OfMember, frozen=True):
    """What a member said of itself (key type 5), None as a tombstone."""

    metadata: ConsumerMemberMetadata | None


class TargetEpochImage(GroupEvent, frozen=True):
    """The epoch for which the target assignment was computed (key type 6)."""

    epoch: int


class TargetAssignmentImage(_OfMember, frozen=True):
    """What a member shall have (key type 7), None as a tombstone."""

    target: frozenset[Slot] | None


class CurrentAssignmentImage(_OfMember, frozen=True):
    """Where a member stands (key type 8), None as a tombstone."""

    current: CurrentAssignment | None


Kip848Image = EpochImage | MemberMetadataImage | TargetEpochImage | TargetAssignmentImage | CurrentAssignmentImage
"""A record of a KIP-848 group, as its coordinator writes it."""


class EpochBumped(GroupEvent, frozen=True):
    """A rebalance begins: what a broker logs as "Bumped group epoch to …". `member_id` is who brought it about."""

    epoch: int
    reason: RebalanceReason
    member_id: str


class TargetComputed(GroupEvent, frozen=True):
    """The target is there: what a broker logs as "Computed a new target assignment for epoch … with … assignor"."""

    epoch: int
    assignor: str


Kip848Effect = ResponseSent | RecordAppended | MemberRemoved | EpochBumped | TargetComputed
