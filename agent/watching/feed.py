"""The thread that asks, so that the screen never waits: it posts what came, and whether the source is there."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from math import inf

from agent.watching.asking import Asker, Explained, Told
from agent.watching.group import Watched
from agent.watching.model import Key
from agent.watching.source import Away, NotReady


@dataclass(frozen=True, slots=True)
class Lost:
    """The source did not answer: why, and whether it is there and only not ready. `tries` in a row, so far."""

    reason: str
    not_ready: bool
    tries: int


@dataclass(frozen=True, slots=True)
class Broken:
    """The thread ended by a mistake of ours."""

    error: Exception


News = Told | Watched | Explained | Lost | Broken


class Feed:
    """Asks for the fleet each interval, for the open group as often, and at once for what is newly wanted."""

    def __init__(self, asker: Asker, interval_s: float, post: Callable[[News], object]) -> None:
        """`post` is called in the feed's thread."""
        self._asker = asker
        self._interval_s = interval_s
        self._post = post
        self._wake = threading.Condition()
        self._stopped = False
        self._paused = False
        self._opened: Key | None = None
        self._explain: Key | None = None
        self._fresh: Key | None = None
        self._hurry = False
        self._tries = 0
        self._thread = threading.Thread(target=self._run, name="feed", daemon=True)

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def stop(self, timeout_s: float = 1.0) -> None:
        """End soon; a question that is under way is not waited for longer than that."""
        with self._wake:
            self._stopped = True
            self._wake.notify()
        if self._thread.is_alive():
            self._thread.join(timeout_s)

    def open(self, key: Key | None) -> None:
        """Ask for this group, too, from now on; None for none."""
        with self._wake:
            self._opened = self._fresh = key
            self._wake.notify()

    def explain(self, key: Key) -> None:
        """Ask for a group's story, once."""
        with self._wake:
            self._explain = key
            self._wake.notify()

    def hurry(self) -> None:
        """Ask for all now."""
        with self._wake:
            self._hurry = True
            self._wake.notify()

    def pause(self, paused: bool) -> None:
        """Ask for no more of what is shown already, until told."""
        with self._wake:
            self._paused = paused
            self._hurry = not paused
            self._wake.notify()

    def _run(self) -> None:
        due = time.monotonic()
        try:
            while True:
                with self._wake:
                    while not (self._stopped or self._hurry or self._fresh or self._explain):
                        left = due - time.monotonic()
                        if left <= 0 and not self._paused:
                            break
                        self._wake.wait(None if self._paused or left == inf else left)
                    if self._stopped:
                        return
                    explain, self._explain = self._explain, None
                    fresh, self._fresh = self._fresh, None
                    whole = self._hurry or (not self._paused and time.monotonic() >= due)
                    self._hurry = False
                    opened = self._opened
                if whole:
                    # What took long is not asked for more often than half of the time.
                    began = time.monotonic()
                    self._ask(None, opened, fleet=True)
                    took_s = time.monotonic() - began
                    due = began + max(self._interval_s, 2 * took_s) if self._asker.source.live else inf
                elif fresh is not None:
                    self._ask(None, fresh, fleet=False)
                if explain is not None:
                    self._ask(explain, None, fleet=False)
        except Exception as error:  # noqa: BLE001 - whatever it is, the screen must end with it, not stand still
            self._post(Broken(error))

    def _ask(self, explain: Key | None, opened: Key | None, *, fleet: bool) -> None:
        try:
            if opened is not None:
                self._post(self._asker.open(opened))
            if explain is not None:
                self._post(self._asker.explain(explain))
            if fleet:
                self._post(self._asker.round())
            self._tries = 0
        except Away as away:
            self._tries += 1
            self._post(Lost(str(away), isinstance(away, NotReady), self._tries))
