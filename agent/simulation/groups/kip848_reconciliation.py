"""How a member of a KIP-848 group gets from what it has to what it shall have.

After Kafka 4.3's `CurrentAssignmentBuilder`. Each step is taken on a heartbeat of the member itself: it first gives
up what is not in its target, and hears of new partitions when nobody else holds them any more.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from msgspec import Struct
from msgspec.structs import replace

from agent.core.protocol.assignors import Slot
from agent.simulation.groups.kip848_messages import CurrentAssignment, MemberState


class Goal(Struct, frozen=True):
    """Where a member shall get to.

    `topics` are those that it subscribes to and that exist. `resubscribed`: with this heartbeat it wants other topics
    than before. `held_by_another` says of a partition whether another member has it, or has not yet given it up.
    """

    epoch: int
    target: frozenset[Slot]
    topics: frozenset[str]
    resubscribed: bool
    held_by_another: Callable[[Slot], bool]


def reconcile(current: CurrentAssignment, goal: Goal, owned: frozenset[Slot] | None) -> CurrentAssignment:
    """The member's next state; `owned` is what its heartbeat says it holds, None if it does not say.

    The same value as `current` comes back where the member is there, or cannot get further yet.
    """
    arrived = current.state == MemberState.STABLE and current.epoch == goal.epoch
    stuck = current.state == MemberState.UNREVOKED_PARTITIONS and _holds(owned, current.revoking)
    if not arrived and not stuck:
        return _advance(current, goal, owned)
    return _drop_topics(current, goal, owned) if goal.resubscribed else current


def _holds(owned: frozenset[Slot] | None, revoking: Mapping[Slot, int]) -> bool:
    # A member that does not say what it owns has not given up anything.
    return owned is None or any(slot in revoking for slot in owned)


def _drop_topics(current: CurrentAssignment, goal: Goal, owned: frozenset[Slot] | None) -> CurrentAssignment:
    """What the member no longer subscribes to it must give up, before any new target is there."""
    dropped = {slot: epoch for slot, epoch in current.assigned.items() if slot[0] not in goal.topics}
    if not dropped:
        return current
    kept = {slot: epoch for slot, epoch in current.assigned.items() if slot not in dropped}
    revoking = {**current.revoking, **dropped}
    changed = replace(current, previous_epoch=current.epoch, assigned=kept)
    if _holds(owned, revoking):
        return replace(changed, state=MemberState.UNREVOKED_PARTITIONS, revoking=revoking)
    return changed


def _advance(current: CurrentAssignment, goal: Goal, owned: frozenset[Slot] | None) -> CurrentAssignment:
    target = {slot for slot in goal.target if slot[0] in goal.topics}
    kept = {slot: epoch for slot, epoch in current.assigned.items() if slot in target}
    revoking = {slot: epoch for slot, epoch in current.assigned.items() if slot not in target}
    if revoking and _holds(owned, revoking):
        # It stays at its epoch until it has given them up.
        return CurrentAssignment(current.epoch, current.epoch, MemberState.UNREVOKED_PARTITIONS, kept, revoking)
    missing = target.difference(kept)
    free = {slot for slot in missing if not goal.held_by_another(slot)}
    state = MemberState.STABLE if free == missing else MemberState.UNRELEASED_PARTITIONS
    assigned = {**kept, **dict.fromkeys(sorted(free), goal.epoch)}
    return CurrentAssignment(goal.epoch, current.epoch, state, assigned)
