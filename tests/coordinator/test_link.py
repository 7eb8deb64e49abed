"""A coordinator that does not answer: when it is taken for lost, how it is looked for, and what comes of it."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agent.coordinator.client import Consumer
from agent.coordinator.coordinator import Coordinator
from agent.coordinator.group_client import Phase
from agent.coordinator.hashing import partition_of
from agent.coordinator.link import JOIN_LAPSE_MS, LOOKUP_MS
from agent.coordinator.play import play
from agent.coordinator.requests import (
    Answered,
    Error,
    FindCoordinator,
    Found,
    Heartbeat,
    Joined,
    JoinGroup,
    LeaveGroup,
    Synced,
    Why,
)
from agent.coordinator.script import (
    BrokerSettings,
    ClientSettings,
    Close,
    CutOff,
    Freeze,
    GroupProtocol,
    Kill,
    Script,
    Stall,
    Start,
    Step,
)
from agent.coordinator.world import World, ids

S = 1000
SESSION = 10 * S


def client_settings(number: int = 0, **changes: object) -> ClientSettings:
    base: dict[str, object] = {"session_timeout_ms": SESSION, "assignors": ("range",), "max_poll_interval_ms": 60 * S}
    return ClientSettings(f"c{number}", frozenset({"t"}), **{**base, **changes})  # type: ignore[arg-type]


def member() -> Consumer:
    """A follower, stable since 0 s; its heartbeats are due each 3 s."""
    client = Consumer("g", client_settings(), {"t": 2})
    client.start(0)
    client.answered(Joined(Error.MEMBER_ID_REQUIRED, "c0-1"), 0)
    client.answered(Joined(Error.NONE, "c0-1", 4, "consumer", "range", "another"), 0)
    client.answered(Synced(Error.NONE, (("t", 0),), "consumer", "range"), 0)
    assert client.phase is Phase.STABLE
    return client


def test_a_coordinator_says_where_a_group_lives() -> None:
    coordinator = Coordinator(BrokerSettings(), ids("g", 0), offsets_partitions=7)
    assert coordinator.handle(FindCoordinator("payments"), 1, 0) == [Answered(1, Found(partition_of("payments", 7)))]


def test_no_answer_for_the_session_timeout_means_that_it_is_lost() -> None:
    client = member()
    sent = [(now, request) for now in range(0, 9001, 3000) for request in client.wake(now)]
    assert [type(request) for _, request in sent] == [Heartbeat] * 3
    assert client.due == SESSION
    assert client.wake(SESSION) == [FindCoordinator("g")]
    # It goes on with what it has, and says nothing until it has found it.
    assert client.owned == {("t", 0)}
    assert client.due == SESSION + LOOKUP_MS
    assert client.wake(SESSION + LOOKUP_MS) == [FindCoordinator("g")]
    (beat,) = client.answered(Found(3), SESSION + LOOKUP_MS + 5)
    assert beat == Heartbeat("g", 4, "c0-1")
    assert client.answered(Found(3), SESSION + LOOKUP_MS + 6) == []
    assert client.due == SESSION + LOOKUP_MS + 5 + 3 * S


def test_a_join_waits_for_longer_than_a_rebalance_may_take() -> None:
    client = Consumer("g", client_settings(), {"t": 2})
    client.start(0)
    lost = 60 * S + JOIN_LAPSE_MS
    assert client.due == lost
    assert client.wake(lost) == [FindCoordinator("g")]
    (again,) = client.answered(Found(3), lost + 2)
    assert isinstance(again, JoinGroup)


def test_a_rebalance_heard_of_before_waits_until_it_is_found() -> None:
    client = member()
    client.settings = client_settings(rejoins_ms=SESSION)
    client.wake(3 * S)
    client.rejoin(3 * S)
    assert client.phase is Phase.JOINING
    client = member()
    assert client.wake(SESSION) == [FindCoordinator("g")]
    assert client.rejoin(SESSION + 1) == []
    assert client.due == SESSION + LOOKUP_MS
    requests = client.answered(Found(3), SESSION + 2)
    assert [type(request) for request in requests] == [Heartbeat, JoinGroup]


def test_a_frozen_process_looks_for_it_when_it_runs_again() -> None:
    client = member()
    client.freeze(30 * S, 1 * S)
    assert client.due == 31 * S
    assert client.wake(31 * S) == [FindCoordinator("g")]


def test_who_stops_polling_while_it_is_lost_is_no_member_when_it_is_found() -> None:
    client = member()
    client.stall(90 * S, 1 * S)
    assert client.wake(SESSION) == [FindCoordinator("g")]
    assert [type(request) for request in client.wake(61 * S)] == [LeaveGroup]
    assert client.answered(Found(3), 62 * S) == []
    (again,) = client.wake(91 * S)
    assert isinstance(again, JoinGroup)
    assert again.member_id == ""


def script(*steps: Step) -> Script:
    start = [Start(number, f"c{number}", client_settings(number)) for number in range(2)]
    return Script("g", {"t": 4}, (*start, *steps), 300 * S, BrokerSettings(initial_rebalance_delay_ms=100))


def test_who_is_cut_off_for_longer_than_its_session_is_out_and_comes_back() -> None:
    played = play(script(CutOff(100 * S, "c1", 30 * S)))
    (gone,) = played.departures
    assert (gone.client, gone.why, gone.died_ms) == ("c1", Why.SESSION_TIMEOUT, None)
    assert 100 * S + SESSION - 3 * S <= gone.at_ms <= 100 * S + SESSION
    back = played.rebalances[-1]
    assert (back.causes, back.clients) == ((Why.MEMBER_JOINED,), ("c0", "c1"))
    assert 130 * S <= back.began_ms <= 130 * S + LOOKUP_MS + 10
    assert len(played.rebalances) == 3


def test_a_short_cut_is_not_noticed() -> None:
    played = play(script(CutOff(100 * S, "c1", SESSION - 4 * S)))
    assert (len(played.rebalances), played.departures) == (1, ())


def test_who_was_cut_off_while_it_joined_asks_again() -> None:
    played = play(script(CutOff(2, "c1", 20 * S)))
    assert [it.clients for it in played.rebalances] == [("c0",), ("c0", "c1")]
    # Its first JoinGroup is lost: it waits for its answer for 65 s.
    assert 65 * S <= played.rebalances[1].began_ms <= 65 * S + 100


def test_of_classic_groups_only() -> None:
    modern = client_settings(group_protocol=GroupProtocol.CONSUMER)
    with pytest.raises(ValueError, match="a classic group expected, 'g' is a KIP-848 one"):
        play(Script("g", {"t": 1}, (Start(0, "c0", modern), CutOff(5, "c0", 5)), 10))


STEPS = st.one_of(
    st.builds(CutOff, st.integers(1, 250 * S), st.sampled_from(["c0", "c1"]), st.integers(1, 80 * S)),
    st.builds(Kill, st.integers(1, 250 * S), st.sampled_from(["c0", "c1"])),
    st.builds(Close, st.integers(1, 250 * S), st.sampled_from(["c0", "c1"])),
    st.builds(Stall, st.integers(1, 250 * S), st.sampled_from(["c0", "c1"]), st.integers(1, 90 * S)),
    st.builds(Freeze, st.integers(1, 250 * S), st.sampled_from(["c0", "c1"]), st.integers(1, 40 * S)),
    st.builds(Start, st.integers(1, 250 * S), st.just("c2"), st.just(client_settings(2, instance_id="i"))),
)


@settings(max_examples=60, deadline=None)
@given(st.lists(STEPS, max_size=8))
def test_heartbeats_that_are_not_played_change_nothing(steps: list[Step]) -> None:
    class Slow(World):
        def _skip_heartbeats(self) -> None:
            """Each is played."""

    quick = play(script(*steps))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("agent.coordinator.play.World", Slow)
        assert play(script(*steps)) == quick
