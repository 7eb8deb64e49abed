"""Any history makes a drawing that is well formed, bounded, and holds nothing of strangers' but text."""

from __future__ import annotations

import re
from itertools import accumulate, pairwise
from typing import Any
from xml.etree import ElementTree

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agent.presentation.markup import escape, fitting, name, name_fitting, width_of
from agent.presentation.svg.lanes import build_lanes
from agent.presentation.svg.scale import Scale
from agent.presentation.svg.style import STYLE
from agent.presentation.svg.swimlane_table import swimlane_table
from agent.presentation.svg.swimlanes import MAX_LANES, swimlanes
from tests import examples
from tests.unit.presentation.narrative import made as m
from tests.unit.presentation.narrative.golden import histories
from tests.unit.presentation.narrative.made import DAY, MINUTE, SECOND, T0
from tests.unit.presentation.narrative.test_origins import lost, origin
from tests.unit.presentation.svg.golden import FILE, drawn

NS = "{http://www.w3.org/2000/svg}"
HOSTILE = "</text><script>alert(1)</script>\x1b[31m\u202e'\"&"
OURS = {"svg", "g", "rect", "path", "text", "circle", "title"}
ATTRIBUTES = {
    *("class", "x", "y", "width", "height", "rx", "r", "cx", "cy", "d", "transform"),
    *("viewBox", "role", "aria-label", "aria-hidden"),
}


def check(svg: str) -> ElementTree.Element:
    root = ElementTree.fromstring(svg)
    for element in root.iter():
        assert element.tag.removeprefix(NS) in OURS
        assert set(element.attrib) <= ATTRIBUTES
        assert "nan" not in str(element.attrib.get("d")), element.attrib
    assert "url(" not in svg
    assert "style" not in svg
    assert "http" not in svg.replace(NS[1:-1], "")
    return root


clients = st.sampled_from(["a", "b", HOSTILE, "", "x" * 300, "名前", "\u0627"])
members = st.builds(
    m.member, clients, st.integers(1, 3), host=st.sampled_from(["/h", HOSTILE]), instance_id=st.none() | clients
)
causes = st.sampled_from(["session_timeout", "poll_timeout", "member_left", "unknown_departure", "new<cause>"])
steps = st.sampled_from([0, 1, 50, SECOND, 60 * SECOND, DAY])


@st.composite
def stories(draw: st.DrawFn) -> list[dict[str, Any]]:
    out: list[dict[str, Any]] = []
    moments = accumulate(draw(st.lists(steps, max_size=30)), initial=T0)
    for generation, at_ms in enumerate(moments, 1):
        match draw(st.integers(0, 6)):
            case 0:
                out.append(m.finding(draw(st.sampled_from(["storm", HOSTILE])), at_ms, summary=HOSTILE))
            case 1:
                old, new = draw(members), draw(members)
                more = {"generation": generation, "old_member": old, "member": new}
                out.append(m.event("static_member_replaced", at_ms, **more))
            case 2:
                out.append(m.event(draw(st.sampled_from(["group_deleted", "group_created"])), at_ms, observed=True))
            case 3:
                out.append(m.event("group_emptied", at_ms, generation=generation))
            case _:
                left = [
                    {**draw(members), "cause": draw(causes), "confidence": 0.9}
                    for _ in range(draw(st.integers(0, 2)))
                ]
                silent = [m.gap("a", draw(st.integers(1, 90_000))) | {"member_id": it["member_id"]} for it in left]
                joined = draw(st.lists(members, max_size=3))
                stopped = draw(st.none() | st.integers(0, 10**7))
                cause = draw(causes)
                out.append(
                    m.rebalance(
                        generation, cause, at_ms, left=left, joined=joined, evidence=silent, stopped_ms=stopped
                    )
                )
                more = {"assigned_partitions": draw(st.integers(0, 9)), "gained_partitions": 0, "lost_partitions": 0}
                out.append(m.event("assignment_changed", at_ms, generation=generation, **more))
    return out


@settings(max_examples=examples(120), deadline=None)
@given(stories(), st.sampled_from([320, 360, 960, 1440]), steps, st.integers(0, 3 * DAY))
def test_any_history_makes_a_drawing(events: list[dict[str, Any]], width: int, later: int, lasts: int) -> None:
    shown = build_lanes(events, since_ms=T0 + later, until_ms=T0 + later + lasts, members=[m.member(HOSTILE, 9)])
    svg = swimlanes(shown, width=width)
    assert len(svg) < 200_000
    root = check(svg)
    assert root.attrib["role"] == "img"
    assert root.attrib["aria-label"]
    table = ElementTree.fromstring(swimlane_table(shown))
    assert {element.tag for element in table.iter()} <= {"table", "caption", "thead", "tbody", "tr", "th", "td"}


@pytest.mark.parametrize("width", [360, 960])
def test_hundreds_of_members_and_thousands_of_rebalances_are_bounded(width: int) -> None:
    events = []
    for at in range(4_000):
        who = m.member(f"worker-{at % 500}", at, host=f"/10.0.{at % 500}.1")
        events.append(m.rebalance(2 * at, at_ms=T0 + at * SECOND, joined=[who], members=400, stopped_ms=400))
        gone = {**who, "cause": "session_timeout", "confidence": 0.9}
        events.append(m.rebalance(2 * at + 1, "session_timeout", T0 + at * SECOND + 500, left=[gone], members=399))
    shown = build_lanes(events, since_ms=T0, until_ms=T0 + DAY)
    svg = swimlanes(shown, width=width)
    assert len(svg) < 250_000
    texts = [element.text or "" for element in check(svg).iter(f"{NS}text")]
    assert f"{500 - MAX_LANES} more" in texts, "what has no lane of its own is counted"


def test_what_the_picture_of_a_crash_loop_says() -> None:
    told = histories()["audit-loop"]
    shown = build_lanes(told.events, since_ms=told.events[0]["at_ms"], until_ms=told.now_ms)
    root = check(swimlanes(shown, width=960))
    texts = [element.text or "" for element in root.iter(f"{NS}text")]
    for said in (
        "audit-loop-crash",
        "audit-loop-good",
        "session timed out (94 %)",
        "7: session timed out",
        "07:28:30",
    ):
        assert said in texts, texts
    assert len([it for it in root.iter(f"{NS}g") if it.attrib["class"] == "session"]) == 5 + 1, "and in the legend"
    assert "5 times session_timeout".replace("_", " ") in root.attrib["aria-label"]
    rows = re.findall(r"<tr><th scope=\"row\">(.*?)</th>", swimlane_table(shown))
    assert len(rows) == 8
    assert rows[0] == "2026-11-21 07:27:49"


def test_ticks_are_round_and_apart() -> None:
    for span in (0, 500, 7 * SECOND, 3600 * SECOND, 3 * DAY, 400 * DAY, 10**15):
        ticks = Scale(T0 + 123, T0 + 123 + span, 100, 900).ticks()
        places = [x for x, _ in ticks]
        assert len(ticks) <= 11
        assert all(b - a > 60 for a, b in pairwise(places))
    hour = Scale(T0, T0 + 3600 * SECOND, 100, 900).ticks()
    assert [word for _, word in hour][:2] == ["14:20", "14:30"]


def test_names_are_cut_to_their_room() -> None:
    assert fitting("short", 12, 100) == "short"
    assert fitting("a name that is too long", 12, 60).endswith("…")
    assert name_fitting("payments-consumer-0017", 12, 100).endswith("0017")
    assert width_of(name_fitting("payments-consumer-0017", 12, 100), 12) <= 100
    assert fitting("abc", 12, 1) == ""
    assert escape("<b>") == "&lt;b&gt;"
    assert name("") == "<bdi>&quot;&quot;</bdi>"
    assert len(name("x" * 32_767)) < 200


def _luminance(color: str) -> float:
    parts = [int(color[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    linear = [it / 12.92 if it <= 0.04045 else ((it + 0.055) / 1.055) ** 2.4 for it in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def _contrast(one: str, other: str) -> float:
    light, dark = sorted((_luminance(one), _luminance(other)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


def test_colours_stand_out_from_their_grounds() -> None:
    themes = [dict(re.findall(r"--([\w-]+): (#\w{6})", part)) for part in STYLE.split("@media screen")[:2]]
    for colors in themes:
        for key in ("joined", "left", "session", "poll", "removed", "unknown", "other", "replaced", "stop"):
            assert _contrast(colors[key], colors["ground"]) >= 3, key
            assert _contrast(colors[key], colors["mark-ink"]) >= 3, key
        for text, ground in (
            ("text", "ground"),
            ("text", "lane"),
            ("soft", "ground"),
            ("soft", "band"),
            ("link", "band"),
        ):
            assert _contrast(colors[text], colors[ground]) >= 4.5, (text, ground)
        for severity in ("critical", "warning", "info"):
            assert _contrast(colors[severity], colors[f"{severity}-ground"]) >= 4.5, severity
            assert _contrast(colors["text"], colors[f"{severity}-ground"]) >= 4.5, severity


def test_a_captured_group_is_drawn_as_it_was() -> None:
    assert drawn() == FILE.read_text(encoding="utf-8"), (
        "python -m tests.unit.presentation.svg.golden draws it anew: look at it"
    )


def test_what_happened_to_a_pod_stands_at_the_mark_and_in_the_row() -> None:
    event = lost(origin("oom_killed"))
    lanes = build_lanes([event], since_ms=T0 - MINUTE, until_ms=T0 + MINUTE)
    drawn = str(swimlanes(lanes, width=980))
    assert "by Kubernetes: OOM-killed at its limit of 512Mi (pod payments-2)" in drawn
    assert ">OOM-killed</text>" in drawn
    assert "Departures: once session timeout; by Kubernetes: OOM-killed." in drawn
    assert "(very likely, 96 %): OOM-killed at its limit of 512Mi" in swimlane_table(lanes)
    torn = build_lanes([lost(origin("oom_killed"), cause="member_left")], since_ms=T0 - MINUTE, until_ms=T0 + MINUTE)
    assert ">left, OOM-killed?</text>" in str(swimlanes(torn, width=980))


def test_generations_of_which_some_were_looked_at_have_no_numbers_together() -> None:
    seen = {"generation": None, "previous_generation": None, "sampled": True, "sampled_every_ms": 400}
    read, looked = m.rebalance(7, at_ms=T0 + SECOND), {**m.rebalance(8, at_ms=T0 + 2 * SECOND), **seen}
    for events in ([read, looked], [{**looked, "at_ms": T0}, read]):
        svg = swimlanes(build_lanes(events, since_ms=T0, until_ms=T0 + DAY))
        check(svg)
        assert "None" not in svg
