"""Groups whose coordinator writes every step: KIP-848 consumer groups, share groups, streams groups.

Their state is mirrored exactly, by the broker's own rules (`agent.core.protocol.states`), record by record. A
change of membership is written as member records followed by a raised group epoch: so members that joined and left
are collected until the epoch, and come out with it as one rebalance.
"""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Collection, Iterable, Mapping, Sequence
from copy import copy
from heapq import nsmallest
from itertools import chain, repeat
from typing import Any, ClassVar, Generic, Self, TypeVar, cast

from msgspec import Struct, field
from msgspec.structs import replace

from agent.common.interning import remembered
from agent.core.inference.cause_inference import infer_epoch_change, infer_epoch_departures
from agent.core.inference.commit_cadence import CommitCadence
from agent.core.inference.facts import CommitActivity, CoordinatorChange, Departure, WritePause
from agent.core.inference.parameters import PARAMETERS
from agent.core.inference.session_settings import SessionSetting
from agent.core.protocol.library_recognition import (
    NOT_RECOGNIZED,
    Recognition,
    client_id_stem,
    recognize_by_others,
    recognize_kip848,
    recognize_streams,
)
from agent.core.protocol.states import (
    CONSUMER_MEMBER_STABLE,
    STREAMS_MEMBER_STABLE,
    GroupState,
    GroupType,
    consumer_state,
    resting_state,
    streams_state,
)
from agent.core.shadow.anomalies import AnomalyLog
from agent.core.shadow.classic import ClassicGroup
from agent.core.shadow.diff import owner_key
from agent.core.shadow.fairness import fairness
from agent.core.shadow.offsets import CommittedOffsets
from agent.core.shadow.targets import TargetAssignments, TargetSlot
from agent.core.shadow.transitions import (
    AssignmentChanged,
    GroupCreated,
    GroupEmptied,
    LogPosition,
    MemberJoined,
    MemberLeft,
    Rebalanced,
    StaticMemberReplaced,
    Transition,
)
from agent.core.shadow.views import GroupView, Member
from agent.core.state_fields import StateFields
from agent.core.wire.consumer import (
    ConsumerGroupCurrentMemberAssignmentValue,
    ConsumerGroupMemberMetadataValue,
    OwnedTopicPartitions,
    TargetAssignmentMemberValue,
    TopicPartitions,
)
from agent.core.wire.json_form import uuid_text
from agent.core.wire.primitives import Uuid
from agent.core.wire.share import ShareGroupCurrentMemberAssignmentValue, ShareGroupMemberMetadataValue
from agent.core.wire.streams import (
    OwnedTaskIds,
    StreamsGroupCurrentMemberAssignmentValue,
    StreamsGroupMemberMetadataValue,
    StreamsGroupTargetAssignmentMemberValue,
    TaskIds,
)

TopicNames = Mapping[Uuid, str]
"""Topic names by id, as far as the log has shown them."""

FIRST_EPOCH = 1
"""What a coordinator starts a group's epoch and target epoch with, before it writes any (`ModernGroup`): so the first
that it writes is the next, and in earlier versions this one."""

NO_TARGET = -1
"""The target epoch of a group whose target assignment was deleted."""

UNTOLD = -1
"""The offset of `created_at` as long as it waits for the first epoch whether the creation was observed."""


Metadata = TypeVar("Metadata")
Assigned = TypeVar("Assigned")


class MemberRecords(Struct, Generic[Metadata, Assigned]):
    """What the log has of one member, as it stands. Its target is in `TargetAssignments`: one alone makes no
    member."""

    member_id: str
    metadata: Metadata | None = None
    current: Assigned | None = None
    # The member as it was before its assignment was deleted: what it held when it left.
    last: Member | None = None
    # When the newest record was written that a request of the member's leads to, epoch milliseconds.
    seen_ms: int | None = None

    def __copy__(self) -> MemberRecords[Metadata, Assigned]:
        return MemberRecords(self.member_id, self.metadata, self.current, self.last, self.seen_ms)

    @property
    def epoch(self) -> int:
        """The member epoch; a member without an assignment record has not got any."""
        return 0 if self.current is None else cast(Any, self.current).member_epoch


class PendingChanges(Struct):
    """Changes of membership since the last epoch."""

    # Member ids in the order in which they came; a dict, for members that go again at once.
    joined: dict[str, None] = field(default_factory=dict)
    left: list[Member] = field(default_factory=list)
    resubscribed: bool = False
    # By id of those that left, when they were heard of last (epoch milliseconds), where that is known.
    seen_ms: dict[str, int] = field(default_factory=dict)

    def __copy__(self) -> PendingChanges:
        return PendingChanges(dict(self.joined), list(self.left), self.resubscribed, dict(self.seen_ms))


class EpochGroup:
    """The mirror of one group with epochs. State changes by `replay` alone; subclasses say what differs by type."""

    STATE: ClassVar = StateFields(
        {
            "name": str,
            "created_at": LogPosition,
            "epoch": int,
            "target_epoch": int,
            "state_since_ms": int,
            "version": int,
            "rebalances": int,
            "generations_skipped": int,
            "notes": AnomalyLog,
            "_epoch_seen": bool,
            "_topics_hash": int,
            "_reconciled": set[str],
            "_pending": PendingChanges,
            "_pace": CommitCadence,
            "_migrated": bool,
            "_vacated": dict[str, Member],
            "_had_members": bool,
            "_before": dict[str, Member],
            "_taken_over_at": int | None,
        }
    )
    """What the three types have in common."""

    group_type: ClassVar[GroupType]
    roles: ClassVar[dict[int, str]]
    """By key type, what such a record holds of the group: a name that `_apply` knows, or `_apply_own_record`."""

    def __init__(self, name: str, at: LogPosition, before: ClassicGroup | None = None) -> None:
        self.name = name
        self.created_at = at
        """Where it is told that the group is there; see `tell_creation_with_epoch`."""
        self.epoch = FIRST_EPOCH
        self.target_epoch = FIRST_EPOCH
        self.records: dict[str, MemberRecords[Any, Any]] = {}
        self.state_since_ms = at.timestamp_ms
        self.version = 0
        """Raised by each record that is applied: while it stands, so does the group's view, but for its offsets and
        for topics' names."""
        self.rebalances = 0
        self.generations_skipped = 0
        self.notes = AnomalyLog()
        self._epoch_seen = False
        # Of the subscribed topics, as of the newest epoch record; 0: not known (up to Kafka 4.0), or no topics.
        self._topics_hash = 0
        # Kept as records come, so that the state of a group of thousands need not be counted out at each.
        self._reconciled: set[str] = set()
        self._pending = PendingChanges()
        self._pace = CommitCadence()
        self._migrated = before is not None
        self._vacated: dict[str, Member] = {}
        self._had_members = False
        self._targets: TargetAssignments[Any, Any] = TargetAssignments(self._target_slots)
        # Which libraries show, by client id without numbers; as of a version.
        self._libraries: tuple[int, Mapping[str, set[str]]] = (-1, {})
        self.session: SessionSetting | None = None
        """What brokers say of the group's sessions: no state, the mirror asks before each record."""
        self.coordinator_change: CoordinatorChange | None = None
        """The newest of the group's partition: no state either."""
        self.write_pause: WritePause | None = None
        """The newest of the partition, if it was just before an epoch: no state either."""
        # Of the classic group that this one was: its members, until the first epoch after, and its generation,
        # until the targets that stand for its assignment.
        self._before: Mapping[str, Member] = {}
        self._taken_over_at: int | None = None
        if before is not None:
            self._take_over(before)

    def after_restore(self) -> None:
        """Set what is no state."""
        self._targets.slots_of = self._target_slots
        self._libraries = (-1, {})
        self.session = self.coordinator_change = self.write_pause = None

    def fork(self) -> Self:
        """Another that stands as this one does, to be replayed on while this one stays as it is."""
        out = copy(self)
        out.notes, out._pace, out._pending = copy(self.notes), copy(self._pace), copy(self._pending)
        out.records = {member_id: copy(records) for member_id, records in self.records.items()}
        out._reconciled, out._vacated, out._targets = set(self._reconciled), dict(self._vacated), copy(self._targets)
        return out

    @property
    def size(self) -> int:
        """Members, those of before and those that went, what they subscribe to, hold and are to have: what an epoch
        costs."""
        others = len(self._before) + len(self._pending.left) + len(self._vacated)
        return others + self._targets.size + sum(map(_record_size, self.records.values()))

    def _take_over(self, before: ClassicGroup) -> None:
        # A migration goes on where the classic group stood: its generation becomes the epoch, its members stay.
        self.epoch = before.generation
        self._epoch_seen = True
        self.rebalances = before.rebalances
        self.generations_skipped = before.generations_skipped
        self.notes = before.notes
        self._before = before.members
        # Who left with a migration back of which the rebalance never completed.
        self._pending.left += before.left_before
        self._taken_over_at = before.generation
        self._had_members = bool(before.members)

    # What differs between the types.

    stable: ClassVar[int]
    """The number of the member state STABLE: nothing to revoke, nothing to wait for."""

    def _state(self) -> GroupState:
        return consumer_state(self.epoch, self.target_epoch, len(self.records), len(self._reconciled))

    def _member(self, records: MemberRecords[Any, Any], names: TopicNames) -> Member:
        raise NotImplementedError

    @staticmethod
    def _target_slots(target: Any) -> Iterable[TargetSlot]:
        return chain.from_iterable(zip(repeat(it.topic_id), it.partitions) for it in target.topic_partitions)

    # Replay.

    def replay(
        self,
        key_type: int,
        member_id: str | None,
        value: Any,
        at: LogPosition,
        names: TopicNames,
        offsets: CommittedOffsets,
    ) -> list[Transition]:
        """Apply one record of the group; `value` None is a tombstone. Deleting the group itself is the mirror's."""
        self.version += 1
        before = self._state()
        out = self._apply(self.roles[key_type], member_id, value, at, names, offsets)
        if self._state() != before:
            self.state_since_ms = at.timestamp_ms
        return out

    def _apply(
        self,
        role: str,
        member_id: str | None,
        value: Any,
        at: LogPosition,
        names: TopicNames,
        offsets: CommittedOffsets,
    ) -> list[Transition]:
        match role:
            case "member":
                assert member_id is not None, "a member record has a member id"
                if value is None:
                    self._remove_member(member_id, names)
                    return []
                is_first = self._member_records(member_id).current is None
                out = self._apply_member(member_id, value, at, offsets)
                return out if is_first else out + self._tell_replacement(member_id, at, names)
            case "current":
                assert member_id is not None, "an assignment record has a member id"
                is_first = value is None or self._member_records(member_id).current is None
                self._apply_current_assignment(member_id, value, names)
                if value is not None:
                    self.records[member_id].seen_ms = at.timestamp_ms
                return [] if is_first else self._tell_replacement(member_id, at, names)
            case "target":
                assert member_id is not None, "a target record has a member id"
                self._targets.put(member_id, value)
            case "target_epoch":
                return self._apply_target_epoch(value, at, names, offsets)
            case "epoch":
                members = self.records if self._vacated else ()
                replaced = [it for member_id in members for it in self._tell_replacement(member_id, at, names)]
                return replaced + self._apply_epoch(value, at, names, offsets)
            case other:
                self._apply_own_record(other, value)
        return []

    def _apply_own_record(self, role: str, value: Any) -> None:
        """Apply a record that only one type of group has; others need no state."""

    def _apply_member(
        self, member_id: str, value: Any, at: LogPosition, offsets: CommittedOffsets
    ) -> list[Transition]:
        records = self._member_records(member_id)
        records.seen_ms = at.timestamp_ms
        if records.metadata is not None and _subscription(records.metadata) != _subscription(value):
            self._pending.resubscribed = True
        records.metadata = value
        if getattr(value, "instance_id", None) not in self._vacated:
            return []
        # The place of a static member is taken, for which no epoch is raised.
        self._pending.joined.pop(member_id, None)
        if not self._migrated:
            return []
        # Nor is one for a migration by it: so who had left the classic group is told now.
        self._migrated = False
        departures = self.departures(at.timestamp_ms, offsets)
        gone, self._pending.left = self._pending.left, []
        return [MemberLeft(at, self.name, self.group_type, self.epoch, it, departures[it.member_id]) for it in gone]

    def _tell_replacement(self, member_id: str, at: LogPosition, names: TopicNames) -> list[Transition]:
        """That a member took the place of a static one: told when its records as of `replaceMember` are followed by
        one more, since those are copies of what they replace, client id and host too."""
        records = self.records[member_id]
        instance_id = getattr(records.metadata, "instance_id", None)
        if instance_id not in self._vacated:
            return []
        old, new = self._vacated.pop(instance_id), self._member(records, names)
        return [StaticMemberReplaced(at, self.name, self.group_type, self.epoch, old, new)]

    def _note_reconciled(self, member_id: str, current: Any) -> None:
        # `isReconciledTo` of the broker's member classes.
        if current is not None and current.state == self.stable and current.member_epoch == self.target_epoch:
            self._reconciled.add(member_id)
        else:
            self._reconciled.discard(member_id)

    def _member_records(self, member_id: str) -> MemberRecords[Any, Any]:
        records = self.records.get(member_id)
        if records is None:
            records = self.records[member_id] = MemberRecords(member_id)
            if member_id not in self._before:
                self._pending.joined[member_id] = None
        return records

    def _remove_member(self, member_id: str, names: TopicNames) -> None:
        records = self.records.pop(member_id, None)
        if records is None:
            return
        self._reconciled.discard(member_id)
        if member_id in self._pending.joined:
            # Came and went between two epochs.
            del self._pending.joined[member_id]
            return
        if records.seen_ms is not None:
            self._pending.seen_ms[member_id] = records.seen_ms
        member = records.last or self._member(records, names)
        if member.instance_id is not None:
            # Gone for good if an epoch follows, replaced if a member takes its place before. One that did and goes
            # again was never told of.
            self._vacated.setdefault(member.instance_id, member)
        else:
            self._pending.left.append(member)

    def _apply_current_assignment(self, member_id: str, value: Any, names: TopicNames) -> None:
        if value is not None:
            records = self._member_records(member_id)
            records.current, records.last = value, None
            self._note_reconciled(member_id, value)
            return
        gone = self.records.get(member_id)
        if gone is None:
            return
        gone.last = self._member(gone, names)
        gone.current = None
        self._note_reconciled(member_id, None)

    def _apply_target_epoch(
        self, value: Any, at: LogPosition, names: TopicNames, offsets: CommittedOffsets
    ) -> list[Transition]:
        if value is None:
            self.target_epoch = NO_TARGET
            return []
        self.target_epoch = value.assignment_epoch
        for member_id, records in self.records.items():
            self._note_reconciled(member_id, records.current)
        change = self._targets.apply_epoch(self._owner_key)
        taken_over_at, self._taken_over_at = self._taken_over_at, None
        if taken_over_at == self.target_epoch or not (change.gained or change.lost):
            # The first targets after a migration are the classic group's assignment.
            return []
        ratio = self._imbalance(names, offsets)
        return [AssignmentChanged(at, self.name, self.group_type, self.target_epoch, *change, ratio)]

    def _imbalance(self, names: TopicNames, offsets: CommittedOffsets) -> float | None:
        def members() -> tuple[Member, ...]:
            # What topics are called is as in `PartitionMirror.view`.
            return self._members_by_id(
                ChainMap(*(cast(dict[Uuid, str], it) for it in (offsets.topic_ids(self.name), names)))
            )

        shares = self._targets.partition_counts(self.records)
        found = fairness(self.group_type, shares, members, lambda: self._have_equal_subscriptions(names))
        return None if found is None else found.ratio

    def _have_equal_subscriptions(self, names: TopicNames) -> bool:
        """Whether all members certainly subscribe to all that any is to have; told without making `Member`s."""
        (topics, pattern), *others = {_subscription(records.metadata) for records in self.records.values()}
        if others or topics is None:
            return False
        return bool(pattern) or all(names.get(it) in topics for it in self._targets.topics())

    def _owner_key(self, member_id: str) -> str:
        records = self.records.get(member_id)
        metadata = records.metadata if records is not None else None
        return owner_key(member_id, getattr(metadata, "instance_id", None))

    def tell_creation_with_epoch(self) -> None:
        """Its first record is a member's: so a group begins, and so does what compaction leaves of an old one. Its
        first epoch, which a coordinator writes with its first member, tells them apart."""
        self.created_at = self.created_at._replace(offset=UNTOLD)

    def _told_creation(self, epoch: int, at: LogPosition) -> list[Transition]:
        if self.created_at.offset != UNTOLD:
            return []
        self.created_at = at
        return [GroupCreated(at, self.name, self.group_type, observed=epoch <= FIRST_EPOCH + 1)]

    def _apply_epoch(
        self, value: Any, at: LogPosition, names: TopicNames, offsets: CommittedOffsets
    ) -> list[Transition]:
        previous = self.epoch if self._epoch_seen else None
        epoch = value.epoch
        self._epoch_seen = True
        self.epoch = epoch
        same_topics = value.metadata_hash != 0 and value.metadata_hash == self._topics_hash
        self._topics_hash = value.metadata_hash
        self._read_epoch_record(value)
        if previous is not None and epoch == previous:
            # Not a raise: a new hash of the topics, a newly validated topology, or the end of a migration. Who
            # left the classic group since its last generation did not come along.
            stayed = {member_id: member for member_id, member in self._before.items() if member_id in self.records}
            self._pending.left += [member for member_id, member in self._before.items() if member_id not in stayed]
            self._before = stayed
            if self._migrated:
                self._pace.begin_generation(at.timestamp_ms, {}, self.name, offsets)
            return []
        if previous is not None and epoch < previous:
            self.notes.add("generation_regressed", f"epoch {epoch} follows {previous}", at)
        elif previous is not None and epoch > previous + 1:
            # A coordinator raises it by one and writes each. They may have been rebalances that were completed, so
            # none is counted as skipped.
            lacking = epoch - previous - 1
            self.notes.add("generation_gap", f"epoch {epoch} follows {previous}: {lacking} not in the log", at)
        left = self.departed_members(offsets)
        joined = tuple(self._member(self.records[member_id], names) for member_id in self._pending.joined)
        inferred = infer_epoch_change(
            joined,
            left,
            self._activities(left, offsets),
            at.timestamp_ms,
            seen_ms=self._pending.seen_ms,
            expired=self._expired(),
            behind=self._behind(left),
            resubscribed=self._pending.resubscribed,
            migrated=self._migrated,
            is_first_seen=previous is None and epoch > FIRST_EPOCH + 1,
            topics_may_have_changed=not same_topics and (previous is None or epoch == previous + 1),
            session=self.session,
            coordinator_change=self.coordinator_change,
            write_pause=self.write_pause,
            stayed=self._stayed(names, offsets),
            newly_initialized=self._take_newly_initialized(),
        )
        self._pending, self._vacated, self._before, self._migrated = PendingChanges(), {}, {}, False
        self._pace.begin_generation(at.timestamp_ms, {}, self.name, offsets)
        self.rebalances += 1
        who = (at, self.name, self.group_type)
        protocol, members = self.protocol, len(self.records)
        out = self._told_creation(epoch, at)
        out.append(Rebalanced(*who, epoch, previous, protocol, joined, left, members, inferred=inferred))
        out += [MemberLeft(*who, epoch, member, inferred.departures[member.member_id]) for member in left]
        out += [MemberJoined(*who, epoch, member) for member in joined]
        if not self.records and self._had_members:
            out.append(GroupEmptied(*who, epoch))
        self._had_members = bool(self.records)
        return out

    def _read_epoch_record(self, value: Any) -> None:
        """Take what only one type's epoch record holds."""

    def _take_newly_initialized(self) -> int:
        """How many partitions can be given to members only since the last epoch: of share groups alone."""
        return 0

    @property
    def lost_members(self) -> bool:
        """Whether members left since the last epoch. Only a migration to a classic group writes that without another
        epoch after it."""
        return bool(self._pending.left or self._vacated)

    def departed_members(self, offsets: CommittedOffsets) -> tuple[Member, ...]:
        """The members that left since the last epoch."""
        return tuple(self._named((*self._pending.left, *self._vacated.values()), offsets))

    def departures(self, at_ms: int, offsets: CommittedOffsets) -> dict[str, Departure]:
        """By member id, how those members left, if it was at `at_ms`."""
        left = self.departed_members(offsets)
        activity = self._activities(left, offsets)
        return infer_epoch_departures(
            left,
            activity,
            at_ms,
            self._pending.seen_ms,
            self._expired(),
            self._behind(left),
            self.session,
            self.coordinator_change,
        )

    def _stayed(self, names: TopicNames, offsets: CommittedOffsets) -> Collection[CommitActivity]:
        """What some of the members committed that others have left; nothing where none did."""
        if not self.lost_members:
            return ()
        some = nsmallest(PARAMETERS.remaining_sampled, self.records.keys() - self._pending.joined.keys())
        working = [it for name in some if (it := self._member(self.records[name], names)).partitions]
        return self._activities(self._named(working, offsets), offsets).values()

    def _activities(self, members: Iterable[Member], offsets: CommittedOffsets) -> dict[str, CommitActivity]:
        """By member id, what each committed."""
        committing = map(self.as_committing, members)
        return self._pace.commit_activities(self.name, committing, offsets, across_owners=True)

    def as_committing(self, member: Member) -> Member:
        """The member with the partitions for which it commits as its assignment."""
        return member

    def _named(self, members: Sequence[Member], offsets: CommittedOffsets) -> Sequence[Member]:
        """The members with their topics by name, where the group's commits tell more names than other records."""
        return members

    def _expired(self) -> frozenset[str]:
        """Ids of the members that left for a restart and did not come back. A static member may die, too, or leave
        for good (KIP-1092)."""
        return frozenset(it.member_id for it in self._vacated.values() if it.left_for_restart)

    def _behind(self, left: Iterable[Member]) -> frozenset[str]:
        """Ids of those that had not reached the group's target when they left."""
        return frozenset(it.member_id for it in left if -1 < (it.member_epoch or 0) < self.target_epoch)

    # Views.

    def _target_partitions(self, records: MemberRecords[Any, Any], names: TopicNames) -> dict[str, tuple[int, ...]]:
        """What a member is to have, where targets are partitions."""
        target = self._targets.latest.get(records.member_id)
        return {} if target is None else partitions_by_topic(target.topic_partitions, names)

    def _members_by_id(self, names: TopicNames) -> tuple[Member, ...]:
        return tuple(self._member(self.records[member_id], names) for member_id in sorted(self.records))

    @property
    def protocol(self) -> str | None:
        """The assignor, where the group's records name it."""
        return None

    def view(
        self, partition: int, committed_partitions: int, last_commit_ms: int | None, names: TopicNames
    ) -> GroupView:
        """The group as a plain value."""
        return GroupView(
            group=self.name,
            group_type=self.group_type,
            state=self._state(),
            generation=self.epoch,
            protocol_type="consumer" if self.group_type is GroupType.CONSUMER else self.group_type.value,
            protocol=self.protocol,
            leader=None,
            target_generation=self.target_epoch,
            state_since_ms=self.state_since_ms,
            members=self._members_by_id(names),
            coordinator_partition=partition,
            committed_partitions=committed_partitions,
            last_commit_ms=last_commit_ms,
            rebalances=self.rebalances,
            generations_skipped=self.generations_skipped,
            anomalies=tuple(self.notes.latest),
        )


class ConsumerGroup(EpochGroup):
    """A KIP-848 consumer group."""

    STATE: ClassVar = StateFields(
        {
            **EpochGroup.STATE,
            "records": dict[
                str, MemberRecords[ConsumerGroupMemberMetadataValue, ConsumerGroupCurrentMemberAssignmentValue]
            ],
            "_targets": TargetAssignments[Uuid, TargetAssignmentMemberValue],
        }
    )

    group_type = GroupType.CONSUMER
    roles: ClassVar[dict[int, str]] = {
        3: "epoch",
        4: "topics",
        5: "member",
        6: "target_epoch",
        7: "target",
        8: "current",
        16: "regex",
    }

    stable = CONSUMER_MEMBER_STABLE

    def _named(self, members: Sequence[Member], offsets: CommittedOffsets) -> Sequence[Member]:
        """A name is learned from a position's first commit; where that was before the brokers were upgraded, only
        later ones have the topic's id."""
        held = ((it, topic, partitions) for it in members for topic, partitions in it.assignment.items())
        if all(
            topic in it.subscription or any(offsets.commit(self.name, topic, at) is not None for at in partitions)
            for it, topic, partitions in held
        ):
            return members
        named = {uuid_text(topic_id): topic for topic_id, topic in offsets.topic_ids(self.name).items()}
        return [
            replace(it, assignment={named.get(topic, topic): held for topic, held in it.assignment.items()})
            for it in members
        ]

    @property
    def protocol(self) -> str | None:
        """The assignor that most members name, as the broker picks it; None: the broker's default."""
        votes: dict[str, int] = {}
        for records in self.records.values():
            name = records.metadata.server_assignor if records.metadata is not None else None
            if name is not None:
                votes[name] = votes.get(name, 0) + 1
        return max(sorted(votes), key=votes.__getitem__) if votes else None

    def _member(self, records: MemberRecords[Any, Any], names: TopicNames) -> Member:
        metadata: ConsumerGroupMemberMetadataValue = records.metadata or ConsumerGroupMemberMetadataValue(
            classic_member_metadata=None
        )
        current: ConsumerGroupCurrentMemberAssignmentValue | None = records.current
        assignment: dict[str, tuple[int, ...]] = {}
        if current is not None:
            # Partitions that wait for revocation are still the member's (`asConsumerGroupDescribeMember`).
            assignment = partitions_by_topic(
                (*current.assigned_partitions, *current.partitions_pending_revocation), names
            )
        classic = metadata.classic_member_metadata
        library, evidence = self._recognize(records.member_id, metadata)
        return Member(
            member_id=records.member_id,
            client_id=metadata.client_id,
            client_host=metadata.client_host,
            instance_id=metadata.instance_id,
            rack_id=metadata.rack_id,
            session_timeout_ms=classic.session_timeout_ms if classic is not None else None,
            rebalance_timeout_ms=metadata.rebalance_timeout_ms,
            subscription=metadata.subscribed_topic_names,
            subscription_regex=metadata.subscribed_topic_regex or None,
            assignment=assignment,
            target=self._target_partitions(records, names),
            member_epoch=records.epoch,
            uses_classic_protocol=classic is not None,
            client_library=library,
            library_evidence=evidence,
        )

    def _recognize(self, member_id: str, metadata: ConsumerGroupMemberMetadataValue) -> Recognition:
        if metadata.classic_member_metadata is not None:
            # What it joined with is a classic member's, and the broker keeps it in another form.
            return NOT_RECOGNIZED
        found = _recognize_kip848(member_id, metadata.client_id, self.name)
        if found is not NOT_RECOGNIZED:
            return found
        if self._libraries[0] != self.version:
            by_stem: dict[str, set[str]] = {}
            for other, records in self.records.items():
                if records.metadata is not None:
                    client_id = records.metadata.client_id
                    shown = _recognize_kip848(other, client_id, self.name)
                    by_stem.setdefault(client_id_stem(client_id), set()).add(shown.library)
            self._libraries = self.version, by_stem
        return recognize_by_others(self._libraries[1].get(client_id_stem(metadata.client_id), ()))


_recognize_kip848 = remembered(4_096)(recognize_kip848)
_recognize_streams = remembered(4_096)(recognize_streams)


class ShareGroup(EpochGroup):
    """A share group (KIP-932)."""

    STATE: ClassVar = StateFields(
        {
            **EpochGroup.STATE,
            "records": dict[
                str, MemberRecords[ShareGroupMemberMetadataValue, ShareGroupCurrentMemberAssignmentValue]
            ],
            "_targets": TargetAssignments[Uuid, TargetAssignmentMemberValue],
            "_initialized": int,
            "_newly_initialized": int,
        }
    )

    group_type = GroupType.SHARE
    roles: ClassVar[dict[int, str]] = {
        10: "member",
        11: "epoch",
        12: "target_epoch",
        13: "target",
        14: "current",
        15: "topics",
    }

    stable = CONSUMER_MEMBER_STABLE

    def __init__(self, name: str, at: LogPosition, before: ClassicGroup | None = None) -> None:
        # Partitions of which the state is there, so that members are given them; and of those, how many since the
        # last epoch.
        self._initialized = self._newly_initialized = 0
        super().__init__(name, at, before)

    def _apply_own_record(self, role: str, value: Any) -> None:
        assert role == "topics", "no other role is a share group's own"
        before = self._initialized
        self._initialized = 0 if value is None else sum(len(it.partitions) for it in value.initialized_topics)
        self._newly_initialized += max(self._initialized - before, 0)

    def _take_newly_initialized(self) -> int:
        taken, self._newly_initialized = self._newly_initialized, 0
        return taken

    def _state(self) -> GroupState:
        return resting_state(len(self.records))

    def _member(self, records: MemberRecords[Any, Any], names: TopicNames) -> Member:
        metadata: ShareGroupMemberMetadataValue = records.metadata or ShareGroupMemberMetadataValue()
        current: ShareGroupCurrentMemberAssignmentValue | None = records.current
        return Member(
            member_id=records.member_id,
            client_id=metadata.client_id,
            client_host=metadata.client_host,
            rack_id=metadata.rack_id,
            subscription=metadata.subscribed_topic_names,
            assignment=partitions_by_topic(current.assigned_partitions if current is not None else (), names),
            target=self._target_partitions(records, names),
            member_epoch=records.epoch,
            uses_classic_protocol=False,
        )


class StreamsGroup(EpochGroup):
    """A streams group (KIP-1071). Assignments are tasks: subtopology to the partitions of its input."""

    STATE: ClassVar = StateFields(
        {
            **EpochGroup.STATE,
            "records": dict[
                str, MemberRecords[StreamsGroupMemberMetadataValue, StreamsGroupCurrentMemberAssignmentValue]
            ],
            "_targets": TargetAssignments[str, StreamsGroupTargetAssignmentMemberValue],
            "topology_epoch": int | None,
            "validated_topology_epoch": int,
            "_sources": dict[str, tuple[str, ...]],
        }
    )

    group_type = GroupType.STREAMS
    roles: ClassVar[dict[int, str]] = {
        17: "epoch",
        19: "member",
        20: "target_epoch",
        21: "target",
        22: "current",
        23: "topology",
    }

    stable = STREAMS_MEMBER_STABLE

    def __init__(self, name: str, at: LogPosition, before: ClassicGroup | None = None) -> None:
        self.topology_epoch: int | None = None
        self.validated_topology_epoch = -1
        # By subtopology the topics that its tasks read, those that it names by a pattern left out: what these have
        # become is not in the log.
        self._sources: dict[str, tuple[str, ...]] = {}
        super().__init__(name, at, before)

    @staticmethod
    def _target_slots(target: Any) -> Iterable[TargetSlot]:
        return ((tasks.subtopology_id, number) for tasks in target.active_tasks for number in tasks.partitions)

    def _apply_own_record(self, role: str, value: Any) -> None:
        assert role == "topology", "no other role is a streams group's own"
        self.topology_epoch = None if value is None else value.epoch
        self._sources = {
            it.subtopology_id: (*it.source_topics, *(topic.name for topic in it.repartition_source_topics))
            for it in (() if value is None else value.subtopologies)
        }

    def as_committing(self, member: Member) -> Member:
        """A task reads, and commits, its partition of each topic of its subtopology."""
        read: dict[str, set[int]] = {}
        for subtopology, tasks in member.assignment.items():
            for topic in self._sources.get(subtopology, ()):
                read.setdefault(topic, set()).update(tasks)
        return replace(member, assignment={topic: tuple(sorted(it)) for topic, it in read.items()})

    def _read_epoch_record(self, value: Any) -> None:
        self.validated_topology_epoch = value.validated_topology_epoch

    def _state(self) -> GroupState:
        return streams_state(
            self.epoch,
            self.target_epoch,
            len(self.records),
            len(self._reconciled),
            topology_validated=self.topology_epoch is not None
            and self.topology_epoch == self.validated_topology_epoch,
        )

    def _member(self, records: MemberRecords[Any, Any], names: TopicNames) -> Member:
        metadata: StreamsGroupMemberMetadataValue = records.metadata or StreamsGroupMemberMetadataValue()
        current: StreamsGroupCurrentMemberAssignmentValue = (
            records.current or StreamsGroupCurrentMemberAssignmentValue()
        )
        target = self._targets.latest.get(records.member_id)
        library, evidence = _recognize_streams(records.member_id, metadata.client_id, self.name)
        return Member(
            member_id=records.member_id,
            client_id=metadata.client_id,
            client_host=metadata.client_host,
            instance_id=metadata.instance_id,
            rack_id=metadata.rack_id,
            rebalance_timeout_ms=metadata.rebalance_timeout_ms,
            assignment=tasks_by_subtopology(current.active_tasks),
            target=tasks_by_subtopology(target.active_tasks if target is not None else ()),
            standby_tasks=tasks_by_subtopology(current.standby_tasks),
            warmup_tasks=tasks_by_subtopology(current.warmup_tasks),
            member_epoch=records.epoch,
            uses_classic_protocol=False,
            client_library=library,
            library_evidence=evidence,
        )


def _subscription(metadata: Any) -> tuple[Any, Any]:
    # A streams member has its topology's epoch instead.
    topics = getattr(metadata, "subscribed_topic_names", getattr(metadata, "topology_epoch", None))
    return topics, getattr(metadata, "subscribed_topic_regex", None)


def _record_size(records: MemberRecords[Any, Any]) -> int:
    topics = getattr(records.metadata, "subscribed_topic_names", ())
    held = getattr(records.current, "assigned_partitions", getattr(records.current, "active_tasks", ()))
    return 1 + len(topics) + sum(len(it.partitions) for it in held)


def partitions_by_topic(
    items: Iterable[TopicPartitions | OwnedTopicPartitions], names: TopicNames
) -> dict[str, tuple[int, ...]]:
    """Partitions by topic name, sorted; a topic whose name is not known goes by its id's text."""
    out: dict[str, tuple[int, ...]] = {}
    for item in items:
        name = names.get(item.topic_id) or uuid_text(item.topic_id)
        out[name] = tuple(sorted((*out.get(name, ()), *item.partitions)))
    return out


def tasks_by_subtopology(items: Iterable[TaskIds | OwnedTaskIds]) -> dict[str, tuple[int, ...]]:
    """Tasks by subtopology, sorted."""
    return {item.subtopology_id: tuple(sorted(item.partitions)) for item in items}


GROUP_CLASSES_BY_KEY_TYPE: dict[int, type[EpochGroup]] = {
    key_type: group for group in (ConsumerGroup, ShareGroup, StreamsGroup) for key_type in group.roles
}
"""By key type: the type of group that writes such records."""
