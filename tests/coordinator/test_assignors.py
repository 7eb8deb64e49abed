"""Assignors, against what Kafka's own classes answered."""

from __future__ import annotations

import json
from typing import Any

import pytest

from agent.coordinator.assignors import ASSIGNORS, Problem, Subscribed, in_order
from tests.wire.vectors import SHARED, needs

VECTORS = SHARED / "vectors" / "assignors.ndjson"


def problem_of(row: dict[str, Any]) -> Problem:
    members = {
        member_id: Subscribed(
            frozenset(it["topics"]), it.get("instance_id"), tuple((topic, number) for topic, number in it["owned"])
        )
        for member_id, it in row["members"].items()
    }
    return Problem(row["partitions"], members)


def rows() -> list[Any]:
    if not VECTORS.exists():
        return [pytest.param({}, marks=needs(VECTORS))]
    read = [json.loads(line) for line in VECTORS.read_text(encoding="utf-8").splitlines()]
    return [
        pytest.param(row, id=f"{row['assignor']}-{row['case']}-{row['round']}")
        for row in read
        if row["assignor"] in ASSIGNORS
    ]


@pytest.mark.parametrize("row", rows())
def test_as_kafkas_own_assignor(row: dict[str, Any]) -> None:
    assignment = ASSIGNORS[row["assignor"]](problem_of(row))
    expected = {member_id: [tuple(it) for it in slots] for member_id, slots in row["expect"].items()}
    assert {member_id: sorted(slots) for member_id, slots in assignment.items()} == {
        member_id: sorted(slots) for member_id, slots in expected.items()
    }
    assert all(slots == sorted(slots) for slots in assignment.values())


ALL = frozenset({"t0", "t1"})

# Number, why, assignor, partitions, members, numbers of partitions by member as "topic-partition".
WORKED: list[tuple[int, str, str, dict[str, int], dict[str, Subscribed], dict[str, str]]] = [
    (
        1,
        "five over three",
        "range",
        {"t0": 5},
        dict.fromkeys(("C0", "C1", "C2"), Subscribed(frozenset({"t0"}))),
        {"C0": "t0-0 t0-1", "C1": "t0-2 t0-3", "C2": "t0-4"},
    ),
    (
        2,
        "range begins each topic anew",
        "range",
        {"t0": 2, "t1": 2},
        dict.fromkeys(("Ca", "Cb", "Cc"), Subscribed(ALL)),
        {"Ca": "t0-0 t1-0", "Cb": "t0-1 t1-1", "Cc": ""},
    ),
    (
        3,
        "roundrobin goes on",
        "roundrobin",
        {"t0": 2, "t1": 2},
        dict.fromkeys(("Ca", "Cb", "Cc"), Subscribed(ALL)),
        {"Ca": "t0-0 t1-1", "Cb": "t0-1", "Cc": "t1-0"},
    ),
    (
        4,
        "static members first, by static id",
        "range",
        {"t0": 1},
        {"a": Subscribed(ALL), "y": Subscribed(ALL, "i-2"), "z": Subscribed(ALL, "i-1")},
        {"a": "", "y": "", "z": "t0-0"},
    ),
    (
        5,
        "who does not subscribe is passed over",
        "roundrobin",
        {"t0": 2, "t1": 1},
        {"a": Subscribed(frozenset({"t1"})), "b": Subscribed(ALL)},
        {"a": "t1-0", "b": "t0-0 t0-1"},
    ),
    (6, "nobody wants it", "range", {"t2": 3}, {"a": Subscribed(ALL)}, {"a": ""}),
    (7, "nobody wants it", "roundrobin", {"t2": 3}, {"a": Subscribed(ALL)}, {"a": ""}),
    (8, "nobody is there", "roundrobin", {"t0": 3}, {}, {}),
    (9, "nobody is there", "range", {"t0": 3}, {}, {}),
    (10, "what is wanted does not exist", "roundrobin", {}, {"a": Subscribed(ALL)}, {"a": ""}),
]


@pytest.mark.parametrize(
    ("assignor", "partitions", "members", "expected"),
    [pytest.param(*row[2:], id=f"{row[0]}-{row[1]}") for row in WORKED],
)
def test_worked_examples(
    assignor: str, partitions: dict[str, int], members: dict[str, Subscribed], expected: dict[str, str]
) -> None:
    assignment = ASSIGNORS[assignor](Problem(partitions, members))
    assert {
        member_id: " ".join(f"{topic}-{number}" for topic, number in slots) for member_id, slots in assignment.items()
    } == expected


def test_ids_are_sorted_as_java_sorts_them() -> None:
    # By code point U+FF5E comes before U+1F600; by UTF-16 unit it comes after.
    assert in_order(Problem({}, {"\uff5e": Subscribed(ALL), "\U0001f600": Subscribed(ALL)})) == [
        "\U0001f600",
        "\uff5e",
    ]
