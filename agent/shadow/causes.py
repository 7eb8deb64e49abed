"""Why a rebalance happened: inferred from what the log shows, and named as inferred.

The log holds results, not reasons. What it does hold: who is there before and after, with their timeouts and
subscriptions; the assignment; and when each partition's offset was last committed. The strongest evidence for how a
member went is the *commit gap*, from its last commit to the end of the join phase. A commit renews the session
(the coordinator treats it as a heartbeat), so a session cannot run out before the gap has grown to the session
timeout; a member that says goodbye commits as it closes; one whose poll loop stalled goes when its rebalance timeout
(the client's max.poll.interval.ms) has run out.

Where the evidence does not reach, the answer is `unknown_departure` or `unknown`. Known weaknesses: a member without
commits (idle partitions, commits disabled) leaves no gap; one that commits seldom may leave quietly at any gap; equal
session and poll timeouts look alike; a member that an admin removed looks like one that left, unless it is static.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, NamedTuple

from agent.shadow.views import Member


class Cause(StrEnum):
    """Every cause of the contract, for rebalances and for departures."""

    MEMBER_JOINED = "member_joined"
    MEMBER_LEFT = "member_left"
    SESSION_TIMEOUT = "session_timeout"
    POLL_TIMEOUT = "poll_timeout"
    SUBSCRIPTION_CHANGED = "subscription_changed"
    PARTITIONS_CHANGED = "partitions_changed"
    COOPERATIVE_FOLLOWUP = "cooperative_followup"
    LEADER_REJOINED = "leader_rejoined"
    PROTOCOL_MIGRATED = "protocol_migrated"
    ADMIN_REMOVED = "admin_removed"
    UNKNOWN_DEPARTURE = "unknown_departure"
    UNKNOWN = "unknown"


CLOCK_MS = 250
"""How far two times of one coordinator may be apart and still mean the same moment."""

HEARTBEAT_MS = 3_000
"""How long members take to notice a rebalance: a heartbeat interval, by default."""

REJOIN_MS = HEARTBEAT_MS + 500
"""How long they take to notice and rejoin."""

ENOUGH = 0.75
"""Below this confidence a departure's cause is not told: `unknown_departure`."""

MOSTLY = 0.75
"""How many clients commit as they close, and how many deaths come before a heartbeat that no commit follows: three of
four, on the rig's runs."""

MOST = 0.97
"""What is inferred is never certain."""

Evidence = dict[str, Any]


class Activity(NamedTuple):
    """What the log shows of one member's commits in the generation that ends.

    `last_ms` is its newest commit (None: none), `every_ms` the mean time from one commit of a partition to its next,
    the beginning of the generation counted as one (None: unknown).
    """

    last_ms: int | None
    every_ms: int | None


@dataclass(frozen=True, slots=True)
class Departure:
    """How one member went, as far as can be told."""

    member: Member
    cause: Cause
    confidence: float
    evidence: Evidence

    went_ms: int | None = None
    """When it went, where that is known: it said goodbye, or its time ran out."""


@dataclass(frozen=True, slots=True)
class Inference:
    """Why a rebalance happened. `causes` are all, sorted; `cause` is the one that set it off."""

    cause: Cause = Cause.UNKNOWN
    causes: tuple[Cause, ...] = (Cause.UNKNOWN,)
    confidence: float = 0.0
    evidence: tuple[Evidence, ...] = ()
    departures: Mapping[str, Departure] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Facts:
    """What is known of one classic rebalance. Times are epoch milliseconds.

    `since_ms` is when the generation before was complete, `end_ms` when the join phase ended. `withheld` counts
    partitions that the generation before left without an owner, for a cooperative round to follow.
    """

    before: Mapping[str, Member]
    after: Mapping[str, Member]
    joined: tuple[Member, ...]
    left: tuple[Member, ...]
    replaced: tuple[tuple[Member, Member], ...]
    activity: Mapping[str, Activity]
    since_ms: int | None
    end_ms: int
    leader: str | None
    withheld: int
    skipped: int
    migrated: bool


def infer(facts: Facts) -> Inference:
    """The cause of a classic group's rebalance."""
    departures = {member.member_id: _departure(member, facts) for member in facts.left}
    evidence: list[Evidence] = [departure.evidence for departure in departures.values()]
    if facts.skipped:
        evidence.append({"kind": "generation_gap", "never_completed": facts.skipped})
    if facts.migrated:
        evidence.append({"kind": "migration", "to": "classic"})
        return Inference(Cause.PROTOCOL_MIGRATED, (Cause.PROTOCOL_MIGRATED,), 1.0, tuple(evidence), departures)
    causes: dict[Cause, float] = {}
    for departure in departures.values():
        causes[departure.cause] = max(departure.confidence, causes.get(departure.cause, 0.0))
    if facts.joined:
        causes[Cause.MEMBER_JOINED] = 1.0
        evidence.append({"kind": "joined", "members": len(facts.joined)})
    if causes and facts.withheld and facts.after:
        causes[Cause.COOPERATIVE_FOLLOWUP] = 0.95
        evidence.append({"kind": "withheld", "partitions": facts.withheld})
    for cause, confidence, reason in _of_those_who_stayed(facts):
        causes[cause] = confidence
        evidence.append(reason)
    if not causes:
        cause, confidence, more = _nobody_changed(facts)
        return Inference(cause, (cause,), confidence, (*evidence, *more), departures)
    first, confidence, more = _first(facts, departures, causes)
    return Inference(first, tuple(sorted(causes)), confidence, (*evidence, *more), departures)


def _departure(member: Member, facts: Facts) -> Departure:
    """How a member went: the windows into which its commit gap would fall, against the gap."""
    session, poll = member.session_timeout_ms, member.rebalance_timeout_ms
    last, every = facts.activity.get(member.member_id, Activity(None, None))
    went = Cause.ADMIN_REMOVED if member.instance_id is not None else Cause.MEMBER_LEFT
    evidence: Evidence = {
        "kind": "commit_gap",
        "member_id": member.member_id,
        "gap_ms": None if last is None else facts.end_ms - last,
        "commits_every_ms": every,
        "session_timeout_ms": session,
        "rebalance_timeout_ms": poll,
    }
    if session is None or poll is None:
        # A KIP-848 member that went as its group was made a classic one again.
        return _modern_departure(member, facts.activity, facts.end_ms)
    if last is None:
        if facts.since_ms is not None and facts.end_ms - facts.since_ms < min(session, poll) - CLOCK_MS:
            # No timeout that began with the generation can have run out yet: it must have been told.
            evidence["generation_lasted_ms"] = facts.end_ms - facts.since_ms
            return Departure(member, went, 0.8, evidence)
        return Departure(member, Cause.UNKNOWN_DEPARTURE, 0.0, evidence)
    gap = facts.end_ms - last
    likely = {
        cause: likelihood
        for cause, likelihood in _likelihoods(gap, session, poll, every or gap, _notice(facts)).items()
        if likelihood and not (cause is Cause.POLL_TIMEOUT and member.instance_id is not None)
    }
    if not likely and gap < min(session, poll - (every or 0)) - CLOCK_MS:
        # The others took long to rejoin, but no timeout can have run out.
        return Departure(member, went, 0.9, evidence, last)
    if not likely and member.instance_id is not None and every is not None and gap >= session:
        # Static members do not say goodbye, and it had missed its next commit.
        return Departure(member, Cause.SESSION_TIMEOUT, 0.9, evidence, last + session)
    if not likely:
        # Too late for a goodbye, too early or too late for any timeout: it fell silent some time before it went.
        return Departure(member, Cause.UNKNOWN_DEPARTURE, 0.0, evidence)
    cause = max(likely, key=lambda it: (likely[it], it))
    confidence = round(MOST * likely[cause] / sum(likely.values()), 2)
    if confidence < ENOUGH:
        evidence["candidates"] = sorted(likely)
        return Departure(member, Cause.UNKNOWN_DEPARTURE, 0.0, evidence)
    if cause is Cause.MEMBER_LEFT:
        return Departure(member, went, confidence, evidence, last)
    return Departure(
        member, cause, confidence, evidence, last + (session if cause is Cause.SESSION_TIMEOUT else poll)
    )


def _notice(facts: Facts) -> int:
    """How long before the end of the join phase a departure that set it off may lie: until the others noticed."""
    return HEARTBEAT_MS if facts.after else CLOCK_MS


def _stays(member_id: str, facts: Facts) -> bool:
    return member_id in facts.after and member_id in facts.before


def _likelihoods(gap: int, session: int, poll: int, every: int, notice: int) -> dict[Cause, float]:
    """How likely each way of going makes a commit gap, up to a common factor.

    From the last commit to the departure passes: nothing, or up to a commit interval, for a goodbye (clients commit
    as they close, unless they commit by hand); the session timeout for a death, and up to an interval more if it
    lived on without committing; about the rebalance timeout for a stall, since commits may run ahead of or behind
    poll by an interval. Then, until the join phase ends, the others have to notice.
    """

    def spread(low: int, high: int) -> float:
        """The mean density over the window of departures that the gap allows."""
        least, most = gap - notice - CLOCK_MS, gap + CLOCK_MS
        overlap = min(high, most) - max(low, least)
        return max(overlap, 0) / (high - low)

    every = max(every, CLOCK_MS)
    return {
        Cause.MEMBER_LEFT: MOSTLY * spread(-CLOCK_MS, CLOCK_MS) + (1 - MOSTLY) * spread(-CLOCK_MS, every),
        Cause.SESSION_TIMEOUT: MOSTLY * spread(session - CLOCK_MS, session + CLOCK_MS)
        + (1 - MOSTLY) * spread(session - CLOCK_MS, session + every),
        Cause.POLL_TIMEOUT: spread(poll - every, poll + every),
    }


def _of_those_who_stayed(facts: Facts) -> list[tuple[Cause, float, Evidence]]:
    """What members that are there before and after changed."""
    out: list[tuple[Cause, float, Evidence]] = []
    pairs = [(facts.before[name], member) for name, member in facts.after.items() if name in facts.before]
    for old, new in (*pairs, *facts.replaced):
        if set(old.subscription) != set(new.subscription):
            change: Evidence = {
                "kind": "subscription",
                "member_id": new.member_id,
                "added": sorted(set(new.subscription) - set(old.subscription)),
                "removed": sorted(set(old.subscription) - set(new.subscription)),
            }
            out.append((Cause.SUBSCRIPTION_CHANGED, 1.0, change))
            break
    if not facts.withheld:
        before, after = _partition_counts(facts.before), _partition_counts(facts.after)
        grown = {topic: count for topic, count in after.items() if 0 < before.get(topic, 0) < count}
        if grown and not any(cause is Cause.SUBSCRIPTION_CHANGED for cause, _, _ in out):
            topics = {topic: [before[topic], count] for topic, count in sorted(grown.items())}
            out.append((Cause.PARTITIONS_CHANGED, 1.0, {"kind": "partitions", "topics": topics}))
    return out


def infer_modern(
    joined: tuple[Member, ...],
    left: tuple[Member, ...],
    activity: Mapping[str, Activity],
    at_ms: int,
    *,
    expired: frozenset[str],
    resubscribed: bool,
    migrated: bool,
) -> Inference:
    """The cause of a raised epoch. Who came and went is written; how a member went is not, nor its session timeout.

    `expired`: members that had left for a restart (member epoch -2) and did not come back within their session.
    `resubscribed`: a member that stayed changed its subscription. An epoch raised with nobody coming, going or
    resubscribing answers a change of the topics: the broker has no other reason.
    """
    departures = {
        member.member_id: _expired(member, at_ms)
        if member.member_id in expired
        else _modern_departure(member, activity, at_ms)
        for member in left
    }
    evidence: list[Evidence] = [departure.evidence for departure in departures.values()]
    causes: dict[Cause, float] = {departure.cause: departure.confidence for departure in departures.values()}
    if joined:
        causes[Cause.MEMBER_JOINED] = 1.0
        evidence.append({"kind": "joined", "members": len(joined)})
    if migrated:
        causes = {Cause.PROTOCOL_MIGRATED: 1.0}
        evidence.append({"kind": "migration", "to": "consumer"})
    if resubscribed:
        causes[Cause.SUBSCRIPTION_CHANGED] = 1.0
    if not causes:
        causes[Cause.PARTITIONS_CHANGED] = 0.8
        evidence.append({"kind": "nobody_changed"})
    # The broker raises the epoch with each change, so what comes with one epoch came at one time.
    first = max(causes, key=lambda cause: (causes[cause], cause))
    return Inference(first, tuple(sorted(causes)), causes[first], tuple(evidence), departures)


def _expired(member: Member, at_ms: int) -> Departure:
    evidence = {"kind": "static_member_expired", "member_id": member.member_id}
    return Departure(member, Cause.SESSION_TIMEOUT, 1.0, evidence, at_ms)


def _modern_departure(member: Member, activity: Mapping[str, Activity], at_ms: int) -> Departure:
    last, every = activity.get(member.member_id, Activity(None, None))
    gap = None if last is None else at_ms - last
    poll = member.rebalance_timeout_ms
    evidence: Evidence = {
        "kind": "commit_gap",
        "member_id": member.member_id,
        "gap_ms": gap,
        "commits_every_ms": every,
        "session_timeout_ms": None,
        "rebalance_timeout_ms": poll,
    }
    if gap is not None and gap <= CLOCK_MS:
        return Departure(member, Cause.MEMBER_LEFT, 0.9, evidence, last)
    if gap is None or every is None:
        return Departure(member, Cause.UNKNOWN_DEPARTURE, 0.0, evidence)
    if gap <= max(every, 1_000) + CLOCK_MS:
        return Departure(member, Cause.MEMBER_LEFT, 0.9, evidence, last)
    if poll is not None and poll - every - CLOCK_MS <= gap <= poll + every + REJOIN_MS:
        return Departure(member, Cause.POLL_TIMEOUT, 0.8, evidence, at_ms)
    if gap > every + REJOIN_MS:
        return Departure(member, Cause.SESSION_TIMEOUT, 0.8, evidence, at_ms)
    return Departure(member, Cause.UNKNOWN_DEPARTURE, 0.0, evidence)


def _partition_counts(members: Mapping[str, Member]) -> dict[str, int]:
    counts: dict[str, int] = {}
    for member in members.values():
        for topic, partitions in member.assignment.items():
            counts[topic] = max(counts.get(topic, 0), max(partitions, default=-1) + 1)
    return counts


def _nobody_changed(facts: Facts) -> tuple[Cause, float, list[Evidence]]:
    """The same members with the same subscriptions and topics."""
    if facts.withheld:
        return Cause.COOPERATIVE_FOLLOWUP, 0.95, [{"kind": "withheld", "partitions": facts.withheld}]
    if any(old.member_id == facts.leader for old, _ in facts.replaced):
        return Cause.LEADER_REJOINED, 0.95, [{"kind": "leader_replaced", "member_id": facts.leader}]
    for old, _ in facts.replaced:
        # A static member that comes back in time starts no rebalance, unless it leads: this one had been taken out.
        last = facts.activity.get(old.member_id, Activity(None, None)).last_ms
        if last is None or old.session_timeout_ms is None:
            continue
        gap = facts.end_ms - last
        away = {"kind": "static_member_replaced", "member_id": old.member_id, "gap_ms": gap}
        if gap < old.session_timeout_ms - CLOCK_MS:
            return Cause.ADMIN_REMOVED, 0.8, [away]
        return Cause.SESSION_TIMEOUT, 0.8, [away]
    if facts.replaced:
        return Cause.UNKNOWN, 0.0, [{"kind": "static_members_replaced", "members": len(facts.replaced)}]
    if not facts.before or facts.skipped or not facts.after:
        return Cause.UNKNOWN, 0.0, []
    # With nothing else changed a coordinator starts a rebalance for one reason only: the leader asked for one.
    return Cause.LEADER_REJOINED, 0.8, [{"kind": "nothing_changed", "members": len(facts.after)}]


def _first(
    facts: Facts, departures: Mapping[str, Departure], causes: Mapping[Cause, float]
) -> tuple[Cause, float, list[Evidence]]:
    """Which of several causes set the rebalance off."""
    if Cause.COOPERATIVE_FOLLOWUP in causes:
        # It follows at once, so whatever else there is came into it.
        return Cause.COOPERATIVE_FOLLOWUP, causes[Cause.COOPERATIVE_FOLLOWUP], []
    gone = sorted(
        (departure for departure in departures.values() if departure.went_ms is not None),
        key=lambda departure: (departure.went_ms, departure.member.member_id),
    )
    if Cause.MEMBER_JOINED not in causes:
        if gone:
            return gone[0].cause, gone[0].confidence, []
        departed = [departure.cause for departure in departures.values()]
        cause = departed[0] if departed else min(causes)
        return cause, causes[cause], []
    if not departures:
        return Cause.MEMBER_JOINED, 1.0, []
    if not any(_stays(name, facts) for name in facts.before):
        # Nobody stayed. Had the last one gone first, the group would have become empty in between.
        return Cause.MEMBER_JOINED, 0.8, []
    if not gone and Cause.MEMBER_LEFT in causes:
        # Someone came and someone went, and nothing tells in which order.
        return Cause.UNKNOWN, 0.0, []
    if not gone:
        # Of those who went nothing is known; that someone came is.
        return Cause.MEMBER_JOINED, 0.5, []
    # Those who stay commit as they give up their partitions: that is when the rebalance reached them.
    began = [it.last_ms for name, it in facts.activity.items() if _stays(name, facts) and it.last_ms is not None]
    recent = [at_ms for at_ms in began if facts.end_ms - at_ms <= REJOIN_MS]
    departure = gone[0]
    assert departure.went_ms is not None, "filtered above"
    if facts.end_ms - departure.went_ms <= CLOCK_MS:
        # The join phase ended as it went: it was waited for, so something else had begun the rebalance.
        before_end = {"kind": "went_at_the_end", "before_end_ms": facts.end_ms - departure.went_ms}
        return Cause.MEMBER_JOINED, 0.8, [before_end]
    if not began:
        return departure.cause, departure.confidence * 0.7, []
    noticed = min(recent, default=max(began))
    reason: Evidence = {"kind": "others_gave_up_partitions", "before_end_ms": facts.end_ms - noticed}
    if departure.went_ms > noticed + CLOCK_MS:
        return Cause.MEMBER_JOINED, 0.9, [reason]
    return departure.cause, departure.confidence * 0.9, [reason]
