"""`unbalanced_assignment`: by partitions, by records, and what would help."""

from __future__ import annotations

import time

import pytest

from agent.core.diagnosis.api import Finding
from agent.core.wire.classic import MemberMetadata
from tests.unit.analyzers.driving import Log, commits, findings, idle, of_the_capture, states
from tests.unit.core.shadow import build as b
from tests.unit.core.shadow.build import GROUP
from tests.unit.core.wire.vectors import CAPTURE, needs

NAME = "unbalanced_assignment"

SOLO = ("a", "b", "c")
"""Topics of one partition each."""


def members(*assigned: dict[str, list[int]], topics: tuple[str, ...] = SOLO) -> list[MemberMetadata]:
    return [b.member(f"m{number}-1", it, topics=topics) for number, it in enumerate(assigned)]


def piled_up() -> Log:
    """As range leaves it: all on the first member."""
    return Log().add(b.classic_group(1, *members({"a": [0], "b": [0], "c": [0]}, {}, {})))


def even(generation: int) -> b.Pair:
    return b.classic_group(generation, *members({"a": [0]}, {"b": [0]}, {"c": [0]}), protocol="roundrobin")


def of(found: list[Finding]) -> list[Finding]:
    return [it for it in found if it.group == GROUP]


@pytest.mark.parametrize("years", [1, 100_000_000])
def test_a_clock_that_strangers_move_ahead_is_soon_caught_up_with(years: int) -> None:
    log = piled_up()
    log.now_ms += years * 365 * 86_400_000
    for offset in range(4):
        log.add(b.commit("t", 0, offset, group="stranger", at_ms=log.now_ms))
    began = time.process_time()
    assert states(of(findings(log, NAME))) == [("firing", "warning")]
    assert time.process_time() - began < 1


def test_opens_after_a_minute_and_closes_five_after_it_is_gone() -> None:
    log = idle(piled_up(), 59_000)
    assert findings(log, NAME) == []
    log = idle(log, 10_000).add(even(2))
    idle(idle(log, 299_000), 2_000)
    found = findings(log, NAME)
    assert states(found) == [("firing", "warning"), ("resolved", "warning")]
    assert [it.at.timestamp_ms - log.records[0].timestamp_ms for it in found] == [60_000, 370_000]
    assert found[0].summary == "m0 holds 3 of 3 partitions, 3 times a fair share of 1 among 3 members."
    assert found[0].advice.startswith(
        "Set partition.assignment.strategy to roundrobin on all members: no member then gets more than 1 "
        "(with range, as now, 3); the price is a rolling restart."
    )
    assert found[0].numbers == {
        "members": 3,
        "partitions": 3,
        "largest": 3,
        "fair": 1.0,
        "most_even": 1,
        "ratio": 3.0,
        "clients": ["m0"],
        "range_largest": 3,
        "roundrobin_largest": 1,
    }


def test_a_round_of_a_rebalance_is_not_told() -> None:
    log = piled_up()
    idle(log.add(even(2), after_ms=20_000), 500_000)
    assert findings(log, NAME) == []


def test_does_not_flap_with_every_rebalance() -> None:
    log = idle(piled_up(), 61_000)
    for generation in range(2, 20, 2):
        log.add(even(generation), after_ms=60_000)
        log.add(b.classic_group(generation + 1, *members({"a": [0], "b": [0], "c": [0]}, {}, {})), after_ms=60_000)
    assert states(findings(log, NAME)) == [("firing", "warning")]


@pytest.mark.parametrize(
    ("shares", "told"),
    [
        pytest.param((5, 4, 4), False, id="the most even"),
        pytest.param((4, 2, 1), False, id="one above the most even"),
        pytest.param((6, 2, 1), True, id="three above"),
        pytest.param((13, 10, 7), False, id="below the ratio"),
        pytest.param((1, 0, 0), False, id="more members than partitions"),
    ],
)
def test_how_uneven(shares: tuple[int, ...], told: bool) -> None:
    given, first = [], 0
    for share in shares:
        given.append({"t": list(range(first, first + share))})
        first += share
    log = idle(Log().add(b.classic_group(1, *members(*given, topics=("t",)))), 120_000)
    assert bool(findings(log, NAME)) is told


def test_thresholds_are_settings() -> None:
    assert findings(idle(piled_up(), 120_000), NAME, ratio="3.5") == []
    assert findings(idle(piled_up(), 120_000), NAME, excess="3") == []
    assert len(findings(idle(piled_up(), 20_000), NAME, open_after_s="10")) == 1


def test_members_without_partitions_and_single_members_are_no_imbalance() -> None:
    alone = idle(Log().add(b.classic_group(1, *members({"a": [0]}))), 120_000)
    none = idle(Log().add(b.classic_group(1, *members({}, {}))), 120_000)
    gone = idle(piled_up().add(b.classic_group(2), b.no_classic_group()), 120_000)
    assert [findings(log, NAME) for log in (alone, none, gone)] == [[], [], []]


def test_several_have_the_largest_share() -> None:
    given = [{"t": [number * 3, number * 3 + 1, number * 3 + 2]} for number in range(4)]
    log = idle(Log().add(b.classic_group(1, *members(*given, *[{}] * 8, topics=("t",)))), 120_000)
    (found,) = findings(log, NAME)
    assert found.summary.startswith("m0, m1, m2 and 1 more hold 3 each of 12 partitions")


def test_uneven_subscriptions() -> None:
    log = Log().add(
        b.classic_group(
            1,
            b.member("m0-1", {"t": [0, 1, 2, 3, 4, 5]}, topics=("t", "u")),
            b.member("m1-1", {"u": [0]}, topics=("u",)),
            b.member("m2-1", {}, topics=("t", "u")),
            protocol="sticky",
        )
    )
    (found,) = findings(idle(log, 120_000), NAME)
    assert "partition.assignment.strategy" in found.advice
    worse = Log().add(
        b.classic_group(
            1,
            b.member("m0-1", {"t": [0, 1, 2], "u": [0, 1]}, topics=("t", "u")),
            b.member("m1-1", {"t": [3]}, topics=("t",)),
            b.member("m2-1", {}, topics=("u",)),
            protocol="sticky",
        )
    )
    (found,) = findings(idle(worse, 120_000), NAME, ratio="1.2")
    assert found.numbers["most_even"] == 2
    assert found.advice.startswith("Set partition.assignment.strategy to range on all members")


STUCK = b.classic_group(
    1,
    b.member("m0-1", {"t": [0, 2, 4], "u": [0, 1]}, topics=("t", "u")),
    b.member("m1-1", {"t": [1, 3]}, topics=("t",)),
    b.member("m2-1", {}, topics=("v",)),
)


def test_no_other_assignor_helps() -> None:
    (found,) = findings(idle(Log().add(STUCK), 120_000), NAME, ratio="1.3", excess="1")
    assert found.advice.startswith(
        "Let all members subscribe to the same topics: another assignor does not help (the largest share would be 5 "
        "with range and 5 with"
    )


def test_connect_may_wait_for_a_worker_to_come_back() -> None:
    log = Log()
    given = (b.worker("w1", {"c": [0, 1, 2, 3]}), b.worker("w2", {}))
    log.add(b.classic_group(1, *given, protocol_type="connect", protocol="sessioned", state_ms=log.now_ms))
    assert findings(idle(log, 400_000), NAME) == []
    (found,) = findings(idle(log, 60_000), NAME)
    assert found.summary.startswith("w1 holds 4 of 4 tasks")
    assert "scheduled.rebalance.max.delay.ms" in found.advice


def test_streams_and_the_consumer_protocol_have_other_settings() -> None:
    streams = Log().add(
        b.classic_group(1, *members({"a": [0, 1, 2, 3]}, {}, topics=("a",)), protocol="stream"),
    )
    (found,) = findings(idle(streams, 120_000), NAME)
    assert "num.stream.threads" in found.advice
    consumer = Log().add(b.c_topics("t"), b.c_member("m1"), b.c_member("m2"), b.c_epoch(1))
    consumer.add(b.c_target("m1", {"t": [0, 1, 2, 3]}), b.c_target_epoch(1))
    (found,) = findings(idle(consumer, 120_000), NAME)
    assert "group.remote.assignor=uniform gives" not in found.advice
    assert "group.remote.assignor=uniform no member gets more than 2" in found.advice


def test_kip_848_members_on_their_way_to_an_even_target() -> None:
    log = Log().add(b.c_topics("t"), b.c_member("m1"), b.c_epoch(1))
    log.add(b.c_target("m1", {"t": [0, 1, 2, 3]}), b.c_target_epoch(1), b.c_current("m1", 1, {"t": [0, 1, 2, 3]}))
    log.add(b.c_member("m2"), b.c_epoch(2))
    log.add(b.c_target("m1", {"t": [0, 1]}), b.c_target("m2", {"t": [2, 3]}), b.c_target_epoch(2))
    log.add(b.c_current("m2", 2, {}, state=2))
    assert findings(idle(log, 300_000), NAME) == []


# By records.


def halves() -> Log:
    """Two members with two partitions each."""
    given = members({"t": [0, 1]}, {"t": [2, 3]}, topics=("t",))
    return Log().add(b.classic_group(1, *given, protocol="cooperative-sticky"))


def moves(*records: int) -> dict[tuple[str, int], int]:
    return {("t", number): count for number, count in enumerate(records)}


def test_one_partition_carries_nearly_all() -> None:
    log = commits(halves(), 25, moves(10_000, 100, 100, 100))
    (found,) = of(findings(log, NAME))
    assert states([found]) == [("firing", "warning")]
    assert found.summary.startswith("m0 consumed 98% of ")
    assert found.summary.endswith("2 times a fair share among 2 members, with 2 of 4 partitions.")
    assert found.advice.startswith("No assignor helps: partition 0 of t alone carries 97% of the records.")
    assert found.numbers["hottest"] == "t-0"
    assert found.numbers["load_ratio"] == pytest.approx(1.96, abs=0.01)
    # Ten minutes of commits must have been seen, a look is due every five, and it must hold for one.
    assert 600_000 < found.at.timestamp_ms - log.records[0].timestamp_ms <= 1_020_000


def test_few_records_say_nothing() -> None:
    assert findings(commits(halves(), 25, moves(600, 6, 6, 6)), NAME) == []
    assert len(findings(commits(halves(), 25, moves(600, 6, 6, 6)), NAME, min_records="5000")) == 1


def test_records_that_are_even() -> None:
    assert findings(commits(halves(), 25, moves(5_000, 5_000, 6_000, 4_000)), NAME) == []


def test_another_assignor_would_spread_these_records() -> None:
    given = members({"t": [0, 1]}, {"t": [2, 3]}, topics=("t",))
    log = commits(Log().add(b.classic_group(1, *given)), 25, moves(5_000, 5_000, 100, 100))
    (found,) = findings(log, NAME)
    assert found.advice.startswith("Set partition.assignment.strategy to roundrobin on all members")
    assert found.numbers["roundrobin_largest_records"] < found.numbers["range_largest_records"]


def test_range_or_no_assignor_would() -> None:
    given = members({"t": [0, 2]}, {"t": [1, 3]}, {"t": [4, 5]}, topics=("t",))
    log = Log().add(b.classic_group(1, *given))
    (found,) = findings(commits(log, 25, moves(5_000, 100, 5_000, 100, 100, 100)), NAME)
    assert "partition.assignment.strategy to range" in found.advice
    consumer = Log().add(b.c_topics("t"), b.c_member("m1"), b.c_member("m2"), b.c_epoch(1))
    consumer.add(b.c_target("m1", {"t": [0, 1]}), b.c_target("m2", {"t": [2, 3]}), b.c_target_epoch(1))
    (found,) = findings(commits(consumer, 25, moves(5_000, 5_000, 100, 100)), NAME)
    assert found.advice.startswith("Assignors count partitions, not records")


def test_records_are_counted_for_the_partitions_that_are_held() -> None:
    given = members({"t": [1, 3]}, {"t": [5, 7]}, topics=("t",))
    log = Log().add(b.classic_group(1, *given))
    (found,) = findings(commits(log, 25, moves(0, 5_000, 0, 5_000, 0, 100, 0, 100)), NAME)
    assert found.numbers["range_largest_records"] == found.numbers["largest_records"]
    assert found.numbers["roundrobin_largest_records"] < found.numbers["range_largest_records"]


def test_a_member_that_nothing_tells_of() -> None:
    """As one that takes a static member's place is told with its next record, and some in a compacted log never."""
    log = Log().add(b.c_topics("t"), b.c_member("m1", instance_id="i1"), b.c_member("m2"), b.c_epoch(2))
    log.add(b.c_target("m1", {"t": [0, 1]}), b.c_target("m2", {"t": [2, 3]}), b.c_target_epoch(2))
    log.add(b.c_current("m1", 2, {"t": [0, 1]}), b.c_current("m2", 2, {"t": [2, 3]}))
    busy = {("t", 0): 3_000, ("t", 1): 10, ("t", 2): 10, ("t", 3): 10}
    commits(log, 20, busy)
    gone = [b.tombstone(it, "m1") for it in (8, 7, 5)]
    log.add(*gone, b.c_member("m3", instance_id="i1"), b.c_target("m3", {"t": [0, 1]}))
    log.add(b.c_current("m3", 0, {"t": [0, 1]}))
    commits(log, 20, busy, start=20)
    (opened,) = of(findings(log, NAME))
    assert opened.numbers["hottest"] == "t-0"


def test_it_is_looked_at_again_where_commits_end() -> None:
    log = commits(halves(), 25, moves(10_000, 100, 100, 100))
    found = of(findings(idle(log, 1_800_000), NAME))
    assert states(found) == [("firing", "warning"), ("resolved", "warning")]


def test_partitions_that_are_uneven_and_records_that_are_not() -> None:
    given = members({"t": [0, 1, 2, 3, 4]}, {"t": [5]}, topics=("t",))
    log = commits(Log().add(b.classic_group(1, *given)), 25, moves(*[1_000] * 5, 5_000))
    found = findings(log, NAME)
    # A warning until the records are known.
    assert states(found) == [("firing", "warning"), ("firing", "info")]
    assert found[1].summary.endswith("; by records consumed the largest share is 1 times a fair one.")


@needs(CAPTURE)
def test_the_captures_range_group_and_no_other() -> None:
    found = of_the_capture(NAME)
    assert {group: states(it) for group, it in found.items()} == {"search-range": [("firing", "warning")]}
    assert found["search-range"][0].numbers["ratio"] == 3.0
