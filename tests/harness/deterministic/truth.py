"""What is right: one replay of the whole log by the same reducer, with nothing that breaks.

Owns what of a run is held to it: every event in every sink, how often, and every answer that was given on the way.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from itertools import islice

import msgspec

from agent.core.diagnosis.engine import DiagnosisOutput
from agent.core.events.events import event_of
from agent.core.record_time import FOLLOWERS, Context
from agent.persistence.cluster_state import ClusterState
from agent.persistence.export.encoded_event import encode_event
from analyzers.registry import select_analyzers
from tests.harness.deterministic.sinks import Store
from tests.harness.deterministic.world import Look, World, described

Events = dict[str, bytes]
"""By id, as they are written."""


def judge(world: World) -> int:
    """Hold what a run left to the truth; how many events that has."""
    looks: dict[int, list[Look]] = {}
    for look in world.seen.looks:
        looks.setdefault(look.partition, []).append(look)
    state = ClusterState(select_analyzers())
    outputs: list[DiagnosisOutput] = []
    for partition, log in world.logs.items():
        ordered = sorted(looks.get(partition, ()), key=lambda it: it.next_offset)
        begin = 0
        for end in [*sorted({it.next_offset for it in ordered}), len(log.entries)]:
            batch = log.batch(partition, begin, end)
            begin = max(begin, end)
            if batch is not None:
                following = islice((it.timestamp_ms for it in log.given(begin, len(log.entries))), FOLLOWERS)
                outputs += state.replay_batch(batch, Context([*following]))
            while ordered and ordered[0].next_offset <= end:
                _check_look(world, state, ordered.pop(0))
    for partition, clock_ms in world.seen.clocks.items():
        outputs += state.advance(clock_ms, [partition])
    expected = _encoded(outputs)
    for store in world.stores:
        _check_store(world, store, expected)
    return len(expected)


def _encoded(outputs: list[DiagnosisOutput]) -> Events:
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


def _check_store(world: World, store: Store, expected: Mapping[str, bytes]) -> None:
    """Everything is there, in one form, and once: but for writes that were not acknowledged, and for lives that ended
    before they could say how far they were."""
    name, told, counts = store.name, dict[str, set[bytes]](), Counter[str]()
    for body in store.bodies:
        event_id = _id(body)
        told.setdefault(event_id, set()).add(body)
        counts[event_id] += 1
    for event_id in sorted(expected.keys() - told.keys()):
        world.fail(f"{name} lacks {expected[event_id]!r}")
    for event_id, texts in sorted(told.items()):
        if len(texts) > 1:
            world.fail(f"{name} has event {event_id} in two forms: {sorted(texts)}")
        elif event_id not in expected:
            world.fail(f"{name} has what the log does not tell: {sorted(texts)[0]!r}")
        elif counts[event_id] > 1 + store.excused[next(iter(texts))] + world.seen.interruptions:
            world.fail(f"{name} has event {event_id} {counts[event_id]} times")
        elif expected[event_id] not in texts:
            world.fail(f"{name}: expected {expected[event_id]!r}, got {sorted(texts)[0]!r}")
