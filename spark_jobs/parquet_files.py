"""Parquet files below a directory, as Hadoop lists them: by date, and what their footers say they hold."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from agent.history.days import Days
from agent.history.errors import HistoryError, HistoryUnreachable
from agent.history.input_schema import EVENTS, check_columns
from spark_jobs.errors import JobError
from spark_jobs.formats.api import DATE
from spark_jobs.writing import hadoop_files

FOOTERS = 1_000
"""That are held at a time."""


class DatedDirectory:
    """What is in a directory: `days`, each with the path of its directory, and paths that lie in none (`loose`)."""

    def __init__(self, spark: SparkSession, path: str) -> None:
        """Raises `JobError` where it is not there."""
        files, make = hadoop_files(spark, path)
        root = make(path)
        if not files.exists(root):
            raise JobError(f"{path}: expected a directory of Parquet, there is none")
        self.path = path
        self.days: dict[str, str] = {}
        self.loose: list[str] = []
        for status in files.listStatus(root):
            inside = status.getPath()
            name = inside.getName()
            if name.startswith(("_", ".")):
                continue
            if status.isDirectory() and name.startswith(f"{DATE}="):
                self.days[name.removeprefix(f"{DATE}=")] = inside.toString()
            elif status.isDirectory() or name.endswith(".parquet") or inside.equals(files.resolvePath(root)):
                self.loose.append(inside.toString())

    def paths(self, days: Sequence[Days] = ()) -> list[str]:
        """The directories of some days, or of all."""
        return [
            path for day, path in sorted(self.days.items()) if not days or any(day in it.of([day]) for it in days)
        ]


def files_below(spark: SparkSession, paths: Iterable[str]) -> Iterator[Any]:
    """The status of each Parquet file that Spark would read of them."""
    for path in paths:
        files, make = hadoop_files(spark, path)
        pending = [make(path)]
        if not files.exists(pending[0]):
            raise HistoryError(f"{path}: expected Parquet, there is none")
        while pending:
            for status in files.listStatus(pending.pop()):
                name = status.getPath().getName()
                if name.startswith(("_", ".")) and "=" not in name:
                    continue
                if status.isDirectory():
                    pending.append(status.getPath())
                else:
                    yield status


def check_files(spark: SparkSession, paths: Iterable[str]) -> None:
    """Look at the footer of every file below paths. Raises `HistoryError` for one that is damaged, or lacks a column
    of `EVENTS`, or has it with another type."""
    for schema, file in schemas_of(spark, paths):
        check_columns(file, to_arrow_schema(schema), EVENTS)


def schemas_of(spark: SparkSession, paths: Iterable[str]) -> Iterator[tuple[StructType, str]]:
    """Each schema that files below paths have, and the first file that has it. Raises `HistoryError` for a file that
    is damaged."""
    jvm: Any = spark._jvm
    session: Any = spark._jsparkSession
    parquet = jvm.org.apache.parquet.hadoop.ParquetFileReader
    package = jvm.org.apache.spark.sql.execution.datasources.parquet
    converter = package.ParquetToSparkSchemaConverter(session.sessionState().conf())
    conf = spark.sparkContext._jsc.hadoopConfiguration()
    met: set[str] = set()
    statuses = files_below(spark, paths)
    while some := list(islice(statuses, FOOTERS)):
        portion = jvm.java.util.ArrayList()
        for status in some:
            portion.add(status)
        try:
            footers = parquet.readAllFootersInParallel(conf, portion, True)
        except Exception as error:
            denied = re.search(r"FileNotFoundException: (\S+) \(Permission denied\)", str(error))
            if denied:
                raise HistoryUnreachable(f"{denied[1]}: Permission denied") from error
            found = re.search(r"RuntimeException: (\S+) is not a Parquet file", str(error))
            where = found[1] if found else "a file"
            raise HistoryError(f"{where}: expected a Parquet file, this one is damaged, or none") from error
        for footer in footers:
            message = footer.getParquetMetadata().getFileMetaData().getSchema()
            text = message.toString()
            if text not in met:
                met.add(text)
                yield StructType.fromJson(json.loads(converter.convert(message).json())), footer.getFile().toString()
