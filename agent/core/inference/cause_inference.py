"""Why a rebalance happened: inferred from what the log shows, and named as inferred.

The log holds results, not reasons. What it does hold: who is there before and after, with their timeouts and
subscriptions; the assignment; and when each partition's offset was last committed. Rules read what it shows plainly
(`subscription_changed`, `partitions_grew`, and for rebalances in which nobody came or went `UNCHANGED_RULES`).
Departures are weighed: `agent.core.inference.departure_likelihood` says when a member that went will have gone, by
cause, and `agent.core.inference.rebalance_posterior` what came first.

Where the evidence does not reach, the answer is `unknown_departure` or `unknown`. Known weaknesses: a member without
commits (idle partitions, commits disabled) leaves no gap; one that commits seldom may leave quietly at any gap; equal
session and poll timeouts look alike; a member that an admin removed looks like one that left, unless it is static and
had not just committed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import lru_cache
from heapq import nlargest
from typing import NamedTuple

from msgspec.structs import replace

from agent.core.causes import Cause
from agent.core.inference.departure_likelihood import (
    departure_times,
    is_begun_anew,
    kip848_departure_probabilities,
    member_limits,
)
from agent.core.inference.facts import (
    NO_COMMITS,
    CommitActivity,
    CoordinatorChange,
    Departure,
    Evidence,
    Inference,
    RebalanceFacts,
    WritePause,
    bounded_ms,
)
from agent.core.inference.likelihood_sums import Posterior
from agent.core.inference.parameters import PARAMETERS as P
from agent.core.inference.rebalance_posterior import (
    RebalanceObservation,
    posterior_of_another,
    rebalance_posterior,
    spread_evenly,
    weights_by_time,
)
from agent.core.inference.session_settings import SessionSetting
from agent.core.protocol.client_libraries import StallEnd, library_named
from agent.core.shadow.views import Member


class Explanation(NamedTuple):
    """What one rule makes of a rebalance: a cause, how sure it is (0 to 1), and by what evidence."""

    cause: Cause
    confidence: float
    evidence: tuple[Evidence, ...] = ()


def infer_rebalance(facts: RebalanceFacts) -> Inference:
    """The cause of a classic group's rebalance."""
    if facts.is_first_seen:
        return Inference()
    change = subscription_changed(facts) or partitions_grew(facts)
    if facts.joined and not (facts.before or facts.skipped_generations or facts.migrated):
        # As groups begin: nothing is to be weighed.
        return _begun(len(facts.joined))
    inferred, began_ms = _infer(facts, change)
    seldom = {name: _as_seldom(it, facts.end_ms) for name, it in facts.activity.items()}
    if seldom != facts.activity:
        inferred = _agreed(inferred, _infer(replace(facts, activity=seldom), change)[0])
    if facts.left and not facts.cooperative and _busy_ms(facts) > P.slow_commits_ms:
        inferred = _agreed(inferred, _infer(facts, change, are_busy=True)[0])
    if facts.write_pause is not None and (given_up := _given_up_with(facts.write_pause, facts)):
        for name in given_up & inferred.departures.keys():
            inferred.departures[name].evidence["nothing_written_ms"] = facts.write_pause.lasted_ms
        inferred = _agreed(inferred, _as_given_up(inferred, given_up))
    return replace(inferred, began_ms=None if began_ms is None else round(began_ms))


def _infer(
    facts: RebalanceFacts, change: Explanation | None, *, are_busy: bool = False
) -> tuple[Inference, float | None]:
    """The cause, and when the rebalance began. `are_busy`: those that stay work for long on what they polled."""
    posterior, departures, is_doubtful = _infer_departures(
        facts, rejoin_has_reason=change is not None, are_busy=are_busy
    )
    evidence: list[Evidence] = [departure.evidence for departure in departures.values()]
    if facts.skipped_generations:
        evidence.append({"kind": "generation_gap", "never_completed": facts.skipped_generations})
    if facts.migrated:
        evidence.append({"kind": "migration", "to": "classic"})
        migrated = Inference(Cause.PROTOCOL_MIGRATED, (Cause.PROTOCOL_MIGRATED,), 1.0, tuple(evidence), departures)
        return migrated, posterior.began_ms
    causes = {departure.cause for departure in departures.values()}
    if facts.joined:
        causes.add(Cause.MEMBER_JOINED)
        evidence.append(_joined(len(facts.joined)))
    if change is not None:
        causes.add(change.cause)
        evidence += change.evidence
    if not causes:
        cause, confidence, more = next(found for rule in UNCHANGED_RULES if (found := rule(facts)) is not None)
        return Inference(cause, (cause,), confidence, (*evidence, *more), departures), posterior.began_ms
    round_due = _round_due(facts)
    if round_due is not None and posterior.followed_up >= P.least_trigger_confidence:
        causes.add(round_due.cause)
        evidence += round_due.evidence
    trigger, confidence = _trigger(posterior, causes, change, round_due)
    if is_doubtful and trigger in _TIMEOUTS:
        confidence = min(confidence, P.uncertain_confidence)
    if _several_missed_one(facts):
        # Nor does anything tell what came before they went.
        ways = (it.confidence for it in departures.values() if it.cause is trigger)
        surest = max(ways, default=P.uncertain_confidence)
        confidence = min(confidence, surest)
    if away := [old for old, _ in facts.replaced if _may_have_expired(old, facts)]:
        # Whether it came back in time, or was removed, which may have set it off.
        evidence += _replaced(away, facts)
        trigger, confidence = Cause.UNKNOWN, 0.0
    return Inference(trigger, tuple(sorted(causes)), confidence, tuple(evidence), departures), posterior.began_ms


@lru_cache(maxsize=1_024)
def _begun(members: int) -> Inference:
    """One object for all groups that begin with as many: with most, nothing else has happened."""
    return Inference(Cause.MEMBER_JOINED, (Cause.MEMBER_JOINED,), 1.0, (_joined(members),))


@lru_cache(maxsize=1_024)
def _joined(members: int) -> Evidence:
    return {"kind": "joined", "members": members}


def _withheld(facts: RebalanceFacts) -> Evidence:
    return {"kind": "withheld", "partitions": facts.withheld_partitions}


def _trigger(
    posterior: Posterior, causes: set[Cause], change: Explanation | None, round_due: Explanation | None
) -> tuple[Cause, float]:
    """Which of several causes set the rebalance off, and how sure that is."""
    if causes == {Cause.MEMBER_JOINED} and round_due is None:
        return Cause.MEMBER_JOINED, P.most_confidence
    options = {
        **posterior.departed_first,
        Cause.MEMBER_JOINED: posterior.joined_first,
        **({} if round_due is None else {round_due.cause: posterior.followed_up}),
        **({} if change is None else {change.cause: posterior.rejoined_first}),
    }
    first = _likeliest(options)
    # Of a member of which it is not known how it went, it cannot be known that it began the rebalance so.
    if options[first] >= P.least_trigger_confidence and first in causes - {Cause.UNKNOWN_DEPARTURE}:
        most = round_due.confidence if round_due is not None and first is round_due.cause else P.most_confidence
        return first, min(_confidence_of(first, options), most)
    departed = sum(posterior.departed_first.values()) >= P.least_trigger_confidence
    return Cause.UNKNOWN_DEPARTURE if departed else Cause.UNKNOWN, 0.0


def _likeliest(probabilities: Mapping[Cause, float]) -> Cause:
    return max(probabilities, key=lambda cause: (probabilities[cause], cause))


def _confidence(probability: float) -> float:
    return round(P.most_confidence * probability, 2)


def _confidence_of(cause: Cause, probabilities: Mapping[Cause, float]) -> float:
    """How sure that cause is: where it may be the other as well of two that look alike, not enough to rely on it."""
    confidence, other = _confidence(probabilities[cause]), _OTHER.get(cause)
    if other is not None and probabilities.get(other, 0.0) > P.candidate_probability:
        return min(confidence, P.uncertain_confidence)
    return confidence


# Members of which commits tell no pace: what is told of them must hold whether they commit as often as clients do by
# default, as is taken elsewhere, or so seldom that they never fell silent.


def _as_seldom(activity: CommitActivity, end_ms: int) -> CommitActivity:
    """The same, and if its pace is not known, as that of one whose next commit was not due before `end_ms`."""
    if activity.last_commit_ms is None or activity.commit_interval_ms is not None:
        return activity
    return activity._replace(commit_interval_ms=max(end_ms - activity.last_commit_ms, P.commit_interval_ms))


def _agreed(one: Inference, other: Inference) -> Inference:
    """What both say of one rebalance."""
    departures = {
        name: _agreed_departure(departure, other.departures[name]) for name, departure in one.departures.items()
    }
    others = {*one.causes} & {*other.causes} - {it.cause for it in one.departures.values()}
    causes = others | {it.cause for it in departures.values()}
    if one.cause == other.cause and one.cause in causes:
        cause, confidence = one.cause, min(one.confidence, other.confidence)
    else:
        departed = {it.cause for told in (one, other) for it in told.departures.values()} | {Cause.UNKNOWN_DEPARTURE}
        cause, confidence = Cause.UNKNOWN_DEPARTURE if {one.cause, other.cause} <= departed else Cause.UNKNOWN, 0.0
    told = tuple(sorted(causes or {cause}))
    return replace(one, cause=cause, causes=told, confidence=confidence, departures=departures)


def _agreed_departure(one: Departure, other: Departure) -> Departure:
    """What both say of one member."""
    if one.cause == other.cause:
        return replace(one, confidence=min(one.confidence, other.confidence))
    possible = {str(it.cause) for it in (one, other)} - {str(Cause.UNKNOWN_DEPARTURE)}
    possible.update(*(it.evidence.get("candidates", ()) for it in (one, other)))
    # In place, as it stands among the rebalance's too.
    one.evidence["candidates"] = sorted(possible)
    return Departure(one.member, Cause.UNKNOWN_DEPARTURE, 0.0, one.evidence)


# A coordinator that stood still ends sessions of members that are alive as it goes on.


def _given_up_with(pause: WritePause, facts: RebalanceFacts) -> set[str]:
    """Ids of those that left of which that may be so: of them nobody has heard since, and others were silent too. Not
    of those that were told when they went."""
    first_ms = pause.until_ms - P.log_time_tolerance_ms
    last_ms = pause.until_ms + P.heartbeat_interval_ms + P.late_heartbeat_ms
    if not (pause.of_others and first_ms <= facts.end_ms <= last_ms):
        return set()
    return {
        it.member_id
        for it in facts.left
        if it.member_id not in facts.known_departures
        and max(_activity(it, facts).last_commit_ms or 0, facts.since_ms or 0) <= pause.since_ms
        and pause.lasted_ms + P.heartbeat_interval_ms >= member_limits(it).session_ms
    }


def _as_given_up(inferred: Inference, member_ids: Collection[str]) -> Inference:
    """The same where the sessions of those members ran out."""
    departures = dict(inferred.departures)
    for name in member_ids & departures.keys():
        departures[name] = replace(departures[name], cause=Cause.SESSION_TIMEOUT)
    # Whoever went, a group that migrated did.
    cause = inferred.cause if inferred.cause is Cause.PROTOCOL_MIGRATED else Cause.SESSION_TIMEOUT
    return replace(inferred, cause=cause, departures=departures)


# Rules: what the members that are there before and after changed.


def subscription_changed(facts: RebalanceFacts) -> Explanation | None:
    """A member that stayed, or a static one that came back, has another subscription."""
    stayed = [(facts.before[name], member) for name, member in facts.after.items() if name in facts.before]
    for old, new in (*stayed, *facts.replaced):
        had, has = set(old.subscription), set(new.subscription)
        if had != has:
            change: Evidence = {
                "kind": "subscription",
                "member_id": new.member_id,
                "added": sorted(has - had),
                "removed": sorted(had - has),
            }
            return Explanation(Cause.SUBSCRIPTION_CHANGED, 1.0, (change,))
    return None


def partitions_grew(facts: RebalanceFacts) -> Explanation | None:
    """A topic of the assignment has more partitions than before; not told while partitions were withheld."""
    if facts.withheld_partitions or not facts.before:
        return None
    before, after = _partition_counts(facts.before), _partition_counts(facts.after)
    topics = {
        topic: [before[topic], count] for topic, count in sorted(after.items()) if 0 < before.get(topic, 0) < count
    }
    if not topics:
        return None
    return Explanation(Cause.PARTITIONS_CHANGED, 1.0, ({"kind": "partitions", "topics": topics},))


def _partition_counts(members: Mapping[str, Member]) -> dict[str, int]:
    counts: dict[str, int] = {}
    for member in members.values():
        for topic, partitions in member.assignment.items():
            counts[topic] = max(counts.get(topic, 0), max(partitions, default=-1) + 1)
    return counts


# Rules: the same members with the same subscriptions and topics.


def cooperative_followup(facts: RebalanceFacts) -> Explanation | None:
    """The generation before left partitions without an owner, to be given away by this one."""
    if not facts.withheld_partitions:
        return None
    return Explanation(Cause.COOPERATIVE_FOLLOWUP, P.followup_confidence, (_withheld(facts),))


def leader_lacked_metadata(facts: RebalanceFacts) -> Explanation | None:
    """A client that joins before it has heard of the topic takes nothing, and its leader joins again once it has."""
    if facts.since_ms is None or facts.end_ms - facts.since_ms > P.first_metadata_ms:
        return None
    if any(it.assignment for it in facts.before.values()):
        return None
    topics = {topic: [0, count] for topic, count in sorted(_partition_counts(facts.after).items()) if count}
    if not topics:
        return None
    evidence: Evidence = {"kind": "partitions", "topics": topics}
    return Explanation(Cause.LEADER_REJOINED, P.leader_rejoined_confidence, (evidence,))


def _round_due(facts: RebalanceFacts) -> Explanation | None:
    """The rebalance that is due as the generation before begins, whoever comes or goes."""
    if facts.withheld_partitions and facts.after:
        return Explanation(Cause.COOPERATIVE_FOLLOWUP, P.most_confidence, (_withheld(facts),))
    return leader_lacked_metadata(facts)


def static_member_replaced(facts: RebalanceFacts) -> Explanation | None:
    """A static member came back. That starts no rebalance where it comes in time, not even if it leads: so this one
    had been removed, or its session had run out."""
    if not facts.replaced:
        return None
    gone = [old for old, _ in facts.replaced]
    posterior, _, _ = _weigh(gone, facts, rejoin_has_reason=False, replaced=True)
    evidence = _replaced(gone, facts)
    if facts.assignors is not None:
        # It came back with other assignors, which starts one as well.
        changed: Evidence = {"kind": "assignor", "before": facts.assignors[0], "after": facts.assignors[1]}
        if any(_may_have_expired(old, facts) for old in gone):
            return Explanation(Cause.UNKNOWN, 0.0, (*evidence, changed))
        return Explanation(Cause.SUBSCRIPTION_CHANGED, P.shown_rejoin_confidence, (changed,))
    first = posterior.departed_first
    cause = _likeliest(first) if first else Cause.UNKNOWN
    if first.get(cause, 0.0) < _least_confidence(gone, facts) or facts.since_ms is None:
        return Explanation(Cause.UNKNOWN, 0.0, evidence)
    return Explanation(cause, _confidence(first[cause]), evidence)


def _replaced(gone: Iterable[Member], facts: RebalanceFacts) -> tuple[Evidence, ...]:
    return tuple({**_commit_gap(old, facts), "kind": "static_member_replaced"} for old in gone)


def _may_have_expired(member: Member, facts: RebalanceFacts) -> bool:
    """Whether a session had time to run out since the member's last sign of life."""
    heard_ms = max(_activity(member, facts).last_commit_ms or 0, facts.joined_ms or facts.since_ms or 0)
    return facts.end_ms - heard_ms >= member_limits(member).session_ms - P.heartbeat_interval_ms


def generation_unseen(facts: RebalanceFacts) -> Explanation | None:
    """The generation before or after is empty, or some between never completed: nothing can be compared."""
    if not facts.before or facts.skipped_generations or not facts.after:
        return Explanation(Cause.UNKNOWN, 0.0)
    return None


def internal_topics_created(facts: RebalanceFacts) -> Explanation | None:
    """A Streams leader made the internal topics as it assigned the first tasks, and joins again for them."""
    if not facts.creates_internal_topics:
        return None
    evidence = {"kind": "internal_topics", "members": len(facts.after)}
    return Explanation(Cause.PARTITIONS_CHANGED, P.internal_topics_confidence, (evidence,))


def topics_made_or_deleted(facts: RebalanceFacts) -> Explanation | None:
    """A topic that members want has partitions only now; or has fewer than before, or none any more. A cooperative
    round may also have taken them back, so there a topic counts as deleted only if it is forgotten."""
    before, after = _partition_counts(facts.before), _partition_counts(facts.after)
    topics = {
        topic: [had, has]
        for topic in sorted(before.keys() | after.keys())
        if (had := before.get(topic, 0)) != (has := after.get(topic, 0))
        and any(topic in member.subscription for member in facts.after.values())
        and (has > had or not facts.cooperative or topic in facts.forgotten_topics)
    }
    if not topics:
        return None
    evidence = {"kind": "partitions", "topics": topics}
    return Explanation(Cause.PARTITIONS_CHANGED, P.shown_rejoin_confidence, (evidence,))


def leader_rejoined(facts: RebalanceFacts) -> Explanation | None:
    """With nothing else changed the leader asked for a rebalance. Or one that is not in the log did: a member that
    joined, and was closed before the rebalance was complete."""
    evidence = {"kind": "nothing_changed", "members": len(facts.after)}
    return Explanation(Cause.LEADER_REJOINED, P.leader_rejoined_confidence, (evidence,))


UNCHANGED_RULES = (
    cooperative_followup,
    static_member_replaced,
    generation_unseen,
    internal_topics_created,
    leader_lacked_metadata,
    topics_made_or_deleted,
    leader_rejoined,
)
"""For a rebalance in which nobody came, went or changed: the first that explains it is told. The last always does."""


# Departures.


def _busy_ms(facts: RebalanceFacts) -> int:
    """How long those that stay may be at work on what they polled: as long as from commit to commit."""
    return max(
        (facts.activity.get(it, NO_COMMITS).commit_interval_ms or 0 for it in facts.before if it in facts.after),
        default=0,
    )


def _infer_departures(
    facts: RebalanceFacts, *, rejoin_has_reason: bool, are_busy: bool
) -> tuple[Posterior, dict[str, Departure], bool]:
    """What came first, why each member left, by member id, and whether the others' timeouts alone tell one's."""
    known = facts.known_departures
    departures = {it.member_id: known[it.member_id] for it in facts.left if it.member_id in known}
    unknown = [it for it in facts.left if it.member_id not in known]
    unknown.sort(key=lambda it: _activity(it, facts).last_commit_ms or 0)
    returned = _returned_clients(unknown, facts)
    posterior, causes, doubtful = _weigh(
        unknown, facts, returned, rejoin_has_reason=rejoin_has_reason, are_busy=are_busy
    )
    least = _least_confidence((), facts)
    for it in unknown:
        own_least = least if _is_known_alike(it, unknown, causes, facts) else P.most_confidence
        returns = it.member_id in returned
        departures[it.member_id] = _departure(it, facts, causes[it.member_id], own_least, returned=returns)
    ways = {departure.cause for departure in departures.values()}
    doubtful &= {(name, departure.cause) for name, departure in departures.items()}
    for it in unknown:
        told = departures[it.member_id]
        begun_anew = len(ways) > 1 and told.evidence.get("coordinator_changed", False)
        may_be_another = (begun_anew or _several_missed_one(facts)) and _may_have_expired(it, facts)
        if may_be_another or (it.member_id, told.cause) in doubtful:
            departures[it.member_id] = replace(told, confidence=min(told.confidence, P.uncertain_confidence))
    return posterior, departures, bool(doubtful)


def _is_known_alike(
    member: Member, gone: Collection[Member], causes: Mapping[str, Mapping[Cause, float]], facts: RebalanceFacts
) -> bool:
    """Whether what the others did tells how a member went that never committed, and that may have died: where they
    went in several ways it does not, nor where they had all gone before the group was empty."""
    if _activity(member, facts).last_commit_ms is not None or member.instance_id is not None:
        return True
    if not _may_have_expired(member, facts):
        return True
    others = {it.member_id: at_ms for it in gone if (at_ms := _activity(it, facts).last_commit_ms) is not None}
    cause = _likeliest(causes[member.member_id])
    if not facts.after and others and max(others.values()) < facts.end_ms - P.slow_close_ms:
        return cause is Cause.SESSION_TIMEOUT
    return {_likeliest(causes[name]) for name in others} <= {cause}


def _several_missed_one(facts: RebalanceFacts) -> bool:
    """Whether several went while a generation never completed: who joined it, and who went before, nothing tells."""
    return facts.skipped_generations > 0 and len(facts.left) > 1


def _activity(member: Member, facts: RebalanceFacts) -> CommitActivity:
    activity = facts.activity.get(member.member_id, NO_COMMITS)
    last, since = activity.last_commit_ms, facts.since_ms
    if not member.partitions and last is not None and since is not None and last < since:
        # It has nothing to commit any more: its silence since then tells nothing.
        return NO_COMMITS
    return activity


def _weigh(
    gone: Sequence[Member],
    facts: RebalanceFacts,
    returned: Collection[str] = (),
    *,
    rejoin_has_reason: bool,
    replaced: bool = False,
    are_busy: bool = False,
) -> tuple[Posterior, dict[str, Mapping[Cause, float]], set[tuple[str, Cause]]]:
    """What came first, the probabilities of each cause for each that went, by member id, and, where several went, the
    timeouts that a member's own times do not tell from the other one.

    The clients of `returned` (member ids) are back; `replaced`: all are, as static members.
    """
    # Those that leave no trace of when they went do not decide what came first.
    with_trace = [member for member in gone if not _leaves_no_trace(member, facts)]
    weighed = spread_evenly(with_trace or gone, P.departures_weighed)
    back = len(facts.joined) if replaced else sum(member.member_id in returned for member in facts.left)
    intervals = [it.commit_interval_ms for it in facts.activity.values() if it.commit_interval_ms is not None]
    usual_ms = max(max(intervals), P.shortest_commit_interval_ms) if intervals else None
    others = _Others(facts)
    if usual_ms is not None and others.are_idle(usual_ms):
        usual_ms = None
    round_due, due_ms = _round_due(facts), facts.given_up_ms or facts.since_ms
    if round_due is None:
        due_ms = None
    elif round_due.cause is Cause.LEADER_REJOINED and due_ms is not None:
        due_ms += P.metadata_wait_ms
    times = {
        member.member_id: departure_times(
            member,
            _activity(member, facts),
            facts.since_ms,
            facts.end_ms,
            joined_ms=facts.joined_ms,
            usual_interval_ms=usual_ms,
            client_returned=member.member_id in returned or replaced,
            cooperative=facts.cooperative,
            generations_skipped=facts.skipped_generations > 0,
            silence_share=others.silence_share(_activity(member, facts)),
            others_moved=others.moved_after(member.member_id, _activity(member, facts)),
            coordinator_change=facts.coordinator_change,
            newest_ms=others.newest_of_all_ms,
            has_deleted_topic=facts.has_deleted_topic,
            is_followed_up=due_ms is not None,
        )
        for member in gone
    }
    stayed = facts.before.keys() & facts.after.keys()
    stayed |= {old.member_id for old, _ in facts.replaced} - {member.member_id for member in gone}
    seen = RebalanceObservation(
        since_ms=facts.since_ms,
        end_ms=facts.end_ms,
        departure_times=[times[member.member_id] for member in weighed],
        client_returned=[member.member_id in returned for member in weighed],
        new_members=len(facts.joined) - back,
        remaining=[facts.activity.get(member_id, NO_COMMITS) for member_id in sorted(stayed)],
        followup_due_ms=due_ms,
        followup_share=P.followup_share * (P.followup_of_gone_factor if _gave_up_and_went(facts) else 1.0),
        rejoin_has_reason=rejoin_has_reason,
        cooperative=facts.cooperative,
        emptied=not facts.after,
        are_dynamic=all(member.instance_id is None for member in gone),
        # Brokers take any that a client asks for, also one below 0.
        longest_rebalance_timeout_ms=max(
            (0, *(it.rebalance_timeout_ms or 0 for it in (*facts.before.values(), *facts.joined)))
        ),
        notice_ms=facts.notice_ms,
        busy_ms=_busy_ms(facts) if are_busy else P.busy_ms,
        busy_share=P.busy_group_share if are_busy else 1 - P.notices_in_time_share,
        ends_in_step=any(_ends_in_step(member, facts) for member in gone),
    )
    posterior = rebalance_posterior(seen)
    causes: dict[str, Mapping[Cause, float]] = {
        member.member_id: each for member, each in zip(weighed, posterior.cause_probabilities, strict=True)
    }
    for name in times.keys() - causes.keys():
        causes[name] = posterior_of_another(seen, posterior, times[name])
    doubtful: set[tuple[str, Cause]] = set()
    for name, its in times.items() if len(gone) > 1 else ():
        timeouts = {cause: each for cause, each in its.items() if cause in _TIMEOUTS}
        weights = weights_by_time(seen, posterior, timeouts)
        doubtful.update(
            (name, it) for it in weights if weights.get(_OTHER[it], 0.0) > P.doubtful_timeout_share * weights[it]
        )
    return posterior, causes, doubtful


def _ends_in_step(member: Member, facts: RebalanceFacts) -> bool:
    """Whether a session of its that began with the generation would have ended with the join phase."""
    if facts.since_ms is None or member.session_timeout_ms is None:
        return False
    lasted = facts.end_ms - member.session_timeout_ms
    joined_ms = facts.since_ms if facts.joined_ms is None else facts.joined_ms
    return joined_ms - P.timer_precision_ms <= lasted <= facts.since_ms + 2 * P.timer_precision_ms


def _gave_up_and_went(facts: RebalanceFacts) -> bool:
    """Whether all went that had to give up partitions as their generation began: who does so is who joins again."""
    gave_up = {
        name
        for name, it in facts.before.items()
        if any(set(owned).difference(it.assignment.get(topic, ())) for topic, owned in (it.owned or {}).items())
    }
    return bool(gave_up) and not gave_up & facts.after.keys() and not facts.skipped_generations


class _Stayed:
    """When those committed that stayed and work, looked at once for all that left."""

    def __init__(self, stayed: Collection[CommitActivity], end_ms: int) -> None:
        intervals = [it.commit_interval_ms for it in stayed if it.commit_interval_ms is not None]
        self._end_ms = end_ms
        self._newest_ms = max((it.last_commit_ms or 0 for it in stayed), default=None)
        self._interval_ms = max(intervals, default=None)

    def silence_share(self, own: CommitActivity) -> float:
        """How many fall silent as one did though they live: most where those that stayed, and work as well, have not
        committed since then either, for longer than they do."""
        if self._newest_ms is None or own.last_commit_ms is None:
            return P.lone_silence_share
        intervals = [it for it in (own.commit_interval_ms, self._interval_ms) if it is not None]
        since_ms = own.last_commit_ms + max(intervals, default=P.commit_interval_ms)
        is_long = self._end_ms > since_ms + P.commit_interval_ms
        return P.silence_of_all_share if is_long and self._newest_ms <= since_ms else P.other_silence_share

    def is_idle(self, own: CommitActivity, seen_ms: int | None) -> bool:
        """Whether one that was there at `seen_ms` had nothing to commit: it lived silent before, or those that stayed
        have committed nothing since, and ought to have."""
        if seen_ms is None or own.last_commit_ms is None or max(own.last_commit_ms, self._newest_ms or 0) > seen_ms:
            return False
        intervals = [it for it in (own.commit_interval_ms, self._interval_ms) if it is not None]
        long_ms = 2 * max(intervals, default=P.commit_interval_ms) + P.commit_interval_ms
        return seen_ms - own.last_commit_ms > long_ms or (
            self._newest_ms is not None and self._end_ms - seen_ms > long_ms
        )


class _Others(_Stayed):
    """What the other members of a generation did, looked at once for all that left it."""

    def __init__(self, facts: RebalanceFacts) -> None:
        stayed = [_activity(it, facts) for name, it in facts.before.items() if name in facts.after and it.partitions]
        super().__init__(stayed, facts.end_ms)
        self._since_ms = facts.since_ms
        self.newest_of_all_ms = max((it.last_commit_ms or 0 for it in facts.activity.values()), default=0)
        self._is_silent = facts.since_ms is not None and self.newest_of_all_ms <= facts.since_ms
        moved = [
            (at_ms, name)
            for name, it in facts.before.items()
            if (at_ms := _activity(it, facts).last_moved_ms) is not None
        ]
        self._moved = nlargest(2, moved)

    def silence_share(self, own: CommitActivity) -> float:
        """As of all, where nobody has committed since the generation began: who died then was there for none."""
        if self._is_silent and own.last_commit_ms is not None:
            is_idle = self.are_idle(own.commit_interval_ms or P.commit_interval_ms)
            return P.falls_idle_with_all_share if is_idle else P.silence_of_all_share
        return super().silence_share(own)

    def are_idle(self, usual_ms: int) -> bool:
        """Whether nothing comes to the topics: those that stayed, and work, ought to have committed meanwhile."""
        if self._since_ms is None or self._newest_ms is None:
            return False
        return self._is_silent and self._end_ms - self._since_ms > 2 * usual_ms + P.commit_interval_ms

    def moved_after(self, member_id: str, own: CommitActivity) -> bool:
        """Whether another member's positions moved on after one's own did."""
        if own.last_moved_ms is None:
            return True
        since_ms = own.last_moved_ms + (own.commit_interval_ms or P.commit_interval_ms)
        return any(at_ms > since_ms for at_ms, name in self._moved if name != member_id)


def _returned_clients(gone: Sequence[Member], facts: RebalanceFacts) -> frozenset[str]:
    """Ids of those whose client came in the same rebalance: as many of each client id and host as came, and of
    several those that were heard of last."""
    came = Counter(map(_client, facts.joined))
    returned = []
    for member in sorted(gone, key=lambda it: _activity(it, facts).last_commit_ms or 0, reverse=True):
        if member.instance_id is None and came[_client(member)]:
            came[_client(member)] -= 1
            returned.append(member.member_id)
    return frozenset(returned)


def _client(member: Member) -> tuple[str, str]:
    return member.client_id, member.client_host


def _departure(
    member: Member, facts: RebalanceFacts, probabilities: Mapping[Cause, float], least: float, *, returned: bool
) -> Departure:
    """`least`: from which probability on it is told, of a member that never committed."""
    last = _activity(member, facts).last_commit_ms
    evidence = _commit_gap(member, facts)
    if last is None and facts.since_ms is not None:
        evidence["generation_lasted_ms"] = facts.end_ms - facts.since_ms
    if returned:
        evidence["client_is_back"] = True
    heard_ms, session_ms = max(last or 0, facts.since_ms or 0), member_limits(member).session_ms
    change = facts.coordinator_change
    if is_begun_anew(change, heard_ms, session_ms) or (returned and _came_back(change, last, facts.since_ms)):
        evidence["coordinator_changed"] = True
    if last is None and facts.since_ms is None:
        return Departure(member, Cause.UNKNOWN_DEPARTURE, 0.0, evidence)
    cause, confidence = _tell_apart(probabilities, evidence, least if last is None else P.least_departure_confidence)
    departed = None
    if last is None and cause is Cause.SESSION_TIMEOUT and facts.since_ms is not None:
        departed = min(facts.since_ms + member_limits(member).session_ms, facts.end_ms)
    elif last is not None and cause is not Cause.UNKNOWN_DEPARTURE:
        limits = member_limits(member)
        renewed = max(last, facts.since_ms or last)
        departed = {
            Cause.SESSION_TIMEOUT: renewed + limits.session_ms,
            Cause.POLL_TIMEOUT: last + (limits.poll_ms or 0),
            Cause.REJOIN_TIMEOUT: facts.end_ms,
        }.get(cause, last)
    return Departure(member, cause, confidence, evidence, departed)


def _came_back(change: CoordinatorChange | None, last: int | None, since_ms: int | None) -> bool:
    """Whether a member of a generation since `since_ms`, whose client is back, committed last as that reached the
    next coordinator. A client that reached none for a session gives up its membership itself, and joins as another.
    """
    if change is None or last is None:
        return False
    return (since_ms or 0) <= change.until_ms <= last <= change.until_ms + P.reconnect_ms


def _least_confidence(gone: Sequence[Member], facts: RebalanceFacts) -> float:
    """From which probability on it is told how members went: the less their group commits, the less the gaps tell."""
    if any(_activity(member, facts).last_commit_ms is not None for member in gone):
        return P.least_departure_confidence
    commits = any(activity.last_commit_ms is not None for activity in facts.activity.values())
    return P.least_traceless_confidence if commits else P.least_confidence_without_commits


def _leaves_no_trace(member: Member, facts: RebalanceFacts) -> bool:
    """Whether it never committed, and was there for longer than a session that began with its generation."""
    if _activity(member, facts).last_commit_ms is not None:
        return False
    session_ms = member_limits(member).session_ms
    return facts.since_ms is None or facts.end_ms - facts.since_ms > session_ms + P.start_margin_ms


def _commit_gap(member: Member, facts: RebalanceFacts) -> Evidence:
    return _commit_gap_of(member, _activity(member, facts), facts.end_ms)


def _commit_gap_of(member: Member, activity: CommitActivity, end_ms: int) -> Evidence:
    evidence: Evidence = {
        "kind": "commit_gap",
        "member_id": member.member_id,
        "gap_ms": None if activity.last_commit_ms is None else end_ms - activity.last_commit_ms,
        "commits_every_ms": activity.commit_interval_ms,
        "session_timeout_ms": member.session_timeout_ms,
        "rebalance_timeout_ms": member.rebalance_timeout_ms,
    }
    if library_named(member.client_library).stall_end is not StallEnd.REBALANCE_TIMEOUT:
        # The rebalance timeout is no limit on its polls.
        evidence["has_poll_limit"] = False
    if activity.last_moved_ms is not None:
        evidence["unmoved_ms"] = end_ms - activity.last_moved_ms
    return evidence


_OTHER = {
    Cause.SESSION_TIMEOUT: Cause.POLL_TIMEOUT,
    Cause.POLL_TIMEOUT: Cause.SESSION_TIMEOUT,
    # Of a rebalance in which a member is replaced: which of the two came first.
    Cause.MEMBER_JOINED: Cause.MEMBER_LEFT,
    Cause.MEMBER_LEFT: Cause.MEMBER_JOINED,
}
_TIMEOUTS = frozenset({Cause.SESSION_TIMEOUT, Cause.POLL_TIMEOUT})


def _tell_apart(
    probabilities: Mapping[Cause, float], evidence: Evidence, least: float = P.least_departure_confidence
) -> tuple[Cause, float]:
    """The cause whose probability is `least` or more, and how sure it is; else `evidence` gets the candidates."""
    cause = _likeliest(probabilities)
    other = _OTHER.get(cause)
    is_guess = other is not None and probabilities[cause] < P.timeout_odds * probabilities.get(other, 0.0)
    is_likely = probabilities[cause] >= least
    if is_likely and not is_guess and cause is not Cause.UNKNOWN_DEPARTURE:
        return cause, _confidence_of(cause, probabilities)
    possible = {it for it, probability in probabilities.items() if probability > P.candidate_probability}
    evidence["candidates"] = sorted(str(it) for it in possible - {Cause.UNKNOWN_DEPARTURE})
    return Cause.UNKNOWN_DEPARTURE, 0.0


def notice_time_ms(facts: RebalanceFacts, inferred: Inference) -> int | None:
    """How long the members that stayed took to notice this rebalance; None where it is not known when it began."""
    began = None
    departures = list(inferred.departures.values())
    if inferred.cause is Cause.COOPERATIVE_FOLLOWUP:
        began = facts.since_ms
    elif inferred.cause is Cause.MEMBER_LEFT and inferred.confidence >= P.sure_departure_confidence:
        began = departures[0].departed_ms if len(departures) == 1 else None
    if began is None or not facts.after.keys() & facts.before.keys():
        return None
    took = facts.end_ms - began
    return took if took <= P.heartbeat_interval_ms + P.late_heartbeat_ms else None


# Groups of KIP-848's kind.


def infer_epoch_change(
    joined: tuple[Member, ...],
    left: tuple[Member, ...],
    activity: Mapping[str, CommitActivity],
    at_ms: int,
    *,
    seen_ms: Mapping[str, int],
    expired: frozenset[str],
    behind: frozenset[str],
    resubscribed: bool,
    migrated: bool,
    topics_may_have_changed: bool,
    is_first_seen: bool,
    session: SessionSetting | None = None,
    coordinator_change: CoordinatorChange | None = None,
    stayed: Collection[CommitActivity] = (),
    write_pause: WritePause | None = None,
    newly_initialized: int = 0,
) -> Inference:
    """The cause of a raised epoch. Who came and went is written; how a member went is not, nor its session timeout.

    `seen_ms` to `behind`, and `session` to `write_pause`, are those of `infer_epoch_departures`. `resubscribed`: a
    member that stayed changed its subscription. `newly_initialized`: so many partitions can a share group give to
    members only since the last epoch. `topics_may_have_changed`: it is the epoch after the one before, and their
    records do not have the same hash of the topics. With nobody coming, going or resubscribing it answers a change
    of them then: the broker has hardly another reason. `is_first_seen`: epochs before it are not known, so members
    that seem to come with it may have been there.
    """
    departures = infer_epoch_departures(
        left, activity, at_ms, seen_ms, expired, behind, session, coordinator_change, stayed, write_pause
    )
    evidence: list[Evidence] = [departure.evidence for departure in departures.values()]
    causes: dict[Cause, float] = {departure.cause: departure.confidence for departure in departures.values()}
    if joined:
        causes[Cause.MEMBER_JOINED] = 1.0
        evidence.append(_joined(len(joined)))
    if migrated:
        causes = {Cause.PROTOCOL_MIGRATED: 1.0}
        evidence.append({"kind": "migration", "to": "consumer"})
    if resubscribed:
        causes[Cause.SUBSCRIPTION_CHANGED] = 1.0
    if not causes and newly_initialized:
        causes[Cause.PARTITIONS_CHANGED] = P.most_confidence
        evidence.append({"kind": "partitions_initialized", "partitions": newly_initialized})
    elif not causes and topics_may_have_changed:
        causes[Cause.PARTITIONS_CHANGED] = P.topics_changed_confidence
        evidence.append({"kind": "nobody_changed"})
    elif not causes:
        causes[Cause.UNKNOWN] = 0.0
    if is_first_seen:
        causes, evidence = {Cause.UNKNOWN: 0.0}, [departure.evidence for departure in departures.values()]
    # The broker raises the epoch with each change, so what comes with one epoch came at one time.
    surest = _likeliest(causes)
    return Inference(surest, tuple(sorted(causes)), causes[surest], tuple(evidence), departures)


def infer_epoch_departures(
    left: Iterable[Member],
    activity: Mapping[str, CommitActivity],
    at_ms: int,
    seen_ms: Mapping[str, int],
    expired: Collection[str],
    behind: Collection[str],
    session: SessionSetting | None = None,
    coordinator_change: CoordinatorChange | None = None,
    stayed: Collection[CommitActivity] = (),
    write_pause: WritePause | None = None,
) -> dict[str, Departure]:
    """By member id, how members left that were removed at `at_ms`. `seen_ms`: when they were heard of last, by id,
    epoch milliseconds. `expired`: ids of those that had left for a restart (member epoch -2) and did not come back
    within their session. `behind`: ids of those that had not reached the group's target. `session`: what brokers say
    of the group's sessions. `coordinator_change`: the newest of its partition (None: none is known). `stayed`: what
    those committed that stay and have something to commit, or some of them. `write_pause`: the newest of its
    partition (None: none is known)."""
    at_ms, seen_ms = bounded_ms(at_ms), {name: bounded_ms(it) for name, it in seen_ms.items()}
    others = _Stayed(stayed, at_ms)
    return {
        member.member_id: _left_for_restart(member, at_ms, seen_ms.get(member.member_id), session)
        if member.member_id in expired
        else infer_kip848_departure(
            member,
            activity.get(member.member_id, NO_COMMITS),
            at_ms,
            seen_ms.get(member.member_id),
            is_behind=member.member_id in behind,
            session=session,
            coordinator_change=coordinator_change,
            silence_share=others.silence_share(activity.get(member.member_id, NO_COMMITS)),
            is_idle=others.is_idle(activity.get(member.member_id, NO_COMMITS), seen_ms.get(member.member_id)),
            write_pause=write_pause,
        )
        for member in left
    }


def _left_for_restart(member: Member, at_ms: int, seen_ms: int | None, session: SessionSetting | None) -> Departure:
    """Its session runs on from its last heartbeat. Before that ends only an admin takes it out."""
    usual, beat_ms = session or SessionSetting()
    away_ms = usual if seen_ms is None else at_ms - seen_ms
    if away_ms >= usual - beat_ms - P.log_time_tolerance_ms:
        evidence: Evidence = {"kind": "static_member_expired", "member_id": member.member_id}
        return Departure(member, Cause.SESSION_TIMEOUT, 1.0, evidence, at_ms)
    evidence = {"kind": "static_member_away", "member_id": member.member_id, "away_ms": max(away_ms, 0)}
    if session is None and away_ms >= P.kip848_shortest_session_timeout_ms - beat_ms:
        evidence["candidates"] = sorted(map(str, (Cause.ADMIN_REMOVED, Cause.SESSION_TIMEOUT)))
        return Departure(member, Cause.UNKNOWN_DEPARTURE, 0.0, evidence)
    return Departure(member, Cause.ADMIN_REMOVED, P.static_removal_confidence, evidence, at_ms)


def infer_kip848_departure(
    member: Member,
    activity: CommitActivity,
    at_ms: int,
    seen_ms: int | None = None,
    *,
    is_behind: bool = False,
    session: SessionSetting | None = None,
    coordinator_change: CoordinatorChange | None = None,
    silence_share: float = P.other_silence_share,
    is_idle: bool = False,
    write_pause: WritePause | None = None,
) -> Departure:
    """Why a member of a KIP-848 group left: its departure is written as it happens, at `at_ms`; `seen_ms` is when a
    record of its own was written last (None: not known). `is_behind`: it had not reached the group's target.
    `session`: what brokers say of the group's sessions (None: nothing). `coordinator_change`: the newest of its
    partition, and `write_pause` the newest pause in it (None: none is known). `silence_share`: how many fall silent
    for another reason before they go; `is_idle`: it had nothing to commit."""
    rest = at_ms, seen_ms, is_behind, session, coordinator_change, silence_share
    found = _kip848_departure(member, activity, *rest)
    if is_idle and found.cause is Cause.SESSION_TIMEOUT:
        # Its silence tells of no death.
        idle = *rest[:-1], P.falls_idle_with_all_share
        found = _agreed_departure(found, _kip848_departure(member, activity, *idle))
    seldom = _as_seldom(activity, at_ms)
    if seldom != activity:
        found = _agreed_departure(found, _kip848_departure(member, seldom, *rest))
    if write_pause is None or not _may_end_with_pause(member, activity, at_ms, seen_ms, session, write_pause):
        return found
    evidence = {**found.evidence, "nothing_written_ms": write_pause.lasted_ms}
    if found.cause is Cause.SESSION_TIMEOUT:
        return replace(found, evidence=evidence)
    possible = {found.cause, Cause.SESSION_TIMEOUT} - {Cause.UNKNOWN_DEPARTURE}
    evidence["candidates"] = sorted({*map(str, possible), *evidence.get("candidates", ())})
    return Departure(member, Cause.UNKNOWN_DEPARTURE, 0.0, evidence)


def _may_end_with_pause(
    member: Member,
    activity: CommitActivity,
    at_ms: int,
    seen_ms: int | None,
    session: SessionSetting | None,
    pause: WritePause,
) -> bool:
    """Whether a member may have been given up that is alive, by a coordinator that stood still: its timers are due as
    it goes on, and commits that had waited for it, which renew no session of KIP-848, come before. Where no commit
    did, it may be the group's own silence, unless others were silent as long."""
    usual, committed = session or SessionSetting(), activity.last_commit_ms
    session_ms = member.session_timeout_ms or usual.timeout_ms
    paused_ms = pause.lasted_ms
    if paused_ms < session_ms - usual.heartbeat_ms:
        return False
    if not pause.until_ms <= at_ms <= pause.until_ms + P.log_time_tolerance_ms:
        return False
    heard_ms = seen_ms if committed is None else committed
    if heard_ms is None or heard_ms <= pause.since_ms:
        return pause.of_others
    # Of one that commits about as seldom it was a pause of its own.
    is_usual = activity.commit_interval_ms is not None and 2 * activity.commit_interval_ms > paused_ms
    return committed is not None and not is_usual and pause.until_ms <= committed <= at_ms


def _kip848_departure(
    member: Member,
    activity: CommitActivity,
    at_ms: int,
    seen_ms: int | None,
    is_behind: bool,
    session: SessionSetting | None,
    coordinator_change: CoordinatorChange | None,
    silence_share: float,
) -> Departure:
    evidence = _commit_gap_of(member, activity, at_ms)
    if session is not None and member.session_timeout_ms is None:
        evidence["group_session_timeout_ms"] = session.timeout_ms
    session_ms = member.session_timeout_ms or (session or SessionSetting()).timeout_ms
    if is_begun_anew(coordinator_change, max(activity.last_commit_ms or 0, seen_ms or 0), session_ms):
        evidence["coordinator_changed"] = True
    if activity.last_commit_ms is None and seen_ms is None:
        return Departure(member, Cause.UNKNOWN_DEPARTURE, 0.0, evidence)
    probabilities = kip848_departure_probabilities(
        member,
        activity,
        seen_ms,
        at_ms,
        is_behind=is_behind,
        session=session,
        coordinator_change=coordinator_change,
        silence_share=silence_share,
    )
    if not probabilities:
        return Departure(member, Cause.UNKNOWN_DEPARTURE, 0.0, evidence)
    least = P.least_traceless_confidence if activity.last_commit_ms is None else P.least_departure_confidence
    cause, confidence = _tell_apart(probabilities, evidence, least)
    is_assumed = session is None and member.session_timeout_ms is None
    expired = probabilities[Cause.SESSION_TIMEOUT]
    if is_assumed and cause is not Cause.SESSION_TIMEOUT and expired > P.assumed_session_probability:
        confidence = min(confidence, P.uncertain_confidence)
    return Departure(member, cause, confidence, evidence, None if cause is Cause.UNKNOWN_DEPARTURE else at_ms)
