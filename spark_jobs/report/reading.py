"""The tables that there are, and the rows of a range."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import NamedTuple

from pyspark.errors import AnalysisException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from agent.history.report.spans import Range
from agent.history.tables import TABLES, ddl
from agent.presentation.narrative.words import day
from spark_jobs.errors import JobError

MOST_DATES = 5
"""That an error names from each end."""


class Tables(NamedTuple):
    """The rollup tables."""

    groups: DataFrame
    causes: DataFrame
    episodes: DataFrame


def read_tables(spark: SparkSession, rollups: str) -> Tables:
    """All of them. Raises `JobError` where one is not there."""
    return Tables(*(_table(spark, rollups, name) for name in ("groups", "causes", "episodes")))


def _table(spark: SparkSession, rollups: str, name: str) -> DataFrame:
    path = f"{rollups.rstrip('/')}/{name}"
    try:
        return spark.read.schema(ddl(TABLES[name])).parquet(path)
    except AnalysisException as error:
        if error.getCondition() != "PATH_NOT_FOUND":
            raise
        raise JobError(
            f"{path} is not there: the table {name} of rollups expected; kshadow spark rollup makes it"
        ) from None


def of_hours(frame: DataFrame, span: Range) -> DataFrame:
    """Rows of groups, of windows of an hour that lie wholly in a range."""
    return frame.where(
        (F.col("window") == "1h")
        & F.col("group").isNotNull()
        & (F.col("start_ms") >= span.since_ms)
        & (F.col("end_ms") <= span.until_ms)
        & _dates(span)
    )


def of_cluster(causes: DataFrame, span: Range) -> DataFrame:
    """The same of what is about a cluster and no group."""
    hours = causes.withColumn("group", F.coalesce("group", F.lit("")))
    return of_hours(hours, span).where(F.col("group") == "").withColumn("group", F.lit(None).cast("string"))


def begun(episodes: DataFrame, span: Range) -> DataFrame:
    """Episodes that began in a range."""
    start = F.col("start_ms")
    return episodes.where((start >= span.since_ms) & (start < span.until_ms) & _dates(span))


def _dates(span: Range) -> Column:
    """Spares Spark the directories of other days."""
    first, last = (datetime.fromtimestamp(ms / 1000, UTC).date() for ms in (span.since_ms, span.until_ms))
    return F.col("date").between(F.lit(first), F.lit(last))


def find_range(groups: DataFrame, asked: Range) -> Range:
    """From the first hour with a row to the last. Raises `JobError` where there is none: with the dates there are."""
    row = of_hours(groups, asked).agg(F.min("start_ms").alias("since"), F.max("end_ms").alias("until")).first()
    assert row is not None, "an aggregate without groups has one row"
    if row["since"] is None:
        raise JobError(
            f"no rows of an hour between {_day(asked.since_ms)} and {_day(asked.until_ms)}; {_there(groups)}"
        )
    return Range(row["since"], row["until"])


def _there(groups: DataFrame) -> str:
    rows = groups.where(F.col("window") == "1h").select("date").distinct().orderBy("date").collect()
    dates = [str(row["date"]) for row in rows]
    if not dates:
        return "the table groups has none at all"
    shown = dates if len(dates) <= 2 * MOST_DATES else [*dates[:MOST_DATES], "…", *dates[-MOST_DATES:]]
    return f"there are {len(dates)} dates: {', '.join(shown)}"


def _day(at_ms: int) -> str:
    return {FIRST_MS: "the first", LAST_MS: "the last"}.get(at_ms) or day(at_ms)


FIRST_MS, LAST_MS = 0, 253_402_300_799_000
"""A range with no bound: 1970 to 9999."""
