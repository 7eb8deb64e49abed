"""All that the agent knows of the groups, and all that it remembers of them, by partition of the topic.

A partition's state is a pure function of its records up to `next_offset` and of the time that was let pass up to
`clock_ms`. So is its image, from which it goes on as if nothing had been. Not thread-safe: whoever calls holds the
lock, but for `Snapshot.encode`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import NamedTuple

from agent.diagnosis.cluster import NOTHING, Chosen, ClusterDiagnosis
from agent.diagnosis.engine import Failure, Output
from agent.history.counts import EventCounts, PartitionCounts
from agent.history.recent import PartitionRecent, Recent
from agent.records import LogId, Run
from agent.shadow.cluster import ClusterMirror
from agent.shadow.mirror import Reject
from agent.shadow.told import Witness
from agent.shadow.transitions import At
from agent.snapshot.container import Header, Identity, unwrap, wrap
from agent.snapshot.digest import digest
from agent.snapshot.errors import Kind, Refused
from agent.snapshot.images import Captured, Images, Parts


class Position(NamedTuple):
    """How far a partition's state goes: every record before `next_offset`, and time up to `clock_ms` (0: none yet).

    An event of a group was told by a state exactly if its offset is before `next_offset` and its time is not after
    `clock_ms`. An event of the cluster (without a group), exactly if its time is not after `judged_until_ms`.
    """

    next_offset: int
    clock_ms: int

    def has(self, at: At) -> bool:
        """Whether an event of the partition, which was told then and there, was told by this state or before."""
        return at.offset < self.next_offset and at.timestamp_ms <= self.clock_ms


NO_LOG = LogId("", "")


class Snapshot(NamedTuple):
    """What was captured, up to where; to be encoded without the lock."""

    header: Header
    captured: Captured
    images: Images

    def encode(self, written_ms: int = 0) -> bytes:
        """The bytes to keep. `written_ms` is the time on the wall, for whoever looks at them."""
        return wrap(self.header._replace(written_ms=written_ms), self.images.encode(self.captured))

    @property
    def left_out(self) -> dict[str, str]:
        """Analyzers that will start empty, since their state cannot be written: by name, what it is that cannot."""
        return self.captured.left_out


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
        scope: str = "",
        on_failure: Callable[[Failure], None] | None = None,
        cluster: str | None = None,
        log: LogId = NO_LOG,
    ) -> None:
        """`shows`: whether a group of that name is told of, counted and remembered; every one is mirrored. `scope`
        is the same in words: a snapshot of another scope is refused.

        `on_failure` is told of analyzers that raise; without it their `Failure` is raised. `cluster` is the name in
        the events that are remembered.
        """
        self.mirror = ClusterMirror(witness)
        self.diagnosis = ClusterDiagnosis(self.mirror, chosen, on_failure=on_failure)
        self.counts = EventCounts()
        self.recent = Recent(cluster=cluster)
        self.log = log
        self._shows = shows
        self._clocks: dict[int, int] = {}
        self._images = Images(chosen, scope=scope, witness=witness, on_failure=on_failure)

    def replay_run(self, run: Run) -> list[Output]:
        """Apply consecutive records of one partition: what came of it in groups that are shown, in order."""
        outputs = self.diagnosis.replay_run(run)
        latest_ms = max(run.timestamps_ms, default=0)
        self._clocks[run.partition] = max(self._clocks.get(run.partition, 0), latest_ms)
        return self._noted(outputs)

    def advance(self, now_ms: int, partitions: Collection[int] | None = None) -> list[Output]:
        """Let time pass where nothing is written, in `partitions` (all unless told): what was due by then.

        Not in partitions of which records up to then may yet be read: what is due there waits for them, and so do
        the findings of the cluster.
        """
        return self._noted(self.diagnosis.advance(now_ms, partitions))

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

    def _noted(self, outputs: list[Output]) -> list[Output]:
        """What is shown of it, counted and remembered."""
        shown = [it for it in outputs if it.group is None or self._shows(it.group)]
        self.counts.observe(shown)
        self.recent.observe(shown)
        return shown

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

    @property
    def judged_until_ms(self) -> int:
        """Up to when what spans partitions was judged."""
        return self.diagnosis.judged_until_ms

    # Snapshots.

    def capture(self, partition: int) -> Snapshot:
        """Copy what there is of a partition. Raises `KeyError` for one of which no record was seen."""
        captured = self._images.capture(self._parts(partition))
        return self._snapshot(partition, self.position(partition), captured)

    def capture_cluster(self) -> Snapshot:
        """Copy what there is of what spans partitions."""
        captured = self._images.capture_cluster(self.diagnosis, *self._of_cluster())
        return self._snapshot(None, Position(0, self.judged_until_ms), captured)

    def image(self, partition: int, written_ms: int = 0) -> bytes:
        """A snapshot of a partition."""
        return self.capture(partition).encode(written_ms)

    def cluster_image(self, written_ms: int = 0) -> bytes:
        """A snapshot of what spans partitions."""
        return self.capture_cluster().encode(written_ms)

    def restore(self, partition: int, image: bytes) -> Position:
        """Put a snapshot in place of what there is of a partition: read on from the position that it gives.

        Raises `Refused`, and nothing is changed then.
        """
        header, plain = unwrap(image, Identity(*self.log, partition), self._images.fingerprints)
        parts = self._images.restore(plain, partition)
        if parts.mirror.next_offset != header.next_offset:
            at = f"offset {header.next_offset} expected, {parts.mirror.next_offset} came"
            raise Refused(Kind.CORRUPT, f"the image is of another moment than its header: {at}")
        self.forget(partition)
        self.mirror.partitions[partition] = parts.mirror
        if parts.diagnosis is not None:
            self.diagnosis.partitions[partition] = parts.diagnosis
        self.counts.partitions[partition] = parts.counts
        self.recent.put(partition, parts.recent)
        self._clocks[partition] = parts.clock_ms
        return self.position(partition)

    def restore_cluster(self, image: bytes) -> None:
        """Put a snapshot in place of what spans partitions. It may be of an earlier or a later moment than theirs.

        Raises `Refused`, and nothing is changed then.
        """
        _, plain = unwrap(image, Identity(*self.log, None), self._images.fingerprints)
        counts, recent = self._images.restore_cluster(plain, self.diagnosis)
        self.counts.partitions[None] = counts
        self.recent.put(None, recent)

    def digest(self, partition: int) -> str:
        """What the state of a partition is: equal states have equal digests."""
        parts = self._parts(partition)
        return digest(parts.mirror, parts.diagnosis, parts.counts, parts.recent, parts.clock_ms)

    def cluster_digest(self) -> str:
        """The same, of what spans partitions."""
        it = self.diagnosis
        watches = [[analyzer, hysteresis] for analyzer, hysteresis in it.watches]
        return digest(watches, it.offsets, it.judged_until_ms, *self._of_cluster())

    def _parts(self, partition: int) -> Parts:
        return Parts(
            self.mirror.partitions[partition],
            self.diagnosis.partitions.get(partition),
            self.counts.partitions.get(partition, PartitionCounts()),
            self.recent.partitions.get(partition, PartitionRecent()),
            self._clocks[partition],
        )

    def _of_cluster(self) -> tuple[PartitionCounts, PartitionRecent]:
        return (
            self.counts.partitions.get(None, PartitionCounts()),
            self.recent.partitions.get(None, PartitionRecent()),
        )

    def _snapshot(self, partition: int | None, at: Position, captured: Captured) -> Snapshot:
        header = Header(Identity(*self.log, partition), self._images.fingerprints, *at, written_ms=0)
        return Snapshot(header, captured, self._images)
