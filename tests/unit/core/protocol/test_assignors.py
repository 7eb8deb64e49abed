"""Assignors, against what Kafka's own classes answered."""

from __future__ import annotations

import json
import random
import time
from collections.abc import Iterator
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.core.protocol.assignors import (
    ASSIGNORS,
    SERVER_ASSIGNORS,
    Assignment,
    AssignmentNeverEnds,
    AssignmentProblem,
    MemberSubscription,
    Slot,
    sorted_member_ids,
)
from agent.core.protocol.assignors.outcome import assignment_outcome, with_owned
from tests import SHARED, seed
from tests.generate.kafka_assignors import asking
from tests.generate.kafka_assignors.asking import ENDLESS, RECORDED, Kafka, NoAnswerError, expected_of, kafka, ours
from tests.generate.kafka_assignors.groups import KINDS, ROUNDS, compare

VECTORS = SHARED / "vectors" / "assignors.ndjson"
SEED = seed()


ALL_ASSIGNORS = {**ASSIGNORS, "uniform": SERVER_ASSIGNORS["uniform"], "server's range": SERVER_ASSIGNORS["range"]}


def rows(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def check(kind: str, asked: list[dict[str, Any]]) -> None:
    """The very answers of Kafka's class, which are so neither less even, nor less sticky, nor slower to get there."""
    others = [row for row in asked if ours(row) != expected_of(row["expect"])]
    print(f"{kind}: {len(asked) - len(others)}/{len(asked)} as Kafka's own")
    assert asked
    assert not others, f"{len(others)} of {len(asked)}, such as {json.dumps(others[0])}"


@pytest.mark.skipif(not VECTORS.exists(), reason=f"{VECTORS} is missing: only beside a developer's checkout")
@pytest.mark.parametrize("name", ASSIGNORS)
def test_as_kafkas_own_assignor(name: str) -> None:
    check(name, [row for row in rows(VECTORS) if row["assignor"] == name])


@pytest.mark.parametrize("kind", KINDS)
def test_as_recorded_of_kafkas_own_assignor(kind: str) -> None:
    check(kind, [row for row in rows(RECORDED) if row["kind"] == kind])


@pytest.mark.usefixtures("kafka")
@pytest.mark.parametrize("kind", KINDS)
def test_as_kafkas_own_assignor_answers_now(kind: str, live: Kafka) -> None:
    found = compare(live, kind, 100, SEED)
    print(f"{kind}: {found.same}/{found.total} as Kafka's own, seed {SEED}")
    assert found.total > 90 * ROUNDS
    assert not found.others, f"{found} with seed {SEED}"


def test_what_kafkas_own_class_comes_to_no_end_of() -> None:
    """Six members of 20 partitions, one of them new: nothing that no group could have."""
    with pytest.raises(AssignmentNeverEnds, match="a leader with one never completes the rebalance"):
        ours(json.loads(ENDLESS.read_text(encoding="utf-8")))


@pytest.mark.thorough
@pytest.mark.usefixtures("kafka")
def test_kafkas_own_class_comes_to_no_end_of_it(live: Kafka, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(asking, "PATIENCE_S", 10)
    with pytest.raises(NoAnswerError, match="no answer within 10 s"):
        live.answer(json.loads(ENDLESS.read_text(encoding="utf-8")))


@pytest.fixture(scope="module")
def live() -> Iterator[Kafka]:
    with kafka() as asked:
        yield asked


ALL = frozenset({"t0", "t1"})

# Number, why, assignor, partitions, members, numbers of partitions by member as "topic-partition".
WORKED: list[tuple[int, str, str, dict[str, int], dict[str, MemberSubscription], dict[str, str]]] = [
    (
        1,
        "five over three",
        "range",
        {"t0": 5},
        dict.fromkeys(("C0", "C1", "C2"), MemberSubscription(frozenset({"t0"}))),
        {"C0": "t0-0 t0-1", "C1": "t0-2 t0-3", "C2": "t0-4"},
    ),
    (
        2,
        "range begins each topic anew",
        "range",
        {"t0": 2, "t1": 2},
        dict.fromkeys(("Ca", "Cb", "Cc"), MemberSubscription(ALL)),
        {"Ca": "t0-0 t1-0", "Cb": "t0-1 t1-1", "Cc": ""},
    ),
    (
        3,
        "roundrobin goes on",
        "roundrobin",
        {"t0": 2, "t1": 2},
        dict.fromkeys(("Ca", "Cb", "Cc"), MemberSubscription(ALL)),
        {"Ca": "t0-0 t1-1", "Cb": "t0-1", "Cc": "t1-0"},
    ),
    (
        4,
        "static members first, by static id",
        "range",
        {"t0": 1},
        {"a": MemberSubscription(ALL), "y": MemberSubscription(ALL, "i-2"), "z": MemberSubscription(ALL, "i-1")},
        {"a": "", "y": "", "z": "t0-0"},
    ),
    (
        5,
        "who does not subscribe is passed over",
        "roundrobin",
        {"t0": 2, "t1": 1},
        {"a": MemberSubscription(frozenset({"t1"})), "b": MemberSubscription(ALL)},
        {"a": "t1-0", "b": "t0-0 t0-1"},
    ),
    (6, "nobody wants it", "range", {"t2": 3}, {"a": MemberSubscription(ALL)}, {"a": ""}),
    (7, "nobody wants it", "roundrobin", {"t2": 3}, {"a": MemberSubscription(ALL)}, {"a": ""}),
    (8, "nobody is there", "roundrobin", {"t0": 3}, {}, {}),
    (9, "nobody is there", "range", {"t0": 3}, {}, {}),
    (10, "what is wanted does not exist", "roundrobin", {}, {"a": MemberSubscription(ALL)}, {"a": ""}),
    (
        11,
        "the third to come gets what the others give up: not yet (protocol.md)",
        "cooperative-sticky",
        {"t0": 6},
        {
            "C1": MemberSubscription(ALL, owned=(("t0", 0), ("t0", 1), ("t0", 2))),
            "C2": MemberSubscription(ALL, owned=(("t0", 3), ("t0", 4), ("t0", 5))),
            "C3": MemberSubscription(ALL),
        },
        {"C1": "t0-0 t0-1", "C2": "t0-3 t0-4", "C3": ""},
    ),
    (
        12,
        "then it does",
        "cooperative-sticky",
        {"t0": 6},
        {
            "C1": MemberSubscription(ALL, owned=(("t0", 0), ("t0", 1))),
            "C2": MemberSubscription(ALL, owned=(("t0", 3), ("t0", 4))),
            "C3": MemberSubscription(ALL),
        },
        {"C1": "t0-0 t0-1", "C2": "t0-3 t0-4", "C3": "t0-2 t0-5"},
    ),
    (
        13,
        "the newer generation has it",
        "sticky",
        {"t0": 2},
        {
            "a": MemberSubscription(ALL, owned=(("t0", 0),), generation=4),
            "b": MemberSubscription(ALL, owned=(("t0", 0), ("t0", 1)), generation=3),
        },
        {"a": "t0-0", "b": "t0-1"},
    ),
    (
        14,
        "what two claim alike counts for neither, and moves",
        "cooperative-sticky",
        {"t0": 2},
        {
            "a": MemberSubscription(ALL, owned=(("t0", 0),), generation=4),
            "b": MemberSubscription(ALL, owned=(("t0", 0),), generation=4),
        },
        {"a": "", "b": "t0-1"},
    ),
    (
        15,
        "what does not exist any more is nobody's",
        "sticky",
        {"t0": 1},
        {
            "a": MemberSubscription(ALL, owned=(("t0", 7), ("t9", 0))),
            "b": MemberSubscription(ALL, owned=(("t0", 0),)),
        },
        {"a": "", "b": "t0-0"},
    ),
    (16, "nobody is there", "sticky", {"t0": 3}, {}, {}),
    (17, "nobody is there", "cooperative-sticky", {"t0": 3}, {}, {}),
    (18, "nobody is there", "uniform", {"t0": 3}, {}, {}),
    (
        19,
        "who has one more keeps it",
        "uniform",
        {"t0": 3},
        {
            "a": MemberSubscription(ALL, owned=(("t0", 0),)),
            "b": MemberSubscription(ALL, owned=(("t0", 1), ("t0", 2))),
        },
        {"a": "t0-0", "b": "t0-1 t0-2"},
    ),
    (
        20,
        "no two of a topic go each way between two members: one is taken back (Kafka's answer)",
        "sticky",
        {"t0": 6, "t1": 2},
        {
            "m0": MemberSubscription(frozenset({"t1"})),
            "m1": MemberSubscription(ALL),
            "m2": MemberSubscription(ALL, owned=(("t0", 1), ("t0", 2), ("t0", 5), ("t1", 0), ("t1", 1))),
        },
        {"m0": "t1-0 t1-1", "m1": "t0-0 t0-3 t0-4", "m2": "t0-1 t0-2 t0-5"},
    ),
]


@pytest.mark.parametrize(
    ("assignor", "partitions", "members", "expected"),
    [pytest.param(*row[2:], id=f"{row[0]}-{row[1]}") for row in WORKED],
)
def test_worked_examples(
    assignor: str, partitions: dict[str, int], members: dict[str, MemberSubscription], expected: dict[str, str]
) -> None:
    assignment = ALL_ASSIGNORS[assignor](AssignmentProblem(partitions, members))
    assert {
        member_id: " ".join(f"{topic}-{number}" for topic, number in slots) for member_id, slots in assignment.items()
    } == expected


def test_ids_are_sorted_as_java_sorts_them() -> None:
    # By code point U+FF5E comes before U+1F600; by UTF-16 unit it comes after.
    assert sorted_member_ids(
        AssignmentProblem({}, {"\uff5e": MemberSubscription(ALL), "\U0001f600": MemberSubscription(ALL)})
    ) == [
        "\U0001f600",
        "\uff5e",
    ]


TOPICS = ("t0", "t1", "t2")
SLOTS = [(topic, number) for topic in TOPICS for number in range(5)]


@st.composite
def problems(draw: st.DrawFn, *, alike: bool | None = None) -> AssignmentProblem:
    """Small groups; what members have is theirs alone, of their topics or not, or does not exist."""
    partitions = draw(st.dictionaries(st.sampled_from(TOPICS), st.integers(0, 5), min_size=1))
    ids = draw(st.lists(st.text(min_size=1, max_size=4), unique=True, min_size=1, max_size=6))
    equal = draw(st.booleans()) if alike is None else alike
    some = st.frozensets(st.sampled_from(TOPICS), min_size=1)
    shared = draw(some)
    owners = draw(st.lists(st.sampled_from([None, *ids]), min_size=len(SLOTS), max_size=len(SLOTS)))
    members = {
        member_id: MemberSubscription(
            shared if equal else draw(some),
            owned=tuple(slot for slot, owner in zip(SLOTS, owners, strict=True) if owner == member_id),
            generation=draw(st.sampled_from([None, 3, 4])),
        )
        for member_id in ids
    }
    return AssignmentProblem(partitions, members)


def owners_of(assignment: Assignment) -> dict[Slot, str]:
    pairs = [(slot, member_id) for member_id, slots in assignment.items() for slot in slots]
    assert len({slot for slot, _ in pairs}) == len(pairs), "one owner each"
    return dict(pairs)


def all_of(problem: AssignmentProblem) -> set[Slot]:
    return {(topic, number) for topic, count in problem.subscribed_topics().items() for number in range(count)}


@pytest.mark.parametrize("name", ALL_ASSIGNORS)
@given(problem=problems())
def test_who_wants_it_gets_it_and_only_one(name: str, problem: AssignmentProblem) -> None:
    assignment = ALL_ASSIGNORS[name](problem)
    assert list(assignment) == list(problem.members)
    assert all(slots == sorted(slots) for slots in assignment.values())
    owners = owners_of(assignment)
    assert all(topic in problem.members[owner].topics for (topic, _), owner in owners.items())
    if name != "cooperative-sticky":
        assert owners.keys() == all_of(problem)


@pytest.mark.parametrize("name", [name for name in ALL_ASSIGNORS if "range" not in name])
@given(problem=problems(alike=True))
def test_even_where_all_subscribe_alike(name: str, problem: AssignmentProblem) -> None:
    assignment = ALL_ASSIGNORS[name](problem)
    if name == "cooperative-sticky":
        assert max(map(len, assignment.values())) <= -(-len(all_of(problem)) // len(problem.members))
        assignment = ALL_ASSIGNORS[name](with_owned(problem, assignment))
    sizes = [len(slots) for slots in assignment.values()]
    assert max(sizes) - min(sizes) <= 1


@pytest.mark.parametrize("name", [name for name in ALL_ASSIGNORS if name != "cooperative-sticky"])
@given(problem=problems())
def test_nothing_moves_where_nothing_changes(name: str, problem: AssignmentProblem) -> None:
    assignment = ALL_ASSIGNORS[name](problem)
    if name == "uniform" and not problem.has_equal_subscriptions():
        # Its last sweep may have found something to do still: the next goes on from there.
        assignment = ALL_ASSIGNORS[name](with_owned(problem, assignment))
    assert ALL_ASSIGNORS[name](with_owned(problem, assignment)) == assignment


@given(problem=problems())
def test_cooperative_rounds(problem: AssignmentProblem) -> None:
    """Nothing goes from hand to hand; what was given up is given away in the rounds after, and then all is quiet."""
    assignor = ASSIGNORS["cooperative-sticky"]
    asked, rounds = problem, [assignor(problem)]
    while True:
        had = {slot: member_id for member_id, it in asked.members.items() for slot in it.owned}
        assert all(had.get(slot, owner) == owner for slot, owner in owners_of(rounds[-1]).items())
        if owners_of(rounds[-1]).keys() == all_of(problem):
            break
        asked = with_owned(asked, rounds[-1])
        rounds.append(assignor(asked))
    found = assignment_outcome("cooperative-sticky", problem)
    assert (found.assignment, found.rounds) == (rounds[-1], len(rounds))
    assert assignor(with_owned(problem, rounds[-1])) == rounds[-1]
    if problem.has_equal_subscriptions():
        assert len(rounds) <= 2
        assert owners_of(rounds[0]).items() <= owners_of(rounds[-1]).items()


@pytest.mark.parametrize("name", ALL_ASSIGNORS)
@given(problem=problems())
def test_outcomes(name: str, problem: AssignmentProblem) -> None:
    by_server = name not in ASSIGNORS
    found = assignment_outcome("range" if name == "server's range" else name, problem, by_server=by_server)
    before, after = (
        {slot: who for who, it in problem.members.items() for slot in it.owned},
        owners_of(found.assignment),
    )
    assert found.moves == len([slot for slot, who in before.items() if after.get(slot) != who])
    assert found.stopped == (found.moves if by_server or name == "cooperative-sticky" else len(before))
    sizes = sorted(map(len, found.assignment.values()))
    assert found.spread == (sizes[0], sizes[-1], sizes.count(0))


@given(problem=problems(alike=True))
def test_as_much_stays_as_can(problem: AssignmentProblem) -> None:
    """With all subscriptions alike: of what a member has, its fair share."""
    assignment = ASSIGNORS["sticky"](problem)
    least = len(all_of(problem)) // len(problem.members)
    for member_id, it in problem.members.items():
        had = all_of(problem) & set(it.owned)
        assert len(had & set(assignment[member_id])) >= min(len(had), least)


@pytest.mark.parametrize("name", ALL_ASSIGNORS)
@pytest.mark.parametrize("topics", [1, 10, 1000])
def test_ten_thousand_partitions_of_a_thousand_members(name: str, topics: int) -> None:
    partitions = {f"t{number}": 10_000 // topics for number in range(topics)}
    members = {f"app-{number}": MemberSubscription(frozenset(partitions)) for number in range(1_000)}
    problem = AssignmentProblem(partitions, members)
    assignment = ALL_ASSIGNORS[name](problem)
    begin = time.process_time()
    ALL_ASSIGNORS[name](with_owned(problem, assignment))
    # About 0.02 s each, 0.3 s for range of 1,000 topics.
    assert time.process_time() - begin < 4


def test_unequal_subscriptions_of_many_end_too() -> None:
    dice = random.Random(5)
    partitions = {f"t{number}": dice.randint(1, 200) for number in range(100)}
    members = {
        f"app-{number}": MemberSubscription(frozenset(dice.sample(sorted(partitions), dice.randint(1, 50))))
        for number in range(1_000)
    }
    problem = AssignmentProblem(partitions, members)
    begin = time.process_time()
    ASSIGNORS["sticky"](with_owned(problem, ASSIGNORS["roundrobin"](problem)))
    # About 0.4 s.
    assert time.process_time() - begin < 10


def test_roundrobin_where_each_pair_of_members_has_a_topic_of_its_own() -> None:
    """An analyzer asks it for each generation: most members do not want the next partition."""
    pairs = list(combinations(range(600), 2))
    random.Random(1).shuffle(pairs)
    topics: dict[str, set[str]] = {f"m{number}": set() for number in range(600)}
    for number, pair in enumerate(pairs):
        for member in pair:
            topics[f"m{member}"].add(f"t{number}")
    members = {member: MemberSubscription(frozenset(them)) for member, them in topics.items()}
    problem = AssignmentProblem({f"t{number}": 1 for number in range(len(pairs))}, members)
    begin = time.process_time()
    assignment = ASSIGNORS["roundrobin"](problem)
    assert time.process_time() - begin < 3
    assert sum(map(len, assignment.values())) == len(pairs)
