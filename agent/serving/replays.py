"""Replays of a group's newest history under other settings, for whoever serves: one at a time, and kept.

A replay takes from milliseconds to seconds of this process's time. A page does not wait for one (`soon`): it shows
what is there and has the rest when it asks again, and what is made for pages never takes more than a part of a core.
A program that asks for a number gets it (`at_once`), and costs one replay however often it asks.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from typing import Any, Generic, TypeVar

from msgspec import Struct

log = logging.getLogger("kshadow")

REST_FACTOR = 4
"""After a replay for a page the next one waits this many times as long as it took: a fifth of a core at most."""
MAX_KEPT = 400
"""Results, of pages and of rollouts together."""
MAX_WAITING = 10

T = TypeVar("T")
Key = tuple[object, ...]


class Replay(Struct, Generic[T], frozen=True, dict=True):
    """What is to be replayed, and how.

    `key` is what it is of; `version` is the same for as long as a replay would be of the same records. `run` makes
    it, and is given what says that its `budget_s` seconds are over (looked at between two plays). `failed` makes what
    is told instead, of a reason.
    """

    key: Key
    version: Key
    budget_s: float
    run: Callable[[Callable[[], bool]], T]
    failed: Callable[[str], T]


class Replays:
    """The replays that were asked for. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._kept: OrderedDict[Key, tuple[Key, Any]] = OrderedDict()
        self._waiting: OrderedDict[Key, Replay[Any]] = OrderedDict()
        self._is_working = False
        self._replaying = threading.Lock()

    def soon(self, asked: Replay[T]) -> T | None:
        """What is known by now, of an earlier version where there is none of this one; None while nothing is."""
        with self._lock:
            kept = self._kept.get(asked.key)
            if kept is not None:
                self._kept.move_to_end(asked.key)
                if kept[0] == asked.version:
                    return _result(asked, kept)
            self._waiting[asked.key] = asked
            while len(self._waiting) > MAX_WAITING:
                self._waiting.popitem(last=False)
            if not self._is_working:
                threading.Thread(target=self._work, name="replays", daemon=True).start()
                self._is_working = True
        return None if kept is None else _result(asked, kept)

    def at_once(self, asked: Replay[T]) -> T:
        """What comes out, made now unless it is known."""
        with self._replaying:
            with self._lock:
                kept = self._kept.get(asked.key)
            if kept is not None and kept[0] == asked.version:
                return _result(asked, kept)
            return self._replay(asked)

    def _work(self) -> None:
        while True:
            with self._lock:
                if not self._waiting:
                    self._is_working = False
                    return
                # The newest first: somebody is looking at it.
                _, asked = self._waiting.popitem()
            began_s = time.monotonic()
            with self._replaying:
                with self._lock:
                    kept = self._kept.get(asked.key)
                if kept is not None and kept[0] == asked.version:
                    continue  # it was asked for again while it was being replayed
                self._replay(asked)
            time.sleep(REST_FACTOR * (time.monotonic() - began_s))

    def _replay(self, asked: Replay[T]) -> T:
        over_s = time.monotonic() + asked.budget_s
        try:
            found = asked.run(lambda: time.monotonic() >= over_s)
        except Exception as error:
            # A history that the model trips over must neither end the thread nor fail an answer, which says so.
            log.exception("replaying a group")
            found = asked.failed(f"the replay failed ({type(error).__name__})")
        with self._lock:
            self._kept[asked.key] = (asked.version, found)
            self._kept.move_to_end(asked.key)
            while len(self._kept) > MAX_KEPT:
                self._kept.popitem(last=False)
        return found


def _result(asked: Replay[T], kept: tuple[Key, Any]) -> T:
    """`asked` says of which type: a key has one kind of results."""
    found: T = kept[1]
    return found
