"""What members ask of a coordinator, what it answers, and what it writes and does: plain values.

After Kafka's JoinGroup, SyncGroup, Heartbeat and LeaveGroup APIs; field names are theirs. Times are milliseconds
of virtual time. `metadata` and `assignment` are values that a coordinator passes on and compares, but does not look
into: in consumers' groups `MemberSubscription` and a tuple of `Slot`, in Connect's what its assignor understands.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from enum import StrEnum
from typing import Any

from msgspec import Struct, field

from agent.core.protocol.states import GroupState

Token = Hashable
"""What the asker knows its request by: an answer carries it back, perhaps much later."""


class ErrorCode(StrEnum):
    """Error codes of Kafka's protocol that a coordinator answers with."""

    NONE = "NONE"
    COORDINATOR_NOT_AVAILABLE = "COORDINATOR_NOT_AVAILABLE"
    FENCED_INSTANCE_ID = "FENCED_INSTANCE_ID"
    FENCED_MEMBER_EPOCH = "FENCED_MEMBER_EPOCH"
    GROUP_ID_NOT_FOUND = "GROUP_ID_NOT_FOUND"
    ILLEGAL_GENERATION = "ILLEGAL_GENERATION"
    INCONSISTENT_GROUP_PROTOCOL = "INCONSISTENT_GROUP_PROTOCOL"
    INVALID_REQUEST = "INVALID_REQUEST"
    INVALID_SESSION_TIMEOUT = "INVALID_SESSION_TIMEOUT"
    MEMBER_ID_REQUIRED = "MEMBER_ID_REQUIRED"
    REBALANCE_IN_PROGRESS = "REBALANCE_IN_PROGRESS"
    UNKNOWN_MEMBER_ID = "UNKNOWN_MEMBER_ID"
    UNKNOWN_SERVER_ERROR = "UNKNOWN_SERVER_ERROR"
    UNRELEASED_INSTANCE_ID = "UNRELEASED_INSTANCE_ID"
    UNSUPPORTED_ASSIGNOR = "UNSUPPORTED_ASSIGNOR"


class RebalanceReason(StrEnum):
    """Why a coordinator begins a rebalance or lets a member go: the contract's causes, as far as a broker knows."""

    MEMBER_JOINED = "member_joined"
    MEMBER_LEFT = "member_left"
    SESSION_TIMEOUT = "session_timeout"
    POLL_TIMEOUT = "poll_timeout"
    SUBSCRIPTION_CHANGED = "subscription_changed"
    PARTITIONS_CHANGED = "partitions_changed"
    COOPERATIVE_FOLLOWUP = "cooperative_followup"
    LEADER_REJOINED = "leader_rejoined"
    ADMIN_REMOVED = "admin_removed"
    STATIC_REPLACED = "static_replaced"
    NOT_REJOINED = "not_rejoined"
    PENDING_EXPIRED = "pending_expired"
    SYNC_TIMEOUT = "sync_timeout"


class SupportedProtocol(Struct, frozen=True):
    """A protocol (assignor) that a member supports, with what it says of itself for that protocol."""

    name: str
    metadata: Any


class FindCoordinatorRequest(Struct, frozen=True):
    """Who coordinates this group?"""

    group: str


class JoinGroupRequest(Struct, frozen=True):
    """A member asks to be in the next generation, by a JoinGroup of version 4 or later: a dynamic member without an
    id is first given one. `protocols` in its order of preference.

    `reason` is what the client knows of its reason to join again; a broker does not see it, and it decides nothing.
    """

    group: str
    session_timeout_ms: int
    rebalance_timeout_ms: int
    member_id: str
    protocol_type: str
    protocols: tuple[SupportedProtocol, ...]
    instance_id: str | None = None
    client_id: str = ""
    client_host: str = "/127.0.0.1"
    reason: RebalanceReason | None = None


class SyncGroupRequest(Struct, frozen=True):
    """A member asks for its assignment; the leader brings everybody's, by member id."""

    group: str
    generation: int
    member_id: str
    instance_id: str | None = None
    protocol_type: str | None = None
    protocol: str | None = None
    assignments: Mapping[str, Any] = field(default_factory=dict)


class HeartbeatRequest(Struct, frozen=True):
    """A member says that it is there."""

    group: str
    generation: int
    member_id: str
    instance_id: str | None = None


class LeavingMember(Struct, frozen=True):
    """Who is to leave: by member id, or (empty id) by static id, which is how an admin removes a static member.

    `reason` is what the sender knows; a broker does not see it, and it decides nothing.
    """

    member_id: str = ""
    instance_id: str | None = None
    reason: RebalanceReason = RebalanceReason.MEMBER_LEFT


class LeaveGroupRequest(Struct, frozen=True):
    """Members leave, or are removed by an admin."""

    group: str
    members: tuple[LeavingMember, ...]


ClassicRequest = FindCoordinatorRequest | JoinGroupRequest | SyncGroupRequest | HeartbeatRequest | LeaveGroupRequest
"""What a client sends to the coordinator of a classic group."""


class FindCoordinatorResponse(Struct, frozen=True):
    """What FindCoordinator is answered: the partition of `__consumer_offsets` whose leader it is."""

    partition: int


class JoinGroupResponse(Struct, frozen=True):
    """What JoinGroup is answered; `members` (id, static id, metadata) go to the leader only."""

    error: ErrorCode
    member_id: str = ""
    generation: int = -1
    protocol_type: str | None = None
    protocol: str | None = None
    leader: str = ""
    members: tuple[tuple[str, str | None, Any], ...] = ()
    skip_assignment: bool = False


class SyncGroupResponse(Struct, frozen=True):
    """What SyncGroup is answered."""

    error: ErrorCode
    assignment: Any = ()
    protocol_type: str | None = None
    protocol: str | None = None


class HeartbeatResponse(Struct, frozen=True):
    """What Heartbeat is answered."""

    error: ErrorCode


class LeaveGroupResponse(Struct, frozen=True):
    """What LeaveGroup is answered: an error for each member, in the order asked."""

    error: ErrorCode
    members: tuple[ErrorCode, ...] = ()


class ClassicMemberImage(Struct, frozen=True):
    """A member as the coordinator writes it."""

    member_id: str
    instance_id: str | None
    client_id: str
    client_host: str
    session_timeout_ms: int
    rebalance_timeout_ms: int
    metadata: Any
    assignment: Any


class GroupEvent(Struct, frozen=True):
    """Something that a coordinator writes of a group, or does to it, and when."""

    group: str
    at_ms: int


class ClassicGroupImage(GroupEvent, frozen=True):
    """A classic group as its coordinator writes it to `__consumer_offsets` (key type 2), `Dead` as a tombstone.

    `at_ms` is the record's time, `state_since_ms` what is in the record as `currentStateTimestamp`.
    """

    generation: int
    protocol_type: str | None
    protocol: str | None
    leader: str | None
    state: GroupState
    state_since_ms: int
    members: tuple[ClassicMemberImage, ...]


class ResponseSent(Struct, frozen=True):
    """An answer goes out to whoever asked under `token`."""

    token: Token
    response: Any


class RecordAppended(Struct, frozen=True):
    """A record goes into the log."""

    image: Any


class _RebalanceRequested(GroupEvent, frozen=True):
    generation: int
    reason: RebalanceReason
    member_id: str


class RebalancePrepared(_RebalanceRequested, frozen=True):
    """A rebalance begins: what a broker logs as "Preparing to rebalance group … (reason …)"."""


class RejoinRequested(_RebalanceRequested, frozen=True):
    """While a rebalance is being prepared, something else comes that calls for one."""


class GenerationStabilized(GroupEvent, frozen=True):
    """The join phase is over: what a broker logs as "Stabilized group … generation … with … members"."""

    generation: int
    members: int


class MemberRemoved(GroupEvent, frozen=True):
    """A member is no longer in the group."""

    member_id: str
    reason: RebalanceReason


Effect = ResponseSent | RecordAppended | RebalancePrepared | RejoinRequested | GenerationStabilized | MemberRemoved
