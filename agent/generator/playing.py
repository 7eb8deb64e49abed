"""One group's history: its script played through the model, what is written of it, and the truth about it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from agent.coordinator.assignors import Slot, Subscribed, by_topic
from agent.coordinator.connect import Work
from agent.coordinator.ledger import Gone, Ledger, OpenRebalance
from agent.coordinator.modern_requests import ModernImage
from agent.coordinator.requests import GroupImage, MemberImage
from agent.coordinator.script import Script
from agent.coordinator.sides import AnyEffect, ClassicSide, ModernSide
from agent.coordinator.states import GroupState
from agent.coordinator.worker import ConnectWorker
from agent.coordinator.world import World
from agent.generator.consuming import Commits
from agent.generator.fates import Kind, Story
from agent.generator.images import record_of
from agent.generator.plans import Plan
from agent.generator.settings import Settings
from agent.wire.hot import commit_key
from agent.wire.primitives import Uuid

OFFSETS, GROUP = range(2)
"""At one time, what is written of offsets comes before what is written of the group."""

Truth = dict[str, Any]
"""What became of a group, as JSON has it; `agent.generator.histories.generate` says what is in it."""


class Position(NamedTuple):
    """A partition that a group commits: the record's key, where the partition stood at first, how fast it grows."""

    key: bytes
    first: int
    per_s: int
    leader_epoch: int
    topic_id: Uuid


@dataclass(frozen=True, slots=True)
class Repeated:
    """Positions that are committed each `every_ms`, before `end_ms`."""

    positions: list[Position]
    every_ms: int
    end_ms: int
    metadata: str = ""


Written = tuple[int, int, Repeated | tuple[bytes, bytes | None]]
"""When (for the first time), `OFFSETS` or `GROUP`, and what: positions, or a record's key and value."""


class Wanted(NamedTuple):
    """What a member's subscription says of it."""

    topics: frozenset[str]
    owned: tuple[Slot, ...]
    generation: int
    rack: str | None


def only_commits(plan: Plan, settings: Settings) -> tuple[list[Written], Truth]:
    """A group without members: one process commits by hand, and perhaps says so in the metadata."""
    metadata = f"by hand, {plan.group}" if plan.dice.chance(0.3) else ""
    first_ms = settings.start_ms + plan.dice.between(0, min(plan.commit_interval_ms, settings.duration_ms - 1))
    positions = _Positions(plan)
    slots = [(topic.name, number) for topic in plan.topics for number in range(topic.partitions)]
    commits = Repeated(positions.of(slots), plan.commit_interval_ms, settings.until_ms, metadata)
    truth = {"state": str(GroupState.EMPTY), "generation": None, "protocol": None}
    return [(first_ms, OFFSETS, commits)], {**truth, "members": [], "rebalances": [], "departures": []}


def played(plan: Plan, script: Script, story: Story) -> tuple[list[Written], Truth]:
    """A group with members, from its first one to the end of the history."""
    every_ms = {name: plan.commit_interval_ms + plan.dice.between(0, 200) for name in plan.clients}
    # Connect keeps what its workers have done in topics of its own.
    commits = None if plan.kind is Kind.CONNECT else Commits(script, every_ms, story.silent_from_ms)
    ledger = Ledger(counts=False)

    def watch(world: World, now: int, effects: list[AnyEffect]) -> None:
        ledger.watch(world, now, effects)
        if commits is not None:
            commits.watch(world, now)

    world = World(script, watch)
    world.run()
    positions = _Positions(plan)
    out: list[Written] = []
    if commits is not None:
        commits.close(script.until_ms)
        out += [
            (span.first_ms, OFFSETS, Repeated(positions.of(span.slots), span.every_ms, span.end_ms))
            for span in commits.spans
        ]
    side = world.side
    is_empty = world.group is not None and world.group.state is GroupState.EMPTY
    if story.deleted_ms is not None and is_empty and isinstance(side, ClassicSide):
        out += [(story.deleted_ms, OFFSETS, (key, None)) for key in positions.keys]
        ledger.watch(world, story.deleted_ms, side.coordinator.delete(plan.group, story.deleted_ms))
    topic_id = plan.topic_ids.__getitem__
    out += [(image.at_ms, GROUP, record_of(_said(image), topic_id)) for image in ledger.images]
    return out, _truth(world, ledger)


class _Positions:
    """The positions of a group, each made when it is first asked for."""

    def __init__(self, plan: Plan) -> None:
        self._group = plan.group
        self._topics = {topic.name: topic for topic in plan.topics}
        self._made: dict[Slot, Position] = {}

    def of(self, slots: Iterable[Slot]) -> list[Position]:
        """In order of topic and partition."""
        return [self._made.get(slot) or self._make(slot) for slot in sorted(slots)]

    @property
    def keys(self) -> Iterator[bytes]:
        """The keys of all that was asked for."""
        return (position.key for position in self._made.values())

    def _make(self, slot: Slot) -> Position:
        topic = self._topics[slot[0]]
        number = slot[1]
        key = commit_key(self._group, topic.name, number)
        made = Position(key, topic.first(number), topic.rate(number), topic.leader_epoch, topic.topic_id)
        self._made[slot] = made
        return made


def _said(image: GroupImage | ModernImage) -> GroupImage | ModernImage:
    """The image with the members' subscriptions as their clients write them."""
    if not isinstance(image, GroupImage):
        return image

    def said(member: MemberImage) -> MemberImage:
        wants = member.metadata
        if not isinstance(wants, Subscribed):
            return member
        # What it owns, it got in the generation before.
        generation = image.generation - 1 if wants.owned else -1
        return replace(member, metadata=Wanted(wants.topics, wants.owned, generation, None))

    return replace(image, members=tuple(map(said, image.members)))


def _truth(world: World, ledger: Ledger) -> Truth:
    def client_of(member_id: str) -> str:
        return world.names.get(member_id, "")

    def rebalance(it: OpenRebalance) -> Truth:
        return {
            "generation": it.generation,
            "began_ms": it.began_ms,
            "joined_ms": it.joined_ms,
            "completed_ms": it.completed_ms,
            "causes": [str(why) for why in it.causes],
            "members": len(it.member_ids),
        }

    def departure(it: Gone) -> Truth:
        return {
            "client": client_of(it.member_id),
            "member_id": it.member_id,
            "at_ms": it.at_ms,
            "cause": str(it.why),
        }

    return {
        **_now(world),
        "members": [
            {"client": client_of(member_id), "member_id": member_id, "assignment": by_topic(slots)}
            for member_id, slots in _held(world)
        ],
        "rebalances": [rebalance(it) for it in ledger.rebalances],
        "departures": [departure(it) for it in ledger.gone],
    }


def _now(world: World) -> Truth:
    """Where the group is at the end; a KIP-848 group's generation is its epoch."""
    side = world.side
    if isinstance(side, ModernSide):
        # Its clients are set up alike.
        named = (member.about.server_assignor for member in side.group.members.values())
        return {"state": str(side.group.state), "generation": side.group.epoch, "protocol": next(named, None)}
    group = world.group
    if group is None:
        return {"state": str(GroupState.DEAD), "generation": None, "protocol": None}
    return {"state": str(group.state), "generation": group.generation, "protocol": group.protocol}


def _held(world: World) -> Iterator[tuple[str, Iterable[Slot]]]:
    """The members by id, with what they have; of a connector, task -1 is the connector itself."""
    if isinstance(world.side, ModernSide):
        for member_id, member in world.side.group.members.items():
            yield member_id, sorted(member.held)
        return
    members = world.group.members if world.group is not None else {}
    for member_id, it in members.items():
        worker = world.clients.get(world.names.get(member_id, ""))
        yield member_id, _units(worker.held) if isinstance(worker, ConnectWorker) else it.assignment


def _units(work: Work) -> list[Slot]:
    return sorted([*((name, -1) for name in work.connectors), *work.tasks])
