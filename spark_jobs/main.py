"""What `spark-submit` runs: one argument, the job as JSON (`agent.tools.spark_submit.jobs`). Exit codes as
everywhere in kshadow."""

from __future__ import annotations

import sys

from agent.common.sanitize import printable
from agent.tools.spark_submit.jobs import Backfill, Job, Report, Rollup, Stream, job_of
from spark_jobs.errors import JobError, explained


def main(arguments: list[str]) -> int:
    """Run a job: 0 done, 1 done but data was wrong, 2 wrong usage, 3 cannot reach or not allowed."""
    if len(arguments) != 1:
        print(f"one argument expected, the job as JSON; {len(arguments)} came", file=sys.stderr)  # noqa: T201
        return 2
    try:
        return _run(job_of(arguments[0]))
    except (JobError, ValueError) as error:
        return _said(error if isinstance(error, JobError) else JobError(str(error)))
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


def _run(job: Job) -> int:
    match job:
        case Backfill():
            from spark_jobs.backfill.job import run as backfill

            return backfill(job)
        case Stream():
            from spark_jobs.streams.job import run as stream

            return stream(job)
        case Rollup():
            from spark_jobs.rollups.job import run as rollup

            return rollup(job)
        case Report():
            from spark_jobs.report.job import run as report

            return report(job)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
