"""What somebody saw of a rebalance besides the topic: a broker's own log, or the Admin API while it went on.

A witness only answers what it is asked, so the mirror stays a pure function of the records and of its answers. What a
witness states is certain. Where it saw a member ask to leave but not why (librdkafka gives no reason: when it closes,
when its poll loop stalls), its testimony and the topic's are put together: the time of leaving is known to the
millisecond, so the commit gap up to it says more than the gap to the end of the join phase.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import NamedTuple, Protocol

from agent.coordinator.states import GroupType
from agent.shadow.causes import Cause, Departure, Evidence, Inference
from agent.shadow.transitions import MemberLeft, Rebalanced, Transition
from agent.shadow.views import Member


class Gone(NamedTuple):
    """How and when one member went. `cause` is None where it asked to leave and gave no reason; `said` is what the
    witness quotes; `joined_ms` is when the member first came, None where it did not see that."""

    cause: Cause | None
    at_ms: int
    said: str = ""
    joined_ms: int | None = None


class Told(NamedTuple):
    """What a witness knows of one rebalance. Times are epoch milliseconds, None where it does not know.

    `began_ms` is when the join phase began. `cause` set it off, `causes` are all, as far as stated; `departures` says
    of members by id how they went. Where the witness knows what set it off but not why: `first` is the member that
    asked to leave, or `rejoined` the cause that a member's joining again means if the topic shows no other.
    `set_off_ms` is when, and `said` the words (they differ from `began_ms` where generations were never written);
    `since_ms` is when the rebalance before it began, which gave members their assignment. `evidence` is added to the
    event's.
    """

    source: str
    began_ms: int | None = None
    cause: Cause | None = None
    causes: tuple[Cause, ...] = ()
    departures: Mapping[str, Gone] = {}
    said: str = ""
    set_off_ms: int | None = None
    first: str | None = None
    rejoined: Cause | None = None
    since_ms: int | None = None
    evidence: tuple[Evidence, ...] = ()

    @property
    def is_timing_alone(self) -> bool:
        """Whether the witness knows nothing of the cause."""
        return self.set_off_ms is None and self.cause is None and not self.departures


class Witness(Protocol):
    """Someone who was there."""

    def told(self, group: str, generation: int, end_ms: int) -> Told | None:
        """What is known of the rebalance that led to `generation`, whose join phase ended at `end_ms`."""


IN_THE_TOPIC = frozenset({Cause.SUBSCRIPTION_CHANGED, Cause.PARTITIONS_CHANGED, Cause.PROTOCOL_MIGRATED})
"""Causes that the topic itself shows, so that they are as certain as a witness."""

DEPARTURES = frozenset(
    {
        Cause.MEMBER_LEFT,
        Cause.SESSION_TIMEOUT,
        Cause.POLL_TIMEOUT,
        Cause.ADMIN_REMOVED,
        Cause.UNKNOWN_DEPARTURE,
    }
)

CLOCK_MS = 250
"""How far two times of one coordinator may be apart and still mean the same moment."""

COMMIT_INTERVAL_MS = 5_000
"""How often clients commit by default (`auto.commit.interval.ms`)."""

LATE_MS = 6_000
"""How much later than its last commit a client's last poll may be: it may have had nothing to commit for a while."""

SOON_MS = 20_000
"""Within this time cooperative members join again at their next poll, after a round that took partitions away."""


def amended(transitions: Iterable[Transition], witness: Witness) -> list[Transition]:
    """Transitions of one record, with what the witness knows in place of what was inferred."""
    out: list[Transition] = []
    departures: Mapping[str, Departure] = {}
    for it in transitions:
        match it:
            case Rebalanced():
                it = _amended(it, witness)
                departures = it.inferred.departures
            case MemberLeft(member=member) if it.inferred is not None and member.member_id in departures:
                it = replace(it, inferred=departures[member.member_id])
        out.append(it)
    return out


def _amended(it: Rebalanced, witness: Witness) -> Rebalanced:
    end_ms = it.at.timestamp_ms - (it.sync_ms or 0)
    told = witness.told(it.group, it.generation, end_ms)
    if told is None:
        return it
    if told.is_timing_alone:
        if told.began_ms is None:
            return it
        inferred = replace(it.inferred, evidence=(*it.inferred.evidence, *told.evidence))
        return replace(it, observed=True, join_ms=max(end_ms - told.began_ms, 0), inferred=inferred)
    departures = dict(it.inferred.departures)
    for member in it.left:
        if (gone := told.departures.get(member.member_id)) is not None:
            departures[member.member_id] = _departure(member, gone, departures[member.member_id], told, end_ms)
    it = replace(it, inferred=_inference(it, told, departures))
    if told.began_ms is None:
        # Of groups without a join phase, the departures are all that is to be seen.
        seen = bool(it.left) and all(member.member_id in told.departures for member in it.left)
        return replace(it, observed=seen)
    return replace(it, observed=True, join_ms=max(end_ms - told.began_ms, 0))


def _inference(it: Rebalanced, told: Told, departures: Mapping[str, Departure]) -> Inference:
    """Cause and causes as told, completed by what the topic shows."""
    before = it.inferred
    kept = [cause for cause in before.causes if cause not in DEPARTURES and cause is not Cause.UNKNOWN]
    if told.set_off_ms is not None:
        # The log holds every joining and leaving: what else was inferred is certain, or it is not there.
        kept = [cause for cause in kept if cause in IN_THE_TOPIC]
    causes = {*kept, *told.causes, *(departure.cause for departure in departures.values())}
    cause, confidence = _set_off(it, told, departures)
    if cause is not Cause.UNKNOWN:
        causes.add(cause)
    return Inference(
        cause, tuple(sorted(causes or {cause})), confidence, _evidence(before, told, departures), departures
    )


def _set_off(it: Rebalanced, told: Told, departures: Mapping[str, Departure]) -> tuple[Cause, float]:
    """What set the rebalance off, and how certain that is."""
    before = it.inferred
    if told.cause is not None:
        return told.cause, 1.0
    if told.first is not None:
        if (departure := departures.get(told.first)) is not None:
            return departure.cause, departure.confidence
        # It was never in the topic: it came and went between two generations that were written.
        return Cause.UNKNOWN_DEPARTURE, 0.0
    if told.rejoined is not None:
        return _rejoined(it, told, told.rejoined)
    gone = sorted(
        (it for it in departures.values() if it.went_ms is not None), key=lambda it: (it.went_ms, it.member.member_id)
    )
    if gone and before.cause in DEPARTURES and told.set_off_ms is None:
        return gone[0].cause, gone[0].confidence
    return before.cause, before.confidence


def _rejoined(it: Rebalanced, told: Told, otherwise: Cause) -> tuple[Cause, float]:
    """Why a member joined again that gave no reason: what the topic shows changed, or gave up, or nothing."""
    before = it.inferred
    shown = [cause for cause in before.causes if cause in IN_THE_TOPIC or cause is Cause.COOPERATIVE_FOLLOWUP]
    if shown:
        return before.cause if before.cause in shown else shown[0], max(before.confidence, 0.9)
    soon = told.set_off_ms is not None and told.since_ms is not None and told.set_off_ms - told.since_ms <= SOON_MS
    if soon and _is_cooperative(it):
        # The round that it follows was never written, or what it gave up is not to be seen in it.
        return Cause.COOPERATIVE_FOLLOWUP, 0.8
    return otherwise, 0.9


def _is_cooperative(it: Rebalanced) -> bool:
    """Whether members keep partitions through a rebalance, by the protocol's name or by what they brought along."""
    if it.group_type is GroupType.CONNECT:
        return it.protocol != "default"
    return "cooperative" in (it.protocol or "") or any(map(_keeps, (*it.joined, *it.left)))


def _keeps(member: Member) -> bool:
    """Whether a member kept partitions when it joined: then it takes part in rebalances without its poll loop."""
    return any((member.owned or {}).values())


def _evidence(before: Inference, told: Told, departures: Mapping[str, Departure]) -> tuple[Evidence, ...]:
    """The witness first; then the rest, without gaps that only led to guesses."""
    out: list[Evidence] = []
    if told.set_off_ms is not None:
        out.append({"kind": told.source, "at_ms": told.set_off_ms, "reason": told.said})
    replaced = {id(guess.evidence) for name, guess in before.departures.items() if departures[name] is not guess}
    out += [departure.evidence for name, departure in departures.items() if departure is not before.departures[name]]
    return (*out, *(evidence for evidence in before.evidence if id(evidence) not in replaced), *told.evidence)


def _departure(member: Member, gone: Gone, guess: Departure, told: Told, end_ms: int) -> Departure:
    evidence: Evidence = {
        "kind": told.source,
        "member_id": member.member_id,
        "at_ms": gone.at_ms,
        "reason": gone.said,
    }
    if gone.cause is not None:
        return Departure(member, gone.cause, 1.0, evidence, gone.at_ms)
    gap_to_end, every = guess.evidence.get("gap_ms"), guess.evidence.get("commits_every_ms")
    last_ms = None if gap_to_end is None else end_ms - gap_to_end
    cause, confidence = _asked_to_leave(member, gone, last_ms, every, told)
    evidence |= {
        "gap_ms": None if last_ms is None else max(gone.at_ms - last_ms, 0),
        "commits_every_ms": every,
        "rebalance_timeout_ms": member.rebalance_timeout_ms,
    }
    return Departure(member, cause, confidence, evidence, gone.at_ms)


def _asked_to_leave(
    member: Member, gone: Gone, last_ms: int | None, every: int | None, told: Told
) -> tuple[Cause, float]:
    """Why a member left that gave no reason: it closed, or its client saw its poll loop stall. No session ran out.

    `last_ms` is its last commit, `every` the mean time between two, the beginning of the generation counted as one. A
    client may commit by itself once more after its poll loop stalled, within one interval.
    """
    poll, left_ms = member.rebalance_timeout_ms, gone.at_ms
    if member.instance_id is not None:
        # Static members do not ask to leave; an admin client that says nothing asks for them.
        return Cause.ADMIN_REMOVED, 0.9
    if last_ms is not None and left_ms - last_ms <= CLOCK_MS:
        # Clients commit as they close.
        return Cause.MEMBER_LEFT, 0.97
    if poll is None:
        return Cause.UNKNOWN_DEPARTURE, 0.0
    if gone.joined_ms is not None and left_ms - gone.joined_ms < poll - CLOCK_MS:
        # No time to poll can have run out that began with the client.
        return Cause.MEMBER_LEFT, 0.97
    polled_ms = _polled_ms(member, last_ms, told)
    if polled_ms is not None and left_ms - polled_ms < poll - CLOCK_MS:
        return Cause.MEMBER_LEFT, 0.9
    if last_ms is None:
        return Cause.UNKNOWN_DEPARTURE, 0.0
    gap = left_ms - last_ms
    pause = COMMIT_INTERVAL_MS if every is None else every
    # Whoever commits more rarely than clients do by themselves has nothing to commit, or does it by hand as it polls.
    by_itself = min(pause, COMMIT_INTERVAL_MS)
    if gap < poll - by_itself - 2 * CLOCK_MS:
        return Cause.MEMBER_LEFT, 0.95 if gap < poll - 2 * by_itself - CLOCK_MS else 0.8
    # From before the last rebalance, of partitions that nothing may have come to since, a commit tells no pace.
    is_stale = told.since_ms is not None and last_ms < told.since_ms
    if not is_stale and pause + 2 * CLOCK_MS < gap <= poll + max(2 * pause, LATE_MS):
        # It missed a commit, and left about when its time to poll had run out.
        return Cause.POLL_TIMEOUT, 0.8 if every is None else 0.9
    return Cause.UNKNOWN_DEPARTURE, 0.0


def _polled_ms(member: Member, last_ms: int | None, told: Told) -> int | None:
    """When an eager member is known to have polled last, since only there its callbacks run: as it gave its
    partitions up, for the rebalance before, or for this one if a commit came once it had begun. None: not known."""
    if _keeps(member):
        return None
    began_ms = told.set_off_ms
    if last_ms is not None and began_ms is not None and last_ms >= began_ms - CLOCK_MS:
        return last_ms
    return told.since_ms


class Witnesses:
    """Several as one, in the order of their weight.

    The first that knows of the cause speaks; where it does not know when the join phase began, the first that does is
    taken for that. Everybody is asked each time: a witness may forget what lies before.
    """

    def __init__(self, witnesses: Iterable[Witness]) -> None:
        self._witnesses = tuple(witnesses)

    def told(self, group: str, generation: int, end_ms: int) -> Told | None:
        """As `Witness.told`."""
        answers = [it.told(group, generation, end_ms) for it in self._witnesses]
        known = [it for it in answers if it is not None]
        if not known:
            return None
        speaks = next((it for it in known if not it.is_timing_alone), known[0])
        if speaks.began_ms is not None:
            return speaks
        timed = next((it for it in known if it.began_ms is not None), speaks)
        return (
            speaks
            if timed is speaks
            else speaks._replace(began_ms=timed.began_ms, evidence=(*speaks.evidence, *timed.evidence))
        )
