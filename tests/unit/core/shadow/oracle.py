"""The broker's own replay of KIP-848, share and streams groups, transcribed from Kafka 4.3.1 for its states.

`GroupMetadataManager.replay(...)`, `ConsumerGroup`, `ShareGroup` and `StreamsGroup.maybeUpdateGroupState`,
`ModernGroupMember.isReconciledTo`. Nothing of the mirror is used; where the broker throws, so does this.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from agent.core.records import RawRecord
from agent.core.wire.records import Record, Tombstone, decode

TYPE_OF = {
    **dict.fromkeys((3, 4, 5, 6, 7, 8, 16), "consumer"),
    **dict.fromkeys(range(10, 16), "share"),
    **dict.fromkeys((17, 19, 20, 21, 22, 23), "streams"),
}
STABLE = {"consumer": 0, "share": 0, "streams": 1}
METADATA, EPOCH, TARGET_EPOCH, TARGET, CURRENT = (5, 10, 19), (3, 11, 17), (6, 12, 20), (7, 13, 21), (8, 14, 22)
LEAVE_GROUP_MEMBER_EPOCH = -1


@dataclass
class BrokerMember:
    epoch: int = 0
    stable: bool = True


@dataclass
class BrokerGroup:
    """A group as the broker holds it; `state` is computed where the broker computes it."""

    group_type: str
    epoch: int = 1
    target_epoch: int = 1
    members: dict[str, BrokerMember] = field(default_factory=dict)
    targets: set[str] = field(default_factory=set)
    topology_epoch: int | None = None
    validated_topology_epoch: int = -1

    @property
    def state(self) -> str:
        if not self.members:
            return "Empty"
        if self.group_type == "share":
            return "Stable"
        if self.group_type == "streams" and self.topology_epoch != self.validated_topology_epoch:
            return "NotReady"
        if self.epoch > self.target_epoch:
            return "Assigning"
        if all(it.stable and it.epoch == self.target_epoch for it in self.members.values()):
            return "Stable"
        return "Reconciling"


class Broker:
    """The groups of one partition."""

    def __init__(self) -> None:
        self.groups: dict[str, BrokerGroup | None] = {}
        """None is a classic group."""

    def replay(self, record: RawRecord) -> str | None:
        """Apply one record; the name of its group."""
        entry = decode(record.key, record.value)
        assert isinstance(entry, Record | Tombstone)
        key_type, key = entry.type.key_type, entry.key
        value: Any = entry.value if isinstance(entry, Record) else None
        if key_type <= 2:
            name = str(getattr(key, "group"))  # noqa: B009 - each of the two key classes has it
            if key_type == 2 and value is None:
                self.groups.pop(name, None)
            elif key_type == 2:
                self.groups[name] = None
            elif value is not None:
                self.groups.setdefault(name, None)
            return name
        name = str(getattr(key, "group_id"))  # noqa: B009
        member_id = getattr(key, "member_id", "")
        group = self.groups.get(name)
        if group is None:
            if value is None:
                return name
            group = self.groups[name] = BrokerGroup(TYPE_OF[key_type])
        if group.group_type != TYPE_OF[key_type]:
            raise RuntimeError(f"Group {name} is not a {TYPE_OF[key_type]} group")
        self._apply(group, name, key_type, member_id, value)
        return name

    def _apply(self, group: BrokerGroup, name: str, key_type: int, member_id: str, value: Any) -> None:
        if key_type in METADATA:
            if value is not None:
                group.members.setdefault(member_id, BrokerMember())
            elif member_id in group.members:
                if group.members[member_id].epoch != LEAVE_GROUP_MEMBER_EPOCH or member_id in group.targets:
                    raise RuntimeError("Received a tombstone record to delete member")
                del group.members[member_id]
        elif key_type in CURRENT:
            if value is not None:
                stable = value.state == STABLE[group.group_type]
                group.members[member_id] = BrokerMember(value.member_epoch, stable)
            elif member_id in group.members:
                group.members[member_id].epoch = LEAVE_GROUP_MEMBER_EPOCH
        elif key_type in TARGET:
            if value is not None:
                group.targets.add(member_id)
            else:
                group.targets.discard(member_id)
        elif key_type in TARGET_EPOCH:
            if value is None and group.targets:
                raise RuntimeError("Received a tombstone record to delete target assignment")
            group.target_epoch = -1 if value is None else value.assignment_epoch
        elif key_type == 23:
            group.topology_epoch = None if value is None else value.epoch
        elif key_type in EPOCH:
            if value is None:
                if group.members or group.targets or group.target_epoch != -1:
                    raise RuntimeError("Received a tombstone record to delete group")
                del self.groups[name]
                return
            group.epoch = value.epoch
            if key_type == 17:
                group.validated_topology_epoch = value.validated_topology_epoch
