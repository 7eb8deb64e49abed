"""Why a rebalance happened: each row replays a group with given timeouts and a given pace of commits."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from agent.core.inference.cause_inference import infer_epoch_departures, infer_kip848_departure
from agent.core.inference.facts import NO_COMMITS, CommitActivity, Inference
from agent.core.inference.session_settings import SessionSetting
from agent.core.shadow import classic
from agent.core.shadow.transitions import MemberLeft, Rebalanced
from agent.core.shadow.views import Member
from tests.unit.core.shadow import build as b
from tests.unit.core.shadow.build import Log

S, R = 10_000, 300_000
STAY, GO = "stay-1", "go-1"


@dataclass(frozen=True)
class Life:
    """A member that goes: how often it commits (None: never), how long its silence is, and what it may hold.

    `gap_ms` runs from its last commit to the end of the join phase; `revoked_ms` before that end the member that
    stays commits as it gives its partition up.
    """

    every_ms: int | None = 1_000
    gap_ms: int = 500
    commits: int = 20
    session_ms: int = S
    rebalance_ms: int = R
    instance_id: str | None = None
    revoked_ms: int = 200
    joins: bool = False
    stays: bool = True


def departs(life: Life) -> tuple[Rebalanced, MemberLeft]:
    """Replay a group of two, one of which goes (and perhaps another comes); the last rebalance and the departure."""
    goes = b.member(
        GO, {"t": [0]}, instance_id=life.instance_id, session_ms=life.session_ms, rebalance_ms=life.rebalance_ms
    )
    stays = b.member(STAY, {"t": [1]}, session_ms=life.session_ms, rebalance_ms=life.rebalance_ms)
    log = Log().add(b.new_group())
    log.add(b.classic_group(1, goes, *([stays] if life.stays else []), state_ms=log.now_ms + b.STEP_MS))
    for _ in range(life.commits if life.every_ms is not None else 0):
        assert life.every_ms is not None
        log.add(b.commit("t", 0, at_ms=log.now_ms + life.every_ms), after_ms=life.every_ms)
    end_ms = log.now_ms + life.gap_ms
    if life.stays:
        log.add(b.commit("t", 1, at_ms=end_ms - life.revoked_ms), after_ms=life.gap_ms - life.revoked_ms)
    left = [b.member(STAY, {"t": [0, 1]}, session_ms=life.session_ms)] if life.stays else []
    if life.joins:
        left = [*left, b.member("come-1", {"t": [] if life.stays else [0]}, session_ms=life.session_ms)]
    log.add(b.classic_group(2, *left, state_ms=end_ms), after_ms=end_ms - log.now_ms + 5)
    transitions = log.replayed()[1]
    rebalance = [it for it in transitions if isinstance(it, Rebalanced)][-1]
    departure = next(it for it in transitions if isinstance(it, MemberLeft))
    return rebalance, departure


# Number, why, how it lived and went, its cause, the rebalance's cause.
DEPARTURES = [
    (1, "it committed as it closed", Life(gap_ms=300), "member_left", "member_left"),
    (2, "the others took a heartbeat to notice", Life(gap_ms=3_200, revoked_ms=100), "member_left", "member_left"),
    (3, "a commit renews the session: 6.5 s is no timeout of 10", Life(gap_ms=6_500), "member_left", "member_left"),
    (24, "but not one of a transaction: then it runs from the last heartbeat", Life(gap_ms=9_000), "session_timeout",
     "session_timeout"),
    (4, "silent for the session timeout, then the others noticed", Life(gap_ms=10_800), "session_timeout", None),
    (5, "and no later than a commit and a heartbeat after it", Life(gap_ms=14_100), "session_timeout", None),
    (6, "silent for far longer than that: idle before it went", Life(gap_ms=60_000), "unknown_departure", None),
    (7, "its poll loop stalled", Life(gap_ms=30_400, rebalance_ms=30_000), "poll_timeout", None),
    (8, "auto-commit lags behind poll", Life(gap_ms=29_200, rebalance_ms=30_000), "poll_timeout", None),
    (9, "a poll timeout below the session timeout", Life(gap_ms=6_300, rebalance_ms=6_000), "poll_timeout", None),
    (10, "equal timeouts look alike, the more the longer it took", Life(None, gap_ms=10_500, rebalance_ms=S),
     "unknown_departure", None),
    (11, "equal timeouts, but it said goodbye", Life(gap_ms=400, rebalance_ms=S), "member_left", "member_left"),
    (12, "it never committed, and was there for long", Life(None, gap_ms=40_000), "unknown_departure", None),
    (13, "it never committed, but no timeout had time", Life(None, gap_ms=4_000), "member_left", "member_left"),
    (14, "commits every 40 s: a silence of 6 s is nothing, but no session ran out", Life(40_000, 6_000, 4),
     "member_left", None),
    (15, "a static member that was removed, and had not just committed", Life(5_000, 4_500, 6, instance_id="I"),
     "admin_removed", None),
    (25, "one that was told to say goodbye as it closes (KIP-1092), which commits",
     Life(gap_ms=20, revoked_ms=5, instance_id="I"), "member_left", None),
    (16, "a static member that died", Life(gap_ms=11_000, instance_id="I"), "session_timeout", "session_timeout"),
    (21, "a static member, and the others took long to notice", Life(gap_ms=19_000, instance_id="I"),
     "session_timeout", "session_timeout"),
    (17, "the last member closed: nothing to wait for", Life(gap_ms=20, stays=False), "member_left", "member_left"),
    (18, "the last member died", Life(gap_ms=S, stays=False), "session_timeout", "session_timeout"),
    (19, "commits every 30 s, gone to the moment as its session ran out: Streams, which says no goodbye",
     Life(30_000, S + 2, 2, stays=False), "session_timeout", "session_timeout"),
    (20, "commits every 30 s, and it went a heartbeat later: or it closed, with nothing to commit",
     Life(30_000, S + 900, 2, stays=False), "unknown_departure", "unknown_departure"),
    (22, "commits by itself once in 5 s; a stall is longer than a heartbeat after the session", Life(5_000, 15_500, 6,
     rebalance_ms=16_000, stays=False), "poll_timeout", "poll_timeout"),
    (23, "the timeouts are nearer than it commits; but Java commits as it polls, and its limit had not passed",
     Life(5_000, 12_500, 6, rebalance_ms=13_000, stays=False), "session_timeout", "session_timeout"),
]  # fmt: skip


@pytest.mark.parametrize(("number", "why", "life", "departure", "cause"), DEPARTURES)
def test_how_a_member_went(number: int, why: str, life: Life, departure: str, cause: str | None) -> None:
    rebalance, left = departs(life)
    assert left.inferred is not None
    assert left.inferred.cause == departure, (why, left.inferred.evidence)
    assert rebalance.inferred.cause == (cause or departure), why
    assert rebalance.inferred.causes == (departure,)
    assert (left.inferred.confidence == 0.0) == (departure == "unknown_departure")
    assert left.inferred.evidence["gap_ms"] == (None if life.every_ms is None else life.gap_ms)


def test_who_commits_as_records_come_may_close_after_a_long_silence() -> None:
    """One in seven waits for longer than twice as long as it usually does."""
    for every_ms, gap_ms, is_sure in ((5_000, 48_000, True), (30_000, 60_000, False), (40_000, 50_000, False)):
        told = departs(Life(every_ms, gap_ms, 6, session_ms=45_000))[1].inferred
        assert told is not None
        assert (told.cause == "session_timeout" and told.confidence >= 0.8) is is_sure, (every_ms, told.confidence)


@pytest.mark.parametrize("library", ["java", "librdkafka", "unknown"])
def test_so_it_may_in_a_kip848_group(library: str) -> None:
    member = Member("a", "a", "/10.0.0.1", rebalance_timeout_ms=R, client_library=library, assignment={"t": (0,)})
    for every_ms, gap_ms, is_sure in ((5_000, 44_000, True), (30_000, 42_000, False)):
        activity = CommitActivity(b.T0, every_ms)
        told = infer_kip848_departure(member, activity, b.T0 + gap_ms, b.T0 - 600_000, session=SessionSetting())
        assert (told.cause == "session_timeout" and told.confidence >= 0.8) is is_sure, (every_ms, told.confidence)


@pytest.mark.parametrize(("deleted", "cause"), [(True, "poll_timeout"), (False, "member_left")])
def test_commits_that_are_tried_again_for_a_deleted_topic_are_no_polls(*, deleted: bool, cause: str) -> None:
    """Java's clients commit all that they have until all is taken, as what is of a deleted topic never is."""
    log = Log().add(b.new_group())
    goes = b.member(GO, {"t": [0], "u": [0]}, topics=["t", "u"], session_ms=S, rebalance_ms=15_000)
    log.add(b.classic_group(1, goes, state_ms=log.now_ms + b.STEP_MS), b.commit("u", 0, at_ms=log.now_ms))
    for second in range(10):
        log.add(b.commit("t", 0, second, at_ms=log.now_ms + 1_000))
    if deleted:
        log.add(b.uncommit("u", 0), after_ms=10)
    for _ in range(150):
        log.add(b.commit("t", 0, 10, at_ms=log.now_ms + 100), after_ms=100)
    log.add(b.classic_group(2, state_ms=log.now_ms + 90), after_ms=90)
    assert last_rebalance(log).inferred.cause == cause


# Number, why, how it lived and went, the rebalance's cause, all causes.
FIRST = [
    (1, "a new one came, and the dead one's session was waited for", Life(gap_ms=S, revoked_ms=2_000, joins=True),
     "member_joined", ("member_joined", "session_timeout")),
    (2, "the session ran out, and a new one came into that", Life(gap_ms=S + 1_500, revoked_ms=10, joins=True),
     "session_timeout", ("member_joined", "session_timeout")),
    (3, "a restart: it went, the others noticed, it came back", Life(gap_ms=2_500, revoked_ms=10, joins=True),
     "member_left", ("member_joined", "member_left")),
    (4, "a new one came first, then the old one went", Life(gap_ms=400, revoked_ms=2_000, joins=True),
     "member_joined", ("member_joined", "member_left")),
    (7, "nothing is known of the one that went, but that someone came",
     Life(None, gap_ms=40_000, joins=True), "member_joined", ("member_joined", "unknown_departure")),
    (8, "the last to be waited for: it left as the join phase ended", Life(gap_ms=100, revoked_ms=2_500, joins=True),
     "member_joined", ("member_joined", "member_left")),
    (5, "nobody stayed: had the old one gone first, the group would have been empty in between",
     Life(gap_ms=400, joins=True, stays=False), "member_joined", ("member_joined", "member_left")),
]  # fmt: skip


@pytest.mark.parametrize(("number", "why", "life", "cause", "causes"), FIRST)
def test_what_came_first(number: int, why: str, life: Life, cause: str, causes: tuple[str, ...]) -> None:
    rebalance, _ = departs(life)
    assert (rebalance.inferred.cause, rebalance.inferred.causes) == (cause, causes), why


WEEK_MS = 7 * 86_400_000


def after_an_idle_week(gap_ms: int, *, static: bool = False) -> Rebalanced:
    """Two commit each 30 s, 20 times, behind a week in which nothing came; one goes, or comes back if static."""

    def member(name: str, *held: int, instance_id: str | None = None) -> b.classic.MemberMetadata:
        return b.member(name, {"t": held}, instance_id=instance_id, session_ms=S, rebalance_ms=30_000)

    goes = member(GO, 0, instance_id="i" if static else None)
    log = Log().add(b.new_group())
    log.add(b.classic_group(1, goes, member(STAY, 1), state_ms=log.now_ms + b.STEP_MS))
    log.now_ms += WEEK_MS
    for _ in range(20):
        log.add(*(b.commit("t", it, at_ms=log.now_ms + 30_000) for it in (0, 1)), after_ms=30_000)
    end_ms = log.now_ms + gap_ms
    log.add(b.commit("t", 1, at_ms=end_ms - 40), after_ms=gap_ms - 40)
    left = [member("go-2", 0, instance_id="i"), member(STAY, 1)] if static else [member(STAY, 0, 1)]
    return last_rebalance(log.add(b.classic_group(2, *left, state_ms=end_ms), after_ms=43))


# Number, why, its silence, its cause; or of what is not told: its candidates.
UNPACED = [
    (1, "it committed as it closed, at any pace", 50, "member_left", None),
    (2, "its session began with the commit, at any pace", 10_060, "session_timeout", None),
    (
        3,
        "its poll limit is over; a session too, if no commit was due, or it closed",
        30_900,
        None,
        ["member_left", "poll_timeout", "session_timeout"],
    ),
    (4, "silent for some other reason, if it commits each 5 s", 25_000, None, ["member_left", "session_timeout"]),
]


@pytest.mark.parametrize(("number", "why", "gap_ms", "cause", "candidates"), UNPACED)
def test_idle_days_tell_no_pace(
    number: int, why: str, gap_ms: int, cause: str | None, candidates: list[str] | None
) -> None:
    told = after_an_idle_week(gap_ms)
    assert told.inferred.departures[GO].cause == (cause or "unknown_departure")
    assert told.inferred.cause == (cause or "unknown_departure")
    assert told.inferred.causes == (cause or "unknown_departure",)
    (gap,) = told.inferred.evidence
    assert gap["commits_every_ms"] is None
    assert gap.get("candidates") == candidates


def after_a_restart_of_a_quiet_group(lasted_ms: int, *, is_new: bool, works: bool) -> MemberLeft:
    """Two commit each second, then one no more, and the other only if it `works`; one is restarted, and `lasted_ms`
    after its generation one goes: the new one, which is back, or the other one."""

    def member(name: str, *held: int) -> b.classic.MemberMetadata:
        return b.member(name, {"t": held}, session_ms=S)

    def commits(*partitions: int, times: int) -> None:
        for _ in range(times):
            log.add(*(b.commit("t", it, at_ms=log.now_ms + 1_000) for it in partitions), after_ms=1_000)

    log = Log().add(b.new_group())
    log.add(b.classic_group(1, member("a-1", 0), member("b-1", 1), state_ms=log.now_ms + b.STEP_MS))
    commits(0, 1, times=20)
    commits(*([0] if works else []), times=20)
    log.add(b.classic_group(2, member("a-2", 0), member("b-1", 1), state_ms=log.now_ms + 20_000), after_ms=20_005)
    end_ms = log.now_ms + lasted_ms
    commits(*([int(is_new)] if works else []), times=lasted_ms // 1_000 if works else 0)
    left = [member("a-3", 0), member("b-1", 1)] if is_new else [member("a-2", 0, 1)]
    log.add(b.classic_group(3, *left, state_ms=end_ms), after_ms=end_ms + 5 - log.now_ms)
    return [it for it in log.replayed()[1] if isinstance(it, MemberLeft)][-1]


@pytest.mark.parametrize(
    ("is_new", "lasted_ms"), [(True, S + 10), (True, S + 2_000), (False, S + 10), (False, S + 2_000)]
)
def test_where_nothing_comes_to_the_topics_silence_is_no_death(*, is_new: bool, lasted_ms: int) -> None:
    """Heartbeats in step make generations last a session timeout; and who rejoined after a silence had lived."""
    told = after_a_restart_of_a_quiet_group(lasted_ms, is_new=is_new, works=False).inferred
    assert told is not None
    assert told.cause == "unknown_departure" or told.confidence < 0.6, (told.cause, told.confidence)


@pytest.mark.parametrize(
    ("is_new", "lasted_ms"), [(True, S + 2_000), (False, S + 10), (False, S + 1_000), (False, S + 2_000)]
)
def test_where_others_commit_it_is(*, is_new: bool, lasted_ms: int) -> None:
    told = after_a_restart_of_a_quiet_group(lasted_ms, is_new=is_new, works=True).inferred
    assert told is not None
    assert (told.cause, told.confidence > 0.8) == ("session_timeout", True), told.confidence


def test_a_static_member_of_unknown_pace_that_was_replaced() -> None:
    told = after_an_idle_week(12_000, static=True).inferred
    assert (told.cause, told.causes, told.confidence) == ("session_timeout", ("session_timeout",), 0.88)


def last_rebalance(log: Log) -> Rebalanced:
    return [it for it in log.replayed()[1] if isinstance(it, Rebalanced)][-1]


def test_a_subscription_changed() -> None:
    log = Log().add(b.classic_group(1, b.member("a-1", {"t": [0]}, topics=["t"])))
    log.add(b.classic_group(2, b.member("a-1", {"t": [0]}, topics=["t", "u"])))
    inferred = last_rebalance(log).inferred
    assert inferred.causes == ("subscription_changed",)
    assert inferred.evidence[0]["added"] == ["u"]


def test_partitions_were_added() -> None:
    log = Log().add(b.classic_group(1, b.member("a-1", {"t": [0, 1]})))
    log.add(b.classic_group(2, b.member("a-1", {"t": [0, 1, 2]})))
    inferred = last_rebalance(log).inferred
    assert inferred.causes == ("partitions_changed",)
    assert inferred.evidence[0]["topics"] == {"t": [2, 3]}


# Number, why, what a member of `t` and `u` had, and what it has then.
MADE_OR_DELETED = [
    (1, "u was deleted", {"t": [0], "u": [0, 1]}, {"t": [0]}, {"u": [2, 0]}),
    (2, "it was the only one", {"u": [0, 1]}, {}, {"u": [2, 0]}),
    (3, "u was made, after its consumer", {"t": [0]}, {"t": [0], "u": [0, 1, 2]}, {"u": [0, 3]}),
    (4, "u was deleted, and made anew with fewer", {"t": [0], "u": [0, 1]}, {"t": [0], "u": [0]}, {"u": [2, 1]}),
]


@pytest.mark.parametrize(("number", "why", "before", "after", "topics"), MADE_OR_DELETED)
def test_a_topic_was_made_or_deleted(
    number: int, why: str, before: b.Parts, after: b.Parts, topics: dict[str, list[int]]
) -> None:
    log = Log().add(b.classic_group(1, b.member("a-1", before, topics=["t", "u"])))
    log.add(b.classic_group(2, b.member("a-1", after, topics=["t", "u"])))
    inferred = last_rebalance(log).inferred
    assert (inferred.cause, inferred.causes) == ("partitions_changed", ("partitions_changed",)), why
    assert inferred.evidence == ({"kind": "partitions", "topics": topics},)


def cooperative_rounds(*, deleted: bool) -> list[Rebalanced]:
    """Nobody comes or goes: of two topics nobody gets the second any more, the first grows, and there is the second
    again; after the first generation each of them."""
    log = Log().add(b.classic_group(1, b.member("a-1", {"t": [0], "u": [0]}, topics=["t", "u"])))
    for topic in ("t", "u"):
        log.add(b.commit(topic, 0, at_ms=log.now_ms))
    if deleted:
        log.add(b.uncommit("u", 0))
    for generation, t, u in ((2, [0], []), (3, [0], []), (4, [0, 1], []), (5, [0, 1], [0])):
        kept = b.member("a-1", {"t": t, "u": u}, topics=["t", "u"], owned={"t": [0]})
        log.add(b.classic_group(generation, kept, state_ms=log.now_ms + 60_000), after_ms=60_000)
    return [it for it in log.replayed()[1] if isinstance(it, Rebalanced)][1:]


def test_a_cooperative_group_whose_topic_was_deleted() -> None:
    """The members give up what they had of it, for which a round follows. No later one does; and made anew, the topic
    has not been stopped for all that time."""
    rounds = cooperative_rounds(deleted=True)
    changed, followup = "partitions_changed", "cooperative_followup"
    assert [it.inferred.cause for it in rounds] == [changed, followup, changed, changed]
    assert rounds[-1].stopped_partition_ms == 0


def test_a_cooperative_group_whose_only_topic_was_deleted() -> None:
    """All that it had committed is gone; that it commits was seen when `b-1` came."""
    log = Log().add(b.classic_group(1, b.member("a-1", {"u": [0]}, topics=["u"], owned={})))
    for _ in range(10):
        log.add(b.commit("u", 0, at_ms=log.now_ms))
    a_has, a_had, idle = (
        b.member(name, held, topics=["u"], owned=owned)
        for name, held, owned in (("a-1", {"u": [0]}, {"u": [0]}), ("a-1", {}, {"u": [0]}), ("b-1", {}, {}))
    )
    log.add(b.classic_group(2, a_has, idle)).add(b.uncommit("u", 0))
    for generation, held in ((3, a_had), (4, a_had), (5, a_had), (6, a_has)):
        log.add(b.classic_group(generation, held, idle, state_ms=log.now_ms + 60_000), after_ms=60_000)
    *_, third, fourth, fifth, sixth = [it for it in log.replayed()[1] if isinstance(it, Rebalanced)]
    told = [it.inferred.cause for it in (third, fourth, fifth, sixth)]
    assert told == ["partitions_changed", "cooperative_followup", "leader_rejoined", "partitions_changed"]
    assert sixth.stopped_partition_ms == 0


def test_of_a_cooperative_group_that_commits_nothing_no_topic_is_said_to_be_deleted() -> None:
    """A round may have taken it back."""
    log = Log().add(b.classic_group(1, b.member("a-1", {"t": [0], "u": [0]}, topics=["t", "u"])))
    log.add(b.classic_group(2, b.member("a-1", {"t": [0]}, topics=["t", "u"], owned={"t": [0], "u": [0]})))
    assert last_rebalance(log).inferred.cause == "leader_rejoined"


def test_a_cooperative_group_that_gives_nobody_a_topic_that_is_committed() -> None:
    rounds = cooperative_rounds(deleted=False)
    assert [it.inferred.cause for it in rounds] == ["leader_rejoined", *["cooperative_followup"] * 3]


def test_a_cooperative_round_that_follows() -> None:
    """Round 1 takes partition 1 back and gives it to nobody; round 2 gives it to the new member."""
    first = b.member("a-1", {"t": [0, 1]})
    log = Log().add(b.classic_group(1, first, protocol="cooperative-sticky"))
    kept = b.member("a-1", {"t": [0]}, owned={"t": [0, 1]})
    log.add(b.classic_group(2, kept, b.member("b-1"), protocol="cooperative-sticky"))
    kept = b.member("a-1", {"t": [0]}, owned={"t": [0]})
    log.add(b.classic_group(3, kept, b.member("b-1", {"t": [1]}), protocol="cooperative-sticky"), after_ms=400)
    joined, followup = [it for it in log.replayed()[1] if isinstance(it, Rebalanced)][1:]
    assert joined.inferred.causes == ("member_joined",)
    assert followup.inferred.causes == ("cooperative_followup",)
    assert (joined.stopped_partition_ms, followup.stopped_partition_ms) == (0, 400)


def test_a_new_member_comes_into_a_cooperative_round() -> None:
    """The round follows at once; who comes meanwhile did not set it off."""
    log = Log().add(b.classic_group(1, b.member("a-1", {"t": [0, 1]}), protocol="cooperative-sticky"))
    kept = b.member("a-1", {"t": [0]}, owned={"t": [0, 1]})
    log.add(b.classic_group(2, kept, b.member("b-1"), protocol="cooperative-sticky"))
    kept = b.member("a-1", {"t": [0]}, owned={"t": [0]})
    third = (kept, b.member("b-1", {"t": [1]}), b.member("c-1"))
    log.add(b.classic_group(3, *third, protocol="cooperative-sticky", state_ms=log.now_ms + b.STEP_MS))
    inferred = last_rebalance(log).inferred
    assert (inferred.cause, inferred.causes) == ("cooperative_followup", ("cooperative_followup", "member_joined"))


@pytest.mark.parametrize(("given_up", "cause"), [(2, "cooperative_followup"), (300, "member_left")])
def test_a_member_leaves_as_a_cooperative_round_is_due(given_up: int, cause: str) -> None:
    """`c-1` says goodbye 100 ms after the generation began; `a-1` commits what it has to give up before that, or only
    when it has done with what it polled."""
    log = Log().add(b.classic_group(1, b.member("a-1", {"t": [0, 1]}), b.member("c-1", {"t": [2]})))
    log.add(b.commit("t", 1, at_ms=log.now_ms))
    kept, stays = b.member("a-1", {"t": [0]}, owned={"t": [0, 1]}), b.member("c-1", {"t": [2]}, owned={"t": [2]})
    log.add(b.classic_group(2, kept, stays, b.member("b-1"), state_ms=log.now_ms + b.STEP_MS))
    began_ms = log.now_ms
    for at_ms, partition in sorted([(given_up, 1), (100, 2)]):
        at_ms += began_ms
        log.add(b.commit("t", partition, at_ms=at_ms), after_ms=at_ms - log.now_ms)
    last = began_ms + 1_500 - log.now_ms
    kept = b.member("a-1", {"t": [0, 2]}, owned={"t": [0]})
    log.add(b.classic_group(3, kept, b.member("b-1", {"t": [1]}), state_ms=began_ms + 1_500), after_ms=last)
    assert last_rebalance(log).inferred.cause == cause


def test_those_who_stay_never_commit() -> None:
    """One went with a goodbye and one came; no commit of the others tells when the rebalance began."""
    stays = b.member("stay-1", {"t": [1]}, session_ms=S)
    log = Log().add(b.classic_group(1, stays, b.member("go-1", {"t": [0]}, session_ms=S), state_ms=b.T0 + b.STEP_MS))
    log.add(b.commit("t", 0, at_ms=log.now_ms + b.STEP_MS))
    after = [b.member("stay-1", {"t": [1]}, session_ms=S), b.member("come-1", {"t": [0]}, session_ms=S)]
    log.add(b.classic_group(2, *after, state_ms=log.now_ms + 2_000), after_ms=2_000)
    inferred = last_rebalance(log).inferred
    assert (inferred.cause, inferred.causes) == ("member_left", ("member_joined", "member_left"))
    assert inferred.confidence < 0.85


def test_the_leader_asked_again() -> None:
    log = (
        Log()
        .add(b.classic_group(1, b.member("a-1", {"t": [0]})))
        .add(b.classic_group(2, b.member("a-1", {"t": [0]})))
    )
    assert last_rebalance(log).inferred.causes == ("leader_rejoined",)


def test_a_static_leader_was_taken_out() -> None:
    """That it restarts starts no rebalance (KIP-814 tells it to skip the assignment): so it had been removed."""
    log = Log().add(b.classic_group(1, b.member("a-1", {"t": [0]}, instance_id="I"), leader="a-1"))
    after = b.member("a-2", {"t": [0]}, instance_id="I")
    log.add(b.classic_group(2, after, leader="a-2", state_ms=log.now_ms + b.STEP_MS))
    assert last_rebalance(log).inferred.causes == ("admin_removed",)


def test_a_gap_with_nothing_changed_tells_nothing() -> None:
    """Someone may have come and gone in the generations that never completed."""
    log = (
        Log()
        .add(b.classic_group(1, b.member("a-1", {"t": [0]})))
        .add(b.classic_group(4, b.member("a-1", {"t": [0]})))
    )
    inferred = last_rebalance(log).inferred
    assert (inferred.cause, inferred.confidence) == ("unknown", 0.0)
    assert inferred.evidence[0] == {"kind": "generation_gap", "never_completed": 2}


def test_a_crash_stops_its_partitions_until_the_others_have_them() -> None:
    """The dead one's partition for its gap, the other's from giving it up, both until the assignment (5 ms later)."""
    rebalance, _ = departs(Life(gap_ms=11_000, revoked_ms=300))
    assert rebalance.stopped_partition_ms == 11_005 + 305


@pytest.mark.parametrize(
    ("life", "departure", "longest_ms"),
    [
        (Life(80_000, 60_000, 6, instance_id="I"), "session_timeout", S + 5_000),
        (Life(80_000, 60_000, 6, session_ms=6_000, rebalance_ms=9_000), "unknown_departure", 9_000 + 5_000),
        (Life(80_000, 45_000, 6, session_ms=600_000, rebalance_ms=600_000), "member_left", 2_000),
    ],
)
def test_where_commits_are_rare_a_member_worked_for_longer(life: Life, departure: str, longest_ms: int) -> None:
    """It was not dead for longer than its timeout before it was removed; that is known to a heartbeat."""
    rebalance, left = departs(life)
    assert left.inferred is not None
    assert left.inferred.cause == departure
    assert rebalance.stopped_partition_ms is not None
    assert rebalance.stopped_partition_ms <= longest_ms + life.revoked_ms + 5


def test_a_member_that_neither_commits_nor_shows_how_it_went_has_a_cost_that_is_not_known() -> None:
    rebalance, left = departs(Life(every_ms=None, gap_ms=3 * S))
    assert left.inferred is not None
    assert (left.inferred.cause, rebalance.stopped_partition_ms) == ("unknown_departure", None)


def test_an_empty_group_has_no_cost_yet() -> None:
    rebalance, _ = departs(Life(gap_ms=20, stays=False))
    assert rebalance.stopped_partition_ms is None


def test_of_a_group_that_comes_back_nobody_knows_what_the_rebalance_cost() -> None:
    """Its partitions stood still since it had emptied; of Connect's it is known by when."""
    member, worker = b.member("a-1", {"t": [0]}), b.worker("a-1", {"t": [0]})
    costs = []
    for protocol_type, protocol, who in (("consumer", "range", member), ("connect", "compatible", worker)):
        kind = {"protocol_type": protocol_type, "protocol": protocol}
        log = Log().add(b.new_group()).add(b.classic_group(1, who, **kind))
        log.add(b.classic_group(2, **kind)).add(b.classic_group(3, who, **kind), after_ms=120_000)
        costs.append([it.stopped_partition_ms for it in log.replayed()[1] if isinstance(it, Rebalanced)])
    assert costs == [[0, None, None], [0, None, 120_000]], "a group that begins stops nothing"


def leaves_kip_848(
    every_ms: int, gap_ms: int, *, commits: int = 10, rebalance_ms: int = R, instance_id: str | None = None
) -> Rebalanced:
    """A KIP-848 group of two, of which one goes: member records, then a raised epoch."""
    log = Log()
    log.add(b.c_member("go", instance_id=instance_id, rebalance_ms=rebalance_ms), b.c_member("stay"), b.c_epoch(2))
    log.add(b.c_topics("t"), b.c_current("go", 2, {"t": [0]}), b.c_epoch(3))
    for _ in range(commits):
        log.add(b.commit("t", 0, at_ms=log.now_ms + every_ms), after_ms=every_ms)
    if instance_id is not None:
        log.add(b.c_current("go", -2, {"t": [0]}), after_ms=1)
    log.add(*(b.tombstone(key_type, "go") for key_type in (8, 7, 5)), b.c_epoch(4), after_ms=gap_ms)
    return last_rebalance(log)


# Number, why, commits every, silent for, more, the cause.
KIP_848 = [
    (1, "it committed as it closed", 1_000, 100, {}, "member_left"),
    (7, "it closed between two commits of a slow pace", 5_000, 3_000, {}, "member_left"),
    (2, "silent for longer than it ever was", 1_000, 41_000, {}, "session_timeout"),
    (3, "silent for its max.poll.interval.ms", 1_000, 30_000, {"rebalance_ms": 30_000}, "poll_timeout"),
    (4, "silent for longer than its pace, but for no session timeout", 2_000, 4_000, {}, "member_left"),
    (8, "away from poll, and its goodbye went with a heartbeat", 1_000, 33_000, {"rebalance_ms": 30_000},
     "poll_timeout"),
    (5, "it never committed, and was heard of sooner than any session ends", 1_000, 5_000, {"commits": 0},
     "member_left"),
    (12, "it never committed, and was heard of 9 s before: sessions may be as short, nobody told", 1_000, 9_000,
     {"commits": 0}, "unknown_departure"),
    (9, "it never committed, and any timeout had time", 1_000, 60_000, {"commits": 0}, "unknown_departure"),
    (11, "it never committed, and may have gone at any time of a session: no likelier as it was heard of last", 1_000,
     45_600, {"commits": 0}, "unknown_departure"),
    (10, "silent for longer than any session: it had nothing to commit, and may close as well as die", 1_000, 120_000,
     {"rebalance_ms": 600_000}, "unknown_departure"),
    (6, "a static member that did not come back", 1_000, 45_000, {"instance_id": "I"}, "session_timeout"),
]  # fmt: skip


@pytest.mark.parametrize(("number", "why", "every", "gap", "more", "cause"), KIP_848)
def test_how_a_kip_848_member_went(
    number: int, why: str, every: int, gap: int, more: dict[str, object], cause: str
) -> None:
    inferred = leaves_kip_848(every, gap, **more).inferred  # type: ignore[arg-type]
    assert inferred.causes == (cause,), (why, inferred.evidence)
    assert inferred.departures["go"].cause == cause


@pytest.mark.parametrize(
    ("number", "gap_ms", "cause", "confidence"),
    [
        (1, 50, "member_left", 0.97),  # at any pace: it committed as it closed
        (2, 20_000, "unknown_departure", 0.0),  # a short session, or it closed before a commit was due
        (3, 46_000, "session_timeout", 0.58),  # likely by both, but less sure if its next commit was not due
    ],
)
def test_how_a_kip_848_member_went_whose_pace_is_not_known(
    number: int, gap_ms: int, cause: str, confidence: float
) -> None:
    log = Log().add(b.c_member(STAY), b.c_member(GO), b.c_epoch(1), b.c_current(GO, 1, {"t": [0]}), b.c_topics("t"))
    log.now_ms += WEEK_MS
    for _ in range(20):
        log.add(b.commit("t", 0, at_ms=log.now_ms + 5_000), after_ms=5_000)
    log.add(b.tombstone(8, GO), b.tombstone(5, GO), b.c_epoch(2), after_ms=gap_ms)
    left = next(it for it in log.replayed()[1] if isinstance(it, MemberLeft)).inferred
    assert left is not None
    assert (left.cause, left.confidence) == (cause, confidence)


@pytest.mark.parametrize(
    ("silent_before_ms", "stayed", "is_told"),
    [
        (20_000, [NO_COMMITS], False),
        (1_000, [CommitActivity(b.T0, 1_000)], False),
        (20_000, [], False),
        (1_000, [], True),
        (20_000, [CommitActivity(b.T0 + 28_000, 1_000)], True),
    ],
)
def test_silence_of_a_kip_848_member_whose_topics_are_idle_is_no_death(
    silent_before_ms: int, stayed: list[CommitActivity], *, is_told: bool
) -> None:
    """It went 9 s after it reached an epoch, silent before that already, or as those are that stayed."""
    member = Member(
        "a", "a", "/10.0.0.1", rebalance_timeout_ms=R, client_library="librdkafka", assignment={"t": (0,)}
    )
    seen_ms, activity = b.T0 + 20_000, CommitActivity(b.T0 + 20_000 - silent_before_ms, 1_000)
    session = SessionSetting(6_000, 1_500)
    told = infer_epoch_departures(
        [member], {"a": activity}, seen_ms + 9_000, {"a": seen_ms}, (), (), session=session, stayed=stayed
    )["a"]
    assert told.cause == ("session_timeout" if is_told else "unknown_departure"), told.confidence


def test_other_reasons_to_raise_an_epoch() -> None:
    log = Log().add(b.c_member("a", topics=["t"]), b.c_epoch(2))
    assert last_rebalance(log).inferred.causes == ("member_joined",)
    log.add(b.c_member("a", topics=["t", "u"]), b.c_epoch(3))
    assert last_rebalance(log).inferred.causes == ("subscription_changed",)
    log.add(b.c_epoch(4, topics_hash=100))
    assert last_rebalance(log).inferred.causes == ("partitions_changed",)


@pytest.mark.parametrize(
    ("before", "after", "cause"),
    [
        (99, 100, "partitions_changed"),
        (99, 99, "unknown"),
        (0, 0, "partitions_changed"),  # Kafka 4.0 writes none
        (99, 0, "partitions_changed"),  # the last topic is gone
    ],
)
def test_the_hash_of_the_topics_tells_whether_they_changed(before: int, after: int, cause: str) -> None:
    for member, epoch in ((b.c_member, b.c_epoch), (b.s_member, b.s_epoch), (b.k_member, b.k_epoch)):
        log = Log().add(member("a"), epoch(2, topics_hash=before)).add(epoch(3, topics_hash=after))
        inferred = last_rebalance(log).inferred
        assert (inferred.cause, inferred.confidence) == (cause, 0.0 if cause == "unknown" else 0.8)


def test_a_hash_that_is_written_without_a_raise_counts() -> None:
    log = Log().add(b.c_member("a"), b.c_epoch(2, topics_hash=0)).add(b.c_epoch(2)).add(b.c_epoch(3))
    assert last_rebalance(log).inferred.cause == "unknown"


def test_the_first_epoch_that_is_seen_of_an_older_group_tells_no_cause() -> None:
    """Of a compacted topic: another left, of whom nothing is there but this epoch."""
    log = Log().add(b.c_member("a"), b.c_member(GO)).add(b.tombstone(5, GO)).add(b.tombstone(5, "c"), b.c_epoch(57))
    told = last_rebalance(log)
    assert (told.inferred.cause, told.inferred.causes, told.inferred.confidence) == ("unknown", ("unknown",), 0.0)
    assert (len(told.joined), told.inferred.evidence) == (1, ())
    for epoch in (1, 2):
        assert last_rebalance(Log().add(b.c_member("a"), b.c_epoch(epoch))).inferred.cause == "member_joined"


def test_epochs_that_the_log_lacks_tell_nothing() -> None:
    log = Log().add(b.c_member("a"), b.c_epoch(2)).add(b.c_epoch(5))
    assert last_rebalance(log).inferred == Inference()
    log.add(b.c_member("b"), b.c_epoch(9))
    assert last_rebalance(log).inferred.causes == ("member_joined",)
    view = log.view()
    assert [it.message for it in view.anomalies] == [
        "epoch 5 follows 2: 2 not in the log",
        "epoch 9 follows 5: 3 not in the log",
    ]
    assert view.generations_skipped == 0, "they may have been completed"


def replaced(gap_ms: int | None, lasted_ms: int = 1_000, *, session_ms: int = S) -> Rebalanced:
    """A static member, not the leader, is back under a new id, and the group rebalanced over it."""
    leads = b.member("l-1", {"t": [0]})
    log = Log().add(
        b.classic_group(1, leads, b.member("a-1", {"t": [1]}, instance_id="a", session_ms=session_ms), leader="l-1")
    )
    if gap_ms is not None:
        log.add(b.commit("t", 1, at_ms=log.now_ms + 1_000))
    end_ms = log.now_ms + (gap_ms or lasted_ms)
    after = b.member("a-2", {"t": [1]}, instance_id="a", session_ms=session_ms)
    log.add(b.classic_group(2, leads, after, leader="l-1", state_ms=end_ms), after_ms=end_ms - log.now_ms)
    return last_rebalance(log)


# Number, why, the commit gap of the member that was replaced, the cause.
REPLACED = [
    (1, "back in time it starts no rebalance: it had been taken out", 2_000, "admin_removed"),
    (2, "away for longer than its session", 12_000, "session_timeout"),
    (3, "without a commit: no session had time to run out", None, "admin_removed"),
    (4, "without a commit, and it had: nothing tells", 0, "unknown"),
]


@pytest.mark.parametrize(("number", "why", "gap", "cause"), REPLACED)
def test_a_static_member_that_was_replaced(number: int, why: str, gap: int | None, cause: str) -> None:
    rebalance = replaced(gap) if gap != 0 else replaced(None, 40_000)
    assert rebalance.inferred.causes == (cause,), why


@pytest.mark.parametrize(
    ("protocol", "cause"), [("sessioned", "cooperative_followup"), ("default", "partitions_changed")]
)
def test_connect_tasks_wait_for_a_round(protocol: str, cause: str) -> None:
    """Connect's incremental protocol (KIP-415) takes tasks back in one round and gives them out in the next; its
    eager one ("default") knows no such rounds."""
    log = Log()
    for generation, tasks in enumerate(([0, 1], [0], [0, 1]), start=1):
        worker = b.worker("w-1", {"files": tasks})
        log.add(b.classic_group(generation, worker, protocol_type="connect", protocol=protocol), after_ms=700)
    assert last_rebalance(log).inferred.causes == (cause,)


@pytest.mark.parametrize("delay_ms", [0, 300_000])
def test_tasks_of_a_deleted_connector_wait_for_nobody(delay_ms: int) -> None:
    """The leader gives to others at once what it does not hold back for a worker that may return; and while it does,
    what it gives is something else."""
    log = Log()
    for generation, tasks in enumerate(
        ({"files": [0], "gone": [0]}, {"files": [0]}, {"files": [0]}, {"files": [0, 1]}), 1
    ):
        worker = b.worker("w-1", tasks, delay_ms=delay_ms)
        log.add(b.classic_group(generation, worker, protocol_type="connect", protocol="sessioned"), after_ms=700)
    third, last = [it.inferred.causes for it in log.replayed()[1] if isinstance(it, Rebalanced)][2:]
    assert third == ("cooperative_followup",)
    assert last == ("partitions_changed",)


@pytest.mark.parametrize(
    ("delay_ms", "error", "cause"),
    [(0, 0, "leader_rejoined"), (300_000, 0, "cooperative_followup"), (0, 1, "cooperative_followup")],
    ids=["nothing is held back", "for a worker that may return", "the leader has not read enough to assign it"],
)
def test_what_no_worker_has_is_waited_for_while_the_leader_holds_it_back(
    delay_ms: int, error: int, cause: str
) -> None:
    log = Log()
    for generation, tasks in enumerate(({"files": [0], "gone": [0]}, *({"files": [0]},) * 3), 1):
        worker = b.worker("w-1", tasks, delay_ms=delay_ms, error=error)
        log.add(b.classic_group(generation, worker, protocol_type="connect", protocol="sessioned"), after_ms=700)
    assert last_rebalance(log).inferred.causes == (cause,)


def test_a_topic_that_nobody_wants_any_more_waits_for_no_round() -> None:
    both, kept = {"t": [0], "old": [0]}, {"t": [0]}
    log = Log()
    for generation, (given, owned) in enumerate(((both, {}), (kept, both), (kept, kept)), 1):
        member = b.member("m-1", given, topics=[*given], owned=owned)
        log.add(b.classic_group(generation, member, protocol="cooperative-sticky"), after_ms=700)
    assert last_rebalance(log).inferred.causes == ("leader_rejoined",)


def test_a_stranger_who_assigns_other_partitions_each_time_fills_no_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(classic, "MOST_WITHHELD", 25)
    log = Log()
    for generation in range(1, 21):
        member = b.member("m-1", {"t": range(10 * generation, 10 * generation + 10)}, owned={"t": [0]})
        log.add(b.classic_group(generation, member, protocol="cooperative-sticky"))
    evidence = [it.inferred.evidence for it in log.replayed()[1] if isinstance(it, Rebalanced)][2:]
    withheld = [said["partitions"] for (said,) in evidence]
    assert withheld[:2] == [10, 20]
    assert max(withheld) == 30


@pytest.mark.parametrize("committed", [True, False])
def test_a_member_without_partitions_did_not_stall(committed: bool) -> None:
    """It had a partition until another came and was given it: its silence since tells nothing, and then it closes."""
    held, none = (b.member(GO, {"t": parts}, session_ms=6_000, rebalance_ms=9_000) for parts in ([0], []))
    other = b.member(STAY, {"t": [0]}, session_ms=6_000, rebalance_ms=9_000)
    log = Log().add(b.new_group())
    log.add(b.classic_group(1, held, state_ms=log.now_ms))
    if committed:
        log.add(b.commit("t", 0, at_ms=log.now_ms + 1_000), after_ms=1_000)
    log.add(b.classic_group(2, none, other, state_ms=log.now_ms + 995), after_ms=1_000)
    for _ in range(24):
        log.add(b.commit("t", 0, at_ms=log.now_ms + 1_000), after_ms=1_000)
    log.add(b.classic_group(3, other, state_ms=log.now_ms + 495), after_ms=500)
    departure = next(it for it in log.replayed()[1] if isinstance(it, MemberLeft))
    assert departure.inferred is not None
    assert departure.inferred.cause == "unknown_departure"
    assert departure.inferred.evidence["candidates"] == ["member_left", "session_timeout"]


@pytest.mark.parametrize(
    ("owned", "has_others", "cause"),
    [
        ({"t": [0]}, False, "unknown_departure"),
        ({"t": [0]}, True, "unknown_departure"),
        (None, True, "member_left"),
    ],
)
def test_who_kept_partitions_may_have_stalled_before_its_generation(
    owned: dict[str, list[int]] | None, has_others: bool, cause: str
) -> None:
    """Cooperative members rejoin in the background. Where nobody commits nothing tells that one had stalled, but that
    one which came with its generation polled."""
    member = b.member(GO, {"t": [0]}, owned=owned, session_ms=6_000, rebalance_ms=8_000)
    other = b.member(STAY, {"t": [1]}, owned={"t": [1]}, session_ms=6_000, rebalance_ms=8_000)
    others = [other] if has_others else []
    log = Log().add(b.new_group(), b.classic_group(1, other))
    log.add(b.classic_group(2, member, *others), after_ms=20_000)
    log.add(b.classic_group(3, *others), after_ms=3_000)
    departure = [it for it in log.replayed()[1] if isinstance(it, MemberLeft)][-1]
    assert departure.inferred is not None
    assert departure.inferred.cause == cause


@pytest.mark.parametrize("back_ms", [1_000, 60_000, 86_400_000])
def test_of_a_static_member_that_went_long_before_its_commit_it_is_not_known_how(back_ms: int) -> None:
    """Clocks of brokers are apart, or were set: nothing was likely then, and the record that tells of it was passed
    over."""
    log = Log().add(b.c_member("m", instance_id="i"), b.c_member("n"), b.c_epoch(1))
    log.add(b.c_current("m", 1, {"t": [0]}), b.c_current("n", 1, {"t": [1]}))
    log.add(b.commit("t", 0, 5, at_ms=log.now_ms + 30_000), after_ms=30_000)
    log.add(b.tombstone(5, "m"), b.c_epoch(2), after_ms=-back_ms)
    (gone,) = (it for it in log.replayed()[1] if isinstance(it, MemberLeft))
    assert gone.inferred is not None
    assert (gone.inferred.cause == "unknown_departure") == (back_ms > 1_000)


@pytest.mark.parametrize("instance_id", [None, "i-1"])
def test_a_member_of_no_known_generation(instance_id: str | None) -> None:
    """It was never seen to join, nor to commit: nothing is known of it, and nothing raises."""
    log = Log().add(b.new_group(), b.classic_group(0, b.member("m-1", {"t": [0]}, instance_id=instance_id)))
    log.add(b.classic_group(1), after_ms=60_000)
    assert last_rebalance(log).inferred.causes == ("unknown_departure",)
