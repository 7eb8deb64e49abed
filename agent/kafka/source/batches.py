"""The frames of one `.log` segment file: bytes → checked record batches, or what is wrong with them.

Owns the walk from batch to batch, the CRC check, and the decision whether to go on behind damage. Refuses to
know transactions, other segments and the records themselves; those are aiokafka's to take apart.

A batch (magic 2) is `baseOffset int64, batchLength int32, partitionLeaderEpoch int32, magic int8, crc uint32,
attributes int16, …`; older messages (magic 0 and 1) have offset, length and magic at the same places. The CRC
covers only what follows it (Kafka's DefaultRecordBatch), so base offset and length are checked by reason:
offsets must be in the segment's range, and behind damage a frame must seem to begin. Where none does, the next one is
searched for whose CRC is right, with frames behind it up to the end of the file, or sound ones for longer than a
batch may be: keys and values are strangers', and one of them may look like a batch.
"""

from __future__ import annotations

import os
import re
import struct
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Protocol

from aiokafka.errors import CorruptRecordException, UnsupportedCodecError
from aiokafka.record.default_records import DefaultRecordBatch
from aiokafka.record.legacy_records import LegacyRecordBatch
from cramjam import DecompressionError

from agent.kafka.source.problems import ProblemKind, SegmentProblem
from agent.kafka.source.unpacking import Oversized, unpack

_CHUNK_BYTES = 1 << 22
_HEAD = struct.Struct(">qiib4xh")  # base offset, length, leader epoch (of magic 2), magic, attributes
_PREFIX_BYTES = 12  # what precedes the bytes that `length` counts
_LEAST_LENGTH = {0: 14, 1: 22, 2: 49}  # an empty frame of each magic
# No broker takes such a batch (message.max.bytes is 1 MiB unless raised): beyond it, a length is damage.
_MOST_LENGTH = 1 << 28
# A header of magic 2, with an offset below 2**56 and a length below `_MOST_LENGTH`.
_SEEMS_HEADER = re.compile(rb"(?s)(?=\x00.{7}[\x00-\x0f].{7}\x02)")
# Of all that seems to be a batch, so much is looked at in a search, and of sound ones so many that lead nowhere.
_MOST_TRIED_BYTES = 1 << 28
_MOST_OF_STRANGERS = 16
# Kafka's message.max.bytes: a batch of it holds no batches of more bytes.
_MOST_HELD_BYTES = (1 << 20) + 12
# A segment's offsets are 32-bit numbers relative to its base offset (Kafka's LogSegment).
_MOST_RELATIVE_OFFSET = (1 << 31) - 1

CODEC, TRANSACTIONAL, CONTROL = 0x07, 0x10, 0x20  # attribute bits: packed how; of a transaction; holds its marker
_ATTRIBUTES_AT, _HEADER_BYTES = 21, 61  # of magic 2
_LARGE_BYTES = 1 << 20

# What aiokafka's reader and the codecs under it raise on records that are not what the header says.
RECORD_ERRORS = (
    CorruptRecordException,
    UnsupportedCodecError,
    DecompressionError,
    AssertionError,
    EOFError,
    MemoryError,
    OSError,
    Oversized,
    SystemError,
    UnicodeDecodeError,
    struct.error,
    zlib.error,
)


class Record(Protocol):
    """A record as aiokafka's readers give it."""

    offset: int
    timestamp: int | None
    key: bytes | None
    value: bytes | None


class Batch(Protocol):
    """A batch as aiokafka's readers give it; iterating may raise one of `RECORD_ERRORS`."""

    base_offset: int
    next_offset: int
    attributes: int
    producer_id: int

    def validate_crc(self) -> bool:
        """Whether the bytes are those that were written."""
        ...

    def __iter__(self) -> Iterator[Record]: ...


class LegacyMessage:
    """A message (set) of magic 0 or 1 in the shape of a batch. Such logs predate transactions."""

    attributes = 0
    producer_id = -1

    def __init__(self, frame: bytes, magic: int) -> None:
        self._frame, self._magic = frame, magic
        # A compressed set's header holds its last offset (KIP-31); the first is known after decompression.
        self.base_offset = -1
        self.next_offset = int.from_bytes(frame[:8]) + 1

    def validate_crc(self) -> bool:
        """CRC-32 of all that follows it, as magic 0 and 1 have it."""
        return int.from_bytes(self._frame[12:16]) == zlib.crc32(self._frame[16:])

    def __iter__(self) -> Iterator[Record]:
        if codec := self._frame[17] & CODEC:
            # The one value of a compressed set is the set.
            at = 18 if self._magic == 0 else 26
            at += 4 + max(0, int.from_bytes(self._frame[at : at + 4], signed=True))
            unpack(codec, self._frame[at + 4 :])
        return iter(LegacyRecordBatch(self._frame, self._magic))


class BatchReader:
    """One pass over the batches of one file, CRC checked, in file order, with the problems in place.

    With `only` (attribute bits) other batches are passed over unchecked, from header to header. Reads the
    file as long as it was at the start, in chunks (no mmap: a log directory in use is truncated under its
    readers, and a mapping then kills the process). A file that grows meanwhile is no problem.
    """

    def __init__(self, path: Path, partition: int, *, only: int = 0) -> None:
        self._path, self._partition, self._only = path, partition, only
        self._size = 0
        self._last_base = -1
        named = path.stem.isdecimal() and len(path.stem) == 20
        self._least_offset = int(path.stem) if named else 0
        self._most_offset = self._least_offset + _MOST_RELATIVE_OFFSET if named else (1 << 63) - 1
        self.position = 0
        """Where in the file the batch that came last begins."""
        self.is_large = False
        """Whether it has more records, perhaps, than are to be held at once."""
        self.leader_epoch = -1
        """Of the leader that appended it; -1 where its magic has none."""

    def __iter__(self) -> Iterator[Batch | SegmentProblem]:
        try:
            with self._path.open("rb", buffering=0) as self._file:
                self._size = os.fstat(self._file.fileno()).st_size
                yield from self._batches()
        except OSError as error:
            message = f"expected a readable file: {error.strerror}"
            yield self.problem(ProblemKind.UNREADABLE, self.position, None, None, message)

    def problem(
        self, kind: ProblemKind, position: int, offset: int | None, skipped: int | None, message: str
    ) -> SegmentProblem:
        """A problem in this file; `skipped` None is all the rest of it."""
        if skipped is None:
            skipped = max(0, self._size - position)
        return SegmentProblem(kind, self._path, self._partition, position, offset, skipped, message)

    def _batches(self) -> Iterator[Batch | SegmentProblem]:
        # One record in a batch is common in this topic: a microsecond here is a microsecond for each record.
        unpack, head_bytes, size, only = _HEAD.unpack_from, _HEAD.size, self._size, self._only
        least, most = self._least_offset, self._most_offset
        buffer, at, here = b"", 0, 0  # `at`: where in the file the buffer begins; `here`: position in it
        have = 0
        while at + here < size:
            if here + head_bytes > have:
                if size - at - here < head_bytes:
                    yield self._tail(at + here)
                    return
                buffer, at, here = self._refill(at + here, _CHUNK_BYTES), at + here, 0
                have = len(buffer)
                if have < head_bytes:
                    yield self._shrunk(at)
                    return
            base, length, epoch, magic, attributes = unpack(buffer, here)
            end = here + _PREFIX_BYTES + length
            if not (magic == 2 and length >= 49 and end <= have and least <= base <= most):
                problem = self._frame_problem(at + here, base, length, magic)
                if problem is not None:
                    yield problem
                    buffer, at, here, have = b"", at + here + problem.skipped_bytes, 0, 0
                    continue
                if end > have:
                    wanted = end - here
                    buffer, at, here = self._refill(at + here, max(_CHUNK_BYTES, wanted)), at + here, 0
                    have = len(buffer)
                    if have < wanted:
                        yield self._shrunk(at)
                        return
                    continue
            if only and not (magic == 2 and attributes & only):
                here = end
                continue
            batch: Batch
            frame = buffer[here:end]
            if magic == 2:
                batch = DefaultRecordBatch(frame)
                sound = batch.validate_crc()
            else:
                batch = LegacyMessage(frame, magic)
                sound = batch.validate_crc()
            self.position, self.leader_epoch = at + here, epoch if magic == 2 else -1
            if sound:
                if magic == 2 and attributes & CODEC:
                    try:
                        batch = self._unpacked(frame, attributes)
                    except Oversized as error:
                        yield self.problem(ProblemKind.OVERSIZED, self.position, base, 0, str(error))
                        here = end
                        continue
                    except RECORD_ERRORS:
                        pass  # whoever takes the records out meets it again
                yield batch
                self._last_base, self.is_large = base, False
            else:
                problem = self._wrong_crc(frame, base, magic)
                yield problem
                buffer, at, here, have = b"", self.position + problem.skipped_bytes, 0, 0
                continue
            here = end

    def _unpacked(self, frame: bytes, attributes: int) -> Batch:
        """The same batch without its codec."""
        records = unpack(attributes & CODEC, frame[_HEADER_BYTES:])
        self.is_large = len(records) > _LARGE_BYTES
        plain = (attributes & ~CODEC).to_bytes(2, signed=True)
        batch: Batch = DefaultRecordBatch(
            b"".join((frame[:_ATTRIBUTES_AT], plain, frame[_ATTRIBUTES_AT + 2 : _HEADER_BYTES], records))
        )
        return batch

    def _refill(self, position: int, count: int) -> bytes:
        self._file.seek(position)
        pieces, left = [], min(count, self._size - position)
        while left > 0 and (piece := self._file.read(left)):
            pieces.append(piece)
            left -= len(piece)
        return b"".join(pieces)

    def _wrong_crc(self, frame: bytes, base: int, magic: int) -> SegmentProblem:
        skipped = self._damaged_bytes(self.position, len(frame))
        name, stands = ("CRC-32C", frame[17:21]) if magic == 2 else ("CRC-32", frame[12:16])
        message = f"expected a batch of {len(frame)} bytes with {name} 0x{stands.hex()}, its bytes have another"
        return self.problem(ProblemKind.CRC, self.position, base, skipped, message)

    def _shrunk(self, position: int) -> SegmentProblem:
        message = f"expected {self._size} bytes in the file, it was shortened while being read"
        return self.problem(ProblemKind.TORN, position, None, None, message)

    def _tail(self, position: int) -> SegmentProblem:
        # Fewer zeros may be the first bytes of a batch: its offset, and the upper half of its length.
        if self._size - position >= _PREFIX_BYTES and self._is_zero(position):
            return self._padding(position)
        message = f"expected a batch header of 61 bytes, {self._size - position} bytes are left"
        return self.problem(ProblemKind.TORN, position, None, None, message)

    def _padding(self, position: int) -> SegmentProblem:
        message = f"expected a batch, got {self._size - position} zero bytes up to the end of the file"
        return self.problem(ProblemKind.PADDING, position, None, None, message)

    def _frame_problem(self, position: int, base: int, length: int, magic: int) -> SegmentProblem | None:
        """What is wrong with the frame that begins here; None if only the buffer was too short for it."""
        least = _LEAST_LENGTH.get(magic, min(_LEAST_LENGTH.values()))
        if not least <= length <= _MOST_LENGTH:
            if self._is_zero(position):
                return self._padding(position)
            message = f"expected a batch of {least} to {_MOST_LENGTH} bytes, its length field says {length}"
            skipped = self._damaged_bytes(position, None)
            return self.problem(ProblemKind.GARBAGE, position, None, skipped, message)
        frame = _PREFIX_BYTES + length
        in_range = self._least_offset <= base <= self._most_offset
        if magic in _LEAST_LENGTH and in_range:
            if position + frame <= self._size:
                return None
            message = f"expected a batch of {frame} bytes, {self._size - position} are left in the file"
            return self.problem(ProblemKind.TORN, position, base, None, message)
        skipped = self._damaged_bytes(position, frame)
        if magic not in _LEAST_LENGTH:
            message = f"expected magic 0, 1 or 2, got {magic}"
            return self.problem(ProblemKind.GARBAGE, position, None, skipped, message)
        message = f"expected a base offset from {self._least_offset} to {self._most_offset}, got {base}"
        return self.problem(ProblemKind.OFFSET, position, base, skipped, message)

    def _damaged_bytes(self, position: int, frame: int | None) -> int | None:
        """How many bytes from here on are passed over: the frame of so many, if another seems to begin behind it,
        else what is before the next batch; None is all the rest."""
        if frame is not None and self._is_boundary(position + frame):
            return frame
        following = self._next_batch(position + 1)
        return None if following is None else following - position

    def _next_batch(self, position: int) -> int | None:
        """Where, from here on, a batch begins that is sound, with frames behind it to the end of the file, or with
        more sound ones than another batch may hold: then there is more damage behind them."""
        looked_at = 0
        while position < self._size and (found := self._sound_batch(position)) is not None:
            at, behind = found
            end = self._end_of_frames(behind)
            if end == self._size or self._are_own(at):
                return at
            # A few that are none, of strangers. Else there is more damage, and each batch before it leads there.
            looked_at += 1
            position = behind if looked_at < _MOST_OF_STRANGERS else end
        return None

    def _sound_batch(self, position: int) -> tuple[int, int] | None:
        """The first batch from here on whose CRC is right, and where it ends."""
        handle, left = self._file.fileno(), _MOST_TRIED_BYTES
        while position < self._size:
            chunk = os.pread(handle, _CHUNK_BYTES + _HEAD.size, position)
            for found in _SEEMS_HEADER.finditer(chunk):
                if found.start() >= _CHUNK_BYTES or found.start() + _HEAD.size > len(chunk):
                    break
                at = position + found.start()
                base, length, *_ = _HEAD.unpack_from(chunk, found.start())
                in_order = max(self._last_base + 1, self._least_offset) <= base <= self._most_offset
                if not in_order or not _LEAST_LENGTH[2] <= length <= min(left, self._size - at - _PREFIX_BYTES):
                    continue
                left -= length
                frame = os.pread(handle, _PREFIX_BYTES + length, at)
                if DefaultRecordBatch(frame).validate_crc():
                    return at, at + len(frame)
            position += _CHUNK_BYTES
        return None

    def _are_own(self, position: int) -> bool:
        """Whether sound batches follow each other from here on for longer than a stranger's value may be."""
        end = position + _MOST_HELD_BYTES
        while position < end:
            head = os.pread(self._file.fileno(), _HEAD.size, position)
            _, length, _, magic, _ = _HEAD.unpack(head) if len(head) == _HEAD.size else (0,) * 5
            if magic != 2 or not _LEAST_LENGTH[2] <= length <= min(_MOST_LENGTH, self._size - position):
                return False
            frame = os.pread(self._file.fileno(), _PREFIX_BYTES + length, position)
            if not DefaultRecordBatch(frame).validate_crc():
                return False
            position += len(frame)
        return True

    def _end_of_frames(self, position: int) -> int:
        """Where the frames end that follow from here, each behind the other; zeros to the end of the file belong to
        them."""
        while position < self._size:
            head = os.pread(self._file.fileno(), _HEAD.size, position)
            if not any(head) and self._is_zero(position):
                return self._size
            if len(head) < _HEAD.size:
                return position + _HEAD.size
            _, length, _, magic, _ = _HEAD.unpack(head)
            if magic not in _LEAST_LENGTH or not _LEAST_LENGTH[magic] <= length <= _MOST_LENGTH:
                return position
            position += _PREFIX_BYTES + length
        return position

    def _is_boundary(self, position: int) -> bool:
        """Whether a frame seems to begin here: behind damage, the only witness that the length was right.

        Trusting wrongly costs one more problem: no record is given without its batch's CRC.
        """
        if position >= self._size:
            return position == self._size
        head = os.pread(self._file.fileno(), _HEAD.size, position)
        if len(head) < _HEAD.size or self._is_zero(position):
            return True  # nothing there to go wrong with
        _, length, _, magic, _ = _HEAD.unpack(head)
        return magic in _LEAST_LENGTH and _LEAST_LENGTH[magic] <= length <= _MOST_LENGTH

    def _is_zero(self, position: int) -> bool:
        while chunk := os.pread(self._file.fileno(), _CHUNK_BYTES, position):
            if chunk.count(0) != len(chunk):
                return False
            position += len(chunk)
        return True
