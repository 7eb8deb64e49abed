"""Analyzers of others: what of their state is kept, and what is said of the rest."""

from __future__ import annotations

from collections import Counter, deque
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, ClassVar, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.core.diagnosis.api import Analyzer, GroupContext, Settings, Verdict
from agent.core.diagnosis.cluster import AnalyzerSelection
from agent.core.shadow.transitions import Transition
from agent.core.shadow.views import Anomaly
from agent.persistence.cluster_state import ClusterState
from agent.persistence.snapshot import third_party_state
from analyzers import windows
from tests.harness.state_digest import digest
from tests.unit.core.diagnosis.doubles import chosen, generations
from tests.unit.core.shadow.build import run_of
from tests.unit.persistence.snapshot.cutting import LOG, assert_goes_on, halves


class Colour(Enum):
    RED = 1


class Pair(NamedTuple):
    left: Any
    right: Any


@dataclass
class Node:
    name: str
    next: Any = None
    tags: set[str] = field(default_factory=set)


class Slotted:
    __slots__ = ("absent", "here")

    def __init__(self) -> None:
        self.here = 1


class Foreign(Analyzer):
    name: ClassVar[str] = "foreign"
    rule: ClassVar[str] = "never"
    false_alarms: ClassVar[str] = "none"
    state_classes: ClassVar[tuple[type, ...]] = (Node, Pair, Colour, Slotted)

    def __init__(self, settings: Settings) -> None:
        super().__init__(settings)
        self.held: Any = None

    def observe(self, transition: Transition, group: GroupContext) -> None:
        self.held = [*(self.held or []), transition.kind]

    def judge(self, group: GroupContext) -> Verdict:
        return Verdict()


def there_and_back(value: Any) -> Any:
    one, two = Foreign(Settings()), Foreign(Settings())
    one.held = value
    assert third_party_state.unpack(two, third_party_state.pack(one))
    return two.held


plain = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text() | st.binary(),
    lambda inner: st.lists(inner) | st.tuples(inner, inner) | st.dictionaries(st.text() | st.integers(), inner),
    max_leaves=20,
)


@given(plain)
def test_what_is_plain_comes_back(value: Any) -> None:
    assert there_and_back(value) == value


@pytest.mark.parametrize(
    "value",
    [
        {1, 2},
        frozenset({("a", 1)}),
        deque([1, 2], maxlen=2),
        Counter(a=2, b=-1),
        {("a", 1): [2]},
        Pair(1, Pair("x", None)),
        Colour.RED,
        Node("a", Node("b"), {"t"}),
        2**80,
    ],
    ids=repr,
)
def test_it_comes_back_as_what_it_was(value: Any) -> None:
    back = there_and_back(value)
    assert back == value
    assert type(back) is type(value)
    assert getattr(back, "maxlen", 0) == getattr(value, "maxlen", 0)


def test_what_is_held_twice_is_one() -> None:
    shared = ["x"]
    one, two = there_and_back([shared, shared])
    assert one is two
    ring = Node("a")
    ring.next = [ring]
    back = there_and_back(ring)
    assert back.next[0] is back


def test_an_attribute_that_is_not_there_stays_away() -> None:
    back = there_and_back(Slotted())
    assert back.here == 1
    assert not hasattr(back, "absent")


def test_a_struct_that_lacks_a_field_is_refused() -> None:
    one, two = Foreign(Settings()), Foreign(Settings())
    one.held = Anomaly("kind", "message", 1, 2)
    state = third_party_state.pack(one)
    state["held"][1].pop()
    with pytest.raises(ValueError, match="expected the fields of Anomaly"):
        third_party_state.unpack(two, state)


def test_counters_that_were_empty_count_each_for_itself() -> None:
    one, two = there_and_back([windows.DepartureCounter(60_000, 1), windows.DepartureCounter(60_000, 1)])
    one.join("a")
    one.leave("a", 1_000)
    assert (one.frequent(), two.frequent()) == ({"a"}, set())


@pytest.mark.parametrize("seats", [2, 20])
def test_counters_know_who_sat_where(seats: int) -> None:
    kept = [windows.DepartureCounter(60_000, 1) for _ in range(9)]
    for number, it in enumerate(kept):
        for seat in range(seats):
            it.join((number, seat))
            it.join((number, seat))
    back = there_and_back(kept)
    assert [it._here for it in back] == [it._here for it in kept]
    assert back[8]._here == {(8, seat): 2 for seat in range(seats)}


def test_empty_windows_stay_one() -> None:
    """All empty ones share a deque, which nobody must write into."""
    back = there_and_back([windows.RecentItems(10), windows.RecentItems(10)])
    back[0].add(1, "x")
    assert (list(back[0]), list(back[1])) == (["x"], [])


class Strange:
    pass


def deep(levels: int) -> list[Any]:
    return [] if not levels else [deep(levels - 1)]


@pytest.mark.parametrize("value", [Strange(), lambda: None, [{"a": Strange()}], Strange, deep(200), 10**2000])
def test_what_is_not_plain_is_said(value: Any) -> None:
    it = Foreign(Settings())
    it.held = value
    with pytest.raises(third_party_state.UnsupportedValue, match="held: "):
        third_party_state.pack(it)


@given(plain)
def test_whatever_comes_is_no_harm(value: Any) -> None:
    it = Foreign(Settings())
    try:
        third_party_state.unpack(it, {"held": value})
    except (ValueError, LookupError, TypeError):
        assert it.held is None


@pytest.mark.parametrize(
    "value",
    [
        [len(third_party_state.STANDARD), [["list", []]]],
        [len(third_party_state.STANDARD), [["tuple", ["__class__", 1]]]],
        [-1],
        [7],
        ["int", 5],
        ["list", 5],
        ["module", []],
        [99, []],
        [True, []],
        ["int", "9" * 10_000],
    ],
)
def test_hostile_state(value: Any) -> None:
    it = Foreign(Settings())
    with pytest.raises((ValueError, LookupError, TypeError)):
        third_party_state.unpack(it, {"held": value})
    assert it.held is None
    nested: Any = value
    for _ in range(150):
        nested = ["list", [nested]]
    with pytest.raises(ValueError, match="too deep"):
        third_party_state.unpack(it, {"held": nested})


def test_one_with_other_attributes_starts_empty() -> None:
    it = Foreign(Settings())
    assert not third_party_state.unpack(it, {"held": 1, "more": 2})
    assert it.held is None


def test_it_goes_on_where_it_was() -> None:
    which = chosen(Foreign)
    records = generations(1_000, 2_000, 3_000).records
    assert_goes_on(halves(records, 2), [1], which)


class Closed(Foreign):
    name: ClassVar[str] = "closed"

    def observe(self, transition: Transition, group: GroupContext) -> None:
        self.held = Strange()


def test_one_that_cannot_be_kept_starts_empty_and_is_named() -> None:
    which: AnalyzerSelection = chosen(Closed, Foreign)
    state = ClusterState(which, log=LOG)
    state.replay_batch(run_of(generations(1_000, 2_000).records))
    (partition,) = state.partitions
    snapshot = state.capture(partition)
    assert snapshot.omitted_analyzers == {"closed": f"held: {Strange.__module__}.Strange"}
    assert digest(state, partition)
    other = ClusterState(which, log=LOG)
    other.restore(partition, snapshot.encode())
    (watched,) = other.diagnosis.partitions[partition]._groups.values()
    closed, kept = (it.analyzer for it in watched.watches)
    assert isinstance(closed, Closed)
    assert isinstance(kept, Foreign)
    assert closed.held is None
    assert kept.held
