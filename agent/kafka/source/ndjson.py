"""NDJSON lines → records: the form in which records travel through pipes, fixtures and bug reports.

Owns the line format. Refuses to know what is inside a key, a value or a payload.

A record line is `{"key": hex|null, "value": hex|null}` and may have `partition` (else 0), `offset` (else the
number of lines before it), `timestamp` (else -1, Kafka's "none") and `control` (else false). A payload line is
`{"bytes": hex}` with perhaps a `name`: a member's subscription or assignment alone. Other fields are ignored,
empty lines passed over. A line that is neither is a `LineProblem`, in place, and the reading goes on.
Lines are taken in their order: who writes them sees to it that a partition's offsets grow.
"""

from __future__ import annotations

import gzip
import json
import sys
import zlib
from collections.abc import Iterator
from itertools import groupby
from typing import BinaryIO

from msgspec import Struct

from agent.core.records import RawRecord, RecordBatch
from agent.kafka.source import NO_TIMESTAMP_MS
from agent.kafka.source.errors import SourcePathError

STDIN = "-"
SUFFIXES = (".ndjson", ".ndjson.gz")

MAX_BATCH_RECORDS = 10_000
"""The most records in one `RecordBatch`: bounds memory, and amortizes the work for each."""

_MAX_LINE_BYTES = 1 << 28  # twice a batch's bytes in hex and more: beyond it, no line of ours
_MOST = {"partition": (1 << 31) - 1, "offset": (1 << 63) - 1, "timestamp": (1 << 63) - 1}
_LEAST = {"partition": 0, "offset": 0, "timestamp": NO_TIMESTAMP_MS}


class PayloadLine(Struct, frozen=True):
    """A member's payload without a record around it; `name` is its type's, None if the line does not say."""

    line: int
    name: str | None
    data: bytes


class LineProblem(Struct, frozen=True):
    """A line (counted from 1) that is no record: what was expected, and what came."""

    source: str
    line: int
    message: str

    def __str__(self) -> str:
        return f"{self.source}: line {self.line}: {self.message}"


def is_ndjson(path: str) -> bool:
    """Whether a PATH is read by this module."""
    return path == STDIN or path.endswith(SUFFIXES)


def read_ndjson(path: str) -> Iterator[RawRecord | PayloadLine | LineProblem]:
    """Each line of `-` (stdin), a `.ndjson` or a `.ndjson.gz` file. Raises `SourcePathError`."""
    if path == STDIN:
        yield from read_lines(sys.stdin.buffer, "stdin")
        return
    try:
        with gzip.open(path, "rb") if path.endswith(".gz") else open(path, "rb") as stream:
            yield from read_lines(stream, path)
    except OSError as error:  # of opening: those of reading are problems of a line
        raise SourcePathError(f"{path}: expected a readable NDJSON file: {error.strerror}") from error


def read_lines(stream: BinaryIO | gzip.GzipFile, source: str) -> Iterator[RawRecord | PayloadLine | LineProblem]:
    """Each line of an open stream; `source` names it in problems."""
    number = 0
    try:
        while line := stream.readline(_MAX_LINE_BYTES):
            number += 1
            if len(line) == _MAX_LINE_BYTES and not line.endswith(b"\n"):
                while (rest := stream.readline(_MAX_LINE_BYTES)) and not rest.endswith(b"\n"):
                    pass
                yield LineProblem(source, number, f"expected at most {_MAX_LINE_BYTES} bytes, got more")
            elif line.strip():
                try:
                    yield _parse(line, number)
                except _BadLineError as error:
                    yield LineProblem(source, number, str(error))
    except (EOFError, OSError, zlib.error) as error:  # gzip: cut short, or not gzip at all
        yield LineProblem(source, number + 1, f"expected more lines or the end of the file, got {error}")


def committed_batches(
    lines: Iterator[RawRecord | PayloadLine | LineProblem],
) -> Iterator[RecordBatch | PayloadLine | LineProblem]:
    """Neighbouring records of a partition as runs, without control records.

    Lines do not say to which transaction a record belongs: they all count as committed.
    """
    for _, group in groupby(lines, _partition):
        records: list[RawRecord] = []
        for item in group:
            if not isinstance(item, RawRecord):
                yield item
            elif not item.control:
                records.append(item)
                if len(records) == MAX_BATCH_RECORDS:
                    yield RecordBatch.of(records)
                    records = []
        if records:
            yield RecordBatch.of(records)


def _partition(item: RawRecord | PayloadLine | LineProblem) -> int:
    return item.partition if isinstance(item, RawRecord) else -1


class _BadLineError(Exception):
    """What was expected of a line, and what came."""


def _parse(line: bytes, number: int) -> RawRecord | PayloadLine:
    try:
        fields = json.loads(line)
    except (ValueError, RecursionError) as error:
        if b"\0" in line:
            raise _BadLineError("expected a JSON object, got binary data; a segment is read by its path") from None
        raise _BadLineError(f"expected a JSON object, got {_shown(line)} ({error})") from None
    if not isinstance(fields, dict):
        raise _BadLineError(f"expected a JSON object, got {_shown(line)}")
    if "key" not in fields and "bytes" in fields:
        name = fields.get("name")
        return PayloadLine(number, name if isinstance(name, str) else None, _bytes(fields, "bytes") or b"")
    control = fields.get("control", False)
    if not isinstance(control, bool):
        raise _BadLineError(f"control: expected true or false, got {control!r}")
    return RawRecord(
        _int(fields, "partition", 0),
        _int(fields, "offset", number - 1),
        _int(fields, "timestamp", NO_TIMESTAMP_MS),
        _nullable_bytes(fields, "key"),
        _nullable_bytes(fields, "value"),
        control,
    )


def _int(fields: dict[str, object], name: str, default: int) -> int:
    value = fields.get(name, default)
    if not isinstance(value, int) or isinstance(value, bool) or not _LEAST[name] <= value <= _MOST[name]:
        raise _BadLineError(f"{name}: expected a number from {_LEAST[name]} to {_MOST[name]}, got {value!r}")
    return value


def _nullable_bytes(fields: dict[str, object], name: str) -> bytes | None:
    if name not in fields:
        raise _BadLineError(f"{name}: expected hex or null, the line has none")
    return None if fields[name] is None else _bytes(fields, name)


def _bytes(fields: dict[str, object], name: str) -> bytes:
    value = fields[name]
    if not isinstance(value, str):
        raise _BadLineError(f"{name}: expected hex, got {_shown(value)}")
    try:
        return bytes.fromhex(value)
    except ValueError as error:
        raise _BadLineError(f"{name}: expected hex, got {_shown(value)} ({error})") from None


def _shown(value: object) -> str:
    text = value.decode(errors="replace").strip() if isinstance(value, bytes) else repr(value)
    return text if len(text) <= 60 else f"{text[:60]}… ({len(text)} characters)"
