"""Delta Lake tables. Each table has commits of its own. On this machine and on S3, where Delta's log has nothing that
keeps two drivers apart, jobs hold a lease; elsewhere they exclude each other by Delta's own rules."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from agent.history.days import Days
from agent.history.parquet_directory import DELTA_LOG, ENDING, ParquetDirectory
from agent.tools.spark_submit.paths import local_directory
from spark_jobs.errors import JobError
from spark_jobs.formats.api import DATE, WAIT_S, check_takes, folder_of, laid_out, with_date
from spark_jobs.formats.parquet import leased
from spark_jobs.formats.s3_lease import S3Lease, is_s3
from spark_jobs.writing import hadoop_files, list_files


class DeltaOutput:
    """A `TableOutput`: a table in each folder below `root`, on any of Hadoop's file systems."""

    def __init__(self, spark: SparkSession, root: str, tables: Sequence[str], kind: str) -> None:
        self._spark, self._root, self._tables = spark, root.rstrip("/"), tables
        self._who, self._here = f"kshadow spark {kind}", local_directory(root)
        self._lease = S3Lease(spark, f"{self._root}/_kshadow_lease", self._who) if is_s3(root) else None
        self._is_held = False

    @contextmanager
    def held(self) -> Iterator[None]:
        """Here and on S3 a lease. Elsewhere nothing: who commits second, over the same days, fails or replaces
        them."""
        with self._leased(WAIT_S):
            self._check_format()
            self._is_held = True
            try:
                yield
            finally:
                self._is_held = False

    def is_empty(self) -> bool:
        """But for what is hidden; a table's log is not."""
        files, make = hadoop_files(self._spark, self._root)
        names = [it.getPath().getName() for it in list_files(files, make(self._root))]
        return not any(name == DELTA_LOG or not name.startswith(("_", ".")) for name in names)

    def replace(
        self, tables: Mapping[str, DataFrame], days: Mapping[str, Days] | None, order: Sequence[str] = ()
    ) -> None:
        """One commit for each table."""
        assert self._is_held, "the job holds its output"
        self._check(tables)
        for name, table in tables.items():
            writer = self._writer(table, order).mode("overwrite")
            if days is not None:
                first, last = days[name]
                writer = writer.option("replaceWhere", f"{DATE} >= '{first}' AND {DATE} <= '{last}'")
            self._save(writer, name)

    def append(self, tables: Mapping[str, DataFrame], stream: str, batch_id: int, order: Sequence[str] = ()) -> None:
        """One commit for each table, which a batch that is made again finds done."""
        with self._leased(float("inf")):
            self._check_format()
            self._check(tables)
            for name, table in tables.items():
                writer = self._writer(table, order).mode("append")
                self._save(writer.option("txnAppId", stream).option("txnVersion", batch_id), name)

    def _leased(self, wait_s: float) -> AbstractContextManager[object]:
        if self._here is not None:
            return leased(ParquetDirectory(self._here), self._who, wait_s)
        return nullcontext() if self._lease is None else self._lease.held(wait_s)

    def _check_format(self) -> None:
        """Raises `JobError` where Parquet lies in place of a table: once there is a Delta table, nobody reads it."""
        for name in self._tables:
            path = self._path(name)
            if is_delta(self._spark, path):
                continue
            files, make = hadoop_files(self._spark, path)
            if _has_parquet(files, make(path)):
                raise JobError(
                    f"{path}: expected a Delta table, or none yet, got a directory of Parquet: write it with --format"
                    " parquet, or name another place"
                )

    def _check(self, tables: Mapping[str, DataFrame]) -> None:
        """Before the first commit: of tables that go together some would be written and some not."""
        for name, table in tables.items():
            path = self._path(name)
            if is_delta(self._spark, path):
                there = self._spark.read.format("delta").load(path).schema
                check_takes(path, there, with_date(table).schema)

    def _writer(self, table: DataFrame, order: Sequence[str]) -> Any:
        rows = laid_out(with_date(table), order, one_file=False)
        # Columns come to a table, and none goes: who reads at this moment would fail.
        return rows.write.format("delta").partitionBy(DATE).option("mergeSchema", "true")

    def _save(self, writer: Any, name: str) -> None:
        if self._lease is not None:
            self._lease.check()
        writer.save(self._path(name))

    def _path(self, name: str) -> str:
        folder = folder_of(name)
        return f"{self._root}/{folder}" if folder else self._root


def _has_parquet(files: Any, path: Any) -> bool:
    """Whether files lie below a directory, or in its folders of days, that are not Spark's own: those a run of ours
    may have left that was killed before the table's first commit."""
    for status in list_files(files, path):
        name = status.getPath().getName()
        if status.isDirectory():
            if name.startswith(f"{DATE}=") and _has_parquet(files, status.getPath()):
                return True
        elif name.endswith(ENDING) and not name.startswith(("_", ".", "part-")):
            return True
    return False


def is_delta(spark: SparkSession, path: str) -> bool:
    """Whether a Delta table is there."""
    files, make = hadoop_files(spark, path)
    return bool(files.exists(make(f"{path}/{DELTA_LOG}")))


def read_delta(spark: SparkSession, path: str) -> DataFrame:
    """A table as it is now, whatever is done with the rows later."""
    quoted = path.replace("`", "``")
    newest = spark.sql(f"DESCRIBE HISTORY delta.`{quoted}` LIMIT 1").first()
    assert newest is not None, "a table has a version"
    return spark.read.format("delta").option("versionAsOf", newest["version"]).load(path)
