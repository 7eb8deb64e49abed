"""Scrapes at scale, while a thread applies commits as the agent's reader does: `python -m tests.harness.bench
--only scrape`.

Prints how long scrapes take by granularity and format, and what they do to the reader: the longest that one run of
commits took from when it was due until it was applied, with scrapes and without.
"""

from __future__ import annotations

import gc
import gzip
import resource
import statistics
import threading
import time
import tracemalloc
from collections.abc import Callable, Iterator
from itertools import islice

from agent.common import clock
from agent.common.collector import relax_collector
from agent.core.records import RecordBatch
from agent.kafka.lag.end_offset_history import EndOffsetHistory
from agent.kafka.lag.scraped import ScrapedLags
from agent.persistence.cluster_state import ClusterState
from agent.serving.metrics.exporter import Exporter, MetricsSource
from agent.serving.metrics.group_collector import GroupCollector, cluster_findings
from agent.serving.metrics.limits import Limits
from agent.serving.metrics.readings import Granularity, Readings
from analyzers.registry import select_analyzers
from tests.harness.bench.crowd import Crowd

GROUPS = 10_000
POSITIONS = 10
A_SECOND = 50_000
"""Commits that the reader applies: what a cluster of that size writes at the default commit interval, and more."""

RUN = 50
"""Commits in a run: what comes for one partition in a moment."""

ROUNDS = 7
T0 = 1_795_000_000_000
INTERVAL_MS = 30_000


LOOKS = 20
"""At the ends, half a minute apart, up to now."""


def watched(state: ClusterState) -> ScrapedLags:
    """Lags of which a third is nothing, and the others began within the last ten minutes."""
    greatest, places = 1, set[tuple[str, int]]()
    for mirror in state.mirror.partitions.values():
        for group, _ in mirror.offsets.numbered():
            for topic, partition, commit in mirror.offsets.commits(group):
                greatest = max(greatest, commit.offset)
                places.add((topic, partition))
    history, now_ms = EndOffsetHistory(INTERVAL_MS), clock.now_ms()
    for look in range(1, LOOKS + 1):
        at_ms = now_ms - (LOOKS - look) * INTERVAL_MS
        history.add_high_watermarks({it: greatest * look * (it[1] % 3) // LOOKS for it in places}, at_ms)
        ends = history.publish(at_ms)
    return ScrapedLags(lambda: ends)


class Reader(threading.Thread):
    """Applies runs at a rate, as fast as it can if that is too much, and says how late each was."""

    def __init__(
        self, state: ClusterState, lock: threading.Lock, runs: Iterator[RecordBatch], a_second: float
    ) -> None:
        super().__init__(daemon=True)
        self._state, self._lock, self._runs, self._every_s = state, lock, runs, RUN / a_second
        self._ended = threading.Event()
        self.applied = 0
        self.late_s: list[float] = []
        self.took_s = 0.0

    def run(self) -> None:
        began = due = time.perf_counter()
        while not self._ended.is_set():
            run = next(self._runs)
            # It sleeps a few milliseconds at a time, as one that polls does.
            if (early := due - time.perf_counter()) > 0.005:
                time.sleep(early)
            asked = time.perf_counter()
            with self._lock:
                self._state.replay_batch(run)
            self.late_s.append(time.perf_counter() - asked)
            self.applied += len(run)
            due += self._every_s
        self.took_s = time.perf_counter() - began

    def stop(self) -> None:
        self._ended.set()
        self.join()


def main(groups: int = GROUPS, rounds: int = ROUNDS) -> None:
    """Load, then scrape in every granularity."""
    relax_collector()
    crowd = Crowd(groups, POSITIONS, T0)
    state, lock = ClusterState(select_analyzers()), threading.Lock()
    for run in crowd.groups_runs():
        state.replay_batch(run)
    runs = crowd.commits(RUN, A_SECOND)
    for run in islice(runs, 3 * crowd.positions // RUN):
        state.replay_batch(run)
    peak_mb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(f"{groups:,} groups, {crowd.positions:,} positions, {A_SECOND:,} commits a second; {peak_mb:.0f} MB")
    _told("no scrapes", *_beside(state, lock, runs, lambda: time.sleep(0.2), rounds))
    print(f"\n{'seconds':27}{'first':>7}{'median':>8}{'longest':>9}{'CPU of first':>8}{'median':>8}")
    for granularity in Granularity:
        lags = None if granularity is Granularity.GROUP else watched(state)
        for openmetrics in (False, True):
            exporter = exporter_of(state, lock, granularity, lags)
            name = f"{granularity}{', OpenMetrics, gzip' if openmetrics else ''}"
            sizes: list[int] = []

            def scrape(
                exporter: Exporter = exporter, openmetrics: bool = openmetrics, sizes: list[int] = sizes
            ) -> None:
                text = b"".join(exporter.render(openmetrics))
                sizes.append(len(gzip.compress(text, 1) if openmetrics else text))

            _told(name, *_beside(state, lock, runs, scrape, rounds), size=sizes[-1])
    _memory(state, lock)


def exporter_of(
    state: ClusterState, lock: threading.Lock, granularity: Granularity, lags: ScrapedLags | None
) -> Exporter:
    groups = GroupCollector(state, lock, granularity=granularity, lags=lags)

    def read() -> Readings:
        with lock:
            readings = Readings(
                caught_up=dict.fromkeys(state.mirror.partitions, True),
                behind_records=dict.fromkeys(state.mirror.partitions, 0),
                healthy=True,
                record_counts=state.mirror.record_counts(),
                error_counts=state.mirror.error_counts(),
                findings=cluster_findings(state),
            )
        readings.groups = groups.read()
        return readings

    return Exporter([MetricsSource(None, read, Limits(10**7, None))])


def _beside(
    state: ClusterState, lock: threading.Lock, runs: Iterator[RecordBatch], scrape: Callable[[], None], rounds: int
) -> tuple[list[float], list[float], Reader]:
    reader = Reader(state, lock, runs, A_SECOND)
    reader.start()
    took, cpu = [], []
    for _ in range(rounds):
        began, used = time.perf_counter(), time.thread_time()
        scrape()
        took.append(time.perf_counter() - began)
        cpu.append(time.thread_time() - used)
        time.sleep(0.3)
    reader.stop()
    return took, cpu, reader


def _told(name: str, took: list[float], cpu: list[float], reader: Reader, size: int = 0) -> None:
    rate = reader.applied / reader.took_s
    print(
        f"{name:27}{took[0]:>7.3f}{statistics.median(took[1:]):>8.3f}{max(took[1:]):>9.3f}"
        f"{cpu[0]:>8.3f}{statistics.median(cpu[1:]):>8.3f}  {size / 1e6:5.1f} MB; "
        f"reader: {rate:,.0f} commits/s, longest run {max(reader.late_s) * 1000:.1f} ms, "
        f"median {statistics.median(reader.late_s) * 1e6:.0f} µs"
    )


def _memory(state: ClusterState, lock: threading.Lock) -> None:
    """What scrapes keep between them, and what they take at their peak."""
    for granularity in Granularity:
        lags = None if granularity is Granularity.GROUP else watched(state)
        exporter = exporter_of(state, lock, granularity, lags)
        gc.collect()
        tracemalloc.start()
        exporter.render()
        gc.collect()
        kept, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        print(
            f"memory, {granularity}: {kept / 1e6:.1f} MB kept between scrapes, {peak / 1e6:.1f} MB at the peak of one"
        )


if __name__ == "__main__":
    main()
