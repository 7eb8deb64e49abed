"""Offsets of groups that are gone, and of topics that a group left."""

from __future__ import annotations

import time

import pytest

from agent.core.diagnosis.api import Finding
from agent.core.diagnosis.engine import PartitionDiagnosis
from agent.core.shadow.mirror import PartitionMirror
from analyzers.registry import select_analyzers
from tests.unit.analyzers.story import Story, said
from tests.unit.core.shadow import build as b
from tests.unit.core.shadow.build import Log, Pair

ORPHANED = "orphaned_offsets"
HOUR = 3_600
DAY = 24 * HOUR


def orphaned(log: Log, until_s: float = 0, **tuned: str) -> list[Finding]:
    story = Story()
    story.log = log
    return story.findings(ORPHANED, {f"{ORPHANED}.{name}": value for name, value in tuned.items()}, until_s)


def emptied() -> Log:
    return Story().change(["a", "b"]).work(20).change(leave=["a", "b"]).log


CLASSIC = [b.new_group(), b.classic_group(1, b.member("a-1", {"t": [0]}))]
CONSUMER = [b.c_member("a-1"), b.c_epoch(2), b.c_target_epoch(2), b.c_current("a-1", 2, {"t": [0]})]
CONSUMER_LEFT = [*(b.tombstone(kind, "a-1") for kind in (8, 7, 5)), b.c_epoch(3), b.c_target_epoch(3)]


@pytest.mark.parametrize(
    ("members", "left", "days"),
    [
        (CLASSIC, [], 0),
        (CONSUMER, [], 0),
        (CLASSIC, [b.classic_group(2)], 8),
        (CONSUMER, CONSUMER_LEFT, 8),
        ([], [], 8),
    ],
    ids=["classic", "consumer", "empty-classic", "empty-consumer", "simple"],
)
def test_offsets_that_are_deleted_by_the_thousand(members: list[Pair], left: list[Pair], days: int) -> None:
    """As with a group or a large topic, and when those of an empty group expire."""
    log, positions = Log().add(*members), range(8_000)
    log.add(*(b.commit("t", it, 5, at_ms=log.now_ms, version=4, id_of_topic=b.topic_id("t")) for it in positions))
    log.add(*left)
    log.add(*(b.uncommit("t", it) for it in positions), after_ms=600_000 + days * DAY * 1000)
    diagnosis = PartitionDiagnosis(PartitionMirror(log.partition), select_analyzers().makes)
    began = time.process_time()
    out = diagnosis.replay_batch(b.run_of(log.records))
    assert sum(it.kind == "offsets_deleted" for it in out) == len(positions)
    assert time.process_time() - began < 10


def test_a_group_that_is_empty_for_days() -> None:
    log = emptied()
    assert orphaned(log, 3 * DAY - 1) == []
    (opened,) = orphaned(log, 3 * DAY)
    assert said([opened]) == [("info", "firing")]
    assert opened.summary == (
        "2 committed offsets of t are unused: the group has had no members and no commit for 3 days."
    )
    assert opened.numbers == {
        "kind": "empty_group",
        "offsets": 2,
        "topics": 1,
        "topic_names": ["t"],
        "idle_s": 3 * DAY,
        "last_commit_ms": log.now_ms - 202,
    }
    assert "deletes them after 7 days" in opened.advice


@pytest.mark.parametrize("years", [1, 100_000_000])
def test_a_clock_that_strangers_move_ahead_is_soon_caught_up_with(years: int) -> None:
    log = emptied()
    log.now_ms += years * 365 * DAY * 1000
    for offset in range(4):
        log.add(b.commit("t", 0, offset, group="stranger", at_ms=log.now_ms))
    began = time.process_time()
    assert said(orphaned(log)) == [("info", "firing")]
    assert time.process_time() - began < 1


def test_it_tells_as_it_stands_that_the_broker_keeps_offsets_for_long() -> None:
    log = emptied()
    log.add(b.uncommit("t", 0), after_ms=10 * DAY * 1000)
    closed = orphaned(log.add(b.uncommit("t", 1)), 2 * HOUR)[-1]
    assert said([closed]) == [("info", "resolved")]
    assert "would have deleted them" in closed.advice


def test_a_consumer_that_comes_back_ends_it_at_once() -> None:
    story = Story().change(["a"]).work(20).change(leave=["a"]).pass_by(4 * DAY).change(["a"])
    assert said(orphaned(story.log)) == [("info", "firing"), ("info", "resolved")]
    # And it stays so.
    assert len(orphaned(story.log, 10 * DAY)) == 2


def test_a_group_without_offsets_has_none_to_lose() -> None:
    assert orphaned(Story().change(["a"]).change(leave=["a"]).log, 5 * DAY) == []


def test_a_group_that_was_deleted_is_no_concern() -> None:
    log = emptied().add(b.uncommit("t", 0), b.uncommit("t", 1), b.no_classic_group())
    assert orphaned(log, 5 * DAY) == []


def test_a_group_of_offsets_only_while_it_commits_and_after() -> None:
    log = Log()
    for day in range(10):
        log.add(b.commit("t", 0, offset=day, at_ms=log.now_ms + DAY * 1000), after_ms=DAY * 1000)
    assert orphaned(log, 2 * DAY) == []
    assert said(orphaned(log, 3 * DAY)) == [("info", "firing")]
    # It commits again: the next sample shows that, if more commits than its first come.
    log.add(b.commit("t", 0, offset=99, at_ms=log.now_ms + 4 * DAY * 1000), after_ms=4 * DAY * 1000)
    assert said(orphaned(log, 6 * HOUR)) == [("info", "firing"), ("info", "resolved")]


def test_commits_without_a_time_tell_nothing() -> None:
    """Neither since when a group is silent, nor that it left a topic."""
    log = Log()
    for offset in range(100):
        log.add(b.commit("t", 0, offset=offset, at_ms=-1), after_ms=HOUR * 1000)
    assert orphaned(log, DAY) == []
    log = Log().add(b.classic_group(1, b.member("a-1", {"old": [0], "new": [0]}, topics=["old", "new"])))
    log.add(b.commit("old", 0, at_ms=-1), b.commit("new", 0, at_ms=log.now_ms))
    log.add(b.classic_group(2, b.member("a-1", {"new": [0]}, topics=["new"])))
    assert orphaned(log, 30 * DAY) == []


def moved() -> Log:
    """A group that left topic `old` for `new`, and for one of which nothing was committed yet."""
    log = Log().add(b.classic_group(1, b.member("a-1", {"old": [0, 1], "new": [0]}, topics=["old", "new"])))
    log.add(*(b.commit(topic, number, at_ms=log.now_ms) for topic, number in (("old", 0), ("old", 1), ("new", 0))))
    return log.add(b.classic_group(2, b.member("a-1", {"new": [0]}, topics=["new", "empty"])))


def test_topics_that_an_active_group_left() -> None:
    log = moved()
    # Committed two seconds before the log ends.
    due_s = 3 * DAY - 2
    assert orphaned(log, due_s - 1) == []
    (opened,) = orphaned(log, due_s)
    assert said([opened]) == [("info", "firing")]
    assert opened.summary == (
        "2 committed offsets of old are unused: no member subscribes, and the last commit was 3 days ago."
    )
    assert opened.numbers["kind"] == "unused_topics"
    assert opened.numbers["topic_names"] == ["old"]
    assert "--delete-offsets" in opened.advice


def test_offsets_that_the_broker_deletes_end_it_an_hour_later() -> None:
    log = moved()
    log.add(b.uncommit("old", 0), b.uncommit("old", 1), after_ms=7 * DAY * 1000)
    assert said(orphaned(log, HOUR - 1)) == [("info", "firing")]
    assert said(orphaned(log, HOUR)) == [("info", "firing"), ("info", "resolved")]


def test_a_topic_that_is_subscribed_is_in_use_however_quiet() -> None:
    log = Log().add(b.classic_group(1, b.member("a-1", {"t": [0]}, topics=["t", "quiet"])))
    log.add(b.commit("t", 0, at_ms=log.now_ms), b.commit("quiet", 0, at_ms=log.now_ms))
    assert orphaned(log, 30 * DAY) == []


def test_subscriptions_that_cannot_be_read_tell_nothing() -> None:
    log = Log().add(b.classic_group(1, b.member("a-1", {"t": [0]}), b.member("b-1", subscription=b"\x00")))
    log.add(b.commit("old", 0, at_ms=log.now_ms))
    assert orphaned(log, 30 * DAY) == []


def test_connect_workers_consume_nothing_in_their_group() -> None:
    log = Log().add(b.classic_group(1, b.worker("w-1", {"sink": [0]}), protocol_type="connect", protocol="sessioned"))
    log.add(b.commit("old", 0, at_ms=log.now_ms))
    assert orphaned(log, 30 * DAY) == []


def pattern(*assigned: str, with_id: bool) -> Log:
    """A KIP-848 group that subscribes by pattern; `t1` is known by name, and `old` was left."""
    log = Log().add(b.c_member("a-1", topics=(), regex="t.*"), b.c_epoch(2))
    log.add(b.c_target("a-1", {topic: [0] for topic in assigned}), b.c_target_epoch(2))
    log.add(b.c_current("a-1", 2, {topic: [0] for topic in assigned}))
    for topic in ("t1", "old"):
        known = b.topic_id(topic) if topic == "t1" or with_id else b.ZERO_UUID
        log.add(b.commit(topic, 0, version=4, at_ms=log.now_ms, id_of_topic=known))
    return log


@pytest.mark.parametrize(
    ("assigned", "with_id", "topics"),
    [
        (["t1"], True, ["old"]),
        (["t1"], False, ["old"]),
        (["t1", "old"], True, []),
        (["t1", "t2"], True, ["old"]),
        # The topic that is known by its id alone may be the one of the offset.
        (["t1", "t2"], False, []),
        ([], True, []),
    ],
)
def test_a_subscription_by_pattern(assigned: list[str], with_id: bool, topics: list[str]) -> None:
    found = orphaned(pattern(*assigned, with_id=with_id), 4 * DAY)
    assert [it.numbers["topic_names"] for it in found] == ([topics] if topics else [])


def test_streams_groups_of_the_new_protocol_name_no_topics() -> None:
    log = Log().add(b.k_member("a-1"), b.k_epoch(2), b.commit("old", 0))
    assert orphaned(log, 30 * DAY) == []


def test_a_group_that_rebalances_all_the_time_is_still_looked_at() -> None:
    story = Story()
    story.log = moved()
    for generation in range(3, 3 + 8 * 24):
        story.log.add(b.classic_group(generation, b.member("a-1", {"new": [0]}, topics=["new"])), after_ms=HOUR * 500)
    assert len(orphaned(story.log)) == 1


def test_a_group_that_is_between_two_types_as_it_is_looked_at() -> None:
    """Its record was deleted while it had members: a migration, of which the rest is yet to come."""
    log = Log().add(b.classic_group(1, b.member("a-1", {"t": [0]}))).add(b.no_classic_group())
    assert orphaned(log, 30 * DAY) == []


def test_commits_end_it_within_minutes() -> None:
    log = Log().add(b.commit("t", 0, at_ms=b.T0 + 1_000))
    log.add(b.commit("t", 0, group="other"), after_ms=4 * DAY * 1000)
    began_ms = log.now_ms
    for number in range(60):
        log.add(b.commit("t", 0, offset=100 + number, at_ms=log.now_ms + 10_000), after_ms=10_000)
    opened, closed = (it for it in orphaned(log) if it.group == b.GROUP)
    assert said([opened, closed]) == [("info", "firing"), ("info", "resolved")]
    assert closed.at.timestamp_ms - began_ms <= 5 * 60_000
