"""Records in packets: each comes out once, in order, from where the reader is; whatever order packets come in."""

from __future__ import annotations

import random

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_jobs import raw
from spark_jobs.raw import OFFSET, PACKET, PARTITION, RECORDS, packets, unpacked


def rows(partition: int, offsets: list[int]) -> pa.RecordBatch:
    columns = [
        pa.array([partition] * len(offsets), pa.int32()),
        pa.array(offsets, pa.int64()),
        pa.array([1_000 + it for it in offsets], pa.int64()),
        pa.array([b"key-%d" % it for it in offsets], pa.binary()),
        pa.array([None if it % 3 == 0 else b"value" * it for it in offsets], pa.binary()),
    ]
    return pa.RecordBatch.from_arrays(columns, [PARTITION, OFFSET, "timestamp_ms", "key", "value"])


@given(
    st.sets(st.integers(0, 60), min_size=1, max_size=40),
    st.integers(1, 20),
    st.integers(0, 70),
    st.randoms(use_true_random=False),
)
def test_each_record_once(offsets: set[int], size: int, least: int, dice: random.Random) -> None:
    expected = sorted(offsets)
    batches = [rows(7, expected[at : at + size]) for at in range(0, len(expected), size)]
    packed = [it for batch in packets(batches) for it in batch.to_pylist()]
    # A task that is made again may give packets twice.
    packed += [it for it in packed if dice.random() < 0.3]
    dice.shuffle(packed)
    runs = list(unpacked([(it[OFFSET], it[PACKET]) for it in packed], least))
    assert [it for run in runs for it in run.offsets] == [it for it in expected if it >= least]
    for run in runs:
        assert run.partition == 7
        assert list(run.timestamps_ms) == [1_000 + it for it in run.offsets]
        assert list(run.keys) == [b"key-%d" % it for it in run.offsets]
        assert list(run.values) == [None if it % 3 == 0 else b"value" * it for it in run.offsets]


def test_a_packet_is_of_one_partition_and_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(raw, "PACKET_RECORDS", 10)
    table = pa.Table.from_batches([rows(1, list(range(25))), rows(2, list(range(4))), rows(3, [])])
    (batch,) = table.combine_chunks().to_batches()
    made = [it for part in packets([batch, rows(3, [])]) for it in part.to_pylist()]
    assert [(it[PARTITION], it[OFFSET], it[RECORDS]) for it in made] == [
        (1, 0, 10),
        (1, 10, 10),
        (1, 20, 5),
        (2, 0, 4),
    ]
