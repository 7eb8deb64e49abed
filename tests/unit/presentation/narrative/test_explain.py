"""Explanations: what is said when, and never more than the events say."""

from __future__ import annotations

from typing import Any

import pytest

from agent.presentation.narrative.events import parse_rebalance
from agent.presentation.narrative.explain import Story, StoryRequest, explain
from agent.presentation.narrative.patterns import find_crash_loops, find_restarts
from tests.unit.presentation.narrative import made as m
from tests.unit.presentation.narrative.made import DAY, MINUTE, SECOND, T0

Event = dict[str, Any]


def tell(*events: Event, form: Any = None, findings: Any = (), **asked: Any) -> Story:
    asked.setdefault("now_ms", T0 + 10 * MINUTE)
    return explain(StoryRequest("g", **asked), events, list(findings), form)


def said(story: Story, kind: str) -> list[str]:
    return [it.text for it in story.paragraphs if it.kind == kind]


def storm(rounds: int = 7, *, every_ms: int = 30 * SECOND, host: str = "/10.0.0.9") -> list[Event]:
    """One client dies and comes back, again and again."""
    out = [m.rebalance(1, joined=[m.member("good"), m.member("bad", host=host)], protocol="range")]
    for at in range(rounds):
        left = [m.gone("bad", "session_timeout", host=host)]
        evidence = [m.gap("bad", 10_400)]
        when = T0 + at * every_ms
        out.append(
            m.rebalance(
                2 * at + 2,
                "session_timeout",
                when + every_ms // 2,
                left=left,
                evidence=evidence,
                confidence=0.97,
                members=1,
                stopped_ms=60_000,
            )
        )
        out.append(
            m.rebalance(2 * at + 3, at_ms=when + every_ms, joined=[m.member("bad", host=host)], stopped_ms=2_000)
        )
    return out


def test_a_storm_is_told_in_one_breath() -> None:
    story = tell(*storm(), form=m.form())
    text, after = said(story, "happened")
    assert after == "After 14:16:50 nothing more happened, for 6 min 30 s."
    assert text == (
        "On 2026-09-21, between 14:13:20 and 14:16:50 (3 min 30 s) the group rebalanced 15 times: 8 times because a "
        "member joined and 7 times because a member's session timed out. 7 members were thrown out because their "
        "sessions timed out (very likely, 97 %): always `bad` on 10.0.0.9. `bad` on 10.0.0.9 was lost 7 times and "
        "came back 7 times. It ended at generation 15 with 2 members."
    )
    assert said(story, "cost") == [
        "Rebalances kept partitions from being worked on for 7 min 14 s, summed over the partitions: 6.0 % of what "
        "12 "
        "partitions could have worked in 10 min. The dearest was generation 2 at 14:13:35: 1 min."
    ]
    assert len(story.advice) == 2
    assert "raise session.timeout.ms from 10.0 s towards Kafka's default of 45.0 s" in story.advice[0]
    assert story.advice[1].startswith("`bad` on 10.0.0.9 was lost 7 times and came back 7 times. Until it stays up")


def test_busy_times_are_parted_by_quiet_ones() -> None:
    first = storm(3)
    later = [{**event, "at_ms": event["at_ms"] + DAY} for event in storm(3)]
    last = m.event("group_deleted", T0 + 2 * DAY)
    whole, one, other, end, after = said(tell(*first, *later, last, now_ms=T0 + 3 * DAY), "happened")
    assert whole.startswith(
        "From 2026-09-21 14:13:20 to 2026-09-24 14:13:20 UTC (3 d), the group rebalanced 14 times"
    )
    assert one.startswith("Between 2026-09-21 14:13:20 and 14:14:50 (1 min 30 s) the group rebalanced 7")
    assert other.startswith("Between 2026-09-22 14:13:20 and 14:14:50 (1 min 30 s) the group rebalanced 7")
    assert after == "After 2026-09-23 14:13:20 nothing more happened, for 1 d."
    assert end == "2026-09-23 14:13:20 the group was deleted."


def test_years_of_busy_times_stay_short() -> None:
    events = [m.rebalance(at, at_ms=T0 + at * DAY, joined=[m.member("a")]) for at in range(500)]
    story = tell(*events, now_ms=T0 + 500 * DAY)
    assert len(story.paragraphs) < 40
    assert story.numbers["rebalances"] == 500
    assert max(len(it.text) for it in story.paragraphs) < 1_000


def test_a_range_is_what_is_told_of() -> None:
    events = storm()
    story = tell(*events, form=m.form(), since_ms=T0 + 31 * SECOND, until_ms=T0 + 61 * SECOND)
    whole, first, second = said(story, "happened")
    assert whole.startswith("On 2026-09-21, from 14:13:51 to 14:14:21 UTC (30.0 s), the group rebalanced twice: once")
    assert first.startswith("14:14:05 generation 4: `bad` was thrown out")
    assert second == "14:14:20 generation 5: `bad` joined; 2 members; 2.0 s of partition time lost."
    assert (story.since_ms, story.until_ms) == (T0 + 31 * SECOND, T0 + 61 * SECOND)
    quiet = tell(*events, form=m.form(), since_ms=T0 + 8 * MINUTE, until_ms=T0 + DAY)
    assert quiet.until_ms == T0 + 10 * MINUTE, "no range goes beyond now"
    assert said(quiet, "happened") == [
        "On 2026-09-21, from 14:21:20 to 14:23:20 UTC (2 min), nothing happened to the group: no rebalance, nobody "
        "came "
        "or went."
    ]
    assert (said(quiet, "cost"), quiet.advice, quiet.limitations) == ([], (), ())


# 1-9: the present, in one sentence or two.
STATES: list[tuple[Any, dict[str, Any], list[Event], str, str | None]] = [
    (
        m.form(),
        {},
        [],
        "At the end of the log, 2026-09-21 14:23:20 UTC, `g` is a classic group, Stable for 10 min, with 2 members "
        "on 12 "
        "partitions at generation 7, assignor `range`. Its last commit came 10 min before.",
        "Stable",
    ),  # 1
    (
        m.form(group_type="consumer", state="Assigning", members=[{}], partitions=1, protocol=None),
        {"is_live": True},
        [],
        "`g` is a KIP-848 consumer group, Assigning for 10 min, with 1 member on 1 partition at epoch 7. Its last "
        "commit "
        "came 10 min ago.",
        "Assigning",
    ),  # 2
    (
        m.form(state="Empty", members=[], partitions=0, last_commit_ms=None, state_since_ms=-1),
        {"is_live": True},
        [],
        "`g` is a classic group, Empty, without members at generation 7. No offset is committed.",
        "Empty",
    ),  # 3
    (
        m.form(group_type="share", state="Empty", members=[], last_commit_ms=None),
        {"is_live": True},
        [],
        "`g` is a share group, Empty for 10 min, without members at epoch 7.",
        "Empty",
    ),  # 4: these never commit here
    (
        m.form(generation=-1, state="Empty", members=[]),
        {"is_live": True},
        [],
        "`g` is a simple classic group, which only commits offsets and has no members that the coordinator knows. "
        "Its "
        "last commit came 10 min ago.",
        "Empty",
    ),  # 5
    (
        m.form(group_type="new", members=[{}]),
        {"is_live": True},
        [],
        "`g` is a new group, Stable for 10 min, with 1 member on 12 partitions at epoch 7, assignor `range`. Its "
        "last "
        "commit came 10 min ago.",
        "Stable",
    ),  # 6: a type of a later version
    (
        None,
        {},
        [m.event("group_deleted", T0), m.finding(at_ms=T0 + 1)],
        "At the end of the log, 2026-09-21 14:23:20 UTC, `g` does not exist any more: it was deleted at 2026-09-21 "
        "14:13:20 UTC.",
        "Dead",
    ),  # 7
    (
        None,
        {"is_live": True},
        [m.rebalance(1)],
        "`g` is not there any more; what is told of it is its past.",
        None,
    ),  # 8: its end was dropped
    (None, {"is_live": True}, [], "`g` is not there any more; what is told of it is its past.", None),  # 9
]


@pytest.mark.parametrize(("form", "asked", "events", "text", "state"), STATES)
def test_states(form: Any, asked: dict[str, Any], events: list[Event], text: str, state: str | None) -> None:
    story = tell(*events, form=form, **asked)
    assert (said(story, "state"), story.state) == ([text], state)


def test_findings_and_their_advice_come_first() -> None:
    found = [
        m.finding("session_timeout", T0, summary="7 timeouts", advice="raise it"),
        m.finding("idle_members", T0 + MINUTE, advice="", severity="info"),
        m.finding("rebalance_storm", T0 + 2 * MINUTE, since_ms=T0, state="resolved"),
    ]
    story = tell(*storm(), form=m.form(), findings=found)
    assert said(story, "finding") == [
        "session_timeout (warning), open since 14:13:20, as of 14:13:20: 7 timeouts. Since then a session ran out 7 "
        "times, the last at 14:16:35.",
        "idle_members (info), open since 14:14:20, as of 14:14:20: too many rebalances. Since then the group "
        "rebalanced 10 times, the last at 14:16:50.",
        "rebalance_storm (warning), open from 14:13:20 to 14:15:20: too many rebalances.",
    ]
    assert story.advice == ("raise it.",), "the rules that the finding covers say nothing"
    assert story.numbers["findings_open"] == 2
    assert story.paragraphs[-1].evidence == ({"rebalances": 14},)


def rolling(
    times: int, group_type: str = "classic", *, away_ms: int = 3_000, instance_id: str | None = None
) -> Story:
    events = []
    for at in range(times):
        when = T0 + at * MINUTE
        left = [m.gone(f"pod-{at}", "member_left", instance_id=instance_id)]
        events.append(m.rebalance(2 * at + 1, "member_left", when, left=left, group_type=group_type, stopped_ms=None))
        joined = [m.member(f"new-{at}")]
        events.append(
            m.rebalance(2 * at + 2, at_ms=when + away_ms, joined=joined, group_type=group_type, stopped_ms=None)
        )
    return tell(*events, form=m.form(group_type=group_type))


# 1-6: static membership is advised where it would have helped.
ROLLING = [
    (rolling(1), False),  # 1: one restart is none that rolls
    (rolling(2), True),  # 2
    (rolling(2, "share"), False),  # 3: has no static members
    (rolling(2, "connect"), False),  # 4: waits by itself
    (rolling(2, away_ms=301_000), False),  # 5: another day's pod
    (rolling(2, instance_id="I"), False),  # 6: static already
]


@pytest.mark.parametrize(("story", "advised"), ROLLING)
def test_rolling_restarts(story: Story, advised: bool) -> None:
    assert any("Static membership" in text for text in story.advice) == advised


def test_an_emptied_group_was_not_restarted_one_by_one() -> None:
    done = [
        parse_rebalance(m.rebalance(1, "member_left", left=[m.gone(it, "member_left") for it in "ab"], members=0)),
        parse_rebalance(m.rebalance(2, at_ms=T0 + 1, joined=[m.member("a"), m.member("b")])),
    ]
    assert find_restarts(done) == []


def test_a_fleet_of_one_client_id_is_no_loop() -> None:
    left = [m.gone("app", "session_timeout", number=it) for it in (1, 2)]
    joined = [m.member("app", it) for it in (3, 4, 5)]
    done = [m.rebalance(1, "session_timeout", left=left), m.rebalance(2, joined=joined)]
    assert find_crash_loops(list(map(parse_rebalance, done))) == []
    one = [m.rebalance(1, "session_timeout", left=left), m.rebalance(2, joined=joined[:1])]
    assert [
        (loop.client, len(loop.losses), loop.returns) for loop in find_crash_loops(list(map(parse_rebalance, one)))
    ] == [("app", 2, 1)]


def test_two_loops_are_told() -> None:
    events = sorted([*storm(3), *storm(2, host="/10.0.0.8")], key=lambda event: event["at_ms"])
    assert tell(*events, form=m.form()).advice[1].endswith("1 other client did the same.")


def test_a_poll_timeout() -> None:
    late = m.rebalance(
        2,
        "poll_timeout",
        left=[m.gone("slow", "poll_timeout")],
        evidence=[m.gap("slow", 299_000)],
        confidence=0.9,
    )
    assert tell(late, form=m.form()).advice == (
        "It looks as if `slow` on 10.0.0.1 took longer than max.poll.interval.ms (5 min) from one poll to the next, "
        "once. Give it "
        "less "
        "at a time (max.poll.records, 500 by default), make the work on one batch shorter, or raise "
        "max.poll.interval.ms above the longest that a batch may take.",
    )
    without = {**late, "evidence": []}
    assert "longer than max.poll.interval.ms from" in tell(without, form=m.form()).advice[0]


def test_a_session_timeout_of_a_kip_848_group() -> None:
    lost = m.rebalance(2, "session_timeout", left=[m.gone("a", "session_timeout")], group_type="consumer")
    (advice,) = tell(lost, form=m.form(group_type="consumer")).advice
    assert advice.endswith("The session timeout of such groups is the broker's: group.consumer.session.timeout.ms.")


def test_other_advice() -> None:
    eager = [m.rebalance(at, at_ms=T0 + at, joined=[m.member("a")], stopped_ms=40_000) for at in (1, 2)]
    assert (
        tell(*eager, form=m.form())
        .advice[0]
        .startswith("With `range` every member gives up all its partitions at each rebalance, which cost 1 min 20 s")
    )
    cooperative = [{**event, "protocol": "cooperative-sticky"} for event in eager]
    assert tell(*cooperative, form=m.form()).advice == ()
    little = [{**event, "stopped_partition_ms": 10} for event in eager]
    assert tell(*little, form=m.form()).advice == ()
    changed = [m.rebalance(at, "subscription_changed") for at in (1, 2)]
    assert tell(*changed, form=m.form()).advice[0].startswith("Subscriptions changed in 2 rebalances")
    gaps = [m.rebalance(9, joined=[m.member("a")], evidence=[{"kind": "generation_gap", "never_completed": 3}])]
    assert tell(*gaps, form=m.form()).advice[0].startswith("3 rebalances never completed")


def test_what_was_not_seen() -> None:
    events = [
        m.event("group_created", observed=False),
        m.rebalance(
            4,
            "unknown_departure",
            left=[m.gone("a", "unknown_departure", 0.0), m.gone("b", "unknown_departure", 0.0)],
            evidence=[m.gap("a", None), m.gap("b", None), {"kind": "generation_gap", "never_completed": 1}],
            confidence=0.0,
        ),
        m.rebalance(
            5, "unknown", left=[m.gone("c", "member_left")], joined=[m.member("d")], confidence=0.0, stopped_ms=None
        ),
    ]
    anomalies = [{"kind": kind} for kind in ("generation_gap", "wrong_group_type", "wrong_group_type")]
    story = tell(*events, form=m.form(anomalies=anomalies), complete_since_ms=T0 - SECOND)
    assert story.limitations == (
        "What was before 14:13:19: the agent keeps the latest events only. The same question with --bootstrap-server "
        "reads all that the topic still holds.",
        "The beginning: the group may be older than what the log still holds. An agent that writes history "
        "(`kshadow run --history-topic`) would have kept it.",
        "How `a` and `b` on 10.0.0.1 went: nothing was committed of what was held, so there is no gap to measure.",
        "What set off 1 rebalance (generation 5): members came and went, and nothing tells in which order.",
        "What happened in 1 rebalance that never completed: only a jump of the generation shows it. The "
        f"coordinator's server.log says such things: {ASK}",
        "What 1 rebalance cost: the log does not show when partitions stopped.",
        "Whether all of this is right: the log holds what it should not (wrong group type).",
    )
    alone = tell(m.rebalance(5, "unknown", confidence=0.0), m.rebalance(6, "unknown", confidence=0.0))
    assert alone.limitations == (
        f"What set off 2 rebalances (generation 5 and 6): nothing in the log tells. {SERVER_LOG}: {ASK}",
    )
    of_agent = tell(m.rebalance(5, "unknown", confidence=0.0), of_agent=True)
    assert of_agent.limitations[0].endswith(f"{SERVER_LOG}: an agent with --broker-log PATH.")
    said = {"kind": "broker_log", "at_ms": T0, "reason": "joined", "observed": True}
    read = tell(m.rebalance(5, "unknown", confidence=0.0, evidence=[said]))
    assert read.limitations[0].endswith(
        "nothing in the log tells. The broker's log that was read does not say either."
    )


def test_what_piled_up_is_asked_where_much_stood_still() -> None:
    (lag,) = tell(m.rebalance(2, stopped_ms=60_000, joined=[m.member("a")])).limitations
    assert lag.startswith("How many records piled up while partitions stood still: the log has no ends of topics.")
    assert tell(m.rebalance(2, stopped_ms=59_999, joined=[m.member("a")])).limitations == ()
    (cost,) = tell(m.rebalance(2, stopped_ms=None, group_type="consumer")).limitations
    assert cost.endswith("does not show. The clients' own metrics do (consumer-coordinator-metrics).")
    (cost,) = tell(m.rebalance(2, stopped_ms=None, group_type="share")).limitations
    assert cost.endswith("for how long each stood still does not show.")


SERVER_LOG = "The coordinator's server.log says such things"
ASK = "the same question with --broker-log PATH."


def test_many_reasons_not_to_know_are_few_lines() -> None:
    names = "abcdefg"
    left = [m.gone(it, "unknown_departure", 0.0) for it in names]
    evidence = [m.gap(it, 60_000 + 1_000 * at) for at, it in enumerate(names)]
    story = tell(m.rebalance(4, "unknown_departure", left=left, evidence=evidence, confidence=0.0))
    assert len(story.limitations) == 5
    assert story.limitations[-1] == f"How 3 more members went: for reasons like these. {SERVER_LOG}: {ASK}"


def test_events_of_a_clock_that_is_ahead_are_told() -> None:
    story = tell(*storm(), form=m.form(), now_ms=T0, is_live=True)
    assert (story.numbers["rebalances"], story.until_ms) == (15, T0 + 210 * SECOND)


def test_time_without_members() -> None:
    events = [
        m.event("group_emptied", T0, generation=1),
        m.rebalance(2, at_ms=T0 + MINUTE, joined=[m.member("a")], members=1),
        m.rebalance(3, "member_left", T0 + 2 * MINUTE, left=[m.gone("a", "member_left")], members=0),
        m.rebalance(4, "member_left", T0 + 3 * MINUTE, members=0),
        m.event("group_deleted", T0 + 5 * MINUTE),
        m.event("group_deleted", T0 + 6 * MINUTE),
    ]
    assert tell(*events).numbers["empty_ms"] == 4 * MINUTE
    assert tell(*events[:4]).numbers["empty_ms"] == 9 * MINUTE
    assert said(tell(*events), "cost") == [
        "No partition stood still for a rebalance. For 4 min the group had no member at all."
    ]


def test_standstill_is_a_share_of_the_time_that_there_were_members() -> None:
    first = m.rebalance(1, at_ms=T0 + 5 * MINUTE, joined=[m.member("a")], members=1)
    second = m.rebalance(
        2, at_ms=T0 + 6 * MINUTE, joined=[m.member("a", 2)], left=[m.gone("a", "session_timeout")], stopped_ms=MINUTE
    )
    held = m.form(partitions=4)
    ranged = {"form": held, "since_ms": T0}
    assert tell(first, second, **ranged).numbers["stopped_share"] == 1 / (4 * 5)
    # Whoever was there before the range began had partitions to work on.
    assert tell(second, **ranged).numbers["stopped_share"] == 1 / (4 * 10)
    # What was deleted is not there until somebody joins again.
    emptied = m.rebalance(3, "member_left", T0 + 7 * MINUTE, left=[m.gone("a", "member_left")], members=0)
    deleted = m.event("group_deleted", T0 + 7 * MINUTE)
    again = m.rebalance(1, at_ms=T0 + 8 * MINUTE, joined=[m.member("a", 3)], members=1)
    story = tell(first, second, emptied, deleted, again, **ranged)
    assert (story.numbers["stopped_share"], story.numbers["empty_ms"]) == (1 / (4 * 4), 0)


def test_what_is_no_rebalance_is_counted_where_there_is_much() -> None:
    replaced = {"generation": 1, "old_member": m.member("a"), "member": m.member("a", 2, instance_id="I")}
    events = [
        *(m.event("static_member_replaced", T0 + it, **replaced) for it in range(4)),
        *(m.event("group_created", T0 + it, observed=True) for it in range(2)),
        *(m.event("offsets_deleted", T0, topic="t", topic_partition=0, committed_offset=1) for it in range(2)),
        *(m.event("news", T0) for it in range(3)),
    ]
    text, _ = said(tell(*events), "happened")
    assert text.endswith(
        "the group did not rebalance. Besides: a static member came back 4 times without a rebalance, the group was "
        "created twice, committed offsets were deleted or expired once and news 3 times."
    )
    later = [m.event("news", T0 + 2 * DAY + it) for it in range(5)]
    assert said(tell(*events, *later, now_ms=T0 + 3 * DAY), "happened")[-2] == (
        "Between 2026-09-23 14:13:20 and 14:13:20 (4 ms) the group did not rebalance. Besides: news 5 times."
    )


def test_who_it_was() -> None:
    def lost(*names: str) -> str:
        left = [m.gone(it, "session_timeout", number=at) for at, it in enumerate(names)]
        many = [m.rebalance(at, "session_timeout", T0 + at, left=[it]) for at, it in enumerate(left)]
        more = [m.rebalance(at, "leader_rejoined", T0 + at) for at in range(100, 109)]
        return said(tell(*many, *more), "happened")[0].split(" %): ")[1].split(". ")[0]

    assert lost("a", "a") == "both times `a` on 10.0.0.1"
    assert lost("a", "a", "a") == "always `a` on 10.0.0.1"
    assert lost("a", "a", "b") == "mostly `a` on 10.0.0.1 (2 of 3)"
    assert lost("a", "b", "b", "c") == "`b` (2), `a` and `c`"


def test_the_form() -> None:
    form = tell(*storm(1), form=m.form()).to_json()
    more = ["numbers", "whatif"]
    assert list(form) == ["group", "state", "summary", "range", "paragraphs", "advice", "not_seen", *more]
    assert form["range"] == {"since_ms": T0, "until_ms": T0 + 10 * MINUTE}
    assert all(list(it) == ["kind", "text", "evidence"] for it in form["paragraphs"])
    why = next(it for it in form["paragraphs"] if it["kind"] == "why")
    assert why["evidence"] == [m.gap("bad", 10_400)]


def test_the_only_rebalance_is_not_the_dearest() -> None:
    (text,) = said(tell(m.rebalance(1, stopped_ms=5_000), form=m.form()), "cost")
    assert text.endswith("what 12 partitions could have worked in 10 min.")


def test_one_busy_time_over_midnight_has_its_dates() -> None:
    late = [{**event, "at_ms": event["at_ms"] + 9 * 60 * MINUTE + 46 * MINUTE} for event in storm()]
    text, _ = said(tell(*late, now_ms=T0 + DAY), "happened")
    assert text.startswith("Between 2026-09-21 23:59:20 and 2026-09-22 00:02:50 (3 min 30 s) the group rebalanced 15")
