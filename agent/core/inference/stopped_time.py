"""What a classic group's rebalance cost: for how long which partitions were idle.

Eager members give up all their partitions before they rejoin; so each partition stands still from there until the new
assignment arrives. Cooperative members keep what they have; only partitions that change hands stand still. When a
member gave its partitions up is not written: its last commit tells, since clients commit what they give up, and one
that died or stalled worked until about then. Where commits are rare it worked for longer: one that left in order
until it left, one whose session timed out until that time before it was removed, one that did not poll likewise.
"""

from __future__ import annotations

from collections.abc import Mapping

from agent.core.causes import Cause
from agent.core.inference.facts import Departure, RebalanceFacts
from agent.core.inference.parameters import PARAMETERS as P
from agent.core.shadow.diff import owners_by_partition
from agent.core.shadow.views import Member

Partition = tuple[str, int]


def stopped_partition_ms(
    facts: RebalanceFacts,
    began_ms: int | None,
    assigned_ms: int,
    idle_since: Mapping[Partition, int],
    *,
    cooperative: bool,
    departures: Mapping[str, Departure],
) -> int | None:
    """Milliseconds, summed over the partitions that have an owner again. None where no assignment followed.

    `began_ms` is when the join phase began (None: not known), `assigned_ms` when the assignment arrived; `idle_since`
    has the partitions that the generation before left without an owner, and since when. `departures` says of members
    that are gone how they went.
    """
    if not facts.after:
        return None
    gave_up = _gave_up(facts, facts.end_ms if began_ms is None else min(began_ms, facts.end_ms), departures)
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


def _gave_up(facts: RebalanceFacts, began_ms: int, departures: Mapping[str, Departure]) -> dict[str, int]:
    """When each member of the generation before stopped working, by member id; the join phase began at `began_ms`."""
    stayed = {new.member_id for _, new in facts.replaced} | set(facts.after)
    last_commits = {
        member_id: activity.last_commit_ms
        for member_id in facts.before
        if (activity := facts.activity.get(member_id)) is not None and activity.last_commit_ms is not None
    }
    # Those who stay work until they notice the rebalance; then they commit what they give up, if it moved.
    gave_up = {
        member_id: at_ms
        for member_id, at_ms in last_commits.items()
        if member_id in stayed and at_ms >= began_ms - P.start_step_ms
    }
    noticed_ms = min(began_ms + facts.notice_ms // 2, max(gave_up.values(), default=facts.end_ms))
    for member_id, last_ms in last_commits.items():
        if member_id not in stayed:
            # A member is removed when the join phase begins, or later.
            worked_ms = began_ms - _idle_ms(facts.before[member_id], departures.get(member_id))
            gave_up[member_id] = max(last_ms, min(worked_ms, noticed_ms))
    return {member_id: gave_up.get(member_id, noticed_ms) for member_id in facts.before}


def _idle_ms(member: Member, gone: Departure | None) -> int:
    """For how long at most a member that is gone did not work before it was removed, by how it went."""
    cause = None if gone is None else gone.cause
    if cause in (Cause.MEMBER_LEFT, Cause.ADMIN_REMOVED):
        return 0
    session_ms, poll_ms = member.session_timeout_ms or 0, member.rebalance_timeout_ms or 0
    # What sets off the rebalance is dated by commits around it: that may be a heartbeat late.
    return P.heartbeat_interval_ms + (session_ms if cause is Cause.SESSION_TIMEOUT else max(session_ms, poll_ms))


def _owners(members: Mapping[str, Member]) -> dict[Partition, str]:
    return owners_by_partition({member_id: member.assignment for member_id, member in members.items()})
