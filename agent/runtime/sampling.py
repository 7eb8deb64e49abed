"""Samples of groups for the history: a thread that looks at all of them at an interval.

Owns when it is looked, and what of a look is told. It asks no broker: lag is what the watch knows. The lock is held
for a few milliseconds at a time with longer pauses between; the reader does not notice. What it makes is worth less
than the events that the log tells: a sink that is far behind gets none.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager
from heapq import nlargest
from operator import itemgetter

from agent.common.threads import BackgroundThread
from agent.core.events.samples import (
    MOST_BEHIND,
    GroupLagTotal,
    GroupSample,
    PositionBehind,
    sample_event,
)
from agent.core.shadow.views import precedence
from agent.kafka.lag.lag_calculator import Positions, TopicLag
from agent.kafka.lag.scraped import NOTHING_COMMITTED, ScrapedLags
from agent.persistence.cluster_state import ClusterState
from agent.persistence.export.pipeline import ExportPipeline
from agent.serving.metrics.group_collector import GroupCollector
from agent.serving.metrics.readings import Granularity

log = logging.getLogger("kshadow")

PAUSE_S = 0.01
"""Between two holds of the lock, of 4 ms each: a look at 10,000 groups takes seconds, and nobody waits for it."""

BATCH_EVENTS = 200
"""Events that are handed to the sinks at a time, for whom the reader may have some as well."""


class Sampler(BackgroundThread):
    """Started once the topic's end was reached, stopped before the sinks. Looks first after one interval."""

    STOP_S = 1.0

    def __init__(
        self,
        state: ClusterState,
        lock: AbstractContextManager[object],
        lags: ScrapedLags,
        exports: ExportPipeline,
        *,
        cluster: str | None,
        shows: Callable[[str], bool],
        is_current: Callable[[], bool],
        interval_s: float | None,
    ) -> None:
        """`lock` is held while `state` is looked at; `shows` says which groups are asked for, `is_current` whether
        what is mirrored is as of now, and nobody else's. `interval_s`: None for never."""
        super().__init__("samples")
        self._state, self._lock, self._lags, self._exports = state, lock, lags, exports
        self._groups = GroupCollector(state, lock, granularity=Granularity.GROUP, shows=shows, pause_s=PAUSE_S)
        self._cluster, self._is_current, self._interval_s = cluster, is_current, interval_s
        self._last_ms = 0
        self._is_behind = False
        self._woken = threading.Event()

    def request_stop(self) -> None:
        """Look no more."""
        super().request_stop()
        self._woken.set()

    def change_interval(self, interval_s: float | None) -> None:
        """Look that often from now on; None for no more."""
        if interval_s != self._interval_s:
            self._interval_s = interval_s
            self._woken.set()

    def _run(self) -> None:
        due = time.monotonic()
        while not self._stop.is_set():
            interval_s, now = self._interval_s, time.monotonic()
            # What was missed is not made up for.
            due = now if interval_s is None else max(due + interval_s, now)
            if self._woken.wait(None if interval_s is None else due - now):
                self._woken.clear()
                due = time.monotonic()
                continue
            try:
                self.sample()
            except Exception:
                log.exception("samples: a look failed; the agent goes on without it")

    def sample(self) -> int:
        """Look once: how many samples were handed to the sinks."""
        if not self._may_continue():
            return 0
        samples = self._samples()
        told = 0
        for first in range(0, len(samples), BATCH_EVENTS):
            if not self._may_continue():
                break
            # Another replica may have been given a partition meanwhile.
            own = [
                it for it in samples[first : first + BATCH_EVENTS] if it.partition in self._state.mirror.partitions
            ]
            self._exports.put([sample_event(it, self._cluster) for it in own])
            told += len(own)
            time.sleep(PAUSE_S)
        return told

    def _may_continue(self) -> bool:
        return not self._stop.is_set() and self._is_current() and self._has_room()

    def _has_room(self) -> bool:
        """Whether the sinks take what is no part of the log's history: said once where they do not."""
        was_behind, self._is_behind = self._is_behind, not self._exports.has_room
        if self._is_behind and not was_behind:
            log.warning("samples of groups are left out: history that waits to be written has little room left")
        return not self._is_behind

    def _samples(self) -> list[GroupSample]:
        """One of each group."""
        found: dict[str, tuple[tuple[bool, int, int], GroupSample]] = {}
        # The clock on the wall may be set back: a sample's time is after that of the one before.
        least_ms = self._last_ms + 1
        for mirror, readings in self._groups.by_partition():
            if self._stop.is_set():
                return []
            with self._lock:
                if self._state.mirror.partitions.get(mirror.partition) is not mirror:
                    continue
                taken, offset = self._lags.take(mirror.partition, mirror.offsets), mirror.next_offset - 1
            at_ms = max(taken.now_ms, least_ms)
            self._last_ms = max(self._last_ms, at_ms)
            ends_ms = taken.ends.at_ms or None
            positions = taken.groups(topics=True, partitions=ends_ms is not None)
            for shape, load, commit_ms, *_ in readings:
                other = found.get(shape.group)
                its = positions.get(shape.group, NOTHING_COMMITTED)
                standing = precedence(shape.state, commit_ms, shape.state_since_ms)
                if other is not None and other[0] >= standing:
                    continue
                found[shape.group] = (
                    standing,
                    GroupSample(
                        at_ms,
                        mirror.partition,
                        offset,
                        shape.group,
                        str(shape.group_type),
                        str(shape.state),
                        shape.members,
                        shape.imbalance,
                        load,
                        lag_sum(its.topics),
                        ends_ms,
                        furthest_behind(its.shown),
                        mirror.sampled_every_ms,
                    ),
                )
        return [sample for _, sample in found.values()]


def lag_sum(topics: Iterable[TopicLag]) -> GroupLagTotal:
    """Of one group, over its topics."""
    positions = known = 0
    records: int | None = None
    seconds: float | None = None
    is_bound = False
    for it in topics:
        positions += it.partitions
        known += it.partitions - it.unknown
        if it.records is None:
            continue
        records = it.records + (records or 0)
        if it.seconds is not None:
            seconds = it.seconds if seconds is None else max(seconds, it.seconds)
        # Of a topic that is behind for nobody knows how long the others' seconds are a bound.
        is_bound |= it.at_least or it.seconds is None
    return GroupLagTotal(positions, known, records, seconds, is_bound and seconds is not None)


def furthest_behind(positions: Positions) -> list[PositionBehind]:
    """The positions of a group with something to read, those that are furthest behind first."""
    rows = [(place, offset, behind) for place, offset, behind in zip(*positions, strict=True) if behind]
    return [
        PositionBehind(topic, partition, offset + behind)
        for (topic, partition), offset, behind in nlargest(MOST_BEHIND, rows, key=itemgetter(2))
    ]
