"""What came first, and how each went: each case is the facts of one rebalance, and why they are enough."""

from __future__ import annotations

from collections.abc import Iterable

import pytest
from msgspec.structs import replace

from agent.core.causes import Cause
from agent.core.inference.cause_inference import infer_kip848_departure, infer_rebalance, notice_time_ms
from agent.core.inference.facts import CommitActivity, Inference, RebalanceFacts, WritePause
from agent.core.shadow.views import Member

END = 1_790_000_100_000
S, R = 10_000, 300_000


def member(name: str, *, client: str | None = None, instance: str | None = None, poll: int = R) -> Member:
    client_id = client or name
    return Member(
        f"{name}-id",
        client_id,
        "/10.0.0.1",
        instance,
        session_timeout_ms=S,
        rebalance_timeout_ms=poll,
        assignment={"t": (0,)},
    )


def facts(
    before: Iterable[Member],
    after: Iterable[Member],
    silent: dict[str, int],
    *,
    every: int = 1_000,
    lasted: int = 60_000,
    **more: object,
) -> RebalanceFacts:
    """`silent`: for how long each member of the generation before had not committed as the join phase ended."""
    old, new = ({it.member_id: it for it in members} for members in (before, after))
    known = RebalanceFacts(
        before=old,
        after=new,
        joined=tuple(it for name, it in new.items() if name not in old),
        left=tuple(it for name, it in old.items() if name not in new),
        replaced=(),
        activity={f"{name}-id": CommitActivity(END - gap, every) for name, gap in silent.items()},
        since_ms=END - lasted,
        end_ms=END,
        leader=None,
        withheld_partitions=0,
        skipped_generations=0,
        migrated=False,
    )
    return replace(known, **more)  # type: ignore[arg-type]


def how(inferred: Inference) -> dict[str, str]:
    return {name.removesuffix("-id"): departure.cause for name, departure in inferred.departures.items()}


A, B, C, NEW = member("a"), member("b"), member("c"), member("new")
AGAIN = member("a-again", client="a")
BARE_A, BARE_B = (replace(it, assignment={}) for it in (A, B))


@pytest.mark.parametrize(
    ("gap", "others", "every", "notice", "cooperative"),
    [
        (3_300, (1, 2), 1_000, 3_000, False),
        # A rolling restart on a broker (librdkafka): the others were quicker to notice before.
        (912, (2, 3), 975, 440, False),
        (2_399, (6, 2), 897, 1_666, False),
        (267, (235, 228), 782, 3_000, True),
    ],
)
def test_a_client_that_is_back_at_once_was_restarted(
    gap: int, others: tuple[int, int], every: int, notice: int, cooperative: bool
) -> None:
    """It seems not to have committed as it went, and was there again at once. Whom an admin takes out is so too, but
    admins' clients name no single member but by its group.instance.id."""
    silent = {"a": gap, "b": others[0], "c": others[1]}
    known = facts([A, B, C], [B, C, AGAIN], silent, every=every, notice_ms=notice, cooperative=cooperative)
    inferred = infer_rebalance(known)
    assert how(inferred) == {"a": "member_left"}
    assert inferred.departures["a-id"].evidence["client_is_back"] is True


def test_a_client_that_is_not_back_said_goodbye() -> None:
    assert infer_rebalance(facts([A, B, C], [B, C], {"a": 1_300, "b": 1, "c": 2})).causes == ("member_left",)


def test_clients_of_one_name_cannot_be_told_apart() -> None:
    """Java's clients are all called alike by default: that one of them came tells nothing of another that went."""
    alike = member("b", client="a")
    inferred = infer_rebalance(facts([A, alike, C], [alike, C, AGAIN], {"a": 300, "b": 1, "c": 2}))
    assert how(inferred) == {"a": "member_left"}


def test_a_crash_loop() -> None:
    """The dead one was started again at once, before its session had run out: so its coming began the rebalance, and
    its own death was waited for."""
    inferred = infer_rebalance(facts([A, B, C], [B, C, AGAIN], {"a": S, "b": 7_000, "c": 6_500}))
    assert (inferred.cause, how(inferred)) == ("member_joined", {"a": "session_timeout"})


def test_a_crash_loop_of_members_that_never_commit() -> None:
    """A supervisor starts the next at once, long before a session runs out."""
    inferred = infer_rebalance(facts([A, B, C], [B, C, AGAIN], {}, lasted=S + 2_000))
    assert (inferred.cause, how(inferred)) == ("member_joined", {"a": "unknown_departure"})


def test_a_member_that_died_before_it_could_commit() -> None:
    """It was there as its generation began, and its session ran out to the moment as the join phase ended; those who
    stay had noticed 2 s before that another had come."""
    inferred = infer_rebalance(facts([A, B, C], [B, C, NEW], {"b": 2_126, "c": 2_194}, lasted=S + 5))
    assert inferred.cause == "member_joined"


def test_a_process_takes_time_to_start() -> None:
    """Within a second a program that is no JVM is back: it is told with less confidence of one that was within a
    fifth of one, as only the client can have been closed and made again."""
    silent = {"b": 1_200, "c": 1_150}
    told = [
        infer_rebalance(facts([A, B, C], [B, C, AGAIN], {"a": gap, **silent}, every=2_000, cooperative=True))
        for gap in (200, 1_100)
    ]
    assert [it.cause for it in told] == ["member_left"] * 2
    assert told[0].confidence < told[1].confidence


def test_all_died_together() -> None:
    """Each by itself might have left first and had the others waited for: but that all do the same is likelier."""
    inferred = infer_rebalance(facts([A, B, C], [], {"a": S + 700, "b": S + 650, "c": S}))
    assert inferred.causes == ("session_timeout",)


# Why, who was there, commits, how long the generation lasted: all went at one time, and the topics were silent.
CLOSED_IN_SILENCE = [
    ("nothing was committed since they came", [A, B, C], {"a": 16_162, "b": 16_165, "c": 16_170}, 16_160),
    ("one has all partitions", [BARE_A, BARE_B, C], {"c": 14_165}, 14_162),
    ("one committed in the generation before", [A, B, C], {"c": 19_674}, 19_335),
    ("they were there for long", [A, B, C], {"a": 62_000, "b": 62_001, "c": 62_002}, 61_990),
]


@pytest.mark.parametrize(("why", "members", "silent", "lasted"), CLOSED_IN_SILENCE)
def test_members_that_were_closed_together_in_silence(
    why: str, members: list[Member], silent: dict[str, int], lasted: int
) -> None:
    """An application that is closed and a host that dies look alike then: several sessions that end by chance, one
    after another, are no answer."""
    inferred = infer_rebalance(facts(members, [], silent, lasted=lasted))
    assert set(how(inferred).values()) == {"unknown_departure"}, why
    assert inferred.cause == "unknown_departure", why


def test_members_that_died_together_as_they_came() -> None:
    """The moment tells: their sessions began with the generation."""
    inferred = infer_rebalance(facts([A, B, C], [], {"c": S + 10_000}, lasted=S + 2))
    assert set(how(inferred).values()) == {"session_timeout"}


def test_members_that_died_before_their_assignment() -> None:
    """A client was killed and started again four times while the join phase waited for its first session. None of the
    four ever asked for its assignment, so their sessions began as the join phase ended, however late the record."""
    dead = [member(f"a-{at}", client="a") for at in range(4)]
    lasted = 44_888
    slow = [replace(it, session_timeout_ms=45_000) for it in (*dead, B, C)]
    known = facts(slow, [*slow[4:], AGAIN], {"b": 41_400, "c": 41_500}, every=4_500, lasted=lasted)
    inferred = infer_rebalance(replace(known, joined_ms=END - 45_002))
    assert set(how(inferred).values()) == {"session_timeout"}


@pytest.mark.parametrize("took_ms", [0, 1_000, S, S + 1_000, 6 * S])
@pytest.mark.parametrize("gone", [[A], [A, B]])
def test_members_that_were_closed_as_a_slow_leader_had_assigned(gone: list[Member], took_ms: int) -> None:
    """Who had died meanwhile would not have been assigned anything, and the assignment renews sessions."""
    silent = {it.client_id: took_ms + 2_000 for it in gone}
    known = facts(gone, [], silent, every=5_000, lasted=2)
    inferred = infer_rebalance(replace(known, joined_ms=END - 2 - took_ms))
    assert (inferred.cause, set(how(inferred).values())) == ("member_left", {"member_left"})


def test_static_members_that_stopped_together() -> None:
    """They say no goodbye, so whatever stopped them their sessions ran out."""
    static = [replace(it, instance_id=it.client_id) for it in (A, B, C)]
    inferred = infer_rebalance(facts(static, [], {}, lasted=15_018))
    assert set(how(inferred).values()) == {"session_timeout"}


def test_one_left_and_a_dead_one_was_waited_for() -> None:
    """The join phase ended to the moment as the session ran out; those who stay had noticed long before."""
    silent = {"a": 9_000, "b": S, "c": 7_500, "d": 7_000}
    inferred = infer_rebalance(facts([A, B, C, member("d")], [C, member("d")], silent))
    assert inferred.cause == "member_left"
    assert how(inferred) == {"a": "member_left", "b": "session_timeout"}


def test_members_that_never_commit_do_not_decide() -> None:
    """Two idle ones went with one that committed as it closed; when they went nothing tells."""
    inferred = infer_rebalance(facts([A, B, C], [], {"a": 30}))
    assert inferred.cause == "member_left"
    assert how(inferred) == {"a": "member_left", "b": "unknown_departure", "c": "unknown_departure"}


def test_idle_members_do_not_blur_a_death() -> None:
    inferred = infer_rebalance(facts([A, B, C, NEW], [NEW], {"a": S + 1_000, "new": 5}))
    assert inferred.cause == "session_timeout"
    assert inferred.confidence > 0.9


def test_more_departures_than_are_weighed_at_once() -> None:
    many = [member(f"m{number}") for number in range(40)]
    inferred = infer_rebalance(facts([*many, A], [A], {f"m{number}": S + 1_000 for number in range(40)} | {"a": 2}))
    assert inferred.causes == ("session_timeout",)
    assert set(how(inferred).values()) == {"session_timeout"}


def test_a_generation_that_never_completed() -> None:
    """They joined it, which renewed their sessions, and got nothing there to commit: then its leader died."""
    silent = {"a": S + 6_000, "b": S + 5_500}
    assert infer_rebalance(facts([A, B], [], silent, skipped_generations=1)).cause == "session_timeout"


def test_one_that_was_silent_before_a_generation_that_never_completed() -> None:
    """It died, and was waited for; then all others closed (Kafka 3.9.2: to the moment as its session ran out)."""
    silent = {"a": S + 3, "b": 6_000, "c": 5_800}
    died = infer_rebalance(facts([A, B, C], [], silent, every=2_000, lasted=S + 3, skipped_generations=1))
    assert how(died) == {"a": "session_timeout", "b": "member_left", "c": "member_left"}
    closed = silent | {"a": 6_500}
    left = infer_rebalance(facts([A, B, C], [], closed, every=2_000, lasted=S + 3, skipped_generations=1))
    assert set(how(left).values()) == {"member_left"}


def test_a_stall_runs_across_cooperative_rebalances() -> None:
    """It rejoined in the background 4 s ago, which renewed its session but is no poll."""
    stalled = member("a", poll=30_000)
    known = facts([stalled, B], [B], {"a": 30_200, "b": 100}, lasted=4_000, cooperative=True)
    assert how(infer_rebalance(known)) == {"a": "poll_timeout"}
    # An eager member has to poll to rejoin, so that no stall can have lasted so long.
    assert how(infer_rebalance(replace(known, cooperative=False))) == {"a": "member_left"}


def test_cooperative_members_commit_throughout() -> None:
    """Their last commits do not tell when the rebalance began; when the other went does."""
    known = facts([A, B, C], [B, C, NEW], {"a": 1_500, "b": 2_200, "c": 10}, every=5_000)
    assert infer_rebalance(known).cause == "member_joined"
    assert infer_rebalance(replace(known, cooperative=True)).cause == "member_left"


def test_most_gave_up_their_partitions_long_before_the_others() -> None:
    """Two of three noticed at once, 20 s ago; the others were busy. Between the two times nothing speaks for any."""
    many = [member(f"m{number}") for number in range(24)]
    silent = {f"m{number}": 20_000 if number < 16 else 1_000 for number in range(24)}
    inferred = infer_rebalance(facts(many, [*many, NEW], silent, every=60_000, lasted=120_000))
    assert inferred.began_ms is not None
    assert 20_000 < END - inferred.began_ms < 23_000


def test_members_notice_as_fast_as_they_did() -> None:
    """A session that ran out 2 s before would have been noticed sooner; a stall fits."""
    stalled = member("a", poll=S + 2_000)
    known = facts([stalled, B], [B], {"a": S + 2_000}, cooperative=True)
    slow, fast = (infer_rebalance(replace(known, notice_ms=ms)).departures["a-id"] for ms in (3_000, 500))
    assert fast.cause == "poll_timeout"
    assert slow.cause != "poll_timeout" or slow.confidence < fast.confidence


def test_a_streams_leader_joins_again_for_its_internal_topics() -> None:
    known = facts([A], [A], {}, lasted=40)
    assert infer_rebalance(replace(known, creates_internal_topics=True)).causes == ("partitions_changed",)
    assert infer_rebalance(known).causes == ("leader_rejoined",)


def test_a_cooperative_round_that_did_not_follow() -> None:
    """Partitions were withheld, but 9 s passed, and then one left."""
    known = facts([A, B], [B], {"a": 900, "b": 100}, lasted=9_000, cooperative=True, withheld_partitions=2)
    assert infer_rebalance(known).causes == ("member_left",)
    soon = facts([A, B], [B], {"a": 100, "b": 100}, lasted=1_000, cooperative=True, withheld_partitions=2)
    assert infer_rebalance(soon).cause == "cooperative_followup"


BESIDE = facts([A, B, C], [B, C], {"a": 1_318, "b": 1_166, "c": 301}, lasted=1_504)


def beside_a_round(known: RebalanceFacts, given_up: int | None = None) -> Inference:
    """`given_up`: how long after the generation began the first of its partitions without an owner was committed."""
    given_up_ms = None if given_up is None else END - 1_504 + given_up
    return infer_rebalance(replace(known, cooperative=True, withheld_partitions=1, given_up_ms=given_up_ms))


@pytest.mark.parametrize(("given_up", "cause"), [(20, "cooperative_followup"), (300, "member_left")])
def test_a_cooperative_round_follows_what_is_given_up(given_up: int, cause: str) -> None:
    """One said goodbye 185 ms after the generation began. Another gave up its partitions before or after that: it was
    at work on what it had polled."""
    inferred = beside_a_round(BESIDE, given_up)
    assert (inferred.cause, inferred.confidence > 0.8) == (cause, True)


@pytest.mark.parametrize(("who", "cause"), [("a", "member_left"), ("b", "cooperative_followup")])
def test_no_cooperative_round_follows_of_a_member_that_is_gone(who: str, cause: str) -> None:
    """`a` left 250 ms after the generation began in which it or `b` had to give up a partition."""
    before = [replace(it, owned={"t": (0, 1)}) if it.client_id == who else it for it in (A, B, C)]
    silent = {"a": 1_250, "b": 1_166, "c": 301}
    assert beside_a_round(facts(before, before[1:], silent, lasted=1_504)).cause == cause


def test_as_sure_as_it_is_right_beside_a_cooperative_round() -> None:
    """Clients that do not commit what they give up, as nothing was new there: on brokers one that had not committed
    since then either left before the round in 18 of 196, as who was closed while it joined says so at once. One that
    came did in 4 of 115; the later partitions were given up, the likelier."""
    silent = replace(BESIDE, activity={name: CommitActivity(END - 3_000, 1_000) for name in BESIDE.before})
    came = facts([A, B], [A, B, NEW], {"a": 2_129, "b": 1_166}, lasted=1_504)
    told = [beside_a_round(silent), beside_a_round(came), beside_a_round(came, 400)]
    assert {it.cause for it in told} == {"cooperative_followup"}
    left, joined, late = (it.confidence for it in told)
    assert left < 0.9 < joined
    assert late < 0.8


@pytest.mark.parametrize(
    ("lasted", "cause", "least", "most"),
    [(103, "member_joined", 0.9, 1), (184, "member_joined", 0.5, 0.8), (1_114, "leader_rejoined", 0.6, 0.75)],
)
def test_one_came_as_the_leader_waited_for_metadata(lasted: int, cause: str, least: float, most: float) -> None:
    """kafka-python joins before it has heard of the topic, and again 100 ms after the generation began that gave
    nobody anything: who came by then was first."""
    inferred = infer_rebalance(facts([BARE_A, BARE_B], [A, B, NEW], {}, lasted=lasted))
    assert inferred.cause == cause
    assert least <= inferred.confidence <= most


def test_what_someone_asked_for_came_before_another_left() -> None:
    """A member that stays subscribed to more; another left as the join phase ended."""
    grown = replace(B, subscription=("t", "u"))
    inferred = infer_rebalance(facts([A, B, C], [grown, C], {"a": 10, "b": 2_500, "c": 1_000}))
    assert inferred.cause == "subscription_changed"
    assert inferred.causes == ("member_left", "subscription_changed")


def test_how_a_member_went_was_told_before() -> None:
    """A KIP-848 member has no session timeout; what is known of it was told as it went."""
    gone = replace(A, session_timeout_ms=None)
    told = infer_rebalance(facts([B, C], [C], {"b": 500, "c": 5})).departures["b-id"]
    inferred = infer_rebalance(
        facts([B], [B], {}, left=(gone,), known_departures={"a-id": replace(told, member=gone)}, migrated=True)
    )
    assert (inferred.cause, how(inferred)) == ("protocol_migrated", {"a": "member_left"})


@pytest.mark.parametrize(
    ("known", "took"),
    [
        (facts([A, B], [B], {"a": 1_200, "b": 3}), 1_200),
        (facts([A, B], [A, B], {}, lasted=700, cooperative=True, withheld_partitions=1), 700),
        (facts([A, B], [A, B], {}, lasted=9_000, cooperative=True, withheld_partitions=1), None),
        (facts([A], [], {"a": 20}), None),
        (facts([A], [A, B], {}), None),
    ],
    ids=["one left", "a round followed", "it followed late", "nobody stayed", "one joined: when, nobody knows"],
)
def test_how_long_members_took_to_notice(known: RebalanceFacts, took: int | None) -> None:
    assert notice_time_ms(known, infer_rebalance(known)) == took


def test_nothing_is_known_of_the_beginning() -> None:
    """The log begins with this generation: neither since when it was there, nor any commit."""
    inferred = infer_rebalance(facts([A, B], [B], {}, since_ms=None))
    assert inferred.causes == (Cause.UNKNOWN_DEPARTURE,)


def test_a_member_without_a_poll_timeout() -> None:
    """A share group writes none."""
    gone = replace(A, session_timeout_ms=None, rebalance_timeout_ms=None)
    assert infer_kip848_departure(gone, CommitActivity(END - 5, 1_000), END).cause == "member_left"


def test_a_member_that_came_back_to_silent_partitions() -> None:
    """Whoever had them committed last, long before it came; the session of such a group is no shorter than 45 s but
    for operators."""
    gone = replace(A, session_timeout_ms=None, client_library="librdkafka")
    told = infer_kip848_departure(gone, CommitActivity(END - 61_900, 1_000), END, seen_ms=END - 24_100)
    assert told.cause != "session_timeout"


@pytest.mark.parametrize(("others_ms", "told"), [(100, "session_timeout"), (25_000, "unknown_departure")])
def test_where_all_fell_silent_a_silence_tells_nothing(others_ms: int, told: str) -> None:
    """Nothing comes to the topic any more, so nobody commits, and one closes."""
    known = facts([A, B, C], [B, C], {"a": 18_000, "b": others_ms, "c": others_ms}, every=5_000)
    assert how(infer_rebalance(known)) == {"a": told}


@pytest.mark.parametrize(("others_ms", "told"), [(100, "poll_timeout"), (30_000, "member_left")])
def test_positions_that_stand_tell_a_stall_only_where_others_move(others_ms: int, told: str) -> None:
    """They commit each second, whatever moves: who stands still leaves at its own limit, who has no work closes."""
    asyncs = [replace(it, client_library="aiokafka", rebalance_timeout_ms=S) for it in (A, B, C)]
    stood = {"a": 30_000, "b": others_ms, "c": others_ms}
    activity = {f"{name}-id": CommitActivity(END - 600, 1_000, END - ms) for name, ms in stood.items()}
    known = facts(asyncs, asyncs[1:], {}, activity=activity)
    assert how(infer_rebalance(known)) == {"a": told}


def test_a_group_that_migrates_as_its_broker_goes_on_has_migrated() -> None:
    """Whether who went meanwhile had stalled or was given up nothing tells."""
    pause = WritePause(END - R - 1_000, END, of_others=True)
    known = facts([A, B], [B], {"a": R + 1_000}, lasted=R + 60_000, migrated=True, write_pause=pause)
    inferred = infer_rebalance(known)
    assert (inferred.cause, inferred.confidence) == ("protocol_migrated", 1.0)
    assert how(inferred) == {"a": "unknown_departure"}


def test_of_a_pause_nothing_is_said_of_who_went_before() -> None:
    gone = replace(A, session_timeout_ms=None)
    told = replace(infer_rebalance(facts([B, C], [C], {"b": 500, "c": 5})).departures["b-id"], member=gone)
    pause = WritePause(END - R - 1_000, END, of_others=True)
    inferred = infer_rebalance(
        facts(
            [B],
            [B],
            {},
            lasted=R + 60_000,
            left=(gone,),
            known_departures={"a-id": told},
            migrated=True,
            write_pause=pause,
        )
    )
    assert (inferred.cause, how(inferred)) == ("protocol_migrated", {"a": "member_left"})
    assert "nothing_written_ms" not in told.evidence
