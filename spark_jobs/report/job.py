"""The job: Spark reads what only it can, the rest is `agent.history.report`, as on one machine."""

from __future__ import annotations

import time

import pyspark

from agent.common.files import scratch_directory
from agent.history.engine import SCRATCH, database
from agent.history.report import gains
from agent.history.report.building import Engine, build_report
from agent.history.report.request import Report, validate
from spark_jobs.progress import print_status, progress
from spark_jobs.report import reading
from spark_jobs.report.hadoop_destination import HadoopFiles
from spark_jobs.session import session


def run(job: Report) -> int:
    """Run it; the exit code."""
    it = validate(job)
    replayed = None if job.what_if is None else gains.documents(job.what_if)
    spark = session("report")
    there = reading.read_rollups(spark, job.rollups)
    with database() as db, scratch_directory(SCRATCH) as aside:
        with progress(spark, "reading rollups"):
            reading.load(db, there, [it.span, *(it.before_after or ())], aside)
        written = build_report(
            db,
            job,
            it,
            HadoopFiles(spark),
            engine=Engine("spark", f"Spark {pyspark.__version__}"),
            made_at_ms=int(time.time() * 1000),
            replayed=replayed,
            dates=there.dates,
        )
    print_status(str(written))
    return 0
