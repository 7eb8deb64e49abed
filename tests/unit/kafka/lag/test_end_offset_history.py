"""What is kept of looks, and the past that is asked for."""

from __future__ import annotations

from itertools import pairwise

import pytest

from agent.core.end_offsets import PartitionId
from agent.kafka.lag.end_offset_history import KEPT_MS, MAX_UNUSED_NUMBERS, SPACING, EndOffsetHistory, thinned_indices
from agent.kafka.lag.offset_seeder import AGES_MS, DAY_MS, HOUR_MS, MINUTE_MS, OffsetSeeder

NOW = 10 * DAY_MS


@pytest.mark.parametrize("interval_ms", [1_000, 30_000, 600_000])
def test_a_few_dozen_looks_are_kept_dense_lately(interval_ms: int) -> None:
    times: list[int] = []
    for at_ms in range(0, DAY_MS // 4 if interval_ms < 30_000 else 9 * DAY_MS, interval_ms):
        times = [*times, at_ms]
        times = [times[at] for at in thinned_indices(times)]
    assert len(times) <= 75
    ages = [times[-1] - at_ms for at_ms in times]
    assert ages[0] <= KEPT_MS
    assert ages[0] >= min(KEPT_MS / 2, times[-1])
    assert all(older - younger <= max(interval_ms, older / SPACING) for older, younger in pairwise(ages))


def test_numbers_are_given_anew_and_nothing_is_mistaken() -> None:
    book = EndOffsetHistory(30_000)
    gone = {("gone", number): 1 for number in range(2 * MAX_UNUSED_NUMBERS)}
    book.add_high_watermarks({**gone, ("t", 0): 10}, 0)
    book.publish(0)
    book.add_high_watermarks({**gone, ("t", 0): 20, ("t", 1): 5}, 30_000)
    book.add_last_stable({("t", 1): 4})
    book.add_log_starts({("t", 0): 3})
    book.add_seeds(("t", 1), [(-60_000, 0), (40_000, 5)], is_complete=True)
    book.publish(30_000)
    book.retain({"t": {0: 0, 1: 0}})
    book.add_high_watermarks({("t", 0): 30, ("t", 1): 5}, 60_000)
    ends = book.publish(60_000)
    assert ends.numbers == {("t", 0): 0, ("t", 1): 1}
    assert [list(column) for column in ends.columns] == [[10], [20, 5], [30, 5]]
    assert len(book) == 2
    assert (list(ends.starts), ends.stable, ends.seeds) == ([3, -1], {1: 4}, {1: ((-60_000, 0),)})
    assert ends.lag("t", 0, 19, 0, bytes(16), 60_000).seconds == 30
    assert ends.lag("t", 1, 0, 0, bytes(16), 60_000).seconds == pytest.approx(120 - 90 / 5)


def test_a_partition_that_came_later_has_the_times_of_its_own_looks() -> None:
    book = EndOffsetHistory(30_000)
    for at_ms, ends in ((0, {0: 10}), (30_000, {0: 20, 1: 5}), (60_000, {0: 30, 1: 15})):
        book.add_high_watermarks({("t", number): end for number, end in ends.items()}, at_ms)
        known = book.publish(at_ms)
    assert [known.lag("t", number, offset, 0, bytes(16), 60_000).seconds for number, offset in ((0, 14), (1, 9))] == [
        45,
        15,
    ]


def test_a_published_value_does_not_change() -> None:
    book = EndOffsetHistory(30_000)
    book.add_high_watermarks({("t", 0): 10}, 0)
    ends = book.publish(0)
    book.add_high_watermarks({("t", 0): 20, ("t", 1): 1}, 30_000)
    book.add_log_starts({("t", 0): 5})
    book.publish(30_000)
    assert (list(ends.newest), list(ends.starts), ends.at_ms) == ([10], [-1], 0)


def test_what_nobody_wants_is_forgotten() -> None:
    book = EndOffsetHistory(30_000)
    book.add_high_watermarks({("a", 0): 1, ("a", 1): 1, ("b", 0): 1}, 0)
    book.add_denied("c")
    book.add_missing([("d", 0)])
    book.retain({"a": {1: 0}})
    ends = book.publish(0)
    assert ends.numbers.keys() == {("a", 1)}
    assert ends.topics == {}
    for late in (("b", 0), ("a", 0)):
        book.add_seeds(late, [(0, 0)], is_complete=True)
        assert not book.wants_seeds(late, 0)
        assert book.end(late) is None
    assert book.end(("a", 1)) == 1


def test_whose_last_stable_offset_is_asked_for() -> None:
    book = EndOffsetHistory(30_000)
    a, b = ("t", 0), ("t", 1)
    assert book.add_high_watermarks({a: 1, b: 1}, 0)[0] == [a, b], "all at first"
    assert book.add_high_watermarks({a: 1, b: 1}, 1)[0] == [], "nothing was written"
    assert book.add_high_watermarks({a: 1, b: 2}, 2)[0] == [b], "perhaps in a transaction"
    book.add_last_stable({b: 1})
    assert book.add_high_watermarks({a: 1, b: 2}, 3)[0] == [b], "perhaps it is over"
    book.add_last_stable({b: 2})
    assert book.add_high_watermarks({a: 1, b: 2}, 4)[0] == []


def test_whose_past_is_asked_for() -> None:
    book, place = EndOffsetHistory(30_000), ("t", 0)
    book.add_high_watermarks({place: 10}, 0)
    assert not book.wants_seeds(place, 10), "nothing is behind"
    assert book.wants_seeds(place, 9)
    book.publish(0)
    assert book.wants_seeds(place, 9)
    book.add_seeds(place, [(-60_000, 5)], is_complete=False)
    assert not book.wants_seeds(place, 5)
    assert book.wants_seeds(place, 4), "somebody began anew"
    book.add_seeds(place, [(-60_000, 5)], is_complete=True)
    assert not book.wants_seeds(place, 4), "there is no more to ask"


def test_of_deleted_records_the_past_of_the_first_that_is_there_is_asked_for() -> None:
    book, place = EndOffsetHistory(30_000), ("t", 0)
    book.add_high_watermarks({place: 10}, 0)
    book.publish(0)
    book.add_log_starts({place: 5})
    assert (book.next_kept(place, 2), book.next_kept(place, 7)) == (5, 7)
    book.add_seeds(place, [(-60_000, 5)], is_complete=False)
    assert not book.wants_seeds(place, 2), "it was there by then, whenever the others were"


def written(at_ms: dict[int, int]) -> list[int]:
    """By offset when it was written: so many records at each of these times."""
    return [time_ms for time_ms, count in sorted(at_ms.items()) for _ in range(count)]


def searched(log: list[int], offset: int) -> tuple[OffsetSeeder, int]:
    search, asked = OffsetSeeder(offset, len(log), NOW), 0
    while (time_ms := search.time_ms) is not None:
        asked += 1
        search.add_answer(next((at for at, written_ms in enumerate(log) if written_ms >= time_ms), -1))
    return search, asked


@pytest.mark.parametrize("age_ms", [2_000, 30_000, 200_000, 2 * HOUR_MS, 20 * HOUR_MS, 6 * DAY_MS])
def test_a_search_finds_about_when_it_was_written(age_ms: int) -> None:
    log = written({NOW - 8 * DAY_MS: 50, NOW - age_ms: 1, NOW - 1000: 50})
    search, asked = searched(log, 50)
    assert asked <= len(AGES_MS) + 3
    place: PartitionId = ("t", 0)
    book = EndOffsetHistory(30_000)
    book.add_high_watermarks({place: len(log)}, NOW)
    book.add_seeds(place, search.points, is_complete=search.is_complete)
    seconds = book.publish(NOW).lag("t", 0, 50, 0, bytes(16), NOW).seconds
    assert seconds is not None
    assert 0.6 * age_ms <= seconds * 1000 <= 1.7 * age_ms


def test_a_search_ends_where_there_is_no_more_to_ask() -> None:
    search, asked = searched(written({NOW - 30 * DAY_MS: 10}), 5)
    assert asked == len(AGES_MS)
    assert search.is_complete
    assert search.points[0] == (NOW - AGES_MS[-1], 10), "no record is newer, so it ended where it does"


def test_a_search_that_needs_few_questions() -> None:
    search, asked = searched(written({NOW - MINUTE_MS: 5, NOW: 5}), 7)
    assert asked == 3, "no more than a second is left to be told apart"
    assert not search.is_complete
    assert [offset for _, offset in search.points] == [5, 5, 5]
    assert NOW - 2_000 < search.points[-1][0] < NOW
