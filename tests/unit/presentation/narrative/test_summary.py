"""The answer before the story, and how sure it is."""

from __future__ import annotations

from typing import Any

import pytest

from agent.presentation.narrative.explain import Story, StoryRequest, explain
from tests.unit.presentation.narrative import made as m
from tests.unit.presentation.narrative.made import MINUTE, SECOND, T0

Event = dict[str, Any]
LOST = m.gone("a", "session_timeout", 0.96)


def lost(at_ms: int = T0, *clients: str, cause: str = "session_timeout", **more: Any) -> Event:
    left = [m.gone(client, cause, 0.96) for client in clients or ["a"]]
    return m.rebalance(2, cause, at_ms, left=left, **{"stopped_ms": 36_000, **more})


def joined(at_ms: int, *clients: str) -> Event:
    return m.rebalance(3, at_ms=at_ms, joined=[m.member(client) for client in clients])


def loop(client: str, since_ms: int = T0) -> list[Event]:
    return [
        event
        for at in (0, 2 * MINUTE)
        for event in (lost(since_ms + at, client), joined(since_ms + at + MINUTE, client))
    ]


def tell(*events: Event, form: Any = None, findings: Any = (), **asked: Any) -> Story:
    asked.setdefault("now_ms", T0 + 10 * MINUTE)
    asked.setdefault("is_live", True)
    return explain(StoryRequest("g", **asked), events, list(findings), form)


def offset(partition: int, lag: int | None, seconds: float | None, *, at_least: bool = False) -> dict[str, Any]:
    """A position of a describe form, as far as the story looks at it."""
    of_lag = {"lag": lag, "lag_seconds": seconds, "lag_seconds_at_least": at_least}
    return {"topic": "t", "partition": partition, **of_lag}


SILENT = "its own log, its exit code, an OOM kill or a liveness probe may tell."


def returned(instance_id: str, at_ms: int) -> dict[str, Any]:
    """A static member came back to its place."""
    member = {**m.member("a"), "instance_id": instance_id}
    return m.event("static_member_replaced", at_ms, generation=7, member=member, old_member=member)


NOW = "`g` is Stable now, with 2 members."

# 1-21: the answer, and why it is that one.
SUMMARIES: list[tuple[str, Story, str]] = [
    (
        "1: one that was thrown out",
        tell(lost(), form=m.form()),
        (
            "`a` was removed from `g` at 14:13:20: its session timed out (very likely). It has not "
            "joined again. `g` is Stable with 2 members."
        ),
    ),
    (
        "2: it came back, which is worth knowing",
        tell(lost(stopped_ms=0), joined(T0 + MINUTE, "a"), form=m.form()),
        (
            "`a` was removed from `g` at 14:13:20: its session timed out (very likely). It joined "
            "again at 14:14:20. `g` is Stable with 2 members."
        ),
    ),
    (
        "3: several at two times",
        tell(lost(T0, "a", "b", stopped_ms=0), lost(T0 + MINUTE, "c", stopped_ms=0), form=m.form()),
        (
            "3 members were removed from `g` between 14:13:20 and 14:14:20: their sessions timed out "
            "(very likely). None joined again. `g` is Stable with 2 members."
        ),
    ),
    (
        "4: some of them came back",
        tell(lost(T0, "a", "b", stopped_ms=0), joined(T0 + 1, "b"), form=m.form()),
        (
            "2 members were removed from `g` at 14:13:20: their sessions timed out (very likely). 1 "
            "joined again. `g` is Stable with 2 members."
        ),
    ),
    (
        "5: all of them",
        tell(lost(T0, "a", "b", stopped_ms=0), joined(T0 + 1, "b", "a"), form=m.form()),
        (
            "2 members were removed from `g` at 14:13:20: their sessions timed out (very likely). All "
            "joined again. `g` is Stable with 2 members."
        ),
    ),
    (
        "6: a poll timeout, of a group that nobody is in",
        tell(lost(cause="poll_timeout", stopped_ms=0), form=m.form(members=[], state="Empty"), is_live=False),
        (
            "`a` left `g` at 14:13:20: it did not poll within max.poll.interval.ms (very likely). It "
            "has not joined again. `g` was Empty at the end."
        ),
    ),
    (
        "7: the same one again and again",
        tell(*loop("a"), form=m.form()),
        (
            "`a` was removed from `g` twice: its session timed out (very likely). It joined again "
            "twice. `g` is Stable with 2 members."
        ),
    ),
    (
        "8: what the analyzers of departures find is told from the departures",
        tell(lost(stopped_ms=0), form=None, findings=[m.finding("rebalance_storm", severity="critical")]),
        (
            "`a` was removed from `g` at 14:13:20: its session timed out (very likely). It has not "
            "joined again. `g` no longer exists."
        ),
    ),
    (
        "9: something worse is found",
        tell(
            lost(stopped_ms=0),
            form=m.form(),
            findings=[
                m.finding("session_timeout"),
                m.finding("stalled_consumer", severity="critical", summary="g stands still", advice="Look. Then go."),
            ],
        ),
        "As of 14:13:20: g stands still. 1 more finding is open. `g` is Stable with 2 members.",
    ),
    (
        "10: what is only worth knowing, without advice",
        tell(form=m.form(), findings=[m.finding("idle_members", severity="info", summary="1 idles", advice="")]),
        "As of 14:13:20: 1 idles. Nothing else was found. `g` is Stable with 2 members.",
    ),
    (
        "11: a severity of a later version is the least",
        tell(form=m.form(), findings=[m.finding("x", severity="news", summary="x", advice=""), m.finding("y")] * 2),
        "As of 14:13:20: too many rebalances. 3 more findings are open. `g` is Stable with 2 members.",
    ),
    (
        "12: quiet",
        tell(form=m.form()),
        ("No problem was found in `g`. It did not rebalance in 0 ms. `g` is Stable with 2 members."),
    ),
    (
        "13: it began",
        tell(m.rebalance(1, joined=[m.member("a")]), form=m.form()),
        ("No problem was found in `g`. It rebalanced once because a member joined. `g` is Stable with 2 members."),
    ),
    (
        "14: a rolling restart",
        tell(
            *(m.rebalance(at, "member_left", T0 + at, left=[m.gone(f"a{at}", "member_left")]) for at in (1, 3)),
            *(m.rebalance(at, at_ms=T0 + at, joined=[m.member(f"b{at}")]) for at in (4, 6)),
            form=m.form(),
        ),
        (
            "No problem was found in `g`. It rebalanced 4 times: twice a member left and another "
            "joined within 3 ms, as in a rolling restart."
        ),
    ),
    (
        "15: nobody knows how one went",
        tell(m.rebalance(1, "unknown_departure", left=[m.gone("a", "unknown_departure", 0)]), form=m.form()),
        ("It is not known why 1 member left `g`. It rebalanced once because a member left for an unknown reason."),
    ),
    (
        "16: stopped on purpose, as it seems",
        tell(
            m.rebalance(1, "member_left", left=[m.gone(it, "member_left") for it in "ab"], members=0),
            form=m.form(members=[], state="Empty"),
        ),
        (
            "`g` has been Empty since 14:13:20, when its last 2 members left, as in a normal stop. No "
            "problem was found."
        ),
    ),
    (
        "17: gone in ways that differ",
        tell(
            m.rebalance(1, left=[m.gone("a", "member_left"), m.gone("b", "unknown_departure", 0)], members=0),
            form=m.form(members=[], state="Empty"),
        ),
        "`g` has been Empty since 14:13:20, when its last 2 members left, 1 for an unknown reason.",
    ),
    (
        "18: empty for longer than this tells of",
        tell(form=m.form(members=[], state="Empty")),
        "`g` has no members. No problem was found.",
    ),
    (
        "19: no members by design",
        tell(form=m.form(members=[], generation=-1)),
        "No problem was found in `g`: it has no members and only commits offsets.",
    ),
    (
        "19 a: a generation that somebody made up",
        tell(form=m.form(generation=-1)),
        "No problem was found in `g`. It did not rebalance in 0 ms. `g` is Stable with 2 members.",
    ),
    (
        "20: deleted",
        tell(m.event("group_deleted")),
        "`g` was deleted at 2026-09-21 14:13:20 UTC. No problem was found.",
    ),
    ("21: its end was dropped", tell(), "`g` no longer exists."),
    (
        "24: one that goes and comes back, however it goes",
        tell(
            *(
                it
                for at in range(3)
                for it in (
                    m.rebalance(2, "unknown_departure", T0 + at * MINUTE, left=[m.gone("a", "unknown_departure", 0)]),
                    joined(T0 + at * MINUTE + SECOND, "a"),
                )
            ),
            form=m.form(),
        ),
        ("`a` left `g` 3 times for an unknown reason. It joined again 3 times. `g` is Stable with 2 members."),
    ),
    (
        "25: what was found and is over",
        tell(form=m.form(), findings=[m.finding("x", state="resolved")]),
        (
            "No problem was found in `g`. It did not rebalance in 0 ms. x was open, and is resolved. "
            "`g` is Stable with 2 members."
        ),
    ),
    (
        "26: more of that",
        tell(
            form=m.form(),
            findings=[m.finding("x", state="resolved"), m.finding("y", state="resolved", severity="critical")] * 2,
        ),
        (
            "No problem was found in `g`. It did not rebalance in 0 ms. y and 3 other findings were "
            "open, and are resolved."
        ),
    ),
    (
        "22: a rebalance that goes on for long is no all-clear",
        tell(form=m.form(state="PreparingRebalance")),
        "`g` is PreparingRebalance for 10 min with 2 members. It did not rebalance in 0 ms.",
    ),
    (
        "23: two such",
        tell(*sorted([*loop("a"), *loop("b", T0 + 1)], key=lambda it: it["at_ms"]), form=m.form()),
        (
            "`a` was removed from `g` twice: its session timed out (very likely). It joined again "
            "twice. 1 other client left repeatedly, too."
        ),
    ),
    (
        "27: quiet, as far as events are kept",
        tell(lost(), form=m.form(), since_ms=T0, complete_since_ms=T0 + MINUTE),
        (
            "No problem was found in `g`. It did not rebalance between 14:14:20 and 14:23:20. `g` is Stable with 2 "
            "members."
        ),
    ),
    (
        "28: what is counted is of the part of the range of which all events are kept",
        tell(
            m.rebalance(2),
            m.rebalance(3, at_ms=T0 + MINUTE),
            form=m.form(),
            since_ms=T0 - MINUTE,
            complete_since_ms=T0 + SECOND,
        ),
        "No problem was found in `g`. It rebalanced once between 14:13:21 and 14:23:20 because a member joined. "
        "`g` is Stable with 2 members.",
    ),
    (
        "29: without a range, the same",
        tell(*loop("a"), form=m.form(), complete_since_ms=T0 - MINUTE),
        (
            "`a` was removed from `g` twice between 14:13:20 and 14:23:20: its session timed out (very likely). It "
            "joined again twice."
        ),
    ),
    (
        "30: no event of the range is kept",
        tell(lost(), form=m.form(), since_ms=T0, until_ms=T0 + MINUTE, complete_since_ms=T0 + 2 * MINUTE),
        (
            "What happened in `g` before 2026-09-21 14:15:20 UTC is not known: the agent keeps only the latest "
            "events. `g` is Stable with 2 members."
        ),
    ),
    (
        "31: an open finding is known all the same",
        tell(
            form=m.form(),
            findings=[m.finding("idle_members", severity="info", summary="1 idles", advice="")],
            until_ms=T0,
            complete_since_ms=T0 + 1,
        ),
        (
            "As of 14:13:20: 1 idles. What happened in `g` before 2026-09-21 14:13:20 UTC is not known: the agent "
            "keeps only the latest events."
        ),
    ),
    (
        "32: it is gone, and its past is not known",
        tell(m.event("group_deleted"), until_ms=T0 + 1, complete_since_ms=T0 + SECOND),
        (
            "What happened in `g` before 2026-09-21 14:13:21 UTC is not known: the agent keeps only the latest "
            "events. The group was deleted."
        ),
    ),
    (
        "33: what was let go is before the range",
        tell(form=m.form(), since_ms=T0, complete_since_ms=T0),
        "No problem was found in `g`. It did not rebalance in 10 min. `g` is Stable with 2 members.",
    ),
    (
        "34: of whom it is said already how they left is not said again",
        tell(
            m.rebalance(1, left=[m.gone("a", "unknown_departure", 0)]),
            m.rebalance(2, left=[m.gone("b", "unknown_departure", 0)], members=0),
            form=m.form(members=[], state="Empty"),
        ),
        (
            "`g` has been Empty since 14:13:20, when its last member left for an unknown reason. It is not known why "
            "1 other member left `g`."
        ),
    ),
    (
        "35: nothing tells why it rebalanced",
        tell(m.rebalance(4, "unknown", confidence=0.0), form=m.form()),
        (
            "It is not known what triggered 1 rebalance of `g`. It rebalanced once for an unknown reason. `g` is "
            "Stable with 2 members."
        ),
    ),
    (
        "36: it was there before the log",
        tell(
            {**m.rebalance(4, "unknown", joined=[m.member("a")], members=1), "previous_generation": None},
            form=m.form(),
        ),
        "No problem was found in `g`. It rebalanced once for an unknown reason. `g` is Stable with 2 members.",
    ),
    (
        "37: deleted, and nobody knows how one of its members had left",
        tell(m.rebalance(1, left=[m.gone("a", "unknown_departure", 0)]), m.event("group_deleted")),
        "`g` was deleted at 2026-09-21 14:13:20 UTC. It is not known why 1 member left `g`.",
    ),
    (
        "38: it is behind, and nothing tells why",
        tell(form=m.form(offsets=[offset(0, 40_000, 900.0), offset(1, 44_000, 240.0)])),
        (
            "`g` is 15 min behind (84,000 records) for an unknown reason. It did not rebalance in 0 ms. `g` is "
            "Stable with 2 members."
        ),
    ),
    (
        "39: nobody reads it",
        tell(form=m.form(members=[], state="Empty", offsets=[offset(0, 84_000, 900.0, at_least=True)])),
        "`g` has no members. `g` is at least 15 min behind (84,000 records).",
    ),
    (
        "40: without members by design",
        tell(form=m.form(members=[], generation=-1, offsets=[offset(0, 84_000, 900.0)])),
        "`g` is 15 min behind (84,000 records). It has no members and only commits offsets.",
    ),
    (
        "41: as far as commits and looks at the ends account for, behind a marker, and where no member is any more",
        tell(
            form=m.form(
                members=[{"assignment": {"t": [0, 1]}}],
                offsets=[
                    offset(0, 9_000, 40.0),
                    offset(1, 1, 9_000.0),
                    offset(2, 84_000, 900.0),
                    offset(3, None, None),
                ],
            )
        ),
        "No problem was found in `g`. It did not rebalance in 0 ms. `g` is Stable with 1 member.",
    ),
    (
        "42: beside a hint",
        tell(
            m.rebalance(1, left=[m.gone("a", "unknown_departure", 0)]),
            form=m.form(),
            findings=[m.finding("idle_members", severity="info", summary="1 idles", advice="")],
        ),
        "As of 14:13:20: 1 idles. It is not known why 1 member left `g`. `g` is Stable with 2 members.",
    ),
    (
        "43: of members that are not there any more: the group's state first",
        tell(
            m.rebalance(2, "member_left", T0 + MINUTE, left=[m.gone("a", "member_left")], members=0),
            form=m.form(members=[], state="Empty"),
            findings=[m.finding("idle_members", severity="info", summary="2 of 6 members idle: b and c; too few.")],
            is_live=False,
        ),
        "`g` was Empty at the end. As of 14:13:20: 2 of 6 members idle: b and c; too few. Nothing else was found.",
    ),
    (
        "44: what does not fit behind it is shortened",
        tell(
            form=m.form(members=[], state="Empty"),
            findings=[m.finding("idle_members", summary=f"2 of 6 members idle: {'b, ' * 9}and c; {'why ' * 9}.")],
        ),
        f"`g` is Empty. As of 14:13:20: 2 of 6 members idle: {'b, ' * 9}and c.",
    ),
    (
        "45: members that have yet to give up, and to get, partitions",
        tell(
            m.rebalance(3, "member_joined", T0, joined=[m.member("b")], members=2),
            form=m.form(group_type="consumer", state="Reconciling"),
            is_live=False,
        ),
        "`g` was Reconciling for 10 min with 2 members at the end. It rebalanced once because a member joined.",
    ),
    (
        "46: which takes a moment",
        tell(form=m.form(group_type="consumer", state="Reconciling", state_since_ms=T0 + 9 * MINUTE)),
        "No problem was found in `g`. It did not rebalance in 0 ms. `g` is Reconciling for 1 min with 2 members.",
    ),
    (
        "47: a static member in a crash loop makes no rebalance",
        tell(*(returned("pod-0", T0 + at * MINUTE) for at in (1, 2, 3)), form=m.form()),
        "`pod-0` (static) joined again 3 times. It did not rebalance in 9 min. `g` is Stable with 2 members.",
    ),
    (
        "48: three restarts that are far apart are no loop",
        tell(*(returned("pod-0", T0 + at * MINUTE) for at in (-60, -20, 3)), form=m.form()),
        "No problem was found in `g`. It did not rebalance in 1 h 10 min. `g` is Stable with 2 members.",
    ),
    (
        "49: nor are several that are each started anew once",
        tell(*(returned(f"pod-{at}", T0 + at * MINUTE) for at in (1, 2, 3)), form=m.form()),
        "No problem was found in `g`. It did not rebalance in 9 min. `g` is Stable with 2 members.",
    ),
]


@pytest.mark.parametrize(("why", "story", "text"), SUMMARIES)
def test_summaries(why: str, story: Story, text: str) -> None:
    assert story.summary == text
    (title, (first, *_)), *_ = story.sections()
    assert (title, first) == ("", text)
    assert story.sections_without_summary() == [("", story.sections()[0][1][1:]), *story.sections()[1:]]
    assert story.to_json()["summary"] == text


def sureness(*events: Event, **asked: Any) -> list[str]:
    return [it.text for it in tell(*events, form=m.form(), **asked).paragraphs if it.kind == "sure"]


CERTAIN = "Who joined and left, when, and what was assigned is certain: it is in the log."


def test_how_sure_it_is() -> None:
    assert sureness(m.rebalance(1, joined=[m.member("a")])) == [], "that is in the log"
    assert sureness(lost()) == [
        (
            "Who joined and left, when, and what was assigned is certain: it is in the log. Inferred "
            "is why 1 member left (very likely, 96 %). The same question with --broker-log PATH (the "
            "coordinator's server.log) adds the broker's own reasons."
        )
    ]
    for asked in ({"of_agent": True}, {"is_state_known": False}):
        assert sureness(lost(), **asked)[0].endswith(
            "An agent with --broker-log PATH (the coordinator's server.log) adds the broker's own reasons."
        ), "history tables, whose state is not known, refuse --broker-log as an agent does"
        brief = dict(it[:2] for it in tell(lost(), form=m.form(), **asked).brief)["How sure"]
        assert brief[-1] == "For the broker's own reasons, add --broker-log PATH to the agent."
    for gap_ms, otherwise in ((200, "a removal by an admin"), (8_000, "a timeout"), (None, "a timeout")):
        guess = [m.gone("a", "member_left", 0.64)]
        left = m.rebalance(2, "member_left", confidence=0.64, left=guess, evidence=[m.gap("a", gap_ms)])
        assert f"`a` at 14:13:20, 64 % (or {otherwise})." in sureness(left)[0]
    doubtful = [
        m.rebalance(at, "poll_timeout", T0 + at * SECOND, left=[m.gone(f"a{at}", how, 0.5 + at / 20)])
        for at, how in enumerate(["poll_timeout", "session_timeout", "member_left", "news", "admin_removed"])
    ]
    unknown = m.rebalance(9, "cooperative_followup", left=[m.gone("b", "unknown_departure", 0)], confidence=0.95)
    assert sureness(lost(), *doubtful, unknown) == [
        f"{CERTAIN} Inferred is why 6 members left (1 very likely, 96 %, 2 likely, 65 to 70 % and 3 a guess, 50 to "
        "60 %) and what triggered 1 rebalance (very likely, 95 %). Least sure: `a0` at 14:13:20, 50 % (or a session "
        "timeout or a LeaveGroup); `a1` at 14:13:21, 55 % (or a poll timeout or a LeaveGroup); `a2` at 14:13:22, 60 "
        f"% (or a timeout); 2 more. Why 1 member left is not known."
    ]


def test_what_was_looked_at_is_in_no_log() -> None:
    seen = {**lost(), "sampled": True, "sampled_every_ms": 400}
    (said,) = sureness(seen)
    assert said.startswith("Who joined and left and what was assigned is as the Admin API showed it. Inferred is why")
    brief = dict(it[:2] for it in tell(seen, form=m.form()).brief)["How sure"]
    assert not any("in the log" in it for it in (said, *brief))
    assert not any("--broker-log" in it for it in (said, *brief)), "an agent refuses it with --source admin"


def test_what_the_broker_says_is_certain() -> None:
    said = {"kind": "broker_log", "member_id": "a-1", "at_ms": T0, "reason": "expired", "observed": True}
    seen = m.rebalance(
        2, "session_timeout", left=[m.gone("a", "session_timeout", 1.0)], evidence=[said], observed=True
    )
    assert sureness(seen) == ["All of it is certain: the broker's log states the reasons."]
    again = [{**seen, "at_ms": T0 + 1}, joined(T0 + 2, "a"), {**seen, "at_ms": T0 + 3}]
    assert "from `g` twice: its session timed out (observed)." in tell(*again, form=m.form()).summary
    assert sureness(seen, lost(T0 + 1)) == [f"{CERTAIN} Inferred is why 1 member left (very likely, 96 %)."]


def test_a_finding_that_was_told_before_the_newest_case() -> None:
    found = m.finding("poll_timeout", T0, summary="1 time")
    late = lost(T0 + MINUTE, cause="poll_timeout")

    def said(*events: Event) -> str:
        return next(it.text for it in tell(*events, findings=[found]).paragraphs if it.kind == "finding")

    assert said(lost(cause="poll_timeout")) == "poll_timeout (warning), open since 14:13:20, as of 14:13:20: 1 time."
    assert said(lost(cause="poll_timeout"), late) == (
        "poll_timeout (warning), open since 14:13:20, as of 14:13:20: 1 time. Since then a member did not poll in "
        "time once, at 14:14:20."
    )
    assert said(late, lost(T0 + MINUTE)).count("Since then") == 1


def test_how_many_came_since_an_open_finding_was_told() -> None:
    found = [m.finding("session_timeout", T0), m.finding("idle_members", T0 + MINUTE, severity="info")]
    after = [lost(T0 + it * MINUTE, f"c{it}") for it in range(3)]

    def said(*events: Event) -> str:
        brief = {it.title: it.texts for it in tell(*events, form=m.form(), findings=found).brief}
        return brief["What happened"][-1]

    assert said(*after) == (
        "Open findings: session_timeout (warning, as of 14:13:20, 2 more since) and idle_members (info, as of "
        "14:14:20)."
    )
    assert "(warning, as of 14:13:20) and" in said(after[0])


# What a finding's advice names, who was lost since, and what the first sentence says of them.
LATER = [
    (1, "Find why a stopped. Or not.", [], ""),
    (2, "Find why a stopped. Or not.", ["a"], ""),  # it is named already
    (3, "Find why a stopped. Or not.", ["b"], "; since 14:13:20, `b` was removed because its session timed out, too"),
    (
        4,
        "Find why a stopped. Or not.",
        list("bcdefb"),
        "; since 14:13:20, `b`, `c`, `d` and 2 more were removed because their sessions timed out, too",
    ),
    (5, "Raise it. Or not.", ["b"], ""),  # nobody is named, so nobody lacks
]


@pytest.mark.parametrize(("row", "advice", "later", "said"), LATER)
def test_an_advice_names_those_that_were_lost_since(row: int, advice: str, later: list[str], said: str) -> None:
    found = {**m.finding("session_timeout", T0, advice=advice), "numbers": {"clients": ["a"], "instance_ids": []}}
    events = [lost(T0, "a"), *(lost(T0 + at * MINUTE, it) for at, it in enumerate(later, 1))]
    first, _, rest = advice.partition(".")
    assert tell(*events, form=m.form(), findings=[found]).advice[0] == (
        f"{first}{said}.{rest} See docs/runbooks.md#kshadowsessiontimeouts."
    )


def test_static_members_are_named_by_their_instance_ids() -> None:
    found = {
        **m.finding("session_timeout", T0, advice="Find why i1 stopped."),
        "numbers": {"clients": ["app"], "instance_ids": ["i1"]},
    }
    since = [
        m.rebalance(it, left=[m.gone("app", "session_timeout", instance_id=f"i{it}")], at_ms=T0 + it * MINUTE)
        for it in (1, 2)
    ]
    assert (
        tell(*since, form=m.form(), findings=[found])
        .advice[0]
        .startswith("Find why i1 stopped; since 14:13:20, `i2` was removed because its session timed out, too.")
    )
    # What a file has as numbers may be anything.
    for numbers in ([1], {"clients": "i1"}, {"clients": [1, None]}, None):
        story = tell(*since, form=m.form(), findings=[{**found, "numbers": numbers}])
        assert story.advice[0].startswith("Find why i1 stopped. See ")
