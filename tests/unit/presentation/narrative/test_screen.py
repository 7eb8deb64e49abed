"""An explanation on one screen: the answer in 25 words, all of it in 24 lines of 80 columns, each advice with its
runbook; for the captured groups, and for generated histories."""

from __future__ import annotations

import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.cli.tables import fold_words
from agent.common.sanitize import printable
from agent.core.causes import Cause
from agent.presentation.narrative.advice import MAX_ITEMS, RUNBOOK_OF, RUNBOOKS
from agent.presentation.narrative.brief import LABEL_WIDTH, fit_screen
from agent.presentation.narrative.explain import Story, StoryRequest, explain
from agent.presentation.narrative.gains import Gain, Gains
from agent.presentation.narrative.words import MAX_NAME, shortened_words, within_words
from analyzers.registry import known_analyzers
from tests import ROOT
from tests.unit.presentation.narrative import made as m
from tests.unit.presentation.narrative.golden import histories, story
from tests.unit.presentation.narrative.made import MINUTE, SECOND, T0

ANCHORS = {
    f"{RUNBOOKS}#{line.lstrip('# ').lower()}"
    for line in (ROOT / RUNBOOKS).read_text(encoding="utf-8").splitlines()
    if line.startswith(("## ", "### "))
}


def screen(told: Story) -> list[str]:
    return fit_screen(
        told.summary, told.brief, "--full shows more.", lambda text, cells: fold_words(printable(text), cells), 80
    )


def check(told: Story) -> None:
    words = re.sub(r"`[^`]*`", "name", told.summary).split()
    assert 0 < len(words) <= 25, told.summary
    lines = screen(told)
    assert len(lines) <= 24, "\n".join(lines)
    assert max(map(len, lines)) <= 80, "\n".join(lines)
    assert len(told.advice) <= MAX_ITEMS
    shown = set(re.findall(rf"{RUNBOOKS}#\w+", "\n".join(lines)))
    for at, text in enumerate(told.advice, 1):
        anchors = set(re.findall(rf"{RUNBOOKS}#\w+", text))
        assert anchors <= ANCHORS
        assert anchors <= shown or not any(line[LABEL_WIDTH:].startswith(f"{at}. ") for line in lines)


@pytest.mark.parametrize("group", histories())
def test_a_captured_group(group: str) -> None:
    told = story(group)
    check(told)
    shown = "\n".join(screen(told))
    assert "…" not in shown, "what is said of a real group is said whole"
    for at, _ in enumerate(told.advice, 1):
        assert f"{at}. " in shown


def test_each_analyzer_has_a_runbook() -> None:
    assert RUNBOOK_OF.keys() == known_analyzers().keys()
    assert {f"{RUNBOOKS}#{it}" for it in RUNBOOK_OF.values() if it} <= ANCHORS


@st.composite
def stories(draw: st.DrawFn) -> Story:
    """Any members, of names of any length, that leave for any cause, with findings of strangers' and replays."""
    names = draw(st.lists(st.text("ab-_. é", min_size=1, max_size=80), min_size=1, max_size=6, unique=True))
    group = draw(st.text("gh-_. ", min_size=1, max_size=80))
    events: list[dict[str, Any]] = []
    at_ms = T0
    for generation in range(draw(st.integers(0, 12))):
        at_ms += draw(st.sampled_from([SECOND, MINUTE, 3_600_000, 90_000_000]))
        cause = draw(st.sampled_from([*map(str, Cause), "of_later"]))
        left = [
            m.gone(it, draw(st.sampled_from([cause, "session_timeout", "unknown_departure"])), draw(st.floats(0, 1)))
            for it in draw(st.lists(st.sampled_from(names), max_size=3))
        ]
        joined = [m.member(it) for it in draw(st.lists(st.sampled_from(names), max_size=3))]
        events.append(
            m.rebalance(
                generation, cause, at_ms, left=left, joined=joined, stopped_ms=draw(st.sampled_from([None, 0, 10**8]))
            )
        )
    advice = draw(st.text("word. ", max_size=400))
    findings = [
        m.finding(
            name, T0, summary=draw(st.text("long word. ;:", max_size=300)) + "x", advice=advice, severity=severity
        )
        for name in draw(st.lists(st.sampled_from([*RUNBOOK_OF, "of_a_stranger"]), max_size=4, unique=True))
        for severity in [draw(st.sampled_from(["info", "warning", "critical"]))]
    ]
    gain = Gain(
        "static membership", (f"group.instance.id={'i' * 300}",), "in every client's configuration", 9, 4, 90, 9
    )
    gains = draw(st.sampled_from([None, Gains(untold="no"), Gains((gain,) * 3, 3, 9, 90, 9, 90, 9, 9)]))
    form = draw(
        st.sampled_from([None, m.form(), m.form(members=[], state="Empty"), m.form(state="CompletingRebalance")])
    )
    is_live = draw(st.booleans())
    complete_ms = draw(st.sampled_from([None, T0 + SECOND, at_ms + 2 * MINUTE])) if is_live else None
    asked = StoryRequest(
        group, at_ms + MINUTE, is_live=is_live, of_agent=is_live, since_ms=draw(st.sampled_from([None, T0])),
        complete_since_ms=complete_ms,
    )  # fmt: skip
    return explain(asked, events, findings, form, gains=gains)


@given(stories())
def test_a_made_up_group(told: Story) -> None:
    check(told)


def test_what_gives_way() -> None:
    lost = [
        m.rebalance(at, "session_timeout", T0 + at * SECOND, left=[m.gone(f"{at}{'x' * 70}", "session_timeout")])
        for at in range(9)
    ]
    long = m.finding("session_timeout", advice=f"Do {'this ' * 200}now. And more.", summary="s")
    lines = screen(explain(StoryRequest("g" * 80, T0 + MINUTE), lost, [long], m.form()))
    assert len(lines) <= 24
    assert any(line.startswith("What to do") for line in lines)
    assert any(line.endswith("…") for line in lines), "a stranger's advice is cut"
    assert all(
        line[:LABEL_WIDTH].strip() in ("", "What happened", "Why", "How sure", "What to do") for line in lines[4:-1]
    )


def test_words_within() -> None:
    assert within_words(["One two three.", "Four five six.", "Seven."], 4) == "One two three. Seven."
    assert shortened_words("One two three four; five six seven", 5) == "One two three four."
    assert shortened_words("one two three four five six", 4) == "one two three …"
    assert within_words([f"`{'a b ' * 20}` left.", "It is gone."], 5) == f"`{'a b ' * 20}` left. It is gone."
    assert MAX_NAME == 60
