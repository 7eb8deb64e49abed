"""`timestamps_ahead`: records dated ahead of those around them, when they keep coming."""

from __future__ import annotations

import pytest

from agent.core.diagnosis.api import WINDOW_MS, Finding, LoadWindow, PartitionLoad, Verdict
from agent.core.diagnosis.cluster import ClusterDiagnosis
from agent.core.record_time import TOLERANCE_MS, Lookahead
from agent.core.records import RawRecord
from agent.core.shadow.cluster import ClusterMirror
from analyzers.registry import select_analyzers
from analyzers.timestamps_ahead import TimestampsAhead, TimestampsAheadSettings
from tests.unit.analyzers.driving import of_the_capture, states
from tests.unit.core.shadow import build as b
from tests.unit.core.wire.vectors import CAPTURE, needs

NAME = "timestamps_ahead"
T0 = b.T0 // WINDOW_MS * WINDOW_MS
HOUR_MS = 3_600_000


def judged(loads: dict[int, PartitionLoad], least: int = 1) -> Verdict:
    settings = TimestampsAheadSettings(min_records=least)
    return TimestampsAhead(settings).judge(LoadWindow(T0, T0 + WINDOW_MS, 50, loads))


# Number, why, records ahead by partition, the least, the partition that is named.
CASES: list[tuple[int, str, dict[int, int], int, int | None]] = [
    (1, "nothing came", {}, 1, None),
    (2, "all are in order", {3: 0, 4: 0}, 1, None),
    (3, "one is ahead", {3: 0, 4: 1}, 1, 4),
    (4, "the partition with the most", {3: 2, 4: 1}, 1, 3),
    (5, "the first of two alike", {4: 2, 3: 2}, 1, 3),
    (6, "fewer than asked for", {3: 2}, 3, None),
    (7, "as many as asked for", {3: 3, 4: 2}, 3, 3),
]


@pytest.mark.parametrize(
    ("ahead", "least", "named"), [pytest.param(*row[2:], id=f"{row[0]}-{row[1]}") for row in CASES]
)
def test_which_is_told(ahead: dict[int, int], least: int, named: int | None) -> None:
    loads = {number: PartitionLoad(100, None, 0, count, 1000 * count) for number, count in ahead.items()}
    condition = judged(loads, least).condition
    assert (condition and condition.partition) == named


def test_what_is_told() -> None:
    loads = {7: PartitionLoad(300, "g", 290, 12, HOUR_MS), 9: PartitionLoad(10, "h", 9, 1, 2 * HOUR_MS)}
    condition = judged(loads).condition
    assert condition is not None
    assert condition.summary == (
        "Partition 7 of __consumer_offsets received 12 records dated up to 1 h ahead, and so did 1 other partition."
    )
    assert condition.advice.startswith("Compare the clocks of the agent and of the brokers that led partition 7 ")
    assert condition.numbers == {
        "partition": 7,
        "partitions_affected": 2,
        "records_ahead": 12,
        "records": 300,
        "farthest_ahead_s": 3600.0,
    }
    alone = judged({7: loads[7]}).condition
    assert alone is not None
    assert alone.summary.endswith("dated up to 1 h ahead.")


# The whole path.


def found(windows: int, ahead_from: int, ahead_to: int, size: int) -> list[Finding]:
    """Of ten commits a window in two partitions; one in each of some windows of the second is dated an hour ahead."""
    diagnosis, lookahead = ClusterDiagnosis(ClusterMirror(), select_analyzers({NAME}, {})), Lookahead()
    for partition in range(2):
        records = []
        for offset in range(windows * 10):
            at_ms = T0 + 1 + offset * WINDOW_MS // 10
            is_ahead = partition == 1 and offset % 10 == 4 and ahead_from <= offset // 10 < ahead_to
            pair = b.commit(group=f"g-{partition}", offset=offset)
            records.append(RawRecord(partition, offset, at_ms + HOUR_MS * is_ahead, *pair))
        for start in range(0, len(records), size):
            for batch, context in lookahead.put(b.run_of(records[start : start + size])):
                diagnosis.replay_batch(batch, context)
    for batch, context in lookahead.take():
        diagnosis.replay_batch(batch, context)
    assert diagnosis.records_ahead()[1].records == ahead_to - ahead_from
    return diagnosis.finish()


@pytest.mark.parametrize("size", [1, 3, 10, 25, 1000])
def test_opens_in_the_third_window_in_a_row_wherever_batches_are_cut(size: int) -> None:
    assert found(8, 2, 4, size) == []
    (opened,) = found(8, 2, 8, size)
    assert states([opened]) == [("firing", "warning")]
    assert (opened.group, opened.at.partition) == (None, 1)
    assert (opened.since_ms, opened.at.timestamp_ms) == (T0 + 3 * WINDOW_MS, T0 + 5 * WINDOW_MS)
    assert opened.numbers["records_ahead"] == 1
    assert opened.numbers["farthest_ahead_s"] == 3630, "the clock stands at the record before, half a minute ago"


@pytest.mark.parametrize("size", [1, 3, 1000])
@pytest.mark.parametrize(
    ("last_ms", "counted"),
    # The clock shows -100: late records outvote the one before the last as well.
    [(200, 0), (TOLERANCE_MS - 100, 0), (TOLERANCE_MS - 99, 1)],
)
def test_what_is_followed_by_late_records_is_not_ahead(last_ms: int, counted: int, size: int) -> None:
    """A coordinator whose clock is slow takes over: what it writes is late, and the last record of before is none of
    its business."""
    diagnosis, lookahead = ClusterDiagnosis(ClusterMirror(), select_analyzers({NAME}, {})), Lookahead()
    late = [last_ms - 30_000 + at for at in range(5)]
    times = [*range(-900, 1, 100), last_ms, *late]
    records = [RawRecord(0, offset, T0 + at_ms, *b.commit(offset=offset)) for offset, at_ms in enumerate(times)]
    for start in range(0, len(records), size):
        for batch, context in lookahead.put(b.run_of(records[start : start + size])):
            diagnosis.replay_batch(batch, context)
    for batch, context in lookahead.take():
        diagnosis.replay_batch(batch, context)
    assert sum(it.records for it in diagnosis.records_ahead().values()) == counted


def test_closes_when_none_came_for_ten_minutes() -> None:
    assert states(found(9, 2, 5, 1000)) == [("firing", "warning"), ("resolved", "warning")]


@needs(CAPTURE)
def test_silent_on_the_capture() -> None:
    assert of_the_capture(NAME) == {}
