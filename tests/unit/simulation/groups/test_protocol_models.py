"""KIP-848 groups in the world of scripts: what a play of them comes to, beside one of classic groups."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from agent.simulation.groups.messages import RebalanceReason
from agent.simulation.groups.script import (
    AdminRemove,
    ClientSettings,
    Close,
    Freeze,
    GroupProtocol,
    Kill,
    Rejoin,
    Resubscribe,
    Script,
    SetPartitions,
    Stall,
    Start,
    Step,
)
from agent.simulation.groups.simulate import SimulationResult, simulate
from agent.simulation.groups.simulation import Simulation
from tests import examples

S = 1000
MODERN = ClientSettings("c", frozenset({"t"}), group_protocol=GroupProtocol.CONSUMER, max_poll_interval_ms=60 * S)


def client(number: int, *, static: bool = False) -> ClientSettings:
    return replace(MODERN, client_id=f"c{number}", instance_id=f"i{number}" if static else None)


def starts(count: int, *, static: bool = False) -> list[Step]:
    return [Start(number * 100, f"c{number}", client(number, static=static)) for number in range(count)]


def script(steps: list[Step], until: int = 400 * S, partitions: int = 6) -> Script:
    return Script("g", {"t": partitions, "u": 3}, tuple(steps), until)


def epochs_after(played: SimulationResult, at: int) -> list[tuple[int, tuple[RebalanceReason, ...], tuple[str, ...]]]:
    return [(it.generation, it.causes, it.clients) for it in played.rebalances if it.began_ms > at]


def test_a_deploy_of_dynamic_members_is_two_epochs_for_each() -> None:
    steps = starts(3)
    for number in range(3):
        at = (100 + 30 * number) * S
        steps += [Close(at, f"c{number}"), Start(at + 4 * S, f"c{number}", client(number))]
    played = simulate(script(steps))
    assert [causes for _, causes, _ in epochs_after(played, 50 * S)] == [
        (RebalanceReason.MEMBER_LEFT,),
        (RebalanceReason.MEMBER_JOINED,),
    ] * 3
    assert [it.reason for it in played.departures] == [RebalanceReason.MEMBER_LEFT] * 3
    assert played.rebalances[-1].clients == ("c0", "c1", "c2")
    assert played.rebalances[-1].completed_ms is not None


def test_a_deploy_of_static_members_is_none() -> None:
    steps = starts(3, static=True)
    for number in range(3):
        at = (100 + 30 * number) * S
        steps += [Close(at, f"c{number}"), Start(at + 4 * S, f"c{number}", client(number, static=True))]
    played = simulate(script(steps))
    assert epochs_after(played, 50 * S) == []
    assert played.departures == ()
    # Two partitions each stood still for four seconds and the way of the request that brings them back.
    assert 3 * 2 * 4 * S <= played.stopped.undetected <= 3 * 2 * (4 * S + 10)


def test_a_death_is_noticed_after_the_brokers_session_timeout() -> None:
    played = simulate(script([*starts(2), Kill(100 * S, "c1")]))
    (gone,) = played.departures
    assert (gone.client, gone.reason, gone.died_ms) == ("c1", RebalanceReason.SESSION_TIMEOUT, 100 * S)
    assert 40 * S <= gone.at_ms - 100 * S <= 45 * S + 1
    assert played.stopped.undetected == 3 * (gone.at_ms - 100 * S)
    assert epochs_after(played, 100 * S) == [(4, (RebalanceReason.SESSION_TIMEOUT,), ("c0",))]


def test_who_does_not_poll_leaves_by_itself_and_comes_back() -> None:
    played = simulate(script([*starts(2), Stall(100 * S, "c1", 90 * S)]))
    (gone,) = played.departures
    assert (gone.client, gone.reason, gone.at_ms, gone.died_ms) == (
        "c1",
        RebalanceReason.POLL_TIMEOUT,
        160 * S + 1,
        100 * S,
    )
    assert [causes for _, causes, _ in epochs_after(played, 100 * S)] == [
        (RebalanceReason.POLL_TIMEOUT,),
        (RebalanceReason.MEMBER_JOINED,),
    ]


def test_topics_that_grow_and_members_that_are_removed() -> None:
    played = simulate(
        script([*starts(2), SetPartitions(100 * S, "t", 8), AdminRemove(200 * S, "c0"), Rejoin(300 * S, "c0")])
    )
    assert [causes for _, causes, _ in epochs_after(played, 50 * S)] == [
        (RebalanceReason.PARTITIONS_CHANGED,),
        (RebalanceReason.ADMIN_REMOVED,),
        # It does not know why it is out, and is back with its next heartbeat.
        (RebalanceReason.MEMBER_JOINED,),
    ]


def test_a_group_that_migrates_is_refused() -> None:
    classic = replace(client(1), group_protocol=GroupProtocol.CLASSIC)
    with pytest.raises(ValueError, match="group 'g': expected clients of one protocol"):
        simulate(script([*starts(1), Start(5, "c1", classic)]))


STEPS = st.one_of(
    st.builds(Start, st.integers(0, 300 * S), st.just("c0"), st.just(client(0))),
    st.builds(Start, st.integers(0, 300 * S), st.just("c1"), st.just(client(1, static=True))),
    st.builds(Close, st.integers(1, 300 * S), st.sampled_from(["c0", "c1"])),
    st.builds(Kill, st.integers(1, 300 * S), st.sampled_from(["c0", "c1"])),
    st.builds(Stall, st.integers(1, 300 * S), st.sampled_from(["c0", "c1"]), st.integers(1, 100 * S)),
    st.builds(Freeze, st.integers(1, 300 * S), st.sampled_from(["c0", "c1"]), st.integers(1, 100 * S)),
    st.builds(Resubscribe, st.integers(1, 300 * S), st.just("c0"), st.just(frozenset({"t", "u"}))),
    st.builds(SetPartitions, st.integers(1, 300 * S), st.just("t"), st.integers(1, 12)),
)
BEFORE: list[Step] = [Start(0, "c0", client(0)), Start(0, "c1", client(1, static=True))]


@settings(max_examples=examples(60), deadline=None)
@given(st.lists(STEPS, max_size=8))
def test_heartbeats_that_are_not_played_one_by_one_change_nothing(steps: list[Step]) -> None:
    told = script([*BEFORE, *steps])

    class Slow(Simulation):
        def _skip_heartbeats(self) -> None:
            """Each is played."""

    quick = simulate(told)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("agent.simulation.groups.simulate.Simulation", Slow)
        assert simulate(told) == quick
