"""Which changes of members are a rollout, and which are none."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from agent.core.events.events import Event
from agent.presentation.narrative.events import MemberRef, member_ref
from agent.presentation.rollouts.rollout_list import is_rollout, known_since_ms, rollouts_json
from agent.presentation.rollouts.sentences import verdict_word
from agent.presentation.rollouts.turnover import name_pattern, rolled_out
from agent.runtime.offline import OfflineGroups
from agent.simulation.generator.histories import generate
from agent.simulation.generator.scenario_kinds import SCENARIO_KINDS
from agent.simulation.generator.settings import GeneratorSettings, IntegerRange
from tests.unit.presentation.rollouts.making import MINUTE, T0, Group, S, gone, member, origin
from tests.unit.simulation.generator.making import runs

DEPLOYS = {"rolling_deploy", "static_deploy", "kip848_deploy"}


def found(group: Group, now_ms: int = 60 * MINUTE) -> list[Event]:
    return rollouts_json("payments", group.events, T0 + now_ms)


def replace(group: Group, names: list[int], at_ms: int, number: int, pace_ms: int = 10 * S, **why: str) -> int:
    """One after the other leaves and comes back; when that was over."""
    for name in names:
        client = f"payments-{name}"
        group.rebalance(at_ms, left=[gone(client, number - 1)])
        group.rebalance(at_ms + 3 * S, joined=[member(client, number)])
        at_ms += pace_ms
    return at_ms - pace_ms + 3 * S


def test_every_fate_of_the_generator() -> None:
    """Deploys are found, once; crashes, storms, scaling and the like are none."""
    settings = GeneratorSettings(
        T0,
        groups=3 * len(SCENARIO_KINDS),
        mix=dict.fromkeys(SCENARIO_KINDS, 1.0),
        members=IntegerRange(2, 6),
        partitions=IntegerRange(4, 8),
        commit_interval_ms=10_000,
        seed=211,
    )
    fates: dict[str, str] = {}
    records = list(generate(settings, lambda truth: fates.update({truth["group"]: truth["fate"]})))
    loaded = OfflineGroups("", keep_events=True)
    for run in runs(records):
        loaded.apply(run)
    loaded.finish()
    by_group: Mapping[str, list[Event]] = {group: loaded.timeline(group) or [] for group in fates}
    verdicts = {
        group: [it["verdict"] for it in rollouts_json(group, by_group[group], settings.until_ms)] for group in fates
    }
    assert verdicts == {group: ["same"] if fate in DEPLOYS else [] for group, fate in fates.items()}
    assert set(fates.values()) == set(SCENARIO_KINDS)


def test_a_version_in_the_name_makes_no_other_name() -> None:
    old = ("payments-0", "payments-v1-0", "payments-1.4-0", "payments-0v1", "svc_v1.2.3-0", "dev1")
    new = ("payments-1", "payments-v2-3", "payments-1.5-0", "payments-0v2", "svc_v1.3.0-0", "dev2")
    for before, after in zip(old, new, strict=True):
        assert name_pattern(member_ref(member(before))) == name_pattern(member_ref(member(after))), before
    bare, versioned = (name_pattern(member_ref(member(it))) for it in ("payments-0", "payments-0v2"))
    assert bare == versioned
    assert name_pattern(member_ref(member("dev1"))) != name_pattern(member_ref(member("de"))), "no version"


def test_another_name_takes_over_only_from_a_name_that_is_gone() -> None:
    group = Group(4)
    for name in range(4):
        at_ms = 20 * MINUTE + name * 20 * S
        group.rebalance(at_ms, left=[gone(f"payments-{name}")])
        group.rebalance(at_ms + 5 * S, joined=[member(f"billing-{name}")])
    assert [it["members_replaced"] for it in found(group)] == [4], "the new version has another name"
    both = Group(4)
    for name in range(4):
        at_ms = 20 * MINUTE + name * 20 * S
        both.rebalance(at_ms, left=[gone(f"payments-{name}")])
        both.rebalance(at_ms + 5 * S, joined=[member(f"payments-{name}", 1), member(f"billing-{name}")])
    assert [it["members_replaced"] for it in found(both)] == [4], "nobody takes the place of one that is there"
    # One workload shrinks while another of the same group grows, by fewer than most.
    scaled = Group(4).rebalance(20 * MINUTE, left=[gone("payments-0"), gone("payments-1")])
    scaled.rebalance(21 * MINUTE, joined=[member("billing-0"), member("billing-1"), member("billing-2")])
    assert found(scaled) == []


def test_a_rollout_soon_after_the_group_began() -> None:
    group = Group(3)
    over_ms = replace(group, [0, 1, 2], 13 * S, 1)
    assert [(it["members_before"], it["verdict"]) for it in found(group, over_ms + MINUTE)] == [(3, "same")]


def test_a_second_rollout_soon_after_the_first() -> None:
    """Without goodbyes as well, if it replaces all; and whatever comes after it was through."""
    for cause in ("member_left", "session_timeout"):
        group = Group(4)
        over_ms = replace(group, range(4), 20 * MINUTE, 1)
        for name in range(4):
            at_ms = over_ms + 40 * S + name * 10 * S
            group.rebalance(at_ms, left=[gone(f"payments-{name}", 1, cause=cause)])
            group.rebalance(at_ms + 2 * S, joined=[member(f"payments-{name}", 2)])
        assert [it["members_replaced"] for it in found(group)] == [4, 4], cause
    group = Group(4)
    first_ms = replace(group, range(4), 20 * MINUTE, 1)
    second_ms = replace(group, range(4), first_ms + 40 * S, 2)
    for number in range(3):
        for name in (0, 1):
            at_ms = second_ms + (number * 30 + name * 15) * S
            group.rebalance(at_ms, left=[gone(f"payments-{name}", 2 + number, cause="session_timeout")])
            group.rebalance(at_ms + 5 * S, joined=[member(f"payments-{name}", 3 + number)])
    assert [(it["verdict"], it["crash_loops"]) for it in found(group)] == [("same", 0), ("harmful", 2)]


def test_fewer_than_most_are_none() -> None:
    group = Group(4)
    replace(group, [0, 1], 20 * MINUTE, 1)
    assert found(group) == []
    replace(group, [2], 21 * MINUTE, 1)
    assert [it["members_replaced"] for it in found(group)] == [3]


def test_members_that_come_back_under_their_own_ids_are_none() -> None:
    """As those of a KIP-848 group do after a pause of their broker, which gave all of them up."""
    names = [f"payments-{it}" for it in range(4)]
    lost = [gone(it, cause="session_timeout") for it in names]
    group = Group(4).rebalance(0, left=lost).rebalance(2 * S, joined=[member(it) for it in names])
    assert found(group) == []
    # A rollout that follows is told as it is, and so is one before it.
    at_ms = replace(group, [0, 1, 2, 3], MINUTE, 1)
    lost = [gone(it, 1, cause="session_timeout") for it in names]
    for turn in range(3):
        group.rebalance(at_ms + (4 * turn + 10) * S, left=lost)
        group.rebalance(at_ms + (4 * turn + 12) * S, joined=[member(it, 1) for it in names])
    (told,) = found(group)
    assert (told["members_before"], told["members_replaced"], told["crash_loops"]) == (4, 4, 0)


OUTAGES = [
    ("session_timeout", {"coordinator_changed": True}, []),
    ("session_timeout", {"nothing_written_ms": 300_000}, []),
    ("unknown_departure", {"nothing_written_ms": 300_000}, []),
    ("session_timeout", {}, ["harmful"]),
    ("unknown_departure", {"coordinator_changed": True}, ["same"]),
    ("member_left", {"nothing_written_ms": 300_000}, ["same"]),
]


@pytest.mark.parametrize(("cause", "signs", "expected"), OUTAGES)
@pytest.mark.parametrize("is_same_host", [True, False])
def test_members_that_come_back_after_an_outage_of_the_coordinator_are_none(
    cause: str, signs: Event, expected: list[str], is_same_host: bool
) -> None:
    names = [f"payments-{it}" for it in range(4)]
    lost = [gone(it, cause=cause) for it in names]
    back = [{**member(it, 1), **({"client_host": "/10.0.0.0"} if is_same_host else {})} for it in names]
    group = Group(4).rebalance(MINUTE, left=lost, joined=back)
    group.events[-1]["evidence"] = [
        {"kind": "commit_gap", "member_id": it["member_id"], "gap_ms": 80_000, **signs} for it in lost
    ]
    if not is_same_host:
        expected = ["harmful" if cause == "session_timeout" else "same"]
    assert [it["verdict"] for it in found(group)] == expected


def test_a_lone_crash_loop_is_none() -> None:
    group = Group(3)
    for number in range(1, 9):
        replace(group, [0], 20 * MINUTE + number * 40 * S, number)
    assert found(group) == []


def test_one_that_crashes_again_and_again_while_two_leave_for_good_is_none() -> None:
    group = Group(4)
    group.rebalance(20 * MINUTE, left=[gone("payments-2"), gone("payments-3")])
    for number in range(1, 6):
        replace(group, [0], 21 * MINUTE + number * 40 * S, number)
    assert found(group) == []


def test_a_surge_joins_before_anybody_leaves() -> None:
    group = Group(4)
    for name in range(4):
        at_ms = 20 * MINUTE + name * 50 * S
        group.rebalance(at_ms, joined=[member("payments-new", 10 + name)])
        group.rebalance(at_ms + 40 * S, left=[gone(f"payments-{name}")])
    assert [(it["members_replaced"], it["state"]) for it in found(group)] == [(4, "steady")], "under another name"
    same = Group(4)
    for name in range(4):
        at_ms = 20 * MINUTE + name * 50 * S
        same.rebalance(at_ms, joined=[member(f"payments-{4 + name}", 1)])
        same.rebalance(at_ms + 40 * S, left=[gone(f"payments-{name}")])
    assert [(it["members_replaced"], it["state"]) for it in found(same)] == [(4, "steady")]


def test_the_group_stops_as_a_whole_and_starts_again() -> None:
    group = Group(3)
    group.rebalance(20 * MINUTE, left=[gone(f"payments-{it}") for it in range(3)])
    group.rebalance(21 * MINUTE, joined=[member(f"payments-{it}", 1) for it in range(3)])
    (it,) = found(group)
    assert (it["members_before"], it["members_replaced"], it["verdict"]) == (3, 3, "same")


def test_a_rollback_soon_after_is_a_rollout_of_its_own() -> None:
    group = Group(4)
    over_ms = replace(group, [0, 1, 2, 3], 20 * MINUTE, 1)
    replace(group, [0, 1, 2, 3], over_ms + 2 * MINUTE, 2)
    first, second = found(group)
    assert (first["members_replaced"], second["members_replaced"]) == (4, 4)
    assert (first["verdict"], second["verdict"], first["crash_loops"]) == ("same", "same", 0)
    assert second["compared_with"] == {"began_ms": first["began_ms"], "verdict": "same"}


def test_new_members_that_do_not_hold_are_the_rollouts() -> None:
    group = Group(4)
    over_ms = replace(group, [0, 1, 2, 3], 20 * MINUTE, 1)
    assert found(group, over_ms + 31 * S)[0]["verdict"] == "same"
    for number in (2, 3):
        over_ms = replace(group, [1], over_ms + 2 * MINUTE, number)
    (it,) = found(group)
    assert (it["verdict"], it["crash_loops"]) == ("harmful", 1)


def test_a_verdict_waits_until_the_group_is_steady() -> None:
    group = Group(4)
    over_ms = replace(group, [0, 1, 2, 3], 20 * MINUTE, 1)
    early, late = found(group, over_ms + 29 * S), found(group, over_ms + 30 * S)
    assert (early[0]["state"], early[0]["verdict"]) == ("running", None)
    assert (late[0]["state"], late[0]["verdict"]) == ("steady", "same")


def test_half_way_it_is_running_until_its_time_is_over() -> None:
    group = Group(4)
    over_ms = replace(group, [0, 1, 2], 20 * MINUTE, 1)
    (it,) = found(group, over_ms + 10 * MINUTE - 1)
    assert (it["state"], verdict_word(it)) == ("running", "pending")
    assert it["reasons"] == [
        "The rollout is running or was stopped: 3 of 4 members are replaced. If no more are, it is judged at "
        "11:37:03 UTC, ten minutes after the last change of members."
    ]
    (it,) = found(group, over_ms + 10 * MINUTE + 1)
    assert (it["state"], it["verdict"], it["members_replaced"]) == ("steady", "same", 3)


def test_kubernetes_tells_of_one_that_replaces_few() -> None:
    group = Group(4)
    group.rebalance(20 * MINUTE, left=[gone("payments-0", why=origin("rolled_out", "5c6d7"))])
    group.rebalance(20 * MINUTE + 5 * S, joined=[member("payments-0", 1, origin("rolled_out", "7d9c8"))])
    (it,) = found(group)
    assert (it["recognised_by"], it["workload"]) == ("kubernetes", "Deployment/payments")
    assert (it["revision_from"], it["revision_to"]) == ("5c6d7", "7d9c8")


def test_revisions_part_rollouts_that_follow_at_once() -> None:
    """As Kubernetes tells them: who left has the old revision, who joined the new one."""
    group = Group(2)
    at_ms = 20 * MINUTE
    for number, (old, new) in enumerate((("aaa", "bbb"), ("bbb", "ccc")), 1):
        said = f"Deployment/payments was rolled out: revision {old} → {new}"
        for name in ("payments-0", "payments-1"):
            killed = f"{said}; container `app` was killed at the end of its grace period of 30 s"
            group.rebalance(at_ms, left=[gone(name, number - 1, origin("rolled_out", old, message=killed))])
            group.rebalance(at_ms + 2 * S, joined=[member(name, number, origin("rolled_out", new, message=said))])
            at_ms += 5 * S
    first, second = found(group)
    assert (first["revision_from"], first["revision_to"]) == ("aaa", "bbb")
    assert (second["revision_from"], second["revision_to"]) == ("bbb", "ccc")
    assert (first["members_replaced"], second["members_replaced"]) == (2, 2)


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        ("Deployment/payments was rolled out: revision aaa → bbb", ("old", "bbb")),
        ("Deployment/payments was rolled out: revision ? → bbb", ("old", "bbb")),
        ("Deployment/payments was rolled out anew, from revision aaa", ("old", None)),
        ("", ("old", None)),
    ],
)
def test_to_which_revision_a_departure_was_rolled_out(message: str, expected: tuple[str, str | None]) -> None:
    why = origin("rolled_out", "old", message=message)
    assert rolled_out(why, is_join=False) == expected
    new = rolled_out(why | {"revision": "new"}, is_join=True)
    assert new == ("aaa" if "aaa →" in message else None, "new")
    assert rolled_out(origin("drained", "old"), is_join=False) is None
    assert rolled_out(None, is_join=True) is None


@pytest.mark.parametrize("kind", ["drained", "evicted", "node_lost", "deleted"])
def test_what_kubernetes_calls_otherwise_is_none(kind: str) -> None:
    group = Group(3)
    for name in range(3):
        at_ms = 20 * MINUTE + name * 20 * S
        group.rebalance(at_ms, left=[gone(f"payments-{name}", why=origin(kind))])
        group.rebalance(at_ms + 5 * S, joined=[member(f"payments-{name}", 1, origin("restarted"))])
    assert found(group) == []


def test_the_beginning_of_a_group_is_none() -> None:
    group = Group(1)
    for at in range(1, 6):
        group.rebalance(at * 20 * S, joined=[member(f"payments-{at}")])
    assert found(group) == []
    over_ms = replace(group, list(range(6)), 4 * MINUTE, 1)
    assert [(it["members_before"], it["state"]) for it in found(group, over_ms + MINUTE)] == [(6, "steady")]


def test_an_agent_that_saw_no_rebalance_counts_by_the_members_of_now() -> None:
    events = []
    for at in range(3):
        old = {**member(f"payments-{at}"), "instance_id": f"payments-{at}"}
        new = {**old, "member_id": f"new-{at}"}
        of = {"cluster": None, "group_type": "classic"}
        head = {"type": "static_member_replaced", **of, "at_ms": T0 + at * 20 * S}
        events.append({**head, "generation": 7, "old_member": old, "member": new})
    assert rollouts_json("payments", events, T0 + MINUTE * 5) == []
    (it,) = rollouts_json("payments", events, T0 + MINUTE * 5, 3)
    assert (it["members_replaced"], it["rebalances"], it["stopped_partition_ms"]) == (3, 0, 0)
    (later,) = rollouts_json("payments", events, T0 + MINUTE * 30, 3)
    assert [(form["state"], form["verdict"]) for form in (it, later)] == [("steady", "same")] * 2
    assert is_rollout({**it, "whatif": None})
    assert not is_rollout({**it, "whatif": None, "departures": {"member_left": "many"}})


FOUND = [
    ({"type": "group_created", "observed": False}, True, "records before its first were compacted away"),
    ({"type": "rebalance", "previous_generation": None, "generation": 9}, True, "it was known by older commits"),
    ({"type": "group_created", "observed": True}, False, "it began"),
    ({"type": "rebalance", "previous_generation": None, "generation": 2}, False, "an epoch group began"),
    ({"type": "rebalance", "previous_generation": None, "generation": None}, False, "looks have no generations"),
]


@pytest.mark.parametrize(("event", "is_found", "why"), FOUND)
def test_one_that_may_have_begun_before_the_group_was_found_is_left_out(
    event: Event, is_found: bool, why: str
) -> None:
    group = Group(4)
    over_ms = replace(group, range(4), 20 * MINUTE, 1)
    replace(group, range(4), 60 * MINUTE, 2)
    first, second = found(group, 90 * MINUTE)
    assert (first["began_ms"], second["began_ms"]) == (T0 + 20 * MINUTE, T0 + 60 * MINUTE)
    for at_ms, left in (
        (10 * MINUTE, [first, second]),
        (10 * MINUTE + 1, [second]),
        (over_ms, [second]),
        (50 * MINUTE, [first, second]),
        (50 * MINUTE + 1, [first]),
    ):
        events = [*group.events, {**group.events[-1], "joined": [], **event, "at_ms": T0 + at_ms}]
        told = rollouts_json("payments", events, T0 + 90 * MINUTE)
        expected = [it["began_ms"] for it in (left if is_found else (first, second))]
        assert [it["began_ms"] for it in told] == expected, (why, at_ms)
        assert known_since_ms(events, None) == (T0 + at_ms if is_found else None)
        assert known_since_ms(events, T0 + 99 * MINUTE) == T0 + 99 * MINUTE


def test_groups_that_were_deleted_begin_anew() -> None:
    group = Group(3)
    group.rebalance(20 * MINUTE, left=[gone(f"payments-{it}") for it in range(3)])
    group.events.append({**group.events[-1], "type": "group_deleted", "at_ms": T0 + 20 * MINUTE + S})
    group.rebalance(20 * MINUTE + 2 * S, joined=[member(f"payments-{it}", 1) for it in range(3)])
    assert found(group) == []


@pytest.mark.parametrize(
    ("client", "instance", "expected"),
    [
        ("payments-0", None, "payments-#"),
        ("consumer-payments-12", None, "consumer-payments-#"),
        ("payments-7d9c8b5f6d-x2x8z", None, "payments-*"),
        ("app-0f8fad5b-d9cb-469f-a165-70867728950e-StreamThread-1-consumer", None, "app-*-StreamThread-#-consumer"),
        ("any", "payments-3", "payments-#"),
        ("payments-worker", None, "payments-worker"),
    ],
)
def test_names_without_what_tells_members_apart(client: str, instance: str | None, expected: str) -> None:
    assert name_pattern(MemberRef("id", client, "h", instance)) == expected
