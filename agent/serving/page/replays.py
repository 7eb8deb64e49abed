"""What other settings would have made of a group's newest history: replayed aside, one group at a time, and kept.

A replay takes from milliseconds to seconds of this process's time, so no reader waits for one and it never takes more
than a part of a core: a page shows what is there, and has the rest when it asks again.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import replace
from typing import NamedTuple

from agent.presentation.narrative.gains import Gains
from agent.serving.replay_limit import TOO_LARGE, is_too_large
from agent.simulation.whatif.recorded_script import reason_not_replayable
from agent.simulation.whatif.recorder import GroupRecording

log = logging.getLogger("kshadow")

BUDGET_S = 3.0
"""For all settings of one group; looked at between two of them."""
REST_FACTOR = 4
"""After a replay the next one waits this many times as long as it took: a fifth of a core at most."""
MAX_KEPT = 200
MAX_WAITING = 10

Recommend = Callable[[GroupRecording, int | None, int | None, int, Callable[[], bool]], Gains]
Key = tuple[str | None, str]


class ReplayRequest(NamedTuple):
    """A group's recording, the range of it that counts, and the time now; epoch milliseconds."""

    key: Key
    recording: GroupRecording
    since_ms: int | None
    until_ms: int | None
    now_ms: int
    command: str

    def version(self) -> tuple[object, ...]:
        """The same for as long as a replay would be of the same records."""
        states = self.recording.states
        until_ms = self.now_ms if self.until_ms is None else self.until_ms
        before = sum(it.at_ms < self.since_ms for it in states) if self.since_ms is not None else 0
        within = sum(it.at_ms <= until_ms for it in states)
        return self.recording.earlier, before, within, states[-1].at_ms, self.until_ms


class Replays:
    """The replays that pages asked for. Thread-safe."""

    def __init__(self, recommend: Recommend | None = None) -> None:
        """`recommend`: the replay itself, `agent.simulation.whatif.recommendations` unless told."""
        self._recommend = recommend
        self._lock = threading.Lock()
        self._kept: OrderedDict[Key, tuple[tuple[object, ...], Gains]] = OrderedDict()
        self._waiting: OrderedDict[Key, ReplayRequest] = OrderedDict()
        self._is_working = False

    def gains(self, asked: ReplayRequest) -> Gains | None:
        """What is known by now, of a moment ago where the group has moved since; None while nothing is."""
        states = asked.recording.states
        if not any(it.inferred is not None for it in states):
            return Gains()
        if (reason := reason_not_replayable(asked.recording)) is not None:
            return Gains(untold=reason)
        if is_too_large(asked.recording):
            return Gains(untold=TOO_LARGE, command=asked.command)
        version = asked.version()
        with self._lock:
            kept = self._kept.get(asked.key)
            if kept is not None:
                self._kept.move_to_end(asked.key)
                if kept[0] == version:
                    return kept[1]
            self._waiting[asked.key] = asked
            while len(self._waiting) > MAX_WAITING:
                self._waiting.popitem(last=False)
            if not self._is_working:
                self._is_working = True
                threading.Thread(target=self._work, name="replays", daemon=True).start()
        return None if kept is None else kept[1]

    def _work(self) -> None:
        while True:
            with self._lock:
                if not self._waiting:
                    self._is_working = False
                    return
                # The newest first: somebody is looking at it.
                key, asked = self._waiting.popitem()
                version = asked.version()
                if (kept := self._kept.get(key)) is not None and kept[0] == version:
                    continue  # it was asked for again while it was being replayed
            began_s = time.monotonic()
            gains = self._replay(asked, began_s + BUDGET_S)
            with self._lock:
                self._kept[key] = (version, gains)
                self._kept.move_to_end(key)
                while len(self._kept) > MAX_KEPT:
                    self._kept.popitem(last=False)
            time.sleep(REST_FACTOR * (time.monotonic() - began_s))

    def _replay(self, asked: ReplayRequest, over_s: float) -> Gains:
        # Who never looks at a group's page has no use for the model.
        from agent.simulation.whatif.recommendations import recommend

        end_ms = asked.now_ms if asked.until_ms is None else min(asked.until_ms, asked.now_ms)
        try:
            replay = self._recommend or recommend
            found = replay(
                asked.recording, asked.since_ms, asked.until_ms, end_ms, lambda: time.monotonic() >= over_s
            )
        except Exception as error:
            # A history that the model trips over must not end the thread; the page says so.
            log.exception("replaying a group for the page")
            return Gains(untold=f"the replay failed ({type(error).__name__})", command=asked.command)
        return replace(found, command=asked.command) if found.untold else found
