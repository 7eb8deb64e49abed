"""By which hash a cluster places its groups, told from where they stand."""

from __future__ import annotations

import pytest

from agent.core.protocol.group_placement import GroupPlacement, observe_placement, possible_partitions
from agent.core.protocol.hashing import GroupPartitioner, partition_for_group

KAFKA, REDPANDA = GroupPartitioner.KAFKA, GroupPartitioner.REDPANDA
NAMES = [f"team-{number}.consumer" for number in range(200)]


def placed(count: int, partitions: int, by: GroupPartitioner) -> list[tuple[str, int]]:
    return [(name, partition_for_group(name, partitions, by)) for name in NAMES[:count]]


@pytest.mark.parametrize("by", GroupPartitioner)
@pytest.mark.parametrize("partitions", [3, 16, 50, 200])
def test_a_handful_of_groups_decide(partitions: int, by: GroupPartitioner) -> None:
    needed = next(
        count for count in range(200) if observe_placement(placed(count, partitions, by), partitions).partitioner
    )
    assert needed <= {3: 14, 16: 4, 50: 3, 200: 2}[partitions]
    for count in range(needed, 200):
        placement = observe_placement(placed(count, partitions, by), partitions)
        assert placement.partitioner is by
        assert placement.chance <= 0.001
        assert not placement.is_by_neither


# Number, why, what was seen, the rule, whether neither holds.
ROWS = [
    (1, "nothing", GroupPlacement(50), None, False),
    (2, "one group may stand anywhere by chance", GroupPlacement(50, by_kafka=1), None, False),
    (3, "two of 50 partitions do not", GroupPlacement(50, by_kafka=2), KAFKA, False),
    (4, "of 3 they may", GroupPlacement(3, by_redpanda=2), None, False),
    (5, "one of ten written by hand", GroupPlacement(50, by_redpanda=9, by_kafka=1), REDPANDA, False),
    (6, "one of five is too many", GroupPlacement(50, by_redpanda=4, elsewhere=1), None, False),
    (7, "from before the topic had more partitions", GroupPlacement(50, by_kafka=20, elsewhere=2), KAFKA, False),
    (8, "half and half", GroupPlacement(50, by_kafka=5, by_redpanda=5), None, False),
    (9, "some other rule", GroupPlacement(50, by_kafka=1, elsewhere=40), None, True),
    (10, "one elsewhere alone", GroupPlacement(50, elsewhere=1), None, False),
]


@pytest.mark.parametrize("row", ROWS, ids=lambda row: f"{row[0]}-{row[1]}")
def test_what_is_said(row: tuple[int, str, GroupPlacement, GroupPartitioner | None, bool]) -> None:
    _, _, placement, partitioner, neither = row
    assert placement.partitioner is partitioner
    assert placement.is_by_neither is neither
    found = possible_partitions("payments", placement.partitions, partitioner)
    by = GroupPartitioner if partitioner is None else [partitioner]
    assert found == sorted({partition_for_group("payments", placement.partitions, it) for it in by})


def test_with_one_partition_no_group_tells_and_none_need() -> None:
    placement = observe_placement([(name, 0) for name in NAMES], 1)
    assert placement.telling == 0
    assert placement.partitioner is None
    assert possible_partitions("payments", 1, placement.partitioner) == [0]
    assert placement.describe() == "no group is known yet whose partition tells"


def test_groups_that_both_place_alike_tell_nothing_unless_they_stand_elsewhere() -> None:
    alike = [name for name in NAMES if len(possible_partitions(name, 16, None)) == 1]
    assert alike
    at = {name: possible_partitions(name, 16, None)[0] for name in alike}
    assert observe_placement(at.items(), 16).telling == 0
    moved = {name: (partition + 1) % 16 for name, partition in at.items()}
    assert observe_placement(moved.items(), 16).elsewhere == len(alike)


def test_what_was_seen_in_words() -> None:
    placement = GroupPlacement(50, by_kafka=1, by_redpanda=7)
    assert placement.describe() == "7 of 8 groups that tell stand where Redpanda's hash puts them"
