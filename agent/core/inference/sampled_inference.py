"""Why a rebalance happened that was seen by looks at the group, and not in the topic.

Two things differ from `cause_inference`. A time is known only to lie between two looks, so a silence is a range, and
a cause is as likely as the share of its silences that fall into the range. And timeouts are not known: the Admin API
has none. So a session may end after what its library, or any, takes by default, and with some probability after any
other time; `max.poll.interval.ms` likewise. With

    g  the silence: from the last commit to the departure, within [least, most]
    i  the interval between two commits that were seen

the silences of a member that has gone are (`departure_likelihood` has the rules of each)

    member_left      as it closes: close_times(0, i)
    session_timeout  (1 - o) · mean over S in the library's defaults of session_expiry_times(S, i)
                     (of KIP-848 groups the one that brokers tell, else their default)
                     + o · U[shortest, longest], o = sampled_other_limit_share
    poll_timeout     (1 - o) · poll_stall_times(300 s, i) + o · (U[10 s, 60 s] / 4 + U[60 s, 30 min] · 3 / 4)
    admin_removed    U[0, i], less where its client is not back
    unknown          U[0, most], where positions had reason to stand still: nobody's moved

A cause is told from `sampled_least_confidence` on. Of a member whose positions were not seen to move at least
twice, or whose silence is not known to within what tells the causes apart, it is unknown how it went.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from msgspec import Struct, field

from agent.core.causes import Cause
from agent.core.inference.departure_likelihood import (
    TimesByCause,
    UniformInterval,
    close_times,
    kip848_session_share,
    poll_stall_times,
    probability_between,
    scale_times,
    session_expiry_times,
)
from agent.core.inference.facts import Departure, Evidence, Inference
from agent.core.inference.parameters import PARAMETERS as P
from agent.core.inference.session_settings import SessionSetting
from agent.core.protocol.client_libraries import StallEnd, library_named
from agent.core.protocol.states import GroupType
from agent.core.shadow.views import Member


class Between(NamedTuple):
    """A time that is known to lie between two, epoch milliseconds: after `after_ms` (None: not known), by `by_ms`."""

    after_ms: int | None
    by_ms: int

    @property
    def middle_ms(self) -> int:
        """The best guess."""
        return self.by_ms if self.after_ms is None else (self.after_ms + self.by_ms) // 2

    @property
    def error_ms(self) -> int | None:
        """How far off that may be; None: not known."""
        return None if self.after_ms is None else (self.by_ms - self.after_ms + 1) // 2


class SampledSilence(Struct, frozen=True):
    """What looks showed of a member's commits by when it was seen to be gone.

    `moved` is when a position of its moved last (None: none was seen to), `moves` how often the one that moved most
    did, in the `held_ms` that it is known to hold what it holds. `looked_ms`: the latest look at its positions.
    `others` is how many other members held partitions, `others_moved_ms` when a position of theirs moved last.
    """

    moved: Between | None
    moves: int
    held_ms: int
    looked_ms: int | None
    others_moved_ms: int | None
    others: int

    @property
    def interval_ms(self) -> int | None:
        """Between two moves that were seen: no less than between two commits. None: too few to tell."""
        if self.moves < P.sampled_least_moves or self.moved is None:
            return None
        until_ms = self.held_ms
        return max(round(until_ms / self.moves), P.shortest_commit_interval_ms)

    def silent_ms(self, gone: Between) -> int:
        """From its last move to its departure, as far as known."""
        return 0 if self.moved is None else max(gone.middle_ms - self.moved.middle_ms, 0)


class Sighting(NamedTuple):
    """A member that was seen to come or go, and when."""

    member: Member
    when: Between


class SampledRebalance(Struct, frozen=True):
    """What is known of one rebalance. `began`: when it was seen to prepare (None: it was not), `ended` when it was
    seen at rest again. `joined` and `left` hold members and when each came or went, `silences` are by id of those
    that left.
    `grown_topics`: those of which more partitions are held than before, with their counts. `session`: what brokers
    say of its sessions, where these are theirs to set (None: nothing)."""

    group_type: str
    cooperative: bool
    began: Between | None
    ended: Between | None
    joined: Sequence[Sighting]
    left: Sequence[Sighting]
    silences: Mapping[str, SampledSilence]
    grown_topics: Mapping[str, Any] = field(default_factory=dict)
    session: SessionSetting | None = None

    @property
    def join_ms(self) -> int | None:
        """How long it took, from when it was seen to prepare to when it rested; None where that is not known to
        within a second."""
        if self.began is None or self.ended is None:
            return None
        errors = self.began.error_ms, self.ended.error_ms
        if None in errors or sum(it for it in errors if it is not None) > P.sampled_most_error_ms:
            return None
        return max(self.ended.middle_ms - self.began.middle_ms, 0)


def infer_sampled(rebalance: SampledRebalance) -> Inference:
    """The cause of a rebalance that was seen by looks."""
    back = _returned(rebalance)
    departures = {
        it.member.member_id: infer_sampled_departure(
            it.member,
            rebalance.silences.get(it.member.member_id),
            it.when,
            returned=it.member.member_id in back,
            kip848=rebalance.group_type != GroupType.CLASSIC,
            session=rebalance.session,
        )
        for it in rebalance.left
    }
    evidence: list[Evidence] = [it.evidence for it in departures.values()]
    if rebalance.began is not None and rebalance.began.error_ms is not None:
        evidence.append(
            {
                "kind": "admin_api",
                "state": "PreparingRebalance",
                "began_ms": rebalance.began.middle_ms,
                "error_ms": rebalance.began.error_ms,
            }
        )
    causes = {it.cause for it in departures.values()}
    if rebalance.joined:
        causes.add(Cause.MEMBER_JOINED)
        evidence.append({"kind": "joined", "members": len(rebalance.joined)})
    if rebalance.grown_topics and not (rebalance.joined or rebalance.left):
        causes.add(Cause.PARTITIONS_CHANGED)
        evidence.append({"kind": "partitions", "topics": dict(rebalance.grown_topics)})
    cause, confidence = _trigger(rebalance, departures, back)
    if not causes:
        causes = {cause}
    return Inference(
        cause,
        tuple(sorted(causes)),
        confidence,
        tuple(evidence),
        departures,
        None if rebalance.began is None else rebalance.began.middle_ms,
    )


def _trigger(
    rebalance: SampledRebalance, departures: Mapping[str, Departure], back: frozenset[str]
) -> tuple[Cause, float]:
    """What set it off: what was seen first, where that is to be seen."""
    joined, left = rebalance.joined, rebalance.left
    if not (joined or left):
        if rebalance.grown_topics:
            return Cause.PARTITIONS_CHANGED, P.sampled_grown_confidence
        return Cause.UNKNOWN, 0.0
    if not left:
        return Cause.MEMBER_JOINED, P.sampled_join_confidence
    first_left = min(left, key=lambda it: it.when.by_ms)
    departure = departures[first_left.member.member_id]
    if joined:
        first_joined = min(it.when.by_ms for it in joined)
        if first_joined < first_left.when.by_ms:
            return Cause.MEMBER_JOINED, P.sampled_join_confidence
        if first_joined == first_left.when.by_ms and not _is_surely_first(first_left.member, departure, back):
            # Between the same two looks: nothing tells which came first.
            return Cause.UNKNOWN, 0.0
    if departure.cause is Cause.UNKNOWN_DEPARTURE:
        return Cause.UNKNOWN_DEPARTURE, 0.0
    at_once = [it for it in left if it.when.by_ms == first_left.when.by_ms]
    ways = Counter(departures[it.member.member_id].cause for it in at_once)
    if len(ways) > 1:
        return Cause.UNKNOWN_DEPARTURE, 0.0
    return departure.cause, min(departures[it.member.member_id].confidence for it in at_once)


def _is_surely_first(member: Member, departure: Departure, back: frozenset[str]) -> bool:
    """Whether it went before the one that came: one that says goodbye and is started anew does."""
    return member.member_id in back and departure.cause is Cause.MEMBER_LEFT


def _returned(rebalance: SampledRebalance) -> frozenset[str]:
    """Ids of those that left whose client came in the same rebalance: as many of each as came."""
    came = Counter((it.member.client_id, it.member.client_host) for it in rebalance.joined)
    returned = []
    for it in rebalance.left:
        client = it.member.client_id, it.member.client_host
        if came[client]:
            came[client] -= 1
            returned.append(it.member.member_id)
    return frozenset(returned)


def infer_sampled_departure(
    member: Member,
    silence: SampledSilence | None,
    gone: Between,
    *,
    returned: bool,
    kip848: bool,
    session: SessionSetting | None = None,
) -> Departure:
    """Why a member left that was seen to be gone, with the silence before it."""
    evidence: Evidence = {
        "kind": "sampled_gap",
        "member_id": member.member_id,
        "gap_ms": None,
        "gap_least_ms": None,
        "gap_most_ms": None,
        "moves_every_ms": None if silence is None else silence.interval_ms,
        "gone_within_ms": None if gone.after_ms is None else gone.by_ms - gone.after_ms,
    }
    if session is not None:
        evidence["group_session_timeout_ms"] = session.timeout_ms
    if returned:
        evidence["client_is_back"] = True
    unknown = Departure(member, Cause.UNKNOWN_DEPARTURE, 0.0, evidence)
    if silence is None or silence.moved is None:
        return unknown
    moved, interval = silence.moved, silence.interval_ms
    if moved.after_ms is not None:
        evidence["gap_most_ms"] = max(gone.by_ms - moved.after_ms, 0)
    if gone.after_ms is not None:
        evidence["gap_least_ms"] = max(gone.after_ms - moved.by_ms, 0)
    evidence["gap_ms"] = silence.silent_ms(gone)
    least, most = evidence["gap_least_ms"], evidence["gap_most_ms"]
    if interval is None or least is None or most is None:
        return unknown
    probabilities = sampled_departure_probabilities(
        member,
        silence,
        least,
        max(most, least + P.timer_precision_ms),
        interval,
        returned=returned,
        kip848=kip848,
        session=session,
    )
    cause = max(probabilities, key=lambda it: (probabilities[it], it))
    if cause is Cause.UNKNOWN_DEPARTURE or probabilities[cause] < P.sampled_least_confidence:
        evidence["candidates"] = sorted(
            str(it)
            for it, probability in probabilities.items()
            if probability > P.candidate_probability and it is not Cause.UNKNOWN_DEPARTURE
        )
        return unknown
    departed_ms = gone.middle_ms
    return Departure(member, cause, round(P.most_confidence * probabilities[cause], 2), evidence, departed_ms)


def sampled_departure_probabilities(
    member: Member,
    silence: SampledSilence,
    least_ms: int,
    most_ms: int,
    interval_ms: int,
    *,
    returned: bool,
    kip848: bool,
    session: SessionSetting | None = None,
) -> dict[Cause, float]:
    """The probability of each cause for a silence that lasted from `least_ms` to `most_ms`."""
    library = library_named(member.client_library)
    other = P.sampled_other_limit_share
    limits, beat = library.session_timeouts_ms, 0
    if kip848:
        timeout, beat = session or SessionSetting()
        limits, other = (timeout,), 1 - kip848_session_share(session)
    usual = (1 - other) / len(limits)
    expiries = [
        it
        for limit in limits
        # A commit renews no KIP-848 session: its heartbeat may have come before.
        for it in scale_times(session_expiry_times(-beat, 0, limit, interval_ms), usual)
    ]
    shortest, longest = P.kip848_shortest_session_timeout_ms, P.sampled_longest_session_timeout_ms
    expiries.append(UniformInterval(other, shortest - P.timer_precision_ms - beat, longest + interval_ms))
    times: TimesByCause = {
        Cause.MEMBER_LEFT: close_times(0, interval_ms, library),
        Cause.SESSION_TIMEOUT: tuple(expiries),
        Cause.ADMIN_REMOVED: (UniformInterval(1.0, 0, interval_ms),),
    }
    if library.stall_end is StallEnd.REBALANCE_TIMEOUT:
        polled = -min(interval_ms, P.commit_interval_ms)
        share = P.sampled_other_limit_share
        times[Cause.POLL_TIMEOUT] = (
            *scale_times(poll_stall_times(polled, 0, P.sampled_poll_interval_ms, interval_ms, library), 1 - share),
            UniformInterval(share / 4, 10_000, 60_000),
            UniformInterval(share * 3 / 4, 60_000, 1_800_000),
        )
    prior = dict(P.departure_shares)
    if not returned:
        prior[Cause.ADMIN_REMOVED] *= 1 - P.rejoins_after_removal_share
    if not (library.leaves_on_close or kip848):
        prior[Cause.MEMBER_LEFT] *= P.unlikely_factor
    likely = {cause: prior[cause] * probability_between(it, least_ms, most_ms) for cause, it in times.items()}
    silent = _silence_share(silence, interval_ms)
    span = max(most_ms, P.sampled_longest_session_timeout_ms)
    likely[Cause.UNKNOWN_DEPARTURE] = silent * (most_ms - least_ms) / span + P.least_likelihood
    total = sum(likely.values())
    return {cause: share / total for cause, share in likely.items()}


def _silence_share(silence: SampledSilence, interval_ms: int) -> float:
    """How many fall silent as this one did though they live: most where the others' positions stand still as well."""
    if not silence.others:
        return P.lone_silence_share
    assert silence.moved is not None, "a silence begins with a move"
    others = silence.others_moved_ms
    moved_on = others is not None and others > silence.moved.by_ms
    is_long = silence.looked_ms is not None and silence.looked_ms > silence.moved.by_ms + interval_ms
    return P.silence_of_all_share if is_long and not moved_on else P.other_silence_share
