"""How many records a group consumed lately, by partition, as far as its commits tell."""

from __future__ import annotations

from array import array
from collections import deque
from collections.abc import Iterable
from typing import Annotated, ClassVar, NamedTuple

from agent.core.diagnosis.api import WINDOW_MS, Sample, TopicPartition
from agent.core.shadow.views import Position
from agent.core.state_fields import MaxLength, StateFields

WINDOWS = 3
"""The current window and those before it: what is consumed "lately"."""


MOST_RECORDS = 1 << 40
"""Of a position in so short a time, a billion a second: who commits an offset beyond has consumed nothing of that,
but moved there. Offsets are whatever clients commit, and sums of them are to be numbers that a snapshot can hold."""


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

    __slots__ = ("_commits", "_counts", "_ends", "_offsets", "_places", "_slots", "_window", "version")

    def __init__(self) -> None:
        self.version = 0
        """Raised by what changes an answer of `records_until` for the same window."""
        # By place: whose it is, the offset, and how often it was committed. Places of positions that are gone stay,
        # with None, until they are half of all.
        self._slots: list[TopicPartition | None] = []
        self._offsets = array("q")
        self._counts = array("q")
        self._ends: list[WindowEndOffsets] = []
        """The last `WINDOWS`."""
        self._places: dict[TopicPartition, int] | None = None
        """While positions go, one by one, until the next sample: a dict takes five times as much as the list."""
        self._window = -1
        self._commits = 0

    def add(self, sample: Sample) -> None:
        """Take what was committed since the sample before."""
        self.version += 1
        window = window_of(sample.at_ms)
        if window != self._window:
            self._ends = [*self._ends[1 - WINDOWS :], WindowEndOffsets(self._window, self._offsets[:])]
            self._window = window
        places, slots, offsets, counts = self._by_slot(), self._slots, self._offsets, self._counts
        for slot, (offset, _, count) in sample.positions.items():
            place = places.get(slot)
            if place is None:
                slots.append(slot)
                offsets.append(offset)
                counts.append(count)
            else:
                offsets[place], counts[place] = offset, count
        newest = self._ends[-1].offsets
        if len(offsets) > len(newest):
            # What has grown has room for more: copies are as long as what is in them.
            self._slots, self._offsets, self._counts = slots[:], offsets[:], counts[:]
        # What is seen for the first time has consumed nothing yet that could be told.
        newest.extend(offsets[len(newest) :])
        self._places = None

    def _by_slot(self) -> dict[TopicPartition, int]:
        if self._places is not None:
            return self._places
        return {slot: place for place, slot in enumerate(self._slots) if slot is not None}

    def take_commit_count(self) -> int:
        """Commits since this was asked last."""
        total = sum(self._counts)
        new, self._commits = max(total - self._commits, 0), total
        return new

    def drop(self, slot: TopicPartition) -> None:
        """A position was deleted: what it consumed is of no account any more."""
        self._places = self._by_slot()
        place = self._places.pop(slot, None)
        if place is not None:
            self.version += 1
            self._commits -= self._counts[place]
            self._slots[place], self._counts[place] = None, 0
            if 2 * len(self._places) <= len(self._offsets):
                self._bases, self._now = self._bases, self._now
                self.after_restore()

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
        # Without `max`: half the time, and every group is asked at once when metrics are scraped.
        return {
            slot: new if 0 < (new := now - before) <= MOST_RECORDS else 0
            for slot, now, before in zip(self._slots, self._offsets, began, strict=True)
            if slot is not None
        }

    # Snapshots.

    @property
    def _now(self) -> dict[TopicPartition, Position]:
        rows = zip(self._slots, self._offsets, self._counts, strict=True)
        return {slot: Position(offset, 0, count) for slot, offset, count in rows if slot is not None}

    @_now.setter
    def _now(self, now: dict[TopicPartition, Position]) -> None:
        self._places, self._slots = None, list(now)
        self._offsets = array("q", [it.offset for it in now.values()])
        self._counts = array("q", [it.commits for it in now.values()])

    @property
    def _bases(self) -> list[WindowEndPositions]:
        return [
            WindowEndPositions(
                window,
                {
                    slot: Position(it, 0, 0)
                    # Those that came later are missing at the end.
                    for slot, it in zip(self._slots, offsets, strict=False)
                    if slot is not None
                },
            )
            for window, offsets in self._ends
        ]

    @_bases.setter
    def _bases(self, bases: Iterable[WindowEndPositions]) -> None:
        # `after_restore` makes columns of them, once it is known what they are columns of.
        self._ends = list(bases)  # type: ignore[arg-type]

    def after_restore(self) -> None:
        """Put the positions in the order in which they came: who is in an older window is in the newer ones too."""
        bases: list[WindowEndPositions] = self._ends  # type: ignore[assignment]
        came = self._now
        self._now = now = {slot: came[slot] for _, positions in bases for slot in positions} | came
        self._ends = [
            WindowEndOffsets(window, array("q", [positions[it].offset for it in now if it in positions]))
            for window, positions in bases
        ]


def window_of(at_ms: int) -> int:
    """The window of what came before a time: a sample taken as a window ends belongs to it."""
    return (at_ms - 1) // WINDOW_MS
