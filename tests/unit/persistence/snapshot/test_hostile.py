"""Snapshots that are not what they should be: refused, whatever is in them, and nothing is changed."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from hashlib import blake2b
from typing import Any

import cramjam
import msgspec
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from agent.core.diagnosis.engine import GroupAnalyzers
from agent.core.records import LogId
from agent.core.shadow.mirror import PartitionMirror
from agent.persistence.cluster_state import ClusterState
from agent.persistence.snapshot.envelope import (
    FORMAT,
    MAX_IMAGE_BYTES,
    Header,
    SnapshotIdentity,
    open_sealed,
    read_header,
    seal,
)
from agent.persistence.snapshot.errors import RefusalReason, SnapshotRefused
from analyzers.registry import select_analyzers
from tests import examples
from tests.harness.state_digest import canonical_form
from tests.unit.persistence.snapshot.cutting import ALL, digests
from tests.unit.simulation.generator.making import SMALL, a_cluster, runs

LOG = LogId("cluster-1", "topic-1")
FAIR = settings(max_examples=examples(150), deadline=None, suppress_health_check=[HealthCheck.too_slow])


@cache
def state() -> ClusterState:
    """Replayed once; not to be changed."""
    out = ClusterState(ALL, log=LOG)
    for run in runs(a_cluster().records):
        out.replay_batch(run)
    out.advance(SMALL.until_ms)
    return out


def new(log: LogId = LOG) -> ClusterState:
    return ClusterState(ALL, log=log)


@cache
def partition() -> int:
    """The one with the most groups."""
    return max(state().partitions, key=lambda it: len(state().mirror.partitions[it].groups))


@cache
def image() -> bytes:
    return state().capture(partition()).encode(123)


@cache
def plain() -> bytes:
    header, _ = read_header(image())
    return open_sealed(image(), header.identity, lambda version: header.fingerprints)[1]


def header(**changes: Any) -> Header:
    return read_header(image())[0]._replace(**changes)


def refused(blob: bytes, into: ClusterState | None = None) -> SnapshotRefused:
    target = new() if into is None else into
    before = digests(target)
    with pytest.raises(SnapshotRefused) as told:
        target.restore(partition(), blob)
    assert (digests(target), list(target.mirror.partitions)) == (before, list(target.partitions))
    return told.value


def test_it_says_whose_it_is() -> None:
    found, _ = read_header(image())
    assert found.identity == SnapshotIdentity("cluster-1", "topic-1", partition())
    assert (found.next_offset, found.clock_ms) == state().position(partition())
    assert (found.written_ms, found.size) == (123, len(plain()))


def other_settings() -> ClusterState:
    return ClusterState(select_analyzers(tuning={"rebalance_storm.min_rebalances": "7"}), log=LOG)


@pytest.mark.parametrize(
    ("kind", "into", "said"),
    [
        (
            RefusalReason.OTHER_CLUSTER,
            lambda: new(LogId("east", "topic-1")),
            "expected a snapshot of cluster east, got one of cluster clus",
        ),
        (
            RefusalReason.OTHER_TOPIC,
            lambda: new(LogId("cluster-1", "anew")),
            "expected a snapshot of topic anew, got one of topic topic-1",
        ),
        (RefusalReason.OTHER_SETTINGS, other_settings, "of analyzers and settings"),
    ],
)
def test_another_state_refuses_it(kind: RefusalReason, into: Callable[[], ClusterState], said: str) -> None:
    told = refused(image(), into())
    assert told.reason is kind
    assert said in str(told)


def test_one_that_is_there_stays() -> None:
    into = new()
    into.restore(partition(), image())
    assert refused(image()[:-1], into).reason is RefusalReason.CORRUPT
    assert refused(seal(header(), b"\x90"), into).reason is RefusalReason.CORRUPT


def test_of_another_partition_or_layout_or_moment() -> None:
    with pytest.raises(SnapshotRefused, match=f"expected a snapshot of partition {partition() + 1}") as told:
        new().restore(partition() + 1, image())
    assert told.value.reason is RefusalReason.OTHER_PARTITION
    with pytest.raises(SnapshotRefused) as told:
        new().restore_cluster(image())
    assert told.value.reason is RefusalReason.OTHER_PARTITION
    prints = header().fingerprints._replace(layout="of yesterday")
    assert refused(seal(header(fingerprints=prints), plain())).reason is RefusalReason.OTHER_LAYOUT
    assert "of another moment" in str(refused(seal(header(next_offset=1), plain())))


def sealed(rest: bytes) -> bytes:
    return b"kshadow\x00" + blake2b(rest, digest_size=32).digest() + rest


@FAIR
@given(st.binary(max_size=200))
@example(b"")
@example(b"kshadow\x00" + bytes(100))
def test_random_bytes(blob: bytes) -> None:
    assert refused(blob).reason is RefusalReason.CORRUPT
    assert refused(sealed(blob)).reason in (RefusalReason.CORRUPT, RefusalReason.OTHER_FORMAT)


@FAIR
@given(st.integers(0, 10**9), st.integers(0, 7))
def test_a_flipped_bit(at: int, bit: int) -> None:
    blob = bytearray(image())
    blob[at % len(blob)] ^= 1 << bit
    assert refused(bytes(blob)).reason is RefusalReason.CORRUPT


@FAIR
@given(st.integers(0, 10**9))
def test_cut_short(at: int) -> None:
    assert refused(image()[: at % len(image())]).reason is RefusalReason.CORRUPT


@FAIR
@given(st.integers(0, 10**9), st.binary(min_size=1, max_size=9))
def test_damage_under_a_right_checksum(at: int, damage: bytes) -> None:
    rest = bytearray(image()[40:])
    at %= len(rest)
    rest[at : at + len(damage)] = damage
    with suppress(SnapshotRefused):
        new().restore(partition(), sealed(bytes(rest)))


def other(value: Any) -> st.SearchStrategy[Any]:
    """Something else in a value's place."""
    ints = st.integers(-(2**63), 2**64 - 1)
    kinds = [st.none(), st.booleans(), st.text(max_size=5), st.binary(max_size=5), ints, st.floats(allow_nan=True)]
    kinds += [st.just([]), st.just({}), st.just([value]), st.just([[[value]]]), st.just({"__class__": value})]
    return st.one_of(kinds)


def changed(draw: Callable[..., Any], it: Any, depth: int = 0) -> Any:
    """The same with one thing in it changed."""
    if isinstance(it, dict) and it and draw(st.integers(0, 9)):
        key = draw(st.sampled_from(list(it)))
        return {**it, key: changed(draw, it[key], depth + 1)}
    if isinstance(it, list) and it and draw(st.integers(0, 9)):
        at = draw(st.integers(0, len(it) - 1))
        how = draw(st.sampled_from(["change", "change", "change", "drop", "twice"]))
        if how == "change":
            return [*it[:at], changed(draw, it[at], depth + 1), *it[at + 1 :]]
        return [*it[:at], *it[at + 1 :]] if how == "drop" else [*it[: at + 1], *it[at:]]
    if isinstance(it, int) and not isinstance(it, bool) and draw(st.booleans()):
        return it + draw(st.sampled_from([-1, 1, 2**31, -(2**31)]))
    return draw(other(it))


@cache
def tree() -> Any:
    return msgspec.msgpack.decode(plain(), strict=False)


@settings(max_examples=examples(400), deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.data())
def test_hostile_content_under_a_right_checksum(data: st.DataObject) -> None:
    hostile = msgspec.msgpack.encode(changed(data.draw, tree()))
    into = new()
    before = digests(into)
    try:
        into.restore(partition(), seal(header(), hostile))
    except SnapshotRefused:
        assert digests(into) == before
        return
    # What is taken is of the declared types: it can be written again, and asked.
    assert into.capture(partition()).encode()
    list(into.mirror.views())


@pytest.mark.parametrize(
    "hostile",
    [
        b"\xdd\xff\xff\xff\xff" * 1000,
        b"\xdf\xff\xff\xff\xff" * 1000,
        b"\x92\x93\xdd\xff\xff\xff\xff",
        b"\x91" * 3_000_000,
        b"\xc6\xff\xff\xff\xff" + bytes(1000),
        b"",
        b"\xc1",
    ],
    ids=["long list", "long dict", "long in place", "deep", "long bytes", "nothing", "no type"],
)
def test_absurd_lengths_take_no_time(hostile: bytes) -> None:
    began = time.process_time()
    assert refused(seal(header(), hostile)).reason is RefusalReason.CORRUPT
    assert time.process_time() - began < 5


def pretending(size: int, packed: bytes) -> bytes:
    head = msgspec.msgpack.encode(header(size=size))
    return sealed(FORMAT.to_bytes(2, "big") + len(head).to_bytes(4, "big") + head + packed)


@pytest.mark.parametrize("size", [-1, MAX_IMAGE_BYTES + 1, 2**62, 100_000_000, 10_001, 1000, 0])
def test_a_size_that_is_not_so(size: int) -> None:
    packed = bytes(cramjam.zstd.compress(bytes(10_000)))
    assert refused(pretending(size, packed)).reason is RefusalReason.CORRUPT
    assert refused(pretending(size, b"no zstd at all")).reason is RefusalReason.CORRUPT


def test_a_header_longer_than_all() -> None:
    assert "expected a header of 4294967295 bytes" in str(refused(sealed(FORMAT.to_bytes(2, "big") + b"\xff" * 9)))


def test_references_to_what_is_not_there() -> None:
    """Of objects that are held in two places, of topics, of members."""
    it = msgspec.msgpack.decode(plain())
    (slots, _, members), _ = it
    assert slots
    assert members
    for table in (0, 2):
        cut = msgspec.msgpack.decode(plain())
        cut[0][table] = []
        assert refused(seal(header(), msgspec.msgpack.encode(cut))).reason is RefusalReason.CORRUPT


def test_what_is_no_state_of_a_groups_analyzers(caplog: pytest.LogCaptureFixture) -> None:
    """It is read when it is needed. What cannot be read begins anew, of that group alone."""
    it = msgspec.msgpack.decode(plain())
    groups = it[1][1][2]
    name = next(iter(groups))
    groups[name][0] = "no consumption"
    into = new()
    into.restore(partition(), seal(header(), msgspec.msgpack.encode(it)))
    assert not caplog.records
    mine, theirs = (of.diagnosis.partition(partition()) for of in (into, state()))
    assert mine is not None
    assert theirs is not None
    for other_name in groups:
        watched = mine._groups[other_name]
        expected = GroupAnalyzers(ALL.makes) if other_name == name else theirs._groups[other_name]
        assert canonical_form([watched.consumption, watched.watches]) == canonical_form(
            [expected.consumption, expected.watches]
        )
        assert watched.due_ms == theirs._groups[other_name].due_ms
    (told,) = caplog.messages
    said = f"group {name!r}: what its analyzers knew cannot be read, so they begin anew: Expected `array`"
    assert told.startswith(said)


def test_keys_and_values_that_are_no_commits() -> None:
    offsets = sorted(PartitionMirror.STATE).index("offsets")
    for column, bad in ((0, b"\x00\x02\x00\x01g"), (0, b""), (1, b"\x00\x63"), (1, b"")):
        it = msgspec.msgpack.decode(plain())
        it[1][0][offsets][column][0] = bad
        assert refused(seal(header(), msgspec.msgpack.encode(it))).reason is RefusalReason.CORRUPT


def test_events_that_are_none() -> None:
    for bad in (b"{", b"[]", b'{"type": 1}'):
        it = msgspec.msgpack.decode(plain())
        it[1][3][0][0][2][2][0] = bad
        assert refused(seal(header(), msgspec.msgpack.encode(it))).reason is RefusalReason.CORRUPT
    it = msgspec.msgpack.decode(plain())
    it[1][3][0][0][2][0].append(5)
    assert "columns of one length" in str(refused(seal(header(), msgspec.msgpack.encode(it))))


def test_the_clusters_image_is_refused_alike() -> None:
    into = new()
    with pytest.raises(SnapshotRefused) as told:
        into.restore_cluster(seal(header(identity=SnapshotIdentity(*LOG, None)), b"\x90"))
    assert told.value.reason is RefusalReason.CORRUPT
    assert into.judged_until_ms == 0
