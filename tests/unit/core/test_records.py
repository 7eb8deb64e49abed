"""A batch of records as columns."""

from __future__ import annotations

import pytest

from agent.core.records import RawRecord, RecordBatch


def batch(*times: int) -> RecordBatch:
    numbers = range(len(times))
    return RecordBatch(7, [*numbers], [*times], [b"%d" % it for it in numbers], [None for _ in numbers])


@pytest.mark.parametrize(
    ("times", "is_in_order", "newest_ms"),
    [((), True, 0), ((5,), True, 5), ((5, 5, 9), True, 9), ((5, 9, 8), False, 9), ((-1,), True, -1)],
)
def test_the_order_of_times(times: tuple[int, ...], is_in_order: bool, newest_ms: int) -> None:
    assert (batch(*times).is_in_time_order, batch(*times).newest_ms) == (is_in_order, newest_ms)


def test_parts_follow_each_other() -> None:
    whole = batch(1, 2, 3)
    assert [it.offset for it in whole.part(1, 3).records()] == [1, 2]
    assert whole.part(0, 1).followed_by(whole.part(1, 3)) == whole
    assert [*whole.part(2, 3).records()] == [RawRecord(7, 2, 3, b"2", None)]


def test_rows_become_columns() -> None:
    whole = batch(1, 2, 3)
    assert RecordBatch.of([*whole.records()]) == whole
