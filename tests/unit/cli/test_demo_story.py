"""How the demo tells: what stays where the output is no terminal, and groups whose stories come as a whole."""

from __future__ import annotations

import pytest

from agent.cli.demo_story import READ_WITHIN_S, Story, Teller
from agent.common import clock
from agent.core.diagnosis.api import Finding, FindingState, Severity
from agent.core.shadow.transitions import LogPosition
from agent.tools.demo import LedgerEntry, Scenario

A, B = (Scenario(name=it, group=it, story=f"The story of {it}.", topics={}, steps=()) for it in ("a", "b"))


@pytest.fixture
def teller():
    return Teller()


def entry(scenario, act, sentence="", members=()):
    return LedgerEntry(clock.now_ms(), scenario.name, scenario.group, act, members, sentence)


def finding(group, state=FindingState.FIRING):
    return Finding(
        at=LogPosition(0, 1, 1),
        group=group,
        group_type="classic",
        analyzer="storm",
        severity=Severity.WARNING,
        state=state,
        since_ms=1,
        summary="it \x1b[2Jrebalances",
        advice="",
        numbers={},
    )


def said(capsys):
    return [line.strip() for line in capsys.readouterr().out.splitlines()]


def test_what_passes_is_for_terminals(teller, capsys):
    teller.passing("12 of 45")
    teller.step("starting Kafka")
    assert said(capsys) == ["0 s  starting Kafka"]


def test_what_was_a_little_before_the_beginning_is_at_it(teller, capsys):
    teller.say_at(-0.001, "it began")
    assert said(capsys) == ["0 s  it began"]


def test_stories_come_as_a_whole_and_findings_at_once(teller, capsys, monkeypatch):
    story = Story(teller, [A, B])
    story.done(entry(A, "start", members=("a-1",)))
    story.done(entry(B, "start", members=("b-1",)))
    story.done(entry(A, "start", members=("a-2",)))
    story.done(entry(A, "kill", "kill -9 of a-1"))
    story.tell()
    assert said(capsys) == []
    story.read(finding("b"))
    assert said(capsys) == ["0 s  finding in b, warning: it \\u001b[2Jrebalances"]
    story.read(finding("b", FindingState.RESOLVED))
    story.done(entry(A, "finished", "the story is over"))
    story.tell()
    assert said(capsys) == [], "what was done last may still be read"
    began = teller._began
    monkeypatch.setattr(teller, "_began", began - READ_WITHIN_S - 1)
    story.tell()
    assert said(capsys) == ["", "a: The story of a.", "0 s  started a-1, a-2", "0 s  kill -9 of a-1", ""]
    story.tell(all_of_it=True)
    assert said(capsys) == ["b: The story of b.", "0 s  started b-1", "0 s  => finding, warning: storm", ""]
    story.tell(all_of_it=True)
    assert said(capsys) == []


def test_one_that_fails_says_so(teller, capsys):
    story = Story(teller, [A])
    story.done(entry(A, "failed", "no 3 members within 45 s"))
    story.tell(all_of_it=True)
    assert said(capsys)[:2] == ["a: The story of a.", "0 s  could not be played to its end: no 3 members within 45 s"]
