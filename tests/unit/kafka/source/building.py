"""Segment files made by hand: batches as aiokafka's own builder writes them."""

from __future__ import annotations

import struct
from pathlib import Path

from aiokafka.record.default_records import DefaultRecordBatchBuilder
from aiokafka.record.legacy_records import LegacyRecordBatchBuilder
from aiokafka.record.util import calc_crc32c

from agent.core.records import RawRecord, RecordBatch
from agent.kafka.source.problems import SegmentProblem
from agent.kafka.source.segments import PartitionLog, discover

NONE, GZIP, SNAPPY, LZ4, ZSTD = range(5)


def key(offset: int) -> bytes:
    return f"key-{offset}".encode()


def value(offset: int) -> bytes:
    return f"value-{offset}".encode()


def batch(
    base: int, count: int = 1, *, codec: int = NONE, producer: int | None = None, holding: bytes | None = None
) -> bytes:
    """`count` records from offset `base` on, timestamps 1000 + offset; of a transaction with `producer`. Each has
    `holding` as its value, or one of its own."""
    identity = (0, -1, -1, -1) if producer is None else (1, producer, 0, 0)
    builder = DefaultRecordBatchBuilder(2, codec, *identity, 1 << 30)
    for index in range(count):
        offset = base + index
        its_value = value(offset) if holding is None else holding
        assert builder.append(index, 1000 + offset, key(offset), its_value, []) is not None
    return at_offset(bytes(builder.build()), base)


def marker(offset: int, producer: int, *, commit: bool, kind: int | None = None) -> bytes:
    builder = DefaultRecordBatchBuilder(2, NONE, 1, producer, 0, -1, 1 << 20)
    kind = int(commit) if kind is None else kind
    builder.append(0, 1000 + offset, struct.pack(">hh", 0, kind), struct.pack(">hi", 0, 7), [])
    return with_attributes(at_offset(bytes(builder.build()), offset), 0x30)


def old_batch(base: int, count: int, magic: int, codec: int = NONE) -> bytes:
    """Messages of magic 0 or 1; compressed they are one set whose header has the last offset."""
    builder = LegacyRecordBatchBuilder(magic, codec, 1 << 20)
    for index in range(count):
        # Inner offsets of magic 1 are relative to the set (KIP-31).
        offset = index if codec and magic else base + index
        builder.append(offset, 1000 + base + index, key(base + index), value(base + index))
    built = bytes(builder.build())
    return at_offset(built, base + count - 1) if codec else built


def at_offset(frame: bytes, base: int) -> bytes:
    return struct.pack(">q", base) + frame[8:]


def with_attributes(frame: bytes, attributes: int) -> bytes:
    body = struct.pack(">h", attributes) + frame[23:]
    return frame[:17] + struct.pack(">I", calc_crc32c(body)) + body


def by_leader(epoch: int, frame: bytes) -> bytes:
    """A batch of magic 2 that another leader appended: its CRC is of what follows that."""
    return frame[:12] + struct.pack(">i", epoch) + frame[16:]


def write(directory: Path, *frames: bytes, base: int = 0, partition: int = 3) -> PartitionLog:
    """The frames as one segment of a partition's directory."""
    folder = directory / f"__consumer_offsets-{partition}"
    folder.mkdir(exist_ok=True)
    (folder / f"{base:020}.log").write_bytes(b"".join(frames))
    (log,) = discover(folder)
    return log


def committed(log: PartitionLog) -> tuple[list[RawRecord], list[SegmentProblem]]:
    records: list[RawRecord] = []
    problems = []
    for item in log.committed():
        if isinstance(item, RecordBatch):
            assert len(item) <= 10_000
            records.extend(item.records())
        else:
            problems.append(item)
    return records, problems


def raw(log: PartitionLog) -> tuple[list[RawRecord], list[SegmentProblem]]:
    items = list(log.raw())
    return (
        [item for item in items if isinstance(item, RawRecord)],
        [item for item in items if isinstance(item, SegmentProblem)],
    )


def offsets(records: list[RawRecord]) -> list[int]:
    return [record.offset for record in records]
