"""Committed offsets as columns are those that a dict would have, whatever comes and goes in between."""

from __future__ import annotations

from itertools import pairwise
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agent.core.packed import KeyIndex
from agent.core.records import RawRecord
from agent.core.shadow import offsets
from agent.core.shadow.mirror import BulkFailed, PartitionMirror
from agent.core.shadow.offsets import CommittedOffsets
from agent.core.shadow.transitions import Transition
from agent.core.wire.offset_commit_fastpath import commit_key, commit_value
from agent.core.wire.primitives import ZERO_UUID
from tests import examples
from tests.unit.core.packing import NEEDS_COMPILED, packed
from tests.unit.core.shadow.build import commit, new_group, run_of, topic_id, uncommit
from tests.unit.core.shadow.test_properties import everything, one_by_one

GROUPS = ("one", "two")
PLACES = st.tuples(st.sampled_from(GROUPS), st.sampled_from(["a", "b"]), st.integers(0, 3))
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("put"), PLACES, st.integers(0, 1 << 62)),
        st.tuples(st.just("remove"), PLACES, st.just(0)),
        st.tuples(st.just("restore"), st.just(("one", "a", 0)), st.just(0)),
    ),
    max_size=60,
)


@given(STEPS)
def test_as_a_dict_has_them(steps: list[tuple[str, tuple[str, str, int], int]]) -> None:
    offsets, expected = CommittedOffsets(), dict[str, dict[tuple[str, int], int]]()
    offsets.track_touched()
    touched: dict[str, dict[tuple[str, int], int]] = {}
    for step, (group, topic, partition), offset in steps:
        key, slot = commit_key(group, topic, partition), (topic, partition)
        if step == "put":
            is_new = slot not in expected.setdefault(group, {})
            assert offsets.put(key, group, slot, commit_value(offset, 60_000)) is is_new
            expected[group][slot] = offset
            touched.setdefault(group, {})[slot] = offset
        elif step == "remove":
            gone = expected.get(group, {}).pop(slot, None)
            removed = offsets.remove(key, group)
            assert (None if removed is None else removed.offset) == gone
            touched.get(group, {}).pop(slot, None)
        else:
            offsets = CommittedOffsets.from_state(offsets.pack_state())
            offsets.track_touched()
        for name in GROUPS:
            has = expected.get(name, {})
            assert offsets.count(name) == len(has)
            assert {(topic, at): it.offset for topic, at, it in offsets.commits(name)} == has
            slots, committed, _, _ = offsets.commit_columns(name)
            assert dict(zip(slots, committed, strict=True)) == has
        assert {name: set(slots.values()) for name, slots in offsets.numbered()} == {
            name: set(has) for name, has in expected.items() if has
        }
        assert len(offsets) == sum(map(len, expected.values()))
    found = {group: {slot: it.offset for slot, it in its.items()} for group, its in offsets.take_touched().items()}
    assert found == {group: its for group, its in touched.items() if its}


def test_the_room_of_what_is_gone_is_used_again() -> None:
    offsets = CommittedOffsets()
    for number in range(50):
        slots = [(f"topic-{number}", at) for at in range(100)]
        for slot in slots:
            offsets.put(commit_key("one", *slot), "one", slot, commit_value(1, 60_000))
        for slot in slots:
            offsets.remove(commit_key("one", *slot), "one")
    assert not len(offsets)
    assert not list(offsets.numbered())
    assert len(offsets.block()) <= 200


STEPS = st.tuples(
    st.sampled_from(["plain", "plain", "plain", "v4", "id", "note", "gone", "take", "follow"]),
    st.integers(0, 5),
    st.integers(0, 3),
)


@NEEDS_COMPILED
@settings(max_examples=examples(300), deadline=None)
@given(st.lists(st.lists(STEPS, min_size=1, max_size=12), max_size=12))
def test_packed_commits_leave_what_others_do(batches: list[list[tuple[str, int, int]]]) -> None:
    plain, in_blocks = PartitionMirror(0), PartitionMirror(0)
    offset = 0
    for mirror in (plain, in_blocks):
        mirror.offsets.track_touched()
    for steps in batches:
        records = []
        for what, partition, number in steps:
            offset += 1
            group = f"g{number % 2}"
            match what:
                case "gone":
                    key, value = uncommit(partition=partition, group=group)
                case "take" | "follow":
                    continue
                case _:
                    version, metadata = 3 if what == "plain" else 4, "m" if what == "note" else ""
                    topic = topic_id("t") if what == "id" else ZERO_UUID
                    key, value = commit(
                        "t",
                        partition,
                        offset // 3,
                        group=group,
                        version=version,
                        metadata=metadata,
                        id_of_topic=topic,
                        at_ms=offset,
                    )
            records.append(RawRecord(0, offset, offset, key, value))
        for mirror, batch_of in ((plain, run_of), (in_blocks, packed)):
            if records:
                mirror.replay_batch(batch_of(records))
            if any(what == "follow" for what, _, _ in steps):
                mirror.moved.follow("g0")
        if any(what == "take" for what, _, _ in steps):
            taken = in_blocks.offsets.take_touched()
            assert list(taken.items()) == list(plain.offsets.take_touched().items())
    assert everything(in_blocks) == everything(plain)
    assert in_blocks.offsets._values.memory == plain.offsets._values.memory
    assert in_blocks.offsets._fresh == plain.offsets._fresh


@NEEDS_COMPILED
def test_what_fails_as_positions_are_numbered_leaves_no_number_without_a_place(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Compiled code would put values behind the end of the table."""
    pairs = [new_group("g"), *(commit(partition=it, group="g") for it in range(4))]
    records = [RawRecord(0, at, at, *pair) for at, pair in enumerate(pairs)]
    plain, mirror = PartitionMirror(0), PartitionMirror(0)
    plain.replay_batch(run_of(records))
    read = offsets.read_commit_slot

    def fail(key: bytes) -> object:
        if key == records[3].key:
            raise MemoryError
        return read(key)

    monkeypatch.setattr(offsets, "read_commit_slot", fail)
    with pytest.raises(MemoryError):
        mirror.replay_batch(packed(records))
    monkeypatch.undo()
    assert len(mirror.offsets) < 4
    mirror.replay_batch(packed(records[2:]))
    assert everything(mirror)["offsets"] == everything(plain)["offsets"]


def commits_of_topics(names: str) -> list[RawRecord]:
    """A group, and a commit in a topic of each of these names."""
    pairs = [new_group(), *(commit(it, at, at, version=4, id_of_topic=topic_id(it)) for at, it in enumerate(names))]
    return [RawRecord(0, 10 * at, at, *pair) for at, pair in enumerate(pairs)]


@NEEDS_COMPILED
@pytest.mark.parametrize("behind", [0, 1, 5, 30])
@pytest.mark.parametrize("before", [0, 1, 5, 30])
def test_of_packed_commits_the_one_that_raises_is_passed_over_and_no_other(
    before: int, behind: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    topics = "".join(chr(ord("c") + at) for at in range(before + behind))
    records = commits_of_topics(f"{topics[:before]}b{topics[before:]}")
    bad, read, put = records[1 + before], offsets.read_commit_slot, PartitionMirror._put_commit

    def fail(key: bytes) -> object:
        if key == bad.key:
            raise ZeroDivisionError("no such luck")
        return read(key)

    def put_or_fail(mirror: PartitionMirror, key: bytes, *of: Any) -> None:
        fail(key)
        put(mirror, key, *of)

    expected, mirror = PartitionMirror(0), PartitionMirror(0)
    expected.replay_batch(run_of([it for it in records if it is not bad]))
    monkeypatch.setattr(offsets, "read_commit_slot", fail)
    monkeypatch.setattr(PartitionMirror, "_put_commit", put_or_fail)
    mirror.replay_batch(packed(records), passes_over=True)
    (reject,) = mirror.take_rejects()
    assert (reject.at.offset, mirror.error_counts) == (bad.offset, {"internal": 1})
    assert "ZeroDivisionError: no such luck (test_offsets.py, line " in str(reject.error)
    assert mirror.committed("orders") == expected.committed("orders")
    assert mirror.names == expected.names
    assert mirror.next_offset == records[-1].offset + 1
    with pytest.raises(BulkFailed, match="could not be applied together") as failed:
        PartitionMirror(0).replay_batch(packed(records))
    assert isinstance(failed.value.__cause__, ZeroDivisionError)


@NEEDS_COMPILED
def test_packed_commits_of_which_none_raises_alone_are_all_applied(monkeypatch: pytest.MonkeyPatch) -> None:
    """The fault is the fast way's; as with too little memory for one, the process says so."""

    def fail(*_: object) -> None:
        raise ZeroDivisionError

    def fill(*_: object) -> None:
        raise MemoryError

    records = commits_of_topics("tuvtuvt")
    expected, mirror = PartitionMirror(0), PartitionMirror(0)
    expected.replay_batch(run_of(records))
    monkeypatch.setattr(CommittedOffsets, "number_packed", fail)
    mirror.replay_batch(packed(records), passes_over=True)
    assert everything(mirror) == everything(expected)
    assert mirror._newest_ms == expected._newest_ms
    monkeypatch.setattr(PartitionMirror, "replay", fill)
    with pytest.raises(MemoryError):
        PartitionMirror(0).replay_batch(packed(records[1:]), passes_over=True)


@NEEDS_COMPILED
@pytest.mark.parametrize("seed", range(30))
def test_packed_new_positions_are_numbered_as_others_are(seed: int) -> None:
    """Of groups that are known, and not, in the midst; names in the order in which they were shown last."""
    play = Random(seed)
    pairs, unknown = [new_group("g0"), new_group("g1")], 2
    while len(pairs) < 200:
        group, topic, partition = f"g{play.randrange(unknown)}", play.choice("tu"), play.randrange(99)
        what = play.choice(["id"] * 20 + ["another id", "no id", "note", "of type 0", "of a new group"])
        if what == "of a new group":
            group, unknown = f"g{unknown}", unknown + 1
        no_id = what in ("no id", "of type 0")
        pairs.append(
            commit(
                topic,
                partition,
                len(pairs),
                group=group,
                version=3 if no_id else 4,
                metadata="m" if what == "note" else "",
                id_of_topic=ZERO_UUID if no_id else topic_id(play.choice("uv") if what == "another id" else topic),
                key_type=0 if what == "of type 0" else 1,
            )
        )
    records = [RawRecord(0, at, at, *pair) for at, pair in enumerate(pairs)]
    single, said = one_by_one(records)
    bulk, bulk_said, batch = PartitionMirror(0), list[Transition](), packed(records)
    for start, stop in pairwise(sorted({0, *play.sample(range(200), play.randrange(4)), 200})):
        bulk_said += bulk.replay_batch(batch.part(start, stop))
    assert bulk_said == said
    assert everything(bulk) == everything(single)
    assert list(bulk.offsets._numbers.items()) == list(single.offsets._numbers.items())
    assert bulk.offsets._values.memory == single.offsets._values.memory
    assert (list(bulk.names.items()), bulk.names_version) == (list(single.names.items()), single.names_version)


@NEEDS_COMPILED
def test_packed_new_positions_of_a_known_group_are_not_put_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(CommittedOffsets, "put_new", None)
    records = [RawRecord(0, at, at, *commit(partition=at)) for at in range(40)]
    mirror = PartitionMirror(0)
    mirror.replay_batch(run_of([RawRecord(0, 0, 0, *new_group())]))
    mirror.replay_batch(packed(records).part(10, 40))
    assert mirror.offsets.count("orders") == 30


@NEEDS_COMPILED
def test_few_positions_are_numbered_in_vain(monkeypatch: pytest.MonkeyPatch) -> None:
    """Those behind the first of a group that is not known yet, which comes in the midst."""
    removed, remove = list[bytes](), KeyIndex.remove
    monkeypatch.setattr(KeyIndex, "remove", lambda index, key: (removed.append(key), remove(index, key)))
    groups = ["orders" if it % 400 else f"g{it}" for it in range(4_000)]
    pairs = [new_group(), *(commit(partition=it, group=group) for it, group in enumerate(groups))]
    mirror = PartitionMirror(0)
    mirror.replay_batch(packed([RawRecord(0, at, at, *pair) for at, pair in enumerate(pairs)]))
    assert len(mirror.offsets) == 4_000
    assert len(removed) < 2_000
