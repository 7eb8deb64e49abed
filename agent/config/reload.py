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
from dataclasses import fields, replace
from hashlib import blake2b
from pathlib import Path
from queue import Empty, SimpleQueue
from types import FrameType
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from msgspec import Struct

from agent.config.settings import SPEC, RunSettings
from agent.config.value_source import InvalidSettings

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

log = logging.getLogger("kshadow")

T = TypeVar("T", bound="DataclassInstance")

POLL_S = 2.0
"""How often the content is looked at. It counts once it was seen twice: a half-written file is none."""


class Change(NamedTuple):
    """An option that has another value now, and of which cluster (None: the process, or the only cluster).

    An option of None is the cluster itself, which came or went.
    """

    option: str | None
    cluster: str | None = None

    def __str__(self) -> str:
        parts = [*(("clusters", self.cluster) if self.cluster else ()), *((self.option,) if self.option else ())]
        return ".".join(parts)


class Changes(Struct, frozen=True):
    """What a reload did, and what it could not do."""

    applied: tuple[Change, ...] = ()
    needs_restart: tuple[Change, ...] = ()


def compare(running: RunSettings, wanted: RunSettings) -> tuple[RunSettings, Changes]:
    """The settings that run from now on, and what came of the difference.

    What needs a restart stays as it runs, so the next comparison names it again.
    """
    live: list[Change] = []
    stays: list[Change] = []

    def note(differences: Iterator[tuple[str, bool]], cluster: str | None = None) -> None:
        for option, is_live in differences:
            (live if is_live else stays).append(Change(option, cluster))

    if len(running.clusters) == len(wanted.clusters) == 1:
        pairs = {running.clusters[0].name: wanted.clusters[0]}
        note(_differences(running.clusters[0], wanted.clusters[0]))
    else:
        pairs = {it.name: it for it in wanted.clusters}
        names = {it.name for it in running.clusters}
        stays += (Change(None, name) for name in names ^ pairs.keys() if name is not None)
        for before in running.clusters:
            note(_differences(before, pairs.get(before.name, before)), before.name)
    for part in ("process", "http", "log"):
        note(_differences(getattr(running, part), getattr(wanted, part)))
    merged = replace(
        running,
        clusters=tuple(_with_live_changes(it, pairs.get(it.name, it)) for it in running.clusters),
        process=_with_live_changes(running.process, wanted.process),
        http=_with_live_changes(running.http, wanted.http),
        log=_with_live_changes(running.log, wanted.log),
        warnings=wanted.warnings,
    )
    return merged, Changes(tuple(sorted(live, key=str)), tuple(sorted(stays, key=str)))


def _differences(before: Any, after: Any) -> Iterator[tuple[str, bool]]:
    for it in fields(before):
        old, new = getattr(before, it.name), getattr(after, it.name)
        if SPEC not in it.metadata:
            yield from _differences(old, new)
        elif old != new:
            yield it.metadata[SPEC].name, it.metadata[SPEC].live


def _with_live_changes(running: T, wanted: T) -> T:
    changed: dict[str, Any] = {}
    for it in fields(running):
        old, new = getattr(running, it.name), getattr(wanted, it.name)
        if SPEC not in it.metadata:
            changed[it.name] = _with_live_changes(old, new)
        elif it.metadata[SPEC].live:
            changed[it.name] = new
    return replace(running, **changed)


class ReloadStatus(Struct, frozen=True):
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
        """`read` reads the file at `path`, or raises `InvalidSettings`. `apply` is called in the reloader's thread
        with the settings that run from then on, where something changed that can take effect.
        """
        self._path, self._read, self._apply = path, read, apply
        self._poll_s, self._clock = poll_s, clock
        self._running = running
        self._status = ReloadStatus(True, clock())
        # Not what is there now: it may have changed since it was read for the start.
        self._applied_digest: bytes | None = b""
        self._last_digest: bytes | None = b""
        # A signal's handler runs in between anything: of all queues and events this one alone may be used there.
        self._requests: SimpleQueue[bool] = SimpleQueue()
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
        self._requests.put(False)
        if self._thread.is_alive():
            self._thread.join()

    def wake(self) -> None:
        """Read the file now, changed or not. May be called by a signal's handler."""
        self._requests.put(True)

    def _follow(self) -> None:
        while True:
            try:
                if not self._requests.get(timeout=self._poll_s):
                    return
                self.reload()
            except Empty:
                if self._has_changed():
                    self.reload(quietly=True)

    def _has_changed(self) -> bool:
        """Whether there is new content that has settled. What a pipe held is read."""
        if self._is_pipe():
            return False
        content = self._content_digest()
        settled = content == self._last_digest
        self._last_digest = content
        return settled and content != self._applied_digest

    def _is_pipe(self) -> bool:
        """Not what cannot be looked at now, such as on a file server that is away: the thread outlives that."""
        try:
            return self._path.is_fifo()
        except OSError:
            return False

    def _content_digest(self) -> bytes | None:
        try:
            return blake2b(self._path.read_bytes()).digest()
        except OSError:
            return None

    def reload(self, *, quietly: bool = False) -> bool:
        """Read the file and apply what can be; whether it was a good one. `quietly`: say nothing of no change."""
        if self._is_pipe():
            log.error("reload: %s is a pipe, which is read once; the settings stay as they were", self._path)
            self._status = ReloadStatus(False, self._status.last_success_s)
            return False
        # Looked at before it is read: what is written in between is then seen as new.
        self._applied_digest = self._last_digest = self._content_digest()
        try:
            self._apply_settings(self._read(), quietly)
        except InvalidSettings as error:
            for problem in error.problems:
                log.error("reload: %s", problem)
            log.error("reload: %s is refused; the settings stay as they were", self._path)
        except Exception:
            # Whatever it was: an agent that cannot reload must go on, and say so.
            log.exception("reload: it failed; the settings may be partly applied")
        else:
            self._status = ReloadStatus(True, self._clock())
            return True
        self._status = ReloadStatus(False, self._status.last_success_s)
        return False

    def _apply_settings(self, wanted: RunSettings, quietly: bool) -> None:
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
    # One that came before has waited (`agent.cli.main`).
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGHUP})
    try:
        yield
    finally:
        signal.signal(signal.SIGHUP, before)
        reloader.stop()
