"""Keeps the books of a play: rebalances, departures, and how long partitions stood still, and for what."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from agent.coordinator.assignors import Slot
from agent.coordinator.modern_requests import EpochBumped, ModernImage, Targeted
from agent.coordinator.requests import GroupImage, Preparing, Prompted, Removed, Stabilized, Why, Wrote
from agent.coordinator.sides import AnyEffect, Client, ModernSide
from agent.coordinator.states import GroupState
from agent.coordinator.world import World

SILENT = frozenset({Why.SESSION_TIMEOUT, Why.POLL_TIMEOUT, Why.NOT_REJOINED, Why.SYNC_TIMEOUT})
"""Why a member goes that did not say so in order."""
_NO_DEPARTURE = frozenset({Why.STATIC_REPLACED, Why.PENDING_EXPIRED})


@dataclass(slots=True)
class OpenRebalance:
    """A rebalance on its way, or the last one: partitions that stand still are waiting for it."""

    began_ms: int
    causes: list[Why]
    generation: int = -1
    joined_ms: int | None = None
    completed_ms: int | None = None
    member_ids: tuple[str, ...] = ()
    stopped_partition_ms: int = 0


@dataclass(frozen=True, slots=True)
class Gone:
    """A member that left, and when its client ceased to run or to poll (None if it left in order)."""

    member_id: str
    at_ms: int
    why: Why
    died_ms: int | None


@dataclass(slots=True)
class Standing:
    """Partitions that stand still, or partition-milliseconds for which they did, by what they wait for."""

    rebalancing: int = 0
    undetected: int = 0
    unowned: int = 0


class Ledger:
    """Watches a world: `watch` is to be called at each of its moments.

    `counts`: whether stopped partitions are counted, which takes a look at every client at every moment.
    """

    def __init__(self, *, counts: bool = True) -> None:
        self.images: list[GroupImage | ModernImage] = []
        self.rebalances: list[OpenRebalance] = []
        self.gone: list[Gone] = []
        self.stopped = Standing()
        self._open: OpenRebalance | None = None
        self._standing = Standing()
        self._since: int | None = None
        self._counts = counts

    def watch(self, world: World, now: int, effects: Iterable[AnyEffect]) -> None:
        """Take note of what happened at `now`."""
        self._let_pass(now)
        for effect in effects:
            match effect:
                case Preparing():
                    self._open = OpenRebalance(effect.at_ms, [effect.why])
                case Prompted():
                    self._note(effect.why)
                case Removed():
                    self._let_go(world, effect)
                case Stabilized():
                    self._joined(world, effect.at_ms, effect.generation)
                case EpochBumped():
                    self._bumped(world, effect)
                case Targeted():
                    self._targeted(effect)
                case Wrote(image=GroupImage()):
                    self._wrote(world, effect.image)
                case Wrote():
                    self.images.append(effect.image)
        self._settle(world, now)
        if self._counts:
            self._standing = standing(world)

    def close(self, until_ms: int) -> None:
        """Count what stands still until the end."""
        self._let_pass(until_ms)

    def _let_pass(self, now: int) -> None:
        if self._since is not None:
            passed, standing, stopped = now - self._since, self._standing, self.stopped
            stopped.rebalancing += standing.rebalancing * passed
            stopped.undetected += standing.undetected * passed
            stopped.unowned += standing.unowned * passed
            if self._open is not None:
                self._open.stopped_partition_ms += standing.rebalancing * passed
        self._since = now

    def _note(self, why: Why) -> None:
        rebalance = self._open
        if rebalance is not None and rebalance.joined_ms is None and why not in rebalance.causes:
            rebalance.causes.append(why)

    def _let_go(self, world: World, removed: Removed) -> None:
        if removed.why in _NO_DEPARTURE:
            return
        self._note(removed.why)
        died_ms = _down_since(world, removed.member_id) if removed.why in SILENT else None
        self.gone.append(Gone(removed.member_id, removed.at_ms, removed.why, died_ms))

    def _joined(self, world: World, at_ms: int, generation: int) -> None:
        assert self._open is not None
        self._open.joined_ms, self._open.generation = at_ms, generation
        self._open.member_ids = tuple(world.side.member_ids)
        self.rebalances.append(self._open)

    def _bumped(self, world: World, effect: EpochBumped) -> None:
        """In a KIP-848 group each epoch is a rebalance; another one may begin before it is through."""
        self._open = OpenRebalance(effect.at_ms, [effect.why], effect.epoch)
        self._open.member_ids = tuple(world.side.member_ids)
        self.rebalances.append(self._open)

    def _targeted(self, effect: Targeted) -> None:
        assert self._open is not None
        assert self._open.generation == effect.epoch, "the target is that of the newest epoch"
        self._open.joined_ms = effect.at_ms

    def _settle(self, world: World, now: int) -> None:
        """A KIP-848 group's rebalance is over when all members have come to what the target gives them."""
        rebalance, side = self._open, world.side
        if rebalance is None or rebalance.completed_ms is not None or not isinstance(side, ModernSide):
            return
        if side.is_settled:
            rebalance.completed_ms = now

    def _wrote(self, world: World, image: GroupImage) -> None:
        self.images.append(image)
        rebalance = self._open
        if rebalance is None or image.generation == 0 or rebalance.completed_ms is not None:
            return
        if image.state is GroupState.EMPTY:
            self._joined(world, image.at_ms, image.generation)
        rebalance.completed_ms = image.at_ms


def standing(world: World) -> Standing:
    """Which partitions nobody reads now, of those that a client of the script wants."""
    consumed: set[Slot] = set()
    held: set[Slot] = set()
    wanted: set[str] = set()
    able: set[str] = set()
    for client in (*world.clients.values(), *world.fallen):
        wanted |= client.settings.topics
        if client.is_running and client.down_since is None:
            able |= client.settings.topics
            into = consumed
        else:
            into = held
        if world.side.has(client.member_id):
            into.update(slot for slot in client.owned if slot[1] < world.partitions.get(slot[0], 0))
    # A member that missed a generation may still hold what another one reads by now.
    undetected = Counter(topic for topic, _ in held - consumed)
    taken = Counter(topic for topic, _ in consumed | held)
    out = Standing()
    for topic in wanted:
        out.undetected += undetected[topic]
        rest = world.partitions.get(topic, 0) - taken[topic]
        if topic in able:
            out.rebalancing += rest
        else:
            out.unowned += rest
    return out


def _down_since(world: World, member_id: str) -> int | None:
    name = world.names.get(member_id)
    lives: list[Client] = [*world.fallen, *([world.clients[name]] if name is not None else [])]
    for client in lives:
        if client.member_id == member_id:
            return client.down_since
    return lives[-1].down_since if name is not None else None
