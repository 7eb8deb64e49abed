"""Reading and writing one value of Kafka's wire types.

A reader is `(buffer, position) -> (value, next position)`; a writer is `(out, value) -> None` and appends.
Readers raise `Truncated` or `Invalid`; they never invent bytes that are missing. The rules are those of
Kafka's own `ByteBufferAccessor` and generated classes (KIP-482 for the compact forms).
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any, NewType

from agent.core.wire.errors import Invalid, Truncated

Reader = Callable[[bytes, int], tuple[Any, int]]
Writer = Callable[[bytearray, Any], None]

Uuid = NewType("Uuid", bytes)
"""A topic id: 16 bytes, most significant first."""

ZERO_UUID = Uuid(bytes(16))

MAX_STRING = 0x7FFF
"""Longest string, in bytes, of either form: Kafka refuses a longer compact string too."""


def _number_codec(code: str, what: str) -> tuple[Reader, Writer]:
    form = struct.Struct(code)
    size = form.size
    unpack_from, pack = form.unpack_from, form.pack

    def read(buffer: bytes, at: int) -> tuple[int, int]:
        try:
            return unpack_from(buffer, at)[0], at + size
        except struct.error:
            raise _truncated(what, size, buffer, at) from None

    def write(out: bytearray, value: int) -> None:
        out += pack(value)

    return read, write


def _truncated(what: str, wanted: int, buffer: bytes, at: int) -> Truncated:
    left = max(len(buffer) - at, 0)
    return Truncated(f"{what} of {wanted} bytes expected at byte {at}, {left} left")


read_int8, write_int8 = _number_codec(">b", "int8")
read_int16, write_int16 = _number_codec(">h", "int16")
read_uint16, write_uint16 = _number_codec(">H", "uint16")
read_int32, write_int32 = _number_codec(">i", "int32")
read_int64, write_int64 = _number_codec(">q", "int64")

_NUMBERS = {
    read_int8: ("b", 1),
    read_int16: ("h", 2),
    read_uint16: ("H", 2),
    read_int32: ("i", 4),
    read_int64: ("q", 8),
}
"""The readers of numbers: code and bytes of each, for many at once."""


def read_uvarint(buffer: bytes, at: int) -> tuple[int, int]:
    """An unsigned varint of at most 32 bits in at most five bytes."""
    value = 0
    start = at
    for shift in (0, 7, 14, 21, 28):
        if at >= len(buffer):
            raise Truncated(f"varint expected at byte {start}, the bytes end at {len(buffer)}")
        byte = buffer[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            if value > 0xFFFFFFFF:
                raise Invalid(f"varint at byte {start} exceeds 32 bits")
            return value, at
    raise Invalid(f"varint at byte {start} is longer than five bytes")


def write_uvarint(out: bytearray, value: int) -> None:
    """The shortest form of an unsigned varint."""
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)


def read_uuid(buffer: bytes, at: int) -> tuple[Uuid, int]:
    """16 bytes."""
    end = at + 16
    if end > len(buffer):
        raise _truncated("uuid", 16, buffer, at)
    return Uuid(buffer[at:end]), end


def write_uuid(out: bytearray, value: Uuid) -> None:
    """16 bytes."""
    assert len(value) == 16, "a Uuid has 16 bytes"
    out += value


def _not_text(error: UnicodeDecodeError, at: int) -> Invalid:
    return Invalid(f"string at byte {at} is not UTF-8: {error.reason} at its byte {error.start}")


def _check_null(size: int, at: int, what: str, nullable: bool) -> None:
    """A length below zero is null, which only a nullable field may be; raises `Invalid` otherwise."""
    if size != -1:
        raise Invalid(f"{what} at byte {at} has the length {size}")
    if not nullable:
        raise Invalid(f"{what} at byte {at} is null, which this field may not be")


def read_compact_length(buffer: bytes, at: int) -> tuple[int, int]:
    """Compact lengths are written plus one, so that zero is free to mean null (-1 here)."""
    if at < len(buffer) and (byte := buffer[at]) < 0x80:  # nearly every one
        return byte - 1, at + 1
    size, at = read_uvarint(buffer, at)
    return size - 1, at


def _write_compact_length(out: bytearray, size: int) -> None:
    write_uvarint(out, size + 1)


def string_codec(*, compact: bool, nullable: bool) -> tuple[Reader, Writer]:
    """UTF-8 text: int16 length (-1 null), or compact."""
    read_size = read_compact_length if compact else read_int16
    write_size = _write_compact_length if compact else write_int16

    def read(buffer: bytes, at: int) -> tuple[str | None, int]:
        size, start = read_size(buffer, at)
        if size < 0:
            _check_null(size, at, "string", nullable)
            return None, start
        if size > MAX_STRING:
            raise Invalid(f"string at byte {at} has the length {size}, at most {MAX_STRING} is allowed")
        end = start + size
        if end > len(buffer):
            raise _truncated("string", size, buffer, start)
        try:
            return buffer[start:end].decode(), end
        except UnicodeDecodeError as error:
            raise _not_text(error, start) from None

    def write(out: bytearray, value: str | None) -> None:
        if value is None:
            _write_null(out, write_size, nullable)
            return
        raw = value.encode()
        if len(raw) > MAX_STRING:
            raise Invalid(f"string of {len(raw)} bytes, at most {MAX_STRING} can be written")
        write_size(out, len(raw))
        out += raw

    return read, write


def bytes_codec(*, compact: bool, nullable: bool) -> tuple[Reader, Writer]:
    """Opaque bytes: int32 length (-1 null), or compact."""
    read_size = read_compact_length if compact else read_int32
    write_size = _write_compact_length if compact else write_int32

    def read(buffer: bytes, at: int) -> tuple[bytes | None, int]:
        size, start = read_size(buffer, at)
        if size < 0:
            _check_null(size, at, "bytes", nullable)
            return None, start
        end = start + size
        if end > len(buffer):
            raise _truncated("bytes", size, buffer, start)
        return buffer[start:end], end

    def write(out: bytearray, value: bytes | None) -> None:
        if value is None:
            _write_null(out, write_size, nullable)
            return
        write_size(out, len(value))
        out += value

    return read, write


def array_codec(element: tuple[Reader, Writer], *, compact: bool, nullable: bool) -> tuple[Reader, Writer]:
    """A tuple of elements: int32 count (-1 null), or compact."""
    read_element, write_element = element
    read_size = read_compact_length if compact else read_int32
    write_size = _write_compact_length if compact else write_int32
    code, size = _NUMBERS.get(read_element, ("", 0))

    def read(buffer: bytes, at: int) -> tuple[tuple[Any, ...] | None, int]:
        start = at
        count, at = read_size(buffer, at)
        if count < 0:
            _check_null(count, start, "array", nullable)
            return None, at
        # Every element takes a byte at least, so a count beyond what is left is a lie: refuse it before
        # making room for it.
        if count > len(buffer) - at:
            raise Truncated(f"array of {count} elements expected at byte {at}, {len(buffer) - at} bytes left")
        if size and at + count * size <= len(buffer):
            return struct.unpack_from(f">{count}{code}", buffer, at), at + count * size
        items = []
        for _ in range(count):
            item, at = read_element(buffer, at)
            items.append(item)
        return tuple(items), at

    def write(out: bytearray, value: tuple[Any, ...] | None) -> None:
        if value is None:
            _write_null(out, write_size, nullable)
            return
        write_size(out, len(value))
        for item in value:
            write_element(out, item)

    return read, write


def _write_null(out: bytearray, write_size: Writer, nullable: bool) -> None:
    if not nullable:
        raise Invalid("null given for a field that may not be null")
    write_size(out, -1)
