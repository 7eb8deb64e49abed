"""Committed offsets of one partition of the topic: the newest raw value by raw key, read when asked for.

Nearly every record of the topic only replaces one of these; see `agent.core.wire.offset_commit_fastpath`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Annotated, ClassVar

from agent.common.interning import Interner
from agent.core.shadow.views import CommittedOffset, Position
from agent.core.state_fields import ORDERED, StateFields
from agent.core.wire.json_form import uuid_text
from agent.core.wire.offset_commit_fastpath import (
    Commit,
    commit_key,
    commit_key_start,
    has_fixed_layout,
    have_one_fixed_layout,
    read_commit,
    read_commit_columns,
    read_commit_key,
    read_positions,
    read_topic_ids,
)
from agent.core.wire.primitives import ZERO_UUID, Uuid

Slots = dict[bytes, tuple[str, int]]
"""The raw keys of one group, each with its topic and partition."""


one_topic = Interner(4_096)
one_slot = Interner(1 << 16)
"""One object for equal names of topics, and one for a topic and partition, as long as there are not too many."""


METADATA_LOOKS = 100


class MovedPositions:
    """When positions last moved, of the groups whose clients commit also what did not move (`follow`).

    The others need none of this: their newest commit is of a position that moved.
    """

    STATE: ClassVar = StateFields({"groups": dict[str, dict[tuple[str, int], tuple[int, int]]]})

    def __init__(self) -> None:
        self.groups: dict[str, dict[tuple[str, int], tuple[int, int]]] = {}
        """By group and position: its offset, and when that was committed first (epoch milliseconds)."""

    def follow(self, group: str) -> None:
        """From now on keep a group's."""
        self.groups.setdefault(group, {})

    def unfollow(self, group: str) -> None:
        """Forget a group's."""
        self.groups.pop(group, None)

    def note(self, group: str, slot: tuple[str, int], raw_value: bytes) -> None:
        """A group that is followed committed a position."""
        commit, known = read_commit(raw_value), self.groups[group]
        before = known.get(slot)
        if before is None or before[0] != commit.offset:
            known[slot] = commit.offset, commit.commit_ms

    def moved_ms(self, group: str, topic: str, partition: int) -> int | None:
        """When a position last moved; None: not known."""
        found = self.groups.get(group, {}).get((topic, partition))
        return None if found is None else found[1]


class CommittedOffsets:
    """The committed offsets of all groups of one partition of the topic."""

    STATE: ClassVar = StateFields(
        {
            "latest": dict[bytes, bytes],
            "counts": Counter[bytes],
            "_touched": Annotated[dict[bytes, bytes], ORDERED] | None,
        },
        packed=tuple[list[bytes], list[bytes], list[int], list[int] | None],
    )

    def __init__(self) -> None:
        self.latest: dict[bytes, bytes] = {}
        self.counts: Counter[bytes] = Counter()
        """How often each position was committed: what a member's pace is told by."""
        self._groups: dict[str, Slots] = {}
        self._group_of: dict[bytes, str] = {}
        self._keys: dict[bytes, bytes] = {}
        """Each key under itself: the one object that all else here is kept by."""
        self._touched: dict[bytes, bytes] | None = None
        self.moved = MovedPositions()
        """Kept by who keeps this: no part of its state."""
        self.version = 0
        """Another one each time that a position comes or goes: where groups have any."""

    def __len__(self) -> int:
        return len(self.latest)

    def put_known_batch(self, keys: Sequence[bytes | None], values: Sequence[bytes | None]) -> bool:
        """Apply a batch of commits, if every key is known and all values have one fixed layout; else do nothing and
        return False.

        For the common case all of it runs in C: no Python code for each commit.
        """
        try:
            # A record's key is looked up once. The one that is kept here has its hash, and is found by identity.
            known = list(map(self._keys.__getitem__, keys))  # type: ignore[arg-type]  # None is no known key
        except KeyError:
            return False
        if not known or not have_one_fixed_layout(values):
            return False
        if self.moved.groups:
            for key, value in zip(known, values, strict=True):
                self._note_moved(key, value)  # type: ignore[arg-type]  # None is no plain value
        self.counts.update(known)
        # A batch has each key many times over: so first the newest of each.
        newest = dict(zip(known, values, strict=True))
        self.latest.update(newest)  # type: ignore[arg-type]  # likewise
        if self._touched is not None:
            self._touched.update(newest)  # type: ignore[arg-type]  # likewise
        return True

    def put_known(self, raw_key: bytes | None, raw_value: bytes) -> bool:
        """Apply one commit with a plain value, if its key is known; whether it is."""
        key = self._keys.get(raw_key)  # type: ignore[arg-type]  # None is no known key
        if key is None:
            return False
        if self.moved.groups:
            self._note_moved(key, raw_value)
        self.latest[key] = raw_value
        self.counts[key] += 1
        if self._touched is not None:
            self._touched[key] = raw_value
        return True

    def put(self, raw_key: bytes, group: str, topic: str, partition: int, raw_value: bytes) -> bool:
        """Apply one commit that is known to decode; whether its group had none for the partition before."""
        known = raw_key in self._keys
        raw_key = self._keys.setdefault(raw_key, raw_key)
        self.latest[raw_key] = raw_value
        self.counts[raw_key] += 1
        if self._touched is not None:
            self._touched[raw_key] = raw_value
        if not known:
            slots = self._groups.setdefault(group, {})
            # Names spelt anew by each record were a fifth of what a position takes: they are kept once.
            group = self._group_of[next(iter(slots))] if slots else group
            slots[raw_key] = one_slot((one_topic(topic), partition))
            self._group_of[raw_key] = group
            self.version += 1
        if self.moved.groups:
            self._note_moved(raw_key, raw_value)
        return not known

    def _note_moved(self, raw_key: bytes, raw_value: bytes) -> None:
        group = self._group_of[raw_key]
        if group in self.moved.groups:
            self.moved.note(group, self._groups[group][raw_key], raw_value)

    def remove(self, raw_key: bytes, group: str) -> Commit | None:
        """Apply a tombstone; the commit that it deletes, if there was one."""
        raw_value = self.latest.pop(raw_key, None)
        if raw_value is None:
            return None
        del self.counts[raw_key], self._group_of[raw_key], self._keys[raw_key]
        if self._touched is not None:
            self._touched.pop(raw_key, None)
        self.version += 1
        slots = self._groups[group]
        del slots[raw_key]
        if not slots:
            del self._groups[group]
        return read_commit(raw_value)

    def track_touched(self) -> None:
        """From now on remember which positions were committed, for `take_touched`."""
        if self._touched is None:
            self._touched = {}

    @property
    def touched(self) -> int:
        """How many positions were committed since the last `take_touched`."""
        return len(self._touched or ())

    def take_touched(self) -> dict[str, dict[tuple[str, int], Position]]:
        """By group, the positions that were committed since the last call, as they stand."""
        touched, self._touched = self._touched or {}, {}
        out: dict[str, dict[tuple[str, int], Position]] = {}
        groups = map(self._group_of.__getitem__, touched)
        counts = map(self.counts.__getitem__, touched)
        last, slots, found, last_ms = None, Slots(), dict[tuple[str, int], Position](), 0
        for raw_key, group, (offset, commit_ms), count in zip(
            touched, groups, read_positions(touched.values()), counts, strict=True
        ):
            if group is not last:
                # A client commits its partitions together.
                last, slots, found = group, self._groups[group], out.setdefault(group, {})
            if commit_ms != last_ms:
                last_ms = commit_ms
            # At the same time, as one object: samples keep it of each position.
            found[slots[raw_key]] = Position(offset, last_ms, count)
        return out

    def commit(self, group: str, topic: str, partition: int) -> tuple[Commit, int] | None:
        """One position and how often it was committed."""
        if group not in self._groups:
            return None
        raw_key = commit_key(group, topic, partition)
        raw_value = self.latest.get(raw_key)
        return None if raw_value is None else (read_commit(raw_value), self.counts[raw_key])

    @property
    def groups(self) -> Mapping[str, Slots]:
        """The groups that have positions, with these."""
        return self._groups

    def commit_counts(self, group: str) -> dict[tuple[str, int], int]:
        """How often each of a group's positions was committed."""
        return {slot: self.counts[raw_key] for raw_key, slot in self._groups.get(group, {}).items()}

    def count(self, group: str) -> int:
        """How many offsets a group keeps."""
        return len(self._groups.get(group, ()))

    def commits(self, group: str) -> Iterator[tuple[str, int, Commit]]:
        """A group's positions: topic, partition, commit."""
        for raw_key, (topic, partition) in self._groups.get(group, {}).items():
            yield topic, partition, read_commit(self.latest[raw_key])

    def has_metadata(self, group: str) -> bool:
        """Whether a client wrote something beside one of a group's first `METADATA_LOOKS` offsets."""
        return any(commit.metadata for _, _, commit in islice(self.commits(group), METADATA_LOOKS))

    def slots(self, group: str) -> list[tuple[str, int]]:
        """Topic and partition of each of a group's positions."""
        return list(self._groups.get(group, {}).values())

    def values(self, group: str) -> list[bytes]:
        """The values of a group's positions in the order of `slots`, as they are, to be read later."""
        return list(map(self.latest.__getitem__, self._groups.get(group, ())))

    def commit_columns(
        self, group: str
    ) -> tuple[list[tuple[str, int]], Sequence[int], Sequence[int], Sequence[bytes]]:
        """A group's positions, a row each: topic and partition, offset, when it was committed, the topic's id."""
        return (self.slots(group), *read_commit_columns(self.values(group)))

    def last_commit_ms(self, group: str) -> int | None:
        """When the group last committed, of the offsets that it still keeps."""
        return max((commit_ms for _, commit_ms in read_positions(self.values(group))), default=None)

    def last_moved_ms(self, group: str) -> int | None:
        """When one of the group's positions was committed that had been committed before."""
        slots = self._groups.get(group, ())
        moved = [self.latest[raw_key] for raw_key in slots if self.counts[raw_key] > 1]
        return max((commit_ms for _, commit_ms in read_positions(moved)), default=None)

    def view(self, group: str) -> tuple[CommittedOffset, ...]:
        """A group's positions as plain values, by topic and partition."""
        return tuple(
            CommittedOffset(
                topic=topic,
                partition=partition,
                offset=commit.offset,
                leader_epoch=commit.leader_epoch,
                metadata=commit.metadata,
                committed_ms=commit.commit_ms,
                topic_id=None if commit.topic_id == ZERO_UUID else uuid_text(commit.topic_id),
            )
            for topic, partition, commit in sorted(self.commits(group))
        )

    def topic_ids(self, group: str) -> Mapping[Uuid, str]:
        """The topics of a group whose commits carry the topic's id."""
        named = zip(read_topic_ids(self.values(group)), self.slots(group), strict=True)
        return {topic_id: topic for topic_id, (topic, _) in named if topic_id != ZERO_UUID}

    # Snapshots.

    def pack_state(self) -> tuple[list[bytes], list[bytes], list[int], list[int] | None]:
        """Keys, values, counts, and the numbers of touched keys in the order in which analyzers see them."""
        touched = None
        if self._touched is not None:
            places = dict(zip(self.latest, range(len(self.latest)), strict=True)) if self._touched else {}
            touched = [places[key] for key in self._touched]
        return list(self.latest), list(self.latest.values()), list(map(self.counts.__getitem__, self.latest)), touched

    @classmethod
    def from_state(
        cls, packed: tuple[list[bytes], list[bytes], list[int], list[int] | None], slots: Iterable[tuple[str, int]]
    ) -> CommittedOffsets:
        """The offsets that were packed. Raises `ValueError` or `WireError` for keys and values that are none."""
        keys, values, counts, touched = packed
        if values and not have_one_fixed_layout(values):
            for value in values:
                if not has_fixed_layout(value):
                    read_commit(value)
        out = cls()
        out.latest = dict(zip(keys, values, strict=True))
        out._keys = dict(zip(keys, keys, strict=True))
        out.counts = Counter(dict(zip(keys, counts, strict=True)))
        same = {slot: slot for slot in slots}
        # Keys of one group stand together and begin alike, and groups have the same topics: what is the same again is
        # not read again, which takes ten times as long.
        last, start, group_slots = "", b"", dict[bytes, tuple[str, int]]()
        by_end: dict[bytes, tuple[str, int]] = {}
        for key in keys:
            slot = by_end.get(key[len(start) :]) if start and key.startswith(start) else None
            if slot is None:
                parsed = read_commit_key(key)
                if parsed is None:
                    raise ValueError(f"expected the key of an offset commit, got {key!r}")
                group, topic, number = parsed
                if group != last or not start:
                    last, start, group_slots = group, commit_key_start(group), out._groups.setdefault(group, {})
                slot = by_end[key[len(start) :]] = same.setdefault((topic, number), (topic, number))
            group_slots[key] = slot
            out._group_of[key] = last
        if touched is not None:
            out._touched = {key: out.latest[key] for key in map(keys.__getitem__, touched)}
        return out
