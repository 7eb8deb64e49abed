"""The text of a scrape: what the mirrors and readers know, as Prometheus metric families.

Families that have samples for each group are written by `agent.serving.metrics.lines`, the others go through
prometheus_client. Nothing of a group is exported before the topic was read to its end: half a replay shows groups as
they once were.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple

from prometheus_client import CollectorRegistry, GCCollector, PlatformCollector, ProcessCollector
from prometheus_client.exposition import generate_latest
from prometheus_client.metrics_core import Metric as Family
from prometheus_client.openmetrics.exposition import generate_latest as generate_openmetrics
from prometheus_client.registry import Collector

from agent import __version__
from agent.common import clock
from agent.common.collector import collector_paused
from agent.common.memory import return_freed_memory
from agent.serving.metrics import compat
from agent.serving.metrics.group_metrics import GROUP_METRICS
from agent.serving.metrics.limits import Candidate, Limits, Reason
from agent.serving.metrics.lines import GroupLines
from agent.serving.metrics.readings import Readings, ReloadReading, unread
from agent.serving.metrics.table import CLUSTER_METRICS, METRICS
from agent.serving.metrics.text import safe_label

log = logging.getLogger("kshadow")

Sample = tuple[str, tuple[str, ...], float]
"""Name in the table, values of the labels, value."""


class MetricsSource(NamedTuple):
    """One cluster: its name as a label (None: there is no other), what takes a reading of it, which of its groups
    have series (None: all), and whose names they have beside ours."""

    cluster: str | None
    read: Callable[[], Readings]
    limits: Limits | None = None
    compat: compat.CompatOptions = compat.NO_COMPAT


class Exporter:
    """Answers scrapes, one at a time."""

    def __init__(
        self,
        sources: Sequence[MetricsSource],
        *,
        reload: Callable[[], ReloadReading | None] = lambda: None,
        process: bool = True,
    ) -> None:
        """`reload` tells of the configuration; `process`: whether Python and its process are told of as well."""
        self._sources = [(source, GroupLines(source.cluster, source.compat)) for source in sources]
        self._reload = reload
        self._process = CollectorRegistry()
        if process:
            for collector in (ProcessCollector, PlatformCollector, GCCollector):
                collector(registry=self._process)
        self._one = threading.Lock()

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
        # What the reading of the topic took.
        return_freed_memory()

    def render(self, openmetrics: bool = False) -> Sequence[bytes]:
        """Everything, in one of the two formats and in pieces. Raises what the reading of an only cluster raises."""
        with self._one, collector_paused():
            return list(self._pieces(openmetrics))

    def _pieces(self, openmetrics: bool) -> Iterator[bytes]:
        """Family by family, so that no step holds other threads up for long."""
        process = list(self._process.collect())
        own = sum(len(it.samples) for it in process)
        others = list(self._of_all())
        written = []
        for source, lines in self._sources:
            readings = self._read(source)
            lines.keep(readings.groups)
            if source.limits is not None:
                _apply_limits(readings, source.limits, lines, own + len(others) + len(_cluster_samples(readings)))
            others += [(source.cluster, sample) for sample in _cluster_samples(readings)]
            written.append(lines.write(readings))
        for metric in _GROUP_METRICS:
            found = [lines for of_cluster in written for lines in of_cluster.get(metric.name, ())]
            if found:
                # Not put together: while that is done nobody else computes.
                yield metric.header(openmetrics=openmetrics).encode() + found[0]
                yield from found[1:]
        yield (generate_openmetrics if openmetrics else generate_latest)(_Families(others, process))

    def _read(self, source: MetricsSource) -> Readings:
        """A cluster's reading. One of several that fails must not hide the others: it is told to be unread."""
        try:
            return source.read()
        except Exception:
            if len(self._sources) == 1:
                raise
            log.exception("the metrics of cluster %s", source.cluster)
            return unread()

    def _of_all(self) -> Iterator[tuple[str | None, Sample]]:
        if (reload := self._reload()) is not None:
            yield None, ("kshadow_config_last_reload_successful", (), reload.successful)
            if reload.success_s is not None:
                yield None, ("kshadow_config_last_reload_success_timestamp_seconds", (), reload.success_s)
        yield None, ("kshadow_build_info", (__version__,), 1)


_GROUP_METRICS = (*GROUP_METRICS, *compat.FAMILIES.values())


def _cluster_samples(readings: Readings) -> list[Sample]:
    return [(metric.name, *sample) for metric in CLUSTER_METRICS for sample in metric.samples(readings)]


def _apply_limits(readings: Readings, limits: Limits, lines: GroupLines, others: int) -> None:
    """Leave out the groups that have no series, and note how many series those would be."""
    candidates = [
        Candidate(
            group.shape.group,
            series,
            group.shape.members > 0,
            max(group.shape.state_since_ms, group.last_commit_ms or 0),
        )
        for group, series in zip(readings.groups, map(lines.series_count, readings.groups), strict=True)
    ]
    choice = limits.choose(candidates, clock.now_ms(), others=others + len(Reason))
    readings.groups = [group for group in readings.groups if group.shape.group in choice.groups]
    readings.series_left_out = {reason: out.series for reason, out in choice.left_out.items()}


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
                labels["cluster"] = safe_label(cluster)
            self._families[name].add_sample(metric.sample_name, labels, value)

    def collect(self) -> Iterator[Family]:
        """All of them."""
        yield from self._families.values()
        yield from self._process
