"""A report's files on any of Hadoop's file systems."""

from __future__ import annotations

from typing import Any

from pyspark.sql import SparkSession

from agent.history.report.destination import Destination, LocalFiles, is_of_earlier_run
from agent.persistence.export.filesystems import SINGLE_PUT
from spark_jobs.errors import JobFailed
from spark_jobs.writing import hadoop_files, list_files


class HadoopFiles(Destination):
    """Where a path is on this machine, without Hadoop: that would put files of checksums beside ours."""

    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark
        self._local = LocalFiles()

    def write(self, path: str, content: bytes) -> None:
        """On an object store an object is there once it is whole; elsewhere beside first, then in its place."""
        files, make = self._at(path)
        if files is None:
            self._local.write(make, content)
            return
        at = make(path)
        if str(files.getUri().getScheme()) in SINGLE_PUT:
            _put(files, at, content)
            return
        beside = make(f"{at.getParent()}/.{at.getName()}.writing")
        _put(files, beside, content)
        files.delete(at, False)
        if not files.rename(beside, at):
            raise JobFailed(f"{path} could not be written")

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


def _put(files: Any, at: Any, content: bytes) -> None:
    # Not closed where it could not be written: an object store would take what it has for the whole.
    stream = files.create(at, True)
    stream.write(bytearray(content))
    stream.close()
