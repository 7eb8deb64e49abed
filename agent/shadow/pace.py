"""How often the members of a group commit: what tells a silence from a pause."""

from __future__ import annotations

from collections.abc import Mapping

from agent.shadow.causes import Activity
from agent.shadow.offsets import Offsets


class Pace:
    """The commits of one group since its generation (or epoch) began."""

    __slots__ = ("_counts", "since_ms")

    def __init__(self) -> None:
        self.since_ms: int | None = None
        """When it began, epoch milliseconds; None before the first."""
        self._counts: Mapping[tuple[str, int], int] = {}

    def start(self, at_ms: int, counts: Mapping[tuple[str, int], int]) -> None:
        """A generation begins; `counts` is how often each position was committed so far."""
        self.since_ms, self._counts = at_ms, counts

    def activity(
        self, group: str, assignment: Mapping[str, tuple[int, ...]], offsets: Offsets, *, across: bool = False
    ) -> Activity:
        """What a member that holds `assignment` committed since then; `across`: or before, since members keep what
        they have from epoch to epoch."""
        since_ms = self.since_ms or 0
        owned_ms = 0 if across else since_ms
        last: int | None = None
        every: int | None = None
        for topic, partitions in assignment.items():
            for partition in partitions:
                found = offsets.commit(group, topic, partition)
                if found is None or found[0].commit_ms < owned_ms:
                    continue
                at_ms, times = found[0].commit_ms, found[1] - self._counts.get((topic, partition), 0)
                last = at_ms if last is None else max(last, at_ms)
                if times > 0 and self.since_ms is not None:
                    pause = (at_ms - since_ms) // times
                    every = pause if every is None else min(every, pause)
        return Activity(last, every)
