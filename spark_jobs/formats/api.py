"""Where tables are written, whatever their format; and by which name each is known there."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from functools import reduce
from typing import Protocol

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import AtomicType, DataType, IntegralType, StructField, StructType

from agent.history.days import Days
from spark_jobs.errors import JobError

DATE = "date"
"""The column of the day (UTC), by which tables are parted in every format."""

HISTORY = "history"
"""The table of events. In a directory it lies at the top; the others in folders of their names."""

WAIT_S = 10.0
"""For whoever writes at this moment: a stream's batch is through by then, another job is not."""


def is_of(*ranges: Days) -> Column:
    """Whether a row is of one of these days."""
    return reduce(
        Column.__or__,
        (F.col(DATE).between(F.lit(it.first).cast("date"), F.lit(it.last).cast("date")) for it in ranges),
    )


class TableOutput(Protocol):
    """Tables that a job writes. Each has a column `date`, by which it is parted."""

    def held(self) -> AbstractContextManager[None]:
        """Be the only one who writes them. Raises `OutputHeld` where another job does."""

    def is_empty(self) -> bool:
        """Whether nothing is there yet, of anybody."""

    def replace(
        self, tables: Mapping[str, DataFrame], days: Mapping[str, Days] | None, order: Sequence[str] = ()
    ) -> None:
        """Put rows of each table in place of those of its days, or of all; within `held`. `order`: how a day's rows
        lie."""

    def append(self, tables: Mapping[str, DataFrame], stream: str, batch_id: int, order: Sequence[str] = ()) -> None:
        """Add a stream's batch. One that is made again, of the same stream, is there once. Waits for who writes."""


class OutputHeld(JobError):
    """Another job writes to the same tables."""


def folder_of(table: str) -> str:
    """The folder of a table below the directory of all; none for the history."""
    return "" if table == HISTORY else table


def check_takes(where: str, there: StructType, rows: StructType) -> None:
    """Raises `JobError` where a table that is there cannot take such rows: it has no date, or a plain column of
    another type. Columns that it lacks come to it."""
    types = {field.name: field.dataType for field in there.fields}
    wrong = [
        f"column {field.name}: expected {field.dataType.simpleString()}, got {came}"
        for field in rows.fields
        if (came := _came(types.get(field.name), field)) is not None
    ]
    if wrong:
        raise JobError(f"{where}: not a table that this job writes: {'; '.join(wrong)}: name another place")


def _came(there: DataType | None, wanted: StructField) -> str | None:
    """What stands in place of a column; None for what will do."""
    if there is None:
        return "none" if wanted.name == DATE else None
    is_plain = isinstance(there, AtomicType) and isinstance(wanted.dataType, AtomicType)
    are_whole = isinstance(there, IntegralType) and isinstance(wanted.dataType, IntegralType)
    # Structs may have got fields, and whole numbers more bits: Delta and Iceberg know what to do.
    return there.simpleString() if is_plain and there != wanted.dataType and not are_whole else None


def laid_out(table: DataFrame, order: Sequence[str], *, one_file: bool) -> DataFrame:
    """The rows of a day side by side: in one file, or in several where there are many and nobody minds."""
    together = table.repartition(DATE) if one_file else table.hint("rebalance", DATE)
    return together.sortWithinPartitions(DATE, *order)


def with_date(table: DataFrame) -> DataFrame:
    """The table with its day as a date; events have it as text."""
    return table.withColumn(DATE, F.col(DATE).cast("date"))
