"""`coordinator_hotspot`: one partition of the topic against the others."""

from __future__ import annotations

import pytest

from agent.core.diagnosis.api import WINDOW_MS, Condition, Finding, LoadWindow, PartitionLoad, Verdict
from agent.core.diagnosis.cluster import ClusterDiagnosis
from agent.core.records import RawRecord
from agent.core.shadow.cluster import ClusterMirror
from analyzers.coordinator_hotspot import CoordinatorHotspot, HotspotSettings
from analyzers.registry import select_analyzers
from tests.unit.analyzers.driving import of_the_capture, states
from tests.unit.core.shadow import build as b
from tests.unit.core.wire.vectors import CAPTURE, needs

NAME = "coordinator_hotspot"
T0 = b.T0 // WINDOW_MS * WINDOW_MS


def judged(loads: dict[int, PartitionLoad], partitions: int = 50) -> Verdict:
    return CoordinatorHotspot(HotspotSettings()).judge(LoadWindow(T0, T0 + WINDOW_MS, partitions, loads))


def even(records: int, partitions: int = 50) -> dict[int, PartitionLoad]:
    return {number: PartitionLoad(records, f"g-{number}", records) for number in range(partitions)}


HOT = PartitionLoad(300_000, "busy", 290_000)

# Number, why, loads, partitions read, whether it is hot.
CASES: list[tuple[int, str, dict[int, PartitionLoad], int, bool]] = [
    (1, "all are alike", even(300_000), 50, False),
    (2, "one has many times the mean", {**even(3_000), 7: HOT}, 50, True),
    (3, "one has a few times the mean", {**even(100_000), 7: HOT}, 50, False),
    (4, "the floor: 500 a second", {**even(10), 7: PartitionLoad(149_999, "busy", 149_999)}, 50, False),
    (5, "on the floor", {**even(10), 7: PartitionLoad(150_000, "busy", 150_000)}, 50, True),
    (6, "the others had none", {7: HOT}, 50, True),
    (7, "few are read", {7: HOT}, 4, False),
    (8, "few are read, but enough", {7: HOT}, 5, True),
    (9, "a second hot one does not hide the first", {**even(3_000), 7: HOT, 8: HOT}, 50, True),
    (10, "nothing at all", {}, 50, False),
]


@pytest.mark.parametrize(
    ("loads", "partitions", "is_hot"), [pytest.param(*row[2:], id=f"{row[0]}-{row[1]}") for row in CASES]
)
def test_which_is_hot(loads: dict[int, PartitionLoad], partitions: int, is_hot: bool) -> None:
    condition = judged(loads, partitions).condition
    assert (condition is not None) is is_hot
    if condition is not None:
        assert condition.partition == 7


def told(loads: dict[int, PartitionLoad]) -> Condition:
    condition = judged(loads).condition
    assert condition is not None
    return condition


def test_one_group_makes_most_of_it() -> None:
    condition = told({**even(3_000), 7: HOT})
    assert condition.summary == (
        "Partition 7 of __consumer_offsets receives 1000 records a second, 67 % of all 50 partitions, "
        "100 times the mean of the others; 97 % of them are commits of group busy."
    )
    assert condition.advice.startswith("Raise auto.commit.interval.ms of busy (5000 by default)")
    assert condition.numbers == {
        "partition": 7,
        "partitions": 50,
        "records": 300_000,
        "records_per_s": 1000.0,
        "part_of_all": 0.671,
        "others_mean": 3000.0,
        "others_median": 3000,
        "group": "busy",
        "group_part": 0.967,
    }


def test_several_groups_do() -> None:
    condition = told({7: PartitionLoad(300_000, "b" * 99, 100_000)})
    assert "the others receive almost none; 33 % of them are commits of group " + "b" * 63 + "…" in condition.summary
    assert condition.advice.startswith("Raise auto.commit.interval.ms of its busy groups")


def test_no_group_does() -> None:
    condition = told({7: PartitionLoad(300_000, None, 0)})
    assert condition.summary.endswith("the others receive almost none.")
    assert condition.advice.startswith("Raise auto.commit.interval.ms of its busy groups")


# The whole path, with thresholds that a test can write records for.


def records(partition: int, windows: int, a_window: int) -> list[RawRecord]:
    """So many commits of one position in each of so many windows."""
    step = WINDOW_MS // a_window
    pairs = [
        (at, b.commit(group=f"g-{partition}", offset=at)) for at in range(T0 + 1, T0 + windows * WINDOW_MS, step)
    ]
    return [RawRecord(partition, offset, at, *pair) for offset, (at, pair) in enumerate(pairs)]


def found(windows: int, then_quiet: int = 0) -> list[Finding]:
    chosen = select_analyzers({NAME}, {f"{NAME}.min_records_per_s": "1"})
    diagnosis = ClusterDiagnosis(ClusterMirror(), chosen)
    for partition in range(6):
        runs = records(partition, windows + then_quiet, 10)
        if partition == 4:
            runs = records(partition, windows, 1000)
        diagnosis.replay_batch(b.run_of(runs))
    return diagnosis.finish()


def test_opens_in_the_third_window_in_a_row() -> None:
    assert found(3) == []
    (opened,) = found(4)
    assert states([opened]) == [("firing", "warning")]
    assert (opened.group, opened.at.partition) == (None, 4)
    assert (opened.since_ms, opened.at.timestamp_ms) == (T0 + WINDOW_MS, T0 + 3 * WINDOW_MS)
    assert opened.numbers["group"] == "g-4"


def test_closes_when_it_is_gone_for_ten_minutes() -> None:
    assert states(found(4, then_quiet=2)) == [("firing", "warning")]
    assert states(found(4, then_quiet=4)) == [("firing", "warning"), ("resolved", "warning")]


@needs(CAPTURE)
def test_silent_on_the_capture() -> None:
    assert of_the_capture(NAME) == {}
