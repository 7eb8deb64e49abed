"""A cluster's history as records: all groups of a partition, merged in order of time."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from heapq import heapify, heappop, heapreplace

from agent.generator.fates import FATES
from agent.generator.plans import Plans
from agent.generator.playing import Repeated, Truth, Written, only_commits, played
from agent.generator.settings import Settings
from agent.records import RawRecord
from agent.wire.hot import commit_value


def generate(settings: Settings, told: Callable[[Truth], None] = lambda truth: None) -> Iterator[RawRecord]:
    """The records, one partition of the offsets topic after the other, each in order of time; offsets count from 0.

    `told` hears the truth about each group before its first record: `{"group", "fate", "partition", "clients",
    "state", "generation", "protocol", "members": [{"client", "member_id", "assignment": {topic: [partitions]}}],
    "rebalances": [{"generation", "began_ms", "joined_ms", "completed_ms", "causes", "members"}], "departures":
    [{"client", "member_id", "at_ms", "cause"}]}`. Causes are the model's (`agent.coordinator.requests.Why`), some of
    which no log can tell; `completed_ms` is null where the next rebalance came before the assignment. A group that
    is gone, or never had members, has no generation; a KIP-848 group's is its epoch. What a Connect worker has, is by
    connector, with -1 for the connector itself.

    What is kept in memory is the groups of one partition, however many records they make.
    """
    for records in by_partition(settings, told):
        yield from records


def by_partition(
    settings: Settings, told: Callable[[Truth], None] = lambda truth: None
) -> Iterator[Iterator[RawRecord]]:
    """The same, each partition's records on their own: for who wants all partitions at once, in order of time."""
    plans = Plans(settings)
    for partition, numbers in plans.by_partition():
        written: list[Written] = []
        for number in numbers:
            plan = plans.plan(number)
            if FATES[plan.fate].tell is None:
                more, truth = only_commits(plan, settings)
            else:
                more, truth = played(plan, *plans.cast(plan))
            written += more
            told({"group": plan.group, "fate": plan.fate, "partition": partition, "clients": plan.members, **truth})
        yield _merged(partition, written, settings.start_ms)


def _merged(partition: int, written: list[Written], start_ms: int) -> Iterator[RawRecord]:
    # A number in each: of what is due at one time, nothing but its place decides.
    heap = [(at_ms, rank, number, what) for number, (at_ms, rank, what) in enumerate(written)]
    heapify(heap)
    offset = 0
    while heap:
        at_ms, rank, number, what = heap[0]
        if not isinstance(what, Repeated):
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
