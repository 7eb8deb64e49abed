"""How often the members of a group commit: what tells a silence from a pause."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from agent.shadow.diff import owner_key, owners
from agent.shadow.inference import Activity
from agent.shadow.offsets import Offsets
from agent.shadow.views import Member
from agent.shadow.ways import AT_LEAST_MS, COMMIT_MS, HEARTBEAT_MS

OFTEN = 3
"""So many commits of a partition tell how often its owner commits."""

Partition = tuple[str, int]


class Hold(NamedTuple):
    """Since when a partition has the owner that it has, and how often it had been committed by then."""

    owner: str
    since_ms: int
    commits: int


class _Seen(NamedTuple):
    """A member's commits of the partition that it committed most often; `every_ms` None where there was one only."""

    last_ms: int | None
    every_ms: int | None
    commits: int
    first_took_ms: int | None


class Pace:
    """The commits of one group: since each partition got its owner."""

    __slots__ = ("_counts", "_holds", "_notices", "_slowest_ms", "since_ms", "usual_ms")

    def __init__(self) -> None:
        self.since_ms: int | None = None
        """When the generation (or epoch) began, epoch milliseconds; None before the first."""
        self.usual_ms: int | None = None
        """How often members commit, as last seen of those that had committed often."""
        self._holds: dict[Partition, Hold] = {}
        self._counts: Mapping[Partition, int] = {}
        self._notices = 0
        self._slowest_ms = 0

    def start(self, at_ms: int, members: Iterable[Member], counts: Mapping[Partition, int]) -> None:
        """A generation begins; `counts` is how often each position was committed so far."""
        self.since_ms, self._counts = at_ms, counts
        held = owners({owner_key(member.member_id, member.instance_id): member.assignment for member in members})
        self._holds = {
            partition: before
            if (before := self._holds.get(partition)) is not None and before.owner == owner
            else Hold(owner, at_ms, counts.get(partition, 0))
            for partition, owner in held.items()
        }

    def noticed(self, within_ms: int, members: int) -> None:
        """So many members took so long, at the most, to notice a rebalance: up to a heartbeat interval each."""
        self._notices += members
        self._slowest_ms = max(self._slowest_ms, within_ms)

    @property
    def notice_ms(self) -> int:
        """How long members take to notice a rebalance: hardly longer than the slowest of many."""
        if not self._notices:
            return HEARTBEAT_MS
        # Each takes up to a heartbeat interval, evenly: nine of ten times it is no longer than this.
        at_most = self._slowest_ms * 10 ** (1 / self._notices)
        return round(min(max(at_most, AT_LEAST_MS), HEARTBEAT_MS))

    def activities(
        self, group: str, members: Iterable[Member], offsets: Offsets, *, across: bool = False
    ) -> dict[str, Activity]:
        """What each member committed since it got what it holds, by member id; `across`: whoever had it then."""
        seen = {member.member_id: self._seen(group, member, offsets, across=across) for member in members}
        often = [it.every_ms for it in seen.values() if it.every_ms is not None and it.commits >= OFTEN]
        if often:
            self.usual_ms = min(often)
        return {member_id: Activity(it.last_ms, self._every(it)) for member_id, it in seen.items()}

    def _every(self, seen: _Seen) -> int | None:
        if seen.every_ms is not None:
            return seen.every_ms
        if seen.first_took_ms is None:
            return None
        # One commit tells that the next was not due for as long; members of a group are mostly configured alike.
        return max(seen.first_took_ms, COMMIT_MS) if self.usual_ms is None else self.usual_ms

    def _seen(self, group: str, member: Member, offsets: Offsets, *, across: bool) -> _Seen:
        owner = owner_key(member.member_id, member.instance_id)
        last: int | None = None
        first_took: int | None = None
        every, commits = None, 0
        for topic, partitions in member.assignment.items():
            for partition in partitions:
                found = offsets.commit(group, topic, partition)
                hold = self._holds.get((topic, partition))
                if across:
                    hold = Hold(owner, self.since_ms or 0, self._counts.get((topic, partition), 0))
                if found is None or hold is None or hold.owner != owner:
                    continue
                if found[0].commit_ms < hold.since_ms and not across:
                    continue
                at_ms, times = found[0].commit_ms, found[1] - hold.commits
                last = at_ms if last is None else max(last, at_ms)
                took = at_ms - hold.since_ms
                first_took = took if first_took is None else min(first_took, took)
                if times >= 2 and times > commits:
                    every, commits = _interval(took, times), times
        return _Seen(last, every, commits, first_took)


def _interval(took_ms: int, commits: int) -> int:
    """How often something happens that happened so often: the first within an interval of the start."""
    if took_ms <= COMMIT_MS * commits <= took_ms * commits / (commits - 1):
        return COMMIT_MS
    return round(took_ms / (commits - 0.5))
