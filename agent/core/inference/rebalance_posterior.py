"""What happened first in a rebalance, and how each member went: every order of events weighed against the log.

A rebalance begins with a trigger: a member comes, or goes, or a cooperative round follows, or a member that stays
asks for it. It ends (e, the end of the join phase) when the last of those that stay has noticed and rejoined, or when
the last that has to be waited for is given up. When it began (b) is not written, so each b is weighed:

    weight(b, order) = stay(b) · trigger(b) · departures(b, order) · ending(b, order)

stay(b): the product over eager members that stay, with last commit c and commit interval i, of

    commits_on_revoke_share · n(c - b)                                     if c >= b
    (1 - commits_on_revoke_share) / i, times overdue_commit_factor         if it missed a commit by b

n(t), N(t): density and distribution of how long a member takes to notice. With s = notices_in_time_share, v =
slower_notice_share, h the heartbeat interval and k what members of the group took so far

    n(t) = s · ( v · U[0, h] + (1 - v) · U[0, k] ) + (1 - s) · exponential(mean busy_ms)

Where those that stay commit seldom (slow_commits_ms), what is told must hold as well with 1 - s = busy_group_share
and their commit interval in place of busy_ms.

trigger(b): with m members that came, the generation's length l, x = (e - b) / l (the others came since b), and F(b)
of rounds that left partitions without an owner followed up by b, f(b) its density (0 where none were left)

    joined     (1 - F(b)) · m / l · x^(m-1)
    followed   f(b) · x^m
    rejoined   (1 - F(b)) · 1 / l · x^m                 if a member that stays had a reason
    departed   (1 - F(b)) · x^m, times replacement_odds if any came; when it went is in its own term, below

    f          followup_share · ( p · U[d, d + followup_at_once_ms] + (1 - p) · U[d, d + followup_ms] )
               times followup_of_gone_factor where all that were to give up partitions are gone;
               p = followup_at_once_share, d when the generation before was complete, or such a partition was
               committed first since then: clients commit what they give up, and then join again

departures(b, order): the product over members that went of their densities or probabilities of going just then at b
(it was the trigger), between b and e, or at e (it was waited for); each by cause (`departure_likelihood`), and by
whether its client is back. `likelihood_sums` sums over all orders; with same_way_share all go in the same way.

ending(b, order): the density of the last rejoin at e, others · n(e - b) · N(e - b)^(others - 1), and
heartbeats_in_step_share / 2ε on top where a session would end at e that began with the generation: heartbeats began
with it, too, and session timeouts are multiples of their interval; or, if a departed member was waited for,
that all others had rejoined, N(e - b)^others; or, if e = b + the longest rebalance timeout, that the time was up:
only then did members go by `rejoin_timeout`, and at least one did.

Where nobody is left, all may have gone by one event at e as well, an application closed or a host lost, of the weight
same_way_share · d · the product of what the others' densities are of d, the greatest one's, at the most 1. All that
go in the same way then do so within a heartbeat interval. An admin that takes all out is such an event too, and
so is, as it looks the same, an application that does not commit as it is closed. Where their sessions ran
out, others may have been closed just before one died, with one_dead_odds times the weight.

Everything is proportional; `rebalance_posterior` divides by the sum.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from heapq import nlargest
from itertools import pairwise
from math import exp, inf, log, prod
from typing import NamedTuple, TypeVar

from msgspec import Struct

from agent.core.causes import Cause
from agent.core.inference.departure_likelihood import (
    DepartureTimes,
    TimesByCause,
    UniformInterval,
    probability_between,
    return_probability,
)
from agent.core.inference.facts import CommitActivity
from agent.core.inference.likelihood_sums import (
    DepartureOrders,
    DepartureTerm,
    OrderSums,
    Posterior,
    StartInterval,
    TermsByCause,
    departure_orders,
)
from agent.core.inference.parameters import PARAMETERS as P


class RebalanceObservation(Struct, frozen=True):
    """What is known of one rebalance. Times are epoch milliseconds.

    `since_ms` is when the generation before was complete (None: not known), `end_ms` when the join phase ended.
    `departure_times` are those of each member that went, `client_returned` whether the same client is there again.
    `new_members` counts members that came, without those whose client was there before; `remaining` has the commits
    of those that stay. `followup_due_ms` is from when on a cooperative round may follow, or a leader join again that
    knew of no partitions (None: neither is due), and `followup_share` how many do. `rejoin_has_reason`: one of them
    had a reason to rejoin. `emptied`: nobody is left; `are_dynamic`: none of those that went is static. `notice_ms`
    is how long members of the group take to notice a rebalance, as far as is known; `busy_share` of them are busy,
    for `busy_ms` as a mean. `ends_in_step`: the join phase ended as a session would have that began with the
    generation, and with it the heartbeats of those that stay, of which session timeouts are mostly multiples.
    """

    since_ms: int | None
    end_ms: int
    departure_times: Sequence[TimesByCause]
    client_returned: Sequence[bool]
    new_members: int
    remaining: Sequence[CommitActivity]
    followup_due_ms: int | None
    rejoin_has_reason: bool
    cooperative: bool
    emptied: bool
    are_dynamic: bool
    longest_rebalance_timeout_ms: int
    notice_ms: int
    busy_ms: int = P.busy_ms
    followup_share: float = P.followup_share
    busy_share: float = 1 - P.notices_in_time_share
    ends_in_step: bool = False


class _LastCommit(NamedTuple):
    """The last commit of a member that stays, epoch milliseconds, and its commit interval; ln stay(b) of the module
    where it missed no commit by b, and where it did."""

    at_ms: float
    interval_ms: int
    log_in_time: float
    log_overdue: float


Item = TypeVar("Item")


def spread_evenly(items: Sequence[Item], most: int) -> list[Item]:
    """At most so many of them, evenly spread."""
    step = max(len(items) / most, 1)
    return [items[int(index * step)] for index in range(min(len(items), most))]


def rebalance_posterior(seen: RebalanceObservation) -> Posterior:
    """Weigh every order of events."""
    out = Posterior([dict.fromkeys(times, 0.0) for times in seen.departure_times])
    commits = _sampled_last_commits(seen)
    starts: list[tuple[StartInterval, float]] = []
    highest = -inf
    for start in reversed([*_start_intervals(seen)]):
        logarithm = _remaining_log_likelihood(seen, commits, start.middle_ms)
        starts.append((start, logarithm))
        highest = max(highest, logarithm)
        if commits and start.middle_ms <= commits[0].at_ms and exp(logarithm - highest) < P.negligible_start_factor:
            break  # the earlier it began, the longer each took to notice
    gone = _departures(seen)
    weighed = []
    for start, logarithm in reversed(starts):
        likelihood = exp(logarithm - highest)
        if likelihood < P.negligible_start_factor:
            continue
        before = out.total_weight
        _add_start_interval(seen, commits, gone, start, likelihood * (start.high_ms - start.low_ms), out)
        weighed.append((out.total_weight - before, start))
    out.began_ms = _median_start_ms(weighed)
    if seen.emptied:
        # The last member went and nobody was left to notice: the rebalance was over as it began.
        end, precision = seen.end_ms, P.timer_precision_ms
        terms = _departure_terms(seen, gone, end - precision, end + precision)
        weights = OrderSums(0.0, exp(starts[0][1] - highest), 0.0, 0.0)
        for orders in departure_orders(terms):
            orders.add(weights, out)
        if terms:
            _add_common_end(seen, out)
        if len(terms) > 1:
            _add_one_death(seen, out)
    out.normalize()
    out.likeliest_starts = nlargest(P.starts_kept, weighed, key=lambda each: each[0])
    return out


def _add_common_end(seen: RebalanceObservation, out: Posterior) -> None:
    """Add that all went at one time for one reason: an application was closed, a host died, an admin took them out.
    The last went at the end; that is one event, of the density of the member that speaks for it most, times how much
    less the others do. Those that fell silent before went with the others, and nothing tells how: it is one event too
    that nothing comes to the topics any more."""
    silent = _end_densities(seen, Cause.UNKNOWN_DEPARTURE, 0)
    unknown = [
        density * P.silence_of_all_share / P.lone_silence_share * _share_without_goodbye(seen, times)
        for density, times in zip(silent, seen.departure_times, strict=True)
    ]
    for cause, apart_ms in _COMMON_ENDS.items():
        is_removed = cause is Cause.ADMIN_REMOVED
        if is_removed and (
            not seen.are_dynamic or any(_just_committed(seen, times) for times in seen.departure_times)
        ):
            continue  # static members are taken out singly; and one that is closed commits
        if len(silent) < 2 and not is_removed:
            continue  # what one did is weighed already
        own, most = _end_densities(seen, cause, apart_ms), max(_end_densities(seen, cause, 0))
        if not most:
            continue
        others = unknown
        if is_removed:
            # Nobody is back of those who were all taken out: clients hear of it by their next heartbeat. And it is
            # one moment, in which each was there or not: how often one commits tells nothing of it.
            most /= (1 - P.rejoins_after_removal_share) * P.removed_alone_factor
            if _count_committed(seen) < 2:
                # Several that close without a commit are seldom; one is not.
                most /= 2
            own = [most if density else 0.0 for density in own]
        elif cause is Cause.SESSION_TIMEOUT:
            others = [
                it * _expired_share(seen, times) for it, times in zip(unknown, seen.departure_times, strict=True)
            ]
        weight = P.same_way_share * most
        weight *= prod(min((density + other) / most, 1.0) for density, other in zip(own, others, strict=True))
        if not weight:
            continue
        for told in (cause, Cause.MEMBER_LEFT) if is_removed else (cause,):
            for causes, density, other in zip(out.cause_probabilities, own, others, strict=True):
                known = density / (density + other)
                causes[told] = causes.get(told, 0.0) + weight * known
                causes[Cause.UNKNOWN_DEPARTURE] = causes.get(Cause.UNKNOWN_DEPARTURE, 0.0) + weight * (1 - known)
            out.departed_first[told] = out.departed_first.get(told, 0.0) + weight
            out.total_weight += weight


def _add_one_death(seen: RebalanceObservation, out: Posterior) -> None:
    """As far as all died: add that it was one of them, of whom the group heard last, and that the others were closed
    just before. They look as if they had died with it, if they are such as say goodbye."""
    ends = _end_densities(seen, Cause.SESSION_TIMEOUT, 0)
    if not (total := sum(ends)):
        return
    usual = P.departure_shares[Cause.MEMBER_LEFT]
    closed = [
        (1 - density / total) * min(sum(it.share for it in times.get(Cause.MEMBER_LEFT, ())) / usual, 1.0)
        for density, times in zip(ends, seen.departure_times, strict=True)
    ]
    # Not yet divided by the weight of all.
    all_died = min(causes.get(Cause.SESSION_TIMEOUT, 0.0) for causes in out.cause_probabilities)
    weight = P.one_dead_odds * all_died * max(closed)
    for causes, share in zip(out.cause_probabilities, closed, strict=True):
        causes[Cause.SESSION_TIMEOUT] = causes.get(Cause.SESSION_TIMEOUT, 0.0) + weight * (1 - share)
        causes[Cause.UNKNOWN_DEPARTURE] = causes.get(Cause.UNKNOWN_DEPARTURE, 0.0) + weight * share
    first = out.departed_first
    first[Cause.UNKNOWN_DEPARTURE] = first.get(Cause.UNKNOWN_DEPARTURE, 0.0) + weight
    out.total_weight += weight


def _just_committed(seen: RebalanceObservation, times: TimesByCause) -> bool:
    """Whether a member's last commit is as recent at the end as that of one that closes slowly."""
    closes = times.get(Cause.MEMBER_LEFT)
    if not closes:
        return False
    quick = closes[0]
    is_since = seen.since_ms is None or quick.low_ms > seen.since_ms
    return is_since and seen.end_ms <= 2 * quick.high_ms - quick.low_ms


def _count_committed(seen: RebalanceObservation) -> int:
    """How many of those that went had committed in their generation: since then they may have been taken out."""
    first_ms = [
        min((it.low_ms for it in times.get(Cause.ADMIN_REMOVED, ())), default=0) for times in seen.departure_times
    ]
    return sum(seen.since_ms is None or at_ms > seen.since_ms for at_ms in first_ms)


def _expired_share(seen: RebalanceObservation, times: TimesByCause) -> float:
    """How probable it is that a member that died is removed by the end: one heard of later than those whose session
    ran out did not die with them."""
    sessions = times.get(Cause.SESSION_TIMEOUT, ())
    total = sum(it.share for it in sessions)
    return probability_between(sessions, 0, seen.end_ms + P.timer_precision_ms) / total if total else 0.0


def _share_without_goodbye(seen: RebalanceObservation, times: TimesByCause) -> float:
    """How much less usual a goodbye at the end is of a member than its mere silence until then: nothing less where it
    says none."""
    low, high = seen.end_ms - P.timer_precision_ms, seen.end_ms + P.timer_precision_ms
    goodbye, silence = (
        probability_between(its, low, high) / total if (total := sum(it.share for it in its)) else None
        for its in (times.get(Cause.MEMBER_LEFT, ()), times.get(Cause.UNKNOWN_DEPARTURE, ()))
    )
    return max(1 - goodbye / silence, 0.0) if silence and goodbye is not None else 0.0


def _end_densities(seen: RebalanceObservation, cause: Cause, apart_ms: int) -> list[float]:
    """The density of going so within that time before the end, of each that went."""
    low, high = seen.end_ms - apart_ms - P.timer_precision_ms, seen.end_ms + P.timer_precision_ms
    return [probability_between(times.get(cause, ()), low, high) / (high - low) for times in seen.departure_times]


_COMMON_ENDS = {
    Cause.MEMBER_LEFT: 0,
    # Members that die together sent their last heartbeats up to an interval apart.
    Cause.SESSION_TIMEOUT: P.heartbeat_interval_ms,
    Cause.ADMIN_REMOVED: 0,
}
"""How far apart, in milliseconds, members go of which one event takes all."""


def _median_start_ms(weighed: Sequence[tuple[float, StartInterval]]) -> float | None:
    left = sum(weight for weight, _ in weighed) / 2
    for weight, start in weighed:
        left -= weight
        if left < 0:
            return start.middle_ms
    return None


def posterior_of_another(seen: RebalanceObservation, found: Posterior, times: TimesByCause) -> dict[Cause, float]:
    """How one more member went, that was not weighed with the others: given when it began, and how they went."""
    others = found.cause_probabilities
    alike_of = {cause: sum(causes.get(cause, 0.0) for causes in others) / len(others) for cause in times}
    # Members are dropped together, or none is.
    alone = {cause: 0.0 if cause is Cause.REJOIN_TIMEOUT else 1 - P.same_way_share for cause in times}
    by_time = weights_by_time(seen, found, times)
    out = {cause: weight * (alike_of[cause] + alone[cause]) for cause, weight in by_time.items()}
    total = sum(out.values())
    return {cause: share / total for cause, share in out.items()} if total else out


def weights_by_time(seen: RebalanceObservation, found: Posterior, times: TimesByCause) -> dict[Cause, float]:
    """How probable it is that a member went during the rebalance, by cause, whatever the others did."""
    end_ms = seen.end_ms + P.timer_precision_ms
    return {
        cause: sum(
            weight * probability_between(intervals, start.low_ms - P.timer_precision_ms, end_ms)
            for weight, start in found.likeliest_starts
        )
        for cause, intervals in times.items()
    }


def _start_intervals(seen: RebalanceObservation) -> Iterator[StartInterval]:
    """Fine near the end, coarse far from it, and cut where something may have happened."""
    end = seen.end_ms
    first = end - seen.longest_rebalance_timeout_ms - P.start_margin_ms
    if seen.since_ms is not None:
        first = max(first, min(seen.since_ms, end) - P.timer_precision_ms)
    cuts = {float(first), float(end), end - P.timer_precision_ms}
    step, back = P.start_step_ms, 0.0
    while end - back > first:
        cuts.add(end - back)
        back += step
        if back >= P.fine_steps_ms:
            step *= P.step_growth_factor
    if (due_ms := seen.followup_due_ms) is not None:
        cuts.update((due_ms, due_ms + P.followup_at_once_ms, due_ms + P.followup_ms))
    if any(Cause.REJOIN_TIMEOUT in times for times in seen.departure_times):
        cuts.update(_timed_out_start(seen))
    cuts.update(it.last_commit_ms for it in seen.remaining[: P.remaining_sampled] if it.last_commit_ms is not None)
    for times in seen.departure_times:
        for interval in (interval for intervals in times.values() for interval in intervals):
            if interval.high_ms - interval.low_ms <= P.narrow_ms:
                cuts.update((interval.low_ms, interval.high_ms))
    for low, high in pairwise(sorted(float(at) for at in cuts if first <= at <= end)):
        yield StartInterval(low, high)


def _sampled_last_commits(seen: RebalanceObservation) -> list[_LastCommit]:
    """Of those that stay and commit, ascending, spread evenly if they are many."""
    known = sorted(
        (it.last_commit_ms, it.commit_interval_ms or P.heartbeat_interval_ms)
        for it in seen.remaining
        if it.last_commit_ms is not None
    )
    out = []
    for at_ms, interval_ms in spread_evenly(known, P.remaining_sampled):
        density = (1 - P.commits_on_revoke_share) / interval_ms
        out.append(_LastCommit(float(at_ms), interval_ms, _log(density), _log(density * P.overdue_commit_factor)))
    return out


def _log(likelihood: float) -> float:
    return log(likelihood if likelihood > P.least_likelihood else P.least_likelihood)


_LATEST_HEARTBEAT_MS = P.heartbeat_interval_ms + P.late_heartbeat_ms


def _notice_density(seen: RebalanceObservation, after_ms: float) -> float:
    """n(t) of the module, a millisecond."""
    density = seen.busy_share * exp(-after_ms / seen.busy_ms) / seen.busy_ms
    if after_ms <= _LATEST_HEARTBEAT_MS:
        density += (1 - seen.busy_share) * P.slower_notice_share / P.heartbeat_interval_ms
    if after_ms <= seen.notice_ms + P.late_heartbeat_ms:
        density += (1 - seen.busy_share) * (1 - P.slower_notice_share) / seen.notice_ms
    return density


def _noticed_probability(seen: RebalanceObservation, after_ms: float) -> float:
    """N(t) of the module: the share of members that have noticed by then."""
    slower = after_ms / P.heartbeat_interval_ms if after_ms < P.heartbeat_interval_ms else 1.0
    quicker = after_ms / seen.notice_ms if after_ms < seen.notice_ms else 1.0
    in_time = P.slower_notice_share * slower + (1 - P.slower_notice_share) * quicker
    return (1 - seen.busy_share) * in_time + seen.busy_share * (1 - exp(-after_ms / seen.busy_ms))


def _remaining_log_likelihood(seen: RebalanceObservation, commits: Sequence[_LastCommit], began: float) -> float:
    """ln stay(b) of the module. Cooperative members commit throughout, so theirs tell nothing."""
    if seen.cooperative:
        return 0.0
    total = 0.0
    for last, interval, log_in_time, log_overdue in commits:
        if last >= began:
            total += _log(P.commits_on_revoke_share * _notice_density(seen, last - began))
        else:
            total += log_in_time if began - last <= interval else log_overdue
    return total


def _last_rejoin(seen: RebalanceObservation, commits: Sequence[_LastCommit], began: float) -> tuple[float, float]:
    """The density of the last one's rejoin at the end, and how probable it is that all had rejoined before."""
    end, precision = seen.end_ms, P.timer_precision_ms
    if not seen.remaining:
        # New members join at once.
        return (0.0 if seen.emptied else P.least_likelihood), 1.0
    revoked = 0 if seen.cooperative else sum(it.at_ms >= began for it in commits)
    if revoked and commits[-1].at_ms >= end - 2 * precision:
        return 1 / (2 * precision), P.least_likelihood
    others = len(seen.remaining) - revoked
    noticed = _noticed_probability(seen, end - began)
    before = noticed ** max(others, 0)
    if others <= 0:
        # They had all given up their partitions, and still someone took long.
        return P.slow_rejoin_share / P.busy_ms, before
    density = others * _notice_density(seen, end - began) * noticed ** (others - 1)
    if seen.ends_in_step and end - began <= _LATEST_HEARTBEAT_MS:
        density += P.heartbeats_in_step_share / (2 * precision)
    return density, before


def _timed_out_start(seen: RebalanceObservation) -> tuple[float, float]:
    """Between which times the join phase began if it ended because its time was up, epoch milliseconds."""
    began = seen.end_ms - seen.longest_rebalance_timeout_ms
    return began - P.timer_precision_ms, began + P.timer_precision_ms


class _Ending(NamedTuple):
    """The densities of the end of a join phase, given when it began: by the last rejoin, by the departure that it
    waited for, because its time was up."""

    by_rejoin: float
    by_departure: float
    by_timer: float


def _ending(seen: RebalanceObservation, commits: Sequence[_LastCommit], start: StartInterval) -> _Ending:
    low, high = _timed_out_start(seen)
    overlap = min(high, start.high_ms) - max(low, start.low_ms)
    by_timer = overlap / (start.high_ms - start.low_ms) / (high - low) if overlap > 0 else 0.0
    return _Ending(*_last_rejoin(seen, commits, start.middle_ms), by_timer)


class _Departures(NamedTuple):
    """Of each that went, by cause: when it will have gone, and the density of that at the end. Before `first_ms`
    (epoch milliseconds) nobody will have."""

    ways: list[dict[Cause, tuple[DepartureTimes, float]]]
    first_ms: float


def _departures(seen: RebalanceObservation) -> _Departures:
    low, high = seen.end_ms - P.timer_precision_ms, seen.end_ms + P.timer_precision_ms
    ways, first_ms = [], inf
    for by_cause in seen.departure_times:
        out = {}
        for cause, times in by_cause.items():
            # Whole numbers of more than 30 bits are slow to compare with others.
            times = tuple(UniformInterval(share, float(low_ms), float(high_ms)) for share, low_ms, high_ms in times)
            out[cause] = times, probability_between(times, low, high) / (high - low)
            if cause is not _DROPPED:
                first_ms = min((first_ms, *(it.low_ms for it in times)))
        ways.append(out)
    return _Departures(ways, first_ms)


class _Orders(NamedTuple):
    """Every order of departures: without those that were dropped because the time was up, and, if it may have been,
    with them (else empty)."""

    alive: list[DepartureOrders]
    timed: list[DepartureOrders]


def _orders(terms: list[TermsByCause], *, one_reason: bool = True) -> _Orders:
    if not any(_DROPPED in it for it in terms):
        return _Orders(departure_orders(terms, one_reason=one_reason), [])
    alive = [{cause: term for cause, term in it.items() if cause is not _DROPPED} for it in terms]
    return _Orders(departure_orders(alive, one_reason=one_reason), departure_orders(terms, one_reason=one_reason))


def _add_orders(
    orders: _Orders,
    before: float,
    by_departure: float,
    ending: _Ending,
    out: Posterior,
    *,
    one_reason: bool = True,
) -> float:
    """Add every order of departures, `before` the weight of what began the rebalance before any of them and
    `by_departure` that of a departure that began it; unless they cannot have had `one_reason`, also those in which
    all went in one way. Their weight."""
    weights = OrderSums(
        before * ending.by_rejoin,
        by_departure * ending.by_rejoin,
        before * ending.by_departure,
        by_departure * ending.by_departure,
    )
    alive, timed = orders if one_reason else (orders.alive[:1], orders.timed[:1])
    total = sum([it.add(weights, out) for it in alive])
    if timed:
        weights = OrderSums(before * ending.by_timer, by_departure * ending.by_timer, 0.0, 0.0)
        # All orders in which the time was up, less those in which nobody was dropped for it.
        total += sum([it.add(weights, out) for it in timed])
        total += sum([it.add(weights.scaled(-1.0), out) for it in alive])
    return total


def _add_start_interval(
    seen: RebalanceObservation,
    commits: Sequence[_LastCommit],
    gone: _Departures,
    start: StartInterval,
    likelihood: float,
    out: Posterior,
) -> None:
    """Add the orders of events that begin in one stretch of time; `likelihood` is stay(b) times its length."""
    end, began = seen.end_ms, start.middle_ms
    generation_began = seen.since_ms if seen.since_ms is not None else start.low_ms
    lasted = max(end - generation_began, P.shortest_generation_ms)
    part = (end - began + P.timer_precision_ms) / lasted
    before, by_then = _followed_up_share(seen, start.low_ms), _followed_up_share(seen, start.high_ms)
    alone = likelihood * (1 - (before + by_then) / 2)
    came = part**seen.new_members
    joined = alone * seen.new_members / lasted * part ** max(seen.new_members - 1, 0)
    followed = likelihood * (by_then - before) / (start.high_ms - start.low_ms) * came
    asked = alone / lasted * came if seen.rejoin_has_reason else 0.0
    other, returned = joined + followed + asked, sum(seen.client_returned)
    if not (other or returned) and start.high_ms <= gone.first_ms:
        return  # nothing began it
    ending = _ending(seen, commits, start)
    terms = _departure_terms(seen, gone, start.low_ms, start.high_ms, timed=ending.by_timer > 0)
    # Of those that go for one reason and leave nobody, the first and the last are hardly further apart.
    is_apart = seen.emptied and start.high_ms < end - P.heartbeat_interval_ms - P.late_heartbeat_ms
    since = _returned_since(seen, terms, began) if returned else terms
    orders = _orders(since, one_reason=bool(other) or not is_apart)
    if other:
        total = _add_orders(orders, other, 0.0, ending, out)
        out.joined_first += total * joined / other
        out.followed_up += total * followed / other
        out.rejoined_first += total * asked / other
    if returned:
        # The client of a dead member may be back before its session has run out.
        others_returned = (part * lasted / P.restart_ms) ** (returned - 1)
        again = P.early_restart_odds * alone * came * others_returned / P.restart_ms
        out.joined_first += _add_orders(_orders(_returned_before(seen, terms)), again, 0.0, ending, out)
    went = alone * came * (P.replacement_odds if seen.new_members else 1.0)
    _add_orders(orders, 0.0, went, ending, out, one_reason=not is_apart)


# Before Python 3.12 an enum's members are slow to name.
_DROPPED = Cause.REJOIN_TIMEOUT
_DIES = frozenset({Cause.SESSION_TIMEOUT, Cause.UNKNOWN_DEPARTURE, _DROPPED})
_LIVES = frozenset({Cause.MEMBER_LEFT, Cause.ADMIN_REMOVED})


def _departure_terms(
    seen: RebalanceObservation, gone: _Departures, low: float, high: float, *, timed: bool = False
) -> list[TermsByCause]:
    """For each that went, for each cause: what a rebalance that began between `low` and `high` makes of it, whenever
    its client came back. `timed`: the join phase may have ended because its time was up."""
    end, precision = float(seen.end_ms), float(P.timer_precision_ms)
    unnoticed = 1 - _noticed_probability(seen, max(end - (low + high) / 2, precision))
    out = []
    for ways in gone.ways:
        terms = {}
        for cause, (times, awaited) in ways.items():
            if cause is _DROPPED and not timed:
                continue
            within = probability_between(times, low - precision, end + precision)
            if not within:
                continue
            if cause is _DROPPED:
                terms[cause] = DepartureTerm(0.0, within, 0.0)
                continue
            started = probability_between(times, low, high) / (high - low)
            # As long as it lives it rejoins like the others, and is waited for no more.
            terms[cause] = DepartureTerm(started, within, awaited * unnoticed if cause in _LIVES else awaited)
        out.append(terms)
    return out


def _returned_before(seen: RebalanceObservation, terms: list[TermsByCause]) -> list[TermsByCause]:
    """The same where clients that are back were so by then: only one that dies may be."""
    return [
        {cause: term for cause, term in it.items() if cause in _DIES} if returned else it
        for it, returned in zip(terms, seen.client_returned, strict=True)
    ]


def _returned_since(seen: RebalanceObservation, terms: list[TermsByCause], began: float) -> list[TermsByCause]:
    """The same where they came back after they went."""
    left = max(seen.end_ms - began, P.timer_precision_ms)

    def after(cause: Cause, term: DepartureTerm) -> DepartureTerm:
        dies, back = cause in _DIES, return_probability(cause, left)
        return DepartureTerm(
            term.started_density * back,
            term.within_probability * (back if dies else return_probability(cause, left / 2)),
            term.awaited_density * back if dies else 0.0,
        )

    return [
        {cause: after(cause, term) for cause, term in it.items()} if returned else it
        for it, returned in zip(terms, seen.client_returned, strict=True)
    ]


def _followed_up_share(seen: RebalanceObservation, at_ms: float) -> float:
    """F(b) of the module."""
    if seen.followup_due_ms is None:
        return 0.0
    after_ms = max(at_ms - seen.followup_due_ms, 0.0)
    at_once, later = min(after_ms / P.followup_at_once_ms, 1.0), min(after_ms / P.followup_ms, 1.0)
    return seen.followup_share * (P.followup_at_once_share * at_once + (1 - P.followup_at_once_share) * later)
