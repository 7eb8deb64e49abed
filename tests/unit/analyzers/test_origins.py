"""What happened to the pods of lost members, in findings: said, counted, and what the advice is made of."""

from __future__ import annotations

from collections.abc import Mapping

from agent.core.inference.origins import Origin
from agent.core.shadow.views import Member
from tests.unit.analyzers.story import Story
from tests.unit.core.inference.test_origin_evidence import origin

SESSION, POLL, STORM = "session_timeout", "poll_timeout", "rebalance_storm"


class PodsByClient:
    """Tells the origins of members by their client ids."""

    is_behind = False

    def __init__(self, went: Mapping[str, Origin], came: Mapping[str, Origin] = {}) -> None:
        self.went, self.came = went, came

    def departure_origin(self, member: Member, departed_ms: int | None, shown_ms: int) -> Origin | None:
        return self.went.get(member.client_id)

    def join_origin(self, member: Member, shown_ms: int) -> Origin | None:
        return self.came.get(member.client_id)


def test_a_timeout_whose_origin_is_known_says_it_and_what_to_raise() -> None:
    story = Story().change(["a", "b"]).work(20).lose("b")
    (opened,) = story.findings(SESSION, origin_source=PodsByClient({"b": origin("oom_killed")}))
    assert opened.summary == (
        "1 session timed out within 1 h: b on 10.0.0.1 after 10 s; by Kubernetes: OOM-killed (1)."
    )
    assert opened.advice == (
        "Raise the memory limit of container `app` of `StatefulSet/payments` (now 512Mi) above what it uses, or find "
        "what grows; its nodes then need that much more memory."
    )
    assert opened.numbers["origins"] == {"oom_killed": 1}


def test_what_is_not_known_of_all_is_still_to_be_looked_for() -> None:
    story = Story().change(["a", "b", "c"]).work(20).lose("b", "c")
    (opened,) = story.findings(SESSION, origin_source=PodsByClient({"b": origin("oom_killed")}))
    assert opened.advice.startswith("Raise the memory limit")
    assert "Find why b and c stopped sending heartbeats" in opened.advice


def test_a_planned_end_without_a_goodbye_says_how_to_say_it() -> None:
    story = Story().change(["a", "b"]).work(20).lose("b")
    (opened,) = story.findings(SESSION, origin_source=PodsByClient({"b": origin("scaled_down")}))
    assert opened.advice.startswith("Close the consumer on SIGTERM, and raise terminationGracePeriodSeconds")


def test_who_did_not_poll_and_was_killed_for_it_has_both_to_change() -> None:
    story = Story().change(["a", "b"]).work(20).stall("b")
    (opened,) = story.findings(POLL, origin_source=PodsByClient({"b": origin("liveness_killed")}))
    assert opened.advice.startswith("Raise failureThreshold or timeoutSeconds of the liveness probe")
    assert "max.poll.records" in opened.advice


def test_a_storm_says_what_ends_the_client_each_time() -> None:
    story = Story().change(["a", "b"]).work(20)
    for _ in range(4):
        at_ms = story.log.now_ms
        story.lose("b", join=["b"]).work(20)
    pods = PodsByClient({"b": origin("oom_killed", at_ms=at_ms)})
    found = story.findings(STORM, origin_source=pods)
    assert found
    assert "by Kubernetes: OOM-killed (" in found[-1].summary
    assert found[-1].advice.startswith("Raise the memory limit")


def test_a_source_that_knows_nothing_changes_nothing() -> None:
    story = Story().change(["a", "b"]).work(20).lose("b").pass_by(4).change(["b"]).work(20).lose("b")
    assert story.findings(SESSION, origin_source=PodsByClient({})) == story.findings(SESSION)
