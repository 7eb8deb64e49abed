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
    assert after == "The group did not change in the 6 min 30 s after 14:16:50."
    assert text == (
        "On 2026-09-21, between 14:13:20 and 14:16:50 (3 min 30 s) the group rebalanced 15 times: "
        "8 times because a member joined and 7 times because a member's session timed out. 7 "
        "members were removed because their sessions timed out (very likely, 97 %): always `bad` "
        "on 10.0.0.9. `bad` on 10.0.0.9 left 7 times and joined again 7 times. It ended at "
        "generation 15 with 2 members."
    )
    assert said(story, "cost") == [
        (
            "Rebalances stopped partitions for 7 min 14 s, summed over the partitions: 6 % of the time "
            "of 12 partitions in 10 min. The most expensive was generation 2 at 14:13:35: 1 min."
        )
    ]
    assert len(story.advice) == 1
    assert story.advice[0].startswith("Find why `bad` stops (log, exit code, OOM kills, liveness probe), and keep it")


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
    assert after == "The group did not change in the 1 d after 2026-09-23 14:13:20."
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
    assert first.startswith("14:14:05 generation 4: `bad` was removed")
    assert second == "14:14:20 generation 5: `bad` joined; 2 members; partitions stopped for 2.0 s in sum."
    assert (story.since_ms, story.until_ms) == (T0 + 31 * SECOND, T0 + 61 * SECOND)
    quiet = tell(*events, form=m.form(), since_ms=T0 + 8 * MINUTE, until_ms=T0 + DAY)
    assert quiet.until_ms == T0 + 10 * MINUTE, "no range goes beyond now"
    assert said(quiet, "happened") == [
        "On 2026-09-21, from 14:21:20 to 14:23:20 UTC (2 min), the group did not change: no rebalance, "
        "no member joined or left."
    ]
    assert (said(quiet, "cost"), quiet.advice, quiet.limitations) == ([], (), ())


# 1-9: the present, in one sentence or two.
STATES: list[tuple[Any, dict[str, Any], list[Event], str, str | None]] = [
    (
        m.form(),
        {},
        [],
        (
            "At the end of the log, 2026-09-21 14:23:20 UTC, `g` is a classic group, Stable for 10 "
            "min, with 2 members on 12 partitions at generation 7, assignor `range`. Its last commit "
            "was 10 min before."
        ),
        "Stable",
    ),  # 1
    (
        m.form(group_type="consumer", state="Assigning", members=[{}], partitions=1, protocol=None),
        {"is_live": True},
        [],
        (
            "`g` is a KIP-848 consumer group, Assigning for 10 min, with 1 member on 1 partition at "
            "epoch 7. Its last commit was 10 min ago."
        ),
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
        m.form(state="Empty", members=[], partitions=0, last_commit_ms=None, state_since_ms=-1, offsets=[{}]),
        {"is_live": True},
        [],
        "`g` is a classic group, Empty, without members at generation 7. When it last committed is not known.",
        "Empty",
    ),  # 3: its commits have no time
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
        (
            "`g` is a simple classic group, which only commits offsets and has no members. Its last "
            "commit was 10 min ago."
        ),
        "Empty",
    ),  # 5
    (
        m.form(group_type="new", members=[{}]),
        {"is_live": True},
        [],
        (
            "`g` is a new group, Stable for 10 min, with 1 member on 12 partitions at epoch 7, "
            "assignor `range`. Its last commit was 10 min ago."
        ),
        "Stable",
    ),  # 6: a type of a later version
    (
        None,
        {},
        [m.event("group_deleted", T0), m.finding(at_ms=T0 + 1)],
        (
            "At the end of the log, 2026-09-21 14:23:20 UTC, `g` no longer exists: it was deleted at "
            "2026-09-21 14:13:20 UTC."
        ),
        "Dead",
    ),  # 7
    (
        None,
        {"is_live": True},
        [m.rebalance(1)],
        "`g` no longer exists. What follows is its past.",
        None,
    ),  # 8: its end was dropped
    (None, {"is_live": True}, [], "`g` no longer exists. What follows is its past.", None),  # 9
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
        (
            "session_timeout (warning), open since 14:13:20, as of 14:13:20: 7 timeouts. Since then a "
            "session timed out 7 times, the last at 14:16:35."
        ),
        "idle_members (info), open since 14:14:20, as of 14:14:20: too many rebalances. Since then the group "
        "rebalanced 10 times, the last at 14:16:50.",
        "rebalance_storm (warning), open from 14:13:20 to 14:15:20: too many rebalances.",
    ]
    assert story.advice == ("raise it. See docs/runbooks.md#kshadowsessiontimeouts.",), (
        "the rules that the finding covers say nothing"
    )
    assert story.numbers["findings_open"] == 2
    assert story.paragraphs[-1].evidence == ({"rebalances": 14},)


def rolling(
    times: int,
    group_type: str = "classic",
    *,
    away_ms: int = 3_000,
    instance_id: str | None = None,
    session_ms: tuple[int, ...] = (),
) -> Story:
    events = []
    for at in range(times):
        when = T0 + at * MINUTE
        left = [m.gone(f"pod-{at}", "member_left", instance_id=instance_id)]
        field, other = ("session_timeout_ms", "group_session_timeout_ms")[:: -1 if group_type == "consumer" else 1]
        proof = [m.gap(f"pod-{at}", 9, **{other: None, field: it}) for it in session_ms[at : at + 1]]
        kind: dict[str, Any] = {"group_type": group_type, "stopped_ms": None, "evidence": proof}
        events.append(m.rebalance(2 * at + 1, "member_left", when, left=left, **kind))
        joined = [m.member(f"new-{at}")]
        events.append(
            m.rebalance(2 * at + 2, at_ms=when + away_ms, joined=joined, group_type=group_type, stopped_ms=None)
        )
    return tell(*events, form=m.form(group_type=group_type))


# 1-6: static membership is advised where it would have helped.
ROLLING = [
    (rolling(1), False),  # 1: one restart is none that rolls
    (rolling(2), False),  # 2
    (rolling(2, "share"), False),  # 3: has no static members
    (rolling(2, "connect"), False),  # 4: waits by itself
    (rolling(2, away_ms=301_000), False),  # 5: another day's pod
    (rolling(2, instance_id="I"), False),  # 6: static already
]


@pytest.mark.parametrize(("story", "advised"), ROLLING)
def test_rolling_restarts(story: Story, advised: bool) -> None:
    assert any("Static membership" in text for text in story.advice) == advised


def test_that_a_session_timeout_is_assumed_is_said_of_what_it_leaves_unknown() -> None:
    def assumed(**evidence: object) -> list[str]:
        gap = m.gap("a", None, session_timeout_ms=None, **evidence)
        gone = m.rebalance(3, "unknown_departure", left=[m.gone("a", "unknown_departure", 0)], evidence=[gap])
        story = tell(gone, form=m.form(group_type="share"))
        return [it for section in story.brief for it in section.texts if it.startswith("Assumed: ")]

    assert len(assumed(candidates=["member_left", "session_timeout"])) == 1
    assert assumed() == []
    assert assumed(candidates=["member_left", "session_timeout"], group_session_timeout_ms=6_000) == []


@pytest.mark.parametrize(
    ("timeouts", "of_agent", "assumed"),
    [
        ({"session_timeout_ms": None}, False, "--broker-config tells another."),
        ({"session_timeout_ms": None}, True, "the agent's --broker-config tells another."),
        ({"session_timeout_ms": None, "group_session_timeout_ms": 45_000}, False, None),
        ({"session_timeout_ms": 45_000}, False, None),
    ],
)
def test_that_a_session_timeout_is_assumed_is_said(
    timeouts: dict[str, int | None], of_agent: bool, assumed: str | None
) -> None:
    """The topic does not have that of KIP-848, share and Streams groups; brokers tell it to whom they may."""
    kind: dict[str, Any] = {"group_type": "consumer", "evidence": [m.gap("a", 9, **timeouts)], "observed": False}
    gone = m.rebalance(3, "member_left", left=[m.gone("a", "member_left", confidence=0.95)], **kind)
    story = tell(gone, form=m.form(group_type="consumer"), of_agent=of_agent)
    told = [it for section in story.brief for it in section.texts if it.startswith("Assumed: ")]
    expected = [] if assumed is None else [f"Assumed: a session timeout of 45.0 s, the brokers' default; {assumed}"]
    assert told == expected
    assert any("Assumed: " in text for _, texts in story.sections() for text in texts) == bool(expected)


# 1-6: the session timeout is compared with the one that is set.
SESSIONS = [
    (
        rolling(2, session_ms=(6_000, 6_000)),
        ": a restart within session.timeout.ms (now 6.0 s) then",
    ),  # 1: it is enough
    (
        rolling(2, session_ms=(6_000, 6_000), away_ms=8_000),
        ", and session.timeout.ms (now 6.0 s) above 8.0 s: a",
    ),  # 2
    (rolling(2, session_ms=(6_000, 9_000), away_ms=7_000), ", and session.timeout.ms (now 6.0 to 9.0 s) above 7.0 s"),
    (rolling(2, session_ms=(6_000, 6_000), away_ms=0), ": a restart within session.timeout.ms (now 6.0 s) then"),  # 4
    (rolling(2), ", and session.timeout.ms above the longest restart: a"),  # 5: nothing tells what is set
    (rolling(2, "consumer"), ", and group.consumer.session.timeout.ms on the brokers above the longest restart"),  # 6
    (
        rolling(2, "consumer", session_ms=(45_000, 45_000)),
        ": a restart within group.consumer.session.timeout.ms on the brokers (now 45.0 s) then",
    ),  # 7: they were asked
]


@pytest.mark.parametrize(("story", "said"), SESSIONS)
def test_the_session_timeout_of_static_members(story: Story, said: str) -> None:
    assert story.advice[0].startswith(f"Set group.instance.id, an id of its own for each client{said}")


def test_another_assignor_comes_after_what_restarts_need() -> None:
    """Where all members restart one after another every partition moves, and a second rebalance costs more."""
    events = []
    for at in range(3):
        left, when = [m.gone(f"a{at}", "member_left")], T0 + at * MINUTE
        events.append(m.rebalance(2 * at + 1, "member_left", when, left=left, stopped_ms=40_000))
        joined = [m.member(f"b{at}")]
        events.append(m.rebalance(2 * at + 2, at_ms=when + 9, joined=joined, stopped_ms=40_000))
    static, assignor = tell(*events, form=m.form()).advice
    assert static.startswith("Set group.instance.id")
    assert "if `kshadow whatif` shows that it helps" in assignor


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
    assert tell(*events, form=m.form()).advice[0].startswith("Find why `bad` stops")


def test_who_was_lost_at_once_each_time_is_not_kept_stopped() -> None:
    """Brokers that did not answer: it named one of all, whose capacity was the price."""
    left = [m.gone(it, "session_timeout") for it in "ab"]
    events = []
    for number in (1, 2):
        events.append(m.rebalance(2 * number, "session_timeout", T0 + number * MINUTE, left=left, members=1))
        joined = [m.member("a"), m.member("b")]
        events.append(m.rebalance(2 * number + 1, at_ms=T0 + number * MINUTE + SECOND, joined=joined))
    (advice,) = tell(*events, form=m.form()).advice
    assert advice.startswith("Find why each of 2 clients stopped sending heartbeats")


def test_what_is_known_of_one_is_not_said_of_another() -> None:
    """One was killed; a static one had left to be restarted. Both are session timeouts."""
    expired = {"kind": "static_member_expired", "member_id": "b-1"}
    killed, away = (m.gone(it, "session_timeout") for it in "ab")
    story = tell(
        m.rebalance(1, "session_timeout", left=[killed], evidence=[m.gap("a", 11_000)]),
        m.rebalance(2, "session_timeout", T0 + MINUTE, left=[away], evidence=[expired]),
        form=m.form(),
    )
    why = [it.text for it in story.paragraphs if it.kind == "why"]
    assert [it.split(":")[0] for it in why] == ["Session timeout of `a`", "Session timeout of `b`"]
    assert ["restart" in it for it in why] == [False, True]


def test_a_poll_timeout() -> None:
    late = m.rebalance(
        2,
        "poll_timeout",
        left=[m.gone("slow", "poll_timeout")],
        evidence=[m.gap("slow", 299_000)],
        confidence=0.9,
    )
    assert tell(late, form=m.form()).advice == (
        (
            "Shorten the work of `slow` between two polls: lower max.poll.records (500 by default), or "
            "raise max.poll.interval.ms (now 5 min) above the slowest batch; a stuck consumer is then "
            "detected later. See docs/runbooks.md#kshadowpollstalls."
        ),
    )
    without = {**late, "evidence": []}
    assert "or raise max.poll.interval.ms above" in tell(without, form=m.form()).advice[0]


@pytest.mark.parametrize("group_type", ["consumer", "share", "streams"])
def test_a_session_timeout_that_brokers_set(group_type: str) -> None:
    lost = m.rebalance(2, "session_timeout", left=[m.gone("a", "session_timeout")], group_type=group_type)
    (advice,) = tell(lost, form=m.form(group_type=group_type)).advice
    assert f"raise group.{group_type}.session.timeout.ms on the brokers above" in advice


def test_other_advice() -> None:
    eager = [m.rebalance(at, at_ms=T0 + at, joined=[m.member("a")], stopped_ms=40_000) for at in (1, 2)]
    assert (
        tell(*eager, form=m.form())
        .advice[0]
        .startswith(
            "Set partition.assignment.strategy to the cooperative-sticky assignor (now `range`) if `kshadow whatif` "
        )
    )
    cooperative = [{**event, "protocol": "cooperative-sticky"} for event in eager]
    assert tell(*cooperative, form=m.form()).advice == ()
    little = [{**event, "stopped_partition_ms": 10} for event in eager]
    assert tell(*little, form=m.form()).advice == ()
    changed = [m.rebalance(at, "subscription_changed") for at in (1, 2)]
    assert tell(*changed, form=m.form()).advice[0].startswith("Let all members run one version")
    gaps = [m.rebalance(9, joined=[m.member("a")], evidence=[{"kind": "generation_gap", "never_completed": 3}])]
    assert tell(*gaps, form=m.form()).advice[0].startswith("Start instances together")


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
        (
            "What was before 14:13:19: the agent keeps the latest events only. With --bootstrap-server "
            "the whole topic is read."
        ),
        (
            "The beginning: the group may be older than the log. An agent that writes history "
            "(`kshadow run --history-topic`) keeps it."
        ),
        ("Why `a` and `b` on 10.0.0.1 left: nothing was committed of what was held, so there is no gap to measure."),
        (
            "What triggered 1 rebalance (generation 5): members joined and left, and the log does not "
            "show in which order."
        ),
        (
            "What happened in 1 rebalance that never completed: only a jump of the generation shows "
            "it. The coordinator's server.log has it: the same question with --broker-log PATH."
        ),
        "What 1 rebalance cost: the log does not show when partitions were stopped.",
        "Whether all of this is right: the log holds what it should not (wrong group type).",
    )
    alone = tell(m.rebalance(5, "unknown", confidence=0.0), m.rebalance(6, "unknown", confidence=0.0))
    assert alone.limitations == (
        (
            "What triggered 2 rebalances (generation 5 and 6): the log does not show it. The "
            "coordinator's server.log has it: the same question with --broker-log PATH."
        ),
    )
    of_agent = tell(m.rebalance(5, "unknown", confidence=0.0), of_agent=True)
    assert of_agent.limitations[0].endswith(f"{SERVER_LOG}: an agent with --broker-log PATH.")
    said = {"kind": "broker_log", "at_ms": T0, "reason": "joined", "observed": True}
    read = tell(m.rebalance(5, "unknown", confidence=0.0, evidence=[said]))
    assert read.limitations[0].endswith(
        "the log does not show it. The broker's log that was read does not contain it."
    )


def test_rebalances_without_a_generation_may_be_unknown_too() -> None:
    seen = {"generation": None, "previous_generation": None, "sampled": True, "sampled_every_ms": 400}
    events = [{**m.rebalance(1, "unknown", T0 + at * MINUTE, confidence=0.0), **seen} for at in range(2)]
    story = explain(StoryRequest("g", T0 + 9 * MINUTE), events, [], m.form(generations_skipped=None))
    assert "What triggered 2 rebalances: the log does not show it." in story.limitations
    # A deleted group has no form. Where groups are looked at nobody may read the topic, and the agent takes no log.
    gone = explain(StoryRequest("g", T0 + 9 * MINUTE, complete_since_ms=T0, of_agent=True), events, [], None)
    assert "What triggered 2 rebalances: the log does not show it." in gone.limitations
    assert not any("--b" in it for it in gone.limitations)


def test_a_group_that_was_deleted_within_the_range_is_not_older_than_it() -> None:
    again = m.event("group_created", T0 + SECOND, observed=False)
    assert any("older than the log" in it for it in tell(again).limitations)
    assert not any("older than the log" in it for it in tell(m.event("group_deleted"), again).limitations)


def test_what_piled_up_is_asked_where_much_stood_still() -> None:
    (lag,) = tell(m.rebalance(2, stopped_ms=60_000, joined=[m.member("a")])).limitations
    assert lag.startswith(
        "How many records arrived while partitions were stopped: the log has no end offsets of topics."
    )
    assert tell(m.rebalance(2, stopped_ms=59_999, joined=[m.member("a")])).limitations == ()
    (cost,) = tell(m.rebalance(2, stopped_ms=None, group_type="consumer")).limitations
    assert cost.endswith("is not in the log. The clients' own metrics have it (consumer-coordinator-metrics).")
    (cost,) = tell(m.rebalance(2, stopped_ms=None, group_type="share")).limitations
    assert cost.endswith("how long each was stopped is not in the log.")


SERVER_LOG = "The coordinator's server.log has it"


def test_many_reasons_not_to_know_are_few_lines() -> None:
    names = "abcdefg"
    left = [m.gone(it, "unknown_departure", 0.0) for it in names]
    evidence = [m.gap(it, 60_000 + 1_000 * at) for at, it in enumerate(names)]
    story = tell(m.rebalance(4, "unknown_departure", left=left, evidence=evidence, confidence=0.0))
    assert len(story.limitations) == 5
    assert story.limitations[-1] == (
        "Why 3 more members left: as with these. The coordinator's server.log has it: the same "
        "question with --broker-log PATH."
    )


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
        "No partition was stopped by a rebalance. The group had no members for 4 min."
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
        "the group did not rebalance. Also: a static member joined again 4 times without a rebalance, the group was "
        "created twice, committed offsets were deleted or expired once and news 3 times."
    )
    later = [m.event("news", T0 + 2 * DAY + it) for it in range(5)]
    assert said(tell(*events, *later, now_ms=T0 + 3 * DAY), "happened")[-2] == (
        "Between 2026-09-23 14:13:20 and 14:13:20 (4 ms) the group did not rebalance. Also: news 5 times."
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
    assert text.endswith("of the time of 12 partitions in 10 min.")


def test_one_busy_time_over_midnight_has_its_dates() -> None:
    late = [{**event, "at_ms": event["at_ms"] + 9 * 60 * MINUTE + 46 * MINUTE} for event in storm()]
    text, _ = said(tell(*late, now_ms=T0 + DAY), "happened")
    assert text.startswith("Between 2026-09-21 23:59:20 and 2026-09-22 00:02:50 (3 min 30 s) the group rebalanced 15")


def test_a_range_whose_beginning_is_not_kept_is_told_from_where_all_of_it_is() -> None:
    """Each rebalance stops both partitions for 3 s. Of seven, three are known: 18 s of the last 180 s of both."""
    events = [m.rebalance(at, at_ms=T0 + at * MINUTE, stopped_ms=6 * SECOND) for at in range(7)]
    kept = events[3:]
    now_ms, known_ms = T0 + 7 * MINUTE, T0 + 4 * MINUTE
    asked = {"form": m.form(partitions=2), "now_ms": now_ms, "is_live": True, "complete_since_ms": known_ms}
    story = tell(*kept, since_ms=T0, **asked)
    assert (story.since_ms, story.until_ms) == (known_ms, now_ms)
    assert (story.numbers["rebalances"], story.numbers["stopped_share"]) == (3, 0.05)
    assert story.brief[0].texts[0] == (
        "3 rebalances from 14:17:20 to 14:20:20 UTC on 2026-09-21 because a member joined. Earlier events are not "
        "kept."
    )
    assert story.limitations[0].startswith("What was before 14:17:20: the agent keeps the latest events only.")
    whole = tell(*kept, since_ms=known_ms, **asked)
    assert (whole.numbers, whole.since_ms) == (story.numbers, story.since_ms)
    assert not any("not kept" in it for it in whole.brief[0].texts)
    assert not any("keeps the latest" in it for it in whole.limitations)


@pytest.mark.parametrize(("since_ms", "from_ms"), [(T0, T0), (None, T0 + MINUTE)])
def test_of_a_range_of_which_no_event_is_kept_nothing_is_said_to_be_so(since_ms: int | None, from_ms: int) -> None:
    part_of_a_batch = m.rebalance(1, at_ms=T0 + MINUTE)
    story = tell(
        part_of_a_batch, form=m.form(), since_ms=since_ms, until_ms=T0 + MINUTE, complete_since_ms=T0 + MINUTE + 1
    )
    assert (story.since_ms, story.until_ms) == (from_ms, T0 + MINUTE)
    assert said(story, "happened") == [
        "Events before 2026-09-21 14:14:20 UTC are not kept, so what happened in this range is not known."
    ]
    assert story.brief[0].texts == ("Not known: events before 2026-09-21 14:14:20 UTC are not kept.",)
    assert story.numbers["rebalances"] == 0
    assert "did not" not in str(story.to_json())


@pytest.mark.parametrize(
    ("asked", "why"),
    [
        ({"until_ms": T0}, "its first event is from 2026-09-21 14:14:20 UTC"),
        ({"since_ms": T0 + 60 * MINUTE}, "what is known ends at 2026-09-21 14:23:20 UTC"),
    ],
)
def test_beyond_what_is_known_nothing_is_said_to_be_so(asked: dict[str, int], why: str) -> None:
    story = tell(m.rebalance(1, at_ms=T0 + MINUTE), form=m.form(), findings=[m.finding()], **asked)
    assert story.summary.startswith(f"Nothing is known of `g` in that time: {why}.")
    assert said(story, "happened") == [f"What happened in this range is not known: {why}."]
    assert story.brief[0].texts[0] == f"Not known: {why}."


def test_where_nothing_is_left_the_range_begins_where_events_would_be_kept() -> None:
    story = tell(form=m.form(), complete_since_ms=T0)
    assert story.since_ms == T0
    assert story.brief[0].texts[0] == (
        "No rebalances from 14:13:20 to 14:23:20 UTC on 2026-09-21. Earlier events are not kept."
    )


def emptied(cause: str, at_ms: int = T0 + MINUTE) -> Event:
    """The last two members are gone; no assignment follows, so the log has no cost of it."""
    left = [m.gone(it, cause) for it in "ab"]
    return m.rebalance(2, cause, at_ms, left=left, members=0, stopped_ms=None)


def test_what_is_known_of_the_cost_is_the_least() -> None:
    began = m.rebalance(1, joined=[m.member("a"), m.member("b")])
    story = tell(began, emptied("session_timeout"), form=m.form(members=[], state="Empty"))
    assert said(story, "cost") == ["The cost of 1 of 2 rebalances is not known. The group had no members for 9 min."]
    assert (story.numbers["stopped_partition_ms"], story.numbers["rebalances_of_unknown_cost"]) == (0, 1)
    assert "The cost of 1 of 2 rebalances is not known." in story.brief[0].texts
    assert story.limitations[-1] == "What 1 rebalance cost: the log does not show when partitions were stopped."
    # Who says goodbye has worked until then.
    left = tell(began, emptied("member_left"), form=m.form(members=[], state="Empty"))
    assert said(left, "cost") == ["No partition was stopped by a rebalance. The group had no members for 9 min."]
    assert left.numbers["rebalances_of_unknown_cost"] == 0


def test_a_sum_of_costs_that_lacks_some_says_so() -> None:
    events = [
        m.rebalance(at, at_ms=T0 + at * SECOND, stopped_ms=cost) for at, cost in enumerate([6_000, None, 9_000])
    ]
    story = tell(*events, form=m.form(partitions=2))
    assert said(story, "cost") == [
        "Rebalances stopped partitions for at least 15 s, summed over the partitions: at least 1 % of the time of 2 "
        "partitions in 10 min. The most expensive whose cost is known was generation 2 at 14:13:22: 9 s. The cost of "
        "1 of 3 rebalances is not known."
    ]
    assert story.brief[0].texts[1:3] == (
        "Rebalances stopped 2 partitions for at least 15 s in sum, at least 1 % of their time.",
        "The cost of 1 of 3 rebalances is not known.",
    )
    little = tell(m.rebalance(1, stopped_ms=12), events[1], form=m.form())
    assert said(little, "cost") == [
        "Rebalances stopped partitions for at least 12 ms, summed over the partitions. The cost of 1 of 2 rebalances "
        "is not known."
    ], "at least less than 0.1 % says nothing"
