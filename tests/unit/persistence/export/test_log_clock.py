"""Up to when time is known to have passed, of several writers."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from pathlib import Path

from agent.persistence.export.buffer import EventBuffer
from agent.persistence.export.encoded_event import EncodedEvent
from agent.persistence.export.log_clock import LogClock, decode_clock, known_until
from agent.persistence.export.parquet_sink import ParquetSink
from agent.persistence.export.sink_worker import SinkWorker
from agent.persistence.export.sinks import BatchLimits, RejectedEvent
from tests.waiting import until


def test_the_furthest_of_those_that_read_all_and_the_least_of_shards() -> None:
    clocks = [
        LogClock("backfill", "a", 10),
        LogClock("agent", "a", 30),
        LogClock("agent", "b", 5, (0, 2)),
        LogClock("agent", "b", 7, (1, 2)),
        # Of three shards one has told nothing: the time of all is not known.
        LogClock("agent", "b", 90, (0, 3)),
        LogClock("agent", "b", 90, (2, 3)),
        LogClock("agent", "c", 8, (0, 2)),
    ]
    assert known_until(clocks) == {"a": 30, "b": 5}


def test_each_writer_has_a_file_of_its_own() -> None:
    one, later = LogClock("agent", "a/../b", 10), LogClock("agent", "a/../b", 11)
    assert one.file_name == later.file_name
    assert one.file_name.count("/") == 1
    others = (("agent", None, None), ("agent", "a/../b", (0, 2)), ("backfill", "a/../b", None))
    assert len({one.file_name, *(LogClock(it, name, 10, shard).file_name for it, name, shard in others)}) == 4
    assert decode_clock(later.encode()) == later


class Slow:
    """A sink that is told of time."""

    name, batching = "slow", BatchLimits(10, 1_000_000, 0.2)

    def __init__(self) -> None:
        self.told: list[str] = []

    def write(self, batch: Sequence[EncodedEvent]) -> Sequence[RejectedEvent]:
        self.told += [f"event {it.at_ms}" for it in batch]
        return []

    def tell_clock(self, clock: LogClock) -> None:
        self.told.append(f"clock {clock.clock_ms}")

    def close(self) -> None:
        """Nothing to let go of."""


def test_time_is_told_once_all_events_before_it_are_written() -> None:
    sink = Slow()
    worker = SinkWorker(sink, EventBuffer(None, 1_000_000))
    worker.start()
    worker.time_passed(LogClock("agent", None, 1))
    until(lambda: len(sink.told) >= 1)
    worker.put([EncodedEvent(None, "x", 1, 61_000, round(time.time() * 1000), b"{}")])
    worker.time_passed(LogClock("agent", None, 62_000))
    worker.time_passed(LogClock("agent", None, 62_001))  # too soon to be told again
    until(lambda: len(sink.told) >= 3)
    worker.begin_stop(time.monotonic() + 5)
    worker.finish_stop(time.monotonic() + 5)
    assert sink.told == ["clock 1", "event 61000", "clock 62000"]


def test_parquet_keeps_it_beside_the_files(tmp_path: Path) -> None:
    sink = ParquetSink(str(tmp_path))
    for at_ms in (5, 6):
        sink.tell_clock(LogClock("agent", "a", at_ms))
    (file,) = (tmp_path / "_clock").iterdir()
    assert json.loads(file.read_bytes()) == {"writer": "agent", "cluster": "a", "clock_ms": 6, "shard": None}
