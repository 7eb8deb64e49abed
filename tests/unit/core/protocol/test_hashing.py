"""`String.hashCode` and the partition that it gives, against what Java itself answered."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.core.protocol.hashing import (
    GroupPartitioner,
    hash_map_order,
    java_string_hash,
    partition_for_group,
    xxhash64,
)
from tests import ROOT

INT_MIN = -(2**31)

# Number, why, text, hash, partition of 50.
JAVA: list[tuple[int, str, str, int, int]] = [
    (1, "no characters", "", 0, 0),
    (2, "one", "a", 97, 47),
    (3, "a collision", "Aa", 2112, 12),
    (4, "a collision", "BB", 2112, 12),
    (5, "32 bits are not enough", "hello world", 1794106052, 2),
    (6, "a group's name", "consumer-group-7", 147483026, 26),
    (7, "not ASCII", "été", 227742, 42),
    (8, "three bytes in UTF-8, one unit in UTF-16", "中文", 646394, 44),
    (9, "a surrogate pair is two units", "\U0001f600", 1772899, 49),
    (10, "half a pair", "\ud83d", 55357, 7),
    (11, "the other half, between others", "x\udfffy", 1893074, 24),
    (12, "the smallest integer has no absolute value", "polygenelubricants", INT_MIN, 0),
    (13, "another one", "GydZG_", INT_MIN, 0),
    (14, "another one", "DESIGNING WORKHOUSES", INT_MIN, 0),
]


@pytest.mark.parametrize("row", JAVA, ids=lambda row: f"{row[0]}-{row[1]}")
def test_java_agrees(row: tuple[int, str, str, int, int]) -> None:
    _, _, text, expected, partition = row
    assert java_string_hash(text) == expected
    assert partition_for_group(text, 50) == partition


def test_a_thousand_names_stand_where_java_says_by_both_rules() -> None:
    """`tests.generate.group_partitions` says who computed them: the JDK and Kafka's clients, lz4-java, Guava."""
    path = ROOT / "tests" / "data" / "protocol" / "group_partitions.ndjson"
    rows = [json.loads(line) for line in path.read_text(encoding="ascii").splitlines()]
    assert len({row["group"] for row in rows}) == len(rows) == 1_000
    for row in rows:
        name = row["group"]
        assert xxhash64(name.encode("utf-8", "replace")) == int(row["xxhash64"]), name
        for partitioner in GroupPartitioner:
            found = [partition_for_group(name, count, partitioner) for count in (1, 3, 16, 50)]
            assert found == row[partitioner], (partitioner, name)


@given(st.text())
def test_the_rule_of_javas_documentation(text: str) -> None:
    # s[0]*31^(n-1) + s[1]*31^(n-2) + … + s[n-1], in 32 bits
    data = text.encode("utf-16-be", "surrogatepass")
    units = [int.from_bytes(data[at : at + 2]) for at in range(0, len(data), 2)]
    total = sum(unit * 31 ** (len(units) - 1 - at) for at, unit in enumerate(units))
    assert java_string_hash(text) == (total + 2**31) % 2**32 - 2**31


@given(st.text(), st.integers(1, 1000), st.sampled_from(GroupPartitioner))
def test_a_partition_is_one_of_those_there_are(text: str, partitions: int, partitioner: GroupPartitioner) -> None:
    assert 0 <= partition_for_group(text, partitions, partitioner) < partitions


@pytest.mark.parametrize("partitions", [0, -1])
def test_a_topic_has_partitions(partitions: int) -> None:
    with pytest.raises(ValueError, match="one partition at least"):
        partition_for_group("g", partitions)


# As a `HashMap` of Java gives the keys "0", "1", … that were put into it in this order. Their hashes are 48 … 57 for
# one digit, and 1567, 1568, 1569 for "10", "11", "12".
# Number, why, keys, most that the map held, order.
ORDERS: list[tuple[int, str, int, int, str]] = [
    (1, "16 buckets: 10 goes to 15, 11 to 0 behind 0", 12, 0, "0 11 1 2 3 4 5 6 7 8 9 10"),
    (
        2,
        "the thirteenth key makes it 32: 0 goes to 16, 10 to 31, 11 to 0, 12 to 1",
        13,
        0,
        "11 12 0 1 2 3 4 5 6 7 8 9 10",
    ),
    (3, "it does not shrink again", 12, 13, "11 0 1 2 3 4 5 6 7 8 9 10"),
]


@pytest.mark.parametrize("row", ORDERS, ids=lambda row: f"{row[0]}-{row[1]}")
def test_the_order_of_a_hash_map(row: tuple[int, str, int, int, str]) -> None:
    *_, keys, most, order = row
    assert hash_map_order(map(str, range(keys)), most) == order.split()
