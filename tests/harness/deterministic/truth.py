"""What is right: one replay of the whole log by the same reducer, with nothing that breaks.

Owns what of a run is held to it: every event in every sink, how often, and every answer that was given on the way.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterable

import msgspec

from agent.core.diagnosis.engine import DiagnosisOutput
from agent.core.events.events import event_of
from agent.core.record_time import FOLLOWERS, Context
from agent.core.records import RawRecord, RecordBatch
from agent.core.shadow.mirror import PartitionMirror
from agent.persistence.cluster_state import ClusterState
from agent.persistence.export.encoded_event import encode_event
from tests.harness.deterministic.faults import Kind
from tests.harness.deterministic.sinks import Store
from tests.harness.deterministic.world import Look, World, all_analyzers, described

Events = dict[str, bytes]
"""By id, as they are written."""


def judge(world: World) -> int:
    """Hold what a run left to the truth; how many events that has."""
    looks: dict[int, list[Look]] = {}
    for look in world.seen.looks:
        if look.at_s < world.logs[look.partition].changed_s:
            looks.setdefault(look.partition, []).append(look)
    state = ClusterState(all_analyzers())
    outputs: list[DiagnosisOutput] = []
    required: Events = {}
    changed = {number for number, it in world.logs.items() if it.original is not None}
    for partition, log in world.logs.items():
        rows = [it.record for it in log.original or log.entries if it.is_given]
        found = _replayed(world, state, partition, rows, looks.get(partition, []))
        if partition in changed:
            required |= _judge_changed(world, partition, encoded(found), state)
        else:
            outputs += found
    for partition, clock_ms in world.seen.clocks.items():
        if partition not in changed:
            outputs += state.advance(clock_ms, [partition])
    spans_all = not changed and not world.knobs.shares
    expected = encoded(it for it in outputs if it.group is not None or spans_all)
    for store in world.stores:
        check_store(world, store, expected, required, changed)
    return len(expected) + len(required)


def _replayed(
    world: World, state: ClusterState, partition: int, rows: list[RawRecord], looks: list[Look]
) -> list[DiagnosisOutput]:
    """What a partition's records tell; on the way, what was answered is held to what they show."""
    outputs: list[DiagnosisOutput] = []
    looks = sorted(looks, key=lambda it: it.next_offset)
    begin = 0
    for end_offset in [*sorted({it.next_offset for it in looks}), rows[-1].offset + 1 if rows else 0]:
        end = bisect_left(rows, end_offset, key=lambda it: it.offset)
        if begin < end:
            following = [it.timestamp_ms for it in rows[end : end + FOLLOWERS]]
            outputs += state.replay_batch(RecordBatch.of(rows[begin:end]), Context(following))
        begin = max(begin, end)
        while looks and looks[0].next_offset <= end_offset:
            _check_look(world, state, looks.pop(0))
    return outputs


def _judge_changed(world: World, partition: int, told: Events, whole: ClusterState) -> Events:
    """Of a partition of which something went: in the end groups stand as the log says that is left, or, where only
    old records went, as all says that was ever in it. What must be told: what changed in groups behind all that."""
    log = world.logs[partition]
    if not all(it.is_noticed for it in log.cuts) or (log.cuts and log.first):
        # Nothing was read as it was cut: that nobody can see who comes later. Or it was read while more was there.
        return {}
    if log.cuts and log.compacted and "poison" in world.plan.log.quirks:
        # It was read anew, and then compaction took a record for one of the same key that cannot be read.
        return {}
    states = [ClusterState(all_analyzers()) for _ in log.firsts]
    for state, first in zip(states, log.firsts, strict=True):
        # The last is of what is left now.
        left = encoded(_replayed(world, state, partition, [*log.given(first, len(log.entries))], []))
    states += [] if log.cuts else [whole]
    right = [
        {it: _lasting(described(mirror, it)) for it in mirror.groups} for mirror in map(_mirror(partition), states)
    ]
    got = {group: _lasting(form) for group, form in world.seen.final.get(partition, {}).items()}
    if got not in right:
        world.fail(f"groups of partition {partition}, of which records went: expected {right[0]!r}, got {got!r}")
    begin = max([log.compacted, log.first, *(it.keeps for it in log.cuts)])
    both = left.keys() if log.cuts else left.keys() & told.keys()
    return {it: left[it] for it in both if int(it.split("-")[1]) >= begin and b'"type":"finding"' not in left[it]}


def _mirror(partition: int) -> Callable[[ClusterState], PartitionMirror]:
    return lambda state: state.mirror.partition(partition)


COUNTED = ("rebalances", "generations_skipped", "anomalies", "state_since_ms")
"""What of a group depends on how much of the log was read."""


def _lasting(form: bytes) -> dict[str, object]:
    """A group as it stands, without what was counted of it."""
    return {name: it for name, it in msgspec.json.decode(form).items() if name not in COUNTED} if form else {}


def encoded(outputs: Iterable[DiagnosisOutput]) -> Events:
    """As they are written."""
    lines = (encode_event(event_of(it), 0).body for it in outputs)
    return {_id(it): it for it in lines}


class _Head(msgspec.Struct):
    event_id: str
    at_ms: int
    group: str | None


_head = msgspec.json.Decoder(_Head)


def _id(body: bytes) -> str:
    return _head.decode(body).event_id


def _check_look(world: World, state: ClusterState, look: Look) -> None:
    for group, form in look.groups.items():
        if (right := described(state.mirror.partition(look.partition), group)) != form:
            world.fail(
                f"group {group} at offset {look.next_offset} of partition {look.partition} as answered at"
                f" {look.at_s}: expected {right!r}, got {form!r}"
            )


UNSURE = {Kind.TORN_SNAPSHOT, Kind.OLD_DISK, Kind.SNAPSHOTS_FULL}
"""After these what was told and is read anew may have to be told anew, of a log that has changed since."""


def check_store(world: World, store: Store, expected: Events, required: Events, changed: set[int]) -> None:
    """Everything is there, in one form, and once: but for writes that were not acknowledged, and for lives that ended
    before they could say how far they were."""
    name, told, counts = store.name, dict[str, set[bytes]](), Counter[str]()
    for body in store.bodies:
        event_id = _id(body)
        told.setdefault(event_id, set()).add(body)
        counts[event_id] += 1
    # Without snapshots the log tells again, and so may the spool, of which a power cut forgets what was sent.
    repeats = world.seen.interruptions * (1 if world.knobs.has_snapshots else 2)
    is_sure = world.knobs.has_snapshots and not any(it.kind in UNSURE for it in world.plan.faults)
    for event_id in sorted((expected.keys() | required.keys()) - told.keys() - store.dropped):
        world.fail(f"{name} lacks {(expected.get(event_id) or required[event_id])!r}")
    for event_id, texts in sorted(told.items()):
        spans_all = b'"group":null' in next(iter(texts))
        is_changed = bool(changed) and (spans_all or int(event_id.split("-")[0]) in changed)
        if spans_all and world.knobs.shares:
            # Of all partitions nobody knows all then.
            continue
        if len(texts) > 1 and (is_sure or not is_changed):
            world.fail(f"{name} has event {event_id} in two forms: {sorted(texts)}")
        elif counts[event_id] > 1 + sum(store.excused[it] for it in texts) + repeats:
            world.fail(f"{name} has event {event_id} {counts[event_id]} times")
        elif is_changed:
            continue
        elif event_id not in expected:
            world.fail(f"{name} has what the log does not tell: {sorted(texts)[0]!r}")
        elif expected[event_id] not in texts:
            world.fail(f"{name}: expected {expected[event_id]!r}, got {sorted(texts)[0]!r}")
