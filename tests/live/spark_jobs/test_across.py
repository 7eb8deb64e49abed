"""Findings about the cluster, judged batch by batch with the state put away between: those of one pass."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from hashlib import blake2b
from pathlib import Path

import msgspec
import pytest
from pyspark.sql import SparkSession

from agent.core.events.events import event_of
from agent.core.records import RecordBatch
from agent.kafka.source.paths import committed_batches_of
from agent.persistence.snapshot.envelope import MAGIC
from agent.persistence.snapshot.migrations import FORMAT
from agent.tools.spark_submit.jobs import Diagnosis
from spark_jobs.backfill.job import cluster_events
from spark_jobs.errors import StateRefused
from spark_jobs.partition_reducer import PartitionReducer, TaskState
from spark_jobs.rows import Note
from spark_jobs.streams.cluster_findings import STATE, ClusterFindings
from tests.live.spark_jobs.made import segments

T0 = 1_783_296_000_000
HOUR_MS = 3_600_000
DIAGNOSIS = Diagnosis(
    tuned={
        # So that it opens and closes again and again.
        "coordinator_hotspot.open_after_s": "0",
        "coordinator_hotspot.close_after_s": "0",
        "coordinator_hotspot.min_records_per_s": "0",
        "coordinator_hotspot.min_partitions": "2",
    }
)


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> list[RecordBatch]:
    made = segments(tmp_path_factory.mktemp("made"), start_ms=T0, days=1, groups=30, commits_every="10m")
    return [it for it in committed_batches_of(str(made)) if isinstance(it, RecordBatch)]


def batches(runs: list[RecordBatch], parts: int) -> Iterator[list[Note]]:
    """What the tasks of each batch note: a batch has so many hours of all partitions."""
    kept: dict[int, PartitionReducer] = {}
    span_ms = 25 * HOUR_MS // parts
    for part in range(parts):
        notes: list[Note] = []
        for run in runs:
            rows = [i for i, at_ms in enumerate(run.timestamps_ms) if (at_ms - T0) // span_ms == part]
            if not rows:
                continue
            some = slice(rows[0], rows[-1] + 1)
            columns = (run.offsets, run.timestamps_ms, run.keys, run.values)
            reduction = kept.setdefault(run.partition, PartitionReducer(run.partition, TaskState(DIAGNOSIS)))
            reduction.take(RecordBatch(run.partition, *(column[some] for column in columns)))
        for reduction in kept.values():
            reduction.take_rest()
            notes += reduction.notes()
        yield notes


def told(findings: object) -> list[dict[str, object]]:
    return [event_of(it) for it in findings]  # type: ignore[attr-defined]


@pytest.mark.parametrize("parts", [2, pytest.param(5, marks=pytest.mark.thorough)])
def test_batch_by_batch(spark: SparkSession, runs: list[RecordBatch], parts: int, tmp_path: Path) -> None:
    ((*notes,),) = batches(runs, 1)
    whole = told(cluster_events(DIAGNOSIS, notes))
    assert len(whole) > 20, "there is something to find"
    came = []
    for number, part in enumerate(batches(runs, parts)):
        found = told(ClusterFindings(spark, str(tmp_path), DIAGNOSIS).findings(number, part))
        # A batch that is made again begins where the one before it ended.
        assert told(ClusterFindings(spark, str(tmp_path), DIAGNOSIS).findings(number, part)) == found
        came += found
    # What was under way as the records ended is not judged in a stream.
    assert came == whole[: len(came)]
    assert all(it["at_ms"] > T0 + 22 * HOUR_MS for it in whole[len(came) :])  # type: ignore[operator]


def of_format(image: bytes, version: int) -> bytes:
    """The same image, which says that it is of another format."""
    rest = struct.pack(">H", version) + image[len(MAGIC) + 32 + 2 :]
    return MAGIC + blake2b(rest, digest_size=32).digest() + rest


def test_a_state_of_another_format_is_refused_as_such(
    spark: SparkSession, runs: list[RecordBatch], tmp_path: Path
) -> None:
    first, second = batches(runs, 2)
    ClusterFindings(spark, str(tmp_path), DIAGNOSIS).findings(0, first)
    file = tmp_path / "kshadow-cluster" / "0"
    (file.with_name(".0.crc")).unlink()
    state = STATE.decode(file.read_bytes())
    for image, came in ((of_format(state.image, FORMAT + 1), f"format {FORMAT + 1}"), (b"\x92", "1 bytes")):
        file.write_bytes(STATE.encode(msgspec.structs.replace(state, image=image)))
        with pytest.raises(StateRefused, match=f"findings of the cluster: expected a snapshot.*, got .*{came}"):
            ClusterFindings(spark, str(tmp_path), DIAGNOSIS).findings(1, second)
