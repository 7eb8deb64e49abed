"""Whether a sink takes what it is given, and what is said where it does not: in the log, and to whoever asks.

Owns the sentences, and how often each is logged. Used under the lock of the sink's worker.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence

from agent.common.pacing import Interval
from agent.persistence.export.buffer import EventBuffer
from agent.persistence.export.sinks import RejectedEvent
from analyzers.formatting import count_text

log = logging.getLogger("kshadow.export")

GRACE_S = 10.0
"""How long a sink may be down before the agent's readiness says so: an election of a leader takes that long."""

STUCK_S = 60.0
"""How long one write may take before the sink counts as down."""

LOG_EVERY_S = 60.0
"""How often at most the log says that a sink drops lines, or refuses one."""


class SinkHealth:
    """Of one sink, and of the buffer in front of it."""

    def __init__(self, name: str, buffer: EventBuffer) -> None:
        self._name, self._buffer = name, buffer
        self._down_since: float | None = None
        self.last_error: str | None = None
        """Why the latest attempt to write failed; None if it did not."""
        self.writing_since: float | None = None
        """When the write under way began (`time.monotonic`)."""
        self._down_log, self._full_log, self._refused_log = (Interval(LOG_EVERY_S) for _ in range(3))
        self._dropped_logged = 0
        self._spool_error_logged = False

    @property
    def is_down(self) -> bool:
        """Whether the latest attempt to write failed."""
        return self._down_since is not None

    @property
    def is_stuck(self) -> bool:
        """Whether the write under way takes too long."""
        return self.writing_since is not None and time.monotonic() - self.writing_since > STUCK_S

    @property
    def _why_full(self) -> str:
        return self.last_error or "it takes them more slowly than they come"

    def problem(self) -> str | None:
        """Why history is not going where it should, in a sentence; None while it is."""
        spool, waiting = self._buffer.spool, count_text(len(self._buffer), "event")
        waiting += " waits" if len(self._buffer) == 1 else " wait"
        if self._buffer.dropping:
            return f"history sink {self._name} drops events, memory and spool are full: {self._why_full}"
        if self._down_since is not None and (down_s := time.monotonic() - self._down_since) >= GRACE_S:
            disk = f"; spool: {spool.error}" if spool.error else ""
            return f"history sink {self._name} is down for {down_s:.0f} s, {waiting}: {self.last_error}{disk}"
        if self.is_stuck:
            return f"history sink {self._name} has not answered for {STUCK_S:.0f} s, {waiting}"
        if spool.size_bytes > spool.bound_bytes // 2:
            return f"history sink {self._name} is behind, its spool is more than half full: {waiting}"
        return None

    def write_failed(self, error: str) -> None:
        """The sink took nothing, and why."""
        now = time.monotonic()
        if self._down_since is None:
            self._down_since = now
            self._down_log.restart_in(LOG_EVERY_S, now)
            log.warning("history sink %s is down, events wait: %s", self._name, error)
        elif error != self.last_error and self._down_log.due(now):
            log.warning("history sink %s is still down: %s", self._name, error)
        self.last_error = error

    def write_succeeded(self) -> None:
        """The sink has a batch. The buffer still has it too."""
        if self._down_since is not None:
            down_s = time.monotonic() - self._down_since
            waiting = count_text(len(self._buffer), "event")
            log.info("history sink %s is back after %.0f s, with %s to send", self._name, down_s, waiting)
        self._down_since = self.last_error = None

    def events_refused(self, refused: Sequence[RejectedEvent]) -> None:
        """Of a batch that the sink has it can never take these."""
        if refused and self._refused_log.due(time.monotonic()):
            line, reason = refused[0]
            which = "" if line is None else f", the first of type {line.type} and {len(line.body)} bytes"
            count = count_text(len(refused), "event")
            log.error("history sink %s: %s refused%s: %s", self._name, count, which, reason)

    def buffer_changed(self) -> None:
        """Lines came, or went to disk: say what was dropped, and that the spool takes nothing."""
        dropped, spool = self._buffer.dropped["full"], self._buffer.spool
        if self._buffer.dropping:
            if self._full_log.due(time.monotonic()):
                log.error(
                    "history sink %s: memory and spool are full, the newest events are dropped (%d so far): %s",
                    self._name, dropped, self._why_full,
                )  # fmt: skip
        elif dropped > self._dropped_logged:
            lost = count_text(dropped - self._dropped_logged, "event")
            log.error("history sink %s: dropped %s", self._name, lost)
            self._dropped_logged = dropped
        if (spool.error is not None) != self._spool_error_logged:
            self._spool_error_logged = not self._spool_error_logged
            if self._spool_error_logged:
                log.error("history sink %s: the spool takes nothing: %s", self._name, spool.error)
            else:
                log.info("history sink %s: the spool takes events again", self._name)
