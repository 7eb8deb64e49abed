"""What analyzers of rebalances share."""

from __future__ import annotations

from agent.core.causes import Cause
from analyzers.windows import DepartureCounter, LostMembers, RecentItems
from tests.unit.analyzers.story import Story


def test_a_window_forgets_what_is_old_and_what_has_no_room() -> None:
    recent: RecentItems[str] = RecentItems(10, kept=2)
    assert recent.expires_ms is None
    assert recent.newest_ms is None
    assert recent.add(100, "a") == []
    assert recent.add(105, "b") == []
    assert recent.add(106, "c") == [(100, "a")]
    assert (list(recent), recent.expires_ms, recent.newest_ms) == (["b", "c"], 115, 106)
    assert recent.prune(114) == []
    assert recent.prune(115) == [(105, "b")]
    assert len(recent) == 1


def test_rounds_are_departures_by_how_many_there_were_at_once() -> None:
    seats: DepartureCounter[str] = DepartureCounter(1_000, least=2)
    for _ in range(3):
        seats.join("shared")
    seats.join("own")
    for now_ms in range(5):
        seats.leave("shared", now_ms)
        seats.leave("own", now_ms)
        seats.join("own")
    assert seats.departures("shared") == seats.departures("own") == 5
    assert (seats.rounds("shared"), seats.rounds("own"), seats.rounds("nobody")) == (1, 5, 0)
    assert seats.frequent() == {"own"}
    assert seats.expires_ms == 1_000
    seats.prune(1_003)
    assert seats.rounds("own") == 1
    assert seats.frequent() == set()
    seats.prune(2_000)
    assert seats.departures("own") == 0
    assert seats.expires_ms is None


def test_more_members_at_a_seat_than_when_it_was_first_left() -> None:
    seats: DepartureCounter[str] = DepartureCounter(1_000, least=2)
    seats.join("s")
    seats.leave("s", 0)
    seats.join("s")
    seats.join("s")
    seats.leave("s", None)
    seats.leave("s", 1)
    assert (seats.departures("s"), seats.rounds("s")) == (2, 1)


def test_turnover_keeps_so_many_departures_and_no_more() -> None:
    seats: DepartureCounter[int] = DepartureCounter(1_000, least=2, kept=3)
    for number in range(10):
        seats.leave(number, 0)
    assert [seats.departures(number) for number in range(10)] == [0] * 7 + [1] * 3
    seats.raise_capacity(4)
    seats.raise_capacity(2)
    seats.leave(10, 0)
    assert [seats.departures(number) for number in range(6, 11)] == [0, 1, 1, 1, 1]


def test_two_of_one_seat_come_back_one_after_the_other() -> None:
    story = Story().change(["a", "b@/h", "b@/h!"]).work(20).lose("b@/h", "b@/h!").change(["b@/h"]).work(4)
    losses = LostMembers(Cause.SESSION_TIMEOUT, 0.5, 60_000, 2)
    for transition in story.log.replayed()[1]:
        losses.observe(transition, transition.at.timestamp_ms)
    assert [lost.returned_ms is None for lost in losses.recent] == [False, True]
    losses.prune(story.log.now_ms + 60_000)
    assert len(losses.recent) == 0


def test_two_of_one_seat_that_never_come_back() -> None:
    story = Story().change(["a", "b@/h", "b@/h!"]).work(20).lose("b@/h").work(20).lose("b@/h!")
    losses = LostMembers(Cause.SESSION_TIMEOUT, 0.5, 10_000, 2)
    for transition in story.log.replayed()[1]:
        losses.observe(transition, transition.at.timestamp_ms)
    assert len(losses.recent) == 2
    losses.prune(story.log.now_ms)
    assert len(losses.recent) == 1
