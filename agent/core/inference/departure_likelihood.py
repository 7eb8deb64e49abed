"""When a member that went will have gone, by cause, given its last commit: the prior times the likelihood of a gap.

Four facts of the protocol and its clients carry this. A commit renews the session, unless it is of a transaction, and
so does a rejoin: no session runs out before the session timeout has passed since both. Clients commit as they close.
A poll loop that stalls commits nothing new, and the client leaves when `max.poll.interval.ms` has run out. And a
client that an admin removes is told so with its next heartbeat, and joins again at once: as one does that is
restarted.

Each cause is a mixture of evenly spread intervals, w · U[low, high] (`UniformInterval`, `departure_times`). With

    c  the last commit           i  the commit interval        g  when its generation began (its record)
    S  session timeout           M  max.poll.interval.ms       j  when the join phase had ended that led to it
    e  end of the join phase     h  heartbeat interval         ε  timer_precision_ms
    π  departure_shares of the cause

a member of a classic group that committed since g has gone at

    member_left      π · ( a · U[c - ε, c + close] + (1 - a - b) · U[c, c + i] + b · U[c, c + 2i + slow] )
                         a = commits_on_close_share and close = close_after_commit_ms of its library,
                         b = (1 - a) · slow_close_share, slow = slow_close_ms; where i > slow_commits_ms all of
                         this times 1 - y, and π · y · W(c), y = paced_by_records_share: it commits as records
                         come, and W(t) = 0.63 · U[t, t + i] + 0.23 · U[t + i, t + 2i] + 0.14 · U[t + 2i, t + 4i]
    session_timeout  π · ( (1 - q) · (1 - t) · U[r' + S - ε, r + S + ε] + (1 - q) · t · U[r' + S, r + S + tolerance]
                           + q · U[r + S, r + S + i] + x · U[max(j, c - h) + S - ε, r + S] )
                         where i > slow_commits_ms q · ((1 - y) · U[r + S, r + S + i] + y · W(r + S))
                         r' = max(c, j), r = max(c, g): it was renewed between the two;  t = late_timer_share,
                         tolerance = log_time_tolerance_ms;  x = transactional_share: commits in transactions renew
                         nothing;
                         q = later_heartbeat_share · (i / 2h  if i < h  else 1 - h / 2i): a heartbeat came between
                         the last commit and the death
    poll_timeout     π · ( d · U[p + M - ε, c + M + late] + (1 - d) · U[c + M, c + M + i + late] )
                         d = commits_apart_share of its library, late = poll_check_ms;  p = c - min(i,
                         commit_interval_ms), for eager members max(p, g - ε): the last poll, at the earliest.
                         Libraries without such a limit: never. Where there may be one that is not in the log
                         (`may_commit_unmoved`), and nothing moved since m, for shortest_own_limit_ms or longer, this
                         or as well
                         π · (1 - w) · U[c, c + i + late], and member_left times f + (1 - f) · w,
                         w = exp(-(c - m) / i), f = falls_idle_share (falls_idle_with_all_share where no
                         other's positions moved since m)
    rejoin_timeout   rejoin_timeout_shares · U[e - ε, e + ε], if the join phase lasted as long as the longest
                     rebalance timeout (`rebalance_posterior`); where its own is below S, and e < r + S + i, so are
                     those dropped that die: π of the session timeout in place of those shares
    admin_removed    π · U[c, c + i], where its client is not back, times 1 - rejoins_after_removal_share, and of one
                     without group.instance.id, times removed_alone_factor
    unknown          s · U[r, max(e, r + S)],  s = other_silence_share, or lone_silence_share where nobody stayed who
                     works, or silence_of_all_share where all of those have been silent since c as well, or nobody
                     committed since g, or falls_idle_with_all_share where those that stayed ought to have

and one that did not commit since g, so that any time is as good, with l = e - g, u the interval at which its group
commits and v = s + (1 - s) · exp(-l / u), s = idle_member_share (1 where nobody commits, or those that stayed ought
to have since g, and of a member without partitions, whose earlier commits count no more and whose π of a poll timeout
is times unlikely_factor),

    member_left      π · v · U[g, e], and admin_removed the same times unlikely_factor where a timeout had time;
                     where a cooperative round was due, π · v · closed_as_joined_share · U[g - ε, g + ε] as well
    session_timeout  π · ( k/4 · U[j + S - ε, j + S + ε] + k/4 · U[j + S - ε, g + S + ε] + k/2 · U[j + S, g + S + h]
                           + (1 - k) · v · (l - S) / l · U[j + S, e] )
                         k = dies_at_once_share: before the join phase ended, before the assignment, or soon after;
                         g in place of j where j + S <= g: the leader took a session to assign
    poll_timeout     π · (l - M) / l · U[g + M, e], and of cooperative members that kept partitions as they joined
                     π · idle_member_share · U[g, e]; where there may be a limit that is not in the log, as above,
                     with e in place of c + i + late

The code says what is left out here: static members, members of generations that never completed, KIP-848.
"""

from __future__ import annotations

from math import exp
from typing import NamedTuple

from agent.core.causes import Cause
from agent.core.inference.facts import CommitActivity, CoordinatorChange
from agent.core.inference.parameters import PARAMETERS as P
from agent.core.inference.session_settings import SessionSetting
from agent.core.protocol.client_libraries import (
    UNKNOWN,
    ClientLibrary,
    StallEnd,
    library_named,
    may_commit_unmoved,
)
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
        first, last = low_ms if low_ms > low else low, high_ms if high_ms < high else high
        if last > first:
            total += share * (last - first) / (high - low)
    return total


class MemberLimits(NamedTuple):
    """What takes a member out that stands still, in milliseconds: its session timeout, and `max.poll.interval.ms`
    where its library has one and joins with it (else None)."""

    session_ms: int
    poll_ms: int | None
    library: ClientLibrary
    may_commit_unmoved: bool = False

    @property
    def shortest_ms(self) -> int:
        """Nothing takes it out sooner."""
        return self.session_ms if self.poll_ms is None else min(self.session_ms, self.poll_ms)


def member_limits(member: Member) -> MemberLimits:
    """The limits of a member of a classic group."""
    assert member.session_timeout_ms is not None, "it is a classic member"
    # Brokers take any poll timeout that a client asks for, also one below 0.
    session, poll = max(member.session_timeout_ms, 0), member.rebalance_timeout_ms
    poll = None if poll is None else max(poll, 0)
    library = library_named(member.client_library)
    unmoved = may_commit_unmoved(library.name, session, poll)
    return MemberLimits(session, poll if library.stall_end is StallEnd.REBALANCE_TIMEOUT else None, library, unmoved)


def departure_times(
    member: Member,
    activity: CommitActivity,
    since_ms: int | None,
    end_ms: int,
    *,
    joined_ms: int | None = None,
    usual_interval_ms: int | None = None,
    client_returned: bool,
    cooperative: bool,
    generations_skipped: bool,
    silence_share: float = P.other_silence_share,
    others_moved: bool = True,
    coordinator_change: CoordinatorChange | None = None,
    newest_ms: int = 0,
    has_deleted_topic: bool = False,
    is_followed_up: bool = False,
) -> TimesByCause:
    """When a member of a classic group went that is gone as a join phase ends at `end_ms`, for each cause.

    `since_ms` is when its generation began (None: not known), `joined_ms` when the join phase had ended that led to
    it (None: as `since_ms`), `client_returned` whether the same client is there again, `generations_skipped` whether
    generations came between that never completed, `usual_interval_ms` how often members of its group commit (None:
    not known), `silence_share` how many fall silent for another reason before they go, `others_moved` whether
    another's positions moved on after its own did, `coordinator_change` the newest of the group's partition (None:
    none is known), `newest_ms` when any member of its generation committed last, `has_deleted_topic` whether a topic
    of theirs was deleted meanwhile, `is_followed_up` whether a cooperative round was due as its generation began.
    Times are epoch milliseconds. Shares are those of all departures, so the causes' are to be compared.
    """
    limits, last = member_limits(member), activity.last_commit_ms
    if has_deleted_topic and limits.poll_ms is not None:
        limits = limits._replace(may_commit_unmoved=True)
    joined_ms = since_ms if joined_ms is None else joined_ms
    falls_idle = P.falls_idle_share if others_moved else P.falls_idle_with_all_share
    out: TimesByCause = {}
    if since_ms is not None and joined_ms is not None:
        # So soon nobody has committed in it either, however long the leader took to assign.
        none_due_ms = since_ms + P.shortest_commit_interval_ms
        timeouts_end_ms = max(joined_ms + limits.shortest_ms - P.timer_precision_ms, none_due_ms)
        if last is None or (since_ms > last and end_ms < timeouts_end_ms):
            # Its last commit, if any, is of the generation before; since then it only joined.
            usual = usual_interval_ms if member.partitions else None
            out = _without_commits(
                limits,
                joined_ms,
                since_ms,
                end_ms,
                usual,
                in_background=cooperative and any((member.owned or {}).values()),
                is_followed_up=is_followed_up,
            )
            # Its client may have rejoined by itself.
            out = _with_unmoved_stall(out, limits, activity, end_ms, falls_idle)
            if cooperative and last is not None:
                out = _with_background_rejoin(out, limits, activity, last, since_ms)
        elif generations_skipped:
            out = _after_incomplete_generation(limits, activity, last, since_ms, end_ms, newest_ms)
    as_it_closes: DepartureTimes = ()
    if not out and last is not None:
        out = _after_a_commit(limits, activity, last, joined_ms, since_ms, falls_idle, cooperative=cooperative)
        if limits.library.may_leave_static:
            as_it_closes = out[_LEFT][:1]
    begun_anew = _times_after_change(coordinator_change, max(last or 0, since_ms or 0), limits.session_ms)
    out[Cause.SESSION_TIMEOUT] = (*out.get(Cause.SESSION_TIMEOUT, ()), *begun_anew)
    if limits.poll_ms is not None:
        late = _late_goodbye_times(coordinator_change, max(last or 0, since_ms or 0), limits.poll_ms)
        held_up = _held_up_commit_times(
            coordinator_change, last, since_ms, limits.poll_ms, _commit_interval_ms(activity)
        )
        out[Cause.POLL_TIMEOUT] = (*out.get(Cause.POLL_TIMEOUT, ()), *late, *held_up)
    silent_ms = end_ms - max(last or 0, since_ms or 0)
    dead_are_dropped = _are_dead_dropped(member, silent_ms, _commit_interval_ms(activity))
    if dead_are_dropped or not client_returned:
        # One that lives hears of it only then.
        out[Cause.REJOIN_TIMEOUT] = (
            UniformInterval(1.0, end_ms - P.timer_precision_ms, end_ms + P.timer_precision_ms),
        )
    if member.instance_id is not None:
        # A static member says no goodbye, not even when it has been away from poll (KIP-345), and is not dropped. But
        # where no member does by default, as in Streams, static ones say it as the others do, if they are told to;
        # and so do the Java client's (KIP-1092), which commit as they are closed.
        if limits.library.leaves_on_close:
            out[_LEFT] = as_it_closes
        ways = (Cause.SESSION_TIMEOUT, Cause.ADMIN_REMOVED, _LEFT)
        out = {cause: times for cause, times in out.items() if cause in ways and times}
    prior = dict(P.departure_shares)
    is_known = limits.library.name != UNKNOWN
    by_library = P.rejoin_timeout_shares[limits.library.stall_end]
    prior[Cause.REJOIN_TIMEOUT] = by_library if is_known else P.rejoin_timeout_unknown_share
    if dead_are_dropped:
        prior[Cause.REJOIN_TIMEOUT] = prior[Cause.SESSION_TIMEOUT]
    if not limits.library.leaves_on_close or member.instance_id is not None:
        prior[Cause.MEMBER_LEFT] *= P.leaves_all_the_same_share
    if limits.poll_ms == limits.session_ms and not is_known:
        # Clients whose JoinGroup has one timeout, or that send one for both, have no limit of this kind.
        prior[Cause.POLL_TIMEOUT] *= P.unlikely_factor
    if not member.partitions:
        # Nothing keeps it from its next poll.
        prior[Cause.POLL_TIMEOUT] *= P.unlikely_factor
    if not client_returned:
        # A client that is removed joins again at once: this one did not.
        prior[Cause.ADMIN_REMOVED] *= 1 - P.rejoins_after_removal_share
    if member.instance_id is None:
        # Nobody removes such a one alone; that all are removed at once is weighed where nobody is left.
        prior[Cause.ADMIN_REMOVED] *= P.removed_alone_factor
    scaled = {cause: scale_times(times, prior[cause]) for cause, times in out.items()}
    timeouts = (Cause.SESSION_TIMEOUT, Cause.POLL_TIMEOUT)
    if len(scaled) > 1 and not any(probability_between(scaled.get(cause, ()), 0, end_ms) for cause in timeouts):
        # No timeout can have run out: so it was told to go, or said goodbye, or was dropped.
        return scaled
    if last is None:
        # A client that died, of which a supervisor starts the next, looks the same.
        scaled[Cause.ADMIN_REMOVED] = scale_times(scaled.get(Cause.ADMIN_REMOVED, ()), P.unlikely_factor)
    elif member.instance_id is not None:
        return scaled
    # It was there as its generation began.
    start = max(last or 0, since_ms or 0) or end_ms - limits.session_ms
    silent = UniformInterval(silence_share, start, max(end_ms, start + limits.session_ms))
    return {**scaled, Cause.UNKNOWN_DEPARTURE: (silent,)}


def _are_dead_dropped(member: Member, silent_ms: int, interval: int) -> bool:
    """Whether one that died that long ago goes with the rebalance timeout, which is shorter than its session."""
    session, rebalance = member.session_timeout_ms or 0, member.rebalance_timeout_ms
    return rebalance is not None and rebalance < session and silent_ms < session + interval


# Before Python 3.12 an enum's members are slow to name.
_LEFT, _REMOVED = Cause.MEMBER_LEFT, Cause.ADMIN_REMOVED


def return_probability(cause: Cause, within_ms: float) -> float:
    """How probable it is that the same client is back within that time after it went so."""
    if cause is _REMOVED:
        return P.rejoins_after_removal_share * min(within_ms / P.heartbeat_interval_ms, 1.0)
    if cause is _LEFT:
        within_ms = max(within_ms - P.process_start_ms, within_ms / 100)
    at_once = P.restarts_at_once_share
    return at_once * min(within_ms / P.restart_at_once_ms, 1.0) + (1 - at_once) * min(within_ms / P.restart_ms, 1.0)


def scale_times(times: DepartureTimes, factor: float) -> DepartureTimes:
    """The same times, more or less usual."""
    return tuple(UniformInterval(share * factor, low, high) for share, low, high in times)


def is_begun_anew(change: CoordinatorChange | None, last_ms: int, session_ms: int) -> bool:
    """Whether another coordinator may have begun a member's session anew that was heard of last at `last_ms`: before
    that, it had not run out."""
    if change is None or change.since_ms > last_ms + session_ms:
        return False
    # Brokers' clocks differ: the new one's may be behind.
    return last_ms < change.until_ms or last_ms <= change.since_ms


def _times_after_change(change: CoordinatorChange | None, last_ms: int, session_ms: int) -> DepartureTimes:
    """When a session runs out that was begun anew since `last_ms`."""
    if change is None or not is_begun_anew(change, last_ms, session_ms):
        return ()
    # It is gone by the new one's clock.
    heard_ms = min(max(change.since_ms, last_ms), change.until_ms)
    earliest_ms = heard_ms + session_ms - P.timer_precision_ms
    latest_ms = min(change.until_ms, last_ms + session_ms + P.longest_without_coordinator_ms) + session_ms
    return (UniformInterval(1.0, earliest_ms, latest_ms + P.log_time_tolerance_ms),)


def _late_goodbye_times(change: CoordinatorChange | None, last_ms: int, poll_ms: int) -> DepartureTimes:
    """When a member leaves whose poll limit ran out while there was no coordinator to tell: it tells the next one.
    `last_ms` is its last sign of life."""
    if change is None or not is_begun_anew(change, last_ms, poll_ms) or last_ms + poll_ms > change.until_ms:
        return ()
    earliest_ms = max(min(change), last_ms + poll_ms) - P.timer_precision_ms
    return (UniformInterval(1.0, earliest_ms, change.until_ms + P.heartbeat_interval_ms),)


def _held_up_commit_times(
    change: CoordinatorChange | None, last: int | None, since_ms: int | None, poll_ms: int, interval: int
) -> DepartureTimes:
    """When a member leaves that stalled before there was a coordinator again to take its commit at `last`."""
    if change is None or last is None or not change.since_ms <= last <= change.until_ms + interval:
        return ()
    earliest_ms = max(change.since_ms - interval, since_ms or 0) + poll_ms - P.timer_precision_ms
    return (
        UniformInterval(P.held_up_commit_share, min(earliest_ms, last + poll_ms), last + poll_ms + P.poll_check_ms),
    )


def _commit_interval_ms(activity: CommitActivity) -> int:
    return max(activity.commit_interval_ms or P.commit_interval_ms, P.shortest_commit_interval_ms)


def _earliest_last_poll_ms(last: int, interval: int) -> int:
    return last - min(interval, P.commit_interval_ms)


def _after_a_commit(
    limits: MemberLimits,
    activity: CommitActivity,
    last: int,
    joined_ms: int | None,
    since_ms: int | None,
    falls_idle: float,
    *,
    cooperative: bool,
) -> TimesByCause:
    interval, session = _commit_interval_ms(activity), limits.session_ms
    joined, renewed = max(last, joined_ms or last), max(last, since_ms or last)
    heard = max(last - P.heartbeat_interval_ms, joined_ms or 0)
    # Commits in transactions renew no session, and how a group commits is not known.
    by_heartbeats = UniformInterval(P.transactional_share, heard + session - P.timer_precision_ms, renewed + session)
    out = {
        Cause.MEMBER_LEFT: close_times(last, interval, limits.library),
        Cause.SESSION_TIMEOUT: (*session_expiry_times(joined, renewed, session, interval), by_heartbeats),
        Cause.ADMIN_REMOVED: (UniformInterval(1.0, last, last + interval),),
    }
    if limits.poll_ms is not None:
        # A rejoin needs a poll, but where nothing is given up: a stalled cooperative member's clock runs on.
        polled = _earliest_last_poll_ms(last, interval)
        if since_ms is not None and not cooperative:
            polled = max(polled, since_ms - P.timer_precision_ms)
        out[Cause.POLL_TIMEOUT] = poll_stall_times(polled, last, limits.poll_ms, interval, limits.library)
    return _with_unmoved_stall(out, limits, activity, last + interval + P.poll_check_ms, falls_idle)


def _with_unmoved_stall(
    out: TimesByCause, limits: MemberLimits, activity: CommitActivity, until_ms: int, falls_idle: float
) -> TimesByCause:
    """A member that goes on committing what does not move as its poll loop stalls: only for how long nothing moved
    tells that. It leaves by `until_ms`."""
    last, moved = activity.last_commit_ms, activity.last_moved_ms
    if last is None or moved is None or not limits.may_commit_unmoved or last - moved < P.shortest_own_limit_ms:
        return out
    works = exp((moved - last) / _commit_interval_ms(activity))
    stalled = UniformInterval(1 - works, last, until_ms)
    closes = scale_times(out[Cause.MEMBER_LEFT], falls_idle + (1 - falls_idle) * works)
    stalls = (*out.get(Cause.POLL_TIMEOUT, ()), stalled)
    return {**out, Cause.POLL_TIMEOUT: stalls, Cause.MEMBER_LEFT: closes}


def _with_background_rejoin(
    out: TimesByCause, limits: MemberLimits, activity: CommitActivity, last: int, since_ms: int
) -> TimesByCause:
    """A cooperative member that gives nothing up rejoins in the background, however long it is away from poll."""
    if limits.poll_ms is None:
        return out
    interval = _commit_interval_ms(activity)
    stalls = poll_stall_times(_earliest_last_poll_ms(last, interval), last, limits.poll_ms, interval, limits.library)
    works = P.unlikely_factor if since_ms - last > 2 * interval + P.slow_close_ms else 1.0
    return {cause: scale_times(times, works) for cause, times in out.items()} | {Cause.POLL_TIMEOUT: stalls}


def _after_incomplete_generation(
    limits: MemberLimits,
    activity: CommitActivity,
    last: int,
    since_ms: int,
    end_ms: int,
    newest_ms: int,
) -> TimesByCause:
    """It joined a generation that never completed: nobody knows when, and it got nothing there to commit. Or it was
    silent before the others were, whose newest commit is `newest_ms`, and did not join."""
    session, poll = limits.session_ms, limits.poll_ms
    begins = {Cause.SESSION_TIMEOUT: last + session, Cause.POLL_TIMEOUT: last + (poll or 0)}
    out: TimesByCause = {
        cause: (UniformInterval(share, at_ms := begins.get(cause, last), max(end_ms, at_ms + session)),)
        for cause, share in P.skipped_generation_shares.items()
        if cause is not Cause.POLL_TIMEOUT or poll is not None
    }
    interval = _commit_interval_ms(activity)
    missed_ms = max(newest_ms - last - interval, 0)
    joined = P.idle_member_share + (1 - P.idle_member_share) * exp(-missed_ms / interval)
    out[Cause.MEMBER_LEFT] = scale_times(out[Cause.MEMBER_LEFT], joined)
    renewed = max(last, since_ms)
    out[Cause.SESSION_TIMEOUT] = (
        *scale_times(out[Cause.SESSION_TIMEOUT], joined),
        *scale_times(session_expiry_times(renewed, renewed, session, interval), 1 - joined),
    )
    return out


def close_times(last: int, interval: int, library: ClientLibrary) -> DepartureTimes:
    """A member that closes after a commit at `last`; it commits each `interval` milliseconds."""
    by_records = _paced_by_records_share(interval)
    quick = (1 - by_records) * library.commits_on_close_share
    slow = (1 - by_records - quick) * P.slow_close_share
    return (
        UniformInterval(quick, last - P.timer_precision_ms, last + library.close_after_commit_ms),
        UniformInterval(1 - by_records - quick - slow, last, last + interval),
        UniformInterval(slow, last, last + 2 * interval + P.slow_close_ms),
        *_record_waits(by_records, last, interval),
    )


def _paced_by_records_share(interval: int) -> float:
    """How many commit as records come, of those that commit each `interval` milliseconds."""
    return P.paced_by_records_share if interval > P.slow_commits_ms else 0.0


def _record_waits(share: float, since: int, interval: int) -> DepartureTimes:
    """Until something happens to a member that waits for its next record since a commit."""
    return tuple(
        UniformInterval(share * part, since + low * interval, since + high * interval)
        for part, low, high in (_RECORD_WAITS if share else ())
    )


_RECORD_WAITS = ((0.63, 0, 1), (0.23, 1, 2), (0.14, 2, 4))
"""Waits for what comes at random, as parts of an exponential distribution: from so many mean waits to so many."""


def session_expiry_times(joined: int, renewed: int, session: int, interval: int) -> DepartureTimes:
    """A member that dies: its session runs from its last commit, or from the rejoin (between the end of the join
    phase at `joined` and the assignment at `renewed`), or from a heartbeat that none followed."""
    # It dies at some moment between two commits; how probable is it that a heartbeat came first?
    beat = P.heartbeat_interval_ms
    heartbeat = interval / (2 * beat) if interval < beat else 1 - beat / (2 * interval)
    heartbeat *= P.later_heartbeat_share
    expires, late, by_records = renewed + session, P.late_timer_share, _paced_by_records_share(interval)
    return (
        UniformInterval(
            (1 - heartbeat) * (1 - late), joined + session - P.timer_precision_ms, expires + P.timer_precision_ms
        ),
        UniformInterval((1 - heartbeat) * late, joined + session, expires + P.log_time_tolerance_ms),
        UniformInterval(heartbeat * (1 - by_records), expires, expires + interval),
        *_record_waits(heartbeat * by_records, expires, interval),
    )


def poll_stall_times(
    polled: int, last: int, poll: int, interval: int, library: ClientLibrary, late_ms: int = P.poll_check_ms
) -> DepartureTimes:
    """A member whose poll loop stalls: at the earliest at `polled`, and at the latest a commit interval after `last`;
    its client notices up to `late_ms` late."""
    apart = library.commits_apart_share
    return (
        UniformInterval(apart, polled + poll - P.timer_precision_ms, last + poll + late_ms),
        UniformInterval(1 - apart, last + poll, last + poll + interval + late_ms),
    )


def _without_commits(
    limits: MemberLimits,
    joined_ms: int,
    since_ms: int,
    end_ms: int,
    usual_interval_ms: int | None,
    *,
    in_background: bool,
    is_followed_up: bool,
) -> TimesByCause:
    """Only that it was there as its generation began is known. Any later time is as good, but that one which dies
    soon after has no time to commit."""
    lasted = max(end_ms - since_ms, P.shortest_commit_interval_ms)

    def later_than(at_ms: int) -> DepartureTimes:
        return (UniformInterval(max(end_ms - at_ms, int(at_ms == since_ms)) / lasted, at_ms, max(end_ms, at_ms + 1)),)

    expires, at_once = joined_ms + limits.session_ms, P.dies_at_once_share
    if expires <= since_ms:
        # Who had died as the leader assigned would not be there any more, and the assignment renews the session.
        expires = since_ms + limits.session_ms
    # Whoever works for long has something to commit, or its partitions are idle.
    idle = P.idle_member_share
    works = 1.0 if usual_interval_ms is None else idle + (1 - idle) * exp(-lasted / usual_interval_ms)
    out = {
        Cause.MEMBER_LEFT: scale_times(later_than(since_ms), works),
        Cause.SESSION_TIMEOUT: (
            # Who died before the join phase had ended asks for no assignment, which would renew the session.
            UniformInterval(at_once / 4, expires - P.timer_precision_ms, expires + P.timer_precision_ms),
            UniformInterval(
                at_once / 4, expires - P.timer_precision_ms, since_ms + limits.session_ms + P.timer_precision_ms
            ),
            UniformInterval(at_once / 2, expires, since_ms + limits.session_ms + P.heartbeat_interval_ms),
            *scale_times(later_than(expires), (1 - at_once) * works),
        ),
        Cause.ADMIN_REMOVED: scale_times(later_than(since_ms), works),
    }
    if is_followed_up:
        # Who was closed while it joined says so as its generation begins, at once as the next round does.
        begins = UniformInterval(
            works * P.closed_as_joined_share, since_ms - P.timer_precision_ms, since_ms + P.timer_precision_ms
        )
        out[Cause.MEMBER_LEFT] = (*out[Cause.MEMBER_LEFT], begins)
    if limits.poll_ms is not None:
        out[Cause.POLL_TIMEOUT] = later_than(since_ms + limits.poll_ms)
        if in_background:
            # One that stalled before its generation had had nothing to commit.
            out[Cause.POLL_TIMEOUT] += scale_times(later_than(since_ms), idle)
    return out


def kip848_departure_probabilities(
    member: Member,
    activity: CommitActivity,
    seen_ms: int | None,
    at_ms: int,
    *,
    is_behind: bool = False,
    session: SessionSetting | None = None,
    coordinator_change: CoordinatorChange | None = None,
    silence_share: float = P.other_silence_share,
) -> dict[Cause, float]:
    """The probability of each cause for a member of a KIP-848 group that went at `at_ms` and was heard of last, but
    for its commits, at `seen_ms` (None: not known; there is a commit then); empty where none can be, as where clocks
    disagree. `is_behind`: it had not reached the
    group's target yet.

    Its session timeout is the broker's and not in the log: `session`, or where that is None most likely the default.
    A commit does not renew it; another coordinator begins it anew (`coordinator_change`: the newest of the group's
    partition, None: none is known). `silence_share` is how many fall silent for another reason before they go.
    """
    usual = session or SessionSetting()
    session_ms = member.session_timeout_ms or usual.timeout_ms
    interval, precision = _commit_interval_ms(activity), P.timer_precision_ms
    library, committed = library_named(member.client_library), activity.last_commit_ms
    last = max(it for it in (committed, seen_ms) if it is not None)
    out: TimesByCause = {}
    if committed == last:
        # Who works commits. Of the others nothing came to what they have: they may close, or die, at any time.
        works, silent = 1 - P.falls_idle_share, UniformInterval(P.falls_idle_share, last, max(at_ms, last + interval))
        out[Cause.MEMBER_LEFT] = (*scale_times(close_times(last, interval, library), works), silent)
        out[Cause.SESSION_TIMEOUT] = scale_times(_kip848_session_expiry_times(member, session, last, interval), works)
        if at_ms > last + session_ms:
            out[Cause.SESSION_TIMEOUT] += (silent,)
    else:
        # One that commits and did not since then died about then; of another it may be at any time since.
        until_ms = at_ms if committed is not None else at_ms + session_ms
        out[Cause.SESSION_TIMEOUT] = _kip848_session_expiry_times(member, session, last, interval, until_ms)
        # With nothing to commit any time is as good; and where others committed what it has, it is idle.
        idle = max(P.idle_member_share, silence_share)
        works = 1.0 if committed is None else idle + (1 - idle) * exp(-max(at_ms - last, 0) / interval)
        out[Cause.MEMBER_LEFT] = (UniformInterval(works, last, max(at_ms, last + interval)),)
        if committed is None and session is None and member.session_timeout_ms is None:
            # The moment alone tells, and not by a limit that is only assumed.
            until_ms = max(at_ms, last + session_ms)
            expires_ms = last + P.kip848_shortest_session_timeout_ms - precision
            out[Cause.SESSION_TIMEOUT] = (UniformInterval(1.0, expires_ms, until_ms),)
            out[Cause.MEMBER_LEFT] = (UniformInterval(1.0, last, until_ms),)
    out[Cause.SESSION_TIMEOUT] += _times_after_change(coordinator_change, last, session_ms)
    if member.instance_id is not None:
        # Admins' clients name it by its instance; of others they take out all at once.
        out[Cause.ADMIN_REMOVED] = out[Cause.MEMBER_LEFT]
        if committed == last:
            out[Cause.ADMIN_REMOVED] = UniformInterval(works, last, last + interval), silent
    if member.rebalance_timeout_ms is not None and library.stall_end is StallEnd.REBALANCE_TIMEOUT:
        poll, since = member.rebalance_timeout_ms, last if committed is None else committed
        polled = _earliest_last_poll_ms(since, interval)
        late = library.leaves_after_stall_share
        out[Cause.POLL_TIMEOUT] = (
            *scale_times(poll_stall_times(polled, since, poll, interval, library, usual.heartbeat_ms), 1 - late),
            # It says so only when the stall is over.
            UniformInterval(late, since + poll, max(since + 2 * poll, at_ms)),
        )
    shares = dict(P.departure_shares)
    fell_silent = committed is not None and at_ms > committed + interval
    if is_behind and seen_ms is not None and member.rebalance_timeout_ms is not None:
        # Its newest record asks it to give up partitions, and so does a timer of the broker's that began with that.
        dropped_ms = seen_ms + member.rebalance_timeout_ms
        out[Cause.REJOIN_TIMEOUT] = (
            UniformInterval(1.0, dropped_ms - precision, dropped_ms + P.log_time_tolerance_ms),
        )
        shares[Cause.REJOIN_TIMEOUT] = P.kip848_rejoin_timeout_share
        if fell_silent and last > seen_ms + usual.heartbeat_ms + interval:
            # It went on with its work, and would have given up what it had to as it polled next.
            shares[Cause.REJOIN_TIMEOUT] *= P.hangs_later_share
    likely = {
        cause: shares[cause] * probability_between(times, at_ms - precision, at_ms + precision)
        for cause, times in out.items()
    }
    if member.instance_id is not None:
        # One that closes, or has been away from poll, leaves for a restart; for good it leaves as few do (KIP-1092).
        likely[Cause.MEMBER_LEFT] *= P.leaves_all_the_same_share
        likely.pop(Cause.POLL_TIMEOUT, None)
    else:
        # Who never committed, or whose next commit was not due, did not fall silent.
        silent_share = silence_share if fell_silent else P.other_silence_share
        likely[Cause.UNKNOWN_DEPARTURE] = silent_share * 2 * precision / max(at_ms - last, P.commit_interval_ms)
    total = sum(likely.values())
    return {cause: share / total for cause, share in likely.items()} if total else {}


def _kip848_session_expiry_times(
    member: Member, session: SessionSetting | None, last: int, interval: int, until_ms: int = 0
) -> DepartureTimes:
    """`until_ms`: one that died later than its last sign of life at `last` shows went by then."""
    if member.session_timeout_ms is not None:
        # One of the classic protocol: its own session, which commits do not renew here either.
        low, high = last + member.session_timeout_ms - P.heartbeat_interval_ms, last + member.session_timeout_ms
        return (UniformInterval(1.0, low, max(high + interval + P.log_time_tolerance_ms, until_ms)),)
    usual, beat = session or SessionSetting()
    shortest, longest = P.kip848_shortest_session_timeout_ms, P.kip848_longest_session_timeout_ms
    share, by_records = kip848_session_share(session), _paced_by_records_share(interval)
    latest_ms = max(last + usual + interval + P.log_time_tolerance_ms, until_ms)
    return (
        UniformInterval(share * (1 - by_records), last + usual - beat, latest_ms),
        *_record_waits(share * by_records, last + usual - beat // 2, interval),
        UniformInterval(1 - share, last + shortest - beat, last + longest + interval),
    )


def kip848_session_share(session: SessionSetting | None) -> float:
    """How many members have that session timeout, or where it is not known the default."""
    return P.kip848_usual_session_share if session is None else P.kip848_known_session_share
