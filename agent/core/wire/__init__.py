"""Bytes of `__consumer_offsets` to typed records and back.

Owns every record type and version that Kafka writes to the topic, and the payloads that clients put into
them. Knows nothing of groups, of the log, or of any Kafka client. The layers, lowest first: `errors`,
`primitives` (read and write one value), `schema` (a struct is its own schema), the tables of messages
(`offsets`, `classic`, `consumer`, `share`, `streams`, `payloads`), `records` (key type and version to message),
`offset_commit_fastpath` (offset commits, many at a time), `commit_table` (their newest values, in one block)
and `json_form` (Kafka's JSON forms).

A new version of a record is a field with `since` in its struct, a new record type a struct and a row of
`records`.
"""

from agent.core.wire.errors import (
    Invalid,
    TrailingBytes,
    Truncated,
    UnknownKeyType,
    UnknownVersion,
    WireError,
)
from agent.core.wire.records import (
    DecodedRecord,
    Record,
    Tombstone,
    TransactionMarker,
    Undecodable,
    decode,
    encode_key,
    encode_value,
)

__all__ = [
    "DecodedRecord",
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
