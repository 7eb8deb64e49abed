"""Samples as events, and their ids."""

from __future__ import annotations

import json

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from agent.core.events.samples import GroupLagTotal, GroupSample, PositionBehind, sample_event
from agent.kafka.lag.lag_calculator import TopicLag
from agent.runtime.sampling import lag_sum

ONE = GroupSample(1000, 7, 12, "orders", "consumer", "Stable", 3, 1.5, 1.25, GroupLagTotal(9, 8, 70, 1.23456, False))

OTHERS = st.builds(
    GroupSample,
    st.integers(1000, 1002),
    st.integers(7, 8),
    st.integers(12, 13),
    st.sampled_from(["orders", "order", "\udc80"]),
    st.sampled_from(["consumer", "classic"]),
    st.sampled_from(["Stable", "Empty"]),
    st.integers(0, 2),
    st.none() | st.just(1.5),
    st.none() | st.just(1.5),
    st.builds(GroupLagTotal, st.integers(0, 1), st.integers(0, 1), st.none() | st.just(7), st.none() | st.just(0.5)),
)


def test_an_event() -> None:
    event = sample_event(ONE, "prod")
    assert event.pop("event_id") == "7-12-a99cfe49baaff75fab4e", "it stays what it is"
    assert list(event.items()) == [
        ("schema", 1),
        ("type", "group_sample"),
        ("cluster", "prod"),
        ("group", "orders"),
        ("group_type", "consumer"),
        ("at_ms", 1000),
        ("partition", 7),
        ("offset", 12),
        ("state", "Stable"),
        ("members", 3),
        ("partitions", 9),
        ("lag_records", 70),
        ("lag_seconds", 1.235),
        ("lag_partitions", 8),
        ("lag_at_least", False),
        ("imbalance_ratio", 1.5),
        ("load_imbalance_ratio", 1.25),
        ("ends_ms", None),
        ("behind", []),
    ]
    with_ends = sample_event(ONE._replace(ends_ms=990, behind=[PositionBehind("t", 3, 70)]))
    assert with_ends["ends_ms"] == 990
    assert with_ends["behind"] == [{"topic": "t", "partition": 3, "end": 70}]


def test_what_is_not_known_is_null() -> None:
    event = sample_event(ONE._replace(imbalance_ratio=None, load_imbalance_ratio=None, lag=GroupLagTotal()))
    assert [name for name, value in event.items() if value is None] == [
        "cluster",
        *("lag_records", "lag_seconds", "imbalance_ratio", "load_imbalance_ratio", "ends_ms"),
    ]


@given(OTHERS, OTHERS)
# Of two agents that look at groups at other intervals.
@example(ONE._replace(sampled_every_ms=10_000), ONE._replace(sampled_every_ms=5_000))
def test_one_id_is_one_content(one: GroupSample, other: GroupSample) -> None:
    first, second = sample_event(one), sample_event(other)
    assert (first["event_id"] == second["event_id"]) == (json.dumps(first) == json.dumps(second))


# Number, why, the group's topics, what that comes to.
LAGS: list[tuple[int, str, list[TopicLag], GroupLagTotal]] = [
    (1, "nothing committed", [], GroupLagTotal(0, 0, None, None, False)),
    (2, "one topic", [TopicLag("t", 7, 1.5, 3, 1)], GroupLagTotal(3, 2, 7, 1.5, False)),
    (3, "the sum and the longest", [TopicLag("t", 7, 1.5, 3, 0), TopicLag("u", 0, 0.0, 1, 0)], GroupLagTotal(4, 4,
    7, 1.5)), (4, "unknown", [TopicLag("t", None, None, 3, 3)], GroupLagTotal(3, 0)),
    (5, "unknown of one", [TopicLag("t", None, None, 3, 3), TopicLag("u", 0, 0.0, 1, 0)], GroupLagTotal(4, 1, 0,
    0.0)),
    (6, "a bound", [TopicLag("t", 7, 1.5, 3, 0, True), TopicLag("u", 1, 2.0, 1, 0)], GroupLagTotal(4, 4, 8, 2.0,
    True)),
    (7, "behind since nobody knows when", [TopicLag("t", 7, None, 3, 0)], GroupLagTotal(3, 3, 7, None, False)),
    (8, "and beside it", [TopicLag("t", 7, None, 3, 0), TopicLag("u", 1, 2.0, 1, 0)], GroupLagTotal(4, 4, 8, 2.0,
    True)),
]  # fmt: skip


@pytest.mark.parametrize(("topics", "sum_"), [pytest.param(*row[2:], id=f"{row[0]}-{row[1]}") for row in LAGS])
def test_lag(topics: list[TopicLag], sum_: GroupLagTotal) -> None:
    assert lag_sum(topics) == sum_
