"""Lag for a scrape: what groups have committed, taken under the agent's lock, against the ends as they are known."""

from __future__ import annotations

from collections.abc import Callable, Container, Sequence
from itertools import groupby
from typing import NamedTuple

from agent.common import clock
from agent.core.end_offsets import NO_END_OFFSETS, EndOffsets, LagNote, PartitionId
from agent.core.shadow.offsets import CommittedOffsets
from agent.core.shadow.views import known_ms
from agent.core.share_positions import SharePosition
from agent.kafka.lag.lag_calculator import (
    NO_POSITIONS,
    CommittedPositions,
    LagCalculator,
    LagPass,
    Positions,
    TopicLag,
    positions_of,
    positions_of_groups,
)


class GroupPositions(NamedTuple):
    """What one group committed, and how far behind that is. What was not asked for is empty."""

    last_commit_ms: int | None = None
    topic_ids: Sequence[bytes] = ()
    """Of each position that it committed, in the order of `places`."""
    places: Sequence[PartitionId] = ()
    topics: Sequence[TopicLag] = ()
    shown: Positions = NO_POSITIONS
    """Of topics that are shown."""


NOTHING_COMMITTED = GroupPositions()


class LagSnapshot(NamedTuple):
    """What groups had committed in one partition of the offsets topic at one time, and how far behind that is; share
    groups have `shares` instead."""

    positions: CommittedPositions
    ends: EndOffsets
    now_ms: int
    shows_topic: Callable[[str], bool]
    shares: Sequence[SharePosition] = ()

    def groups(self, *, topics: bool, partitions: bool) -> dict[str, GroupPositions]:
        """By group, with what is asked for. Needs no lock."""
        look, layout = LagPass(self.positions, self.ends, self.now_ms), self.positions.layout
        times_ms, topic_ids, rows = look.times_ms, look.topic_ids, layout.rows
        lags, behind = look.lags() if topics else (), look.records if partitions else ()
        shown = self._shown_topics()
        shows_all = all(row.topic in shown for row in rows)
        out: dict[str, GroupPositions] = {}
        for group, its_rows, span in layout.groups:
            spans = [span] if shows_all else [slice(it.start, it.stop) for it in rows[its_rows] if it.topic in shown]
            parts = [Positions(layout.places[it], look.offsets[it], behind[it]) for it in spans if partitions]
            out[group] = GroupPositions(
                known_ms(max(times_ms[span])),
                topic_ids[span],
                layout.places[span],
                (lags[its_rows] if shows_all else [it for it in lags[its_rows] if it.topic in shown])
                if topics
                else (),
                _joined(parts),
            )
        for group, shares in groupby(self.shares, lambda it: it.group):
            mine = [it for it in shares if self.shows_topic(it.topic)]
            known = out.get(group, NOTHING_COMMITTED)
            if topics:
                by_topic = groupby(mine, lambda it: it.topic)
                more = [self._share_lag(topic, list(positions)) for topic, positions in by_topic]
                known = known._replace(topics=[*known.topics, *more])
            if partitions:
                of_shares = (
                    ((it.topic, it.partition), it.state.start_offset, it.lag(self.ends, self.now_ms).records)
                    for it in mine
                )
                known = known._replace(shown=_joined([known.shown, positions_of(of_shares)]))
            out[group] = known
        return out

    def of_groups(self, groups: Container[str]) -> LagSnapshot:
        """The same of some groups alone: what of these is asked for costs what these do."""
        shares = [it for it in self.shares if it.group in groups]
        return self._replace(positions=positions_of_groups(self.positions, groups), shares=shares)

    def _shown_topics(self) -> set[str]:
        return {topic for topic in {row.topic for row in self.positions.layout.rows} if self.shows_topic(topic)}

    def deleted_topics(self) -> set[str]:
        """Those that are gone: of what is committed in them nothing is left to read."""
        return {name for name, state in self.ends.topics.items() if state.absent is LagNote.TOPIC_DELETED}

    def totals(self) -> dict[str, int]:
        """By group the records behind over all topics, as far as they are known: without groups of which nothing is,
        nor those that have nothing to read where it is, and may have elsewhere: not in topics that were deleted.
        Needs no lock."""
        behind = LagPass(self.positions, self.ends, self.now_ms).records
        shown = self._shown_topics() - self.deleted_topics()
        out: dict[str, int] = {}
        partly: set[str] = set()
        for row in self.positions.layout.rows:
            if row.topic in shown:
                known = behind[row.start : row.stop]
                out[row.group] = out.get(row.group, 0) + sum(filter(None, known))
                if None in known:
                    partly.add(row.group)
        for it in self.shares:
            if self.shows_topic(it.topic):
                records = it.lag(self.ends, self.now_ms).records
                out[it.group] = out.get(it.group, 0) + (records or 0)
                if records is None:
                    partly.add(it.group)
        return {group: records for group, records in out.items() if records or group not in partly}

    def _share_lag(self, topic: str, positions: Sequence[SharePosition]) -> TopicLag:
        known = [lag for it in positions if (lag := it.lag(self.ends, self.now_ms)).records is not None]
        count, unknown = len(positions), len(positions) - len(known)
        records = sum(it.records or 0 for it in known)
        if unknown and not records:
            return TopicLag(topic, None, None, count, unknown)
        seconds = [it.seconds for it in known]
        longest = None if None in seconds else max(it for it in seconds if it is not None)
        at_least = longest is not None and any(it.at_least for it in known)
        return TopicLag(topic, records, longest, count, unknown, at_least)


def _joined(parts: Sequence[Positions]) -> Positions:
    if len(parts) == 1:
        return parts[0]
    return positions_of(row for it in parts for row in zip(*it, strict=True))


class ScrapedLags:
    """Takes what groups have committed, against the ends of the topics that they consume."""

    def __init__(
        self,
        ends: Callable[[], EndOffsets],
        shows_topic: Callable[[str], bool] = lambda topic: True,
        shares: Callable[[int], Sequence[SharePosition]] = lambda partition: (),
        is_hidden: Callable[[int], bool] = lambda partition: False,
    ) -> None:
        """`ends` as known; `shows_topic`: of which topics anything is told; `shares`: how far the share groups are
        that are in a partition of the offsets topic, by group and topic; `is_hidden`: whether it is not known
        of such a partition what was committed lately, so that no lag is."""
        self._ends, self._shows_topic, self._shares, self._is_hidden = ends, shows_topic, shares, is_hidden
        self._sums = LagCalculator()

    def take(self, partition: int, offsets: CommittedOffsets) -> LagSnapshot:
        """What groups have committed in a partition of the offsets topic. The lock is held meanwhile."""
        now_ms = clock.now_ms()
        positions = self._sums.take(offsets)
        ends = NO_END_OFFSETS if self._is_hidden(partition) else self._ends()
        return LagSnapshot(positions, ends, now_ms, self._shows_topic, self._shares(partition))
