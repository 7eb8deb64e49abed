"""What is told of a commit, case by case, and why."""

from __future__ import annotations

import pytest

from agent.core.end_offsets import CAUGHT_UP, EndOffsets, Lag, LagNote, PartitionEnd
from agent.core.wire.primitives import ZERO_UUID
from agent.kafka.lag.end_offset_history import EndOffsetHistory

INTERVAL_MS = 30_000
NOW = 10_000_000
P0 = ("t", 0)
FIRST, SECOND = b"1" * 16, b"2" * 16


def looks(*ends: int, topic_id: bytes = FIRST, last_ms: int = NOW) -> EndOffsetHistory:
    """A book of looks at one partition, the last of them now."""
    book = EndOffsetHistory(INTERVAL_MS)
    for back, end in zip(range(len(ends) - 1, -1, -1), ends, strict=True):
        book.add_high_watermarks({P0: end}, last_ms - back * INTERVAL_MS)
        book.add_topic_ids({"t": topic_id})
        book.publish(last_ms - back * INTERVAL_MS)
    return book


def lag(
    ends: EndOffsets,
    offset: int,
    *,
    committed_ms: int = 0,
    topic_id: bytes = ZERO_UUID,
    now_ms: int = NOW,
    partition: int = 0,
) -> Lag:
    told = ends.lag("t", partition, offset, committed_ms, topic_id, now_ms)
    place = ("t", partition)
    # As of now the analyzers are told the same, but for what came since the last look.
    _, lags = ends.lags_at([place], [offset], [committed_ms], [topic_id], now_ms)
    assert now_ms < ends.at_ms or lags.get(place) in (None, told.records)
    return told


def test_01_an_end_that_nobody_asked_for() -> None:
    assert lag(looks(100).snapshot, 5, partition=1) == Lag(note=LagNote.UNKNOWN_END)


def test_02_at_the_end_nothing_is_to_be_read() -> None:
    assert lag(looks(100).snapshot, 100) == CAUGHT_UP


def test_03_records_and_how_long_the_next_one_has_been_there() -> None:
    # 60 s ago it ended at 40, 30 s ago at 70: record 54 was the fifteenth of thirty.
    assert lag(looks(40, 70, 100).snapshot, 54) == Lag(46, 45.0)


def test_04_the_record_that_was_there_at_a_look_was_so_since_then_at_the_latest() -> None:
    assert lag(looks(40, 70, 100).snapshot, 69) == Lag(31, 30.0)
    assert lag(looks(40, 70, 100).snapshot, 70) == Lag(30, 29.0)


def test_05_seconds_go_on_between_looks() -> None:
    assert lag(looks(40, 70).snapshot, 69, now_ms=NOW + 20_000) == Lag(1, 20.0)


def test_06_no_seconds_where_the_past_is_not_known() -> None:
    assert lag(looks(100).snapshot, 5) == Lag(95, None)


def test_07_the_past_that_was_asked_for() -> None:
    book = looks(100)
    book.add_seeds(P0, [(NOW - 300_000, 0), (NOW - 60_000, 90)], is_complete=False)
    # Of ninety records in 240 s the sixth.
    assert lag(book.republish(), 5) == Lag(95, 300 - 240 * 6 / 90)
    assert lag(book.snapshot, 95) == Lag(5, 60 - 60 * 6 / 10)


def test_08_a_bound_where_more_cannot_be_asked_for() -> None:
    book = looks(100)
    book.add_seeds(P0, [(NOW - 300_000, 50)], is_complete=True)
    assert lag(book.republish(), 5) == Lag(95, 300.0, at_least=True)


def test_09_no_bound_where_it_only_was_not_asked() -> None:
    book = looks(100)
    book.add_seeds(P0, [(NOW - 300_000, 50)], is_complete=False)
    assert lag(book.republish(), 5) == Lag(95, None)


def test_10_an_old_end_is_not_told() -> None:
    ends = looks(100).snapshot
    assert lag(ends, 5, now_ms=NOW + 3 * INTERVAL_MS).records == 95
    assert lag(ends, 5, now_ms=NOW + 3 * INTERVAL_MS + 1) == Lag(note=LagNote.STALE_END)
    assert ends.end("t", 0, NOW + 3 * INTERVAL_MS + 1) is None


def test_11_a_commit_that_came_since_the_look_is_at_the_end_as_far_as_is_known() -> None:
    assert lag(looks(100).snapshot, 105, committed_ms=NOW + 1000) == CAUGHT_UP


def test_12_clocks_differ_by_less_than_an_interval() -> None:
    assert lag(looks(100).snapshot, 105, committed_ms=NOW - INTERVAL_MS + 1) == CAUGHT_UP


def test_13_an_older_commit_beyond_the_end_is_never_negative() -> None:
    assert lag(looks(100).snapshot, 105, committed_ms=NOW - INTERVAL_MS) == Lag(note=LagNote.BEYOND_END)


def test_14_below_the_start_only_what_is_still_there_counts() -> None:
    book = looks(0, 100)
    book.add_log_starts({P0: 60})
    found = lag(book.republish(), 10)
    assert found == Lag(40, pytest.approx(30 - 30 * 11 / 100), False, LagNote.BELOW_LOG_START, 0, 50)


def test_15_of_deleted_records_it_is_known_that_they_were_before_the_first_that_is_there() -> None:
    book = looks(100)
    book.add_seeds(P0, [(NOW - 600_000, 60), (NOW - 60_000, 80)], is_complete=False)
    book.add_log_starts({P0: 60})
    assert lag(book.republish(), 60).seconds == pytest.approx(600 - 540 / 20)
    # That is where it is likely; that it was there by the next look is sure.
    assert lag(book.snapshot, 10) == Lag(40, 60, True, LagNote.BELOW_LOG_START, 0, 50)


def test_16_nothing_is_left_of_the_log() -> None:
    book = looks(100, 100)
    book.add_log_starts({P0: 100})
    assert lag(book.republish(), 10) == Lag(0, None, False, LagNote.BELOW_LOG_START, 0, 90)


def test_17_up_to_an_open_transaction_and_no_further() -> None:
    book = looks(0, 100)
    book.add_last_stable({P0: 80})
    ends = book.republish()
    assert lag(ends, 80) == Lag(0, 0.0, False, LagNote.OPEN_TRANSACTION, 20)
    assert lag(ends, 79) == Lag(1, 6.0, False, LagNote.OPEN_TRANSACTION, 20)


def test_18_only_who_reads_uncommitted_can_be_behind_the_last_stable_offset() -> None:
    book = looks(0, 100)
    book.add_last_stable({P0: 80})
    assert lag(book.republish(), 90) == Lag(10, pytest.approx(30 - 30 * 0.91))


def test_19_the_transaction_is_over() -> None:
    book = looks(0, 100)
    book.add_last_stable({P0: 80})
    book.add_high_watermarks({P0: 101}, NOW)
    book.add_last_stable({P0: 101})
    assert lag(book.publish(NOW), 80).records == 21


def test_20_a_commit_of_another_topic_of_that_name() -> None:
    ends = looks(100).snapshot
    assert lag(ends, 5, topic_id=SECOND) == Lag(note=LagNote.TOPIC_RECREATED)
    assert lag(ends, 5, topic_id=FIRST).records == 95


def test_21_a_topic_that_came_anew_until_it_is_committed_to() -> None:
    book = looks(100, 100)
    book.add_topic_ids({"t": SECOND})
    book.add_high_watermarks({P0: 300}, NOW + INTERVAL_MS)
    ends = book.publish(NOW + INTERVAL_MS)
    # Commits without a topic's id, as brokers before 4.1 write them.
    assert lag(ends, 5, committed_ms=NOW - 1) == Lag(note=LagNote.TOPIC_RECREATED)
    assert lag(ends, 5, committed_ms=NOW).records == 295
    assert lag(ends, 5, committed_ms=NOW - 1, topic_id=SECOND).records == 295


def test_21_a_commit_without_a_time() -> None:
    """It is of the topic that there always was; where another came nobody knows."""
    book = looks(100, 100)
    assert lag(book.snapshot, 5, committed_ms=-1).records == 95
    book.add_topic_ids({"t": SECOND})
    book.add_high_watermarks({P0: 300}, NOW + INTERVAL_MS)
    assert lag(book.publish(NOW + INTERVAL_MS), 5, committed_ms=-1) == Lag(note=LagNote.TOPIC_RECREATED)


def test_22_a_topic_that_is_gone_at_once_and_for_good() -> None:
    book = looks(100, 100)
    for back in (1, 0):
        book.add_high_watermarks({}, NOW)
        book.add_missing([P0])
        ends = book.publish(NOW)
        assert lag(ends, 5) == Lag(note=LagNote.TOPIC_DELETED)
        assert (P0 in ends.numbers) == bool(back)
    book.add_high_watermarks({P0: 7}, NOW + 1)
    ends = book.publish(NOW + 1)
    assert lag(ends, 5, committed_ms=NOW - 1, topic_id=FIRST) == Lag(note=LagNote.TOPIC_RECREATED)
    assert lag(ends, 5, committed_ms=NOW + 1).records == 2


def test_23_a_topic_that_a_broker_did_not_know_for_a_moment() -> None:
    book = looks(40, 70)
    book.add_high_watermarks({}, NOW)
    book.add_missing([P0])
    book.add_high_watermarks({P0: 100}, NOW + INTERVAL_MS)
    # Between the looks of before, 30 s ago and now.
    assert lag(book.publish(NOW + INTERVAL_MS), 50).seconds == pytest.approx(30 - 30 * 11 / 30)


def test_24_a_partition_that_is_not_there_leaves_the_others() -> None:
    book = looks(100)
    for _ in range(3):
        book.add_high_watermarks({P0: 100}, NOW)
        book.add_missing([("t", 7)])
    ends = book.publish(NOW)
    assert lag(ends, 5, partition=7) == Lag(note=LagNote.UNKNOWN_END)
    assert lag(ends, 5).records == 95


def test_25_a_topic_that_may_not_be_asked_for() -> None:
    book = EndOffsetHistory(INTERVAL_MS)
    book.add_denied("t")
    book.publish(NOW)
    assert lag(book.snapshot, 5) == Lag(note=LagNote.TOPIC_DENIED)
    book.add_high_watermarks({P0: 7}, NOW)
    assert lag(book.publish(NOW), 5).records == 2


def test_26_an_end_that_goes_back_and_nothing_says_why() -> None:
    book = looks(100, topic_id=ZERO_UUID)
    moved, shrunk = book.add_high_watermarks({P0: 50}, NOW + INTERVAL_MS)
    ends = book.publish(NOW + INTERVAL_MS)
    assert (moved, shrunk) == ([P0], {"t"})
    assert lag(ends, 5, committed_ms=NOW - 1) == Lag(note=LagNote.TOPIC_RECREATED)
    assert lag(ends, 5, committed_ms=NOW) == Lag(45, None)


@pytest.mark.parametrize(("topic_id", "is_another"), [(FIRST, False), (SECOND, True)])
def test_27_an_end_that_goes_back_and_the_id_says_why(topic_id: bytes, is_another: bool) -> None:
    book = looks(100)
    book.add_high_watermarks({P0: 50}, NOW + INTERVAL_MS)
    assert book.unidentified == ["t"]
    assert book.add_topic_ids({"t": topic_id}) == ({"t"} if is_another else set())
    assert book.unidentified == []
    ends = book.publish(NOW + INTERVAL_MS)
    # What was lost was lost; the topic is the same.
    assert (lag(ends, 5, committed_ms=NOW - 1).records is None) == is_another
    assert lag(ends, 5, committed_ms=NOW).records == 45


def test_28_where_a_partition_starts_and_ends() -> None:
    book = looks(100)
    assert book.snapshot.end("t", 0, NOW) == PartitionEnd(None, 100, 100, NOW)
    assert book.snapshot.end("t", 1, NOW) is None
    book.add_log_starts({P0: 3, ("t", 1): 5})
    book.add_last_stable({P0: 80, ("t", 1): 5})
    assert book.republish().end("t", 0, NOW) == PartitionEnd(3, 100, 80, NOW)


def test_29_before_the_first_look() -> None:
    assert lag(EndOffsetHistory(INTERVAL_MS).snapshot, 5) == Lag(note=LagNote.UNKNOWN_END)


def test_30_as_of_a_time_it_is_by_the_last_look_before() -> None:
    ends = looks(100, 150, 200).snapshot

    def known(at_ms: int, offset: int = 90, committed_ms: int = 0) -> tuple[int, dict[tuple[str, int], int]]:
        return ends.lags_at([P0], [offset], [committed_ms], [ZERO_UUID], at_ms)

    first_ms = NOW - 2 * INTERVAL_MS
    assert known(first_ms - 1) == (first_ms - 1, {})
    assert known(first_ms) == (first_ms, {P0: 10})
    assert known(NOW - 1) == (NOW - INTERVAL_MS, {P0: 60})
    assert known(NOW + 3 * INTERVAL_MS) == (NOW, {P0: 110})
    assert known(NOW + 3 * INTERVAL_MS + 1) == (NOW + 3 * INTERVAL_MS + 1, {})
    # What was committed since that look may be beyond it; what was there before may not.
    assert known(first_ms, 120, first_ms + 5)[1] == {P0: 0}
    assert known(first_ms, 120)[1] == {}


def test_31_as_of_a_time_before_a_partition_was_there() -> None:
    book = looks(100)
    book.add_high_watermarks({P0: 120, ("t", 1): 70}, NOW + INTERVAL_MS)
    ends = book.publish(NOW + INTERVAL_MS)
    places, columns = [P0, ("t", 1)], ([50, 50], [0, 0], [ZERO_UUID, ZERO_UUID])
    assert ends.lags_at(places, *columns, NOW)[1] == {P0: 50}
    assert ends.lags_at(places, *columns, NOW + INTERVAL_MS)[1] == {P0: 70, ("t", 1): 20}


def test_32_as_of_a_time_a_partition_that_brokers_do_not_answer_for_is_not_known_for_long() -> None:
    book = looks(100)
    book.add_high_watermarks({("t", 1): 70}, NOW)
    known = {}
    for number in range(1, 5):
        at_ms = NOW + number * INTERVAL_MS
        book.add_high_watermarks({("t", 1): 70}, at_ms)
        known[number] = book.publish(at_ms).lags_at([P0], [50], [0], [ZERO_UUID], at_ms)[1]
    assert known == {1: {P0: 50}, 2: {P0: 50}, 3: {P0: 50}, 4: {}}
