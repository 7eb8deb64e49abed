"""How often all groups are asked for, by how long answers take."""

from __future__ import annotations

from agent.kafka.admin_api.sampled_reader import TIMED, Pauses


def test_one_slow_answer_makes_nobody_blind() -> None:
    pauses = Pauses(1.0, 0.1, 10.0)
    for _ in range(TIMED):
        assert pauses.after(0.01, 1, 50.0) == 1.0
    assert pauses.after(1.5, 1, 50.0) == 1.0
    assert pauses.after(1.5, 1, 50.0) == 1.0


def test_brokers_that_stay_slow_are_asked_less_often() -> None:
    pauses = Pauses(1.0, 0.1, 10.0)
    assert [pauses.after(1.5, 1, 50.0) for _ in range(TIMED)][-1] == 15.0


def test_many_brokers_take_no_more_than_their_share() -> None:
    assert Pauses(1.0, 0.1, 10.0).after(0.01, 100, 50.0) == 20.0
