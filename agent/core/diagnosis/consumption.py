"""How many records a group consumed lately, by partition, as far as its commits tell."""

from __future__ import annotations

from array import array
from collections import deque
from collections.abc import Iterable
from itertools import islice
from typing import Annotated, ClassVar, NamedTuple

from agent.core.diagnosis.api import WINDOW_MS, Sample, TopicPartition
from agent.core.shadow.views import Position
from agent.core.state_fields import MaxLength, StateFields

WINDOWS = 3
"""The current window and those before it: what is consumed "lately"."""


class WindowEndPositions(NamedTuple):
    """Positions as a window ended, as an image has them: of each the offset alone."""

    window: int
    positions: dict[TopicPartition, Position]


class WindowEndOffsets(NamedTuple):
    """Offsets as a window ended, in the order of the positions; those that came later are missing at the end."""

    window: int
    offsets: array[int]


class Consumption:
    """The records that one group consumed in the last windows.

    A position's place now less its place then: nothing is done for each position but as a window ends and when
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

    __slots__ = ("_commits", "_ends", "_now", "_window", "version")

    def __init__(self) -> None:
        self.version = 0
        """Raised by what changes an answer of `at` for the same window."""
        self._now: dict[TopicPartition, Position] = {}
        self._ends: list[WindowEndOffsets] = []
        """The last `WINDOWS`."""
        self._window = -1
        self._commits = 0

    def add(self, sample: Sample) -> None:
        """Take what was committed since the sample before."""
        self.version += 1
        window = window_of(sample.at_ms)
        if window != self._window:
            ended = WindowEndOffsets(self._window, array("q", [it[0] for it in self._now.values()]))
            self._ends = [*self._ends[1 - WINDOWS :], ended]
            self._window = window
        self._now.update(sample.positions)
        newest = self._ends[-1].offsets
        if len(newest) < len(self._now):
            # What is seen for the first time has consumed nothing yet that could be told.
            newest.extend([it[0] for it in islice(self._now.values(), len(newest), None)])

    def take_commit_count(self) -> int:
        """Commits since this was asked last."""
        total = sum([position.commits for position in self._now.values()])
        new, self._commits = max(total - self._commits, 0), total
        return new

    def drop(self, slot: TopicPartition) -> None:
        """A position was deleted: what it consumed is of no account any more."""
        if slot in self._now:
            self.version += 1
            at = list(self._now).index(slot)
            for end in self._ends:
                del end.offsets[at : at + 1]
            del self._now[slot]

    def records_until(self, now_ms: int) -> dict[TopicPartition, int]:
        """Records by partition in the windows that reach to `now_ms`."""
        least = window_of(now_ms) - WINDOWS
        if self._window <= least:
            return {}
        began = array("q")
        for end in reversed(self._ends):
            began = end.offsets + began[len(end.offsets) :]
            if end.window <= least:
                break
        # By index and without `max`: half the time, and every group is asked at once when metrics are scraped.
        positions = zip(self._now.items(), began, strict=True)
        return {slot: new if (new := it[0] - before) > 0 else 0 for (slot, it), before in positions}

    # Snapshots.

    @property
    def _bases(self) -> Iterable[WindowEndPositions]:
        return [
            WindowEndPositions(
                end.window, {slot: Position(it, 0, 0) for slot, it in zip(self._now, end.offsets, strict=False)}
            )
            for end in self._ends
        ]

    @_bases.setter
    def _bases(self, bases: Iterable[WindowEndPositions]) -> None:
        # `after_restore` makes columns of them, once it is known what they are columns of.
        self._ends = list(bases)  # type: ignore[arg-type]

    def after_restore(self) -> None:
        """Put the positions in the order in which they came: who is in an older window is in the newer ones too."""
        bases: list[WindowEndPositions] = self._ends  # type: ignore[assignment]
        self._now = {slot: self._now[slot] for _, positions in bases for slot in positions} | self._now
        self._ends = [
            WindowEndOffsets(window, array("q", [positions[slot].offset for slot in self._now if slot in positions]))
            for window, positions in bases
        ]


def window_of(at_ms: int) -> int:
    """The window of what came before a time: a sample taken as a window ends belongs to it."""
    return (at_ms - 1) // WINDOW_MS
