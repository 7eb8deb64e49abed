"""Which events are safe with the sinks already: so that what is read again is not told again.

Owns the rule. A partition's state tells an event when it gets to the event's offset and time; so how far the state
had come when all its events were safe says of each event whether it was among them. That matters where a partition is
read again from its beginning: compaction has taken records since, and what the rest shows would go out under the ids
of other events.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

from agent.core.diagnosis.engine import DiagnosisOutput
from agent.persistence.cluster_state import ReplayPosition


class ExportDeduplicator:
    """By partition, how far its events are safe. Not thread-safe: its owner holds the lock."""

    def __init__(self) -> None:
        self._safe: dict[int | None, list[ReplayPosition]] = {}

    def mark_exported(self, partition: int | None, position: ReplayPosition) -> None:
        """Of this partition (None: of the cluster's findings) everything up to there is safe too: a state that is
        dropped while it is read again has not come as far as what is safe from before."""
        self.advance(partition, position)
        self._safe.setdefault(partition, []).append(position)

    def forget(self, partitions: Collection[int] | None = None) -> None:
        """Nothing is known of these, or of any: it is another log, or another's partition."""
        for partition in list(self._safe) if partitions is None else partitions:
            self._safe.pop(partition, None)

    def unexported(self, outputs: Iterable[DiagnosisOutput]) -> list[DiagnosisOutput]:
        """Those that are to be told."""
        return [it for it in outputs if not self._is_exported(it)]

    def advance(self, partition: int | None, position: ReplayPosition) -> None:
        """The partition's state has come this far: behind what was safe there is nothing left to compare with."""
        next_offset, clock_ms = position
        safe = self._safe.pop(partition, ())
        if left := [it for it in safe if it.next_offset > next_offset or it.clock_ms > clock_ms]:
            self._safe[partition] = left

    def _is_exported(self, output: DiagnosisOutput) -> bool:
        safe = self._safe.get(None if output.group is None else output.at.partition, ())
        if output.group is None:
            return any(output.at.timestamp_ms <= it.clock_ms for it in safe)
        return any(it.includes(output.at) for it in safe)
