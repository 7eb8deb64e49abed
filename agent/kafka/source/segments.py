"""A partition's `.log` segment files → its records, raw or as a read_committed consumer would see them.

Owns the order of segments, overlaps between them, and the outcome of transactions. Refuses to know frames and
damage (`agent.kafka.source.batches`) and what a record means.

A transaction's outcome stands behind its records. So at the first transactional batch another pass goes ahead
from header to header, opens only the markers and learns, for each producer, at which offsets its transactions
ended and how. A transactional batch of producer P at offset o has the outcome of P's first marker after o;
without one the transaction is open, and dropped. That is right since a producer has one transaction at a time,
and compaction keeps a commit's marker as long as the log holds a record of that transaction (Kafka's
LogCleaner, CleanedTransactionMetadata). A marker lost to damage, though, lends its records the outcome of the
producer's next transaction; the damage is reported.

Unlike a live read_committed consumer, which stops at the first open transaction (the last stable offset),
what other producers wrote after it is kept: a hanging transaction must not hide the rest of a log.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator
from contextlib import suppress
from itertools import islice
from operator import attrgetter
from pathlib import Path

from msgspec import Struct

from agent.core.records import OffsetColumn, RawRecord, RecordBatch
from agent.kafka.source import NO_TIMESTAMP_MS
from agent.kafka.source.batches import (
    CONTROL,
    RECORD_ERRORS,
    TRANSACTIONAL,
    Batch,
    BatchReader,
    Record,
)
from agent.kafka.source.errors import SourcePathError
from agent.kafka.source.problems import ProblemKind, SegmentProblem
from agent.kafka.source.unpacking import Oversized

TOPIC = "__consumer_offsets"
UNKNOWN_PARTITION = -1

MAX_BATCH_RECORDS = 2_000
"""The most records in one `RecordBatch` of a file: what is made of so many, 350 bytes of each, is still in a
processor's own cache when they are applied; of 10,000 it was not."""

COMPARED_RECORDS = 1_000
"""So many records tell whether logs of one partition are replicas: replicas differ at their ends at most."""

_PARTITION_DIRECTORY = re.compile(re.escape(TOPIC) + r"-(\d+)")
_OF_TRANSACTION = TRANSACTIONAL | CONTROL
_OFFSET, _TIMESTAMP, _KEY, _VALUE = map(attrgetter, ("offset", "timestamp", "key", "value"))
_COMMIT = 1  # ControlRecordType: 0 is abort, 1 is commit

# For each producer, the offsets of its markers in order, and which of them commit.
_Outcomes = dict[int, tuple[list[int], list[bool]]]


class PartitionLog(Struct, frozen=True):
    """The segments of one partition, in order of base offset.

    `partition` is -1 where neither a directory's name nor the caller says which it is.
    """

    partition: int
    segments: tuple[Path, ...]

    @property
    def size_bytes(self) -> int:
        """Of its files as they are now; one that is gone has none."""
        size = 0
        for segment in self.segments:
            with suppress(OSError):
                size += segment.stat().st_size
        return size

    def raw(self) -> Iterator[RawRecord | SegmentProblem]:
        """Every record with the transaction markers, whatever became of its transaction, in offset order."""
        partition = self.partition
        for walk, batch, expected in self._batches():
            if isinstance(batch, SegmentProblem):
                yield batch
                continue
            control = bool(batch.attributes & CONTROL)
            for portion in _portions(walk, batch, expected):
                if isinstance(portion, SegmentProblem):
                    yield portion
                    continue
                for record in portion:
                    timestamp = record.timestamp
                    yield RawRecord(
                        partition,
                        record.offset,
                        NO_TIMESTAMP_MS if timestamp is None else timestamp,
                        record.key,
                        record.value,
                        control,
                    )

    def committed(self) -> Iterator[RecordBatch | SegmentProblem]:
        """Runs of at most `MAX_BATCH_RECORDS` records, each of one leader: no markers, nothing of aborted or open
        transactions."""
        outcomes: _Outcomes | None = None
        pending: list[Record] = []
        epoch = -1
        for walk, batch, expected in self._batches():
            problem: SegmentProblem | None
            if isinstance(batch, SegmentProblem):
                problem = batch
            else:
                if batch.attributes & _OF_TRANSACTION:
                    if batch.attributes & CONTROL:
                        continue
                    if outcomes is None:  # most partitions never had a transaction, and need one pass only
                        outcomes = self._outcomes()
                    if not _is_committed(outcomes, batch):
                        continue
                if walk.is_large or walk.leader_epoch != epoch:
                    yield from self._runs(pending, epoch)
                    pending, epoch = [], walk.leader_epoch
                if walk.is_large:
                    for portion in _portions(walk, batch, expected):
                        yield from (portion,) if isinstance(portion, SegmentProblem) else self._runs(portion, epoch)
                    continue
                problem = _take(pending, walk, batch, expected)
                if problem is None:
                    if whole := len(pending) - len(pending) % MAX_BATCH_RECORDS:
                        yield from self._runs(pending[:whole], epoch)
                        del pending[:whole]
                    continue
            yield from self._runs(pending, epoch)
            pending = []
            yield problem
        yield from self._runs(pending, epoch)

    def _batches(self) -> Iterator[tuple[BatchReader, Batch | SegmentProblem, int]]:
        """Each batch with records still to come: its walk, the batch, the least offset not seen before.

        Segments may overlap (a copy taken during compaction, a cleaned segment beside its source): what was
        seen is passed over. Within one file offsets only grow, so going back is damage.
        """
        expected = 0
        for segment in self.segments:
            in_segment = 0
            walk = BatchReader(segment, self.partition)
            for batch in walk:
                if isinstance(batch, SegmentProblem):
                    yield walk, batch, expected
                    continue
                following = batch.next_offset
                if following <= in_segment:
                    message = f"expected an offset from {in_segment} on, the batch ends at {following - 1}"
                    yield walk, walk.problem(ProblemKind.OFFSET, walk.position, following - 1, 0, message), expected
                    continue
                in_segment = following
                if following > expected:
                    yield walk, batch, expected
                    expected = following

    def _runs(self, records: list[Record], leader_epoch: int) -> Iterator[RecordBatch]:
        for start in range(0, len(records), MAX_BATCH_RECORDS):
            rows = records[start : start + MAX_BATCH_RECORDS]
            timestamps = list(map(_TIMESTAMP, rows))
            if None in timestamps:
                timestamps = [NO_TIMESTAMP_MS if timestamp is None else timestamp for timestamp in timestamps]
            yield RecordBatch(
                self.partition,
                OffsetColumn(rows, _OFFSET),
                timestamps,
                list(map(_KEY, rows)),
                list(map(_VALUE, rows)),
                [leader_epoch] * len(rows),
            )

    def _outcomes(self) -> _Outcomes:
        """For each producer, the offsets of its markers in order, and which of them commit."""
        markers: list[tuple[int, int, bool]] = []
        for segment in self.segments:
            for batch in BatchReader(segment, self.partition, only=CONTROL):
                if isinstance(batch, SegmentProblem):
                    continue  # the other pass meets and reports it
                commit = _marker(batch)
                if commit is not None:
                    markers.append((batch.base_offset, batch.producer_id, commit))
        outcomes: _Outcomes = {}
        for offset, producer_id, commit in sorted(markers):
            offsets, commits = outcomes.setdefault(producer_id, ([], []))
            offsets.append(offset)
            commits.append(commit)
        return outcomes


def _portions(walk: BatchReader, batch: Batch, expected: int) -> Iterator[list[Record] | SegmentProblem]:
    """The batch's records from `expected` on, some at a time, and what is wrong where they end early."""
    records = (record for record in batch if record.offset >= expected)
    portion: list[Record] = []
    try:
        while True:
            portion.extend(islice(records, MAX_BATCH_RECORDS))
            if not portion:
                return
            yield portion
            portion = []
    except RECORD_ERRORS as error:
        yield portion
        yield _fault(walk, batch, error)


def _take(into: list[Record], walk: BatchReader, batch: Batch, expected: int) -> SegmentProblem | None:
    """Append the batch's records from `expected` on; those before a fault inside the batch, too."""
    try:
        if batch.base_offset >= expected:
            into.extend(batch)
        else:
            into.extend(record for record in batch if record.offset >= expected)
    except RECORD_ERRORS as error:
        return _fault(walk, batch, error)
    return None


def _fault(walk: BatchReader, batch: Batch, error: BaseException) -> SegmentProblem:
    kind = ProblemKind.OVERSIZED if isinstance(error, Oversized) else ProblemKind.RECORDS
    message = f"expected records as the header says, got {type(error).__name__}: {error}"
    offset = None if batch.base_offset < 0 else batch.base_offset
    return walk.problem(kind, walk.position, offset, 0, message)


def _marker(batch: Batch) -> bool | None:
    """Whether the control batch commits; None if it ends no transaction.

    A control record's key is `version int16, type int16` (Kafka's ControlRecordType).
    """
    records: list[Record] = []
    try:
        records.extend(batch)
    except RECORD_ERRORS:
        return None
    for record in records:
        if record.key is not None and len(record.key) >= 4:
            kind = int.from_bytes(record.key[2:4])
            if kind <= _COMMIT:
                return kind == _COMMIT
    return None


def _is_committed(outcomes: _Outcomes, batch: Batch) -> bool:
    offsets, commits = outcomes.get(batch.producer_id, ([], []))
    index = bisect_right(offsets, batch.base_offset)
    return index < len(offsets) and commits[index]


def discover(path: Path) -> list[PartitionLog]:
    """The partitions that a PATH holds, by number.

    A PATH is a `.log` file, a directory of one partition (`__consumer_offsets-N`, or any that holds `.log` files:
    those with a base offset as their name, or all if none has one), or a directory that holds directories
    `__consumer_offsets-N`, such as a broker's log directory. Raises `SourcePathError`.
    """
    try:
        if path.is_file() and path.suffix == ".log":
            return [PartitionLog(_partition_of(path.absolute().parent), (path,))]
        if not path.is_dir():
            came = "a file of another kind" if path.exists() else "nothing"
            raise SourcePathError(f"{path}: expected a .log segment, an .ndjson file or a directory, got {came}")
        # A name that goes on (`-delete`, `-future`, `-stray`) is a directory the broker no longer counts in.
        numbered = {number: child for child in path.iterdir() if (number := _number(child)) is not None}
        # A broker may write its own `.log` files beside them.
        if numbered and _number(path.absolute()) is None:
            logs = [_directory(numbered[number], number) for number in sorted(numbered)]
        else:
            logs = [_directory(path, _partition_of(path.absolute()))]
        if any(log.segments for log in logs):
            return logs
    except OSError as error:
        place = error.filename or path
        raise SourcePathError(f"{place}: expected a readable directory: {error.strerror}") from error
    raise SourcePathError(f"{path}: expected .log segments, or directories {TOPIC}-N with some, got neither")


def discover_all(paths: Iterable[str | Path]) -> list[PartitionLog]:
    """The partitions of several PATHs. One that is in several, as replicas are, is one log: each offset is read once.
    Files of unknown partition stay apart, since they may be of any. Raises `SourcePathError`, also for PATHs of
    different clusters.
    """
    out: list[PartitionLog] = []
    at: dict[int, tuple[int, str | Path]] = {}
    for path, log in ((it, log) for it in paths for log in discover(Path(it))):
        place, first_path = at.setdefault(log.partition, (len(out), path))
        if place == len(out) or log.partition == UNKNOWN_PARTITION:
            out.append(log)
            continue
        if (offset := _first_difference(out[place], log)) is not None:
            raise SourcePathError(
                f"{path}: expected a replica of what {first_path} holds, got another record at offset {offset} of "
                f"partition {log.partition}: these are logs of different clusters, or of different topics of that "
                "name"
            )
        out[place] = _in_order(log.partition, (*out[place].segments, *log.segments))
    return out


def _first_difference(one: PartitionLog, other: PartitionLog) -> int | None:
    """The first offset at which two logs have different records, of the first `COMPARED_RECORDS` of each; None where
    there is none. Either may lack what the other's cleaner has left."""
    known = {it.offset: (it.key, it.timestamp_ms) for it in _first_records(one)}
    for it in _first_records(other):
        if known.get(it.offset, (it.key, it.timestamp_ms)) != (it.key, it.timestamp_ms):
            return it.offset
    return None


def _first_records(log: PartitionLog) -> Iterator[RawRecord]:
    return islice((it for it in log.raw() if isinstance(it, RawRecord)), COMPARED_RECORDS)


def _directory(path: Path, partition: int) -> PartitionLog:
    # `glob` would find nothing where it may not look.
    files = [it for it in path.iterdir() if it.suffix == ".log"]
    # Beside what Kafka names by a base offset, another name is a broker's own log.
    return _in_order(partition, [it for it in files if it.stem.isdecimal()] or files)


def _in_order(partition: int, segments: Iterable[Path]) -> PartitionLog:
    def base_offset(segment: Path) -> tuple[int, str, Path]:
        return (int(segment.stem) if segment.stem.isdecimal() else 0, segment.name, segment)

    return PartitionLog(partition, tuple(sorted(segments, key=base_offset)))


def _number(directory: Path) -> int | None:
    match = _PARTITION_DIRECTORY.fullmatch(directory.name)
    return int(match[1]) if match else None


def _partition_of(directory: Path) -> int:
    number = _number(directory)
    return UNKNOWN_PARTITION if number is None else number
