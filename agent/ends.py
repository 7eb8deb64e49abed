"""How far a log is read: up to a time, or to just before a group lost its last members.

Pure: says where a run is cut, and remembers for one group where its members went. Knows no source and no mirror.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Protocol

from agent.records import Run
from agent.shadow.transitions import At, MemberLeft, Transition


class End(Protocol):
    """Where to stop in each partition."""

    def count(self, run: Run) -> int:
        """How many records of a run come before the end: all of them where it is not reached yet."""


@dataclass(frozen=True, slots=True)
class UpTo:
    """A time, epoch milliseconds, included: each partition ends at its first later record.

    What follows is not applied, whatever its time: clocks of brokers differ, and only a beginning of the log is a
    state that a coordinator was in.
    """

    at_ms: int

    def count(self, run: Run) -> int:
        """See `End`."""
        if max(run.timestamps_ms, default=self.at_ms) <= self.at_ms:
            return len(run)
        return next(index for index, time_ms in enumerate(run.timestamps_ms) if time_ms > self.at_ms)


@dataclass(frozen=True, slots=True)
class BeforeLeaving:
    """Just before members went, as the record `at` shows; their partition alone ends there.

    Coordinators of KIP-848 groups write tombstones of a member before the epoch that shows it gone, in one batch
    of one timestamp. So it ends at the first record of that time behind `changed_offset`, where the group changed
    before (-1: never).
    """

    at: At
    changed_offset: int

    def count(self, run: Run) -> int:
        """See `End`."""
        if run.partition != self.at.partition:
            return len(run)
        for index, (offset, time_ms) in enumerate(zip(run.offsets, run.timestamps_ms, strict=True)):
            is_batch = offset > self.changed_offset and time_ms == self.at.timestamp_ms
            if is_batch or offset >= self.at.offset:
                return index
        return len(run)


class Leaving:
    """Remembers where one group last lost members."""

    def __init__(self, group: str) -> None:
        self.group = group
        self.last: BeforeLeaving | None = None
        """Where a group that has no members now had some last; None: it never had."""
        self._changed, self._before = -1, -1

    def take(self, changes: Iterable[object]) -> None:
        """Look at what records changed, in order."""
        for change in changes:
            if not isinstance(change, Transition) or change.group != self.group:
                continue
            if change.at.offset != self._changed:
                self._before, self._changed = self._changed, change.at.offset
            if isinstance(change, MemberLeft):
                self.last = BeforeLeaving(change.at, self._before)


def cut(run: Run, count: int) -> Run:
    """The first records of a run."""
    return Run(run.partition, run.offsets[:count], run.timestamps_ms[:count], run.keys[:count], run.values[:count])
