"""Connect clusters in the world of virtual time: workers, their coordinator, and which tasks stand still when."""

from __future__ import annotations

from typing import Any

import pytest

from agent.simulation.groups.classic_client import ClassicPhase
from agent.simulation.groups.connect import ConnectConfig, ConnectProtocol, ConnectWork, WorkerAssignment, WorkerState
from agent.simulation.groups.connect_worker import ConnectWorker, WorkerSettings
from agent.simulation.groups.messages import (
    ErrorCode,
    HeartbeatResponse,
    JoinGroupRequest,
    JoinGroupResponse,
    RebalanceReason,
    SyncGroupResponse,
)
from agent.simulation.groups.script import (
    Close,
    Freeze,
    Kill,
    Rejoin,
    Script,
    SetPartitions,
    Stall,
)
from agent.simulation.groups.simulate import simulate
from tests.unit.simulation.groups.connecting import AT_ONCE, MINUTE, ConnectPlay, start

P = [("P", number) for number in range(9)]
THREE = tuple(start(0, name) for name in ("w1", "w2", "w3"))
DELAY_MS = 300_000
SESSION_MS, BEAT_MS = 10_000, 3_000


def others_never_stop(played: ConnectPlay, *but: Any) -> None:
    tasks = [(name, number) for name, count in played.tasks.items() for number in range(count)]
    assert [task for task in tasks if played.stopped(task) and task not in but] == []


def test_a_worker_that_disappears() -> None:
    """Its tasks wait from the end of its session for five minutes; then the others get them."""
    played = ConnectPlay({"P": 7}, *THREE, Kill(60_000, "w2"), until_ms=10 * MINUTE)
    first, lost, given = played.rounds
    assert first.assigned["w2"] == (P[1], P[4])
    assert (lost.delay_ms, lost.assigned, lost.revoked) == (DELAY_MS, {}, {})
    assert 60_000 + SESSION_MS - BEAT_MS <= lost.at_ms <= 60_000 + SESSION_MS + BEAT_MS
    assert given.assigned == {"w3": (P[1], P[4])}
    assert given.at_ms - lost.at_ms == DELAY_MS + 4  # four messages of a millisecond
    others_never_stop(played, P[1], P[4])
    assert played.stopped(P[1]) == played.stopped(P[4]) == [(60_000, given.at_ms + 1)]


def test_a_worker_that_is_back_within_the_delay() -> None:
    """Round 2 gives it nothing yet, and says how long it still is; round 3 gives it what it had."""
    played = ConnectPlay({"P": 7}, *THREE, Kill(60_000, "w2"), start(120_000, "w2"), until_ms=10 * MINUTE)
    _, lost, back, given = played.rounds
    assert (back.assigned, back.revoked) == ({}, {})
    assert back.delay_ms == lost.at_ms + DELAY_MS - back.at_ms
    assert given.assigned == {"w2": (P[1], P[4])}
    assert given.at_ms - lost.at_ms == DELAY_MS + 4
    others_never_stop(played, P[1], P[4])
    assert played.stopped_task_ms() == 2 * (given.at_ms + 1 - 60_000)


def test_a_bounce_within_the_delay_and_beyond_it() -> None:
    """Thirty seconds of restart cost the worker's three tasks the whole delay; beyond it, a second stop each."""
    within = ConnectPlay({"P": 9}, *THREE, Close(60_000, "w2"), start(90_000, "w2"), until_ms=15 * MINUTE)
    beyond = ConnectPlay({"P": 9}, *THREE, Close(60_000, "w2"), start(460_000, "w2"), until_ms=15 * MINUTE)
    bounced = P[1], P[4], P[7]
    for played in (within, beyond):
        others_never_stop(played, *bounced)
        assert played.held()["w2"] == list(bounced)
        assert [round_.delay_ms for round_ in played.rounds[:2]] == [0, DELAY_MS]
    _, lost, back, given = within.rounds
    assert (back.delay_ms, given.delay_ms) == (lost.at_ms + DELAY_MS - back.at_ms, 0)
    assert [len(within.stopped(task)) for task in bounced] == [1, 1, 1]
    assert within.stopped_task_ms() == pytest.approx(3 * DELAY_MS, abs=100)
    assert [len(beyond.stopped(task)) for task in bounced] == [2, 2, 2]
    assert beyond.stopped_task_ms() == pytest.approx(3 * (DELAY_MS + BEAT_MS), abs=100)


def test_two_workers_lost_one_after_the_other_wait_for_one_delay() -> None:
    steps = (*THREE, start(0, "w4"), Kill(60_000, "w2"), Kill(180_000, "w3"))
    played = ConnectPlay({"P": 9}, *steps, until_ms=10 * MINUTE)
    _, first_loss, second_loss, given = played.rounds
    assert (first_loss.delay_ms, given.delay_ms) == (DELAY_MS, 0)
    assert second_loss.delay_ms == first_loss.at_ms + DELAY_MS - second_loss.at_ms
    assert given.at_ms - first_loss.at_ms == DELAY_MS + 4
    assert {name: len(tasks) for name, tasks in played.held().items()} == {"w1": 4, "w4": 5}


def test_the_leaders_end_delays_nothing() -> None:
    """What was assigned is in its memory alone: to the next leader the lost tasks are new ones."""
    played = ConnectPlay({"P": 7}, *THREE, Kill(60_000, "w1"), until_ms=10 * MINUTE)
    _, given = played.rounds
    assert given.delay_ms == 0
    assert given.assigned == {"w2": (P[0], P[6]), "w3": (P[3],)}


def test_a_new_worker_joins() -> None:
    """A round revokes, the next assigns; what stays never stops."""
    played = ConnectPlay({"P": 6}, start(0, "w1"), start(0, "w2"), start(60_000, "w3"), until_ms=3 * MINUTE)
    _, revoking, assigning = played.rounds
    assert (revoking.assigned, revoking.revoked) == ({}, {"w1": (P[0],), "w2": (P[1],)})
    assert (assigning.assigned, assigning.revoked) == ({"w3": (P[0], P[1])}, {})
    assert assigning.at_ms - revoking.at_ms <= BEAT_MS + 6
    assert {name: len(tasks) for name, tasks in played.held().items()} == {"w1": 2, "w2": 2, "w3": 2}
    others_never_stop(played, P[0], P[1])


@pytest.mark.parametrize(
    ("mode", "stops", "stopped_ms"),
    [
        (ConnectProtocol.EAGER, 12, 12 * 4),
        (ConnectProtocol.COMPATIBLE, 3, 3 * BEAT_MS),
        (ConnectProtocol.SESSIONED, 3, 3 * BEAT_MS),
    ],
)
def test_what_a_new_worker_costs(mode: ConnectProtocol, stops: int, stopped_ms: int) -> None:
    """Twelve tasks on three workers, a fourth comes: eager stops them all, incremental the three that move.

    Those three stand until the other workers' next heartbeat. What each stop and start costs is not in the model.
    """
    workers = [start(0, name, connect_protocol=mode) for name in ("w1", "w2", "w3")]
    more = start(60_000, "w4", connect_protocol=mode)
    played = ConnectPlay({"P": 12}, *workers, more, until_ms=3 * MINUTE)
    gaps = [gap for number in range(12) for gap in played.stopped(("P", number))]
    assert len(gaps) == stops
    assert played.stopped_task_ms() == pytest.approx(stopped_ms, abs=20)
    assert {name: len(tasks) for name, tasks in played.held().items()} == {"w1": 3, "w2": 3, "w3": 3, "w4": 3}


def test_the_same_bounce_with_the_eager_protocol() -> None:
    """All nine tasks stop twice, for moments; the incremental protocol stops three, for five minutes."""
    workers = [start(0, name, connect_protocol=ConnectProtocol.EAGER) for name in ("w1", "w2", "w3")]
    again = start(90_000, "w2", connect_protocol=ConnectProtocol.EAGER)
    played = ConnectPlay({"P": 9}, *workers, Close(60_000, "w2"), again, until_ms=15 * MINUTE)
    assert [round_.delay_ms for round_ in played.rounds] == [0, 0, 0]
    assert [len(played.stopped(task)) for task in P] == [2] * 9
    assert played.stopped_task_ms() < 100


def test_connectors_come_and_go() -> None:
    played = ConnectPlay(
        {"P": 6},
        *THREE,
        SetPartitions(60_000, "Q", 3),
        SetPartitions(120_000, "P", 3),
        SetPartitions(180_000, "Q", 0),
        until_ms=4 * MINUTE,
    )
    _, added, *_ = played.rounds
    assert added.assigned == {"w1": (("Q", 0),), "w2": (("Q", 1),), "w3": (("Q", 2),)}
    assert played.held(110_000) == {name: [P[n], P[n + 3], ("Q", n)] for n, name in enumerate(("w1", "w2", "w3"))}
    assert played.held(170_000) == {name: [P[n], ("Q", n)] for n, name in enumerate(("w1", "w2", "w3"))}
    assert played.held() == {name: [P[n]] for n, name in enumerate(("w1", "w2", "w3"))}
    others_never_stop(played, P[3], P[4], P[5])


def test_deleted_tasks_run_on_where_the_leader_ends_with_them() -> None:
    """The next leader did not know them, so they are not deleted to it; the rebalance after that takes them."""
    steps = (*THREE, SetPartitions(60_000, "Q", 0), Kill(60_000, "w1"), Rejoin(120_000, "w2"))
    played = ConnectPlay({"P": 6, "Q": 3}, *steps, until_ms=4 * MINUTE)
    assert played.held(110_000) == {"w2": [P[0], P[1], P[4], ("Q", 1)], "w3": [P[2], P[3], P[5], ("Q", 2)]}
    assert played.held() == {"w2": [P[0], P[1], P[4]], "w3": [P[2], P[3], P[5]]}


def test_a_frozen_workers_tasks_run_twice_until_it_is_told() -> None:
    """It was away for longer than the delay: its tasks are the others' by now. Both stop them, and one gets them."""
    played = ConnectPlay({"P": 6}, *THREE, Freeze(60_000, "w2", 8 * MINUTE), until_ms=20 * MINUTE)
    *_, given, found, again = played.rounds
    assert given.assigned == {"w1": (P[1],), "w3": (P[4],)}
    assert found.revoked == {"w1": (P[1],), "w3": (P[4],), "w2": (P[1], P[4])}
    assert again.assigned == {"w2": (P[1], P[4])}
    twice = sorted((since, until) for task, _, since, until in played.runs if task == P[1])
    assert twice == [(6, found.at_ms + 1), (given.at_ms + 1, found.at_ms + 1), (again.at_ms + 1, 20 * MINUTE)]
    assert played.held() == {"w1": [P[0], P[3]], "w2": [P[1], P[4]], "w3": [P[2], P[5]]}


def test_a_worker_whose_main_thread_is_stuck_leaves_with_its_tasks_running() -> None:
    """Its heartbeat thread leaves after `rebalance.timeout.ms`; back within the delay, it says what it still runs."""
    played = ConnectPlay({"P": 6}, *THREE, Stall(60_000, "w2", 100_000), until_ms=10 * MINUTE)
    _, left, back = played.rounds
    assert 120_000 <= left.at_ms <= 120_000 + BEAT_MS + 10
    assert (left.delay_ms, back.delay_ms) == (DELAY_MS, 0)
    others_never_stop(played)


def test_a_worker_that_is_stuck_during_a_delay_joins_as_soon_as_it_is_not() -> None:
    played = ConnectPlay({"P": 6}, *THREE, Kill(60_000, "w3"), Stall(80_000, "w2", 70_000), until_ms=8 * MINUTE)
    _, lost, left, back, given = played.rounds
    assert 140_000 <= left.at_ms <= 140_000 + BEAT_MS + 10
    assert 150_000 <= back.at_ms <= 150_000 + BEAT_MS + 20
    assert back.delay_ms == lost.at_ms + DELAY_MS - back.at_ms
    assert given.at_ms - lost.at_ms == DELAY_MS + 4
    others_never_stop(played, P[2], P[5])


def test_a_stall_shorter_than_the_poll_timeout_only_delays_a_rebalance() -> None:
    played = ConnectPlay({"P": 6}, *THREE, Stall(60_000, "w2", 30_000), Rejoin(61_000, "w1"), until_ms=2 * MINUTE)
    assert [round_.at_ms // 10_000 for round_ in played.rounds] == [0, 9]
    others_never_stop(played)


def test_one_eager_worker_makes_the_group_eager() -> None:
    steps = (
        start(0, "w1"),
        start(0, "w2"),
        start(60_000, "w3", connect_protocol=ConnectProtocol.EAGER),
        Close(120_000, "w3"),
    )
    played = ConnectPlay({"P": 6}, *steps, until_ms=4 * MINUTE)
    assert played.worker("w1").protocol == "sessioned"
    _, eager, incremental = played.rounds
    assert {name: len(tasks) for name, tasks in eager.assigned.items()} == {"w1": 2, "w2": 2, "w3": 2}
    # Nothing is remembered of eager rounds, so what the eager worker had is not waited for.
    assert (incremental.delay_ms, incremental.assigned) == (0, {"w1": (P[1],), "w2": (P[4],)})


def test_a_play_tells_rebalances_with_their_causes() -> None:
    script = Script(
        "connect-cluster",
        {"P": 7},
        (*THREE, Kill(60_000, "w2"), start(120_000, "w2"), SetPartitions(500_000, "P", 8)),
        10 * MINUTE,
        broker=AT_ONCE,
    )
    played = simulate(script)
    assert [it.causes[0] for it in played.rebalances] == [
        RebalanceReason.MEMBER_JOINED,
        RebalanceReason.SESSION_TIMEOUT,
        RebalanceReason.MEMBER_JOINED,
        RebalanceReason.COOPERATIVE_FOLLOWUP,
        RebalanceReason.PARTITIONS_CHANGED,
    ]
    assert [(it.client, it.reason, it.died_ms) for it in played.departures] == [
        ("w2", RebalanceReason.SESSION_TIMEOUT, 60_000)
    ]
    assert played.images[-1].protocol_type == "connect"
    assert simulate(script) == played


# One worker, answer by answer.

CONFIG = ConnectConfig(1, {"p": 2})


class Alone:
    """A worker that is answered by hand."""

    def __init__(self, **settings: Any) -> None:
        self.config = CONFIG
        self.worker = ConnectWorker("group", WorkerSettings(url="url", **settings), lambda: self.config)
        (self.request,) = self.worker.start(0)

    def joins(self, now_ms: int, protocol: str = "sessioned", generation: int = 1) -> None:
        self.worker.handle_response(
            JoinGroupResponse(ErrorCode.NONE, "m", generation, "connect", protocol, "leader"), now_ms
        )

    def synced(self, now_ms: int, **given: Any) -> list[Any]:
        return self.worker.handle_response(
            SyncGroupResponse(ErrorCode.NONE, WorkerAssignment("leader", "", 1, **given)), now_ms
        )


@pytest.mark.parametrize(
    ("mode", "offers"),
    [
        (ConnectProtocol.SESSIONED, ["sessioned", "compatible", "default"]),
        (ConnectProtocol.COMPATIBLE, ["compatible", "default"]),
        (ConnectProtocol.EAGER, ["default"]),
    ],
)
def test_what_it_offers(mode: ConnectProtocol, offers: list[str]) -> None:
    request = Alone(connect_protocol=mode).request
    assert isinstance(request, JoinGroupRequest)
    assert [offer.name for offer in request.protocols] == offers
    assert {offer.metadata for offer in request.protocols} == {WorkerState("url", 1)}
    assert request.protocol_type == "connect"
    assert (request.session_timeout_ms, request.rebalance_timeout_ms) == (10_000, 60_000)


def test_its_metadata_tells_what_it_holds_to_incremental_leaders_only() -> None:
    alone = Alone()
    alone.joins(10)
    work = ConnectWork(("p",), (("p", 0), ("p", 1)))
    assert alone.synced(20, assigned=work, delay_ms=500) == []
    (request,) = alone.worker.rejoin(30)
    states = {offer.name: offer.metadata for offer in request.protocols}
    assert states["sessioned"] == WorkerState("url", 1, WorkerAssignment("leader", "", 1, work, delay_ms=500))
    assert states["default"] == WorkerState("url", 1)


def test_it_joins_again_when_the_delay_ends_and_at_once_upon_revocations() -> None:
    alone = Alone()
    alone.joins(10)
    assert alone.synced(20, assigned=ConnectWork((), (("p", 0), ("p", 1))), delay_ms=500) == []
    assert alone.worker.due_ms_except_heartbeats == 520
    (request,) = alone.worker.wake(520)
    assert request.reason is RebalanceReason.COOPERATIVE_FOLLOWUP
    alone.joins(530, generation=2)
    (request,) = alone.synced(540, revoked=ConnectWork((), (("p", 1),)))
    assert isinstance(request, JoinGroupRequest)
    assert alone.worker.owned == {("p", 0)}


def test_a_rebalance_comes_before_the_one_that_it_scheduled() -> None:
    alone = Alone()
    alone.joins(10)
    alone.synced(20, delay_ms=100_000)
    (request,) = alone.worker.handle_response(HeartbeatResponse(ErrorCode.REBALANCE_IN_PROGRESS), 3_020)
    assert isinstance(request, JoinGroupRequest)
    assert request.reason is None
    assert alone.worker.due_ms_except_heartbeats is None


@pytest.mark.parametrize(
    ("error", "member_id"), [(ErrorCode.UNKNOWN_MEMBER_ID, ""), (ErrorCode.ILLEGAL_GENERATION, "m")]
)
def test_it_runs_on_when_it_is_no_longer_a_member(error: ErrorCode, member_id: str) -> None:
    alone = Alone()
    alone.joins(10)
    alone.synced(20, assigned=ConnectWork((), (("p", 0),)))
    (request,) = alone.worker.handle_response(HeartbeatResponse(error), 30)
    assert (request.member_id, alone.worker.owned) == (member_id, {("p", 0)})


def test_other_errors_end_it() -> None:
    alone = Alone()
    assert alone.worker.handle_response(JoinGroupResponse(ErrorCode.INCONSISTENT_GROUP_PROTOCOL), 10) == []
    assert (alone.worker.phase, alone.worker.fatal_error) == (
        ClassicPhase.FAILED,
        ErrorCode.INCONSISTENT_GROUP_PROTOCOL,
    )


def test_a_sync_that_a_rebalance_overtook() -> None:
    alone = Alone()
    alone.joins(10)
    (request,) = alone.worker.handle_response(SyncGroupResponse(ErrorCode.REBALANCE_IN_PROGRESS), 20)
    assert isinstance(request, JoinGroupRequest)


def test_it_starts_nothing_of_an_older_configuration() -> None:
    alone = Alone()
    alone.joins(10)
    alone.config = ConnectConfig(2, {"p": 1})
    (request,) = alone.synced(20, assigned=ConnectWork((), (("p", 0),)))
    assert isinstance(request, JoinGroupRequest)
    assert (alone.worker.owned, alone.worker.held_work.tasks) == (frozenset(), (("p", 0),))


def test_it_stops_what_is_revoked_by_whatever_configuration() -> None:
    alone = Alone()
    alone.joins(10)
    alone.synced(20, assigned=ConnectWork((), (("p", 0), ("p", 1))))
    alone.worker.rejoin(30)
    alone.joins(40, generation=2)
    alone.config = ConnectConfig(2, {"p": 3})
    alone.synced(50, assigned=ConnectWork((), (("p", 2),)), revoked=ConnectWork((), (("p", 1),)))
    assert alone.worker.owned == {("p", 0)}


def test_a_leader_goes_by_the_last_generation_that_it_completed() -> None:
    """Its second assignment was overtaken: it does not wait for a worker that was in it and is gone."""
    alone = Alone()

    def lead(generation: int, **held: ConnectWork) -> WorkerAssignment:
        members = {name: WorkerState(name, 1, WorkerAssignment("m", "url", 1, work)) for name, work in held.items()}
        joined = tuple((name, None, state) for name, state in members.items())
        answer = JoinGroupResponse(ErrorCode.NONE, "m", generation, "connect", "sessioned", "m", joined)
        (request,) = alone.worker.handle_response(answer, generation)
        given: WorkerAssignment = request.assignments["m"]
        return given

    mine, others = ConnectWork(("p",), (("p", 0),)), ConnectWork((), (("p", 1),))
    first = lead(1, m=mine, other=others)
    alone.worker.handle_response(SyncGroupResponse(ErrorCode.NONE, first), 1)
    alone.worker.rejoin(2)
    lead(2, m=mine, other=others)
    alone.worker.handle_response(SyncGroupResponse(ErrorCode.REBALANCE_IN_PROGRESS), 2)
    given = lead(3, m=mine)
    assert (given.delay_ms, given.assigned) == (0, others)


def test_a_change_while_it_joins_makes_it_join_once_more() -> None:
    alone = Alone()
    assert alone.worker.metadata_changed(5) == []
    alone.joins(10)
    (request,) = alone.synced(20, assigned=ConnectWork((), (("p", 0),)))
    assert request.reason is RebalanceReason.PARTITIONS_CHANGED
    assert alone.worker.owned == {("p", 0)}


def test_defaults_are_kafkas() -> None:
    settings = WorkerSettings()
    assert (settings.session_timeout_ms, settings.heartbeat_interval_ms, settings.max_poll_interval_ms) == (
        10_000,
        3_000,
        60_000,
    )
    assert settings.scheduled_rebalance_max_delay_ms == 5 * MINUTE
    assert settings.connect_protocol is ConnectProtocol.SESSIONED
