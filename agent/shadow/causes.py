"""Why a rebalance happened: inferred from what the log shows, and named as inferred.

The log holds results, not reasons. What it does hold: who is there before and after, with their timeouts and
subscriptions; the assignment; and when each partition's offset was last committed. `agent.shadow.ways` says when a
member that went in some way will have gone, given its last commit; `agent.shadow.order` weighs what came first.

Where the evidence does not reach, the answer is `unknown_departure` or `unknown`. Known weaknesses: a member without
commits (idle partitions, commits disabled) leaves no gap; one that commits seldom may leave quietly at any gap; equal
session and poll timeouts look alike; a member that an admin removed looks like one that left, unless it is static or
back at once.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence

from agent.shadow.inference import Activity, Cause, Departure, Evidence, Facts, Inference
from agent.shadow.order import LATE_MS, Scene, Stayer, read, read_more
from agent.shadow.sums import Reading
from agent.shadow.views import Member
from agent.shadow.ways import HEARTBEAT_MS, MOMENT_MS, modern_ways, timeouts, ways

__all__ = [
    "Activity",
    "Cause",
    "Departure",
    "Evidence",
    "Facts",
    "Inference",
    "infer",
    "infer_modern",
    "modern_departure",
    "noticed_ms",
]

ENOUGH = 0.5
"""Below this confidence a departure's cause is not told: `unknown_departure`."""

APART = 2
"""So many times likelier than the other a timeout must be to be told: a session's and a poll loop's differ in nothing
but length, and where the two are near each other the likelier of them is a guess."""

FIRST = 0.5
"""Below this confidence it is not told what came first: `unknown`."""

MOST = 0.97
"""What is inferred is never certain."""

SURE = 0.85
"""From here on a departure's time is taken for the beginning of its rebalance."""

TOGETHER = 8
"""Of so many departures every order is weighed; of more, of so many that are spread evenly over the last commits."""

NOTHING = Activity(None, None)


def infer(facts: Facts) -> Inference:
    """The cause of a classic group's rebalance."""
    asked = _of_those_who_stayed(facts)
    if facts.joined and not (facts.left or facts.skipped or facts.migrated or facts.withheld or asked):
        # As groups begin and grow: nothing is to be weighed.
        only = ({"kind": "joined", "members": len(facts.joined)},)
        return Inference(Cause.MEMBER_JOINED, (Cause.MEMBER_JOINED,), 1.0, only)
    reading, departures = _departures(facts, asked=bool(asked))
    evidence: list[Evidence] = [departure.evidence for departure in departures.values()]
    if facts.skipped:
        evidence.append({"kind": "generation_gap", "never_completed": facts.skipped})
    if facts.migrated:
        evidence.append({"kind": "migration", "to": "classic"})
        return Inference(Cause.PROTOCOL_MIGRATED, (Cause.PROTOCOL_MIGRATED,), 1.0, tuple(evidence), departures)
    causes = {departure.cause for departure in departures.values()}
    if facts.joined:
        causes.add(Cause.MEMBER_JOINED)
        evidence.append({"kind": "joined", "members": len(facts.joined)})
    for cause, reason in asked:
        causes.add(cause)
        evidence.append(reason)
    if not causes:
        cause, confidence, more = _nobody_changed(facts)
        return Inference(cause, (cause,), confidence, (*evidence, *more), departures)
    if facts.withheld and facts.after and reading.followed >= 0.5:
        causes.add(Cause.COOPERATIVE_FOLLOWUP)
        evidence.append({"kind": "withheld", "partitions": facts.withheld})
    first, confidence = _first(reading, causes, asked)
    return Inference(first, tuple(sorted(causes)), confidence, tuple(evidence), departures)


def _departures(facts: Facts, *, asked: bool) -> tuple[Reading, dict[str, Departure]]:
    """How each member went, and what came first."""
    departures = {member.member_id: facts.known[member.member_id] for member in facts.left if _told(member, facts)}
    others = [member for member in facts.left if not _told(member, facts)]
    # Those that never committed leave no trace of when they went: the others tell what came first.
    seen = sorted((it for it in others if _last(it, facts) is not None), key=lambda it: _last(it, facts) or 0)
    unseen = [it for it in others if _last(it, facts) is None]
    back = _back(others, facts)
    readings = []
    for members in (seen, unseen) if seen and unseen else (seen or unseen,):
        reading, hows = _read(members, facts, back, asked=asked)
        readings.append(reading)
        departures.update(
            (it.member_id, _departure(it, facts, hows[it.member_id], back=it.member_id in back)) for it in members
        )
    return readings[0], departures


def _last(member: Member, facts: Facts) -> int | None:
    return facts.activity.get(member.member_id, NOTHING).last_ms


def _told(member: Member, facts: Facts) -> bool:
    return member.member_id in facts.known


def _read(
    gone: Sequence[Member], facts: Facts, back: Collection[str] = (), *, asked: bool, replaced: bool = False
) -> tuple[Reading, dict[str, Mapping[Cause, float]]]:
    """What came first, and how each of those who went did, by member id; the clients of `back` are back."""
    step = max(len(gone) / TOGETHER, 1)
    some = [gone[int(index * step)] for index in range(min(len(gone), TOGETHER))]
    clients = set(map(_client, gone))
    comers = sum(_client(member) not in clients for member in facts.joined)
    weighed = {
        member.member_id: ways(
            member,
            facts.activity.get(member.member_id, NOTHING),
            facts.since_ms,
            facts.end_ms,
            back=member.member_id in back or replaced,
            cooperative=facts.cooperative,
            skipped=facts.skipped > 0,
        )
        for member in gone
    }
    stayed = {member_id for member_id in facts.before if member_id in facts.after}
    stayed |= {old.member_id for old, _ in facts.replaced} - {member.member_id for member in gone}
    timeouts = [member.rebalance_timeout_ms or 0 for member in facts.before.values()]
    scene = Scene(
        since_ms=facts.since_ms,
        end_ms=facts.end_ms,
        ways=[weighed[member.member_id] for member in some],
        returned=[member.member_id in back for member in some],
        comers=comers,
        stayers=[Stayer(*facts.activity.get(member_id, NOTHING)) for member_id in sorted(stayed)],
        withheld=bool(facts.withheld and facts.after),
        asked=asked,
        cooperative=facts.cooperative,
        emptied=not facts.after,
        longest_ms=max(timeouts, default=0),
        notice_ms=facts.notice_ms,
    )
    reading = read(scene)
    hows: dict[str, Mapping[Cause, float]] = {
        member.member_id: how for member, how in zip(some, reading.how, strict=True)
    }
    for member in gone:
        if member.member_id not in hows:
            hows[member.member_id] = read_more(scene, reading, weighed[member.member_id])
    return reading, hows


def _back(gone: Iterable[Member], facts: Facts) -> frozenset[str]:
    """Those whose client came in the same rebalance, where no other client is called so."""
    came = Counter(map(_client, facts.joined))
    were = Counter(map(_client, facts.before.values()))
    return frozenset(
        member.member_id
        for member in gone
        if member.instance_id is None and came[_client(member)] == were[_client(member)] == 1
    )


def _client(member: Member) -> tuple[str, str]:
    return member.client_id, member.client_host


def _departure(member: Member, facts: Facts, how: Mapping[Cause, float], *, back: bool) -> Departure:
    activity = facts.activity.get(member.member_id, NOTHING)
    session, poll = timeouts(member)
    evidence = _gap(member, activity, facts.end_ms)
    if activity.last_ms is None and facts.since_ms is not None:
        evidence["generation_lasted_ms"] = facts.end_ms - facts.since_ms
    if back:
        evidence["client_is_back"] = True
    last = activity.last_ms
    blind = _leaves_no_trace(member, facts)
    cause, confidence = (Cause.UNKNOWN_DEPARTURE, 0.0) if blind else _told_apart(how, evidence)
    went = None
    if last is not None:
        since = max(last, facts.since_ms or last)
        went = {Cause.SESSION_TIMEOUT: since + session, Cause.POLL_TIMEOUT: last + poll}.get(cause, last)
    return Departure(member, cause, confidence, evidence, None if cause is Cause.UNKNOWN_DEPARTURE else went)


def _leaves_no_trace(member: Member, facts: Facts) -> bool:
    """Without a commit only that no timeout had time tells anything."""
    if facts.activity.get(member.member_id, NOTHING).last_ms is not None:
        return False
    return facts.since_ms is None or facts.end_ms - facts.since_ms >= min(timeouts(member)) - 2 * MOMENT_MS


def _gap(member: Member, activity: Activity, end_ms: int) -> Evidence:
    return {
        "kind": "commit_gap",
        "member_id": member.member_id,
        "gap_ms": None if activity.last_ms is None else end_ms - activity.last_ms,
        "commits_every_ms": activity.every_ms,
        "session_timeout_ms": member.session_timeout_ms,
        "rebalance_timeout_ms": member.rebalance_timeout_ms,
    }


def _told_apart(how: Mapping[Cause, float], evidence: Evidence) -> tuple[Cause, float]:
    """The way that is likely enough, and how likely; else which are possible."""
    cause = max(how, key=lambda it: (how[it], it))
    other = _OTHER_TIMEOUT.get(cause)
    is_guess = other is not None and how[cause] < APART * how.get(other, 0.0)
    if how[cause] < ENOUGH or is_guess or cause is Cause.UNKNOWN_DEPARTURE:
        evidence["candidates"] = sorted(it for it in how if how[it] > 0.1 and it is not Cause.UNKNOWN_DEPARTURE)
        return Cause.UNKNOWN_DEPARTURE, 0.0
    return cause, round(MOST * how[cause], 2)


_OTHER_TIMEOUT = {Cause.SESSION_TIMEOUT: Cause.POLL_TIMEOUT, Cause.POLL_TIMEOUT: Cause.SESSION_TIMEOUT}


def _first(reading: Reading, causes: set[Cause], asked: Sequence[tuple[Cause, Evidence]]) -> tuple[Cause, float]:
    """Which of several causes set the rebalance off."""
    if len(causes) == 1 and Cause.MEMBER_JOINED in causes:
        return Cause.MEMBER_JOINED, 1.0
    options = {
        **reading.went,
        Cause.MEMBER_JOINED: reading.joined,
        Cause.COOPERATIVE_FOLLOWUP: reading.followed,
        **({asked[0][0]: reading.asked} if asked else {}),
    }
    first = max(options, key=lambda it: (options[it], it))
    # Of a member of which it is not known how it went, it cannot be known that it began the rebalance so.
    if options[first] >= FIRST and first in causes - {Cause.UNKNOWN_DEPARTURE}:
        return first, round(MOST * options[first], 2)
    return (Cause.UNKNOWN_DEPARTURE if sum(reading.went.values()) >= FIRST else Cause.UNKNOWN), 0.0


def _of_those_who_stayed(facts: Facts) -> list[tuple[Cause, Evidence]]:
    """What members that are there before and after changed."""
    pairs = [(facts.before[name], member) for name, member in facts.after.items() if name in facts.before]
    for old, new in (*pairs, *facts.replaced):
        if set(old.subscription) != set(new.subscription):
            change: Evidence = {
                "kind": "subscription",
                "member_id": new.member_id,
                "added": sorted(set(new.subscription) - set(old.subscription)),
                "removed": sorted(set(old.subscription) - set(new.subscription)),
            }
            return [(Cause.SUBSCRIPTION_CHANGED, change)]
    if not facts.withheld:
        before, after = _partition_counts(facts.before), _partition_counts(facts.after)
        grown = {topic: count for topic, count in after.items() if 0 < before.get(topic, 0) < count}
        if grown:
            topics = {topic: [before[topic], count] for topic, count in sorted(grown.items())}
            return [(Cause.PARTITIONS_CHANGED, {"kind": "partitions", "topics": topics})]
    return []


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
    if facts.replaced:
        return _replaced(facts)
    if not facts.before or facts.skipped or not facts.after:
        return Cause.UNKNOWN, 0.0, []
    if facts.makes_topics:
        # Its leader made the internal topics as it assigned the first tasks, and joins again for them.
        return Cause.PARTITIONS_CHANGED, 0.9, [{"kind": "internal_topics", "members": len(facts.after)}]
    # With nothing else changed a coordinator starts a rebalance for one reason only: the leader asked for one.
    return Cause.LEADER_REJOINED, 0.8, [{"kind": "nothing_changed", "members": len(facts.after)}]


def _replaced(facts: Facts) -> tuple[Cause, float, list[Evidence]]:
    """A static member that comes back in time starts no rebalance, not even if it leads: this one had been taken out,
    or its session had run out."""
    gone = [old for old, _ in facts.replaced]
    reading, _ = _read(gone, facts, asked=False, replaced=True)
    evidence = [
        {**_gap(old, facts.activity.get(old.member_id, NOTHING), facts.end_ms), "kind": "static_member_replaced"}
        for old in gone
    ]
    options = reading.went
    cause = max(options, key=lambda it: (options[it], it), default=Cause.UNKNOWN)
    if options.get(cause, 0.0) < FIRST or all(_leaves_no_trace(old, facts) for old in gone):
        return Cause.UNKNOWN, 0.0, evidence
    return cause, round(MOST * options[cause], 2), evidence


def noticed_ms(facts: Facts, inferred: Inference) -> int | None:
    """How long the members that stayed took to notice this rebalance; None where it is not known when it began."""
    began = None
    if inferred.cause is Cause.COOPERATIVE_FOLLOWUP:
        began = facts.since_ms
    elif inferred.cause is Cause.MEMBER_LEFT and len(inferred.departures) == 1 and inferred.confidence >= SURE:
        (departure,) = inferred.departures.values()
        began = departure.went_ms
    if began is None or facts.end_ms - began > HEARTBEAT_MS + LATE_MS or not facts.after.keys() & facts.before.keys():
        return None
    return facts.end_ms - began


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
        else modern_departure(member, activity.get(member.member_id, NOTHING), at_ms)
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


def modern_departure(member: Member, activity: Activity, at_ms: int) -> Departure:
    """How a member of a KIP-848 group went: its departure is written as it happens."""
    evidence = _gap(member, activity, at_ms)
    if activity.last_ms is None:
        return Departure(member, Cause.UNKNOWN_DEPARTURE, 0.0, evidence)
    how = modern_ways(member, activity, activity.last_ms, at_ms)
    cause, confidence = _told_apart(how, evidence)
    return Departure(member, cause, confidence, evidence, None if cause is Cause.UNKNOWN_DEPARTURE else at_ms)
