"""A script played through the model: what its group would do, and what that costs.

`play(script)` runs the clients of a script against a coordinator in virtual time: the same script gives the same
result, always. What a partition's consumer does between rebalances is not modelled: a partition is *consumed* while
the client that holds it runs and polls, *stopped* otherwise.
"""

from __future__ import annotations

from dataclasses import dataclass

from agent.coordinator.requests import GroupImage, Why


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

    images: tuple[GroupImage, ...]
    rebalances: tuple[Rebalance, ...]
    departures: tuple[Departure, ...]
    stopped: Stopped
