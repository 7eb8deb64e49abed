"""Tables as files: `<directory>/date=2026-11-21/<label>-….parquet`, where what is written twice replaces itself.

A job writes aside first (`_staging`, which readers pass over), then takes away what an earlier run of the same label
had left, then moves the files in. So a run that is broken off leaves nothing twice: it is made again under the same
label. Files come and go one by one: who reads meanwhile may miss some.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pyspark.sql import DataFrame, SparkSession

DATE = "date"


def hadoop_files(spark: SparkSession, path: str) -> tuple[Any, Any]:
    """The file system of Hadoop's that a path is on, and the class of its paths."""
    jvm: Any = spark._jvm
    context: Any = spark.sparkContext._jsc
    make = jvm.org.apache.hadoop.fs.Path
    return make(path).getFileSystem(context.hadoopConfiguration()), make


def list_files(files: Any, path: Any) -> list[Any]:
    """What is in a directory, each with its status; nothing where there is none."""
    return list(files.listStatus(path)) if files.exists(path) else []


class PartitionedDirectory:
    """A directory of any of Hadoop's file systems."""

    def __init__(self, spark: SparkSession, path: str) -> None:
        self._spark, self._path = spark, path
        self._files, self._make = hadoop_files(spark, path)
        self.has_published = False
        """Whether anything was written by this process."""

    def dates(self) -> dict[str, list[str]]:
        """The files of each date, by name."""
        out = {}
        for status in self._list(self._path):
            name = status.getPath().getName()
            if status.isDirectory() and name.startswith(f"{DATE}="):
                inside = self._list(f"{self._path}/{name}")
                out[name.removeprefix(f"{DATE}=")] = [it.getPath().getName() for it in inside if it.isFile()]
        return out

    def publish(self, table: DataFrame, label: str, replaces: Callable[[str, str], bool] | None = None) -> None:
        """Write a table, which has a column `date`; it goes by it. What `replaces(date, file)` says goes for it;
        unless told, what is there under the same label.
        """
        staging = f"{self._path}/_staging/{label}"
        table.write.mode("overwrite").partitionBy(DATE).parquet(staging)
        gone = replaces or (lambda date, file: file.startswith(f"{label}-"))
        # Only what a process writes first may have been written before; to look takes a listing of every date.
        for date, files in () if self.has_published else self.dates().items():
            for file in files:
                if gone(date, file):
                    self._files.delete(self._make(f"{self._path}/{DATE}={date}/{file}"), False)
        for date, files in PartitionedDirectory(self._spark, staging).dates().items():
            target = f"{self._path}/{DATE}={date}"
            self._files.mkdirs(self._make(target))
            for number, file in enumerate(sorted(it for it in files if it.endswith(".parquet"))):
                moved = self._make(f"{target}/{label}-{number:05d}.parquet")
                if not self._files.rename(self._make(f"{staging}/{DATE}={date}/{file}"), moved):
                    raise OSError(f"{target}/{label}-{number:05d}.parquet could not be written")
        self._files.delete(self._make(f"{self._path}/_staging"), True)
        self.has_published = True

    def is_empty(self) -> bool:
        """Whether there is nothing in it, or none at all."""
        return not self._list(self._path)

    def _list(self, path: str) -> list[Any]:
        return list_files(self._files, self._make(path))
