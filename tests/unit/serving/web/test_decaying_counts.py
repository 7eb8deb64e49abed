"""Counts of strangers over time."""

from __future__ import annotations

import pytest

from agent.serving.web.addresses import network_of
from agent.serving.web.decaying_counts import DecayingCounts


def test_counts_go_down_with_time() -> None:
    counts = DecayingCounts(forget_s=2.0)
    assert counts.count("a", 100.0) == 0
    for _ in range(3):
        counts.add("a", 100.0)
    assert [counts.count("a", now) for now in (100.0, 101.9, 102.0, 104.0, 106.0, 999.0)] == [3, 3, 2, 1, 0, 0]
    counts.add("a", 104.0, -1)
    assert (counts.count("a", 104.0), counts.count("b", 104.0)) == (0, 0)
    counts.add("a", 999.0)
    assert counts.count("a", 999.0) == 1, "time does not add up to a credit"


def test_few_are_remembered() -> None:
    counts = DecayingCounts(forget_s=100.0, most=2)
    for key in "abac":
        counts.add(key, 1.0)
    assert [counts.count(key, 1.0) for key in "abc"] == [2, 0, 1]


@pytest.mark.parametrize(
    ("client", "network"),
    [
        (None, ""),  # 1
        (("10.1.2.3", 80), "10.1.2.3"),  # 2
        (("::ffff:10.1.2.3", 80, 0, 0), "10.1.2.3"),  # 3
        (("2001:db8:1:2:aaaa::1", 80), "2001:db8:1:2::/64"),  # 4
        (("fe80::1%eth0", 80), "fe80::/64"),  # 5
    ],
)
def test_whose_an_address_is(client: tuple[object, ...] | None, network: str) -> None:
    assert network_of(client) == network
