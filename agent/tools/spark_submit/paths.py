"""Which of a job's paths are files of this machine, and whether they are what the job needs."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from pathlib import Path

import msgspec

from agent.kafka.source.segments import discover
from agent.tools.spark_submit.errors import SubmitError
from agent.tools.spark_submit.jobs import Backfill, Job, Report, Rollup, Stream

_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:")


def local(path: str) -> Path | None:
    """The path, where Spark takes it for one of this machine; None for another file system, which is the job's
    business. Where Hadoop is configured that says which one it is that a path without a scheme is on."""
    return None if _SCHEME.match(path) or os.environ.get("HADOOP_CONF_DIR") else Path(path)


def with_absolute_paths(job: Job) -> Job:
    """The job with its local paths absolute: so that it means the same wherever its command is run."""
    changed: dict[str, object] = {}
    if isinstance(job, Backfill):
        changed["paths"] = tuple(map(os.path.abspath, job.paths))
    for field in _PATHS:
        value = getattr(job, field, None)
        if isinstance(value, str):
            changed[field] = _absolute(value)
        elif isinstance(value, tuple):
            changed[field] = tuple(_absolute(it) for it in value)
    return msgspec.structs.replace(job, **changed)


_PATHS = ("archives", "out", "checkpoint", "history", "rollups", "summary", "what_if")


def _absolute(path: str) -> str:
    return path if local(path) is None else os.path.abspath(path)


def check_paths(job: Job) -> None:
    """What the job reads is there, and where it writes is no file. Raises `CannotSubmit`, `SourcePathError`."""
    match job:
        case Backfill():
            _check_segments(job.paths)
            _check_there("--archive", job.archives)
            _check_directory("--out", job.out)
        case Stream():
            _check_there("--history", () if job.history is None else (job.history,))
            _check_directory("--out", job.out)
            _check_directory("--checkpoint", job.checkpoint)
        case Rollup():
            _check_there("--history", job.history)
            _check_directory("--out", job.out)
        case Report():
            _check_there("--rollups", (job.rollups,))
            _check_there("--whatif", () if job.what_if is None else (job.what_if,))
            _check_directory("--summary", job.summary)
            page = local(job.out)
            if page is not None and page.is_dir():
                raise SubmitError(f"--out {page}: a file expected, for the page; a directory came")


def _check_segments(paths: Iterable[str]) -> None:
    # Ours to read, not Spark's: they are files.
    for path in paths:
        discover(Path(path))


def _check_there(option: str, paths: Iterable[str]) -> None:
    for path in paths:
        here = local(path)
        if here is not None and not here.exists():
            raise SubmitError(f"{option} {path}: a file or directory expected, there is none")


def _check_directory(option: str, path: str | None) -> None:
    here = None if path is None else local(path)
    if here is not None and here.exists() and not here.is_dir():
        raise SubmitError(f"{option} {path}: a directory expected, or none yet; a file came")
