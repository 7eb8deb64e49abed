"""When a member that went will have gone, by cause, given its last commit: the prior times the likelihood of a gap.

Four facts of the protocol and its clients carry this. A commit renews the session, and so does a rejoin: no session
runs out before the session timeout has passed since both. Clients commit as they close. A poll loop that stalls
commits nothing new, and the client leaves when `max.poll.interval.ms` has run out. And a client that an admin removes
is told so with its next heartbeat, and joins again at once.

Each cause is a mixture of evenly spread intervals, w · U[low, high] (`UniformInterval`, `departure_times`). With

    c  the last commit           i  the commit interval        g  when its generation began
    S  session timeout           M  max.poll.interval.ms       h  heartbeat interval
    e  end of the join phase     ε  timer_precision_ms         π  departure_shares of the cause

a member of a classic group that committed since g has gone at

    member_left      π · ( a · U[c - ε, c + close] + (1 - a - b) · U[c, c + i] + b · U[c, c + 2i + slow] )
                         a = commits_on_close_share, b = slow_close_share,
                         close = close_after_commit_ms, slow = slow_close_ms
    session_timeout  π · ( (1 - q) · U[r + S - ε, r + S + ε] + q · U[r + S, r + S + i] )
                         r = max(c, g);  q = later_heartbeat_share · (i / 2h  if i < h  else 1 - h / 2i):
                         a heartbeat came between the last commit and the death
    poll_timeout     π · ( d · U[p + M - ε, c + M + late] + (1 - d) · U[c + M, c + M + i + late] )
                         d = commits_apart_share, late = poll_check_ms;  p = c - min(i, commit_interval_ms), for
                         eager members max(p, g - ε): the last poll, at the earliest
    admin_removed    π · U[c, c + i], and where its client is not back, times 1 - rejoins_after_removal_share
    unknown          other_silence_share · U[c, max(e, c + S)]

and one that did not commit since g, so that any time is as good, with l = e - g,

    member_left      π · U[g, e], and admin_removed the same times unlikely_factor where a timeout may have run out
    session_timeout  π · ( k · U[g + S - ε, g + S + h] + (1 - k) · (l - S) / l · U[g + S, e] )
                         k = dies_at_once_share
    poll_timeout     π · (l - M) / l · U[g + M, e], and for cooperative members π · U[g, e]

The code says what is left out here: static members, members of generations that never completed, KIP-848.
"""

from __future__ import annotations

from typing import NamedTuple

from agent.core.causes import TIMEOUT_CAUSES, Cause
from agent.core.inference.facts import CommitActivity
from agent.core.inference.parameters import PARAMETERS as P
from agent.core.shadow.views import Member


class UniformInterval(NamedTuple):
    """A share of the departures, spread evenly from `low_ms` to `high_ms` (epoch milliseconds)."""

    share: float
    low_ms: float
    high_ms: float


DepartureTimes = tuple[UniformInterval, ...]
TimesByCause = dict[Cause, DepartureTimes]


def probability_between(times: DepartureTimes, low_ms: float, high_ms: float) -> float:
    """The share of departures between two times, epoch milliseconds."""
    total = 0.0
    for share, low, high in times:
        overlap = min(high_ms, high) - max(low_ms, low)
        if overlap > 0:
            total += share * overlap / (high - low)
    return total


def departure_times(
    member: Member,
    activity: CommitActivity,
    since_ms: int | None,
    end_ms: int,
    *,
    client_returned: bool,
    cooperative: bool,
    generations_skipped: bool,
) -> TimesByCause:
    """When a member of a classic group went that is gone as a join phase ends at `end_ms`, for each cause.

    `since_ms` is when its generation began (None: not known), `client_returned` whether the same client is there
    again, `generations_skipped` whether generations came between that never completed. Times are epoch milliseconds.
    Shares are those of all departures, so the causes' are to be compared.
    """
    session, poll = member_timeouts_ms(member)
    last = activity.last_commit_ms
    out: TimesByCause = {}
    only_joined = since_ms is not None and since_ms > (last or 0)
    if since_ms is not None and only_joined and end_ms < since_ms + min(session, poll) - P.timer_precision_ms:
        # Its last commit, if any, is of the generation before; since then it only joined.
        out = _without_commits(member, since_ms, end_ms, cooperative=cooperative)
        if cooperative and last is not None:
            out = _with_background_rejoin(out, member, activity, last, since_ms)
    elif last is not None and generations_skipped and since_ms is not None:
        out = _after_incomplete_generation(member, last, end_ms)
    elif last is not None:
        out = _after_a_commit(member, activity, last, since_ms, cooperative=cooperative)
    elif since_ms is not None:
        out = _without_commits(member, since_ms, end_ms, cooperative=cooperative)
    if member.instance_id is not None:
        # A static member says no goodbye, not even when it has been away from poll (KIP-345).
        out = {cause: times for cause, times in out.items() if cause in (Cause.SESSION_TIMEOUT, Cause.ADMIN_REMOVED)}
    prior = dict(P.departure_shares)
    if not client_returned:
        # A client that is removed joins again at once: this one did not.
        prior[Cause.ADMIN_REMOVED] *= 1 - P.rejoins_after_removal_share
    scaled = {cause: scale_times(times, prior[cause]) for cause, times in out.items()}
    if scaled and not any(probability_between(scaled.get(cause, ()), 0, end_ms) for cause in TIMEOUT_CAUSES):
        # No timeout can have run out: so it was told to go, or said goodbye.
        return scaled
    if last is None:
        # A client that died, of which a supervisor starts the next, looks the same.
        scaled[Cause.ADMIN_REMOVED] = scale_times(scaled.get(Cause.ADMIN_REMOVED, ()), P.unlikely_factor)
    elif member.instance_id is not None:
        return scaled
    start = last or since_ms or end_ms - poll
    silent = UniformInterval(P.other_silence_share, start, max(end_ms, start + session))
    return {**scaled, Cause.UNKNOWN_DEPARTURE: (silent,)}


def member_timeouts_ms(member: Member) -> tuple[int, int]:
    """The session and rebalance timeout of a member of a classic group, milliseconds."""
    session, poll = member.session_timeout_ms, member.rebalance_timeout_ms
    assert session is not None, "it is a classic member"
    assert poll is not None, "it is a classic member"
    return session, poll


def return_probability(cause: Cause, within_ms: float) -> float:
    """How probable it is that the same client is back within that time after it went so."""
    if cause is Cause.ADMIN_REMOVED:
        return P.rejoins_after_removal_share * min(within_ms / P.heartbeat_interval_ms, 1.0)
    if cause is Cause.MEMBER_LEFT:
        within_ms = max(within_ms - P.process_start_ms, within_ms / 100)
    return min(within_ms / P.restart_ms, 1.0)


def scale_times(times: DepartureTimes, factor: float) -> DepartureTimes:
    """The same times, more or less usual."""
    return tuple(UniformInterval(share * factor, low, high) for share, low, high in times)


def _commit_interval_ms(activity: CommitActivity) -> int:
    return max(activity.commit_interval_ms or P.commit_interval_ms, P.shortest_commit_interval_ms)


def _earliest_last_poll_ms(last: int, interval: int) -> int:
    return last - min(interval, P.commit_interval_ms)


def _after_a_commit(
    member: Member, activity: CommitActivity, last: int, since_ms: int | None, *, cooperative: bool
) -> TimesByCause:
    session, poll = member_timeouts_ms(member)
    interval = _commit_interval_ms(activity)
    # A rejoin needs a poll, but where nothing is given up: a stalled cooperative member's clock runs on.
    polled = _earliest_last_poll_ms(last, interval)
    if since_ms is not None and not cooperative:
        polled = max(polled, since_ms - P.timer_precision_ms)
    return {
        Cause.MEMBER_LEFT: close_times(last, interval),
        Cause.SESSION_TIMEOUT: session_expiry_times(max(last, since_ms or last), session, interval),
        Cause.POLL_TIMEOUT: poll_stall_times(polled, last, poll, interval),
        Cause.ADMIN_REMOVED: (UniformInterval(1.0, last, last + interval),),
    }


def _with_background_rejoin(
    out: TimesByCause, member: Member, activity: CommitActivity, last: int, since_ms: int
) -> TimesByCause:
    """A cooperative member that gives nothing up rejoins in the background, however long it is away from poll."""
    interval = _commit_interval_ms(activity)
    stalls = poll_stall_times(_earliest_last_poll_ms(last, interval), last, member_timeouts_ms(member)[1], interval)
    works = P.unlikely_factor if since_ms - last > 2 * interval + P.slow_close_ms else 1.0
    return {cause: scale_times(times, works) for cause, times in out.items()} | {Cause.POLL_TIMEOUT: stalls}


def _after_incomplete_generation(member: Member, last: int, end_ms: int) -> TimesByCause:
    """It joined a generation that never completed: nobody knows when, and it got nothing there to commit."""
    session, poll = member_timeouts_ms(member)
    begins = {Cause.SESSION_TIMEOUT: last + session, Cause.POLL_TIMEOUT: last + poll}
    return {
        cause: (UniformInterval(share, at_ms := begins.get(cause, last), max(end_ms, at_ms + session)),)
        for cause, share in P.skipped_generation_shares.items()
    }


def close_times(last: int, interval: int) -> DepartureTimes:
    """A member that closes after a commit at `last`; it commits each `interval` milliseconds."""
    quick, slow = P.commits_on_close_share, P.slow_close_share
    return (
        UniformInterval(quick, last - P.timer_precision_ms, last + P.close_after_commit_ms),
        UniformInterval(1 - quick - slow, last, last + interval),
        UniformInterval(slow, last, last + 2 * interval + P.slow_close_ms),
    )


def session_expiry_times(renewed: int, session: int, interval: int) -> DepartureTimes:
    """A member that dies: its session runs from the last commit or rejoin, or from a heartbeat that none followed."""
    # It dies at some moment between two commits; how probable is it that a heartbeat came first?
    beat = P.heartbeat_interval_ms
    heartbeat = interval / (2 * beat) if interval < beat else 1 - beat / (2 * interval)
    heartbeat *= P.later_heartbeat_share
    expires = renewed + session
    return (
        UniformInterval(1 - heartbeat, expires - P.timer_precision_ms, expires + P.timer_precision_ms),
        UniformInterval(heartbeat, expires, expires + interval),
    )


def poll_stall_times(
    polled: int, last: int, poll: int, interval: int, late_ms: int = P.poll_check_ms
) -> DepartureTimes:
    """A member whose poll loop stalls: at the earliest at `polled`, and at the latest a commit interval after `last`;
    its client notices up to `late_ms` late."""
    apart = P.commits_apart_share
    return (
        UniformInterval(apart, polled + poll - P.timer_precision_ms, last + poll + late_ms),
        UniformInterval(1 - apart, last + poll, last + poll + interval + late_ms),
    )


def _without_commits(member: Member, since_ms: int, end_ms: int, *, cooperative: bool) -> TimesByCause:
    """Only that it was there as its generation began is known. Any later time is as good, but that one which dies
    soon after has no time to commit."""
    session, poll = member_timeouts_ms(member)
    lasted = max(end_ms - since_ms, P.shortest_commit_interval_ms)

    def later_than(at_ms: int) -> DepartureTimes:
        return (UniformInterval(max(end_ms - at_ms, int(at_ms == since_ms)) / lasted, at_ms, max(end_ms, at_ms + 1)),)

    expires, at_once = since_ms + session, P.dies_at_once_share
    return {
        Cause.MEMBER_LEFT: later_than(since_ms),
        Cause.SESSION_TIMEOUT: (
            UniformInterval(at_once, expires - P.timer_precision_ms, expires + P.heartbeat_interval_ms),
            *scale_times(later_than(expires), 1 - at_once),
        ),
        Cause.POLL_TIMEOUT: later_than(since_ms if cooperative else since_ms + poll),
        Cause.ADMIN_REMOVED: later_than(since_ms),
    }


def kip848_departure_probabilities(
    member: Member, activity: CommitActivity, last: int, at_ms: int
) -> dict[Cause, float]:
    """The probability of each cause for a member of a KIP-848 group that went at `at_ms` and committed last at
    `last`.

    Its session timeout is the broker's and not in the log; a commit does not renew it.
    """
    interval, beat, precision = _commit_interval_ms(activity), P.kip848_heartbeat_interval_ms, P.timer_precision_ms
    out = {Cause.MEMBER_LEFT: close_times(last, interval)}
    if member.session_timeout_ms is not None:
        out[Cause.SESSION_TIMEOUT] = session_expiry_times(last, member.session_timeout_ms, interval)
    else:
        usual = P.kip848_session_timeout_ms
        shortest, longest = P.kip848_shortest_session_timeout_ms, P.kip848_longest_session_timeout_ms
        out[Cause.SESSION_TIMEOUT] = (
            UniformInterval(0.5, last + usual - beat, last + usual + interval),
            UniformInterval(0.5, last + shortest - beat, last + longest + interval),
        )
    if member.rebalance_timeout_ms is not None:
        polled = _earliest_last_poll_ms(last, interval)
        out[Cause.POLL_TIMEOUT] = poll_stall_times(polled, last, member.rebalance_timeout_ms, interval, beat)
    likely = {
        cause: P.departure_shares[cause] * probability_between(times, at_ms - precision, at_ms + precision)
        for cause, times in out.items()
    }
    likely[Cause.UNKNOWN_DEPARTURE] = P.other_silence_share * 2 * precision / max(at_ms - last, P.commit_interval_ms)
    total = sum(likely.values())
    return {cause: share / total for cause, share in likely.items()}
