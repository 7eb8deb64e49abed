"""The states of groups, in Kafka's names, and for each type of group the rule that derives its state.

Classic groups move by requests, of which the log shows only where they came to rest; KIP-848, share and
streams groups have their state computed from epochs, after `ConsumerGroup`, `ShareGroup` and `StreamsGroup`
(`maybeUpdateGroupState`) of Kafka 4.3.
"""

from __future__ import annotations

from enum import StrEnum


class GroupType(StrEnum):
    """What kind of group; Connect's are classic groups of another protocol type."""

    CLASSIC = "classic"
    CONNECT = "connect"
    CONSUMER = "consumer"
    SHARE = "share"
    STREAMS = "streams"


class GroupState(StrEnum):
    """A group's state as the Admin API names it."""

    EMPTY = "Empty"
    PREPARING_REBALANCE = "PreparingRebalance"
    COMPLETING_REBALANCE = "CompletingRebalance"
    STABLE = "Stable"
    DEAD = "Dead"
    ASSIGNING = "Assigning"
    RECONCILING = "Reconciling"
    NOT_READY = "NotReady"


CLASSIC_MOVES: dict[GroupState, frozenset[GroupState]] = {
    GroupState.EMPTY: frozenset({GroupState.PREPARING_REBALANCE, GroupState.DEAD}),
    GroupState.PREPARING_REBALANCE: frozenset(
        {GroupState.COMPLETING_REBALANCE, GroupState.EMPTY, GroupState.DEAD},
    ),
    GroupState.COMPLETING_REBALANCE: frozenset(
        {GroupState.STABLE, GroupState.PREPARING_REBALANCE, GroupState.DEAD},
    ),
    GroupState.STABLE: frozenset({GroupState.PREPARING_REBALANCE, GroupState.DEAD}),
    GroupState.DEAD: frozenset(),
}
"""From each state of a classic group, where it may go next (`ClassicGroupState.validPreviousStates`, reversed)."""

UNLOGGED_STATES = frozenset({GroupState.PREPARING_REBALANCE, GroupState.COMPLETING_REBALANCE})
"""The states of classic groups of which no record tells."""


def can_reach(state: GroupState, to: GroupState, generations: int) -> bool:
    """Whether a classic group at rest in one state may next be at rest in another after so many generations.

    By `CLASSIC_MOVES`, through states that are unseen: any rest leads to any by way of PreparingRebalance, and as a
    group leaves that, a generation begins (`ClassicGroup.initNextGeneration`). In the same one it only stays.
    """
    return state is to or generations > 0


CONSUMER_MEMBER_STABLE = 0
STREAMS_MEMBER_STABLE = 1
"""`MemberState.STABLE` has one number in consumer groups and another in streams groups."""


def consumer_state(epoch: int, target_epoch: int, members: int, reconciled: int) -> GroupState:
    """A KIP-848 group's state, of whose `members` that many are `reconciled`: stable at the target epoch."""
    if not members:
        return GroupState.EMPTY
    if epoch > target_epoch:
        return GroupState.ASSIGNING
    return GroupState.STABLE if reconciled == members else GroupState.RECONCILING


def resting_state(members: int) -> GroupState:
    """A classic group's state when no rebalance is going on, and a share group's at any time: its members need no
    revocation, so there is nothing between empty and stable."""
    return GroupState.STABLE if members else GroupState.EMPTY


def streams_state(
    epoch: int, target_epoch: int, members: int, reconciled: int, *, topology_validated: bool
) -> GroupState:
    """A streams group's state: a KIP-848 group's, but not ready while its topology's topics are not validated."""
    if members and not topology_validated:
        return GroupState.NOT_READY
    return consumer_state(epoch, target_epoch, members, reconciled)
