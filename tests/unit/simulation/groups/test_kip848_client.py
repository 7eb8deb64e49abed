"""A consumer of the KIP-848 protocol: by itself, and with a coordinator."""

from __future__ import annotations

from typing import Any

import pytest

from agent.simulation.groups.kip848_client import Kip848Consumer, Kip848Phase
from agent.simulation.groups.kip848_messages import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)
from agent.simulation.groups.messages import ErrorCode, RebalanceReason
from agent.simulation.groups.script import ClientSettings
from tests.unit.simulation.groups.asking import slots
from tests.unit.simulation.groups.kip848_stage import Stage

T = frozenset({"t"})


def consumer(**settings: Any) -> Kip848Consumer:
    return Kip848Consumer("g", ClientSettings("c", T, **settings), lambda: "m")


def ok(epoch: int, assignment: list[int] | None = None) -> ConsumerGroupHeartbeatResponse:
    return ConsumerGroupHeartbeatResponse(
        ErrorCode.NONE, "m", epoch, 5_000, None if assignment is None else slots(assignment)
    )


def joined(*numbers: int, **settings: Any) -> Kip848Consumer:
    """A consumer at epoch 2 that has told, at time 0, that it holds these partitions."""
    it = consumer(**settings)
    it.start(0)
    assert len(it.handle_response(ok(2, list(numbers)), 0)) == 1
    assert it.handle_response(ok(2), 0) == []
    assert (it.phase, it.owned) == (Kip848Phase.STABLE, slots(numbers))
    return it


def refused(error: ErrorCode) -> ConsumerGroupHeartbeatResponse:
    return ConsumerGroupHeartbeatResponse(error)


class TestMessages:
    def test_it_joins_with_all_that_it_is(self) -> None:
        it = consumer(instance_id="i", rack="r", remote_assignor="range", max_poll_interval_ms=60_000)
        assert not it.is_running
        (request,) = it.start(0)
        assert request == ConsumerGroupHeartbeatRequest(
            "g", "m", 0, "i", "r", 60_000, T, "range", frozenset(), client_id="c"
        )
        assert (it.phase, it.is_running, it.due_ms) == (Kip848Phase.JOINING, True, None)

    def test_it_tells_what_it_has_taken_up_and_then_nothing_new(self) -> None:
        it = consumer(instance_id="i")
        it.start(0)
        (told,) = it.handle_response(ok(2, [0, 1]), 10)
        assert told == ConsumerGroupHeartbeatRequest("g", "m", 2, "i", owned=slots([0, 1]), client_id="c")
        assert it.handle_response(ok(2), 12) == []
        assert it.due_ms == 5_010
        assert it.wake(5_010) == [ConsumerGroupHeartbeatRequest("g", "m", 2, "i", client_id="c")]
        assert it.due_ms is None
        it.handle_response(ok(2), 5_012)
        assert it.due_ms == 10_010

    def test_it_tells_even_that_it_has_nothing(self) -> None:
        it = consumer()
        it.start(0)
        (told,) = it.handle_response(ok(2, []), 10)
        assert told.owned == frozenset()

    def test_the_same_assignment_again_is_nothing_new(self) -> None:
        it = joined(0)
        it.wake(5_000)
        assert it.handle_response(ok(3, [0]), 5_001) == []
        assert (it.phase, it.epoch) == (Kip848Phase.STABLE, 3)

    def test_another_interval_counts_at_once(self) -> None:
        it = joined(0)
        it.wake(5_000)
        it.handle_response(ConsumerGroupHeartbeatResponse(ErrorCode.NONE, "m", 2, 1_000), 5_001)
        assert it.due_ms == 6_001

    def test_other_topics_go_out_with_the_next_heartbeat(self) -> None:
        it = joined(0)
        assert it.beats_safely
        assert it.due_ms_except_heartbeats is None
        assert it.resubscribe(frozenset({"u"}), 100) == []
        assert not it.beats_safely
        assert it.due_ms == it.due_ms_except_heartbeats == 5_000
        (request,) = it.wake(5_000)
        assert request.subscribed_topics == {"u"}
        it.handle_response(ok(2), 5_001)
        assert it.wake(10_000)[0].subscribed_topics is None

    def test_what_it_cannot_do(self) -> None:
        it = joined(0)
        assert it.rejoin(1) == it.metadata_changed(1) == []
        assert it.phase is Kip848Phase.STABLE


class TestReconciliation:
    def test_it_takes_its_time(self) -> None:
        it = joined(0, 1, 2, rejoin_delay_ms=0)
        it.settings = ClientSettings("c", T, rejoin_delay_ms=700)
        it.wake(5_000)
        assert it.handle_response(ok(2, [0]), 5_001) == []
        assert (it.phase, it.owned, it.due_ms) == (Kip848Phase.RECONCILING, slots([0, 1, 2]), 5_701)
        (told,) = it.wake(5_701)
        assert (told.owned, it.owned) == (slots([0]), slots([0]))
        assert it.phase is Kip848Phase.STABLE

    def test_heartbeats_go_on_meanwhile(self) -> None:
        it = joined(0, 1)
        it.settings = ClientSettings("c", T, rejoin_delay_ms=7_000)
        it.wake(5_000)
        it.handle_response(ok(2, [0]), 5_001)
        (request,) = it.wake(10_000)
        assert request.owned is None
        assert it.phase is Kip848Phase.RECONCILING
        # It may not tell while a heartbeat is on its way; then at once.
        assert it.wake(12_001) == []
        assert it.handle_response(ok(2), 12_500)[0].owned == slots([0])

    def test_what_comes_meanwhile_is_next(self) -> None:
        it = joined(0, 1)
        it.settings = ClientSettings("c", T, rejoin_delay_ms=7_000)
        it.wake(5_000)
        it.handle_response(ok(2, [0]), 5_001)
        it.wake(10_000)
        it.handle_response(ok(3, [0, 5]), 10_001)
        (told,) = it.wake(12_001)
        assert (told.owned, it.phase) == (slots([0]), Kip848Phase.RECONCILING)
        it.handle_response(ok(3), 12_002)
        it.wake(17_001)
        it.handle_response(ok(3), 17_002)
        (told,) = it.wake(19_001)
        assert (told.owned, it.phase) == (slots([0, 5]), Kip848Phase.STABLE)

    def test_it_waits_for_a_poll(self) -> None:
        it = joined(0, 1)
        it.stall(20_000, 4_000)
        it.wake(5_000)
        assert it.handle_response(ok(2, [0]), 5_001) == []
        assert it.owned == slots([0, 1])
        assert it.due_ms == 10_000
        it.wake(10_000)
        it.handle_response(ok(2), 10_001)
        it.skip_heartbeats(24_000)
        (told,) = it.wake(24_000)
        assert told.owned == slots([0])


class TestErrors:
    @pytest.mark.parametrize("error", [ErrorCode.FENCED_MEMBER_EPOCH, ErrorCode.UNKNOWN_MEMBER_ID])
    def test_fenced_it_lets_go_and_joins_anew(self, error: ErrorCode) -> None:
        it = joined(0, 1)
        it.wake(5_000)
        (request,) = it.handle_response(refused(error), 5_001)
        assert (request.member_id, request.member_epoch, request.is_full) == ("m", 0, True)
        assert (it.owned, request.owned, it.phase) == (frozenset(), frozenset(), Kip848Phase.JOINING)

    def test_others_are_the_applications(self) -> None:
        it = joined(0)
        it.wake(5_000)
        assert it.handle_response(refused(ErrorCode.FENCED_INSTANCE_ID), 5_001) == []
        assert (it.phase, it.fatal_error, it.owned) == (Kip848Phase.FAILED, ErrorCode.FENCED_INSTANCE_ID, frozenset())
        assert (it.is_running, it.due_ms) == (False, None)
        assert it.handle_response(ok(2), 5_002) == []


class TestEnds:
    def test_a_dynamic_consumer_leaves_for_good(self) -> None:
        it = joined(0)
        (request,) = it.close(10)
        assert (request.member_id, request.member_epoch, request.reason) == ("m", -1, RebalanceReason.MEMBER_LEFT)
        assert (it.owned, it.member_id, it.is_running, it.due_ms) == (frozenset(), "", False, None)

    def test_a_static_one_for_a_restart(self) -> None:
        it = joined(0, instance_id="i")
        (request,) = it.close(10)
        assert (request.instance_id, request.member_epoch) == ("i", -2)
        # Its place is kept, with nobody in it.
        assert (it.owned, it.member_id, it.is_running, it.not_polling_since_ms) == (slots([0]), "m", False, 10)

    def test_out_of_the_group_there_is_nothing_to_say(self) -> None:
        it = joined(0, max_poll_interval_ms=8_000)
        it.stall(60_000, 0)
        it.wake(8_000)
        assert it.phase is Kip848Phase.STALE
        assert it.close(9_000) == []

    def test_dead_it_keeps_what_it_held(self) -> None:
        it = joined(0)
        it.stall(1_000, 3)
        assert it.kill(10) == []
        assert (it.owned, it.member_id, it.not_polling_since_ms, it.due_ms) == (slots([0]), "m", 3, None)
        assert joined(0).kill(10) == []


class TestPolling:
    def test_a_short_stall_is_nothing(self) -> None:
        it = joined(0)
        it.stall(2_000, 1_000)
        assert (it.not_polling_since_ms, it.due_ms, it.due_ms_except_heartbeats) == (1_000, 3_000, 3_000)
        assert it.wake(3_000) == []
        assert (it.not_polling_since_ms, it.due_ms) == (None, 5_000)

    @pytest.mark.parametrize(("instance_id", "epoch"), [(None, -1), ("i", -2)])
    def test_too_long_a_stall_and_it_leaves_and_comes_back(self, instance_id: str | None, epoch: int) -> None:
        it = joined(0, max_poll_interval_ms=8_000, instance_id=instance_id)
        it.stall(10_000, 1_000)
        it.wake(5_000)
        assert it.due_ms == it.due_ms_except_heartbeats == 9_000
        (request,) = it.wake(9_000)
        assert (request.member_epoch, request.reason) == (epoch, RebalanceReason.POLL_TIMEOUT)
        assert (it.phase, it.owned, it.due_ms) == (Kip848Phase.STALE, frozenset(), 11_000)
        # What is still to come of before, and the answer to its leaving, mean nothing.
        assert it.handle_response(ok(2, [7]), 9_001) == []
        assert it.handle_response(refused(ErrorCode.UNKNOWN_MEMBER_ID), 9_002) == []
        (request,) = it.wake(11_000)
        assert (request.member_id, request.member_epoch, it.not_polling_since_ms) == ("m", 0, None)
        assert it.handle_response(ok(5, [3]), 11_001)[0].owned == slots([3])

    def test_a_second_stall_makes_it_longer(self) -> None:
        it = joined(0)
        it.stall(2_000, 1_000)
        it.stall(2_500, 1_500)
        it.stall(100, 1_600)
        assert (it.not_polling_since_ms, it.due_ms) == (1_000, 4_000)

    def test_frozen_it_sends_nothing_and_takes_answers_later(self) -> None:
        it = joined(0, 1)
        it.wake(5_000)
        it.freeze(20_000, 5_001)
        assert it.handle_response(ok(2, [0]), 5_002) == []
        assert (it.due_ms, it.owned, it.beats_safely) == (25_001, slots([0, 1]), False)
        assert it.skip_heartbeats(25_000) is None
        (told,) = it.wake(25_001)
        assert told.owned == slots([0])

    def test_frozen_longer_than_it_may_go_without_a_poll(self) -> None:
        it = joined(0, max_poll_interval_ms=8_000)
        it.wake(5_000)
        it.freeze(20_000, 5_001)
        it.handle_response(ok(2), 5_002)
        assert it.due_ms == 25_001
        leaves, joins = it.wake(25_001)
        assert (leaves.member_epoch, joins.member_epoch) == (-1, 0)
        assert it.handle_response(refused(ErrorCode.UNKNOWN_MEMBER_ID), 25_002) == []
        assert it.handle_response(ok(9, [1]), 25_003)[0].owned == slots([1])

    def test_heartbeats_that_say_nothing_can_be_skipped(self) -> None:
        it = joined(0)
        assert it.skip_heartbeats(5_000) is None
        assert it.skip_heartbeats(21_000) == 20_000
        assert it.due_ms == 25_000


class TestTogether:
    """With a coordinator; each message takes a millisecond."""

    def test_a_frozen_member_comes_back_and_learns_that_it_was_fenced(self) -> None:
        stage = Stage({"t": 4})
        stage.start("a")
        stage.start("b")
        stage.run(20_000)
        stage.do("b", "freeze", 60_000)
        stage.run(59_000)
        assert len(stage.consumers["a"].owned) == 4
        stage.run(20_000)
        assert {name: len(owned) for name, owned in stage.owned().items()} == {"a": 2, "b": 2}

    def test_a_slow_one_holds_up_only_what_it_has_to_give(self) -> None:
        stage = Stage({"t": 4})
        stage.start("a", rejoin_delay_ms=20_000)
        stage.run(30_000)
        stage.start("b")
        stage.run(10_000)
        assert {name: len(owned) for name, owned in stage.owned().items()} == {"a": 4, "b": 0}
        stage.run(25_000)
        assert {name: len(owned) for name, owned in stage.owned().items()} == {"a": 2, "b": 2}
