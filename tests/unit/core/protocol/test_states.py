"""The tables of states, against Kafka 4.3's."""

from __future__ import annotations

import pytest

from agent.core.protocol.states import (
    CLASSIC_MOVES,
    CONSUMER_MEMBER_STABLE,
    STREAMS_MEMBER_STABLE,
    GroupState,
    GroupType,
    can_reach,
    consumer_state,
    resting_state,
    streams_state,
)

S = GroupState

# `ClassicGroupState.addValidPreviousStates`, as it stands there.
VALID_PREVIOUS = {
    S.EMPTY: {S.PREPARING_REBALANCE},
    S.PREPARING_REBALANCE: {S.STABLE, S.COMPLETING_REBALANCE, S.EMPTY},
    S.COMPLETING_REBALANCE: {S.PREPARING_REBALANCE},
    S.STABLE: {S.COMPLETING_REBALANCE},
    S.DEAD: {S.STABLE, S.PREPARING_REBALANCE, S.COMPLETING_REBALANCE, S.EMPTY, S.DEAD},
}


def test_classic_moves_are_the_brokers() -> None:
    # The broker lets a dead group "become" dead; that is no move.
    reverse = {state: {old for old, new in CLASSIC_MOVES.items() if state in new} for state in VALID_PREVIOUS}
    assert reverse == {state: previous - {state} for state, previous in VALID_PREVIOUS.items()}


# Number, why, from, to, generations, whether.
RESTS: list[tuple[int, str, GroupState, GroupState, int, bool]] = [
    (1, "it stays", S.EMPTY, S.EMPTY, 0, True),
    (2, "it stays: a static member was replaced", S.STABLE, S.STABLE, 0, True),
    (3, "members come by a rebalance", S.EMPTY, S.STABLE, 0, False),
    (4, "they go by a rebalance", S.STABLE, S.EMPTY, 0, False),
    (5, "a rebalance", S.EMPTY, S.STABLE, 1, True),
    (6, "all went as it prepared", S.STABLE, S.EMPTY, 1, True),
    (7, "another rebalance", S.STABLE, S.STABLE, 1, True),
    (8, "who came went before the assignment", S.EMPTY, S.EMPTY, 1, True),
    (9, "the first did not complete", S.STABLE, S.STABLE, 2, True),
    (10, "and so many more", S.STABLE, S.EMPTY, 1_000_000, True),
    (11, "a generation below the first is none", S.EMPTY, S.STABLE, -1, False),
]


@pytest.mark.parametrize("row", RESTS, ids=lambda row: f"{row[0]}-{row[1]}")
def test_where_a_classic_group_comes_to_rest(row: tuple[int, str, GroupState, GroupState, int, bool]) -> None:
    *_, state, to, generations, may = row
    assert can_reach(state, to, generations) is may


def test_names_are_the_admin_apis() -> None:
    assert {state.value for state in GroupState} == {
        "Empty",
        "PreparingRebalance",
        "CompletingRebalance",
        "Stable",
        "Dead",
        "Assigning",
        "Reconciling",
        "NotReady",
    }
    assert [str(kind) for kind in GroupType] == ["classic", "connect", "consumer", "share", "streams"]


def test_numbers_are_the_brokers() -> None:
    assert (CONSUMER_MEMBER_STABLE, STREAMS_MEMBER_STABLE) == (0, 1)


# Number, why, epoch, target epoch, members, reconciled, state.
CONSUMER: list[tuple[int, str, int, int, int, int, GroupState]] = [
    (1, "nobody", 1, 1, 0, 0, S.EMPTY),
    (2, "nobody, though the last departure asks for an assignment", 5, 4, 0, 0, S.EMPTY),
    (3, "an assignment is due, whatever the members have", 5, 4, 2, 2, S.ASSIGNING),
    (4, "its targets were deleted", 5, -1, 1, 0, S.ASSIGNING),
    (5, "one of two is behind", 5, 5, 2, 1, S.RECONCILING),
    (6, "all are there", 5, 5, 2, 2, S.STABLE),
    (7, "a target ahead of the epoch asks for none", 4, 5, 1, 1, S.STABLE),
]


@pytest.mark.parametrize("row", CONSUMER, ids=lambda row: f"{row[0]}-{row[1]}")
def test_the_state_of_a_kip_848_group(row: tuple[int, str, int, int, int, int, GroupState]) -> None:
    *_, epoch, target_epoch, members, reconciled, state = row
    assert consumer_state(epoch, target_epoch, members, reconciled) is state
    assert streams_state(epoch, target_epoch, members, reconciled, topology_validated=True) is state
    expected = S.NOT_READY if members else S.EMPTY
    assert streams_state(epoch, target_epoch, members, reconciled, topology_validated=False) is expected


def test_the_state_of_a_share_group() -> None:
    assert (resting_state(0), resting_state(1)) == (S.EMPTY, S.STABLE)
