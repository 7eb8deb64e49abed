"""A stop that ends in time: steps with a share of the time each, and what signals ask for.

Kubernetes sends SIGTERM and, 30 s later, SIGKILL. So all steps together have `TOTAL_S`; one that hangs is left where
it is when its time is over, named in the log, and the next one begins. Should even that not come to its end,
`Stopping` ends the process. A second signal, a moment later, ends it at once: whoever sends it does not want to wait.

Signals are seen by a thread of their own, whatever the main thread does: it may sit in librdkafka for ten seconds.
"""

from __future__ import annotations

import logging
import os
import select
import signal
import socket
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from itertools import accumulate
from types import FrameType, TracebackType
from typing import Literal, NamedTuple, Self

from msgspec import Struct

log = logging.getLogger("kshadow")

TOTAL_S = 20.0
"""For all steps: two thirds of what Kubernetes gives unless told, so that a late start of the stop fits too."""
OVERTIME_S = 2.0
"""After how much more than that the process is ended from within."""
ONE_REQUEST_S = 0.2
"""Signals so close together are one request: who ends a process and its group (`timeout`, a wrapper that passes on
what the terminal has sent to all) sends two at once."""
LOG_TIMEOUT_S = 0.5
"""How long a line in the log may take where the process is ended: the log itself may hang."""

SIGNALS = (signal.SIGTERM, signal.SIGINT)


class ShutdownStep(Struct, frozen=True):
    """Something to do at the end, for at most `most_s` and what steps before it left over."""

    name: str
    run: Callable[[], object]
    most_s: float


class StepOutcome(NamedTuple):
    """How a step went."""

    name: str
    result: Literal["done", "failed", "hung"]
    took_s: float


def deadlines(steps: Sequence[ShutdownStep], total_s: float = TOTAL_S) -> list[float]:
    """By when each step must have ended, in seconds from the beginning.

    Raises `ValueError` where the steps together have more than there is.
    """
    ends = list(accumulate(step.most_s for step in steps))
    if ends and ends[-1] > total_s:
        raise ValueError(f"the steps may take {ends[-1]:g} s, there are {total_s:g} s")
    return ends


def run_steps(steps: Sequence[ShutdownStep], total_s: float = TOTAL_S) -> list[StepOutcome]:
    """Do them one after the other, each in a thread, and say how each went. Failures are logged, never raised."""
    began = time.monotonic()
    outcomes = []
    for step, end in zip(steps, deadlines(steps, total_s), strict=True):
        outcome = _run_step(step, began + end)
        if outcome.result == "hung":
            log.error("stopping: %s hangs, %.1f s so far; going on without it", step.name, outcome.took_s)
        else:
            log.debug("stopping: %s %s after %.1f s", step.name, outcome.result, outcome.took_s)
        outcomes.append(outcome)
    return outcomes


def _run_step(step: ShutdownStep, end: float) -> StepOutcome:
    failed = threading.Event()

    def run() -> None:
        try:
            step.run()
        except BaseException:
            # Whatever it is: the steps after it have things to save.
            failed.set()
            log.exception("stopping: %s failed", step.name)

    began = time.monotonic()
    thread = threading.Thread(target=run, name=f"stopping: {step.name}", daemon=True)
    thread.start()
    thread.join(max(end - began, 0))
    took_s = time.monotonic() - began
    if thread.is_alive():
        return StepOutcome(step.name, "hung", took_s)
    return StepOutcome(step.name, "failed" if failed.is_set() else "done", took_s)


class Shutdown:
    """SIGTERM and SIGINT unless told, from entering the block until the process ends. Only the main thread may enter.

        with Shutdown(server.drain) as shutdown:
            …                             # start; a signal that comes meanwhile is kept
            shutdown.wait()
            code = shutdown.stop([ShutdownStep("reader", agent.stop, 5), …])

    A signal that the process was started to ignore (SIGINT, in a shell's background job) stays ignored.
    """

    def __init__(
        self,
        on_request: Callable[[], object] | None = None,
        total_s: float = TOTAL_S,
        *,
        signals: Iterable[signal.Signals] = SIGNALS,
    ) -> None:
        """`on_request` is called as soon as a stop is asked for, in the thread that sees signals: it must not wait.
        `signals` ask for it."""
        self._on_request, self._signals = on_request, signals
        self._total_s = total_s
        self._lock = threading.Lock()
        self._asked = threading.Event()
        self._announcement: threading.Thread | None = None
        self._ends_at: float | None = None
        self.asked_by: signal.Signals | None = None
        """The signal that asked for a stop; None where none did."""
        self._ours, self._theirs = socket.socketpair()
        self._before: dict[int, object] = {}
        self._wakeup_before = -1

    def __enter__(self) -> Self:
        for end in (self._ours, self._theirs):
            end.setblocking(False)
        self._wakeup_before = signal.set_wakeup_fd(self._theirs.fileno(), warn_on_full_buffer=False)
        for number in self._signals:
            if signal.getsignal(number) is not signal.SIG_IGN:
                self._before[number] = signal.signal(number, _seen_elsewhere)
        threading.Thread(target=self._watch, name="signals", daemon=True).start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.is_requested:
            # What is left is the process's own end: it may hang as well, so the watch goes on.
            if self._announcement is not None:
                self._announcement.join(LOG_TIMEOUT_S)
            return
        signal.set_wakeup_fd(self._wakeup_before)
        for number, before in self._before.items():
            signal.signal(number, before)  # type: ignore[arg-type]
        self._theirs.close()  # ends the watch

    @property
    def is_requested(self) -> bool:
        """Whether a stop was asked for."""
        return self._asked.is_set()

    def request(self) -> None:
        """Ask for a stop, as a signal does: for what cannot go on."""
        with self._lock:
            if self.is_requested:
                return
            self._ends_at = time.monotonic() + self._total_s + OVERTIME_S
            if self._on_request is not None:
                self._on_request()
            self._asked.set()

    def wait(self, timeout_s: float | None = None) -> bool:
        """Wait until a stop is asked for; whether it was, where there is a timeout."""
        return self._asked.wait(timeout_s)

    def stop(self, steps: Sequence[ShutdownStep]) -> int:
        """Carry out the steps: the exit code, 0, or 1 where one failed.

        Where one hangs, the process is ended here, with 1: what hangs could keep it from ending by itself.
        """
        self.request()
        outcomes = run_steps(steps, self._total_s)
        if any(it.result == "hung" for it in outcomes):
            _end(1)
        if self._announcement is not None:
            # Its thread would end with the process, and the line with it. A log that hangs would keep the process
            # from ending anyway: the watch ends it.
            self._announcement.join()
        return int(any(it.result == "failed" for it in outcomes))

    def _watch(self) -> None:
        while True:
            # `ask` may be called without a signal: look now and then whether it was.
            readable, _, _ = select.select([self._ours], [], [], 0.5)
            if self._ends_at is not None and time.monotonic() >= self._ends_at:
                _end(1, "stopping: not done after %.0f s; ending now", self._total_s + OVERTIME_S)
            if not readable:
                continue
            numbers = self._ours.recv(16)
            if not numbers:
                self._ours.close()
                return
            for number in numbers:
                if number in self._before:
                    self._came(signal.Signals(number))

    def _came(self, number: signal.Signals) -> None:
        if self.is_requested:
            if number is signal.SIGHUP or self._is_same_request():
                # Of one terminal that goes both the kernel and the shell tell: nobody is in a hurry.
                return
            _end(128 + number, "stopping: %s again; ending now", number.name)
        self._announcement = threading.Thread(target=log.info, args=("stopping: %s", number.name), daemon=True)
        self._announcement.start()
        self.asked_by = number
        self.request()

    def _is_same_request(self) -> bool:
        assert self._ends_at is not None, "it was requested"
        return self._ends_at - time.monotonic() > self._total_s + OVERTIME_S - ONE_REQUEST_S


def _seen_elsewhere(number: int, frame: FrameType | None) -> None:
    """Python hands a signal on to `Stopping`'s thread only where it has a handler."""


def _end(code: int, text: str | None = None, *args: object) -> None:
    """End the process without waiting for anything, the log included."""

    def last_words() -> None:
        if text is not None:
            log.error(text, *args)
        logging.shutdown()

    thread = threading.Thread(target=last_words, daemon=True)
    thread.start()
    thread.join(LOG_TIMEOUT_S)
    os._exit(code)
