"""All that the agent knows of the groups, and all that it remembers of them, by partition of the topic.

A partition's state is a pure function of its records up to `next_offset` and of the time that was let pass up to
`clock_ms`. Not thread-safe: whoever calls holds the lock.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import NamedTuple

from agent.diagnosis.cluster import NOTHING, Chosen, ClusterDiagnosis
from agent.diagnosis.engine import Failure, Output
from agent.history.counts import EventCounts
from agent.history.recent import Recent
from agent.records import Run
from agent.shadow.cluster import ClusterMirror
from agent.shadow.mirror import Reject
from agent.shadow.told import Witness


class Position(NamedTuple):
    """How far a partition's state goes: every record before `next_offset`, and time up to `clock_ms` (0: none yet).

    An event of a group was told by a state exactly if its offset is before `next_offset` and its time is not after
    `clock_ms`.
    """

    next_offset: int
    clock_ms: int


def _every(group: str) -> bool:
    return True


class ClusterState:
    """The mirror, the analyzers, what is counted and what is remembered of every partition that is read."""

    def __init__(
        self,
        chosen: Chosen = NOTHING,
        *,
        witness: Witness | None = None,
        shows: Callable[[str], bool] = _every,
        on_failure: Callable[[Failure], None] | None = None,
        cluster: str | None = None,
    ) -> None:
        """`shows`: whether a group of that name is told of, counted and remembered; every one is mirrored.

        `on_failure` is told of analyzers that raise; without it their `Failure` is raised. `cluster` is the name in
        the events that are remembered.
        """
        self.mirror = ClusterMirror(witness)
        self.diagnosis = ClusterDiagnosis(self.mirror, chosen, on_failure=on_failure)
        self.counts = EventCounts()
        self.recent = Recent(cluster=cluster)
        self._shows = shows
        self._clocks: dict[int, int] = {}

    def replay_run(self, run: Run) -> list[Output]:
        """Apply consecutive records of one partition: what came of it in groups that are shown, in order."""
        outputs = self.diagnosis.replay_run(run)
        latest_ms = max(run.timestamps_ms, default=0)
        self._clocks[run.partition] = max(self._clocks.get(run.partition, 0), latest_ms)
        return self._noted(outputs)

    def advance(self, now_ms: int) -> list[Output]:
        """Let time pass where nothing is written: what was due by then."""
        return self._noted(self.diagnosis.advance(now_ms))

    def take_rejects(self, partition: int) -> list[Reject]:
        """The latest records of a partition that could not be decoded, since the last call."""
        mirror = self.mirror.partitions.get(partition)
        return [] if mirror is None else mirror.take_rejects()

    def forget(self, partition: int) -> None:
        """Drop everything of a partition: its records are to be read anew, or by somebody else."""
        self.diagnosis.forget(partition)
        self.counts.forget(partition)
        self.recent.forget(partition)
        self._clocks.pop(partition, None)

    @property
    def partitions(self) -> Collection[int]:
        """The partitions of which a record was seen, ascending."""
        return sorted(self._clocks)

    def position(self, partition: int) -> Position:
        """How far the state of a partition goes."""
        mirror = self.mirror.partitions.get(partition)
        if mirror is None:
            return Position(0, 0)
        clock_ms = self.diagnosis.clock_ms(partition)
        return Position(mirror.next_offset, self._clocks.get(partition, 0) if clock_ms is None else clock_ms)

    def _noted(self, outputs: list[Output]) -> list[Output]:
        """What is shown of it, counted and remembered."""
        shown = [it for it in outputs if it.group is None or self._shows(it.group)]
        self.counts.observe(shown)
        self.recent.observe(shown)
        return shown
