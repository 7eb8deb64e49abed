"""Which of a job's paths are files of this machine, and whether they are what the job needs."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path

import msgspec

from agent.history.parquet_directory import is_among_files
from agent.kafka.source.ndjson import is_ndjson
from agent.kafka.source.segments import discover
from agent.tools.spark_submit.errors import SubmitError
from agent.tools.spark_submit.jobs import Backfill, Job, Report

_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:")


def local(path: str) -> Path | None:
    """The path, where Spark takes it for one of this machine; None for another file system, which is the job's
    business. Where Hadoop is configured that says which one it is that a path without a scheme is on."""
    return None if _SCHEME.match(path) or os.environ.get("HADOOP_CONF_DIR") else Path(path)


ICEBERG = "iceberg:"
"""What begins so is no path, but names Iceberg tables: `iceberg:CATALOG.DB.PREFIX`."""


def local_directory(path: str) -> Path | None:
    """The same; what says so by `file:` is one as well, wherever Hadoop is configured."""
    if path.startswith("file:"):
        # Hadoop takes every character for itself: `%20` is no blank.
        return Path(re.sub("^file:(//[^/]*)?", "", path))
    return local(path)


def check_format(job: Job) -> None:
    """Raise `SubmitError` where Parquet is to be written that has no commit there."""
    if getattr(job, "format", None) != "parquet":
        return
    out: str = getattr(job, "out")  # noqa: B009
    if local_directory(out) is not None:
        return
    if not _SCHEME.match(out):
        raise SubmitError(
            f"--out {out}: HADOOP_CONF_DIR is set, so the file system is Hadoop's: expected for Parquet a directory"
            f" on this machine (file://{os.path.abspath(out)}); elsewhere --format delta"
        )
    raise SubmitError(
        f"--out {out}: expected a directory on this machine: Parquet files have no commit on another file system, so"
        " who reads or is killed meanwhile would see a part of it: --format delta (or iceberg, with --table) has one"
    )


def writes_to(job: Job) -> str | None:
    """The path of its tables; None for those of a catalog."""
    return None if getattr(job, "format", None) == "iceberg" else getattr(job, "out", None)


_READ = {"archives": "--archive", "history": "--history", "rollups": "--rollups", "what_if": "--whatif"}
_WRITTEN = {"summary": "--summary", "out": "--out", "checkpoint": "--checkpoint"}
"""Fields of jobs that hold paths, and the option that each comes from."""


def with_absolute_paths(job: Job) -> Job:
    """The job with its local paths absolute: so that it means the same wherever its command is run."""
    changed: dict[str, object] = {}
    if isinstance(job, Backfill):
        changed["paths"] = tuple(map(os.path.abspath, job.paths))
    for field in (*_READ, *_WRITTEN):
        value = _value(job, field)
        if isinstance(value, str):
            changed[field] = _absolute(value)
        elif isinstance(value, tuple):
            changed[field] = tuple(map(_absolute, value))
    return msgspec.structs.replace(job, **changed)


def _absolute(path: str) -> str:
    return path if local(path) is None else os.path.abspath(path)


def _value(job: Job, field: str) -> object:
    return writes_to(job) if field == "out" else getattr(job, field, None)


def check_paths(job: Job) -> None:
    """What the job reads is there, and where it writes is no file. Raises `SubmitError`, `SourcePathError`."""
    if isinstance(job, Backfill):
        # Ours to read, not Spark's: they are files.
        for path in job.paths:
            if is_ndjson(path):
                raise SubmitError(f"--from {path}: expected a .log segment or a directory with some, got NDJSON")
            discover(Path(path))
    for option, here in _local_paths(job, _READ):
        if not here.exists():
            raise SubmitError(f"{option} {here}: expected a file or directory, there is none")
    for option, here in _local_paths(job, _WRITTEN):
        if isinstance(job, Report) and option == "--out":
            if here.is_dir():
                raise SubmitError(f"{option} {here}: expected a file for the page, got a directory")
        elif here.exists() and not here.is_dir():
            raise SubmitError(f"{option} {here}: expected a directory, or none yet, got a file")
        elif option == "--out":
            for of_read, there in _local_paths(job, {"history": "--history"}):
                if is_among_files(here, there):
                    raise SubmitError(f"{option} {here}: expected a directory outside of {of_read} {there}")


def _local_paths(job: Job, options: Mapping[str, str]) -> Iterator[tuple[str, Path]]:
    """The local paths that stand in these fields of a job, each with its option."""
    for field, option in options.items():
        value = _value(job, field)
        paths = value if isinstance(value, tuple) else () if value is None else (value,)
        for path in paths:
            if (here := local(path)) is not None:
                yield option, here
