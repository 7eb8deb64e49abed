"""Events → rows of the rollup tables, as `DataFrame → DataFrame`: the batch's way through the reducer."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_schema

from agent.history.rolling import (
    CARRIED,
    ROWS,
    GroupEvent,
    Range,
    event_of,
    roll_up_groups,
    standing_of,
    with_date,
)
from agent.history.tables import ROLLED_UP, STREAMED
from spark_jobs.rows import batches_of


def table_of(rows: DataFrame, name: str) -> DataFrame:
    """The rows of one table, with its columns."""
    columns = [F.col(column.name).cast(column.kind).alias(column.name) for column in (ROLLED_UP | STREAMED)[name]]
    return rows.where(F.col("table") == name).select(*columns)


def roll_up(
    events: DataFrame, within: Range, *, standing: DataFrame | None = None, history: str | None = None
) -> DataFrame:
    """Events (`EVENTS_DDL`, in any order, some twice) → rows of `ROWS`. A group's events pass in order of time,
    however many there are: Spark sorts, and spills. `standing` are rows of that table, of the day that had ended
    before the first event; `history` is what the new ones of the range are of."""
    needed = events_needed(events, within)
    if standing is not None:
        before = (F.col("end_ms") - 1).alias("at_ms")
        stood = standing.select("cluster", "group", before, F.col("state").alias("body"), F.lit(True).alias("stands"))
        needed = needed.unionByName(stood)
    ordered = needed.repartition("cluster", "group").sortWithinPartitions("cluster", "group", "at_ms")
    return ordered.mapInArrow(_reducer(within, history), from_arrow_schema(ROWS))


def events_needed(events: DataFrame, within: Range) -> DataFrame:
    """The events of the range and of the day behind, of the day before it where they must tell how groups stood, and
    of what was before that the newest."""
    columns = ("cluster", "group", "at_ms", "body")
    inside = events.where(F.col("at_ms").between(within.first_ms, within.last_ms)).select(*columns)
    before = events.where((F.col("at_ms") < within.first_ms) & F.col("type").isin(*CARRIED))
    analyzer = F.get_json_object("body", "$.analyzer").alias("analyzer")
    # Of what came in one millisecond the last in the log; of what came with one record, either. Of what was told of
    # one event what `agent.history.rollup_reducer.rank` prefers: a body has no nulls.
    known = F.size(F.json_object_keys("body"))
    confidence = F.coalesce(F.get_json_object("body", "$.confidence").cast("double"), F.lit(0.0))
    offset = F.get_json_object("body", "$.offset").cast("bigint")
    place = F.struct("at_ms", offset, "event_id", known, confidence, "body")
    newest = before.groupBy("cluster", "group", "type", analyzer).agg(
        F.max("at_ms").alias("at_ms"), F.max_by("body", place).alias("body")
    )
    return inside.unionByName(newest.select(*columns)).withColumn("stands", F.lit(False))


def _reducer(within: Range, history: str | None) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    def reduce(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        return batches_of(with_date(roll_up_groups(_events(batches), within, history)), ROWS)

    return reduce


def _events(batches: Iterable[pa.RecordBatch]) -> Iterator[GroupEvent]:
    for batch in batches:
        for cluster, group, body, stands in zip(*(batch.column(n).to_pylist() for n in (0, 1, 3, 4)), strict=True):
            yield cluster, group, standing_of(body) if stands else event_of(body)
