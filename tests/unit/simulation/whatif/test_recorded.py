"""From a recording to what the clients did, and that a play of it comes to the recording again."""

from __future__ import annotations

import pytest

from agent.core.causes import Cause
from agent.core.inference.external_evidence import RebalanceReport
from agent.simulation.groups import script as s
from agent.simulation.whatif.calibrated_replay import replay, replay_accuracy
from agent.simulation.whatif.recorded_script import NothingToReplay, RecordedScript, reconstruct
from agent.simulation.whatif.script_builder import FOREVER_MS
from tests.unit.core.shadow import build as b
from tests.unit.simulation.whatif.made import History, gone, rolling_restart, shared_out

SESSION_MS, POLL_MS = 12_000, 30_000
TIMEOUTS = {"session_ms": SESSION_MS, "rebalance_ms": POLL_MS}


def of(
    history: History, end_ms: int = 0, told: dict[str, RebalanceReport] | None = None, **more: object
) -> RecordedScript:
    """What is made of it; that a play comes to the same is part of every test."""
    end_ms = max(b.T0 + end_ms, history.now_ms)
    found = reconstruct(history.recording(**told or {}), end_ms, **more)  # type: ignore[arg-type]
    assert replay_accuracy(found, replay(found.script)).differences == ()
    return found


def told(found: RecordedScript) -> list[tuple[str, str, int]]:
    """Each step: what, who, and when after the history's beginning."""
    return [(type(it).__name__, getattr(it, "client", ""), it.at_ms - b.T0) for it in found.script.steps]


def test_clients_start_before_their_first_generation() -> None:
    history = History()
    history.at(0, *shared_out(["a-1"], **TIMEOUTS))
    history.at(10_000, *shared_out(["a-1", "b-1"], **TIMEOUTS))
    found = of(history)
    assert told(found) == [("Start", "a", 0), ("Start", "b", 8_500)]
    start = found.script.steps[0]
    assert isinstance(start, s.Start)
    assert start.settings == s.ClientSettings(
        client_id="a",
        topics=frozenset({"t"}),
        client_host=b.HOST,
        session_timeout_ms=SESSION_MS,
        heartbeat_interval_ms=3_000,
        max_poll_interval_ms=POLL_MS,
        assignors=("range",),
    )
    assert found.script.partitions == {"t": 6}
    assert (found.opening, found.opening_ms, found.closing_ms) == (None, b.T0, b.T0 + 10_000)
    assert found.notes == {}


def test_what_set_off_a_quick_rebalance_came_half_way() -> None:
    history = History()
    history.at(0, *shared_out(["a-1"]))
    history.at(100, *shared_out(["a-1", "b-1"]))
    found = reconstruct(history.recording(), history.now_ms)
    assert told(found)[1] == ("Start", "b", 50)


def test_the_initial_delay_is_told_by_how_long_the_first_member_waited() -> None:
    history = History()
    history.at(3_040, *shared_out(["a-1"]), sync_ms=10)
    found = of(history)
    assert (found.delay_ms, found.delay_told) == (3_000, True)
    assert told(found) == [("Start", "a", 0)]


def test_who_comes_together_prolongs_the_wait_once() -> None:
    history = History()
    history.at(2_000, *shared_out(["a-1", "b-1"]))
    found = of(history)
    assert (found.delay_ms, found.delay_told) == (1_000, True)
    assert told(found) == [("Start", "a", 0), ("Start", "b", 0)]


def test_nor_is_it_told_by_brokers_that_do_not_write_when_a_group_was_made() -> None:
    history = History(created=False)
    history.at(6_000, *shared_out(["a-1", "b-1"]))
    found = of(history)
    assert (found.delay_ms, found.delay_told) == (3_000, False)
    assert told(found) == [("Start", "a", 0), ("Start", "b", 0)]


def test_a_group_that_was_empty_waits_again() -> None:
    history = History()
    history.at(3_000, *shared_out(["a-1"]))
    history.at(50_000)
    history.at(60_000, *shared_out(["a-2"]))
    found = of(history)
    assert told(found) == [("Start", "a", 0), ("Close", "a", 50_000), ("Start", "a", 57_000)]


def test_what_is_known_better_wins() -> None:
    history = History()
    history.at(0, *shared_out(["a-1"]))
    history.at(10_000, *shared_out(["a-1", "b-1"]))
    found = of(history, heartbeat_ms=1_000, delay_ms=0)
    assert (found.heartbeat_ms, found.heartbeat_told, found.delay_ms, found.delay_told) == (1_000, True, 0, True)
    assert told(found)[1] == ("Start", "b", 9_500)


def held_up(cause: Cause) -> RecordedScript:
    """`a` came at 30 s; the group waited for `c`, which had ceased to poll, until 50 s, and went on without it."""
    history = History()
    history.at(0, *shared_out(["b-1", "c-1"], rebalance_ms=20_000))
    history.commits(29_000, *range(6))
    history.at(50_000, *shared_out(["a-1", "b-1"], rebalance_ms=20_000))
    return of(history, told={"g2": gone(cause, 50_000, "c-1", began_ms=30_000, sets_off=False)})


@pytest.mark.parametrize("cause", [Cause.REJOIN_TIMEOUT, Cause.POLL_TIMEOUT])
def test_who_holds_up_a_rebalance_stalls_while_the_others_wait(cause: Cause) -> None:
    found = held_up(cause)
    assert told(found)[2:] == [("Stall", "c", 30_000), ("Start", "a", 30_000)]
    near = replay_accuracy(found, replay(found.script))
    assert (near.is_exact, near.has_times_of_log) == (True, True)


def test_a_member_that_left_closed() -> None:
    found = of(rolling_restart(3))
    assert [kind for kind, *_ in told(found)] == ["Start"] * 3 + ["Close", "Start"] * 3
    assert set(found.clients.by_member_id.values()) == {"c0", "c1", "c2"}
    assert found.stopped_ms > 0


def test_whose_session_ran_out_died_one_session_before() -> None:
    history = History()
    history.at(0, *shared_out(["a-1"], **TIMEOUTS))
    history.at(3_000, *shared_out(["a-1", "b-1"], **TIMEOUTS))
    for second in range(4, 30):
        history.commits(second * 1_000, 0, 1, 2, 3, 4, 5)
    for second in range(30, 42):
        history.commits(second * 1_000, 0, 1, 2)
    history.at(42_000, *shared_out(["a-1"], **TIMEOUTS))
    found = of(history)
    assert told(found)[2:] == [("Kill", "b", 30_000)]


def test_not_before_its_last_commit() -> None:
    history = History()
    history.at(0, *shared_out(["a-1"], **TIMEOUTS))
    history.at(3_000, *shared_out(["a-1", "b-1"], **TIMEOUTS))
    for second in range(4, 30):
        history.commits(second * 1_000, 0, 1, 2, 3, 4, 5)
    history.commits(31_000, 3)
    for second in range(32, 42):
        history.commits(second * 1_000, 0, 1, 2)
    history.at(43_000, *shared_out(["a-1"], **TIMEOUTS))
    assert told(of(history))[2:] == [("Kill", "b", 31_000)]


def crash_loop(*, commits: bool, cooperative: bool = False) -> History:
    """A member dies at 30 s and is back at 34 s; its old session ends at 42 s."""
    history = History("cooperative-sticky" if cooperative else "range")
    owned = {"owned": {"t": [0, 1, 2]}} if cooperative else {}
    stays = b.member("a-1", {"t": [0, 1, 2]}, **TIMEOUTS, **owned)  # type: ignore[arg-type]
    history.at(0, *shared_out(["a-1"], **TIMEOUTS))
    history.at(3_000, *shared_out(["a-1", "b-1"], **TIMEOUTS))
    for second in range(4, 30):
        history.commits(second * 1_000, *range(6 if second < 30 else 3))
    if commits:
        for second in range(30, 37):
            history.commits(second * 1_000, 0, 1, 2)
    history.at(42_000, stays, b.member("b-2", {"t": [3, 4, 5]}, **TIMEOUTS))  # type: ignore[arg-type]
    return history


def test_who_waited_for_a_dead_member_came_when_the_others_gave_up_their_partitions() -> None:
    found = of(crash_loop(commits=True))
    assert told(found)[2:] == [("Kill", "b", 31_500), ("Start", "b", 34_500)]


def test_or_half_way_where_nobody_committed() -> None:
    found = of(crash_loop(commits=False))
    (_, _, died), (_, _, came) = told(found)[2:]
    assert came == (died + 39_000) // 2


def test_cooperative_members_give_nothing_up() -> None:
    found = reconstruct(crash_loop(commits=True, cooperative=True).recording(), b.T0 + 42_000)
    (_, _, died), (_, _, came) = told(found)[2:]
    assert came == (died + 39_000) // 2


def stall(back_ms: int | None, polls_ms: int = POLL_MS) -> History:
    """A member stops polling at 10 s; its time runs out at 40 s."""
    timeouts = {"session_ms": SESSION_MS, "rebalance_ms": polls_ms}
    history = History()
    history.at(0, *shared_out(["a-1"], **timeouts))
    history.at(3_000, *shared_out(["a-1", "b-1"], **timeouts))
    for second in range(4, 41):
        history.commits(second * 1_000, *range(6 if second <= 10 else 3))
    history.at(42_000, *shared_out(["a-1"], **timeouts))
    if back_ms is not None:
        history.at(back_ms, *shared_out(["a-1", "b-2"], **timeouts))
    return history


def test_who_did_not_poll_stalled_until_it_came_back() -> None:
    found = of(stall(back_ms=63_000))
    assert told(found)[2:] == [("Stall", "b", 10_500)]
    step = found.script.steps[2]
    assert isinstance(step, s.Stall)
    assert step.duration_ms == 61_500 - 10_500


def test_or_for_ever() -> None:
    step = of(stall(back_ms=None)).script.steps[2]
    assert isinstance(step, s.Stall)
    assert step.duration_ms == FOREVER_MS


def three(**more: object) -> History:
    """Three members, the last of which has gone at 42 s."""
    history = History()
    names = ["a-1", "b-1", "c-1"]
    history.at(0, *shared_out(names[:1], **TIMEOUTS, **more))
    history.at(3_000, *shared_out(names, **TIMEOUTS, **more))
    history.at(42_000, *shared_out(names[:2], **TIMEOUTS, **more))
    return history


def test_when_the_join_phase_began_is_when_it_was_set_off() -> None:
    found = of(three(), told={"g3": gone(Cause.MEMBER_LEFT, 40_100, "c-1", began_ms=40_100)})
    assert told(found)[3:] == [("Close", "c", 40_100)]
    history = History()
    history.at(3_000, *shared_out(["a-1"]), sync_ms=1_000)
    found = of(history, told={"g1": RebalanceReport("broker_log", began_ms=b.T0 + 500)}, delay_ms=1_500)
    assert told(found) == [("Start", "a", 500)]


def test_whom_an_admin_removed_runs_no_more() -> None:
    history = three()
    history.at(60_000, *shared_out(["a-1", "b-1", "c-2"], **TIMEOUTS))
    found = of(history, told={"g3": gone(Cause.ADMIN_REMOVED, 41_000, "c-1")})
    assert told(found)[3:] == [("Kill", "c", 40_500), ("AdminRemove", "c", 40_500), ("Start", "c", 58_500)]


def test_a_stall_needs_its_time() -> None:
    history = three()
    history.at(50_000, *shared_out(["a-1"], **TIMEOUTS))
    found = of(history, told={"g4": gone(Cause.POLL_TIMEOUT, 49_000, "b-1")})
    assert told(found)[4:] == [("Close", "b", 48_500)]
    assert found.notes["no_stall"] == 1


def test_who_stalled_is_still_there_so_nobody_takes_its_place() -> None:
    history = three()
    history.at(60_000, *shared_out(["a-1", "b-1", "new-1"], **TIMEOUTS))
    found = of(history, told={"g3": gone(Cause.POLL_TIMEOUT, 41_000, "c-1")})
    assert told(found)[3:] == [("Stall", "c", 10_500), ("Start", "new", 58_500)]


def static(number: int, session_ms: int = SESSION_MS) -> object:
    return b.member(f"s-{number}", {"t": [4, 5]}, instance_id="i", session_ms=session_ms, rebalance_ms=POLL_MS)


def with_static(*members: object, at_ms: int = 42_000, session_ms: int = SESSION_MS) -> History:
    """A dynamic member and a static one, then what is given."""
    history = History()
    dynamic = b.member("a-1", {"t": [0, 1, 2, 3]}, **TIMEOUTS)  # type: ignore[arg-type]
    history.at(0, *shared_out(["a-1"], **TIMEOUTS))
    history.at(3_000, dynamic, static(1, session_ms))  # type: ignore[arg-type]
    history.commits(20_000, 4, 5)
    history.at(at_ms, dynamic, *members)  # type: ignore[arg-type]
    return history


def test_a_static_member_that_went_for_good_was_taken_out() -> None:
    found = of(with_static(), told={"g3": gone(Cause.MEMBER_LEFT, 41_000, "s-1")})
    assert told(found)[2:] == [("Close", "i", 40_500), ("AdminRemove", "i", 40_500)]


def test_a_static_member_that_stalled_fell_silent() -> None:
    found = of(with_static(), told={"g3": gone(Cause.POLL_TIMEOUT, 41_000, "s-1")})
    assert told(found)[2:] == [("Kill", "i", 30_000)]


def test_a_static_member_may_have_been_dead_in_the_rebalance_before() -> None:
    history = History()
    a, c = (b.member(it, {"t": [at]}, **TIMEOUTS) for at, it in enumerate(["a-1", "c-1"]))  # type: ignore[arg-type]
    history.at(0, *shared_out(["a-1"], **TIMEOUTS))
    history.at(3_000, a, static(1))  # type: ignore[arg-type]
    history.at(36_000, a, c, static(1))  # type: ignore[arg-type]
    history.at(42_000, a, c)
    found = reconstruct(history.recording(g4=gone(Cause.SESSION_TIMEOUT, 41_000, "s-1")), history.now_ms)
    assert ("Kill", "i", 30_000) in told(found)


@pytest.mark.parametrize(
    ("cause", "steps", "notes"),
    [
        pytest.param(
            Cause.SESSION_TIMEOUT, [("Kill", "i", 30_499), ("Start", "i", 40_500)], {}, id="1: its session ran out"
        ),
        pytest.param(
            Cause.ADMIN_REMOVED,
            [("Close", "i", 40_500), ("AdminRemove", "i", 40_500), ("Start", "i", 40_500)],
            {},
            id="2: it was taken out",
        ),
        pytest.param(
            Cause.UNKNOWN,
            [("Close", "i", 40_500), ("AdminRemove", "i", 40_500), ("Start", "i", 40_500)],
            {"unknown_departure": 1},
            id="3: one of both, since a return in time makes no rebalance",
        ),
    ],
)
def test_a_static_member_that_came_back_in_a_new_generation(
    cause: Cause, steps: list[tuple[str, str, int]], notes: dict[str, int]
) -> None:
    said = RebalanceReport("broker_log", cause=cause, causes=(cause,), triggered_ms=b.T0 + 41_000)
    found = of(with_static(static(2, 10_000), session_ms=10_000), told={"g3": said})
    assert told(found)[2:] == steps
    assert found.notes == notes


def test_one_that_came_back_while_another_joined_was_only_away() -> None:
    other = b.member("c-1", {"t": [3]}, **TIMEOUTS)  # type: ignore[arg-type]
    said = RebalanceReport(
        "broker_log", cause=Cause.MEMBER_JOINED, causes=(Cause.MEMBER_JOINED,), triggered_ms=b.T0 + 41_000
    )
    found = reconstruct(with_static(static(2), other, at_ms=30_000).recording(g3=said), b.T0 + 30_000)
    assert sorted(told(found)[2:]) == [("Close", "i", 20_000), ("Start", "c", 28_500), ("Start", "i", 28_500)]


def test_a_static_restart_lasted_since_the_last_commit() -> None:
    history = History()
    history.at(0, b.member("a-1", {"t": [0]}, instance_id="i"))
    history.commits(20_000, 0)
    history.at(30_000, b.member("a-2", {"t": [0]}, instance_id="i"), same=True)
    found = of(history, 40_000)
    assert told(found) == [("Start", "i", 0), ("Close", "i", 20_000), ("Start", "i", 30_000)]
    assert found.notes == {"static_restart": 1}


def test_or_a_second_where_nothing_was_committed() -> None:
    history = History()
    history.at(0, b.member("a-1", {"t": [0]}, instance_id="i"))
    history.at(30_000, b.member("a-2", {"t": [0]}, instance_id="i"), same=True)
    assert told(of(history, 40_000))[1:] == [("Close", "i", 29_000), ("Start", "i", 30_000)]


def test_what_changed_within_a_generation_is_shown_to_differ() -> None:
    history = History()
    history.at(0, *shared_out(["a-1", "b-1"]))
    history.at(30_000, *shared_out(["a-1", "c-1"]), same=True)
    found = reconstruct(history.recording(), history.now_ms)
    assert told(found)[2:] == [("Close", "b", 30_000), ("Start", "b", 30_000)]
    assert not replay_accuracy(found, replay(found.script)).is_exact


def test_another_subscription() -> None:
    history = History()
    history.at(0, *shared_out(["a-1"]))
    history.at(9_000, b.member("a-1", {"t": range(6)}, topics=["t", "u"]))
    step = of(history).script.steps[1]
    assert step == s.Resubscribe(b.T0 + 7_500, "a", frozenset({"t", "u"}))


def test_more_partitions() -> None:
    history = History()
    history.at(0, *shared_out(["a-1"], partitions=4))
    history.at(9_000, *shared_out(["a-1"], partitions=8))
    history.at(19_000, *shared_out(["a-1"], partitions=12))
    found = of(history)
    assert found.script.partitions == {"t": 4}
    assert [it for it in found.script.steps if isinstance(it, s.SetPartitions)] == [
        s.SetPartitions(b.T0 + 7_500, "t", 8),
        s.SetPartitions(b.T0 + 17_500, "t", 12),
    ]


def test_partitions_that_come_to_light_were_there_before() -> None:
    history = History("cooperative-sticky")
    keeps = b.member("a-1", {"t": [0, 1]}, owned={"t": [0, 1, 2, 3]})
    history.at(0, b.member("a-1", {"t": range(4)}))
    history.at(9_000, keeps, b.member("b-1", {}))
    history.at(12_000, keeps, b.member("b-1", {"t": [2, 3, 4, 5], "u": [0]}))
    found = reconstruct(history.recording(), history.now_ms)
    assert found.script.partitions == {"t": 6, "u": 1}
    assert not [it for it in found.script.steps if isinstance(it, s.SetPartitions)]


def test_a_number_of_a_partition_is_a_clients_word() -> None:
    history = History()
    history.at(0, b.member("a-1", {"t": [0, 2**31 - 1], "u": [0]}, topics=("t", "u")))
    assert of(history).script.partitions == {"t": 2, "u": 1}, "the replay makes each partition of a topic"


def test_a_leader_that_asks_again() -> None:
    history = History()
    history.at(0, *shared_out(["a-1"]))
    history.at(9_000, *shared_out(["a-1"]))
    found = of(history)
    assert told(found)[1:] == [("Rejoin", "a", 7_500)]
    assert found.notes == {}


def test_a_leader_that_nobody_knows_cannot_ask_again() -> None:
    history = History()
    history.add(b.classic_group(1, *shared_out(["a-1"]), leader="nobody", state_ms=b.T0), after_ms=0)
    history.generation = 1
    history.at(9_000, *shared_out(["a-1"]))
    assert told(reconstruct(history.recording(), history.now_ms)) == [("Start", "a", 0)]


def test_generations_that_never_completed_are_counted() -> None:
    history = History()
    history.at(0, *shared_out(["a-1"]))
    history.at(9_000, *shared_out(["a-1"]), skip=2)
    found = of(history)
    assert told(found)[1:] == [("Rejoin", "a", 7_500)]
    assert found.notes == {"never_completed": 2, "unknown_rebalance": 1}
    assert [it.skipped for it in found.expected] == [0, 2]


def test_a_group_found_with_members_is_brought_there_first() -> None:
    history = History(created=False, generation=41)
    history.at(0, *shared_out(["a-1", "b-1"]))
    history.at(20_000, *shared_out(["a-1"]))
    found = of(history)
    assert (found.opening_ms, found.opening) == (b.T0, (42, b.T0, frozenset({"a", "b"}), 0, None))
    assert [it.generation for it in found.expected] == [43]
    assert all(at_ms < 0 for kind, _, at_ms in told(found) if kind == "Start")


def test_an_assignor_that_the_model_does_not_know() -> None:
    history = History("homemade")
    history.at(0, *shared_out(["a-1", "b-1"]))
    history.at(9_000, *shared_out(["a-1", "b-1", "c-1"]))
    found = reconstruct(history.recording(), history.now_ms)
    assert {it.settings.assignors for it in found.script.steps if isinstance(it, s.Start)} == {("range",)}
    assert found.notes == {"foreign_assignor": 3}


def test_and_one_that_keeps_partitions() -> None:
    history = History("homemade")
    history.at(0, b.member("a-1", {"t": [0]}, owned={"t": [0]}))
    start = reconstruct(history.recording(), history.now_ms).script.steps[0]
    assert isinstance(start, s.Start)
    assert start.settings.assignors == ("cooperative-sticky",)


def test_a_change_of_assignor_leaves_both() -> None:
    history = History()
    history.at(0, *shared_out(["a-1"]))
    history.protocol = "roundrobin"
    history.at(9_000, *shared_out(["a-1"]))
    start = reconstruct(history.recording(), history.now_ms).script.steps[0]
    assert isinstance(start, s.Start)
    assert start.settings.assignors == ("roundrobin", "range")


def test_timeouts_that_cannot_be() -> None:
    history = History()
    history.at(0, *shared_out(["a-1"], session_ms=1, rebalance_ms=0))
    start = of(history).script.steps[0]
    assert isinstance(start, s.Start)
    settings = start.settings
    assert (settings.session_timeout_ms, settings.heartbeat_interval_ms) == (1_000, 333)


def test_nobody_at_all() -> None:
    history = History()
    history.at(0)
    with pytest.raises(NothingToReplay, match="no member"):
        reconstruct(history.recording(), b.T0)


def test_records_behind_one_that_is_dated_ahead_have_its_time() -> None:
    """Nobody does anything before its start for that."""
    history = History()
    history.at(0, *shared_out(["a-1", "b-1"]))
    history.at(3_600_000, *shared_out(["a-1", "b-1"]))
    history.at(60_000, *shared_out(["a-2", "b-1", "c-1"]))
    history.at(120_000, *shared_out(["a-2", "b-1"]))
    went = {"g3": gone(Cause.SESSION_TIMEOUT, 60_000, "a-1"), "g4": gone(Cause.MEMBER_LEFT, 120_000, "c-1")}
    found = reconstruct(history.recording(**went), b.T0 + 3_700_000)
    assert told(found)[-4:] == [
        ("Kill", "a", 3_600_001),
        ("Start", "a", 3_600_001),
        ("Start", "c", 3_600_001),
        ("Close", "c", 3_600_001),
    ]
    assert replay(found.script).rebalances
