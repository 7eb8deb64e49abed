"""A generated cluster, and what a mirror makes of it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from itertools import groupby
from operator import attrgetter
from typing import Any

from msgspec.structs import replace

from agent.core.records import RawRecord, RecordBatch
from agent.runtime.offline import OfflineGroups
from agent.simulation.generator.histories import generate
from agent.simulation.generator.scenario_kinds import SCENARIO_KINDS
from agent.simulation.generator.settings import GeneratorSettings, IntegerRange

T0 = 1_795_000_000_000
EVERY = dict.fromkeys(SCENARIO_KINDS, 1.0)
SMALL = GeneratorSettings(
    T0, groups=76, mix=EVERY, members=IntegerRange(1, 8), partitions=IntegerRange(1, 12), commit_interval_ms=20_000
)


@dataclass(frozen=True)
class Generated:
    """Records, and by group the truth, the mirror's form (None: gone) and its rebalances."""

    records: list[RawRecord]
    truths: dict[str, dict[str, Any]]
    forms: dict[str, dict[str, Any] | None]
    rebalances: dict[str, list[dict[str, Any]]]
    complaints: list[str]


@cache
def a_cluster() -> Generated:
    """Four groups of each fate. Made once; not to be changed."""
    return mirrored(SMALL)


@cache
def all_alike(fate: str) -> Generated:
    """Groups of one fate. Made once; not to be changed."""
    return mirrored(replace(SMALL, groups=8, mix={fate: 1}))


def mirrored(settings: GeneratorSettings) -> Generated:
    truths: dict[str, dict[str, Any]] = {}
    complaints: list[str] = []
    records = list(generate(settings, lambda truth: truths.update({truth["group"]: truth})))
    loaded = OfflineGroups("", keep_events=True, on_problem=complaints.append)
    for run in runs(records):
        loaded.apply(run)
    loaded.finish()
    loaded.report(complaints.append)
    rebalances: dict[str, list[dict[str, Any]]] = {group: [] for group in truths}
    for event in loaded.events():
        if event["type"] == "rebalance":
            rebalances[event["group"]].append(event)
    forms = {group: loaded.describe(group) for group in truths}
    assert {row["group"] for row in loaded.groups()} == {group for group, form in forms.items() if form is not None}
    return Generated(records, truths, forms, rebalances, complaints)


def runs(records: Iterable[RawRecord]) -> Iterable[RecordBatch]:
    for partition, some in groupby(records, attrgetter("partition")):
        _, offsets, times, keys, values, _ = zip(*some, strict=True)
        yield RecordBatch(partition, offsets, times, keys, values)
