"""The transaction coordinator's records, of the topic `__transaction_state`: what each transactional id is doing.

A key's first two bytes are its version, as in `__consumer_offsets`, with a number of this topic's own.
"""

from __future__ import annotations

from agent.core.wire import primitives as p
from agent.core.wire.errors import Invalid, UnknownKeyType, UnknownVersion, WireError
from agent.core.wire.schema import INT8, INT16, INT32, INT64, STRING, Message, array, wire

OPEN_STATES = frozenset({1, 2, 3, 7})
"""States in which markers have yet to be written: ongoing, about to commit, to abort, to be fenced (KIP-890)."""

VERSIONS = (0, 1)
"""Of values; 1 (Kafka 4.0, KIP-890) is flexible."""


class TransactionalIdKey(Message, frozen=True):
    """A transactional id."""

    transactional_id: str = wire(STRING)


class TransactionPartitions(Message, frozen=True):
    """Partitions of a topic that the transaction has written to, or is about to."""

    flexible = 1

    topic: str = wire(STRING)
    partition_ids: tuple[int, ...] = wire(array(INT32))


class TransactionStateValue(Message, frozen=True):
    """How a transactional id stands.

    `transaction_status` is a number of Kafka's (`OPEN_STATES`), `transaction_partitions` null where nothing is open;
    times are epoch milliseconds. The tagged fields of version 1 (ids and epochs of fenced producers, what the client
    speaks) are no concern here: they are among the unknown tags.
    """

    flexible = 1

    producer_id: int = wire(INT64)
    producer_epoch: int = wire(INT16)
    transaction_timeout_ms: int = wire(INT32)
    transaction_status: int = wire(INT8)
    transaction_partitions: tuple[TransactionPartitions, ...] | None = wire(array(TransactionPartitions), nullable=0)
    transaction_last_update_timestamp_ms: int = wire(INT64)
    transaction_start_timestamp_ms: int = wire(INT64)

    def partitions_of(self, topic: str) -> set[int]:
        """Partitions of a topic in which it is open."""
        if self.transaction_status not in OPEN_STATES:
            return set()
        return {it for of in self.transaction_partitions or () if of.topic == topic for it in of.partition_ids}


def decode_transaction_state(key: bytes | None, value: bytes | None) -> tuple[str, TransactionStateValue | None]:
    """A record's transactional id, and how it stands; None for a tombstone. Raises `WireError`."""
    if key is None:
        raise Invalid("key: expected a key, got none")
    try:
        number, at = p.read_int16(key, 0)
        if number != 0:
            raise UnknownKeyType(f"key type {number} of the transaction coordinator; known is 0")
        name = TransactionalIdKey.read_whole(key, at, 0).transactional_id
    except WireError as error:
        error.prepend_path("key")
        raise
    if value is None:
        return name, None
    try:
        version, at = p.read_int16(value, 0)
        if version not in VERSIONS:
            raise UnknownVersion(f"version {version} of TransactionStateValue; known are 0 and 1")
        return name, TransactionStateValue.read_whole(value, at, version)
    except WireError as error:
        error.prepend_path("value")
        raise
