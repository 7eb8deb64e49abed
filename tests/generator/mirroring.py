"""Scripts played through the model, and what it writes read by the mirror, moment by moment."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from agent.coordinator.hashing import partition_of
from agent.coordinator.requests import Wrote
from agent.coordinator.script import Script
from agent.coordinator.sides import AnyEffect
from agent.coordinator.world import World
from agent.generator.images import record_of
from agent.offline import Loaded
from agent.records import RawRecord, Run

T0 = 1_795_000_000_000
"""When scripts begin whose times are counted from zero: a mirror takes times for epoch milliseconds."""

Form = dict[str, Any]


def mirrored(script: Script, look: Callable[[World, Form | None], None]) -> tuple[World, Loaded]:
    """Play a script. After each moment at which something is written, `look` sees the world and the mirror's form."""
    loaded = Loaded("", keep_events=True)
    partition = partition_of(script.group, 50)
    offset = 0

    def watch(world: World, now: int, effects: list[AnyEffect]) -> None:
        nonlocal offset
        records = []
        for effect in effects:
            if isinstance(effect, Wrote):
                records.append(RawRecord(partition, offset, T0 + effect.image.at_ms, *record_of(effect.image)))
                offset += 1
        if records:
            _, offsets, times, keys, values, _ = zip(*records, strict=True)
            loaded.take(Run(partition, offsets, times, keys, values))
            look(world, loaded.describe(script.group))

    world = World(script, watch)
    world.run()
    complaints: list[str] = []
    loaded.report(complaints.append)
    assert complaints == []
    return world, loaded
