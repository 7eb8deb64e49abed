"""A soak in virtual time: an agent reads 20,000 commits a second for hours, with a fault each minute, and its events
are those of one replay.

Owns a log that is made as it is read, twice: as the agent fetches it, and for the truth. The agent's loops are as in
other runs; what stands for librdkafka's messages comes as columns, 2,500 commits at a time, since making a message of
each costs more than all that the agent does with it.
"""

from __future__ import annotations

import gc
import random
import shutil
import tempfile
import time
from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from dataclasses import replace
from itertools import accumulate, count, groupby, islice
from pathlib import Path
from statistics import linear_regression
from typing import Any
from unittest.mock import patch

import numpy as np
from confluent_kafka import Message

from agent.core.protocol.hashing import partition_for_group
from agent.core.record_time import FOLLOWERS, Context
from agent.core.records import RawRecord, RecordBatch
from agent.core.wire.offset_commit_fastpath import commit_key
from agent.kafka.source import columns, topic
from agent.persistence.cluster_state import ClusterState
from agent.runtime.agent import Agent
from agent.simulation.generator.histories import generate_by_partition
from agent.simulation.generator.settings import GeneratorSettings, IntegerRange
from tests.harness.deterministic.cluster import TOPIC, PartitionLog
from tests.harness.deterministic.faults import WEIGHTS, WHERE, Fault, Kind
from tests.harness.deterministic.scheduler import STEADY_S
from tests.harness.deterministic.truth import check_store, encoded
from tests.harness.deterministic.workload import HOUR_MS, START_MS, Workload
from tests.harness.deterministic.world import IN_MEMORY, Knobs, Plan, Process, World, all_analyzers, images_of_all

PARTITIONS, COMMITS_PER_S, TICK_S = 4, 20_000, 0.5
BLOCK = round(COMMITS_PER_S * TICK_S / PARTITIONS)
"""Commits that are appended to a partition at a time."""

GROUPS, GENERATED = 25, 60
"""Groups that commit in each partition; and groups in all whose members come and go."""

REPORT_S = 600.0
CHANGES = {Kind.COMPACT, Kind.DELETE_RECORDS, Kind.TRUNCATE, Kind.RECREATE}
"""Faults that change the log, which is what all is held to."""

_COMMIT = np.dtype(
    {
        "names": ["version", "offset", "epoch", "metadata", "ms", "tags"],
        "formats": [">i2", ">i8", ">i4", "u1", ">i8", "u1"],
    }
)


class Block(Message):
    """Stands for many messages, which it has as columns."""

    batch: RecordBatch


def record_batches_of(messages: list[Message]) -> list[RecordBatch]:
    """In place of `columns.record_batches_of`."""
    out: list[RecordBatch] = []
    for is_block, some in groupby(messages, lambda it: isinstance(it, Block)):
        rows: list[Any] = list(some)
        out += (it.batch for it in rows) if is_block else columns.record_batches_of(rows)
    return out


class EndlessLog(PartitionLog):
    """At each tick the records of groups that changed since the last one, and then a block of commits."""

    def __init__(self, partition: int, rows: list[RawRecord], ticks: int) -> None:
        super().__init__([])
        self._partition, self.ticks = partition, ticks
        self._rows: dict[int, list[RawRecord]] = {}
        for row in rows:
            tick = -(-(row.timestamp_ms - START_MS) // round(TICK_S * 1000))
            if tick < ticks:
                self._rows.setdefault(tick, []).append(row)
        sizes = (BLOCK + len(self._rows.get(tick, ())) for tick in range(ticks))
        self._firsts = [0, *accumulate(sizes)]
        names = (f"steady-{it}" for it in count() if partition_for_group(f"steady-{it}", PARTITIONS) == partition)
        each = BLOCK // GROUPS
        self._keys = [commit_key(name, "events", it) for name in islice(names, GROUPS) for it in range(each)]
        self._values = np.zeros(BLOCK, _COMMIT)
        self._values["version"], self._values["metadata"] = 4, 1

    @property
    def end(self) -> int:
        """Behind the last tick."""
        return self._firsts[-1]

    def high_watermark(self, now_s: float) -> int:
        """By whole ticks."""
        return self._firsts[max(0, min(int((now_s - STEADY_S) / TICK_S) + 1, self.ticks))]

    def stable_end(self, now_s: float) -> int:
        """The same: nothing is in a transaction."""
        return self.high_watermark(now_s)

    def changes_at(self, now_s: float) -> float:
        """At the next tick."""
        tick = int((now_s - STEADY_S) / TICK_S) + 1
        return STEADY_S + tick * TICK_S if tick < self.ticks else float("inf")

    def given_before(self, end: int) -> Iterator[RawRecord]:
        """Where the last one is, which is all that is asked."""
        return iter([RawRecord(self._partition, end - 1, 0, None, None)] if end else [])

    def messages(self, begin: int, end: int, most: int, *, with_hidden: bool) -> tuple[list[Message], int]:
        """What is left of the tick that an offset is in."""
        tick = bisect_right(self._firsts, begin) - 1
        out = []
        for batch in self.batches(tick):
            skipped = bisect_left(batch.offsets, begin)
            if skipped < len(batch):
                last_ms = batch.timestamps_ms[-1]
                block = Block(TOPIC, self._partition, batch.offsets[-1], b"", b"", timestamp=(1, last_ms))
                block.batch = batch.part(skipped, len(batch)) if skipped else batch
                out.append(block)
        return [*out], self._firsts[tick + 1]

    def batches(self, tick: int) -> Iterator[RecordBatch]:
        """The records of a tick."""
        first, rows, at_ms = self._firsts[tick], self._rows.get(tick, []), START_MS + round(tick * TICK_S * 1000)
        if rows:
            yield RecordBatch.of([it._replace(offset=offset) for offset, it in enumerate(rows, first)])
        first += len(rows)
        self._values["offset"], self._values["ms"] = tick * 100, at_ms
        content, size = self._values.tobytes(), _COMMIT.itemsize
        values = [content[it : it + size] for it in range(0, len(content), size)]
        yield RecordBatch(self._partition, [*range(first, first + BLOCK)], [at_ms] * BLOCK, self._keys, values)

    def following(self, tick: int) -> list[int]:
        """The times of the records behind a tick."""
        later = [it.timestamp_ms for it in self._rows.get(tick + 1, ())]
        next_ms = START_MS + round((tick + 1) * TICK_S * 1000)
        return [*later, *[next_ms] * FOLLOWERS][:FOLLOWERS] if tick + 1 < self.ticks else []


class SoakWorld(World):
    """A world that says how it goes, and keeps no answers."""

    def run_measured(self) -> list[tuple[float, float]]:
        """Play it; by virtual hours, the megabytes of this process."""
        began_s, sizes = time.monotonic(), list[tuple[float, float]]()
        clock = time.monotonic

        def measure() -> None:
            while True:
                self.scheduler.sleep(REPORT_S)
                gc.collect()
                passed_s = self.scheduler.now_s - STEADY_S
                pages = int(Path("/proc/self/statm").read_text().split()[1])
                sizes.append((passed_s / 3600, pages * 4096 / 1e6))
                print(
                    f"{passed_s / 3600:5.2f} h: {sizes[-1][1]:7.1f} MB resident, {self.seen.lives} lives,"
                    f" {len(self.stores[0].bodies)} events, {clock() - began_s:.0f} s",
                    flush=True,
                )

        self.scheduler.spawn(measure, "measure")
        self.run()
        return sizes

    def _start(self) -> None:
        # The one before is gone with its process, as far as it can be in this one.
        gc.collect()
        super()._start()

    def _describe(self, process: Process, agent: Agent) -> None:
        self._scrape(process, agent)


def soak(hours: float, seed: int = 0) -> int:
    """Play it, print what it takes, and hold it to the truth; how many failures there are."""
    rng = random.Random(f"soak {seed}")
    kinds = [it for it in WEIGHTS if it not in CHANGES]
    minutes = round(hours * 60)
    faults = tuple(
        Fault(
            60.0 * it + 10 + 40 * rng.random(),
            kind := rng.choices(kinds, [WEIGHTS[it] for it in kinds])[0],
            rng.choice((0.5, 5.0, 30.0)),
            int(rng.paretovariate(0.7)),
            rng.randrange(PARTITIONS),
            round(rng.random(), 3),
            rng.choice(WHERE) if kind in (Kind.KILL, Kind.POWER) else "",
        )
        for it in range(minutes)
    )
    duration_ms = round(hours * HOUR_MS)
    plan = Plan(seed, Workload(seed, GENERATED, PARTITIONS, duration_ms), faults)
    knobs = replace(
        Knobs.of(seed), begins_s=0.0, snapshot_s=60.0, poll_s=0.5, batch_records=2500, memory_bytes=64 << 20,
        has_spool=True, has_snapshots=True, looks_s=60.0, preempted=0.01, shares=False,
    )  # fmt: skip
    logs = _logs(plan, round(duration_ms / 1000 / TICK_S))
    root = Path(tempfile.mkdtemp(prefix="kshadow-", dir=IN_MEMORY if IN_MEMORY.is_dir() else None))
    gc.disable()
    try:
        world = SoakWorld(plan, root, knobs=knobs, logs=logs)
        began_s = time.process_time()
        with images_of_all(), patch.object(topic, "record_batches_of", record_batches_of):
            sizes = world.run_measured()
            print(f"played: {time.process_time() - began_s:.0f} s of CPU, {world.scheduler.steps} steps", flush=True)
            events = _judge(world, logs)
    finally:
        gc.enable()
        shutil.rmtree(root, ignore_errors=True)
    for failure in world.seen.failures:
        print(failure[:500])
    commits = BLOCK * PARTITIONS * round(duration_ms / 1000 / TICK_S)
    print(
        f"{commits:,} commits, {len(faults)} faults, {world.seen.lives} lives, {world.seen.crashes} crashes,"
        f" {events} events expected, {len(world.stores[0].bodies)} told; {len(world.seen.failures)} failures;"
        f" {time.process_time() - began_s:.0f} s of CPU"
    )
    later = [it for it in sizes if it[0] > 1]
    if len(later) > 1:
        print(f"memory after the first hour: {linear_regression(*zip(*later, strict=True)).slope:+.2f} MB an hour")
    return len(world.seen.failures)


def _logs(plan: Plan, ticks: int) -> dict[int, EndlessLog]:
    settings = GeneratorSettings(
        start_ms=START_MS,
        groups=plan.log.groups,
        duration_ms=plan.log.duration_ms,
        members=IntegerRange(1, 6),
        topics=8,
        partitions=IntegerRange(1, 8),
        commit_interval_ms=60_000,
        offsets_partitions=PARTITIONS,
        seed=plan.seed,
    )
    found = {rows[0].partition: rows for records in generate_by_partition(settings) if (rows := list(records))}
    return {number: EndlessLog(number, found.get(number, []), ticks) for number in range(PARTITIONS)}


def _judge(world: World, logs: dict[int, EndlessLog]) -> int:
    state = ClusterState(all_analyzers())
    outputs = []
    for log in logs.values():
        for tick in range(log.ticks):
            batches = [*log.batches(tick)]
            for number, batch in enumerate(batches):
                later = (
                    [batches[-1].timestamps_ms[0]] * FOLLOWERS if number + 1 < len(batches) else log.following(tick)
                )
                outputs += state.replay_batch(batch, Context(later))
    for partition, clock_ms in world.seen.clocks.items():
        outputs += state.advance(clock_ms, [partition])
    expected = encoded(outputs)
    for store in world.stores:
        check_store(world, store, expected, {}, set())
    return len(expected)
