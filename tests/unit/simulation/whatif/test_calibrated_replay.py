"""How near a play comes to the log, and which guess is taken."""

from __future__ import annotations

from typing import cast

import pytest
from msgspec.structs import replace

from agent.core.protocol.assignors import ASSIGNORS, Assignment, AssignmentNeverEnds, AssignmentProblem, Assignor
from agent.simulation.groups.simulate import SimulatedRebalance, SimulationResult, StoppedTime
from agent.simulation.whatif.calibrated_replay import (
    CannotReplay,
    GenerationDifference,
    ReplayAccuracy,
    calibrate,
    replay,
    replay_accuracy,
)
from agent.simulation.whatif.changes import starts
from agent.simulation.whatif.recorded_script import Generation, RecordedScript, reconstruct
from tests.unit.core.shadow import build as b
from tests.unit.simulation.whatif.made import History, rolling_restart, shared_out

A, B, C = frozenset("a"), frozenset("ab"), frozenset("abc")


def expecting(*clients: frozenset[str], opening: bool = False) -> RecordedScript:
    history = History()
    history.at(0, *shared_out(["a-1"]))
    found = reconstruct(history.recording(), b.T0)
    expected = tuple(Generation(at, at * 1_000, it) for at, it in enumerate(clients, 1))
    if not opening:
        return replace(found, expected=expected)
    return replace(found, expected=expected[1:], opening=expected[0], opening_ms=1_000)


def came(*clients: frozenset[str], generation: int = 1) -> SimulationResult:
    rebalances = tuple(
        SimulatedRebalance(at, at * 1_000, at * 1_000, (at - generation + 1) * 1_000 + 5, (), tuple(sorted(it)), 0)
        for at, it in enumerate(clients, generation)
    )
    return SimulationResult((), rebalances, (), StoppedTime(0, 0, 0))


def test_the_same() -> None:
    found = replay_accuracy(expecting(A, B, A), came(A, B, A))
    assert (found.is_exact, found.generations, found.matched, found.late_ms) == (True, 3, 3, (5, 5, 5))


def test_an_assignor_that_never_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    def never(problem: AssignmentProblem) -> Assignment:
        raise AssignmentNeverEnds("it never ends")

    history = History()
    history.at(0, *shared_out(["a-1"]))
    script = reconstruct(history.recording(), b.T0 + 60_000).script
    (used,) = {name for it in starts(script) for name in it.settings.assignors}
    monkeypatch.setitem(cast(dict[str, Assignor], ASSIGNORS), used, never)
    with pytest.raises(CannotReplay, match="it never ends"):
        replay(script)


def test_one_is_missing() -> None:
    found = replay_accuracy(expecting(A, B, A), came(A, A))
    assert found.differences == (GenerationDifference(Generation(2, 2_000, B), None),)
    assert (found.is_exact, found.matched) == (False, 2)


def test_one_is_too_many() -> None:
    found = replay_accuracy(expecting(A, C), came(A, B, C))
    assert found.differences == (GenerationDifference(None, Generation(2, 2_005, B, stopped_ms=0)),)


def test_one_at_the_end() -> None:
    found = replay_accuracy(expecting(A), came(A, B))
    assert found.differences == (GenerationDifference(None, Generation(2, 2_005, B, stopped_ms=0)),)


def test_what_never_completed_is_not_shown() -> None:
    play = came(A, B, C)
    lost = replace(play.rebalances[1], completed_ms=None)
    play = replace(play, rebalances=(play.rebalances[0], lost, play.rebalances[2]))
    assert replay_accuracy(expecting(A, C), play).is_exact


def test_what_came_before_the_opening_does_not_count() -> None:
    play = came(A, A, B, generation=7)
    times = (500, 900, 2_000)
    play = replace(
        play,
        rebalances=tuple(replace(it, completed_ms=at) for it, at in zip(play.rebalances, times, strict=True)),
    )
    assert replay_accuracy(expecting(A, B, opening=True), play).is_exact
    assert replay_accuracy(expecting(A, opening=True), came(B)).differences == (
        GenerationDifference(None, Generation(2, 1_005, B, stopped_ms=0)),
    )


def test_stopped_times_are_compared_where_the_log_tells_them() -> None:
    play = came(A, B, C, A)
    by_then = (StoppedTime(5_000), StoppedTime(6_000, 1_000), StoppedTime(6_500, 1_000), StoppedTime(9_000, 1_000))
    rebalances = zip(play.rebalances, by_then, strict=True)
    play = replace(play, rebalances=tuple(replace(it, stopped_by_then=so_far) for it, so_far in rebalances))

    def compared(*clients: frozenset[str], known_ms: tuple[int | None, ...]) -> ReplayAccuracy:
        script = expecting(*clients)
        shown = zip(script.expected, known_ms, strict=True)
        return replay_accuracy(replace(script, expected=tuple(it._replace(stopped_ms=ms) for it, ms in shown)), play)

    found = compared(A, B, C, A, known_ms=(None, 1_500, None, 900))
    assert (found.costed, found.stopped_ms, found.log_stopped_ms) == (2, 4_500, 2_400)
    assert found.has_times_of_log
    found = compared(A, B, C, A, known_ms=(None, 1_500, None, 600))
    assert (found.has_times_of_log, found.is_exact) == (False, True), "members alone do not tell"
    found = compared(A, C, A, known_ms=(None, 1_500, None))
    assert (found.costed, found.stopped_ms, found.log_stopped_ms) == (1, 2_500, 1_500), "with what came in between"
    lacking = compared(A, B, B, C, A, known_ms=(None, 1_500, 100, 400, None))
    assert (lacking.costed, lacking.stopped_ms, lacking.log_stopped_ms) == (3, 2_500, 2_000)
    unknown = compared(A, B, B, C, A, known_ms=(None, None, None, 400, None))
    assert (unknown.costed, unknown.has_times_of_log) == (0, None)


def test_the_first_guess_is_taken_where_it_is_exact() -> None:
    found = calibrate(rolling_restart().recording(), b.T0 + 300_000)
    assert found.reproduction.is_exact
    assert (found.recorded.heartbeat_ms, found.recorded.heartbeat_told) == (3_000, True)
    assert found.result == replay(found.recorded.script)


def came_and_went() -> History:
    """A member that leaves an empty group behind and is back within half a second."""
    history = History(created=False)
    history.at(0, *shared_out(["a-1"]))
    history.at(10_000)
    history.at(10_500, *shared_out(["a-2"]))
    history.at(11_000)
    return history


def test_a_broker_that_does_not_wait_is_seen_to_do_so() -> None:
    found = calibrate(came_and_went().recording(), b.T0 + 20_000)
    assert found.reproduction.is_exact
    assert (found.recorded.delay_ms, found.recorded.delay_told) == (0, False)


def test_a_delay_that_is_told_is_not_guessed() -> None:
    found = calibrate(came_and_went().recording(), b.T0 + 20_000, delay_ms=3_000, heartbeat_ms=3_000)
    assert not found.reproduction.is_exact
    assert (found.recorded.delay_ms, found.recorded.heartbeat_ms) == (3_000, 3_000)


def test_quick_changes_make_heartbeats_quick() -> None:
    history = History()
    names = ["a-1"]
    history.at(0, *shared_out(names))
    for at, at_ms in enumerate((1_000, 2_000, 3_400, 4_400), 1):
        names = [*names, f"{'abcdef'[at]}-1"]
        history.at(at_ms, *shared_out(names, partitions=60))
    found = calibrate(history.recording(), b.T0 + 20_000)
    assert found.reproduction.is_exact
    assert found.recorded.heartbeat_ms < 3_000
    assert not found.recorded.heartbeat_told


def test_the_nearest_is_taken_where_none_is_exact() -> None:
    history = History()
    history.at(0, *shared_out(["a-1", "b-1"]))
    history.at(30_000, *shared_out(["a-1", "c-1"]), same=True)
    history.at(60_000, *shared_out(["a-1"]))
    found = calibrate(history.recording(), b.T0 + 100_000).reproduction
    assert (found.generations, found.matched, len(found.differences)) == (2, 2, 1)
