"""What a report tells of, and what it asks for."""

from __future__ import annotations

import pytest

from agent.report.gather import MAX_ASKED, NoSuchGroup, gather
from tests.report.made import GAINS, MADE, Source, captured, form, of_capture, wanted
from tests.story import made as m
from tests.story.golden import histories
from tests.story.made import DAY, SECOND, T0


def test_all_groups_the_worst_first() -> None:
    facts = of_capture(most=3)
    assert len(facts.rows) == len(histories())
    thrown = [row.thrown_out for row in facts.rows if not row.findings]
    assert thrown == sorted(thrown, reverse=True)
    assert [it.row for it in facts.detailed] == list(facts.rows[:3])
    total = sum(it["type"] == "rebalance" for told in histories().values() for it in told.events)
    assert facts.rebalances == total == sum(map(len, facts.causes.values()))
    assert facts.since_ms == min(told.events[0]["at_ms"] for told in histories().values())


def test_those_that_are_named_and_no_other() -> None:
    facts = of_capture("stock-coop", "audit-loop", "stock-coop")
    assert [it.row.group for it in facts.detailed] == ["stock-coop", "audit-loop"]
    assert len(facts.rows) == 2
    assert facts.since_ms == histories()["audit-loop"].events[0]["at_ms"], "the range is theirs"
    with pytest.raises(NoSuchGroup, match="nobody"):
        of_capture("nobody")


def test_only_the_range_counts() -> None:
    rebalances = [it for it in histories()["audit-loop"].events if it["type"] == "rebalance"]
    since_ms, until_ms = rebalances[2]["at_ms"], rebalances[4]["at_ms"]
    facts = of_capture("audit-loop", since_ms=since_ms, until_ms=until_ms)
    (it,) = facts.detailed
    assert it.row.rebalances == len(it.lanes.rebalances) == it.story.numbers["rebalances"] == 3
    assert (facts.since_ms, facts.until_ms) == (since_ms, until_ms)
    assert it.row.stopped_ms == sum(it["stopped_partition_ms"] for it in rebalances[2:5])
    ended = of_capture(since_ms=T0, until_ms=T0 + 10 * 365 * DAY)
    assert ended.until_ms == histories()["audit-loop"].now_ms, "nothing is known of what comes"
    last_ms = ended.until_ms
    assert of_capture(since_ms=last_ms + 1).detailed == (), "nothing happened any more"


def test_an_agent_is_asked_only_for_those_to_whom_something_may_have_happened() -> None:
    since_ms = T0 + 100 * SECOND
    events = [m.finding(at_ms=T0 + 99 * SECOND, group="found", state="firing")]
    events += [m.rebalance(2, at_ms=T0 + 200 * SECOND, group="moved", joined=[m.member("a")])]
    forms = {
        "quiet": form(state_since_ms=T0),
        "moved": form(state_since_ms=T0 + 200 * SECOND),
        "found": form(state_since_ms=T0),
    }
    source = Source(events, forms, T0 + 300 * SECOND, complete_ms=T0 + 150 * SECOND)
    facts = gather(source, MADE, wanted(since_ms=since_ms))
    assert sorted(source.asked) == ["found", "moved"]
    assert {row.group: row.rebalances for row in facts.rows} == {"found": 0, "moved": 1, "quiet": 0}
    assert {it.row.group: it.complete_since_ms for it in facts.detailed} == {"found": T0 + 150 * SECOND}
    assert [it.analyzer for it in facts.detailed[0].lanes.troubles] == ["rebalance_storm"]
    assert facts.not_asked == 0
    events.append(m.finding(at_ms=T0 + 120 * SECOND, since_ms=T0 + 99 * SECOND, group="found", state="resolved"))
    later = gather(source, MADE, wanted())
    assert {row.group: [it["state"] for it in row.findings] for row in later.rows}["found"] == ["resolved"]
    named = gather(source, MADE, wanted("quiet", since_ms=since_ms))
    assert [it.row.rebalances for it in named.detailed] == [0]


def test_an_agent_of_thousands_of_groups_is_spared() -> None:
    forms = {f"g{at}": form(rebalances=at) for at in range(MAX_ASKED + 50)}
    source = Source([], forms, T0)
    facts = gather(source, MADE, wanted())
    assert len(source.asked) == MAX_ASKED
    assert "g0" not in source.asked, "those that rebalanced most come first"
    assert facts.not_asked == 50
    assert [row.rebalances for row in facts.rows if row.group == "g0"] == [None]


def test_what_other_settings_would_have_made_of_whom() -> None:
    source, events = captured()
    told = {"audit-loop": GAINS, "stock-coop": None}
    facts = gather(source, MADE, wanted(*told), events, lambda row: told[row.group])
    assert {it.row.group: it.story.gains for it in facts.detailed} == told


def test_a_group_that_only_events_know() -> None:
    events = [
        m.rebalance(1, joined=[m.member("a")], group="gone"),
        m.event("group_deleted", T0 + SECOND, group="gone"),
        m.finding(group=None, severity="critical"),
    ]
    facts = gather(Source(events, {}, T0), MADE, wanted(), events)
    assert [(row.group, row.state, row.members) for row in facts.rows] == [("gone", "Dead", None)]
    assert len(facts.cluster_findings) == 1
    assert facts.until_ms == T0 + SECOND
