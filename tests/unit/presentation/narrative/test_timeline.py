"""Events folded into lines."""

from __future__ import annotations

from typing import Any

import pytest

from agent.presentation.narrative.timeline import timeline_entries
from tests.unit.presentation.narrative import made as m
from tests.unit.presentation.narrative.made import SECOND, T0

Event = dict[str, Any]


def at_one_record(*events: Event) -> list[Event]:
    """The same events, as one record shows them."""
    return [{**event, "offset": events[0]["offset"], "at_ms": events[0]["at_ms"]} for event in events]


def moved(generation: int, assigned: int, gained: int, lost: int = 0, **more: Any) -> Event:
    numbers = {"assigned_partitions": assigned, "gained_partitions": gained, "lost_partitions": lost}
    return m.event("assignment_changed", generation=generation, **numbers, **more)


def what(*events: Event) -> str:
    (line,) = timeline_entries(events)
    return line.text


def test_what_one_record_shows_is_one_line() -> None:
    done = m.rebalance(3, "session_timeout", left=[m.gone("a", "session_timeout")], confidence=0.97, stopped_ms=3_500)
    left = m.event("member_left", generation=3, member=m.member("a"), cause="session_timeout", confidence=0.97)
    events = at_one_record(done, left, moved(3, 10, 6))
    (line,) = timeline_entries(events)
    assert (line.label, line.cost_ms, line.events) == ("rebalance", 3_500, tuple(events))
    assert line.text == (
        "generation 3: `a` was removed because its session timed out (very likely, 97 %); 2 members; "
        "6 of 10 partitions moved"
    )


def test_what_another_record_shows_is_not() -> None:
    events = [m.rebalance(3), m.rebalance(4), moved(4, 10, 6, at_ms=T0 + 1), m.event("group_deleted")]
    assert [line.label for line in timeline_entries(events)] == ["rebalance", "rebalance", "assigned", "deleted"]


def test_the_target_behind_the_epoch_belongs_to_it() -> None:
    epoch = m.rebalance(3, group_type="consumer", joined=[m.member("a")], stopped_ms=None, protocol=None)
    first, later = moved(3, 10, 6, group_type="consumer"), moved(3, 10, 6, group_type="consumer", at_ms=T0 + 1)
    assert what(epoch, first) == "epoch 3: `a` joined; 2 members; 6 of 10 partitions moved"
    assert [line.text for line in timeline_entries([epoch, later])] == [
        "epoch 3: `a` joined; 2 members",
        "epoch 3: 6 of 10 partitions moved",
    ]
    assert len(timeline_entries([epoch, moved(4, 10, 6)])) == 2, "that of another epoch does not"


JOINED = [m.member("a"), m.member("a", 2), m.member("b")]

# 1-21: each way a rebalance may be told.
REBALANCES: list[tuple[Event, str]] = [
    (m.rebalance(1, joined=[m.member("a")], members=1), "`a` joined; 1 member"),  # 1
    (m.rebalance(1, joined=JOINED, members=3), "`a` (2) and `b` joined; 3 members"),  # 2: one client id of two
    (m.rebalance(1, joined=[m.member("", 5)]), "`-5` joined; 2 members"),  # 3: no client id
    (
        m.rebalance(2, "member_left", left=[m.gone("a", "member_left", 0.9)], members=0),
        "`a` left (very likely, 90 %); no members",
    ),  # 4
    (
        m.rebalance(2, "member_left", left=[m.gone(it, "member_left", c) for it, c in (("a", 0.97), ("b", 0.8))]),
        "`a` and `b` left (likely, 80 %); 2 members",
    ),  # 5: as sure as of the least
    (
        m.rebalance(2, "poll_timeout", left=[m.gone("a", "poll_timeout")], confidence=0.97),
        "`a` left because it did not poll in time (very likely, 97 %); 2 members",
    ),  # 6
    (
        m.rebalance(2, "unknown_departure", left=[m.gone("a", "unknown_departure", 0.0)], confidence=0.0),
        "`a` left for an unknown reason; 2 members",
    ),  # 7: unknown is not inferred
    (
        m.rebalance(2, "admin_removed", left=[m.gone("a", "admin_removed", 0.8)], confidence=0.8),
        "`a` was removed by an admin (likely, 80 %); 2 members",
    ),  # 8
    (
        m.rebalance(2, joined=[m.member("a", 2)], left=[m.gone("a", "session_timeout")], confidence=0.8),
        "`a` joined again; `a` was removed because its session timed out (very likely, 97 %); "
        "the join came first (likely, 80 %); 2 members",
    ),  # 9
    (
        m.rebalance(2, "unknown", joined=[m.member("b")], left=[m.gone("a", "member_left")], confidence=0.0),
        "`b` joined; `a` left (very likely, 97 %); which came first is unknown; 2 members",
    ),  # 10
    (
        m.rebalance(2, "cooperative_followup", confidence=0.95),
        "second round of a cooperative rebalance (very likely, 95 %); 2 members",
    ),  # 11
    (
        m.rebalance(2, "protocol_migrated", joined=[m.member("b")]),
        "`b` joined; the group changed its protocol; 2 members",
    ),  # 12
    (m.rebalance(2, "unknown", confidence=0.0), "cause unknown; 2 members"),  # 13
    (m.rebalance(2, "new_cause", confidence=0.9), "cause new_cause (very likely, 90 %); 2 members"),  # 14
    (
        m.rebalance(2, "new_cause", left=[m.gone("a", "new_cause")], confidence=0.9),
        "`a` left, cause new_cause (very likely, 97 %); 2 members",
    ),  # 15
    (
        m.rebalance(2, "leader_rejoined", observed=True, evidence=[{"kind": "broker_log"}]),
        "the leader rejoined (observed); 2 members",
    ),  # 16: someone saw it
    (
        m.rebalance(2, "leader_rejoined", confidence=0.8, observed=True, evidence=[{"kind": "broker_log"}]),
        "the leader rejoined (likely, 80 %); 2 members",
    ),  # 17: someone saw that it was, and not why
    (
        m.rebalance(
            2,
            "session_timeout",
            observed=True,
            left=[m.gone("a", "session_timeout", confidence=1.0)],
            evidence=[{"kind": "broker_log", "member_id": "a-1"}],
        ),
        "`a` was removed because its session timed out (observed); 2 members",
    ),  # 18
    (m.rebalance(2, "member_left", confidence=0.7), "the departure came first (likely, 70 %); 2 members"),  # 19
    (
        {**m.rebalance(57, "unknown", confidence=0.0, joined=JOINED, members=3), "previous_generation": None},
        "first seen with `a` (2) and `b`; 3 members",
    ),  # 20: the log lacks what was before
    (
        {**m.rebalance(57, "unknown", confidence=0.0, members=0), "previous_generation": None},
        "cause unknown; no members",
    ),  # 21
]


@pytest.mark.parametrize(("event", "said"), REBALANCES)
def test_rebalances(event: Event, said: str) -> None:
    assert what(event) == f"generation {event['generation']}: {said}"


def test_a_group_that_was_deleted_is_not_older_than_the_log() -> None:
    """Who only commits makes a group anew without a word, once what it had committed expired."""
    lives = [m.event("group_created", observed=False), m.event("group_deleted")]
    entries = timeline_entries([*lives, m.event("group_created", observed=False)])
    texts = ["first seen; the group may be older than the log", "the group was deleted", "first seen again"]
    assert [it.text for it in entries] == texts


# 1-11: what is no rebalance, or was cut off from one.
OTHERS: list[tuple[list[Event], str, str]] = [
    ([m.event("group_created", observed=True)], "created", "the group was created"),  # 1
    (
        [m.event("group_created", observed=False)],
        "created",
        "first seen; the group may be older than the log",
    ),  # 2
    ([m.event("group_deleted")], "deleted", "the group was deleted"),  # 3
    ([m.event("group_emptied", generation=3)], "emptied", "generation 3: the last member left"),  # 4
    ([m.event("member_joined", generation=3, member=m.member("a"))], "joined", "generation 3: `a` joined"),  # 5
    (
        [m.event("member_left", generation=3, member=m.member("a"), cause="member_left", confidence=0.9)],
        "left",
        "generation 3: `a` left (very likely, 90 %)",
    ),  # 6
    (
        [
            m.event(
                "static_member_replaced",
                generation=3,
                old_member=m.member("a", instance_id="I"),
                member=m.member("a", 2, instance_id="I"),
            )
        ],
        "replaced",
        "`a` (static, `I`) joined again with a new member id",
    ),  # 7
    (
        [m.event("offsets_deleted", topic="t", topic_partition=it, committed_offset=5) for it in range(3)],
        "offsets",
        "3 committed offsets of `t` deleted or expired",
    ),  # 8
    (
        [m.event("offsets_deleted", topic=it, topic_partition=0, committed_offset=5) for it in "aba"],
        "offsets",
        "3 committed offsets of `a` (2) and `b` deleted or expired",
    ),  # 9
    ([m.finding()], "finding", "warning: rebalance_storm: too many rebalances."),  # 10
    (
        [m.finding(state="resolved", at_ms=T0 + 90 * SECOND, since_ms=T0)],
        "finding",
        "resolved after 1 min 30 s: rebalance_storm: too many rebalances.",
    ),  # 11
    ([m.event("news", text="x")], "news", ""),  # 12: a type of a later version
    (
        [moved(3, 18, 0, 9, group_type="connect")],
        "assigned",
        "generation 3: 18 tasks assigned, 9 unassigned",
    ),
]


@pytest.mark.parametrize(("events", "label", "said"), OTHERS)
def test_others(events: list[Event], label: str, said: str) -> None:
    (line,) = timeline_entries(events)
    assert (line.label, line.text, line.cost_ms, line.rebalance) == (label, said, None, None)


def test_offsets_that_go_at_other_times_are_other_lines() -> None:
    gone = [
        m.event("offsets_deleted", T0 + at, topic="t", topic_partition=0, committed_offset=5)
        for at in (0, 900, 3_000)
    ]
    assert [len(line.events) for line in timeline_entries(gone)] == [2, 1]


def test_first_partitions_are_assigned_and_an_empty_group_has_none() -> None:
    first = m.rebalance(1, joined=[m.member("a")], members=1)
    assert what(*at_one_record(first, moved(1, 6, 6))).endswith("1 member; 6 partitions assigned")
    last = m.rebalance(2, "member_left", left=[m.gone("a", "member_left")], members=0)
    emptied = m.event("group_emptied", generation=2)
    assert what(*at_one_record(last, moved(2, 0, 0, 6), emptied)).endswith("; no members")


def test_nothing_is_nothing() -> None:
    assert timeline_entries([]) == []
