"""What a witness tells stands in place of what was inferred; without one nothing changes."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from agent.core.causes import Cause
from agent.core.inference.external_evidence import (
    CombinedEvidence,
    EvidenceSource,
    RebalanceReport,
    ReportedDeparture,
)
from agent.core.shadow.cluster import ClusterMirror
from agent.core.shadow.transitions import MemberLeft, Rebalanced
from tests.unit.core.shadow import build as b
from tests.unit.core.shadow.build import Log


class Saw(EvidenceSource):
    """A witness who knows one thing of every rebalance, and notes what it was asked."""

    def __init__(self, told: RebalanceReport | None) -> None:
        self.answer = told
        self.asked: list[tuple[str, int, int]] = []

    def rebalance_report(self, group: str, generation: int, end_ms: int) -> RebalanceReport | None:
        self.asked.append((group, generation, end_ms))
        return self.answer


def rebalanced(witness: Saw) -> Rebalanced:
    log = Log().add(b.new_group())
    log.add(b.classic_group(1, b.member("m-1", {"t": [0]}), state_ms=log.now_ms + b.STEP_MS - 40))
    mirror = ClusterMirror(witness)
    transitions = [it for record in log.records for it in mirror.replay(record)]
    return next(it for it in transitions if isinstance(it, Rebalanced))


def test_a_witness_is_asked_for_the_join_phase_that_ended_before_the_sync_phase() -> None:
    witness = Saw(None)
    rebalance = rebalanced(witness)
    assert witness.asked == [(b.GROUP, 1, rebalance.at.timestamp_ms - 40)]
    assert (rebalance.observed, rebalance.join_ms) == (False, None)


@pytest.mark.parametrize(("began_before_ms", "join_ms"), [(2_500, 2_500), (-30, 0)])
def test_when_it_began_gives_the_length_of_the_join_phase(began_before_ms: int, join_ms: int) -> None:
    end_ms = rebalanced(Saw(None)).at.timestamp_ms - 40
    rebalance = rebalanced(Saw(RebalanceReport("admin_api", began_ms=end_ms - began_before_ms)))
    assert (rebalance.observed, rebalance.join_ms) == (True, join_ms)


def test_a_witness_who_did_not_see_the_beginning_observed_nothing() -> None:
    rebalance = rebalanced(Saw(RebalanceReport("admin_api")))
    assert (rebalance.observed, rebalance.join_ms) == (False, None)


# A group of two, of which one goes; what the topic alone would make of it stands in test_causes.

STAY, GO = "stay-1", "go-1"
POLL = 20_000
J, L, S, P, A, U = (
    Cause.MEMBER_JOINED,
    Cause.MEMBER_LEFT,
    Cause.SESSION_TIMEOUT,
    Cause.POLL_TIMEOUT,
    Cause.ADMIN_REMOVED,
    Cause.UNKNOWN_DEPARTURE,
)


@dataclass(frozen=True)
class Life:
    """How the member that goes had lived. Times are from the end of the join phase back; `every_ms` None: it never
    committed. The assignment that it has is from 40 s before."""

    silent_ms: int = 500
    every_ms: int | None = 1_000
    instance_id: str | None = None
    owned: bool = False
    joins: bool = False
    resubscribes: bool = False
    protocol: str = "range"


END_MS = b.T0 + 1_000_000


def replayed(life: Life, told: RebalanceReport) -> tuple[Rebalanced, MemberLeft | None]:
    """The rebalance, with a witness, and the departure."""
    kept = {"t": [0]} if life.owned else None
    goes = b.member(GO, {"t": [0]}, instance_id=life.instance_id, owned=kept, rebalance_ms=POLL, session_ms=10_000)
    stays = b.member(STAY, {"t": [1]}, rebalance_ms=POLL)
    log = Log().add(b.new_group())
    given_ms = END_MS - 40_000
    log.add(
        b.classic_group(1, goes, stays, state_ms=given_ms, protocol=life.protocol), after_ms=given_ms - log.now_ms
    )
    while life.every_ms is not None and log.now_ms + life.every_ms <= END_MS - life.silent_ms:
        log.add(b.commit("t", 0, at_ms=log.now_ms + life.every_ms), after_ms=life.every_ms)
    topics = ("t", "u") if life.resubscribes else ("t",)
    after = [b.member(STAY, {"t": [0, 1]}, topics=topics, rebalance_ms=POLL)]
    if life.joins:
        after.append(b.member("come-1", {"t": []}))
    log.add(b.classic_group(2, *after, state_ms=END_MS, protocol=life.protocol), after_ms=END_MS + 4 - log.now_ms)
    mirror = ClusterMirror(Saw(told))
    transitions = [it for record in log.records for it in mirror.replay(record)]
    rebalance = [it for it in transitions if isinstance(it, Rebalanced)][-1]
    return rebalance, next((it for it in transitions if isinstance(it, MemberLeft)), None)


def left(ms_before_end: int, cause: Cause | None = None) -> dict[str, ReportedDeparture]:
    return {GO: ReportedDeparture(cause, END_MS - ms_before_end, "its own words")}


@pytest.mark.parametrize("cause", [L, S, P, A])
def test_a_stated_reason_is_certain(cause: Cause) -> None:
    told = RebalanceReport(
        "broker_log", END_MS - 3_000, cause, (cause, J), left(2_900, cause), "words", END_MS - 3_000
    )
    rebalance, departure = replayed(Life(joins=True), told)
    assert departure is not None
    assert departure.inferred == rebalance.inferred.departures[GO]
    found = rebalance.inferred
    assert (found.cause, found.confidence, set(found.causes)) == (cause, 1.0, {cause, J})
    assert (departure.inferred.cause, departure.inferred.confidence) == (cause, 1.0)
    assert departure.inferred.departed_ms == END_MS - 2_900
    quoted = {"kind": "broker_log", "member_id": GO, "at_ms": END_MS - 2_900, "reason": "its own words"}
    assert departure.inferred.evidence == quoted
    began = {"kind": "broker_log", "at_ms": END_MS - 3_000, "reason": "words"}
    assert found.evidence == (began, quoted, {"kind": "joined", "members": 1})
    assert (rebalance.observed, rebalance.join_ms) == (True, 3_000)


# Number, why; how it lived; when it left and when it is known to have polled, before the end of the join phase; the
# cause, and how certain.
LEAVES = [
    (1, "it commits as it closes", Life(silent_ms=2_000), 2_000, None, L, 0.97),
    (
        2,
        "and the others take long to rejoin: the gap to the end would be a stall's",
        Life(20_000),
        20_000,
        None,
        L,
        0.97,
    ),
    (3, "it missed commits until its time to poll ran out", Life(23_000), 3_000, None, P, 0.9),
    (4, "a last commit by itself after the last poll", Life(21_500), 2_000, None, P, 0.9),
    (5, "silent for less than the time between two polls", Life(9_000), 1_000, None, L, 0.95),
    (6, "but hardly less", Life(18_000, every_ms=2_000), 2_000, None, L, 0.8),
    (7, "silent for longer than a stall lasts", Life(39_000, every_ms=900), 1_000, None, U, 0.0),
    (8, "a rare commit tells no stall from a pause", Life(20_000, every_ms=16_000), 8_500, None, U, 0.0),
    (9, "it never committed", Life(every_ms=None), 2_000, None, U, 0.0),
    (
        10,
        "but polled, when it gave its partitions up for this assignment",
        Life(every_ms=None),
        2_000,
        21_000,
        L,
        0.9,
    ),
    (11, "or too long ago to tell", Life(every_ms=None), 2_000, 22_000, U, 0.0),
    (12, "or it kept them, for which no poll is needed", Life(every_ms=None, owned=True), 2_000, 21_000, U, 0.0),
    (13, "static members do not ask to leave", Life(instance_id="i"), 500, None, A, 0.9),
]


@pytest.mark.parametrize(
    ("number", "why", "life", "left_ms", "polled_ms", "cause", "confidence"),
    LEAVES,
    ids=[f"{it[0]} {it[1]}" for it in LEAVES],
)
def test_a_leaving_without_a_reason(number, why, life, left_ms, polled_ms, cause, confidence) -> None:
    since_ms = None if polled_ms is None else END_MS - polled_ms
    began_ms = END_MS - left_ms
    told = RebalanceReport(
        "broker_log",
        began_ms,
        None,
        (),
        left(left_ms),
        "words",
        began_ms,
        first_to_leave=GO,
        previous_began_ms=since_ms,
    )
    rebalance, departure = replayed(life, told)
    assert departure is not None
    assert departure.inferred is not None
    assert (departure.inferred.cause, departure.inferred.confidence) == (cause, confidence)
    found = rebalance.inferred
    assert (found.cause, found.confidence, found.causes) == (cause, confidence, (cause,))
    evidence = departure.inferred.evidence
    assert (evidence["kind"], evidence["at_ms"], evidence["rebalance_timeout_ms"]) == ("broker_log", began_ms, POLL)
    assert (evidence["gap_ms"] is None) == (life.every_ms is None)


@pytest.mark.parametrize(("since_ms", "cause"), [(40_000, P), (22_000, U)])
def test_a_commit_from_before_the_last_rebalance_tells_no_pace(since_ms: int, cause: Cause) -> None:
    """Nothing may have come to its partitions since; it kept them, so that it need not have polled either."""
    began_ms = END_MS - 3_000
    told = RebalanceReport(
        "broker_log",
        began_ms,
        None,
        (),
        left(3_000),
        "words",
        began_ms,
        first_to_leave=GO,
        previous_began_ms=END_MS - since_ms,
    )
    assert replayed(Life(23_000, owned=True), told)[0].inferred.cause is cause


def test_a_member_that_gave_its_partitions_up_was_polling() -> None:
    """It left while the group waited for another: 19 s after its last commit, but that came with the rebalance."""
    told = RebalanceReport("broker_log", END_MS - 20_000, J, (J,), left(500), "words", END_MS - 20_000)
    departure = replayed(Life(20_000, joins=True), told)[1]
    assert departure is not None
    assert departure.inferred is not None
    assert (departure.inferred.cause, departure.inferred.confidence) == (L, 0.9)


@pytest.mark.parametrize(("lived_ms", "cause"), [(POLL - 300, L), (POLL - 200, U)])
def test_a_member_that_was_there_for_less_than_its_time_to_poll_closed(lived_ms: int, cause: Cause) -> None:
    gone = ReportedDeparture(None, END_MS - 100, "its own words", END_MS - 100 - lived_ms)
    told = RebalanceReport("broker_log", END_MS - 100, None, (), {GO: gone}, "words", END_MS - 100, first_to_leave=GO)
    assert replayed(Life(every_ms=None, owned=True), told)[0].inferred.cause is cause


def test_a_member_that_never_reached_the_topic_set_it_off() -> None:
    told = RebalanceReport(
        "broker_log", END_MS - 50, None, (), left(500, S), "words", END_MS - 50, first_to_leave="brief-1"
    )
    inferred = replayed(Life(), told)[0].inferred
    assert (inferred.cause, inferred.confidence, set(inferred.causes)) == (U, 0.0, {U, S})


LEADER, RESUBSCRIBED = Cause.LEADER_REJOINED, Cause.SUBSCRIPTION_CHANGED
FOLLOWUP = Cause.COOPERATIVE_FOLLOWUP
# 1-6: a member joined again without a reason. What the topic shows; how long after the round before; what it means.
REJOINS = [
    (1, Life(resubscribes=True), 1_000, RESUBSCRIBED, 1.0),
    (2, Life(), 1_000, LEADER, 0.9),
    (3, Life(protocol="cooperative-sticky"), 1_000, FOLLOWUP, 0.8),
    (4, Life(protocol="cooperative-sticky"), 30_000, LEADER, 0.9),
    (5, Life(protocol="mine", owned=True), 1_000, FOLLOWUP, 0.8),
    (6, Life(protocol="mine", owned=True), None, LEADER, 0.9),
]


@pytest.mark.parametrize(("number", "life", "after_ms", "cause", "least"), REJOINS)
def test_a_joining_again_without_a_reason(number, life, after_ms, cause, least) -> None:
    began_ms = END_MS - 700
    since_ms = None if after_ms is None else began_ms - after_ms
    told = RebalanceReport(
        "broker_log", began_ms, None, (), left(500, S), "w", began_ms, rejoin_cause=LEADER, previous_began_ms=since_ms
    )
    inferred = replayed(life, told)[0].inferred
    assert inferred.cause is cause
    assert 0.8 <= inferred.confidence <= 1
    assert inferred.confidence >= least - 0.1
    assert set(inferred.causes) == {cause, S}


@pytest.mark.parametrize(("protocol", "cause"), [("compatible", FOLLOWUP), ("default", LEADER)])
def test_connects_rounds_follow_by_its_protocol(protocol: str, cause: Cause) -> None:
    log = Log().add(b.new_group())
    for generation in (1, 2):
        log.add(b.classic_group(generation, b.worker("w-1", {"c": [0]}), protocol_type="connect", protocol=protocol))
    told = RebalanceReport(
        "broker_log",
        log.now_ms,
        None,
        (),
        {},
        "",
        log.now_ms,
        rejoin_cause=LEADER,
        previous_began_ms=log.now_ms - 1_000,
    )
    mirror = ClusterMirror(Saw(told))
    last = [it for record in log.records for it in mirror.replay(record) if isinstance(it, Rebalanced)][-1]
    assert last.inferred.cause is cause


def test_what_the_log_does_not_name_stays_as_inferred() -> None:
    """It began for a reason that is no cause, and says nothing of the member that went."""
    told = RebalanceReport("broker_log", END_MS - 500, None, (), {}, "Freshly-loaded group", END_MS - 500)
    rebalance, departure = replayed(Life(), told)
    assert departure is not None
    assert (rebalance.inferred.cause, rebalance.observed) == (L, True)
    assert rebalance.inferred.departures[GO] == departure.inferred
    assert departure.inferred.evidence["kind"] == "commit_gap"


def test_unknown_is_an_answer() -> None:
    log = Log()
    for generation in (1, 3):
        log.add(b.classic_group(generation, b.member("m-1", {"t": [0]})))
    mirror = ClusterMirror(
        Saw(RebalanceReport("broker_log", log.now_ms, None, (), {}, "Freshly-loaded group", log.now_ms))
    )
    last = [it for record in log.records for it in mirror.replay(record) if isinstance(it, Rebalanced)][-1]
    assert (last.inferred.cause, last.inferred.causes) == (Cause.UNKNOWN, (Cause.UNKNOWN,))


def test_groups_without_join_phases_are_seen_by_their_departures() -> None:
    """The log has no line about the epoch, but one about the member."""
    told = RebalanceReport("broker_log", departures=left(100, S))
    rebalance, departure = replayed(Life(), told)
    assert departure is not None
    assert (rebalance.inferred.cause, rebalance.inferred.confidence) == (S, 1.0)
    assert (rebalance.observed, rebalance.join_ms) == (True, None)
    # Another member's line is none about this one.
    rebalance, _ = replayed(Life(), RebalanceReport("broker_log", departures={STAY: ReportedDeparture(S, END_MS)}))
    assert (rebalance.inferred.cause, rebalance.observed) == (L, False)


@pytest.mark.parametrize("stated", [None, S])
def test_members_of_share_groups(stated: Cause | None) -> None:
    """They neither commit nor have a time to poll."""
    log = Log().add(b.s_member("m-1"), b.s_epoch(2)).add(b.tombstone(10, "m-1"), b.s_epoch(3))
    mirror = ClusterMirror(
        Saw(RebalanceReport("broker_log", departures={"m-1": ReportedDeparture(stated, log.now_ms)}))
    )
    transitions = [it for record in log.records for it in mirror.replay(record)]
    departure = next(it for it in transitions if isinstance(it, MemberLeft))
    assert departure.inferred is not None
    expected = (U, 0.0) if stated is None else (S, 1.0)
    assert (departure.inferred.cause, departure.inferred.confidence) == expected


def test_what_a_witness_goes_by_is_added_to_the_evidence() -> None:
    seen = {"kind": "admin_api", "began_ms": 1}
    plain, told = rebalanced(Saw(None)), rebalanced(Saw(RebalanceReport("admin_api", began_ms=1, evidence=(seen,))))
    assert told.inferred.evidence == (*plain.inferred.evidence, seen)


NOTHING, WHEN, WHY = (
    None,
    RebalanceReport("a", began_ms=7, evidence=({"kind": "a"},)),
    RebalanceReport("b", cause=Cause.POLL_TIMEOUT),
)
BOTH = RebalanceReport("c", began_ms=9, cause=Cause.MEMBER_LEFT)


@pytest.mark.parametrize(
    ("answers", "told"),
    [
        ([], None),  # 1: nobody
        ([NOTHING, NOTHING], None),  # 2: nobody was there
        ([NOTHING, WHEN], WHEN),  # 3
        ([WHEN, WHY], WHY._replace(began_ms=7, evidence=({"kind": "a"},))),  # 4: each knows one half
        ([WHY, BOTH, WHEN], WHY._replace(began_ms=9)),  # 5: the first counts, in either half
        ([WHEN, BOTH], BOTH),  # 6: who knows the cause knows best when
        ([RebalanceReport("d"), NOTHING], RebalanceReport("d")),  # 7: someone was there and knows nothing more
    ],
)
def test_several_witnesses(answers: list[RebalanceReport | None], told: RebalanceReport | None) -> None:
    witnesses = [Saw(answer) for answer in answers]
    assert CombinedEvidence(witnesses).rebalance_report("g", 3, 100) == told
    assert all(witness.asked == [("g", 3, 100)] for witness in witnesses)
