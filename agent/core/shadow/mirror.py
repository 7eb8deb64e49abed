"""The mirror of one partition of `__consumer_offsets`: every group that lives in it, by replaying its records.

One reducer: the agent, the offline commands and the Spark jobs all call this over the same records and get the
same transitions. Partitions share nothing, so any number of them may be mirrored side by side.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import ChainMap, Counter, deque
from collections.abc import Callable, Collection, Iterator, Mapping, MutableMapping, Sequence
from copy import copy
from itertools import pairwise
from pathlib import PurePath
from traceback import extract_tb
from typing import ClassVar, NamedTuple, cast

from msgspec.structs import replace

from agent.core.inference.external_evidence import EvidenceSource, apply_evidence
from agent.core.inference.facts import CoordinatorChange, WritePause, bounded_ms
from agent.core.inference.origin_evidence import NOTHING, PartitionOrigins
from agent.core.inference.origins import OriginSource
from agent.core.inference.parameters import PARAMETERS
from agent.core.inference.session_settings import SessionSetting
from agent.core.packed import PackedColumn
from agent.core.protocol.states import GroupType
from agent.core.records import RawRecord, RecordBatch
from agent.core.shadow.classic import FIRST_GENERATION, ClassicGroup
from agent.core.shadow.diff import owners_by_partition
from agent.core.shadow.kip848 import GROUP_CLASSES_BY_KEY_TYPE, ConsumerGroup, EpochGroup, ShareGroup, StreamsGroup
from agent.core.shadow.offsets import CommittedOffsets, MovedPositions
from agent.core.shadow.transitions import GroupCreated, GroupDeleted, LogPosition, OffsetsDeleted, Transition
from agent.core.shadow.views import CommittedOffset, GroupView
from agent.core.state_fields import StateFields, put_or_drop
from agent.core.wire.classic import GroupMetadataKey, GroupMetadataValue
from agent.core.wire.consumer import ConsumerGroupPartitionMetadataValue, GroupMemberKey
from agent.core.wire.errors import InternalFault, WireError
from agent.core.wire.offset_commit_fastpath import (
    Slot,
    canonical_key,
    fixed_topic_id,
    has_fixed_layout,
    read_commit_slot,
    slot_of,
    topic_id_of,
)
from agent.core.wire.offsets import OffsetCommitKey
from agent.core.wire.primitives import ZERO_UUID, Uuid
from agent.core.wire.records import Record, Tombstone, TransactionMarker, Undecodable, decode
from agent.core.wire.share import ShareGroupStatePartitionMetadataValue

OFFSET_COMMIT = "offset_commit"
MAX_REJECTS = 100
MIN_KNOWN_COMMITS = 256
"""Commits of known positions in a row, before the rest of a batch is tried as a whole again."""

NEW_AT_ONCE = 128
"""Of packed commits, whose positions are given numbers before the commits are put: that many at most, and few at
first, since what follows may be of a group that is not known yet."""

MAX_NAMES = 50_000
"""Topics of which a partition keeps the names: those that its records have shown last. Ids are never used again, so
where topics are made and deleted all the time there would be ever more of them."""

RECORDS_AFTER_PAUSE = 256
"""A pause of a partition counts for so many records behind it: clients have a commit each on its way meanwhile."""

LARGE_BYTES = 8_192
"""Of a group record's value: decoding one that is longer takes over a millisecond."""

SMALL_AT_ONCE = 16
"""At most so many records of groups that are not large, which mostly take 0.4 ms each, and together no more than one
large group has of anything, as far as that is known before they are decoded."""

POSITIONS_AS_ONE = 40
"""Committed offsets, at which a record of the group looks: 0.5 µs each."""

LEAST_BYTES, COMMON_BYTES = 3, 16
"""That a topic takes in a record, where each partition and member takes more; and what each of them mostly takes."""

LARGE_GROUP = 500
"""Members, topics and partitions: a record of all of it takes 2 to 20 µs for a partition, 100 for a member."""

Group = ClassicGroup | EpochGroup


class RejectedRecord(NamedTuple):
    """A record that could not be decoded, or applied: where it is, and why."""

    at: LogPosition
    error: WireError


class BulkFailed(Exception):
    """Commits could not be applied together, which is a fault of ours; it does not tell which of them it is about."""

    def __init__(self, index: int) -> None:
        """`index`: of the first that was not applied."""
        super().__init__(f"commits from index {index} of a batch on could not be applied together")
        self.index = index


class PartitionMirror:
    """The groups of one partition. State changes by `replay` and `replay_batch` alone."""

    STATE: ClassVar = StateFields(
        {
            "offsets": CommittedOffsets,
            "moved": MovedPositions,
            "groups": dict[str, ClassicGroup | ConsumerGroup | ShareGroup | StreamsGroup],
            "_leaving": dict[str, ClassicGroup | ConsumerGroup | ShareGroup | StreamsGroup],
            "names": dict[Uuid, str],
            "origins": PartitionOrigins,
            "next_offset": int,
            "_leader_epoch": int,
            "_newest_ms": int,
            "coordinator_change": CoordinatorChange | None,
            "record_counts": Counter[str],
            "error_counts": Counter[str],
        }
    )

    sampled_every_ms: int | None = None
    """Where groups are looked at and no records of theirs are read: how often (`sampled_mirror`)."""

    def __init__(
        self,
        partition: int,
        evidence_source: EvidenceSource | None = None,
        origin_source: OriginSource | None = None,
    ) -> None:
        """`evidence_source` may know more than the records do: of a rebalance, as a broker's log or the Admin API, or
        of sessions, as brokers' settings. `origin_source` may know what happened to members' pods."""
        self.partition = partition
        self._evidence_source = evidence_source
        self._origin_source = origin_source
        self.origins = PartitionOrigins()
        self.groups: dict[str, Group] = {}
        self.offsets = CommittedOffsets()
        self.moved = self.offsets.moved
        self.names: MutableMapping[Uuid, str] = {}
        """Topic names by id, as the partition's own records have shown them: `MAX_NAMES` at most, the latest last."""
        self.names_version = 0
        """Raised where `names` changes."""
        self.next_offset = 0
        """The offset behind the last record that was replayed."""
        # Of the last record that was replayed as part of a batch; -1: not known.
        self._leader_epoch = -1
        self._newest_ms = -1
        self.coordinator_change: CoordinatorChange | None = None
        """The newest that the records show, where they have their leaders' epochs."""
        # The times of the newest records that were replayed as part of a batch.
        self._newest_times_ms: deque[int] = deque(maxlen=RECORDS_AFTER_PAUSE + 1)
        self.record_counts: Counter[str] = Counter()
        """Records by type; what cannot be decoded is in `error_counts` instead."""
        self.error_counts: Counter[str] = Counter()
        self.rejects: deque[RejectedRecord] = deque(maxlen=MAX_REJECTS)
        """The latest that could not be decoded, for whoever logs them to drain."""
        # Groups whose record was deleted while they had members or offsets: a migration shows in what follows.
        self._leaving: dict[str, Group] = {}

    def after_restore(self) -> None:
        """Give the offsets what is no state of theirs; of a pause just before nothing is known, but of one now."""
        self.offsets.moved = self.moved
        times_ms = () if self._newest_ms < 0 else (self._newest_ms,)
        self._newest_times_ms = deque(times_ms, maxlen=RECORDS_AFTER_PAUSE + 1)

    def replay_batch(
        self,
        batch: RecordBatch,
        *,
        passes_over: bool = False,
        observe: Callable[[Sequence[Transition]], object] | None = None,
    ) -> list[Transition]:
        """Apply consecutive records of the partition; the same as `replay` of each, only faster. `passes_over`: one
        that raises is passed over (`pass_over`). `observe` is told of what one record changed, as soon as it did."""
        out: list[Transition] = []
        assert batch.partition == self.partition, "a batch belongs to one partition"
        index, end, in_bulk = 0, len(batch), True
        while index < end:
            try:
                index, transitions = self.replay_until_transition(batch, index, end, in_bulk=in_bulk)
            except Exception as error:
                if not passes_over or isinstance(error, MemoryError):
                    raise
                index, transitions = self.pass_over(batch, index, error)
            in_bulk = not transitions
            if observe is not None:
                observe(transitions)
            out += transitions
        return out

    def replay_until_transition(
        self, batch: RecordBatch, start: int, stop: int, *, in_bulk: bool = True
    ) -> tuple[int, list[Transition]]:
        """Apply a batch's records from index `start` on and before `stop`, at most to the first that changes a group.

        The index behind the last that was applied, and its transitions. `in_bulk`: whether it is worth trying to
        take all of them for commits of known positions, which is by far the fastest.
        """
        keys, values = batch.keys, batch.values
        if batch.leader_epochs:
            stop = self._note_leader(batch, start, stop)
        gone = self._gone()
        if isinstance(keys, PackedColumn) and isinstance(values, PackedColumn) and not gone:
            index = self._put_packed(batch, keys, values, start, stop)
            if index == stop:
                return index, []
            # What that one is shows below, and what follows may be plain again.
            start, stop = index, index + 1
        elif in_bulk and not gone:
            is_part = start or stop < len(keys)
            some = (keys[start:stop], values[start:stop]) if is_part else (keys, values)
            if self.offsets.put_known_batch(*some):
                self.record_counts[OFFSET_COMMIT] += stop - start
                self._note_passed(batch, start, stop)
                return stop, []
        put, commits, known_in_a_row = self.offsets.put_known, 0, 0
        # After so many known ones the others may be known as well: a quarter, so that it is not tried too often.
        enough = max(MIN_KNOWN_COMMITS, (stop - start) // 4)
        transitions: list[Transition] = []
        for index in range(start, stop):
            key, value = keys[index], values[index]
            if not gone and value is not None and has_fixed_layout(value):
                if put(key, value):
                    commits += 1
                    known_in_a_row += 1
                    if known_in_a_row == enough:
                        break
                    continue
                known_in_a_row = 0
                if key is not None and (read := read_commit_slot(key)) is not None:
                    group, slot = read
                    self.offsets.put_new(key, group, slot, value)
                    if (topic_id := fixed_topic_id(value)) is not None:
                        self._learn_name(topic_id, slot[0])
                    commits += 1
                    if group not in self.groups:
                        at = LogPosition(self.partition, batch.offsets[index], batch.timestamps_ms[index])
                        transitions = self._make_simple_group(group, at)
                        if transitions:
                            break
                    continue
            record = RawRecord(self.partition, batch.offsets[index], batch.timestamps_ms[index], key, value)
            # What came before stays where this one raises.
            self.record_counts[OFFSET_COMMIT] += commits
            commits = 0
            if index > start:
                self._note_passed(batch, start, index)
                start = index
            transitions = self.replay(record)
            if transitions:
                break
            gone = self._gone()
        self.record_counts[OFFSET_COMMIT] += commits
        self._note_passed(batch, start, index + 1)
        return index + 1, transitions

    def _note_passed(self, batch: RecordBatch, start: int, stop: int) -> None:
        """A batch's records from index `start` on and before `stop` were applied."""
        self.next_offset, self._newest_ms = batch.offsets[stop - 1] + 1, batch.timestamps_ms[stop - 1]
        self._newest_times_ms.extend(batch.timestamps_ms[max(stop - RECORDS_AFTER_PAUSE - 1, start) : stop])

    def _newest_pause(self, at_ms: int) -> tuple[int, int] | None:
        """Between which times nothing was written for as long as a session may be, if it was just before the record
        of that time."""
        least_ms = PARAMETERS.kip848_shortest_session_timeout_ms
        times_ms = [*map(bounded_ms, self._newest_times_ms), bounded_ms(at_ms)]
        newest_first = pairwise(reversed(times_ms))
        return next(((since, until) for until, since in newest_first if until - since >= least_ms), None)

    def _write_pause(self, group: str, at_ms: int) -> WritePause | None:
        """The newest pause, if it was just before a record of the group."""
        if (found := self._newest_pause(at_ms)) is None:
            return None
        active_ms = found[0] - 2 * PARAMETERS.commit_interval_ms
        return WritePause(*found, of_others=self.offsets.others_committed_since(active_ms, group))

    def _put_packed(self, batch: RecordBatch, keys: PackedColumn, values: PackedColumn, start: int, stop: int) -> int:
        """Apply plain commits of groups that are known, from index `start` on: the index behind them. Raises
        `BulkFailed` where one is a fault of ours: all before its index were applied."""
        index, some = start, 1  # it may be the record of a group
        try:
            while True:
                before, index = index, self.offsets.put_packed(keys, values, index, stop)
                if index > before:
                    self.record_counts[OFFSET_COMMIT] += index - before
                    self._note_passed(batch, before, index)
                if index == stop or not self._number_new(keys, values, index, min(index + some, stop)):
                    return index
                some = min(some * 4, NEW_AT_ONCE)
        except MemoryError:
            raise
        except Exception as error:
            raise BulkFailed(index) from error

    def _number_new(self, keys: PackedColumn, values: PackedColumn, start: int, stop: int) -> bool:
        """Give the positions of plain commits from index `start` on their numbers, so that they can be put; whether
        the first one is one."""
        new, slots = self.offsets.number_packed(keys, start, stop, self.groups)
        learned = None
        for (topic, _), value in zip(slots, values.at(new), strict=True):
            topic_id = fixed_topic_id(cast(bytes, value))
            if topic_id is not None and (topic_id, topic) != learned:
                self._learn_name(topic_id, topic)
                learned = topic_id, topic
        return bool(slots)

    def _note_leader(self, batch: RecordBatch, start: int, stop: int) -> int:
        """Note who leads the partition as of index `start`; the index of the first record behind that another leader
        appended, at most `stop`."""
        epochs = batch.leader_epochs
        if (epoch := epochs[start]) > self._leader_epoch:
            if self._leader_epoch >= 0:
                since_ms, until_ms = bounded_ms(self._newest_ms), bounded_ms(batch.timestamps_ms[start])
                pause = self._newest_pause(self._newest_ms)
                if pause is not None and since_ms - pause[1] <= PARAMETERS.heartbeat_interval_ms:
                    # A leader that stood still writes as it goes on, until it hears that it is none any more.
                    since_ms = pause[0]
                self.coordinator_change = CoordinatorChange(since_ms, until_ms)
            self._leader_epoch = epoch
        return stop if epochs[stop - 1] <= epoch else bisect_right(epochs, epoch, start, stop)

    def replay(self, record: RawRecord) -> list[Transition]:
        """Apply one record: the transitions that it shows, in order. Never raises for bad bytes: see `rejects`."""
        at = LogPosition(record.partition, record.offset, record.timestamp_ms)
        self.next_offset = record.offset + 1
        entry = decode(record.key, record.value, control=record.control)
        match entry:
            case Undecodable(error=error):
                self.error_counts[error.kind] += 1
                self.rejects.append(RejectedRecord(at, error))
                return []
            case TransactionMarker():
                self.record_counts["transaction_marker"] += 1
                return []
        self.record_counts[entry.type.name] += 1
        match entry.key:
            case OffsetCommitKey(group=group, topic=topic, partition=partition):
                deleted = self._delete_gone(at)
                if isinstance(entry, Tombstone):
                    return deleted + self._delete_commit(record, group, topic, partition, at)
                assert record.key is not None, "a commit has a key"
                assert record.value is not None, "only a tombstone has no value"
                self._put_commit(canonical_key(record.key), group, slot_of(topic, partition), record.value)
                return deleted if group in self.groups else deleted + self._make_simple_group(group, at)
            case GroupMetadataKey(group=name):
                out = self._replay_classic(name, entry.value if isinstance(entry, Record) else None, at)
            case _:
                out = self._replay_epoch_group(entry, at)
        if self._evidence_source is not None:
            out = apply_evidence(out, self._evidence_source)
        return self._with_origins(out)

    def pass_over(self, batch: RecordBatch, start: int, error: Exception) -> tuple[int, list[Transition]]:
        """Of a batch's records from index `start` on one raised, which no record may: note it as one that could not
        be decoded. The index behind it. What it did to its group by then stays; the group's next record mends that
        for a classic one.

        Where several raised together, the first of them is applied alone, and passed over if it raises again: its
        transitions. It may be none of the fault."""
        if isinstance(error, BulkFailed):
            index = error.index
            at_ms, key, value = batch.timestamps_ms[index], batch.keys[index], batch.values[index]
            try:
                transitions = self.replay(RawRecord(self.partition, batch.offsets[index], at_ms, key, value))
                self._note_passed(batch, index, index + 1)
                return index + 1, transitions
            except MemoryError:
                raise
            except Exception as alone:  # noqa: BLE001  # whatever it is, it is told below
                error = alone
        index = min(bisect_left(batch.offsets, self.next_offset - 1, start), len(batch) - 1)
        at = LogPosition(self.partition, batch.offsets[index], batch.timestamps_ms[index])
        where = extract_tb(error.__traceback__)[-1]
        text = f"{type(error).__name__}: {error} ({PurePath(where.filename).name}, line {where.lineno})"
        fault = InternalFault(f"kshadow could not apply this record, which is a fault of its own: {text}")
        self.next_offset = at.offset + 1
        self.error_counts[fault.kind] += 1
        self.rejects.append(RejectedRecord(at, fault))
        return index + 1, []

    def _with_origins(self, transitions: list[Transition]) -> list[Transition]:
        """The transitions of one record, with what is known of members' pods."""
        if self._origin_source is None or not transitions:
            return transitions
        return self.origins.attach(transitions, self._origin_source)

    def take_rejects(self) -> list[RejectedRecord]:
        """The latest records that could not be decoded, since the last call; at most `MAX_REJECTS`."""
        taken = list(self.rejects)
        self.rejects.clear()
        return taken

    # One group aside.

    has_forks: ClassVar = True

    def costly_records(self, batch: RecordBatch) -> list[tuple[int, bool]]:
        """The indexes of a batch's records before which others may have their turn: those that take long to apply if
        their groups are large by then, or that are long (True), and of the other group records so many that together
        they take about as long (False)."""
        keys, values = batch.keys, batch.values
        out, together, least = list[tuple[int, bool]](), 0, LARGE_GROUP // SMALL_AT_ONCE
        sizes, parts = dict[bytes, tuple[int, int]](), set[bytes]()
        for index in _group_records(batch):
            key, value_bytes = cast(bytes, keys[index]), len(values[index] or b"")
            is_costly = key[:2] in _SUMMING_UP or value_bytes > LARGE_BYTES
            weight = max(value_bytes // COMMON_BYTES, least)
            if key[:2] != _CLASSIC:
                # Each is of a part of its group, which is a classic one afterwards if it migrates.
                parts.add(key[2 : 4 + int.from_bytes(key[2:4])])
            elif key[2:] not in parts:
                # A group's own record is of all of it: it has no more of anything than a record before had room for.
                # Both that, and what it mostly has.
                most, known = sizes.get(key) or (self._size_by_key(key),) * 2
                most, weight = max(most, value_bytes // LEAST_BYTES), max(known, weight)
                sizes[key] = most, weight
                is_costly = most > LARGE_GROUP
            together += weight
            if is_costly or together > LARGE_GROUP:
                out.append((index, is_costly))
                together = 0 if is_costly else weight
        return out

    def _size_by_key(self, key: bytes) -> int:
        """Of a classic group, by the key of its record."""
        name = key[_NAME_AT:].decode(errors="replace")  # of a key that is none there is no group
        groups = (self.groups.get(name), self._leaving.get(name))
        positions = self.offsets.count(name) // POSITIONS_AS_ONE
        return positions + sum(it.size for it in groups if it is not None)

    def large_group(self, key: bytes | None, value: bytes | None) -> str | None:
        """The group of one of the `costly_records` that may take long to apply, if it does: it is long, or the group
        large."""
        match decode(key, None):
            case Tombstone(key=GroupMetadataKey(group=name)):
                pass
            case Tombstone(key=its_key) if not isinstance(its_key, OffsetCommitKey):
                name = its_key.group_id  # type: ignore[attr-defined]  # every key but types 0 to 2 has it
            case _:
                return None
        if value is not None and len(value) > LARGE_BYTES:
            return name
        groups = (self.groups.get(name), self._leaving.get(name))
        return name if sum(it.size for it in groups if it is not None) > LARGE_GROUP else None

    def fork(self, group: str) -> PartitionMirror:
        """A mirror of one group alone, to apply its next record to while this one stays as it is: `adopt` takes what
        came of it. Until then no record is applied here. Both have the same positions, which no group record changes.
        """
        out = copy(self)
        out.groups = {group: self.groups[group].fork()} if group in self.groups else {}
        out._leaving = {group: self._leaving[group].fork()} if group in self._leaving else {}
        out.names = ChainMap({}, cast(dict[Uuid, str], self.names))
        out.record_counts, out.error_counts = Counter(), Counter()
        out._newest_times_ms = self._newest_times_ms.copy()
        out.origins = self.origins.fork(group)
        return out

    def adopt(self, fork: PartitionMirror, group: str) -> None:
        """Take what a fork has of its group, and what else its record told, in place of what is here."""
        put_or_drop(self.groups, fork.groups, group)
        put_or_drop(self._leaving, fork._leaving, group)
        self.origins.adopt(fork.origins, group)
        assert isinstance(fork.names, ChainMap), "it is a fork"
        for topic_id, name in fork.names.maps[0].items():
            self._learn_name(cast(Uuid, topic_id), name)
        self.names_version, self.next_offset = fork.names_version, fork.next_offset
        self._leader_epoch, self._newest_ms = fork._leader_epoch, fork._newest_ms
        self.coordinator_change, self._newest_times_ms = fork.coordinator_change, fork._newest_times_ms
        self.record_counts.update(fork.record_counts)
        self.error_counts.update(fork.error_counts)

    # Offset commits.

    def _put_commit(self, key: bytes, group: str, slot: Slot, value: bytes) -> None:
        """A commit that is known to decode, of a position that may be new, under its canonical key."""
        is_new = self.offsets.put(key, group, slot, value)
        if is_new and (topic_id := topic_id_of(value)) != ZERO_UUID:
            self._learn_name(topic_id, slot[0])

    def _make_simple_group(self, group: str, at: LogPosition) -> list[Transition]:
        """The broker too makes a group of offsets that no group record announces: a simple consumer group."""
        made = self.groups[group] = ClassicGroup(group, at)
        return [GroupCreated(at, group, made.group_type, observed=False)]

    def _delete_commit(
        self, record: RawRecord, group: str, topic: str, partition: int, at: LogPosition
    ) -> list[Transition]:
        assert record.key is not None, "a tombstone has a key"
        commit = self.offsets.remove(canonical_key(record.key), group)
        if commit is None:
            return []
        known = self.groups.get(group)
        group_type = GroupType.CLASSIC if known is None else known.group_type
        out: list[Transition] = [OffsetsDeleted(at, group, group_type, topic, partition, commit.offset)]
        if isinstance(known, ClassicGroup) and known.is_simple and not self.offsets.count(group):
            # What was nothing but offsets goes with the last. 3.9 writes no more of it (GroupMetadataManager:
            # a tombstone only behind generation 0); 4.x lists it until its next clean-up and deletes it then.
            out += self._delete_group(group, known, at)
        elif isinstance(known, ClassicGroup) and any(topic in it.assignment for it in known.members.values()):
            # So they are deleted with the topic alone. Java's clients commit again and again until all is taken, and
            # do not poll meanwhile.
            self.offsets.moved.follow(group)
        return out

    # Classic groups.

    def _replay_classic(self, name: str, value: object, at: LogPosition) -> list[Transition]:
        group = self.groups.get(name)
        if value is None:
            return self._delete_group(name, group, at)
        assert isinstance(value, GroupMetadataValue), "key type 2 has such values"
        leaving = self._leaving.pop(name, None)
        if isinstance(leaving, EpochGroup) and leaving.lost_members:
            # The last KIP-848 member of a group with classic members left: the group is a classic one again.
            classic = self.groups[name] = ClassicGroup(name, at)
            classic.resume_from_migration(leaving, value, at, self.offsets)
            return []
        out: list[Transition] = []
        if leaving is not None:
            out.append(GroupDeleted(at, name, leaving.group_type))
        if isinstance(group, EpochGroup) or group is None:
            made = self.groups[name] = ClassicGroup(name, at)
        else:
            made = group
        if isinstance(group, EpochGroup):
            made.notes = group.notes
            made.notes.add("wrong_group_type", f"a classic group's record came for a {group.group_type} group", at)
        elif isinstance(leaving, ClassicGroup) and leaving.members:
            made.notes = leaving.notes
            made.notes.add(
                "tombstone_with_members", f"deleted with {len(leaving.members)} members, then made anew", at
            )
        lost = made.members.keys() - {it.member_id for it in value.members}
        pause = self._write_pause(name, at.timestamp_ms) if lost else None
        changes = made.replay(value, at, self.offsets, self.coordinator_change, pause)
        if group is None or leaving is not None:
            out.append(GroupCreated(at, name, made.group_type, observed=value.generation <= FIRST_GENERATION))
        return out + changes

    def _delete_group(self, name: str, group: Group | None, at: LogPosition) -> list[Transition]:
        """A group's own record was deleted. With members or offsets left it may be migrating: see `_leaving`."""
        if group is None:
            return []
        del self.groups[name]
        self._leaving.pop(name, None)
        self.moved.unfollow(name)
        has_members = group.lost_members if isinstance(group, EpochGroup) else bool(group.members)
        has_offsets = self.offsets.count(name) > 0
        if not has_members and not has_offsets:
            return [GroupDeleted(at, name, group.group_type)]
        self._leaving[name] = group
        group.state_since_ms = at.timestamp_ms
        if has_offsets:
            # What a broker that loads the log would have: offsets, and no group record.
            self.groups[name] = ClassicGroup(name, at)
        return []

    def _gone(self) -> Collection[str]:
        """Groups whose record was deleted while they had members, and of which nothing else is left."""
        return [name for name in self._leaving if name not in self.groups] if self._leaving else ()

    def _delete_gone(self, at: LogPosition) -> list[Transition]:
        """What a migration writes has one time: groups that went before were deleted. Told with commits alone, which
        come soon, since group records may be applied to a fork, which has no other group."""
        out: list[Transition] = []
        for name in sorted(self._gone()):
            if self._leaving[name].state_since_ms != at.timestamp_ms:
                out.append(GroupDeleted(at, name, self._leaving.pop(name).group_type))
        return out

    # Consumer (KIP-848), share and streams groups.

    def _replay_epoch_group(self, entry: Record | Tombstone, at: LogPosition) -> list[Transition]:
        key = entry.key
        name: str = key.group_id  # type: ignore[attr-defined]  # every key but types 0 to 2 has it
        member_id = key.member_id if isinstance(key, GroupMemberKey) else None
        key_type = entry.type.key_type
        cls = GROUP_CLASSES_BY_KEY_TYPE[key_type]
        role = cls.roles[key_type]
        group = self.groups.get(name)
        value = entry.value if isinstance(entry, Record) else None
        if value is None:
            if not isinstance(group, cls):
                # As a broker that loads the log: deleting what it has not got is nothing. But a group that the log
                # has shown by offsets only, of which none is left, was this one.
                is_ghost = isinstance(group, ClassicGroup) and group.is_simple and not self.offsets.count(name)
                return self._delete_group(name, group, at) if role == "epoch" and is_ghost else []
            if role == "epoch":
                return self._delete_group(name, group, at)
            self._inform(group, is_epoch=False)
            return group.replay(key_type, member_id, None, at, self.names, self.offsets)
        self._learn_names(value)
        out: list[Transition] = []
        if not isinstance(group, cls):
            group, out = self._create_epoch_group(name, cls, role, group, at)
        self._inform(group, is_epoch=role == "epoch")
        return out + group.replay(key_type, member_id, value, at, self.names, self.offsets)

    def _inform(self, group: EpochGroup, *, is_epoch: bool) -> None:
        group.session = self.session_of(group.name, group.group_type)
        group.coordinator_change = self.coordinator_change
        # Who went is told by records before that one.
        is_asked = is_epoch and group.lost_members
        group.write_pause = self._write_pause(group.name, self._newest_ms) if is_asked else None

    def session_of(self, name: str, group_type: str) -> SessionSetting | None:
        """What brokers say of a group's sessions, were it of that type; None where nobody asked them."""
        return None if self._evidence_source is None else self._evidence_source.group_session(name, group_type)

    def _create_epoch_group(
        self, name: str, cls: type[EpochGroup], role: str, group: Group | None, at: LogPosition
    ) -> tuple[EpochGroup, list[Transition]]:
        """Make the group of a record whose group is not known, or known as another type; with what that shows."""
        leaving = self._leaving.pop(name, None)
        if isinstance(leaving, ClassicGroup) and leaving.members:
            # A classic group whose record was deleted right before: a member came that speaks KIP-848. An empty
            # one is not taken over: its coordinator deletes it and starts a new one at the first epoch.
            found = self.groups[name] = cls(name, at, leaving)
            return found, []
        found = self.groups[name] = cls(name, at)
        out: list[Transition] = []
        if leaving is not None:
            out.append(GroupDeleted(at, name, leaving.group_type))
        if isinstance(group, EpochGroup) or (group is not None and not group.is_simple):
            found.notes = group.notes
            problem = f"a {cls.group_type} group's record came for a {group.group_type} group"
            found.notes.add("wrong_group_type", problem, at)
        if group is None or leaving is not None:
            if role == "member":
                found.tell_creation_with_epoch()
            else:
                # A coordinator's first record of such a group is its first member's.
                out.append(GroupCreated(at, name, found.group_type, observed=False))
        return found, out

    def _learn_names(self, value: object) -> None:
        match value:
            case ConsumerGroupPartitionMetadataValue():
                for known in value.topics:
                    self._learn_name(known.topic_id, known.topic_name)
            case ShareGroupStatePartitionMetadataValue():
                for topic in (*value.initializing_topics, *value.initialized_topics):
                    self._learn_name(topic.topic_id, topic.topic_name)

    def _learn_name(self, topic_id: Uuid, name: str) -> None:
        if self.names.get(topic_id) != name:
            self.names_version += 1
        # Anew, and so behind those that were shown before.
        self.names.pop(topic_id, None)
        self.names[topic_id] = name
        # A fork has but those of one record before it is adopted.
        if isinstance(self.names, dict) and len(self.names) > MAX_NAMES:
            del self.names[next(iter(self.names))]

    # Views.

    def views(self, names: Mapping[Uuid, str] | None = None) -> Iterator[GroupView]:
        """Every group of the partition, by name."""
        for name in sorted(self.groups):
            view = self.view(name, names)
            if view is not None:
                yield view

    def view(
        self, name: str, names: Mapping[Uuid, str] | None = None, *, with_commit: bool = True
    ) -> GroupView | None:
        """One group; `names` adds topic names that the partition's own records do not show. None: no such group.

        Without `with_commit` when it last committed is left out, which takes half the time."""
        group = self.groups.get(name)
        if group is None:
            return None
        count, last = self.offsets.count(name), self.offsets.last_commit_ms(name) if with_commit else None
        if isinstance(group, ClassicGroup):
            return self._view_with_origins(group.view(self.partition, count, last))
        # Chained, not merged: there may be as many groups as topics.
        layers = (self.offsets.topic_ids(name), self.names, names or {})
        known = ChainMap(*(cast(dict[Uuid, str], layer) for layer in layers))
        return self._view_with_origins(group.view(self.partition, count, last, known))

    def _view_with_origins(self, view: GroupView) -> GroupView:
        if self._origin_source is None:
            return view
        return replace(view, origins=dict(self.origins.joined.get(view.group, NOTHING)))

    def holders(self, view: GroupView) -> dict[tuple[str, int], str]:
        """By topic and partition, the id of the member of a group that reads it and commits it."""
        group = self.groups.get(view.group)
        members = map(group.as_committing, view.members) if isinstance(group, EpochGroup) else view.members
        return owners_by_partition({it.member_id: it.assignment for it in members})

    def undated(self, name: str) -> Collection[tuple[str, int]]:
        """Positions of a group of which it is not known when they were committed: records tell of all."""
        return ()

    def committed(self, name: str) -> tuple[CommittedOffset, ...]:
        """The committed offsets of one group."""
        return self.offsets.view(name)


_SUMMING_UP = {
    key_type.to_bytes(2)
    for key_type in (2, *(it for it, cls in GROUP_CLASSES_BY_KEY_TYPE.items() if cls.roles[it].endswith("epoch")))
}
"""The keys, in their first two bytes, of records at which all of a group is looked at."""


_CLASSIC, _NAME_AT = b"\x00\x02", 4
"""What keys of classic groups' records begin with, and where the name is. Keys of commits, of either type, come
before it."""


def _group_records(batch: RecordBatch) -> Sequence[int]:
    """The indexes of a batch's records that are no commits, by their keys' second byte."""
    keys = batch.keys
    if isinstance(keys, PackedColumn):
        return keys.others()
    try:
        # Nearly always all are commits, and then this is all that is done.
        if max(keys, default=b"") < _CLASSIC:  # type: ignore[type-var, operator]  # a None among them is the TypeError
            return ()
    except TypeError:
        pass
    return [index for index, key in enumerate(keys) if key is not None and key[1:2] > b"\x01"]
