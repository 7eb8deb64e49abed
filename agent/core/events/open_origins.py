"""Late evidence: origins that are asked for again for some seconds, before they are counted and told for good.

Owns for how long, and what is amended then: the mirror's own memory and the counters. Events that are remembered
share `MemberOrigins` with their transitions, so they say what is known when they are asked for.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from msgspec.structs import replace

from agent.core.diagnosis.api import Finding
from agent.core.events.counts import EventCounts, PartitionCounts
from agent.core.inference.origins import MemberOrigins, OriginSource
from agent.core.shadow.mirror import PartitionMirror
from agent.core.shadow.transitions import MemberLeft, Transition

SETTLE_S = 10.0
"""For how long after the record the source is asked again. The kubelet looks at its containers once a second and then
writes the pod's status, which an API server under load takes some seconds for."""
BEHIND_S = 15.0
"""So much longer while the source is behind, and until it was not for `SETTLE_S`: an API server restarts. History and
snapshots wait for it, who are patient for 30 s."""
ASK_EVERY_S = 0.5
MAX_OPEN = 5_000
"""Records that are open at a time; the oldest are settled early. A deploy of 5,000 pods at once stays within it."""


class _OpenRecord(NamedTuple):
    """What one record showed of one group, `until_s` (monotonic) open, `at_most_s` while the source is behind;
    `departures` are counted by then."""

    until_s: float
    at_most_s: float
    partition: int
    group: str
    origins: MemberOrigins
    departures: list[str]


class OpenOrigins:
    """The records whose origins are not settled. Not thread-safe: its owner holds the lock."""

    def __init__(self, source: OriginSource, partitions: Mapping[int, PartitionMirror], counts: EventCounts) -> None:
        """`partitions` are the mirrors by partition, as they come and go."""
        self._source, self._partitions, self._counts = source, partitions, counts
        self._open: deque[_OpenRecord] = deque()
        self._ask_at_s = 0.0
        self._behind_s = -SETTLE_S
        """When the source was last behind."""

    def observe(self, outputs: Iterable[Transition | Finding], now_s: float, wall_ms: int) -> None:
        """Take what records showed. What is older by the clock on the wall than sources are asked for is settled at
        once."""
        last: _OpenRecord | None = None
        for it in outputs:
            if isinstance(it, Finding) or it.origins is None or it.origins.is_settled:
                continue
            if last is None or last.origins is not it.origins:
                age_s = min(max(wall_ms - it.at.timestamp_ms, 0) / 1000, SETTLE_S)
                until_s = now_s + SETTLE_S - age_s
                at_most_s = until_s + (BEHIND_S if age_s < SETTLE_S else 0.0)
                last = _OpenRecord(until_s, at_most_s, it.at.partition, it.group, it.origins, [])
                self._open.append(last)
            if isinstance(it, MemberLeft):
                last.departures.append(it.member.member_id)
        self.settle(now_s)

    def settle(self, now_s: float, *, all_of_them: bool = False) -> None:
        """Ask again, and count and close those whose time is over; `all_of_them`: those that are left too."""
        if not self._open:
            return
        if now_s >= self._ask_at_s:
            self._ask_at_s = now_s + ASK_EVERY_S
            for it in self._open:
                mirror = self._partitions.get(it.partition)
                if it.origins.ask_again(self._source) and mirror is not None:
                    view = mirror.view(it.group, with_commit=False)
                    if view is not None:
                        members = {member.member_id for member in view.members}
                        mirror.origins.learn(it.group, it.origins, members=members)
        if self._source.is_behind:
            self._behind_s = now_s
        was_behind = now_s < self._behind_s + SETTLE_S
        early = len(self._open) if all_of_them else len(self._open) - MAX_OPEN
        still: deque[_OpenRecord] = deque()
        for place, it in enumerate(self._open):
            if place < early or (it.at_most_s if was_behind else it.until_s) <= now_s:
                self._close(it)
            else:
                still.append(it)
        self._open = still

    def _close(self, record: _OpenRecord) -> None:
        record.origins.is_settled = True
        for name in record.departures:
            if (origin := record.origins.get(name)) is not None:
                self._counts.origin_known(record.partition, record.group, origin.kind)

    def with_open(self, partition: int, counts: PartitionCounts) -> PartitionCounts:
        """The counts of a partition as a snapshot keeps them: what is open counts with what is known by now, since
        whoever goes on with the snapshot has passed its records."""
        known = [
            (it.group, origin.kind)
            for it in self._open
            if it.partition == partition and it.group in counts.departures
            for name in it.departures
            if (origin := it.origins.get(name)) is not None
        ]
        if not known:
            return counts
        origins = {group: Counter(kinds) for group, kinds in counts.origins.items()}
        for group, kind in known:
            origins.setdefault(group, Counter())[kind] += 1
        return replace(counts, origins=origins)

    def forget(self, partition: int) -> None:
        """Nothing of this partition is counted any more."""
        for it in self._open:
            if it.partition == partition:
                it.origins.is_settled = True
        self._open = deque(it for it in self._open if it.partition != partition)
