"""Records → segment files, as a broker's log directory has them: `DIR/__consumer_offsets-N/<base offset>.log`.

Owns the frames (record batches of magic 2, uncompressed unless told), the rolling of segments and that a directory
is seen whole or not at all: everything is written into a hidden directory in DIR, and moved from there at the end.

There are no index files; a broker makes them anew as it starts. So a stopped broker can be given such a history:
put a partition's `.log` files in place of all `.log`, `.index` and `.timeindex` files of its partition directory,
leave the rest (`partition.metadata` has the topic's id), and start it; it loads the groups as it becomes their
coordinator. The topic must exist there, with the partitions that the records were placed for.
"""

from __future__ import annotations

import re
import shutil
import struct
import tempfile
from collections.abc import Iterable
from contextlib import ExitStack
from pathlib import Path

from aiokafka.record.default_records import DefaultRecordBatchBuilder

from agent.core.records import RawRecord
from agent.kafka.writer import TOPIC, Written
from agent.kafka.writer.errors import RecordRefused, SinkPathError

SEGMENT_BYTES = 100 << 20  # Kafka's default of offsets.topic.segment.bytes
BATCH_BYTES = 64 << 10

_UNCOMPRESSED = 0
_PARTITION_DIRECTORY = re.compile(re.escape(TOPIC) + r"-\d+")
_HEAD = struct.Struct(">qii")  # base offset, length, leader epoch: what the CRC does not cover
_LEADER_EPOCH = 0
_NO_HEADERS: list[tuple[str, bytes | None]] = []


def write_segments(
    records: Iterable[RawRecord],
    directory: Path,
    *,
    segment_bytes: int = SEGMENT_BYTES,
    batch_bytes: int = BATCH_BYTES,
    replace: bool = False,
) -> Written:
    """Write the records below `directory`, which is made if it is not there.

    A segment is rolled before it would exceed `segment_bytes`, a batch before `batch_bytes`; what is
    larger alone stands alone. A directory that holds partitions already is refused, or with `replace` loses them
    once all is written. If anything fails, `directory` is as it was. Raises `SinkPathError`, `RecordRefused`.
    """
    existed = directory.is_dir()
    try:
        directory.mkdir(parents=True, exist_ok=True)
        if not replace and (held := _partitions_in(directory)):
            raise SinkPathError(f"{directory}: expected a directory without {TOPIC}-N, it has {held[0].name}")
        staging = Path(tempfile.mkdtemp(prefix=".kshadow-", dir=directory))
        try:
            written = _write(records, staging, segment_bytes, batch_bytes)
            _change_places(staging, directory)
        finally:
            shutil.rmtree(staging, ignore_errors=True)
            if not existed and not any(directory.iterdir()):
                directory.rmdir()
    except OSError as error:
        raise SinkPathError(f"{directory}: expected a directory to write to: {error}") from error
    return written


def _change_places(staging: Path, directory: Path) -> None:
    """Put the staged partitions in place of all that `directory` has; every one, or none."""
    aside = staging / "old"
    aside.mkdir()
    with ExitStack() as undo:
        for old in _partitions_in(directory):
            old.rename(aside / old.name)
            undo.callback((aside / old.name).rename, old)
        for new in _partitions_in(staging):
            new.rename(directory / new.name)
            undo.callback((directory / new.name).rename, new)
        undo.pop_all()


def _partitions_in(directory: Path) -> list[Path]:
    return sorted(child for child in directory.iterdir() if _PARTITION_DIRECTORY.fullmatch(child.name))


def _write(records: Iterable[RawRecord], directory: Path, segment_bytes: int, batch_bytes: int) -> Written:
    logs: dict[int, _PartitionLog] = {}
    for partition, _, timestamp_ms, key, value, control in records:
        if control or timestamp_ms < 0:  # aiokafka's builder takes -1 for "not known yet"
            raise RecordRefused(
                f"partition {partition}: expected a group's record with a time, got"
                f" {'a transaction marker' if control else f'timestamp {timestamp_ms}'}"
            )
        log = logs.get(partition)
        if log is None:
            log = logs[partition] = _PartitionLog(directory / f"{TOPIC}-{partition}", segment_bytes, batch_bytes)
        log.append(timestamp_ms, key, value)
    for log in logs.values():
        log.flush()
    return Written(
        sum(log.next_offset for log in logs.values()), len(logs), sum(log.size_bytes for log in logs.values())
    )


class _PartitionLog:
    """One partition's directory, with the batch that is being filled.

    No file is kept open between batches: there may be more partitions than a process may have files.
    """

    def __init__(self, directory: Path, segment_bytes: int, batch_bytes: int) -> None:
        directory.mkdir()
        self._directory = directory
        self._segment_bytes, self._batch_bytes = segment_bytes, batch_bytes
        self._segment = self._segment_from(0)
        self._in_segment = 0
        self._base = self._count = 0
        self._builder = self._new_builder()
        self.size_bytes = 0

    @property
    def next_offset(self) -> int:
        return self._base + self._count

    def append(self, timestamp_ms: int, key: bytes | None, value: bytes | None) -> None:
        if self._builder.append(self._count, timestamp_ms, key, value, _NO_HEADERS) is None:  # the batch is full
            self.flush()
            self._builder.append(0, timestamp_ms, key, value, _NO_HEADERS)
        self._count += 1

    def flush(self) -> None:
        """Write the batch, which has one record at least, into its segment."""
        frame = self._builder.build()
        _HEAD.pack_into(frame, 0, self._base, len(frame) - 12, _LEADER_EPOCH)
        if self._in_segment and self._in_segment + len(frame) > self._segment_bytes:
            self._segment = self._segment_from(self._base)
            self._in_segment = 0
        with self._segment.open("ab") as file:
            file.write(frame)
        self._in_segment += len(frame)
        self.size_bytes += len(frame)
        self._base, self._count = self.next_offset, 0
        self._builder = self._new_builder()

    def _segment_from(self, base_offset: int) -> Path:
        return self._directory / f"{base_offset:020}.log"

    def _new_builder(self) -> DefaultRecordBatchBuilder:
        return DefaultRecordBatchBuilder(2, _UNCOMPRESSED, 0, -1, -1, -1, self._batch_bytes)
