"""Up to when time has passed in the log, in small files beside a history, on any of Hadoop's file systems."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec
from pyspark.sql import SparkSession

from agent.persistence.export.log_clock import DIRECTORY, LogClock, decode_clock
from spark_jobs.progress import print_status
from spark_jobs.writing import HadoopFileSystem


def keep_clock(spark: SparkSession, directory: str, clock: LogClock) -> None:
    """Write what a writer knows, in place of what it knew before. All events up to then must be there."""
    HadoopFileSystem(spark).write(f"{directory}/{clock.file_name}", clock.encode())


def clocks_of(spark: SparkSession, directories: Iterable[str]) -> list[LogClock]:
    """What the writers of some histories knew. A file that says nothing is told of and passed over."""
    files, out = HadoopFileSystem(spark), []
    for directory in directories:
        for name in files.names(f"{directory}/{DIRECTORY}"):
            path = f"{directory}/{DIRECTORY}/{name}"
            if not name.endswith(".json") or name.startswith(".") or (kept := files.read(path)) is None:
                continue
            try:
                out.append(decode_clock(kept))
            except msgspec.MsgspecError as error:
                print_status(f"{path}: expected up to when time has passed: {error}: passed over")
    return out
