"""A generated cluster, and what a mirror makes of it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cache
from itertools import groupby
from operator import attrgetter
from typing import Any

from agent.generator.fates import FATES
from agent.generator.histories import generate
from agent.generator.settings import Between, Settings
from agent.offline import Loaded
from agent.records import RawRecord, Run

T0 = 1_795_000_000_000
EVERY = dict.fromkeys(FATES, 1.0)
SMALL = Settings(
    T0, groups=76, mix=EVERY, members=Between(1, 8), partitions=Between(1, 12), commit_interval_ms=20_000
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


def mirrored(settings: Settings) -> Generated:
    truths: dict[str, dict[str, Any]] = {}
    complaints: list[str] = []
    records = list(generate(settings, lambda truth: truths.update({truth["group"]: truth})))
    loaded = Loaded("", keep_events=True, on_problem=complaints.append)
    for run in runs(records):
        loaded.take(run)
    loaded.finish()
    loaded.report(complaints.append)
    rebalances: dict[str, list[dict[str, Any]]] = {group: [] for group in truths}
    for event in loaded.events():
        if event["type"] == "rebalance":
            rebalances[event["group"]].append(event)
    forms = {group: loaded.describe(group) for group in truths}
    assert {row["group"] for row in loaded.groups()} == {group for group, form in forms.items() if form is not None}
    return Generated(records, truths, forms, rebalances, complaints)


def runs(records: Iterable[RawRecord]) -> Iterable[Run]:
    for partition, some in groupby(records, attrgetter("partition")):
        _, offsets, times, keys, values, _ = zip(*some, strict=True)
        yield Run(partition, offsets, times, keys, values)
