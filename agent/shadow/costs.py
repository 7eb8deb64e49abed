"""What a classic group's rebalance cost: for how long which partitions had nobody working on them.

Eager members give up all their partitions before they rejoin; so each partition stands still from there until the new
assignment arrives. Cooperative members keep what they have; only partitions that change hands stand still. When a
member gave its partitions up is not written: its last commit tells, since clients commit what they give up, and one
that died or stalled worked until about then.
"""

from __future__ import annotations

from collections.abc import Mapping

from agent.shadow.diff import owners
from agent.shadow.inference import Facts
from agent.shadow.views import Member
from agent.shadow.ways import HEARTBEAT_MS

Partition = tuple[str, int]

REJOIN_MS = HEARTBEAT_MS + 500
"""How long members take to notice a rebalance and to rejoin."""


def stopped_partition_ms(
    facts: Facts, assigned_ms: int, idle_since: Mapping[Partition, int], *, cooperative: bool
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


def _gave_up(facts: Facts) -> dict[str, int]:
    """When each member of the generation before stopped working, by member id."""
    stayed = {new.member_id for _, new in facts.replaced} | set(facts.after)
    # The last commits of those who stay, if they fall into the join phase, tell when it began.
    commits = {
        member_id: activity.last_ms
        for member_id in facts.before
        if (activity := facts.activity.get(member_id)) is not None and activity.last_ms is not None
    }
    recent = [at for member_id, at in commits.items() if member_id in stayed and facts.end_ms - at <= REJOIN_MS]
    began = max(recent, default=facts.end_ms)
    out = {}
    for member_id in facts.before:
        last = commits.get(member_id)
        if member_id not in stayed:
            out[member_id] = began if last is None else last
        else:
            out[member_id] = last if last is not None and facts.end_ms - last <= REJOIN_MS else began
    return out


def _owners(members: Mapping[str, Member]) -> dict[Partition, str]:
    return owners({member_id: member.assignment for member_id, member in members.items()})
