"""What is known besides the topic: of a rebalance by a broker's own log or the Admin API, of sessions by
brokers' settings.

An `EvidenceSource` only answers what it is asked, so the mirror stays a pure function of the records and of the
answers (`RebalanceReport`). What a report states is certain. Where it saw a member ask to leave but not why
(librdkafka gives no reason: when it closes, when its poll loop stalls), report and topic are put together by
`LEAVE_RULES`: the time of leaving is known to the millisecond, so the commit gap up to it says more than the gap to
the end of the join phase.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple, Protocol

from msgspec import Struct
from msgspec.structs import replace

from agent.core.causes import DEPARTURE_CAUSES, Cause
from agent.core.inference.facts import Departure, Evidence, Inference
from agent.core.inference.parameters import PARAMETERS as P
from agent.core.inference.session_settings import SessionSetting, SessionSettings
from agent.core.protocol.states import GroupType
from agent.core.shadow.transitions import MemberLeft, Rebalanced, Transition
from agent.core.shadow.views import Member


class ReportedDeparture(NamedTuple):
    """How and when (epoch milliseconds) one member went. `cause` is None where it asked to leave and gave no reason;
    `quote` is what the source says in its words; `joined_ms` is when the member first came, None if that was not
    seen."""

    cause: Cause | None
    at_ms: int
    quote: str = ""
    joined_ms: int | None = None


class RebalanceReport(NamedTuple):
    """What a source knows of one rebalance. Times are epoch milliseconds, None where it does not know.

    `source` is the evidence's kind. `began_ms` is when the join phase began. `cause` set it off, `causes` are all, as
    far as stated; `departures` says of members by id how they went. Where the source knows what set it off but not
    why: `first_to_leave` is the member that asked to leave, or `rejoin_cause` what a member's joining again means if
    the topic shows no other cause. `triggered_ms` is when, and `quote` the words (it differs from `began_ms` where
    generations were never written); `previous_began_ms` is when the rebalance before began, which gave members their
    assignment. `evidence` is added to the event's.
    """

    source: str
    began_ms: int | None = None
    cause: Cause | None = None
    causes: tuple[Cause, ...] = ()
    departures: Mapping[str, ReportedDeparture] = {}
    quote: str = ""
    triggered_ms: int | None = None
    first_to_leave: str | None = None
    rejoin_cause: Cause | None = None
    previous_began_ms: int | None = None
    evidence: tuple[Evidence, ...] = ()

    @property
    def is_timing_alone(self) -> bool:
        """Whether it knows nothing of the cause."""
        return self.triggered_ms is None and self.cause is None and not self.departures


class EvidenceSource(Protocol):
    """Who may know more of a rebalance than the topic."""

    def rebalance_report(self, group: str, generation: int, end_ms: int) -> RebalanceReport | None:
        """What is known of the rebalance that led to `generation`, whose join phase ended at `end_ms`."""

    def group_session(self, group: str, group_type: str) -> SessionSetting | None:
        """What brokers say of the sessions of a group, where its type's records do not; None where that is not
        known."""
        return None


class CombinedEvidence(EvidenceSource):
    """Several sources as one, in the order of their weight.

    The first that knows of the cause is taken; where it does not know when the join phase began, the first that does
    is taken for that. All are asked each time: a source may forget what lies before.
    """

    def __init__(self, sources: Iterable[EvidenceSource]) -> None:
        self._sources = tuple(sources)

    def rebalance_report(self, group: str, generation: int, end_ms: int) -> RebalanceReport | None:
        """See `EvidenceSource.rebalance_report`."""
        answers = [source.rebalance_report(group, generation, end_ms) for source in self._sources]
        reports = [report for report in answers if report is not None]
        if not reports:
            return None
        best = next((report for report in reports if not report.is_timing_alone), reports[0])
        timed = next((report for report in reports if report.began_ms is not None), best)
        if best.began_ms is not None or timed is best:
            return best
        return best._replace(began_ms=timed.began_ms, evidence=(*best.evidence, *timed.evidence))

    def group_session(self, group: str, group_type: str) -> SessionSetting | None:
        """See `EvidenceSource.group_session`."""
        return next((it for source in self._sources if (it := source.group_session(group, group_type))), None)


class KnownSessions(EvidenceSource):
    """What brokers' configuration says of sessions, and nothing of any rebalance."""

    def __init__(self, of_brokers: SessionSettings) -> None:
        self.of_brokers = of_brokers
        self.of_groups: Mapping[tuple[str, str], SessionSetting] = {}
        """By name and type, those that have settings of their own. Both are replaced, and not changed, by whoever
        asks the brokers."""

    def rebalance_report(self, group: str, generation: int, end_ms: int) -> None:
        """Nothing."""

    def group_session(self, group: str, group_type: str) -> SessionSetting | None:
        """See `EvidenceSource.group_session`."""
        return self.of_groups.get((group, group_type)) or self.of_brokers.get(group_type)


SHOWN_BY_TOPIC = frozenset({Cause.SUBSCRIPTION_CHANGED, Cause.PARTITIONS_CHANGED, Cause.PROTOCOL_MIGRATED})
"""Causes that the topic itself shows, so that they are as certain as a report."""


def apply_evidence(transitions: Iterable[Transition], source: EvidenceSource) -> list[Transition]:
    """Transitions of one record, with what the source reports in place of what was inferred."""
    out: list[Transition] = []
    departures: Mapping[str, Departure] = {}
    for transition in transitions:
        match transition:
            case Rebalanced():
                transition = _with_report(transition, source)
                departures = transition.inferred.departures
            case MemberLeft(member=member, inferred=guess) if guess is not None and member.member_id in departures:
                transition = replace(transition, inferred=departures[member.member_id])
        out.append(transition)
    return out


def _with_report(rebalance: Rebalanced, source: EvidenceSource) -> Rebalanced:
    end_ms = rebalance.at.timestamp_ms - (rebalance.sync_ms or 0)
    report = source.rebalance_report(rebalance.group, rebalance.generation, end_ms)
    if report is None:
        return rebalance
    inferred, seen = rebalance.inferred, True
    if not report.is_timing_alone:
        departures = dict(inferred.departures)
        for member in rebalance.left:
            if (reported := report.departures.get(member.member_id)) is not None:
                leave = _Leave(member, reported, departures[member.member_id], report, end_ms)
                departures[member.member_id] = leave.departure()
        inferred = _inference(rebalance, report, departures)
        # Of groups without a join phase, the departures are all that is to be seen.
        seen = bool(rebalance.left) and all(member.member_id in report.departures for member in rebalance.left)
    elif report.began_ms is None:
        return rebalance
    else:
        inferred = replace(inferred, evidence=(*inferred.evidence, *report.evidence))
    if report.began_ms is None:
        return replace(rebalance, observed=seen, inferred=inferred)
    return replace(rebalance, observed=True, join_ms=max(end_ms - report.began_ms, 0), inferred=inferred)


def _inference(rebalance: Rebalanced, report: RebalanceReport, departures: Mapping[str, Departure]) -> Inference:
    """Cause and causes as reported, completed by what the topic shows."""
    before = rebalance.inferred
    kept = {cause for cause in before.causes if cause not in DEPARTURE_CAUSES and cause is not Cause.UNKNOWN}
    if report.triggered_ms is not None:
        # The log holds every joining and leaving: what else was inferred is certain, or it is not there.
        kept &= SHOWN_BY_TOPIC
    causes = {*kept, *report.causes, *(departure.cause for departure in departures.values())}
    cause, confidence = _trigger(rebalance, report, departures)
    if cause is not Cause.UNKNOWN:
        causes.add(cause)
    evidence = _evidence(before, report, departures)
    return Inference(cause, tuple(sorted(causes or {cause})), confidence, evidence, departures)


def _trigger(
    rebalance: Rebalanced, report: RebalanceReport, departures: Mapping[str, Departure]
) -> tuple[Cause, float]:
    """What set the rebalance off, and how certain that is."""
    before = rebalance.inferred
    if report.cause is not None:
        return report.cause, 1.0
    if report.first_to_leave is not None:
        if (departure := departures.get(report.first_to_leave)) is not None:
            return departure.cause, departure.confidence
        # It was never in the topic: it came and went between two generations that were written.
        return Cause.UNKNOWN_DEPARTURE, 0.0
    if report.rejoin_cause is not None:
        return _rejoin_trigger(rebalance, report, report.rejoin_cause)
    dated = [(it.departed_ms, it.member.member_id, it) for it in departures.values() if it.departed_ms is not None]
    if dated and before.cause in DEPARTURE_CAUSES and report.triggered_ms is None:
        *_, first = min(dated)
        return first.cause, first.confidence
    return before.cause, before.confidence


def _rejoin_trigger(rebalance: Rebalanced, report: RebalanceReport, otherwise: Cause) -> tuple[Cause, float]:
    """Why a member joined again that gave no reason: what the topic shows changed, or gave up, or nothing."""
    before = rebalance.inferred
    shown = [cause for cause in before.causes if cause in SHOWN_BY_TOPIC or cause is Cause.COOPERATIVE_FOLLOWUP]
    if shown:
        cause = before.cause if before.cause in shown else shown[0]
        return cause, max(before.confidence, P.shown_rejoin_confidence)
    began, triggered = report.previous_began_ms, report.triggered_ms
    soon = began is not None and triggered is not None and triggered - began <= P.cooperative_rejoin_ms
    if soon and _is_cooperative(rebalance):
        # The round that it follows was never written, or what it gave up is not to be seen in it.
        return Cause.COOPERATIVE_FOLLOWUP, P.soon_rejoin_confidence
    return otherwise, P.shown_rejoin_confidence


def _is_cooperative(rebalance: Rebalanced) -> bool:
    """Whether members keep partitions through a rebalance, by the protocol's name or by what they brought along."""
    if rebalance.group_type is GroupType.CONNECT:
        return rebalance.protocol != "default"
    return "cooperative" in (rebalance.protocol or "") or any(map(_kept, (*rebalance.joined, *rebalance.left)))


def _kept(member: Member) -> bool:
    """Whether a member kept partitions when it joined: then it takes part in rebalances without its poll loop."""
    return any((member.owned or {}).values())


def _evidence(
    before: Inference, report: RebalanceReport, departures: Mapping[str, Departure]
) -> tuple[Evidence, ...]:
    """The report first; then the rest, without gaps that only led to guesses."""
    changed = [name for name, guess in before.departures.items() if departures[name] is not guess]
    replaced = {id(before.departures[name].evidence) for name in changed}
    out: list[Evidence] = []
    if report.triggered_ms is not None:
        out.append({"kind": report.source, "at_ms": report.triggered_ms, "reason": report.quote})
    out += [departures[name].evidence for name in departures if name in changed]
    out += [evidence for evidence in before.evidence if id(evidence) not in replaced]
    return (*out, *report.evidence)


# Members that asked to leave: what the report says, with what was inferred before as `guess`.


class _Leave(Struct, frozen=True):
    member: Member
    reported: ReportedDeparture
    guess: Departure
    report: RebalanceReport
    end_ms: int

    @property
    def last_commit_ms(self) -> int | None:
        """Its last commit, as the guess has it: by the gap to the end of the join phase."""
        gap_to_end = self.guess.evidence.get("gap_ms")
        return None if gap_to_end is None else self.end_ms - gap_to_end

    @property
    def commit_interval_ms(self) -> int | None:
        """The mean time between two commits, the beginning of the generation counted as one."""
        every: int | None = self.guess.evidence.get("commits_every_ms")
        return every

    def since(self, at_ms: int | None) -> float:
        """From then to its leaving, milliseconds; endless where it is not known."""
        return float("inf") if at_ms is None else self.reported.at_ms - at_ms

    @property
    def last_poll_ms(self) -> int | None:
        """When an eager member is known to have polled last, since only there its callbacks run: as it gave its
        partitions up, for the rebalance before, or for this one if a commit came once it had begun. None: not
        known."""
        if _kept(self.member):
            return None
        last, began = self.last_commit_ms, self.report.triggered_ms
        if last is not None and began is not None and last >= began - P.log_time_tolerance_ms:
            return last
        return self.report.previous_began_ms

    def departure(self) -> Departure:
        """Why and when it left."""
        member, reported, last = self.member, self.reported, self.last_commit_ms
        evidence: Evidence = {
            "kind": self.report.source,
            "member_id": member.member_id,
            "at_ms": reported.at_ms,
            "reason": reported.quote,
        }
        if reported.cause is not None:
            return Departure(member, reported.cause, 1.0, evidence, reported.at_ms)
        evidence |= {
            "gap_ms": None if last is None else max(reported.at_ms - last, 0),
            "commits_every_ms": self.commit_interval_ms,
            "rebalance_timeout_ms": member.rebalance_timeout_ms,
        }
        found = next((found for rule in LEAVE_RULES if (found := rule(self)) is not None), None)
        cause, confidence = found or (Cause.UNKNOWN_DEPARTURE, 0.0)
        return Departure(member, cause, confidence, evidence, reported.at_ms)


_Reason = tuple[Cause, float] | None
"""What one rule makes of a member that left and gave no reason: a cause and how sure it is. No session ran out."""


def static_member_removed(leave: _Leave) -> _Reason:
    """Static members do not ask to leave; an admin client that says nothing asks for them."""
    return None if leave.member.instance_id is None else (Cause.ADMIN_REMOVED, P.static_removal_confidence)


def committed_as_it_closed(leave: _Leave) -> _Reason:
    """Clients commit as they close."""
    closed = leave.since(leave.last_commit_ms) <= P.log_time_tolerance_ms
    return (Cause.MEMBER_LEFT, P.close_confidence) if closed else None


def joined_recently(leave: _Leave) -> _Reason:
    """No time to poll can have run out that began with the client."""
    return _left_before_deadline(leave, leave.reported.joined_ms, P.close_confidence)


def polled_recently(leave: _Leave) -> _Reason:
    """Nor one that began with its last poll."""
    return _left_before_deadline(leave, leave.last_poll_ms, P.recent_poll_confidence)


def _left_before_deadline(leave: _Leave, since_ms: int | None, confidence: float) -> _Reason:
    poll = leave.member.rebalance_timeout_ms
    if poll is None or leave.since(since_ms) >= poll - P.log_time_tolerance_ms:
        return None
    return Cause.MEMBER_LEFT, confidence


def committed_recently(leave: _Leave) -> _Reason:
    """A client may commit by itself once more after its poll loop stalled, within one interval; before that it
    polled."""
    poll, gap = leave.member.rebalance_timeout_ms, leave.since(leave.last_commit_ms)
    # Whoever commits more rarely than clients do by themselves has nothing to commit, or does it by hand as it polls.
    by_itself = min(_pause_ms(leave), P.commit_interval_ms)
    if poll is None or gap >= poll - by_itself - 2 * P.log_time_tolerance_ms:
        return None
    if gap < poll - 2 * by_itself - P.log_time_tolerance_ms:
        return Cause.MEMBER_LEFT, P.recent_commit_confidence
    return Cause.MEMBER_LEFT, P.barely_recent_commit_confidence


def stalled(leave: _Leave) -> _Reason:
    """It missed a commit, and left about when its time to poll had run out."""
    poll, last, since = leave.member.rebalance_timeout_ms, leave.last_commit_ms, leave.report.previous_began_ms
    if poll is None or last is None or (since is not None and last < since):
        # From before the last rebalance, of partitions that nothing may have come to since, a commit tells no pace.
        return None
    pause = _pause_ms(leave)
    if not pause + 2 * P.log_time_tolerance_ms < leave.since(last) <= poll + max(2 * pause, P.idle_poll_ms):
        return None
    is_paced = leave.commit_interval_ms is not None
    return Cause.POLL_TIMEOUT, P.stall_confidence if is_paced else P.stall_without_cadence_confidence


def _pause_ms(leave: _Leave) -> int:
    return P.commit_interval_ms if leave.commit_interval_ms is None else leave.commit_interval_ms


LEAVE_RULES = (
    static_member_removed,
    committed_as_it_closed,
    joined_recently,
    polled_recently,
    committed_recently,
    stalled,
)
"""The first that explains a leave without a reason is told; none: how the member went is unknown."""
