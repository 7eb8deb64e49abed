"""How far groups are behind, from what the mirror holds of their commits and from watched end offsets."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping

from agent.core.end_offsets import NO_END_OFFSETS, EndOffsets
from agent.kafka.lag.lag_calculator import lag_totals, lowest_committed
from agent.kafka.lag.scraped import LagSnapshot, ScrapedLags
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
    ) -> None:
        """`lock` is held while commits are taken from `state`. `interval_s`: how often ends are asked for; None for
        never. Raises `SourceMisconfigured`."""
        self._state, self._lock, self._shows_topic = state, lock, shows_topic
        self.watcher = None if interval_s is None else LagWatcher(conf, self._committed, interval_s)
        self.scraped = ScrapedLags(self.ends, shows_topic)

    def ends(self) -> EndOffsets:
        """Where the groups' partitions end, as far as is known."""
        return NO_END_OFFSETS if self.watcher is None else self.watcher.snapshot()

    def totals(self) -> Mapping[str, int]:
        """Each group's lag in records over all its topics, where it is known."""
        if self.watcher is None:
            return {}
        return lag_totals(lag for snapshot in self._snapshots() for lag in snapshot.topics())

    def _snapshots(self) -> Iterator[LagSnapshot]:
        """What all groups have committed, a partition at a time."""
        with self._lock:
            mirrors = list(self._state.mirror.partitions.values())
        for mirror in mirrors:
            with self._lock:
                taken = self.scraped.take(mirror.partition, mirror.offsets)
            yield taken

    def _committed(self) -> CommittedOffsets:
        found = lowest_committed([it.positions for it in self._snapshots()])
        return {topic: partitions for topic, partitions in found.items() if self._shows_topic(topic)}
