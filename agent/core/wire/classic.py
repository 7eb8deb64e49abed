"""Classic groups, Connect's among them: key type 2."""

from __future__ import annotations

from agent.core.wire.errors import Invalid
from agent.core.wire.schema import BYTES, INT16, INT32, INT64, STRING, Message, array, wire


class GroupMetadataKey(Message, frozen=True):
    """A classic group."""

    group: str = wire(STRING)


class MemberMetadata(Message, frozen=True):
    """One member, with the bytes of the protocol that the group chose.

    `subscription` and `assignment` are the client's own payloads: see `agent.core.wire.payloads`. Timeouts are
    milliseconds; `rebalance_timeout` is the client's max.poll.interval.ms.
    """

    versions = (0, 4)
    flexible = 4

    member_id: str = wire(STRING)
    group_instance_id: str | None = wire(STRING, since=3, nullable=3, default=None)  # KIP-345
    client_id: str = wire(STRING)
    client_host: str = wire(STRING, repeats=True)
    rebalance_timeout: int = wire(INT32, since=1, default=-1, repeats=True)
    session_timeout: int = wire(INT32, repeats=True)
    subscription: bytes = wire(BYTES, repeats=True)
    assignment: bytes = wire(BYTES, repeats=True)


class GroupMetadataValue(Message, frozen=True):
    """A group as it was when its rebalance completed, or when it became empty.

    `current_state_timestamp` is epoch milliseconds, -1 where the version lacks it.
    """

    versions = (0, 4)
    flexible = 4

    protocol_type: str = wire(STRING, repeats=True)
    generation: int = wire(INT32)
    protocol: str | None = wire(STRING, nullable=0, repeats=True)
    leader: str | None = wire(STRING, nullable=0)
    current_state_timestamp: int = wire(INT64, since=2, default=-1)
    members: tuple[MemberMetadata, ...] = wire(array(MemberMetadata))


class RedpandaMemberMetadata(Message, frozen=True):
    """A member as Redpanda writes it: as Kafka in version 3, with that version in front of each
    (`member_state::encode` of its `group_metadata.cc`)."""

    version: int = wire(INT16)
    member_id: str = wire(STRING)
    group_instance_id: str | None = wire(STRING, nullable=0)
    client_id: str = wire(STRING)
    client_host: str = wire(STRING)
    rebalance_timeout: int = wire(INT32)
    session_timeout: int = wire(INT32)
    subscription: bytes = wire(BYTES)
    assignment: bytes = wire(BYTES)


class RedpandaGroupMetadataValue(Message, frozen=True):
    """A group as Redpanda writes it, in version 3; its members alone differ from Kafka's."""

    protocol_type: str = wire(STRING)
    generation: int = wire(INT32)
    protocol: str | None = wire(STRING, nullable=0)
    leader: str | None = wire(STRING, nullable=0)
    current_state_timestamp: int = wire(INT64)
    members: tuple[RedpandaMemberMetadata, ...] = wire(array(RedpandaMemberMetadata))

    def as_kafkas(self) -> GroupMetadataValue:
        """The same as Kafka's message. Raises `Invalid` where a member is of another version than Redpanda knows."""
        if others := {it.version for it in self.members} - {REDPANDA_VERSION}:
            raise Invalid(f"expected members of version {REDPANDA_VERSION}, got {sorted(others)}")
        return GroupMetadataValue(
            self.protocol_type,
            self.generation,
            self.protocol,
            self.leader,
            self.current_state_timestamp,
            tuple(
                MemberMetadata(
                    it.member_id,
                    it.group_instance_id,
                    it.client_id,
                    it.client_host,
                    it.rebalance_timeout,
                    it.session_timeout,
                    it.subscription,
                    it.assignment,
                )
                for it in self.members
            ),
        )


REDPANDA_VERSION = 3
"""The only one that Redpanda writes, of groups as of their members."""
