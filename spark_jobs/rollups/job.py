"""The job: history events of whole days → rollups, in place of what there was of those days."""

from __future__ import annotations

from pyspark import StorageLevel
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from agent.common.units import DAY_MS
from agent.history.rolling import Range, range_of
from agent.history.tables import TABLES
from agent.persistence.export.arrow import date_of
from agent.tools.spark_submit.jobs import Rollup
from spark_jobs.errors import JobError
from spark_jobs.history import from_files, has_time
from spark_jobs.progress import print_status, progress
from spark_jobs.rollups.rolling import roll_up, table_of
from spark_jobs.session import session
from spark_jobs.writing import PartitionedDirectory

LABEL = "rollup"


def run(job: Rollup) -> int:
    """Run it; the exit code: 1 if some events were of no time that could be believed."""
    with session("rollup") as spark:
        with progress(spark, "reading events"):
            every = from_files(spark, job.history)
            events = every.where(has_time(F.current_timestamp()))
            first_ms, last_ms, count, total = _extent(every)
        if first_ms is None or last_ms is None:
            raise JobError(f"{', '.join(job.history)}: expected history events, none came")
        within = range_of(job.since, job.until, first_ms, last_ms)
        with progress(spark, "rolling up"):
            rows = roll_up(events, within).persist(StorageLevel.DISK_ONLY)
            told = [
                f"{replace_days(table_of(rows, name), f'{job.out}/{name}', within):,} rows of {name}"
                for name in TABLES
            ]
        days = (within.until_ms - within.since_ms) // DAY_MS
        print_status(f"{count:,} events, {days} days from {date_of(within.since_ms)}: {', '.join(told)}")
        if total > count:
            print_status(
                f"{total - count:,} events were left out: they are from before 2010, or from more than an hour ahead"
            )
        return int(total > count)


def replace_days(table: DataFrame, directory: str, within: Range) -> int:
    """Write rows in place of those of the same days; how many."""
    first, last = date_of(within.since_ms), date_of(within.until_ms - 1)
    target = PartitionedDirectory(table.sparkSession, directory)
    target.publish(table.hint("rebalance", "date"), LABEL, lambda day, file: first <= day <= last)
    count: int = table.count()
    return count


def _extent(every: DataFrame) -> tuple[int | None, int | None, int, int]:
    there = has_time(F.current_timestamp())
    at = F.when(there, F.col("at_ms"))
    found = every.agg(F.min(at), F.max(at), F.count(at), F.count(F.lit(1))).first()
    assert found is not None, "an aggregate has a row"
    return found[0], found[1], found[2], found[3]
