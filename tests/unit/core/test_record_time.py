"""One record's time moves no clock: neither far ahead of what follows it, nor far behind."""

from __future__ import annotations

from itertools import accumulate

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from agent.core.diagnosis.cluster import ClusterDiagnosis
from agent.core.events.events import Event, event_of, sort_events
from agent.core.record_time import (
    FOLLOWERS,
    LATE_MS,
    TOLERANCE_MS,
    UNKNOWN,
    Context,
    Lookahead,
    believed_times,
    newest_believed_ms,
)
from agent.core.records import RawRecord, RecordBatch
from agent.core.shadow.cluster import ClusterMirror
from agent.core.wire.records import decode_key
from tests import examples
from tests.unit.core.diagnosis.test_properties import WITH_DOUBLES
from tests.unit.core.shadow.build import run_of
from tests.unit.core.shadow.histories import histories

HOUR_MS = 3_600_000
NOW = 1_790_000_000_000
YEAR_9999_MS = 253_402_300_799_000
TIMES = [NOW + 1_000 * second for second in range(8)]


@pytest.mark.parametrize("by_ms", [TOLERANCE_MS + 3_001, HOUR_MS, YEAR_9999_MS - NOW])
@pytest.mark.parametrize("index", range(len(TIMES)))
def test_a_time_ahead_of_two_of_the_next_three_moves_nothing(index: int, by_ms: int) -> None:
    times = [*TIMES]
    times[index] += by_ms
    believed = believed_times(run_of(at(*times)), Context(latest_ms=TIMES[-1]))
    assert believed == [*TIMES[:index], LATE_MS, *TIMES[index + 1 :]]


@pytest.mark.parametrize("index", range(len(TIMES)))
def test_a_late_one_makes_none_look_ahead(index: int) -> None:
    times = [*TIMES]
    times[index] = 0
    assert believed_times(run_of(at(*times)), Context(latest_ms=TIMES[-1])) == times


def test_what_is_not_known_to_follow_is_believed() -> None:
    batch = run_of(at(NOW, NOW + HOUR_MS))
    assert believed_times(batch) == [NOW, NOW + HOUR_MS]
    assert believed_times(batch, Context([NOW + 1] * 3)) == [NOW, LATE_MS]
    assert believed_times(batch, Context([NOW + 1], NOW + HOUR_MS)) == [NOW, NOW + HOUR_MS]
    assert believed_times(RecordBatch(0, [], [], [], []), Context([NOW])) == []


@pytest.mark.parametrize("count", range(1, 9))
def test_nothing_is_later_than_the_wall_however_many_agree(count: int) -> None:
    ahead = [NOW + HOUR_MS + number for number in range(count)]
    believed = [NOW] + [LATE_MS] * count
    assert believed_times(run_of(at(NOW, *ahead)), Context(latest_ms=NOW)) == believed
    assert believed_times(run_of(at(NOW, *ahead)), Context(ahead, NOW)) == believed
    [(_, context)] = Lookahead().put(run_of(at(NOW, *ahead, NOW, NOW, NOW)), NOW)
    assert context.latest_ms == NOW


def test_the_latest_that_is_believed() -> None:
    batch, times = run_of(at(NOW, NOW + HOUR_MS, NOW + 1)), Context([NOW + 1] * 3)
    assert newest_believed_ms(batch, UNKNOWN) == NOW + HOUR_MS
    assert newest_believed_ms(batch.part(0, 2), UNKNOWN) == NOW + HOUR_MS
    assert newest_believed_ms(batch, times) == NOW + 1
    assert newest_believed_ms(batch.part(1, 2), times) == LATE_MS


def at(*times: int, partition: int = 0) -> list[RawRecord]:
    return [RawRecord(partition, offset, time, b"k", b"v") for offset, time in enumerate(times)]


@given(st.lists(st.integers(0, 4), min_size=1, max_size=12))
def test_all_but_the_last_records_come_out_in_order_with_what_follows_them(sizes: list[int]) -> None:
    records = at(*range(sum(sizes)))
    ahead, end = Lookahead(), 0
    for last, size in zip(accumulate(sizes), sizes, strict=True):
        for batch, context in ahead.put(
            run_of(records[last - size : last]) if size else RecordBatch(0, [], [], [], [])
        ):
            assert list(batch.records()) == records[end : end + len(batch)]
            end += len(batch)
            assert list(context.next_ms) == [it.timestamp_ms for it in records[end : end + FOLLOWERS]]
        assert end == max(last - FOLLOWERS, 0), "nothing is held back for longer than it must be"
    held = [*ahead.take(latest_ms=99)]
    assert [it for batch, _ in held for it in batch.records()] == records[end:]
    assert [context for _, context in held] == [Context(latest_ms=99)] * bool(records)
    assert not [*ahead.take()]


def test_the_last_batch_for_now_comes_with_what_was_held_back() -> None:
    ahead = Lookahead()
    records = at(*range(6))
    assert not [*ahead.put(run_of(records[:2]), 99)]
    [(batch, context)] = ahead.put(run_of(records[2:]), 99, is_last=True)
    assert (list(batch.records()), context) == (records, Context(latest_ms=99))
    assert not [*ahead.take()]


def test_what_is_held_back_is_taken_by_partition() -> None:
    ahead = Lookahead()
    for partition in range(3):
        assert not [*ahead.put(run_of(at(NOW, partition=partition)))]
    assert [batch.partition for batch, _ in ahead.take(of=lambda it: it != 1)] == [0, 2]
    assert [batch.partition for batch, _ in ahead.take()] == [1]


@st.composite
def honest(draw: st.DrawFn) -> list[RawRecord]:
    """A plausible history whose times never go back, with pauses from nothing to hours."""
    shift, last, out = 0, 0, list[RawRecord]()
    for record in draw(histories(max_operations=25)).records:
        shift += draw(st.sampled_from([0, 0, 0, 200, 5_000, 60_000, 200_000, 700_000, 7_200_000]))
        last = max(last, record.timestamp_ms + shift)
        out.append(record._replace(timestamp_ms=last))
    return out


def told(records: list[RawRecord], latest_ms: int, size: int) -> list[Event]:
    diagnosis, lookahead = ClusterDiagnosis(ClusterMirror(), WITH_DOUBLES), Lookahead()
    events: list[Event] = []
    for start in range(0, len(records), size):
        for batch, context in lookahead.put(run_of(records[start : start + size])):
            events += map(event_of, diagnosis.replay_batch(batch, context))
    for batch, context in lookahead.take(latest_ms):
        events += map(event_of, diagnosis.replay_batch(batch, context))
    return sort_events(events)


@pytest.mark.parametrize("size", [1, 3, 5, 100])
def test_a_history_that_shows_that_the_wall_is_behind_is_not_held_to_it(size: int) -> None:
    """It is to say the same on every machine. What comes as it is written is held to the wall all the same."""

    def believed(times: list[int], wall_ms: int, *, is_history: bool) -> list[int]:
        lookahead, records = Lookahead(is_history=is_history), at(*times)
        batches = [
            it
            for start in range(0, len(times), size)
            for it in lookahead.put(run_of(records[start : start + size]), wall_ms)
        ]
        return [time for it in [*batches, *lookahead.take(wall_ms)] for time in believed_times(*it)]

    times = [NOW + number for number in range(10)]
    assert believed(times, NOW - 3 * HOUR_MS, is_history=True) == times
    assert believed(times, NOW - 3 * HOUR_MS, is_history=False) == [LATE_MS] * 10
    # What a stranger may have written shows nothing: neither one at the end, nor what brokers let be.
    assert believed([*times, YEAR_9999_MS], NOW, is_history=True) == [*times, LATE_MS]
    ahead = [NOW + HOUR_MS + number for number in range(10)]
    assert believed([*times, *ahead], NOW, is_history=True) == [*times, *[LATE_MS] * 10]


@pytest.mark.parametrize("size", [1, 4, 9, 100])
def test_a_first_time_that_is_ahead_is_told_by_the_same_few_wherever_batches_are_cut(size: int) -> None:
    times = [NOW + HOUR_MS, NOW, NOW + 1, NOW + 2, NOW + 3, NOW + 4, NOW - HOUR_MS, NOW + 5, NOW + 6, NOW + 7]
    diagnosis, lookahead = ClusterDiagnosis(ClusterMirror(), WITH_DOUBLES), Lookahead()
    for start in range(0, len(times), size):
        for batch, context in lookahead.put(run_of(at(*times)[start : start + size])):
            diagnosis.replay_batch(batch, context)
    for batch, context in lookahead.take():
        diagnosis.replay_batch(batch, context)
    assert diagnosis.clock_ms(0) == NOW + 7
    assert diagnosis.partitions[0].loads == {}, "no window ended before the first record"


def group_of(record: RawRecord) -> str | None:
    _, key = decode_key(record.key)
    return getattr(key, "group", getattr(key, "group_id", None))


@settings(max_examples=examples(200), deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(honest(), st.data())
def test_one_records_time_changes_nothing_of_another_groups_events(records: list[RawRecord], data: st.DataObject):
    index = data.draw(st.integers(0, len(records) - 1))
    before = records[index - 1].timestamp_ms if index else 0
    after = [it.timestamp_ms for it in records[index + 1 :]]
    latest_ms = records[-1].timestamp_ms
    behind = [*after[:FOLLOWERS], *[latest_ms] * FOLLOWERS][1]
    wrong_ms = data.draw(
        st.one_of(
            st.integers(0, before),
            st.integers(behind + TOLERANCE_MS + 1, behind + 24 * HOUR_MS),
            st.sampled_from([0, YEAR_9999_MS, behind + HOUR_MS]),
        )
    )
    changed = [*records]
    changed[index] = records[index]._replace(timestamp_ms=wrong_ms)
    group = group_of(records[index])
    size = data.draw(st.sampled_from([1, 2, 5, 1_000]))
    others = [it for it in told(records, latest_ms, 1_000) if it["group"] not in (None, group)]
    assert [it for it in told(changed, latest_ms, size) if it["group"] not in (None, group)] == others
