"""Up to when time has passed in the log, in small files beside a history, on any of Hadoop's file systems."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec
from pyspark.sql import SparkSession

from agent.persistence.export.log_clock import DIRECTORY, LogClock, decode_clock
from spark_jobs.progress import print_status
from spark_jobs.writing import hadoop_files, list_files, put_whole


def keep_clock(spark: SparkSession, directory: str, clock: LogClock) -> None:
    """Write what a writer knows, in place of what it knew before. All events up to then must be there."""
    put_whole(*hadoop_files(spark, directory), f"{directory}/{clock.file_name}", clock.encode())


def clocks_of(spark: SparkSession, directories: Iterable[str]) -> list[LogClock]:
    """What the writers of some histories knew. A file that says nothing is told of and passed over."""
    out = []
    for directory in directories:
        files, make = hadoop_files(spark, directory)
        for status in list_files(files, make(f"{directory}/{DIRECTORY}")):
            path = status.getPath()
            if not path.getName().endswith(".json") or path.getName().startswith("."):
                continue
            stream = files.open(path)
            try:
                out.append(decode_clock(bytes(stream.readAllBytes())))
            except msgspec.MsgspecError as error:
                print_status(f"{path.toString()}: expected up to when time has passed: {error}: passed over")
            finally:
                stream.close()
    return out
