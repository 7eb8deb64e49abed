"""A coordinator that does not answer: when it is taken for lost, how it is looked for, and what comes of it."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agent.core.protocol.hashing import partition_for_group
from agent.simulation.groups.classic_client import ClassicPhase
from agent.simulation.groups.classic_consumer import ClassicConsumer
from agent.simulation.groups.classic_coordinator import ClassicCoordinator
from agent.simulation.groups.coordinator_connection import JOIN_GROUP_TIMEOUT_LAPSE_MS, RECONNECT_BACKOFF_MAX_MS
from agent.simulation.groups.messages import (
    ErrorCode,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
    HeartbeatRequest,
    JoinGroupRequest,
    JoinGroupResponse,
    LeaveGroupRequest,
    RebalanceReason,
    ResponseSent,
    SyncGroupResponse,
)
from agent.simulation.groups.script import (
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
from agent.simulation.groups.simulate import simulate
from agent.simulation.groups.simulation import Simulation, member_id_suffixes
from tests import examples

S = 1000
SESSION = 10 * S


def client_settings(number: int = 0, **changes: object) -> ClientSettings:
    base: dict[str, object] = {"session_timeout_ms": SESSION, "assignors": ("range",), "max_poll_interval_ms": 60 * S}
    return ClientSettings(f"c{number}", frozenset({"t"}), **{**base, **changes})  # type: ignore[arg-type]


def member() -> ClassicConsumer:
    """A follower, stable since 0 s; its heartbeats are due each 3 s."""
    client = ClassicConsumer("g", client_settings(), {"t": 2})
    client.start(0)
    client.handle_response(JoinGroupResponse(ErrorCode.MEMBER_ID_REQUIRED, "c0-1"), 0)
    client.handle_response(JoinGroupResponse(ErrorCode.NONE, "c0-1", 4, "consumer", "range", "another"), 0)
    client.handle_response(SyncGroupResponse(ErrorCode.NONE, (("t", 0),), "consumer", "range"), 0)
    assert client.phase is ClassicPhase.STABLE
    return client


def test_a_coordinator_says_where_a_group_lives() -> None:
    coordinator = ClassicCoordinator("payments", BrokerSettings(), member_id_suffixes("g", 0), offsets_partitions=7)
    assert coordinator.handle(FindCoordinatorRequest("payments"), 1, 0) == [
        ResponseSent(1, FindCoordinatorResponse(partition_for_group("payments", 7)))
    ]


def test_no_answer_for_the_session_timeout_means_that_it_is_lost() -> None:
    client = member()
    sent = [(now, request) for now in range(0, 9001, 3000) for request in client.wake(now)]
    assert [type(request) for _, request in sent] == [HeartbeatRequest] * 3
    assert client.due_ms == SESSION
    assert client.wake(SESSION) == [FindCoordinatorRequest("g")]
    # It goes on with what it has, and says nothing until it has found it.
    assert client.owned == {("t", 0)}
    assert client.due_ms == SESSION + RECONNECT_BACKOFF_MAX_MS
    assert client.wake(SESSION + RECONNECT_BACKOFF_MAX_MS) == [FindCoordinatorRequest("g")]
    (beat,) = client.handle_response(FindCoordinatorResponse(3), SESSION + RECONNECT_BACKOFF_MAX_MS + 5)
    assert beat == HeartbeatRequest("g", 4, "c0-1")
    assert client.handle_response(FindCoordinatorResponse(3), SESSION + RECONNECT_BACKOFF_MAX_MS + 6) == []
    assert client.due_ms == SESSION + RECONNECT_BACKOFF_MAX_MS + 5 + 3 * S


def test_a_join_waits_for_longer_than_a_rebalance_may_take() -> None:
    client = ClassicConsumer("g", client_settings(), {"t": 2})
    client.start(0)
    lost = 60 * S + JOIN_GROUP_TIMEOUT_LAPSE_MS
    assert client.due_ms == lost
    assert client.wake(lost) == [FindCoordinatorRequest("g")]
    (again,) = client.handle_response(FindCoordinatorResponse(3), lost + 2)
    assert isinstance(again, JoinGroupRequest)


def test_a_rebalance_heard_of_before_waits_until_it_is_found() -> None:
    client = member()
    client.settings = client_settings(rejoin_delay_ms=SESSION)
    client.wake(3 * S)
    client.rejoin(3 * S)
    assert client.phase is ClassicPhase.JOINING
    client = member()
    assert client.wake(SESSION) == [FindCoordinatorRequest("g")]
    assert client.rejoin(SESSION + 1) == []
    assert client.due_ms == SESSION + RECONNECT_BACKOFF_MAX_MS
    requests = client.handle_response(FindCoordinatorResponse(3), SESSION + 2)
    assert [type(request) for request in requests] == [HeartbeatRequest, JoinGroupRequest]


def test_a_frozen_process_looks_for_it_when_it_runs_again() -> None:
    client = member()
    client.freeze(30 * S, 1 * S)
    assert client.due_ms == 31 * S
    assert client.wake(31 * S) == [FindCoordinatorRequest("g")]


def test_who_stops_polling_while_it_is_lost_is_no_member_when_it_is_found() -> None:
    client = member()
    client.stall(90 * S, 1 * S)
    assert client.wake(SESSION) == [FindCoordinatorRequest("g")]
    assert [type(request) for request in client.wake(61 * S)] == [LeaveGroupRequest]
    assert client.handle_response(FindCoordinatorResponse(3), 62 * S) == []
    (again,) = client.wake(91 * S)
    assert isinstance(again, JoinGroupRequest)
    assert again.member_id == ""


def script(*steps: Step) -> Script:
    start = [Start(number, f"c{number}", client_settings(number)) for number in range(2)]
    return Script("g", {"t": 4}, (*start, *steps), 300 * S, BrokerSettings(initial_rebalance_delay_ms=100))


def test_who_is_cut_off_for_longer_than_its_session_is_out_and_comes_back() -> None:
    played = simulate(script(CutOff(100 * S, "c1", 30 * S)))
    (gone,) = played.departures
    assert (gone.client, gone.reason, gone.died_ms) == ("c1", RebalanceReason.SESSION_TIMEOUT, None)
    assert 100 * S + SESSION - 3 * S <= gone.at_ms <= 100 * S + SESSION
    back = played.rebalances[-1]
    assert (back.causes, back.clients) == ((RebalanceReason.MEMBER_JOINED,), ("c0", "c1"))
    assert 130 * S <= back.began_ms <= 130 * S + RECONNECT_BACKOFF_MAX_MS + 10
    assert len(played.rebalances) == 3


def test_a_short_cut_is_not_noticed() -> None:
    played = simulate(script(CutOff(100 * S, "c1", SESSION - 4 * S)))
    assert (len(played.rebalances), played.departures) == (1, ())


def test_who_was_cut_off_while_it_joined_asks_again() -> None:
    played = simulate(script(CutOff(2, "c1", 20 * S)))
    assert [it.clients for it in played.rebalances] == [("c0",), ("c0", "c1")]
    # Its first JoinGroup is lost: it waits for its answer for 65 s.
    assert 65 * S <= played.rebalances[1].began_ms <= 65 * S + 100


def test_of_classic_groups_only() -> None:
    modern = client_settings(group_protocol=GroupProtocol.CONSUMER)
    with pytest.raises(ValueError, match="expected a classic group, 'g' is a KIP-848 one"):
        simulate(Script("g", {"t": 1}, (Start(0, "c0", modern), CutOff(5, "c0", 5)), 10))


STEPS = st.one_of(
    st.builds(CutOff, st.integers(1, 250 * S), st.sampled_from(["c0", "c1"]), st.integers(1, 80 * S)),
    st.builds(Kill, st.integers(1, 250 * S), st.sampled_from(["c0", "c1"])),
    st.builds(Close, st.integers(1, 250 * S), st.sampled_from(["c0", "c1"])),
    st.builds(Stall, st.integers(1, 250 * S), st.sampled_from(["c0", "c1"]), st.integers(1, 90 * S)),
    st.builds(Freeze, st.integers(1, 250 * S), st.sampled_from(["c0", "c1"]), st.integers(1, 40 * S)),
    st.builds(Start, st.integers(1, 250 * S), st.just("c2"), st.just(client_settings(2, instance_id="i"))),
)


@settings(max_examples=examples(60), deadline=None)
@given(st.lists(STEPS, max_size=8))
def test_heartbeats_that_are_not_played_change_nothing(steps: list[Step]) -> None:
    class Slow(Simulation):
        def _skip_heartbeats(self) -> None:
            """Each is played."""

    quick = simulate(script(*steps))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("agent.simulation.groups.simulate.Simulation", Slow)
        assert simulate(script(*steps)) == quick
