"""Who is asked for next, how many at a time, and after which pause."""

from __future__ import annotations

import pytest

from agent.common.pacing import FIRST_PAUSE_S, LAST_PAUSE_S, Backoff, Interval
from agent.kafka.admin_api.describe_scheduler import (
    CONFIRM_AFTER_S,
    LEAST_INTERVAL_S,
    PRIORITY_S,
    SCANNED_PER_GROUP,
    SUSPENDED_S,
    DescribeScheduler,
    RateLimiter,
)


def agenda(count: int) -> DescribeScheduler:
    made = DescribeScheduler()
    made.set_groups({f"g{number}": number % 4 for number in range(count)})
    return made


def test_every_group_has_its_turn_and_then_again_from_the_first() -> None:
    it = agenda(100)
    rounds = [it.next_groups(10, now=1000.0 + second) for second in range(10)]
    assert len({group for groups in rounds for group in groups}) == 100
    assert [it.next_groups(10, now=1010.0 + second) for second in range(10)] == rounds


def test_a_few_groups_are_not_asked_for_all_the_time() -> None:
    it = agenda(3)
    assert len(it.next_groups(5, now=50.0)) == 3
    assert it.next_groups(5, now=50.0 + LEAST_INTERVAL_S - 0.1) == []
    assert len(it.next_groups(5, now=50.0 + LEAST_INTERVAL_S)) == 3


def test_groups_that_moved_come_first_and_leave_something_for_the_others() -> None:
    it = agenda(100)
    for second in range(10):
        it.next_groups(10, now=float(second))
    moved = [f"g{number}" for number in range(50, 90)]
    it.prioritize([*moved, "nobody"], now=20.0)
    chosen = it.next_groups(8, now=20.0)
    assert sum(group in moved for group in chosen) == 6
    assert len(set(chosen)) == 8
    more = it.next_groups(8, now=20.0)
    assert not set(more) & set(chosen)
    for step in range(10):
        it.next_groups(8, now=20.0 + step / 10)
    again = it.next_groups(8, now=20.0 + CONFIRM_AFTER_S)
    assert again[0] == chosen[0], "soon again, the one that was first before the others"


def test_groups_that_moved_have_the_whole_batch_where_nobody_else_waits() -> None:
    it = agenda(10)
    it.next_groups(10, now=100.0)
    it.prioritize([f"g{number}" for number in range(8)], now=100.0)
    assert it.next_groups(8, now=100.0 + CONFIRM_AFTER_S) == [f"g{number}" for number in range(8)]
    assert it.next_groups(8, now=100.0 + PRIORITY_S + CONFIRM_AFTER_S)[:2] == ["g8", "g9"], (
        "some time later it is a group as others are"
    )


def test_a_new_group_comes_before_those_that_were_asked_for() -> None:
    it = agenda(5)
    it.next_groups(5, now=100.0)
    it.set_groups({f"g{number}": 0 for number in range(1, 7)})
    assert it.next_groups(2, now=200.0) == ["g5", "g6"]
    assert "g0" not in it.next_groups(10, now=200.0), "and one that is gone not at all"


def test_groups_of_a_coordinator_that_does_not_answer_wait_and_hold_nobody_up() -> None:
    it = DescribeScheduler()
    # All that can be looked at in one turn belongs to it.
    it.set_groups({f"g{number}": int(number >= 4 * SCANNED_PER_GROUP) for number in range(4 * SCANNED_PER_GROUP + 2)})
    first = it.next_groups(4, now=50.0, busy={0})
    second = it.next_groups(4, now=50.0, busy={0})
    assert sorted(first + second) == [f"g{4 * SCANNED_PER_GROUP}", f"g{4 * SCANNED_PER_GROUP + 1}"]
    assert len(it.next_groups(4, now=50.0)) == 4
    it.prioritize(["g0"], now=50.0)
    assert it.next_groups(1, now=60.0, busy={0, 1}) == []


def test_a_group_that_cannot_be_asked_for() -> None:
    it = agenda(2)
    it.next_groups(2, now=50.0)
    it.suspend("g0", now=50.0)
    it.suspend("nobody", now=50.0)
    it.prioritize(["g0"], now=60.0)
    assert it.next_groups(2, now=60.0) == ["g1"]
    assert set(it.next_groups(2, now=50.0 + SUSPENDED_S)) == {"g0", "g1"}, "the right may have been granted"


@pytest.mark.parametrize(("per_s", "seconds"), [(20.0, 10), (3.0, 10), (0.5, 40)])
def test_rate(per_s: float, seconds: int) -> None:
    rate = RateLimiter(per_s)
    assert rate.available(0.0) == 0
    spent, at = 0, []
    for tick in range(1, seconds * 20 + 1):
        count = rate.available(tick / 20)
        rate.spend(count)
        spent += count
        at += [tick / 20] * count
    assert per_s * seconds - 1 <= spent <= per_s * seconds
    for start in range(seconds):
        assert sum(start < when <= start + 1 for when in at) <= per_s + 1
    assert rate.available(1000.0) == max(int(per_s), 1), "what was not used is saved for a second, not for ever"


def test_every() -> None:
    every = Interval(10.0)
    assert [every.due(now) for now in (5.0, 5.1, 14.9, 15.0, 15.1)] == [True, False, False, True, False]
    every.restart_in(2.0, now=15.1)
    assert [every.due(now) for now in (17.0, 17.2, 20.0)] == [False, True, False]
    every.not_before(1.0, now=20.0)
    assert [every.due(now) for now in (21.0, 27.2)] == [False, True]
    every.not_before(30.0, now=28.0)
    assert [every.due(now) for now in (57.9, 58.0)] == [False, True]
    fresh = Interval(10.0)
    fresh.not_before(3.0, now=0.0)
    assert [fresh.due(now) for now in (2.0, 3.0)] == [False, True]


def test_pauses_grow_and_end_with_an_answer() -> None:
    pauses = Backoff[int]()
    now, lengths = 100.0, []
    for _ in range(8):
        pauses.failed(1, now)
        length = 0.0
        while 1 in pauses.waiting(now + length):
            length += FIRST_PAUSE_S / 2
        lengths.append(length)
        now += length
    assert lengths == [1, 2, 4, 8, 16, 32, LAST_PAUSE_S, LAST_PAUSE_S]
    pauses.failed(2, now)
    pauses.succeeded(1)
    assert pauses.waiting(now) == {2}
