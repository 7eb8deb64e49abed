"""One sink with what waits for it, and the thread that writes it. A sink that is down or slow holds up nobody."""

from __future__ import annotations

import contextlib
import logging
import os
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence

from agent.common import clock
from agent.common.pacing import growing_pauses
from agent.common.threads import daemon_thread
from agent.persistence.export.buffer import EventBatch, EventBuffer
from agent.persistence.export.encoded_event import EncodedEvent
from agent.persistence.export.errors import SinkDown
from agent.persistence.export.log_clock import LogClock
from agent.persistence.export.sink_health import SinkHealth
from agent.persistence.export.sinks import BatchLimits, KeepsClock, RejectedEvent, Sink, SinkReading
from analyzers.formatting import count_text

log = logging.getLogger("kshadow.export")

FIRST_PAUSE_S, LONGEST_PAUSE_S = 0.5, 15.0
"""Between attempts while a sink is down; doubled each time."""

EAGER_WAIT_S = 2.0
"""How long a barrier waits for a sink that keeps up before it has the lines put on disk."""

GIVEN_UP_S = 0.5
"""How soon a barrier that nobody waits for any more ends."""

BACKLOG_BATCHES = 3
"""With so many batches waiting it is better not to put more, for who can wait."""


CLOCK_EVERY_MS = 60_000
"""So far apart are the times that a sink is told to have passed."""

CLOCKS = 1_000
"""That wait for the events before them to be written."""


class SinkWorker:
    """Lines go in by `put`, in any thread; they reach the sink in a thread of its own."""

    def __init__(self, sink: Sink, buffer: EventBuffer) -> None:
        self.name = sink.name
        self._sink, self._buffer = sink, buffer
        self._clock_keeper = sink if isinstance(sink, KeepsClock) else None
        self._changed = threading.Condition()
        """Its lock is held for whatever is read from or done to the buffer and the health."""
        self._health = SinkHealth(sink.name, buffer)
        self._flush_to = 0
        self._stop_at: float | None = None
        self._closed = False
        self._events = 0
        self._batch: EventBatch | None = None
        self._clocks: deque[tuple[int, LogClock]] = deque(maxlen=CLOCKS)
        """Each with the sequence of the first event that was put after it."""
        self._clock_ms = -CLOCK_EVERY_MS
        self._thread = daemon_thread(f"history-{sink.name}", self._run)

    def start(self) -> None:
        """Begin to write, first what an earlier process left."""
        if len(self._buffer):
            log.info("history sink %s: sending %s of before first", self.name, count_text(len(self._buffer), "event"))
        self._thread.start()

    def put(self, lines: Sequence[EncodedEvent]) -> None:
        """Hand them over. Waits for no sink; for the disk where memory is half full."""
        with self._changed:
            self._buffer.put(lines)
            self._health.buffer_changed()
            self._changed.notify_all()

    def time_passed(self, clock: LogClock) -> None:
        """All events up to then were put: the sink is told once it has them, if it keeps that."""
        if self._clock_keeper is None:
            return
        with self._changed:
            if clock.clock_ms >= self._clock_ms + CLOCK_EVERY_MS:
                self._clock_ms = clock.clock_ms
                self._clocks.append((self._buffer.end_sequence, clock))
                self._changed.notify_all()

    def wait_durable(self, timeout_s: float, is_given_up: Callable[[], bool] = lambda: False) -> bool:
        """Whether all that was put before is safe: the sink has it, or it is on disk and synced. Ends early where
        `is_given_up`."""
        deadline = time.monotonic() + timeout_s
        with self._changed:
            target = self._buffer.end_sequence
            if self._sink.batching.age_s == 0 and not self._health.is_down:
                self._wait_until_done(target, min(deadline, time.monotonic() + EAGER_WAIT_S), is_given_up)
            if self._buffer.acknowledged >= target:
                return True
        if self._sync():
            return True
        with self._changed:
            # Nothing but the sink is left: let it not wait for more.
            self._flush_to = max(self._flush_to, target)
            self._changed.notify_all()
            return self._wait_until_done(target, deadline, is_given_up)

    def _wait_until_done(self, target: int, deadline: float, is_given_up: Callable[[], bool]) -> bool:
        """Wait until the sink has all before `target`; whether it has. The caller holds the lock."""
        while self._buffer.acknowledged < target and not self._closed and not is_given_up():
            left_s = deadline - time.monotonic()
            if left_s <= 0:
                break
            self._changed.wait(min(left_s, GIVEN_UP_S))
        return self._buffer.acknowledged >= target

    def begin_stop(self, deadline: float) -> None:
        """Let the thread write what it can until then (`time.monotonic`), and end."""
        with self._changed:
            self._stop_at = deadline
            self._changed.notify_all()

    def finish_stop(self, deadline: float) -> bool:
        """Wait for the thread until then, put the rest on disk; whether nothing was lost of what still waited."""
        if self._thread.is_alive():
            self._thread.join(max(deadline - time.monotonic(), 0.0))
        is_synced = self._sync()
        with self._changed:
            left = 0 if is_synced else self._buffer.drop_memory()
            if left:
                log.error(
                    "history sink %s: stopped with %s that no spool keeps", self.name, count_text(left, "event")
                )
            self._closed = True
            self._health.buffer_changed()
            waiting = len(self._buffer) - left
            with contextlib.suppress(OSError):  # what matters is synced, or was told
                self._buffer.spool.close()
        if waiting and self._buffer.spool.is_durable:
            log.info(
                "history sink %s: %s left in the spool for the next start", self.name, count_text(waiting, "event")
            )
        return not left

    def reading(self) -> SinkReading:
        """How it stands."""
        with self._changed:
            spool, health = self._buffer.spool, self._health
            oldest = self._batch.events[0].put_ms if self._batch else self._buffer.oldest_put_ms
            return SinkReading(
                name=self.name,
                events=self._events,
                buffered=len(self._buffer),
                dropped=dict(self._buffer.dropped),
                oldest_age_s=None if oldest is None else max(_waited_s(oldest), 0.0),
                healthy=not health.is_down and not health.is_stuck,
                last_error=health.last_error,
                spool_bytes=spool.size_bytes,
                spool_error=spool.error,
            )

    @property
    def is_backlogged(self) -> bool:
        """Whether more waits than the sink takes at a time, though it works."""
        return not self._health.is_down and len(self._buffer) > BACKLOG_BATCHES * self._sink.batching.events

    @property
    def has_room(self) -> bool:
        """Whether a quarter of the room for what waits is left."""
        with self._changed:
            return self._buffer.has_room

    def problem(self) -> str | None:
        """Why history is not going where it should, in a sentence; None while it is."""
        with self._changed:
            return self._health.problem()

    def _sync(self) -> bool:
        """Put on disk what is in memory; whether all is safe there. The lock is not held during the sync."""
        spool = self._buffer.spool
        try:
            with self._changed:
                if self._closed:
                    return False
                spilled = self._buffer.spill()
                self._health.buffer_changed()
                if not spilled:
                    return False
                handle = spool.handle()
            if handle is not None:
                try:
                    os.fsync(handle)
                finally:
                    os.close(handle)
        except OSError as error:
            with self._changed:
                # The kernel may have forgotten what it could not write: a later sync proves nothing.
                spool.error, spool.unsafe_end = str(error), spool.end
                self._health.buffer_changed()
            return False
        with self._changed:
            return spool.unsafe_end <= self._buffer.acknowledged

    # The thread.

    def _run(self) -> None:
        try:
            while (batch := self._next_batch()) is not None:
                if not self._deliver(batch):
                    return
        except Exception as error:
            log.exception("history sink %s: its thread ended; events wait in the spool", self.name)
            self._note_down(f"its thread ended: {error!r}")
        finally:
            with contextlib.suppress(Exception):
                self._sink.close()

    def _next_batch(self) -> EventBatch | None:
        """Wait until there is one that is due; None to stop."""
        while True:
            with self._changed:
                while not self._is_due() and not self._has_clock():
                    self._changed.wait(self._pause())
            self._tell_clock()
            with self._changed:
                if not self._is_due():
                    continue
                if self._stop_at is not None and (not len(self._buffer) or time.monotonic() >= self._stop_at):
                    return None
            if (batch := self._collect()) is not None:
                return batch

    def _has_clock(self) -> bool:
        """Whether the sink has all events before a time that it was not told yet."""
        return bool(self._clocks) and self._clocks[0][0] <= self._buffer.acknowledged

    def _tell_clock(self) -> None:
        """Tell it the latest of them. One that cannot be told is made up for by the next."""
        clock = None
        with self._changed:
            while self._has_clock():
                clock = self._clocks.popleft()[1]
        if clock is not None and self._clock_keeper is not None:
            try:
                self._clock_keeper.tell_clock(clock)
            except SinkDown as error:
                log.warning("history sink %s: up to when time has passed was not written: %s", self.name, error)

    def _collect(self) -> EventBatch | None:
        """The next batch, part by part: nobody waits for the lock while much is read from disk."""
        batching = self._sink.batching
        lines: list[EncodedEvent] = []
        size = 0
        end = None
        while len(lines) < batching.events and size < batching.size_bytes:
            with self._changed:
                left = BatchLimits(batching.events - len(lines), batching.size_bytes - size, batching.age_s)
                part = self._buffer.take(left)
            if part is None:
                break
            lines += part.events
            size += sum(len(line.body) for line in part.events)
            end = part.end_sequence
            if part.last:
                break
        if end is None:
            return None
        batch = EventBatch(tuple(lines), end)
        with self._changed:
            if not lines:  # all that was left was damaged
                self._buffer.acknowledge(batch)
                self._changed.notify_all()
                return None
            self._batch = batch
        return batch

    def _is_due(self) -> bool:
        if self._stop_at is not None:
            return True
        buffer, batching = self._buffer, self._sink.batching
        if not len(buffer):
            return False
        return (
            batching.age_s == 0
            or len(buffer) >= batching.events
            or buffer.size_bytes >= batching.size_bytes
            or buffer.acknowledged < self._flush_to
            # What another process put has no age where that one's clock was ahead of ours.
            or not 0 <= self._age_s() < batching.age_s
        )

    def _age_s(self) -> float:
        oldest = self._buffer.oldest_put_ms
        return 0.0 if oldest is None else _waited_s(oldest)

    def _pause(self) -> float | None:
        """How long to wait at most before looking again whether a batch is due."""
        age_s = self._sink.batching.age_s
        return None if age_s == 0 or not len(self._buffer) else max(age_s - self._age_s(), 0.01)

    def _deliver(self, batch: EventBatch) -> bool:
        """Write it, however long that takes; False if it was not before the stop."""
        pauses = growing_pauses(FIRST_PAUSE_S, LONGEST_PAUSE_S)
        while True:
            self._health.writing_since = time.monotonic()
            try:
                refused = self._sink.write(batch.events)
            except SinkDown as error:
                self._note_down(str(error))
            except Exception as error:
                # A sink's own fault must not end the history: tried again, told as any other trouble.
                if not self._health.is_down:
                    log.exception("history sink %s failed", self.name)
                self._note_down(repr(error))
            else:
                self._note_written(batch, refused)
                return True
            finally:
                self._health.writing_since = None
            with self._changed:
                self._changed.wait_for(lambda: self._stop_at is not None, next(pauses))
                if self._gives_up():
                    return False

    def _gives_up(self) -> bool:
        """Whether a stop must not wait for a sink that is down: the spool keeps it, or the time is over."""
        if self._stop_at is None:
            return False
        spool = self._buffer.spool
        return (spool.is_durable and spool.error is None) or time.monotonic() >= self._stop_at

    def _note_down(self, error: str) -> None:
        with self._changed:
            self._health.write_failed(error)
            self._changed.notify_all()

    def _note_written(self, batch: EventBatch, refused: Sequence[RejectedEvent]) -> None:
        with self._changed:
            if self._closed:
                return
            self._health.write_succeeded()
            self._batch = None
            self._events += len(batch.events) - len(refused)
            self._buffer.dropped["refused"] += len(refused)
            self._buffer.acknowledge(batch)
            self._changed.notify_all()
            self._health.events_refused(refused)


def _waited_s(put_ms: int) -> float:
    return (clock.steady_ms() - put_ms) / 1000
