"""Bytes of `__consumer_offsets` to typed records and back.

Owns every record type and version that Kafka writes to the topic, and the payloads that clients put into
them. Knows nothing of groups, of the log, or of any Kafka client. The layers, lowest first: `errors`,
`primitives` (read and write one value), `schema` (a dataclass is its own schema), the tables of messages
(`offsets`, `classic`, `consumer`, `share`, `streams`, `payloads`), `records` (key type and version to message),
`hot` (the offset-commit path, many records at a time) and `form` (Kafka's JSON forms).
"""

from agent.wire.errors import (
    Invalid,
    TrailingBytes,
    Truncated,
    UnknownKeyType,
    UnknownVersion,
    WireError,
)
from agent.wire.records import (
    Entry,
    Record,
    Tombstone,
    TransactionMarker,
    Undecodable,
    decode,
    encode_key,
    encode_value,
)

__all__ = [
    "Entry",
    "Invalid",
    "Record",
    "Tombstone",
    "TrailingBytes",
    "TransactionMarker",
    "Truncated",
    "Undecodable",
    "UnknownKeyType",
    "UnknownVersion",
    "WireError",
    "decode",
    "encode_key",
    "encode_value",
]
