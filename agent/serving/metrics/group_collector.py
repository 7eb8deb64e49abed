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
from typing import NamedTuple, TypeVar

from agent.core.diagnosis.api import TopicPartition
from agent.core.diagnosis.consumption import Consumption, window_of
from agent.core.shadow.classic import ClassicGroup
from agent.core.shadow.mirror import Group, PartitionMirror
from agent.core.shadow.views import GroupView
from agent.core.wire.offset_commit_fastpath import read_positions
from agent.core.wire.primitives import Uuid
from agent.kafka.lag.lag_calculator import PartitionLag, TopicLag
from agent.kafka.lag.scraped import LagSnapshot, ScrapedLags
from agent.persistence.cluster_state import ClusterState
from agent.serving.metrics.group_metrics import GroupCounts, GroupReading, GroupShape, rounded
from agent.serving.metrics.readings import Granularity
from analyzers.balance import LoadPlan, load_imbalance, load_plan

LOCK_HOLD_S = 0.004
"""How long the lock is held at a time; one group may take longer."""

LOCK_PAUSE_S = 0.0002
"""Between two holds of the lock: without a pause whoever waits for it would hardly ever get it."""


Item = TypeVar("Item")


class _CachedGroup:
    """What is kept of one group, and what it was made from."""

    __slots__ = ("consumed", "group", "load", "named_by", "plan", "shape", "version")

    def __init__(self, group: Group, named_by: object, shape: GroupShape) -> None:
        self.group, self.version, self.named_by, self.shape = group, group.version, named_by, shape
        # Whose consumption, which version of it, and in which window.
        self.consumed: tuple[Consumption, int, int] | None = None
        self.plan: LoadPlan | None = None
        self.load: float | None = None


class _RawReading(NamedTuple):
    """One group as it was found under the lock; what can be read later is. `slots` only where they are asked for.
    `seen_ms` is when a group that is looked at was seen to commit; None where its positions tell (`looked_at`)."""

    shape: GroupShape
    load: float | None
    values: Sequence[bytes]
    slots: Sequence[TopicPartition]
    counts: GroupCounts
    looked_at: bool = False
    seen_ms: int | None = None


class _DetailByGroup(NamedTuple):
    """What there is to tell of a partition's groups by topic and by partition, by group."""

    topics: Mapping[str, Sequence[TopicLag]]
    partitions: Mapping[str, Sequence[PartitionLag]]


NO_DETAIL = _DetailByGroup({}, {})


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
        self._lags = None if granularity is Granularity.GROUP else lags
        # Where the lag is told, positions come with it.
        self._has_slots = granularity is Granularity.PARTITION and lags is None
        self._shows, self._stale, self._pause_s = shows, stale, pause_s
        self._names: Mapping[Uuid, str] = {}
        self._names_versions: Sequence[tuple[PartitionMirror, int]] = ()
        self._names_version = 0
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
            self._learn_names(mirrors)
        self._kept = {mirror: self._kept.get(mirror, {}) for mirror in mirrors}
        for mirror in mirrors:
            yield mirror, self._partition(mirror)

    def _learn_names(self, mirrors: Iterable[PartitionMirror]) -> None:
        versions = [(it, it.names_version) for it in mirrors]
        if versions != self._names_versions:
            self._names, self._names_versions = self._state.mirror.topic_names(), versions
            self._names_version += 1

    def _partition(self, mirror: PartitionMirror) -> Iterator[GroupReading]:
        """The groups of a partition; between some and some more the lock is free."""
        before, after = self._kept[mirror], dict[str, _CachedGroup]()
        is_stale = mirror.partition in self._stale()
        with self._lock:
            names = list(mirror.groups)
            lagging = None if self._lags is None else self._lags.take(mirror.partition, mirror.offsets)
        finer = self._finer(lagging)
        done = 0
        while done < len(names):
            with self._lock:
                if self._state.mirror.partitions.get(mirror.partition) is not mirror:
                    return
                raws = list(self._some(mirror, islice(names, done, None), before, after))
            done += len(raws)
            readings = _readings([raw for raw in raws if raw is not None], finer)
            yield from (it._replace(stale=1) for it in readings) if is_stale else readings
            time.sleep(self._pause_s)
        self._kept[mirror] = after

    def _some(
        self,
        mirror: PartitionMirror,
        names: Iterable[str],
        before: Mapping[str, _CachedGroup],
        after: dict[str, _CachedGroup],
    ) -> Iterator[_RawReading | None]:
        """For each name what is there, None where nothing is to be told, until `LOCK_HOLD_S` are over."""
        until = time.perf_counter() + LOCK_HOLD_S
        state, number, offsets = self._state, mirror.partition, mirror.offsets
        diagnosis, counts = state.diagnosis.partition(number), state.counts.partitions.get(number)
        clock_ms = None if diagnosis is None else diagnosis.clock_ms
        slots_of = offsets.slots if self._has_slots else _no_slots
        for name in names:
            group = mirror.groups.get(name)
            if group is None or not self._shows(name):
                yield None
                continue
            kept = after[name] = self._kept_of(mirror, group, before.get(name))
            if diagnosis is not None and clock_ms is not None:
                self._consumed(kept, diagnosis.consumption(name), clock_ms, mirror)
            of_group = GroupCounts.of(counts, name)
            raw = _RawReading(kept.shape, kept.load, offsets.values(name), slots_of(name), of_group)
            if mirror.sampled_every_ms is not None:
                raw = raw._replace(looked_at=True, seen_ms=offsets.last_moved_ms(name))
            yield raw
            if time.perf_counter() > until:
                return

    def _kept_of(self, mirror: PartitionMirror, group: Group, kept: _CachedGroup | None) -> _CachedGroup:
        """What is kept of a group, made anew where it changed since."""
        # What its topics are called changes how a KIP-848 group is seen; its own commits may say that too.
        named_by = None
        if not isinstance(group, ClassicGroup):
            named_by = (self._names_version, mirror.offsets.topic_ids(group.name))
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

    def _finer(self, lagging: LagSnapshot | None) -> _DetailByGroup:
        if lagging is None:
            return NO_DETAIL
        return _DetailByGroup(
            _by_group(lagging.topics()),
            _by_group(lagging.partitions()) if self.granularity is Granularity.PARTITION else {},
        )


def _by_group(items: Iterable[tuple[str, Item]]) -> dict[str, list[Item]]:
    out: dict[str, list[Item]] = {}
    last, found = None, list[Item]()
    for group, item in items:
        if group != last:
            last, found = group, out.setdefault(group, [])
        found.append(item)
    return out


def _readings(raws: Sequence[_RawReading], finer: _DetailByGroup) -> Iterator[GroupReading]:
    """From the values of all these groups at once: to look at those of one takes nearly as long as of a hundred."""
    offsets, times = offset_columns([value for raw in raws for value in raw.values])
    start = 0
    for shape, load, values, slots, counts, looked_at, seen_ms in raws:
        name, end = shape.group, start + len(values)
        partitions = finer.partitions.get(name, ())
        if slots:
            committed = zip(slots, offsets[start:end], strict=True)
            partitions = [PartitionLag(name, topic, at, offset, None) for (topic, at), offset in committed]
        last_commit_ms = seen_ms if looked_at else max(times[start:end], default=None)
        yield GroupReading(shape, load, last_commit_ms, counts, finer.topics.get(name, ()), partitions)
        start = end


def offset_columns(values: Sequence[bytes]) -> tuple[Sequence[int], Sequence[int]]:
    """Offsets and commit times of positions."""
    offsets, times = zip(*read_positions(values), strict=True) if values else ((), ())
    return offsets, times


def _no_slots(group: str) -> Sequence[TopicPartition]:
    return ()


def cluster_findings(state: ClusterState) -> Sequence[tuple[tuple[str, str], bool]]:
    """Findings that are about no group, as in `GroupCounts`. The caller holds the lock."""
    return GroupCounts.of(state.counts.partitions.get(None), "").findings


def _merged(one: GroupReading, other: GroupReading) -> GroupReading:
    """A group stands in two partitions once the topic was given more of them: its newest state is the one it has."""
    newest = one if one.shape.state_since_ms > other.shape.state_since_ms else other
    return newest._replace(counts=_sum(one.counts, other.counts))


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
