"""How far a log is read: up to a time, or to just before a group lost its last members.

Says where a batch is cut, and remembers for one group where its members left. Knows no source and no mirror.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

from msgspec import Struct

from agent.core.records import RecordBatch
from agent.core.shadow.transitions import LogPosition, MemberLeft, Transition


class ReadLimit(Protocol):
    """Where to stop in each partition."""

    def records_before(self, batch: RecordBatch) -> int:
        """How many records of a batch come before the end: all of them where it is not reached yet."""


class UntilTime(Struct, frozen=True):
    """A time, epoch milliseconds, included: each partition ends at its first later record.

    What follows is not applied, whatever its time: clocks of brokers differ, and only a beginning of the log is a
    state that a coordinator was in.
    """

    at_ms: int

    def records_before(self, batch: RecordBatch) -> int:
        """See `ReadLimit`."""
        if batch.newest_ms <= self.at_ms:
            return len(batch)
        return next(index for index, time_ms in enumerate(batch.timestamps_ms) if time_ms > self.at_ms)


class BeforeDeparture(Struct, frozen=True):
    """Just before members left, as the record `at` shows; their partition alone ends there.

    Coordinators of KIP-848 groups write tombstones of a member before the epoch that shows it gone, in one batch
    of one timestamp. So it ends at the first record of that time behind `changed_offset`, where the group changed
    before (-1: never).
    """

    at: LogPosition
    changed_offset: int

    def records_before(self, batch: RecordBatch) -> int:
        """See `ReadLimit`."""
        if batch.partition != self.at.partition:
            return len(batch)
        for index, (offset, time_ms) in enumerate(zip(batch.offsets, batch.timestamps_ms, strict=True)):
            is_batch = offset > self.changed_offset and time_ms == self.at.timestamp_ms
            if is_batch or offset >= self.at.offset:
                return index
        return len(batch)


class DepartureTracker:
    """Remembers where one group last lost members."""

    def __init__(self, group: str) -> None:
        self.group = group
        self.last: BeforeDeparture | None = None
        """Where a group that has no members now had some last; None: it never had."""
        self._changed, self._before = -1, -1

    @property
    def has_seen_group(self) -> bool:
        """Whether a record has changed the group."""
        return self._changed >= 0

    def observe(self, changes: Iterable[object]) -> None:
        """Look at what records changed, in order."""
        for change in changes:
            if not isinstance(change, Transition) or change.group != self.group:
                continue
            if change.at.offset != self._changed:
                self._before, self._changed = self._changed, change.at.offset
            if isinstance(change, MemberLeft):
                self.last = BeforeDeparture(change.at, self._before)
