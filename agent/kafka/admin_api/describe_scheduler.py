"""Which groups to ask for next, and how many may be asked for now.

Owns the order and the rate; time is an argument (seconds of a clock that runs evenly). Refuses to know what an answer
says.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from itertools import islice

from msgspec import Struct

PRIORITY_S = 30.0
"""How long a group that moved comes first: as long as a storm takes to come again."""
CONFIRM_AFTER_S = 5.0
"""How soon a group that comes first, or whose answer is to be confirmed, is asked for again."""
LEAST_INTERVAL_S = 10.0
"""How soon any other group is asked for again, where there are so few that it could be sooner."""
URGENT_SHARE = 0.75
"""The part of a batch that groups which come first may fill as long as others wait."""
BURST_S = 1.0
"""For how long unused rate is saved up."""
SUSPENDED_S = 600.0
"""How long a group that cannot be asked for (no right, or the brokers know no such question of it) is left alone."""
SCANNED_PER_GROUP = 20
"""How many groups a wanted one are looked at, where coordinators do not answer."""


class RateLimiter(Struct):
    """At most so many groups a second, on the whole and over each `BURST_S`."""

    per_s: float
    _saved: float = 0.0
    _at: float | None = None

    def available(self, now: float) -> int:
        """How many may be asked for now; they count as asked for once `spend` is called."""
        if self._at is not None:
            self._saved = min(self._saved + (now - self._at) * self.per_s, max(self.per_s * BURST_S, 1.0))
        self._at = now
        return int(self._saved)

    def spend(self, count: float) -> None:
        """So many were asked for."""
        self._saved -= count


class DescribeScheduler:
    """The groups there are, by who is next: those that moved, then those never asked for, then the longest ago."""

    def __init__(self) -> None:
        self._partitions: dict[str, int] = {}
        # In the order in which they are due. A dict, so that any can be taken out.
        self._never: dict[str, float] = {}
        self._asked: dict[str, float] = {}
        self._urgent: dict[str, float] = {}
        """Groups that come first, until when."""
        self._left_alone: dict[str, float] = {}

    def set_groups(self, partitions: Mapping[str, int]) -> None:
        """The groups there are now, with the partition each lives in."""
        gone = self._partitions.keys() - partitions.keys()
        for group in partitions:
            if group not in self._partitions:
                self._never[group] = -LEAST_INTERVAL_S
        self._partitions = dict(partitions)
        for kept in (self._never, self._asked, self._urgent, self._left_alone):
            for group in gone:
                kept.pop(group, None)

    def prioritize(self, groups: Iterable[str], now: float) -> None:
        """These groups had a transition, or are seen in one, or have an answer to confirm."""
        for group in groups:
            if group in self._partitions:
                self._urgent[group] = now + PRIORITY_S

    def suspend(self, group: str, now: float) -> None:
        """It cannot be asked for."""
        if group in self._partitions:
            self._left_alone[group] = now + SUSPENDED_S

    def next_groups(self, count: int, now: float, busy: Collection[int] = ()) -> list[str]:
        """At most `count` groups of partitions that are not `busy`; they count as asked for."""
        self._urgent = {group: until for group, until in self._urgent.items() if until > now}
        self._left_alone = {group: until for group, until in self._left_alone.items() if until > now}
        never = -CONFIRM_AFTER_S
        due = [group for group in self._urgent if self._asked.get(group, never) + CONFIRM_AFTER_S <= now]
        first = sorted(
            (group for group in due if self._may_ask(group, busy)), key=lambda group: self._asked.get(group, never)
        )
        others = self._others(count, set(first), busy, now)
        share = max(int(count * URGENT_SHARE), count - len(others), 1) if first else 0
        chosen = (first[:share] + others)[:count]
        for group in chosen:
            self._never.pop(group, None)
            self._asked.pop(group, None)
            self._asked[group] = now
        return chosen

    def _others(self, count: int, taken: Collection[str], busy: Collection[int], now: float) -> list[str]:
        out: list[str] = []
        for queue in (self._never, self._asked):
            for group in list(islice(queue, count * SCANNED_PER_GROUP)):
                if len(out) == count or queue[group] + LEAST_INTERVAL_S > now:
                    break
                if self._may_ask(group, busy):
                    if group not in taken:
                        out.append(group)
                else:
                    # To the end, so that many of them do not stand before the others for ever.
                    queue[group] = queue.pop(group)
        return out

    def _may_ask(self, group: str, busy: Collection[int]) -> bool:
        return group not in self._left_alone and self._partitions[group] not in busy
