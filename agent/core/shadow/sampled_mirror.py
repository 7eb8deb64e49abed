"""The mirror of groups that are looked at: the same reducer, over records that say what a look showed.

Where nobody may read `__consumer_offsets`, a source (`agent.kafka.admin_api.sampled_reader`) writes down what the
brokers answer as records of the same shape: a committed offset that moved as the commit that a coordinator would
write, with the time at which it was seen; and under a group's own key a `GroupLook`. All that follows (analyzers,
findings, events, snapshots, history) is the path of any record.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import ClassVar

import msgspec
from msgspec.structs import replace

from agent.core.inference.origin_evidence import PartitionOrigins
from agent.core.protocol.hashing import partition_for_group
from agent.core.records import RawRecord
from agent.core.shadow.mirror import PartitionMirror, RejectedRecord
from agent.core.shadow.offsets import CommittedOffsets, MovedPositions
from agent.core.shadow.sampled import GroupLook, SampledGroup
from agent.core.shadow.transitions import (
    GroupCreated,
    GroupDeleted,
    GroupWithheld,
    LogPosition,
    OffsetsWithheld,
    Transition,
)
from agent.core.shadow.views import GroupView
from agent.core.state_fields import StateFields
from agent.core.wire.classic import GroupMetadataKey
from agent.core.wire.errors import Invalid
from agent.core.wire.offset_commit_fastpath import commit_key
from agent.core.wire.primitives import Uuid
from agent.core.wire.records import RECORD_TYPES, decode_key, encode_key

PARTITIONS = 16
"""Groups are shared out over so many mirrors, by Kafka's hash: no lock is held, and no snapshot made, for all of them
at a time. They are no partitions of the topic, of which nothing is known."""
_GROUP_KEY = RECORD_TYPES[2]
_PREFIX = _GROUP_KEY.key_type.to_bytes(2)
LOOK, GONE = "group_look", "group_gone"


def shard_of(group: str) -> int:
    """Which mirror has a group."""
    return partition_for_group(group, PARTITIONS)


def look_key(group: str) -> bytes:
    """The key of a look at a group. Raises `WireError` and `UnicodeEncodeError` for names that no record can hold."""
    return encode_key(_GROUP_KEY, GroupMetadataKey(group))


def look_value(look: GroupLook) -> bytes:
    """A look as the value of a record."""
    return json.dumps(msgspec.to_builtins(look, str_keys=True), separators=(",", ":")).encode()


class SampledMirror(PartitionMirror):
    """The groups of one shard. State changes by `replay` and `replay_batch` alone."""

    STATE: ClassVar = StateFields(
        {
            "offsets": CommittedOffsets,
            "moved": MovedPositions,
            "groups": dict[str, SampledGroup],
            "origins": PartitionOrigins,
            "next_offset": int,
            "record_counts": Counter[str],
            "error_counts": Counter[str],
            "sampled_every_ms": int | None,
        }
    )

    has_forks = False
    groups: dict[str, SampledGroup]  # type: ignore[assignment]  # no other type comes from a look

    def replay(self, record: RawRecord) -> list[Transition]:
        """Apply one record; see `PartitionMirror.replay`."""
        if record.key is None or not record.key.startswith(_PREFIX):
            return self._sampled(super().replay(record))
        at = LogPosition(record.partition, record.offset, record.timestamp_ms)
        self.next_offset = record.offset + 1
        _, key = decode_key(record.key)
        assert isinstance(key, GroupMetadataKey), "the key's type says so"
        if record.value is None:
            self.record_counts[GONE] += 1
            return self._sampled(self._with_origins(self._forget_group(key.group, at)))
        try:
            look = msgspec.convert(json.loads(record.value), GroupLook)
        except (ValueError, msgspec.ValidationError) as error:
            wrong = Invalid(f"expected a look at a group: {error}")
            self.error_counts[wrong.kind] += 1
            self.rejects.append(RejectedRecord(at, wrong))
            return []
        self.record_counts[LOOK] += 1
        self.sampled_every_ms = look.every_ms
        if look.is_withheld:
            gone = self._forget_group(key.group, at)
            return self._with_origins([GroupWithheld(at, it.group, it.group_type) for it in gone])
        out: list[Transition] = []
        for topic, partition in [slot for slot in self.offsets.slots(key.group) if slot[0] in look.withheld_topics]:
            commit = self.offsets.remove(commit_key(key.group, topic, partition), key.group)
            assert commit is not None, "it is one of the group's"
            out.append(OffsetsWithheld(at, key.group, look.group_type, topic, partition, commit.offset))
        group = self.groups.get(key.group)
        if group is None:
            group = self.groups[key.group] = SampledGroup(key.group, at, look.before_ms)
            if look.before_ms is not None:
                # A list before did not show it.
                out.append(GroupCreated(at, key.group, look.group_type, observed=True))
        group.session = self.session_of(key.group, look.group_type)
        return self._sampled(self._with_origins([*out, *group.replay(look, at, self.offsets)]))

    def _make_simple_group(self, group: str, at: LogPosition) -> list[Transition]:
        """Groups come of looks, and never of a position."""
        return []

    def _sampled(self, transitions: list[Transition]) -> list[Transition]:
        return [replace(it, sampled_every_ms=self.sampled_every_ms) for it in transitions]

    def _forget_group(self, name: str, at: LogPosition) -> list[Transition]:
        group = self.groups.pop(name, None)
        for topic, partition in self.offsets.slots(name):
            self.offsets.remove(commit_key(name, topic, partition), name)
        return [] if group is None else [GroupDeleted(at, name, group.group_type)]

    def view(
        self, name: str, names: Mapping[Uuid, str] | None = None, *, with_commit: bool = True
    ) -> GroupView | None:
        """One group; see `PartitionMirror.view`. Its last commit is when one was seen, None before any was."""
        group = self.groups.get(name)
        if group is None:
            return None
        last = self.offsets.last_moved_ms(name) if with_commit else None
        return self._view_with_origins(group.view(self.offsets.count(name), last))

    def undated(self, name: str) -> set[tuple[str, int]]:
        """Positions that were not seen to move: when they were committed is not known."""
        return {slot for slot, count in self.offsets.commit_counts(name).items() if count <= 1}

    def views(self, names: Mapping[Uuid, str] | None = None) -> Iterator[GroupView]:
        """Every group of the shard, by name."""
        return (view for name in sorted(self.groups) if (view := self.view(name)) is not None)
