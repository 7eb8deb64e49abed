"""Work that goes on beside everything else."""

from __future__ import annotations

import logging
import sys
import threading
import time
from abc import abstractmethod
from collections.abc import Callable
from contextlib import ExitStack
from contextvars import copy_context
from typing import ClassVar

from agent.common.pacing import growing_pauses

log = logging.getLogger("kshadow")

SWITCH_S = 0.0003

STEADY_S = 60.0
"""A thread that ran for so long since it failed works again."""


def take_quick_turns() -> None:
    """A thread keeps the interpreter's lock from another that waits for it for `SWITCH_S` from now on.

    By default that is 5 ms. Whoever asks an agent waits for its reader and for scrapes several times, and the client
    waits for the reader with each run that is read in bulk.
    """
    sys.setswitchinterval(SWITCH_S)


def daemon_thread(name: str, target: Callable[..., object], *arguments: object) -> threading.Thread:
    """A daemon thread, not started, in the context of whoever makes it: its log lines name the same cluster."""
    return threading.Thread(target=copy_context().run, args=(target, *arguments), name=name, daemon=True)


class BackgroundThread:
    """Something that runs in a daemon thread of its own, from `start` until it is stopped. After a failure it runs
    again: that is a mistake of ours, and a restart of all would cost more and help no better."""

    STOP_S: ClassVar[float | None] = None
    """How long `stop` waits for the thread's end, in seconds; None for as long as it takes."""

    def __init__(self, name: str) -> None:
        """`name` is the thread's."""
        self.thread_name = name
        self._failure: Exception | None = None
        self._works_at_s = 0.0
        self._stop = threading.Event()
        """Set once the thread is to end."""
        self._thread = daemon_thread(name, self._run_until_done)

    @abstractmethod
    def _run(self) -> None:
        """What the thread does, until `_stop` is set."""

    def _run_until_done(self) -> None:
        for wait_s in growing_pauses():
            try:
                self._run()
            except Exception as error:
                self._failure, self._works_at_s = error, time.monotonic() + wait_s + STEADY_S
                log.exception("the thread %s failed; it is tried again in %.0f s", self.thread_name, wait_s)
            else:
                return
            if self._stop.wait(wait_s):
                return

    @property
    def failure(self) -> Exception | None:
        """What it failed by, until it has run long enough since."""
        return self._failure if time.monotonic() < self._works_at_s else None

    def start(self) -> None:
        """Begin, once."""
        self._thread.start()

    def request_stop(self) -> None:
        """End soon; `join` waits for it."""
        self._stop.set()

    def join(self, timeout_s: float | None = None) -> None:
        """Wait for the thread's end, at most for `timeout_s`."""
        if self._thread.is_alive():
            self._thread.join(timeout_s)

    def stop(self) -> None:
        """End, and wait for it."""
        self.request_stop()
        self.join(self.STOP_S)


class BothLocks:
    """Two locks as one: the second is asked for once the first is held."""

    def __init__(self, first: threading.Lock, second: threading.Lock) -> None:
        self._first, self._second = first, second

    def __enter__(self) -> None:
        with ExitStack() as held:
            held.enter_context(self._first)
            held.enter_context(self._second)
            held.pop_all()

    def __exit__(self, *_: object) -> None:
        self._second.release()
        self._first.release()
