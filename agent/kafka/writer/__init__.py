"""Where records go: segment files, NDJSON lines, a broker's topic. The mirror image of `agent.kafka.source`.

Owns all output of `__consumer_offsets` bytes and what can be wrong with it on the way out. Refuses to know what is
inside a key or a value, and who made the records.

Every sink takes an iterable of `RawRecord`, of one partition after the other or of all mixed, reads it once and
keeps no more than a batch a partition. It numbers the records of each partition from 0 on, as a broker does;
`RawRecord.offset` is not looked at.
"""

from __future__ import annotations

from msgspec import Struct

TOPIC = "__consumer_offsets"


class Written(Struct, frozen=True):
    """What a sink took: records, and in how many partitions they are; bytes as they stand in files or in the log."""

    records: int
    partitions: int
    size_bytes: int
