"""Committed offsets of one partition of the topic: the newest raw value by raw key, read when asked for.
A position has a number, under which columns have what is known of it; values stand in one block of memory
(`agent.core.wire.commit_table`).

Nearly every record of the topic only replaces one of these; see `agent.core.wire.offset_commit_fastpath`.
"""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Container, Iterator, Mapping, Sequence
from functools import partial
from itertools import islice
from typing import Annotated, ClassVar, NamedTuple

from agent.common.interning import Interner, share_equal
from agent.core.packed import KeyIndex, PackedColumn
from agent.core.shadow.views import CommittedOffset, Position, known_ms
from agent.core.state_fields import ORDERED, StateFields
from agent.core.wire.commit_table import CommitBlock, CommitTable
from agent.core.wire.json_form import uuid_text
from agent.core.wire.offset_commit_fastpath import (
    Commit,
    Slot,
    commit_key,
    commit_key_start,
    have_one_fixed_layout,
    read_commit,
    read_commit_slot,
    slot_by_key_end,
)
from agent.core.wire.primitives import ZERO_UUID, Uuid

_one_number: Interner[int] = Interner(1 << 16)
"""Partitions number their positions alike."""


METADATA_LOOKS = 100


class MovedPositions:
    """When positions last moved, of the groups whose clients commit also what did not move (`follow`), as they always
    do, or since a topic of theirs was deleted.

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

    def is_followed(self, group: str) -> bool:
        """Whether a group's are kept."""
        return group in self.groups

    def note(self, group: str, slot: tuple[str, int], raw_value: bytes) -> None:
        """A group that is followed committed a position."""
        commit, known = read_commit(raw_value), self.groups[group]
        before = known.get(slot)
        if before is None or before[0] != commit.offset:
            known[slot] = commit.offset, commit.commit_ms

    def drop(self, group: str, slot: tuple[str, int]) -> None:
        """A position was deleted: what is committed there next has moved."""
        if (known := self.groups.get(group)) is not None:
            known.pop(slot, None)

    def moved_ms(self, group: str, topic: str, partition: int) -> int | None:
        """When a position last moved; None: not known."""
        found = self.groups.get(group, {}).get((topic, partition))
        return None if found is None else found[1]


class LookedOffsets(NamedTuple):
    """What groups had committed as the ends were looked at, which was at `at_ms` (`EndOffsets.at_ms`): offsets by the
    number of the position, `NEVER_LOWER` for one that came since."""

    at_ms: int
    offsets: Sequence[int]


_GONE: Slot = ("", -1)
"""Stands for the topic and partition of a position that is gone: no client's can be the same object."""

NOT_LOOKED = LookedOffsets(-1, ())
NEVER_LOWER = (1 << 63) - 1


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
        self._numbers: dict[bytes, int] = {}
        """By raw key."""
        # By number: the newest raw value, how often it was committed, and whose it is.
        self._values = CommitTable()
        self._counts = array("q")
        self._group_of: list[str] = []
        self._slot_of: list[Slot] = []
        self._free: list[int] = []
        """Numbers that are no group's."""
        self._groups: dict[str, array[int]] = {}
        """By group the numbers of its positions, in the order in which they came. Those that are gone stay until they
        are half of all: a dict of each group would take four times as much."""
        self._gone: dict[str, int] = {}
        """How many are gone, of groups of which any are."""
        self._fresh: dict[int, None] | None = None
        """The numbers of what was committed since the last `take_touched`, in that order."""
        self.moved = MovedPositions()
        """Kept by who keeps this: no part of its state."""
        self.version = 0
        """Another one each time that a position comes or goes: where groups have any."""
        self.looked = NOT_LOOKED
        """As of the last look at the ends that was completed: no part of its state."""
        self._looking: array[int] | None = None
        self._index: KeyIndex | None = None
        """The same numbers by key for `put_packed`, while there is any."""

    def __len__(self) -> int:
        return len(self._numbers)

    def __contains__(self, raw_key: object) -> bool:
        return raw_key in self._numbers

    def put_known_batch(self, keys: Sequence[bytes | None], values: Sequence[bytes | None]) -> bool:
        """Apply a batch of commits, if every key is known and all values have one fixed layout; else do nothing and
        return False.

        For the common case all of it runs in C: no Python code for each commit.
        """
        try:
            known = list(map(self._numbers.__getitem__, keys))  # type: ignore[arg-type]  # None is no known key
        except KeyError:
            return False
        if not known or not have_one_fixed_layout(values):
            return False
        if self.moved.groups:
            for number, value in zip(known, values, strict=True):
                self._note_moved(number, value)  # type: ignore[arg-type]  # None is no plain value
        # Of a position that was committed several times the newest value stays; the others need not be put.
        latest = dict(zip(known, values, strict=True))
        self._values.put_fixed(latest, latest.values())  # type: ignore[arg-type]  # likewise
        counts = self._counts
        if len(latest) == len(known):  # as live, and a counter would take twice as long
            for number in known:
                counts[number] += 1
        else:
            for number, times in Counter(known).items():
                counts[number] += times
        if self._fresh is not None:
            self._fresh.update(dict.fromkeys(latest))
        return True

    def put_packed(self, keys: PackedColumn, values: PackedColumn, start: int, stop: int) -> int:
        """Apply a batch's commits from index `start` on, up to the first that is no plain one of a known position,
        or `stop`: the index behind them. The same as `put_known` of each, in compiled code."""
        if not self._numbers:
            return start
        if self._index is None:
            self._index = KeyIndex(self._numbers.items())
        count, touched = self._index.put_known(keys, start, stop, self._values.memory, self._counts)
        numbers = partial(self._index.numbers, count)
        self._values.were_put(numbers)
        if self.moved.groups:
            for index, number in enumerate(numbers(), start):
                if self._group_of[number] in self.moved.groups:
                    self._note_moved(number, values[index])  # type: ignore[arg-type]  # they have plain values
        if self._fresh is not None:
            self._fresh.update(dict.fromkeys(touched))
        return start + count

    def number_packed(
        self, keys: PackedColumn, start: int, stop: int, groups: Container[str]
    ) -> tuple[Sequence[int], list[Slot]]:
        """Give positions of plain commits from index `start` on their numbers, under which they are put next, up to
        the first record that is something else or of none of these groups, or `stop`: the indexes of those that were
        new, and their topics and partitions."""
        # What fails in between leaves keys in it that have no place in the table.
        index, self._index = self._index or KeyIndex(self._numbers.items()), None
        free, known = self._free[: start - stop - 1 : -1], len(self._values)
        numbers = array("i", [*free, *range(known, known + stop - start - len(free))])
        new = index.number_new(keys, start, stop, numbers)
        raw_keys, found = keys.at(new), list[tuple[str, Slot]]()
        for raw_key in raw_keys:
            read = read_commit_slot(raw_key)
            if read is None or read[0] not in groups:
                break
            found.append(read)
        # Once all are read: where one raises, none is known that the mirror did not hear of.
        for raw_key, it in zip(raw_keys, found, strict=False):
            self._numbers[raw_key] = self._place(*it)  # type: ignore[index]  # what was read is there
        for raw_key in raw_keys[len(found) :]:
            index.remove(raw_key)  # type: ignore[arg-type]  # only what is there has a number
        self._index = index
        return new[: len(found)], [slot for _, slot in found]

    def forget_index(self) -> None:
        """No more packed commits come for now."""
        self._index = None

    def put_known(self, raw_key: bytes | None, raw_value: bytes) -> bool:
        """Apply one commit with a plain value, if its key is known; whether it is."""
        number = self._numbers.get(raw_key)  # type: ignore[arg-type]  # None is no known key
        if number is None:
            return False
        if self.moved.groups:
            self._note_moved(number, raw_value)
        self._set(number, raw_value, is_fixed=True)
        return True

    def _set(self, number: int, raw_value: bytes, *, is_fixed: bool = False) -> None:
        self._values.put(number, raw_value, is_fixed=is_fixed)
        self._counts[number] += 1
        if self._fresh is not None:
            self._fresh[number] = None

    def put_new(self, raw_key: bytes, group: str, slot: Slot, raw_value: bytes) -> None:
        """Apply one commit with a plain value, whose key is not known."""
        number = self.add(raw_key, group, slot)
        self._set(number, raw_value, is_fixed=True)
        if self.moved.groups:
            self._note_moved(number, raw_value)

    def put(self, raw_key: bytes, group: str, slot: Slot, raw_value: bytes) -> bool:
        """Apply one commit that is known to decode; whether its group had none for the partition before."""
        number = self._numbers.get(raw_key)
        is_new = number is None
        if number is None:
            number = self.add(raw_key, group, slot)
        self._set(number, raw_value)
        if self.moved.groups:
            self._note_moved(number, raw_value)
        return is_new

    def add(self, raw_key: bytes, group: str, slot: Slot) -> int:
        """Give a position its number, under which its commit is put next."""
        number = self._numbers[raw_key] = self._place(group, slot)
        if self._index is not None:
            self._index.add(raw_key, number)
        return number

    def _place(self, group: str, slot: Slot) -> int:
        numbers = self._groups.get(group)
        if numbers is None:
            numbers = self._groups[group] = array("i")
        else:
            # Names spelt anew by each record were a fifth of what a position takes: they are kept once.
            group = self._group_of[numbers[0]]
        if self._free:
            number = self._free.pop()
            self._group_of[number], self._slot_of[number] = group, slot
            for offsets in (self.looked.offsets, self._looking):
                if isinstance(offsets, array) and number < len(offsets):
                    offsets[number] = NEVER_LOWER
        else:
            number = _one_number[len(self._values)]
            self._values.grow()
            self._counts.append(0)
            self._group_of.append(group)
            self._slot_of.append(slot)
        numbers.append(number)
        self.version += 1
        return number

    def _note_moved(self, number: int, raw_value: bytes) -> None:
        group = self._group_of[number]
        if group in self.moved.groups:
            self.moved.note(group, self._slot_of[number], raw_value)

    def remove(self, raw_key: bytes, group: str) -> Commit | None:
        """Apply a tombstone; the commit that it deletes, if there was one."""
        number = self._numbers.pop(raw_key, None)
        if number is None:
            return None
        if self._index is not None:
            self._index.remove(raw_key)
        (commit,) = self._values.commits([number])
        self._values.clear(number)
        self.moved.drop(group, self._slot_of[number])
        self._counts[number], self._slot_of[number] = 0, _GONE
        if self._fresh is not None:
            self._fresh.pop(number, None)
        self.version += 1
        numbers, gone = self._groups[group], self._gone.get(group, 0) + 1
        if 2 * gone < len(numbers):
            self._gone[group] = gone
            return commit
        self._gone.pop(group, None)
        self._free += [it for it in numbers if self._slot_of[it] is _GONE]
        kept = array("i", self._positions(group))
        if kept:
            self._groups[group] = kept
        else:
            del self._groups[group]
        return commit

    def _positions(self, group: str) -> dict[int, Slot]:
        """The numbers of a group's positions, each with its topic and partition."""
        numbers = self._groups.get(group, ())
        slots = map(self._slot_of.__getitem__, numbers)
        return {number: slot for number, slot in zip(numbers, slots, strict=True) if slot is not _GONE}

    def track_touched(self) -> None:
        """From now on remember which positions were committed, for `take_touched`."""
        if self._fresh is None:
            self._fresh = {}
        if self._index is not None:
            self._index.untouch()

    @property
    def touched(self) -> int:
        """How many positions were committed since the last `take_touched`."""
        return len(self._fresh or ())

    def take_touched(self) -> dict[str, dict[tuple[str, int], Position]]:
        """By group, the positions that were committed since the last call, as they stand."""
        fresh, self._fresh = self._fresh or {}, {}
        if self._index is not None:
            self._index.untouch()
        out: dict[str, dict[tuple[str, int], Position]] = {}
        numbers = list(fresh)
        groups, counts = map(self._group_of.__getitem__, numbers), map(self._counts.__getitem__, numbers)
        offsets, times_ms, _ = self._values.columns(numbers)
        slots = map(self._slot_of.__getitem__, numbers)
        last, found, last_ms, last_count = None, dict[tuple[str, int], Position](), 0, 0
        for slot, group, offset, commit_ms, count in zip(slots, groups, offsets, times_ms, counts, strict=True):
            if group is not last:
                # A client commits its partitions together.
                last, found = group, out.setdefault(group, {})
            if commit_ms != last_ms:
                last_ms = commit_ms
            if count != last_count:
                last_count = count
            # At the same time and as often, as one object: samples keep them of each position.
            found[slot] = Position(offset, last_ms, last_count)
        return out

    def commit(self, group: str, topic: str, partition: int) -> tuple[Commit, int] | None:
        """One position and how often it was committed."""
        if group not in self._groups:
            return None
        number = self._numbers.get(commit_key(group, topic, partition))
        return None if number is None else (next(self._values.commits([number])), self._counts[number])

    def numbered(self) -> Iterator[tuple[str, Mapping[int, Slot]]]:
        """Each group that has positions: by number their topics and partitions."""
        return ((group, self._positions(group)) for group in self._groups)

    def commit_counts(self, group: str) -> dict[tuple[str, int], int]:
        """How often each of a group's positions was committed."""
        slots = self._positions(group)
        # They are kept of each position, and most were committed equally often.
        counts = share_equal(list(map(self._counts.__getitem__, slots)))
        return dict(zip(slots.values(), counts, strict=True))

    def count(self, group: str) -> int:
        """How many offsets a group keeps."""
        return len(self._groups.get(group, ())) - self._gone.get(group, 0)

    def commits(self, group: str) -> Iterator[tuple[str, int, Commit]]:
        """A group's positions: topic, partition, commit."""
        slots = self._positions(group)
        for (topic, partition), commit in zip(slots.values(), self._values.commits(slots), strict=True):
            yield topic, partition, commit

    def has_metadata(self, group: str) -> bool:
        """Whether a client wrote something beside one of a group's first `METADATA_LOOKS` offsets."""
        first = islice(self._positions(group), METADATA_LOOKS)
        return any(commit.metadata for commit in self._values.commits(first))

    def slots(self, group: str) -> list[tuple[str, int]]:
        """Topic and partition of each of a group's positions."""
        return list(self._positions(group).values())

    def block(self) -> CommitBlock:
        """What was committed, by number, as it is now: to be read later."""
        return self._values.copy()

    def begin_look(self) -> None:
        """A look at the ends begins: keep what is committed now until it has ended."""
        self._looking = self._values.all_offsets()

    def end_look(self, at_ms: int) -> None:
        """The look has ended: the ends as of `at_ms` and what was kept belong together."""
        if self._looking is not None:
            self.looked, self._looking = LookedOffsets(at_ms, self._looking), None

    def looked_offsets(self, group: str, at_ms: int) -> dict[tuple[str, int], int]:
        """A group's positions as of the look at `at_ms`; without those that came since."""
        known = self.looked.offsets if self.looked.at_ms == at_ms else ()
        return {slot: known[number] for number, slot in self._positions(group).items() if number < len(known)}

    def commit_columns(
        self, group: str
    ) -> tuple[list[tuple[str, int]], Sequence[int], Sequence[int], Sequence[bytes]]:
        """A group's positions, a row each: topic and partition, offset, when it was committed, the topic's id."""
        slots = self._positions(group)
        return (list(slots.values()), *self._values.columns(slots))

    def last_commit_ms(self, group: str) -> int | None:
        """When the group last committed, of the offsets that it still keeps; None: not known, or it did not."""
        return known_ms(max(self._values.columns(self._positions(group))[1], default=None))

    def others_committed_since(self, at_ms: int, group: str) -> bool:
        """Whether a group other than that has committed since then."""
        times_ms = self._values.times_ms(range(len(self._values)))
        return any(
            time_ms >= at_ms and self._group_of[number] != group and self._slot_of[number] is not _GONE
            for number, time_ms in enumerate(times_ms)
        )

    def last_moved_ms(self, group: str) -> int | None:
        """When one of the group's positions was committed that had been committed before."""
        moved = [number for number in self._groups.get(group, ()) if self._counts[number] > 1]
        return known_ms(max(self._values.columns(moved)[1], default=None))

    def view(self, group: str) -> tuple[CommittedOffset, ...]:
        """A group's positions as plain values, by topic and partition."""
        return tuple(
            CommittedOffset(
                topic=topic,
                partition=partition,
                offset=commit.offset,
                leader_epoch=commit.leader_epoch,
                metadata=commit.metadata,
                committed_ms=known_ms(commit.commit_ms),
                topic_id=None if commit.topic_id == ZERO_UUID else uuid_text(commit.topic_id),
            )
            for topic, partition, commit in sorted(self.commits(group))
        )

    def topic_ids(self, group: str) -> Mapping[Uuid, str]:
        """The topics of a group whose commits carry the topic's id."""
        slots = self._positions(group)
        named = zip(self._values.columns(slots)[2], slots.values(), strict=True)
        return {Uuid(topic_id): topic for topic_id, (topic, _) in named if topic_id != ZERO_UUID}

    # Snapshots.

    @property
    def latest(self) -> dict[bytes, bytes]:
        """The newest raw values by raw key."""
        return dict(zip(self._numbers, self._values.values(self._numbers.values()), strict=True))

    @property
    def counts(self) -> Counter[bytes]:
        """How often each position was committed, by raw key."""
        return Counter({key: self._counts[number] for key, number in self._numbers.items()})

    @property
    def _touched(self) -> dict[bytes, bytes] | None:
        keys = {number: key for key, number in self._numbers.items()}
        if self._fresh is None:
            return None
        return dict(zip(map(keys.__getitem__, self._fresh), self._values.values(self._fresh), strict=True))

    def pack_state(self) -> tuple[list[bytes], list[bytes], list[int], list[int] | None]:
        """Keys, values, counts, and the numbers of touched keys in the order in which analyzers see them."""
        keys, numbers, touched = list(self._numbers), list(self._numbers.values()), None
        if self._fresh is not None:
            places = dict(zip(numbers, range(len(numbers)), strict=True)) if self._fresh else {}
            touched = [places[number] for number in self._fresh]
        return keys, self._values.values(numbers), [self._counts[number] for number in numbers], touched

    @classmethod
    def from_state(cls, packed: tuple[list[bytes], list[bytes], list[int], list[int] | None]) -> CommittedOffsets:
        """The offsets that were packed. Raises `ValueError` or `WireError` for keys and values that are none."""
        keys, values, counts, touched = packed
        out = cls()
        numbers = list(map(_one_number.__getitem__, range(len(keys))))
        out._numbers = dict(zip(keys, numbers, strict=True))
        if not len(out._numbers) == len(keys) == len(values) == len(counts):
            raise ValueError("expected each key once, with its value and count")
        out._values, out._counts = CommitTable(values), array("q", counts)
        # Keys of one group stand together and begin alike.
        last, start, group_numbers = "", b"", array("i")
        for at, key in zip(numbers, keys, strict=True):
            if start and key.startswith(start):
                slot = slot_by_key_end[key[len(start) :]]
            elif (found := read_commit_slot(key)) is not None:
                last, slot = found
                start, group_numbers = commit_key_start(last), out._groups.setdefault(last, array("i"))
            else:
                raise ValueError(f"expected the key of an offset commit, got {key!r}")
            group_numbers.append(at)
            out._group_of.append(last)
            out._slot_of.append(slot)
        if touched is not None:
            out._fresh = dict.fromkeys(map(numbers.__getitem__, touched))
        return out
