"""Watches rollouts while an agent runs: the verdict on each group's newest for the metrics, and how far groups were
behind while their members changed, which nothing remembers otherwise.

Owns when it is looked, and what is kept: bounded, in memory, from the agent's start on. It asks no broker: lag is
what the watch of ends knows. Only groups of which something happened since the last look are gone through, so a fleet
at rest costs a look at its newest events.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from heapq import nlargest
from typing import NamedTuple

from agent.common import clock
from agent.common.threads import BackgroundThread
from agent.common.units import MINUTE_MS
from agent.core.events.samples import LagNote
from agent.core.open_transactions import OpenTransactions
from agent.kafka.lag.scraped import ScrapedLags
from agent.persistence.cluster_state import ClusterState
from agent.runtime.lag_peaks import LagPeaks
from agent.runtime.sampling import lag_sum
from agent.serving.metrics.group_metrics import RolloutReading

log = logging.getLogger("kshadow")

LOOK_S = 10.0
"""A verdict is due within 60 s of the last pod, of which 30 are waited for: so it is in the metrics 10 s later."""
BUDGET_S = 0.5
"""Of a look, for verdicts: a twentieth of a core. Groups that are left over come first in the next."""
NOTED_AFTER_MS = 3 * MINUTE_MS
"""So long after a group's newest event its lag is noted: a peak counts until a minute after the group is steady."""
MAX_GROUPS = 500
"""Groups whose lag is noted; those that changed least lately go."""


class _Known(NamedTuple):
    """What was found of a group at its newest event, `mark`; whether time alone changes that."""

    mark: tuple[int, int]
    reading: RolloutReading | None
    is_final: bool


class RolloutWatch(BackgroundThread):
    """Started once the topic's end was reached."""

    STOP_S = 1.0

    def __init__(
        self,
        state: ClusterState,
        lock: threading.Lock,
        lags: ScrapedLags | None,
        *,
        shows: Callable[[str], bool],
        is_current: Callable[[], bool],
        hiding: Callable[[], OpenTransactions] = dict,
    ) -> None:
        """`lock` is held while `state` is looked at; `lags`: None where ends are not asked for. `shows` says which
        groups are asked for, `is_current` whether what is mirrored is as of now, but in partitions of `hiding`."""
        super().__init__("rollouts")
        self._state, self._lock, self._lags = state, lock, lags
        self._shows, self._is_current, self._hiding = shows, is_current, hiding
        self._known: dict[str, _Known] = {}
        self._notes: OrderedDict[str, LagPeaks] = OrderedDict()

    def readings(self) -> Mapping[str, RolloutReading]:
        """The newest rollout of each group that has one."""
        return {group: it.reading for group, it in self._known.copy().items() if it.reading is not None}

    def lag_notes(self, group: str) -> Sequence[LagNote]:
        """How far a group was behind while it changed, in order: see `LagPeaks.notes`."""
        notes = self._notes.get(group)
        return () if notes is None else notes.notes()

    def _run(self) -> None:
        while not self._stop.wait(LOOK_S):
            try:
                if self._is_current():
                    self.look(clock.now_ms())
            except Exception:
                log.exception("rollouts: a look failed; the agent goes on without it")

    def look(self, now_ms: int) -> None:
        """Look once."""
        marks = self._marks()
        changing = (group for group, (at_ms, _) in marks.items() if now_ms - at_ms <= NOTED_AFTER_MS)
        # Where all groups of a large cluster change at once, of no more of them than notes are kept of.
        self._note_lags(now_ms, set(nlargest(MAX_GROUPS, changing, key=marks.__getitem__)))
        for group in self._known.keys() - marks.keys():
            del self._known[group]
        due = [it for it, mark in marks.items() if (known := self._known.get(it)) is None or _is_due(known, mark)]
        over_s = time.monotonic() + BUDGET_S
        # What was left over has waited longest: its newest event is the oldest of those that are due.
        for group in sorted(due, key=lambda it: marks[it][0]):
            try:
                self._known[group] = self._judged(group, marks[group], now_ms)
            except Exception:
                # One group's history must not keep the others from a verdict: it has none until something happens.
                log.exception("rollouts: group %r cannot be judged", group[:200])
                self._known[group] = _Known(marks[group], None, True)
            if time.monotonic() >= over_s or self._stop.is_set():
                break

    def _marks(self) -> dict[str, tuple[int, int]]:
        """Of each group when its newest event was, and how many are remembered."""
        found: dict[str, tuple[int, int]] = {}
        with self._lock:
            for partition in self._state.recent.partitions.values():
                for group, events in partition.groups.items():
                    if group is not None and events:
                        newest, number = found.get(group, (0, 0))
                        found[group] = (max(newest, events[-1].at_ms), number + len(events))
        return {group: mark for group, mark in found.items() if self._shows(group)}

    def _judged(self, group: str, mark: tuple[int, int], now_ms: int) -> _Known:
        # The watch starts when the agent is ready, which need not wait for what judges.
        from agent.presentation.rollouts.rollout_list import rollouts_json
        from agent.presentation.rollouts.sentences import PENDING, verdict_word

        with self._lock:
            events, complete_since_ms = self._state.recent.timeline(group)
            view = self._state.mirror.view(group)
        members = None if view is None else len(view.members)
        if view is not None and (hides := self._hiding().get(view.coordinator_partition)) is not None:
            # That nothing was read since is no sign of steadiness.
            now_ms = hides.since_ms
        notes = self.lag_notes(group)
        rollouts = rollouts_json(group, events, max(now_ms, mark[0]), members, notes, complete_since_ms)
        if not rollouts:
            return _Known(mark, None, True)
        newest = rollouts[-1]
        word = verdict_word(newest)
        # A verdict that is there, or that will not come, becomes another by what happens alone.
        return _Known(mark, RolloutReading(word, newest["began_ms"]), word != PENDING)

    def _note_lags(self, now_ms: int, changing: set[str]) -> None:
        if self._lags is None:
            return
        with self._lock:
            mirrors = [it for it in self._state.mirror.partitions.values() if not changing.isdisjoint(it.groups)]
        for mirror in mirrors:
            with self._lock:
                taken = self._lags.take(mirror.partition, mirror.offsets)
            deleted = taken.deleted_topics()
            for group, it in taken.of_groups(changing).groups(topics=True, partitions=False).items():
                if topics := [lag for lag in it.topics if lag.topic not in deleted]:
                    self._notes.setdefault(group, LagPeaks()).add(lag_sum(topics).note(now_ms))
                    self._notes.move_to_end(group)
        while len(self._notes) > MAX_GROUPS:
            self._notes.popitem(last=False)


def _is_due(known: _Known, mark: tuple[int, int]) -> bool:
    return known.mark != mark or not known.is_final
