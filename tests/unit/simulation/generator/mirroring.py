"""Scripts played through the model, and what it writes read by the mirror, moment by moment."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from agent.core.protocol.hashing import partition_for_group
from agent.core.records import RawRecord, RecordBatch
from agent.runtime.offline import OfflineGroups
from agent.simulation.groups.messages import RecordAppended
from agent.simulation.groups.protocol_models import AnyEffect
from agent.simulation.groups.script import Script
from agent.simulation.groups.simulation import Simulation
from tests.unit.simulation.generator.made import encode_image

T0 = 1_795_000_000_000
"""When scripts begin whose times are counted from zero: a mirror takes times for epoch milliseconds."""

Form = dict[str, Any]


def mirrored(script: Script, look: Callable[[Simulation, Form | None], None]) -> tuple[Simulation, OfflineGroups]:
    """Play a script. After each moment at which something is written, `look` sees the world and the mirror's form."""
    loaded = OfflineGroups("", keep_events=True)
    partition = partition_for_group(script.group, 50)
    offset = 0

    def watch(world: Simulation, now: int, effects: list[AnyEffect]) -> None:
        nonlocal offset
        records = []
        for effect in effects:
            if isinstance(effect, RecordAppended):
                records.append(RawRecord(partition, offset, T0 + effect.image.at_ms, *encode_image(effect.image)))
                offset += 1
        if records:
            _, offsets, times, keys, values, _ = zip(*records, strict=True)
            loaded.apply(RecordBatch(partition, offsets, times, keys, values))
            loaded.end_of_input()
            look(world, loaded.describe(script.group))

    world = Simulation(script, watch)
    world.run()
    complaints: list[str] = []
    loaded.report(complaints.append)
    assert complaints == []
    return world, loaded
