"""What `spark-submit` runs: one argument, the job as JSON (`agent.tools.spark_submit.jobs`). Exit codes as
everywhere in kshadow."""

from __future__ import annotations

import fcntl
import os
import stat
import struct
import sys
import termios
import time
from importlib import import_module

from agent.common.sanitize import printable
from agent.history.errors import HistoryUnreachable, error_of
from agent.kafka.source.errors import SourcePathError
from agent.tools.spark_submit.jobs import Backfill, Job, Report, Rollup, Stream, job_of
from spark_jobs.errors import JobError, Unreachable, explained


def main(arguments: list[str]) -> int:
    """Run a job: 0 done, 1 done but data was wrong, 2 wrong usage, 3 cannot reach or not allowed."""
    if len(arguments) != 1:
        print(f"expected one argument, the job as JSON, got {len(arguments)}", file=sys.stderr)  # noqa: T201
        return 2
    try:
        return _run(job_of(arguments[0]))
    except JobError as error:
        return _said(error)
    except HistoryUnreachable as error:
        return _said(Unreachable(str(error)))
    except OSError as error:
        if error.filename is None and not isinstance(error, PermissionError):
            # Of no file of anybody's: a mistake of ours, or of a connection.
            raise
        found = error_of(error)
        return _said((Unreachable if isinstance(found, HistoryUnreachable) else JobError)(str(found)))
    except (SourcePathError, ValueError) as error:
        return _said((Unreachable if isinstance(error.__cause__, PermissionError) else JobError)(str(error)))
    except Exception as error:
        if not _is_sparks(error):
            raise
        return _said(explained(str(error)))


def _said(error: JobError) -> int:
    print(f"Error: {printable(str(error))}", file=sys.stderr)  # noqa: T201
    return error.code


def _is_sparks(error: Exception) -> bool:
    """Whether it came from Spark's side, where our own mistakes come from as well: the text tells."""
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    return isinstance(error, PySparkException | Py4JError)


COPIED_S = 5.0
"""Whoever reads what is said may have gone."""


def _await_copied() -> None:
    """Wait until what was said last has been read: Spark copies it to its own output until this process has ended,
    and drops what it has not read by then, such as why a job failed."""
    deadline = time.monotonic() + COPIED_S
    for output in (sys.stdout, sys.stderr):
        output.flush()
        number = output.fileno()
        while stat.S_ISFIFO(os.fstat(number).st_mode) and time.monotonic() < deadline:
            (unread,) = struct.unpack("i", fcntl.ioctl(number, termios.FIONREAD, bytes(4)))
            if not unread:
                break
            time.sleep(0.01)


_JOBS = {Backfill: "backfill", Stream: "streams", Rollup: "rollups", Report: "report"}
"""The package of each kind of job, which is imported when it runs."""


def _run(job: Job) -> int:
    return int(import_module(f"spark_jobs.{_JOBS[type(job)]}.job").run(job))


if __name__ == "__main__":
    code = main(sys.argv[1:])
    _await_copied()
    sys.exit(code)
