"""The picture of all groups: its order, what is made anew and what is not."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from agent.core.queries import Health
from agent.core.shadow.sampled_mirror import SampledMirror
from agent.presentation.narrative.words import clock
from agent.serving.page.fleet import (
    RECENT_MS,
    SORTS,
    Fleet,
    FleetCache,
    RecentRebalance,
    build_fleet,
    causes_of,
    fleet_group,
    histogram,
)
from agent.serving.page.home_page import FleetQuery, home_page
from agent.serving.page.markup import ago, bars, group_address, number, number_ranges, rough
from tests.unit.core.shadow import build as b
from tests.unit.core.shadow.build import T0, Log, run_of
from tests.unit.core.shadow.looks import T0 as LOOKED_MS
from tests.unit.core.shadow.looks import Looks, seen
from tests.unit.presentation.narrative import made as m
from tests.unit.serving.page.scene import Reader, captured, client, newest_ms, row
from tests.unit.serving.routes.replayed import Replayed, let_go, of_log
from tests.waiting import until


def rebalances(*times_ms: int, cause: str = "member_joined") -> tuple[RecentRebalance, ...]:
    return tuple(RecentRebalance(it, cause) for it in times_ms)


def test_those_in_trouble_come_first() -> None:
    groups = [
        fleet_group(row("1 critical"), (), [m.finding(severity="critical")]),
        fleet_group(row("2 two warnings"), (), [m.finding(), m.finding("poll_timeout")]),
        fleet_group(row("3 a warning"), (), [m.finding()]),
        fleet_group(row("4 only worth knowing"), (), [m.finding(severity="info")]),
        fleet_group(row("5 of another version, so the least", state="Empty"), (), [m.finding(severity="dire")]),
        fleet_group(row("6 on the move", state="PreparingRebalance")),
        fleet_group(row("7 restless"), rebalances(1, 2, 3)),
        fleet_group(row("8 less so"), rebalances(1)),
        fleet_group(row("9 behind", lag=1_000)),
        fleet_group(row("10 less so", lag=10)),
        fleet_group(row("11 at its end", lag=0)),
        fleet_group(row("12 nobody knows")),
    ]
    fleet = Fleet(T0, "", Health(True, ""), tuple(reversed(groups)), ())
    assert [it.name for it in fleet.sorted_by("trouble")] == [it.name for it in groups]
    assert fleet.sorted_by("-lag")[0].name == "9 behind"
    for sort in ("lag", "-lag"):
        assert all(it.row["lag"] is None for it in fleet.sorted_by(sort)[3:]), (
            "what is not known comes last either way"
        )


def test_a_group_that_may_stand_otherwise_by_now_says_as_of_when() -> None:
    stale = {"offset": 4, "since_ms": T0, "group": None, "transactional_ids": ["<b>tx"]}
    groups = (fleet_group(row("a", stale=stale)), fleet_group(row("b")))
    fleet = Fleet(T0 + 60_000, "", Health(True, "caught up"), groups, ())
    page = Reader(home_page(fleet, FleetQuery()).body)
    assert page.text.count(f"Stableas of {clock(T0)}") == 1
    assert [it.name for it in groups if it.matches(["stale"])] == ["a"]


@pytest.mark.parametrize("sort", [*SORTS, *(f"-{it}" for it in SORTS)])
def test_each_order_has_everyone(sort: str) -> None:
    fleet = build_fleet(captured(), T0)
    assert sorted(it.name for it in fleet.sorted_by(sort)) == sorted(it.name for it in fleet.groups)


class Counting(Replayed):
    """Counts what it is asked."""

    asked = 0

    def timeline(self, group: str, since_ms: int | None = None, until_ms: int | None = None) -> Any:
        self.asked += 1
        return super().timeline(group, since_ms, until_ms)


def generation(number: int, at_ms: int) -> b.Pair:
    return b.classic_group(number, b.member("m-1", {"t": [0]}), state_ms=at_ms)


def test_rebalances_are_asked_for_where_there_were_some() -> None:
    log = Log().add(b.new_group("still")).add(generation(1, T0)).add(generation(2, T0 + 2_000))
    agent = Counting(of_log(log))
    first = build_fleet(agent, T0 + 60_000)
    orders = next(it for it in first.groups if it.name == "orders")
    assert (len(orders.recent), agent.asked) == (2, 1), "one that never did is not asked about"
    again = build_fleet(agent, T0 + 61_000, first)
    assert (again.groups, agent.asked) == (first.groups, 1), "nothing moved"
    log.add(generation(3, T0 + 9_000))
    agent.state.replay_batch(run_of(log.records[-1:]))
    again = build_fleet(agent, T0 + 62_000, again)
    orders = next(it for it in again.groups if it.name == "orders")
    assert (len(orders.recent), agent.asked) == (3, 2), "it did, so it is"
    later = build_fleet(agent, orders.recent[0].at_ms + RECENT_MS + 1, again)
    assert len(next(it for it in later.groups if it.name == "orders").recent) < 3, "what is long ago is not recent"


def test_rebalances_that_change_no_state_are_asked_for() -> None:
    """A share group's are none of its state's, and looks through the Admin API see members change at rest."""
    log = Log().add(b.s_member("a-1"), b.s_epoch(2)).add(b.s_member("a-2"), b.s_epoch(3), after_ms=2 * RECENT_MS)
    (share,) = build_fleet(Replayed(of_log(log)), log.now_ms).groups
    assert (len(share.recent), share.row["rebalances"]) == (1, 2)
    looks = Looks().look(0, "Stable", seen("a", 0, 1))
    looks.look(2 * RECENT_MS, "Stable", seen("a", 0), seen("b", 1)).look(2 * RECENT_MS + 9, "Stable")
    (sampled,) = build_fleet(
        Replayed([looks.batch()], mirror_class=SampledMirror), LOOKED_MS + 2 * RECENT_MS + 9
    ).groups
    assert len(sampled.recent) == sampled.row["rebalances"] > 0


def test_what_was_let_go_is_not_told_as_all_there_was() -> None:
    log = Log().add(b.new_group("still"))
    for at in range(1, 8):
        log.add(generation(at, T0 + at * 1_000))
    agent, now_ms = Replayed(of_log(log)), T0 + 60_000
    of_group, _ = agent.recent.timeline("orders")
    let_go(agent, "orders", len(list(of_group)) // 2)
    fleet = build_fleet(agent, now_ms)
    orders, still = fleet.groups
    assert 0 < len(orders.recent) < orders.row["rebalances"] == 7
    assert (orders.is_recent_whole(now_ms), still.is_recent_whole(now_ms)) == (False, True)
    page, shown = home_page(fleet, FleetQuery()).body, f"\u2265 {len(orders.recent)}<"
    assert "At least 1 group rebalanced within the last hour" in page
    assert page.count(shown) == 2, "in its row, and in the figures"
    assert f"at least {len(orders.recent)} rebalance" in page
    assert "The agent has let older events of 1 group go: there may have been more rebalances." in page
    with client(agent, lambda: now_ms) as http:
        of_page = http.get("/groups/orders").text
    assert (shown in of_page, "7 in all" in of_page) == (True, True)
    assert build_fleet(agent, now_ms + 1_000, fleet).groups == fleet.groups, "known from the picture before"
    hour_ms = orders.recent_since_ms + RECENT_MS
    assert (orders.is_recent_whole(hour_ms), orders.is_recent_whole(hour_ms - 1)) == (True, False)


def test_where_no_rebalance_is_remembered_none_is_counted() -> None:
    groups = (fleet_group(row("a"), recent_since_ms=T0),)
    page = home_page(Fleet(T0, "", Health(True, "caught up"), groups, ()), FleetQuery()).body
    assert "No rebalance of the last hour is remembered" in page
    assert "least no" not in page


def test_where_only_other_events_were_let_go_nothing_is_missing() -> None:
    agent = Replayed(of_log(Log().add(generation(1, T0)).add(generation(2, T0 + 2_000))))
    events = list(agent.recent.timeline("orders")[0])
    let_go(agent, "orders", next(at for at, it in enumerate(events) if it["type"] == "rebalance"))
    assert agent.recent.timeline("orders")[1] is not None
    (orders,) = build_fleet(agent, T0 + 60_000).groups
    assert (len(orders.recent), orders.is_recent_whole(T0 + 60_000)) == (2, True)


def test_the_version_changes_with_what_is_shown() -> None:
    agent = captured()
    now = [newest_ms(agent)]
    fleets = FleetCache(agent, lambda: now[0])
    first = fleets.current()
    assert fleets.current() is first, "asked at once again"
    until(lambda: fleets.current() is not first)
    assert fleets.current().version == first.version
    agent.recent.observe([m.finding(group=first.groups[0].name)])
    until(lambda: fleets.current().version != first.version)


def test_a_picture_that_takes_long_is_made_aside(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("agent.serving.page.fleet.REFRESH_INLINE_BELOW_S", -1.0)
    monkeypatch.setattr("agent.serving.page.fleet.MIN_AGE_S", 0.0)
    fleets = FleetCache(captured(), lambda: T0)
    first = fleets.current()
    assert fleets.current() is first, "what was there is given"
    until(lambda: fleets.current() is not first, said="and another comes by itself")


class Steady:
    """In the place of `time`: a clock that only what takes time moves."""

    now_s = 100.0

    def monotonic(self) -> float:
        return self.now_s


def test_a_picture_that_takes_long_is_not_made_all_the_time(monkeypatch: pytest.MonkeyPatch) -> None:
    steady = Steady()

    class Many(Replayed):
        """An agent of so many groups that to tell of them takes seconds."""

        def groups(self) -> list[dict[str, Any]]:
            steady.now_s += 1.5
            return super().groups()

    monkeypatch.setattr("agent.serving.page.fleet.time", steady)
    fleets = FleetCache(Many(of_log(Log().add(b.new_group()))), lambda: T0)
    first = fleets.current()
    steady.now_s += 5.9
    there = threading.enumerate()
    assert fleets.current() is first
    begun = [it for it in threading.enumerate() if isinstance(it, threading.Timer) and it not in there]
    assert not begun, "and no other is planned"
    steady.now_s += 0.2
    assert fleets.current() is first, "the next is made aside"
    until(lambda: fleets.current() is not first)


def test_findings_of_an_agent_that_names_its_cluster() -> None:
    agent = Replayed(of_log(Log().add(b.new_group())))
    agent.recent.observe([m.finding(group="orders") | {"cluster": "prod"}])
    assert [len(it.findings) for it in build_fleet(agent, T0).groups] == [1]


def test_why_groups_rebalanced_is_drawn_over_time() -> None:
    groups = [
        fleet_group(row("one"), rebalances(T0 - 60_000, T0 - 1, cause="session_timeout")),
        fleet_group(row("two"), (*rebalances(T0 - 5), *rebalances(T0 - 4, cause='"><script>'))),
        fleet_group(row("still")),
    ]
    fleet = Fleet(T0, "", Health(True, ""), tuple(groups), ())
    assert causes_of(groups) == {
        "session_timeout": [T0 - 60_000, T0 - 1],
        "member_joined": [T0 - 5],
        '"><script>': [T0 - 4],
    }
    body = home_page(fleet, FleetQuery()).body
    assert body.count("session timed out: 2") == 2, "for a desk and for a phone"
    assert "<script" not in body, "a cause of another version is a stranger's word"
    assert "Why groups rebalanced" not in home_page(Fleet(T0, "", Health(True, ""), (), ()), FleetQuery()).body


@pytest.mark.parametrize(("committed", "said"), [(0, "never"), (2, "not known")])
def test_a_last_commit_without_a_time_is_no_never(committed: int, said: str) -> None:
    groups = (fleet_group(row("a", last_commit_ms=None, committed_partitions=committed, lag=5)),)
    body = home_page(Fleet(T0, "", Health(True, ""), groups, ()), FleetQuery()).body
    assert f">{said}<" in body.partition('data-label="Last commit"')[2].partition("</td>")[0]


def test_bins() -> None:
    now = 10 * RECENT_MS
    times = [now, now - 1, now - RECENT_MS + 1, now - RECENT_MS, now + 5]
    assert histogram(times, now) == [1, *[0] * 10, 3]


@pytest.mark.parametrize(
    ("said", "is_"),
    [
        (number(None), "not known"),  # 1: never 0
        (number(0), "0"),  # 2
        (number(99_999), "99,999"),  # 3
        (number(123_456), '<span title="123,456">123 k</span>'),  # 4
        (number(12_345_678), '<span title="12,345,678">12.3 M</span>'),  # 5
        (number(-5 * 10**9), '<span title="-5,000,000,000">-5 G</span>'),  # 6
        (number(999_499), '<span title="999,499">999 k</span>'),  # 7
        (number(999_500), '<span title="999,500">1 M</span>'),  # 8: no power of ten, which is no number of people
        (number(5 * 10**12), '<span title="5,000,000,000,000">5 T</span>'),  # 9
        (number(2**63 - 1), f'<span title="{2**63 - 1:,}">9.22 E</span>'),  # 10: as large as offsets are
        (rough(-5), "0 s"),  # 11: a broker's clock is ahead
        (rough(59_999), "59 s"),  # 12
        (rough(60_000), "1 min"),  # 13
        (rough(3_600_000 * 47), "47 h"),  # 14
        (rough(3_600_000 * 48), "2 d"),  # 15
        (ago(None, T0), "never"),  # 16
        (ago(T0, T0 + 4_999), ">just now<"),
        (ago(T0, T0 + 5_000), ">5 s ago<"),
        (ago(T0, T0, after=""), ">0 s<"),
        (number_ranges([3, 0, 1, 2, 7]), "0-3, 7"),  # 17
        (
            number_ranges(range(0, 100, 2)),
            "0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30, 32, 34, 36, 38 and 30 more",
        ),
        (bars([], words="<none>"), "&lt;none&gt;"),  # 19
        (group_address("a/b", "eu"), "/groups/a%2Fb?cluster=eu"),  # 20
        (group_address(".."), "/groups/?group=.."),  # 21
        (str(group_address("\udcff")), "None"),  # 22
    ],
)
def test_words(said: str, is_: str) -> None:
    assert is_ in said
