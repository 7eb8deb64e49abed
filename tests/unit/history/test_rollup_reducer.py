"""What a window's numbers mean: worked by hand, and the same however time and events come in portions."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.history import rollup_reducer
from agent.history.rolling import in_order
from agent.history.rollup_reducer import Episode, Event, GroupRollup, episode_kind, percentiles

HOUR, MINUTE = 3_600_000, 60_000
DAY = 24 * HOUR
T0 = 20_000 * DAY
"""A midnight."""


def event(kind: str, at_ms: int, offset: int = 0, **fields: Any) -> Event:
    return Event(f"{kind}-{at_ms}-{offset}-{sorted(fields.items())}", kind, at_ms, 0, offset, "consumer", **fields)


def rebalance(at_ms: int, members: int, **fields: Any) -> Event:
    return event("rebalance", at_ms, members=members, **{"cause": "member_joined", **fields})


def rolled(events: list[Event], until_ms: int) -> dict[str, list[dict[str, Any]]]:
    rollup = GroupRollup(None, "g")
    out: dict[str, list[dict[str, Any]]] = {"groups": [], "causes": [], "episodes": []}
    for table, row in (*rollup.take(in_order(events)), *rollup.advance(until_ms)):
        out[table].append(row)
    return out


def window(rows: list[dict[str, Any]], name: str, start_ms: int) -> dict[str, Any]:
    (found,) = (row for row in rows if (row["window"], row["start_ms"]) == (name, start_ms))
    return found


def test_a_quiet_group_has_hours_and_days_and_no_windows_of_five_minutes() -> None:
    rows = rolled([rebalance(T0 + MINUTE, 3)], T0 + 2 * DAY)["groups"]
    assert [(row["window"], row["start_ms"]) for row in rows if row["window"] == "5m"] == [("5m", T0)]
    assert sum(row["window"] == "1h" for row in rows) == 48
    first, second = (window(rows, "1d", at) for at in (T0, T0 + DAY))
    assert (first["known_ms"], first["stable_ms"], first["rebalances"]) == (DAY - MINUTE, DAY - MINUTE, 1)
    assert (second["known_ms"], second["stable_ms"], second["rebalances"]) == (DAY, DAY, 0)
    assert (second["members_min"], second["members_avg"], second["members_max"]) == (3, 3.0, 3)
    assert window(rows, "5m", T0)["known_ms"] == 4 * MINUTE


def seen(kind: str, at_ms: int, name: str, **fields: Any) -> Event:
    """What looks showed, at some time."""
    return Event(name, kind, at_ms, None, None, "classic", **fields)


def test_what_looks_showed_and_was_told_again_counts_as_of_the_first() -> None:
    change = {"rebalance": {"cause": "member_left", "members": 2, "stopped_partition_ms": 700}}
    change |= {"member_left": {"cause": "session_timeout"}, "member_joined": {}}
    change |= {"finding": {"analyzer": "rebalance_storm", "state": "firing"}}
    again = DAY - HOUR
    # 1: an agent that goes on from its snapshot. 2: a day later it is another event, since none goes on from that
    for later, often in ((again, 1), (DAY + 1, 2)):
        events = [seen(kind, T0 + at, kind, **it) for kind, it in change.items() for at in (MINUTE, MINUTE + later)]
        rows = rolled(events, T0 + 2 * DAY)
        days = [row for row in rows["groups"] if row["window"] == "1d"]
        for name in ("rebalances", "departures", "joins"):
            assert sum(row[name] for row in days) == often
            assert days[0][name] == 1
        counts = [row["count"] for row in rows["causes"] if (row["window"], row["kind"]) == ("1d", "rebalance")]
        assert counts == [1] * often
        assert [row["rebalances"] for row in rows["episodes"]] == [1] * often


def test_a_group_that_nobody_saw_before_may_be_so_again() -> None:
    begun = [seen("group_created", T0 + at, "before", observed=False) for at in (0, 2 * HOUR)]
    events = [begun[0], seen("rebalance", T0 + HOUR, "a", members=1), begun[1]]
    events += [seen("rebalance", T0 + 3 * HOUR, "b", members=2)]
    (day,) = (row for row in rolled(events, T0 + DAY)["groups"] if row["window"] == "1d")
    assert (day["rebalances"], day["rebalance_gaps"]) == (2, 0), "nobody knows what was between"


def test_what_may_be_told_again_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rollup_reducer, "TOLD_KEPT", 3)
    rollup = GroupRollup(None, "g")
    list(rollup.take([seen("member_joined", T0 + it, f"{it}") for it in (1, 2, 3, 4)]))
    assert rollup.told == {"2": T0 + 2, "3": T0 + 3, "4": T0 + 4}
    list(rollup.take([seen("member_joined", T0 + 5, "2")]))
    assert list(rollup.told) == ["3", "4", "2"]
    list(rollup.advance(T0 + 4 + DAY))
    assert list(rollup.told) == ["4", "2"]
    rollup.skip(T0 + 6 + DAY)
    assert not rollup.stands


def test_members_and_imbalance_are_weighed_by_time() -> None:
    events = [
        rebalance(T0, 2),
        event("assignment_changed", T0, imbalance_ratio=1.0),
        rebalance(T0 + 45 * MINUTE, 6, stopped_partition_ms=500),
        event("assignment_changed", T0 + 45 * MINUTE, imbalance_ratio=2.0),
    ]
    hour = window(rolled(events, T0 + HOUR)["groups"], "1h", T0)
    assert (hour["members_min"], hour["members_max"], hour["members_avg"]) == (2, 6, 3.0)
    assert (hour["imbalance_max"], hour["imbalance_avg"]) == (2.0, 1.25)
    assert (hour["stopped_partition_ms"], hour["rebalance_gaps"]) == (500, 1)
    assert hour["mean_time_between_rebalances_ms"] == 45 * MINUTE


def test_phases_are_taken_from_what_was_before_back_to_the_window() -> None:
    first = rebalance(T0 + MINUTE, 2, sync_ms=0, join_ms=0)
    events = [first, rebalance(T0 + HOUR + 1_000, 2, sync_ms=400, join_ms=5_000)]
    rows = rolled(events, T0 + 2 * HOUR)["groups"]
    before, hour = (window(rows, "1h", at) for at in (T0, T0 + HOUR))
    assert (before["stable_ms"], before["preparing_rebalance_ms"]) == (59 * MINUTE, 0), "it had ended"
    assert (hour["completing_rebalance_ms"], hour["preparing_rebalance_ms"]) == (400, 600)
    assert hour["stable_ms"] == HOUR - 1_000
    assert hour["known_ms"] == HOUR


def test_a_day_has_the_whole_of_a_phase() -> None:
    events = [rebalance(T0 + MINUTE, 2), rebalance(T0 + HOUR + 1_000, 2, sync_ms=400, join_ms=5_000)]
    day = window(rolled(events, T0 + DAY)["groups"], "1d", T0)
    assert (day["completing_rebalance_ms"], day["preparing_rebalance_ms"]) == (400, 5_000)
    assert day["known_ms"] == DAY - MINUTE


def test_a_rebalance_takes_no_time_of_the_one_before() -> None:
    events = [rebalance(T0 + 10_000, 2), rebalance(T0 + 12_000, 3, sync_ms=500, join_ms=60_000)]
    hour = window(rolled(events, T0 + HOUR)["groups"], "1h", T0)
    assert (hour["completing_rebalance_ms"], hour["preparing_rebalance_ms"]) == (500, 1_500)


def test_empty_and_gone() -> None:
    events = [
        event("group_created", T0, observed=True),
        rebalance(T0 + 10 * MINUTE, 1),
        event("group_emptied", T0 + 20 * MINUTE, 2),
        event("group_deleted", T0 + 30 * MINUTE, 3),
    ]
    rows = rolled(events, T0 + DAY)["groups"]
    hour = window(rows, "1h", T0)
    assert (hour["empty_ms"], hour["stable_ms"], hour["known_ms"]) == (20 * MINUTE, 10 * MINUTE, 30 * MINUTE)
    assert (hour["members_min"], hour["members_max"]) == (0, 1)
    assert sum(row["window"] == "1h" for row in rows) == 1, "what is gone has no windows"


def test_made_anew_by_the_record_that_deletes_it() -> None:
    events = [
        rebalance(T0, 1),
        event("group_deleted", T0 + MINUTE, 7),
        event("group_created", T0 + MINUTE, 7, observed=True),
    ]
    hour = window(rolled(list(reversed(events)), T0 + HOUR)["groups"], "1h", T0)
    assert (hour["stable_ms"], hour["empty_ms"]) == (MINUTE, 59 * MINUTE)


def test_what_is_older_than_its_first_record_is_not_known() -> None:
    rows = rolled([event("group_created", T0, observed=False)], T0 + HOUR)["groups"]
    hour = window(rows, "1h", T0)
    assert (hour["known_ms"], hour["members_avg"], hour["imbalance_avg"], hour["lag_records_p50"]) == (
        0,
        None,
        None,
        None,
    )


def test_causes() -> None:
    events = [
        rebalance(T0 + 1, 2, stopped_partition_ms=100),
        rebalance(T0 + 2, 2, cause="session_timeout", stopped_partition_ms=900),
        event("member_left", T0 + 2, cause="session_timeout"),
        event("finding", T0 + 3, analyzer="rebalance_storm", state="firing"),
        event("finding", T0 + 4, analyzer="rebalance_storm", state="firing"),
        event("finding", T0 + 5, analyzer="rebalance_storm", state="resolved"),
        event("finding", T0 + 6, analyzer="rebalance_storm", state="firing"),
    ]
    rows = rolled(events, T0 + HOUR)
    causes = {
        (row["kind"], row["cause"]): (row["count"], row["stopped_partition_ms"])
        for row in rows["causes"]
        if row["window"] == "1h"
    }
    assert causes == {
        ("departure", "session_timeout"): (1, None),
        ("finding", "rebalance_storm"): (2, None),
        ("rebalance", "member_joined"): (1, 100),
        ("rebalance", "session_timeout"): (1, 900),
    }
    hour = window(rows["groups"], "1h", T0)
    assert (hour["rebalances"], hour["departures"], hour["findings_opened"]) == (2, 1, 2)


def test_what_is_not_known_of_a_rebalance_is_null_and_counted() -> None:
    events = [
        event("group_created", T0, observed=True),
        rebalance(T0 + 1, 2, stopped_partition_ms=100, join_ms=5),
        rebalance(T0 + 2, 2),
        rebalance(T0 + 3, 2, cause="session_timeout", join_ms=0),
        rebalance(T0 + HOUR + 1, 2, sync_ms=0),
        rebalance(T0 + 2 * HOUR + 1, 2, stopped_partition_ms=0),
    ]
    rows = rolled(events, T0 + DAY)
    hours = [window(rows["groups"], "1h", T0 + it * HOUR) for it in range(4)]
    assert [(it["rebalances"], it["stopped_partition_ms"], it["stopped_unknown"]) for it in hours] == [
        (3, 100, 2),
        (1, None, 1),
        (1, 0, 0),
        (0, 0, 0),
    ]
    assert [(it["preparing_rebalance_ms"], it["join_unknown"]) for it in hours] == [
        (1, 1),
        (None, 1),
        (None, 1),
        (0, 0),
    ]
    assert [(it["completing_rebalance_ms"], it["sync_unknown"]) for it in hours] == [
        (None, 3),
        (0, 0),
        (None, 1),
        (0, 0),
    ]
    causes = {(it["start_ms"], it["cause"]): it for it in rows["causes"] if it["window"] == "1h"}
    assert [
        (it["count"], it["stopped_partition_ms"], it["stopped_unknown"])
        for it in (causes[T0, "member_joined"], causes[T0, "session_timeout"], causes[T0 + HOUR, "member_joined"])
    ] == [(2, 100, 1), (1, None, 1), (1, None, 1)]
    assert [(it["stopped_partition_ms"], it["stopped_unknown"]) for it in rows["episodes"]] == [
        (100, 2),
        (None, 1),
        (0, 0),
    ]


def test_departures_and_findings_have_no_cost() -> None:
    events = [
        event("member_left", T0, cause="session_timeout"),
        event("finding", T0, analyzer="rebalance_storm", state="firing"),
    ]
    causes = rolled(events, T0 + HOUR)["causes"]
    assert {(it["stopped_partition_ms"], it["stopped_unknown"]) for it in causes} == {(None, None)}


def test_time_in_which_members_are_not_known_is_not_in_their_mean() -> None:
    events = [
        event("group_sample", T0, state="Stable"),
        event("group_sample", T0 + 45 * MINUTE, state="Stable", members=4, lag_records=1),
    ]
    hour = window(rolled(events, T0 + HOUR)["groups"], "1h", T0)
    assert (hour["known_ms"], hour["members_avg"], hour["members_min"]) == (HOUR, 4.0, 4)
    assert (hour["lag_samples"], hour["lag_unknown"]) == (1, 1)


def test_a_rebalance_without_a_number_of_members_leaves_the_state_unknown() -> None:
    events = [rebalance(T0, 2), event("rebalance", T0 + MINUTE, members=None)]
    hour = window(rolled(events, T0 + HOUR)["groups"], "1h", T0)
    assert (hour["known_ms"], hour["stable_ms"], hour["empty_ms"]) == (MINUTE, MINUTE, 0)


def test_samples() -> None:
    events = [
        event("group_sample", T0 + it * MINUTE, state="Stable", members=4, lag_records=it, lag_seconds=it / 10)
        for it in range(11)
    ]
    events.append(event("group_sample", T0 + 11 * MINUTE, state="PreparingRebalance", members=4))
    hour = window(rolled(events, T0 + HOUR)["groups"], "1h", T0)
    assert hour["lag_samples"] == 11
    assert [hour[f"lag_records_{it}"] for it in ("p50", "p90", "p99", "max")] == [5.0, 9.0, 9.9, 10.0]
    assert hour["lag_seconds_max"] == 1.0
    assert (hour["stable_ms"], hour["preparing_rebalance_ms"]) == (11 * MINUTE, 49 * MINUTE)


def test_percentiles_of_one_and_of_none() -> None:
    assert percentiles("x", [7]) == {"x_p50": 7.0, "x_p90": 7.0, "x_p99": 7.0, "x_max": 7.0}
    assert set(percentiles("x", []).values()) == {None}


@pytest.mark.parametrize(
    ("episode", "kind"),
    [
        # 1: all three restart, with a goodbye
        ({"members_before": 3, "members_after": 3, "joins": 3, "departures": 3, "left_on_their_own": 3}, "deploy"),
        # 2: all three restart under static ids: nobody comes or goes
        ({"members_before": 3, "members_after": 3, "replacements": 3}, "deploy"),
        # 3: one of three dies and comes back
        ({"members_before": 3, "members_after": 3, "joins": 1, "departures": 1}, "other"),
        # 4: all die and come back: no deploy, for nobody said goodbye
        ({"members_before": 3, "members_after": 3, "joins": 3, "departures": 3}, "other"),
        # 5: two more
        ({"members_before": 3, "members_after": 5, "joins": 2}, "scale_out"),
        # 6: two less, with a goodbye
        ({"members_before": 5, "members_after": 3, "departures": 2, "left_on_their_own": 2}, "scale_in"),
        # 7: two less, and one of them died
        ({"members_before": 5, "members_after": 3, "departures": 2, "left_on_their_own": 1}, "other"),
        # 8: the first members of a group
        ({"members_before": 0, "members_after": 2, "joins": 2}, "scale_out"),
        # 9: nobody knows how many there were
        ({"members_before": None, "members_after": 2, "joins": 2}, "other"),
    ],
)
def test_kinds_of_episodes(episode: dict[str, Any], kind: str) -> None:
    assert episode_kind(Episode(0, 0, **episode)) == kind


def test_an_episode_ends_ten_minutes_after_its_last_rebalance() -> None:
    events = [rebalance(T0 + it * 9 * MINUTE, 2, stopped_partition_ms=10) for it in range(3)]
    events += [rebalance(T0 + 40 * MINUTE, 3)]
    episodes = rolled(events, T0 + HOUR)["episodes"]
    assert [(it["start_ms"] - T0, it["end_ms"] - T0, it["rebalances"]) for it in episodes] == [
        (0, 18 * MINUTE, 3),
        (40 * MINUTE, 40 * MINUTE, 1),
    ]
    assert episodes[0]["stopped_partition_ms"] == 30
    assert episodes[1]["members_before"] == 2
    assert rolled(events, T0 + 49 * MINUTE)["episodes"] == episodes[:1]


KINDS = st.sampled_from(
    [
        "rebalance",
        "group_created",
        "group_emptied",
        "group_deleted",
        "member_left",
        "group_sample",
        "assignment_changed",
    ]
)
HISTORIES = st.lists(
    st.builds(
        lambda kind, at, offset, members, sync, join: event(
            kind,
            T0 + at,
            offset,
            observed=members % 2 == 0,
            members=members,
            sync_ms=sync,
            join_ms=join,
            imbalance_ratio=1.0 + members / 3,
            state=("Stable", "Empty")[members % 2],
            lag_records=members,
            stopped_partition_ms=sync,
        ),
        KINDS,
        st.integers(0, 3 * HOUR) | st.integers(0, 36).map(lambda it: it * 5 * MINUTE),
        st.integers(0, 3),
        st.integers(0, 5),
        st.integers(0, 400_000),
        st.integers(0, 400_000),
    ),
    max_size=25,
)


@given(HISTORIES, st.lists(st.integers(0, 5 * HOUR), max_size=12))
def test_portions_of_time_and_state_that_is_put_away_change_nothing(events: list[Event], looks: list[int]) -> None:
    events = in_order(events)
    end_ms = T0 + 5 * HOUR
    whole = GroupRollup(None, "g")
    expected = [*whole.take(events), *whole.advance(end_ms)]
    part, came = GroupRollup(None, "g"), []
    for look_ms in sorted({T0 + it for it in looks} | {end_ms}):
        ripe = [it for it in events if it.at_ms <= look_ms]
        events = events[len(ripe) :]
        came += part.take(ripe)
        if part.clock_ms is not None:
            came += part.advance(look_ms)
        part = msgspec.msgpack.decode(msgspec.msgpack.encode(part), type=GroupRollup)
    assert sorted(map(str, came)) == sorted(map(str, expected))
    for table, row in came:
        if table == "groups":
            assert 0 <= row["known_ms"] <= row["end_ms"] - row["start_ms"]
            assert all(row[it] >= 0 for it in row if it.endswith("_ms") and row[it] is not None)


@given(HISTORIES)
def test_the_time_of_the_next_row_is_known(events: list[Event]) -> None:
    rollup = GroupRollup(None, "g")
    list(rollup.take(in_order(events)))
    while (due_ms := rollup.next_ms()) is not None and due_ms < T0 + 30 * HOUR:
        assert not list(rollup.advance(due_ms - 1)), "nothing before"
        assert list(rollup.advance(due_ms))


IMPOSSIBLE = [
    # 1, 2: more members than Kafka counts. 3: fewer than none.
    rebalance(T0 + MINUTE, 2**62, stopped_partition_ms=5),
    rebalance(T0 + MINUTE, 10**30, stopped_partition_ms=5),
    rebalance(T0 + MINUTE, -1, stopped_partition_ms=5),
    # 4: phases that end before they begin
    rebalance(T0 + MINUTE, 2, stopped_partition_ms=5, sync_ms=-(2**63), join_ms=-(2**63)),
    # 5: stopped for longer than a column tells. 6: never
    rebalance(T0 + MINUTE, 2, stopped_partition_ms=2**63),
    rebalance(T0 + MINUTE, 2, stopped_partition_ms=-1),
    # 7, 8: shares that are no number of digits
    event("assignment_changed", T0 + MINUTE, imbalance_ratio=1e308),
    event("assignment_changed", T0 + MINUTE, imbalance_ratio=1e15),
    # 9: more records than any log has, by a number that is no 64 bits
    event("group_sample", T0 + MINUTE, lag_records=10**400, lag_seconds=-1.0),
]


@pytest.mark.parametrize("told", IMPOSSIBLE)
def test_a_number_that_cannot_be_is_not_known(told: Event) -> None:
    """Whoever may write events may write any; the group's others count, and its state can be put away."""
    rollup = GroupRollup(None, "g")
    before, after = rebalance(T0, 3, stopped_partition_ms=7), rebalance(T0 + HOUR, 4, stopped_partition_ms=8)
    rows = list(rollup.take([before, told, after]))
    msgspec.msgpack.encode(rollup)
    (hour,) = (row for table, row in rows if table == "groups" and row["window"] == "1h")
    assert hour["rebalances"] == 1 + (told.type == "rebalance")
    assert hour["stopped_partition_ms"] == 7 + 5 * (told.stopped_partition_ms == 5)
    numbers = [it for _, row in rows for it in row.values() if isinstance(it, int | float)]
    assert all(0 <= it < 2**63 for it in numbers)


def test_sums_stay_within_a_column() -> None:
    most = [rebalance(T0 + at, 2, cause=f"c{at % 2}", stopped_partition_ms=2**53) for at in range(2_000)]
    rows = rolled(most, T0 + DAY)
    sums = [row["stopped_partition_ms"] for row in (*rows["groups"], *rows["episodes"]) if row["rebalances"]]
    assert set(sums) == {2**53}
