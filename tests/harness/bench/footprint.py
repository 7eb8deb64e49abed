"""What the agent keeps for each group and each position, in memory and without a broker: `python -m
tests.harness.bench.footprint [--groups N] [--topics N] [--lines N]`.

Classic groups of four members commit topics of five partitions each, every five seconds for ten minutes of event
time, with all analyzers, lag looked at every 30 seconds, and one scrape. Each partition is written at a pace of its
own, each group is behind by an amount of its own in each, and commits at moments of its own: what is equal everywhere
would take less. Prints how much the process has grown after each step; with `--lines` also the lines that made what
is kept, by tracemalloc (slow: take fewer groups).
"""

from __future__ import annotations

import argparse
import gc
import random
import threading
import tracemalloc
from collections.abc import Iterator, Sequence
from pathlib import Path
from resource import getpagesize

from msgspec.structs import replace

from agent.common.collector import relax_collector
from agent.core.diagnosis.lag_source import WatchedLags
from agent.core.protocol.hashing import partition_for_group
from agent.core.records import RecordBatch
from agent.core.wire.classic import MemberMetadata
from agent.core.wire.offset_commit_fastpath import commit_key, commit_value
from agent.kafka.lag.end_offset_history import EndOffsetHistory
from agent.kafka.lag.scraped import ScrapedLags
from agent.persistence.cluster_state import ClusterState
from agent.serving.metrics.readings import Granularity
from agent.simulation.whatif.recent_recordings import RecentRecordings
from analyzers.registry import select_analyzers
from tests.harness.bench.scraping import INTERVAL_MS, T0, exporter_of
from tests.unit.core.shadow import build as b

GROUPS = 10_000
MEMBERS, TOPICS_OF_A_GROUP, TOPIC_PARTITIONS, TOPICS, PARTITIONS = 4, 2, 5, 1_000, 50
COMMIT_MS = 5_000
MINUTES = 10
MOST_LAG, MOST_A_ROUND, MOST_FIRST = 1_000, 300, 10_000_000
"""Records that a group is behind, that are written from commit to commit, and that were there before."""


class Fleet:
    """The groups' records. Keys and values are made anew each time, as a client makes them."""

    def __init__(self, groups: int, topics_of_a_group: int) -> None:
        self._random = random.Random(7)
        self._next_offsets = [0] * PARTITIONS
        self._groups: list[list[tuple[str, list[str]]]] = [[] for _ in range(PARTITIONS)]
        for number in range(groups):
            name = f"team-{number % 40:02d}.service-{number:05d}"
            topics = [f"topic-{(number * topics_of_a_group + at) % TOPICS:03d}" for at in range(topics_of_a_group)]
            self._groups[partition_for_group(name, PARTITIONS)].append((name, topics))
        below = self._random.randrange
        written = {
            (f"topic-{topic:03d}", at): below(MOST_FIRST) for topic in range(TOPICS) for at in range(TOPIC_PARTITIONS)
        }
        self._written = {partition: (first, below(1, MOST_A_ROUND)) for partition, first in written.items()}

    def ends(self, number: int) -> dict[tuple[str, int], int]:
        """Each partition's, as of a round of commits."""
        return {partition: first + number * pace for partition, (first, pace) in self._written.items()}

    def group_records(self) -> Iterator[RecordBatch]:
        """Each group as its first generation is complete."""
        for partition, groups in enumerate(self._groups):
            records = [
                b.classic_group(
                    1, *(_member(name, topics, at) for at in range(MEMBERS)), group=name, state_ms=T0 - 3_000
                )
                for name, topics in groups
            ]
            yield self._run(partition, T0, [key for key, _ in records], [value for _, value in records])

    def commits(self, number: int, at_ms: int) -> Iterator[RecordBatch]:
        """Each position once, in a round of commits that ends at `at_ms`."""
        ends, below = self.ends(number), self._random.randrange
        for partition, groups in enumerate(self._groups):
            keys, values = [], []
            for name, topics in groups:
                usual = random.Random(name)  # as far behind, and as early in each round, as ever
                commit_ms = at_ms - usual.randrange(COMMIT_MS)
                for topic in topics:
                    keys += [commit_key(name, topic, at) for at in range(TOPIC_PARTITIONS)]
                    topic_id = b.topic_id(topic)
                    for at in range(TOPIC_PARTITIONS):
                        offset = max(ends[topic, at] - usual.randrange(MOST_LAG) - below(MOST_LAG // 20), 0)
                        values.append(commit_value(offset, commit_ms, topic_id=topic_id))
            yield self._run(partition, at_ms, keys, values)

    def _run(self, partition: int, at_ms: int, keys: Sequence[bytes], values: Sequence[bytes | None]) -> RecordBatch:
        first = self._next_offsets[partition]
        self._next_offsets[partition] += len(keys)
        return RecordBatch(partition, [*range(first, first + len(keys))], [at_ms] * len(keys), keys, values)


def _member(group: str, topics: list[str], number: int) -> MemberMetadata:
    """As a Java client joins that was given no client id."""
    client_id = f"consumer-{group}-{number + 1}"
    held = {topic: range(number, TOPIC_PARTITIONS, MEMBERS) for topic in topics}
    host = f"/10.{len(held)}.{int(group[-5:]) % 250}.{number}"
    member = b.member(f"{client_id}-00000000-0000-4000-8000-{number:012d}", held, topics=topics, host=host)
    return replace(member, client_id=client_id)


def resident_mb() -> float:
    """What this process has in memory."""
    gc.collect()
    return int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1]) * getpagesize() / 1e6


def main(arguments: Sequence[str] | None = None) -> None:
    """Load, commit, scrape, and tell of each what it took."""
    options = _parser().parse_args(arguments)
    relax_collector()
    fleet, positions = Fleet(options.groups, options.topics), options.groups * options.topics * TOPIC_PARTITIONS
    state, history = ClusterState(select_analyzers(), members=RecentRecordings()), EndOffsetHistory(INTERVAL_MS)
    state.diagnosis.set_lag_source(WatchedLags(lambda: history.snapshot))
    empty_mb = resident_mb()
    if options.lines:
        tracemalloc.start()

    def tell(step: str) -> None:
        grown = resident_mb() - empty_mb
        print(f"{step:34}{grown:>8.1f} MB {grown * 1e3 / options.groups:>8.2f} KB a group", flush=True)

    for run in fleet.group_records():
        state.replay_batch(run)
    tell("groups")
    for number in range(1, options.minutes * 60_000 // COMMIT_MS + 1):
        at_ms = T0 + number * COMMIT_MS
        for run in fleet.commits(number, at_ms):
            state.replay_batch(run)
        if not at_ms % INTERVAL_MS:
            history.add_high_watermarks(fleet.ends(number), at_ms)
            history.publish(at_ms)
        if number == 1:
            tell("and one commit of each position")
    tell(f"and {options.minutes} minutes of commits")
    exporter = exporter_of(state, threading.Lock(), Granularity.GROUP, ScrapedLags(lambda: history.snapshot))
    exporter.render()
    tell("and a scrape")
    print(f"{options.groups:,} groups, {positions:,} positions")
    if options.lines:
        gc.collect()
        taken = tracemalloc.take_snapshot()
        for it in taken.statistics("lineno")[: options.lines]:
            print(f"{it.size / options.groups:>8.0f} B {it.count / options.groups:>7.2f} a group  {it.traceback}")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m tests.harness.bench.footprint",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--groups", type=int, default=GROUPS, help="groups")
    parser.add_argument(
        "--topics", type=int, default=TOPICS_OF_A_GROUP, help="topics of a group, of five partitions each"
    )
    parser.add_argument("--minutes", type=int, default=MINUTES, help="minutes of commits")
    parser.add_argument("--lines", type=int, default=0, help="also the lines that made most of what is kept")
    return parser


if __name__ == "__main__":
    main()
