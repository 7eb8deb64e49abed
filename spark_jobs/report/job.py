"""The job: reads, calls, writes. The summary first, then the page of what stands there: so they say the same."""

from __future__ import annotations

import os
import time
from collections import defaultdict
from contextlib import suppress
from pathlib import Path
from typing import Any

import pyspark
from pyspark.sql import DataFrame, SparkSession

from agent import __version__
from agent.history import tables
from agent.history.report import spans
from agent.history.report.columns import SUMMARY
from agent.history.report.page.document import render_document
from agent.history.report.report_data import Comparison, Gains, ReportData, Rows
from agent.history.report.spans import Range
from agent.tools.spark_submit.jobs import Report
from spark_jobs.errors import JobError
from spark_jobs.report import command_line, comparing, deploys, gains, ranking, reading, times
from spark_jobs.report.validated_request import ReportRequest, validate
from spark_jobs.session import session


def run(job: Report) -> int:
    """Run it; the exit code."""
    it = validate(job)
    replayed = None if job.what_if is None else gains.documents(job.what_if)
    spark = session("report")
    there = reading.read_tables(spark, job.rollups)
    span = reading.find_range(there.groups, it.span)
    text = render_document(_collect(spark, job, it, there, span, replayed))
    _write(it.page, text)
    return 0


def _write(page: Path, text: str) -> None:
    """The whole page, or nothing of it. Raises `JobError`."""
    beside = page.with_name(f".{page.name}.{os.getpid()}")
    try:
        page.parent.mkdir(parents=True, exist_ok=True)
        beside.write_text(text, encoding="utf-8")
        beside.replace(page)
    except OSError as error:
        with suppress(OSError):
            beside.unlink()
        raise JobError(f"{page}: {error.strerror or error}") from None


def _collect(
    spark: SparkSession,
    job: Report,
    it: ReportRequest,
    there: reading.Tables,
    span: Range,
    replayed: list[gains.WhatIfDocument] | None,
) -> ReportData:
    hours = reading.of_hours(there.groups, span).persist()
    causes = reading.of_hours(there.causes, span).persist()
    episodes = reading.begun(there.episodes, span)
    step = spans.step_of(span)
    kept = _SummaryRows(spark, it.summary)

    ranked = kept.keep("ranking", ranking.ranking(hours, causes))
    shown = ranked.where(ranked["rank"] <= job.most_groups)
    teams = kept.keep("teams", ranking.teams(ranked, causes))
    by_step = kept.keep("causes_by_day", times.causes_by_step(causes, job.time_zone, step))
    week = kept.keep("heat_map", times.heat_map(hours, job.time_zone))
    deployed = kept.keep("deploys", deploys.deploys(episodes))
    compared = _compared(there, it.before_after, kept)
    gained = _gained(replayed, kept)
    every = causes.unionByName(reading.of_cluster(there.causes, span))

    (total,) = _rows(ranking.totals(hours))
    (unknown,) = _rows(ranking.unknown(ranked, span.until_ms - span.since_ms))
    courses: dict[int, dict[str, int | None]] = defaultdict(dict)
    for row in _rows(times.of_each(hours, shown, job.time_zone, step)):
        courses[row["rank"]][row["start"]] = row["rebalances"]
    found = ReportData(
        span=span,
        zone=job.time_zone,
        step=step,
        most_groups=job.most_groups,
        totals=total,
        departures=_rows(ranking.departures(causes)),
        ranking=_rows(shown.orderBy("rank")),
        courses=courses,
        teams=_rows(teams.where(teams["rank"] <= job.most_groups).orderBy("rank")),
        teams_total=teams.count(),
        starts=spans.starts(span, job.time_zone, step),
        steps=_rows(times.steps(hours, job.time_zone, step)),
        causes=_rows(by_step.orderBy("start", "kind", "cause")),
        heat_map=_rows(week.orderBy("weekday", "hour")),
        deploys=_rows(deployed.where(deployed["rank"] <= job.most_groups).orderBy("rank")),
        deploys_total=deployed.count(),
        kinds=_rows(deploys.kinds(episodes)),
        halves=None if compared is not None else _halves(hours, causes, span),
        compared=compared,
        gains=gained,
        findings=_rows(ranking.findings(every)),
        unknown=unknown,
        made_at_ms=int(time.time() * 1000),
        made_with=f"kshadow {__version__}, rollup tables of version {tables.VERSION}, Spark {pyspark.__version__}",
        command=command_line.command(job),
    )
    hours.unpersist()
    causes.unpersist()
    return found


def _rows(frame: DataFrame) -> Rows:
    return [row.asDict() for row in frame.collect()]


class _SummaryRows:
    """The summary's directory."""

    def __init__(self, spark: SparkSession, path: str) -> None:
        self._spark = spark
        self._path = path.rstrip("/")

    def keep(self, name: str, frame: DataFrame) -> DataFrame:
        """Write a table; what stands there then."""
        path = f"{self._path}/{name}"
        frame.coalesce(1).write.mode("overwrite").parquet(path)
        return self._spark.read.schema(tables.ddl(SUMMARY[name])).parquet(path)

    def keep_rows(self, name: str, rows: list[dict[str, Any]]) -> DataFrame:
        """The same of what no DataFrame is yet."""
        return self.keep(name, self._spark.createDataFrame(rows, tables.ddl(SUMMARY[name])))


def _compared(there: reading.Tables, ranges: tuple[Range, Range] | None, kept: _SummaryRows) -> Comparison | None:
    if ranges is None:
        kept.keep_rows("comparison", [])
        return None
    whole = Range(ranges[0].since_ms, ranges[1].until_ms)
    hours, causes = (reading.of_hours(it, whole) for it in (there.groups, there.causes))
    frame = kept.keep("comparison", _sides(hours, causes, ranges))
    of_all = _rows(frame.where(frame["group"].isNull()))
    if not of_all:
        raise JobError("before and after: no group is known in both of them, by whole hours")
    return Comparison(*ranges, of_all, _rows(comparing.standstill(frame)))


def _halves(hours: DataFrame, causes: DataFrame, span: Range) -> Comparison | None:
    """The second half of a range against the first."""
    halves = spans.halves(span)
    if halves is None:
        return None
    frame = _sides(hours, causes, halves)
    return Comparison(*halves, _rows(frame.where(frame["group"].isNull())), ())


def _sides(hours: DataFrame, causes: DataFrame, ranges: tuple[Range, Range]) -> DataFrame:
    return comparing.compare_ranges(comparing.with_side(hours, *ranges), comparing.with_side(causes, *ranges))


def _gained(replayed: list[gains.WhatIfDocument] | None, kept: _SummaryRows) -> Gains | None:
    rows = gains.gains(replayed or ())
    kept.keep_rows("gains", rows)
    return None if replayed is None else Gains(len({it.group for it in replayed}), rows)
