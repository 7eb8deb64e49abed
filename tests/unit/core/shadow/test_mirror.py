"""What the mirror of a partition, and of all partitions, does with any record: offsets, rejects, counts, runs."""

from __future__ import annotations

import struct
from typing import Any

import pytest

from agent.core.records import RawRecord, RecordBatch
from agent.core.shadow.cluster import ClusterMirror
from agent.core.shadow.mirror import MAX_NAMES, MAX_REJECTS, PartitionMirror
from agent.core.shadow.views import CommittedOffset
from agent.core.wire.json_form import uuid_text
from agent.core.wire.primitives import ZERO_UUID
from tests.unit.core.shadow import build as b
from tests.unit.core.shadow.build import GROUP, T0, Log, Pair, commit, run_of, topic_id, uncommit


def marker(kind: int) -> tuple[bytes, bytes]:
    return struct.pack(">hh", 0, kind), struct.pack(">hi", 0, 9)


# Committed offsets.


def test_the_newest_commit_of_a_position_is_the_one_that_counts() -> None:
    log = Log().add(commit("t", 1, 10), commit("s", 0, 5)).add(commit("t", 1, 12, at_ms=T0 + 1, metadata="x"))
    assert log.mirror().committed(GROUP) == (
        CommittedOffset("s", 0, 5, 3, "", T0, None),
        CommittedOffset("t", 1, 12, 3, "x", T0 + 1, None),
    )


@pytest.mark.parametrize("version", range(5))
def test_every_version_of_a_commit(version: int) -> None:
    log = Log().add(commit(version=version, id_of_topic=topic_id("t") if version == 4 else ZERO_UUID))
    (it,) = log.mirror().committed(GROUP)
    assert (it.offset, it.committed_ms, it.metadata) == (10, T0, "")
    assert it.leader_epoch == (3 if version >= 3 else -1)
    assert it.topic_id == (uuid_text(topic_id("t")) if version == 4 else None)


def test_key_types_0_and_1_name_the_same_position() -> None:
    rows: list[tuple[int, str, list[Pair], int | None]] = [
        (1, "the old one, then the new", [commit(key_type=0), commit(offset=11)], 11),
        (2, "the new one, then the old", [commit(), commit(offset=12, key_type=0)], 12),
        (3, "deleted under the other type", [commit(key_type=0), uncommit()], None),
        (4, "and the other way", [commit(), uncommit(key_type=0)], None),
    ]
    for number, why, pairs, offset in rows:
        mirror = Log().add(*pairs).mirror()
        assert [it.offset for it in mirror.committed(GROUP)] == ([] if offset is None else [offset]), (number, why)
        assert len(mirror.offsets) == (0 if offset is None else 1)
        assert mirror.offsets.count(GROUP) == len(mirror.offsets)


def test_deleting_one_offset_leaves_the_others() -> None:
    log = Log().add(commit(partition=0), commit(partition=1), uncommit(partition=0))
    mirror = log.mirror()
    assert [it.partition for it in mirror.committed(GROUP)] == [1]
    assert (mirror.offsets.count(GROUP), mirror.offsets.count("nobody")) == (1, 0)
    assert mirror.offsets.last_commit_ms("nobody") is None


def test_a_commit_with_a_topic_id_names_the_topic() -> None:
    mirror = Log().add(commit("orders", version=4, id_of_topic=topic_id("orders")), commit("plain")).mirror()
    assert mirror.names == {topic_id("orders"): "orders"}


@pytest.mark.parametrize("forks", [False, True])
def test_names_of_topics_that_were_shown_last_are_kept(forks: bool) -> None:
    """Where topics are made anew all the time, nobody ever says that an id is gone."""
    ephemeral = [f"test-{number}" for number in range(MAX_NAMES - 1)]
    log = Log().add(b.c_topics("early", "steady"), b.c_topics(*ephemeral), b.c_topics("steady"), b.c_topics("last"))
    mirror = PartitionMirror(log.partition)
    for record in log.records:
        if forks:
            fork = mirror.fork(GROUP)
            fork.replay(record)
            mirror.adopt(fork, GROUP)
        else:
            mirror.replay(record)
    assert len(mirror.names) == MAX_NAMES
    assert list(mirror.names.values())[-2:] == ["steady", "last"]
    assert not {"early", "test-0"} & set(mirror.names.values())


class NeverAllOfThem(dict[str, Any]):
    """Groups, of which only some may be looked for."""

    def keys(self) -> Any:
        raise AssertionError("all groups are looked at")

    __iter__ = keys


def test_a_group_that_is_leaving_makes_no_commit_look_at_all_groups() -> None:
    """A group whose record is deleted before its offsets stays so for as long as those do."""
    log = Log().add(commit(group="left"), b.classic_group(1, b.member("m", {"t": [0]}), group="left"))
    log.add(b.no_classic_group("left"))
    mirror = log.mirror()
    assert mirror._leaving
    mirror.groups = NeverAllOfThem(mirror.groups)
    mirror.replay_batch(run_of(Log().add(commit(group="left"), commit(group="new")).records))
    assert mirror.offsets.count("new") == 1


# Anything else.


def test_what_cannot_be_decoded_is_counted_and_kept() -> None:
    key, value = commit()
    assert value is not None
    rows: list[tuple[int, str, bytes | None, bytes | None, str]] = [
        (1, "no key", None, value, "invalid"),
        (2, "an unknown key type", b"\x00\x63", value, "unknown_key_type"),
        (3, "a short key", key[:5], value, "truncated"),
        (4, "a short value", key, value[:9], "truncated"),
        (5, "an unknown version", key, b"\x00\x63" + value[2:], "unknown_version"),
        (6, "too long a value", key, value + b"\x00", "trailing_bytes"),
    ]
    mirror = PartitionMirror(7)
    for number, why, bad_key, bad_value, kind in rows:
        assert mirror.replay(RawRecord(7, number, T0 + number, bad_key, bad_value)) == [], f"{number}: {why}"
        assert mirror.error_counts[kind] >= 1, f"{number}: {why}"
        at, error = mirror.rejects[-1]
        assert (at, error.kind) == ((7, number, T0 + number), kind), f"{number}: {why}"
    assert sum(mirror.error_counts.values()) == len(mirror.rejects) == len(rows)
    assert (mirror.groups, mirror.record_counts, mirror.next_offset) == ({}, {}, 7)


def test_a_bad_commit_leaves_the_good_one() -> None:
    key, value = commit()
    assert value is not None
    log = Log().add((key, value)).add((key, value[:-1]), (key, value + b"\x01"))
    assert [it.offset for it in log.mirror().committed(GROUP)] == [10]
    mirror = PartitionMirror(7)
    mirror.replay_batch(run_of(log.records))
    assert [it.offset for it in mirror.committed(GROUP)] == [10]
    assert sum(mirror.error_counts.values()) == 2


def test_rejects_are_bounded() -> None:
    mirror = PartitionMirror(0)
    for offset in range(MAX_REJECTS + 5):
        mirror.replay(RawRecord(0, offset, T0, b"\x00\x63", b""))
    assert len(mirror.rejects) == MAX_REJECTS
    assert mirror.rejects[0].at.offset == 5
    assert mirror.error_counts == {"unknown_key_type": MAX_REJECTS + 5}


def test_transaction_markers_are_counted_and_nothing_else() -> None:
    mirror = PartitionMirror(0)
    for offset, kind in enumerate((0, 1)):
        assert mirror.replay(RawRecord(0, offset, T0, *marker(kind), control=True)) == []
    assert mirror.record_counts == {"transaction_marker": 2}
    assert (mirror.groups, mirror.next_offset) == ({}, 2)
    mirror.replay(RawRecord(0, 2, T0, b"\x00", b"", control=True))
    assert mirror.error_counts == {"truncated": 1}


def test_records_are_counted_by_type() -> None:
    log = Log().add(b.new_group(), commit(), commit(key_type=0, partition=1), uncommit(), b.c_member("a", group="c"))
    log.add(b.tombstone(4, group="c"))
    assert log.mirror().record_counts == {
        "group_metadata": 1,
        "offset_commit": 2,
        "legacy_offset_commit": 1,
        "consumer_group_member_metadata": 1,
        "consumer_group_partition_metadata": 1,
    }


def test_an_empty_run_changes_nothing() -> None:
    mirror = PartitionMirror(3)
    assert mirror.replay_batch(RecordBatch(3, [], [], [], [])) == []
    assert mirror.next_offset == 0


def test_a_run_of_another_partition_is_a_mistake() -> None:
    with pytest.raises(AssertionError, match="one partition"):
        PartitionMirror(3).replay_batch(RecordBatch(4, [], [], [], []))


def test_what_is_not_in_the_mirror() -> None:
    mirror = PartitionMirror(0)
    assert (mirror.view("nobody"), mirror.committed("nobody"), list(mirror.views())) == (None, (), [])


def test_groups_come_by_name() -> None:
    log = Log().add(*(commit(group=name) for name in ("b", "c", "a")))
    assert [view.group for view in log.mirror().views()] == ["a", "b", "c"]
    assert {view.coordinator_partition for view in log.mirror().views()} == {log.partition}


def test_rejects_are_taken_once() -> None:
    mirror = PartitionMirror(0)
    mirror.replay(RawRecord(0, 4, T0, None, None))
    assert [reject.at.offset for reject in mirror.take_rejects()] == [4]
    assert mirror.take_rejects() == []
    assert mirror.error_counts == {"invalid": 1}, "what was counted stays counted"


def test_a_group_that_is_deleted_while_its_partition_is_listed() -> None:
    log = Log().add(*(b.new_group(name) for name in "abc"))
    mirror = log.mirror()
    listing = mirror.views()
    assert next(listing).group == "a"
    mirror.replay(RawRecord(log.partition, 3, T0, b.no_classic_group("b")[0], None))
    assert [view.group for view in listing] == ["c"]


# All partitions.


def test_names_of_topics_are_put_together_once() -> None:
    one = commit(group="a", topic="t", version=4, id_of_topic=topic_id("t"))
    two = commit(group="b", topic="u", version=4, id_of_topic=topic_id("u"))
    cluster = ClusterMirror()
    cluster.replay(RawRecord(1, 0, T0, *one))
    names = cluster.topic_names()
    assert names == {topic_id("t"): "t"}
    assert cluster.topic_names() is names, "whoever asks, about however many groups"
    cluster.replay(RawRecord(3, 0, T0, *one))
    assert cluster.topic_names() is names, "another partition shows the same"
    cluster.replay(RawRecord(2, 0, T0, *two))
    assert cluster.topic_names() == {topic_id("t"): "t", topic_id("u"): "u"}
    cluster.forget(1)
    cluster.forget(3)
    assert cluster.topic_names() == {topic_id("u"): "u"}


def test_a_cluster_is_its_partitions() -> None:
    one = Log(1).add(commit(group="a", topic="t", version=4, id_of_topic=topic_id("t")), (b"\x00\x63", b""))
    two = Log(2).add(b.c_current("m-1", 1, {"t": [0]}, group="b"), b.c_member("m-1", group="b"))
    cluster = ClusterMirror()
    assert [it.kind for it in cluster.replay_batch(run_of(two.records))] == ["group_created"]
    assert [it.kind for record in one.records for it in cluster.replay(record)] == ["group_created"]
    assert [view.group for view in cluster.views()] == ["a", "b"], "by partition"
    assert cluster.topic_names() == {topic_id("t"): "t"}
    found = cluster.find("b")
    assert found is not None
    assert found[0].members[0].assignment == {"t": (0,)}, "a name from another partition's record"
    assert found[1] == ()
    found = cluster.find("a")
    assert found is not None
    assert [it.topic for it in found[1]] == ["t"]
    assert cluster.find("nobody") is None
    view = cluster.view("b")
    assert view is not None
    assert (view.group, cluster.view("nobody")) == ("b", None)
    assert cluster.record_counts()["offset_commit"] == 1
    assert cluster.error_counts() == {"unknown_key_type": 1}
    for _ in range(2):
        cluster.forget(1)
        assert [view.group for view in cluster.views()] == ["b"]
    assert cluster.partition(1).next_offset == 0
    assert (ClusterMirror().record_counts(), list(ClusterMirror().views())) == ({}, [])


def test_what_was_committed_since_it_was_asked_for() -> None:
    mirror = PartitionMirror(0)
    assert mirror.offsets.take_touched() == {}
    mirror.offsets.track_touched()
    log = Log(0).add(b.commit("t", 0, 5, group="a"), b.commit("t", 0, 6, group="z"), b.commit("t", 1, 7, group="a"))
    log.add(b.commit("t", 0, 8, group="a"), b.commit("t", 2, 1, group="a"), b.uncommit("t", 2, group="a"))
    for record in log.records:
        mirror.replay(record)
    assert mirror.offsets.touched == 3
    taken = mirror.offsets.take_touched()
    assert {group: {slot: (it.offset, it.commits) for slot, it in of.items()} for group, of in taken.items()} == {
        "a": {("t", 0): (8, 2), ("t", 1): (7, 1)},
        "z": {("t", 0): (6, 1)},
    }
    assert (mirror.offsets.touched, mirror.offsets.take_touched()) == (0, {})


def test_what_was_counted_of_a_partition_stays_counted_when_it_is_begun_anew() -> None:
    cluster, log = ClusterMirror(), Log().add(commit(), commit())
    for record in [*log.records, RawRecord(1, 0, T0, *commit()), RawRecord(0, 2, T0, b"?", b"?")]:
        cluster.replay(record)
    before, errors = cluster.record_counts(), cluster.error_counts()
    assert before["offset_commit"] == 3
    assert errors.total() == 1
    cluster.forget(0)
    assert (cluster.record_counts(), cluster.error_counts()) == (before, errors)
    cluster.replay(RawRecord(0, 0, T0, *commit()))
    assert cluster.record_counts()["offset_commit"] == 4


def test_records_that_a_kept_mirror_has_counted_too_count_once() -> None:
    cluster, log = ClusterMirror(), Log().add(commit(), commit())
    kept = log.mirror()
    for record in log.records:
        cluster.replay(record)
    cluster.forget(0)
    cluster.put(kept)
    assert cluster.record_counts()["offset_commit"] == 2
    cluster.forget(0)
    cluster.put(Log().add(commit(), commit(), commit()).mirror())
    assert cluster.record_counts()["offset_commit"] == 3


def test_when_a_position_moved_is_forgotten_with_it() -> None:
    """Else topics that come and go would fill memory, and one that is made anew would seem to stand since before."""
    log = Log().add(b.classic_group(1, b.member("m", {"t": [0]})))
    mirror = log.mirror()
    mirror.moved.follow(GROUP)
    log.add(b.commit(offset=5, at_ms=T0)).add(b.uncommit())
    for record in log.records[1:]:
        mirror.replay(record)
    assert mirror.moved.groups == {GROUP: {}}
    log.add(b.commit(offset=5, at_ms=T0 + 60_000))
    mirror.replay(log.records[-1])
    assert mirror.moved.moved_ms(GROUP, "t", 0) == T0 + 60_000
