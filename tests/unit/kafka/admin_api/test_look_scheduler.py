"""Which groups are looked at next, within a budget of requests."""

from __future__ import annotations

from agent.kafka.admin_api.look_scheduler import (
    COMMITS_S,
    IDLE_S,
    LEAST_SUSPENDED_S,
    GroupTraits,
    Kind,
    LookScheduler,
    Question,
)

BUSY, IDLE, EPOCHS = GroupTraits(True, False), GroupTraits(False, False), GroupTraits(True, True)


def made(**groups: GroupTraits) -> LookScheduler:
    it = LookScheduler()
    it.set_groups(groups)
    return it


def ask(it: LookScheduler, now: float, requests: float = 100, most: int = 100) -> list[Question]:
    out = it.next_questions(requests, most, now)
    it.answered(question.group for question in out)
    return out


def test_each_group_is_asked_for_once_first() -> None:
    it = made(a=BUSY, b=IDLE, c=EPOCHS)
    first = ask(it, 0.0, most=3)
    assert first == [Question(Kind.LOOK, "a"), Question(Kind.OFFSETS, "b"), Question(Kind.LOOK, "c")]


def test_groups_that_move_come_before_all_others_until_told() -> None:
    it = made(**{f"g{number}": BUSY for number in range(100)})
    for step in range(100):
        ask(it, step / 100, most=10)
    it.moved(["g7", "nobody"], 50.0)
    assert ask(it, 50.0, most=1) == [Question(Kind.LOOK, "g7")]
    assert ask(it, 50.3, most=1) == [Question(Kind.LOOK, "g7")]
    it.settled("g7")
    commits = [question.group for question in ask(it, 60.0, most=10) if question.kind is Kind.OFFSETS]
    assert commits[0] == "g7", "its commits before those of others"


def longest_unseen(it: LookScheduler, groups: list[str], moving: list[str], requests_per_s: float) -> float:
    """For how many seconds of two minutes the commits of one of `groups` are not looked at, while others move."""
    asked, longest, left = dict.fromkeys(groups, 0.0), 0.0, 0.0
    for step in range(2_400):
        now = 100 + step / 20
        it.moved(moving, now)
        left = min(left + requests_per_s / 20, requests_per_s)
        if left < 1:
            continue
        for kind, group in ask(it, now, left):
            left -= it.cost(Question(kind, group))
            if group in asked and kind is not Kind.DESCRIBE:
                longest, asked[group] = max(longest, now - max(asked[group], 100)), now
    return max(longest, 220 - min(asked.values()))


def test_groups_that_prepare_a_rebalance_for_minutes_leave_something_for_the_others() -> None:
    """Those seemed to stand still while their topics went on: all had lag that grew."""
    it = made(**{f"g{number}": BUSY for number in range(60)})
    ask(it, 0.0, requests=1_000)
    assert longest_unseen(it, [f"g{number}" for number in range(20, 60)], ["g0", "g1", "g2", "g3"], 50) < 15


def test_what_is_left_for_the_others_goes_to_none_that_moves() -> None:
    """Their commits took half of it, though each look at them shows these."""
    it, spent = made(**{f"g{number}": BUSY for number in range(60)}), [0.0, 0.0]
    ask(it, 0.0, requests=1_000)
    moving = ["g0", "g1", "g2", "g3"]
    for step in range(1_000):
        it.moved(moving, 100 + step / 10)
        for question in ask(it, 100 + step / 10, 5):
            spent[question.group in moving] += it.cost(question)
    assert 0.24 < spent[0] / sum(spent) < 0.3


def test_groups_that_rebalance_again_and_again_leave_something_for_the_others() -> None:
    it = made(**{f"g{number}": BUSY for number in range(60)})
    ask(it, 0.0, requests=1_000)
    it.moved([f"g{number}" for number in range(30)], 100.0)
    for number in range(30):
        it.settled(f"g{number}")
    assert longest_unseen(it, [f"g{number}" for number in range(30, 60)], [], 50) < 30


def test_the_budget_holds() -> None:
    it = made(**{f"g{number}": BUSY for number in range(100)})
    questions = ask(it, 0.0, requests=15)
    assert sum(map(it.cost, questions)) == 15
    assert [question.kind for question in questions] == [Kind.LOOK] * 3


def test_a_few_groups_are_not_asked_for_all_the_time() -> None:
    it = made(a=BUSY, b=IDLE)
    ask(it, 0.0)
    ask(it, 0.01)
    ask(it, 0.02)
    assert ask(it, 0.03) == []
    later = ask(it, COMMITS_S + 0.1)
    assert later == [Question(Kind.OFFSETS, "a")]
    assert Question(Kind.OFFSETS, "b") in [*ask(it, IDLE_S + 1), *ask(it, IDLE_S + 1), *ask(it, IDLE_S + 1)]


def test_what_is_under_way_is_not_asked_twice() -> None:
    it = made(a=BUSY)
    assert it.next_questions(10, 10, 0.0) == [Question(Kind.LOOK, "a")]
    it.moved(["a"], 0.1)
    assert it.next_questions(10, 10, 9.0) == []
    it.dropped()
    assert it.next_questions(10, 10, 9.0) == [Question(Kind.LOOK, "a")]


def test_who_may_not_be_asked_is_left_alone_and_who_went_is_forgotten() -> None:
    it = made(a=BUSY, b=BUSY)
    it.suspend("a", 0.0)
    assert {question.group for question in ask(it, 1.0)} == {"b"}
    assert {question.group for question in ask(it, LEAST_SUSPENDED_S)} == {"a", "b"}, "the right may have been given"
    it.suspend("a", 10.0)
    assert {question.group for question in ask(it, 10.0 + LEAST_SUSPENDED_S)} == {"b"}, "each refusal doubles it"
    it.resume("a")
    it.suspend("a", 20.0)
    assert {question.group for question in ask(it, 20.0 + LEAST_SUSPENDED_S)} == {"a", "b"}
    it.set_groups({})
    assert ask(it, 100.0) == []
