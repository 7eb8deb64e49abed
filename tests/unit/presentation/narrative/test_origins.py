"""Origins beside causes, in words: the answer, the lines, the evidence, contradictions, and what to do."""

from __future__ import annotations

from typing import Any

import pytest

from agent.core.causes import Cause
from agent.core.inference.origins import KINDS, OriginKind, contradicts, origin_info
from agent.presentation.narrative.explain import Story, StoryRequest, explain
from agent.presentation.narrative.summary import MAX_WORDS
from agent.presentation.narrative.timeline import timeline_entries
from agent.presentation.narrative.words import word_count
from tests.unit.presentation.narrative import made as m
from tests.unit.presentation.narrative.made import MINUTE, T0

OOM = "container `app` was killed by the kernel at its memory limit of 512Mi; third time within a day"


def origin(kind: str, message: str = "", **more: Any) -> dict[str, Any]:
    return {
        "kind": kind,
        "at_ms": T0 - 2_000,
        "namespace": "shop",
        "pod": "payments-2",
        "container": "app",
        "node": "n7",
        "workload": "StatefulSet/payments",
        "revision": "7d9f",
        "exit_code": {"oom_killed": 137, "exited": 1}.get(kind),
        "message": message or (OOM if kind == "oom_killed" else "the pod was touched"),
        **more,
    }


def lost(found: Any, client: str = "payments-2", cause: str = "session_timeout", at_ms: int = T0) -> m.Event:
    return m.rebalance(2, cause, at_ms, left=[{**m.gone(client, cause, 0.96), "origin": found}], stopped_ms=36_000)


def tell(*events: m.Event, findings: Any = ()) -> Story:
    asked = StoryRequest("payments", now_ms=T0 + 10 * MINUTE, is_live=True)
    return explain(asked, events, list(findings), m.form())


def text_of(story: Story, kind: str) -> str:
    return " ".join(it.text for it in story.paragraphs if it.kind == kind)


REMOVED, LEFT = "`payments-2` was removed from `payments` at 14:13:20", "`payments-2` left `payments` at 14:13:20"
AGAIN = "It has not joined again."


@pytest.mark.parametrize(
    ("story", "expected"),
    [
        pytest.param(
            tell(lost(origin("oom_killed"))),
            f"{REMOVED}: it was OOM-killed at its limit of 512Mi. {AGAIN}",
            id="1: what the kernel did says more than the timeout",
        ),
        pytest.param(
            tell(lost(origin("exited"), cause="member_left")),
            f"{LEFT}: it exited with code 1. {AGAIN} `payments` is Stable with 2 members.",
            id="2: a crash is told of, however clean its goodbye",
        ),
        pytest.param(
            tell(lost(origin("exited", exit_code=0), cause="member_left")),
            "No problem was found in `payments`. It rebalanced once because a member left. "
            "`payments` is Stable with 2 members.",
            id="3: who had nothing left to do is no problem",
        ),
        pytest.param(
            tell(lost(origin("oom_killed"), cause="member_left")),
            f"{LEFT} (very likely), though Kubernetes reports that it was OOM-killed at its limit of 512Mi. {AGAIN}",
            id="4: a killed process says no goodbye: both are told",
        ),
        pytest.param(
            tell(lost(origin("drained"))),
            f"{REMOVED}: its session timed out after it was drained from its node. {AGAIN}",
            id="5: a planned end that the group had to wait for",
        ),
        pytest.param(
            tell(lost(origin("oom_killed"), client="consumer-1")),
            "`consumer-1` was removed from `payments` at 14:13:20: pod `payments-2` was OOM-killed at its limit of "
            f"512Mi. {AGAIN}",
            id="6: the pod by its name, where the client has another",
        ),
        pytest.param(
            tell(lost(origin("rolled_out"), cause="unknown_departure")),
            "No problem was found in `payments`. It rebalanced once because a member left for an unknown reason. "
            "`payments` is Stable with 2 members.",
            id="7: a planned end is no problem, and no departure that nobody understands",
        ),
        pytest.param(
            tell(lost(origin("oom_killed")), lost(origin("exited"), "b", at_ms=T0 + MINUTE), lost(None, "c")),
            "3 members left `payments` at 14:13:20: OOM-killed (1), exited with code 1 (1) and session timeout (1) "
            "(very likely). None joined again.",
            id="8: several, each by what is known of it",
        ),
        pytest.param(
            tell(lost({"kind": "oom_killed"})),
            f"{REMOVED}: its session timed out (very likely). {AGAIN} `payments` is Stable with 2 members.",
            id="9: what is no origin says nothing",
        ),
    ],
)
def test_the_answer_tells_the_origin(story: Story, expected: str) -> None:
    assert story.summary == expected
    assert word_count(story.summary) <= MAX_WORDS


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("cause", ["session_timeout", "member_left", "unknown_departure", "poll_timeout"])
def test_each_kind_beside_each_cause_stays_within_the_answer(kind: str, cause: str) -> None:
    story = tell(lost(origin(kind), "a client with a long name " * 9, cause))
    assert word_count(story.summary) <= MAX_WORDS
    assert "{" not in story.summary
    said = story.summary + text_of(story, "happened") + text_of(story, "why")
    assert origin_info(kind).words.split(" with ")[0] in said
    assert ("contradict each other" in said) == contradicts(cause, kind)


def test_a_loop_says_what_ends_it_each_time() -> None:
    again = {**m.member("payments-2"), "origin": origin("restarted")}
    events = [
        it
        for turn in range(3)
        for it in (
            lost(origin("oom_killed"), at_ms=T0 + 2 * turn * MINUTE),
            m.rebalance(3, at_ms=T0 + (2 * turn + 1) * MINUTE, joined=[again]),
        )
    ]
    story = tell(*events)
    assert story.summary == (
        "`payments-2` was removed from `payments` 3 times: it was OOM-killed at its limit of 512Mi. It joined again "
        "3 times."
    )
    assert "Before it, 2 more were OOM-killed (pod `payments-2`)." in text_of(story, "why")


def test_lines_and_evidence_tell_it_with_the_pod() -> None:
    line = timeline_entries([lost(origin("oom_killed"))])[0].text
    assert line == (
        "generation 2: `payments-2` was removed because its session timed out (very likely, 96 %): OOM-killed at its "
        "limit of 512Mi; 2 members"
    )
    came = m.rebalance(2, joined=[{**m.member("a"), "origin": origin("scaled_up")}])
    assert "`a` joined (scaled up)" in timeline_entries([came])[0].text
    story = tell(lost(origin("oom_killed")))
    assert f"Kubernetes, at 14:13:18: {OOM} (pod `payments-2`, node `n7`, exit code 137)." in text_of(story, "why")
    assert story.to_json()["numbers"]["left_by_origin"] == {"oom_killed": 1}
    assert "left_by_origin" not in tell(lost(None)).to_json()["numbers"]
    (evidence,) = (it for paragraph in story.paragraphs for it in paragraph.evidence if it["kind"] == "origin")
    assert (evidence["member_id"], evidence["origin"]["kind"]) == ("payments-2-1", "oom_killed")


def test_a_static_member_that_came_back_says_why_it_went() -> None:
    old = {**m.member("a", instance_id="i"), "origin": origin("oom_killed")}
    event = m.event("static_member_replaced", generation=3, old_member=old, member=m.member("a", instance_id="i"))
    text = timeline_entries([event])[0].text
    assert text == "`a` (static, `i`) joined again with a new member id: OOM-killed at its limit of 512Mi"


def test_what_is_not_known_is_only_what_neither_tells() -> None:
    story = tell(lost(origin("evicted"), cause="unknown_departure"), lost(None, "b", "unknown_departure", T0 + 1))
    assert "Why 1 member left is not known." in text_of(story, "sure")
    assert not any("payments-2" in it for it in story.limitations)
    assert any("`b`" in it for it in story.limitations)


ADVICE = [
    ("oom_killed", OOM, "session_timeout", ("memory limit", "`app` of `StatefulSet/payments` (now 512Mi)")),
    ("exited", "ended with exit code 1", "session_timeout", ("with code 1", "kubectl logs --previous")),
    (
        "liveness_killed",
        "its liveness probe failed (every 10 s, 3 times, timeout 1 s); it ended not within its grace period of 30 s",
        "session_timeout",
        ("failureThreshold", "(now every 10 s, 3 times, timeout 1 s)", "terminationGracePeriodSeconds (now 30 s)"),
    ),
    ("evicted", "", "member_left", ("PodDisruptionBudget", "Request")),
    ("preempted", "", "member_left", ("priorityClassName",)),
    ("node_lost", "", "session_timeout", ("node `n7`", "topologySpreadConstraints")),
    (
        "scaled_down",
        "it did not end within its grace period of 30 s",
        "session_timeout",
        ("SIGTERM", "terminationGracePeriodSeconds (now 30 s)", "scaled down"),
    ),
]


@pytest.mark.parametrize(("kind", "message", "cause", "words"), ADVICE, ids=[it[0] for it in ADVICE])
def test_advice_names_the_setting_and_the_value_in_force(
    kind: str, message: str, cause: str, words: tuple[str, ...]
) -> None:
    found = m.finding("session_timeout", advice="Find why a stops.") if cause == "session_timeout" else None
    (first, *others) = tell(lost(origin(kind, message), cause=cause), findings=[found] if found else []).advice
    assert all(it in first for it in words)
    assert not any("Find why a stops" in it or "OOM kills" in it for it in others)


def test_no_advice_is_given_twice() -> None:
    """A finding that knows an origin advises the same, though the origin is of one departure in three."""
    events = [lost(origin("oom_killed") if not it else None, f"c{it}", at_ms=T0 + it) for it in range(3)]
    of_origin = "Raise the memory limit of container `app` of `StatefulSet/payments`"
    (same,) = (it for it in tell(*events).advice if of_origin in it)
    found = m.finding("session_timeout", advice=f"{same.partition(' See ')[0]} Find why the others stop.")
    assert sum(of_origin in it for it in tell(*events, findings=[found]).advice) == 1


@pytest.mark.parametrize("kind", ["scaled_down", "rolled_out", "drained", "deleted"])
def test_a_planned_end_with_a_goodbye_needs_no_advice(kind: str) -> None:
    assert tell(lost(origin(kind), cause="member_left")).advice == ()


def test_repeated_drains_want_a_budget() -> None:
    events = [lost(origin("drained"), f"c{it}", "member_left", T0 + it) for it in range(2)]
    assert any("PodDisruptionBudget" in it for it in tell(*events).advice)


def test_only_what_a_dead_process_cannot_do_contradicts() -> None:
    assert {kind for kind in KINDS if contradicts(Cause.MEMBER_LEFT, kind)} == {
        OriginKind.OOM_KILLED,
        OriginKind.NODE_LOST,
    }
    assert not any(contradicts(Cause.SESSION_TIMEOUT, kind) for kind in KINDS)
    assert not contradicts(Cause.MEMBER_LEFT, "a_kind_of_tomorrow")
