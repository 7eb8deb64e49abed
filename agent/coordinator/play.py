"""A script played through the model: what its group would do, and what that costs.

`play(script)` runs the clients of a script against a coordinator in virtual time: the same script gives the same
result, always. What a partition's consumer does between rebalances is not modelled: a partition is *consumed* while
the client that holds it runs and polls, *stopped* otherwise.
"""

from __future__ import annotations

from dataclasses import dataclass

from agent.coordinator.ledger import Ledger
from agent.coordinator.modern_requests import ModernImage
from agent.coordinator.requests import GroupImage, Why
from agent.coordinator.script import Script
from agent.coordinator.world import World


@dataclass(frozen=True, slots=True)
class Departure:
    """A client's member left the group.

    `died_ms`: when the client ceased to run or to poll, None if it left in order.
    """

    client: str
    member_id: str
    at_ms: int
    why: Why
    died_ms: int | None


@dataclass(frozen=True, slots=True)
class Rebalance:
    """One generation (or group epoch).

    `began_ms` ≤ `joined_ms` (the join phase is over) ≤ `completed_ms` (the assignment is there).
    `causes` in the order in which they came, the first is what triggered it. `completed_ms` is None where the next
    rebalance began before the assignment was there.
    """

    generation: int
    began_ms: int
    joined_ms: int
    completed_ms: int | None
    causes: tuple[Why, ...]
    clients: tuple[str, ...]
    stopped_partition_ms: int


@dataclass(frozen=True, slots=True)
class Stopped:
    """How long partitions stood still, in partition-milliseconds, by what they waited for.

    `rebalancing`: revoked or not yet handed over, while their clients ran. `undetected`: held by a client that had
    died, stalled or gone silent, until the group noticed and another got them (or it came back). `unowned`: no client
    was running that could have had them (the group had no members, or none subscribed).
    """

    rebalancing: int
    undetected: int
    unowned: int


@dataclass(frozen=True, slots=True)
class Played:
    """What a script came to. `images` are the records that a broker would have written, in order."""

    images: tuple[GroupImage | ModernImage, ...]
    rebalances: tuple[Rebalance, ...]
    departures: tuple[Departure, ...]
    stopped: Stopped


def play(script: Script, most_moments: int | None = None) -> Played:
    """Play a script from its first step to `until_ms`. Raises `Endless` where something happens at more moments."""
    ledger = Ledger()
    world = World(script, ledger.watch)
    world.run(most_moments)
    ledger.close(script.until_ms)

    def client_of(member_id: str) -> str:
        return world.names.get(member_id, "")

    return Played(
        tuple(ledger.images),
        tuple(
            Rebalance(
                it.generation,
                it.began_ms,
                it.began_ms if it.joined_ms is None else it.joined_ms,
                it.completed_ms,
                tuple(it.causes),
                tuple(sorted(map(client_of, it.member_ids))),
                it.stopped_partition_ms,
            )
            for it in ledger.rebalances
        ),
        tuple(Departure(client_of(it.member_id), it.member_id, it.at_ms, it.why, it.died_ms) for it in ledger.gone),
        Stopped(ledger.stopped.rebalancing, ledger.stopped.undetected, ledger.stopped.unowned),
    )
