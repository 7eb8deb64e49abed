"""Whatever the history: runs and single records agree, partitions do not touch each other, nothing raises."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from agent.core.events.events import EVENT_CLASSES, FINDING, SAMPLE, event_id
from agent.core.records import RawRecord, RecordBatch
from agent.core.shadow.cluster import ClusterMirror
from agent.core.shadow.mirror import PartitionMirror
from agent.core.shadow.transitions import Transition
from agent.core.shadow.views import GroupView
from tests import examples
from tests.unit.core.packing import NEEDS_COMPILED, packed
from tests.unit.core.shadow.build import Log, commit, new_group, run_of, topic_id
from tests.unit.core.shadow.histories import histories
from tests.unit.core.shadow.oracle import Broker
from tests.unit.core.shadow.scripts import TOPIC

FAIR = settings(max_examples=examples(150), deadline=None, suppress_health_check=[HealthCheck.too_slow])


def everything(mirror: PartitionMirror) -> dict[str, Any]:
    """All that can be asked of a mirror."""
    return {
        "views": list(mirror.views()),
        "committed": {name: mirror.committed(name) for name in mirror.groups},
        "records": +mirror.record_counts,
        "errors": +mirror.error_counts,
        "rejects": [(reject.at, str(reject.error)) for reject in mirror.rejects],
        "next": mirror.next_offset,
        "names": mirror.names,
        "offsets": mirror.offsets.latest,
        "counts": mirror.offsets.counts,
        "moved": mirror.moved.groups,
    }


def one_by_one(records: Sequence[RawRecord]) -> tuple[PartitionMirror, list[Transition]]:
    mirror = PartitionMirror(records[0].partition)
    return mirror, [transition for record in records for transition in mirror.replay(record)]


BatchOf = Callable[[Sequence[RawRecord]], RecordBatch]
EITHER_FORM = pytest.mark.parametrize(
    "batch_of", [pytest.param(run_of, id="lists"), pytest.param(packed, id="packed", marks=NEEDS_COMPILED)]
)
"""The columns of a batch: lists, or blocks of memory."""


def in_runs(
    records: Sequence[RawRecord], cuts: set[int], batch_of: BatchOf = run_of
) -> tuple[PartitionMirror, list[Transition]]:
    mirror, out = PartitionMirror(records[0].partition), []
    edges = [0, *sorted(cut for cut in cuts if 0 < cut < len(records)), len(records)]
    for start, end in pairwise(edges):
        out += mirror.replay_batch(batch_of(records[start:end]))
    return mirror, out


@st.composite
def corrupted(draw: st.DrawFn, records: Sequence[RawRecord]) -> list[RawRecord]:
    """The records with some keys and values cut short, changed in a byte, taken away or put in another's place."""
    out = list(records)
    for _ in range(draw(st.integers(0, 6))):
        at = draw(st.integers(0, len(out) - 1))
        column = draw(st.sampled_from(["key", "value"]))
        data = getattr(out[at], column)
        changed: bytes | None
        match draw(st.sampled_from(["cut", "flip", "none", "junk", "other", "longer"])):
            case "cut" if data:
                changed = data[: draw(st.integers(0, len(data) - 1))]
            case "flip" if data:
                spot = draw(st.integers(0, len(data) - 1))
                changed = data[:spot] + bytes([draw(st.integers(0, 255))]) + data[spot + 1 :]
            case "none":
                changed = None
            case "other":
                changed = getattr(out[draw(st.integers(0, len(out) - 1))], column)
            case "longer":
                changed = (data or b"") + b"\x00"
            case _:
                changed = draw(st.binary(max_size=40))
        out[at] = out[at]._replace(key=changed) if column == "key" else out[at]._replace(value=changed)
    return out


def logs() -> st.SearchStrategy[Log]:
    return histories().filter(lambda log: log.records)


@EITHER_FORM
@FAIR
@given(st.data())
def test_runs_and_records_agree(batch_of: BatchOf, data: st.DataObject) -> None:
    records = data.draw(logs()).records
    if data.draw(st.booleans()):
        records = data.draw(corrupted(records))
    cuts = data.draw(st.sets(st.integers(1, len(records))))
    single, single_said = one_by_one(records)
    runs, runs_said = in_runs(records, cuts, batch_of)
    assert runs_said == single_said
    assert everything(runs) == everything(single)


def test_a_run_of_known_plain_commits_takes_the_bulk_path() -> None:
    log = Log()
    first = [commit(partition=number) for number in range(50)]
    again = [commit(partition=number, offset=99) for number in range(50)]
    log.add(*first).add(*again)
    runs, _ = one_by_one(log.records[:50])
    assert runs.offsets.put_known_batch([key for key, _ in again], [value for _, value in again]), (
        "it is the bulk path"
    )
    single, _ = one_by_one(log.records)
    bulk, said = in_runs(log.records, {50})
    assert everything(bulk) == everything(single)
    assert [transition.kind for transition in said] == ["group_created"]


@EITHER_FORM
def test_a_record_that_is_passed_over_takes_nothing_of_those_before_it(
    batch_of: BatchOf, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise ValueError

    monkeypatch.setattr(PartitionMirror, "_replay_classic", fail)
    log = Log()
    log.add(commit("t", 0, 1), commit("t", 0, 2), commit("t", 0, 3), new_group(), commit("t", 0, 4))
    single, runs = PartitionMirror(log.partition), PartitionMirror(log.partition)
    for record in log.records:
        single.replay_batch(batch_of([record]), passes_over=True)
    runs.replay_batch(batch_of(log.records), passes_over=True)
    assert everything(runs) == everything(single)
    assert runs.record_counts["offset_commit"] == 4
    assert runs._newest_ms == single._newest_ms


@EITHER_FORM
@FAIR
@given(st.data())
def test_runs_of_commits_agree_on_every_path(batch_of: BatchOf, data: st.DataObject) -> None:
    # Few keys and nearly only plain values: most runs are taken whole, some fall back by a single record.
    def version() -> int:
        return data.draw(st.sampled_from([3, 3, 3, 4, 0]))

    log = Log()
    log.add(*(commit(partition=number) for number in range(3)))
    for _ in range(data.draw(st.integers(1, 12))):
        log.add(
            commit(
                partition=data.draw(st.sampled_from([0, 1, 2, 2, 3])),
                offset=data.draw(st.integers(0, 9)),
                version=version(),
                key_type=data.draw(st.sampled_from([1, 1, 1, 1, 0])),
            )
        )
    records = data.draw(corrupted(log.records)) if data.draw(st.booleans()) else log.records
    single, single_said = one_by_one(records)
    runs, runs_said = in_runs(records, data.draw(st.sets(st.integers(1, len(records)))), batch_of)
    assert (runs_said, everything(runs)) == (single_said, everything(single))


@FAIR
@given(st.data())
def test_partitions_do_not_touch_each_other(data: st.DataObject) -> None:
    parts = [data.draw(histories(max_operations=10, partition=number)).records for number in range(3)]
    assume(all(parts))
    alone = {records[0].partition: one_by_one(records) for records in parts}
    cluster, said = ClusterMirror(), dict[int, list[Transition]]()
    left = [list(records) for records in parts]
    while any(left):
        rows = data.draw(st.sampled_from([rows for rows in left if rows]))
        count = data.draw(st.integers(1, len(rows)))
        taken, rows[:] = rows[:count], rows[count:]
        said.setdefault(taken[0].partition, []).extend(cluster.replay_batch(run_of(taken)))
    for number, (mirror, transitions) in alone.items():
        assert said[number] == transitions
        assert everything(cluster.partitions[number]) == everything(mirror)


@settings(FAIR, max_examples=examples(300))
@given(st.data())
def test_no_bytes_make_it_raise(data: st.DataObject) -> None:
    records = data.draw(corrupted(data.draw(logs()).records))
    mirror, transitions = one_by_one(records)
    everything(mirror)
    assert sum(mirror.record_counts.values()) + sum(mirror.error_counts.values()) == len(records)
    for transition in transitions:
        event_id(transition)


@FAIR
@given(st.binary(max_size=60) | st.none(), st.binary(max_size=60) | st.none(), st.booleans())
def test_no_arbitrary_bytes_make_it_raise(key: bytes | None, value: bytes | None, control: bool) -> None:
    mirror = PartitionMirror(0)
    mirror.replay(RawRecord(0, 0, 0, key, value, control))
    assert mirror.next_offset == 1
    mirror.replay_batch(RecordBatch(0, [1], [0], [key], [value]))
    assert mirror.next_offset == 2


@settings(FAIR, max_examples=examples(300))
@given(logs())
def test_states_are_the_brokers_at_every_record(log: Log) -> None:
    mirror, broker = PartitionMirror(log.partition), Broker()
    for at, record in enumerate(log.records):
        mirror.replay(record)
        name = broker.replay(record)
        assert name is not None
        # Inside a batch the mirror may know better than the broker's replay (a migration); batches are atomic.
        if at + 1 < len(log.records) and log.records[at + 1].timestamp_ms == record.timestamp_ms:
            continue
        theirs, ours = broker.groups.get(name), mirror.view(name)
        if name not in broker.groups:
            assert ours is None
        elif theirs is None:
            assert ours is not None
            assert ours.group_type == "classic"
        else:
            assert ours is not None
            assert (ours.group_type, ours.state) == (theirs.group_type, theirs.state)
            assert (ours.generation, ours.target_generation) == (theirs.epoch, theirs.target_epoch)
            assert {it.member_id for it in ours.members} == set(theirs.members)


@settings(FAIR, max_examples=examples(300))
@given(logs())
def test_a_plausible_history_has_no_anomaly_but_gaps_and_every_event_its_own_id(log: Log) -> None:
    mirror, transitions = one_by_one(log.records)
    ids = [event_id(transition) for transition in transitions]
    assert len(set(ids)) == len(ids)
    kinds = {kind for group in mirror.groups.values() for kind in group.notes.counts}
    assert kinds <= {"generation_gap"}


@settings(FAIR, max_examples=examples(300))
@given(logs())
def test_who_joins_and_leaves_adds_up_to_the_members(log: Log) -> None:
    _, transitions = one_by_one(log.records)
    mirror = log.mirror()
    present: dict[str, set[str]] = {}
    for it in transitions:
        members = present.setdefault(it.group, set())
        match it.kind:
            case "group_created":
                assert not members, "a group that is created is empty"
            case "group_deleted":
                del present[it.group]
            case "member_joined":
                who: Any = it
                assert who.member.member_id not in members
                members.add(who.member.member_id)
            case "member_left":
                who = it
                members.remove(who.member.member_id)
            case "static_member_replaced":
                who = it
                members.remove(who.old.member_id)
                members.add(who.new.member_id)
            case "group_emptied":
                assert not members
    assert set(present) == set(mirror.groups)
    for name, members in present.items():
        view = mirror.view(name)
        assert view is not None
        assert {it.member_id for it in view.members} == members


def compacted(records: Sequence[RawRecord]) -> list[RawRecord]:
    """What the log cleaner leaves: the last record of each key, in order."""
    last = {record.key: record for record in records}
    return sorted(last.values(), key=lambda record: record.offset)


def lasting(view: GroupView) -> tuple[Any, ...]:
    """What the newest records of a group decide, and not those before them.

    Left out: counters and anomalies (they count what was read), and the time of the state of a group whose state
    is computed: the record at which it changed may be compacted away. A classic group's time is in its record.
    """
    since = view.state_since_ms if view.group_type in ("classic", "connect") and view.generation >= 0 else None
    return (
        view.group,
        view.group_type,
        view.state,
        view.generation,
        view.target_generation,
        view.protocol,
        view.leader,
        since,
        view.members,
        view.committed_partitions,
        view.last_commit_ms,
    )


@settings(FAIR, max_examples=examples(300))
@given(logs())
def test_a_compacted_log_gives_the_same_groups(log: Log) -> None:
    whole, _ = one_by_one(log.records)
    rest, _ = one_by_one(compacted(log.records))
    # A topic's name may have been in a commit that is compacted away; so it is given here.
    names = {topic_id(TOPIC): TOPIC}
    assert {view.group: lasting(view) for view in rest.views(names)} == {
        view.group: lasting(view) for view in whole.views(names)
    }
    for name in whole.groups:
        assert rest.committed(name) == whole.committed(name)


def test_the_histories_reach_what_they_should() -> None:
    # A guard on the generator: it must keep reaching every type of group and every kind of transition.
    seen: set[str] = set()
    types: set[str] = set()

    @settings(max_examples=300, deadline=None, database=None, derandomize=True)
    @given(histories(max_operations=40))
    def reach(log: Log) -> None:
        _, transitions = log.replayed()
        seen.update(transition.kind for transition in transitions)
        types.update(transition.group_type for transition in transitions)

    reach()
    assert types == {"classic", "consumer", "share", "streams"}
    assert seen == EVENT_CLASSES.keys() - {FINDING, SAMPLE}
