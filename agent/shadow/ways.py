"""When a member that went in some way will have gone, given its last commit: what each way makes of a commit gap.

Four facts of the protocol and its clients carry this. A commit renews the session, and so does a rejoin: no session
runs out before the session timeout has passed since both. Clients commit as they close. A poll loop that stalls
commits nothing new, and the client leaves when `max.poll.interval.ms` has run out. And a client that an admin takes
out is told so with its next heartbeat, and joins again at once.
"""

from __future__ import annotations

from typing import NamedTuple

from agent.shadow.inference import Activity, Cause
from agent.shadow.views import Member

MOMENT_MS = 20
"""How far two times of one coordinator may be apart and still mean the same moment: a timer and what it does."""

GOODBYE_MS = 60
"""How long after its last commit a client that closes says goodbye."""

HEARTBEAT_MS = 3_000
"""How long members take to notice a rebalance: a heartbeat interval, by default."""

COMMIT_MS = 5_000
"""How often clients commit, by default."""

AT_LEAST_MS = 250
"""No pause between commits is taken to be shorter: nothing depends on it."""

LATER_HEARTBEAT = 0.65
"""Of the heartbeats that ought to follow the last commit of a member that dies, so many are seen to."""

CLOSES_WITH_COMMIT = 0.8
"""How many of those who close commit as they do."""

CLOSES_SLOWLY = 0.08
"""How many take long to close, `SLOWLY_MS` at the most."""

SLOWLY_MS = 1_000

COMMITS_APART = 0.7
"""How many clients commit apart from poll, so that the last commit may lie up to an interval behind the last poll;
the others commit in their poll loop, before it."""

POLL_CHECK_MS = 600
"""How late a client may notice that it has been away from poll."""

DIES_AT_ONCE = 0.5
"""How many of those that die without a commit die before they had time for one."""

SESSION_MS, SESSIONS_MS = 45_000, (6_000, 60_000)
"""The session timeout of KIP-848 groups, by default, and what operators may set."""

MODERN_HEARTBEAT_MS = 5_000
"""How often members of KIP-848 groups send heartbeats, by default: goodbyes that a stall asks for go with them."""

SILENT = 0.004
"""How many fell silent for some other reason before they went."""

USUAL = {Cause.MEMBER_LEFT: 0.5, Cause.SESSION_TIMEOUT: 0.25, Cause.POLL_TIMEOUT: 0.25, Cause.ADMIN_REMOVED: 0.2}
"""How often members go in each way, before anything is known."""

REJOINS = 0.9
"""How many of those that are taken out join again at once."""

STARTS_MS = 1_000
"""How long a process takes to start and join, at the least."""

RESTART_MS = 30_000
"""How long it takes about until a client that went is started again, if it is."""

SELDOM = 0.2
"""Where a timeout may have run out and no commit tells: so much less is it that an admin took the member out."""

TIMEOUTS = (Cause.SESSION_TIMEOUT, Cause.POLL_TIMEOUT)


class Window(NamedTuple):
    """A share of the departures, spread evenly from `low` to `high` (epoch milliseconds)."""

    share: float
    low: float
    high: float

    def within(self, low: float, high: float) -> float:
        """How much of it falls between two times."""
        overlap = min(high, self.high) - max(low, self.low)
        return self.share * overlap / (self.high - self.low) if overlap > 0 else 0.0


Times = tuple[Window, ...]
Ways = dict[Cause, Times]


def mass(times: Times, low: float, high: float) -> float:
    """How much falls between two times."""
    return sum(window.within(low, high) for window in times)


def ways(
    member: Member,
    activity: Activity,
    since_ms: int | None,
    end_ms: int,
    *,
    back: bool,
    cooperative: bool,
    skipped: bool,
) -> Ways:
    """When a member of a classic group went that is gone at `end_ms`, for each way, by how usual that way is.

    `since_ms` is when its generation began, `back` whether the same client is there again, `skipped` whether
    generations came between that never completed.
    """
    session, poll = timeouts(member)
    usual = dict(USUAL)
    if (
        since_ms is not None
        and since_ms > (activity.last_ms or 0)
        and end_ms < since_ms + min(session, poll) - MOMENT_MS
    ):
        # Its last commit, if any, is of the generation before; since then it only joined.
        out = _without_commits(member, since_ms, end_ms, cooperative=cooperative)
        if cooperative and activity.last_ms is not None:
            out = _stalled_before(out, member, activity, activity.last_ms, since_ms)
    elif activity.last_ms is not None and skipped and since_ms is not None:
        out = _unheard(member, activity.last_ms, end_ms)
    elif activity.last_ms is not None:
        out = _after_a_commit(member, activity, activity.last_ms, since_ms, cooperative=cooperative)
    elif since_ms is not None:
        out = _without_commits(member, since_ms, end_ms, cooperative=cooperative)
    else:
        out = {}
    if member.instance_id is not None:
        # A static member says no goodbye, not even when it has been away from poll (KIP-345).
        out = {cause: times for cause, times in out.items() if cause in (Cause.SESSION_TIMEOUT, Cause.ADMIN_REMOVED)}
    if not back:
        # A client that is taken out joins again at once: this one did not.
        usual[Cause.ADMIN_REMOVED] *= 1 - REJOINS
    scaled = {cause: scale(times, usual[cause]) for cause, times in out.items()}
    if scaled and not any(mass(scaled.get(cause, ()), 0, end_ms) for cause in TIMEOUTS):
        # No timeout can have run out: so it was told to go, or said goodbye.
        return scaled
    if activity.last_ms is None:
        # A client that died, of which a supervisor starts the next, looks the same.
        scaled[Cause.ADMIN_REMOVED] = scale(scaled.get(Cause.ADMIN_REMOVED, ()), SELDOM)
    if member.instance_id is not None and activity.last_ms is not None:
        return scaled
    start = activity.last_ms or since_ms or end_ms - poll
    return {**scaled, Cause.UNKNOWN_DEPARTURE: (Window(SILENT, start, max(end_ms, start + session)),)}


def timeouts(member: Member) -> tuple[int, int]:
    """The session and rebalance timeout of a member of a classic group, milliseconds."""
    session, poll = member.session_timeout_ms, member.rebalance_timeout_ms
    assert session is not None, "it is a classic member"
    assert poll is not None, "it is a classic member"
    return session, poll


def returns(cause: Cause, within_ms: float) -> float:
    """How probable it is that the same client is back within that time after it went so."""
    if cause is Cause.ADMIN_REMOVED:
        return REJOINS * min(within_ms / HEARTBEAT_MS, 1.0)
    if cause is Cause.MEMBER_LEFT:
        within_ms = max(within_ms - STARTS_MS, within_ms / 100)
    return min(within_ms / RESTART_MS, 1.0)


def scale(times: Times, by: float) -> Times:
    """The same times, more or less usual."""
    return tuple(window._replace(share=window.share * by) for window in times)


def _after_a_commit(
    member: Member, activity: Activity, last: int, since_ms: int | None, *, cooperative: bool
) -> Ways:
    session, poll = timeouts(member)
    every = max(activity.every_ms or COMMIT_MS, AT_LEAST_MS)
    # A rejoin needs a poll, but where nothing is given up: a stalled cooperative member's clock runs on.
    polled = last - min(every, COMMIT_MS)
    if since_ms is not None and not cooperative:
        polled = max(polled, since_ms - MOMENT_MS)
    return {
        Cause.MEMBER_LEFT: goodbye(last, every),
        Cause.SESSION_TIMEOUT: expiry(max(last, since_ms or last), session, every),
        Cause.POLL_TIMEOUT: stall(polled, last, poll, every),
        Cause.ADMIN_REMOVED: (Window(1.0, last, last + every),),
    }


def _stalled_before(out: Ways, member: Member, activity: Activity, last: int, since_ms: int) -> Ways:
    """A cooperative member that gives nothing up rejoins in the background, however long it is away from poll."""
    every = max(activity.every_ms or COMMIT_MS, AT_LEAST_MS)
    polls = stall(last - min(every, COMMIT_MS), last, timeouts(member)[1], every)
    works = SELDOM if since_ms - last > 2 * every + SLOWLY_MS else 1.0
    return {cause: scale(times, works) for cause, times in out.items()} | {Cause.POLL_TIMEOUT: polls}


def _unheard(member: Member, last: int, end_ms: int) -> Ways:
    """It joined a generation that never completed: nobody knows when, and it got nothing there to commit. Such a
    generation mostly waits for a leader that died."""
    session, poll = timeouts(member)

    def from_(at_ms: int, share: float) -> Times:
        return (Window(share, at_ms, max(end_ms, at_ms + session)),)

    return {
        Cause.MEMBER_LEFT: from_(last, 0.3),
        Cause.SESSION_TIMEOUT: from_(last + session, 1.0),
        Cause.POLL_TIMEOUT: from_(last + poll, 0.3),
        Cause.ADMIN_REMOVED: from_(last, 0.1),
    }


def goodbye(last: int, every: int) -> Times:
    """A member that closes after a commit at `last`; it commits every so often."""
    return (
        Window(CLOSES_WITH_COMMIT, last - MOMENT_MS, last + GOODBYE_MS),
        Window(1 - CLOSES_WITH_COMMIT - CLOSES_SLOWLY, last, last + every),
        Window(CLOSES_SLOWLY, last, last + 2 * every + SLOWLY_MS),
    )


def expiry(renewed: int, session: int, every: int) -> Times:
    """A member that dies: its session runs from the last commit, or from a heartbeat that no commit followed."""
    # It dies at some moment between two commits; how probable is it that a heartbeat came first?
    heartbeat = every / (2 * HEARTBEAT_MS) if every < HEARTBEAT_MS else 1 - HEARTBEAT_MS / (2 * every)
    heartbeat *= LATER_HEARTBEAT
    runs_out = renewed + session
    return (
        Window(1 - heartbeat, runs_out - MOMENT_MS, runs_out + MOMENT_MS),
        Window(heartbeat, runs_out, runs_out + every),
    )


def stall(polled: int, last: int, poll: int, every: int, late_ms: int = POLL_CHECK_MS) -> Times:
    """A member whose poll loop stalls: at the earliest at `polled`, and at the latest a commit interval after `last`;
    its client notices up to `late_ms` late."""
    return (
        Window(COMMITS_APART, polled + poll - MOMENT_MS, last + poll + late_ms),
        Window(1 - COMMITS_APART, last + poll, last + poll + every + late_ms),
    )


def _without_commits(member: Member, since_ms: int, end_ms: int, *, cooperative: bool) -> Ways:
    """Only that it was there as its generation began is known. Any later time is as good, but that one which dies
    soon after has no time to commit."""
    session, poll = timeouts(member)
    lasted = max(end_ms - since_ms, AT_LEAST_MS)

    def later_than(at_ms: int) -> Times:
        return (Window(max(end_ms - at_ms, int(at_ms == since_ms)) / lasted, at_ms, max(end_ms, at_ms + 1)),)

    dies = since_ms + session
    return {
        Cause.MEMBER_LEFT: later_than(since_ms),
        Cause.SESSION_TIMEOUT: (
            Window(DIES_AT_ONCE, dies - MOMENT_MS, dies + HEARTBEAT_MS),
            *scale(later_than(dies), 1 - DIES_AT_ONCE),
        ),
        Cause.POLL_TIMEOUT: later_than(since_ms if cooperative else since_ms + poll),
        Cause.ADMIN_REMOVED: later_than(since_ms),
    }


def modern_ways(member: Member, activity: Activity, last: int, at_ms: int) -> dict[Cause, float]:
    """How likely each way is of a member of a KIP-848 group that went at `at_ms`.

    Its session timeout is the broker's and not in the log; a commit does not renew it.
    """
    every = max(activity.every_ms or COMMIT_MS, AT_LEAST_MS)
    out = {Cause.MEMBER_LEFT: goodbye(last, every)}
    if member.session_timeout_ms is not None:
        out[Cause.SESSION_TIMEOUT] = expiry(last, member.session_timeout_ms, every)
    else:
        lowest, highest = SESSIONS_MS
        out[Cause.SESSION_TIMEOUT] = (
            Window(0.5, last + SESSION_MS - MODERN_HEARTBEAT_MS, last + SESSION_MS + every),
            Window(0.5, last + lowest - MODERN_HEARTBEAT_MS, last + highest + every),
        )
    if member.rebalance_timeout_ms is not None:
        polled = last - min(every, COMMIT_MS)
        out[Cause.POLL_TIMEOUT] = stall(polled, last, member.rebalance_timeout_ms, every, MODERN_HEARTBEAT_MS)
    likely = {cause: USUAL[cause] * mass(times, at_ms - MOMENT_MS, at_ms + MOMENT_MS) for cause, times in out.items()}
    likely[Cause.UNKNOWN_DEPARTURE] = SILENT * 2 * MOMENT_MS / max(at_ms - last, COMMIT_MS)
    total = sum(likely.values())
    return {cause: share / total for cause, share in likely.items()}
