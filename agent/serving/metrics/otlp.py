"""The metrics of a scrape, sent as OTLP: every family of /metrics by its name, and with its values.

What is sent is made of the text that /metrics answers, so the two cannot differ. Beside our names stand those of the
OpenTelemetry collector's Kafka receiver, with its attributes, so that what was built on that goes on working:
`RECEIVER_METRICS`. Counters are cumulative since the process began.
"""

from __future__ import annotations

import logging
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any, ClassVar, NamedTuple

from msgspec import Struct
from prometheus_client.parser import text_string_to_metric_families

from agent.common.threads import BackgroundThread
from agent.config.values import OtlpEndpoint
from agent.persistence.export.otlp_endpoint import SCOPE, new_exporter, resource, try_export

log = logging.getLogger("kshadow.export")

REQUEST_POINTS = 5_000
"""Of one request: collectors take 4 MB by gRPC unless told, and a point is some 150 bytes."""

RenderMetrics = Callable[[], Sequence[bytes]]
"""What /metrics answers, in the text format 0.0.4 and in pieces."""


class ReceiverMetric(Struct, frozen=True):
    """A metric of the collector's `kafkametrics` receiver, and the one of ours whose values it has."""

    name: str
    ours: str
    unit: str
    attributes: tuple[str, ...]
    help: str
    is_sum: bool = False
    """Whether it is a sum that may fall; the others are gauges."""


RECEIVER_METRICS = (
    ReceiverMetric(
        "kafka.consumer_group.members",
        "kshadow_group_members",
        "{members}",
        ("group",),
        "Count of members in the consumer group",
        is_sum=True,
    ),
    ReceiverMetric(
        "kafka.consumer_group.lag_sum",
        "kshadow_group_topic_lag_records",
        "1",
        ("group", "topic"),
        "Lag of the consumer group across all partitions of the topic",
    ),
    ReceiverMetric(
        "kafka.consumer_group.lag",
        "kshadow_group_partition_lag_records",
        "1",
        ("group", "topic", "partition"),
        "Lag of the consumer group at the topic's partition",
    ),
    ReceiverMetric(
        "kafka.consumer_group.offset",
        "kshadow_group_partition_committed_offset",
        "1",
        ("group", "topic", "partition"),
        "Offset that the consumer group committed at the topic's partition",
    ),
    ReceiverMetric(
        "kafka.consumer_group.offset_sum",
        "kshadow_group_partition_committed_offset",
        "1",
        ("group", "topic"),
        "Sum of the offsets that the consumer group committed across the topic's partitions",
    ),
)
"""Those of single partitions are there with --granularity partition, as ours are. Where several clusters are read,
`cluster` comes to their attributes."""

_UNITS = (("_seconds", "s"), ("_bytes", "By"), ("_ratio", "1"))


class Point(NamedTuple):
    """One value: its metric's name, unit, help and kind, its attributes."""

    name: str
    unit: str
    help: str
    kind: str
    """`counter`, `gauge`, or `sum` for one that may fall."""
    attributes: Mapping[str, str | int]
    value: float | int


def points_of(text: str, clusters: Collection[str] | None = None) -> Iterator[Point]:
    """All values of a scrape's text; of `clusters` alone and what has no cluster, where they are given."""
    by_ours: dict[str, list[ReceiverMetric]] = {}
    for metric in RECEIVER_METRICS:
        by_ours.setdefault(metric.ours, []).append(metric)
    for family in text_string_to_metric_families(text):
        samples = [
            it
            for it in family.samples
            if clusters is None or it.labels.get("cluster") in clusters or "cluster" not in it.labels
        ]
        for it in samples:
            kind = "counter" if family.type == "counter" and it.name.endswith("_total") else "gauge"
            yield Point(it.name, _unit(family.name), family.documentation, kind, it.labels, it.value)
        for theirs in by_ours.get(family.name, ()):
            yield from _as_the_receiver(theirs, samples)


def _unit(name: str) -> str:
    return next((unit for suffix, unit in _UNITS if name.endswith(suffix)), "1")


def _as_the_receiver(metric: ReceiverMetric, samples: Sequence[Any]) -> Iterator[Point]:
    kind = "sum" if metric.is_sum else "gauge"
    sums: Counter[tuple[tuple[str, str | int], ...]] = Counter()
    for it in samples:
        named = {name: it.labels[name] for name in (*metric.attributes, "cluster") if name in it.labels}
        if "partition" in named:
            named["partition"] = int(named["partition"])
        sums[tuple(named.items())] += int(it.value)
    for attributes, value in sums.items():
        yield Point(metric.name, metric.unit, metric.help, kind, dict(attributes), value)


class OtlpMetrics(BackgroundThread):
    """Sends the metrics to one endpoint, again and again. One that cannot be sent is not kept: the next has all."""

    STOP_S: ClassVar[float | None] = 2.0

    def __init__(
        self,
        endpoint: OtlpEndpoint,
        render: RenderMetrics,
        interval_s: float,
        clusters: Collection[str] | None = None,
    ) -> None:
        """`clusters`: as `points_of` takes them. Raises `ExportMisconfigured`."""
        super().__init__("otlp-metrics")
        self._endpoint, self._render, self._interval_s, self._clusters = endpoint, render, interval_s, clusters
        self._exporter = new_exporter(endpoint, "metrics")
        self._began_ns, self._began_steady_ns = time.time_ns(), time.monotonic_ns()
        self._is_failing = False

    def _run(self) -> None:
        while True:
            began = time.monotonic()
            try:
                failure = self.export()
            except Exception as error:
                log.exception("metrics could not be made for --otlp; tried again in %g s", self._interval_s)
                failure = repr(error)
            if failure is not None and not self._is_failing:
                log.warning("metrics are not sent to %s: %s", self._endpoint, failure)
            elif failure is None and self._is_failing:
                log.info("metrics are sent to %s again", self._endpoint)
            self._is_failing = failure is not None
            if self._stop.wait(max(self._interval_s - (time.monotonic() - began), 0.0)):
                self._exporter.shutdown()
                return

    def export(self) -> str | None:
        """Send all once; why that failed, or some of it, None if it did not."""
        text = b"".join(self._render()).decode()
        now_ns = time.time_ns()
        if now_ns < self._began_ns:
            # The clock was ahead then. Another beginning says that counters begin anew: so it is set but once.
            self._began_ns = now_ns - (time.monotonic_ns() - self._began_steady_ns)
        rejection = None
        for points in _chunks(points_of(text, self._clusters), REQUEST_POINTS):
            failure = try_export(self._exporter, self._data(points, now_ns))
            if failure is not None and not failure.rejected:
                return failure.reason
            if failure is not None:
                rejection = f"{failure.rejected} of {len(points)} points are rejected: {failure.reason}"
        return rejection

    def _data(self, points: Sequence[Point], now_ns: int) -> Any:
        from opentelemetry.sdk.metrics.export import (
            AggregationTemporality,
            Gauge,
            Metric,
            MetricsData,
            NumberDataPoint,
            ResourceMetrics,
            ScopeMetrics,
            Sum,
        )
        from opentelemetry.sdk.util.instrumentation import InstrumentationScope

        found: dict[tuple[str, str, str, str], list[NumberDataPoint]] = {}
        for it in points:
            key = (it.name, it.unit, it.help, it.kind)
            point = NumberDataPoint(it.attributes, self._began_ns, now_ns, it.value)
            found.setdefault(key, []).append(point)
        metrics = [
            Metric(
                name,
                text,
                unit,
                Gauge(of) if kind == "gauge" else Sum(of, AggregationTemporality.CUMULATIVE, kind == "counter"),
            )
            for (name, unit, text, kind), of in found.items()
        ]
        scope = ScopeMetrics(InstrumentationScope(SCOPE), metrics, "")
        return MetricsData([ResourceMetrics(resource(), [scope], "")])


def _chunks(points: Iterator[Point], size: int) -> Iterator[list[Point]]:
    chunk: list[Point] = []
    for it in points:
        chunk.append(it)
        if len(chunk) == size:
            yield chunk
            chunk = []
    if chunk:
        yield chunk
