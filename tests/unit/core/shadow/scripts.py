"""What a coordinator (Kafka 4.3.1) writes for each operation, in its order: `GroupMetadataManager` in short.

A script keeps what its coordinator would know and answers every operation with the batch of records for it. The
record order is that of `consumerGroupHeartbeat`, `shareGroupHeartbeat`, `streamsGroupHeartbeat`, `*FenceMember`,
`replaceMember`, `createGroupTombstoneRecords`, `convertToConsumerGroup` and `convertToClassicGroup`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from agent.core.wire.classic import MemberMetadata
from tests.unit.core.shadow import build as b
from tests.unit.core.shadow.build import Pair

PARTITIONS = range(6)
TOPIC = "t"


@dataclass
class ClassicScript:
    """A classic consumer group: members by id, with their static ids."""

    group: str
    generation: int = 0
    members: dict[str, str | None] = field(default_factory=dict)
    shares: dict[str, list[int]] = field(default_factory=dict)
    """What each holds."""

    def create(self) -> list[Pair]:
        return [b.new_group(self.group)]

    def metadata(self) -> list[MemberMetadata]:
        return [
            b.member(member_id, {TOPIC: numbers}, instance_id=self.members[member_id])
            for member_id, numbers in sorted(self.shares.items())
        ]

    def rebalance(self, members: dict[str, str | None], failed: int = 0) -> list[Pair]:
        """To a new membership, after so many rebalances that did not complete."""
        self.members = dict(members)
        ids = sorted(members)
        self.shares = {member_id: list(PARTITIONS[at :: len(ids)]) for at, member_id in enumerate(ids)}
        self.generation += 1 + failed
        return [b.classic_group(self.generation, *self.metadata(), group=self.group)]

    def replace(self, old: str, new: str) -> list[Pair]:
        """A static member comes back under a new id: the same generation again, and what it held."""
        self.members = {new if member_id == old else member_id: it for member_id, it in self.members.items()}
        self.shares[new] = self.shares.pop(old)
        return [b.classic_group(self.generation, *self.metadata(), group=self.group)]

    def delete(self, committed: int) -> list[Pair]:
        """With its offsets for so many partitions."""
        gone = [b.uncommit(TOPIC, number, group=self.group) for number in range(committed)]
        return [*gone, b.no_classic_group(self.group)]


@dataclass(frozen=True)
class Kind:
    """One type of modern group: how its records are written."""

    name: str
    member: Callable[..., Pair]
    epoch: Callable[..., Pair]
    target: Callable[..., Pair]
    target_epoch: Callable[..., Pair]
    current: Callable[..., Pair]
    types: tuple[int, int, int, int, int]
    """Key types of the five, in that order."""
    stable: int = 0
    slots: str = TOPIC
    """The topic or subtopology that is assigned."""
    revokes: bool = True


CONSUMER = Kind("consumer", b.c_member, b.c_epoch, b.c_target, b.c_target_epoch, b.c_current, (5, 3, 7, 6, 8))
SHARE = Kind(
    "share", b.s_member, b.s_epoch, b.s_target, b.s_target_epoch, b.s_current, (10, 11, 13, 12, 14), revokes=False
)
STREAMS = Kind(
    "streams", b.k_member, b.k_epoch, b.k_target, b.k_target_epoch, b.k_current, (19, 17, 21, 20, 22), 1, "0"
)
KINDS = (CONSUMER, SHARE, STREAMS)

UNREVOKED, UNRELEASED = 1, 2
"""How far behind stable a member's state is (the numbers of streams groups start at 1)."""


@dataclass
class Held:
    """What a member has, as its coordinator wrote it last."""

    epoch: int = 0
    assigned: frozenset[int] = frozenset()
    revoking: frozenset[int] = frozenset()
    state: int = 0


@dataclass
class ModernScript:
    """A KIP-848, share or streams group."""

    kind: Kind
    group: str
    epoch: int = 1
    target_epoch: int = 1
    members: dict[str, Held] = field(default_factory=dict)
    statics: dict[str, str] = field(default_factory=dict)
    """Static ids by member id."""
    targets: dict[str, frozenset[int]] = field(default_factory=dict)

    def _metadata(self, member_id: str) -> Pair:
        if self.kind is CONSUMER:
            return b.c_member(member_id, group=self.group, instance_id=self.statics.get(member_id))
        return self.kind.member(member_id, group=self.group)

    def _current(self, member_id: str) -> Pair:
        it = self.members[member_id]
        more = {"state": it.state + self.kind.stable, "revoking": {self.kind.slots: sorted(it.revoking)}}
        return self.kind.current(
            member_id,
            it.epoch,
            {self.kind.slots: sorted(it.assigned)},
            group=self.group,
            **(more if self.kind.revokes else {}),
        )

    def _target(self, member_id: str) -> Pair:
        return self.kind.target(member_id, {self.kind.slots: sorted(self.targets[member_id])}, group=self.group)

    def raised(self) -> Pair:
        self.epoch += 1
        return self.kind.epoch(self.epoch, group=self.group)

    def retarget(self) -> list[Pair]:
        """A new target assignment, if the epoch asks for one: the delta, then its epoch."""
        if self.target_epoch >= self.epoch:
            return []
        out = []
        ids = sorted(self.members)
        for at, member_id in enumerate(ids):
            wanted = frozenset(PARTITIONS if not self.kind.revokes else PARTITIONS[at :: len(ids)])
            if self.targets.get(member_id) != wanted:
                self.targets[member_id] = wanted
                out.append(self._target(member_id))
        self.target_epoch = self.epoch
        return [*out, self.kind.target_epoch(self.epoch, group=self.group)]

    def reconcile(self, member_id: str) -> list[Pair]:
        """One step of a member towards its target (`CurrentAssignmentBuilder` in short)."""
        it = self.members[member_id]
        target = self.targets.get(member_id, frozenset())
        before = Held(it.epoch, it.assigned, it.revoking, it.state)
        if it.revoking:
            it.revoking = frozenset()
        excess = it.assigned - target
        if excess and self.kind.revokes:
            it.assigned, it.revoking, it.state = it.assigned & target, excess, UNREVOKED
        else:
            others = [held for other, held in self.members.items() if other != member_id and self.kind.revokes]
            taken = frozenset[int]().union(*(held.assigned | held.revoking for held in others))
            it.assigned, it.epoch = target - taken, self.target_epoch
            it.state = UNRELEASED if target & taken else 0
        return [self._current(member_id)] if it != before else []

    def heartbeat(self, member_id: str) -> list[Pair]:
        return [*self.retarget(), *self.reconcile(member_id)]

    def join(self, member_id: str, instance_id: str | None = None) -> list[Pair]:
        first = not self.members and self.epoch == 1
        self.members[member_id] = Held()
        if instance_id is not None:
            self.statics[member_id] = instance_id
        out = [self._metadata(member_id)]
        if first and self.kind is STREAMS:
            out.append(b.k_topology(0, group=self.group))
        return [*out, self.raised(), *self.retarget(), *self.reconcile(member_id)]

    def _remove(self, member_id: str) -> list[Pair]:
        metadata, _, target, _, current = self.kind.types
        del self.members[member_id]
        self.targets.pop(member_id, None)
        self.statics.pop(member_id, None)
        return [b.tombstone(number, member_id, group=self.group) for number in (current, target, metadata)]

    def leave(self, member_id: str) -> list[Pair]:
        """Or its session expires: the same records."""
        return [*self._remove(member_id), self.raised()]

    def static_leave(self, member_id: str) -> list[Pair]:
        it = self.members[member_id]
        it.epoch, it.revoking = -2, frozenset()
        return [self._current(member_id)]

    def static_return(self, old: str, new: str, host: str | None = None) -> list[Pair]:
        """`replaceMember`, then what the heartbeat goes on to write: first the member as it is, on another `host`."""
        instance_id, held = self.statics[old], self.members[old]
        target = self.targets.get(old, frozenset())
        out = self._remove(old)
        self.statics[new] = instance_id
        self.targets[new] = target
        self.members[new] = Held(0, held.assigned, frozenset(), held.state)
        out += [self._metadata(new), self._target(new), self._current(new)]
        if host is not None:
            out.append(b.c_member(new, group=self.group, instance_id=instance_id, host=host))
        return [*out, *self.heartbeat(new)]

    def delete(self) -> list[Pair]:
        """Of an empty group; the topics' record and the topology go with it."""
        _, epoch, _, target_epoch, _ = self.kind.types
        gone = {"consumer": (target_epoch, 4, epoch), "share": (target_epoch, 15, epoch), "streams": (20, 17, 23)}
        return [b.tombstone(number, group=self.group) for number in gone[self.kind.name]]


def upgrade(classic: ClassicScript, session_ms: int = 45_000) -> tuple[ModernScript, list[Pair]]:
    """`convertToConsumerGroup`: its members' records come before those of the member that asked for it."""
    group, generation = classic.group, classic.generation
    script = ModernScript(CONSUMER, group, generation, generation)
    shares = {member_id: frozenset(classic.shares.get(member_id, ())) for member_id in sorted(classic.members)}
    script.targets = dict(shares)
    script.members = {member_id: Held(generation, assigned) for member_id, assigned in shares.items()}
    script.statics = {member_id: it for member_id, it in classic.members.items() if it is not None}
    out = [b.no_classic_group(group)]
    out += [
        b.c_member(member_id, group=group, instance_id=it, classic_session_ms=session_ms)
        for member_id, it in classic.members.items()
    ]
    out.append(b.c_epoch(generation, group=group))
    out += [script._target(member_id) for member_id in shares]
    out.append(b.c_target_epoch(generation, group=group))
    return script, [*out, *(script._current(member_id) for member_id in shares)]


def upgrade_in_place(
    classic: ClassicScript, old: str, new: str, host: str = "/10.0.0.2"
) -> tuple[ModernScript, list[Pair]]:
    """By a KIP-848 member that takes the place of a static one: no epoch is raised."""
    script, out = upgrade(classic)
    return script, [*out, *script.static_return(old, new, host)]


def downgrade_in_place(
    script: ModernScript, old: str, new: str, host: str = "/10.0.0.3"
) -> tuple[ClassicScript, list[Pair]]:
    """By a classic member that takes the place of the last KIP-848 one: no rebalance follows."""
    out = script.static_return(old, new, host)
    classic, more = downgrade(script)
    return classic, [*out, *more]


def downgrade(script: ModernScript, leaving: str | None = None) -> tuple[ClassicScript, list[Pair]]:
    """`convertToClassicGroup`: the last KIP-848 member leaves; the others speak the classic protocol."""
    group = script.group
    out = [b.tombstone(8, member_id, group=group) for member_id in script.members]
    out += [b.tombstone(7, member_id, group=group) for member_id in script.members]
    out.append(b.tombstone(6, group=group))
    out += [b.tombstone(5, member_id, group=group) for member_id in script.members]
    out += [b.tombstone(4, group=group), b.tombstone(3, group=group)]
    stay = [member_id for member_id in script.members if member_id != leaving]
    classic = ClassicScript(
        group,
        script.epoch,
        {member_id: script.statics.get(member_id) for member_id in stay},
        {member_id: sorted(script.targets.get(member_id, ())) for member_id in stay},
    )
    return classic, [*out, b.classic_group(script.epoch, *classic.metadata(), group=group)]
