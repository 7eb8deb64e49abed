"""The lanes of real groups, and of scenes made for one rule each."""

from __future__ import annotations

from typing import Any

from agent.presentation.svg.lanes import Lanes, build_lanes
from agent.presentation.svg.swimlanes import swimlanes
from tests.unit.presentation.narrative import made as m
from tests.unit.presentation.narrative.golden import histories
from tests.unit.presentation.narrative.made import SECOND, T0


def of(events: list[Any], since_ms: int = T0, until_ms: int = T0 + 100 * SECOND, **more: Any) -> Lanes:
    return build_lanes(events, since_ms=since_ms, until_ms=until_ms, **more)


def captured(group: str) -> Lanes:
    told = histories()[group]
    return build_lanes(told.events, since_ms=told.events[0]["at_ms"], until_ms=told.now_ms)


def test_a_crash_loop_is_one_lane_with_a_mark_for_each_death() -> None:
    shown = captured("audit-loop")
    loop, good = shown.lanes
    assert (loop.label, good.label) == ("audit-loop-crash", "audit-loop-good"), "the troubled first"
    assert [it.cause for it in loop.departures] == ["session_timeout"] * 5
    silences = [it.at_ms - (it.silent_since_ms or 0) for it in loop.departures]
    assert all(6_000 <= silent <= 6_400 for silent in silences), "what the evidence says of the last commits"
    assert len(loop.joined) == len(loop.presences) == 5
    assert [it.cause for it in good.departures] == ["member_left"]
    assert [it.generation for it in shown.generations] == list(range(1, 9))
    assert shown.empty_periods[-1].until_ms == shown.until_ms, "in the end nobody is there"
    stopped = [it for it in shown.rebalances if it.stopped_since_ms is not None]
    for it in stopped:
        assert it.share is not None
        assert 0 < it.share <= 1
        assert it.stopped_since_ms is not None
        assert it.stopped_since_ms < it.since_ms
        assert it.paused_since_ms is None or it.stopped_since_ms <= it.paused_since_ms


def test_every_captured_group_has_lanes_that_account_for_all() -> None:
    for group, told in histories().items():
        shown = captured(group)
        left = sum(len(it["left"]) for it in told.events if it["type"] == "rebalance")
        joined = sum(len(it["joined"]) for it in told.events if it["type"] == "rebalance")
        assert sum(len(lane.departures) for lane in shown.lanes) == left, group
        assert sum(len(lane.joined) for lane in shown.lanes) == joined, group
        assert len(shown.rebalances) == sum(it["type"] == "rebalance" for it in told.events)
        for lane in shown.lanes:
            assert all(shown.since_ms <= it.since_ms <= it.until_ms <= shown.until_ms for it in lane.presences)


def test_a_static_member_keeps_its_lane() -> None:
    lane = next(lane for lane in captured("pricing-static").lanes if lane.label == "pricing-static-i0")
    assert lane.is_static
    assert len(lane.presences) == len(lane.joined) == len(lane.replaced) == 1


def test_a_range_that_begins_later_knows_who_was_there() -> None:
    whole = captured("audit-loop")
    since_ms = whole.rebalances[4].since_ms + 1
    told = histories()["audit-loop"]
    cut = [event for event in told.events if event["at_ms"] >= since_ms]
    for events in (told.events, cut):
        part = build_lanes(events, since_ms=since_ms, until_ms=whole.until_ms)
        assert {lane.label: lane.presences[0].since_ms for lane in part.lanes} == {
            "audit-loop-crash": since_ms,
            "audit-loop-good": since_ms,
        }
        assert (part.generations[0].generation, part.generations[0].cause) == (5, None)
        assert [it.generation for it in part.rebalances] == [6, 7, 8]


def test_who_never_changed_comes_from_the_groups_members() -> None:
    events = [m.rebalance(8, "member_left", T0 + SECOND, left=[m.gone("a", "member_left")], members=2)]
    assert [lane.label for lane in of(events).lanes] == ["a"]
    assert of(events).unnamed == 2
    shown = of(events, members=[m.member("b"), m.member("c")], generation=8)
    assert [lane.label for lane in shown.lanes] == ["a", "b", "c"]
    assert shown.unnamed == 0
    assert [lane.is_idle for lane in shown.lanes] == [False, True, True]
    still = of([], members=[m.member("b")], generation=8)
    assert [(it.generation, it.cause) for it in still.generations] == [(8, None)]
    assert of([]).lanes == () == of([]).generations


def test_several_of_one_name_at_once_have_lanes_of_their_own() -> None:
    two = [m.member("a", 1), m.member("a", 2)]
    shown = of([m.rebalance(1, joined=two)])
    assert [lane.about for lane in shown.lanes] == ["10.0.0.1", "#2 · 10.0.0.1"]


def test_who_comes_back_before_its_old_session_ends_has_the_same_lane() -> None:
    events = [
        m.rebalance(1, joined=[m.member("a", 1)], members=1),
        m.rebalance(2, at_ms=T0 + 20 * SECOND, joined=[m.member("a", 2)], members=2),
        m.rebalance(
            3,
            "session_timeout",
            T0 + 25 * SECOND,
            left=[m.gone("a", "session_timeout")],
            evidence=[m.gap("a", 10 * SECOND)],
            members=1,
        ),
    ]
    (lane,) = of(events).lanes
    assert [stay.until_ms - T0 for stay in lane.presences] == [25 * SECOND, 100 * SECOND]
    assert len(lane.joined) == 2


def test_one_leave_told_by_two_events_is_one() -> None:
    left = m.gone("a", "member_left")
    events = [
        m.rebalance(2, "member_left", T0 + SECOND, left=[left]),
        m.event("member_left", T0 + SECOND, generation=2, member=m.member("a"), cause="member_left", confidence=1.0),
    ]
    assert [len(lane.departures) for lane in of(events).lanes] == [1]


def test_an_eager_stop_has_its_length_from_what_is_known() -> None:
    assigned = m.event(
        "assignment_changed", T0, generation=2, assigned_partitions=10, gained_partitions=0, lost_partitions=0
    )
    done = m.rebalance(2, at_ms=T0 + 10 * SECOND, joined=[m.member("a")], stopped_ms=30 * SECOND)
    for join_ms, paused, share in ((None, 3 * SECOND, 1.0), (5 * SECOND - 5, 5 * SECOND, 0.6)):
        (it,) = of([{**done, "join_ms": join_ms}, assigned]).rebalances
        assert it.paused_since_ms is not None
        assert it.since_ms - it.paused_since_ms == paused
        assert it.share == share
    (it,) = of([{**done, "protocol": "cooperative-sticky"}, assigned]).rebalances
    assert it.paused_since_ms is None, "those that do not move go on"


def test_a_deleted_group_has_nobody() -> None:
    events = [
        m.rebalance(1, joined=[m.member("a")], members=1),
        m.event("group_emptied", T0 + 10 * SECOND, generation=1),
        m.event("group_deleted", T0 + 20 * SECOND),
    ]
    shown = of(events)
    assert shown.deleted_ms == T0 + 20 * SECOND
    assert [(it.since_ms, it.until_ms) for it in shown.empty_periods] == [(T0 + 10 * SECOND, T0 + 20 * SECOND)]
    assert shown.lanes[0].presences[-1].until_ms == T0 + 20 * SECOND


def test_findings_of_the_range_the_worst_first() -> None:
    events = [
        m.finding("a", T0, severity="info"),
        m.finding("a", T0 + SECOND, severity="warning", since_ms=T0),
        m.finding("b", T0 + SECOND, severity="critical"),
        m.finding("b", T0 + 3 * SECOND, severity="critical", since_ms=T0 + SECOND, state="resolved"),
        m.finding("old", T0 - 9 * SECOND),
        m.finding("old", T0 - 5 * SECOND, since_ms=T0 - 9 * SECOND, state="resolved"),
    ]
    found = of(sorted(events, key=lambda it: it["at_ms"])).issues
    assert [(it.analyzer, it.severity, it.until_ms) for it in found] == [
        ("b", "critical", T0 + 3 * SECOND),
        ("a", "warning", None),
    ]


def test_what_an_agent_forgot_is_not_drawn_as_known() -> None:
    events = [m.rebalance(8, "member_left", T0 + 60 * SECOND, left=[m.gone("a", "member_left")], members=2)]
    known = T0 + 50 * SECOND
    shown = of(events, members=[m.member("b")], known_since_ms=known)
    assert {lane.label: lane.presences[0].since_ms for lane in shown.lanes} == {"a": known, "b": known}
    assert "before the agent&#x27;s oldest event" in swimlanes(shown)
    assert of(events, known_since_ms=T0 - 1).known_since_ms is None
