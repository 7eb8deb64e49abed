"""What several of the report's queries have in common. DataFrames in, columns or DataFrames out."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from operator import and_

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from agent.common.units import DAY_MS
from agent.history import tables

KEY = ("cluster", "group")
"""A group. The cluster may be null."""


def select_columns(frame: DataFrame, columns: Sequence[tables.Column]) -> DataFrame:
    """The columns of a table, in its order and types."""
    return frame.select(*(F.col(f"`{it.name}`").cast(it.kind) for it in columns))


def join_null_safe(left: DataFrame, right: DataFrame, keys: Sequence[str], how: str) -> DataFrame:
    """A join in which null is equal to null: clusters without a name are one cluster."""
    theirs = right.withColumnsRenamed({key: f"{key} there" for key in keys})
    same = reduce(and_, (left[key].eqNullSafe(theirs[f"{key} there"]) for key in keys))
    return left.join(theirs, on=same, how=how).drop(*(f"{key} there" for key in keys))


def per_day(count: str, known: str = "known_ms") -> Column:
    """So many by known time; null where none is known."""
    return F.try_divide(F.col(count) * F.lit(float(DAY_MS)), F.col(known))


def mean(value: str, weight: str) -> Column:
    """The mean of the rows that have a value, by weight; null without any."""
    weighed = F.col(value) * F.col(weight)
    return F.try_divide(F.sum(weighed), F.sum(F.when(F.col(value).isNotNull(), F.col(weight))))


def team(group: str = "group") -> Column:
    """A group's name up to the first of `.`, `-` and `_`; all of it where nothing stands before that."""
    first = F.regexp_extract(F.col(group), "^[^._-]+", 0)
    return F.when(first == "", F.col(group)).otherwise(first)


def with_rank(frame: DataFrame, by: str, *ties: str) -> DataFrame:
    """With `rank`, 1 for the most; equals by name."""
    order = Window.orderBy(F.desc_nulls_last(by), *map(F.asc_nulls_first, ties))
    return frame.withColumn("rank", F.row_number().over(order))
