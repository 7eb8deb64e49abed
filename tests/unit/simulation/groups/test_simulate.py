"""Plays: what scripts come to, in numbers that can be checked by hand.

One message takes 10 ms each way here; heartbeats go out every 3 s, counted from JoinGroup's answer. A first member
asks at 0, is given an id at 10, asks again at 20, the join phase begins at 30 and lasts 3 s; the answer is there at
3,040, SyncGroup at the broker at 3,050, and the assignment at the client at 3,060. If others ask with it, the first
phase is prolonged once, by 3 s more: all have their assignments at 6,060. Static members save the first 20 ms.
"""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from agent.simulation.groups.messages import Effect, RebalanceReason
from agent.simulation.groups.script import (
    AdminRemove,
    Close,
    Freeze,
    Kill,
    Rejoin,
    Resubscribe,
    Script,
    SetPartitions,
    Stall,
    Start,
    Step,
)
from agent.simulation.groups.simulate import (
    SimulatedDeparture,
    SimulatedRebalance,
    SimulationResult,
    StoppedTime,
    simulate,
)
from agent.simulation.groups.simulation import Simulation, TooManyMoments, member_id_suffixes
from tests.unit.simulation.groups.scripts import COOPERATIVE, cooperative_assignor, settings

S = 1000


def story(*steps: Step, until: int, partitions: int = 4, **changes: Any) -> Script:
    return Script("g", {"t": partitions}, steps, until, latency_ms=10, **changes)


def starts(*clients: str, at: int = 0, **changes: Any) -> tuple[Step, ...]:
    return tuple(Start(at, name, settings(name, **changes)) for name in clients)


def static(*clients: str, at: int = 0, **changes: Any) -> tuple[Step, ...]:
    return tuple(Start(at, name, settings(name, instance_id=f"i-{name}", **changes)) for name in clients)


def causes(played: SimulationResult) -> list[tuple[str, ...]]:
    return [tuple(map(str, it.causes)) for it in played.rebalances]


def gone(played: SimulationResult) -> list[tuple[str, int, str, int | None]]:
    return [(it.client, it.at_ms, str(it.reason), it.died_ms) for it in played.departures]


# Small cases, by hand.


def test_one_member_comes() -> None:
    played = simulate(story(*starts("c1"), until=60 * S))
    # Four partitions wait from 0 to 3,060; of that the rebalance, which begins at 30, has 3,030.
    assert played.stopped == StoppedTime(rebalancing=4 * 3_060, undetected=0, unowned=0)
    assert played.rebalances == (
        SimulatedRebalance(
            1, 30, 3_030, 3_050, (RebalanceReason.MEMBER_JOINED,), ("c1",), 4 * 3_030, StoppedTime(4 * 3_050)
        ),
    )
    assert played.departures == ()
    assert [(it.at_ms, it.generation, str(it.state)) for it in played.images] == [
        (10, 0, "Empty"),
        (3_050, 1, "Stable"),
    ]


def test_a_group_that_never_rests_is_given_up() -> None:
    # Thrown out before its first heartbeat, it comes again, all day long.
    restless = story(*starts("c1", session_timeout_ms=6_000, heartbeat_interval_ms=9_000), until=24 * 3600 * S)
    with pytest.raises(TooManyMoments, match="expected at most 1,000 moments at which something happens"):
        simulate(restless, 1_000)
    assert simulate(story(*starts("c1"), until=24 * 3600 * S), 1_000).departures == ()


def test_the_only_member_dies() -> None:
    played = simulate(story(*starts("c1"), Kill(100 * S, "c1"), until=200 * S))
    # Its last heartbeat went out at 3,040 + 32 * 3,000 = 99,040 and was there at 99,050: 45 s later it is out.
    (departure,) = played.departures
    assert departure == SimulatedDeparture(
        "c1", departure.member_id, 144_050, RebalanceReason.SESSION_TIMEOUT, 100 * S
    )
    assert played.rebalances[1:] == (
        SimulatedRebalance(
            2, 144_050, 144_050, 144_050, (RebalanceReason.SESSION_TIMEOUT,), (), 0, StoppedTime(12_240, 176_200)
        ),
    )
    # Nobody knows from 100,000 to 144,050, and nobody is there from then to 200,000.
    assert played.stopped == StoppedTime(4 * 3_060, undetected=4 * 44_050, unowned=4 * 55_950)
    assert (played.images[-1].state, played.images[-1].generation) == ("Empty", 2)


def test_one_of_two_closes() -> None:
    played = simulate(story(*starts("c1", "c2"), Close(100 * S, "c2"), until=200 * S))
    # LeaveGroup is there at 100,010. c1 hears of it by its heartbeat of 102,040 at 102,060, gives back what it has,
    # JoinGroup is there at 102,070, its answer at 102,080, SyncGroup at 102,090, the assignment at 102,100.
    assert played.rebalances[1:] == (
        SimulatedRebalance(
            2,
            100_010,
            102_070,
            102_090,
            (RebalanceReason.MEMBER_LEFT,),
            ("c1",),
            2 * 2_090 + 2 * 40,
            StoppedTime(28_480),
        ),
    )
    # c2's two wait from 100,000 on, c1's two from 102,060 on.
    assert played.stopped == StoppedTime(4 * 6_060 + 2 * 2_100 + 2 * 40, 0, 0)
    assert gone(played) == [("c2", 100_010, "member_left", None)]


def test_one_of_two_stalls() -> None:
    played = simulate(
        story(*starts("c1", "c2", max_poll_interval_ms=60 * S), Stall(100 * S, "c2", 90 * S), until=300 * S)
    )
    # At 160,000 it leaves: the group knows at 160,010. c1 beats at 162,040; as above, its new assignment is there
    # at 162,100. c2 polls again at 190,000 and joins anew: id at 190,010, in at 190,030. c1 beats at 192,080, 30 s
    # after JoinGroup's answer, hears of it at 192,100 and joins; both have their partitions at 192,140.
    assert gone(played) == [("c2", 160_010, "poll_timeout", 100 * S)]
    assert [(it.began_ms, it.joined_ms, it.completed_ms) for it in played.rebalances[1:]] == [
        (160_010, 162_070, 162_090),
        (190_030, 192_110, 192_130),
    ]
    assert played.stopped.undetected == 2 * 60_010
    # From 160,010 to 162,100 c2's, from 162,060 c1's; later all four of c1 from 192,100 to 192,140.
    assert played.stopped.rebalancing == 4 * 6_060 + 2 * 2_090 + 2 * 40 + 4 * 40
    assert causes(played) == [("member_joined",), ("poll_timeout",), ("member_joined",)]


def test_a_short_stall_is_time_lost_and_no_rebalance() -> None:
    played = simulate(story(*starts("c1", "c2"), Stall(100 * S, "c2", 90 * S), until=300 * S))
    assert len(played.rebalances) == 1
    assert played.stopped == StoppedTime(4 * 6_060, undetected=2 * 90 * S, unowned=0)


def test_a_topic_that_nobody_running_wants_is_unowned() -> None:
    steps = (*starts("c1"), Resubscribe(100 * S, "c1", frozenset({"u"})))
    played = simulate(Script("g", {"t": 4, "u": 1}, steps, 200 * S, latency_ms=10))
    # "t" is wanted by nobody any more, so it is not missed.
    assert played.stopped.unowned == 0
    assert causes(played) == [("member_joined",), ("subscription_changed",)]
    # One client stays with "t" but is dead, then out; the other never wanted it.
    mixed = (
        Start(0, "c1", settings("c1")),
        Start(0, "c2", settings("c2", topics=frozenset({"u"}))),
        Kill(100 * S, "c1"),
    )
    played = simulate(Script("g", {"t": 4, "u": 1}, mixed, 200 * S, latency_ms=10))
    ((_, out_ms, _, _),) = gone(played)
    assert played.stopped.undetected == 4 * (out_ms - 100 * S)
    assert played.stopped.unowned == 4 * (200 * S - out_ms)


# What protocol and settings cost.


def deploy(first: tuple[Step, ...], down_ms: int) -> Script:
    """All are restarted, one a minute, each down for so long."""
    again: list[Step] = []
    for number, step in enumerate(first):
        assert isinstance(step, Start)
        at = 100 * S + number * 60 * S
        again += [Close(at, step.client), replace(step, at_ms=at + down_ms)]
    return story(*first, *again, until=500 * S, partitions=6)


def test_a_deploy_of_n_dynamic_members_is_2n_rebalances() -> None:
    played = simulate(deploy(starts("c1", "c2", "c3"), 30 * S))
    assert causes(played)[1:] == [("member_left",), ("member_joined",)] * 3
    assert [len(it.clients) for it in played.rebalances] == [3, 2, 3, 2, 3, 2, 3]


def test_a_deploy_of_static_members_inside_the_session_timeout_is_none() -> None:
    played = simulate(deploy(static("c1", "c2", "c3"), 30 * S))
    assert len(played.rebalances) == 1
    assert played.departures == ()
    # Each time two partitions stand still while their client is away, until its JoinGroup is there, 10 ms after its
    # start; and for the 30 ms until its SyncGroup is answered.
    assert played.stopped == StoppedTime(6 * 6_040 + 3 * 2 * 30, undetected=3 * 2 * 30_010, unowned=0)
    # Its new id is written each time.
    assert len(played.images) == 2 + 3


def test_a_static_member_away_for_longer_than_its_session_is_two_rebalances() -> None:
    played = simulate(story(*static("c1", "c2"), Close(100 * S, "c2"), *static("c2", at=160 * S), until=300 * S))
    assert causes(played)[1:] == [("session_timeout",), ("member_joined",)]
    assert gone(played) == [("c2", 144_030, "session_timeout", 100 * S)]


@pytest.mark.parametrize(("start", "out_ms"), [(starts, 144_050), (static, 144_030)])
def test_a_pause_longer_than_the_session_is_two_rebalances(start: Any, out_ms: int) -> None:
    played = simulate(story(*start("c1", "c2"), Freeze(100 * S, "c2", 60 * S), until=300 * S))
    assert causes(played)[1:] == [("session_timeout",), ("member_joined",)]
    assert gone(played) == [("c2", out_ms, "session_timeout", 100 * S)]


@pytest.mark.parametrize(("start", "first_ms"), [(starts, 6_060), (static, 6_040)])
def test_a_pause_shorter_than_the_session_is_none(start: Any, first_ms: int) -> None:
    played = simulate(story(*start("c1", "c2"), Freeze(100 * S, "c2", 40 * S), until=300 * S))
    assert len(played.rebalances) == 1
    assert played.stopped == StoppedTime(4 * first_ms, undetected=2 * 40 * S, unowned=0)


@pytest.mark.parametrize("died_ms", range(100 * S, 103 * S, 250))
@pytest.mark.parametrize(("session_ms", "interval_ms"), [(45 * S, 3 * S), (10 * S, 1 * S), (6 * S, 2_900)])
def test_a_death_is_known_within_the_session_timeout(died_ms: int, session_ms: int, interval_ms: int) -> None:
    timeouts = {"session_timeout_ms": session_ms, "heartbeat_interval_ms": interval_ms}
    played = simulate(story(*starts("c1", "c2", **timeouts), Kill(died_ms, "c2"), until=200 * S))
    ((client, at_ms, why, died),) = gone(played)
    assert (client, why, died) == ("c2", "session_timeout", died_ms)
    # A heartbeat that was on its way counts from its arrival.
    assert session_ms - interval_ms <= at_ms - died_ms - 10 <= session_ms


def test_a_static_member_that_does_not_poll_is_out_a_session_later() -> None:
    played = simulate(
        story(*static("c1", "c2", max_poll_interval_ms=60 * S), Stall(100 * S, "c2", 200 * S), until=400 * S)
    )
    # Its heartbeats end at 160,000: the last was that of 159,020.
    assert gone(played) == [("c2", 159_030 + 45 * S, "session_timeout", 100 * S)]
    assert causes(played)[1:] == [("session_timeout",), ("member_joined",)]


def test_a_static_member_that_polls_in_time_is_replaced_by_itself() -> None:
    played = simulate(
        story(*static("c1", "c2", max_poll_interval_ms=60 * S), Stall(100 * S, "c2", 80 * S), until=400 * S)
    )
    assert len(played.rebalances) == 1
    assert played.departures == ()
    assert len(played.images) == 3
    assert len({member.member_id for image in played.images[1:] for member in image.members}) == 3


def test_a_static_member_that_comes_back_wanting_more_is_not_heard_before_the_next_rebalance() -> None:
    wider = {"instance_id": "i-c1", "topics": frozenset({"t", "u"})}
    steps = (*static("c1"), Close(50 * S, "c1"), Start(60 * S, "c1", settings("c1", **wider)))
    played = simulate(Script("g", {"t": 4, "u": 1}, (*steps, Rejoin(100 * S, "c1")), 200 * S, latency_ms=10))
    assert [image.generation for image in played.images] == [0, 1, 1, 2]
    # As the broker writes what it wants without asking the leader, "u" waits until somebody asks for a rebalance:
    # 40,040 ms, and before that 4 * 30 ms and then 4 * 40 ms for "t".
    assert played.stopped == StoppedTime(4 * 3_040 + 40_040 + 4 * 30 + 4 * 40, undetected=4 * 10_010, unowned=0)


def test_a_static_member_that_comes_back_wanting_something_else_asks_for_a_rebalance() -> None:
    other = settings("c1", instance_id="i-c1", topics=frozenset({"u"}))
    steps = (*static("c1"), Close(50 * S, "c1"), Start(60 * S, "c1", other))
    played = simulate(Script("g", {"t": 4, "u": 1}, steps, 200 * S, latency_ms=10))
    assert [image.generation for image in played.images] == [0, 1, 1, 2]
    assert causes(played)[1:] == [("subscription_changed",)]


def test_what_a_topic_gained_while_its_static_leader_was_away_waits_for_a_rebalance() -> None:
    steps = (*static("c1"), Close(50 * S, "c1"), SetPartitions(55 * S, "t", 6), *static("c1", at=60 * S))
    played = simulate(story(*steps, Rejoin(100 * S, "c1"), until=200 * S))
    # The broker spares a leader that comes back the assignment, and it takes the topics as they are then for known.
    assert [image.generation for image in played.images] == [0, 1, 1, 2]
    assert [len(image.members[0].assignment) for image in played.images[1:]] == [4, 4, 6]


def test_who_joins_slowly_is_dropped_with_the_join_phase() -> None:
    slow = Start(0, "c2", settings("c2", rejoin_delay_ms=90 * S, max_poll_interval_ms=60 * S))
    first = starts("c1", max_poll_interval_ms=60 * S)
    played = simulate(story(*first, slow, *starts("c3", at=100 * S, max_poll_interval_ms=60 * S), until=400 * S))
    (departure, *_) = gone(played)
    # c3 is in at 100,030.
    assert departure == ("c2", 160_030, "not_rejoined", None)
    assert causes(played)[1] == ("member_joined", "not_rejoined")


def test_removed_by_an_admin() -> None:
    for start, name in ((starts, "c2"), (static, "c2")):
        played = simulate(story(*start("c1", "c2"), AdminRemove(100 * S, name), until=200 * S))
        assert gone(played) == [(name, 100 * S, "admin_removed", None)]
        # It is told by its next heartbeat, and joins again: as c1 was told just before, another rebalance.
        assert causes(played)[1:] == [("admin_removed",), ("member_joined",)]


def test_a_dead_members_removal_by_hand() -> None:
    played = simulate(story(*static("c1", "c2"), Kill(100 * S, "c2"), AdminRemove(110 * S, "c2"), until=200 * S))
    assert gone(played) == [("c2", 110 * S, "admin_removed", None)]
    assert played.stopped.undetected == 2 * 10 * S


def test_a_topic_grows() -> None:
    played = simulate(
        story(*starts("c1", "c2"), SetPartitions(100 * S, "t", 6), SetPartitions(150 * S, "t", 0), until=200 * S)
    )
    assert causes(played)[1:] == [("partitions_changed",), ("partitions_changed",)]
    assert played.images[2].members[0].assignment in {(("t", 0), ("t", 1), ("t", 2)), (("t", 3), ("t", 4), ("t", 5))}
    assert [member.assignment for member in played.images[3].members] == [(), ()]


def test_a_topic_that_grows_while_nobody_runs() -> None:
    played = simulate(story(*starts("c1"), Kill(50 * S, "c1"), SetPartitions(60 * S, "t", 6), until=100 * S))
    # Its last heartbeat was there at 48,050. The new partitions were never anybody's.
    assert gone(played) == [("c1", 93_050, "session_timeout", 50 * S)]
    assert played.stopped == StoppedTime(4 * 3_060, 4 * 43_050, 2 * 33_050 + 6 * 6_950)


def test_asked_to_join_again() -> None:
    played = simulate(story(*starts("c1", "c2"), Rejoin(100 * S, "c1"), Rejoin(150 * S, "c2"), until=200 * S))
    # The generation in its subscription is news to the broker, whoever asks.
    assert len(played.rebalances) == 3


def test_a_rebalance_that_another_overtakes_has_no_end() -> None:
    # c1 and c2 hear of c3 at 51,060; the join phase ends at 51,070 and the leader's SyncGroup is there at 51,090.
    steps = (*starts("c1", "c2"), *starts("c3", at=50 * S), Close(51_075, "c3"))
    played = simulate(story(*steps, until=100 * S))
    assert [it.completed_ms is None for it in played.rebalances] == [False, True, False]
    assert causes(played)[1:] == [("member_joined",), ("member_left",)]


# Incremental cooperative rebalancing.


def test_a_third_consumer_takes_two_rounds_and_stops_only_what_it_gets() -> None:
    with cooperative_assignor():
        script = story(
            *starts("c1", "c2", assignors=COOPERATIVE),
            *starts("c3", at=100 * S, assignors=COOPERATIVE),
            until=200 * S,
            partitions=6,
        )
        held: dict[str, list[frozenset[int]]] = {"c1": [], "c2": [], "c3": []}

        def watch(world: Simulation, now: int, effects: list[Effect]) -> None:
            for name, client in world.clients.items():
                owned = frozenset(number for _, number in client.owned)
                if now >= 100 * S and (not held[name] or held[name][-1] != owned):
                    held[name].append(owned)

        Simulation(script, watch).run()
        played = simulate(script)
    first, second = sorted((held["c1"], held["c2"]), key=min)
    # Each keeps two of its three all the time, and gives back the third; they are the newcomer's then.
    for before, after in (first, second):
        assert len(before) == 3
        assert len(after) == 2
        assert after < before
    freed = (first[0] - first[1]) | (second[0] - second[1])
    assert held["c3"] == [frozenset(), freed]
    assert first[0] | second[0] == frozenset(range(6))
    _, round_1, round_2 = played.rebalances
    assert round_1.causes == (RebalanceReason.MEMBER_JOINED,)
    assert round_2.causes[0] is RebalanceReason.COOPERATIVE_FOLLOWUP
    # Of six partitions two stand still, from the moment they are given back: at most a heartbeat's interval and some
    # messages, while who does not give anything back hears of the second round.
    assert played.stopped.rebalancing - 6 * 6_060 <= 2 * (3 * S + 100)
    assert round_1.stopped_partition_ms + round_2.stopped_partition_ms == played.stopped.rebalancing - 6 * 6_060


# The world.


def test_who_was_not_started_can_do_nothing() -> None:
    with pytest.raises(ValueError, match="expected a client that was started before, 'c1' was not"):
        simulate(story(Kill(0, "c1"), until=1))


def test_a_start_ends_the_life_before_it() -> None:
    played = simulate(story(*starts("c1"), *starts("c1", at=100 * S), until=300 * S))
    # As if it had been killed: the group waits for the former member until its session ends.
    assert gone(played) == [("c1", 144_050, "session_timeout", 100 * S)]
    # What the former one held is nobody's until then, and then until the new one has it, 30 ms later.
    assert played.stopped.undetected == 4 * 44_050
    assert played.stopped.rebalancing == 4 * 3_060 + 4 * 30


def test_former_lives_are_forgotten_with_their_members() -> None:
    steps = [step for second in range(0, 3000, 100) for step in starts("c1", at=second * S)]
    world = Simulation(story(*steps, until=4000 * S), lambda *_: None)
    world.run()
    # A session is 45 s: the one before the last was gone when the last one came.
    assert len(world.former_clients) == 1


def test_a_client_that_dies_before_it_hears_its_id_is_known_all_the_same() -> None:
    played = simulate(story(*static("c1"), Kill(5, "c1"), until=400 * S))
    ((client, at_ms, why, died_ms),) = gone(played)
    # Its join is answered into the void at 3,010.
    assert (client, at_ms, why, died_ms) == ("c1", 48_010, "session_timeout", 5)


def test_ids_are_the_same_for_the_same_seed() -> None:
    first, again, other = member_id_suffixes("g", 1), member_id_suffixes("g", 1), member_id_suffixes("g", 2)
    made = [first() for _ in range(3)]
    assert made == [again() for _ in range(3)]
    assert other() not in made
    assert [len(part) for part in made[0].split("-")] == [8, 4, 4, 4, 12]


def test_time_may_be_of_any_origin() -> None:
    def at(origin: int) -> SimulationResult:
        return simulate(
            story(
                *starts("c1", "c2", at=origin),
                Stall(origin + 50 * S, "c1", 9 * S),
                Kill(origin + 100 * S, "c2"),
                until=origin + 300 * S,
            )
        )

    assert at(-100 * S).stopped == at(0).stopped == at(1_700_000_000_000).stopped


@pytest.mark.parametrize("members", [1, 2, 10, 200])
def test_a_quiet_day_costs_nothing(members: int) -> None:
    moments = 0

    def watch(*_: Any) -> None:
        nonlocal moments
        moments += 1

    names = [f"c{number}" for number in range(members)]
    script = Script("g", {"t": 2 * members}, starts(*names), 24 * 3600 * S)
    Simulation(script, watch).run()
    assert moments < 20
    assert simulate(script).stopped.rebalancing == 2 * members * (3_006 if members == 1 else 6_006)
