"""Connect's assignors: worked rounds, and the recorded answers of Kafka's own workers."""

from __future__ import annotations

import json
from typing import Any

import pytest

from agent.core.protocol.hashing import hash_map_order
from agent.simulation.groups.connect import (
    ConnectAssignmentProblem,
    ConnectConfig,
    ConnectError,
    ConnectWork,
    Task,
    WorkerAssignment,
    WorkerState,
    eager_assign,
    in_wire_order,
)
from agent.simulation.groups.connect_incremental_assignor import IncrementalAssignor
from tests.generate.kafka_connect.asking import RECORDED
from tests.generate.kafka_connect.stories import Cluster, comparable, make_story

STORIES = [json.loads(line) for line in RECORDED.read_text(encoding="utf-8").splitlines()]


@pytest.mark.parametrize("story", STORIES, ids=range(len(STORIES)))
def test_as_kafkas_own_workers(story: dict[str, Any]) -> None:
    """What the leader assigns and what each worker holds then, round by round (recorded with Kafka 4.3.1)."""
    cluster = Cluster(story)
    for row in story["rounds"]:
        assert comparable(cluster.play(row)) == row["expect"], row["generation"]


def test_the_recorded_stories_are_those_made_by_their_seeds() -> None:
    for seed, story in enumerate(STORIES):
        told = {**story, "rounds": [{**row, "expect": None} for row in story["rounds"]]}
        made = make_story(seed)
        assert told == {**made, "rounds": [{**row, "expect": None} for row in made["rounds"]]}


# Rounds by hand. P1…P9 are the tasks of a connector that runs on w1, which leads.

P1, P2, P3, P4, P5, P6, P7, P8, P9 = (("p", number) for number in range(9))
DELAY_MS = 300_000
IDLE = ("i0", "i9")


class Led:
    """A cluster, round by round: workers do as they are told, if it reaches them."""

    def __init__(self, *, max_delay_ms: int = DELAY_MS, **held: tuple[Task, ...]) -> None:
        self.assignor = IncrementalAssignor(max_delay_ms)
        self.held = {name: ConnectWork(("p",) if name == "w1" else (), tasks) for name, tasks in held.items()}
        self.config = {"p": sum(map(len, held.values()))}
        self.generation = 0
        self.completed = -1
        self.round(0)

    def round(self, now_ms: int, *, missed_by: tuple[str, ...] = ()) -> dict[str, str]:
        """What each worker is to do: "+P4 -P1"."""
        members = {name: WorkerState("", 1, WorkerAssignment("w1", "", 1, held)) for name, held in self.held.items()}
        self.generation += 1
        answer = self.assignor.assign(
            ConnectAssignmentProblem("w1", members, ConnectConfig(1, self.config), self.generation, self.completed),
            now_ms,
        )
        if "w1" not in missed_by:
            self.completed = self.generation
        for name, given in answer.items():
            if name not in missed_by:
                self.held[name] = given.assigned.union(self.held[name].difference(given.revoked))
        assert {given.delay_ms for given in answer.values()} == {self.assignor.delay_ms}
        orders = {name: " ".join([*_told("+", it.assigned), *_told("-", it.revoked)]) for name, it in answer.items()}
        return {name: told for name, told in sorted(orders.items()) if told}

    @property
    def delay_ms(self) -> int:
        return self.assignor.delay_ms


def _told(sign: str, work: ConnectWork) -> list[str]:
    return [*(f"{sign}{name}" for name in work.connectors), *(f"{sign}P{number + 1}" for _, number in work.tasks)]


def test_a_lost_workers_tasks_wait_for_the_delay() -> None:
    """Worker 2 with P4 and P5 disappears and does not come back: the others get them when the delay ends."""
    led = Led(w1=(P1, P2, P3), w2=(P4, P5), w3=(P6, P7))
    del led.held["w2"]
    assert led.round(10_000) == {}
    assert led.delay_ms == DELAY_MS == IncrementalAssignor().max_delay_ms
    assert led.assignor.scheduled_ms == 310_000
    assert led.round(310_000) == {"w3": "+P4 +P5"}
    assert led.delay_ms == 0
    assert led.assignor.scheduled_ms is None


def test_a_worker_that_is_back_in_time_gets_its_tasks_when_the_delay_ends() -> None:
    led = Led(w1=(P1, P2, P3), w2=(P4, P5), w3=(P6, P7))
    del led.held["w2"]
    led.round(10_000)
    led.held["w2-again"] = ConnectWork()
    assert led.round(100_000) == {}
    assert led.delay_ms == 210_000
    assert led.round(309_999) == {}
    assert led.delay_ms == 1
    assert led.round(310_000) == {"w2-again": "+P4 +P5"}


def test_any_worker_seen_idle_during_the_delay_counts_as_back() -> None:
    led = Led(w1=(P1, P2), w2=(P3, P4), w3=(P5, P6))
    del led.held["w2"]
    led.round(10_000)
    led.held |= {"w4": ConnectWork(), "w5": ConnectWork()}
    led.round(20_000)
    assert led.round(310_000) == {"w4": "+P3", "w5": "+P4"}


def test_who_was_idle_and_went_again_is_no_candidate() -> None:
    led = Led(w1=(P1, P2), w2=(P3, P4), w3=(P5, P6))
    del led.held["w2"]
    led.round(10_000)
    led.held["w4"] = ConnectWork()
    led.round(20_000)
    del led.held["w4"]
    assert led.round(310_000) == {"w1": "+P3", "w3": "+P4"}


def test_a_second_loss_does_not_prolong_the_delay() -> None:
    led = Led(w1=(P1, P2, P3), w2=(P4, P5), w3=(P6, P7), w4=(P8, P9))
    del led.held["w2"]
    led.round(10_000)
    del led.held["w3"]
    assert led.round(130_000) == {}
    assert led.delay_ms == 180_000
    assert led.round(310_000) == {"w1": "+P6", "w4": "+P4 +P5 +P7"}


def test_a_worker_that_comes_back_with_its_tasks_ends_the_delay() -> None:
    """It was cut off, not dead."""
    led = Led(w1=(P1, P2), w2=(P3, P4))
    cut_off = led.held.pop("w2")
    led.round(10_000)
    led.held["w2"] = cut_off
    assert led.round(20_000) == {}
    assert led.delay_ms == 0


def test_what_two_workers_run_is_taken_from_both_and_given_to_one() -> None:
    """A worker that was cut off for longer than the delay comes back with what others have by now."""
    led = Led(w1=(P1, P2), w2=(P3, P4), w3=(P5, P6))
    cut_off = led.held.pop("w2")
    led.round(10_000)
    assert led.round(310_000) == {"w1": "+P3", "w3": "+P4"}
    led.held["w2"] = cut_off
    assert led.round(400_000) == {"w1": "-P3", "w2": "-P3 -P4", "w3": "-P4"}
    assert led.round(400_001) == {"w2": "+P3 +P4"}


def test_a_new_worker_gets_in_the_second_round_what_is_revoked_in_the_first() -> None:
    """KIP-415's third worker: P1, P2, P4, P5 never stop."""
    led = Led(w1=(P3, P1, P2), w2=(P6, P4, P5))
    led.held["w3"] = ConnectWork()
    assert led.round(1_000) == {"w1": "-P3", "w2": "-P6"}
    assert led.round(1_001) == {"w3": "+P3 +P6"}
    assert led.round(1_002) == {}
    assert led.held["w1"].tasks == (P1, P2)
    assert led.held["w2"].tasks == (P4, P5)


def test_revocations_in_a_row_wait_ever_longer() -> None:
    """A worker more in every round: 40 ms, 1.6 s, 64 s, then the longest delay."""
    led = Led(w1=(P1, P2, P3, P4, P5, P6, P7, P8, P9))
    led.held["w2"] = ConnectWork()
    assert led.round(0) == {"w1": "-P1 -P2 -P3 -P4"}
    led.held["w3"] = ConnectWork()
    assert led.round(1) == {"w2": "+P1 +P3", "w3": "+P2 +P4"}
    assert (led.delay_ms, led.assignor.scheduled_ms) == (40, 41)
    # Asked again before that, it goes on waiting; then it revokes.
    assert led.round(21) == {}
    assert led.delay_ms == 20
    assert led.round(41) == {"w1": "-P5 -P6"}
    assert [led.assignor._backoff_ms(times) for times in range(1, 6)] == [40, 1_600, 64_000, 300_000, 300_000]


def test_the_waits_begin_anew_once_the_work_is_even() -> None:
    led = Led(w1=(P1, P2, P3, P4, P5, P6, P7, P8, P9))
    for number, at_ms in ((2, 0), (4, 10_000)):
        led.held[f"w{number}"] = ConnectWork()
        assert "-P" in " ".join(led.round(at_ms).values())
        led.held[f"w{number + 1}"] = ConnectWork()
        led.round(at_ms + 1)
        assert led.delay_ms == 40
        led.round(at_ms + 41)
        led.round(at_ms + 42)
        assert led.round(at_ms + 43) == {}
        assert led.delay_ms == 0


def test_without_delay_lost_tasks_are_given_at_once() -> None:
    led = Led(max_delay_ms=0, w1=(P1, P2), w2=(P3, P4), w3=(P5, P6))
    del led.held["w2"]
    assert led.round(10_000) == {"w1": "+P3", "w3": "+P4"}
    assert led.delay_ms == 0


def test_without_delay_revocations_in_a_row_do_not_wait() -> None:
    led = Led(max_delay_ms=0, w1=(P1, P2, P3, P4, P5, P6, P7, P8, P9))
    led.held["w2"] = ConnectWork()
    assert led.round(0) == {"w1": "-P1 -P2 -P3 -P4"}
    led.held["w3"] = ConnectWork()
    assert led.round(1) == {"w1": "-P5 -P6", "w2": "+P1 +P3", "w3": "+P2 +P4"}
    assert led.delay_ms == 0
    assert led.round(2) == {"w2": "+P5", "w3": "+P6"}


def test_new_tasks_go_to_who_has_least() -> None:
    led = Led(w1=(P1, P2, P3), w2=(P4, P5))
    led.config["p"] = 8
    assert led.round(1_000) == {"w1": "+P8", "w2": "+P6 +P7"}


def test_deleted_tasks_are_revoked() -> None:
    led = Led(w1=(P1, P3), w2=(P2, P4))
    led.config["p"] = 2
    assert led.round(1_000) == {"w1": "-P3", "w2": "-P4"}
    led.config.clear()
    assert led.round(2_000) == {"w1": "-p -P1", "w2": "-P2"}
    assert led.delay_ms == 0


def test_a_lost_assignment_is_given_again_at_once() -> None:
    """Nobody has gone, so nothing is worth waiting for."""
    led = Led(w1=(P1, P2), w2=(P3, P4))
    led.config["p"] = 6
    assert led.round(1_000, missed_by=("w2",)) == {"w1": "+P5", "w2": "+P6"}
    assert led.round(2_000) == {"w2": "+P6"}


def test_a_revocation_that_was_not_heard_is_said_again() -> None:
    led = Led(w1=(P1, P2, P3, P4))
    led.held["w2"] = ConnectWork()
    assert led.round(1_000, missed_by=("w1",)) == {"w1": "-P1 -P2"}
    led.completed = led.generation
    assert led.round(2_000) == {}
    assert led.delay_ms == 40
    assert led.round(2_040) == {"w1": "-P1 -P2"}


def test_a_deletion_that_was_not_heard_is_said_again() -> None:
    led = Led(w1=(P1, P3), w2=(P2, P4))
    led.config["p"] = 2
    assert led.round(1_000, missed_by=("w2",)) == {"w1": "-P3", "w2": "-P4"}
    assert led.round(2_000) == {"w2": "-P4"}


def test_a_new_leader_lets_run_what_it_does_not_know_for_deleted() -> None:
    led = Led(w1=(P1, P2), w2=(P3, P4))
    led.assignor = IncrementalAssignor()
    led.config.clear()
    assert led.round(1_000) == {}
    assert led.round(2_000) == {"w1": "-p -P1 -P2", "w2": "-P3 -P4"}


def test_candidates_are_taken_in_the_order_of_a_hash_set_of_their_own() -> None:
    """Of more than twelve workers the set of the idle ones is smaller than the map of all: another order."""
    busy = {f"w{number}": (("p", number - 1),) for number in range(1, 14)}
    led = Led(**busy)
    del led.held["w2"]
    del led.held["w3"]
    led.round(10_000)
    led.held |= dict.fromkeys(IDLE, ConnectWork())
    assert [name for name in hash_map_order(led.held) if name in IDLE] != hash_map_order(IDLE)
    led.round(20_000)
    first, second = hash_map_order(IDLE)
    assert led.round(310_000) == {first: "+P2", second: "+P3"}


def test_a_leader_that_missed_its_own_round_waits_for_nothing() -> None:
    """It cannot know what became of it: what nobody holds is new to it."""
    led = Led(w1=(P1, P2), w2=(P3, P4))
    led.round(1_000, missed_by=("w1",))
    del led.held["w2"]
    assert led.round(2_000) == {"w1": "+P3 +P4"}


def test_a_new_leader_waits_for_nothing_either() -> None:
    led = Led(w1=(P1, P2), w2=(P3, P4))
    del led.held["w2"]
    led.assignor = IncrementalAssignor()
    assert led.round(1_000) == {"w1": "+P3 +P4"}


def test_an_idle_workers_end_after_a_revocation_delays_too() -> None:
    """Nothing is lost, yet the leader waits for somebody: it has just revoked, and a worker has gone."""
    led = Led(w1=(P1, P2))
    led.held["w2"] = ConnectWork()
    assert led.round(1_000) == {"w1": "-P1"}
    del led.held["w2"]
    assert led.round(2_000) == {"w1": "+P1"}
    assert led.delay_ms == DELAY_MS


def test_a_small_longest_delay_bounds_the_backoff() -> None:
    """As Kafka computes it, in floating point: 999 of 1,000."""
    delays = (0, 1, 2, 39, 40, 1_000, 60_000)
    assert [IncrementalAssignor(delay)._backoff_ms(9) for delay in delays] == [0, 1, 2, 39, 40, 999, 60_000]


# The configuration.

OLD, NEW = ConnectConfig(3, {"p": 1}), ConnectConfig(5, {"p": 2})


@pytest.mark.parametrize("assign", [eager_assign, lambda problem: IncrementalAssignor().assign(problem, 0)])
def test_a_leader_that_lags_behind_assigns_nothing(assign: Any) -> None:
    members = {"w1": WorkerState("u1", 3), "w2": WorkerState("u2", 5)}
    answer = assign(ConnectAssignmentProblem("w1", members, OLD, 1))
    failed = WorkerAssignment("w1", "u1", 5, error=ConnectError.CONFIG_MISMATCH)
    assert answer == {"w1": failed, "w2": failed}
    # It may have read on meanwhile.
    caught_up = assign(ConnectAssignmentProblem("w1", members, OLD, 1, latest_config=NEW))
    assert sorted(task for given in caught_up.values() for task in given.assigned.tasks) == [("p", 0), ("p", 1)]
    assert {(given.error, given.config_offset) for given in caught_up.values()} == {(ConnectError.NONE, 5)}


def test_eager_deals_connectors_then_tasks_in_one_turn() -> None:
    members = {name: WorkerState("", 1) for name in ("w2", "w3", "w1")}
    answer = eager_assign(ConnectAssignmentProblem("w1", members, ConnectConfig(1, {"b": 2, "a": 3}), 1))
    assert {name: given.assigned for name, given in answer.items()} == {
        "w1": ConnectWork(("a",), (("a", 1), ("b", 1))),
        "w2": ConnectWork(("b",), (("a", 2),)),
        "w3": ConnectWork((), (("a", 0), ("b", 0))),
    }


def test_names_are_ordered_as_java_orders_them() -> None:
    """UTF-16 puts what is beyond the first plane before the last of it."""
    config = ConnectConfig(1, {"\uff5e": 1, "\U0001f4a9": 1})
    assert config.work().connectors == ("\U0001f4a9", "\uff5e")
    assert ConnectWork(("\uff5e", "\U0001f4a9"), ()).in_name_order().connectors == ("\U0001f4a9", "\uff5e")


def test_work_travels_by_connector() -> None:
    work = ConnectWork(("b", "a"), (("c", 0), ("a", 1), ("c", 1), ("b", 0), ("a", 0)))
    assert in_wire_order(work) == ConnectWork(("a", "b"), (("a", 1), ("a", 0), ("b", 0), ("c", 0), ("c", 1)))
    assert not ConnectWork()
