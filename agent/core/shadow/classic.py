"""A classic group (Connect's too): one record is the whole group, as of the end of a rebalance.

A coordinator writes it when the group is created (generation 0, Kafka 4.0 on), when the leader's assignment
arrives, when the group becomes empty, and when a static member is replaced (same generation). What happens
between two records, the log does not show.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Set
from contextlib import suppress
from copy import copy
from functools import cache, lru_cache, partial
from itertools import chain
from typing import Any, ClassVar, Protocol, cast

from msgspec.structs import replace

from agent.common.interning import share_texts_and_numbers
from agent.core.causes import Cause
from agent.core.inference.cause_inference import infer_rebalance, notice_time_ms
from agent.core.inference.commit_cadence import CommitCadence
from agent.core.inference.facts import CoordinatorChange, Departure, RebalanceFacts, WritePause, bounded_ms
from agent.core.inference.parameters import PARAMETERS
from agent.core.inference.stopped_time import stopped_partition_ms
from agent.core.protocol.client_libraries import UNKNOWN, may_commit_unmoved
from agent.core.protocol.library_recognition import (
    NOT_RECOGNIZED,
    ClientTraits,
    JoinForm,
    recognize,
)
from agent.core.protocol.states import GroupState, GroupType, can_reach, resting_state
from agent.core.record_time import TOLERANCE_MS
from agent.core.shadow.anomalies import AnomalyLog
from agent.core.shadow.diff import (
    AssignmentDiff,
    MemberChanges,
    Partition,
    assignment_diff,
    held_partitions,
    member_changes,
)
from agent.core.shadow.fairness import fairness
from agent.core.shadow.offsets import CommittedOffsets
from agent.core.shadow.transitions import (
    AssignmentChanged,
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
from agent.core.wire.classic import GroupMetadataValue, MemberMetadata
from agent.core.wire.errors import WireError
from agent.core.wire.payloads import (
    ConnectAssignment,
    ConnectWorkerState,
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
    LenientPayload,
    Payload,
    TopicPartition,
    decode_leniently,
)

_MAX_CACHED_BYTES = 1024
"""Longer subscriptions are read anew each time, so that what is remembered of them stays within 20 MB: names of two
letters take 16 times as much room once they are read."""

_MAX_SHARED_BYTES, _MOST_SHARED = 200, 4_096
"""Of assignments that are no longer so many are remembered, within 20 MB likewise."""

MOST_WITHHELD = 100_000
"""Where more partitions of a group wait for an owner, they wait for one round alone: nobody has as many, but a
stranger may assign others in each."""

_NOTHING: dict[Any, Any] = {}
"""Stands for what is empty, and stays so."""

SIMPLE_GENERATION = -1
"""The generation of a group that only commits offsets: the broker's own number for it."""


FIRST_GENERATION = 1
"""The first that has members: a group is made in generation 0, and before Kafka 4.0 not written until it has any."""


class MigratedGroup(Protocol):
    """What a classic group takes over from the KIP-848 group that it was."""

    notes: AnomalyLog
    rebalances: int
    generations_skipped: int

    def departed_members(self, offsets: CommittedOffsets) -> tuple[Member, ...]:
        """Members that left with the migration."""

    def departures(self, at_ms: int, offsets: CommittedOffsets) -> Mapping[str, Departure]:
        """How they left, by member id; `at_ms` is the time of the record that ends the migration."""


class ClassicGroup:
    """The mirror of one classic group; built by `replay` alone."""

    STATE: ClassVar = StateFields(
        {
            "name": str,
            "created_at": LogPosition,
            "generation": int,
            "protocol_type": str | None,
            "protocol": str | None,
            "leader": str | None,
            "members": dict[str, Member],
            "state_since_ms": int,
            "version": int,
            "rebalances": int,
            "generations_skipped": int,
            "notes": AnomalyLog,
            "left_before": tuple[Member, ...],
            "_migrated": bool,
            "_told_before": dict[str, Departure],
            "_is_first": bool,
            "_withheld": dict[tuple[str, int], int],
            "pace": CommitCadence,
            "_raw": dict[str, MemberMetadata],
        }
    )

    __slots__ = (
        "_is_first",
        "_metadata",
        "_migrated",
        "_told_before",
        "_withheld",
        "created_at",
        "generation",
        "generations_skipped",
        "leader",
        "left_before",
        "members",
        "name",
        "notes",
        "pace",
        "protocol",
        "protocol_type",
        "rebalances",
        "state_since_ms",
        "version",
    )

    def __init__(self, name: str, at: LogPosition) -> None:
        self.name = name
        self.created_at = at
        self.generation = SIMPLE_GENERATION
        self.protocol_type: str | None = None
        self.protocol: str | None = None
        self.leader: str | None = None
        self.members: dict[str, Member] = {}
        self.state_since_ms = at.timestamp_ms
        self.version = 0
        """Raised by each record that is applied: while it stands, so does the group's view, but for its offsets."""
        self.rebalances = 0
        self.generations_skipped = 0
        self.notes = AnomalyLog()
        # Members that left with a migration back from KIP-848.
        self.left_before: tuple[Member, ...] = ()
        self._migrated = False
        self._told_before: Mapping[str, Departure] = _NOTHING
        # Whether the generation began in an empty group.
        self._is_first = False
        self._withheld: dict[tuple[str, int], int] = _NOTHING
        self.pace = CommitCadence()
        self._metadata: tuple[MemberMetadata, ...] = ()
        """What the members were read from."""

    def after_restore(self) -> None:
        """What the members were read from shares its texts with them."""
        self.members = {it.member_id: it for it in self.members.values()}
        for it in self._metadata:
            share_texts_and_numbers(
                it, "member_id", "client_id", "client_host", "rebalance_timeout", "session_timeout"
            )

    def fork(self) -> ClassicGroup:
        """Another that stands as this one does, to be replayed on while this one stays as it is."""
        out = copy(self)
        out.notes, out.pace = copy(self.notes), copy(self.pace)
        return out

    @property
    def _raw(self) -> dict[str, MemberMetadata]:
        return {it.member_id: it for it in self._metadata}

    @_raw.setter
    def _raw(self, raw: Mapping[str, MemberMetadata]) -> None:
        self._metadata = tuple(raw.values())

    @property
    def size(self) -> int:
        """Members, what they subscribe to and hold: what a record of the whole group costs."""
        return sum(1 + len(it.subscription) + it.partitions for it in self.members.values())

    @property
    def group_type(self) -> GroupType:
        """`connect` by its protocol type, else `classic`."""
        return GroupType.CONNECT if self.protocol_type == "connect" else GroupType.CLASSIC

    @property
    def state(self) -> GroupState:
        """Stable or Empty, as a coordinator that loads the log has it: states in between are never written."""
        return resting_state(len(self.members))

    @property
    def is_simple(self) -> bool:
        """Whether the log has shown offsets only, and no record of the group itself."""
        return self.generation == SIMPLE_GENERATION and not self.members

    def replay(
        self,
        value: GroupMetadataValue,
        at: LogPosition,
        offsets: CommittedOffsets,
        coordinator_change: CoordinatorChange | None = None,
        write_pause: WritePause | None = None,
    ) -> list[Transition]:
        """Apply one record: what it changed, the rebalance first. `coordinator_change`: the newest of its
        partition; `write_pause`: the newest in it."""
        self.version += 1
        old, joined_ms, assignor = self.members, self.state_since_ms, self.protocol
        previous = None if self.is_simple else self.generation
        self.protocol_type = value.protocol_type or None
        leader = self.leader
        self.protocol = value.protocol
        self.generation = value.generation
        self.members = self._read_members(value, at, offsets)
        leads = self.members.get(value.leader or "")
        # One object for the same id.
        self.leader = value.leader if leads is None else leads.member_id
        self.state_since_ms = _state_since_ms(value, at, may_be_old=previous in (None, value.generation))
        changes = member_changes(old, self.members)
        held, holds = held_partitions(old.values()), held_partitions(self.members.values())
        if previous is not None and value.generation == previous:
            return self._same_generation(old, changes, assignment_diff(held, holds), at)
        if value.generation == 0 and not self.members and not old:
            return []
        seen = coordinator_change, write_pause
        out = self._next_generation(
            previous, old, held, holds, joined_ms, leader, assignor, changes, value, at, offsets, *seen
        )
        self.pace.begin_generation(at.timestamp_ms, holds, self.name, offsets)
        if _may_commit_unmoved(self.members):
            offsets.moved.follow(self.name)
        else:
            offsets.moved.unfollow(self.name)
        return out

    def resume_from_migration(
        self, before: MigratedGroup, value: GroupMetadataValue, at: LogPosition, offsets: CommittedOffsets
    ) -> None:
        """Take the record that ends a migration back from KIP-848: the group goes on in the generation it had.

        That record completes no rebalance; members that left with the migration count as departures of the next one.
        If none did, a static member took the place of the last KIP-848 one, and the coordinator begins none.
        """
        self.notes = before.notes
        self.replay(value, at, offsets)
        self.left_before = tuple(
            member for member in before.departed_members(offsets) if member.member_id not in self.members
        )
        departures = before.departures(at.timestamp_ms, offsets)
        # The tombstones are of all members: those that stay may leave later, in another way.
        self._told_before = {it.member_id: departures[it.member_id] for it in self.left_before}
        self._migrated = bool(self.left_before)
        self.rebalances, self.generations_skipped = before.rebalances, before.generations_skipped

    def _next_generation(
        self,
        previous: int | None,
        old: Mapping[str, Member],
        held: Mapping[Partition, str],
        holds: Mapping[Partition, str],
        joined_ms: int,
        leader: str | None,
        assignor: str | None,
        changes: MemberChanges,
        value: GroupMetadataValue,
        at: LogPosition,
        offsets: CommittedOffsets,
        coordinator_change: CoordinatorChange | None,
        write_pause: WritePause | None,
    ) -> list[Transition]:
        generation = value.generation
        skipped = 0
        # A group is made in generation 0, and empty.
        was, began = (GroupState.EMPTY, 0) if previous is None else (resting_state(len(old)), previous)
        if previous is not None and generation < previous:
            self.notes.add("generation_regressed", f"generation {generation} follows {previous}", at)
        elif not can_reach(was, self.state, generation - began):
            self.notes.add("impossible_move", f"{self.state} in generation {generation}", at)
        elif previous is not None and generation > previous + 1:
            skipped = generation - previous - 1
            self.generations_skipped += skipped
            self.notes.add(
                "generation_gap", f"generation {generation} follows {previous}: {skipped} never completed", at
            )
        left = self.left_before + changes.left
        idle_since = {**self._withheld, **self._idle_since_migration()}
        self.left_before = ()
        self.rebalances += 1
        # The record's two times, and that of the generation before, may contradict each other: then neither says how
        # long anything took.
        told_ms, began_ms = value.current_state_timestamp, self.pace.since_ms
        is_dated = _may_end_join_phase(value, at) and (began_ms is None or told_ms >= began_ms - TOLERANCE_MS)
        sync_ms = max(at.timestamp_ms - told_ms, 0) if self.members and is_dated else None
        # Of a group that nobody is left in, those that were tell it.
        cooperative = self._is_cooperative(self.members or old)
        is_first_seen = previous is None and generation > FIRST_GENERATION
        # Times of the records, as far as they can be reckoned with.
        end_ms = bounded_ms(told_ms if is_dated else at.timestamp_ms)
        since_ms = None if began_ms is None else min(bounded_ms(began_ms), end_ms)
        facts = RebalanceFacts(
            before=old,
            after=self.members,
            joined=changes.joined,
            left=left,
            replaced=changes.replaced,
            activity=self.pace.commit_activities(self.name, old.values(), offsets),
            since_ms=since_ms,
            joined_ms=None if since_ms is None else min(bounded_ms(joined_ms), since_ms),
            end_ms=end_ms,
            leader=leader,
            withheld_partitions=0 if self._still_waits(held, holds) else len(self._withheld),
            given_up_ms=self._given_up_ms(since_ms, end_ms, offsets) if changes.joined or left else None,
            skipped_generations=skipped,
            migrated=self._migrated,
            cooperative=cooperative,
            creates_internal_topics=self._is_first and value.protocol == "stream",
            notice_ms=self.pace.notice_ms,
            known_departures=self._told_before,
            is_first_seen=is_first_seen,
            coordinator_change=coordinator_change,
            write_pause=write_pause,
            has_deleted_topic=offsets.moved.is_followed(self.name) and not _may_commit_unmoved(old),
            assignors=(assignor, value.protocol)
            if assignor and value.protocol and assignor != value.protocol
            else None,
            forgotten_topics=self._forgotten_topics(old, offsets) if cooperative else (),
        )
        inferred = infer_rebalance(facts)
        if (took := notice_time_ms(facts, inferred)) is not None:
            self.pace.record_notice_time(took, len(self.members) - len(changes.joined))
        # What brings members into a group that had lost them all ends a standstill that no rebalance began; since
        # when is kept of Connect's tasks alone.
        stopped_ms = None
        is_timed = at.timestamp_ms >= 0 and (is_dated or told_ms < 0)
        if is_timed and not is_first_seen and (old or not previous or self._withheld):
            stopped_ms = stopped_partition_ms(
                facts,
                inferred.began_ms,
                at.timestamp_ms,
                idle_since,
                cooperative=cooperative,
                held_before=held,
                held_after=holds,
                departures=inferred.departures,
            )
        self._migrated, self._told_before = False, _NOTHING
        self._is_first = not old and not is_first_seen
        self._withheld = (
            self._newly_withheld(held.keys(), holds.keys(), changes, value, at, offsets) if cooperative else _NOTHING
        )
        who = (at, self.name, self.group_type)
        out: list[Transition] = [
            Rebalanced(
                *who,
                generation,
                previous,
                value.protocol,
                changes.joined,
                left,
                len(self.members),
                sync_ms=sync_ms,
                stopped_partition_ms=stopped_ms,
                inferred=inferred,
            )
        ]
        out += [MemberLeft(*who, generation, member, inferred.departures.get(member.member_id)) for member in left]
        out += [StaticMemberReplaced(*who, generation, before, after) for before, after in changes.replaced]
        out += [MemberJoined(*who, generation, member) for member in changes.joined]
        change = assignment_diff(held, holds)
        if change.gained or change.lost:
            out.append(AssignmentChanged(*who, generation, *change, self._imbalance()))
        if not self.members and (old or previous is None):
            out.append(GroupEmptied(*who, generation))
        return out

    def _is_cooperative(self, members: Mapping[str, Member]) -> bool:
        """Whether members keep partitions through a rebalance: they say so by owning some as they join (KIP-429,
        KIP-415 in Connect from its protocol version 1 on)."""
        if self.group_type is GroupType.CONNECT:
            return self.protocol != "default"
        return any(member.owned for member in members.values())

    def _forgotten_topics(self, old: Mapping[str, Member], offsets: CommittedOffsets) -> set[str]:
        """Topics that nobody has any more, and of which nothing is committed: as of those that were deleted."""
        gone = _held_topics(old) - _held_topics(self.members)
        if not gone or not self._commits(offsets):
            return set()
        return gone - {topic for topic, _ in offsets.slots(self.name)}

    def _commits(self, offsets: CommittedOffsets) -> bool:
        """Whether the group is known to commit, so that a topic of which nothing is committed says something; also
        where all that it had committed went with its topics."""
        is_followed = offsets.moved.is_followed(self.name)
        return bool(offsets.count(self.name)) or is_followed or self.pace.usual_ms is not None

    def _newly_withheld(
        self,
        held: Set[Partition],
        holds: Set[Partition],
        changes: MemberChanges,
        value: GroupMetadataValue,
        at: LogPosition,
        offsets: CommittedOffsets,
    ) -> dict[Partition, int]:
        """Partitions without an owner that are still wanted, and since when: a cooperative round takes them back from
        one member before the next gives them to another. What that gives to nobody is of a topic that was deleted;
        or, if it is committed, or the group commits nothing, its owner had missed the round before, and there is
        one more. Of Connect it is of a connector that was deleted, unless the leader holds tasks back."""
        wanted = {topic for member in self.members.values() for topic in member.subscription}
        is_connect = self.group_type is GroupType.CONNECT
        may_wait = _holds_tasks_back(value) if is_connect else any(changes) or not self._commits(offsets)
        known = self._withheld if len(self._withheld) <= MOST_WITHHELD else _NOTHING
        waits = {it for it in known if may_wait or offsets.commit(self.name, *it) is not None}
        return {
            partition: self._withheld.get(partition, at.timestamp_ms)
            for partition in (held | waits) - holds
            if is_connect or partition[0] in wanted
        }

    def _given_up_ms(self, since_ms: int | None, end_ms: int, offsets: CommittedOffsets) -> int | None:
        """When one of the partitions that wait for an owner was committed first since the round that took it back: as
        it was given up, which may take as long as its owner is at work on what it polled."""
        found = (offsets.commit(self.name, *it) for it in self._withheld)
        committed = (it[0].commit_ms for it in found if it is not None)
        return min((at_ms for at_ms in committed if (since_ms or 0) < at_ms <= end_ms), default=None)

    def _still_waits(self, held: Mapping[Partition, str], holds: Mapping[Partition, str]) -> bool:
        """Whether Connect's leader goes on holding back all that it held back, and assigns something else: then it is
        that which this round was for, as a connector that was made or deleted."""
        if self.group_type is not GroupType.CONNECT or not self._withheld:
            return False
        return held != holds and self._withheld.keys().isdisjoint(holds)

    def _idle_since_migration(self) -> dict[tuple[str, int], int | None]:
        """What members had that left with a migration, and since when nobody works on it (None: not known)."""
        out: dict[tuple[str, int], int | None] = {}
        for member in self.left_before:
            how = self._told_before[member.member_id]
            silent_ms = 0 if how.cause is Cause.MEMBER_LEFT else how.evidence.get("gap_ms")
            since_ms = None if how.departed_ms is None or silent_ms is None else how.departed_ms - silent_ms
            out |= {(topic, it): since_ms for topic, partitions in member.assignment.items() for it in partitions}
        return out

    def _same_generation(
        self, old: Mapping[str, Member], changes: MemberChanges, change: AssignmentDiff, at: LogPosition
    ) -> list[Transition]:
        who = (at, self.name, self.group_type)
        is_moved = bool(change.gained or change.lost)
        was = resting_state(len(old))
        if not can_reach(was, self.state, 0):
            self.notes.add("impossible_move", f"{was} to {self.state} within generation {self.generation}", at)
        elif changes.joined or changes.left:
            self.notes.add(
                "members_changed_without_rebalance",
                f"{len(changes.joined)} joined and {len(changes.left)} left within generation {self.generation}",
                at,
            )
        elif is_moved:
            self.notes.add(
                "assignment_changed_without_rebalance",
                f"{change.gained} partitions gained an owner and {change.lost} lost theirs within generation"
                f" {self.generation}",
                at,
            )
        out: list[Transition] = [MemberLeft(*who, self.generation, member) for member in changes.left]
        out += [StaticMemberReplaced(*who, self.generation, before, after) for before, after in changes.replaced]
        out += [MemberJoined(*who, self.generation, member) for member in changes.joined]
        if is_moved:
            out.append(AssignmentChanged(*who, self.generation, *change, self._imbalance()))
        if old and not self.members:
            out.append(GroupEmptied(*who, self.generation))
        return out

    def _read_members(
        self, value: GroupMetadataValue, at: LogPosition, offsets: CommittedOffsets
    ) -> dict[str, Member]:
        members: dict[str, Member] = {}
        before, raw = self._raw, dict[str, MemberMetadata]()
        # One leader writes all assignments, in one version; a client that gets nothing may get no bytes at all.
        assigned = next((it.assignment for it in value.members if len(it.assignment) >= 2), None)
        version = None if assigned is None else int.from_bytes(assigned[:2], signed=True)
        leader = next((it for it in value.members if it.member_id == value.leader), None)
        leader_form = None if leader is None or self.protocol_type != "consumer" else _program_form(leader)
        # One by one members ask for it that do not show what they are by how they join.
        has_metadata = cache(partial(offsets.has_metadata, self.name))
        for metadata in value.members:
            member_id = metadata.member_id
            # Most members come out of a rebalance as they went in; their payloads need no second reading.
            known = before.get(member_id)
            if known is not None and known == metadata and member_id in self.members:
                # As it was before, which shares its texts with the member.
                raw[member_id], members[member_id] = known, self.members[member_id]
            else:
                raw[member_id] = metadata
                # Groups may have members of two libraries: the leader's version tells of those alone that join alike.
                told = version if leader_form is not None and leader_form == _program_form(metadata) else None
                read = self._read_member(metadata, told, at, has_metadata)
                members[member_id] = _keep_library(read, self.members.get(member_id))
        self._raw = raw
        return members

    def _read_member(
        self,
        metadata: MemberMetadata,
        assignment_version: int | None,
        at: LogPosition,
        has_metadata: Callable[[], bool],
    ) -> Member:
        subscription: tuple[str, ...] = ()
        rack_id = None
        owned = None
        assignment: dict[str, tuple[int, ...]] = {}
        form: JoinForm | None = None
        if self.protocol_type == "connect":
            worker = self._payload(ConnectWorkerState, metadata.subscription, metadata, at)
            brought = (worker.message.allocation if worker is not None else None) or b""
            assignment = _merge_connect_tasks(
                self._payload(ConnectAssignment, brought, metadata, at),
                self._payload(ConnectAssignment, metadata.assignment, metadata, at),
            )
        elif self.protocol_type == "consumer":
            wanted = self._payload(ConsumerProtocolSubscription, metadata.subscription, metadata, at)
            assignment = self._assignment(metadata, at)
            if wanted is not None:
                joined = wanted.message
                subscription, rack_id = joined.topics, joined.rack_id
                owned = _partitions_by_topic(joined.owned_partitions) or _NOTHING
                form = JoinForm(wanted.version, wanted.fields_version, joined.user_data, rack_id, assignment_version)
        # Where the version has no rebalance timeout the broker uses the session timeout.
        has_rebalance_timeout = metadata.rebalance_timeout != -1
        rebalance_timeout_ms = metadata.rebalance_timeout if has_rebalance_timeout else metadata.session_timeout
        traits = ClientTraits(
            metadata.client_id,
            self.name,
            self.protocol_type,
            self.protocol,
            metadata.session_timeout,
            rebalance_timeout_ms,
            form,
        )
        recognized = recognize(traits)
        if recognized is NOT_RECOGNIZED and has_metadata():
            recognized = recognize(traits._replace(commits_metadata=True))
        return Member(
            member_id=metadata.member_id,
            client_id=metadata.client_id,
            client_host=metadata.client_host,
            instance_id=metadata.group_instance_id,
            rack_id=rack_id,
            session_timeout_ms=metadata.session_timeout,
            rebalance_timeout_ms=rebalance_timeout_ms,
            client_library=recognized.library,
            library_evidence=recognized.evidence,
            subscription=subscription,
            assignment=assignment,
            owned=owned,
        )

    def _assignment(self, metadata: MemberMetadata, at: LogPosition) -> dict[str, tuple[int, ...]]:
        data = metadata.assignment
        if (known := _one_assignment.get(data)) is not None:
            return known
        given = self._payload(ConsumerProtocolAssignment, data, metadata, at)
        if given is None:
            return {}
        assignment = _partitions_by_topic(given.message.assigned_partitions)
        if len(data) <= _MAX_SHARED_BYTES:
            if len(_one_assignment) >= _MOST_SHARED:
                _one_assignment.clear()
            _one_assignment[data] = assignment
        return assignment

    def _payload(
        self, message: type[Payload], data: bytes, metadata: MemberMetadata, at: LogPosition
    ) -> LenientPayload[Payload] | None:
        if not data:
            # A member that joined while no assignment was made for it (or a client that sent none).
            return None
        try:
            if message is ConsumerProtocolSubscription:
                return cast(LenientPayload[Payload], _read_subscription(data))
            return decode_leniently(message, data)
        except WireError as error:
            self.notes.add("undecodable_payload", f"member {metadata.member_id}: {error}", at)
            return None

    def _imbalance(self) -> float | None:
        found = fairness(self.group_type, [it.partitions for it in self.members.values()], self._members_by_id)
        return None if found is None else found.ratio

    def _members_by_id(self) -> tuple[Member, ...]:
        return tuple(self.members[member_id] for member_id in sorted(self.members))

    def view(self, partition: int, committed_partitions: int, last_commit_ms: int | None) -> GroupView:
        """The group as a plain value."""
        return GroupView(
            group=self.name,
            group_type=self.group_type,
            state=self.state,
            generation=self.generation,
            protocol_type=self.protocol_type,
            protocol=self.protocol,
            leader=self.leader,
            target_generation=None,
            state_since_ms=self.state_since_ms,
            members=self._members_by_id(),
            coordinator_partition=partition,
            committed_partitions=committed_partitions,
            last_commit_ms=last_commit_ms,
            rebalances=self.rebalances,
            generations_skipped=self.generations_skipped,
            anomalies=tuple(self.notes.latest),
        )


def _partitions_by_topic(items: Iterable[TopicPartition]) -> dict[str, tuple[int, ...]]:
    """A topic may come more than once: librdkafka's cooperative-sticky adds what is new behind what was there."""
    pieces: dict[str, list[tuple[int, ...]]] = {}
    for item in items:
        pieces.setdefault(item.topic, []).append(item.partitions)
    # One piece as it is: it is one object in all members that have the same.
    return {topic: them[0] if len(them) == 1 else tuple(chain(*them)) for topic, them in pieces.items()}


_one_assignment: dict[bytes, dict[str, tuple[int, ...]]] = {}
"""Members of groups that read the same topics mostly hold the same of them."""


@lru_cache(maxsize=1024)
def _subscription(data: bytes) -> LenientPayload[ConsumerProtocolSubscription]:
    # Members of a group, and groups of an application, mostly subscribe alike: to the byte.
    return decode_leniently(ConsumerProtocolSubscription, data)


def _read_subscription(data: bytes) -> LenientPayload[ConsumerProtocolSubscription]:
    if len(data) <= _MAX_CACHED_BYTES:
        return _subscription(data)
    return decode_leniently(ConsumerProtocolSubscription, data)


def _program_form(member: MemberMetadata) -> tuple[object, ...] | None:
    """What members of one program have in common: their timeouts, and the form of their subscription. None: it has no
    consumer's subscription."""
    try:
        read = _read_subscription(member.subscription)
    except WireError:
        return None
    joined = read.message
    form = read.version, read.fields_version, joined.user_data is None, joined.rack_id is None
    return member.session_timeout, member.rebalance_timeout, *form


def _merge_connect_tasks(
    brought: LenientPayload[ConnectAssignment] | None, given: LenientPayload[ConnectAssignment] | None
) -> dict[str, tuple[int, ...]]:
    """What a Connect worker runs: what it brought, without what the leader took, with what it gave (KIP-415).

    From version 1 on the leader sends only what changes (`WorkerCoordinator.onJoinComplete` merges it); in version
    0 a worker brings nothing and is given everything.
    """
    held: dict[str, set[int]] = {}
    for item in (brought.message.assignment if brought is not None else None) or ():
        held.setdefault(item.connector, set()).update(item.tasks)
    for item in (given.message.revoked if given is not None else None) or ():
        held.setdefault(item.connector, set()).difference_update(item.tasks)
    for item in (given.message.assignment if given is not None else None) or ():
        held.setdefault(item.connector, set()).update(item.tasks)
    return {connector: tuple(sorted(tasks)) for connector, tasks in held.items() if tasks}


def _holds_tasks_back(value: GroupMetadataValue) -> bool:
    """Whether a Connect leader waits for a worker that may come back, whose tasks nobody has meanwhile; or had not
    read enough to assign any, or there is none that could."""
    for member in value.members:
        with suppress(WireError):
            given = decode_leniently(ConnectAssignment, member.assignment).message
            return given.delay > 0 or given.error != 0
    return True


def _keep_library(member: Member, known: Member | None) -> Member:
    """A member whose library does not show in its newest form has the one that showed before."""
    if member.client_library != UNKNOWN or known is None or known.client_library == UNKNOWN:
        return member
    return replace(member, client_library=known.client_library, library_evidence=known.library_evidence)


def _may_end_join_phase(value: GroupMetadataValue, at: LogPosition) -> bool:
    """Whether a join phase can have ended at the time in the record: a broker waits for the assignment for as long as
    members may take to rejoin, and an empty group's record is written at once."""
    longest_ms = max((max(it.rebalance_timeout, it.session_timeout) for it in value.members), default=0)
    took_ms = at.timestamp_ms - value.current_state_timestamp
    return value.current_state_timestamp > 0 and -TOLERANCE_MS <= took_ms <= min(
        longest_ms + TOLERANCE_MS, PARAMETERS.longest_sync_ms
    )


def _state_since_ms(value: GroupMetadataValue, at: LogPosition, *, may_be_old: bool) -> int:
    """Since when the group is in its state: by the record's own time where that cannot be. `may_be_old`: the record
    may be one for a static member that came back to a generation that had long begun."""
    told_ms = value.current_state_timestamp
    is_of_return = may_be_old and any(it.group_instance_id is not None for it in value.members)
    if _may_end_join_phase(value, at) or (is_of_return and 0 < told_ms <= at.timestamp_ms + TOLERANCE_MS):
        return told_ms
    return at.timestamp_ms


def _may_commit_unmoved(members: Mapping[str, Member]) -> bool:
    return any(
        may_commit_unmoved(it.client_library, it.session_timeout_ms, it.rebalance_timeout_ms)
        for it in members.values()
    )


def _held_topics(members: Mapping[str, Member]) -> set[str]:
    return {topic for member in members.values() for topic, partitions in member.assignment.items() if partitions}
