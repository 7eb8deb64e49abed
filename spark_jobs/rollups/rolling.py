"""Events → rows of the rollup tables, as `DataFrame → DataFrame`: the batch's way through the reducer."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import chain, groupby
from operator import itemgetter
from typing import NamedTuple

import msgspec
import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_schema

from agent.common.units import DAY_MS
from agent.history.rollup_reducer import Event, GroupRollup, Row, Rows
from agent.history.tables import STREAMED
from agent.persistence.export.arrow import date_of
from spark_jobs.rows import batches_of

CARRIED = (
    "group_created",
    "rebalance",
    "assignment_changed",
    "group_emptied",
    "group_deleted",
    "finding",
    "group_sample",
)
"""What shows how a group stands. Of each (of findings, of each analyzer) the newest tells all that the older did."""

BATCH = 5_000

_ARROW = {"string": pa.string(), "bigint": pa.int64(), "double": pa.float64(), "date": pa.string()}

ROWS = pa.schema(
    [("table", pa.string())]
    + [
        (name, _ARROW[kind])
        for name, kind in {column.name: column.kind for table in STREAMED.values() for column in table}.items()
    ]
)
"""One schema for all tables: a row has the columns of the table that stands in `table`, the others are null."""

event_of = msgspec.json.Decoder(Event).decode
"""The event in a body. Raises `msgspec.MsgspecError` for what is none."""


class Range(NamedTuple):
    """What is to be rolled up: windows that begin from `since_ms` on and before `until_ms`, both the beginnings of
    days. Time is known to have passed up to `horizon_ms`: windows that end later are not over."""

    since_ms: int
    until_ms: int
    horizon_ms: int

    @property
    def last_ms(self) -> int:
        """Up to when events matter: what began in the range may end on the day after."""
        return min(self.horizon_ms, self.until_ms + DAY_MS)


def table_of(rows: DataFrame, name: str) -> DataFrame:
    """The rows of one table, with its columns."""
    columns = [F.col(column.name).cast(column.kind).alias(column.name) for column in STREAMED[name]]
    return rows.where(F.col("table") == name).select(*columns)


def roll_up(events: DataFrame, within: Range) -> DataFrame:
    """Events (`EVENTS_DDL`, in any order, some twice) → rows of `ROWS`. A group's events pass in order of time,
    however many there are: Spark sorts, and spills."""
    ordered = (
        events_needed(events, within)
        .repartition("cluster", "group")
        .sortWithinPartitions("cluster", "group", "at_ms")
    )
    return ordered.mapInArrow(_reducer(within), from_arrow_schema(ROWS))


def events_needed(events: DataFrame, within: Range) -> DataFrame:
    """The events of the range, of the day before it and of the day behind, and how groups stood before."""
    first_ms = within.since_ms - DAY_MS
    columns = ("cluster", "group", "at_ms", "body")
    inside = events.where(F.col("at_ms").between(first_ms, within.last_ms)).select(*columns)
    before = events.where((F.col("at_ms") < first_ms) & F.col("type").isin(*CARRIED))
    analyzer = F.get_json_object("body", "$.analyzer").alias("analyzer")
    # Of what came in one millisecond the last in the log; of what came with one record, either.
    place = F.struct("at_ms", F.get_json_object("body", "$.offset").cast("bigint"), "event_id")
    newest = before.groupBy("cluster", "group", "type", analyzer).agg(
        F.max("at_ms").alias("at_ms"), F.max_by("body", place).alias("body")
    )
    return inside.unionByName(newest.select(*columns))


def _reducer(within: Range) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    def reduce(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        return batches_of(with_date(_reduced(batches, within)), ROWS, BATCH)

    return reduce


def _reduced(batches: Iterable[pa.RecordBatch], within: Range) -> Rows:
    rows = chain.from_iterable(
        zip(*(batch.column(n).to_pylist() for n in range(4)), strict=True) for batch in batches
    )
    for (cluster, group), of_group in groupby(rows, key=itemgetter(0, 1)):
        rollup = GroupRollup(cluster, group)
        for _, of_moment in groupby(of_group, key=itemgetter(2)):
            yield from _inside(rollup.take(in_order(event_of(body) for *_, body in of_moment)), within)
        yield from _inside(rollup.advance(within.last_ms), within)


def in_order(events: Iterable[Event]) -> list[Event]:
    """Events in the order in which they are to be taken, each once."""
    by_id = {event.event_id: event for event in events}
    return sorted(by_id.values(), key=lambda event: event.place)


def _inside(rows: Rows, within: Range) -> Rows:
    return ((table, row) for table, row in rows if within.since_ms <= row["start_ms"] < within.until_ms)


def with_date(rows: Rows) -> Iterator[Row]:
    """Rows with the table that each is of, and its date."""
    for table, row in rows:
        yield {**row, "table": table, "date": date_of(row["start_ms"])}
