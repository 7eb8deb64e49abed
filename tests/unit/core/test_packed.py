"""Records in blocks of memory say what the records say, and numbers of keys are those that were given."""

from __future__ import annotations

import struct
import sys
from array import array
from ctypes import POINTER, Structure, c_uint64, c_void_p, cast
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agent.core import packed as packed_module
from agent.core.packed import KeyIndex, PackedColumn, PackedRun, RunMemory
from agent.core.records import RawRecord, RecordBatch
from agent.core.wire.offset_commit_fastpath import commit_value, has_fixed_layout
from agent.core.wire.primitives import Uuid
from tests import examples
from tests.unit.core.packing import NEEDS_COMPILED, Queue, error_of, message_of, packed

pytestmark = NEEDS_COMPILED

BYTES = st.one_of(st.none(), st.binary(max_size=60), st.lists(st.integers(0, 3), max_size=4).map(bytes))
ROWS = st.lists(st.tuples(st.integers(-1, 1 << 40), BYTES, BYTES), min_size=1, max_size=40)


def records_of(rows: list[tuple[int, bytes | None, bytes | None]]) -> list[RawRecord]:
    return [RawRecord(3, 10 * number, *row) for number, row in enumerate(rows)]


@settings(max_examples=examples(200), deadline=None)
@given(ROWS, st.data())
def test_columns_are_what_the_records_say(
    rows: list[tuple[int, bytes | None, bytes | None]], data: st.DataObject
) -> None:
    records = records_of(rows)
    batch, plain = packed(records), RecordBatch.of(records)
    assert isinstance(batch.keys, PackedColumn)
    start = data.draw(st.integers(0, len(records)))
    stop = data.draw(st.integers(start, len(records)))
    for some, its in ((batch, plain), (batch.part(start, stop), plain.part(start, stop))):
        assert [*some.records()] == [*its.records()]
        assert [*some.leader_epochs] == [-1] * len(its)
        assert (some.is_in_time_order, some.newest_ms) == (its.is_in_time_order, its.newest_ms)
        assert [some.keys[it] for it in range(len(its))] == its.keys
        assert isinstance(some.keys, PackedColumn)
        assert isinstance(some.values, PackedColumn)
        assert not its or (some.keys.some(0, len(its)), some.values.some(0, len(its))) == (its.keys, its.values)
        assert some.keys.others() == [at for at, key in enumerate(its.keys) if key is not None and key[1:2] > b"\1"]
    for index in (len(records), -len(records) - 1):
        with pytest.raises(IndexError):
            batch.keys[index]


def test_without_the_compiled_part_an_index_says_what_it_lacks_and_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    """What the interpreter prints of an end that fails would be another error."""
    monkeypatch.setattr(packed_module, "library", lambda: None)
    with pytest.raises(AssertionError, match="who has no compiled part packs nothing"):
        KeyIndex(())


def test_a_run_ends_where_its_partition_does_and_nothing_is_lost() -> None:
    records = [RawRecord(it // 5, it, it, b"key %d" % it, None if it % 4 else bytes(it)) for it in range(23)]
    messages = [message_of(it, epoch=it.offset // 10) for it in records]
    messages.insert(12, error_of(2, 10, -191))
    messages.insert(6, error_of(-1, -1001, -187))
    queue = Queue(messages, 4, pauses=True)
    runs = queue.runs(room=3)
    found = [it for packed in runs for it in batch_of(packed).records()]
    assert found == records
    assert [epoch for it in runs for epoch in it.columns(len(it))[4]] == [it.offset // 10 for it in records]
    assert [(it.run.partition, it.run.error, it.run.error_offset) for it in runs if it.run.error] == [
        (-1, -187, -1001),
        (2, -191, 10),
    ]
    assert [it.offset(len(it) - 1) for it in runs if it.run.error and len(it)] == [11], "what follows comes later"
    assert max(map(len, runs)) == 3
    assert queue.destroyed == [it.offset for it in messages]


def test_a_run_begins_with_the_last_records_of_the_one_before() -> None:
    partitions = [0, 0, 0, 0, 0, 0, 1, 0, 0, 1, 1, 1, 1]
    records = [
        RawRecord(it, at, at, b"key %d" % at if at % 3 else None, None if at % 2 else b"value %d" % at)
        for at, it in enumerate(partitions)
    ]
    messages = [*(message_of(it, epoch=it.offset // 4) for it in records), error_of(0, 9, -191)]
    runs = Queue(messages, len(messages)).runs(room=5, repeated=2)
    found = [([it.offset for it in batch_of(run).records()], run.run.repeated, run.run.error) for run in runs]
    assert found == [
        ([0, 1, 2, 3, 4], 0, 0),
        ([3, 4, 5], 2, 0),
        ([6], 0, 0),
        ([4, 5, 7, 8], 2, 0),
        ([6, 9, 10, 11, 12], 1, 0),
        ([7, 8], 2, -191),
    ]
    assert sorted({it for run in runs for it in batch_of(run).records()}, key=lambda it: it.offset) == records
    for run in runs:
        batch = batch_of(run)
        assert [*batch.leader_epochs] == [it // 4 for it in batch.offsets]


def test_what_is_said_of_no_topic_is_said_of_no_partition() -> None:
    """As that there is no right to the group: the client writes partition 0 into it."""
    records = [RawRecord(0, it, it, b"key", None) for it in range(4)]
    messages = list(map(message_of, records))
    messages.insert(2, error_of(0, -1001, 30, topic=None))
    messages.insert(0, error_of(0, -1001, 30, topic=None))
    runs = Queue(messages, len(messages)).runs(repeated=1)
    said = [(it.run.partition, it.run.error, len(it)) for it in runs]
    assert said == [(-1, 30, 0), (0, 0, 2), (-1, 30, 0), (0, 0, 3)]
    assert [it.offset for it in batch_of(runs[3]).records()] == [1, 2, 3]


def batch_of(run: PackedRun) -> RecordBatch:
    return RecordBatch.of_packed(run, len(run))


def test_messages_that_were_not_made_records_are_given_back() -> None:
    queue = Queue([message_of(RawRecord(0, it, 0, b"k", b"v")) for it in range(9)], 9)
    queue.runs(room=2, stop_after=1)
    assert queue.destroyed == list(range(9))


def test_a_run_holds_so_many_bytes_and_one_record_more() -> None:
    size = 2 << 20
    records = [RawRecord(0, it, 0, b"k", bytes([it]) * size) for it in range(5)]
    runs = Queue(list(map(message_of, records)), 5).runs()
    assert [len(it) for it in runs] == [2, 2, 1]
    assert [it for packed in runs for it in batch_of(packed).records()] == records


def test_memory_is_used_again_once_nobody_has_it() -> None:
    memory = RunMemory(10, 100)
    first, second = memory.take(), memory.take()
    held, column = first.address, first.columns(0)[2]
    del first
    assert memory.take().address not in (held, second.address)
    del column
    assert memory.take().address == held
    memory.close()
    assert memory._free == []


def test_memory_that_nobody_needs_goes() -> None:
    memory, gone = RunMemory(10, 100), list[int]()
    drop = memory._drop
    memory._drop = lambda address: (gone.append(address), drop(address))
    kept, given_back = memory.take(), memory.take()
    addresses = [given_back.address, kept.address]
    del given_back
    assert gone == []
    memory.close()
    assert gone == addresses[:1]
    del kept
    assert gone == addresses


def test_what_was_in_memory_before_is_not_seen_again() -> None:
    memory = RunMemory(5, 64)
    before = [RawRecord(0, it, 9 - it, b"\0\2%d" % it, b"v") for it in range(12)]
    runs = Queue([*map(message_of, before), error_of(0, 12, -191)], 20).runs(repeated=2, memory=memory)
    assert [(it.run.repeated, it.run.error) for it in runs] == [(0, 0), (2, 0), (2, 0), (2, -191)]
    del runs
    after = [RawRecord(it // 5, it, it, b"\0\1%d" % it, b"w") for it in range(25)]
    for number, run in enumerate(Queue(list(map(message_of, after)), 5).runs(memory=memory)):
        batch = batch_of(run)
        assert isinstance(batch.keys, PackedColumn)
        assert [*batch.records()] == after[5 * number : 5 * number + 5]
        assert (run.run.error, run.run.in_time_order, run.run.repeated, batch.keys.others()) == (0, 1, 0, [])


def test_memory_of_records_that_are_rarely_so_long_is_given_back() -> None:
    memory = RunMemory(10, 64)
    long, short = (RawRecord(0, 0, 0, b"k", bytes(size)) for size in (20 << 20, 10))
    (run,) = Queue([message_of(long)], 1).runs(memory=memory)
    assert run.run.size > len(long.value or b"")
    del run
    runs = [*Queue([message_of(short)], 1).runs(memory=memory), memory.take()]
    assert [*batch_of(runs[0]).records()] == [short]
    assert max(it.run.size for it in runs) <= 16 << 20


def changed(value: bytes) -> list[bytes]:
    """It, and what is no more than a byte from it."""
    out = [value, value[:-1], value + b"\0", value + bytes(18), b""]
    for at, byte in enumerate(value):
        out += [value[:at] + bytes([it]) + value[at + 1 :] for it in {*range(6), 16, 17, byte ^ 128, 255}]
    return out


TOPIC_ID = Uuid(bytes(range(1, 17)))


@pytest.mark.parametrize("version", [3, 4, "4 with an id"])
def test_values_are_plain_where_the_decoder_says_so(version: int | str) -> None:
    """Of one that is not, what it says would be read at places where something else is."""
    plain = {
        3: struct.pack(">hqihq", 3, 5, 6, 0, 1 << 40),
        4: commit_value(5, 1 << 40, 6),
        "4 with an id": commit_value(5, 1 << 40, 6, topic_id=TOPIC_ID),
    }[version]
    values = changed(plain)
    batch = packed([RawRecord(0, it, 0, b"key", value) for it, value in enumerate(values)])
    index = KeyIndex([(b"key", 0)])
    assert isinstance(batch.keys, PackedColumn)
    for at, value in enumerate(values):
        block, counts = bytearray(b"x" * 42), array("q", [0])
        count, _ = index.put_known(batch.keys, at, at + 1, block, counts)
        assert count == counts[0] == has_fixed_layout(value), value
        assert bytes(block) == (struct.pack("42s", value) if count else b"x" * 42)


def hashes_of(run: PackedRun) -> Any:
    return cast(run.run.hashes, POINTER(c_uint64))


SIP_HASHES = {
    1: 0x68A914128E01E473,
    7: 0x2F098AB0C751325A,
    8: 0xEAD411E67EBE2EEA,
    15: 0xF30EB725BB91C9EA,
    16: 0x8972188433A5C5B7,
    39: 0x6C76B6D34BB6D26B,
}
"""SipHash-1-3 of so many bytes 0, 1, 2, … with a seed of zeros, as Python 3.11 with PYTHONHASHSEED=0 tells."""


@pytest.mark.skipif(sys.byteorder != "little", reason="the words of a key are taken as they are")
def test_keys_have_a_hash_of_which_nobody_knows_how_to_make_collisions() -> None:
    keys = [bytes(range(length)) for length in SIP_HASHES]
    messages = [message_of(RawRecord(0, it, 0, key, None)) for it, key in enumerate(keys)]

    def hashes(*seed: int) -> list[int]:
        (run,) = Queue(messages, len(keys)).runs(seed=seed)
        return list(hashes_of(run)[: len(keys)])

    assert hashes(0, 0) == [*SIP_HASHES.values()]
    # Of one byte under the key 0, 1, … 15: from the vectors that others test theirs with.
    assert hashes(0x0706050403020100, 0x0F0E0D0C0B0A0908)[0].to_bytes(8, "little").hex() == "93ca577df39bf4c9"


@pytest.mark.parametrize("other", [b"key 2", b"key", b"key 10"])
def test_another_key_of_the_same_hash_is_another_key(other: bytes) -> None:
    index = KeyIndex([(b"key 1", 0)])
    batch = packed([RawRecord(0, it, 0, key, commit_value(5, 6)) for it, key in enumerate((b"key 1", other))])
    assert isinstance(batch.keys, PackedColumn)
    hashes = hashes_of(batch.keys.packed)
    hashes[1] = hashes[0]
    assert index.put_known(batch.keys, 0, 2, bytearray(42), array("q", bytes(8))) == (1, array("i", [0]))


KEYS = st.integers(0, 30).map(lambda it: b"\0\1" + bytes([it]) * (1 + it % 11))


@settings(max_examples=examples(200), deadline=None)
@given(st.lists(st.tuples(st.sampled_from(["add", "remove", "look"]), KEYS), max_size=200))
def test_numbers_are_those_that_were_given(steps: list[tuple[str, bytes]]) -> None:
    index, known = KeyIndex([]), dict[bytes, int]()
    for number, (step, key) in enumerate(steps):
        match step:
            case "add" if key not in known:
                known[key] = number
                index.add(key, number)
            case "remove":
                known.pop(key, None)
                index.remove(key)
            case _:
                found = put(index, [key], len(steps))
                assert found == ([known[key]] if key in known else [])


def test_a_position_is_told_once_until_it_is_asked_for_again() -> None:
    index, block, counts = KeyIndex([(b"a", 0), (b"b", 1)]), bytearray(84), array("q", bytes(16))

    def told(*keys: bytes) -> list[int]:
        batch = packed([RawRecord(0, 0, 0, key, commit_value(5, 6)) for key in keys])
        assert isinstance(batch.keys, PackedColumn)
        count, touched = index.put_known(batch.keys, 0, len(keys), block, counts)
        assert count == len(keys)
        return list(touched)

    assert told(b"b", b"a", b"b") == [1, 0]
    assert told(b"a", b"b") == []
    index.untouch()
    assert told(b"a") == [0]
    index.remove(b"a")
    index.add(b"c", 0)  # the number of a position that is gone
    assert told(b"b", b"c") == [1, 0]
    assert list(counts) == [4, 4]


class IndexHead(Structure):
    """What `key_index` begins with."""

    _fields_ = [
        ("seed", c_uint64 * 2),
        ("entries", c_void_p),
        *((name, c_uint64) for name in ("size", "taken", "live")),
        ("data", c_void_p),
        *((name, c_uint64) for name in ("used", "room")),
    ]


def test_of_many_positions_each_is_told_again() -> None:
    keys = [b"%03d" % it * 50 for it in range(1_000)]
    index = KeyIndex(zip(keys, range(len(keys)), strict=True))
    for _ in range(2):
        assert put(index, keys, len(keys)) == list(range(len(keys)))


def test_keys_that_come_and_go_take_no_more_and_more_room() -> None:
    index = KeyIndex([])
    for number in range(20_000):
        index.add(b"%d" % number, number % 7)
        index.remove(b"%d" % number)
    head = IndexHead.from_address(index._address)
    assert (head.live, head.size) == (0, 64)
    assert head.room < 8_192
    kept = KeyIndex((b"%d" % it, it) for it in range(5_000))
    assert put(index, [b"19999"], 10) == []
    assert put(kept, [b"0", b"4999", b"77"], 5_000) == [0, 4_999, 77]


def put(index: KeyIndex, keys: list[bytes], room: int) -> list[int]:
    """The numbers of positions that were committed by these keys."""
    value = commit_value(5, 6)
    batch = packed([RawRecord(0, it, 0, key, value) for it, key in enumerate(keys)])
    assert isinstance(batch.keys, PackedColumn)
    block, counts = bytearray(42 * room), array("q", bytes(8 * room))
    index.untouch()
    count, touched = index.put_known(batch.keys, 0, len(keys), block, counts)
    numbers = list(index.numbers(count))
    assert list(touched) == list(dict.fromkeys(numbers))
    assert [it for it in range(room) if counts[it]] == sorted(touched)
    for it in range(room):
        place = bytes(block[42 * it : 42 * it + 42])
        assert place == (struct.pack("42s", value) if it in touched else bytes(42))
    return numbers
