"""Up to where a partition's history is durable, so that a restart goes on there. Pure.

A partition's state is a function of its records before `next_offset` and of the time let pass up to `clock_ms`; so
are the events that came of it. After a restart the log is read again from a snapshot that is no further, and what the
position has is not exported a second time: compaction may have changed what the same records show.
"""

from __future__ import annotations

import json
import zlib
from typing import Any, NamedTuple

from agent.persistence.cluster_state import ReplayPosition
from agent.persistence.export.errors import PositionRefused

VERSION = 1


class PartitionLog(NamedTuple):
    """Whose position: a topic made anew has another id (None where the cluster gives topics none)."""

    cluster_id: str
    topic_id: str | None
    partition: int


def encode_position(position: ReplayPosition, log: PartitionLog) -> bytes:
    """The record for a store of snapshots: JSON, some 170 bytes."""
    fields = {"version": VERSION, **log._asdict(), **position._asdict()}
    return _encoded({**fields, "crc32": zlib.crc32(_encoded(fields))})


def _encoded(fields: dict[str, Any]) -> bytes:
    return json.dumps(fields, separators=(",", ":"), sort_keys=True).encode()


def decode_position(data: bytes, log: PartitionLog) -> ReplayPosition:
    """The position in such a record. Raises `PositionRefused` where it is another log's or cannot be read."""
    try:
        record = json.loads(data)
    except ValueError as error:
        raise PositionRefused(f"expected JSON, got {data[:40]!r}") from error
    if not isinstance(record, dict) or record.get("version") != VERSION:
        came = record.get("version") if isinstance(record, dict) else record
        raise PositionRefused(f"expected version {VERSION}, got {came!r}")
    for name, expected in log._asdict().items():
        if record.get(name) != expected:
            raise PositionRefused(f"expected {name} {expected!r}, got {record.get(name)!r}")
    next_offset, clock_ms = record.get("next_offset"), record.get("clock_ms")
    if type(next_offset) is not int or type(clock_ms) is not int:
        raise PositionRefused(f"expected numbers, got {next_offset!r} and {clock_ms!r}")
    # A digit that a disk got wrong would pass for another position, and events before it would never be told.
    if (crc32 := record.pop("crc32", None)) != (expected_crc32 := zlib.crc32(_encoded(record))):
        raise PositionRefused(f"expected CRC {expected_crc32}, got {crc32!r}: it is damaged")
    return ReplayPosition(next_offset, clock_ms)
