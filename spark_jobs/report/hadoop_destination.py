"""A report's files on any of Hadoop's file systems."""

from __future__ import annotations

from typing import Any

from pyspark.sql import SparkSession

from agent.history.report.destination import Destination, LocalFiles, is_of_earlier_run
from spark_jobs.writing import hadoop_files, list_files, put_whole


class HadoopFiles(Destination):
    """Where a path is on this machine, without Hadoop: that would put files of checksums beside ours."""

    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark
        self._local = LocalFiles()

    def write(self, path: str, content: bytes) -> None:
        """In its place once it is whole."""
        files, make = self._at(path)
        if files is None:
            self._local.write(make, content)
        else:
            put_whole(files, make, path, content)

    def remove_others(self, path: str) -> None:
        """Directories, and files that are no table's, stay."""
        files, make = self._at(path)
        if files is None:
            self._local.remove_others(make)
            return
        at = make(path)
        for status in list_files(files, at.getParent()):
            other = status.getPath()
            if status.isFile() and other.getName() != at.getName() and is_of_earlier_run(other.getName()):
                files.delete(other, False)

    def _at(self, path: str) -> tuple[Any, Any]:
        """The file system of a path and the class of its paths; or None, and the path on this machine."""
        files, make = hadoop_files(self._spark, path)
        if str(files.getUri().getScheme()) == "file":
            return None, str(make(path).toUri().getPath())
        return files, make
