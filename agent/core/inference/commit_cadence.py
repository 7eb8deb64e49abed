"""How often the members of a group commit, and how fast they notice a rebalance: what tells a silence from a
pause."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from sys import intern
from typing import ClassVar, NamedTuple

from agent.core.inference.facts import CommitActivity, bounded_ms
from agent.core.inference.parameters import PARAMETERS as P
from agent.core.shadow.diff import owner_key
from agent.core.shadow.offsets import CommittedOffsets
from agent.core.shadow.views import Member
from agent.core.state_fields import StateFields
from agent.core.wire.offset_commit_fastpath import one_slot

Partition = tuple[str, int]


class PartitionOwnership(NamedTuple):
    """Since when a partition has the owner that it has, and how often it had been committed by then."""

    owner: str
    since_ms: int
    commits: int


class _SharedOwnerships(dict[PartitionOwnership, PartitionOwnership]):
    """Equal ones as one object, with the owner's name that is kept elsewhere too."""

    def __missing__(self, it: PartitionOwnership) -> PartitionOwnership:
        shared = self[it] = PartitionOwnership(intern(it.owner), it.since_ms, it.commits)
        return shared


class _MemberCommits(NamedTuple):
    """Newest commit; mean interval and number of the partition committed most often (None: none twice); how long
    after getting its partitions it first had committed one; newest commit that moved (None: not kept)."""

    last_ms: int | None
    interval_ms: int | None
    commits: int
    first_after_ms: int | None
    moved_ms: int | None


_NO_COUNTS: Mapping[Partition, int] = {}
_NO_COMMITS = _MemberCommits(None, None, 0, None, None)


class CommitCadence:
    """The commits of one group: since each partition got its owner."""

    STATE: ClassVar = StateFields(
        {
            "since_ms": int | None,
            "usual_ms": int | None,
            "_holds": dict[Partition, PartitionOwnership],
            "_counts": dict[Partition, int],
            "_notices": int,
            "_slowest_ms": int,
        }
    )

    __slots__ = ("_counts", "_notices", "_ownerships", "_partitions", "_slowest_ms", "since_ms", "usual_ms")

    def __init__(self) -> None:
        self.since_ms: int | None = None
        """When the generation (or epoch) began, epoch milliseconds; None before the first."""
        self.usual_ms: int | None = None
        """How often members commit, as last seen of those that had committed often."""
        # In one order. Nobody asks between rebalances, and a dict of them takes twice as much.
        self._partitions: tuple[Partition, ...] = ()
        self._ownerships: tuple[PartitionOwnership, ...] = ()
        self._counts: Mapping[Partition, int] = _NO_COUNTS
        self._notices = 0
        self._slowest_ms = 0

    def after_restore(self) -> None:
        """Most partitions of an owner came to it at once."""
        self._ownerships = tuple(map(_SharedOwnerships().__getitem__, self._ownerships))
        self._counts = self._counts or _NO_COUNTS

    @property
    def _holds(self) -> dict[Partition, PartitionOwnership]:
        return dict(zip(self._partitions, self._ownerships, strict=True))

    @_holds.setter
    def _holds(self, holds: Mapping[Partition, PartitionOwnership]) -> None:
        self._partitions, self._ownerships = tuple(holds), tuple(holds.values())

    def begin_generation(
        self, at_ms: int, held: Mapping[Partition, str], group: str, offsets: CommittedOffsets
    ) -> None:
        """A generation of a group begins; `held` has the `owner_key` of each partition, and `offsets` what was
        committed so far."""
        counts = offsets.commit_counts(group)
        self.since_ms, self._counts = at_ms, counts or _NO_COUNTS
        before_of, count_of = self._holds.get, counts.get
        fresh = {owner: PartitionOwnership(owner, at_ms, 0) for owner in set(held.values())}
        self._holds = {
            one_slot[partition]: _kept(before, partition, at_ms, group, offsets, count_of(partition, 0))
            if (before := before_of(partition)) is not None and before.owner == owner
            else PartitionOwnership(owner, at_ms, commits)
            if (commits := count_of(partition))
            else fresh[owner]
            for partition, owner in held.items()
        }

    def record_notice_time(self, within_ms: int, members: int) -> None:
        """So many members took so long, at the most, to notice a rebalance: up to a heartbeat interval each."""
        self._notices += members
        self._slowest_ms = max(self._slowest_ms, within_ms)

    @property
    def notice_ms(self) -> int:
        """How long members take to notice a rebalance: hardly longer than the slowest of many."""
        if not self._notices:
            return P.heartbeat_interval_ms
        # Each takes up to a heartbeat interval, evenly.
        at_most: float = self._slowest_ms * P.notice_margin_factor ** (1 / self._notices)
        return round(min(max(at_most, P.shortest_commit_interval_ms), P.heartbeat_interval_ms))

    def commit_activities(
        self, group: str, members: Iterable[Member], offsets: CommittedOffsets, *, across_owners: bool = False
    ) -> dict[str, CommitActivity]:
        """What each member committed since it got what it holds, by member id; `across_owners`: whoever had it
        then."""
        holds = None if across_owners else self._holds
        seen = {it.member_id: self._commits_of(group, it, offsets, holds) for it in members}
        cadences = [it.interval_ms for it in seen.values() if it.commits >= P.commits_for_cadence]
        if known := [interval for interval in cadences if interval is not None and _is_pace(interval)]:
            self.usual_ms = min(known)
        return {name: CommitActivity(it.last_ms, self._interval_ms(it), it.moved_ms) for name, it in seen.items()}

    def _interval_ms(self, seen: _MemberCommits) -> int | None:
        interval, first_after = seen.interval_ms, seen.first_after_ms
        if interval is None and first_after is not None:
            # One commit tells that the next was not due for as long; members of a group are mostly configured alike,
            # but one that had nothing to commit for long may have as little after.
            alike = self.usual_ms is not None and _is_pace(first_after)
            interval = self.usual_ms if alike else max(first_after, P.commit_interval_ms)
        return interval if interval is not None and _is_pace(interval) else None

    def _commits_of(
        self,
        group: str,
        member: Member,
        offsets: CommittedOffsets,
        holds: Mapping[Partition, PartitionOwnership] | None,
    ) -> _MemberCommits:
        """`holds` None: whoever had them then."""
        if not offsets.count(group):
            return _NO_COMMITS
        owner = owner_key(member.member_id, member.instance_id)
        last: int | None = None
        first_after: int | None = None
        moved: int | None = None
        interval, most = None, 0
        for topic, partitions in member.assignment.items():
            for partition in partitions:
                found = offsets.commit(group, topic, partition)
                if holds is not None:
                    owned = holds.get((topic, partition))
                else:
                    owned = PartitionOwnership(owner, self.since_ms or 0, self._counts.get((topic, partition), 0))
                if found is None or owned is None or owned.owner != owner:
                    continue
                position, count = found
                if position.commit_ms < owned.since_ms and holds is not None:
                    continue
                commit_ms = bounded_ms(position.commit_ms)
                last = commit_ms if last is None else max(last, commit_ms)
                if (moved_ms := offsets.moved.moved_ms(group, topic, partition)) is not None:
                    moved_ms = bounded_ms(moved_ms)
                    moved = moved_ms if moved is None else max(moved, moved_ms)
                after = max(commit_ms - owned.since_ms, 0)
                commits = count - owned.commits
                if commits or holds is None:  # else it is counted from just that commit
                    first_after = after if first_after is None else min(first_after, after)
                if commits >= 2 and commits > most:
                    interval, most = _mean_interval_ms(after, commits), commits
        return _MemberCommits(last, interval, most, first_after, moved)


def _kept(
    held: PartitionOwnership, partition: Partition, at_ms: int, group: str, offsets: CommittedOffsets, count: int
) -> PartitionOwnership:
    """The same, as a generation begins in which the owner keeps the partition; where its commits so far tell no pace,
    it is counted from the newest, so that idle days count once."""
    if at_ms - held.since_ms <= P.longest_commit_interval_ms * (count - held.commits + 1):
        return held
    found = offsets.commit(group, *partition)
    if found is None or found[0].commit_ms < held.since_ms:
        return PartitionOwnership(held.owner, at_ms, count)
    return PartitionOwnership(held.owner, found[0].commit_ms, count)


def _is_pace(mean_ms: int) -> bool:
    """Whether a mean tells how often a member commits while it works. A longer one may hold days in which nothing
    came, or is of a log of which compaction left a few commits."""
    return mean_ms <= P.longest_commit_interval_ms


def _mean_interval_ms(within_ms: int, commits: int) -> int:
    """Between commits, of which so many (2 at least) came within a time: the first within an interval of its
    start."""
    usual = P.commit_interval_ms
    if within_ms <= usual * commits <= within_ms * commits / (commits - 1):
        return usual
    return round(within_ms / (commits - 0.5))
