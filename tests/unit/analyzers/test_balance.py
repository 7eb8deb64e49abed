"""Fair shares, and how far from them a group is."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.core.shadow.fairness import fair_share, largest_even_share, obtainable_topics
from agent.core.shadow.views import GroupView
from analyzers.balance import (
    assignment_imbalance,
    assignment_problem,
    held_partitions,
    load_imbalance,
    load_plan,
    partition_spread,
)
from tests.unit.core.shadow import build as b
from tests.unit.core.shadow.build import Log

A, B, AB = frozenset("a"), frozenset("b"), frozenset("ab")

# Number, why, amounts, what each member wants, the least that the largest share can be.
FAIR: list[tuple[int, str, dict[str, int], list[frozenset[str]], float]] = [
    (1, "the mean where all want all", {"a": 5}, [A] * 3, 5 / 3),
    (2, "several topics, one kind of member", {"a": 4, "b": 2}, [AB] * 3, 2),
    (3, "each for itself", {"a": 9, "b": 1}, [A, B], 9),
    (4, "who may do either takes what is nobody else's", {"a": 10, "b": 10}, [A, AB], 10),
    (5, "and helps out", {"a": 10, "b": 2}, [A, AB], 6),
    (6, "more of them", {"a": 12, "b": 3}, [A, A, AB, B], 4),
    (7, "who wants nothing of it does not count", {"a": 6}, [A, A, B], 3),
    (8, "nor does a topic without amount", {"a": 6, "b": 0}, [AB, B], 6),
    (
        9,
        "a chain of subscriptions evens out",
        {"a": 12, "b": 0, "c": 0, "d": 3},
        [frozenset("a"), frozenset("ad"), frozenset("d")],
        6,
    ),
]


@pytest.mark.parametrize(
    ("amounts", "wants", "fair"), [pytest.param(*row[2:], id=f"{row[0]}-{row[1]}") for row in FAIR]
)
def test_fair_shares(amounts: dict[str, int], wants: list[frozenset[str]], fair: float) -> None:
    wanted = {str(number): topics for number, topics in enumerate(wants)}
    assert fair_share(amounts, wanted) == pytest.approx(fair, rel=1e-3)


@given(
    st.dictionaries(st.sampled_from("abcd"), st.integers(1, 1000), min_size=1),
    st.lists(st.frozensets(st.sampled_from("abcd"), min_size=1), min_size=1, max_size=6),
)
def test_no_set_of_topics_has_more_for_each_of_its_members(
    amounts: dict[str, int], wants: list[frozenset[str]]
) -> None:
    """The least that the largest share can be is, by Hall's theorem, the worst of all sets of topics."""
    amounts = {topic: amount for topic, amount in amounts.items() if any(topic in it for it in wants)}
    if not amounts:
        return
    topics = sorted(amounts)
    sets = [{it for at, it in enumerate(topics) if chosen >> at & 1} for chosen in range(1, 2 ** len(topics))]
    worst = max(sum(amounts[it] for it in those) / sum(1 for it in wants if it & those) for those in sets)
    fair = fair_share(amounts, {str(number): it for number, it in enumerate(wants)})
    assert worst * (1 - 1e-9) <= fair <= worst * 1.01


def test_what_takes_long_to_even_out_is_near_enough() -> None:
    chain = {str(number): frozenset({f"t{number}", f"t{number + 1}"}) for number in range(20)}
    amounts = {f"t{number}": 150 if number in (1, 3, 5, 7, 9) else 100 for number in range(21)}
    assert fair_share(amounts, chain) == pytest.approx(125, rel=3e-3)


def group(*shares: int, topic: str = "t", members: int = 0) -> GroupView:
    """A group whose members hold so many partitions each."""
    given, first = [], 0
    for number, share in enumerate([*shares, *[0] * (members - len(shares))]):
        given.append(b.member(f"m{number}-1", {topic: range(first, first + share)}, topics=(topic,)))
        first += share
    return Log().add(b.classic_group(1, *given)).view()


@pytest.mark.parametrize(
    ("shares", "ratio"),
    [
        ((3, 3, 3), 1.0),
        ((2, 2, 1), 1.0),  # 5 over 3: the most even there is
        ((3, 1, 1), 1.8),
        ((10, 0, 0), 3.0),
        ((1, 1, 0, 0), 1.0),  # idle, not uneven
        ((2, 0, 0, 0), 2.0),
        ((4,), 1.0),
    ],
)
def test_partitions(shares: tuple[int, ...], ratio: float) -> None:
    assert assignment_imbalance(group(*shares)) == pytest.approx(ratio)


def test_nothing_to_share_out() -> None:
    assert assignment_imbalance(group(0, 0)) is None
    assert assignment_imbalance(Log().add(b.commit()).view()) is None
    assert assignment_imbalance(Log().add(b.classic_group(1, b.member("m"))).view()) is None
    assert load_imbalance(group(2, 2), {}) is None
    assert load_imbalance(group(2, 2), {("t", 0): 0, ("elsewhere", 0): 7}) is None


def test_records() -> None:
    consumed = {("t", number): 10 for number in range(8)}
    assert load_imbalance(group(4, 4), consumed) == pytest.approx(1.0)
    assert load_imbalance(group(6, 2), consumed) == pytest.approx(1.5)
    assert load_imbalance(group(4, 4), {**consumed, ("t", 0): 1000}) == pytest.approx(1030 / 535)
    # No more members than partitions can have a share.
    assert load_imbalance(group(1, 1, members=4), {("t", 0): 10, ("t", 1): 10}) == pytest.approx(1.0)


def test_a_member_can_only_get_what_it_subscribes_to() -> None:
    log = Log().add(
        b.classic_group(
            1,
            b.member("m0-1", {"a": range(5)}, topics=("a",)),
            b.member("m1-1", {"a": range(5, 10), "b": [0, 1, 2]}, topics=("a", "b")),
        )
    )
    assert assignment_imbalance(log.view()) == pytest.approx(8 / 6.5)


def test_a_share_groups_partitions_may_have_several_members() -> None:
    log = Log()
    log.add(b.s_topics({"t": [0, 1]}), b.s_member("m1"), b.s_epoch(1), b.s_target("m1", {"t": [0, 1]}))
    log.add(b.s_target_epoch(1), b.s_current("m1", 1, {"t": [0, 1]}))
    assert partition_spread(log.view()) is None
    assert load_imbalance(log.view(), {("t", 0): 5}) is None


def test_what_a_member_shall_hold_counts() -> None:
    log = Log().add(b.c_topics("t"), b.c_member("m1"), b.c_member("m2"), b.c_epoch(1))
    log.add(b.c_target("m1", {"t": [0, 1]}), b.c_target("m2", {"t": [2, 3]}), b.c_target_epoch(1))
    log.add(b.c_current("m1", 1, {"t": [0, 1]}))
    assert log.view().partitions == 2
    assert assignment_imbalance(log.view()) == 1.0


def test_what_a_pattern_matches_shows_in_what_members_with_it_hold() -> None:
    log = Log().add(b.c_topics("t", "u"), b.c_member("m1", topics=(), regex="t.*"))
    log.add(b.c_member("m2", topics=(), regex="t.*"), b.c_member("m3", topics=("u",)), b.c_epoch(1))
    log.add(b.c_target("m1", {"t": [0, 1, 2]}), b.c_target("m3", {"u": [0]}), b.c_target_epoch(1))
    assert obtainable_topics(log.view().group_type, log.view().members) == {"m1": {"t"}, "m2": {"t"}, "m3": {"u"}}
    assert assignment_imbalance(log.view()) == pytest.approx(2.0)


def test_any_worker_may_get_any_task() -> None:
    log = Log().add(
        b.classic_group(1, b.worker("w1", {"c": [0, 1, 2, 3]}), b.worker("w2", {}), protocol_type="connect")
    )
    assert obtainable_topics(log.view().group_type, log.view().members) == {"w1": {"c"}, "w2": {"c"}}
    assert assignment_imbalance(log.view()) == pytest.approx(2.0)


def test_what_an_assignor_would_be_asked() -> None:
    log = Log().add(
        b.classic_group(
            1,
            b.member("m0-1", {"t": [0, 2**31 - 1], "empty": []}, topics=("t", "none"), instance_id="i"),
            b.member("m1-1", {}, topics=("t",)),
        )
    )
    held = held_partitions(log.view())
    assert held == {"t": [0, 2**31 - 1], "empty": []}
    problem = assignment_problem(log.view(), held)
    assert problem.partitions == {"t": 2, "empty": 0}, "what a client writes into its assignment must not cost memory"
    assert {member_id: (it.topics, it.instance_id) for member_id, it in problem.members.items()} == {
        "m0-1": ({"t", "empty"}, "i"),
        "m1-1": ({"t"}, None),
    }


MEMBERS = st.lists(
    st.tuples(
        st.dictionaries(st.sampled_from("abc"), st.lists(st.integers(0, 5), max_size=3)),
        st.sets(st.sampled_from("abc")) | st.just({"a", "b", "c"}),
    ),
    max_size=4,
)


@given(
    MEMBERS,
    st.sampled_from(["consumer", "connect"]),
    st.dictionaries(st.tuples(st.sampled_from("abcd"), st.integers(0, 5)), st.integers(0, 100), max_size=8),
)
def test_a_plan_says_what_the_view_says(
    members: list[tuple[dict[str, list[int]], set[str]]],
    protocol_type: str,
    consumed: dict[tuple[str, int], int],
) -> None:
    given = [
        b.worker(f"m{number}", has)
        if protocol_type == "connect"
        else b.member(f"m{number}-1", has, topics=sorted(wants))
        for number, (has, wants) in enumerate(members)
    ]
    view = Log().add(b.classic_group(1, *given, protocol_type=protocol_type)).view()
    plan = load_plan(view, consumed)
    alike = all(wants == members[0][1] >= has.keys() for has, wants in members)
    alike |= not any(wants for _, wants in members)
    assert (plan is not None) == (alike or protocol_type == "connect")
    if plan is not None:
        assert len(set(obtainable_topics(view.group_type, view.members).values())) <= 1
        assert plan.imbalance(consumed) == load_imbalance(view, consumed)
        own = {slot: slot for slot in consumed}
        assert all(slot is own[slot] for slots in plan.owned for slot in slots if slot in own)


def test_no_plan_where_nothing_is_told_or_a_pattern_may_match_more() -> None:
    log = Log().add(b.c_topics("t"), b.c_member("m1", topics=(), regex="t.*"), b.c_member("m2"), b.c_epoch(1))
    assert load_plan(log.view()) is None
    assert load_plan(Log().add(b.s_member("m1"), b.s_epoch(1)).view()) is None


def test_whole_partitions() -> None:
    assert [largest_even_share(fair) for fair in (1.0, 1.2, 2.0000001, 2.1)] == [1, 2, 2, 3]
