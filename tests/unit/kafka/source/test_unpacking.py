"""Packed batches in segment files: read as they are, up to a bound that holds for memory too."""

from __future__ import annotations

import struct
import zlib
from pathlib import Path

import cramjam
import pytest
from aiokafka.codec import gzip_encode, lz4_encode, snappy_encode, zstd_encode
from aiokafka.errors import UnsupportedCodecError
from aiokafka.record.util import calc_crc32c

from agent.core.records import RecordBatch
from agent.kafka.source.problems import ProblemKind, SegmentProblem
from agent.kafka.source.segments import PartitionLog
from agent.kafka.source.unpacking import MAX_UNPACKED_BYTES, Oversized, unpack
from tests.unit.kafka.source import building as b

ENCODERS = {b.GZIP: gzip_encode, b.SNAPPY: snappy_encode, b.LZ4: lz4_encode, b.ZSTD: zstd_encode}


def bomb(base: int, records: int = 1, megabytes: int = 120, codec: int = b.ZSTD) -> bytes:
    """A batch of zeros as a client writes it, sound to its checksum."""
    size = (megabytes << 20) // records
    body = b"".join(
        varint(
            len(fields := b"\0" + varint(0) + varint(number) + varint(1) + b"k" + varint(size) + bytes(size) + b"\0")
        )
        + fields
        for number in range(records)
    )
    packed = bytes(ENCODERS[codec](body))
    covered = struct.pack(">hiqqqhii", codec, records - 1, 1000, 1000, -1, -1, -1, records) + packed
    head = struct.pack(">qiib", base, 9 + len(covered), 0, 2)
    return head + struct.pack(">I", calc_crc32c(covered)) + covered


def varint(number: int) -> bytes:
    number, out = number << 1, bytearray()
    while number > 127:
        out.append(number & 127 | 128)
        number >>= 7
    return bytes([*out, number])


@pytest.mark.parametrize("codec", ENCODERS)
def test_the_bound_is_met_to_the_byte(codec: int) -> None:
    most = bytes(MAX_UNPACKED_BYTES)
    assert unpack(codec, bytes(ENCODERS[codec](most))) == most
    with pytest.raises(Oversized):
        unpack(codec, bytes(ENCODERS[codec](most + b"\0")))


@pytest.mark.parametrize("codec", ENCODERS)
@pytest.mark.parametrize(
    "packed", [b"", b"nothing that was packed", b"\x82SNAPPY\0\0\0\0\1\0\0\0\1\xff\xff\xff\xff?"]
)
def test_what_was_not_packed_is_an_error(codec: int, packed: bytes) -> None:
    with pytest.raises((cramjam.DecompressionError, EOFError, OSError, zlib.error)):
        unpack(codec, packed)


def test_a_codec_that_is_none() -> None:
    with pytest.raises(UnsupportedCodecError):
        unpack(7, b"")


def test_snappy_without_blocks() -> None:
    assert unpack(b.SNAPPY, bytes(cramjam.snappy.compress_raw(b"plain"))) == b"plain"
    with pytest.raises(Oversized):
        unpack(b.SNAPPY, bytes(cramjam.snappy.compress_raw(bytes(MAX_UNPACKED_BYTES + 1))))


def test_bombs_are_told_and_take_no_memory(tmp_path: Path) -> None:
    """33 KB of them: they took 2.1 GB."""
    path = tmp_path / f"{0:020}.log"
    frames = [b.batch(0, 2), *(bomb(2 + number) for number in range(8)), b.batch(10, 2, codec=b.ZSTD)]
    path.write_bytes(b"".join(frames))
    assert path.stat().st_size < 40_000
    log = PartitionLog(0, (path,))
    Path("/proc/self/clear_refs").write_text("5", encoding="ascii")  # the peak is of now
    before = peak_bytes()
    items = list(log.committed())
    assert peak_bytes() - before < 100 << 20
    problems = [it for it in items if isinstance(it, SegmentProblem)]
    assert [(it.kind, it.offset) for it in problems] == [(ProblemKind.OVERSIZED, 2 + number) for number in range(8)]
    assert problems[0].position == len(frames[0])
    assert [offset for it in items if isinstance(it, RecordBatch) for offset in it.offsets] == [0, 1, 10, 11]
    assert [it.kind for it in log.raw() if isinstance(it, SegmentProblem)] == [ProblemKind.OVERSIZED] * 8


def peak_bytes() -> int:
    lines = Path("/proc/self/status").read_text(encoding="ascii").splitlines()
    return next(int(line.split()[1]) << 10 for line in lines if line.startswith("VmHWM"))


def test_a_large_batch_comes_in_portions(tmp_path: Path) -> None:
    path = tmp_path / f"{0:020}.log"
    path.write_bytes(b.batch(0) + bomb(1, records=25_000, megabytes=2) + b.batch(25_001))
    runs = [it for it in PartitionLog(0, (path,)).committed() if isinstance(it, RecordBatch)]
    assert [offset for run in runs for offset in run.offsets] == list(range(25_002))
    assert max(map(len, runs)) <= 10_000
    assert [it.offset for it in PartitionLog(0, (path,)).raw()] == list(range(25_002))


def test_a_bomb_in_the_old_form(tmp_path: Path) -> None:
    path = tmp_path / f"{0:020}.log"
    inner = struct.pack(">ii", -1, 40 << 20) + bytes(40 << 20)
    message = struct.pack(">bbq", 1, 0, 1000) + inner
    plain = struct.pack(">qiI", 0, 4 + len(message), zlib.crc32(message)) + message
    packed = gzip_encode(plain)
    wrapper = struct.pack(">bbq", 1, b.GZIP, 1000) + struct.pack(">ii", -1, len(packed)) + packed
    path.write_bytes(struct.pack(">qiI", 0, 4 + len(wrapper), zlib.crc32(wrapper)) + wrapper)
    (problem,) = PartitionLog(0, (path,)).committed()
    assert isinstance(problem, SegmentProblem)
    assert problem.kind is ProblemKind.OVERSIZED
