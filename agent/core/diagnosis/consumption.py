"""How many records a group consumed lately, by partition, as far as its commits tell."""

from __future__ import annotations

from collections import deque
from typing import Annotated, ClassVar, NamedTuple

from agent.core.diagnosis.api import WINDOW_MS, Sample, TopicPartition
from agent.core.shadow.views import Position
from agent.core.state_fields import MaxLength, StateFields

WINDOWS = 3
"""The current window and those before it: what is consumed "lately"."""


class WindowEndPositions(NamedTuple):
    """Positions as a window ended."""

    window: int
    positions: dict[TopicPartition, Position]


class Consumption:
    """The records that one group consumed in the last windows.

    A position's place now less its place then, both kept as they came: nothing is done for each position but when
    somebody asks. One that moved back consumed nothing.
    """

    STATE: ClassVar = StateFields(
        {
            "_now": dict[TopicPartition, Position],
            "_bases": Annotated[deque[WindowEndPositions], MaxLength(WINDOWS)],
            "_window": int,
            "_commits": int,
            "version": int,
        }
    )

    __slots__ = ("_bases", "_commits", "_now", "_window", "version")

    def __init__(self) -> None:
        self.version = 0
        """Raised by what changes an answer of `at` for the same window."""
        self._now: dict[TopicPartition, Position] = {}
        self._bases: deque[WindowEndPositions] = deque(maxlen=WINDOWS)
        self._window = -1
        self._commits = 0

    def add(self, sample: Sample) -> None:
        """Take what was committed since the sample before."""
        self.version += 1
        window = window_of(sample.at_ms)
        if window != self._window:
            self._bases.append(WindowEndPositions(self._window, dict(self._now)))
            self._window = window
        self._now.update(sample.positions)
        newest = self._bases[-1].positions
        if len(newest) < len(self._now):
            # What is seen for the first time has consumed nothing yet that could be told.
            for slot in sample.positions.keys() - newest.keys():
                newest[slot] = sample.positions[slot]

    def take_commit_count(self) -> int:
        """Commits since this was asked last."""
        total = sum([position.commits for position in self._now.values()])
        new, self._commits = max(total - self._commits, 0), total
        return new

    def drop(self, slot: TopicPartition) -> None:
        """A position was deleted: what it consumed is of no account any more."""
        if self._now.pop(slot, None) is not None:
            self.version += 1
            for base in self._bases:
                base.positions.pop(slot, None)

    def records_until(self, now_ms: int) -> dict[TopicPartition, int]:
        """Records by partition in the windows that reach to `now_ms`."""
        least = window_of(now_ms) - WINDOWS
        if self._window <= least:
            return {}
        began: dict[TopicPartition, Position] = {}
        for base in reversed(self._bases):
            began.update(base.positions)
            if base.window <= least:
                break
        # By index and without `max`: half the time, and every group is asked at once when metrics are scraped.
        return {slot: new if (new := it[0] - began[slot][0]) > 0 else 0 for slot, it in self._now.items()}


def window_of(at_ms: int) -> int:
    """The window of what came before a time: a sample taken as a window ends belongs to it."""
    return (at_ms - 1) // WINDOW_MS
