"""What the live agent remembers, and what it lets go."""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from agent.core.events.events import event_of, sort_events
from agent.core.events.recent import MAX_OPEN_FINDINGS, RecentEvents
from agent.core.shadow.transitions import GroupDeleted, GroupEmptied, LogPosition, Transition
from tests import examples
from tests.unit.core.events.test_events import life
from tests.unit.presentation.narrative import made as m
from tests.unit.presentation.narrative.made import T0


def emptied(group: str, at_ms: int, partition: int = 7) -> Transition:
    return GroupEmptied(LogPosition(partition, at_ms, T0 + at_ms), group, "classic", at_ms)


def times(recent: RecentEvents, group: str) -> list[int]:
    return [event["at_ms"] - T0 for event in recent.timeline(group)[0]]


def test_events_are_those_of_the_history() -> None:
    transitions = life().replayed()[1]
    recent = RecentEvents(cluster="east")
    recent.observe(transitions)
    kept, complete_since_ms = recent.timeline(transitions[0].group)
    assert list(kept) == sort_events(event_of(it, "east") for it in transitions)
    assert (complete_since_ms, len(recent)) == (None, len(transitions))
    assert (list(recent.timeline("nobody")[0]), recent.timeline("nobody")[1]) == ([], None)


def test_a_deleted_groups_events_stay() -> None:
    recent = RecentEvents()
    recent.observe([emptied("g", 1), GroupDeleted(LogPosition(7, 2, T0 + 2), "g", "classic")])
    assert [event["type"] for event in recent.timeline("g")[0]] == ["group_emptied", "group_deleted"]


def test_one_group_pushes_out_its_own() -> None:
    recent = RecentEvents(per_group=10, total=1_000)
    recent.observe([emptied("quiet", 0)])
    recent.observe([emptied("noisy", at) for at in range(1, 100)])
    noisy = times(recent, "noisy")
    assert 10 <= len(noisy) <= 11
    assert noisy[-1] == 99
    assert recent.timeline("noisy")[1] == T0 + noisy[0]
    assert (times(recent, "quiet"), recent.timeline("quiet")[1]) == ([0], None)


def test_the_oldest_of_all_go_first() -> None:
    recent = RecentEvents(per_group=100, total=50)
    # As in catching up: one partition after another, each from its beginning.
    for partition in range(3):
        recent.observe([emptied(f"g{partition}", at, partition) for at in range(40)])
    assert 50 - 3 <= len(recent) <= 55
    kept = [times(recent, f"g{partition}") for partition in range(3)]
    assert all(it[-1] == 39 for it in kept)
    assert recent.timeline("g0")[1] == recent.timeline("g1")[1] == recent.timeline("unheard")[1]
    assert recent.timeline("g0")[1] == T0 + max(kept[0][0], kept[1][0])


def test_a_group_may_be_pushed_out_whole() -> None:
    recent = RecentEvents(per_group=100, total=10)
    recent.observe([emptied("old", 0), *(emptied("new", at) for at in range(1, 12))])
    assert times(recent, "old") == []
    assert recent.timeline("old")[1] is not None


@settings(max_examples=examples(50), deadline=None)
@given(st.lists(st.tuples(st.sampled_from("abc"), st.integers(0, 30)), max_size=200))
def test_the_bounds_hold_and_what_is_said_to_be_complete_is(items: list[tuple[str, int]]) -> None:
    recent = RecentEvents(per_group=20, total=40)
    seen: dict[str, list[int]] = {}
    clock = 0
    for group, step in items:
        clock += step
        recent.observe([emptied(group, clock)])
        seen.setdefault(group, []).append(clock)
        assert len(recent) <= 44
    assert len(recent) == sum(len(times(recent, group)) for group in "abc")
    for group, all_ in seen.items():
        kept, since = times(recent, group), recent.timeline(group)[1]
        assert len(kept) <= 22
        complete = [at for at in all_ if since is None or T0 + at >= since]
        assert kept[len(kept) - len(complete) :] == complete


def test_what_is_read_anew_is_forgotten() -> None:
    recent = RecentEvents(per_group=3)
    recent.observe([emptied("a", at, 1) for at in range(9)])
    recent.observe([emptied("b", 1, 2), {**m.finding(group="a"), "partition": 1}, m.finding(group=None)])
    recent.forget(1)
    assert (times(recent, "a"), times(recent, "b"), recent.timeline("a")[1]) == ([], [1], None)
    assert [event["group"] for event in recent.findings()] == [None]
    assert len(recent) == 2


def firing(number: int, **more: Any) -> dict[str, Any]:
    return m.finding(f"analyzer-{number}", T0 + number, **more)


def test_an_open_finding_is_not_pushed_out() -> None:
    recent = RecentEvents(per_group=5, total=10)
    open_one, closed = firing(0), firing(1)
    recent.observe([open_one, closed, firing(1, since_ms=T0 + 1, state="resolved")])
    recent.observe([emptied("g", at) for at in range(10, 50)])
    assert list(recent.findings()) == list(recent.findings("g")) == [open_one]
    assert list(recent.findings("other")) == []
    recent.observe([m.finding("analyzer-0", T0 + 60, since_ms=T0, state="resolved")])
    assert [event["state"] for event in recent.findings("g")] == ["resolved"]


def test_even_open_findings_have_a_bound() -> None:
    recent = RecentEvents(per_group=5, total=10)
    recent.observe([firing(number, group=f"g{number}") for number in range(MAX_OPEN_FINDINGS + 5)])
    assert len(list(recent.findings())) == MAX_OPEN_FINDINGS
