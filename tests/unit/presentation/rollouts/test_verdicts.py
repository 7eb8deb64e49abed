"""The word for each rollout: five kinds of the simulation, and each rule by itself."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from agent.core.events.samples import LagNote
from agent.presentation.rollouts.measures import _steady_ms
from agent.presentation.rollouts.rollout_list import rollouts_json
from agent.presentation.rollouts.sentences import lines, verdict_word, what_was_rolled_out
from tests.harness.verdicts.stories import GROUP, START_MS, STORIES, UNTIL_MS, events
from tests.unit.presentation.rollouts.making import MINUTE, T0, Group, S, gone, member, origin
from tests.unit.presentation.rollouts.test_recognition import found, replace

Deploy = Callable[[Group, int, int], None]


@pytest.mark.parametrize("name", STORIES)
def test_five_kinds_of_rollout(name: str) -> None:
    """A twin of `python -m tests.harness.verdicts`, of seeds that nothing was tuned on."""
    for seed in (301, 302):
        told = rollouts_json(GROUP, events(STORIES[name], seed), START_MS + UNTIL_MS)
        assert [it["verdict"] for it in told] == ["same", STORIES[name].expected]


@pytest.mark.parametrize("name", STORIES)
def test_where_older_events_were_let_go_no_rollout_is_told_by_half_of_them(name: str) -> None:
    """Whatever is gone: what is told is what all events tell, but for an earlier one to compare it with, and how even
    the group was before."""
    every, until_ms = list(events(STORIES[name], 301)), START_MS + UNTIL_MS
    of_all = {it["began_ms"]: it for it in rollouts_json(GROUP, every, until_ms)}
    members_now = [*of_all.values()][-1]["members_after"]
    told = 0
    for number in range(1, len(every)):
        since_ms = every[number - 1]["at_ms"] + 1
        for it in rollouts_json(GROUP, every[number:], until_ms, members_now, complete_since_ms=since_ms):
            told += 1
            whole = of_all[it["began_ms"]]
            if it["compared_with"] is None:
                unknown = ("compared_with", "differences", "reasons", "verdict", "imbalance_before")
                it, whole = ({key: form[key] for key in form if key not in unknown} for form in (it, whole))
            assert it == whole
    assert told, "of the second rollout the first alone may be gone"


def test_the_first_has_nothing_to_be_compared_with() -> None:
    group = Group(4)
    replace(group, [0, 1, 2, 3], 20 * MINUTE, 1)
    (it,) = found(group)
    assert (it["verdict"], it["compared_with"], it["differences"]) == ("same", None, [])
    assert it["reasons"] == ["It did no harm. It is the first rollout seen, so nothing is compared."]


FIRST_NOTES_MS = [
    (0, 60.0, "noted from the beginning"),
    (30 * S, 60.0, "lag grows by 30 s at most until then, which is chance"),
    (30 * S + 1, None, "older ones were let go, or the agent started then: the peak may be gone"),
]


@pytest.mark.parametrize(("first_ms", "peak_s", "why"), FIRST_NOTES_MS)
def test_the_peak_of_lag_is_known_where_it_was_noted_from_the_beginning(
    first_ms: int, peak_s: float | None, why: str
) -> None:
    group = Group(4)
    replace(group, [0, 1, 2, 3], 20 * MINUTE, 1)
    replace(group, [0, 1, 2, 3], 50 * MINUTE, 2)
    notes = [
        LagNote(T0 + began_ms + after_ms, 40, 60.0)
        for began_ms, since_ms in ((20 * MINUTE, first_ms), (50 * MINUTE, 0))
        for after_ms in range(since_ms, 2 * MINUTE, 10 * S)
    ]
    first, second = rollouts_json("payments", group.events, T0 + 70 * MINUTE, lags=notes)
    assert first["lag_peak_seconds"] == peak_s, why
    assert (first["lag_peak_records"] is None) is (peak_s is None)
    assert (second["lag_peak_seconds"], second["verdict"]) == (60.0, "same")
    compared = [it["measure"] for it in second["differences"]]
    assert ("lag_peak_seconds" in compared) is (peak_s is not None)


@pytest.mark.parametrize(("cost_ms", "expected"), [(10_000, "worse"), (1_500, "same"), (10, "better")])
def test_stopped_time_beside_the_rollout_before(cost_ms: int, expected: str) -> None:
    group = Group(4)
    replace(group, [0, 1, 2, 3], 20 * MINUTE, 1)
    for event in group.events:
        event["stopped_partition_ms"] = 4_000 if event["type"] == "rebalance" else None
    before = len(group.events)
    replace(group, [0, 1, 2, 3], 50 * MINUTE, 2)
    for event in group.events[before:]:
        event["stopped_partition_ms"] = 4 * cost_ms
    _, it = found(group, 70 * MINUTE)
    # Eight rebalances each; the one before stopped partitions for 32 s.
    assert (it["verdict"], it["differences"][0]["before"]) == (expected, 32_000)


@pytest.mark.parametrize(("cost_ms", "expected"), [(95_000, "same"), (105_000, "worse")])
def test_how_soon_the_others_hear_of_each_that_left_is_chance(cost_ms: int, expected: str) -> None:
    """24 partitions, each of which waits for one heartbeat as its owner leaves, early or late: up to 72 s."""
    group = Group(4)
    for at_ms, number, each_ms in ((20 * MINUTE, 1, 30_000 / 8), (50 * MINUTE, 2, cost_ms / 8)):
        before = len(group.events)
        replace(group, [0, 1, 2, 3], at_ms, number)
        for event in group.events[before:]:
            event["stopped_partition_ms"] = each_ms
        group.assigned(at_ms, 24)
    _, it = found(group, 70 * MINUTE)
    assert (it["verdict"], it["differences"][0]["now"]) == (expected, cost_ms)


def test_costs_that_are_not_known_are_not_compared() -> None:
    group = Group(4)
    replace(group, [0, 1, 2, 3], 20 * MINUTE, 1)
    replace(group, [0, 1, 2, 3], 50 * MINUTE, 2)
    for event in group.events:
        event["stopped_partition_ms"] = None
    _, it = found(group, 70 * MINUTE)
    assert (it["stopped_partition_ms"], it["rebalances_of_unknown_cost"]) == (None, 8)
    assert [at["measure"] for at in it["differences"]] == ["rebalances"]
    for number, cost_ms in ((2, 4_000), (-1, 400_000)):
        group.events[number]["stopped_partition_ms"] = cost_ms
    _, it = found(group, 70 * MINUTE)
    assert (it["verdict"], it["stopped_partition_ms"]) == ("same", 400_000)
    assert [each["measure"] for each in it["differences"]] == ["rebalances"], "nor sums in which some are missing"


def rolling(group: Group, at_ms: int, number: int) -> None:
    replace(group, [0, 1, 2, 3], at_ms, number)


def recreate(group: Group, at_ms: int, number: int) -> None:
    group.rebalance(at_ms, left=[gone(f"payments-{it}", number - 1) for it in range(4)])
    group.rebalance(at_ms + 2 * MINUTE, joined=[member(f"payments-{it}", number) for it in range(4)])
    group.events[-2]["stopped_partition_ms"] = group.events[-1]["stopped_partition_ms"] = None


@pytest.mark.parametrize(
    ("first", "second", "measures"),
    [
        (rolling, recreate, []),
        (recreate, rolling, []),
        (recreate, recreate, ["rebalances"]),
        (rolling, rolling, ["stopped_partition_ms", "rebalances"]),
    ],
)
def test_few_rebalances_of_a_group_that_stood_still_are_no_better(
    first: Deploy, second: Deploy, measures: list[str]
) -> None:
    group = Group(4)
    first(group, 20 * MINUTE, 1)
    second(group, 50 * MINUTE, 2)
    _, it = found(group, 70 * MINUTE)
    assert (it["verdict"], [each["measure"] for each in it["differences"]]) == ("same", measures)


def test_lag_decides_first() -> None:
    group = Group(4)
    replace(group, [0, 1, 2, 3], 20 * MINUTE, 1)
    group.sample(20 * MINUTE + 20 * S, 100, 5.0)
    replace(group, [0, 1, 2, 3], 50 * MINUTE, 2)
    group.sample(50 * MINUTE + 20 * S, 90_000, 95.0)
    group.sample(59 * MINUTE, 990_000, 995.0)
    _, it = found(group, 70 * MINUTE)
    assert (it["verdict"], it["lag_peak_records"], it["lag_peak_seconds"]) == ("worse", 90_000, 95.0)
    assert it["reasons"] == ["Lag peaked at 1 min 35 s; in the rollout before at 5.0 s."]


PARTLY_KNOWN = [
    ((5.0, 3), (95.0, 0), "same", "the one before may have been as far behind"),
    ((95.0, 0), (5.0, 3), "same", "it may be as far behind as the one before"),
    ((5.0, 3), (95.0, 3), "same", "nothing is known of the one before"),
    ((5.0, 0), (95.0, 3), "Lag peaked at 1 min 35 s or more; in the rollout before at 5.0 s.", "more is worse still"),
    ((95.0, 3), (5.0, 0), "Lag peaked at 5.0 s; in the rollout before at 1 min 35 s or more.", "it is better still"),
]


@pytest.mark.parametrize(("first", "second", "expected", "why"), PARTLY_KNOWN)
def test_lag_that_is_known_of_some_positions_is_a_bound(
    first: tuple[float, int], second: tuple[float, int], expected: str, why: str
) -> None:
    group = Group(4)
    for number, (seconds, unknown) in enumerate((first, second)):
        began_ms = (20 + 30 * number) * MINUTE
        replace(group, [0, 1, 2, 3], began_ms, number + 1)
        group.sample(began_ms + 20 * S, 100, seconds, unknown)
        group.sample(began_ms + 25 * S, 1, 1.0)
    before, it = found(group, 70 * MINUTE)
    assert [one["lag_peak_at_least"] for one in (before, it)] == [unknown > 0 for _, unknown in (first, second)], why
    compared = {one["measure"]: one for one in it["differences"]}.get("lag_peak_seconds")
    assert (compared is None) is (expected == "same"), why
    assert expected in (it["verdict"], *it["reasons"])
    (said,) = (text for label, text in lines(it) if label == "Lag's peak")
    assert said.startswith("at least ") is (second[1] > 0)
    assert ("rollout before: at least" in said) is (compared is not None and first[1] > 0)


def test_where_what_is_known_of_the_lag_is_caught_up_no_peak_is_told() -> None:
    group = Group(4)
    replace(group, [0, 1, 2, 3], 20 * MINUTE, 1)
    group.sample(20 * MINUTE + 20 * S, 0, 0.0, unknown=3)
    (it,) = found(group)
    assert (it["lag_peak_records"], it["lag_peak_seconds"], it["lag_peak_at_least"]) == (None, None, True)


@pytest.mark.parametrize(
    ("kind", "code", "expected"),
    [
        ("oom_killed", 137, "harmful"),
        ("liveness_killed", 137, "harmful"),
        ("exited", 1, "harmful"),
        ("exited", 0, "same"),
        ("exited", 143, "same"),
        ("exited", None, "same"),
        ("deleted", None, "same"),
        ("evicted", None, "worse"),
    ],
)
def test_errors_of_new_members(kind: str, code: int | None, expected: str) -> None:
    group = Group(6)
    rolled = origin("rolled_out", "b")
    for name in range(6):
        at_ms = 20 * MINUTE + name * 10 * S
        group.rebalance(at_ms, left=[gone(f"payments-{name}", why=rolled)])
        group.rebalance(at_ms + 2 * S, joined=[member(f"payments-{name}", 1, rolled)])
    group.rebalance(21 * MINUTE, left=[gone("payments-0", 1, origin(kind, code=code))])
    group.rebalance(21 * MINUTE + 5 * S, joined=[member("payments-0", 2, origin("restarted", "b"))])
    (it,) = found(group)
    assert (it["verdict"], it["errors"]) == (expected, {} if expected == "same" else {kind: 1})


def test_an_error_of_an_old_member_is_not_the_rollouts() -> None:
    group = Group(6)
    rolled = origin("rolled_out", "b")
    group.rebalance(20 * MINUTE, left=[gone("payments-5", why=origin("oom_killed", code=137))])
    for name in range(6):
        at_ms = 20 * MINUTE + (1 + name) * 10 * S
        group.rebalance(at_ms, left=[gone(f"payments-{name}", why=rolled)] if name < 5 else None)
        group.rebalance(at_ms + 2 * S, joined=[member(f"payments-{name}", 1, rolled)])
    (it,) = found(group)
    assert (it["verdict"], it["errors"]) == ("same", {})


def test_pods_killed_when_their_grace_period_was_over() -> None:
    group = Group(4)
    for name in range(4):
        at_ms = 20 * MINUTE + name * 10 * S
        group.rebalance(at_ms, left=[gone(f"payments-{name}", why=origin("rolled_out", "b", code=137))])
        group.rebalance(at_ms + 2 * S, joined=[member(f"payments-{name}", 1, origin("rolled_out", "b", code=137))])
    (it,) = found(group)
    assert (it["verdict"], it["unclean_ends"], it["errors"]) == ("harmful", 4, {"killed_at_stop": 4})
    assert "4 killed at the end of the grace period" in it["reasons"][0]


def test_one_unclean_end_of_many_is_no_harm() -> None:
    group = Group(8)
    replace(group, list(range(8)), 20 * MINUTE, 1)
    group.events[3]["left"] = [{**it, "cause": "session_timeout"} for it in group.events[3]["left"]]
    assert [len(it["left"]) for it in group.events if it["type"] == "rebalance"][2] == 0
    group.events[2]["left"] = [{**it, "cause": "session_timeout"} for it in group.events[2]["left"]]
    (it,) = found(group)
    assert (it["unclean_ends"], it["verdict"]) == (1, "same")


@pytest.mark.parametrize(("group_type", "verdict"), [("classic", "same"), ("streams", "harmful")])
def test_streams_members_say_goodbye_in_their_own_groups_alone(group_type: str, verdict: str) -> None:
    group = Group(4)
    replace(group, [0, 1, 2, 3], 20 * MINUTE, 1)
    for event in group.events[1:]:
        event["group_type"] = group_type
        event["left"] = [
            {**it, "cause": "session_timeout", "client_library": "kafka-streams"} for it in event["left"]
        ]
    assert found(group)[0]["verdict"] == verdict


def test_a_group_that_does_not_come_to_rest() -> None:
    group = Group(4)
    over_ms = replace(group, [0, 1, 2, 3], 20 * MINUTE, 1)
    for at_ms in range(over_ms + 20 * S, over_ms + 11 * MINUTE, 20 * S):
        group.rebalance(at_ms)
    (it,) = found(group, over_ms + 11 * MINUTE)
    assert (it["state"], it["verdict"]) == ("unsteady", "harmful")
    assert it["reasons"] == ["The group did not become steady after it."]


def test_of_a_group_that_is_stopped_afterwards_nothing_is_told() -> None:
    group = Group(2)
    over_ms = replace(group, [0, 1], 20 * MINUTE, 1)
    group.rebalance(over_ms + 5 * S, left=[gone("payments-0", 1), gone("payments-1", 1)])
    gone_ms = over_ms + 5 * S
    (early,) = found(group, gone_ms + 10 * MINUTE)
    assert (early["state"], early["verdict"], verdict_word(early)) == ("running", None, "pending")
    assert early["reasons"] == [
        "All members left before the group was steady. If none joins until 11:36:58 UTC, ten minutes after the last "
        "change of members, nothing tells of harm."
    ]
    (it,) = found(group, gone_ms + 10 * MINUTE + 1)
    assert (it["state"], it["verdict"], it["members_after"], verdict_word(it)) == ("unsteady", None, 0, "not known")
    assert it["reasons"][0].startswith("All members left before the group was steady, and none joined again")
    died = Group(2)
    over_ms = replace(died, [0, 1], 20 * MINUTE, 1)
    left = [gone(f"payments-{it}", 1, cause="session_timeout") for it in (0, 1)]
    died.rebalance(over_ms + 5 * S, left=left)
    assert [it["verdict"] for it in found(died)] == ["harmful"], "they did not leave, they died"


def test_words() -> None:
    group = Group(2)
    why = origin("rolled_out", "bbb", message="Rolled out aaa → bbb.")
    for name in range(2):
        at_ms = 20 * MINUTE + name * 10 * S
        group.rebalance(at_ms, left=[gone(f"payments-{name}", why=why)])
        group.rebalance(at_ms + 2 * S, joined=[member(f"payments-{name}", 1, why)])
    (it,) = found(group)
    cost = {"rebalances": 1, "stopped_partition_ms": 2_000}
    whatif = {"today": None, "static_membership": cost, "cooperative_rebalancing": None, "untold": "no time"}
    assert what_was_rolled_out(it) == "Deployment/payments, aaa → bbb"
    assert dict(lines({**it, "whatif": whatif})) == {
        "Began": "2026-11-18 11:26:40, steady after 12 s",
        "Members replaced": "2 of 2",
        "Rebalances": "4",
        "Stopped partition time": "4 s",
        "Lag's peak": "not known",
        "Departures": "2 left",
        "With static membership": "1 rebalance, 2 s stopped",
        "With other settings": "not known: no time",
    }
    assert it["began_ms"] > T0


def test_a_group_is_not_steady_where_nothing_came_since_its_last_change() -> None:
    """Records may be late: then the rebalance is before the change that it shows."""
    unmoved: Any = SimpleNamespace(disturbances=[])
    assert _steady_ms(unmoved, 1_000, 9_000, 30) is None
