"""Records as runs in blocks of memory, taken from a queue as librdkafka's is."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from ctypes import (
    CFUNCTYPE,
    POINTER,
    Structure,
    byref,
    c_char_p,
    c_int,
    c_int32,
    c_int64,
    c_size_t,
    c_void_p,
    cast,
    pointer,
)
from itertools import groupby
from typing import Any

import pytest

from agent.common.native import SEED, Client, library
from agent.core.packed import PackedRun, RunMemory
from agent.core.records import RawRecord, RecordBatch

NEEDS_COMPILED = pytest.mark.skipif(library() is None, reason="nothing was compiled: pip wheel --no-deps -w build .")
"""Of tests of the compiled part; that it is there is a test of its own (`tests/unit/common/test_compiled.py`)."""

TOPIC = 1
"""In place of the address of a topic."""


class Message(Structure):
    """`rd_kafka_message_t`, and behind it what functions say of one."""

    _fields_ = [
        ("err", c_int32),
        ("topic", c_void_p),
        ("partition", c_int32),
        ("payload", c_char_p),
        ("len", c_size_t),
        ("key", c_char_p),
        ("key_len", c_size_t),
        ("offset", c_int64),
        ("private", c_void_p),
        ("timestamp", c_int64),
        ("epoch", c_int32),
    ]


def message_of(record: RawRecord, epoch: int = -1) -> Message:
    """As the client gives it."""
    key, value = record.key, record.value
    sizes = len(value or b""), len(key or b"")
    return Message(
        0, TOPIC, record.partition, value, sizes[0], key, sizes[1], record.offset, None, record.timestamp_ms, epoch
    )


def error_of(partition: int, offset: int, code: int, topic: int | None = TOPIC) -> Message:
    """What the client says of a partition; without a topic, of something else."""
    return Message(code, topic, partition, None, 0, None, 0, offset, None, -1, -1)


class Queue:
    """Messages that wait: `at_once` of them can be had at a time, and where it `pauses` now and then none."""

    def __init__(self, messages: Sequence[Message], at_once: int, *, pauses: bool = False) -> None:
        self._waiting = list(messages)
        self._kept = messages  # whoever took one has but its address
        self.destroyed: list[int] = []
        """The offsets of messages that were given back."""
        take = CFUNCTYPE(c_int64, c_void_p, c_int, POINTER(c_void_p), c_size_t)(
            lambda _, wait, out, size: self._take(out, min(size, at_once), is_waiting=bool(wait))
        )
        take_one = CFUNCTYPE(c_void_p, c_void_p, c_int)(lambda *_: self._take_one())
        destroy = CFUNCTYPE(None, POINTER(Message))(lambda it: self.destroyed.append(it.contents.offset))
        timestamp = CFUNCTYPE(c_int64, POINTER(Message), c_void_p)(lambda it, _: it.contents.timestamp)
        epoch = CFUNCTYPE(c_int32, POINTER(Message))(lambda it: it.contents.epoch)
        self._functions: list[Any] = [take, take_one, destroy, timestamp, epoch]
        self._asked, self._pauses = 0, pauses

    def _take(self, out: Any, size: int, *, is_waiting: bool) -> int:
        assert not is_waiting, "it would wait until its batch is full"
        self._asked += 1
        if self._pauses and self._asked % 3 == 0:
            return 0
        some, self._waiting = self._waiting[:size], self._waiting[size:]
        for index, it in enumerate(some):
            out[index] = cast(pointer(it), c_void_p).value
        return len(some)

    def _take_one(self) -> int | None:
        return cast(pointer(self._waiting.pop(0)), c_void_p).value if self._waiting else None

    def runs(
        self,
        room: int = 1_000,
        size: int = 64,
        repeated: int = 0,
        stop_after: int | None = None,
        memory: RunMemory | None = None,
        seed: Sequence[int] = SEED,
    ) -> list[PackedRun]:
        """All that waits, in the order it came, or the first `stop_after` of it. Each begins with so many `repeated`
        records of the run before it. They are in `memory`, else in some that goes with them."""
        lib, out = library(), list[PackedRun]()
        assert lib is not None
        own = RunMemory(room, size)
        functions = Client(*(cast(it, c_void_p).value for it in self._functions))
        reader = lib.reader_new(byref(functions), None, 100, repeated, *seed)
        while len(out) != stop_after:
            packed = (memory or own).take()
            lib.reader_next(reader, packed.address, 0)
            assert not packed.run.has_failed
            if len(packed) == packed.run.repeated and not packed.run.error:
                assert (len(packed), packed.run.partition) == (0, -1), "nothing came, of no partition"
                break
            out.append(packed)
        lib.reader_free(reader)
        own.close()
        return out


def packed(records: Iterable[RawRecord]) -> RecordBatch:
    """Records of one partition, none of them control records, as one batch."""
    (batch,) = packed_batches(records)
    return batch


def packed_batches(records: Iterable[RawRecord]) -> list[RecordBatch]:
    """Records as batches of one partition each."""
    return [
        RecordBatch.of_packed(it, len(it))
        for _, some in groupby(records, lambda record: record.partition)
        for it in _whole([message_of(record) for record in some])
    ]


def _whole(messages: list[Message]) -> list[PackedRun]:
    return Queue(messages, len(messages)).runs(room=len(messages))
