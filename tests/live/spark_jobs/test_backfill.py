"""The backfill against `kshadow replay`: from files and from archives of raw records."""

from __future__ import annotations

import random
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import DataFrame, SparkSession

from agent.core.events.events import Event
from agent.core.records import RecordBatch
from agent.kafka.source.paths import committed_batches_of
from agent.persistence.export.columns import row_to_event
from agent.runtime.offline import load
from agent.tools.spark_submit.jobs import Diagnosis
from analyzers.registry import parse_analyzer_names, select_analyzers
from spark_jobs.backfill.job import check_whole, cluster_events, driver_notes, events
from spark_jobs.backfill.sources import archive, from_archives, from_segments
from spark_jobs.errors import JobError
from spark_jobs.rows import DecodeErrors, PartitionDone, SourceProblem
from tests.live.spark_jobs.histories import Difference, difference, replayed
from tests.live.spark_jobs.made import segments

T0 = 1_783_296_000_000
ALL = Diagnosis()


@pytest.fixture(scope="module", params=[(8, 8), pytest.param((30, 50), marks=pytest.mark.thorough)])
def history(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A day of so many groups in so many partitions."""
    groups, partitions = request.param
    return segments(tmp_path_factory.mktemp("made"), start_ms=T0, days=1, groups=groups, partitions=partitions)


def told(rows: DataFrame, diagnosis: Diagnosis) -> list[Event]:
    """All that a backfill of these rows would write."""
    rows = rows.persist()
    try:
        notes = driver_notes(rows)
        check_whole(notes)
        out = events(rows, cluster_events(diagnosis, notes), None).drop("date").collect()
        return [row_to_event(row.asDict(recursive=True)) for row in out]
    finally:
        rows.unpersist()


def test_files(spark: SparkSession, history: Path) -> None:
    expected = replayed([history])
    assert difference(expected, told(from_segments(spark, [str(history)], ALL, None), ALL)) == Difference(
        len(expected), 0, 0, 0, 0
    )


def test_what_only_all_partitions_show(spark: SparkSession, history: Path) -> None:
    settings = {"times_mean": "1", "min_records_per_s": "0", "min_partitions": "2"}
    tuned = {f"coordinator_hotspot.{name}": value for name, value in settings.items()}
    chosen = select_analyzers(parse_analyzer_names("all"), tuned)
    expected = load([str(history)], on_problem=print, chosen=chosen).events()
    assert any(event["group"] is None for event in expected), "there is a finding about the cluster"
    diagnosis = Diagnosis(tuned=tuned)
    came = told(from_segments(spark, [str(history)], diagnosis, None), diagnosis)
    assert difference(expected, came).is_none


@pytest.fixture(scope="module")
def archived(history: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Raw records as Spark's Kafka source gives them, in no order, every tenth twice, and of another topic."""
    dice, directory = random.Random(1), tmp_path_factory.mktemp("archive")
    rows = []
    for run in committed_batches_of(str(history)):
        assert isinstance(run, RecordBatch)
        rows += [record._asdict() for record in run.records()]
    rows += rows[::10]
    dice.shuffle(rows)
    for number in range(3):
        some = rows[number::3]
        columns = {
            "topic": pa.array(["__consumer_offsets"] * len(some) + ["orders"]),
            "partition": pa.array([row["partition"] for row in some] + [0], pa.int32()),
            "offset": pa.array([row["offset"] for row in some] + [3], pa.int64()),
            "timestamp": pa.array([row["timestamp_ms"] * 1000 for row in some] + [3], pa.timestamp("us", "UTC")),
            "key": pa.array([row["key"] for row in some] + [b"key"], pa.binary()),
            "value": pa.array([row["value"] for row in some] + [b"value"], pa.binary()),
        }
        pq.write_table(pa.table(columns), directory / f"{number}.parquet")
    return directory


def test_archives(spark: SparkSession, history: Path, archived: Path) -> None:
    came = told(from_archives(spark, [str(archived)], ALL, None), ALL)
    assert difference(replayed([history]), came).is_none


def test_an_archive_of_something_else(spark: SparkSession, tmp_path: Path) -> None:
    pq.write_table(
        pa.table({"partition": ["0"], "offset": [1], "key": [b""], "timestamp": ["now"]}), tmp_path / "a.parquet"
    )
    said = (
        "expected raw records: expected partition int or bigint, got string; expected value binary, got nothing; "
        "expected timestamp_ms bigint or timestamp timestamp, got string"
    )
    with pytest.raises(JobError, match=said):
        archive(spark, [str(tmp_path)])


def test_a_partition_in_two_tasks_is_refused() -> None:
    with pytest.raises(JobError, match=r"partitions \[3\]: expected one task for each"):
        check_whole([PartitionDone(3, 1), PartitionDone(4, 1), PartitionDone(3, 1)])


def test_damage_is_told_and_the_rest_is_there(spark: SparkSession, history: Path, tmp_path: Path) -> None:
    damaged = tmp_path / "segments"
    for file in history.rglob("*.log"):
        target = damaged / file.relative_to(history)
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(file.read_bytes())
    largest = max(damaged.rglob("*.log"), key=lambda it: it.stat().st_size)
    octets = bytearray(largest.read_bytes())
    octets[len(octets) // 2] ^= 0xFF
    largest.write_bytes(octets)
    rows = from_segments(spark, [str(damaged)], ALL, None)
    assert any(isinstance(note, SourceProblem | DecodeErrors) for note in driver_notes(rows))
    assert difference(replayed([damaged]), told(rows, ALL)).is_none
