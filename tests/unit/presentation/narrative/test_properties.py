"""Any history makes a story, and none says more or less than its events."""

from __future__ import annotations

from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from agent.core.events.events import event_of
from agent.core.shadow.mirror import PartitionMirror
from agent.presentation.json_views import describe_json
from agent.presentation.narrative.events import is_story_event
from agent.presentation.narrative.explain import StoryRequest, explain
from agent.presentation.narrative.timeline import timeline_entries
from tests import examples
from tests.unit.core.shadow.histories import histories
from tests.unit.presentation.narrative import made as m
from tests.unit.presentation.narrative.made import T0

SLOW = [HealthCheck.too_slow, HealthCheck.data_too_large]


@settings(max_examples=examples(60), deadline=None, suppress_health_check=SLOW)
@given(histories(), st.integers(0, 40), st.integers(0, 40))
def test_any_history_has_a_story(log: Any, skipped: int, lasted: int) -> None:
    mirror = PartitionMirror(log.partition)
    events = [event_of(change) for record in log.records for change in mirror.replay(record)]
    assert all(map(is_story_event, events))
    now_ms = log.records[-1].timestamp_ms if log.records else T0
    for group in {event["group"] for event in events}:
        own = [event for event in events if event["group"] == group]
        lines = timeline_entries(own)
        assert [event for line in lines for event in line.events] == own, "nothing is lost and nothing told twice"
        view = mirror.view(group)
        form = None if view is None else describe_json(view, mirror.committed(group))
        since_ms = own[0]["at_ms"] + skipped * 1_000
        ranged = StoryRequest(group, now_ms, since_ms, since_ms + lasted * 1_000)
        for asked in (
            StoryRequest(group, now_ms),
            ranged,
            StoryRequest(group, now_ms, is_live=True, complete_since_ms=now_ms),
        ):
            story = explain(asked, own, [], form)
            told = [
                event
                for event in own
                if event["type"] == "rebalance"
                and (asked.since_ms is None or event["at_ms"] >= asked.since_ms)
                and (asked.complete_since_ms is None or event["at_ms"] >= asked.complete_since_ms)
                and (asked.until_ms is None or event["at_ms"] <= asked.until_ms)
            ]
            assert story.numbers["rebalances"] == sum(story.numbers["rebalances_by_cause"].values()) == len(told)
            assert 0 <= story.numbers["empty_ms"] <= max(story.until_ms - story.since_ms, 0)
            happened = next(it.text for it in story.paragraphs if it.kind == "happened")
            times = {0: "", 1: "rebalanced once", 2: "rebalanced twice"}.get(
                len(told), f"rebalanced {len(told)} times"
            )
            assert times in happened
            assert ("rebalanced" in happened) == bool(told)
            assert all(text and "None" not in text for _, texts in story.sections() for text in texts)


values: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)
FIELDS = (
    *(
        "member_id",
        "gap_ms",
        "commits_every_ms",
        "session_timeout_ms",
        "rebalance_timeout_ms",
        "generation_lasted_ms",
    ),
    *("candidates", "partitions", "added", "removed", "topics", "to", "before_end_ms", "never_completed", "observed"),
    *("cause", "before", "after", "anything"),
)
KINDS = (
    *("commit_gap", "joined", "withheld", "subscription", "partitions", "migration", "nobody_changed"),
    *("partitions_initialized", "assignor"),
    *("generation_gap", "static_member_replaced", "went_at_the_end", "broker_log", "admin_api", "news"),
)
evidence = st.fixed_dictionaries(
    {"kind": st.sampled_from(KINDS) | values}, optional={field: st.just("a-1") | values for field in FIELDS}
)
CAUSES = ("member_joined", "member_left", "session_timeout", "poll_timeout", "unknown_departure", "unknown", "news")


@settings(max_examples=examples(200), deadline=None)
@given(
    st.lists(evidence, max_size=4),
    st.sampled_from(CAUSES),
    st.sampled_from(CAUSES),
    st.floats(0, 1),
    st.booleans(),
    st.sampled_from(["classic", "connect", "consumer", "share", "streams", "news"]),
)
def test_any_evidence_has_words(
    items: list[Any], cause: str, went: str, confidence: float, observed: bool, group_type: str
) -> None:
    event = m.rebalance(
        2,
        cause,
        confidence=confidence,
        evidence=items,
        left=[m.gone("a", went, confidence)],
        observed=observed,
        group_type=group_type,
    )
    assert is_story_event(event)
    story = explain(StoryRequest("g", T0), [event], [], m.form(group_type=group_type))
    assert story.numbers["left"] == 1
    text = "\n".join(text for _, texts in story.sections() for text in texts)
    if not any(item.get("observed") is True for item in items):
        assert "(observed)" not in text, "nobody saw it"
