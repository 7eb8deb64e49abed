"""How far groups are behind, from what the mirror holds of their commits and from watched end offsets."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping

from agent.core.end_offsets import NO_END_OFFSETS, EndOffsets
from agent.core.shadow.kip848 import ShareGroup
from agent.core.share_positions import SharePosition
from agent.kafka.lag.lag_calculator import CommittedPositions, lowest_committed
from agent.kafka.lag.scraped import LagSnapshot, ScrapedLags
from agent.kafka.lag.share_state import ShareStateWatcher
from agent.kafka.lag.watch import CommittedOffsets, LagWatcher
from agent.persistence.cluster_state import ClusterState


class GroupLags:
    """Lags of the groups of one cluster."""

    def __init__(
        self,
        state: ClusterState,
        lock: threading.Lock,
        conf: Mapping[str, str],
        interval_s: float | None,
        shows_topic: Callable[[str], bool],
        *,
        with_shares: bool = True,
        is_hidden: Callable[[int], bool],
    ) -> None:
        """`lock` is held while commits are taken from `state`. `interval_s`: how often ends are asked for; None for
        never. `with_shares`: whether share groups' positions are read as well. `is_hidden`: whether it is not
        known of a partition of the offsets topic what was committed lately, so no lag either. Raises
        `SourceMisconfigured`."""
        self._state, self._lock, self._shows_topic = state, lock, shows_topic
        self.is_hidden = is_hidden
        self._looked_at: set[int] = set()
        """Partitions of which it was known what had been committed as the last look at the ends began."""
        self.watcher = None if interval_s is None else LagWatcher(conf, self._committed, interval_s, self._end_look)
        self.share_watcher = None
        if self.watcher is not None and with_shares:
            self.share_watcher = ShareStateWatcher(conf, self._has_share_groups)
        self.scraped = ScrapedLags(self.ends, shows_topic, self._share_positions, is_hidden)

    def ends(self) -> EndOffsets:
        """Where the groups' partitions end, as far as is known."""
        return NO_END_OFFSETS if self.watcher is None else self.watcher.snapshot()

    def of_share_group(self, partition: int, group: str) -> list[SharePosition]:
        """How far a share group is that is in this partition of the offsets topic. The caller holds the lock."""
        mirror = self._state.mirror.partitions.get(partition)
        if self.share_watcher is None or mirror is None or not isinstance(mirror.groups.get(group), ShareGroup):
            return []
        return [it for it in self.share_watcher.positions(group, mirror.names) if self._shows_topic(it.topic)]

    def _share_positions(self, partition: int) -> list[SharePosition]:
        groups = () if self.share_watcher is None else self.share_watcher.groups
        return [it for group in groups for it in self.of_share_group(partition, group)]

    def _has_share_groups(self) -> bool:
        with self._lock:
            return any(name.startswith("share_group") for name in self._state.mirror.record_counts())

    def totals(self) -> Mapping[str, int]:
        """Each group's lag in records over all its topics, where it is known."""
        if self.watcher is None:
            return {}
        out: dict[str, int] = {}
        for partition, snapshot in self._snapshots():
            for group, records in snapshot.totals().items():
                if group not in out or self._tells_of(partition, group):
                    out[group] = records
        return out

    def _tells_of(self, partition: int, group: str) -> bool:
        """Whether, of a group that stands in several partitions, this one tells how it is."""
        with self._lock:
            mirror = self._state.mirror.mirror_of(group)
        return mirror is not None and mirror.partition == partition

    def _snapshots(self, *, begin_look: bool = False) -> Iterator[tuple[int, LagSnapshot]]:
        """What all groups have committed, by partition, one at a time."""
        with self._lock:
            mirrors = list(self._state.mirror.partitions.values())
        if begin_look:
            self._looked_at = {it.partition for it in mirrors if not self.is_hidden(it.partition)}
        for mirror in mirrors:
            with self._lock:
                if begin_look:
                    mirror.offsets.begin_look()
                taken = self.scraped.take(mirror.partition, mirror.offsets)
            yield mirror.partition, taken

    def _end_look(self, at_ms: int) -> None:
        with self._lock:
            for mirror in self._state.mirror.partitions.values():
                if mirror.partition in self._looked_at and not self.is_hidden(mirror.partition):
                    mirror.offsets.end_look(at_ms)

    def _committed(self) -> CommittedOffsets:
        shares: list[SharePosition] = []

        def positions() -> Iterator[CommittedPositions]:
            for _, snapshot in self._snapshots(begin_look=True):
                shares.extend(snapshot.shares)
                yield snapshot.positions

        found = lowest_committed(positions())
        for share in shares:
            of_topic = found.setdefault(share.topic, {})
            start = share.state.start_offset
            of_topic[share.partition] = min(of_topic.get(share.partition, start), start)
        return {topic: partitions for topic, partitions in found.items() if self._shows_topic(topic)}
