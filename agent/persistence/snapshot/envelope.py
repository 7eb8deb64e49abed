"""What is around an image: whose it is, of what layout, up to where, and a checksum over all of it.

    magic (8 bytes)  blake2b (32)  format (2)  header's size (4)  header (MessagePack)  image (MessagePack, zstd)

The checksum is over all behind it. It finds damage; it keeps nobody from writing a snapshot of his own.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from hashlib import blake2b
from typing import NamedTuple

import cramjam
import msgspec

from agent.persistence.snapshot.errors import MALFORMED, RefusalReason, SnapshotRefused
from agent.persistence.snapshot.migrations import FORMAT, OLDEST_FORMAT

MAGIC = b"kshadow\x00"
COMPRESSION_LEVEL = 1
MAX_IMAGE_BYTES = 1 << 30
"""Bytes of an image, unpacked."""

MAX_COMPRESSION_RATIO = 1000
"""An image is at most so many times as large as what it is compressed to: 4 to 20 times is usual."""

_START = struct.Struct(">8s32s")
_SIZES = struct.Struct(">HI")


class SnapshotIdentity(NamedTuple):
    """Whose state it is. `partition` None: of the cluster."""

    cluster_id: str
    topic_id: str
    partition: int | None


class Fingerprints(NamedTuple):
    """What the state is made of: the fields of all its classes; the analyzers that ran, with their settings."""

    layout: str
    settings: str


class Header(NamedTuple):
    """What a snapshot says of itself. Times are epoch milliseconds."""

    identity: SnapshotIdentity
    fingerprints: Fingerprints
    next_offset: int
    clock_ms: int
    written_ms: int
    size: int = 0
    """Bytes of the image, unpacked."""
    format: int = FORMAT
    """The version of the image, from `OLDEST_FORMAT` to `FORMAT`."""


_HEADER = msgspec.msgpack.Decoder(Header)


def seal(header: Header, image: bytes) -> bytes:
    """A snapshot."""
    head = msgspec.msgpack.encode(header._replace(size=len(image)))
    rest = b"".join(
        (_SIZES.pack(FORMAT, len(head)), head, bytes(cramjam.zstd.compress(image, level=COMPRESSION_LEVEL)))
    )
    return _START.pack(MAGIC, blake2b(rest, digest_size=32).digest()) + rest


def open_sealed(
    blob: bytes, expected: SnapshotIdentity, fingerprints_of: Callable[[int], Fingerprints]
) -> tuple[Header, bytearray]:
    """The header of a snapshot and its image. `fingerprints_of` gives those of a version of the format.

    Raises `SnapshotRefused` for a snapshot that is not of this state.
    """
    header, packed = read_header(blob)
    fingerprints = fingerprints_of(header.format)
    _expect(RefusalReason.OTHER_CLUSTER, "of cluster", expected.cluster_id, header.identity.cluster_id)
    _expect(RefusalReason.OTHER_TOPIC, "of topic", expected.topic_id, header.identity.topic_id)
    _expect(RefusalReason.OTHER_PARTITION, "of partition", expected.partition, header.identity.partition)
    _expect(RefusalReason.OTHER_LAYOUT, "of layout", fingerprints.layout, header.fingerprints.layout)
    _expect(
        RefusalReason.OTHER_SETTINGS, "of analyzers and settings", fingerprints.settings, header.fingerprints.settings
    )
    if not 0 <= header.size <= min(MAX_IMAGE_BYTES, MAX_COMPRESSION_RATIO * len(packed)):
        raise SnapshotRefused(RefusalReason.CORRUPT, f"{len(packed)} bytes say that they are {header.size} unpacked")
    image = bytearray(header.size)
    try:
        size = cramjam.zstd.decompress_into(packed, image)
    except (cramjam.DecompressionError, *MALFORMED) as error:
        raise SnapshotRefused(RefusalReason.CORRUPT, f"the image cannot be decompressed: {error}") from error
    if size != header.size:
        raise SnapshotRefused(RefusalReason.CORRUPT, f"expected an image of {header.size} bytes, got {size}")
    return header, image


def read_header(blob: bytes) -> tuple[Header, bytes]:
    """What a snapshot says of itself, whoever's it is, and its compressed image. Raises `SnapshotRefused`."""
    if len(blob) < _START.size + _SIZES.size:
        raise SnapshotRefused(RefusalReason.CORRUPT, f"expected a snapshot, got {len(blob)} bytes")
    magic, digest = _START.unpack_from(blob)
    if magic != MAGIC:
        raise SnapshotRefused(RefusalReason.CORRUPT, f"a snapshot begins with {MAGIC!r}, this with {magic!r}")
    rest = memoryview(blob)[_START.size :]
    if blake2b(rest, digest_size=32).digest() != digest:
        raise SnapshotRefused(
            RefusalReason.CORRUPT, f"the checksum of {len(blob)} bytes is not the one that they say"
        )
    version, size = _SIZES.unpack_from(rest)
    if not OLDEST_FORMAT <= version <= FORMAT:
        raise SnapshotRefused(
            RefusalReason.OTHER_FORMAT, f"expected a snapshot of format {FORMAT}, got one of format {version}"
        )
    end = _SIZES.size + size
    if end > len(rest):
        raise SnapshotRefused(
            RefusalReason.CORRUPT, f"expected a header of {size} bytes, {len(rest) - _SIZES.size} are left"
        )
    try:
        header = _HEADER.decode(rest[_SIZES.size : end])._replace(format=version)
    except MALFORMED as error:
        raise SnapshotRefused(RefusalReason.CORRUPT, f"the header cannot be read: {error}") from error
    return header, bytes(rest[end:])


def _expect(kind: RefusalReason, what: str, expected: object, came: object) -> None:
    if expected != came:
        raise SnapshotRefused(kind, f"expected a snapshot {what} {expected}, got one {what} {came}")


def fingerprint(text: str) -> str:
    """A short form of what is compared as a whole."""
    return blake2b(text.encode(), digest_size=16).hexdigest()
