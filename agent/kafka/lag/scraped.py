"""Lag for a scrape: what groups have committed, taken under the agent's lock, against the ends as they are known."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

from agent.common import clock
from agent.core.end_offsets import EndOffsets
from agent.core.shadow.offsets import CommittedOffsets
from agent.kafka.lag.lag_calculator import (
    CommittedPositions,
    LagCalculator,
    PartitionLag,
    TopicLag,
    partition_lags,
    topic_lags,
)


class LagSnapshot(NamedTuple):
    """What groups had committed in one partition of the offsets topic at one time, and how far behind that is."""

    positions: CommittedPositions
    ends: EndOffsets
    now_ms: int
    shows_topic: Callable[[str], bool]

    def topics(self) -> Iterator[tuple[str, TopicLag]]:
        """By group, those of one group together. Needs no lock."""
        return (it for it in topic_lags(self.positions, self.ends, self.now_ms) if self.shows_topic(it[1].topic))

    def partitions(self) -> Iterator[tuple[str, PartitionLag]]:
        """By group."""
        found = partition_lags(self.positions, self.ends, self.now_ms)
        return ((it.group, it) for it in found if self.shows_topic(it.topic))


class ScrapedLags:
    """Takes what groups have committed, against the ends of the topics that they consume."""

    def __init__(
        self, ends: Callable[[], EndOffsets], shows_topic: Callable[[str], bool] = lambda topic: True
    ) -> None:
        """`ends` as known; `shows_topic`: of which topics anything is told."""
        self._ends, self._shows_topic = ends, shows_topic
        self._sums = LagCalculator()

    def take(self, partition: int, offsets: CommittedOffsets) -> LagSnapshot:
        """What groups have committed in a partition of the offsets topic. The lock is held meanwhile."""
        now_ms = clock.now_ms()
        return LagSnapshot(self._sums.take(partition, offsets), self._ends(), now_ms, self._shows_topic)
