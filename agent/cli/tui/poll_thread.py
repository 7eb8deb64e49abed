"""The thread that asks, so that the screen never waits: it posts what came, and whether the source is there."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from math import inf

from msgspec import Struct

from agent.cli.answers import SourceAway, SourceNotReady
from agent.cli.tui.fleet import Key
from agent.cli.tui.group_state import GroupState
from agent.cli.tui.poller import FleetUpdate, GroupExplanation, Poller

LATE_MS = 10_000


class PollFailed(Struct, frozen=True):
    """The source did not answer: why, and whether it is there and only not ready. `tries` in a row, so far."""

    reason: str
    not_ready: bool
    tries: int


class PollerCrashed(Struct, frozen=True):
    """The thread ended by a mistake of ours."""

    error: Exception


PollResult = FleetUpdate | GroupState | GroupExplanation | PollFailed | PollerCrashed


class PollThread:
    """Asks for the fleet each interval, for the open group as often, and at once for what is newly wanted."""

    def __init__(self, asker: Poller, interval_s: float, post: Callable[[PollResult], object]) -> None:
        """`post` is called in the feed's thread."""
        self._asker = asker
        self._interval_s = interval_s
        self.late_ms = max(LATE_MS, round(3_000 * interval_s))
        """What is older should have been asked for and answered long ago."""
        self._post = post
        self._wake = threading.Condition()
        self._stopped = False
        self._paused = False
        self._opened: Key | None = None
        self._explain: Key | None = None
        self._newly_opened: Key | None = None
        self._hurry = False
        self._tries = 0
        self._thread = threading.Thread(target=self._run, name="feed", daemon=True)

    def start(self) -> None:
        """Ask from now on, in a daemon thread."""
        self._thread.start()

    def stop(self) -> None:
        """End the thread, after the question that is under way."""
        with self._wake:
            self._stopped = True
            self._wake.notify()

    def open(self, key: Key | None) -> None:
        """Ask for this group, too, from now on; None for none."""
        with self._wake:
            self._opened = self._newly_opened = key
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
                    while not (self._stopped or self._hurry or self._newly_opened or self._explain):
                        left = due - time.monotonic()
                        if left <= 0 and not self._paused:
                            break
                        self._wake.wait(None if self._paused or left == inf else left)
                    if self._stopped:
                        return
                    explain, self._explain = self._explain, None
                    fresh, self._newly_opened = self._newly_opened, None
                    whole = self._hurry or (not self._paused and time.monotonic() >= due)
                    self._hurry = False
                    opened = self._opened
                if whole:
                    # What took long is not asked for more often than half of the time.
                    began = time.monotonic()
                    self._ask(None, opened, fleet=True)
                    took_s = time.monotonic() - began
                    due = began + max(self._interval_s, 2 * took_s) if self._asker.source.capabilities.live else inf
                elif fresh is not None:
                    self._ask(None, fresh, fleet=False)
                if explain is not None:
                    self._ask(explain, None, fleet=False)
        except Exception as error:  # noqa: BLE001 - whatever it is, the screen must end with it, not stand still
            self._post(PollerCrashed(error))

    def _ask(self, explain: Key | None, opened: Key | None, *, fleet: bool) -> None:
        try:
            if opened is not None:
                self._post(self._asker.poll_group(opened))
            if explain is not None:
                self._post(self._asker.explain(explain))
            if fleet:
                self._post(self._asker.poll_fleet())
            self._tries = 0
        except SourceAway as away:
            self._tries += 1
            self._post(PollFailed(str(away), isinstance(away, SourceNotReady), self._tries))
