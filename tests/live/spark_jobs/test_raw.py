"""Rows of a DataFrame as runs: every byte, each record once, partitions apart."""

from __future__ import annotations

from itertools import pairwise

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from spark_jobs.raw import octets, record_batches

CELLS = st.lists(st.none() | st.binary(max_size=40), max_size=30)


@given(CELLS, st.integers(0, 10), st.integers(0, 30))
def test_octets_are_what_stands_there(cells: list[bytes | None], start: int, length: int) -> None:
    column = pa.array(cells, pa.binary()).slice(start, length)
    assert octets(column) == cells[start : start + length]


@given(st.lists(st.binary(max_size=40), max_size=30), st.integers(0, 10))
def test_without_nulls(cells: list[bytes], start: int) -> None:
    column = pa.array(cells, pa.binary()).slice(start)
    assert octets(column) == cells[start:]
    assert octets(pa.array(cells, pa.large_binary())) == cells


def batch(rows: list[tuple[int, int]]) -> pa.RecordBatch:
    partitions, offsets = [it[0] for it in rows], [it[1] for it in rows]
    arrays = [
        pa.array(partitions, pa.int32()),
        pa.array(offsets, pa.int64()),
        pa.array([1_000 + it for it in offsets], pa.int64()),
        pa.array([b"%d-%d" % it for it in rows], pa.binary()),
        pa.array([None] * len(rows), pa.binary()),
    ]
    return pa.RecordBatch.from_arrays(arrays, ["partition", "offset", "timestamp_ms", "key", "value"])


ROWS = st.lists(st.tuples(st.integers(0, 3), st.integers(0, 20)), max_size=60)


@given(ROWS, st.lists(st.integers(0, 60), max_size=5))
def test_in_whatever_batches_each_record_comes_once(rows: list[tuple[int, int]], cuts: list[int]) -> None:
    rows = sorted(rows)
    edges = sorted({0, len(rows), *(it for it in cuts if it <= len(rows))})
    batches = [batch(rows[start:stop]) for start, stop in pairwise(edges)]
    came = []
    for run in record_batches(batches):
        assert len({*run.offsets}) == len(run) > 0
        assert [b"%d-%d" % (run.partition, it) for it in run.offsets] == list(run.keys)
        assert [1_000 + it for it in run.offsets] == list(run.timestamps_ms)
        came += [(run.partition, it) for it in run.offsets]
    assert came == sorted(set(rows))
