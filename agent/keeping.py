"""Keeps the agent's state across restarts: a snapshot a partition, and how far its history is safe.

Owns when and in which order things are kept, and what of a kept state is fit to go on from. Refuses to know how a
state is encoded (`agent.snapshot`) and where it lies (a `Store`).

In a cycle each partition's state is imaged under the agent's lock, one at a time; then it is waited for that all
events of those states are safe with the sinks or in their spools; then it is noted how far they are; then the images
are stored. So no snapshot is ever ahead of the history.

A log that is compacted forgets: the tombstone of a group that was deleted goes a day later (`delete.retention.ms`).
Who reads on from an older snapshot would keep the group for ever, so such a snapshot is refused.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import NamedTuple

from agent.export.errors import PositionRefused
from agent.export.pipeline import Exports
from agent.export.position import Log, decode, encode
from agent.exported import Exported
from agent.records import LogId
from agent.snapshot.container import Header, read
from agent.snapshot.errors import Kind, Refused, Unwritable
from agent.snapshot.store import Reason, Store, StoreError
from agent.source.progress import Bounds
from agent.state import ClusterState, Position, Snapshot

log = logging.getLogger("kshadow")

INTERVAL_S = 60.0
FIRST_S = 10.0
MAX_AGE_S = 23 * 3600.0
"""Kafka keeps a tombstone for a day at least (`delete.retention.ms`): less, for clocks and for reading."""
RENEW_S = 1800.0
"""A partition that nothing is written to is kept anew that often, so that its snapshot does not get too old."""
BARRIER_S = 30.0
"""For how long a cycle waits for the events to be safe; then it is given up, and the next one tries."""

CLUSTER = "cluster"


class KeptReading(NamedTuple):
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


OpenStore = Callable[[str], Store]
"""Gives the store for the cluster of that id. Raises `StoreError`."""


class _Kept(NamedTuple):
    """What is stored of a partition, and since when (monotonic seconds)."""

    position: Position
    at_s: float


class _Image(NamedTuple):
    """A partition's state on its way to the store."""

    position: Position
    blob: bytes


class Keeper:
    """Started and stopped by the agent. `starts` and `given_up` are called in the reader's thread."""

    def __init__(
        self,
        open_store: OpenStore,
        state: ClusterState,
        lock: threading.Lock,
        exported: Exported,
        exports: Exports | None,
        *,
        is_current: Callable[[int], bool],
        scope: str | None = "",
        interval_s: float = INTERVAL_S,
        max_age_s: float = MAX_AGE_S,
    ) -> None:
        """`open_store` is called once it is known which cluster it is. `lock` is what `state` and `exported` are used
        under. `is_current`: whether a partition is read to its end, but for what is on its way.

        `scope` names the partitions that are read, where several agents keep theirs in one place: what spans them is
        each one's own. None: they come and go, so it is not kept."""
        self._open_store = open_store
        self._store: Store | None = None
        self._state, self._lock = state, lock
        self._exported, self._exports = exported, exports
        self._is_current = is_current
        self._cluster = None if scope is None else f"{CLUSTER}-{scope}" if scope else CLUSTER
        self._interval_s, self._max_age_s = interval_s, max_age_s
        self._log_id: LogId | None = None
        self._kept: dict[int, _Kept] = {}
        self._writes = Counter({"ok": 0, "failed": 0})
        self._refused: Counter[str] = Counter()
        self._restored = 0
        self._has_cluster = False
        self._error: str | None = None
        self._said: set[str] = set()
        # Held from a state's image to its place in the store: so that an older one never follows a newer one there.
        self._storing = threading.Lock()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="snapshots", daemon=True)

    def start(self) -> None:
        """Keep what is known every `interval_s`, in a thread."""
        self._thread.start()

    def stop(self, timeout_s: float) -> None:
        """Keep it once more, and let go of the store."""
        deadline = time.monotonic() + timeout_s
        self._stop.set()
        if self._thread.is_alive():
            self._thread.join(timeout_s / 2)
        self.keep(self._partitions(), max(1.0, deadline - time.monotonic()))
        if self._store is not None:
            self._store.close()

    def reading(self) -> KeptReading:
        """How it goes."""
        now_s = time.monotonic()
        partitions = self._partitions()
        ages = [now_s - self._kept[number].at_s for number in partitions if number in self._kept]
        is_whole = bool(ages) and len(ages) == len(partitions)
        return KeptReading(
            max(ages) if is_whole else None, dict(self._writes), dict(self._refused), self._restored, self._error
        )

    def _partitions(self) -> list[int]:
        with self._lock:
            return list(self._state.partitions)

    # Going on from what is kept.

    def starts(self, log_id: LogId, bounds: Mapping[int, Bounds]) -> dict[int, int]:
        """Restore what is kept of these partitions; where to read on, for those that were restored.

        Raises `StoreError` where the store cannot be opened.
        """
        if self._store is None:
            self._store = self._open_store(log_id.cluster_id)
        if self._log_id != log_id:
            self._kept.clear()
            self._log_id = log_id
            with self._lock:
                self._state.log = log_id
        names = [name for number in bounds for name in (_partition(number), self._history(number))]
        try:
            own = [] if self._cluster is None else [self._cluster, self._history(None)]
            blobs = self._store.load([*names, *own])
        except StoreError as error:
            self._refused["unreadable"] += len(bounds)
            log.error("snapshots cannot be read, so partitions are read from their beginnings: %s", error)
            return {}
        self._learn_exported([*bounds, None], blobs)
        if not self._has_cluster and self._cluster in blobs:
            self._restore_cluster(blobs[self._cluster])
        self._has_cluster = True
        began_s = time.monotonic()
        out: dict[int, int] = {}
        for number, it in bounds.items():
            blob = blobs.get(_partition(number))
            if blob is not None and (position := self._restore(number, blob, it)) is not None:
                out[number] = position.next_offset
        took_ms = round((time.monotonic() - began_s) * 1000)
        if out:
            log.info("%d of %d partitions go on from their snapshots (%d ms)", len(out), len(bounds), took_ms)
        return out

    def _restore(self, number: int, blob: bytes, bounds: Bounds) -> Position | None:
        try:
            header, _ = read(blob)
            if header.identity[:2] == self._log_id:
                self._check(header, bounds)
            with self._lock:
                position = self._state.restore(number, blob)
        except Refused as refusal:
            self._refuse(f"partition {number}", refusal, "it is read from its beginning")
            return None
        self._restored += 1
        age_s = max(0.0, time.time() - header.written_ms / 1000)
        self._kept[number] = _Kept(position, time.monotonic() - age_s)
        return position

    def _check(self, header: Header, bounds: Bounds) -> None:
        """Whether the log still has what follows. Raises `Refused`."""
        offset, age_s = header.next_offset, time.time() - header.written_ms / 1000
        if not bounds.first <= offset <= bounds.end:
            raise Refused(
                Kind.OFFSET_GONE, f"an offset from {bounds.first} to {bounds.end} to go on at expected, {offset} came"
            )
        if age_s > self._max_age_s:
            raise Refused(
                Kind.TOO_OLD,
                f"at most {self._max_age_s / 3600:g} hours old expected, {age_s / 3600:.1f} came: the log may have"
                " dropped tombstones of groups that were deleted since",
            )

    def _restore_cluster(self, blob: bytes) -> None:
        try:
            with self._lock:
                self._state.restore_cluster(blob)
        except Refused as refusal:
            self._refuse("the cluster's analyzers", refusal, "they begin anew")

    def _refuse(self, what: str, refusal: Refused, then: str) -> None:
        self._refused[str(refusal.kind)] += 1
        log.warning("snapshot of %s refused, %s: %s", what, then, refusal)

    def _learn_exported(self, partitions: Iterable[int | None], blobs: Mapping[str, bytes]) -> None:
        """Up to where each partition's events are safe with the sinks (None: the cluster's)."""
        if self._exports is None:
            return
        for number in partitions:
            blob = blobs.get(self._history(number))
            if blob is None:
                continue
            try:
                safe = decode(blob, self._log(number))
            except PositionRefused as refusal:
                log.warning("%s; what the log shows is told again", refusal)
                continue
            with self._lock:
                if number is None:
                    self._exported.learn_cluster(safe.clock_ms)
                else:
                    self._exported.learn(number, safe)

    def _log(self, number: int | None) -> Log:
        assert self._log_id is not None, "partitions are taken in by `starts`"
        return Log(*self._log_id, -1 if number is None else number)

    def _history(self, number: int | None) -> str:
        """The name of a history position. It is of these sinks together: another one is told everything anew."""
        sinks = "" if self._exports is None else ".".join(sorted(self._exports.names))
        return f"history-{sinks}-{self._cluster if number is None else number}"

    # Keeping.

    def _run(self) -> None:
        # The first one soon: what took long to read need not be read again.
        wait_s = min(self._interval_s, FIRST_S)
        while not self._stop.wait(wait_s):
            self.keep(self._partitions(), BARRIER_S)
            wait_s = self._interval_s

    def keep(self, partitions: Collection[int], timeout_s: float) -> bool:
        """One cycle over these, those that changed; whether all of it is stored."""
        store = self._store
        if store is None:
            return False
        with self._storing:
            try:
                images = self._images(partitions)
                cluster = self._cluster_image() if images and self._cluster is not None else None
                if self._exports is not None and not self._exports.barrier(timeout_s):
                    raise StoreError(Reason.UNREACHABLE, f"history is not safe after {timeout_s:g} s")
                self._save(store, images, cluster)
            except (StoreError, Unwritable) as error:
                self._writes["failed"] += 1
                if self._error is None:
                    log.error("snapshots fail, and are tried again every %g s: %s", self._interval_s, error)
                self._error = str(error)
                return False
        if self._error is not None:
            log.info("snapshots are kept again")
            self._error = None
        return True

    def given_up(self, partitions: Collection[int], *, lost: bool) -> None:
        """These are another's next: kept once more, unless they are lost."""
        if not lost:
            self.keep(partitions, BARRIER_S)
        for number in partitions:
            self._kept.pop(number, None)

    def _images(self, partitions: Collection[int]) -> dict[int, _Image]:
        out: dict[int, _Image] = {}
        now_s = time.monotonic()
        for number in sorted(partitions):
            with self._lock:
                if number not in self._state.partitions:
                    continue
                position, kept = self._state.position(number), self._kept.get(number)
                if kept is not None and kept.position == position and now_s - kept.at_s < RENEW_S:
                    continue
                snapshot = self._state.capture(number)
            # Far behind the end, a state is as old as its last record: that is what its age is told by.
            now_ms = time.time_ns() // 1_000_000
            as_of_ms = now_ms if self._is_current(number) else min(now_ms, position.clock_ms)
            self._say_left_out(snapshot)
            out[number] = _Image(position, snapshot.encode(as_of_ms))
        return out

    def _cluster_image(self) -> _Image:
        with self._lock:
            snapshot, until_ms = self._state.capture_cluster(), self._state.judged_until_ms
        return _Image(Position(0, until_ms), snapshot.encode(time.time_ns() // 1_000_000))

    def _say_left_out(self, snapshot: Snapshot) -> None:
        for name, what in snapshot.left_out.items():
            if name not in self._said:
                self._said.add(name)
                log.warning("analyzer %s begins anew after a restart: snapshots cannot hold its %s", name, what)

    def _save(self, store: Store, images: Mapping[int, _Image], cluster: _Image | None) -> None:
        for number, it in images.items():
            if self._exports is not None:
                store.save(self._history(number), encode(it.position, self._log(number)))
            store.save(_partition(number), it.blob)
            self._kept[number] = _Kept(it.position, time.monotonic())
            self._writes["ok"] += 1
        if cluster is not None:
            assert self._cluster is not None, "what spans partitions is imaged where it has a name"
            if self._exports is not None:
                store.save(self._history(None), encode(cluster.position, self._log(None)))
            store.save(self._cluster, cluster.blob)


def _partition(number: int) -> str:
    return f"partition-{number}"
