"""A member's steps towards its target, one by one."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from agent.simulation.groups.kip848_messages import CurrentAssignment, MemberState
from agent.simulation.groups.kip848_reconciliation import Goal, reconcile
from tests.unit.simulation.groups.asking import slots

STABLE, UNREVOKED, UNRELEASED = MemberState


def current(
    epoch: int, state: MemberState, assigned: Iterable[int] = (), revoking: Iterable[int] = (), previous: int = 1
) -> CurrentAssignment:
    """A member that has had all its partitions since epoch 1."""
    return CurrentAssignment(
        epoch, previous, state, dict.fromkeys(slots(assigned), 1), dict.fromkeys(slots(revoking), 1)
    )


def goal(
    epoch: int, target: Iterable[int], taken: Iterable[int] = (), wanted: bool = True, resubscribed: bool = False
) -> Goal:
    """`taken` by others; whether topic `t` is `wanted` at all, and that is news."""
    topics = frozenset({"t"} if wanted else ())
    return Goal(epoch, slots(target), topics, resubscribed, slots(taken).__contains__)


def shown(it: CurrentAssignment) -> tuple[int, int, MemberState, dict[int, int], dict[int, int]]:
    assigned, revoking = ({number: at for (_, number), at in held.items()} for held in (it.assigned, it.revoking))
    return it.epoch, it.previous_epoch, it.state, assigned, revoking


@pytest.mark.parametrize(
    ("before", "to", "owned", "after"),
    [
        pytest.param(
            current(2, STABLE, [0, 1]), goal(3, [0, 1]), None, (3, 2, STABLE, {0: 1, 1: 1}, {}), id="nothing to do"
        ),
        pytest.param(
            current(2, STABLE, [0]), goal(3, [0, 1]), None, (3, 2, STABLE, {0: 1, 1: 3}, {}), id="more, and free"
        ),
        pytest.param(
            current(2, STABLE, [0]),
            goal(3, [0, 1, 2], taken=[2]),
            None,
            (3, 2, UNRELEASED, {0: 1, 1: 3}, {}),
            id="more, free in part",
        ),
        pytest.param(
            current(2, STABLE, [0]), goal(3, [0, 2], taken=[2]), None, (3, 2, UNRELEASED, {0: 1}, {}), id="not free"
        ),
        pytest.param(
            current(2, STABLE, [0, 1]), goal(3, [1, 2]), None, (2, 2, UNREVOKED, {1: 1}, {0: 1}), id="less first"
        ),
        pytest.param(
            current(2, STABLE, [0, 1]),
            goal(3, [1, 2]),
            [1],
            (3, 2, STABLE, {1: 1, 2: 3}, {}),
            id="given up before it was asked",
        ),
        pytest.param(current(2, UNREVOKED, [1], [0]), goal(3, [1]), [1], (3, 2, STABLE, {1: 1}, {}), id="given up"),
        pytest.param(
            current(2, UNREVOKED, [1], [0]),
            goal(4, [0, 1]),
            [1],
            (4, 2, STABLE, {0: 4, 1: 1}, {}),
            id="given up, and its own again",
        ),
        pytest.param(
            current(2, UNREVOKED, [1, 2], [0]),
            goal(4, [1]),
            [1, 2],
            (2, 2, UNREVOKED, {1: 1}, {2: 1}),
            id="given up, and the next to give up",
        ),
        pytest.param(
            current(3, UNRELEASED, [0]), goal(3, [0, 1]), None, (3, 3, STABLE, {0: 1, 1: 3}, {}), id="free by now"
        ),
        pytest.param(
            current(3, UNRELEASED, [0]),
            goal(3, [0, 1], taken=[1]),
            None,
            (3, 3, UNRELEASED, {0: 1}, {}),
            id="still not free",
        ),
        pytest.param(
            current(2, STABLE, [0]),
            goal(3, [0, 1], wanted=False),
            None,
            (2, 2, UNREVOKED, {}, {0: 1}),
            id="a target of topics that it does not want",
        ),
        pytest.param(
            current(2, STABLE, [0]),
            goal(2, [0], wanted=False, resubscribed=True),
            None,
            (2, 2, UNREVOKED, {}, {0: 1}),
            id="not wanted any more, at once",
        ),
        pytest.param(
            current(2, STABLE, [0]),
            goal(2, [0], wanted=False, resubscribed=True),
            [],
            (2, 2, STABLE, {}, {}),
            id="not wanted any more, and given up",
        ),
        pytest.param(
            current(2, UNREVOKED, [1], [0]),
            goal(3, [1], wanted=False, resubscribed=True),
            None,
            (2, 2, UNREVOKED, {}, {0: 1, 1: 1}),
            id="more to give up than before",
        ),
    ],
)
def test_steps(
    before: CurrentAssignment,
    to: Goal,
    owned: list[int] | None,
    after: tuple[int, int, MemberState, dict[int, int], dict[int, int]],
) -> None:
    assert shown(reconcile(before, to, None if owned is None else slots(owned))) == after


@pytest.mark.parametrize(
    ("before", "to", "owned"),
    [
        pytest.param(current(3, STABLE, [0]), goal(3, [0, 1]), None, id="it is there"),
        pytest.param(current(3, STABLE, [0]), goal(3, [0], resubscribed=True), None, id="other topics, none less"),
        pytest.param(current(2, UNREVOKED, [1], [0]), goal(3, [1]), None, id="it does not say what it owns"),
        pytest.param(current(2, UNREVOKED, [1], [0]), goal(3, [1]), [0, 1], id="it has not given up"),
    ],
)
def test_nothing_happens(before: CurrentAssignment, to: Goal, owned: list[int] | None) -> None:
    assert reconcile(before, to, None if owned is None else slots(owned)) is before
