"""A cluster's history as records: all groups of a partition, merged in order of time."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from heapq import heapify, heappop, heapreplace

from agent.core.records import RawRecord
from agent.core.wire.offset_commit_fastpath import commit_value
from agent.simulation.generator.group_history import (
    GroupTruth,
    PeriodicCommits,
    TimedWrite,
    generate_group,
    generate_simple_group,
)
from agent.simulation.generator.plans import GroupPlans
from agent.simulation.generator.scenario_kinds import SCENARIO_KINDS
from agent.simulation.generator.settings import GeneratorSettings


def generate(
    settings: GeneratorSettings, on_truth: Callable[[GroupTruth], None] = lambda truth: None
) -> Iterator[RawRecord]:
    """The records, one partition of the offsets topic after the other, each in order of time; offsets count from 0.

    `on_truth` hears the truth about each group before its first record: `{"group", "fate", "partition", "clients",
    "state", "generation", "protocol", "members": [{"client", "member_id", "assignment": {topic: [partitions]}}],
    "rebalances": [{"generation", "began_ms", "joined_ms", "completed_ms", "causes", "members"}], "departures":
    [{"client", "member_id", "at_ms", "cause"}]}`. Causes are the model's (`messages.RebalanceReason`), some of which
    no log can tell; `completed_ms` is null where the next rebalance came before the assignment. A group that is gone,
    or never had members, has no generation; a KIP-848 group's is its epoch. What a Connect worker has, is by
    connector, with -1 for the connector itself.

    What is kept in memory is the groups of one partition, however many records they make.
    """
    for records in generate_by_partition(settings, on_truth):
        yield from records


def generate_by_partition(
    settings: GeneratorSettings, on_truth: Callable[[GroupTruth], None] = lambda truth: None
) -> Iterator[Iterator[RawRecord]]:
    """The same, each partition's records on their own: for who wants all partitions at once, in order of time."""
    plans = GroupPlans(settings)
    for partition, numbers in plans.by_partition():
        written: list[TimedWrite] = []
        for number in numbers:
            plan = plans.plan(number)
            if SCENARIO_KINDS[plan.scenario_kind].build is None:
                more, truth = generate_simple_group(plan, settings)
            else:
                more, truth = generate_group(plan, *plans.script(plan))
            written += more
            on_truth(
                {
                    "group": plan.group,
                    "fate": plan.scenario_kind,
                    "partition": partition,
                    "clients": plan.members,
                    **truth,
                }
            )
        yield merge_writes(partition, written, settings.start_ms)


def merge_writes(partition: int, written: list[TimedWrite], start_ms: int) -> Iterator[RawRecord]:
    """What is written to one partition, in order of time; positions grow from `start_ms` on."""
    # A number in each: of what is due at one time, nothing but its place decides.
    heap = [(at_ms, rank, number, what) for number, (at_ms, rank, what) in enumerate(written)]
    heapify(heap)
    offset = 0
    while heap:
        at_ms, rank, number, what = heap[0]
        if not isinstance(what, PeriodicCommits):
            yield RawRecord(partition, offset, at_ms, *what)
            offset += 1
            heappop(heap)
            continue
        passed_ms, metadata = at_ms - start_ms, what.metadata
        for key, first, per_s, leader_epoch, topic_id in what.positions:
            position = first + per_s * passed_ms // 1_000
            value = commit_value(position, at_ms, leader_epoch, metadata, topic_id)
            yield RawRecord(partition, offset, at_ms, key, value)
            offset += 1
        at_ms += what.every_ms
        if at_ms < what.end_ms:
            heapreplace(heap, (at_ms, rank, number, what))
        else:
            heappop(heap)
