"""Which days are rolled up, and that what is carried from day to day changes nothing."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from agent.common.units import DAY_MS
from agent.history.days import Days, Reading
from agent.history.planning import range_of, range_read
from agent.history.rolling import CARRIED, GroupEvent, Range, in_order, roll_up_groups, standing_of
from agent.history.rollup_reducer import Event, Row

T0 = 20_640 * DAY_MS
"""2026-07-06."""


def test_the_range_is_that_of_the_events() -> None:
    clocks = {"a": T0 + 7, "b": T0 + DAY_MS + 7}
    expected = Range(T0, T0 + 2 * DAY_MS, T0 + DAY_MS + 7, clocks=clocks)
    assert range_of(None, None, T0 + 5, clocks) == expected


EVENTS = st.lists(
    st.builds(
        lambda kind, group, at, offset, members: (
            group,
            Event(
                # What looks showed (no offset) has an id without a time.
                f"{kind}-{group}-{offset and at}-{offset}-{members}",
                kind,
                T0 + at,
                None if offset is None else 0,
                offset,
                "classic",
                observed=members % 2 == 0,
                cause="member_left",
                members=members,
                sync_ms=members * 1_000 or None,
                join_ms=members * 60_000 or None,
                stopped_partition_ms=members or None,
                imbalance_ratio=1.0 + members / 3,
                analyzer=("rebalance_storm", "idle_members")[members % 2],
                state=("Stable", "Empty", "firing", "resolved")[members],
                lag_records=members or None,
            ),
        ),
        st.sampled_from([*CARRIED, "member_left", "member_joined"]),
        st.sampled_from(["a", "b"]),
        st.integers(0, 4 * DAY_MS) | st.integers(0, 96).map(lambda it: it * 3_600_000) | st.integers(0, 5_000),
        st.integers(0, 3) | st.none(),
        st.integers(0, 3),
    ),
    max_size=40,
)


def rolled(
    events: list[tuple[str, Event]], within: Range, standing: list[Row] | None = None
) -> list[tuple[str, Row]]:
    stood = {row["group"]: standing_of(row["state"]) for row in standing or ()}
    items: list[GroupEvent] = []
    for group in ("a", "b"):
        items += [(None, group, stood[group])] if group in stood else []
        of_group = sorted((it for name, it in events if name == group), key=lambda it: it.at_ms)
        items += [(None, group, it) for it in of_group if within.first_ms <= it.at_ms <= within.last_ms]
    return list(roll_up_groups(items, within, "here"))


@given(EVENTS)
# What is all that is known of a group as a day ends: how its partitions are spread.
@example(
    [
        ("a", Event("x", "assignment_changed", T0, 0, 0, "classic", imbalance_ratio=1.5)),
        ("a", Event("y", "finding", T0 + DAY_MS, 0, 1, "classic", analyzer="idle_members", state="firing")),
    ]
)
def test_days_that_begin_with_how_groups_stood_are_those_of_the_whole(events: list[tuple[str, Event]]) -> None:
    horizon_ms = T0 + 4 * DAY_MS + 1
    whole = rolled(events, Range(T0, T0 + 5 * DAY_MS, horizon_ms, T0))
    came: list[tuple[str, Row]] = []
    standing: list[Row] = []
    for day in range(5):
        since_ms = T0 + day * DAY_MS
        rows = rolled(events, Range(since_ms, since_ms + DAY_MS, horizon_ms, since_ms), standing)
        standing = [row for table, row in rows if table == "standing"]
        came += rows
    assert sorted(map(str, came)) == sorted(map(str, whole))
    assert {row["start_ms"] for table, row in whole if table == "standing"} <= {T0 + it * DAY_MS for it in range(4)}


def test_a_cluster_whose_log_ended_has_no_windows_behind_its_end() -> None:
    event = Event("x", "rebalance", T0, 0, 0, "classic", members=2)
    items: list[GroupEvent] = [(cluster, "g", event) for cluster in ("gone", "here")]
    hour_ms = 3_600_000
    within = Range(T0, T0 + DAY_MS, T0 + 3 * hour_ms, T0, {"gone": T0 + hour_ms, "here": T0 + 3 * hour_ms})
    rows = [row for table, row in roll_up_groups(items, within) if table == "groups" and row["window"] == "1h"]
    assert Counter(row["cluster"] for row in rows) == {"gone": 1, "here": 3}


def test_a_cluster_without_a_clock_is_known_up_to_its_last_event() -> None:
    asked = Days("2026-07-06", "2026-07-06")
    reading = Reading(Days("2026-07-06", "2026-07-07"), None, None)
    dates = ["2026-07-06", "2026-07-09"]
    # 1: another's clock says nothing of it, and no event of it is a reason to know more of the other
    within = range_read(asked, reading, dates, {"a": T0 + 1, "b": T0 + 2}, {"a": T0 + DAY_MS})
    assert [within.last_ms_of(it) for it in ("a", "b", "of the days before")] == [T0 + DAY_MS, T0 + 2, T0]
    # 2: without any clock each is up to its own
    within = range_read(asked, reading, dates, {"a": T0 + 1, "b": T0 + 2}, {})
    assert [within.last_ms_of(it) for it in ("a", "b")] == [T0 + 1, T0 + 2]
    # 3: a day that comes later is of the only one
    assert range_read(asked, reading, dates, {None: T0 + 1}, {}).last_ms_of(None) == T0 + 2 * DAY_MS
    # 4: of a range without events, days before tell how the groups stand of whatever cluster
    assert range_read(asked, reading, dates, {}, {}).last_ms_of("a") == T0 + 2 * DAY_MS


def test_how_a_group_stands_outlasts_days_of_which_its_cluster_tells_nothing() -> None:
    event = Event("x", "rebalance", T0, 0, 0, "classic", members=2)
    within = Range(T0, T0 + DAY_MS, T0 + 2 * DAY_MS, T0, {"gone": T0 + 3_600_000, "here": T0 + 2 * DAY_MS})
    rows = list(roll_up_groups([("gone", "g", event)], within))
    assert [row["end_ms"] for table, row in rows if table == "groups" and row["window"] == "1h"] == [T0 + 3_600_000]
    (stood,) = [row for table, row in rows if table == "standing"]
    assert (stood["end_ms"], stood["phase"]) == (T0 + DAY_MS, "stable")
    later = Range(T0 + DAY_MS, T0 + 2 * DAY_MS, T0 + 3 * DAY_MS, T0 + DAY_MS, {"gone": T0 + DAY_MS + 7_200_000})
    back = Event("y", "member_joined", T0 + DAY_MS + 7_200_000, 0, 1, "classic")
    rows = list(roll_up_groups([("gone", "g", standing_of(stood["state"])), ("gone", "g", back)], later))
    hours = [row for table, row in rows if table == "groups" and row["window"] == "1h"]
    assert [(row["start_ms"] - T0 - DAY_MS, row["stable_ms"]) for row in hours] == [(0, 3_600_000), (3_600_000,) * 2]


def retold(**known: object) -> Event:
    return Event("x", "rebalance", T0, 0, 0, "classic", **known)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("better", "other"),
    [
        # 1: what happened to a pod is known while Kubernetes knows it, and nothing else is worth that
        (retold(origins='{"a":{"kind":"drained"},"b":null}'), retold(origins='{"a":null,"b":null}', members=2)),
        # 2: of two pods
        (retold(origins='{"a":{},"b":{}}'), retold(origins='{"a":{},"b":null}')),
        # 3: as the topic has it
        (retold(member={"origin": {"kind": "drained"}}), retold(member={"origin": None})),
        # 4: with less of the log at hand less is known
        (retold(cause="unknown", join_ms=1, sync_ms=1, confidence=0.3), retold(cause="poll_timeout", confidence=0.9)),
        # 5: or it is less certain
        (retold(cause="poll_timeout", confidence=0.9), retold(cause="unknown", confidence=0.3)),
        # 6: either, but always the same
        (retold(cause="b"), retold(cause="a")),
    ],
)
def test_of_an_event_that_was_told_twice_one_is_taken_in_whatever_order(better: Event, other: Event) -> None:
    assert in_order([better, other]) == in_order([other, better]) == [better]
