"""Timers over virtual time: set, put off, cancelled, and fired in order of the time at which they are due."""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from heapq import heapify, heappop, heappush


class Timers:
    """One timer a key. Those due at the same time fire in the order in which they were set.

    To put one off does not change its place, so that it does not matter how often that was done.
    """

    def __init__(self) -> None:
        self._set: dict[Hashable, tuple[int, int]] = {}
        self._heap: list[tuple[int, int, Hashable]] = []
        self._count = 0

    def set(self, key: Hashable, due_ms: int) -> None:
        """Set the timer of `key`, in place of one that it may have."""
        known = self._set.get(key)
        if known is None:
            self._count += 1
        count = self._count if known is None else known[1]
        self._set[key] = (due_ms, count)
        if len(self._heap) > 4 * len(self._set) + 16:
            # Timers that are put off again and again leave their old places behind.
            self._heap = [(due, count, other) for other, (due, count) in self._set.items()]
            heapify(self._heap)
        else:
            heappush(self._heap, (due_ms, count, key))

    def cancel(self, key: Hashable) -> None:
        """Forget the timer of `key`, if it has one."""
        self._set.pop(key, None)

    def due_of(self, key: Hashable) -> int | None:
        """When the timer of `key` is due."""
        found = self._set.get(key)
        return None if found is None else found[0]

    def items(self) -> Iterator[tuple[Hashable, int]]:
        """Each key and when its timer is due, in no order."""
        return ((key, due) for key, (due, _) in self._set.items())

    @property
    def due(self) -> int | None:
        """When the next timer is due, None if there is none."""
        heap, live = self._heap, self._set
        while heap and live.get(heap[0][2]) != heap[0][:2]:
            heappop(heap)
        return heap[0][0] if heap else None

    def pop(self, until_ms: int) -> tuple[Hashable, int] | None:
        """Take the next timer that is due at `until_ms` or before: its key and when it was due."""
        due = self.due
        if due is None or due > until_ms:
            return None
        key = heappop(self._heap)[2]
        del self._set[key]
        return key, due


def earliest(*times: int | None) -> int | None:
    """The least of these times, those aside that are None; None if all are. Asked at each moment of a play."""
    least = None
    for time in times:
        if time is not None and (least is None or time < least):
            least = time
    return least
