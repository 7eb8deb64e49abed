"""Reads the file again when SIGHUP comes or its content changes, and says what came of it.

A file that cannot be is refused, and the agent runs on as it did. The content is looked at, not the file's times or
its inode: a Kubernetes ConfigMap changes by a link that is turned to another directory, which no watch on the file
sees.
"""

from __future__ import annotations

import logging
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path
from queue import Empty, SimpleQueue
from types import FrameType

from agent.config.changes import Changes, compare
from agent.config.given import Misconfigured
from agent.config.settings import RunSettings

log = logging.getLogger("kshadow")

POLL_S = 2.0
"""How often the content is looked at. It counts once it was seen twice: a half-written file is none."""


@dataclass(frozen=True, slots=True)
class ReloadStatus:
    """As Prometheus tells of itself: whether the last reload went well, and when the last good one was (Unix time).

    The start counts as a good one.
    """

    success: bool
    last_success_s: float


class Reloader:
    """A thread that reads the settings again, and hands on what changed."""

    def __init__(
        self,
        path: Path,
        read: Callable[[], RunSettings],
        running: RunSettings,
        apply: Callable[[RunSettings, Changes], None],
        *,
        poll_s: float = POLL_S,
        clock: Callable[[], float] = time.time,
    ) -> None:
        """`read` reads the file at `path`, or raises `Misconfigured`. `apply` is called in the reloader's thread with
        the settings that run from then on, where something changed that can take effect.
        """
        self._path, self._read, self._apply = path, read, apply
        self._poll_s, self._clock = poll_s, clock
        self._running = running
        self._status = ReloadStatus(True, clock())
        # Not what is there now: it may have changed since it was read for the start.
        self._content: bytes | None = b""
        self._seen: bytes | None = b""
        # A signal's handler runs in between anything: of all queues and events this one alone may be used there.
        self._wishes: SimpleQueue[bool] = SimpleQueue()
        self._thread = threading.Thread(target=self._follow, name="reload", daemon=True)

    @property
    def running(self) -> RunSettings:
        """The settings that are in force."""
        return self._running

    def status(self) -> ReloadStatus:
        """What a scrape tells."""
        return self._status

    def start(self) -> None:
        """Look at the file from now on."""
        self._thread.start()

    def stop(self) -> None:
        """Look no more. What is being applied is applied first."""
        self._wishes.put(False)
        if self._thread.is_alive():
            self._thread.join()

    def wake(self) -> None:
        """Read the file now, changed or not. May be called by a signal's handler."""
        self._wishes.put(True)

    def _follow(self) -> None:
        while True:
            try:
                if not self._wishes.get(timeout=self._poll_s):
                    return
                self.reload()
            except Empty:
                if self._has_changed():
                    self.reload(quietly=True)

    def _has_changed(self) -> bool:
        """Whether there is new content that has settled."""
        content = self._look()
        settled = content == self._seen
        self._seen = content
        return settled and content != self._content

    def _look(self) -> bytes | None:
        try:
            return blake2b(self._path.read_bytes()).digest()
        except OSError:
            return None

    def reload(self, *, quietly: bool = False) -> bool:
        """Read the file and apply what can be; whether it was a good one. `quietly`: say nothing of no change."""
        # Looked at before it is read: what is written in between is then seen as new.
        self._content = self._seen = self._look()
        try:
            self._take(self._read(), quietly)
        except Misconfigured as error:
            for problem in error.problems:
                log.error("reload: %s", problem)
            log.error("reload: %s is refused; the settings stay as they were", self._path)
            self._status = ReloadStatus(False, self._status.last_success_s)
            return False
        except Exception:
            # Whatever it was: an agent that cannot reload must go on, and say so.
            log.exception("reload: it failed; the settings may be partly applied")
            self._status = ReloadStatus(False, self._status.last_success_s)
            return False
        self._status = ReloadStatus(True, self._clock())
        return True

    def _take(self, wanted: RunSettings, quietly: bool) -> None:
        running, changes = compare(self._running, wanted)
        if changes.applied:
            self._apply(running, changes)
        self._running = running
        if quietly and changes == Changes():
            return
        done = ", ".join(map(str, changes.applied)) or "nothing that can take effect now"
        log.info("reload: %s read; changed: %s", self._path, done)
        if changes.needs_restart:
            log.warning("reload: needs a restart: %s", ", ".join(map(str, changes.needs_restart)))
        for warning in running.warnings:
            log.warning("reload: %s", warning)


@contextmanager
def reloading(reloader: Reloader) -> Iterator[None]:
    """Reload for as long as the block runs, SIGHUP included. To be called in the main thread."""

    def handle(number: int, frame: FrameType | None) -> None:
        reloader.wake()

    before = signal.signal(signal.SIGHUP, handle)
    reloader.start()
    try:
        yield
    finally:
        signal.signal(signal.SIGHUP, before)
        reloader.stop()
