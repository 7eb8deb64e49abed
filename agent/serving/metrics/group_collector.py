"""The groups of one scrape, read from what is mirrored while the reader goes on.

What changes only with a group's own records is kept between scrapes, so that a scrape costs for a group that stands
still little more than its last commit. The lock is held for some groups at a time, and let go of between.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from itertools import islice

from agent.core.diagnosis.consumption import Consumption, window_of
from agent.core.end_offsets import NO_END_OFFSETS
from agent.core.shadow.classic import ClassicGroup
from agent.core.shadow.mirror import Group, PartitionMirror
from agent.core.shadow.views import GroupView, precedence
from agent.core.wire.primitives import Uuid
from agent.kafka.lag.scraped import NOTHING_COMMITTED, GroupPositions, ScrapedLags
from agent.persistence.cluster_state import ClusterState
from agent.serving.metrics.group_metrics import GroupCounts, GroupReading, GroupShape, rounded
from agent.serving.metrics.readings import Granularity
from analyzers.balance import LoadPlan, load_imbalance, load_plan

LOCK_HOLD_S = 0.004
"""How long the lock is held at a time; one group may take longer."""

LOCK_PAUSE_S = 0.0002
"""Between two holds of the lock: without a pause whoever waits for it would hardly ever get it."""


class _CachedGroup:
    """What is kept of one group, and what it was made from."""

    __slots__ = ("consumed", "group", "load", "named_by", "plan", "shape", "version")

    def __init__(self, group: Group, named_by: object, shape: GroupShape) -> None:
        self.group, self.version, self.named_by, self.shape = group, group.version, named_by, shape
        # Whose consumption, which version of it, and in which window.
        self.consumed: tuple[Consumption, int, int] | None = None
        self.plan: LoadPlan | None = None
        self.load: float | None = None


class GroupCollector:
    """Reads all groups, again and again. One reading at a time: `agent.serving.metrics.exporter` sees to that."""

    def __init__(
        self,
        state: ClusterState,
        lock: AbstractContextManager[object],
        *,
        granularity: Granularity = Granularity.GROUP,
        lags: ScrapedLags | None = None,
        shows: Callable[[str], bool] = lambda _: True,
        stale: Callable[[], Container[int]] = tuple,
        pause_s: float = LOCK_PAUSE_S,
    ) -> None:
        """`lock` is held while `state` is looked at, with pauses between; `shows` says which groups are asked for,
        `stale` the partitions of which it is not known what was written lately."""
        self._state = state
        self._lock = lock
        self.granularity = granularity
        self._tells_topics = lags is not None and granularity is not Granularity.GROUP
        self._tells_partitions = granularity is Granularity.PARTITION
        self._lags = ScrapedLags(lambda: NO_END_OFFSETS) if lags is None else lags
        self._shows, self._stale, self._pause_s = shows, stale, pause_s
        self._names: Mapping[Uuid, str] = {}
        # The mirrors themselves are the keys: a partition that was forgotten has another one when it is read anew.
        self._kept: dict[PartitionMirror, dict[str, _CachedGroup]] = {}

    def read(self) -> list[GroupReading]:
        """Every group, by name."""
        found: dict[str, GroupReading] = {}
        for _, readings in self.by_partition():
            for reading in readings:
                name = reading.shape.group
                other = found.get(name)
                found[name] = reading if other is None else _merged(other, reading)
        return [found[name] for name in sorted(found)]

    def by_partition(self) -> Iterator[tuple[PartitionMirror, Iterable[GroupReading]]]:
        """The groups of each partition in turn, each partition's as they are read: to be gone through at once."""
        with self._lock:
            mirrors = list(self._state.mirror.partitions.values())
            self._names = self._state.mirror.topic_names()
        self._kept = {mirror: self._kept.get(mirror, {}) for mirror in mirrors}
        for mirror in mirrors:
            yield mirror, self._partition(mirror)

    def _partition(self, mirror: PartitionMirror) -> Iterator[GroupReading]:
        """The groups of a partition; between some and some more the lock is free."""
        before, after = self._kept[mirror], dict[str, _CachedGroup]()
        stale = 1 if mirror.partition in self._stale() else None
        with self._lock:
            names = list(mirror.groups)
            taken = self._lags.take(mirror.partition, mirror.offsets)
        positions = taken.groups(topics=self._tells_topics, partitions=self._tells_partitions)
        done = 0
        while done < len(names):
            with self._lock:
                if self._state.mirror.partitions.get(mirror.partition) is not mirror:
                    return
                found = list(self._some(mirror, islice(names, done, None), positions, before, after, stale))
            done += len(found)
            yield from (it for it in found if it is not None)
            time.sleep(self._pause_s)
        self._kept[mirror] = after

    def _some(
        self,
        mirror: PartitionMirror,
        names: Iterable[str],
        positions: Mapping[str, GroupPositions],
        before: Mapping[str, _CachedGroup],
        after: dict[str, _CachedGroup],
        stale: int | None,
    ) -> Iterator[GroupReading | None]:
        """For each name what is there, None where nothing is to be told, until `LOCK_HOLD_S` are over."""
        until = time.perf_counter() + LOCK_HOLD_S
        state, number, offsets = self._state, mirror.partition, mirror.offsets
        diagnosis, counts = state.diagnosis.partition(number), state.counts.partitions.get(number)
        clock_ms = None if diagnosis is None else diagnosis.clock_ms
        for name in names:
            group = mirror.groups.get(name)
            if group is None or not self._shows(name):
                yield None
                continue
            at = positions.get(name, NOTHING_COMMITTED)
            kept = after[name] = self._kept_of(mirror, group, at, before.get(name))
            if diagnosis is not None and clock_ms is not None:
                self._consumed(kept, diagnosis.consumption(name), clock_ms, mirror)
            # Of a group that is looked at it counts when its positions moved, not when they were seen.
            commit_ms = at.last_commit_ms if mirror.sampled_every_ms is None else offsets.last_moved_ms(name)
            of_group = GroupCounts.of(counts, name)
            yield GroupReading(kept.shape, kept.load, commit_ms, of_group, at.topics, at.shown, None, stale)
            if time.perf_counter() > until:
                return

    def _kept_of(
        self, mirror: PartitionMirror, group: Group, at: GroupPositions, kept: _CachedGroup | None
    ) -> _CachedGroup:
        """What is kept of a group, made anew where it changed since."""
        # What its topics are called changes how a KIP-848 group is seen; its own commits may say that too.
        named_by = None
        if not isinstance(group, ClassicGroup):
            named_by = (self._names, dict(zip(at.topic_ids, at.places, strict=True)))
        if kept is None or kept.group is not group or kept.version != group.version or kept.named_by != named_by:
            return _CachedGroup(group, named_by, GroupShape.of(self._view(mirror, group.name)))
        return kept

    def _consumed(
        self, kept: _CachedGroup, consumption: Consumption | None, now_ms: int, mirror: PartitionMirror
    ) -> None:
        """Bring the load's imbalance up to date: after each sample, and as a window ends."""
        if consumption is None or kept.consumed == (
            consumed := (consumption, consumption.version, window_of(now_ms))
        ):
            return
        name = kept.group.name
        if kept.consumed is None:
            kept.plan = load_plan(self._view(mirror, name), mirror.offsets.slots(name))
        kept.consumed = consumed
        records = consumption.records_until(now_ms)
        if kept.plan is not None:
            kept.load = rounded(kept.plan.imbalance(records))
        else:
            kept.load = rounded(load_imbalance(self._view(mirror, name), records))

    def _view(self, mirror: PartitionMirror, name: str) -> GroupView:
        view = mirror.view(name, self._names, with_commit=False)
        assert view is not None, "the mirror has the group"
        return view


def cluster_findings(state: ClusterState) -> Sequence[tuple[tuple[str, str], bool]]:
    """Findings that are about no group, as in `GroupCounts`. The caller holds the lock."""
    return GroupCounts.of(state.counts.partitions.get(None), "").findings


def _merged(one: GroupReading, other: GroupReading) -> GroupReading:
    """A group stands in two partitions once the topic was given more of them."""
    told = max(one, other, key=lambda it: precedence(it.shape.state, it.last_commit_ms, it.shape.state_since_ms))
    return told._replace(counts=_sum(one.counts, other.counts))


def _sum(one: GroupCounts, other: GroupCounts) -> GroupCounts:
    stopped = [it for it in (one.stopped_ms, other.stopped_ms) if it is not None]
    findings = dict(one.findings)
    for key, is_open in other.findings:
        findings[key] = findings.get(key, False) or is_open
    return GroupCounts(
        tuple((Counter(dict(one.rebalances)) + Counter(dict(other.rebalances))).items()),
        tuple((Counter(dict(one.departures)) + Counter(dict(other.departures))).items()),
        sum(stopped) if stopped else None,
        tuple(findings.items()),
        tuple((Counter(dict(one.origins)) + Counter(dict(other.origins))).items()),
    )
