"""How many records a group consumed lately, by partition, as far as its commits tell."""

from __future__ import annotations

from agent.shadow.views import Position
from analyzers.api import Sample, Slot

WINDOW_MS = 300_000
"""Consumption is counted in windows of five minutes: short enough to follow a change, long enough to even out."""

WINDOWS = 3
"""The current window and those before it: what `consumed` sums up."""


class Consumption:
    """The records that one group consumed in the last windows."""

    __slots__ = ("_last", "_windows")

    def __init__(self) -> None:
        self._last: dict[Slot, Position] = {}
        self._windows: dict[int, dict[Slot, int]] = {}

    def add(self, sample: Sample) -> int:
        """Count what the positions moved on since the sample before; one that moved back consumed nothing.

        Answers how many commits it were that moved them.
        """
        number = _window(sample.at_ms)
        window = self._windows.setdefault(number, {})
        last, commits = self._last, 0
        for slot, position in sample.positions.items():
            before = last.get(slot)
            if before is None:
                window[slot] = 0
                commits += position.commits
            else:
                window[slot] = window.get(slot, 0) + max(position.offset - before.offset, 0)
                commits += position.commits - before.commits
            last[slot] = position
        for old in [it for it in self._windows if it <= number - WINDOWS]:
            del self._windows[old]
        return commits

    def drop(self, slot: Slot) -> None:
        """A position was deleted: what it consumed is of no account any more."""
        self._last.pop(slot, None)
        for window in self._windows.values():
            window.pop(slot, None)

    def at(self, now_ms: int) -> dict[Slot, int]:
        """Records by partition in the windows that reach to `now_ms`."""
        least = _window(now_ms) - WINDOWS
        total: dict[Slot, int] = {}
        for number, window in self._windows.items():
            if number > least:
                for slot, count in window.items():
                    total[slot] = total.get(slot, 0) + count
        return total


def _window(at_ms: int) -> int:
    """The window of what came before a time: a sample taken as a window ends belongs to it."""
    return (at_ms - 1) // WINDOW_MS
