"""The text of a scrape: what the mirrors and readers know, as Prometheus metric families.

Families that have samples for each group are written by `agent.metrics.lines`, the others go through
prometheus_client. Nothing of a group is exported before the topic was read to its end: half a replay shows groups as
they once were.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future
from typing import NamedTuple

from prometheus_client import CollectorRegistry, GCCollector, PlatformCollector, ProcessCollector
from prometheus_client.exposition import generate_latest
from prometheus_client.metrics_core import Metric as Family
from prometheus_client.openmetrics.exposition import generate_latest as generate_openmetrics
from prometheus_client.registry import Collector

from agent import __version__
from agent.metrics import compat
from agent.metrics.labels import label
from agent.metrics.limits import Candidate, Limits, Reason
from agent.metrics.lines import FAMILIES, GroupLines, series
from agent.metrics.readings import Readings, ReloadReading
from agent.metrics.table import METRICS
from agent.metrics.text import head, sample_name

log = logging.getLogger("kshadow")

Sample = tuple[str, tuple[str, ...], float]
"""Name in the table, values of the labels, value."""


class Source(NamedTuple):
    """One cluster: its name as a label (None: there is no other), what takes a reading of it, which of its groups
    have series (None: all), and whose names they have beside ours."""

    cluster: str | None
    read: Callable[[], Readings]
    limits: Limits | None = None
    compat: compat.Wanted = compat.NOTHING


class Exporter:
    """Answers scrapes. One is made at a time; who asks for the same while it is made is given the same."""

    def __init__(
        self,
        sources: Sequence[Source],
        *,
        reload: Callable[[], ReloadReading | None] = lambda: None,
        process: bool = True,
    ) -> None:
        """`reload` tells of the configuration; `process`: whether Python and its process are told of as well."""
        self._sources = [(source, GroupLines(source.cluster)) for source in sources]
        self._reload = reload
        self._process = CollectorRegistry()
        if process:
            for collector in (ProcessCollector, PlatformCollector, GCCollector):
                collector(registry=self._process)
        self._one = threading.Lock()
        self._guard = threading.Lock()
        self._under_way: dict[bool, Future[Sequence[bytes]]] = {}

    def warm(self, is_ready: Callable[[], bool], look_s: float = 0.1) -> None:
        """Once there is something to tell, make it before anybody asks: the first time takes three times as long as
        the others, of which little changes.
        """
        threading.Thread(target=self._warm, args=(is_ready, look_s), name="warming", daemon=True).start()

    def _warm(self, is_ready: Callable[[], bool], look_s: float) -> None:
        while not is_ready():
            time.sleep(look_s)
        try:
            self.render()
        except Exception:
            log.exception("metrics could not be made; whoever asks for them is told so")

    def render(self, openmetrics: bool = False) -> Sequence[bytes]:
        """Everything, in one of the two formats and in pieces. Raises what a reading raises."""
        with self._guard:
            pending = self._under_way.get(openmetrics)
            if pending is None:
                mine = self._under_way[openmetrics] = Future[Sequence[bytes]]()
        if pending is not None:
            return pending.result()
        try:
            with self._one:
                mine.set_result(list(self._pieces(openmetrics)))
        except BaseException as error:
            mine.set_exception(error)
            raise
        finally:
            with self._guard:
                del self._under_way[openmetrics]
        return mine.result()

    def _pieces(self, openmetrics: bool) -> Iterator[bytes]:
        """Family by family, so that no step holds other threads up for long."""
        process = list(self._process.collect())
        own = sum(len(it.samples) for it in process)
        others = list(self._of_all())
        written = []
        for source, lines in self._sources:
            readings = source.read()
            samples = list(_samples(readings))
            if source.limits is not None:
                samples += _limit(readings, source, own + len(others) + len(samples))
            others += [(source.cluster, sample) for sample in samples]
            written.append(lines.write(readings) | compat.lines(readings, source.compat, source.cluster))
        for metric in _OF_GROUPS:
            # Lines that are through are let go of.
            found = [line for of_cluster in written for line in of_cluster.pop(metric.name, ())]
            if found:
                yield "".join((head(metric, openmetrics=openmetrics), *found)).encode()
        yield (generate_openmetrics if openmetrics else generate_latest)(_Families(others, process))

    def _of_all(self) -> Iterator[tuple[str | None, Sample]]:
        if (reload := self._reload()) is not None:
            yield None, ("kshadow_config_last_reload_successful", (), reload.successful)
            if reload.success_s is not None:
                yield None, ("kshadow_config_last_reload_success_timestamp_seconds", (), reload.success_s)
        yield None, ("kshadow_build_info", (__version__,), 1)


_OF_GROUPS = (*(METRICS[name] for name in FAMILIES), *compat.FAMILIES.values())


def _limit(it: Readings, source: Source, others: int) -> list[Sample]:
    """Leave the groups that have none their series, and tell how many series that are."""
    assert source.limits is not None, "there are limits"
    candidates = [
        Candidate(
            group.shape.group,
            series(group) + compat.series(group, source.compat),
            group.shape.members > 0,
            max(group.shape.state_since_ms, group.last_commit_ms or 0),
        )
        for group in it.groups
    ]
    choice = source.limits.choose(candidates, time.time_ns() // 1_000_000, others=others + len(Reason))
    it.groups = [group for group in it.groups if group.shape.group in choice.groups]
    return [("kshadow_series_left_out", (reason,), out.series) for reason, out in choice.left_out.items()]


class _Families(Collector):
    """The families of which there are few samples, then those of the process."""

    def __init__(self, samples: Sequence[tuple[str | None, Sample]], process: Iterable[Family]) -> None:
        names = {sample[0] for _, sample in samples}
        self._families = {
            name: Family(name, metric.help, metric.kind) for name, metric in METRICS.items() if name in names
        }
        self._process = process
        for cluster, (name, values, value) in samples:
            metric = METRICS[name]
            labels = dict(zip(metric.labels, values, strict=True))
            if cluster is not None:
                labels["cluster"] = label(cluster)
            self._families[name].add_sample(sample_name(metric), labels, value)

    def collect(self) -> Iterator[Family]:
        """All of them."""
        yield from self._families.values()
        yield from self._process


def _samples(it: Readings) -> Iterator[Sample]:
    for record_type, count in sorted(it.record_counts.items()):
        yield "kshadow_records", (record_type,), count
    for reason, count in it.error_counts.items():
        yield "kshadow_decode_errors", (reason,), count
    for partition, behind in it.behind_records.items():
        yield "kshadow_topic_behind_records", (str(partition),), behind
    for partition, reached in it.caught_up.items():
        yield "kshadow_caught_up", (str(partition),), reached
    yield "kshadow_source_healthy", (), it.healthy
    if it.partitions_owned is not None:
        yield "kshadow_partitions_owned", (), it.partitions_owned
    yield from _observed(it)
    for outcome, count in it.lag_requests.items():
        yield "kshadow_lag_requests", (outcome,), count
    yield from _kept(it)


def _observed(readings: Readings) -> Iterator[Sample]:
    it = readings.observed
    if it is None:
        return
    for name, value in it.divergences.items():
        yield "kshadow_shadow_divergence_groups", (name,), value
    yield "kshadow_shadow_compared_groups", (), it.compared_groups
    for state, count in it.rebalancing.items():
        yield "kshadow_rebalancing_groups", (state,), count
    for outcome, count in it.requests.items():
        yield "kshadow_admin_requests", (outcome,), count


def _kept(readings: Readings) -> Iterator[Sample]:
    for sink, it in readings.history.items():
        yield "kshadow_history_events", (sink,), it.events
        yield "kshadow_history_buffered_events", (sink,), it.buffered
        yield "kshadow_history_dropped", (sink,), it.dropped
        if it.oldest_s is not None:
            yield "kshadow_history_oldest_buffered_seconds", (sink,), it.oldest_s
    snapshots = readings.snapshots
    if snapshots is None:
        return
    if snapshots.age_s is not None:
        yield "kshadow_snapshot_age_seconds", (), snapshots.age_s
    for outcome, count in snapshots.writes.items():
        yield "kshadow_snapshot_writes", (outcome,), count
    for reason, count in snapshots.refused.items():
        yield "kshadow_snapshot_refused", (reason,), count
