"""The reader's thread: applies what the topic holds to the state, lets time pass, and hands on what happened.

A batch is applied under the lock (some milliseconds), but for what a record makes of a large group: that is worked
out before. Whoever asks holds the lock for one partition at a time, so neither waits long.
"""

from __future__ import annotations

import logging
import math
import socket
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress

from agent.common.collector import leave_out_what_is_there, no_cycle_collection
from agent.common.pacing import StandstillDetector
from agent.common.threads import BackgroundThread
from agent.core.diagnosis.engine import DiagnosisOutput
from agent.core.record_time import Context
from agent.core.records import RecordBatch
from agent.core.shadow.mirror import RejectedRecord
from agent.core.shadow.transitions import Transition
from agent.kafka.source.errors import SourceError
from agent.kafka.source.progress import (
    GroupsBegunAnew,
    OffsetReset,
    PartitionCountChanged,
    ReaderNotice,
    TopicRecreated,
)
from agent.kafka.source.shared import SharedTopicReader
from agent.kafka.source.topic import TopicReader
from agent.persistence.export.log_clock import LogClock
from agent.runtime.bulk_catch_up import read_in_bulk
from agent.runtime.parts import AgentParts
from agent.runtime.shared_catch_up import Here, Stopped, plan_sharing, share_catch_up
from agent.runtime.shared_pieces import PieceRead
from analyzers.formatting import count_text

log = logging.getLogger("kshadow")

ADVANCE_S = 1.0
"""How often time passes for partitions that nothing is written to."""

GRACE_S = 5.0
"""How far event time stays behind the clock on the wall then: records on their way, brokers' clocks."""

BULK_AGAIN_S = 5.0
"""After what is read in bulk was broken off, for so long the rest is read record by record."""

POLL_S = 0.5
"""How long one poll waits: the longest that a stop takes to be noticed."""


class ReaderLoop(BackgroundThread):
    """Reads until stopped: no more once the batch under way was applied."""

    def __init__(self, parts: AgentParts, on_caught_up: Callable[[], None]) -> None:
        """`on_caught_up` is called once, in the reader's thread, when the topic was read to its end."""
        super().__init__("reader")
        self._parts, self._on_caught_up = parts, on_caught_up
        self._reader, self._state, self._exclusive = parts.reader, parts.state, parts.exclusive
        self._exports, self._observer, self._held = parts.options.exports, parts.options.observer, parts.held
        self._shows_group = parts.options.visibility.shows_group
        self.has_caught_up = False
        self.ended_by: BaseException | None = None
        """What ended it before it was to end. It is not tried again: what it was about may be done by half."""
        self.partitions_changed: PartitionCountChanged | None = None
        """That the topic got more partitions, the last time that it did."""
        # Whether what brought the reader to the ends of all partitions reached the mirror.
        self._is_applied = False
        self._stopped_s: float | None = None
        """Since when reading does not work, on the steady clock; None while it does."""
        self._told_errors: set[type[SourceError]] = set()
        """What kinds of reasons were told since then."""
        self._advance_at = self._bulk_at = 0.0
        self._standstill = StandstillDetector()
        self._event_clock = parts.event_clock
        self._lookahead = parts.lookahead
        settings = parts.options.settings
        self._tells_time = not (settings.read.partitions or settings.read.groups or settings.read.share_group)
        shard = None if settings.read.shard is None else settings.read.shard.resolve(socket.gethostname())
        self._shard = None if shard is None or shard.index is None else (shard.index, shard.count)

    @property
    def is_whole(self) -> bool:
        """Whether all is applied that had been written when reading began, or began to work again."""
        is_read = self._reader.caught_up and all(self._reader.current_partitions.values())
        return is_read and self._is_applied and self.has_caught_up

    @property
    def standstill(self) -> str | None:
        """That nothing was read for long, as right after the process was stopped; None while that goes on."""
        idle_s = self._standstill.idle_s(time.monotonic())
        return f"nothing was read for {idle_s:.0f} s" if idle_s else None

    def _run(self) -> None:
        try:
            sharing = plan_sharing(self._parts)
            if sharing is not None:
                with suppress(Stopped):
                    here = Here(self._latest_ms, self._take_piece, self._read_what_is_long, self._read_beside_others)
                    share_catch_up(self._parts, sharing, here)
            while not self._stop.is_set():
                self._read_in_bulk()
                self._step(POLL_S)
        except BaseException as error:
            # A dead reader must show in /healthz, whatever killed it.
            self.ended_by = error
            log.exception("the reader stopped; the agent is blind")

    # What `read_in_bulk` reads.

    def take(self, batch: RecordBatch, next_ms: Sequence[int]) -> bool:
        """Apply what was read."""
        with self._applying():
            self._apply(batch, Context(next_ms, self._latest_ms()))
        self._wait_for_sinks()
        leave_out_what_is_there()
        return True

    def next_offset(self, partition: int) -> int:
        """Where a partition goes on."""
        return self._state.position(partition).next_offset

    def let_go(self, partition: int) -> None:
        """What is held back comes again."""
        self._lookahead.forget(partition)

    @property
    def wants_no_more(self) -> bool:
        """Whether this is to stop."""
        return self._stop.is_set()

    def _read_in_bulk(self) -> None:
        """As the reading begins; and until the end was reached, again after an outage."""
        if self.has_caught_up or time.monotonic() < self._bulk_at or not self._reader.healthy:
            return
        if isinstance(self._reader, SharedTopicReader):
            return
        is_to_be_tried_again = self._read_what_is_long(lambda: None)
        self._bulk_at = time.monotonic() + BULK_AGAIN_S if is_to_be_tried_again else math.inf

    def _read_what_is_long(self, also: Callable[[], None]) -> bool:
        """As `read_in_bulk` does, with whatever else there is to read meanwhile. `also`: what else is to be done."""
        reader = self._reader
        if not isinstance(reader, TopicReader):
            return False

        def meanwhile() -> None:
            self._step(0.0)
            also()

        try:
            return read_in_bulk(reader, self._parts.options.conf, self, meanwhile)
        finally:
            for mirror in self._state.mirror.partitions.values():
                mirror.offsets.forget_index()

    def _read_beside_others(self, timeout_s: float) -> None:
        """Read what is not shared."""
        if self._stop.is_set():
            raise Stopped
        self._step(timeout_s)

    @contextmanager
    def _applying(self) -> Iterator[None]:
        """What fails in between may have applied half of what came."""
        try:
            yield
        except BaseException as error:
            if self._parts.checkpointer is not None:
                self._parts.checkpointer.reader_failed(error)
            raise

    def _step(self, timeout_s: float) -> None:
        batches = self._reader.poll(timeout_s)
        with self._applying():
            self._take_in(batches)

    def _take_in(self, batches: Sequence[RecordBatch]) -> None:
        self._standstill.lasted_s(time.monotonic())
        current = self._reader.current_partitions
        last = {batch.partition: batch for batch in batches if current.get(batch.partition, True)}
        for batch in batches:
            self._read(batch, is_last=batch is last.get(batch.partition))
        self._take(lambda partition: current.get(partition, True))
        for notice in self._reader.take_notices():
            self._handle_notice(notice)
        self._tell_health()
        self._is_applied = all(current.values())
        if not self.has_caught_up:
            if batches:
                leave_out_what_is_there()
            if self._reader.caught_up:
                self._catch_up()
        self._settle_origins()
        self._advance_time()

    def _tell_health(self) -> None:
        """Say once that reading has stopped, once more for each other kind of reason, as that a broker is back and
        refuses the password, and once that it works again."""
        error, now_s = self._reader.last_error, time.monotonic()
        if error is not None and type(error) not in self._told_errors:
            if self._stopped_s is None:
                self._stopped_s = now_s
            self._told_errors.add(type(error))
            what = self._parts.what_has_stopped
            log.warning("%s has stopped: %s; it goes on once that is over", what, error)
        elif error is None and self._stopped_s is not None:
            log.info("reading works again, after %.0f s", now_s - self._stopped_s)
            self._stopped_s = None
            self._told_errors.clear()

    def _catch_up(self) -> None:
        if self._parts.transactions is not None:
            self._parts.transactions.look(time.monotonic())
        self.has_caught_up = True
        groups = sum(len(it.groups) for it in self._state.mirror.partitions.values())
        log.info("caught up: %s", count_text(groups, "group"))
        self._on_caught_up()

    def _read(self, batch: RecordBatch, *, is_last: bool) -> None:
        """Apply a batch: at once, or, while more of its partition is there to be read, once it is known what follows
        it."""
        for held, context in self._lookahead.put(batch, self._latest_ms(), is_last=is_last):
            self._apply(held, context)
        self._wait_for_sinks()

    def _take(self, of: Callable[[int], bool]) -> None:
        """Apply what is held back of partitions that were read to their ends."""
        for batch, context in self._lookahead.take(self._latest_ms(), of=of):
            self._apply(batch, context)

    def _latest_ms(self) -> int:
        """The latest time that a record can honestly have."""
        return self._event_clock.latest_ms(time.monotonic(), self._wall_ms())

    def _settle_origins(self) -> None:
        """What happened to the pods of members that left may come to be known a little later."""
        if self._parts.options.origin_source is None:
            return
        with self._exclusive:
            self._state.settle_origins(time.monotonic())
            if self._held is not None:
                self._held.release()

    def _wall_ms(self) -> int:
        return round(self._parts.options.wall_s() * 1000)

    def _apply(self, batch: RecordBatch, context: Context) -> None:
        newest_ms = batch.timestamps_ms[-1]
        self._note_time(batch.partition, newest_ms)
        if self.has_caught_up:
            self._event_clock.record_arrived(newest_ms, time.monotonic(), context.latest_ms)
        lock = self._parts.lock
        with self._parts.writing:
            outputs = self._state.replay_batch(batch, context, lock)
            with lock:
                self._state.observe_origins(outputs, time.monotonic(), self._wall_ms())
                rejects = self._state.take_rejects(batch.partition)
            self._export(outputs)
            self._parts.deduplicator.advance(batch.partition, self._state.position(batch.partition))
        self._notify(outputs)
        self._tell({it.group for it in outputs if isinstance(it, Transition)}, rejects)

    def _take_piece(self, piece: PieceRead) -> None:
        """What another process has read, as if it had been read here."""
        parts, number = self._parts, piece.partition
        self._note_time(number, piece.last_ms)
        with no_cycle_collection(), parts.writing:
            # Where it is refused nothing has changed.
            self._state.restore(number, piece.image, parts.lock)
            with self._applying():
                with parts.lock:
                    parts.recordings.put(self._state.mirror.partition(number), piece.recordings)
                self._export(piece.outputs)
                parts.deduplicator.advance(number, self._state.position(number))
        self._tell(piece.groups, piece.rejects)
        self._wait_for_sinks()

    def _note_time(self, partition: int, newest_ms: int) -> None:
        """Records of a partition came, the last of that time, and are about to be applied."""
        if self._observer is not None:
            self._observer.record_arrived(partition, newest_ms)
        self._event_clock.record_read(partition, newest_ms, time.monotonic())

    def _tell(self, groups: Collection[str], rejects: Iterable[RejectedRecord]) -> None:
        """Say which groups have changed, and what could not be decoded."""
        if self._observer is not None:
            self._observer.groups_changed(groups)
        for reject in rejects:
            at = reject.at
            log.warning("partition %d offset %d: %s: %s", at.partition, at.offset, reject.error.kind, reject.error)

    def _handle_notice(self, notice: ReaderNotice) -> None:
        """News that what was mirrored is not what the log holds."""
        log.warning("%s", notice)
        deduplicator = self._parts.deduplicator
        match notice:
            case OffsetReset(partition=partition):
                self._lookahead.forget(partition)
                # It may be gone from the log: begin that partition anew, without telling again what was told.
                with self._exclusive:
                    deduplicator.mark_exported(partition, self._state.position(partition))
                    self._state.forget(partition)
                if self._parts.checkpointer is not None:
                    self._parts.checkpointer.log_cut(partition)
            case PartitionCountChanged():
                self.partitions_changed = notice
            case TopicRecreated() | GroupsBegunAnew():
                self._lookahead.clear()
                with self._exclusive:
                    deduplicator.forget()
                    closed = [it for number in self._state.partitions for it in self._state.drop(number)]
                    self._export(closed)
                self._notify(closed)

    def _export(self, outputs: Sequence[DiagnosisOutput]) -> None:
        """Hand on what happened. The caller holds `writing`: so what an image has told, the exports have."""
        if self._held is not None and (shown := self._shown(outputs)):
            self._held.put(self._parts.deduplicator.unexported(shown))

    def _wait_for_sinks(self) -> None:
        """The log can wait, and a history of years comes faster than sinks take it: so it does not fill the spool."""
        while self._exports is not None and not self.has_caught_up and self._exports.is_backlogged:
            if self._stop.wait(0.05):
                return

    def _advance_time(self) -> None:
        """Where nothing is written, what is due comes by the time that passes, as far as all is known to be read.

        Not being told of anything to read is not to know it: a broker that is silent, a network that is cut or an
        open transaction may hold back what was written long before.
        """
        # The wall first: a process that is stopped between the two takes what was read for old, not the time for new.
        wall_ms, now_s = self._wall_ms(), time.monotonic()
        if not self.has_caught_up or now_s < self._advance_at:
            return
        self._advance_at = now_s + ADVANCE_S
        # What was asked a moment ago is as good as now: that is less than the grace.
        read = [number for number, until_s in self._reader.read_until_s.items() if now_s - until_s < GRACE_S / 2]
        if not read and not self._has_nothing_to_read:
            return
        now_ms = self._event_clock.now_ms(now_s, wall_ms)
        if now_ms is None:
            return
        with self._exclusive:
            passed_ms = now_ms - round(GRACE_S * 1000)
            outputs = self._state.advance(passed_ms, read)
            self._export(outputs)
            self._tell_time(passed_ms, read)
        self._notify(outputs)

    @property
    def _has_nothing_to_read(self) -> bool:
        """Whether this is a shard for which there is no partition: all that it was to read it has read."""
        return self._shard is not None and self._reader.healthy and not self._reader.positions

    def _tell_time(self, passed_ms: int, read: Collection[int]) -> None:
        """Tell the history up to when time has passed in all partitions. The caller holds `writing`.

        An agent of some partitions says nothing, unless it is one of a set of shards: of the others it knows nothing.
        """
        if self._held is None or not self._tells_time:
            return
        clocks = [self._state.diagnosis.clock_ms(it) for it in self._reader.positions if it not in read]
        known = [it for it in clocks if it is not None]
        if len(known) == len(clocks):
            cluster = self._parts.options.settings.name
            self._held.time_passed(LogClock("agent", cluster, min([passed_ms, *known]), self._shard))

    def _notify(self, outputs: list[DiagnosisOutput]) -> None:
        observe = self._parts.options.observe
        if observe is not None and self.has_caught_up and (shown := self._shown(outputs)):
            observe(shown)

    def _shown(self, outputs: Iterable[DiagnosisOutput]) -> list[DiagnosisOutput]:
        """What is asked for now: what is not is remembered, since a reload may ask for it."""
        return [it for it in outputs if it.group is None or self._shows_group(it.group)]
