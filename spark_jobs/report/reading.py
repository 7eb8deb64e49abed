"""The rows of rollups that a report needs, out of Spark into files of this machine, a portion at a time.

For what DuckDB does not read by itself: Hadoop's file systems, and Spark's catalogs.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow.parquet as pq
from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from agent.history.arrow_types import arrow_schema
from agent.history.engine import parquet, quoted
from agent.history.input_schema import check_columns
from agent.history.report.queries.views import READ
from agent.history.report.spans import Range
from agent.history.tables import TABLES, ddl
from agent.tools.spark_submit.paths import ICEBERG
from spark_jobs.errors import JobError
from spark_jobs.formats.iceberg import table_name
from spark_jobs.formats.opening import conformed, path_of, read_table
from spark_jobs.writing import literal

PORTION = 500_000
"""Rows at a time, of whole dates."""


class Rollups(NamedTuple):
    """The tables, as Spark reads them."""

    tables: dict[str, DataFrame]

    def dates(self) -> list[str]:
        """Those with rows of an hour."""
        rows = (
            self.tables["groups"].where(F.col("window") == "1h").select("date").distinct().orderBy("date").collect()
        )
        return [str(row["date"]) for row in rows]


def read_rollups(spark: SparkSession, rollups: str) -> Rollups:
    """All of them, each as it is now. Raises `JobError` where one is not there, or lacks a column."""
    return Rollups({name: _table(spark, rollups, name) for name in READ})


def _table(spark: SparkSession, rollups: str, name: str) -> DataFrame:
    # The files of a Delta table are not its rows: those of days that were replaced are still there.
    found = read_table(spark, rollups, name)
    path = table_name(rollups, name) if rollups.startswith(ICEBERG) else path_of(rollups, name)
    if found is None:
        found = _of_files(spark, path)
    if found is None:
        raise JobError(f"{path} is not there: expected the table {name} of rollups; kshadow spark rollup makes it")
    from pyspark.sql.pandas.types import to_arrow_schema

    wanted = arrow_schema(column for column in TABLES[name] if column.name in READ[name])
    check_columns(path, to_arrow_schema(found.schema), wanted)
    columns = tuple(column for column in TABLES[name] if column.name in (*READ[name], "date"))
    return conformed(found, StructType.fromDDL(ddl(columns)))


def _of_files(spark: SparkSession, path: str) -> DataFrame | None:
    """Parquet in a directory; None where there is no such path."""
    if path.startswith(ICEBERG):
        return None
    try:
        return spark.read.parquet(literal(path))
    except AnalysisException as error:
        if error.getCondition() != "PATH_NOT_FOUND":
            raise
        return None


def load(db: Any, there: Rollups, spans: list[Range], aside: Path) -> None:
    """Tables of a database, with the hours and the episodes within the ranges' hull."""
    within = Range(min(it.since_ms for it in spans), max(it.until_ms for it in spans))
    first, last = (datetime.fromtimestamp(ms / 1000, UTC).date() for ms in within)
    for name, table in there.tables.items():
        needed = table.where(F.col("date").between(F.lit(first), F.lit(last)) & (F.col("start_ms") < within.until_ms))
        if name != "episodes":
            needed = needed.where((F.col("window") == "1h") & (F.col("start_ms") >= within.since_ms))
        file = aside / f"{name}.parquet"
        _spool(needed, file, arrow_schema(column for column in TABLES[name] if column.name in (*READ[name], "date")))
        db.execute(f"CREATE VIEW {quoted(name)} AS FROM {parquet([file])}")


def _spool(rows: DataFrame, file: Path, schema: Any) -> None:
    with pq.ParquetWriter(file, schema, compression="zstd") as writer:
        for dates in _portions(rows):
            writer.write_table(rows.where(F.col("date").isin(dates)).toArrow().select(schema.names).cast(schema))


def _portions(rows: DataFrame) -> Iterator[list[date]]:
    """Dates, as many at a time as have so many rows."""
    some: list[date] = []
    there = 0
    for row in rows.groupBy("date").count().orderBy("date").collect():
        if some and there + row["count"] > PORTION:
            yield some
            some, there = [], 0
        some.append(row["date"])
        there += row["count"]
    if some:
        yield some
