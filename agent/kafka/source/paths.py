"""A PATH of the command line → its records, whatever form it has.

Owns the choice between the offline sources. Knows no form itself.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from agent.core.records import RawRecord, RecordBatch
from agent.kafka.source.ndjson import LineProblem, PayloadLine, committed_batches, is_ndjson, read_ndjson
from agent.kafka.source.problems import SegmentProblem
from agent.kafka.source.segments import discover, discover_all


def raw_records(path: str) -> Iterator[RawRecord | PayloadLine | SegmentProblem | LineProblem]:
    """Every record with the markers, partition by partition, in offset order. Raises `SourcePathError`."""
    if is_ndjson(path):
        yield from read_ndjson(path)
        return
    for log in discover(Path(path)):
        yield from log.raw()


def committed_batches_of(*paths: str) -> Iterator[RecordBatch | PayloadLine | SegmentProblem | LineProblem]:
    """What a read_committed consumer would see, partition by partition; of one that several hold, each offset once.
    Raises `SourcePathError`."""
    for log in discover_all(path for path in paths if not is_ndjson(path)):
        yield from log.committed()
    for path in filter(is_ndjson, paths):
        yield from committed_batches(read_ndjson(path))
