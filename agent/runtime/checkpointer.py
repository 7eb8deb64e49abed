"""Keeps the agent's state across restarts: a snapshot a partition, and how far its history is safe.

Owns when and in which order things are kept, and what of a kept state is fit to go on from. Refuses to know how a
state is encoded (`agent.persistence.snapshot`) and where it lies (a `Store`).

In a cycle each partition's state is imaged under the agent's locks, one at a time; then it is waited for that all
events of those states are safe with the sinks or in their spools; then it is noted how far they are; then the images
are stored. So no snapshot is ever ahead of the history.

A log that is compacted forgets: the tombstone of a group that was deleted goes a day later (`delete.retention.ms`).
Who reads on from an older snapshot would keep the group for ever, so such a snapshot is refused.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import AbstractContextManager
from datetime import UTC, datetime
from typing import NamedTuple

from agent.common import clock
from agent.common.collector import no_cycle_collection
from agent.common.memory import return_freed_memory
from agent.common.threads import BackgroundThread
from agent.core.records import LogId
from agent.kafka.source.progress import LogBounds
from agent.persistence.cluster_state import ClusterState, ReplayPosition, Snapshot
from agent.persistence.export.errors import PositionRefused
from agent.persistence.export.history_position import PartitionLog, decode_position, encode_position
from agent.persistence.export.pipeline import ExportPipeline
from agent.persistence.snapshot.envelope import Header, read_header
from agent.persistence.snapshot.errors import RefusalReason, SnapshotRefused, UnwritableState
from agent.persistence.snapshot.store import SnapshotStore, StoreError, StoreErrorReason
from agent.runtime.export_deduplicator import ExportDeduplicator
from agent.runtime.held_events import HeldEvents
from analyzers.formatting import count_text

log = logging.getLogger("kshadow")

INTERVAL_S = 60.0
FIRST_S = 10.0
MOST_OF_A_CORE = 0.1
"""What cycles may take of a core: with 100,000 groups one takes 15 s of it, and they come less often then."""
MAX_AGE_S = 23 * 3600.0
"""Kafka keeps a tombstone for a day at least (`delete.retention.ms`): less, for clocks and for reading."""
MAX_AHEAD_S = 3600.0
"""A snapshot that is dated further ahead was written by a clock that was wrong, or is read by one: how old it is
nobody knows."""
RENEW_S = 1800.0
"""A partition that nothing is written to is kept anew that often, so that its snapshot does not get too old."""
BARRIER_S = 30.0
"""For how long a cycle waits for the events to be safe; then it is given up, and the next one tries."""

LAST_BARRIER_S = 3.0
"""The same where the process ends: all of its stop has seconds, and the sinks need some of them."""

CLUSTER = "cluster"

_KEEPS = frozenset({StoreErrorReason.FULL, StoreErrorReason.DENIED, StoreErrorReason.MISCONFIGURED})
"""Why a store may refuse one snapshot and keep what is there."""

_SNAPSHOTS_REFUSED = "snapshots refused (%s), what they hold is read from the beginning: %s"
_POSITIONS_REFUSED = "history positions refused (%s), what the log shows is told again: %s"


class _ReaderFailed(Exception):
    """What is known is not kept: it may be known by half."""


class CheckpointReading(NamedTuple):
    """What is told of the snapshots: counts since the process began, and how it stands now."""

    oldest_age_s: float | None
    """Of the partitions that are read, the one kept longest ago; None before each was kept once."""
    writes: Mapping[str, int]
    """Partitions' snapshots by outcome: ok, failed."""
    refused: Mapping[str, int]
    """Snapshots that were not fit to go on from, by the reason's name."""
    restored: int
    """Partitions that went on from a snapshot."""
    error: str | None
    """Why the latest cycle failed; None if it did not."""


OpenStore = Callable[[str], SnapshotStore]
"""Gives the store for the cluster of that id. Raises `StoreError`."""


class _Stored(NamedTuple):
    """What is stored of a partition, since when (monotonic seconds), and by which wall clock it is dated."""

    position: ReplayPosition
    at_s: float
    wall_s: float


class _Image(NamedTuple):
    """A partition's state on its way to the store, and which log it is of."""

    position: ReplayPosition
    blob: bytes
    log_id: LogId
    cuts: int
    """How often that log had been cut."""
    wall_s: float
    """The wall clock by which it is dated."""


class _Ledger:
    """What is stored of which log, and under which names: shared by `Restorer` and `Checkpointer`."""

    def __init__(self, scope: str | None, exports: ExportPipeline | None) -> None:
        self.cluster = None if scope is None else f"{CLUSTER}-{scope}" if scope else CLUSTER
        self.store: SnapshotStore | None = None
        self.log_id: LogId | None = None
        self.stored: dict[int, _Stored] = {}
        # Held from a state's image to its place in the store: so that an older one never follows a newer one there.
        self.storing = threading.Lock()
        self._sinks = "" if exports is None else ".".join(sorted(exports.names))

    def partition_log(self, number: int | None) -> PartitionLog:
        """Which log a history position is of; None is what spans partitions."""
        assert self.log_id is not None, "partitions are taken in by `restore`"
        return PartitionLog(*self.log_id, -1 if number is None else number)

    def snapshot_name(self, number: int | None) -> str:
        """The name of a snapshot; None is what spans partitions."""
        return f"partition-{number}" if number is not None else self.cluster or ""

    def history_name(self, number: int | None) -> str:
        """The name of a history position. It is of these sinks together: another one is told everything anew."""
        return f"history-{self._sinks}-{self.cluster if number is None else number}"


class Restorer:
    """Goes on from what is stored, where the log still has what follows. Used in the reader's thread."""

    def __init__(
        self,
        ledger: _Ledger,
        open_store: OpenStore,
        state: ClusterState,
        lock: AbstractContextManager[object],
        exported: ExportDeduplicator,
        exports: ExportPipeline | None,
        max_age_s: float,
    ) -> None:
        """`open_store` is called once it is known which cluster it is. Snapshots older than `max_age_s` are
        refused."""
        self._ledger, self._open_store = ledger, open_store
        self._state, self._lock = state, lock
        self._deduplicator, self._exports, self._max_age_s = exported, exports, max_age_s
        self._has_cluster = False
        self._refusals: defaultdict[tuple[str, str], list[str]] = defaultdict(list)
        """By line of the log and reason: what was refused."""
        self.refused: Counter[str] = Counter()
        """Snapshots that were not fit to go on from, by reason."""
        self.restored = 0
        """Partitions that went on from a snapshot."""

    def restore(self, log_id: LogId, bounds: Mapping[int, LogBounds]) -> dict[int, int]:
        """Restore what is kept of these partitions; where to read on, for those that were restored.

        Raises `StoreError` where the store cannot be opened at first.
        """
        if self._ledger.log_id is None:
            self._ledger.store = self._open_store(log_id.cluster_id)
        elif self._ledger.log_id.cluster_id != log_id.cluster_id:
            self._open_other(log_id.cluster_id)
        if self._ledger.log_id != log_id:
            self._ledger.stored.clear()
            self._ledger.log_id = log_id
            with self._lock:
                self._state.log = log_id
        if self._ledger.store is None:
            return {}
        kept = [*bounds] if self._ledger.cluster is None else [*bounds, None]
        names = [*map(self._ledger.snapshot_name, kept), *map(self._ledger.history_name, kept)]
        try:
            blobs = self._ledger.store.load(names)
        except StoreError as error:
            self.refused[str(RefusalReason.UNREADABLE)] += len(bounds)
            log.error("snapshots cannot be read, so partitions are read from their beginnings: %s", error)
            return {}
        self._learn_exported([*bounds, None], blobs)
        if not self._has_cluster and self._ledger.cluster in blobs:
            self._restore_cluster(blobs[self._ledger.cluster])
        self._has_cluster = True
        began_s = time.monotonic()
        out: dict[int, int] = {}
        with no_cycle_collection():
            for number, it in bounds.items():
                blob = blobs.get(self._ledger.snapshot_name(number))
                if blob is not None and (position := self._restore(number, blob, it)) is not None:
                    out[number] = position.next_offset
        self._log_refusals()
        took_ms = round((time.monotonic() - began_s) * 1000)
        if out:
            log.info("%d of %d partitions go on from their snapshots (%d ms)", len(out), len(bounds), took_ms)
        return out

    def _open_other(self, cluster_id: str) -> None:
        """Another cluster answers: go on in the store for that one, or in none."""
        with self._ledger.storing:
            before, self._ledger.store = self._ledger.store, None
            if before is not None:
                before.close()
            try:
                self._ledger.store = self._open_store(cluster_id)
            except StoreError as error:
                log.error("no snapshots are kept until a restart: %s", error)

    def _restore(self, number: int, blob: bytes | StoreError, bounds: LogBounds) -> ReplayPosition | None:
        try:
            blob = _readable(blob)
            header, _ = read_header(blob)
            if header.identity[:2] == self._ledger.log_id:
                self._check(header, bounds)
            with self._lock:
                position = self._state.restore(number, blob)
        except SnapshotRefused as refusal:
            self._refuse(f"partition {number}", refusal)
            return None
        self.restored += 1
        age_s = max(0.0, time.time() - header.written_ms / 1000)
        self._ledger.stored[number] = _Stored(position, time.monotonic() - age_s, _wall_s())
        return position

    def _check(self, header: Header, bounds: LogBounds) -> None:
        """Whether the log still has what follows. Raises `Refused`."""
        offset, age_s = header.next_offset, time.time() - header.written_ms / 1000
        if not bounds.first <= offset <= bounds.end:
            raise SnapshotRefused(
                RefusalReason.OFFSET_GONE,
                f"expected an offset from {bounds.first} to {bounds.end} to go on at, got {offset}",
            )
        if age_s > self._max_age_s:
            raise SnapshotRefused(
                RefusalReason.TOO_OLD,
                f"expected an age of at most {self._max_age_s / 3600:g} h, got {age_s / 3600:.1f} h: the log may have"
                " dropped tombstones of groups that were deleted since",
            )
        if age_s < -MAX_AHEAD_S:
            raise SnapshotRefused(
                RefusalReason.DATED_AHEAD,
                f"expected a date of at most {MAX_AHEAD_S / 3600:g} h ahead of this machine's clock, got"
                f" {-age_s / 3600:.1f} h: the clock is wrong, or was when it was written, so its age is not known",
            )

    def _restore_cluster(self, blob: bytes | StoreError) -> None:
        try:
            image = _readable(blob)
            with self._lock:
                self._state.restore_cluster(image)
        except SnapshotRefused as refusal:
            self._refuse("the cluster's analyzers", refusal)

    def _refuse(self, what: str, refusal: SnapshotRefused) -> None:
        self.refused[str(refusal.reason)] += 1
        self._refusals[_SNAPSHOTS_REFUSED, str(refusal)].append(what)

    def _log_refusals(self) -> None:
        """After an upgrade, or where the topic was made anew, all are refused for the same reason: one line."""
        for (line, refusal), what in self._refusals.items():
            more = f" and {len(what) - 3} more" if len(what) > 3 else ""
            log.warning(line, ", ".join(what[:3]) + more, refusal)
        self._refusals.clear()

    def _learn_exported(self, partitions: Iterable[int | None], blobs: Mapping[str, bytes | StoreError]) -> None:
        """Up to where each partition's events are safe with the sinks (None: the cluster's)."""
        if self._exports is None:
            return
        for number in partitions:
            blob = blobs.get(self._ledger.history_name(number))
            if blob is None:
                continue
            try:
                safe = decode_position(_readable(blob), self._ledger.partition_log(number))
            except (PositionRefused, SnapshotRefused) as refusal:
                what = "the cluster's findings" if number is None else f"partition {number}"
                self._refusals[_POSITIONS_REFUSED, str(refusal)].append(what)
                continue
            with self._lock:
                self._deduplicator.mark_exported(number, safe)


def _wall_s() -> float:
    """What the wall clock shows when the monotonic one shows 0: another number once it was set."""
    return time.time() - time.monotonic()


def _readable(stored: bytes | StoreError) -> bytes:
    if isinstance(stored, StoreError):
        raise SnapshotRefused(RefusalReason.UNREADABLE, str(stored)) from stored
    return stored


class Checkpointer(BackgroundThread):
    """Keeps what is known every `interval_s`, or as often as `MOST_OF_A_CORE` allows, from `start` to `finish`.

    `partitions_revoked`, `log_cut` and `restorer` are called in the reader's thread.
    """

    def __init__(
        self,
        open_store: OpenStore,
        state: ClusterState,
        lock: AbstractContextManager[object],
        exported: ExportDeduplicator,
        exports: ExportPipeline | None,
        held: HeldEvents | None = None,
        *,
        is_current: Callable[[int], bool],
        scope: str | None = "",
        interval_s: float = INTERVAL_S,
        max_age_s: float = MAX_AGE_S,
    ) -> None:
        """`open_store` is called once it is known which cluster it is. `lock` is held while `state` and `exported`
        change or are imaged. `held`: where events wait before they reach `exports`. `is_current`: whether a partition
        is read to its end, but for what is on its way.

        `scope` names the partitions that are read, where several agents keep theirs in one place: what spans them is
        each one's own. None: they come and go, so it is not kept."""
        super().__init__("snapshots")
        self._ledger = _Ledger(scope, exports)
        self.restorer = Restorer(self._ledger, open_store, state, lock, exported, exports, max_age_s)
        self._state, self._lock = state, lock
        self._exports, self._held = exports, held
        self._is_current = is_current
        self._interval_s = interval_s
        self._writes = Counter({"ok": 0, "failed": 0})
        self._error: str | None = None
        self._failed_by: BaseException | None = None
        """What the reader failed by as it applied what came."""
        self._said: set[str] = set()
        self._perhaps_gone: set[int] = set()
        """Partitions whose snapshots were stored before the store failed, or before it worked again: the directory or
        the topic may be another by now, or was cleared to make room."""
        # By partition how often its log was cut; None, what spans partitions, is of none.
        self._cuts: Counter[int | None] = Counter()
        # Held while what is stored of one is replaced or deleted: not for long, as `storing` may be.
        self._replacing = threading.Lock()

    def finish(self, timeout_s: float) -> bool:
        """Stop, keep what is known once more, and let go of the store; whether all that was known is kept."""
        deadline = time.monotonic() + timeout_s
        self.request_stop()
        self.join(timeout_s / 2)
        self.save(self._partitions(), max(1.0, deadline - time.monotonic()), is_last=True)
        if self._ledger.store is not None:
            self._ledger.store.close()
        # That of partitions that were given up before, too.
        return self._error is None

    def reader_failed(self, why: BaseException) -> None:
        """Half of what came may be applied, of which nobody was told: nothing is kept any more, so that the next
        start goes on from before it."""
        self._failed_by = why

    def _require_whole(self) -> None:
        if self._failed_by is not None:
            raise _ReaderFailed(f"the reader failed as it applied what came: {self._failed_by!r}")

    def reading(self) -> CheckpointReading:
        """How it goes."""
        now_s = time.monotonic()
        partitions = self._partitions()
        ages = [now_s - self._ledger.stored[number].at_s for number in partitions if number in self._ledger.stored]
        is_whole = bool(ages) and len(ages) == len(partitions)
        return CheckpointReading(
            max(ages) if is_whole else None,
            dict(self._writes),
            dict(self.restorer.refused),
            self.restorer.restored,
            self._error,
        )

    def _partitions(self) -> list[int]:
        return list(self._state.partitions)

    def _run(self) -> None:
        # The first one soon: what took long to read need not be read again.
        wait_s = min(self._interval_s, FIRST_S)
        while not self._stop.wait(wait_s):
            began_s = time.thread_time()
            self.save(self._partitions(), BARRIER_S)
            return_freed_memory()  # what the images took
            wait_s = max(self._interval_s, (time.thread_time() - began_s) / MOST_OF_A_CORE)

    def save(self, partitions: Collection[int], timeout_s: float, *, is_last: bool = False) -> bool:
        """One cycle over these, those that changed; whether all of it is stored. `is_last`: none follows, so origins
        that are open are settled with what is known, rather than waited for."""
        store = self._ledger.store
        if store is None:
            return False
        if not partitions:
            # That nothing is left to keep does not end a trouble.
            return True
        with self._ledger.storing:
            try:
                self._require_whole()
                if is_last:
                    self._settle(all_of_them=True)
                self._heed_missing(store)
                images, unwritable = self._images(partitions)
                is_given_up = self._stop.is_set if not is_last else lambda: False
                if self._exports is not None and not self._wait_durable(timeout_s, is_given_up):
                    if is_given_up():
                        # The last cycle waits for this one, and tells how that ended.
                        return False
                    raise StoreError(StoreErrorReason.UNREACHABLE, f"history is not safe after {timeout_s:.0f} s")
                self._save(store, images)
                if unwritable is not None:
                    raise unwritable
            except (StoreError, UnwritableState, _ReaderFailed) as error:
                self._writes["failed"] += 1
                if is_last:
                    self._say_unsaved(partitions, error)
                elif self._error is None:
                    log.error("snapshots fail, and are tried again every %g s: %s", self._interval_s, error)
                self._error = str(error)
                return False
        if self._error is not None:
            log.info("snapshots are kept again")
            self._error = None
            self._perhaps_gone.update(self._ledger.stored.keys() - images.keys())
        return True

    def partitions_revoked(self, partitions: Collection[int], *, lost: bool) -> None:
        """These are another's next: kept once more, unless they are lost."""
        if not lost:
            self.save(partitions, LAST_BARRIER_S if self._stop.is_set() else BARRIER_S, is_last=True)
        for number in partitions:
            self._ledger.stored.pop(number, None)

    def log_cut(self, number: int) -> None:
        """Records of a partition are gone from its log, and its state was forgotten: so what is stored of it, and
        what is on its way there, is of a log that there is no more. Nobody goes on from that."""
        store = self._ledger.store
        if store is None:
            return
        with self._replacing:
            self._cuts[number] += 1
            self._ledger.stored.pop(number, None)
            try:
                store.delete(self._ledger.snapshot_name(number))
            except StoreError as error:
                log.error(
                    "partition %d: the snapshot of before its log was cut cannot be deleted; until the next one, a"
                    " restart goes on from it: %s", number, error,
                )  # fmt: skip

    def _heed_missing(self, store: SnapshotStore) -> None:
        names = {self._ledger.snapshot_name(number): number for number in list(self._ledger.stored)}
        if missing := store.missing(names):
            self._perhaps_gone.update(names[it] for it in missing)
            log.warning(
                "snapshots of %s were deleted or moved; they are stored again", count_text(len(missing), "partition")
            )

    def _settle(self, *, all_of_them: bool) -> None:
        with self._lock:
            self._state.settle_origins(time.monotonic(), all_of_them=all_of_them)
            if self._held is not None:
                self._held.release(all_of_them=all_of_them)

    def _wait_durable(self, timeout_s: float, is_given_up: Callable[[], bool]) -> bool:
        """Whether all events of the states that were imaged are safe."""
        assert self._exports is not None, "asked only then"
        deadline = time.monotonic() + timeout_s
        if self._held is not None and not self._held.wait_released(
            self._lock, lambda: self._state.settle_origins(time.monotonic()), timeout_s, is_given_up
        ):
            return False
        return self._exports.wait_durable(max(deadline - time.monotonic(), 0.0), is_given_up)

    def _images(self, partitions: Collection[int]) -> tuple[dict[int | None, _Image], UnwritableState | None]:
        """The partitions that changed, by number, and if any did, under None what spans them; without those that
        cannot be written, and why the first of them cannot. They keep nobody from the others' images."""
        out: dict[int | None, _Image] = {}
        unwritable: UnwritableState | None = None

        def add(number: int | None, position: ReplayPosition, snapshot: Snapshot, as_of_ms: int, cuts: int) -> None:
            nonlocal unwritable
            try:
                blob = snapshot.encode(as_of_ms)
            except UnwritableState as error:
                unwritable = unwritable or error
            else:
                out[number] = _Image(position, blob, LogId(*snapshot.header.identity[:2]), cuts, wall_s)

        now_s, wall_s = time.monotonic(), _wall_s()
        for number in sorted(partitions):
            with self._lock:
                if number not in self._state.partitions:
                    continue
                position, kept = self._state.position(number), self._ledger.stored.get(number)
                is_kept = (
                    kept is not None
                    and kept.position == position
                    and now_s - kept.at_s < RENEW_S
                    # Else its date is that of a clock that was wrong, and a restart would refuse it.
                    and abs(wall_s - kept.wall_s) < RENEW_S
                )
                if is_kept and number not in self._perhaps_gone:
                    continue
                snapshot, cuts = self._state.capture(number), self._cuts[number]
            # Far behind the end, a state is as old as its last record: that is what its age is told by.
            now_ms = clock.now_ms()
            as_of_ms = now_ms if self._is_current(number) else min(now_ms, position.clock_ms)
            self._say_left_out(snapshot)
            add(number, position, snapshot, as_of_ms, cuts)
        if out and self._ledger.cluster is not None:
            with self._lock:
                snapshot, until_ms = self._state.capture_cluster(), self._state.judged_until_ms
            add(None, ReplayPosition(0, until_ms), snapshot, clock.now_ms(), 0)
        return out, unwritable

    def _say_unsaved(self, partitions: Collection[int], error: Exception) -> None:
        """What is lost where a last snapshot fails, and from where it is read again."""
        with self._lock:
            positions = {it: self._state.position(it) for it in sorted(partitions) if it in self._state.partitions}
        stored = {number: self._ledger.stored.get(number) for number in positions}
        unsaved = {number: it for number, it in stored.items() if it is None or it.position != positions[number]}
        if not unsaved:
            log.error("the last snapshot failed: %s", error)
            return
        ages_s = [time.monotonic() - it.at_s for it in unsaved.values() if it is not None]
        since = "the beginning of each"
        if ages_s:
            oldest = datetime.fromtimestamp(time.time() - max(ages_s), UTC)
            since = f"the last snapshot of {oldest:%Y-%m-%d %H:%M} UTC"
            if len(ages_s) < len(unsaved):
                since += ", those that have none from their beginning"
        log.error(
            "the state of partitions %s is not saved; they are read again from %s: %s",
            list(unsaved), since, error,
        )  # fmt: skip

    def _say_left_out(self, snapshot: Snapshot) -> None:
        for name, what in snapshot.omitted_analyzers.items():
            if name not in self._said:
                self._said.add(name)
                log.warning("analyzer %s begins anew after a restart: snapshots cannot hold its %s", name, what)

    def _save(self, store: SnapshotStore, images: Mapping[int | None, _Image]) -> None:
        """Store those that can be. Raises the first `StoreError` then."""
        failed: StoreError | None = None
        for number, it in images.items():
            self._require_whole()
            with self._replacing:
                if it.log_id != self._ledger.log_id or it.cuts != self._cuts[number]:
                    # The topic was made anew meanwhile, or its log was cut: of what is there now it would tell a lie.
                    continue
                try:
                    if self._exports is not None:
                        position = encode_position(it.position, self._ledger.partition_log(number))
                        store.save(self._ledger.history_name(number), position)
                    store.save(self._ledger.snapshot_name(number), it.blob)
                except StoreError as error:
                    if error.reason not in _KEEPS:
                        self._perhaps_gone.update(self._ledger.stored)
                    if error.reason is StoreErrorReason.UNREACHABLE:
                        # Each of the others would be waited for as long.
                        raise
                    failed = failed or error
                    continue
                if number is not None:
                    self._ledger.stored[number] = _Stored(it.position, time.monotonic(), it.wall_s)
                    self._perhaps_gone.discard(number)
                    self._writes["ok"] += 1
        if failed is not None:
            raise failed
