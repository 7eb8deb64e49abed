"""Lag for a scrape: what groups have committed, taken under the agent's lock, against the ends as they are known."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import NamedTuple

from agent.lag.ends import Ends
from agent.lag.sums import PartitionLag, Positions, Sums, TopicLag, lags, partition_lags
from agent.shadow.offsets import Offsets


class Taken(NamedTuple):
    """As `agent.metrics.readings.Lagging`."""

    positions: Positions
    ends: Ends
    now_ms: int
    shows_topic: Callable[[str], bool]

    def topics(self) -> Iterator[tuple[str, TopicLag]]:
        """By group."""
        return (it for it in lags(self.positions, self.ends, self.now_ms) if self.shows_topic(it[1].topic))

    def partitions(self) -> Iterator[tuple[str, PartitionLag]]:
        """By group."""
        found = partition_lags(self.positions, self.ends, self.now_ms)
        return ((it.group, it) for it in found if self.shows_topic(it.topic))


class ScrapedLags:
    """As `agent.metrics.readings.Lags`."""

    def __init__(self, ends: Callable[[], Ends], shows_topic: Callable[[str], bool] = lambda topic: True) -> None:
        """`ends` as known; `shows_topic`: of which topics anything is told."""
        self._ends, self._shows_topic = ends, shows_topic
        self._sums = Sums()

    def take(self, partition: int, offsets: Offsets) -> Taken:
        """What groups have committed in a partition of the offsets topic."""
        now_ms = time.time_ns() // 1_000_000
        return Taken(self._sums.take(partition, offsets), self._ends(), now_ms, self._shows_topic)
