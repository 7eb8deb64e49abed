"""Plays a script through the model: what its group would do, and what that costs.

`simulate(script)` runs the clients of a script against a coordinator in virtual time: the same script gives the same
result, always. What a client does between rebalances is not modelled: a partition is *consumed* while the client that
holds it runs and polls, *stopped* otherwise.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import NamedTuple

from msgspec import Struct

from agent.core.protocol.assignors import Slot
from agent.core.protocol.states import GroupState
from agent.simulation.groups.kip848_messages import EpochBumped, Kip848Image, TargetComputed
from agent.simulation.groups.messages import (
    ClassicGroupImage,
    GenerationStabilized,
    MemberRemoved,
    RebalancePrepared,
    RebalanceReason,
    RecordAppended,
    RejoinRequested,
)
from agent.simulation.groups.protocol_models import AnyEffect, Kip848Model
from agent.simulation.groups.script import Script
from agent.simulation.groups.simulation import Simulation

UNANNOUNCED_REASONS = frozenset(
    {
        RebalanceReason.SESSION_TIMEOUT,
        RebalanceReason.POLL_TIMEOUT,
        RebalanceReason.NOT_REJOINED,
        RebalanceReason.SYNC_TIMEOUT,
    }
)
"""Why a member goes that did not say so in order."""
_NO_DEPARTURE = frozenset({RebalanceReason.STATIC_REPLACED, RebalanceReason.PENDING_EXPIRED})


class SimulatedDeparture(Struct, frozen=True):
    """A client's member left the group.

    `died_ms`: when the client ceased to run or to poll, None if it left in order.
    """

    client: str
    member_id: str
    at_ms: int
    reason: RebalanceReason
    died_ms: int | None


class StoppedTime(NamedTuple):
    """How long partitions were stopped (partition-milliseconds), or how many are stopped now, by what they wait for.

    `rebalancing`: revoked or not yet assigned again, while their clients ran. `undetected`: held by a client that had
    died, stalled or gone silent, until the group noticed and another client got them (or it came back). `unowned`: no
    client ran that could have had them (the group had no members, or none subscribed).
    """

    rebalancing: int = 0
    undetected: int = 0
    unowned: int = 0

    def plus(self, other: StoppedTime, times: int) -> StoppedTime:
        """This and `times` the other."""
        return StoppedTime(*(ours + times * theirs for ours, theirs in zip(self, other, strict=True)))


class SimulatedRebalance(Struct):
    """One generation (or group epoch); partitions that stand still wait for the newest one.

    `began_ms` ≤ `joined_ms` (the join phase is over, or the target assignment is computed) ≤ `completed_ms` (the
    assignment is there); each is None where the next rebalance began before that. `causes` in the order in which they
    came, the first is what triggered it. `stopped_by_then`: all standstill from the beginning of the simulation until
    it was completed.
    """

    generation: int
    began_ms: int
    joined_ms: int | None = None
    completed_ms: int | None = None
    causes: tuple[RebalanceReason, ...] = ()
    clients: tuple[str, ...] = ()
    stopped_partition_ms: int = 0
    stopped_by_then: StoppedTime = StoppedTime()


class SimulationResult(Struct, frozen=True):
    """What a script came to. `images` are the records that a broker would have written, in order."""

    images: tuple[ClassicGroupImage | Kip848Image, ...]
    rebalances: tuple[SimulatedRebalance, ...]
    departures: tuple[SimulatedDeparture, ...]
    stopped: StoppedTime


def simulate(script: Script, max_moments: int | None = None) -> SimulationResult:
    """Play a script from its first step to `until_ms`.

    Raises `TooManyMoments` where something happens at more than `max_moments` moments.
    """
    metrics = SimulationMetrics()
    world = Simulation(script, metrics.observe)
    world.run(max_moments)
    metrics.finish(world)
    return SimulationResult(
        tuple(metrics.images), tuple(metrics.rebalances), tuple(metrics.departures), metrics.stopped
    )


class SimulationMetrics:
    """Measures a simulation: `observe` is to be called at each of its moments, `finish` at its end.

    `measures_stopped_time`: whether to count stopped partitions, which looks at every client at every moment.
    """

    def __init__(self, *, measures_stopped_time: bool = True) -> None:
        self.images: list[ClassicGroupImage | Kip848Image] = []
        self.rebalances: list[SimulatedRebalance] = []
        self.departures: list[SimulatedDeparture] = []
        self.stopped = StoppedTime()
        self._open: SimulatedRebalance | None = None
        self._member_ids: list[tuple[str, ...]] = []  # of each rebalance
        self._stopped_now = StoppedTime()
        self._since_ms: int | None = None
        self._measures_stopped_time = measures_stopped_time

    def observe(self, world: Simulation, now_ms: int, effects: Iterable[AnyEffect]) -> None:
        """Take note of what happened at `now_ms`."""
        self._let_pass(now_ms)
        for effect in effects:
            match effect:
                case RebalancePrepared():
                    self._open = SimulatedRebalance(-1, effect.at_ms, causes=(effect.reason,))
                case RejoinRequested():
                    self._add_cause(effect.reason)
                case MemberRemoved():
                    self._member_removed(world, effect)
                case GenerationStabilized():
                    self._join_phase_ended(world, effect.at_ms, effect.generation)
                case EpochBumped():
                    # In a KIP-848 group each epoch is a rebalance; another one may begin before it is through.
                    self._open = SimulatedRebalance(effect.epoch, effect.at_ms, causes=(effect.reason,))
                    self._add_rebalance(world, self._open)
                case TargetComputed():
                    assert self._open is not None
                    assert self._open.generation == effect.epoch, "the target is that of the newest epoch"
                    self._open.joined_ms = effect.at_ms
                case RecordAppended(image=ClassicGroupImage()):
                    self._record_appended(world, effect.image)
                case RecordAppended():
                    self.images.append(effect.image)
        self._complete_if_settled(world, now_ms)
        if self._measures_stopped_time:
            self._stopped_now = stopped_partitions(world)

    def finish(self, world: Simulation) -> None:
        """Count what is stopped until the end of the simulation, and name the clients by all that is known then."""
        self._let_pass(world.script.until_ms)
        for rebalance, member_ids in zip(self.rebalances, self._member_ids, strict=True):
            rebalance.clients = tuple(sorted(world.client_names.get(member_id, "") for member_id in member_ids))

    def _let_pass(self, now_ms: int) -> None:
        if self._since_ms is not None:
            passed_ms = now_ms - self._since_ms
            self.stopped = self.stopped.plus(self._stopped_now, passed_ms)
            if self._open is not None:
                self._open.stopped_partition_ms += self._stopped_now.rebalancing * passed_ms
        self._since_ms = now_ms

    def _add_cause(self, reason: RebalanceReason) -> None:
        rebalance = self._open
        if rebalance is not None and rebalance.joined_ms is None and reason not in rebalance.causes:
            rebalance.causes += (reason,)

    def _member_removed(self, world: Simulation, removed: MemberRemoved) -> None:
        if removed.reason in _NO_DEPARTURE:
            return
        self._add_cause(removed.reason)
        died_ms = _not_polling_since_ms(world, removed.member_id) if removed.reason in UNANNOUNCED_REASONS else None
        client = world.client_names.get(removed.member_id, "")
        self.departures.append(SimulatedDeparture(client, removed.member_id, removed.at_ms, removed.reason, died_ms))

    def _join_phase_ended(self, world: Simulation, at_ms: int, generation: int) -> None:
        assert self._open is not None
        self._open.joined_ms, self._open.generation = at_ms, generation
        self._add_rebalance(world, self._open)

    def _add_rebalance(self, world: Simulation, rebalance: SimulatedRebalance) -> None:
        self.rebalances.append(rebalance)
        self._member_ids.append(tuple(world.model.coordinator.members))

    def _complete_if_settled(self, world: Simulation, now_ms: int) -> None:
        """A KIP-848 group's rebalance is over when all members have come to what the target gives them."""
        rebalance, model = self._open, world.model
        if rebalance is None or rebalance.completed_ms is not None or not isinstance(model, Kip848Model):
            return
        if model.coordinator.state in (GroupState.STABLE, GroupState.EMPTY):
            rebalance.completed_ms, rebalance.stopped_by_then = now_ms, self.stopped

    def _record_appended(self, world: Simulation, image: ClassicGroupImage) -> None:
        self.images.append(image)
        rebalance = self._open
        if rebalance is None or image.generation == 0 or rebalance.completed_ms is not None:
            return
        if image.state is GroupState.EMPTY:
            self._join_phase_ended(world, image.at_ms, image.generation)
        rebalance.completed_ms, rebalance.stopped_by_then = image.at_ms, self.stopped


def stopped_partitions(world: Simulation) -> StoppedTime:
    """Which partitions nobody reads now, of those that a client of the script wants."""
    consumed: set[Slot] = set()
    held: set[Slot] = set()
    wanted: set[str] = set()
    able: set[str] = set()
    members = world.model.coordinator.members
    for client in (*world.clients.values(), *world.former_clients):
        wanted |= client.settings.topics
        if client.is_running and client.not_polling_since_ms is None:
            able |= client.settings.topics
            into = consumed
        else:
            into = held
        if client.member_id in members:
            into.update(slot for slot in client.owned if slot[1] < world.partitions.get(slot[0], 0))
    # A member that missed a generation may still hold what another one reads by now.
    undetected = Counter(topic for topic, _ in held - consumed)
    taken = Counter(topic for topic, _ in consumed | held)
    rest = {topic: world.partitions.get(topic, 0) - taken[topic] for topic in wanted}
    return StoppedTime(
        rebalancing=sum(count for topic, count in rest.items() if topic in able),
        undetected=sum(undetected[topic] for topic in wanted),
        unowned=sum(count for topic, count in rest.items() if topic not in able),
    )


def _not_polling_since_ms(world: Simulation, member_id: str) -> int | None:
    """Since when the client does not poll that has or had this member id, None where it does, or is not known."""
    named = world.clients.get(world.client_names.get(member_id, ""))
    former = (client for client in world.former_clients if client.member_id == member_id)
    client = next(former, named)
    return None if client is None else client.not_polling_since_ms
