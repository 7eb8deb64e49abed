"""What a report tells of, and what it asks for."""

from __future__ import annotations

import pytest

from agent.presentation.report.gather import MAX_ASKED, NoSuchGroup, gather
from tests.unit.presentation.narrative import made as m
from tests.unit.presentation.narrative.golden import histories
from tests.unit.presentation.narrative.made import DAY, SECOND, T0
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


def test_all_groups_the_worst_first() -> None:
    facts = of_capture(most=3)
    assert len(facts.groups) == len(histories())
    thrown = [row.timed_out for row in facts.groups if not row.findings]
    assert thrown == sorted(thrown, reverse=True)
    assert [it.summary for it in facts.details] == list(facts.groups[:3])
    total = sum(it["type"] == "rebalance" for told in histories().values() for it in told.events)
    assert facts.rebalances == total == sum(map(len, facts.causes.values()))
    assert facts.since_ms == min(told.events[0]["at_ms"] for told in histories().values())


def test_those_that_are_named_and_no_other() -> None:
    facts = of_capture("stock-coop", "audit-loop", "stock-coop")
    assert [it.summary.group for it in facts.details] == ["stock-coop", "audit-loop"]
    assert len(facts.groups) == 2
    assert facts.since_ms == histories()["audit-loop"].events[0]["at_ms"], "the range is theirs"
    with pytest.raises(NoSuchGroup, match="nobody"):
        of_capture("nobody")


def test_only_the_range_counts() -> None:
    rebalances = [it for it in histories()["audit-loop"].events if it["type"] == "rebalance"]
    since_ms, until_ms = rebalances[2]["at_ms"], rebalances[4]["at_ms"]
    facts = of_capture("audit-loop", since_ms=since_ms, until_ms=until_ms)
    (it,) = facts.details
    assert it.summary.rebalances == len(it.lanes.rebalances) == it.story.numbers["rebalances"] == 3
    assert (facts.since_ms, facts.until_ms) == (since_ms, until_ms)
    assert it.summary.stopped_ms == sum(it["stopped_partition_ms"] for it in rebalances[2:5])
    ended = of_capture(since_ms=T0, until_ms=T0 + 10 * 365 * DAY)
    assert ended.until_ms == histories()["audit-loop"].now_ms, "nothing is known of what comes"
    last_ms = ended.until_ms
    assert of_capture(since_ms=last_ms + 1).details == (), "nothing happened any more"


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
    assert {row.group: row.rebalances for row in facts.groups} == {"found": 0, "moved": 1, "quiet": 0}
    assert {it.summary.group: it.complete_since_ms for it in facts.details} == {"found": T0 + 150 * SECOND}
    assert [it.analyzer for it in facts.details[0].lanes.issues] == ["rebalance_storm"]
    assert facts.groups_without_history == 0
    events.append(m.finding(at_ms=T0 + 120 * SECOND, since_ms=T0 + 99 * SECOND, group="found", state="resolved"))
    later = gather(source, MADE, wanted())
    assert {row.group: [it["state"] for it in row.findings] for row in later.groups}["found"] == ["resolved"]
    named = gather(source, MADE, wanted("quiet", since_ms=since_ms))
    assert [it.summary.rebalances for it in named.details] == [0]


def test_an_agent_of_thousands_of_groups_is_spared() -> None:
    forms = {f"g{at}": form(rebalances=at) for at in range(MAX_ASKED + 50)}
    source = Source([], forms, T0)
    facts = gather(source, MADE, wanted())
    assert len(source.asked) == MAX_ASKED
    assert "g0" not in source.asked, "those that rebalanced most come first"
    assert facts.groups_without_history == 50
    assert [row.rebalances for row in facts.groups if row.group == "g0"] == [None]


def test_what_other_settings_would_have_made_of_whom() -> None:
    source, _ = captured()
    told = {"audit-loop": GAINS, "stock-coop": None}
    facts = gather(with_all_events(source), MADE, wanted(*told), lambda row: told[row.group])
    assert {it.summary.group: it.story.gains for it in facts.details} == told


def test_a_group_that_only_events_know() -> None:
    events = [
        m.rebalance(1, joined=[m.member("a")], group="gone"),
        m.event("group_deleted", T0 + SECOND, group="gone"),
        m.finding(group=None, severity="critical"),
    ]
    facts = gather(with_all_events(Source(events, {}, T0)), MADE, wanted())
    assert [(row.group, row.state, row.members) for row in facts.groups] == [("gone", "Dead", None)]
    assert len(facts.cluster_findings) == 1
    assert "Findings on the cluster" in checked(page_of(facts)).text, "beside one group as beside many"
    assert facts.until_ms == T0 + SECOND


@pytest.mark.parametrize(
    ("after_ms", "said"),
    [(60 * SECOND, "2026-09-21 14:13:20 to 14:14:20"), (DAY, "2026-09-21 14:13:20 to 2026-09-22 14:13:20")],
)
def test_when_a_finding_on_the_cluster_was_over(after_ms: int, said: str) -> None:
    """Of another day, its date is told. What is still open is so at the end of the range."""
    over = m.finding(group=None, at_ms=T0 + after_ms, since_ms=T0, state="resolved")
    events = [m.rebalance(1, joined=[m.member("a")]), over, m.finding("coordinator_hotspot", group=None)]
    page = checked(page_of(gather(with_all_events(Source(events, {}, T0 + 2 * DAY)), MADE, wanted())))
    assert said in page.text
    assert "2026-09-21 14:13:20 to the end" in page.text


def test_groups_that_are_gone_of_an_agent_that_lists_those_there_are() -> None:
    events = [
        m.rebalance(1, joined=[m.member("a")], group="gone"),
        m.finding(at_ms=T0 + SECOND, group="gone", state="resolved"),
        m.event("group_deleted", T0 + 2 * SECOND, group="gone"),
        m.rebalance(1, joined=[m.member("a")], group="gone unseen"),
    ]
    source = Source(events, {"here": form()}, T0 + 3 * SECOND)
    facts = gather(source, MADE, wanted())
    assert [(row.group, row.state, row.rebalances) for row in facts.groups] == [
        ("gone", "Dead", 1),
        ("here", "Stable", 0),
    ]
    assert "Groups that were deleted are missing, but for those with a finding" in page_of(facts)
    for whole in (gather(source, MADE, wanted("gone")), gather(with_all_events(source), MADE, wanted())):
        assert "Groups that were deleted are missing" not in page_of(whole)


def test_a_group_whose_state_does_not_tell_is_asked_for_its_events() -> None:
    """A share group is Stable for as long as it has members."""
    since_ms = T0 + 100 * SECOND
    share = {"group_type": "share", "state_since_ms": T0}
    events = [m.rebalance(it, at_ms=since_ms + it, group="share", group_type="share") for it in (2, 3)]
    forms = {"share": form(**share, rebalances=7), "new": form(**share, rebalances=0)}
    source = Source(events, forms, since_ms + 9)
    facts = gather(source, MADE, wanted(since_ms=since_ms))
    assert source.asked == ["share"]
    assert {row.group: row.rebalances for row in facts.groups} == {"share": 2, "new": 0}
    assert not facts.is_partial
    busy = Source(events, {f"s{it}": form(**share, rebalances=it) for it in range(MAX_ASKED + 1)}, since_ms + 9)
    busy._forms["moved"] = form(state_since_ms=since_ms, rebalances=1)
    facts = gather(busy, MADE, wanted(since_ms=since_ms))
    assert busy.asked[0] == "moved", "those of which it is known that they changed come first"
    assert (facts.groups_without_history, facts.is_partial) == (1, True)


def test_rows_and_sums_know_since_when_they_are_all() -> None:
    """1 is quiet in the whole range, 2 is known from within it, 3 from before."""
    since_ms = T0 + 100 * SECOND
    events = [m.rebalance(2, at_ms=since_ms + 50 * SECOND, group="storm"), m.finding(at_ms=since_ms, group="quiet")]
    forms = {"quiet": form(state_since_ms=T0), "storm": form(state_since_ms=since_ms + 50 * SECOND)}
    known_ms = since_ms + 40 * SECOND
    source = Source(events, forms, T0 + 300 * SECOND, complete_ms=known_ms)
    facts = gather(source, MADE, wanted(since_ms=since_ms, most=0))
    assert {row.group: row.complete_since_ms for row in facts.groups} == {"quiet": None, "storm": known_ms}
    assert facts.is_partial
    assert facts.findings_complete_since_ms is None
    later = gather(source, MADE, wanted(since_ms=known_ms))
    assert not later.is_partial
    assert gather(source, MADE, wanted()).is_partial, "without a range all of the past is asked for"
    assert not gather(with_all_events(source), MADE, wanted()).is_partial


def test_findings_that_were_let_go() -> None:
    bounds = {None: T0 + 2, "a": None, "b": T0 + 1}
    source = Source([], {"a": form(), "b": form()}, T0 + 9)
    source.findings_complete_since_ms = bounds.get  # type: ignore[method-assign, assignment]
    for groups, since_ms, known_ms in (
        ((), None, T0 + 2),
        ((), T0 + 1, T0 + 2),
        ((), T0 + 2, None),
        (("a",), None, None),
        (("a", "b"), T0, T0 + 1),
        (("a", "b"), T0 + 1, None),
    ):
        assert gather(source, MADE, wanted(*groups, since_ms=since_ms)).findings_complete_since_ms == known_ms
    assert gather(with_all_events(source), MADE, wanted()).findings_complete_since_ms is None


def test_a_sum_that_lacks_costs_is_the_least() -> None:
    """`lost` is emptied by session timeouts, of which the log tells no cost; of `kip` it tells none at all."""
    left = [m.gone("a", "session_timeout"), m.gone("b", "session_timeout")]
    known = m.rebalance(2, at_ms=T0 + SECOND, group="known", stopped_ms=4 * SECOND)
    events = [
        m.rebalance(1, group="lost", joined=[m.member("a"), m.member("b")]),
        m.rebalance(2, "session_timeout", T0 + SECOND, group="lost", left=left, members=0, stopped_ms=None),
        *(m.rebalance(it, at_ms=T0 + it, group="kip", group_type="consumer", stopped_ms=None) for it in (2, 3)),
        known,
    ]
    source = Source(events, {it: form() for it in ("lost", "kip", "known")}, T0 + 300 * SECOND)
    page = checked(page_of(gather(with_all_events(source), MADE, wanted()))).text
    for said in (
        "Rebalances stopped partitions for at least 4.0 s, summed over the partitions. "
        "The cost of 3 of 5 rebalances is not known.",
        "Stopped partition time at least 4.0 s",
        "Stopped partition time not known the cost of 1 of 2 rebalances is not known",
        "Stopped partition time not known the cost of 2 rebalances is not known",
        "known Stable 2 1 0 0 4.0 s",
    ):
        assert said in page, said
    assert "Stopped partition time 0 ms" not in page
    partly = [known, m.rebalance(3, at_ms=T0 + 2 * SECOND, group="known", stopped_ms=None)]
    partly_known = gather(with_all_events(Source(partly, {"known": form()}, T0 + SECOND)), MADE, wanted())
    assert "Partitions were stopped for at least 4.0 s in sum." in page_of(partly_known)
