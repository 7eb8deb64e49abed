"""Iceberg tables in one of Spark's catalogs, which `--conf spark.sql.catalog.NAME…` sets up: their names are
`CATALOG.DB.PREFIX_history` and so on. The catalog sees to it that commits exclude each other."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext

from py4j.protocol import Py4JError
from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from agent.history.days import Days
from spark_jobs.formats.api import DATE, check_takes, is_of, laid_out, with_date

_STREAM, _BATCH = "kshadow.stream", "kshadow.batch"
"""Properties of the snapshot that a stream's batch makes."""


class IcebergOutput:
    """A `TableOutput`: tables whose names begin alike."""

    def __init__(self, spark: SparkSession, prefix: str, tables: Sequence[str]) -> None:
        self._spark, self._prefix, self._tables = spark, prefix, tables

    def held(self) -> AbstractContextManager[None]:
        """Nothing: who commits second, over the same days, replaces them."""
        return nullcontext()

    def is_empty(self) -> bool:
        """Whether no table has rows."""
        names = [table_name(self._prefix, name) for name in self._tables]
        return all(self._spark.table(it).isEmpty() for it in names if self._spark.catalog.tableExists(it))

    def replace(
        self, tables: Mapping[str, DataFrame], days: Mapping[str, Days] | None, order: Sequence[str] = ()
    ) -> None:
        """One commit for each table."""
        self._check(tables)
        for name, table in tables.items():
            rows = laid_out(with_date(table), order, one_file=False)
            target = self._made(name, rows)
            replaced = F.lit(True) if days is None else is_of(days[name])
            rows.writeTo(target).option("mergeSchema", "true").overwrite(replaced)

    def append(self, tables: Mapping[str, DataFrame], stream: str, batch_id: int, order: Sequence[str] = ()) -> None:
        """One commit for each table, which a batch that is made again finds done."""
        self._check(tables)
        for name, table in tables.items():
            rows = laid_out(with_date(table), order, one_file=False)
            target = self._made(name, rows)
            if self._last_batch(target, stream) < batch_id:
                marks = {_STREAM: stream, _BATCH: str(batch_id)}
                writer = rows.writeTo(target).option("mergeSchema", "true")
                writer.options(**{f"snapshot-property.{key}": value for key, value in marks.items()}).append()

    def _check(self, tables: Mapping[str, DataFrame]) -> None:
        """Before the first commit: of tables that go together some would be written and some not."""
        for name, table in tables.items():
            target = table_name(self._prefix, name)
            if self._spark.catalog.tableExists(target):
                check_takes(target, self._spark.table(target).schema, with_date(table).schema)

    def _made(self, name: str, rows: DataFrame) -> str:
        """The table's name; it is made if it is not there yet."""
        target = table_name(self._prefix, name)
        if not self._spark.catalog.tableExists(target):
            self._spark.sql(f"CREATE NAMESPACE IF NOT EXISTS {target.rpartition('.')[0]}")
            writer = rows.limit(0).writeTo(target).using("iceberg").partitionedBy(F.col(DATE))
            try:
                writer.tableProperty("write.spark.accept-any-schema", "true").create()
            except (AnalysisException, Py4JError):
                # Another job may have made it meanwhile: each catalog says so in its own way.
                if not self._spark.catalog.tableExists(target):
                    raise
        return target

    def _last_batch(self, target: str, stream: str) -> int:
        summary = F.col("summary")
        mine = self._spark.table(f"{target}.snapshots").where(summary[_STREAM] == stream)
        row = mine.agg(F.max(summary[_BATCH].cast("bigint"))).first()
        return -1 if row is None or row[0] is None else int(row[0])


def table_name(prefix: str, table: str) -> str:
    """The name of a table by that of the table of jobs."""
    return f"{prefix}_{table}"


def read_iceberg(spark: SparkSession, name: str) -> DataFrame:
    """A table as it is now, whatever is done with the rows later."""
    newest = spark.table(f"{name}.refs").where(F.col("name") == "main").first()
    # Without a snapshot it is empty.
    return (
        spark.table(name) if newest is None else spark.read.option("snapshot-id", newest["snapshot_id"]).table(name)
    )
