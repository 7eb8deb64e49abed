"""What waits for a sink: order, bounds, and what is dropped, against a list."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from agent.persistence.export.buffer import EVENT_OVERHEAD_BYTES, BatchPart, EventBatch, EventBuffer
from agent.persistence.export.encoded_event import EncodedEvent
from agent.persistence.export.sinks import BatchLimits
from agent.persistence.export.spool import Spool
from tests import examples

BODY = 100
ALL = BatchLimits(1 << 20, 1 << 30, 0)


def lines(first: int, count: int) -> list[EncodedEvent]:
    return [
        EncodedEvent(b"g", "t", 1, number, number, (b"%d" % number).ljust(BODY))
        for number in range(first, first + count)
    ]


def numbers(batch: EventBatch | BatchPart | None) -> list[int]:
    return [] if batch is None else [line.at_ms for line in batch.events]


def taken(buffer: EventBuffer, batching: BatchLimits = ALL) -> list[int]:
    out: list[int] = []
    while (batch := take(buffer, batching)) is not None:
        out += numbers(batch)
        buffer.acknowledge(batch)
    return out


def take(buffer: EventBuffer, batching: BatchLimits) -> EventBatch | None:
    part = buffer.take(batching)
    return None if part is None else EventBatch(tuple(part.events), part.end_sequence)


def room_for(count: int) -> int:
    return count * (len(lines(0, 1)[0].body) + EVENT_OVERHEAD_BYTES)


def test_while_the_sink_keeps_up_the_disk_is_not_touched(tmp_path: Path) -> None:
    buffer = EventBuffer(Spool(tmp_path, 1 << 20), room_for(100))
    for first in range(0, 500, 10):
        buffer.put(lines(first, 10))
        assert taken(buffer) == list(range(first, first + 10))
    assert buffer.spool is not None
    assert buffer.spool.end == buffer.spool.start
    assert (len(buffer), buffer.size_bytes, buffer.oldest_put_ms) == (0, 0, None)


def test_with_a_full_spool_memory_is_used_and_then_the_newest_are_dropped_in_one_piece(tmp_path: Path) -> None:
    now = [0.0]
    spool = Spool(tmp_path, 2_000)
    buffer = EventBuffer(spool, room_for(20), clock=lambda: now[0])
    buffer.put(lines(0, 100))
    there = len(buffer)
    on_disk = spool.end
    assert 0 < on_disk < there == on_disk + 20
    assert +buffer.dropped == {"full": 100 - there}
    assert buffer.dropping

    batch = take(buffer, BatchLimits(on_disk, 1 << 20, 0))
    assert numbers(batch) == list(range(on_disk))
    assert batch is not None
    buffer.acknowledge(batch)
    batch = take(buffer, BatchLimits(5, 1 << 20, 0))
    assert batch is not None
    buffer.acknowledge(batch)
    buffer.put(lines(100, 1))
    assert buffer.dropping, "there is some room, and not enough of it; the spool is asked again in a second"
    now[0] += 1.1
    buffer.put(lines(101, 1))
    assert not buffer.dropping
    assert taken(buffer) == [*range(on_disk + 5, there), 101]
    assert +buffer.dropped == {"full": 101 - there}


def test_without_a_spool_memory_is_all_there_is() -> None:
    buffer = EventBuffer(None, room_for(10))
    buffer.put(lines(0, 15))
    assert (len(buffer), buffer.dropped["full"], buffer.spill()) == (10, 5, False)
    batch = take(buffer, BatchLimits(4, 1 << 20, 0))
    assert batch is not None
    buffer.acknowledge(batch)
    buffer.put(lines(15, 1))
    assert buffer.dropped["full"] == 6, "until half of it is free"
    batch = take(buffer, BatchLimits(2, 1 << 20, 0))
    assert batch is not None
    buffer.acknowledge(batch)
    buffer.put(lines(16, 1))
    assert taken(buffer) == [6, 7, 8, 9, 16]
    assert buffer.drop_memory() == 0


def test_one_line_larger_than_the_memory_is_taken() -> None:
    buffer = EventBuffer(None, 10)
    buffer.put(lines(0, 2))
    assert taken(buffer) == [0]
    assert +buffer.dropped == {"full": 1}


def test_a_batch_that_is_collected_while_the_spool_is_closed_loses_nothing(tmp_path: Path) -> None:
    buffer = EventBuffer(Spool(tmp_path, 1 << 20), room_for(20))
    buffer.put(lines(0, 40))
    assert buffer.spill()
    assert numbers(buffer.take(BatchLimits(7, 1 << 20, 0))) == [*range(7)]
    buffer.spool.close()
    assert buffer.take(ALL) is None
    again = EventBuffer(Spool(tmp_path, 1 << 20), room_for(20))
    assert taken(again) == [*range(40)]
    again.spool.close()


def test_what_is_damaged_on_disk_is_counted(tmp_path: Path) -> None:
    spool = Spool(tmp_path, 1 << 20)
    buffer = EventBuffer(spool, room_for(20))
    buffer.put(lines(0, 40))
    assert buffer.spill()
    spool._database.execute("UPDATE events SET crc = crc + 1 WHERE sequence IN (3, 38, 39)")
    assert taken(buffer, BatchLimits(7, 1 << 20, 0)) == [it for it in range(40) if it not in (3, 38, 39)]
    assert +buffer.dropped == {"damaged": 3}
    assert len(buffer) == 0


class Against(RuleBasedStateMachine):
    """A buffer with little room against a list; what it says it dropped is what does not come."""

    @initialize(spool=st.sampled_from([None, 900, 3_000, 1 << 20]), memory=st.integers(1, 30))
    def begin(self, spool: int | None, memory: int) -> None:
        self.directory = Path(tempfile.mkdtemp(prefix="kshadow-test-"))
        self.now = 0.0
        self.size, self.memory = spool, memory
        self.model: list[int] = []  # what was taken and not acknowledged
        self.batch: EventBatch | None = None
        self.number = 0
        self.open()

    def open(self) -> None:
        spool = None if self.size is None else Spool(self.directory, self.size)
        self.buffer = EventBuffer(spool, room_for(self.memory), clock=lambda: self.now)

    @rule(count=st.integers(1, 25))
    def put(self, count: int) -> None:
        for line in lines(self.number, count):
            dropped = self.buffer.dropped["full"]
            self.buffer.put([line])
            if self.buffer.dropped["full"] == dropped:
                self.model.append(line.at_ms)
        self.number += count

    @rule()
    def spill(self) -> None:
        if self.buffer.spill():
            assert self.buffer.spool is not None
            assert self.buffer.spool.end == self.buffer.end_sequence

    @precondition(lambda self: self.batch is None)
    @rule(most=st.integers(1, 12))
    def take(self, most: int) -> None:
        self.batch = take(self.buffer, BatchLimits(most, 1 << 20, 0))
        assert (self.batch is None) == (not self.model)
        assert numbers(self.batch) == self.model[: len(numbers(self.batch))]

    @precondition(lambda self: self.batch is not None)
    @rule()
    def acknowledge(self) -> None:
        assert self.batch is not None
        del self.model[: len(self.batch.events)]
        self.buffer.acknowledge(self.batch)
        self.batch = None

    @rule(seconds=st.sampled_from([0.5, 2.0]))
    def wait(self, seconds: float) -> None:
        self.now += seconds

    @precondition(lambda self: self.size is not None)
    @rule()
    def restart(self) -> None:
        assert self.buffer.spool is not None
        in_memory = self.buffer.end_sequence - self.buffer.spool.end
        self.buffer.spool.close()
        if in_memory > 0:
            del self.model[-min(in_memory, len(self.model)) :]
        self.batch = None
        self.open()

    @invariant()
    def all_that_was_taken_waits(self) -> None:
        assert len(self.buffer) == len(self.model)
        if self.batch is None:
            assert self.buffer.oldest_put_ms == (self.model[0] if self.model else None)

    def teardown(self) -> None:
        if hasattr(self, "buffer"):
            if self.batch is not None:
                self.acknowledge()
            assert taken(self.buffer) == self.model
            if self.buffer.spool is not None:
                self.buffer.spool.close()
            shutil.rmtree(self.directory)


TestAgainst = Against.TestCase
TestAgainst.settings = settings(
    max_examples=examples(100), stateful_step_count=50, deadline=None, suppress_health_check=list(HealthCheck)
)
