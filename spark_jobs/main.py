"""What `spark-submit` runs: one argument, the job as JSON (`agent.tools.spark_submit.jobs`). Exit codes as
everywhere in kshadow."""

from __future__ import annotations

import sys
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
    except (HistoryUnreachable, PermissionError) as error:
        return _said(Unreachable(str(error_of(error) if isinstance(error, OSError) else error)))
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


_JOBS = {Backfill: "backfill", Stream: "streams", Rollup: "rollups", Report: "report"}
"""The package of each kind of job, which is imported when it runs."""


def _run(job: Job) -> int:
    return int(import_module(f"spark_jobs.{_JOBS[type(job)]}.job").run(job))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
