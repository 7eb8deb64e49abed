"""Samples of a history that was written: from Parquet files, or from lines of JSON as the history topic has them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

from msgspec import Meta, Struct, ValidationError, convert

from agent.core.events.events import SAMPLE, Event
from agent.persistence.export.columns import row_to_event

PARQUET = ".parquet"


class HistoryUnreadable(ValueError):
    """A path that holds no history: what was expected, and what came."""


def samples_in(path: Path) -> Iterator[Event]:
    """The samples (`group_sample`) in a file of events, one a line, or in a Parquet file or a directory of such.

    Raises `HistoryUnreadable`.
    """
    try:
        if path.is_dir() or path.suffix == PARQUET:
            yield from _parquet_samples(path)
        else:
            yield from _line_samples(path)
    except OSError as error:
        raise HistoryUnreadable(f"{path}: expected events of a history: {error.strerror or error}") from error


def _line_samples(path: Path) -> Iterator[Event]:
    with path.open("rb") as lines:
        for number, line in enumerate(lines, 1):
            if not line.strip():
                continue
            try:
                event = json.loads(line)
                kind = event["type"]
            except (ValueError, KeyError, TypeError, RecursionError) as error:
                raise HistoryUnreadable(f"{path}: line {number}: expected an event, got {line[:80]!r}") from error
            if kind == SAMPLE:
                yield _checked(event, f"{path}: line {number}")


def _parquet_files(directory: Path) -> list[Path]:
    """But those that a writer has not finished, or never will: as all readers of Parquet pass over them."""
    found = (path.relative_to(directory) for path in directory.rglob(f"*{PARQUET}"))
    return [directory / it for it in sorted(found) if not any(part.startswith(("_", ".")) for part in it.parts)]


def _parquet_samples(path: Path) -> Iterator[Event]:
    try:
        import pyarrow
        from pyarrow import parquet
    except ImportError as error:
        raise HistoryUnreadable(f"{path}: Parquet files need pyarrow: install kshadow[parquet]") from error
    files = _parquet_files(path) if path.is_dir() else [path]
    if not files:
        raise HistoryUnreadable(f"{path}: expected Parquet files of a history, got none")
    for file in files:
        try:
            rows = parquet.ParquetFile(file).read().to_pylist()
            found = [row_to_event(row) for row in rows if row["type"] == SAMPLE]
        except (pyarrow.ArrowException, OSError) as error:
            raise HistoryUnreadable(f"{file}: expected a Parquet file: {error}") from error
        except KeyError as error:
            raise HistoryUnreadable(f"{file}: expected events of a history, there is no column {error}") from error
        yield from (_checked(it, str(file)) for it in found)


_Number = Annotated[int, Meta(ge=-(2**63), le=2**63 - 1)]


class _Behind(Struct):
    topic: str
    partition: _Number
    end: _Number


class _Sample(Struct):
    """What is asked of a sample."""

    cluster: str | None
    group: str
    partitions: _Number
    lag_partitions: _Number
    ends_ms: _Number | None = None
    behind: list[_Behind] = []


def _checked(event: Event, where: str) -> Event:
    try:
        convert(event, _Sample)
    except (ValidationError, UnicodeEncodeError) as error:
        raise HistoryUnreadable(f"{where}: expected a sample of a group: {error}") from error
    return event
