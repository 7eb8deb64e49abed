"""Many small files of a day → one, in a directory of Parquet on one machine.

An agent writes a file every five minutes, a stream one a batch: after a year readers open more files than they read
rows. The rows stay what they are, each as often as before; what twice is there (an agent tells at least once) readers
tell by `event_id`, as ever.

Nobody else writes meanwhile but an agent, whose files have names of their own: the lease keeps away jobs and another
compaction. Left alone are files that somebody may still write again: of a day that has not been over for `settled_ms`
those younger than that (an agent writes a file again until it is sure of it), and a stream's last batch, which it may
make again when it goes on. Each commit is whole or not there (`parquet_directory`), so a kill loses and doubles
nothing. A merged file has a name that none had before: Spark's streams tell files by their names, and would read
nothing of what was merged into one that they have read.
"""

from __future__ import annotations

import re
import uuid
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from agent.history.errors import HistoryError
from agent.history.input_schema import EVENTS, check_columns
from agent.history.opening import reading
from agent.history.parquet_directory import DELTA_LOG, DataFile, OutputBusy, ParquetDirectory
from agent.history.tables import ROLLED_UP, STREAMED
from agent.persistence.export.arrow import date_of

LABEL = "compact"
"""Of the files that are merged, with what makes each name another."""

SETTLED_MS = 3_600_000

ROW_GROUP = 50_000

PORTION = 10_000
"""Files that one commit takes the place of, or those of a day: what is staged takes their room once more."""

_BATCH = re.compile(r"batch-(\d+)")

_ARROW = {"string": pa.string(), "bigint": pa.int64(), "int": pa.int32(), "double": pa.float64()}


class Compacted(NamedTuple):
    """So many files of so many days became one for each day, with so many rows."""

    files: int
    days: int
    rows: int


@reading()
def compact(
    root: Path,
    *,
    first: str | None = None,
    last: str | None = None,
    now_ms: int,
    settled_ms: int = SETTLED_MS,
) -> Compacted:
    """Compact the days `first` to `last` (both part of it; None: all) of a history, or of all tables of rollups.

    Raises `HistoryError` for what is not there, is damaged, lacks columns, or is being written by somebody else.
    """
    if not root.is_dir():
        raise HistoryError(f"{root}: expected a directory of history or of rollups, there is none")
    if (root / DELTA_LOG).is_dir() or any((it / DELTA_LOG).is_dir() for it in root.iterdir() if it.is_dir()):
        raise HistoryError(f"{root}: expected a directory of Parquet, got a Delta table: OPTIMIZE is Delta's own")
    directory = ParquetDirectory(root, _tables(root))
    total = Compacted(0, 0, 0)
    try:
        with directory.lease("kshadow spark compact") as lease:
            for portion in _portions(_by_day(directory, first, last, now_ms - settled_ms)):
                taken = {file.path for files in portion for file in files}
                with directory.staging() as staging:
                    rows = sum(_merge(files, staging) for files in portion)
                    label = f"{LABEL}-{uuid.uuid4().hex}"
                    lease.publish(staging, label, replaces=lambda file, taken=taken: file.path in taken)  # type: ignore[misc]
                total = Compacted(total.files + len(taken), total.days + len(portion), total.rows + rows)
    except OutputBusy as error:
        raise HistoryError(str(error)) from error
    return total


def _tables(root: Path) -> tuple[str, ...]:
    return tuple(name for name in ROLLED_UP | STREAMED if (root / name).is_dir()) or ("",)


def _by_day(
    directory: ParquetDirectory, first: str | None, last: str | None, settled_ms: int
) -> Iterator[Sequence[DataFile]]:
    """The files of each table and day that can be merged, where there is more than one."""
    every = [file for table in directory.tables for file in directory.files(table, first, last) if file.date]
    # Of all days: the last batch may have files in several.
    newest = max((_batch(it) for table in directory.tables for it in directory.files(table)), default=-1)
    days: dict[tuple[str, str], list[DataFile]] = {}
    for file in every:
        assert file.date is not None, "the others were left out"
        is_settled = file.date < date_of(settled_ms) or file.path.stat().st_mtime <= settled_ms / 1000
        if file.label.partition("-")[0] == LABEL or (is_settled and not -1 < newest == _batch(file)):
            days.setdefault((file.table, file.date), []).append(file)
    return (files for _, files in sorted(days.items()) if len(files) > 1)


def _batch(file: DataFile) -> int:
    """The number of a stream's batch; -1 for another's file."""
    found = _BATCH.match(file.label)
    return -1 if found is None else int(found[1])


def _portions(days: Iterator[Sequence[DataFile]]) -> Iterator[list[Sequence[DataFile]]]:
    portion: list[Sequence[DataFile]] = []
    for files in days:
        portion.append(files)
        if sum(map(len, portion)) >= PORTION:
            yield portion
            portion = []
    if portion:
        yield portion


def _merge(files: Sequence[DataFile], staging: Path) -> int:
    """Write the rows of files of one day as one file; how many."""
    schema = _schema(files)
    target = staging / files[0].table / f"date={files[0].date}" / f"{LABEL}.parquet"
    target.parent.mkdir(parents=True)
    rows = 0
    with pq.ParquetWriter(target, schema, compression="zstd") as out:
        waiting: list[Any] = []
        for table in (_aligned(it, schema) for file in files for it in _read(file)):
            waiting.append(table)
            rows += table.num_rows
            if sum(it.num_rows for it in waiting) >= ROW_GROUP:
                out.write_table(pa.concat_tables(waiting), row_group_size=ROW_GROUP)
                waiting = []
        if waiting:
            out.write_table(pa.concat_tables(waiting), row_group_size=ROW_GROUP)
    return rows


def _schema(files: Sequence[DataFile]) -> Any:
    """All columns of the files. A column that is read later must be in each: null would say that nothing is known."""
    columns = (ROLLED_UP | STREAMED).get(files[0].table)
    wanted = EVENTS
    if columns is not None:
        wanted = pa.schema([(it.name, _ARROW[it.kind]) for it in columns if it.name != "date"])
    found: list[Any] = []
    for file in files:
        try:
            schema = pq.read_schema(file.path)
        except (OSError, pa.ArrowInvalid) as error:
            raise HistoryError(
                f"{file.path}: expected a Parquet file, this one is damaged, or none: {error}"
            ) from None
        if schema not in found:
            check_columns(str(file.path), schema, wanted)
            found.append(schema)
    try:
        return pa.unify_schemas(found, promote_options="permissive")
    except (pa.ArrowInvalid, pa.ArrowTypeError) as error:
        day = files[0].path.parent
        raise HistoryError(f"{day}: expected files with columns that go together: {error}") from None


def _read(file: DataFile) -> Iterator[Any]:
    try:
        for batch in pq.ParquetFile(file.path).iter_batches(ROW_GROUP):
            yield pa.Table.from_batches([batch])
    except (OSError, pa.ArrowInvalid) as error:
        raise HistoryError(f"{file.path}: expected a Parquet file, this one is damaged: {error}") from None


def _aligned(table: Any, schema: Any) -> Any:
    columns = [
        table[field.name].cast(field.type)
        if field.name in table.column_names
        else pa.nulls(table.num_rows, field.type)
        for field in schema
    ]
    return pa.table(columns, schema=schema)
