"""Values of offset commits, each under a number, in one block of memory: no object for each.

A value of a fixed layout (`agent.core.wire.offset_commit_fastpath`) is kept as it is, in a place that the longest of
the three fits into. Any other is kept aside, and in its place stands one of version 4 that says the same of offset,
leader epoch, time and topic. So columns of all values are read from the block alone: a column of numbers is eight
columns of bytes, which slices with a step give.
"""

from __future__ import annotations

import struct
import sys
from array import array
from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from itertools import repeat
from operator import mul

from agent.core.wire.offset_commit_fastpath import (
    Commit,
    commit_value,
    has_fixed_layout,
    have_one_fixed_layout,
    read_commit,
)
from agent.core.wire.primitives import ZERO_UUID

_WIDTH, _SHORT = 42, 24
"""Bytes of a place: those of version 4 with a topic id. The other two layouts leave the last ones empty."""
_PLACE, _EMPTY = struct.Struct(f"{_WIDTH}s"), bytes(_WIDTH)
_VERSION, _OFFSET, _TIME_V4, _TIME_V3, _TAGS, _TOPIC_ID = 1, 2, 15, 16, 23, 26
"""Where in a value they are; of the version the lower byte. With a topic id there is one tag."""
_ROW = struct.Struct(">xBq5xqB2x16s")  # version, offset, time if version 4, number of tags if so, topic id if one tag
_TIME = struct.Struct(">q")
assert _ROW.size == _PLACE.size == len(commit_value(0, 0, topic_id=b"\1" * 16)), "a row is a place"  # type: ignore[arg-type]
assert len(commit_value(0, 0)) == _SHORT, "that is the other size"

FEW = 8
"""For less than one position in so many, rows are read rather than columns of all."""


class CommitBlock:
    """Values by number, as they are or as they were when they were copied."""

    __slots__ = ("_block",)

    def __init__(self, block: bytes | bytearray) -> None:
        self._block = block

    def __len__(self) -> int:
        return len(self._block) // _WIDTH

    def offsets(self, numbers: Sequence[int]) -> Sequence[int]:
        """The committed offsets under these numbers."""
        if len(numbers) * FEW < len(self):
            return self.columns(numbers)[0]
        return list(map(self._column(_OFFSET).__getitem__, numbers))

    def all_offsets(self) -> array[int]:
        """The committed offsets by number; anything for a number that has none."""
        return self._column(_OFFSET)

    def times_ms(self, numbers: Sequence[int]) -> Sequence[int]:
        """When those were committed, epoch milliseconds."""
        if len(numbers) * FEW < len(self):
            return self.columns(numbers)[1]
        return list(map(self._times().__getitem__, numbers))

    def columns(self, numbers: Collection[int]) -> tuple[Sequence[int], Sequence[int], Sequence[bytes]]:
        """Offsets, commit times and topic ids (zero where there is none), read row by row."""
        if not numbers:
            return (), (), ()
        block, starts = self._block, list(map(mul, numbers, repeat(_WIDTH)))
        versions, offsets, times, tags, ids = zip(*map(_ROW.unpack_from, repeat(block), starts), strict=True)
        if 3 in versions:
            times = tuple(
                _TIME.unpack_from(block, start + _TIME_V3)[0] if version == 3 else time
                for version, time, start in zip(versions, times, starts, strict=True)
            )
        elif tags.count(1) == len(tags):
            return offsets, times, ids
        known = zip(versions, tags, ids, strict=True)
        return offsets, times, [it if tag == 1 and version == 4 else ZERO_UUID for version, tag, it in known]

    def topic_id_bytes(self) -> bytes:
        """Other bytes where a topic's id is another one: by which it is told that none is, without reading each."""
        versions = self._block[_VERSION::_WIDTH]
        if 4 not in versions:
            return bytes(versions)  # none has an id, and where the tags would be is the time
        return b"".join([self._block[at::_WIDTH] for at in (_VERSION, _TAGS, *range(_TOPIC_ID, _WIDTH))])

    def _times(self) -> Sequence[int]:
        versions = self._block[_VERSION::_WIDTH]
        older = versions.count(3)
        if older in (0, len(versions)):
            return self._column(_TIME_V3 if older else _TIME_V4)
        both = zip(versions, self._column(_TIME_V3), self._column(_TIME_V4), strict=True)
        return [time_v3 if version == 3 else time_v4 for version, time_v3, time_v4 in both]

    def _column(self, at: int) -> array[int]:
        """The 64-bit numbers that stand there in each value."""
        planes = bytearray(8 * len(self))
        for byte in range(8):
            planes[byte::8] = self._block[at + byte :: _WIDTH]
        column = array("q")
        column.frombytes(planes)
        if sys.byteorder == "little":
            column.byteswap()
        return column


class CommitTable(CommitBlock):
    """Values that come and are replaced. All are known to decode."""

    __slots__ = ("_others",)
    _block: bytearray

    def __init__(self, values: Collection[bytes] = ()) -> None:
        """With these values, numbered in their order. Raises `WireError` for one that does not decode."""
        super().__init__(bytearray())
        self._others: dict[int, bytes] = {}
        """By number the values without a fixed layout."""
        if values and have_one_fixed_layout(list(values)):
            self._block += b"".join(map(_PLACE.pack, values))
            return
        for number, value in enumerate(values):
            self.grow()
            self.put(number, value)

    def grow(self) -> None:
        """One number more, whose value is put there next."""
        self._block += _EMPTY

    def put(self, number: int, value: bytes, *, is_fixed: bool = False) -> None:
        """Replace the value under a number. `is_fixed`: it is known to have a fixed layout."""
        if self._others:
            self._others.pop(number, None)
        if not is_fixed and not has_fixed_layout(value):
            it = read_commit(value)
            self._others[number] = value
            value = commit_value(it.offset, it.commit_ms, it.leader_epoch, topic_id=it.topic_id)
        _PLACE.pack_into(self._block, number * _WIDTH, value)

    def put_fixed(self, numbers: Collection[int], values: Iterable[bytes]) -> None:
        """Replace many at once with values of fixed layouts: no Python code for each."""
        deque(map(_PLACE.pack_into, repeat(self._block), map(mul, numbers, repeat(_WIDTH)), values), 0)
        if self._others:
            for number in numbers:
                self._others.pop(number, None)

    @property
    def memory(self) -> bytearray:
        """The block itself, for compiled code that puts values of fixed layouts in their places."""
        return self._block

    def were_put(self, numbers: Callable[[], Iterable[int]]) -> None:
        """It has done so under these."""
        if self._others:
            for number in numbers():
                self._others.pop(number, None)

    def clear(self, number: int) -> None:
        """There is no value under a number any more, until one is put there."""
        self._others.pop(number, None)

    def values(self, numbers: Iterable[int]) -> list[bytes]:
        """The values under these numbers, as they came."""
        block, others = self._block, self._others
        return [
            others[number]
            if number in others
            else bytes(block[start : start + _WIDTH])
            if block[start + _TAGS] == 1 and block[start + _VERSION] == 4
            else bytes(block[start : start + _SHORT])
            for number, start in ((number, number * _WIDTH) for number in numbers)
        ]

    def commits(self, numbers: Iterable[int]) -> Iterator[Commit]:
        """What the values under these numbers say."""
        return map(read_commit, self.values(numbers))

    def copy(self) -> CommitBlock:
        """All of them, as they are now."""
        return CommitBlock(bytes(self._block))
