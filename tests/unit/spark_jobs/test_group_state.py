"""A group's rollup in a stream: the rows of a batch, however its events come in batches."""

from __future__ import annotations

from itertools import pairwise
from operator import attrgetter

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from agent.common.units import DAY_MS
from agent.history.rolling import Range, roll_up_groups
from agent.history.rollup_reducer import Event, GroupRollup, Row
from spark_jobs.streams.rolling import GROUP_STATE, GroupState

T0 = 20_640 * DAY_MS
HOUR_MS = 3_600_000
DELAY_MS = HOUR_MS
"""Of the watermark."""
END_MS = T0 + 5 * DAY_MS


def fresh() -> GroupState:
    return GroupState(GroupRollup(None, "g"), waiting={})


def streamed(batches: list[list[Event]]) -> list[tuple[str, Row]]:
    """The rows of a stream, whose state is put away after each batch; in the end all that is due comes to pass."""
    state, came, watermark_ms = fresh(), list[tuple[str, Row]](), 0
    for batch in batches:
        for event in batch:
            state.wait(event, msgspec.json.encode(event).decode())
        watermark_ms = max([watermark_ms, *(event.at_ms - DELAY_MS for event in batch)])
        came += state.passed(watermark_ms)
        state = fresh() if state.is_over else GROUP_STATE.decode(GROUP_STATE.encode(state))
    return [*came, *state.passed(END_MS)]


def batched(events: list[Event]) -> list[tuple[str, Row]]:
    within = Range(T0, END_MS, END_MS, T0)
    in_time = sorted(events, key=attrgetter("at_ms"))
    rows = roll_up_groups([(None, "g", event) for event in in_time], within)
    return [(table, row) for table, row in rows if table != "standing"]


def test_told_again_with_a_later_batch() -> None:
    told = [Event("0-0-a", "rebalance", T0 + at, members=2, cause="member_joined") for at in (0, 6 * HOUR_MS)]
    gone = [Event("0-0-b", "member_left", T0 + at) for at in (1, 6 * HOUR_MS)]
    # 1: of a group that is there. 2: of one that is gone, of which nothing else is known any more
    for first, again in (told, gone):
        rows = streamed([[first], [again]])
        assert rows == streamed([[again, first]])
        (day,) = (row for table, row in rows if table == "groups" and (row["window"], row["start_ms"]) == ("1d", T0))
        assert day["rebalances"] + day["departures"] == 1


def test_what_is_more_than_a_year_before_all_else_fills_no_years() -> None:
    """Records of a broker whose clock was wrong: a batch leaves them out."""
    older, old, *now = (
        Event(f"e{at}", "rebalance", T0 + at, members=2, cause="member_joined")
        for at in (-5001 * DAY_MS, -5000 * DAY_MS, 0, 6 * HOUR_MS)
    )
    expected = sorted(map(str, batched(now)))
    # 1: they wait with the others
    state, aside, rows = passed(fresh(), [old, older, *now], END_MS)
    assert (aside, rows) == ([older, old], expected)
    # 2: one was taken before the others came, and what it said of the group does not count for the years after it
    state, aside, rows = passed(fresh(), [old], old.at_ms + HOUR_MS)
    assert aside == []
    assert len(rows) < 10
    assert passed(state, now, END_MS)[1:] == ([], expected)
    # 3: nothing else comes
    state, aside, rows = passed(fresh(), [old], END_MS)
    assert (aside, rows, state.is_over) == ([old], [], True)


def passed(state: GroupState, events: list[Event], watermark_ms: int) -> tuple[GroupState, list[Event], list[str]]:
    """What is set aside, and the rows, when the watermark passes what is waiting."""
    for event in events:
        state.wait(event, msgspec.json.encode(event).decode())
    aside = state.without_time(watermark_ms)
    assert [msgspec.json.encode(event).decode() for event, _ in aside] == [body for _, body in aside]
    return state, [event for event, _ in aside], sorted(map(str, state.passed(watermark_ms)))


def test_of_two_tellings_of_one_time_a_stream_takes_what_a_batch_takes() -> None:
    less, more = (Event("0-0-a", "rebalance", T0, members=2, cause="member_joined", join_ms=it) for it in (None, 400))
    expected = streamed([[more]])
    assert streamed([[less, more]]) == streamed([[more, less]]) == expected
    assert sorted(map(str, expected)) == sorted(map(str, batched([less, more])))


EVENTS = st.lists(
    st.builds(
        lambda kind, at, offset, members: Event(
            f"{kind}-{members}" if offset is None else f"{kind}-{at}-{offset}-{members}",
            kind,
            T0 + at,
            None if offset is None else 0,
            offset,
            "classic",
            observed=members == 1,
            cause="member_left",
            members=members,
            join_ms=members * 60_000 or None,
            analyzer="rebalance_storm",
            state=("firing", "resolved")[members % 2],
        ),
        st.sampled_from(["group_created", "rebalance", "member_left", "member_joined", "group_deleted", "finding"]),
        st.integers(0, 3 * DAY_MS) | st.integers(0, 72).map(lambda it: it * HOUR_MS),
        st.integers(0, 3) | st.none(),
        st.integers(0, 2),
    ),
    max_size=30,
)


@given(EVENTS, st.lists(st.integers(0, 30), max_size=5))
def test_batches_change_nothing(events: list[Event], cuts: list[int]) -> None:
    in_time = sorted(events, key=attrgetter("at_ms"))
    edges = [0, *sorted(cuts), len(in_time)]
    batches = [in_time[first:last] for first, last in pairwise(edges)]
    assert sorted(map(str, streamed(batches))) == sorted(map(str, batched(events)))
