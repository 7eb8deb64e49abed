"""One group's history: its script played through the model, what is written of it, and the truth about it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from msgspec import Struct
from msgspec.structs import replace

from agent.core.protocol.assignors import Slot, by_topic
from agent.core.protocol.states import GroupState
from agent.core.wire.offset_commit_fastpath import commit_key
from agent.core.wire.primitives import Uuid
from agent.simulation.generator.commit_schedule import CommitSchedule
from agent.simulation.generator.images import encode_image
from agent.simulation.generator.plans import GroupPlan
from agent.simulation.generator.scenario_kinds import GroupKind, Scenario
from agent.simulation.generator.settings import GeneratorSettings
from agent.simulation.groups.classic_consumer import ClassicConsumer
from agent.simulation.groups.classic_coordinator import ClassicCoordinator
from agent.simulation.groups.connect import ConnectWork
from agent.simulation.groups.connect_worker import ConnectWorker
from agent.simulation.groups.kip848_messages import Kip848Image
from agent.simulation.groups.messages import ClassicGroupImage
from agent.simulation.groups.protocol_models import AnyEffect, Kip848Model
from agent.simulation.groups.script import Script
from agent.simulation.groups.simulate import SimulationMetrics
from agent.simulation.groups.simulation import Simulation

OFFSETS, GROUP = range(2)
"""At one time, what is written of offsets comes before what is written of the group."""

GroupTruth = dict[str, Any]
"""What became of a group, as JSON has it; `agent.simulation.generator.histories.generate` says what is in it."""


class CommittedPartition(NamedTuple):
    """A partition that a group commits: the record's key, where the partition stood at first, how fast it grows."""

    key: bytes
    first: int
    per_s: int
    leader_epoch: int
    topic_id: Uuid


class PeriodicCommits(Struct, frozen=True):
    """Positions that are committed each `every_ms`, before `end_ms`."""

    positions: list[CommittedPartition]
    every_ms: int
    end_ms: int
    metadata: str = ""


TimedWrite = tuple[int, int, PeriodicCommits | tuple[bytes, bytes | None]]
"""When (for the first time), `OFFSETS` or `GROUP`, and what: positions, or a record's key and value."""


def generate_simple_group(plan: GroupPlan, settings: GeneratorSettings) -> tuple[list[TimedWrite], GroupTruth]:
    """A group without members: one process commits by hand, and perhaps says so in the metadata."""
    metadata = f"by hand, {plan.group}" if plan.random.chance(0.3) else ""
    first_ms = settings.start_ms + plan.random.integer(0, min(plan.commit_interval_ms, settings.duration_ms - 1))
    positions = _CommittedPartitions(plan)
    slots = [(topic.name, number) for topic in plan.topics for number in range(topic.partitions)]
    commits = PeriodicCommits(positions.in_order(slots), plan.commit_interval_ms, settings.until_ms, metadata)
    truth = {"state": str(GroupState.EMPTY), "generation": None, "protocol": None}
    return [(first_ms, OFFSETS, commits)], {**truth, "members": [], "rebalances": [], "departures": []}


def generate_group(plan: GroupPlan, script: Script, story: Scenario) -> tuple[list[TimedWrite], GroupTruth]:
    """A group with members, from its first one to the end of the history."""
    apart_ms = min(200, plan.commit_interval_ms // 10)
    every_ms = {name: plan.commit_interval_ms + plan.random.integer(0, apart_ms) for name in plan.clients}
    # Connect keeps what its workers have done in topics of its own.
    commits = None if plan.kind is GroupKind.CONNECT else CommitSchedule(script, every_ms, story.silent_from_ms)
    metrics = SimulationMetrics(measures_stopped_time=False)

    def observe(world: Simulation, now_ms: int, effects: list[AnyEffect]) -> None:
        metrics.observe(world, now_ms, effects)
        if commits is not None:
            commits.observe(world, now_ms)

    world = Simulation(script, observe)
    world.run()
    positions = _CommittedPartitions(plan)
    out: list[TimedWrite] = []
    if commits is not None:
        commits.finish(script.until_ms)
        out += [
            (span.first_ms, OFFSETS, PeriodicCommits(positions.in_order(span.slots), span.every_ms, span.end_ms))
            for span in commits.spans
        ]
    coordinator = world.model.coordinator
    is_empty = world.group is not None and world.group.state is GroupState.EMPTY
    if story.deleted_ms is not None and is_empty and isinstance(coordinator, ClassicCoordinator):
        out += [(story.deleted_ms, OFFSETS, (position.key, None)) for position in positions.values()]
        metrics.observe(world, story.deleted_ms, coordinator.delete_group(story.deleted_ms))
    metrics.finish(world)
    topic_id = plan.topic_ids.__getitem__
    out += [
        (image.at_ms, GROUP, encode_image(_with_client_subscriptions(image), topic_id)) for image in metrics.images
    ]
    return out, _truth(world, metrics)


class _CommittedPartitions(dict[Slot, CommittedPartition]):
    """The partitions that a group commits, each made when it is first asked for."""

    def __init__(self, plan: GroupPlan) -> None:
        super().__init__()
        self._group = plan.group
        self._topics = {topic.name: topic for topic in plan.topics}

    def __missing__(self, slot: Slot) -> CommittedPartition:
        topic, number = self._topics[slot[0]], slot[1]
        key = commit_key(self._group, topic.name, number)
        made = self[slot] = CommittedPartition(
            key, topic.first_offset(number), topic.records_per_second(number), topic.leader_epoch, topic.topic_id
        )
        return made

    def in_order(self, slots: Iterable[Slot]) -> list[CommittedPartition]:
        """These partitions, in order of topic and number."""
        return [self[slot] for slot in sorted(slots)]


def _with_client_subscriptions(image: ClassicGroupImage | Kip848Image) -> ClassicGroupImage | Kip848Image:
    """The image with the members' subscriptions as their clients write them."""
    if not isinstance(image, ClassicGroupImage) or image.protocol_type != ClassicConsumer.protocol_type:
        return image
    members = []
    for member in image.members:
        # What it owns, it got in the generation before.
        generation = image.generation - 1 if member.metadata.owned else None
        members.append(replace(member, metadata=replace(member.metadata, generation=generation)))
    return replace(image, members=tuple(members))


def _truth(world: Simulation, metrics: SimulationMetrics) -> GroupTruth:
    return {
        **_now(world),
        "members": [
            {"client": world.client_names.get(member_id, ""), "member_id": member_id, "assignment": by_topic(slots)}
            for member_id, slots in _held(world)
        ],
        "rebalances": [
            {
                "generation": it.generation,
                "began_ms": it.began_ms,
                "joined_ms": it.joined_ms,
                "completed_ms": it.completed_ms,
                "causes": list(map(str, it.causes)),
                "members": len(it.clients),
            }
            for it in metrics.rebalances
        ],
        "departures": [
            {"client": it.client, "member_id": it.member_id, "at_ms": it.at_ms, "cause": str(it.reason)}
            for it in metrics.departures
        ],
    }


def _now(world: Simulation) -> GroupTruth:
    """Where the group is at the end; a KIP-848 group's generation is its epoch."""
    side = world.model
    if isinstance(side, Kip848Model):
        # Its clients are set up alike.
        named = (member.metadata.server_assignor for member in side.coordinator.members.values())
        return {
            "state": str(side.coordinator.state),
            "generation": side.coordinator.epoch,
            "protocol": next(named, None),
        }
    group = world.group
    if group is None:
        return {"state": str(GroupState.DEAD), "generation": None, "protocol": None}
    return {"state": str(group.state), "generation": group.generation, "protocol": group.protocol}


def _held(world: Simulation) -> Iterator[tuple[str, Iterable[Slot]]]:
    """The members by id, with what they have; of a connector, task -1 is the connector itself."""
    if isinstance(world.model, Kip848Model):
        for member_id, member in world.model.coordinator.members.items():
            yield member_id, sorted(member.held_slots)
        return
    members = world.group.members if world.group is not None else {}
    for member_id, it in members.items():
        worker = world.clients.get(world.client_names.get(member_id, ""))
        yield member_id, _units(worker.held_work) if isinstance(worker, ConnectWorker) else it.assignment


def _units(work: ConnectWork) -> list[Slot]:
    return sorted([*((name, -1) for name in work.connectors), *work.tasks])
