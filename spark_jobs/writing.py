"""Files of any of Hadoop's file systems, as the driver reaches them."""

from __future__ import annotations

import re
from typing import Any

from pyspark.sql import SparkSession

from spark_jobs.errors import JobFailed

_WHOLE_WHEN_CLOSED = ("s3a", "s3", "s3n", "gs")
"""File systems of Hadoop's that publish what a stream has as it is closed. Azure's make the file at once."""


def hadoop_files(spark: SparkSession, path: str) -> tuple[Any, Any]:
    """The file system of Hadoop's that a path is on, and the class of its paths."""
    jvm: Any = spark._jvm
    context: Any = spark.sparkContext._jsc
    make = jvm.org.apache.hadoop.fs.Path
    return make(path).getFileSystem(context.hadoopConfiguration()), make


def literal(path: str) -> str:
    """A path for Spark's readers of files, which take each for a pattern: of `[`, `*` and the like."""
    return re.sub(r"[][{}*?\\]", r"\\\g<0>", path)


def list_files(files: Any, path: Any) -> list[Any]:
    """What is in a directory, each with its status; nothing where there is none."""
    return list(files.listStatus(path)) if files.exists(path) else []


def put_whole(files: Any, make: Any, path: str, content: bytes) -> None:
    """Write a file in place of the one that is there: what is broken off is not there. On S3 and Google's store it is
    there once it is whole; elsewhere beside first. Raises `JobFailed`."""
    if str(files.getUri().getScheme()) in _WHOLE_WHEN_CLOSED:
        _put(files, make(path), content)
        return
    directory, slash, name = path.rpartition("/")
    beside = make(f"{directory}{slash}.{name}.writing")
    _put(files, beside, content)
    files.delete(make(path), False)
    if not files.rename(beside, make(path)):
        raise JobFailed(f"{path} could not be written")


def _put(files: Any, at: Any, content: bytes) -> None:
    # Not closed where it could not be written: an object store would take what it has for the whole.
    stream = files.create(at, True)
    stream.write(bytearray(content))
    stream.close()


class HadoopFileSystem:
    """The `Files` of `agent.tools.spark_submit.checkpoint`, on any of Hadoop's file systems."""

    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark

    def names(self, directory: str) -> list[str]:
        """What is in a directory; nothing where there is none."""
        files, make = hadoop_files(self._spark, directory)
        return [it.getPath().getName() for it in list_files(files, make(directory))]

    def read(self, path: str) -> bytes | None:
        """What a file holds; None where there is none."""
        files, make = hadoop_files(self._spark, path)
        if not files.exists(make(path)):
            return None
        stream = files.open(make(path))
        try:
            return bytes(stream.readAllBytes())
        finally:
            stream.close()

    def write(self, path: str, body: bytes) -> None:
        """Write a file, whole or not at all."""
        put_whole(*hadoop_files(self._spark, path), path, body)

    def remove(self, path: str) -> None:
        """Remove a file."""
        files, make = hadoop_files(self._spark, path)
        files.delete(make(path), False)
