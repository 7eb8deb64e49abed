"""Messages of confluent-kafka → `Run`s.

Owns the conversion, the hottest lines of the live path: everything here goes through C-level maps, and what
most records never need (offset, timestamp) is taken out when asked for. Refuses to know where messages come
from and what errors are: it gets real records only.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import groupby
from typing import overload

from confluent_kafka import Message

from agent.core.records import RecordBatch


def _timestamp_ms(message: Message) -> int:
    """Without one librdkafka gives -1 (TIMESTAMP_NOT_AVAILABLE), which is `agent.kafka.source.NO_TIMESTAMP_MS`."""
    return message.timestamp()[1]


def _offset(message: Message) -> int:
    offset = message.offset()
    assert offset is not None, "a record from a topic has an offset"
    return offset


def _offsets(messages: list[Message]) -> list[int]:
    return list(map(Message.offset, messages))  # type: ignore[arg-type]  # see `_offset`


def _timestamps_ms(messages: list[Message]) -> list[int]:
    return [timestamp_ms for _, timestamp_ms in map(Message.timestamp, messages)]


class LazyColumn(Sequence[int]):
    """A column of ints that is taken out of the messages on first use.

    Of 3 million offset commits hardly one is asked for its offset or timestamp, and taking both out would
    cost as much as keys and values and grouping together (0.24 µs a record). One item, such as the last
    offset, is read without the rest.
    """

    __slots__ = ("_all", "_messages", "_one", "_values")

    def __init__(
        self,
        messages: list[Message],
        one: Callable[[Message], int],
        every: Callable[[list[Message]], list[int]],
    ) -> None:
        self._messages, self._one, self._all = messages, one, every
        self._values: list[int] | None = None

    def _taken(self) -> list[int]:
        if self._values is None:
            self._values = self._all(self._messages)
        return self._values

    def __len__(self) -> int:
        return len(self._messages)

    def __iter__(self) -> Iterator[int]:
        return iter(self._taken())

    @overload
    def __getitem__(self, index: int) -> int: ...
    @overload
    def __getitem__(self, index: slice) -> list[int]: ...
    def __getitem__(self, index: int | slice) -> int | list[int]:
        if isinstance(index, slice):
            return self._taken()[index]
        return self._one(self._messages[index]) if self._values is None else self._values[index]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sequence) and self._taken() == list(other)

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
                LazyColumn(rows, _offset, _offsets),
                LazyColumn(rows, _timestamp_ms, _timestamps_ms),
                list(map(Message.key, rows)),
                list(map(Message.value, rows)),
            )
        )
    return runs
