"""Diagrams of states, drawn from the tables and functions by which the code moves."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import combinations, pairwise, product

from agent.core.protocol.assignors import Slot
from agent.core.protocol.states import CLASSIC_MOVES, UNLOGGED_STATES, GroupState
from agent.simulation.groups import script
from agent.simulation.groups.kip848_messages import CurrentAssignment, MemberState
from agent.simulation.groups.kip848_reconciliation import Goal, reconcile
from agent.simulation.groups.simulation import Simulation
from tests.generate.docs.markdown import fenced

S = GroupState
REASONS = {
    (S.EMPTY, S.PREPARING_REBALANCE): "a member joins",
    (S.EMPTY, S.DEAD): "deleted, or its offsets expired",
    (S.PREPARING_REBALANCE, S.COMPLETING_REBALANCE): "all have rejoined, or their time is up",
    (S.PREPARING_REBALANCE, S.EMPTY): "nobody is left",
    (S.PREPARING_REBALANCE, S.DEAD): "the coordinator moves",
    (S.COMPLETING_REBALANCE, S.STABLE): "the leader's assignment is written",
    (S.COMPLETING_REBALANCE, S.PREPARING_REBALANCE): "a member comes or goes meanwhile",
    (S.COMPLETING_REBALANCE, S.DEAD): "the coordinator moves",
    (S.STABLE, S.PREPARING_REBALANCE): "a member comes, goes, or asks for it",
    (S.STABLE, S.DEAD): "the coordinator moves",
}
"""Why a classic group goes from one state to the next; every move of the table has its reason, and no other."""

EPOCHS = {
    (S.EMPTY, S.ASSIGNING): "a member joins",
    (S.EMPTY, S.STABLE): "a member joins, and has all at once",
    (S.ASSIGNING, S.RECONCILING): "the target is computed",
    (S.ASSIGNING, S.STABLE): "the target is what they have",
    (S.RECONCILING, S.STABLE): "the last has arrived",
    (S.RECONCILING, S.ASSIGNING): "the epoch is raised",
    (S.STABLE, S.ASSIGNING): "the epoch is raised",
    (S.STABLE, S.RECONCILING): "epoch raised, target computed at once",
    (S.ASSIGNING, S.EMPTY): "nobody is left",
    (S.STABLE, S.EMPTY): "nobody is left",
}
"""The same of a KIP-848 group, for each pair of states between which it goes in plays of the model."""

M = MemberState
STEPS = {
    (M.STABLE, M.UNREVOKED_PARTITIONS): "it has what it shall not have",
    (M.STABLE, M.UNRELEASED_PARTITIONS): "others still hold what it shall have",
    (M.UNREVOKED_PARTITIONS, M.STABLE): "it has given them up",
    (M.UNREVOKED_PARTITIONS, M.UNRELEASED_PARTITIONS): "given up, but others still hold some",
    (M.UNRELEASED_PARTITIONS, M.STABLE): "they let go",
    (M.UNRELEASED_PARTITIONS, M.UNREVOKED_PARTITIONS): "the target changed",
}
NAMES = {
    M.STABLE: "Stable",
    M.UNREVOKED_PARTITIONS: "UnrevokedPartitions",
    M.UNRELEASED_PARTITIONS: "UnreleasedPartitions",
}


def classic() -> str:
    """A classic group; dashed are the states of which no record tells."""
    moves = [(state, to) for state, into in CLASSIC_MOVES.items() for to in S if to in into]
    assert set(moves) == set(REASONS), "every move has its reason, and no other"
    lines = ["[*] --> Empty", *(f"{state} --> {to}: {REASONS[state, to]}" for state, to in moves), "Dead --> [*]"]
    return _diagram(lines, [str(state) for state in S if state in UNLOGGED_STATES])


def consumer() -> str:
    """A KIP-848 group."""
    moves = sorted(set(_epoch_moves()), key=list(EPOCHS).index)
    assert set(moves) == set(EPOCHS)
    return _diagram(["[*] --> Empty", *(f"{state} --> {to}: {EPOCHS[state, to]}" for state, to in moves)])


def member() -> str:
    """A member of a KIP-848 group."""
    moves = set(_member_moves())
    assert moves == set(STEPS)
    return _diagram([f"{NAMES[state]} --> {NAMES[to]}: {STEPS[state, to]}" for state, to in STEPS])


def _diagram(lines: list[str], unseen: list[str] | None = None) -> str:
    marked = []
    if unseen:
        marked = ["classDef unseen stroke-dasharray: 5 5", f"class {','.join(unseen)} unseen"]
    return fenced("\n".join(["stateDiagram-v2", *(f"    {line}" for line in (*lines, *marked))]), "mermaid")


def _epoch_moves() -> Iterator[tuple[GroupState, GroupState]]:
    """Between which states a group goes in plays of the model, from one moment to the next."""
    for seed, close in product(range(4), (True, False)):
        moments: list[GroupState] = [S.EMPTY]

        def watch(world: Simulation, now: int, effects: object, moments: list[GroupState] = moments) -> None:
            moments.append(world.model.coordinator.state if world.model.coordinator else S.EMPTY)  # type: ignore[attr-defined]

        Simulation(_come_and_go(seed, close=close), watch).run()
        yield from ((state, to) for state, to in pairwise(moments) if state is not to)


def _come_and_go(seed: int, *, close: bool) -> script.Script:
    names = ("a", "b", "c")
    steps: list[script.Step] = []
    ends = script.Close if close else script.Kill
    for number, name in enumerate(names):
        settings = script.ClientSettings(name, frozenset({"t"}), group_protocol=script.GroupProtocol.CONSUMER)
        # Some come and go at once, so that a target is not there yet when the next epoch is; others while members
        # still give up partitions.
        for since, comes, goes in ((0, 20 * seed, 400 * seed), (200_000, 30_000, 60_000), (500_000, 30_000, 10)):
            steps.append(script.Start(since + number * comes, name, settings))
            steps.append(ends(since + 62_000 + number * goes, name))
    return script.Script("g", {"t": 4}, tuple(sorted(steps, key=lambda it: it.at_ms)), 700_000, seed=seed)


def _member_moves() -> Iterator[tuple[MemberState, MemberState]]:
    """Every step that `reconcile` takes between states, of a member with at most two partitions."""
    slots: list[Slot] = [("t", 0), ("t", 1)]
    sets = [frozenset(some) for size in range(3) for some in combinations(slots, size)]
    for state, has, gives, target, holds, others in product(M, sets, sets, sets, (None, *sets), sets):
        if has & gives or bool(gives) != (state is M.UNREVOKED_PARTITIONS) or others & has:
            continue
        current = CurrentAssignment(2, 2, state, dict.fromkeys(has, 2), dict.fromkeys(gives, 2))
        goal = Goal(3, target, frozenset({"t"}), False, others.__contains__)
        after = reconcile(current, goal, holds)
        if after.state != state:
            yield state, MemberState(after.state)


def tables() -> Mapping[str, int]:
    """How many moves each diagram has: for tests."""
    return {"classic": len(REASONS), "consumer": len(EPOCHS), "member": len(STEPS)}
