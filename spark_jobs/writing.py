"""Files of any of Hadoop's file systems, as the driver reaches them."""

from __future__ import annotations

from typing import Any

from pyspark.sql import SparkSession


def hadoop_files(spark: SparkSession, path: str) -> tuple[Any, Any]:
    """The file system of Hadoop's that a path is on, and the class of its paths."""
    jvm: Any = spark._jvm
    context: Any = spark.sparkContext._jsc
    make = jvm.org.apache.hadoop.fs.Path
    return make(path).getFileSystem(context.hadoopConfiguration()), make


def list_files(files: Any, path: Any) -> list[Any]:
    """What is in a directory, each with its status; nothing where there is none."""
    return list(files.listStatus(path)) if files.exists(path) else []
