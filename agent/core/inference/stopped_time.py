"""What a classic group's rebalance cost: for how long which partitions were idle.

Eager members give up all their partitions before they rejoin; so each partition stands still from there until the new
assignment arrives. Cooperative members keep what they have; only partitions that change hands stand still. When a
member gave its partitions up is not written: its last commit tells, since clients commit what they give up, and one
that died or stalled worked until about then.
"""

from __future__ import annotations

from collections.abc import Mapping

from agent.core.inference.facts import RebalanceFacts
from agent.core.inference.parameters import PARAMETERS as P
from agent.core.shadow.diff import owners_by_partition
from agent.core.shadow.views import Member

Partition = tuple[str, int]

LONGEST_REJOIN_MS = P.heartbeat_interval_ms + P.rejoin_ms
"""Members notice a rebalance and rejoin within this."""


def stopped_partition_ms(
    facts: RebalanceFacts, assigned_ms: int, idle_since: Mapping[Partition, int], *, cooperative: bool
) -> int | None:
    """Milliseconds, summed over the partitions that have an owner again. None where no assignment followed.

    `assigned_ms` is when the assignment arrived; `idle_since` has the partitions that the generation before left
    without an owner, and since when.
    """
    if not facts.after:
        return None
    gave_up = _gave_up(facts)
    total = 0
    before = _owners(facts.before)
    replaced = {old.member_id: new.member_id for old, new in facts.replaced}
    for partition, owner in _owners(facts.after).items():
        old = before.get(partition)
        if old is None:
            since = idle_since.get(partition, assigned_ms)
        elif cooperative and replaced.get(old, old) == owner:
            continue
        else:
            since = gave_up[old]
        total += max(assigned_ms - since, 0)
    return total


def _gave_up(facts: RebalanceFacts) -> dict[str, int]:
    """When each member of the generation before stopped working, by member id."""
    stayed = {new.member_id for _, new in facts.replaced} | set(facts.after)
    last_commits = {
        member_id: activity.last_commit_ms
        for member_id in facts.before
        if (activity := facts.activity.get(member_id)) is not None and activity.last_commit_ms is not None
    }
    # The last commits of those who stay, if they fall into the join phase, tell when it began.
    revoked = {
        member_id: at_ms
        for member_id, at_ms in last_commits.items()
        if member_id in stayed and facts.end_ms - at_ms <= LONGEST_REJOIN_MS
    }
    began = max(revoked.values(), default=facts.end_ms)
    return {
        member_id: (revoked if member_id in stayed else last_commits).get(member_id, began)
        for member_id in facts.before
    }


def _owners(members: Mapping[str, Member]) -> dict[Partition, str]:
    return owners_by_partition({member_id: member.assignment for member_id, member in members.items()})
