"""The page: well formed, under its policy, complete, bounded, and with nothing of strangers' but text."""

from __future__ import annotations

import re

from msgspec.structs import replace

from agent.presentation.report.fleet_section import MAX_ROWS
from agent.presentation.report.gather import gather
from agent.presentation.report.group_section import group_anchor
from tests.unit.cli.hostile import LETTERS, TEXTS
from tests.unit.presentation.narrative import made as m
from tests.unit.presentation.narrative.golden import histories, story
from tests.unit.presentation.narrative.made import SECOND, T0
from tests.unit.presentation.report.made import (
    GAINS,
    MADE,
    Source,
    captured,
    form,
    of_capture,
    page_of,
    wanted,
    with_all_events,
)
from tests.unit.presentation.report.reading import checked


def test_a_report_of_all_groups() -> None:
    facts = of_capture(most=4)
    page = checked(page_of(facts))
    told = [it.summary.group for it in facts.details]
    sections = [text for tag, text in page.headings if tag == "h2"]
    assert sections == ["Contents", "All groups", *told, "Other groups", "What is not known"]
    for group in histories():
        assert group in page.text, "each is told of, or in a table"
    for said in (f"What happened to {len(histories())} consumer groups", "by kshadow 1.2.3", "in made"):
        assert said in page.text
    assert page.source.count("<svg") == 2 * (1 + len(told)), "each in two widths"


def test_the_story_of_a_group_is_all_there() -> None:
    page = checked(page_of(of_capture("audit-loop")))
    assert page.headings[0] == ("h1", "What happened to audit-loop")
    text = page.text.replace(" ", "")
    for title, texts in story("audit-loop").sections():
        for said in (title, *texts):
            assert said.replace("`", "").replace(" ", "") in text
    assert page.source.count("<tr>") >= 8, "the lanes are there as a table, too"


def test_what_other_settings_would_have_made_of_it() -> None:
    source, _ = captured()
    page = checked(page_of(gather(with_all_events(source), MADE, wanted("audit-loop"), lambda row: GAINS)))
    for said in ("replayed under other settings", "As today 8 3 min 54 s 5.5 s", "Static membership 4 1 min 3 s -"):
        assert said in page.text
    apart = replace(GAINS, log_stopped_s=60.0)
    page = checked(page_of(gather(with_all_events(source), MADE, wanted("audit-loop"), lambda row: apart)))
    assert "replayed under other settings" not in page.text, "the model's times are not the group's"


def test_hostile_names_show_as_text() -> None:
    hostile = [*TEXTS.values(), *LETTERS.values()]
    events, forms = [], {}
    for text in hostile:
        who = {**m.member(text, host=text), "instance_id": text}
        gone = {**who, "cause": "session_timeout", "confidence": 0.9}
        evidence = [{**m.gap("x", 5 * SECOND), "member_id": who["member_id"]}, {"kind": text, text: text}]
        events.append(m.rebalance(1, joined=[who], group=text, protocol=text))
        more = {"left": [gone], "group": text, "evidence": evidence, "stopped_ms": 9_000}
        events.append(m.rebalance(2, "session_timeout", T0 + 9 * SECOND, **more))
        events.append(m.finding(text, T0 + 9 * SECOND, group=text, summary=text, advice=text, severity=text))
        forms[text] = form(protocol=text)
    events += [m.finding(text, T0, group=None, summary=text, advice=text) for text in hostile]
    events.sort(key=lambda event: event["at_ms"])
    made = replace(MADE, source=hostile[9], title=hostile[9], problems=tuple(hostile))
    for most in (50, 0):
        facts = gather(with_all_events(Source(events, forms, T0 + 20 * SECOND)), made, wanted(most=most))
        source = page_of(facts)
        page = checked(source)
        assert not re.search(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff]", source)
        assert "<script" not in source
        assert "alert(1)" in page.text
        assert len(source) < 2_000_000, "names are cut"
    assert len(set(map(group_anchor, hostile))) == len(hostile)


def test_thousands_of_groups_and_events_are_bounded() -> None:
    events, forms = [], {}
    for at in range(MAX_ROWS + 500):
        group = f"team.service-{at}"
        forms[group] = form()
        for turn in range(40 if at < 20 else 2):
            gone = [{**m.member(f"c{turn}"), "cause": "session_timeout", "confidence": 0.9}]
            at_ms = T0 + (at * 40 + turn) * SECOND
            events.append(m.rebalance(turn, "session_timeout", at_ms, group=group, left=gone, stopped_ms=9))
    facts = gather(with_all_events(Source(events, forms, T0 + 10**8)), MADE, wanted())
    source = page_of(facts)
    page = checked(source)
    assert len(source) < 2_500_000
    assert f"{500 - 20} more are not in the table" in page.text
    assert "Causes over time" in page.text


def test_nothing_to_tell_is_told() -> None:
    for facts in (
        gather(with_all_events(Source([], {}, T0)), MADE, wanted()),
        gather(with_all_events(Source([], {"g": form()}, T0)), MADE, wanted()),
        gather(with_all_events(Source([], {"g": form()}, T0)), MADE, wanted("g")),
    ):
        page = checked(page_of(facts))
        assert "No rebalance of any group is known in this range" in page.text


def test_what_was_wrong_with_the_data_and_what_an_agent_forgot() -> None:
    events = [m.rebalance(2, "session_timeout", T0 + SECOND, left=[m.gone("a", "session_timeout")])]
    source = Source(events, {"g": form()}, T0 + 9 * SECOND, complete_ms=T0 + SECOND)
    page = checked(page_of(gather(source, replace(MADE, problems=("a torn batch",) * 60), wanted())))
    assert "a torn batch" in page.text
    assert "and 10 more" in page.text
    assert "The agent keeps the latest events only" in page.text


def test_what_is_counted_of_events_of_which_some_were_let_go_is_the_least_there_was() -> None:
    """Whether its groups are told of in full or not."""
    gone = [m.gone("a", "session_timeout")]
    events = [
        m.rebalance(at, "session_timeout", T0 + at * SECOND, group="storm", left=gone, stopped_ms=2 * SECOND)
        for at in (50, 60)
    ]
    events.append(m.finding(at_ms=T0 + 40 * SECOND, group="storm"))
    forms = {
        "storm": form(state_since_ms=T0 + 60 * SECOND),
        "let-go": form(state_since_ms=T0 + 30 * SECOND),
        "quiet": form(state_since_ms=T0 - SECOND),
    }
    source = Source(events, forms, T0 + 90 * SECOND, complete_ms=T0 + 40 * SECOND)
    source.findings_complete_since_ms = lambda group=None: T0 + 20 * SECOND  # type: ignore[method-assign, misc]
    for most in (0, 5):
        page = checked(page_of(gather(source, MADE, wanted(since_ms=T0, most=most))))
        for said in (
            "At least 1 of 3 groups rebalanced, at least twice in all. Members timed out at least twice (2 session",
            "Rebalances stopped partitions for at least 4.0 s, summed",
            "Rebalances at least 2 Timeouts at least 2",
            "Other departures not known Stopped partition time at least 4.0 s",
            "Findings at least 1",
            "storm warning: rebalance storm Stable 2 at least 2 at least 2 ? at least 4.0 s",
            "let-go Stable 2 ? ? ? ?",
            "quiet Stable 2 0 0 0 ?",
            "some groups lack those before 2026-09-21 14:14:00 UTC and findings that were over before 2026",
        ):
            assert said in page.text, said
    assert "of its partitions' time from 2026-09-21 14:14:00 on" in page.text
    whole = checked(page_of(gather(source, MADE, wanted(since_ms=T0 + 40 * SECOND))))
    assert "at least" not in whole.text.lower()
    assert "keeps the latest events" not in whole.text


def test_a_report_of_nothing_is_of_no_time() -> None:
    page = checked(page_of(gather(with_all_events(Source([], {}, 0)), MADE, wanted(since_ms=-7_200_000))))
    assert "Nothing was read that has a time" in page.text
    assert "1970" not in page.text
