"""Scripts for plays: random ones, and what they need."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from hypothesis import strategies as st

from agent.core.protocol.assignors import ASSIGNORS, Assignment, AssignmentProblem, Slot
from agent.simulation.groups.script import (
    AdminRemove,
    BrokerSettings,
    ClientSettings,
    Close,
    Freeze,
    Kill,
    Rejoin,
    Resubscribe,
    Script,
    SetPartitions,
    Stall,
    Start,
    Step,
)

S = 1000
TOPICS = ("t", "u")
COOPERATIVE = ("cooperative-sticky",)
QUIET_MS = 1_200 * S
"""Longer than all that a script leaves open: stalls, sessions and rebalance timeouts."""


def settings(client: str, **changes: object) -> ClientSettings:
    given = {"client_id": client, "topics": frozenset({"t"}), "assignors": ("range",), **changes}
    return ClientSettings(**given)  # type: ignore[arg-type]


@st.composite
def random_scripts(draw: st.DrawFn) -> Script:
    """Up to four clients and a dozen steps, then quiet for long enough to come to rest."""
    assignors = draw(st.sampled_from([("range",), ("roundrobin", "range"), COOPERATIVE]))
    topics = st.sets(st.sampled_from(TOPICS), min_size=1).map(frozenset)
    clients = {
        name: settings(
            name,
            instance_id=draw(st.sampled_from([None, f"i-{name}", "i-1"])),
            topics=draw(topics),
            assignors=assignors,
            session_timeout_ms=draw(st.sampled_from([6 * S, 10 * S, 45 * S])),
            max_poll_interval_ms=draw(st.sampled_from([20 * S, 60 * S])),
            rejoin_delay_ms=draw(st.sampled_from([0, 0, 500, 15 * S])),
        )
        for name in ("c1", "c2", "c3", "c4")[: draw(st.integers(1, 4))]
    }
    steps: list[Step] = []
    started: list[str] = []
    at = 0
    for _ in range(draw(st.integers(1, 12))):
        at += draw(st.sampled_from([0, 1, 700, 5 * S, 20 * S, 100 * S]))
        name = draw(st.sampled_from(sorted(clients)))
        if name not in started:
            started.append(name)
            steps.append(Start(at, name, clients[name]))
            continue
        for_ms = draw(st.sampled_from([S, 8 * S, 25 * S, 70 * S, 200 * S]))
        steps.append(
            draw(
                st.sampled_from(
                    [
                        Start(at, name, clients[name]),
                        Close(at, name),
                        Kill(at, name),
                        Stall(at, name, for_ms),
                        Freeze(at, name, for_ms),
                        Resubscribe(at, name, draw(topics)),
                        Rejoin(at, name),
                        AdminRemove(at, name),
                        SetPartitions(at, draw(st.sampled_from(TOPICS)), draw(st.integers(0, 6))),
                    ]
                )
            )
        )
    broker = BrokerSettings(
        initial_rebalance_delay_ms=draw(st.sampled_from([0, 3 * S])), replication_ms=draw(st.sampled_from([0, 20]))
    )
    latency_ms = draw(st.sampled_from([1, 40]))
    return Script("g", {"t": 4, "u": 3}, tuple(steps), at + QUIET_MS, broker, latency_ms, draw(st.integers(0, 3)))


@contextmanager
def cooperative_assignor() -> Iterator[None]:
    """Until there is a cooperative assignor: a plain one."""
    with pytest.MonkeyPatch.context() as patch:
        if "cooperative-sticky" not in ASSIGNORS:
            patch.setitem(ASSIGNORS, "cooperative-sticky", _cooperative)  # type: ignore[arg-type]
        yield


def _cooperative(problem: AssignmentProblem) -> Assignment:
    """Everybody keeps up to a fair share; what changes hands goes to nobody in the first round."""
    slots = [(topic, number) for topic, count in sorted(problem.partitions.items()) for number in range(count)]
    takers = {
        slot: [it for it, member in sorted(problem.members.items()) if slot[0] in member.topics] for slot in slots
    }
    slots = [slot for slot in slots if takers[slot]]
    owners: dict[Slot, tuple[int, str]] = {}
    for member_id, member in problem.members.items():
        for slot in member.owned:
            if slot in slots and member_id in takers[slot]:
                owners[slot] = max(owners.get(slot, (-2, "")), (member.generation, member_id))
    out: Assignment = {member_id: [] for member_id in problem.members}
    most = -(-len(slots) // max(len(out), 1))
    for slot in slots:
        owner = owners.get(slot, (0, ""))[1]
        if owner and len(out[owner]) < most:
            out[owner].append(slot)
    kept = {slot for given in out.values() for slot in given}
    for slot in slots:
        if slot not in kept:
            out[min(takers[slot], key=lambda it: len(out[it]))].append(slot)
    return {
        member_id: sorted(slot for slot in given if owners.get(slot, (0, member_id))[1] == member_id)
        for member_id, given in out.items()
    }
