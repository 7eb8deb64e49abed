"""What a classic group's rebalance cost: for how long which partitions were idle.

Eager members give up all their partitions before they rejoin; so each partition stands still from there until the new
assignment arrives. Cooperative members keep what they have; only partitions that change hands stand still. When a
member gave its partitions up is not written: its last commit tells, since clients commit what they give up, and one
that died or stalled worked until about then; one that stalled and went on committing, until its positions last moved.
Where commits are rare, or there are none, it worked for longer: one that left in order until it left, one whose
session timed out until that time before it was removed, one that did not poll likewise.
"""

from __future__ import annotations

from collections.abc import Mapping

from agent.core.causes import Cause
from agent.core.inference.facts import NO_COMMITS, CommitActivity, Departure, RebalanceFacts
from agent.core.inference.parameters import PARAMETERS as P
from agent.core.shadow.diff import Partition, owner_key
from agent.core.shadow.views import Member

MOST_STOPPED_MS = 1 << 53
"""No more is told: as much as a number of JSON holds to the millisecond. Times are strangers' too."""


def stopped_partition_ms(
    facts: RebalanceFacts,
    began_ms: int | None,
    assigned_ms: int,
    idle_since: Mapping[Partition, int | None],
    *,
    held_before: Mapping[Partition, str],
    held_after: Mapping[Partition, str],
    cooperative: bool,
    departures: Mapping[str, Departure],
) -> int | None:
    """Milliseconds, summed over the partitions that have an owner again. None where no assignment followed, or of one
    that is gone nothing tells until when it worked: neither a commit nor how it went.

    `began_ms` is when the join phase began (None: not known), `assigned_ms` when the assignment arrived; `idle_since`
    has the partitions that nobody owns already, and since when (None: not known). `held_before` and `held_after` have
    the `owner_key` of each partition; `departures` says of members that are gone how they went.
    """
    if not facts.after:
        return None
    gave_up = _gave_up(facts, facts.end_ms if began_ms is None else min(began_ms, facts.end_ms), departures)
    total = 0
    for partition, owner in held_after.items():
        old = held_before.get(partition)
        since: int | None
        if old is None:
            # What a member had that left with a migration has none either, and may be known by its topic's id alone.
            since = idle_since.get(partition, None if facts.migrated else assigned_ms)
        elif cooperative and old == owner:
            continue
        else:
            since = gave_up[old]
        if since is None:
            return None
        total += max(assigned_ms - since, 0)
    return min(total, MOST_STOPPED_MS)


def _gave_up(facts: RebalanceFacts, began_ms: int, departures: Mapping[str, Departure]) -> dict[str, int | None]:
    """When each member of the generation before stopped working, by its `owner_key` (None: not known); the join phase
    began at `began_ms`."""
    stayed = {new.member_id for _, new in facts.replaced} | set(facts.after)
    activity = {member_id: facts.activity.get(member_id, NO_COMMITS) for member_id in facts.before}
    # Those who stay work until they notice the rebalance; then they commit what they give up, if it moved.
    committed_ms = {
        member_id: it.last_commit_ms
        for member_id, it in activity.items()
        if member_id in stayed and it.last_commit_ms is not None and it.last_commit_ms >= began_ms - P.start_step_ms
    }
    noticed_ms = min(began_ms + facts.notice_ms // 2, max(committed_ms.values(), default=facts.end_ms))
    out: dict[str, int | None] = {}
    for member_id, member in facts.before.items():
        owner = owner_key(member_id, member.instance_id)
        if member_id in stayed:
            out[owner] = committed_ms.get(member_id, noticed_ms)
            continue
        gone = departures.get(member_id)
        cause = Cause.UNKNOWN_DEPARTURE if gone is None else gone.cause
        worked_ms, idle_ms = _last_sign(cause, activity[member_id], facts.since_ms), _idle_ms(member, cause)
        if cause is Cause.POLL_TIMEOUT and activity[member_id].last_moved_ms is not None:
            # Its limit is not in the log.
            idle_ms = max(idle_ms, P.sampled_poll_interval_ms)
        if idle_ms and activity[member_id].last_commit_ms is not None:
            # What sets off the rebalance is dated by commits around it: that may be a heartbeat late.
            idle_ms += P.heartbeat_interval_ms
        # A member is removed when the join phase begins, or later.
        out[owner] = None if worked_ms is None else max(worked_ms, min(began_ms - idle_ms, noticed_ms))
    return out


def _last_sign(cause: Cause, activity: CommitActivity, since_ms: int | None) -> int | None:
    """Until when, at the least, a member worked that went so; None if nothing tells. One that went on committing what
    stood still stopped when its positions did; one without a commit had got its partitions at `since_ms`."""
    if cause is Cause.POLL_TIMEOUT and activity.last_moved_ms is not None:
        return activity.last_moved_ms
    if activity.last_commit_ms is not None:
        return activity.last_commit_ms
    return None if cause is Cause.UNKNOWN_DEPARTURE else since_ms or 0


def _idle_ms(member: Member, cause: Cause) -> int:
    """For how long at most a member that is gone did not work before it was removed, by how it went."""
    if cause in (Cause.MEMBER_LEFT, Cause.ADMIN_REMOVED):
        return 0
    session_ms, poll_ms = member.session_timeout_ms or 0, member.rebalance_timeout_ms or 0
    return session_ms if cause is Cause.SESSION_TIMEOUT else max(session_ms, poll_ms)
