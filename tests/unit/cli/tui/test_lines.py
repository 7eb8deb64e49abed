"""The pure rooms of `watch`: rows, their order, widths, bars, the map, moves, what is new."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from rich.cells import cell_len

from agent.cli.answers import SourceNotReady
from agent.cli.following import OVERLAP_MS
from agent.cli.tui import group_lines
from agent.cli.tui.assignment_map import assignment_map
from agent.cli.tui.fleet import Key, RecentRebalances, build_fleet, sorted_rows
from agent.cli.tui.fleet_lines import (
    MAX_TROUBLE_LINES,
    SourceStatus,
    change_lines,
    heading_line,
    layout,
    row_height,
    row_lines,
    status_line,
    summary,
    trouble_lines,
)
from agent.cli.tui.group_state import EventHistory, GroupState, LagHistory, PartitionMoves
from agent.cli.tui.keys import FLEET_KEYS, GROUP_KEYS, help_lines, keys_line
from agent.cli.tui.lines import Line, fitted, justified, short_age, short_number, sparkline, wrap
from agent.cli.tui.poller import MAX_TIMELINES, RECENT_MS, Poller
from agent.cli.tui.styles import styles
from agent.core.queries import Capabilities, Health, Timeline
from tests.unit.cli.hostile import TEXTS
from tests.unit.cli.tui.made import Answers, described, member, row
from tests.unit.presentation.narrative import made as m

A, B = Key(None, "a"), Key(None, "b")


def text(line: Line) -> str:
    return "".join(piece for piece, _ in line)


def texts(lines: Sequence[Line]) -> list[str]:
    return [text(line).rstrip() for line in lines]


STALE = {"offset": 4, "since_ms": m.T0, "group": "x\x1b[2J", "transactional_ids": ["tx\x1b[2J"]}


def test_a_group_that_may_stand_otherwise_by_now() -> None:
    rows = [row("a"), row("b", stale=STALE), row("c", stale=STALE)]
    fleet = build_fleet(rows, [m.finding("poll_timeout", group="c", severity="critical")], {}, m.T0)
    at = layout(180, 10)
    shown = {it.name: texts(row_lines(it, at, m.T0)) for it in fleet.rows}
    assert "stale" not in shown["a"][0]
    assert "▲W b" in shown["b"][0]
    assert "stale since 14:13:20: an open transaction hides what was written since then" in shown["b"][0]
    assert "✖C c" in shown["c"][0], "what is worse stays so"
    assert "stale since 14:13:20 (+1): an open transaction" in shown["c"][0]
    assert [it.name for it in fleet.rows if "stale" in it.search_text] == ["b", "c"]
    watched = GroupState(B, described(group="b", stale=STALE), at_ms=m.T0 + 240_000)
    assert " ".join(texts(group_lines.fact_lines(watched, 200))[1].split()) == (
        "▲ What is known of `b` is as of 14:13:20 UTC: transaction `tx\\u001b[2J` that commits offsets of "
        "`x\\u001b[2J` has been open for 4 min and hides what was written since."
    )


@pytest.mark.parametrize(
    ("given", "width", "made"),
    [
        ("abc", 5, "abc  "),
        ("abcdef", 5, "abcd…"),
        ("日本語", 5, "日本…"),
        ("日本語", 4, "日 …"),
        ("e\u0301e\u0301", 2, "e\u0301e\u0301"),
        ("abc", 0, ""),
    ],
)
def test_fit(given: str, width: int, made: str) -> None:
    assert fitted(given, width) == made
    assert cell_len(made) == width


def test_wrap() -> None:
    assert wrap("to be or not to be", 6) == ["to be", "or not", "to be"]
    assert wrap("abcdefgh ij", 3) == ["abc", "def", "gh", "ij"]
    assert wrap("", 5) == [""]
    assert all(cell_len(it) <= 7 for it in wrap("日本語日本語 日本" * 5, 7))


@pytest.mark.parametrize(
    ("value", "said"),
    [
        (None, "-"),
        (0, "0"),
        (9_999, "9999"),
        (10_000, "10.0k"),
        (99_960, "100k"),
        (999_499, "999k"),
        (999_600, "1.0M"),
        (12_345_678, "12.3M"),
        (10**12, "1.0T"),
        (10**21, "1000E"),
    ],
)
def test_human(value: int | None, said: str) -> None:
    assert short_number(value) == said


@pytest.mark.parametrize(
    ("ms", "said"), [(None, "-"), (-5, "0s"), (99_000, "99s"), (100_000, "1m"), (7_200_000, "2h"), (10**9, "11d")]
)
def test_age(ms: int | None, said: str) -> None:
    assert short_age(ms) == said


def test_spark_has_gaps_where_nothing_is_known() -> None:
    points: list[tuple[int, int | None]] = [(at, at) for at in range(8)]
    assert sparkline(points, 8) == ["▁▁▂▃▅▆▇█"]
    assert sparkline([(0, 0), (1, 0)], 4) == ["▁▁  "], "zero is known"
    assert sparkline([(0, 5), (1, None), (2, 5)], 3) == ["█ █"]
    assert sparkline([], 3) == ["   "]
    # Looks at 0, 1, 2 and, after a while away, 20, 21.
    away = sparkline([(at, 1) for at in (0, 1, 2, 20, 21)], 5)
    assert away == ["█   █"]
    assert sparkline([(0, 1), (1, 2)], 2, 2) == [" █", "██"]


def test_beside_always_leaves_a_gap() -> None:
    line = justified([("left", ""), ("more", "dim")], [("right", "")], 12)
    assert text(line) == "leftm… right"
    assert cell_len(text(justified([("x" * 30, "")], [("right", "")], 12))) == 12


def test_late_counts_what_came_between_looks_and_before_the_first() -> None:
    late = RecentRebalances(window_ms=1_000)
    late.seed(A, [100, 900])
    assert late.update({A: 5, B: 7}, 1_000) == {A: 2}
    assert late.update({A: 5, B: 9}, 1_200) == {A: 1, B: 2}
    assert late.update({B: 9}, 1_300) == {B: 2}, "a is gone"
    assert late.update({A: 50, B: 0}, 2_500) == {}, "a is new, b began anew"


def test_rows_by_trouble_and_otherwise() -> None:
    groups = [
        row("calm", lag=5),
        row("late", lag=None),
        row("warned"),
        row("both", members=9),
        row("far", lag=900, last_commit_ms=-1),
    ]
    findings = [
        m.finding("idle_members", group="both", severity="info"),
        m.finding("rebalance_storm", group="both", severity="critical"),
        m.finding("poll_timeout", group="warned"),
        m.finding("coordinator_hotspot", group=None),
        m.finding("of another version", group="calm", severity="dreadful"),
    ]
    made = build_fleet(groups, findings, {Key(None, "late"): 3}, m.T0)
    names = [it.name for it in sorted_rows(made.rows)]
    assert names == ["both", "(cluster)", "warned", "calm", "late", "far"]
    assert [it.name for it in sorted_rows(made.rows, "l")][:2] == ["far", "calm"]
    assert next(it.name for it in sorted_rows(made.rows, "m")) == "both"
    assert [it.name for it in sorted_rows(made.rows, "n", "STABLE  a")] == ["both", "calm", "far", "late", "warned"]
    assert [it.name for it in sorted_rows(made.rows, search="critical storm")] == ["both"]
    assert made.groups == 5
    assert made.by_key[Key(None, "both")].findings == ("rebalance_storm", "idle_members")
    several = build_fleet([row("g", cluster="x"), row("g", cluster="y")], [], {}, m.T0)
    assert [it.name for it in several.rows] == ["x/g", "y/g"]


def test_findings_of_clusters() -> None:
    found = [m.finding("rebalance_storm", cluster="x"), m.finding("coordinator_hotspot", cluster="x", group=None)]
    several = build_fleet([row("g", cluster="x"), row("g", cluster="y")], found, {}, m.T0)
    assert [(it.name, it.findings) for it in several.rows] == [
        ("x/g", ("rebalance_storm",)),
        ("y/g", ()),
        ("(cluster) x", ("coordinator_hotspot",)),
    ]
    # An agent of one cluster that has a name: only its events have it.
    one = build_fleet([row("g")], found, {}, m.T0)
    assert [(it.name, it.findings) for it in one.rows] == [
        ("g", ("rebalance_storm",)),
        ("(cluster)", ("coordinator_hotspot",)),
    ]


@pytest.mark.parametrize("width", [20, 39, 40, 55, 79, 80, 100, 139, 240])
def test_every_line_is_as_wide_as_it_should_be(width: int) -> None:
    names = ["g", "日本語" * 30, "a-name-of-a-usual-length", *TEXTS.values()]
    groups = [row(name, lag=123_456_789, rebalances=99_999, generation=123_456) for name in names]
    found = [m.finding("a_rather_long_analyzer_name", group=name) for name in names for _ in range(2)]
    made = build_fleet(groups, found, {Key(None, "g"): 5}, m.T0)
    at = layout(width, max(cell_len(it.name) for it in made.rows))
    assert cell_len(text(heading_line(at))) == width
    for it in made.rows:
        lines = row_lines(it, at, m.T0 + 10**9)
        assert len(lines) == row_height(it, at)
        for line in lines:
            assert cell_len(text(line)) == width - 1, "the pointer has the first column"
            assert text(line).isprintable()
    for live in (True, False):
        for lost in (None, "gone"):
            first = status_line(SourceStatus("at " + "x" * 300, live, m.T0, m.T0, lost), made, width)
            assert cell_len(text(first)) <= max(width, 34)
    assert cell_len(text(summary(made, 3, "t", "what" * 5, width))) <= max(width, 48)
    for keys in (FLEET_KEYS, GROUP_KEYS):
        line = keys_line(keys, width)
        assert cell_len(text(line)) <= width
        assert "q quit" in text(line)
    known = styles(True)
    assert {style for line in help_lines(width) for _, style in line} <= set(known)
    assert all(cell_len(text(line)) <= max(width, 32) for line in help_lines(width))


def test_trouble_goes_on_below() -> None:
    said = "6 rebalances within 2.8 min: one every 28.2 s, and partitions without an owner for 12 % of the time."
    storm = trouble_lines(("rebalance_storm",), said, 48)
    assert " ".join(storm) == f"rebalance_storm: {said}", "all of it, broken at blanks"
    assert (len(storm), max(map(cell_len, storm)) <= 48) == (3, True)
    assert trouble_lines(("rebalance_storm", "idle_members"), said, 20) == ("rebalance_storm,", "idle_members")
    assert trouble_lines((), "", 48) == ("",)
    for endless in ("日本語" * 10_000, "a" * 10_000, "to be " * 10_000):
        lines = trouble_lines(("a",), endless, 40)
        assert (len(lines), lines[-1].endswith("…")) == (MAX_TROUBLE_LINES, True)
    assert trouble_lines(("a",), "b", 0) == ("a",), "no room at all"


@pytest.mark.parametrize("width", [30, 40, 80, 140])
@pytest.mark.parametrize("name", TEXTS)
def test_a_group_page_of_hostile_names(name: str, width: int) -> None:
    stranger = TEXTS[name]
    members = [member(f"{stranger}-{number}", **{stranger: [number], "t": [2 * number]}) for number in range(3)]
    offsets: list[dict[str, Any]] = [{"topic": stranger, "partition": 7, "lag": 9}]
    form = described(*members, offsets=offsets, group=stranger, protocol=stranger, state=stranger, lag=9)
    found = m.finding(stranger, group=stranger, severity=stranger, summary=stranger, advice=stranger)
    points = [(m.T0 + number, number) for number in range(100)]
    history = EventHistory()
    history.add([m.event("rebalance", group=stranger, **REBALANCE, joined=[m.member(stranger)], left=[])], None)
    watched = GroupState(Key(None, stranger), form, history.entries, (found,), lag=points, at_ms=m.T0)
    for line in [
        *group_lines.one_column(watched, width),
        *group_lines.left_column(watched, width),
        *group_lines.right_column(watched, width),
    ]:
        assert text(line).isprintable()
        assert cell_len(text(line)) <= width, text(line)


def test_the_age_of_offsets_that_were_looked_at() -> None:
    """Lag counts from them: what was committed since is in it."""
    form = {**described(lag=9), "offsets_seen_ms": m.T0}

    def said(age_ms: int) -> str:
        return " ".join(
            " ".join(texts(group_lines.lag_section(GroupState(A, form, at_ms=m.T0 + age_ms), 200))).split()
        )

    assert said(59_999) == "Lag 9 records"
    assert said(180_000) == (
        "Lag 9 records ▲ the committed offsets were read 3 min ago; what the group has committed since counts as lag"
    )


REBALANCE = {
    "generation": 2,
    "previous_generation": 1,
    "cause": "member_joined",
    "causes": ["member_joined"],
    "confidence": 1.0,
    "evidence": [],
    "observed": True,
    "protocol": "range",
    "members": 2,
    "sync_ms": None,
    "join_ms": None,
    "stopped_partition_ms": None,
}


def test_the_map() -> None:
    form = described(
        member("app-1", orders=[0, 1, 2], pay=[0]),
        member("app-2", orders=[4]),
        member("other-1"),
        offsets=[{"topic": "orders", "partition": 3}],
    )
    watched = GroupState(A, form, moved=frozenset({("orders", 4)}), moves_known=True)
    assert texts(assignment_map(watched, 60)) == [
        "                   orders pay",
        "                   01234  0",
        " app app-1      4  ■■■··  ■",
        " app app-2      1  ····◆  ·",
        " other          0  ·····  ·",
        " (unassigned)   1  ···□·  ·",
        " ■ a partition held   ◆ moved last (1)   □ unassigned",
    ]
    # No room for a column for each partition: each row has its own.
    many = described(member("a-1", orders=list(range(100)), pay=[1, 2]), member("b-1", pay=[3]))
    packed = texts(assignment_map(GroupState(A, many), 40))
    assert packed[0].startswith(" a 102  a■■■■■■■■")
    assert packed[0].endswith("+77")
    assert packed[1] == " b   1  b■"
    assert packed[2] == " a=orders (100)  b=pay (3)"
    nobody = texts(assignment_map(GroupState(A, described(offsets=[{"topic": "t", "partition": 0}])), 80))
    assert nobody == [" The group has no members; 1 partition with commits."]


def test_moves() -> None:
    moves = PartitionMoves()
    moves.update([member("a", t=[0, 1])], 1)
    assert (moves.moved, moves.known) == (frozenset(), False)
    moves.update([member("a", t=[0]), member("b", t=[1])], 2)
    assert (moves.moved, moves.known) == ({("t", 1)}, True)
    moves.update([member("a", t=[]), member("b", t=[1])], 2)
    moves.update([member("a", t=[]), member("b", t=[0, 1])], 2)
    assert moves.moved == {("t", 0), ("t", 1)}, "one by one, within one epoch"
    moves.update([member("a", t=[]), member("b", t=[0, 1])], 3)
    assert moves.moved == frozenset()
    moves.update([], 4)
    assert (moves.moved, moves.known) == (frozenset(), True)


def test_history_puts_overlapping_answers_together() -> None:
    history = EventHistory()
    events = [m.event("group_created", m.T0 + number, observed=True) for number in range(3)]
    history.add(events[:2], 5)
    history.add(events[1:], m.T0 + 1)
    assert [it.at_ms for it in history.entries] == [m.T0, m.T0 + 1, m.T0 + 2]
    assert (history.since_ms(m.T0 + 9), history.complete_since_ms) == (m.T0 + 2 - OVERLAP_MS, 5)
    history.add([m.event("group_deleted", m.T0 + 10 + number) for number in range(1_000)], None)
    assert len(history.entries) == 1_000
    assert history.complete_since_ms == m.T0 + 3


def test_an_open_group_shows_what_is_told_late() -> None:
    """What happened to a pod is known seconds after the event, and after newer ones; the clock of the broker that
    coordinates the group now may be behind the one's before."""
    source = Answers()
    source.forms["g"] = described()
    gone = m.rebalance(2, at_ms=m.T0, left=[m.gone("app", "session_timeout")])
    newer = m.rebalance(3, at_ms=m.T0 + 5_000, joined=[m.member("app", 2)])
    source.events["g"] = [gone, newer]
    asker = Poller(source, lambda: m.T0)  # type: ignore[arg-type]

    def shown() -> str:
        return " ".join(texts(group_lines.timeline_section(asker.poll_group(Key(None, "g")), 300)))

    assert "session timed out" in shown()
    assert "OOM-killed" not in shown()
    known = {**gone, "left": [{**gone["left"][0], "origin": ORIGIN}]}
    source.events["g"] = [known, newer, m.rebalance(4, at_ms=m.T0 + 1_000, joined=[m.member("late")])]
    assert "OOM-killed" in shown()
    assert "`late` joined" in shown()


def test_an_open_group_shows_what_comes_after_an_event_that_is_dated_ahead() -> None:
    source = Answers()
    source.forms["g"] = described()
    source.events["g"] = [m.rebalance(2, at_ms=m.T0 + 3_000_000, joined=[m.member("ahead")])]
    asker = Poller(source, lambda: m.T0)  # type: ignore[arg-type]
    assert len(asker.poll_group(Key(None, "g")).entries) == 1
    source.events["g"].append(m.rebalance(3, at_ms=m.T0 + 1_000, joined=[m.member("next")]))
    assert len(asker.poll_group(Key(None, "g")).entries) == 2


ORIGIN = {
    "kind": "oom_killed",
    "at_ms": m.T0,
    "namespace": "default",
    "pod": "app-1",
    "container": "app",
    "node": None,
    "workload": None,
    "revision": None,
    "exit_code": 137,
    "message": "",
}


def test_lags() -> None:
    lags = LagHistory()
    lags.record({A: None, B: 5}, 1)
    lags.record({A: 1, B: None}, 2)
    assert (lags.points(A), lags.points(B)) == (((2, 1),), ((1, 5), (2, None)))
    lags.record({A: 2}, 3)
    assert lags.points(B) == ()


def test_a_source_that_is_not_ready_is_not_asked_further() -> None:
    source = Answers()
    source.health = Health(False, "12 records to go")
    asker = Poller(source, lambda: m.T0)
    with pytest.raises(SourceNotReady, match="12 records to go"):
        asker.poll_fleet()
    source.health = Health(True, "")
    assert asker.poll_fleet().first
    source.health = Health(False, "")
    told = asker.poll_fleet()
    assert not told.fleet.ready
    assert "▲ behind" in text(status_line(SourceStatus("x", True, m.T0, m.T0), told.fleet, 80))


def test_a_source_that_hangs_is_not_called_caught_up() -> None:
    fleet = Poller(Answers(), lambda: m.T0).poll_fleet().fleet
    for age_ms, said in ((10_000, "● caught up · 10s old"), (12_000, "◌ no answer yet · 12s old")):
        assert said in text(status_line(SourceStatus("x", True, m.T0 + age_ms, m.T0), fleet, 80))
    slow = SourceStatus("x", True, m.T0 + 90_000, m.T0, late_ms=180_000)
    assert "● caught up" in text(status_line(slow, fleet, 80)), "it is asked once a minute"


def test_lag_is_never_more_than_at_most() -> None:
    """The newest lag may not be among the points yet."""
    told = texts(group_lines.lag_section(GroupState(A, described(lag=364), lag=((m.T0, 8), (m.T0 + 1, 4))), 80))
    assert "364 records, at most 364" in " ".join(told)


@pytest.mark.parametrize(
    ("groups", "complete_since_ms", "is_partial"),
    [
        (MAX_TIMELINES, None, False),
        (MAX_TIMELINES + 1, None, True),
        (1, m.T0 - 1, True),
        (1, m.T0 - RECENT_MS, False),
    ],
)
def test_rebalances_of_before_the_first_look_that_may_be_more(
    groups: int, complete_since_ms: int | None, is_partial: bool
) -> None:
    """Of more groups than are asked about, or than the agent remembers."""
    now_ms = m.T0
    source = Answers()
    source.rows = [row(f"g{number}") for number in range(groups)]
    told = Timeline([m.rebalance(2, at_ms=m.T0 - 5)], complete_since_ms)
    source.timeline = lambda group, since_ms=None: told if group == "g0" else Timeline([])  # type: ignore[method-assign, misc]
    asker = Poller(source, lambda: now_ms)  # type: ignore[arg-type]
    source.capabilities = Capabilities(live=True)
    for _ in range(2):
        shown = text(summary(asker.poll_fleet().fleet, groups, "t", "", 120))
        assert f"{'at least ' if is_partial else ''}1 rebalance in the last 10 min" in shown
        assert ("at least" in shown) == is_partial
    now_ms += RECENT_MS
    assert "at least" not in text(summary(asker.poll_fleet().fleet, groups, "t", "", 120))


def test_a_group_that_is_gone() -> None:
    asker = Poller(Answers(), lambda: m.T0)
    watched = asker.poll_group(A)
    assert "gone" in texts(group_lines.one_column(watched, 80))[0]
    assert asker.explain(A).sections == ()
    assert "no such group" in texts(group_lines.explained_lines(asker.explain(A), 80))[0]


def test_a_group_of_one_of_several_clusters_has_its_own_findings() -> None:
    source, eu = Answers(), Answers()
    source.of_cluster = lambda cluster: {"eu": eu}[cluster]  # type: ignore[method-assign]
    eu.events["g"], eu.forms["g"] = [], described()
    source.open = [m.finding("stalled_consumer", cluster="us", summary="of another")]
    asker, key = Poller(source, lambda: m.T0), Key("eu", "g")  # type: ignore[arg-type]
    assert asker.poll_group(key).findings == ()
    assert "of another" not in str(asker.explain(key).sections)
    eu.open = [m.finding("stalled_consumer", cluster="eu", summary="its own")]
    assert len(asker.poll_group(key).findings) == 1
    assert "its own" in str(asker.explain(key).sections)


def test_who_watches_an_agent_is_told_what_the_agent_lacks() -> None:
    source = Answers()
    source.capabilities = Capabilities(live=True)
    source.forms["g"] = described()
    source.events["g"] = [m.rebalance(2, at_ms=m.T0, left=[m.gone("app", "unknown_departure")])]
    told = str(Poller(source, lambda: m.T0).explain(Key(None, "g")).sections)  # type: ignore[arg-type]
    assert "an agent with --broker-log PATH" in told


def test_news_fit() -> None:
    told = Poller(Answers(), lambda: m.T0).poll_fleet()
    assert change_lines(told.changes, 80, 3) == []


def test_rebalances_of_before_the_first_look_that_no_state_tells_of() -> None:
    """A share group's state is as old as its first member."""
    source = Answers()
    source.capabilities = Capabilities(live=True)
    source.rows = [
        row("share", group_type="share", state_since_ms=m.T0 - 2 * RECENT_MS, rebalances=9),
        row("classic", state_since_ms=m.T0 - 2 * RECENT_MS),
    ]
    source.events = {"share": [m.rebalance(2, at_ms=m.T0 - 5, group="share")]}
    told = Poller(source, lambda: m.T0).poll_fleet()  # type: ignore[arg-type]
    assert [group for group, _ in source.asked] == ["share"]
    assert told.fleet.recent_rebalances == 1


def test_a_finding_says_as_of_when_its_summary_is() -> None:
    """The counts beside it are of now, and it is not written anew with each case."""
    found = m.finding(at_ms=m.T0 + 60_000, since_ms=m.T0)
    said = [text(it) for it in group_lines.findings_section([found], 200, m.T0 + 600_000)]
    assert any("warning, open for 10 min, as of 14:14:20: too many rebalances" in it for it in said)
