"""History to Parquet files: `<url>/date=2026-11-21/<first time>-<hash>.parquet`, the date of `at_ms` in UTC.

A file is written when so many events wait, or when the oldest has waited for `roll_s`. Until then they are in the
spool, where a crash does not reach them; without a spool they are in memory, a crash loses what is not in a file yet
(as far as the log is not read again from before it), and each barrier ends the files.

Files appear whole. Their name tells the time of the first event and a hash of all, so a batch that is written
again replaces itself, and those of several agents do not meet. After a crash the same event may be in two
files: consumers tell by `event_id`. Columns: `agent.persistence.export.columns`.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from hashlib import blake2b
from typing import Any

from agent.persistence.export.encoded_event import EncodedEvent
from agent.persistence.export.errors import ExportMisconfigured, SinkDown
from agent.persistence.export.filesystems import LocalFilesystem, open_filesystem, require_module, store_error_text
from agent.persistence.export.log_clock import LogClock
from agent.persistence.export.sinks import BatchLimits, RejectedEvent

log = logging.getLogger("kshadow.export")

ROLL_S = 300.0
FILE_EVENTS = 50_000
FILE_BYTES = 24 * 1024 * 1024
"""Of JSON; on disk a file takes a twentieth of that."""
ROW_GROUP_BYTES = 2 * 1024 * 1024
"""Of JSON: as rows and columns events take ten times the memory, so a file is made in parts of this size."""


class ParquetSink:
    """Writes each batch as one file for each date in it."""

    name = "parquet"

    def __init__(self, url: str, *, roll_s: float = ROLL_S, file_events: int = FILE_EVENTS) -> None:
        """`url`: a directory, or any of fsspec's. Raises `ExportMisconfigured`."""
        self._pa, self._parquet = require_module("pyarrow"), require_module("pyarrow.parquet")
        from agent.persistence.export import arrow

        self._arrow = arrow
        self._url, self._place = url, open_filesystem(url)
        if isinstance(self._place, LocalFilesystem) and self._place.has("_delta_log"):
            # Who reads a Delta table reads no files beside it, and VACUUM removes them.
            raise ExportMisconfigured(
                f"{url}: expected a directory of Parquet, or none yet, got a Delta table: name another place"
            )
        if isinstance(self._place, LocalFilesystem) and (problem := self._place.problem()) is not None:
            # The first file comes after `roll_s`, which is long to wait for a word of a path that is misspelt.
            log.warning("history sink parquet: %s cannot be written to: %s; events wait until it can", url, problem)
        self.batching = BatchLimits(file_events, FILE_BYTES, roll_s)

    def write(self, batch: Sequence[EncodedEvent]) -> Sequence[RejectedEvent]:
        """Write the files of a batch. Raises `SinkDown` where one cannot be written now."""
        dates: dict[str, list[EncodedEvent]] = {}
        for line in batch:
            dates.setdefault(self._arrow.date_of(line.at_ms), []).append(line)
        refused: list[RejectedEvent] = []
        for date, lines in dates.items():
            name = f"date={date}/{_stem(lines)}.parquet"
            try:
                self._place.put(name, self._file(lines, refused))
            except Exception as error:
                # Stores raise what they like: OSError, botocore's, HTTP clients'.
                raise SinkDown(
                    f"writing {name} to {self._url}: {type(error).__name__}: {store_error_text(error)}"
                ) from error
        return refused

    def tell_clock(self, clock: LogClock) -> None:
        """Keep up to when time has passed, in a small file. Raises `SinkDown` where it cannot be written now."""
        try:
            self._place.put(clock.file_name, clock.encode())
        except Exception as error:
            raise SinkDown(
                f"writing {clock.file_name} to {self._url}: {type(error).__name__}: {store_error_text(error)}"
            ) from error

    def close(self) -> None:
        """Nothing is held open."""

    def _row(self, line: EncodedEvent, refused: list[RejectedEvent]) -> Mapping[str, Any] | None:
        try:
            return self._arrow.line_to_row(line)
        except (ValueError, TypeError, KeyError) as error:
            refused.append(RejectedEvent(line, f"no event: {type(error).__name__}"))
            return None

    def _file(self, lines: Sequence[EncodedEvent], refused: list[RejectedEvent]) -> bytes:
        out, schema = self._pa.BufferOutputStream(), self._arrow.HISTORY
        with self._parquet.ParquetWriter(out, schema, compression="zstd") as writer:
            for part in _row_groups(lines):
                rows = [row for line in part if (row := self._row(line, refused)) is not None]
                if rows:
                    columns = self._arrow.rows_to_arrays(rows, schema)
                    writer.write_batch(self._pa.RecordBatch.from_arrays(columns, schema=schema))
        data: bytes = out.getvalue().to_pybytes()
        return data


def _row_groups(lines: Sequence[EncodedEvent]) -> Iterator[Sequence[EncodedEvent]]:
    start = size = 0
    for at, line in enumerate(lines):
        if at > start and size + len(line.body) > ROW_GROUP_BYTES:
            yield lines[start:at]
            start, size = at, 0
        size += len(line.body)
    yield lines[start:]


def _stem(lines: Sequence[EncodedEvent]) -> str:
    digest = blake2b(digest_size=8)
    for line in lines:
        digest.update(line.body)
    return f"{lines[0].at_ms}-{digest.hexdigest()}"
