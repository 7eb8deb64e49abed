"""Random stories of consumers and their coordinator: what holds at every moment, and when all is quiet."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import HealthCheck, given, settings
from msgspec.structs import replace

from agent.core.protocol.states import GroupState
from agent.simulation.groups.classic_client import ClassicPhase
from agent.simulation.groups.messages import (
    Effect,
    GenerationStabilized,
    MemberRemoved,
    RebalancePrepared,
    RebalanceReason,
)
from agent.simulation.groups.script import Script
from agent.simulation.groups.simulate import simulate, stopped_partitions
from agent.simulation.groups.simulation import Simulation
from tests import examples
from tests.unit.simulation.groups.scripts import QUIET_MS, cooperative_assignor, random_scripts

unhurried = settings(max_examples=examples(100), deadline=None, suppress_health_check=[HealthCheck.too_slow])


class Watcher:
    """What must hold at every moment."""

    def __init__(self) -> None:
        self.now = -1
        self.generation = 0
        self.replaced = False

    def __call__(self, world: Simulation, now: int, effects: list[Effect]) -> None:
        assert now >= self.now
        self.now = now
        for effect in effects:
            if isinstance(effect, GenerationStabilized):
                assert effect.generation > self.generation
                self.generation = effect.generation
            elif isinstance(effect, RebalancePrepared):
                assert effect.generation >= self.generation
            elif isinstance(effect, MemberRemoved):
                self.replaced |= effect.reason is RebalanceReason.STATIC_REPLACED
        self.nobody_reads_anothers(world)
        self.every_partition_is_counted_once(world)
        for client in world.clients.values():
            if client.phase is ClassicPhase.JOINING and not client.is_cooperative:
                assert client.owned == frozenset()

    def every_partition_is_counted_once(self, world: Simulation) -> None:
        wanted = {
            topic for client in (*world.clients.values(), *world.former_clients) for topic in client.settings.topics
        }
        stand = stopped_partitions(world)
        assert min(stand.rebalancing, stand.undetected, stand.unowned) >= 0, stand
        assert stand.rebalancing + stand.undetected + stand.unowned <= sum(map(world.partitions.__getitem__, wanted))

    def nobody_reads_anothers(self, world: Simulation) -> None:
        members = world.group.members if world.group is not None else {}
        readers = Counter(
            (client.generation, slot)
            for client in world.clients.values()
            if client.is_running and client.not_polling_since_ms is None and client.member_id in members
            for slot in client.owned
        )
        assert all(count == 1 for count in readers.values()), readers


@given(random_scripts())
@unhurried
def test_the_rules_of_groups_hold_whatever_happens(script: Script) -> None:
    with cooperative_assignor():
        watcher = Watcher()
        world = Simulation(script, watcher)
        world.run()
    running = {name: client for name, client in world.clients.items() if client.is_running}
    group = world.group
    assert group is not None
    assert {client.phase for client in running.values()} <= {ClassicPhase.STABLE}
    assert set(group.members) == {client.member_id for client in running.values()}
    assert group.roster.pending_member_ids == set()
    assert group.state is (GroupState.STABLE if running else GroupState.EMPTY)
    assert {client.generation for client in running.values()} <= {group.generation}
    owned = Counter(slot for client in running.values() for slot in client.owned)
    wanted = {topic for client in running.values() for topic in client.settings.topics}
    everything = {(topic, number): 1 for topic in wanted for number in range(world.partitions[topic])}
    # What a static member wants more than before, or a topic gained while its leader was away, waits for a rebalance.
    assert owned == everything or (watcher.replaced and set(owned.values()) <= {1})


@given(random_scripts())
@unhurried
def test_heartbeats_that_are_not_played_change_nothing(script: Script) -> None:
    script = replace(script, until_ms=script.until_ms - QUIET_MS + 300_000)
    with cooperative_assignor(), pytest.MonkeyPatch.context() as patch:
        quick = simulate(script)
        assert quick == simulate(script)
        patch.setattr(Simulation, "_skip_heartbeats", lambda world: None)
        assert quick == simulate(script)
