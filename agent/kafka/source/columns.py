"""Messages of confluent-kafka → `Run`s.

Owns the conversion, the hottest lines of the live path: everything here goes through C-level maps, and what
most records never need, their offset, is taken out when asked for. Refuses to know where messages come
from and what errors are: it gets real records only.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import overload

from confluent_kafka import Message

from agent.core.records import RecordBatch


class OffsetColumn(Sequence[int]):
    """The offsets of messages, each taken out when it is asked for: of 3 million offset commits hardly one is."""

    __slots__ = ("_messages",)

    def __init__(self, messages: list[Message]) -> None:
        self._messages = messages

    def __len__(self) -> int:
        return len(self._messages)

    def __iter__(self) -> Iterator[int]:
        return map(Message.offset, self._messages)  # type: ignore[arg-type]  # see `__getitem__`

    @overload
    def __getitem__(self, index: int) -> int: ...
    @overload
    def __getitem__(self, index: slice) -> OffsetColumn: ...
    def __getitem__(self, index: int | slice) -> int | OffsetColumn:
        if isinstance(index, slice):
            return OffsetColumn(self._messages[index])
        offset = self._messages[index].offset()
        assert offset is not None, "a record from a topic has an offset"
        return offset

    def __add__(self, other: OffsetColumn) -> OffsetColumn:
        return OffsetColumn(self._messages + other._messages)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sequence) and list(self) == list(other)

    __hash__ = None  # type: ignore[assignment]  # like a list


def record_batches_of(messages: list[Message]) -> list[RecordBatch]:
    """Messages without errors, in the order they came, as runs of one partition each."""
    runs = []
    for partition, group in groupby(messages, Message.partition):
        assert partition is not None, "a record from a topic has a partition"
        rows = list(group)
        runs.append(
            RecordBatch(
                partition,
                OffsetColumn(rows),
                # Without one librdkafka gives -1, which is `agent.kafka.source.NO_TIMESTAMP_MS`.
                [timestamp_ms for _, timestamp_ms in map(Message.timestamp, rows)],
                list(map(Message.key, rows)),
                list(map(Message.value, rows)),
            )
        )
    return runs
