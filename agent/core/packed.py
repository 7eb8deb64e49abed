"""Records as they come while a long topic is read for the first time: in blocks of memory, with no object for each.

A column makes a record's key or value when it is asked for, which nearly none is: commits of known positions go from
the block of a run to the block of values (`agent.core.wire.commit_table`) in compiled code. Where none was compiled
nothing is packed.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator, Sequence
from ctypes import addressof, byref, c_char, c_int64, string_at
from operator import add
from typing import overload

from agent.common.native import SEED, Run, library

_Address = int


class RunMemory:
    """Blocks for runs. What a run has let go of is used again: a new one costs the system a fault for each page."""

    def __init__(self, records: int, size: int) -> None:
        """Each has room for so many records; keys and values take `size` bytes, unless one run needs more."""
        lib = library()
        assert lib is not None, "who has no compiled part packs nothing"
        self._new, self._drop = lib.run_new, lib.run_free
        self._records, self._size = records, size
        self._free: list[_Address] = []
        self._is_closed = False

    def take(self) -> PackedRun:
        """One that nobody uses. Raises `MemoryError`."""
        address = self._free.pop() if self._free else self._new(self._records, self._size)
        if address is None:
            raise MemoryError(f"no memory for {self._records} records")
        return PackedRun(self, address)

    def put_back(self, address: _Address) -> None:
        """Nobody uses this one any more."""
        if self._is_closed:
            self._drop(address)
        else:
            self._free.append(address)

    def close(self) -> None:
        """No more are needed. Those that are still used go when they no longer are."""
        self._is_closed = True
        while self._free:
            self._drop(self._free.pop())


class PackedRun:
    """Consecutive records of one partition in memory of their own, which goes back with whoever uses it last."""

    __slots__ = ("_memory", "address", "run")

    def __init__(self, memory: RunMemory, address: _Address) -> None:
        self._memory, self.address = memory, address
        self.run = Run.from_address(address)

    def __del__(self) -> None:
        self._memory.put_back(self.address)

    def __len__(self) -> int:
        return int(self.run.count)

    def offset(self, index: int) -> int:
        """Of one record."""
        return self._numbers("q", self.run.offsets, index, index + 1)[0]

    def timestamps_ms(self, start: int, stop: int) -> array[int]:
        """Of the records from index `start` on and before `stop`; -1 where one has none."""
        return self._numbers("q", self.run.times, start, stop)

    def columns(self, count: int) -> tuple[array[int], array[int], PackedColumn, PackedColumn, array[int]]:
        """Of the first `count` records: offsets, times, keys, values, leaders' epochs (-1 where one has none)."""
        rows = range(count)
        return (
            self._numbers("q", self.run.offsets, 0, count),
            self.timestamps_ms(0, count),
            PackedColumn(self, rows),
            PackedColumn(self, rows, are_values=True),
            self._numbers("i", self.run.epochs, 0, count),
        )

    def _numbers(self, kind: str, address: _Address, start: int, stop: int) -> array[int]:
        out: array[int] = array(kind)
        out.frombytes(string_at(address + start * out.itemsize, (stop - start) * out.itemsize))
        return out


class PackedColumn(Sequence[bytes | None]):
    """The keys or the values of consecutive records of a run."""

    __slots__ = ("_lengths", "_rows", "_starts", "are_values", "packed")

    def __init__(self, packed: PackedRun, rows: range, *, are_values: bool = False) -> None:
        self.packed, self.are_values, self._rows = packed, are_values, rows
        run = packed.run
        self._starts, self._lengths = (run.values, run.value_lengths) if are_values else (run.keys, run.key_lengths)

    @property
    def first(self) -> int:
        """The row of the run that this begins with."""
        return self._rows.start

    def __len__(self) -> int:
        return len(self._rows)

    def __iter__(self) -> Iterator[bytes | None]:
        return map(self._at, self._rows)

    @overload
    def __getitem__(self, index: int) -> bytes | None: ...
    @overload
    def __getitem__(self, index: slice) -> PackedColumn: ...
    def __getitem__(self, index: int | slice) -> bytes | PackedColumn | None:
        if isinstance(index, slice):
            rows = self._rows[index]
            assert rows.step == 1, "a part of a column is consecutive"
            return PackedColumn(self.packed, rows, are_values=self.are_values)
        return self._at(self._rows[index])

    def _at(self, row: int) -> bytes | None:
        length = self._lengths[row]
        return None if length < 0 else string_at(self.packed.run.data + self._starts[row], length)

    def some(self, start: int, stop: int) -> list[bytes | None]:
        """Those from index `start` on and before `stop`: of many at once each takes a quarter of the time."""
        first, last = self._rows.start + start, self._rows.start + stop
        starts, lengths = self._starts[first:last], self._lengths[first:last]
        base, end = starts[0], max(map(add, starts, lengths))
        data = string_at(self.packed.run.data + base, max(end - base, 0))
        return [
            None if length < 0 else data[at - base : at - base + length]
            for at, length in zip(starts, lengths, strict=True)
        ]

    def at(self, indexes: Sequence[int]) -> list[bytes | None]:
        """Those at these indexes, which ascend."""
        if indexes and indexes[-1] - indexes[0] == len(indexes) - 1:
            return self.some(indexes[0], indexes[-1] + 1)
        first = self._rows.start
        return [self._at(first + index) for index in indexes]

    def others(self) -> list[int]:
        """Of keys: the indexes of those that are of no commits, by their second byte."""
        run, rows = self.packed.run, self._rows
        return [row - rows.start for row in run.others[: run.others_count] if row in rows]


class KeyIndex:
    """Numbers of positions by key, as compiled code looks them up."""

    _address: _Address | None = None
    """None where there is no compiled part, or no memory: nothing is to be dropped then."""

    def __init__(self, numbers: Iterable[tuple[bytes, int]]) -> None:
        """Raises `MemoryError`."""
        lib = library()
        assert lib is not None, "who has no compiled part packs nothing"
        self._add, self._remove, self._put_known = lib.index_add, lib.index_remove, lib.index_put_known
        self._number_new, self._untouch = lib.index_number_new, lib.index_untouch
        self._drop, self._address = lib.index_free, lib.index_new(*SEED)
        if self._address is None:
            raise MemoryError("no memory for keys")
        self._numbers, self._touched, self._touched_count = array("i"), array("i"), c_int64()
        for key, number in numbers:
            self.add(key, number)

    def __del__(self) -> None:
        if self._address is not None:
            self._drop(self._address)

    def add(self, key: bytes, number: int) -> None:
        """Number a key that has no number. Raises `MemoryError`."""
        if not self._add(self._address, key, len(key), number):
            raise MemoryError("no memory for keys")

    def number_new(self, keys: PackedColumn, start: int, stop: int, numbers: array[int]) -> Sequence[int]:
        """Number the keys of plain commits that have no number, from index `start` on, up to the first record that is
        something else, or `stop`: with `numbers`, in their order. Their indexes. Raises `MemoryError`."""
        rows = array("i", bytes(4 * (stop - start)))
        first = keys.first
        count = self._number_new(
            self._address,
            keys.packed.address,
            first + start,
            first + stop,
            numbers.buffer_info()[0],
            rows.buffer_info()[0],
        )
        if count < 0:
            raise MemoryError("no memory for keys")
        return [row - first for row in rows[:count]]

    def remove(self, key: bytes) -> None:
        """It has none any more."""
        self._remove(self._address, key, len(key))

    def untouch(self) -> None:
        """From now on `put_known` tells anew of each position."""
        self._untouch(self._address)

    def put_known(
        self, keys: PackedColumn, start: int, stop: int, block: bytearray, counts: array[int]
    ) -> tuple[int, Sequence[int]]:
        """Of the records with these keys, from index `start` on, put values of known positions with fixed layouts
        into their places in `block`, and count them. Up to the first record that is something else, or `stop`.

        How many they are, and the numbers of those positions of which it has not told since `untouch`, or since they
        came, in the order in which they came first.
        """
        if len(self._numbers) < stop - start:
            self._numbers = array("i", bytes(4 * (stop - start)))
            self._touched = array("i", self._numbers)
        # The memory of a bytearray stays where it is for as long as this lives.
        memory = c_char.from_buffer(block)
        count = self._put_known(
            self._address,
            keys.packed.address,
            keys.first + start,
            keys.first + stop,
            addressof(memory),
            counts.buffer_info()[0],
            self._numbers.buffer_info()[0],
            self._touched.buffer_info()[0],
            byref(self._touched_count),
        )
        return count, self._touched[: self._touched_count.value]

    def numbers(self, count: int) -> Sequence[int]:
        """For each of the first `count` records of the last call the number of its position."""
        return self._numbers[:count]
