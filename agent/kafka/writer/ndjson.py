"""Records → NDJSON lines, the form that `agent.kafka.source.ndjson` reads: for pipes, fixtures and bug reports.

A line is `{"partition":N,"offset":N,"timestamp":ms,"key":hex|null,"value":hex|null}`, with `"control":true` at its
end for a transaction marker.
"""

from __future__ import annotations

import gzip
from collections.abc import Iterable
from pathlib import Path
from typing import IO, BinaryIO, cast

from agent.common.files import whole_or_not
from agent.core.records import RawRecord
from agent.kafka.writer import Written
from agent.kafka.writer.errors import SinkPathError

_GZIP_LEVEL = 1  # at 6 the lines shrink a third further and take four times as long
_BUFFER_LINES = 1_000


def write_ndjson(records: Iterable[RawRecord], path: Path, *, replace: bool = False) -> Written:
    """Write a file, compressed if its name ends with `.gz`; it is there when it is whole, and not before.

    A file that exists is refused unless `replace`. The same records give the same bytes. Raises `SinkPathError`.
    """
    if not replace and path.exists():
        raise SinkPathError(f"{path}: expected a name that is not taken, there is something")
    try:
        with whole_or_not(path) as file:
            if path.suffix != ".gz":
                return write_lines(records, file)
            # Neither a name nor a time goes into the file.
            with gzip.GzipFile("", "wb", _GZIP_LEVEL, file, mtime=0) as packed:
                return write_lines(records, cast(BinaryIO, packed))
    except OSError as error:
        raise SinkPathError(f"{path}: expected a file to write to: {error}") from error


def write_lines(records: Iterable[RawRecord], stream: IO[bytes]) -> Written:
    """Write the lines to an open stream, standard output say. Its `OSError`s pass through (a closed pipe)."""
    offsets: dict[int, int] = {}
    size = 0
    lines: list[str] = []
    for partition, _, timestamp_ms, key, value, control in records:
        offset = offsets.get(partition, 0)
        offsets[partition] = offset + 1
        key_hex = "null" if key is None else f'"{key.hex()}"'
        value_hex = "null" if value is None else f'"{value.hex()}"'
        marker = ',"control":true' if control else ""
        lines.append(
            f'{{"partition":{partition},"offset":{offset},"timestamp":{timestamp_ms},'
            f'"key":{key_hex},"value":{value_hex}{marker}}}\n'
        )
        if len(lines) == _BUFFER_LINES:
            size += _flush(lines, stream)
    size += _flush(lines, stream)
    return Written(sum(offsets.values()), len(offsets), size)


def _flush(lines: list[str], stream: IO[bytes]) -> int:
    data = "".join(lines).encode("ascii")
    lines.clear()
    stream.write(data)
    return len(data)
