"""How much each partition of the topic takes in, in windows of event time."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from analyzers.api import Load

WINDOW_MS = 300_000
"""Five minutes: what a broker does in one is not chance."""


class Loads:
    """The windows of one partition: those that have ended, and the one that is being filled."""

    def __init__(self) -> None:
        self.windows: dict[int, tuple[Load, int]] = {}
        """By end, epoch milliseconds: the load, and the offset of the last record by then."""
        self._end_ms: int | None = None
        self._records = 0
        self._offset = -1
        self._commits: Counter[str] = Counter()

    def add(self, minute_end_ms: int, records: int, commits: Mapping[str, int], offset: int) -> None:
        """Count a minute; minutes come in order."""
        end_ms = -(-minute_end_ms // WINDOW_MS) * WINDOW_MS
        if self._end_ms is not None and end_ms != self._end_ms:
            self._finish(self._end_ms)
        self._end_ms = end_ms
        self._records += records
        self._commits.update(commits)
        self._offset = offset
        if minute_end_ms == end_ms:
            self._finish(end_ms)

    def _finish(self, end_ms: int) -> None:
        group = max(self._commits, key=lambda name: (self._commits[name], name), default=None)
        load = Load(self._records, group, 0 if group is None else self._commits[group])
        self.windows[end_ms] = load, self._offset
        self._end_ms, self._records, self._commits = None, 0, Counter()

    def take(self, until_ms: int) -> dict[int, tuple[Load, int]]:
        """The windows that ended by then, by end; they are kept no longer."""
        if self._end_ms is not None and self._end_ms <= until_ms:
            self._finish(self._end_ms)
        taken = {end_ms: self.windows.pop(end_ms) for end_ms in sorted(self.windows) if end_ms <= until_ms}
        return taken
