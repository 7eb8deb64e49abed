"""All that the agent knows of the groups, and all that it remembers of them, by partition of the topic.

A partition's state is a pure function of its records up to `next_offset` and of the time that was let pass up to
`clock_ms`. So is its image, from which it goes on as if nothing had been. Not thread-safe: whoever calls holds a
lock, but for `Snapshot.encode` and `partitions`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import NamedTuple, Protocol

from agent.core.diagnosis.cluster import NO_ANALYZERS, AnalyzerSelection, ClusterDiagnosis
from agent.core.diagnosis.engine import AnalyzerFailure, DiagnosisOutput
from agent.core.events.counts import EventCounts, PartitionCounts
from agent.core.events.open_origins import OpenOrigins
from agent.core.events.recent import NotedEvent, PartitionRecentEvents, RecentEvents
from agent.core.inference.external_evidence import EvidenceSource
from agent.core.inference.origins import OriginSource
from agent.core.record_time import FOLLOWERS, UNKNOWN, Context
from agent.core.records import LogId, RecordBatch
from agent.core.shadow.cluster import ClusterMirror
from agent.core.shadow.mirror import PartitionMirror, RejectedRecord
from agent.core.shadow.transitions import LogPosition, Transition
from agent.persistence.snapshot.envelope import Header, SnapshotIdentity, seal
from agent.persistence.snapshot.errors import RefusalReason, SnapshotRefused
from agent.persistence.snapshot.image_codec import CapturedState, ImageCodec, PartitionState


class MembershipObserver(Protocol):
    """Sees each group's members change, and keeps of them what it likes: no part of the state."""

    def observe(self, mirror: PartitionMirror, transitions: Sequence[Transition]) -> None:
        """A record has changed groups; the mirror is as it left it."""

    def see(self, mirror: PartitionMirror, transitions: Sequence[Transition]) -> Callable[[], None]:
        """The same in two steps: what is returned keeps what was seen, and takes no time."""

    def seed(self, mirror: PartitionMirror) -> None:
        """A partition was restored: how its groups stand is known, and nothing of what led to it."""

    def before_change(self, partition: int) -> None:
        """Records of a partition are to be applied: its groups are still as they were."""

    def forget(self, partition: int) -> None:
        """A partition was dropped."""


class ReplayPosition(NamedTuple):
    """How far a partition's state goes: every record before `next_offset`, and time up to `clock_ms` (0: none yet).

    An event of a group was told by a state exactly if its offset is before `next_offset` and its time is not after
    `clock_ms`. An event of the cluster (without a group), exactly if its time is not after `judged_until_ms`.
    """

    next_offset: int
    clock_ms: int

    def includes(self, at: LogPosition) -> bool:
        """Whether an event of the partition, which was told then and there, was told by this state or before."""
        return at.offset < self.next_offset and at.timestamp_ms <= self.clock_ms


NO_LOG = LogId("", "")


class Snapshot(NamedTuple):
    """What was captured, up to where; to be encoded without the lock."""

    header: Header
    captured: CapturedState
    images: ImageCodec

    def encode(self, written_ms: int = 0) -> bytes:
        """The bytes to keep. `written_ms` is the time on the wall, for whoever looks at them."""
        return seal(self.header._replace(written_ms=written_ms), self.images.encode(self.captured))

    @property
    def omitted_analyzers(self) -> dict[str, str]:
        """Analyzers that will start empty, since their state cannot be written: by name, what it is that cannot."""
        return self.captured.omitted_analyzers


def _every_group(group: str) -> bool:
    return True


def _context(run: RecordBatch, stop: int, context: Context) -> Context:
    """What is known of what follows those before `stop`."""
    return context._replace(next_ms=[*run.timestamps_ms[stop : stop + FOLLOWERS], *context.next_ms])


class ClusterState:
    """The mirror, the analyzers, what is counted and what is remembered of every partition that is read."""

    def __init__(
        self,
        chosen: AnalyzerSelection = NO_ANALYZERS,
        *,
        witness: EvidenceSource | None = None,
        origin_source: OriginSource | None = None,
        is_remembered: Callable[[str], bool] = _every_group,
        on_failure: Callable[[AnalyzerFailure], None] | None = None,
        cluster: str | None = None,
        log: LogId = NO_LOG,
        remembers: bool = True,
        mirror_class: type[PartitionMirror] = PartitionMirror,
        members: MembershipObserver | None = None,
    ) -> None:
        """`is_remembered`: whether a group of that name is told of, counted and remembered; every one is mirrored.

        `on_failure` is told of analyzers that raise; without it their `AnalyzerFailure` is raised. `cluster` is the
        name in the events that are remembered. With `remembers` False nothing is counted and remembered.
        `origin_source` may know what happened to members' pods. `mirror_class`: how a partition is mirrored;
        `SampledMirror` where groups are looked at. `members` sees every
        change of a group's members, where any analyzer runs.
        """
        self.mirror = ClusterMirror(witness, mirror_class, origin_source)
        self._members = members
        observe = None if members is None else members.observe
        self.diagnosis = ClusterDiagnosis(self.mirror, chosen, on_failure=on_failure, observe=observe)
        self.counts = EventCounts()
        self.recent = RecentEvents(cluster=cluster, clock_ms=self.diagnosis.clock_ms)
        self.log = log
        self._is_remembered, self._remembers = is_remembered, remembers
        self._latest_ms: dict[int, int] = {}
        self._codec = ImageCodec(
            chosen,
            evidence_source=witness,
            on_failure=on_failure,
            mirror_class=mirror_class,
            origin_source=origin_source,
        )
        self._open_origins = None
        if origin_source is not None:
            self._open_origins = OpenOrigins(origin_source, self.mirror.partitions, self.counts)

    def replay_batch(
        self,
        run: RecordBatch,
        context: Context = UNKNOWN,
        answers: AbstractContextManager[object] | None = None,
    ) -> list[DiagnosisOutput]:
        """Apply consecutive records of one partition: what came of it in groups that are remembered, in order.
        `context`: what is known of those that follow.

        `answers` is held, if it is given, while anything changes that answers are told from. What takes long (a
        record of a large group) is worked out before, without it."""
        if answers is None:
            return self._replay_run(run, context)
        out: list[DiagnosisOutput] = []
        start, end = 0, len(run)
        with answers:
            mirror = self.mirror.partition(run.partition)
        for index, may_be_large in mirror.costly_records(run) if mirror.has_forks else ():
            # How large its group is, those before it say.
            if start < index:
                out += self._replay_part(run, start, index, context, answers)
            group = mirror.large_group(run.keys[index], run.values[index]) if may_be_large else None
            if group is not None:
                record = run.part(index, index + 1)
                out += self._replay_aside(record, _context(run, index + 1, context), group, answers)
            start = index if group is None else index + 1
        if start < end:
            out += self._replay_part(run, start, end, context, answers)
        return out

    def _replay_part(
        self, run: RecordBatch, start: int, stop: int, context: Context, answers: AbstractContextManager[object]
    ) -> list[DiagnosisOutput]:
        if stop - start < len(run):
            run, context = run.part(start, stop), _context(run, stop, context)
        with answers:
            return self._replay_run(run, context)

    def _replay_run(self, run: RecordBatch, context: Context) -> list[DiagnosisOutput]:
        if self._members is not None:
            self._members.before_change(run.partition)
        outputs = self._remembered(self.diagnosis.replay_batch(run, context))
        self._keep(outputs, self._noted(outputs))
        self._note_latest(run)
        return outputs

    def _replay_aside(
        self, record: RecordBatch, context: Context, group: str, answers: AbstractContextManager[object]
    ) -> list[DiagnosisOutput]:
        """Apply one record of a group to a fork of it, which then takes the group's place."""
        partition, members = record.partition, self._members
        seen: list[Callable[[], None]] = []

        def see(mirror: PartitionMirror, transitions: Sequence[Transition]) -> None:
            if members is not None:
                seen.append(members.see(mirror, transitions))

        with answers:
            if members is not None:
                members.before_change(partition)
            due = self._record_outputs(self.diagnosis.run_due(record, context))
            fork = self.diagnosis.fork(partition, group, see)
        outputs = self._remembered(fork.replay_batch(record, context))
        noted = self._noted(outputs)
        # What is replaced goes when this returns: freeing it takes a while.
        replaced = self.mirror.partition(partition).groups.get(group)
        with answers:
            self.diagnosis.adopt(fork, partition, group)
            for keep in seen:
                keep()
            self._keep(outputs, noted)
            self._note_latest(record)
        del replaced
        return [*due, *outputs]

    def _note_latest(self, run: RecordBatch) -> None:
        self._latest_ms[run.partition] = max(self._latest_ms.get(run.partition, 0), run.newest_ms)

    def advance(self, now_ms: int, partitions: Collection[int] | None = None) -> list[DiagnosisOutput]:
        """Let time pass where nothing is written, in `partitions` (all unless told): what was due by then.

        Not in partitions of which records up to then may yet be read: what is due there waits for them, and so do
        the findings of the cluster.
        """
        return self._record_outputs(self.diagnosis.advance(now_ms, partitions))

    def observe_origins(self, outputs: Sequence[DiagnosisOutput], now_s: float, wall_ms: int) -> None:
        """Let the origins of what came out of `replay_batch` be amended for some seconds: see `settle_origins`.
        `now_s` is a steady clock, `wall_ms` the one on the wall."""
        if self._open_origins is not None:
            self._open_origins.observe(outputs, now_s, wall_ms)

    def settle_origins(self, now_s: float, *, all_of_them: bool = False) -> None:
        """Ask again for origins that are open, and count those whose time is over (`all_of_them`: all)."""
        if self._open_origins is not None:
            self._open_origins.settle(now_s, all_of_them=all_of_them)

    def take_rejects(self, partition: int) -> list[RejectedRecord]:
        """The latest records of a partition that could not be decoded, since the last call."""
        mirror = self.mirror.partitions.get(partition)
        return [] if mirror is None else mirror.take_rejects()

    def forget(self, partition: int) -> None:
        """Drop everything of a partition: its records are to be read anew, or by somebody else."""
        if partition not in self._latest_ms:  # no record of it was seen, and to look for its groups takes a while
            return
        self.diagnosis.forget(partition)
        if self._open_origins is not None:
            self._open_origins.forget(partition)
        self.counts.forget(partition)
        self.recent.forget(partition)
        self._latest_ms.pop(partition, None)
        if self._members is not None:
            self._members.forget(partition)

    def drop(self, partition: int) -> list[DiagnosisOutput]:
        """`forget` a partition that goes on nowhere: the findings that close with it, in groups that are
        remembered."""
        diagnosis = self.diagnosis.partition(partition)
        closed = [] if diagnosis is None else self._remembered(diagnosis.close())
        self.forget(partition)
        return closed

    def _record_outputs(self, outputs: list[DiagnosisOutput]) -> list[DiagnosisOutput]:
        """What is remembered of it, and counted."""
        remembered = self._remembered(outputs)
        self._keep(remembered, self._noted(remembered))
        return remembered

    def _remembered(self, outputs: Iterable[DiagnosisOutput]) -> list[DiagnosisOutput]:
        return [it for it in outputs if it.group is None or self._is_remembered(it.group)]

    def _noted(self, outputs: Iterable[DiagnosisOutput]) -> Sequence[NotedEvent]:
        return self.recent.note(outputs) if self._remembers else ()

    def _keep(self, outputs: Iterable[DiagnosisOutput], noted: Iterable[NotedEvent]) -> None:
        if self._remembers:
            self.counts.observe(outputs)
            self.recent.keep(noted)

    @property
    def partitions(self) -> Collection[int]:
        """The partitions of which a record was seen, ascending."""
        return sorted(self._latest_ms)

    def position(self, partition: int) -> ReplayPosition:
        """How far the state of a partition goes."""
        mirror = self.mirror.partitions.get(partition)
        if mirror is None:
            return ReplayPosition(0, 0)
        clock_ms = self.diagnosis.clock_ms(partition)
        return ReplayPosition(mirror.next_offset, self._latest_ms.get(partition, 0) if clock_ms is None else clock_ms)

    @property
    def judged_until_ms(self) -> int:
        """Up to when what spans partitions was judged."""
        return self.diagnosis.judged_until_ms

    # Snapshots.

    def capture(self, partition: int) -> Snapshot:
        """Copy what there is of a partition. Raises `KeyError` for one of which no record was seen."""
        captured = self._codec.capture(self.partition_state(partition))
        return self._snapshot(partition, self.position(partition), captured)

    def capture_cluster(self) -> Snapshot:
        """Copy what there is of what spans partitions."""
        captured = self._codec.capture_cluster(self.diagnosis, *self.cluster_parts())
        return self._snapshot(None, ReplayPosition(0, self.judged_until_ms), captured)

    def restore(
        self, partition: int, image: bytes, answers: AbstractContextManager[object] | None = None
    ) -> ReplayPosition:
        """Put a snapshot in place of what there is of a partition: read on from the position that it gives.
        `answers`: see `replay_batch`.

        Raises `SnapshotRefused`, and nothing is changed then.
        """
        header, plain = self._codec.open(image, SnapshotIdentity(*self.log, partition))
        parts = self._codec.restore(plain, partition, header.format)
        if parts.mirror.next_offset != header.next_offset:
            at = f"expected offset {header.next_offset}, got {parts.mirror.next_offset}"
            raise SnapshotRefused(RefusalReason.CORRUPT, f"the image is of another moment than its header: {at}")
        with nullcontext() if answers is None else answers:
            self.forget(partition)
            self.mirror.put(parts.mirror)
            if parts.diagnosis is not None:
                self.diagnosis.put(partition, parts.diagnosis)
            self.counts.partitions[partition] = parts.counts
            self.recent.put(partition, parts.recent)
            self._latest_ms[partition] = parts.clock_ms
            if self._members is not None:
                self._members.seed(parts.mirror)
            return self.position(partition)

    def restore_cluster(self, image: bytes) -> None:
        """Put a snapshot in place of what spans partitions. It may be of an earlier or a later moment than theirs.

        Raises `SnapshotRefused`, and nothing is changed then.
        """
        header, plain = self._codec.open(image, SnapshotIdentity(*self.log, None))
        counts, recent = self._codec.restore_cluster(plain, self.diagnosis, header.format)
        self.counts.partitions[None] = counts
        self.recent.put(None, recent)

    def partition_state(self, partition: int) -> PartitionState:
        """All that there is of a partition. Raises `KeyError` for one of which no record was seen."""
        counts = self.counts.partitions.get(partition, PartitionCounts())
        if self._open_origins is not None:
            counts = self._open_origins.with_open(partition, counts)
        return PartitionState(
            self.mirror.partitions[partition],
            self.diagnosis.partitions.get(partition),
            counts,
            self.recent.partitions.get(partition, PartitionRecentEvents()),
            self._latest_ms[partition],
        )

    def cluster_parts(self) -> tuple[PartitionCounts, PartitionRecentEvents]:
        """What is counted and remembered of what spans partitions."""
        return (
            self.counts.partitions.get(None, PartitionCounts()),
            self.recent.partitions.get(None, PartitionRecentEvents()),
        )

    def _snapshot(self, partition: int | None, at: ReplayPosition, captured: CapturedState) -> Snapshot:
        header = Header(SnapshotIdentity(*self.log, partition), self._codec.fingerprints(), *at, written_ms=0)
        return Snapshot(header, captured, self._codec)
