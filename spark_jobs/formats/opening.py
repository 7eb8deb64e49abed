"""Which format is which: where a job is told to write, and what lies where it is told to read."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import reduce

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from agent.history.days import Days
from agent.history.errors import HistoryError
from agent.history.parquet_directory import DELTA_LOG, ParquetDirectory
from agent.tools.spark_submit.paths import ICEBERG, local_directory
from spark_jobs.errors import JobError
from spark_jobs.formats.api import DATE, TableOutput, folder_of, is_of
from spark_jobs.formats.delta import DeltaOutput, is_delta, read_delta
from spark_jobs.formats.iceberg import IcebergOutput, read_iceberg, table_name
from spark_jobs.formats.parquet import ParquetOutput
from spark_jobs.writing import hadoop_files, list_files, literal


def open_output(spark: SparkSession, form: str, out: str, tables: Sequence[str], kind: str) -> TableOutput:
    """Where a job of that kind writes these tables. Raises `JobError`."""
    match form:
        case "iceberg":
            return IcebergOutput(spark, out, tables)
        case "delta":
            return DeltaOutput(spark, out, tables, kind)
        case _:
            root = local_directory(out)
            if root is None:
                raise JobError(f"{out}: expected a directory on this machine, for Parquet")
            return ParquetOutput(root, tables, kind)


@contextmanager
def pinned(places: Sequence[str]) -> Iterator[list[str]]:
    """Where to read what lies at some places, so that it stays as it is within the block: of Parquet in a directory
    on this machine hard links. What an error says of those is said of the places."""
    with ExitStack() as held:
        out, names = [], {}
        for place in places:
            here = local_directory(place)
            if here is None or not here.is_dir() or (here / DELTA_LOG).is_dir():
                out.append(place)
                continue
            pin = held.enter_context(ParquetDirectory(here).pin())
            out.append(f"file://{pin.path()}" if pin.is_pinned else place)
            names[str(pin.path())] = str(here)
        try:
            yield out
        except (HistoryError, JobError) as error:
            raise type(error)(reduce(lambda text, name: text.replace(*name), names.items(), str(error))) from error


def read_table(spark: SparkSession, at: str, table: str) -> DataFrame | None:
    """A Delta or Iceberg table as it is now; None where there is none of either, and so perhaps Parquet. Of Iceberg
    `at` is `iceberg:CATALOG.DB.PREFIX`."""
    if at.startswith(ICEBERG):
        name = table_name(at.removeprefix(ICEBERG), table)
        return read_iceberg(spark, name) if spark.catalog.tableExists(name) else None
    path = path_of(at, table)
    return read_delta(spark, path) if is_delta(spark, path) else None


def path_of(at: str, table: str) -> str:
    """The directory of a table."""
    folder = folder_of(table)
    return f"{at.rstrip('/')}/{folder}" if folder else at


def dates_of(spark: SparkSession, at: str, table: str) -> list[str]:
    """The days that a table has, in order; none where it is not there."""
    rows = read_table(spark, at, table)
    if rows is not None:
        return sorted(str(row[0]) for row in rows.select(DATE).distinct().collect() if row[0] is not None)
    if at.startswith(ICEBERG):
        return []
    files, make = hadoop_files(spark, at)
    names = [it.getPath().getName() for it in list_files(files, make(path_of(at, table)))]
    return sorted(name.removeprefix(f"{DATE}=") for name in names if name.startswith(f"{DATE}="))


def read_day(spark: SparkSession, at: str, table: str, schema: StructType, day: str) -> DataFrame:
    """A day of a table that has it."""
    rows = read_table(spark, at, table)
    if rows is not None:
        return conformed(rows.where(is_of(Days(day, day))), schema)
    path = path_of(at, table)
    return spark.read.schema(schema).option("basePath", path).parquet(literal(f"{path}/{DATE}={day}"))


def conformed(rows: DataFrame, schema: StructType) -> DataFrame:
    """The columns of a schema; those that are not there are null."""
    there = set(rows.columns)
    return rows.select(
        *(
            F.col(field.name) if field.name in there else F.lit(None).cast(field.dataType).alias(field.name)
            for field in schema.fields
        )
    )
