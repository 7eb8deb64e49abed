"""The job: history events of whole days → rollups, in place of what there was of those days."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from pyspark import StorageLevel
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from agent.common.units import DAY_MS
from agent.history.days import Days, Reading
from agent.history.input_schema import check_newest
from agent.history.planning import (
    NOT_DATED,
    days_asked,
    days_together,
    known_clocks,
    left_out,
    no_events,
    no_window_over,
    not_over,
    planned_reading,
    range_of,
    range_read,
)
from agent.history.rolling import OPEN_EPISODES, Range
from agent.history.rollup_reducer import STATE_VERSION
from agent.history.tables import ROLLED_UP, STANDING, ddl
from agent.persistence.export.arrow import date_of
from agent.persistence.export.log_clock import LogClock
from agent.tools.spark_submit.jobs import Rollup
from agent.tools.spark_submit.paths import ICEBERG
from analyzers.formatting import count_text
from spark_jobs.formats.api import TableOutput
from spark_jobs.formats.opening import dates_of, open_output, pinned, read_day
from spark_jobs.history import HistoryFiles, has_time
from spark_jobs.log_clocks import clocks_of
from spark_jobs.progress import print_status, progress
from spark_jobs.rollups.rolling import roll_up, table_of
from spark_jobs.session import session


def run(job: Rollup) -> int:
    """Run it; the exit code: 1 if some events were of no time that could be believed. Raises `HistoryError`."""
    with session("rollup") as spark:
        return roll_up_days(spark, job)


def roll_up_days(spark: SparkSession, job: Rollup) -> int:
    """The same in a session."""
    target = open_output(spark, job.format, job.out, tuple(ROLLED_UP), "rollup")
    with target.held():
        # Before the files are listed: all events up to then are among them. A catalog has no place for clocks.
        told = [(path, [] if path.startswith(ICEBERG) else clocks_of(spark, [path])) for path in job.history]
        with pinned(job.history) as places:
            return _roll_up(spark, job, places, told, target)


Told = Sequence[tuple[str, Sequence[LogClock]]]
"""Of each history what its writers knew of the time that has passed."""


def _roll_up(spark: SparkSession, job: Rollup, places: Sequence[str], told: Told, target: TableOutput) -> int:
    history = " ".join(sorted(job.history))
    with progress(spark, "reading events"):
        needed = _needed(spark, job, places, told, history)
    within = needed.within.not_after(int(time.time() * 1000))
    events = needed.events.where(has_time(F.current_timestamp(), needed.earliest_ms))
    with progress(spark, "rolling up"):
        rows = roll_up(events, within, standing=needed.standing, history=history).persist(StorageLevel.DISK_ONLY)
        counts = {row["table"]: row["count"] for row in rows.groupBy("table").count().collect()}
        replace_days(target, rows, within)
    made = [f"{count_text(counts.get(name, 0), 'row')} of {name}" for name in ROLLED_UP]
    days = count_text((within.until_ms - within.since_ms) // DAY_MS, "day")
    events_told = count_text(needed.believed, "event")
    print_status(f"{events_told}, {days} from {date_of(within.since_ms)}: {', '.join(made)}")
    if not counts.get("groups"):
        print_status(no_window_over(within))
    if open_episodes := counts.get(OPEN_EPISODES):
        print_status(not_over(open_episodes))
    if needed.left_out:
        print_status(left_out(needed.left_out))
    return int(needed.left_out > 0)


def replace_days(target: TableOutput, rows: DataFrame, within: Range) -> None:
    """Write rows of all tables in place of those of the same days."""
    days = Days(date_of(within.since_ms), date_of(within.until_ms - 1))
    # How groups stood on later days was found with what is replaced now.
    of_tables = {name: days._replace(last="9999-12-31") if name == "standing" else days for name in ROLLED_UP}
    target.replace({name: table_of(rows, name) for name in ROLLED_UP}, of_tables)


class _Needed(NamedTuple):
    """What a rollup reads, and of what range. `believed` events are of a time that can be, `left_out` are not."""

    within: Range
    events: DataFrame
    standing: DataFrame | None
    believed: int
    left_out: int
    earliest_ms: int


class _Extent(NamedTuple):
    first_ms: int | None
    last_ms_of: Mapping[str | None, int]
    """By cluster."""
    believed: int
    total: int


def _needed(spark: SparkSession, job: Rollup, places: Sequence[str], told: Told, history: str) -> _Needed:
    files = HistoryFiles(spark, places)
    if not files.is_dated:
        return _all_of(files, job)
    now_ms = int(time.time() * 1000)
    dates = files.dates(now_ms)
    if not dates:
        raise no_events(job.history)
    dates, earliest_ms = days_together(dates, job.since, job.until)
    clocks = known_clocks(told, now_ms, print_status)
    asked = days_asked(job.since, job.until, dates, clocks)
    reading, standing = _reading(spark, _place(job), asked, dates, history)
    # With all of it what has no believable time is read as well, to be told of.
    whole = files.read(reading.whole) if job.since or job.until else files.read()
    extent = _extent(whole, earliest_ms)
    within = range_read(asked, reading, dates, extent.last_ms_of, clocks)
    events = whole if reading.carried is None else whole.unionByName(files.read(reading.carried))
    return _Needed(within, events, standing, extent.believed, extent.total - extent.believed, earliest_ms)


def _reading(
    spark: SparkSession, out: str, asked: Days, dates: list[str], history: str
) -> tuple[Reading, DataFrame | None]:
    """What to read, and how groups stood when the day before it had ended, where that is written down."""
    found: dict[str, DataFrame] = {}

    def is_ours(day: str) -> bool:
        read = read_day(spark, out, "standing", StructType.fromDDL(ddl(STANDING)), day)
        found[day] = read.where((F.col("history") == history) & (F.col("state_version") == STATE_VERSION))
        return not found[day].isEmpty()

    standings = dates_of(spark, out, "standing")
    reading = planned_reading(asked, dates, standings, f"{out}/standing", is_ours, print_status)
    return reading, None if reading.standing is None else found[reading.standing]


def _place(job: Rollup) -> str:
    """Where its tables are, as readers name it."""
    return f"{ICEBERG}{job.out}" if job.format == "iceberg" else job.out


def _all_of(files: HistoryFiles, job: Rollup) -> _Needed:
    """Of files that lie in no directory of a day: all of them must be read to find some days."""
    print_status(NOT_DATED)
    every = files.read()
    day = F.floor(F.col("at_ms") / DAY_MS)
    days = every.where(has_time(F.current_timestamp())).select(day).distinct().collect()
    dates = sorted(date_of(row[0] * DAY_MS) for row in days)
    _, earliest_ms = days_together(dates, job.since, job.until)
    extent = _extent(every, earliest_ms)
    if extent.first_ms is None:
        raise no_events(job.history)
    within = range_of(job.since, job.until, extent.first_ms, extent.last_ms_of)
    return _Needed(within, every, None, extent.believed, extent.total - extent.believed, earliest_ms)


def _extent(every: DataFrame, earliest_ms: int) -> _Extent:
    at = F.when(has_time(F.current_timestamp(), earliest_ms), F.col("at_ms"))
    found = (
        every.groupBy("cluster").agg(F.min(at), F.max(at), F.count(at), F.count(F.lit(1)), F.max("schema")).collect()
    )
    check_newest(max((row[5] for row in found if row[5] is not None), default=None))
    return _Extent(
        min((row[1] for row in found if row[1] is not None), default=None),
        {row[0]: row[2] for row in found if row[2] is not None},
        sum(row[3] for row in found),
        sum(row[4] for row in found),
    )
