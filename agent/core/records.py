"""The unit that travels from a source to the mirror: raw records of `__consumer_offsets`.

Owns two shapes: one record, and a batch of records of one partition as columns. Knows nothing of what is
inside a key or a value, nor where the bytes come from.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from typing import Any, Generic, NamedTuple, TypeVar, overload

from msgspec import Struct

from agent.core.packed import PackedRun

Row = TypeVar("Row")


class LogId(NamedTuple):
    """A topic of a cluster, whatever it is called: one that is made anew under its name has another id. Before Kafka
    2.8 topics have none: then it is zeros."""

    cluster_id: str
    topic_id: str


class RawRecord(NamedTuple):
    """One record as the log holds it.

    `timestamp_ms` is the record's own timestamp (epoch milliseconds). `control` marks a transaction
    marker: its key and value are the marker's, not a coordinator record's.
    """

    partition: int
    offset: int
    timestamp_ms: int
    key: bytes | None
    value: bytes | None
    control: bool = False


class OffsetColumn(Sequence[int], Generic[Row]):
    """The offsets of rows, each taken out when it is asked for: of 3 million offset commits hardly one is."""

    __slots__ = ("_offset_of", "_rows")

    def __init__(self, rows: list[Row], offset_of: Callable[[Row], int]) -> None:
        self._rows, self._offset_of = rows, offset_of

    def __len__(self) -> int:
        return len(self._rows)

    def __iter__(self) -> Iterator[int]:
        return map(self._offset_of, self._rows)

    @overload
    def __getitem__(self, index: int) -> int: ...
    @overload
    def __getitem__(self, index: slice) -> OffsetColumn[Row]: ...
    def __getitem__(self, index: int | slice) -> int | OffsetColumn[Row]:
        if isinstance(index, slice):
            return OffsetColumn(self._rows[index], self._offset_of)
        return self._offset_of(self._rows[index])

    def __add__(self, other: OffsetColumn[Row]) -> OffsetColumn[Row]:
        return OffsetColumn(self._rows + other._rows, self._offset_of)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sequence) and list(self) == list(other)

    __hash__ = None  # type: ignore[assignment]  # like a list


class RecordBatch(Struct, frozen=True, dict=True):
    """Consecutive committed records of one partition, in offset order, as columns of equal length.

    Columns, because 999 records of 1,000 are offset commits and are handled many at a time. A batch holds
    no control records and nothing of a transaction that was aborted or is still open: that is a source's
    work. Offsets may have gaps (compaction, markers).

    A column is a list, or anything else that can be sliced and joined with `+` to another of its kind. Those of a
    packed run are never joined: what follows its last records is known as it comes.

    `leader_epochs` are those of the leaders that appended the records: they never fall, -1 where a record has none.
    Empty where the source knows none.
    """

    partition: int
    offsets: Sequence[int]
    timestamps_ms: Sequence[int]
    keys: Sequence[bytes | None]
    values: Sequence[bytes | None]
    leader_epochs: Sequence[int] = ()

    def __len__(self) -> int:
        return len(self.keys)

    @cached_property
    def is_in_time_order(self) -> bool:
        """Whether no record's time is before the one before it. Looked at once, however many ask."""
        times = list(self.timestamps_ms)
        return times == sorted(times)

    @property
    def newest_ms(self) -> int:
        """The latest time of a record; 0 where there is none."""
        if self.is_in_time_order:
            return self.timestamps_ms[-1] if len(self) else 0
        return max(self.timestamps_ms)

    @classmethod
    def of_packed(cls, packed: PackedRun, count: int) -> RecordBatch:
        """The first `count` of a run's records."""
        out = cls(packed.run.partition, *packed.columns(count))
        if packed.run.in_time_order:
            vars(out)["is_in_time_order"] = True
        return out

    @classmethod
    def of(cls, records: Sequence[RawRecord]) -> RecordBatch:
        """One record or more of one partition, as columns: what `records` gives."""
        _, offsets, timestamps_ms, keys, values, _ = map(list, zip(*records, strict=True))
        return cls(records[0].partition, offsets, timestamps_ms, keys, values)

    def part(self, start: int, stop: int) -> RecordBatch:
        """The records from index `start` on and before `stop`."""
        out = RecordBatch(self.partition, *(column[start:stop] for column in self._columns()))
        if vars(self).get("is_in_time_order"):
            vars(out)["is_in_time_order"] = True
        return out

    def followed_by(self, batch: RecordBatch) -> RecordBatch:
        """These records and those of the same partition that follow them."""
        columns = zip(self._columns(), batch._columns(), strict=True)
        return RecordBatch(self.partition, *(mine + theirs for mine, theirs in columns))

    def _columns(self) -> tuple[Any, ...]:
        return self.offsets, self.timestamps_ms, self.keys, self.values, self.leader_epochs

    def records(self) -> Iterator[RawRecord]:
        """Each row as a `RawRecord`."""
        for offset, timestamp_ms, key, value in zip(
            self.offsets, self.timestamps_ms, self.keys, self.values, strict=True
        ):
            yield RawRecord(self.partition, offset, timestamp_ms, key, value)
