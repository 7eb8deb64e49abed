"""Events on their way to the history, which wait until it is settled what happened to the pods of members that left.

A clean leave is in the topic about a second before the kubelet tells how the container ended. History is written
once, so an event waits until the source was asked for the last time, and what comes after it waits with it: events of
a partition stay in order. Without an `OriginSource` nothing waits. What takes more memory than `MAX_BYTES` does not
wait either, oldest first: it is told with what is known by then. Not thread-safe: its owner holds a lock.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager

from agent.core.diagnosis.engine import DiagnosisOutput
from agent.core.events.events import event_of
from agent.core.events.recent import EVENT_BYTES, estimated_bytes
from agent.core.shadow.transitions import Transition
from agent.persistence.export.log_clock import LogClock
from agent.persistence.export.pipeline import ExportPipeline

MAX_BYTES = 16 << 20
"""Of the events that wait, by the estimate of those that are remembered."""
WAIT_S = 0.1
"""How often who waits for all events looks whether they went."""


class HeldEvents:
    """Hands on what is put, in order, as soon as all before it is settled."""

    def __init__(self, exports: ExportPipeline, cluster: str | None) -> None:
        self._exports, self._cluster = exports, cluster
        self._held: deque[tuple[Sequence[DiagnosisOutput] | LogClock, int]] = deque()
        """With the bytes of each."""
        self._put = self._handed_on = self._bytes = 0

    def put(self, outputs: Sequence[DiagnosisOutput]) -> None:
        """Take what happened; each is handed on at once where nothing before it is open."""
        self._take(outputs)

    def time_passed(self, clock: LogClock) -> None:
        """All that happened up to this time was put."""
        self._take(clock)

    def _take(self, item: Sequence[DiagnosisOutput] | LogClock) -> None:
        size = 0 if isinstance(item, LogClock) else sum(map(_bytes_of, item))
        self._held.append((item, size))
        self._bytes += size
        self._put += 1
        self.release()

    def release(self, *, all_of_them: bool = False) -> None:
        """Hand on what is settled; `all_of_them`: the rest as well, with what is known by now."""
        while self._held and (all_of_them or self._bytes > MAX_BYTES or _is_settled(self._held[0][0])):
            item, size = self._held.popleft()
            self._bytes -= size
            self._handed_on += 1
            if isinstance(item, LogClock):
                self._exports.time_passed(item)
            else:
                self._exports.put([event_of(it, self._cluster) for it in item])

    def wait_released(
        self,
        lock: AbstractContextManager[object],
        settle: Callable[[], None],
        timeout_s: float,
        is_given_up: Callable[[], bool] = lambda: False,
    ) -> bool:
        """Whether all that was put before this call was handed on within the time, and before `is_given_up`. The
        caller does not hold `lock`; `settle` is called under it."""
        deadline = time.monotonic() + timeout_s
        with lock:
            put = self._put
        while True:
            with lock:
                settle()
                self.release()
                if self._handed_on >= put:
                    return True
            if time.monotonic() >= deadline or is_given_up():
                return False
            time.sleep(WAIT_S)


def _bytes_of(output: DiagnosisOutput) -> int:
    return estimated_bytes(output) if isinstance(output, Transition) else EVENT_BYTES


def _is_settled(item: Sequence[DiagnosisOutput] | LogClock) -> bool:
    if isinstance(item, LogClock):
        return True
    return all(it.origins is None or it.origins.is_settled for it in item if isinstance(it, Transition))
