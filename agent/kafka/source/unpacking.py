"""Compressed records → their bytes, and never more of them than `MAX_UNPACKED_BYTES`.

Owns the bound, and the way to it by each codec: 4 KB of zstd may be 120 MB. Refuses to know batches.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable

import cramjam
from aiokafka.codec import snappy_decode
from aiokafka.errors import UnsupportedCodecError

MAX_UNPACKED_BYTES = 32 << 20
"""Of one batch; a coordinator's is one of 1 MB unless brokers allow more."""

_XERIAL = b"\x82SNAPPY\0"  # of snappy-java: 16 bytes, then blocks with their lengths (int32) in front
_XERIAL_BYTES = 16
_NO_ROOM = "failed to write whole buffer"


class Oversized(Exception):
    """Records that are more than may be unpacked."""

    def __init__(self) -> None:
        super().__init__(f"expected at most {MAX_UNPACKED_BYTES} bytes unpacked, there are more")


def unpack(codec: int, packed: bytes) -> bytes:
    """What was packed by Kafka's codec of that number. Raises `Oversized`, and what the codecs raise."""
    match codec:
        case 1:  # gzip
            return _inflate(packed)
        case 2:  # snappy
            if _snappy_size(packed) > MAX_UNPACKED_BYTES:
                raise Oversized
            return bytes(snappy_decode(packed))
        case 3:
            return _unpack_into(cramjam.lz4.decompress_into, packed)
        case 4:
            return _unpack_into(cramjam.zstd.decompress_into, packed)
    raise UnsupportedCodecError(f"Unknown compression codec {codec:#04x}")


def _inflate(packed: bytes) -> bytes:
    stream = zlib.decompressobj(zlib.MAX_WBITS | 16)
    out = stream.decompress(packed, MAX_UNPACKED_BYTES + 1)
    if len(out) > MAX_UNPACKED_BYTES:
        raise Oversized
    if not stream.eof:
        raise EOFError("Compressed file ended before the end-of-stream marker was reached")
    return out


def _snappy_size(packed: bytes) -> int:
    """What the blocks say that they take."""
    if not packed.startswith(_XERIAL):
        return cramjam.snappy.decompress_raw_len(packed)
    size, at = 0, _XERIAL_BYTES
    while at < len(packed) and size <= MAX_UNPACKED_BYTES:
        end = at + 4 + max(0, int.from_bytes(packed[at : at + 4], signed=True))
        size += cramjam.snappy.decompress_raw_len(packed[at + 4 : end])
        at = end
    return size


def _unpack_into(decompress_into: Callable[[bytes, bytearray], int], packed: bytes) -> bytes:
    """With room for eight times as much, then for four times that, and so on."""
    room = min(max(1 << 16, 8 * len(packed)), MAX_UNPACKED_BYTES)
    while True:
        out = bytearray(room)
        try:
            size = decompress_into(packed, out)
        except cramjam.DecompressionError as error:
            if str(error) != _NO_ROOM:
                raise
            if room == MAX_UNPACKED_BYTES:
                raise Oversized from None
            room = min(4 * room, MAX_UNPACKED_BYTES)
            continue
        return bytes(memoryview(out)[:size])
