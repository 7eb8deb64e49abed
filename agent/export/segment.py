"""The bytes of a spool's segment file: records one behind the other, each found and checked on its own. Pure.

    file:   "KSPOOL\\0" version(1)  record…
    record: mark(4) length(4) crc32(4) sequence(8) payload(length)

The checksum covers sequence and payload. Sequences ascend by one, so what is missing in between can be counted. The
mark is where to look for the next whole record behind damage.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import NamedTuple
from zlib import crc32

HEADER = b"KSPOOL\0\x01"
_MARK = b"\xf5KR\xfa"  # no UTF-8 holds F5 or FA, so no event's text does
_HEAD = struct.Struct(">4sIIQ")
_SEQUENCE = struct.Struct(">Q")


class Record(NamedTuple):
    """A whole record and where it ends in what was searched."""

    sequence: int
    payload: bytes
    end: int


def frame(sequence: int, payload: bytes) -> bytes:
    """A record's bytes."""
    check = crc32(payload, crc32(_SEQUENCE.pack(sequence)))
    return _HEAD.pack(_MARK, len(payload), check, sequence) + payload


def records(data: bytes, at: int = 0) -> Iterator[Record]:
    """The whole records from `at` on; what is damaged or torn is passed over."""
    while (at := data.find(_MARK, at)) >= 0:
        record = _record(data, at)
        if record is None:
            at += 1
        else:
            yield record
            at = record.end


def _record(data: bytes, at: int) -> Record | None:
    start = at + _HEAD.size
    if start > len(data):
        return None
    _, size, check, sequence = _HEAD.unpack_from(data, at)
    end = start + size
    if end > len(data):
        return None
    payload = data[start:end]
    if crc32(payload, crc32(_SEQUENCE.pack(sequence))) != check:
        return None
    return Record(sequence, payload, end)
