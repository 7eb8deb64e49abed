"""A stream over an agent's files, which are compacted beside it."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession

from agent.history.compaction import Compacted, compact
from agent.persistence.export.encoded_event import encode_event
from agent.persistence.export.parquet_sink import ParquetSink
from spark_jobs.streams.job import history_files
from tests.unit.history.histories import START_MS

NOW_MS = START_MS + 2 * 86_400_000


def tell(history: Path, numbers: Iterable[int]) -> None:
    """As an agent writes them, a file for each."""
    for number in numbers:
        event = {"schema": 1, "event_id": f"e{number}", "type": "rebalance", "cluster": None, "group": "g"}
        whole = {**event, "group_type": "classic", "at_ms": START_MS + number, "partition": 1, "offset": number}
        ParquetSink(str(history)).write([encode_event(whole, 0)])


def read(spark: SparkSession, history: Path, checkpoint: Path, *, is_killed: bool = False) -> set[str]:
    """Ids of the events that a stream comes to until it has all, or is killed in its first batch."""
    came = set[str]()

    def take(batch: DataFrame, number: int) -> None:
        assert not is_killed, "killed"
        came.update(row["event_id"] for row in batch.select("event_id").collect())

    rows = history_files(spark, str(history), most_files=1_000)
    started = rows.writeStream.foreachBatch(take).option("checkpointLocation", str(checkpoint))
    query = started.trigger(availableNow=True).start()
    assert query.awaitTermination(300)
    return came


def test_what_is_merged_after_the_stream_has_read_the_day_is_read_too(spark: SparkSession, tmp_path: Path) -> None:
    history, checkpoint = tmp_path / "a [h]{is,}tory*", tmp_path / "checkpoint"  # no pattern
    tell(history, range(2))
    assert compact(history, now_ms=NOW_MS) == Compacted(2, 1, 2)
    assert read(spark, history, checkpoint) == {"e0", "e1"}
    tell(history, [2])
    assert compact(history, now_ms=NOW_MS) == Compacted(2, 1, 3)
    assert "e2" in read(spark, history, checkpoint)


def test_a_note_beside_the_files_ends_no_stream(spark: SparkSession, tmp_path: Path) -> None:
    history = tmp_path / "history"
    tell(history, [0])
    (history / "date=2026-07-06" / "note.txt").write_text("rolled up anew on Monday", encoding="utf-8")
    assert read(spark, history, tmp_path / "checkpoint") == {"e0"}


def test_a_batch_whose_files_were_merged_before_it_is_made_again(spark: SparkSession, tmp_path: Path) -> None:
    history, checkpoint = tmp_path / "history", tmp_path / "checkpoint"
    tell(history, range(3))
    with pytest.raises(StreamingQueryException, match="killed"):
        read(spark, history, checkpoint, is_killed=True)
    assert compact(history, now_ms=NOW_MS) == Compacted(3, 1, 3)
    assert read(spark, history, checkpoint) == {"e0", "e1", "e2"}
