"""The block of values against a dict of them, over random stories of values of all layouts and versions."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.core.wire import WireError
from agent.core.wire.commit_table import FEW, CommitBlock, CommitTable
from agent.core.wire.offset_commit_fastpath import commit_value, has_fixed_layout, read_commit
from agent.core.wire.offsets import OffsetCommitValue
from agent.core.wire.primitives import ZERO_UUID, Uuid
from agent.core.wire.records import RECORD_TYPES, encode_value

IDS = [Uuid(bytes([number]) * 16) for number in range(1, 4)]
MORE_TAGS = commit_value(42, 43)[:-1] + bytes.fromhex("02 00 10") + IDS[0] + bytes.fromhex("05 01 ff")
"""A value of version 4 with a tag that nobody knows."""
NUMBERS = st.sampled_from([0, 1, -1, 255, 256, 1_795_000_000_001, -(1 << 63), (1 << 63) - 1])


def version_3(offset: int, ms: int, epoch: int = -1, metadata: str = "") -> bytes:
    return encode_value(RECORD_TYPES[1], OffsetCommitValue(offset, epoch, metadata, ms), 3)


def version_1(offset: int, ms: int) -> bytes:
    return encode_value(RECORD_TYPES[1], OffsetCommitValue(offset, -1, "", ms, expire_timestamp=ms), 1)


V3 = st.builds(version_3, NUMBERS, NUMBERS, st.sampled_from([-1, 7]))
V4 = st.builds(commit_value, NUMBERS, NUMBERS, st.sampled_from([-1, 7]))
LONG = st.builds(
    commit_value, NUMBERS, NUMBERS, st.just(3), st.just(""), st.sampled_from([*IDS, Uuid(b"\0" * 15 + b"\1")])
)
OTHERS = st.one_of(
    st.builds(version_3, NUMBERS, NUMBERS, st.just(1), st.just("metadata")),
    st.builds(commit_value, NUMBERS, NUMBERS, st.just(2), st.just("x" * 200), st.sampled_from([ZERO_UUID, *IDS])),
    st.builds(version_1, NUMBERS, NUMBERS),
    st.just(MORE_TAGS),
)
MIXTURES = st.sampled_from([V3, V4, LONG, V3 | LONG, V4 | LONG, V3 | V4 | LONG | OTHERS])


def same(table: CommitBlock, values: list[bytes], numbers: list[int]) -> None:
    """What the block tells of these numbers is what each value says, read the general way."""
    commits = [read_commit(values[number]) for number in numbers]
    offsets, times = [it.offset for it in commits], [it.commit_ms for it in commits]
    ids = [it.topic_id for it in commits]
    assert [list(it) for it in table.columns(numbers)] == [offsets, times, ids]
    assert (list(table.offsets(numbers)), list(table.times_ms(numbers))) == (offsets, times)


@given(MIXTURES.flatmap(lambda kind: st.lists(kind, min_size=1, max_size=3 * FEW)), st.randoms(use_true_random=False))
def test_what_is_told_is_what_each_value_says(values: list[bytes], dice: random.Random) -> None:
    table = CommitTable(values)
    numbers = [dice.randrange(len(values)) for _ in values]
    for some in (numbers, numbers[:1], []):
        same(table, values, some)
        assert table.values(some) == [values[number] for number in some]
        assert list(table.commits(some)) == [read_commit(values[number]) for number in some]


@given(st.lists(st.tuples(st.integers(0, 9), V3 | V4 | LONG | OTHERS), max_size=40), st.integers(1, 12))
def test_values_that_replace_each_other(story: list[tuple[int, bytes]], at_once: int) -> None:
    values = [commit_value(number, number) for number in range(10)]
    table = CommitTable()
    for number, value in enumerate(values):
        table.grow()
        table.put(number, value)
    for start in range(0, len(story), at_once):
        some = dict(story[start : start + at_once])
        before, taken = list(values), table.copy()
        if all(map(has_fixed_layout, some.values())):
            table.put_fixed(some, some.values())
        else:
            for number, value in some.items():
                table.put(number, value)
        for number, value in some.items():
            values[number] = value
        same(table, values, [*range(10)])
        assert table.values(range(10)) == values
        same(taken, before, [*range(10)])


@pytest.mark.parametrize(
    ("one", "other", "differ"),
    [
        (commit_value(1, 2, topic_id=IDS[0]), commit_value(3, 4, 5, topic_id=IDS[0]), False),
        (commit_value(1, 2, topic_id=IDS[0]), commit_value(1, 2, topic_id=IDS[1]), True),
        (commit_value(1, 2, topic_id=IDS[0]), commit_value(1, 2), True),
        (commit_value(1, 2, topic_id=IDS[0]), version_3(1, 1), True),
        (commit_value(1, 2, topic_id=IDS[0]), commit_value(1, 2, metadata="m", topic_id=IDS[0]), False),
        (commit_value(1, 2, topic_id=IDS[0]), commit_value(1, 2, metadata="m", topic_id=IDS[1]), True),
    ],
)
def test_that_a_topic_is_another_is_seen(one: bytes, other: bytes, differ: bool) -> None:
    table = CommitTable([one, commit_value(0, 0)])
    before = table.topic_id_bytes()
    table.put(0, other)
    assert (table.topic_id_bytes() != before) == differ


def test_where_no_value_has_an_id_none_changes() -> None:
    table = CommitTable([version_3(1, 2), version_3(3, 4)])
    before = table.topic_id_bytes()
    table.put(0, version_3(5, 257))
    assert table.topic_id_bytes() == before != b""
    table.put(0, commit_value(5, 6, topic_id=IDS[0]))
    assert table.topic_id_bytes() != before


def test_a_value_that_is_gone_leaves_nothing_for_the_next() -> None:
    table = CommitTable([commit_value(1, 2, metadata="m"), commit_value(3, 4)])
    table.clear(0)
    table.put(0, commit_value(5, 6), is_fixed=True)
    assert table.values([0, 1]) == [commit_value(5, 6), commit_value(3, 4)]


@pytest.mark.parametrize("make", [lambda values: CommitTable(values), lambda values: CommitTable(values[::-1])])
def test_a_value_that_does_not_decode_is_refused(make: Callable[[list[bytes]], CommitTable]) -> None:
    with pytest.raises(WireError):
        make([commit_value(1, 2), b"\0\4\0"])
