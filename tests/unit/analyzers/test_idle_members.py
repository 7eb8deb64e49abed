"""`idle_members`: who has nothing to do, and why."""

from __future__ import annotations

import pytest

from agent.core.wire.classic import MemberMetadata
from tests.unit.analyzers.driving import Log, findings, idle, of_the_capture, states
from tests.unit.core.shadow import build as b
from tests.unit.core.wire.vectors import CAPTURE, needs

NAME = "idle_members"


def three_over_two(*, spare: int = 1) -> list[MemberMetadata]:
    return [b.member(f"m{number}-1", {"t": [number]} if number < 2 else {}) for number in range(2 + spare)]


def log_of(*given: MemberMetadata, protocol: str = "roundrobin") -> Log:
    return Log().add(b.classic_group(1, *given, protocol=protocol))


def test_opens_and_closes() -> None:
    log = idle(log_of(*three_over_two()), 60_000)
    log.add(b.classic_group(2, *three_over_two(spare=0)))
    (opened, closed) = findings(idle(log, 600_000), NAME)
    assert states([opened, closed]) == [("firing", "info"), ("resolved", "info")]
    assert opened.at.timestamp_ms - opened.since_ms == 45_000
    assert closed.at.timestamp_ms - opened.since_ms == 361_000
    assert opened.summary == (
        "1 of 3 members has no partition while the others hold 2: m2; there are fewer partitions than members."
    )
    assert opened.advice == (
        "Run 2 members, or give the topics more partitions, which moves keys to other partitions. "
        "For a deliberate reserve, set idle_members.allowed_members=1."
    )
    assert opened.numbers == {
        "idle": 1,
        "members": 3,
        "partitions": 2,
        "clients": ["m2"],
        "too_few_partitions": 1,
        "nothing_subscribed": 0,
        "left_out": 0,
    }


def test_a_member_that_waits_for_the_next_round_is_not_told() -> None:
    log = log_of(*three_over_two()).add(b.classic_group(2, *three_over_two(spare=0)), after_ms=40_000)
    assert findings(idle(log, 600_000), NAME) == []


def taken_back() -> Log:
    """Of three partitions a cooperative round took two from the one who had all, for two others that came."""
    log = log_of(b.member("m0-1", {"t": [0, 1, 2]}), protocol="cooperative-sticky")
    owner = b.member("m0-1", {"t": [0]}, owned={"t": [0, 1, 2]})
    return log.add(
        b.classic_group(2, owner, b.member("m1-1", {}), b.member("m2-1", {}), protocol="cooperative-sticky")
    )


def test_members_for_whom_partitions_were_taken_back_are_not_idle() -> None:
    """The round that gives them away may have to wait for a member that died, until its session has run out."""
    assert findings(idle(taken_back(), 60_000), NAME) == []
    # No round lasts longer than the longest rebalance timeout.
    (opened,) = findings(idle(taken_back(), 346_000), NAME)
    assert states([opened]) == [("firing", "info")]


def test_does_not_flap_while_members_come_and_go() -> None:
    log = idle(log_of(*three_over_two()), 60_000)
    for generation in range(2, 12, 2):
        log.add(b.classic_group(generation, *three_over_two(spare=0)), after_ms=30_000)
        log.add(b.classic_group(generation + 1, *three_over_two(spare=2)), after_ms=200_000)
    assert states(findings(log, NAME)) == [("firing", "info")]


def test_a_reserve_may_be_allowed() -> None:
    def found(spare: int, **tuned: str) -> int:
        return len(findings(idle(log_of(*three_over_two(spare=spare)), 60_000), NAME, **tuned))

    assert (found(1, allowed_members="1"), found(2, allowed_members="1")) == (0, 1)
    assert (found(2, allowed_part="0.5"), found(3, allowed_part="0.5")) == (0, 1)


def test_nobody_works_or_all_do_or_nobody_is_there() -> None:
    none = log_of(b.member("m0-1", {}), b.member("m1-1", {}))
    everybody = log_of(*three_over_two(spare=0))
    gone = log_of(*three_over_two()).add(b.classic_group(2)).add(b.no_classic_group())
    assert [findings(idle(log, 600_000), NAME) for log in (none, everybody, gone)] == [[], [], []]


def test_long_lists_and_names_are_cut() -> None:
    spare = [b.member(f"{'x' * 100}{number}-1", {}) for number in range(7)]
    (found,) = findings(idle(log_of(*three_over_two(spare=0), *spare), 60_000), NAME)
    assert found.summary.count("x" * 63 + "…") == 3
    assert "and 4 more" in found.summary
    assert found.numbers["clients"] == ["x" * 63 + "…"] * 5


@pytest.mark.parametrize(
    ("protocol", "setting"),
    [("range", "partition.assignment.strategy"), ("stream", "num.stream.threads")],
)
def test_left_out_by_the_assignor(protocol: str, setting: str) -> None:
    given = (b.member("m0-1", {"a": [0], "b": [0]}, topics=("a", "b")), b.member("m1-1", {}, topics=("a", "b")))
    (found,) = findings(idle(log_of(*given, protocol=protocol), 60_000), NAME)
    assert found.summary.endswith("m1; the assignor gave them none, though there are enough partitions.")
    assert setting in found.advice
    assert found.numbers["left_out"] == 1


def test_left_out_in_a_group_of_the_consumer_protocol() -> None:
    log = Log().add(b.c_topics("t"), b.c_member("m1"), b.c_member("m2"), b.c_epoch(1))
    log.add(b.c_target("m1", {"t": [0, 1]}), b.c_target_epoch(1), b.c_current("m1", 1, {"t": [0, 1]}))
    (found,) = findings(idle(log, 60_000), NAME)
    assert "group.remote.assignor" in found.advice


def test_a_member_that_is_about_to_get_some_is_not_idle() -> None:
    log = Log().add(b.c_topics("t"), b.c_member("m1"), b.c_member("m2"), b.c_epoch(1))
    log.add(b.c_target("m1", {"t": [0]}), b.c_target("m2", {"t": [1]}), b.c_target_epoch(1))
    log.add(b.c_current("m1", 1, {"t": [0]}))
    assert findings(idle(log, 600_000), NAME) == []


def test_subscribes_to_nothing_useful() -> None:
    given = (b.member("m0-1", {"t": [0, 1]}), b.member("m1-1", {}, topics=("typo",)))
    (found,) = findings(idle(log_of(*given), 60_000), NAME)
    assert found.summary.endswith("m1; no member has a topic that they subscribe to.")
    assert found.advice.startswith("Check which topics")
    assert found.numbers["nothing_subscribed"] == 1


def test_several_reasons() -> None:
    given = (*three_over_two(spare=2), b.member("m9-1", {}, topics=("typo",)))
    (found,) = findings(idle(log_of(*given), 60_000), NAME)
    assert found.summary.endswith(
        "m2, m3 and m9; 2 because there are fewer partitions than members, "
        "1 because no member has a topic that they subscribe to."
    )


def test_standby_tasks_are_work() -> None:
    def log(standby: dict[str, list[int]]) -> Log:
        log = Log().add(b.k_member("m1"), b.k_member("m2"), b.k_topology(), b.k_epoch(1))
        log.add(b.k_target("m1", {"0": [0]}), b.k_target("m2", {}), b.k_target_epoch(1))
        return log.add(b.k_current("m1", 1, {"0": [0]}), b.k_current("m2", 1, {}, standby=standby))

    assert findings(idle(log({"0": [0]}), 600_000), NAME) == []
    (found,) = findings(idle(log({}), 60_000), NAME)
    assert found.summary.startswith("1 of 2 members has no task")
    assert "num.stream.threads" in found.advice


def test_a_worker_waits_for_connects_delay_to_end() -> None:
    log = Log()
    given = (b.worker("w1", {"c": [0]}), b.worker("w2", {}))
    log.add(b.classic_group(1, *given, protocol_type="connect", protocol="sessioned", state_ms=log.now_ms))
    assert findings(idle(log, 400_000), NAME) == []
    (found,) = findings(idle(log, 60_000), NAME)
    assert "tasks.max" in found.advice


@needs(CAPTURE)
def test_the_captures_groups() -> None:
    """`range` over topics of one partition leaves members without any, too."""
    found = of_the_capture(NAME)
    assert {group: states(it) for group, it in found.items()} == {
        "billing-idle": [("firing", "info")],
        "search-range": [("firing", "info")],
    }
    assert (found["billing-idle"][0].numbers["too_few_partitions"], found["search-range"][0].numbers["left_out"]) == (
        2,
        2,
    )
