"""Classic groups, Connect's among them: key type 2."""

from __future__ import annotations

from dataclasses import dataclass

from agent.core.wire.schema import BYTES, INT32, INT64, STRING, Message, array, wire


@dataclass(frozen=True, slots=True)
class GroupMetadataKey(Message):
    """A classic group."""

    group: str = wire(STRING)


@dataclass(frozen=True, slots=True)
class MemberMetadata(Message):
    """One member, with the bytes of the protocol that the group chose.

    `subscription` and `assignment` are the client's own payloads: see `agent.core.wire.payloads`. Timeouts are
    milliseconds; `rebalance_timeout` is the client's max.poll.interval.ms.
    """

    versions = (0, 4)
    flexible = 4

    member_id: str = wire(STRING)
    group_instance_id: str | None = wire(STRING, since=3, nullable=3, default=None)  # KIP-345
    client_id: str = wire(STRING)
    client_host: str = wire(STRING)
    rebalance_timeout: int = wire(INT32, since=1, default=-1)
    session_timeout: int = wire(INT32)
    subscription: bytes = wire(BYTES)
    assignment: bytes = wire(BYTES)


@dataclass(frozen=True, slots=True)
class GroupMetadataValue(Message):
    """A group as it was when its rebalance completed, or when it became empty.

    `current_state_timestamp` is epoch milliseconds, -1 where the version lacks it.
    """

    versions = (0, 4)
    flexible = 4

    protocol_type: str = wire(STRING)
    generation: int = wire(INT32)
    protocol: str | None = wire(STRING, nullable=0)
    leader: str | None = wire(STRING, nullable=0)
    current_state_timestamp: int = wire(INT64, since=2, default=-1)
    members: tuple[MemberMetadata, ...] = wire(array(MemberMetadata))
