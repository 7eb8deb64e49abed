"""What the live agent remembers, and what it lets go."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable
from itertools import count
from pathlib import Path
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from agent.core.events.events import event_of, sort_events
from agent.core.events.recent import (
    EVENT_BYTES,
    MAX_BYTES,
    MAX_OPEN_BYTES,
    MAX_OPEN_FINDINGS,
    RECENT_GROUPS,
    SLACK,
    PartitionRecentEvents,
    RecentEvents,
    estimated_bytes,
)
from agent.core.shadow.mirror import PartitionMirror
from agent.core.shadow.transitions import (
    GroupDeleted,
    GroupEmptied,
    LogPosition,
    MemberJoined,
    MemberLeft,
    OffsetsDeleted,
    Rebalanced,
    StaticMemberReplaced,
    Transition,
)
from agent.core.shadow.views import Member
from tests import examples
from tests.unit.core.events.test_events import life
from tests.unit.core.shadow import build as b
from tests.unit.core.shadow.build import Log
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
    recent = RecentEvents(per_group=10, total_bytes=1_000 * EVENT_BYTES)
    recent.observe([emptied("quiet", 0)])
    recent.observe([emptied("noisy", at) for at in range(1, 100)])
    noisy = times(recent, "noisy")
    assert 10 <= len(noisy) <= 11
    assert noisy[-1] == 99
    assert recent.timeline("noisy")[1] == T0 + noisy[0]
    assert (times(recent, "quiet"), recent.timeline("quiet")[1]) == ([0], None)


def test_those_that_have_most_lose_most() -> None:
    recent = RecentEvents(per_group=100, total_bytes=50 * EVENT_BYTES)
    # As in catching up: one partition after another, each from its beginning.
    for partition in range(3):
        recent.observe([emptied(f"g{partition}", at, partition) for at in range(40)])
    recent.observe([emptied("small", at, 2) for at in range(3)])
    kept = [times(recent, f"g{partition}") for partition in range(3)]
    assert all(it == list(range(it[0], 40)) for it in kept)
    assert max(map(len, kept)) - min(map(len, kept)) <= 8
    assert 42 <= len(recent) <= 55
    assert recent.timeline("g0")[1] == T0 + kept[0][0]
    assert (times(recent, "small"), recent.timeline("small")[1]) == ([0, 1, 2], None)
    assert recent.timeline("unheard")[1] is None


def test_nobodys_time_pushes_anybody_out() -> None:
    recent = RecentEvents(per_group=1_000, total_bytes=100 * EVENT_BYTES)
    recent.observe([emptied("innocent", at) for at in range(10)])
    recent.observe([emptied("forger", 10**12 + at) for at in range(1_000)])
    assert (times(recent, "innocent"), recent.timeline("innocent")[1]) == (list(range(10)), None)
    recent.observe(emptied(f"forger {number}", 10**12) for number in range(85))
    assert times(recent, "innocent")[-1] == 9


def test_where_times_go_back_the_latest_that_is_gone_counts() -> None:
    recent = RecentEvents(per_group=4)
    recent.observe([emptied("g", at) for at in (0, 3_600_000, 3_601_000, 1_000, 2_000, 3_000, 4_000, 5_000)])
    assert times(recent, "g") == [2_000, 3_000, 4_000, 5_000]
    assert recent.timeline("g")[1] == T0 + 3_601_001
    recent.observe([emptied("g", at) for at in range(6_000, 10_000, 1_000)])
    assert recent.timeline("g")[1] == T0 + 3_601_001


def test_no_time_of_a_stranger_says_since_when_anothers_events_are_known() -> None:
    recent = RecentEvents(total_bytes=10 * EVENT_BYTES, clock_ms=lambda partition: T0 + 20)
    recent.observe([emptied("stranger", 10**12), *(emptied(f"g{at}", at) for at in range(12))])
    assert times(recent, "stranger") == []
    recent.observe([emptied("payments", 50)])
    assert recent.timeline("payments")[1] == T0 + 21


def test_where_not_all_groups_have_room_those_that_are_silent_go() -> None:
    recent = RecentEvents(per_group=100, total_bytes=10 * EVENT_BYTES)
    recent.observe([emptied("silent", 0), *(emptied(f"g{at}", at) for at in range(1, 12))])
    assert times(recent, "silent") == []
    assert recent.timeline("silent")[1] == T0 + 2
    assert times(recent, "g11") == [11]
    recent.observe([emptied("silent", 50)])
    assert (times(recent, "silent"), recent.timeline("silent")[1]) == ([50], T0 + 2)


def test_in_a_cluster_of_many_groups_those_keep_theirs_of_which_something_came_last() -> None:
    recent = RecentEvents(total_bytes=20_000 * EVENT_BYTES)  # of which one group may have 20 at most
    recent.observe(emptied(f"g{number}", at) for number in range(8_000) for at in range(3))
    for at in range(3, 18):
        recent.observe(emptied(f"g{number}", at) for number in range(500))
    recent.observe(emptied("storm", at) for at in range(900))
    assert 0.7 <= recent.bytes / (20_000 * EVENT_BYTES) <= 1.1
    assert all(len(times(recent, f"g{number}")) >= 15 for number in range(500))
    assert all(times(recent, f"g{number}")[-1] == 2 for number in range(500, 8_000))
    assert times(recent, "storm")[-15:] == list(range(885, 900))


def test_what_groups_keep_that_lose_nothing_costs_nothing() -> None:
    """A group that is cut again and again, beside few others and beside many: cuts went through all of them."""
    few, many = (calls_of_cuts(beside) for beside in (10, 1_000))
    print(few, many)
    assert many < 1.1 * few


def calls_of_cuts(beside: int) -> int:
    """How many functions are called as a group's events are kept and cut, beside so many groups of one event each."""
    recent = RecentEvents(per_group=10_000, total_bytes=3_000 * EVENT_BYTES)
    recent.observe(emptied(f"g{number}", number) for number in range(beside))
    noted, calls = recent.note(emptied("noisy", at) for at in range(6_000)), count()
    sys.setprofile(lambda *_: next(calls) and None)
    try:
        recent.keep(noted)
    finally:
        sys.setprofile(None)
    assert 1_900 < len(recent.partitions[7].groups["noisy"]) < 3_300
    return next(calls)


@settings(max_examples=examples(60), deadline=None)
@given(
    st.lists(st.tuples(st.integers(0, 40), st.booleans()), max_size=150),
    st.sampled_from((3, 12, 40, 3 * RECENT_GROUPS)),
    st.integers(1, 20),
)
def test_what_is_dropped_is_what_the_rule_says(written: list[tuple[int, bool]], events: int, most: int) -> None:
    recent = RecentEvents(per_group=20, total_bytes=events * EVENT_BYTES)
    kept: dict[str, list[Transition]] = {}
    for at, (number, is_long) in enumerate(written):
        name = f"g{number % most}"
        position = LogPosition(7, at, T0 + at)
        event = MemberLeft(position, name, "classic", 1, long_member(at)) if is_long else emptied(name, at)
        recent.observe([event])
        kept[name] = [*kept.pop(name, []), event]
        if len(kept[name]) > 20 * (1 + SLACK):
            del kept[name][:-20]
        if sum(map(size_of, kept.values())) > events * EVENT_BYTES * (1 + SLACK):
            cut_by_the_rule(kept, events * EVENT_BYTES)
        assert recent.bytes == sum(map(size_of, kept.values()))
    assert {name: times(recent, name) for name in kept} == {
        name: [it.at.timestamp_ms - T0 for it in its] for name, its in kept.items()
    }


def cut_by_the_rule(kept: dict[str, list[Transition]], total: int) -> None:
    """As slowly as it is said: the groups come in the order of their newest events."""
    sizes, of_recent = {name: size_of(its) for name, its in kept.items()}, total / RECENT_GROUPS
    level = share_of_each(sizes.values(), total)
    most = dict.fromkeys(kept, level)
    if level < of_recent:
        level = share_of_each(sizes.values(), total / 2)
        least = {name: max(level, size_of(its[-1:])) for name, its in kept.items() if sizes[name] > level}
        most, left = dict.fromkeys(kept, level), total - sum({**sizes, **least}.values())
        for name in reversed([*kept]):
            if name in least:
                more = min(sizes[name], of_recent)
                left -= max(more - least[name], 0)
                if left < 0:
                    break
                most[name] = more
    for name, its in kept.items():
        while size_of(its) > most[name] and len(its) > 1:
            del its[0]
    for name in [*kept]:
        if sum(map(size_of, kept.values())) > total:
            del kept[name]


def share_of_each(sizes: Iterable[int], total: float) -> float:
    left = [*sorted(sizes)]
    while left and left[0] * len(left) <= total:
        total -= left.pop(0)
    return total / len(left) if left else total


def size_of(events: Iterable[Transition]) -> int:
    return sum(map(estimated_bytes, events))


def long_member(number: int) -> Member:
    name = f"{number:030000}"
    return Member(name, "c", "h", assignment={"t": tuple(range(1000, 1100))})


def test_long_names_take_no_more_room() -> None:
    """55,000 events with names of 30 KB, of which no two share any, as they are and as JSON."""
    before = resident_bytes()
    recent = RecentEvents()
    for number in range(11_000):
        at, group = LogPosition(number % 50, number, T0 + number), f"{number % 1000:030000}\x1b"
        one, other = long_member(2 * number), long_member(2 * number + 1)
        recent.observe(
            [
                Rebalanced(at, group, "classic", 1, 0, group, (one,), (other,), 1),
                MemberLeft(at, group, "classic", 1, other),
                MemberJoined(at, group, "classic", 1, one),
                StaticMemberReplaced(at, group, "classic", 1, one, other),
                OffsetsDeleted(at, group, "classic", group, 1, 1),
            ]
        )
        if number % 5_000 == 0:
            for item in [item for it in recent.partitions.values() for item in it.items()]:
                item.encoded()
    assert resident_bytes() - before < 64 << 20
    assert len(recent) > 100
    assert recent.bytes <= MAX_BYTES * 1.1


def test_many_topics_take_no_more_room() -> None:
    """Subscriptions of 4,000 topics, as by a pattern: of members that come anew each time, and of one that stays, of
    which the rebalance says what changed."""
    before = resident_bytes()
    recent, log, mirror = RecentEvents(), Log(), PartitionMirror(7)
    for number in range(1, 150):
        topics = [f"orders-{number}-{topic}" for topic in range(4_000)]
        stays = b.member("a-1", {"t": [0]}, topics=topics)
        records = log.add(b.classic_group(number, stays, b.member(f"b-{number}", {}, topics=topics))).records
        recent.observe(mirror.replay(records.pop()))
    assert resident_bytes() - before < 64 << 20
    assert len(recent) > 50
    assert recent.bytes <= MAX_BYTES * 1.1


def resident_bytes() -> int:
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


@settings(max_examples=examples(50), deadline=None)
@given(st.lists(st.tuples(st.sampled_from("abc"), st.integers(0, 30)), max_size=200))
def test_the_bounds_hold_and_what_is_said_to_be_complete_is(items: list[tuple[str, int]]) -> None:
    recent = RecentEvents(per_group=20, total_bytes=40 * EVENT_BYTES)
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
    recent = RecentEvents(per_group=5, total_bytes=10 * EVENT_BYTES)
    open_one, closed = firing(0), firing(1)
    recent.observe([open_one, closed, firing(1, since_ms=T0 + 1, state="resolved")])
    recent.observe([emptied("g", at) for at in range(10, 50)])
    assert list(recent.findings()) == list(recent.findings("g")) == [open_one]
    assert list(recent.findings("other")) == []
    recent.observe([m.finding("analyzer-0", T0 + 60, since_ms=T0, state="resolved")])
    assert [event["state"] for event in recent.findings("g")] == ["resolved"]


def test_since_when_findings_are_all_there_are() -> None:
    recent = RecentEvents(per_group=5, total_bytes=100 * EVENT_BYTES)
    recent.observe([firing(1), firing(5, since_ms=T0 + 1, state="resolved"), firing(7, group="other")])
    recent.observe([emptied("noisy", at) for at in range(10, 50)])
    # What happened is gone, but no finding is.
    assert recent.timeline("noisy")[1] is not None
    assert [recent.findings_complete_since(it) for it in (None, "g", "noisy", "nobody")] == [None] * 4
    recent.observe([emptied("g", at) for at in range(10, 50)])
    assert [it["analyzer"] for it in recent.findings()] == ["analyzer-1", "analyzer-7"]
    assert [recent.findings_complete_since(it) for it in (None, "g")] == [T0 + 6] * 2
    assert [recent.findings_complete_since(it) for it in ("other", "nobody")] == [None] * 2
    restored = RecentEvents()
    for place, partition in recent.partitions.items():
        partition.findings_complete_since = None
        groups, since, opened = partition.pack_state()
        packed = [
            (name, known, (times, are, [it.encoded() for it in kept])) for name, known, (times, are, kept) in groups
        ]
        forms = [(key, at_ms, it.encoded()) for key, at_ms, it in opened]
        restored.put(place, PartitionRecentEvents.from_state((packed, since, forms)))
    # An image does not say it of findings alone.
    assert restored.findings_complete_since("g") == restored.timeline("g")[1]
    assert restored.findings_complete_since("other") is None


def test_open_findings_have_a_bound_in_bytes() -> None:
    recent = RecentEvents()
    usual = [firing(number) for number in range(10)]
    recent.observe([*usual, *(firing(number, group=f"{number:030000}") for number in range(10, 2_000))])
    kept = list(recent.findings())
    assert all(it in kept for it in usual)
    assert sum(it.size for one in recent.partitions.values() for it in one.open.values()) <= MAX_OPEN_BYTES


def test_even_open_findings_have_a_bound() -> None:
    recent = RecentEvents(per_group=5, total_bytes=10 * EVENT_BYTES)
    recent.observe([firing(number, group=f"g{number}") for number in range(MAX_OPEN_FINDINGS + 5)])
    assert len(list(recent.findings())) == MAX_OPEN_FINDINGS
    assert recent.findings_complete_since() is not None
