"""Records consumed lately, by what positions were and are."""

from __future__ import annotations

from agent.core.diagnosis.api import WINDOW_MS, Sample
from agent.core.diagnosis.consumption import WINDOWS, Consumption
from agent.core.shadow.views import Position

A, B, C = ("t", 0), ("t", 1), ("u", 0)


def consumption(*samples: tuple[int, dict[tuple[str, int], int]]) -> Consumption:
    """From samples: minute, offsets. Each is one commit more of its position."""
    made, commits = Consumption(), dict[tuple[str, int], int]()
    for minute, offsets in samples:
        positions = {}
        for slot, offset in offsets.items():
            commits[slot] = commits.get(slot, 0) + 1
            positions[slot] = Position(offset, minute * 60_000, commits[slot])
        made.add(Sample(minute * 60_000, positions))
    return made


def test_what_is_first_seen_has_consumed_nothing_yet() -> None:
    assert consumption((1, {A: 500})).records_until(60_000) == {A: 0}
    assert consumption((1, {A: 500}), (2, {A: 600, B: 9}), (3, {B: 10})).records_until(180_000) == {A: 100, B: 1}


def test_only_the_last_windows_count() -> None:
    # One step a window, of which the last three count: the current one and two that ended.
    steps = consumption(*((5 * number, {A: number * number}) for number in range(1, 8)))
    assert steps.records_until(7 * WINDOW_MS) == {A: 7 * 7 - 4 * 4}
    assert steps.records_until(7 * WINDOW_MS + 1) == {A: 7 * 7 - 5 * 5}
    assert steps.records_until((7 + WINDOWS) * WINDOW_MS) == {}


def test_after_a_silence_it_goes_on_from_where_it_was() -> None:
    assert consumption((1, {A: 500}), (300, {A: 800})).records_until(300 * 60_000) == {A: 300}


def test_a_position_that_moved_back_consumed_nothing() -> None:
    assert consumption((1, {A: 500}), (2, {A: 100})).records_until(120_000) == {A: 0}


def test_a_position_that_jumped_further_than_anybody_reads_consumed_nothing() -> None:
    assert consumption((1, {A: 0, B: 0}), (2, {A: (1 << 63) - 1, B: 5})).records_until(120_000) == {A: 0, B: 5}


def test_a_deleted_position_is_gone() -> None:
    it = consumption((1, {A: 500, B: 1}), (6, {A: 700}))
    it.drop(A)
    it.drop(("nothing", 0))
    assert it.records_until(360_000) == {B: 0}


def test_commits_since_asked_last() -> None:
    it = consumption((1, {A: 1, B: 1}), (2, {A: 2}))
    assert (it.take_commit_count(), it.take_commit_count()) == (3, 0)
    it.drop(A)
    assert it.take_commit_count() == 0
    it.add(Sample(180_000, {B: Position(2, 180_000, 2)}))
    assert it.take_commit_count() == 1
    it.add(Sample(240_000, {B: Position(3, 240_000, 3)}))
    it.drop(B)
    assert it.take_commit_count() == 1, "it was one before the position went"


def test_a_position_that_comes_again_begins_anew() -> None:
    it = consumption((1, {A: 500, B: 1, C: 7}), (6, {A: 700, B: 2}))
    it.drop(A)
    it.add(Sample(420_000, {A: Position(900, 420_000, 1), B: Position(4, 420_000, 3)}))
    assert it.records_until(420_000) == {B: 3, C: 0, A: 0}
    it.add(Sample(480_000, {A: Position(950, 480_000, 2)}))
    assert it.records_until(480_000) == {B: 3, C: 0, A: 50}
