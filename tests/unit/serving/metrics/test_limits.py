"""Who has series where there is no room for all."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random

from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from agent.serving.metrics.limits import Candidate, Choice, LeftOut, Limits, Reason

NOW = 1_790_000_000_000
DAY = 86_400_000
NONE = LeftOut(0, 0)


def group(name: str, series: int = 10, *, members: bool = True, ago_ms: int = 0) -> Candidate:
    return Candidate(name, series, members, NOW - ago_ms)


def left_out(choice: Choice) -> tuple[LeftOut, LeftOut]:
    return choice.left_out[Reason.MAX_SERIES], choice.left_out[Reason.EXPIRED]


def test_room_for_all() -> None:
    choice = Limits(30, DAY).choose([group("a"), group("b"), group("c")], NOW)
    assert choice == ({"a", "b", "c"}, 30, {Reason.MAX_SERIES: NONE, Reason.EXPIRED: NONE})


def test_at_the_start_the_latest_to_be_active_come_first() -> None:
    choice = Limits(20, None).choose([group("a", ago_ms=3), group("b", ago_ms=2), group("c", ago_ms=1)], NOW)
    assert (choice.groups, left_out(choice)) == ({"b", "c"}, (LeftOut(1, 10), NONE))


def test_among_equals_by_name() -> None:
    assert Limits(20, None).choose([group("c"), group("b"), group("a")], NOW).groups == {"a", "b"}


def test_who_has_series_keeps_them() -> None:
    limits = Limits(20, None)
    limits.choose([group("a", ago_ms=9), group("b", ago_ms=9)], NOW)
    choice = limits.choose([group("a", ago_ms=9), group("b", ago_ms=9), group("c")], NOW)
    assert (choice.groups, left_out(choice)) == ({"a", "b"}, (LeftOut(1, 10), NONE))
    assert limits.choose([group("b", ago_ms=9), group("c")], NOW).groups == {"b", "c"}, "one was deleted"


def test_a_small_newcomer_finds_room_where_a_large_one_does_not() -> None:
    choice = Limits(25, None).choose([group("large", 30), group("small", 5, ago_ms=5), group("mean", ago_ms=9)], NOW)
    assert (choice.groups, choice.series, left_out(choice)) == ({"small", "mean"}, 15, (LeftOut(1, 30), NONE))


def test_where_groups_grow_the_last_to_come_goes() -> None:
    limits = Limits(30, None)
    for names in ("a", "ab", "abc"):
        assert limits.choose([group(name) for name in names], NOW).groups == set(names)
    choice = limits.choose([group("a", 20), group("b"), group("c", ago_ms=-9)], NOW)
    assert (choice.groups, left_out(choice)) == ({"a", "b"}, (LeftOut(1, 10), NONE))


def test_series_of_nobody_count() -> None:
    choice = Limits(25, None).choose([group("a"), group("b")], NOW, others=10)
    assert (choice.groups, choice.series) == ({"a"}, 20)
    assert Limits(5, None).choose([group("a")], NOW, others=10).groups == frozenset()


def test_a_dead_group_expires_and_comes_back() -> None:
    limits = Limits(100, DAY)
    dead = group("a", members=False, ago_ms=DAY)
    assert limits.choose([replace(dead, active_ms=dead.active_ms + 1)], NOW).groups == {"a"}
    choice = limits.choose([dead], NOW)
    assert (choice.groups, choice.series, left_out(choice)) == (frozenset(), 0, (NONE, LeftOut(1, 10)))
    assert limits.choose([replace(dead, has_members=True)], NOW).groups == {"a"}, "it lives again"
    assert limits.choose([replace(dead, active_ms=NOW + 5)], NOW).groups == {"a"}, "a broker's clock is ahead"
    assert Limits(100, None).choose([dead], NOW).groups == {"a"}, "never"


def test_an_expired_group_loses_its_place() -> None:
    limits = Limits(10, DAY)
    limits.choose([group("a", members=False)], NOW)
    limits.choose([group("a", members=False), group("b")], NOW + DAY)
    choice = limits.choose([group("a", ago_ms=-DAY), group("b")], NOW + DAY)
    assert (choice.groups, left_out(choice)) == ({"b"}, (LeftOut(1, 10), NONE))


def test_other_limits_while_it_runs() -> None:
    limits = Limits(20, DAY)
    groups = [group("a", ago_ms=1), group("b", ago_ms=2), group("c", members=False, ago_ms=2 * DAY)]
    assert limits.choose(groups, NOW).groups == {"a", "b"}
    limits.change(10, None)
    choice = limits.choose(groups, NOW)
    assert (choice.groups, left_out(choice)) == ({"a"}, (LeftOut(2, 20), NONE))
    limits.change(30, None)
    assert limits.choose(groups, NOW).groups == {"a", "b", "c"}


@dataclass(frozen=True)
class Round:
    """One scrape."""

    candidates: list[Candidate]
    now_ms: int
    others: int


ROUNDS = st.lists(
    st.builds(
        Round,
        st.lists(
            st.builds(
                Candidate,
                st.sampled_from("abcdefgh"),
                st.integers(1, 9),
                st.booleans(),
                st.integers(0, 50),
            ),
            unique_by=lambda it: it.group,
        ),
        st.integers(0, 60),
        st.integers(0, 5),
    ),
    max_size=6,
)


@given(ROUNDS, st.integers(1, 40), st.none() | st.integers(0, 40), st.randoms())
def test_the_cap_holds_and_nobody_is_moved_without_need(
    rounds: list[Round], most: int, expire_ms: int | None, random: Random
) -> None:
    limits, again = Limits(most, expire_ms), Limits(most, expire_ms)
    before: frozenset[str] = frozenset()
    for it in rounds:
        choice = limits.choose(it.candidates, it.now_ms, others=it.others)
        by_name = {candidate.group: candidate for candidate in it.candidates}
        mine = sum(by_name[name].series for name in choice.groups)
        assert choice.series == mine + it.others
        assert mine == 0 or choice.series <= most
        # Nothing is lost in between: each group has series or is left out for one reason.
        waiting, expired = left_out(choice)
        assert len(choice.groups) + waiting.groups + expired.groups == len(by_name)
        assert mine + waiting.series + expired.series == sum(it.series for it in by_name.values())
        dead = {
            name
            for name, candidate in by_name.items()
            if not candidate.has_members and expire_ms is not None and it.now_ms - candidate.active_ms >= expire_ms
        }
        assert expired.groups == len(dead)
        assert not dead & choice.groups
        # Who had series and lost them is dead or deleted, or those that stay leave it no room.
        stayed = sum(by_name[name].series for name in choice.groups & before) + it.others
        for name in before & by_name.keys() - dead - choice.groups:
            assert stayed + by_name[name].series > most
        # Nobody waits while there is room.
        for name in by_name.keys() - dead - choice.groups:
            assert choice.series + by_name[name].series > most
        shuffled = random.sample(it.candidates, len(it.candidates))
        assert again.choose(shuffled, it.now_ms, others=it.others) == choice, (
            "the order in which they come is nothing"
        )
        before = choice.groups
