"""Parquet files in a directory on this machine, by the commits of `agent.history.parquet_directory`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from pyspark.sql import DataFrame

from agent.history.days import Days
from agent.history.parquet_directory import DataFile, Lease, OutputBusy, ParquetDirectory, of_days
from spark_jobs.formats.api import DATE, WAIT_S, OutputHeld, folder_of, laid_out
from spark_jobs.progress import print_status


class ParquetOutput:
    """A `TableOutput`. What a job writes goes by the label that is its kind, a stream's batches by their numbers."""

    def __init__(self, root: Path, tables: Sequence[str], kind: str) -> None:
        self._directory = ParquetDirectory(root, tuple(map(folder_of, tables)))
        self._kind, self._who = kind, f"kshadow spark {kind}"
        self._lease: Lease | None = None

    @contextmanager
    def held(self) -> Iterator[None]:
        """The directory's lease. Raises `OutputHeld`; `CommitFailed` for tables of another format."""
        with leased(self._directory, self._who, WAIT_S) as self._lease:
            self._directory.check_format()
            yield

    def is_empty(self) -> bool:
        """But for what is hidden."""
        return self._directory.is_empty()

    def replace(
        self, tables: Mapping[str, DataFrame], days: Mapping[str, Days] | None, order: Sequence[str] = ()
    ) -> None:
        """One commit for all tables."""
        assert self._lease is not None, "the job holds its output"
        of_tables = None if days is None else {folder_of(name): of_days(*those) for name, those in days.items()}

        def replaces(file: DataFile) -> bool:
            return of_tables is None or (file.table in of_tables and of_tables[file.table](file))

        with self._directory.staging() as staging:
            _stage(tables, staging, order)
            self._lease.publish(staging, self._kind, replaces)

    def append(self, tables: Mapping[str, DataFrame], stream: str, batch_id: int, order: Sequence[str] = ()) -> None:
        """One commit for all tables, in place of what an earlier try of the batch had written."""
        with self._directory.staging() as staging:
            _stage(tables, staging, order)
            with leased(self._directory, self._who, float("inf")) as lease:
                lease.publish(staging, f"batch-{batch_id:09d}")


@contextmanager
def leased(directory: ParquetDirectory, who: str, wait_s: float) -> Iterator[Lease]:
    """A directory's lease. Raises `OutputHeld` where another process has it after `wait_s`."""
    try:
        lease = directory.lease(who, wait_s=wait_s, on_wait=_waiting)
        held = lease.__enter__()
    except OutputBusy as busy:
        raise OutputHeld(str(busy)) from None
    try:
        yield held
    finally:
        lease.__exit__(None, None, None)


def _waiting(busy: OutputBusy) -> None:
    print_status(f"{busy.root}: waiting for {busy.holder or 'who writes there'}")


def _stage(tables: Mapping[str, DataFrame], staging: Path, order: Sequence[str]) -> None:
    for name, table in tables.items():
        target = staging / folder_of(name)
        rows = laid_out(table, order, one_file=True)
        # No URI: of that Spark would take `%20` for a part of the name.
        rows.write.mode("append").option("maxRecordsPerFile", 0).partitionBy(DATE).parquet(f"file://{target}")
