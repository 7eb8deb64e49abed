"""`docs/reference/metrics.md`: every metric, from the exporter's own table."""

from __future__ import annotations

from collections.abc import Iterable

from agent.core.causes import Cause
from agent.core.diagnosis.severity import Severity
from agent.core.inference.origins import OriginKind
from agent.core.protocol.client_libraries import LIBRARIES
from agent.core.protocol.states import GroupState, GroupType
from agent.core.wire.errors import KINDS
from agent.core.wire.records import RECORD_TYPES
from agent.kafka.admin_api.answers import AdminOutcome
from agent.kafka.admin_api.divergence import FIELDS
from agent.kafka.lag.asking import OffsetOutcome
from agent.kafka.source.quarantine import QuarantineReason
from agent.kubernetes.watched import WATCHED
from agent.persistence.export.otlp_sink import OtlpSink
from agent.persistence.export.parquet_sink import ParquetSink
from agent.persistence.export.topic_sink import TopicSink
from agent.persistence.snapshot.errors import RefusalReason
from agent.serving.metrics.group_metrics import GROUP_METRICS
from agent.serving.metrics.limits import Reason
from agent.serving.metrics.otlp import RECEIVER_METRICS
from agent.serving.metrics.table import METRICS
from agent.serving.metrics.text import Metric
from analyzers.registry import known_analyzers
from spark_jobs.streams.metrics import PARTS, STREAM_METRICS
from tests.generate.docs.markdown import code, prose, table

HEAD = """\
# Metrics

`kshadow run` serves these at `/metrics`, as Prometheus text or OpenMetrics. Metrics of groups appear once the topic
was read to its end. Unknown values are absent, never 0 or -1. Times are computed at the scrape, which sends no
request to brokers. Python's own `process_*` and `python_*` are included.

If one agent reads several clusters, each series of a group has the label `cluster`. Label values have at most 200
characters; longer or unprintable ones end in `~` and a hash. What limits the number of series:
[`--allow-group`, `--deny-group`, `--max-series`, `--expire-after`, `--granularity`](options.md). Names of other
exporters: [migration.md](../migration.md). Alerts on these metrics: [alerts.md](alerts.md).
"""
STREAMS = """\
The driver of `kshadow spark stream` serves these with [`--listen`](commands.md#kshadow-spark-stream), as of the end
of the last batch. `query` is `mirror` (of `--reads topic`) or `rollups`; `source` is the topic that is read.
"""

OTLP = """\
## By OTLP

[`--otlp`](../operations.md#opentelemetry) sends the metrics of `/metrics` under the same names, counters with their
`_total`, labels as attributes. In addition it sends the names of the OpenTelemetry collector's Kafka receiver;
those of single partitions need `--granularity partition`, `offset_sum` is the sum over a topic.
"""
UNITS = {
    "_per_second": "records/s",
    "_bytes": "bytes",
    "_rows": "rows",
    "_timestamp_seconds": "Unix time, s",
    "_partition_seconds": "partition-seconds",
    "_seconds": "seconds",
    "_records": "records",
    "_offset": "offset",
    "_ratio": "ratio",
    "_members": "members",
    "_groups": "groups",
    "_events": "events",
    "_info": "always 1",
}
"""What a name ends in (without `_total`) says what is counted; others are plain numbers."""

VALUES: dict[str, Iterable[str]] = {
    "analyzer": sorted(known_analyzers()),
    "cause": Cause,
    "group_type": GroupType,
    "origin": [kind for kind in OriginKind if kind.info.is_departure],
    "severity": Severity,
    "sink": (OtlpSink.name, ParquetSink.name, TopicSink.name),
    "state": GroupState,
}
"""Labels that have the same values wherever they are."""

OWN: dict[tuple[str, str], Iterable[str]] = {
    ("kshadow_admin_requests", "outcome"): AdminOutcome,
    ("kshadow_decode_errors", "reason"): KINDS,
    ("kshadow_group_client_libraries", "library"): LIBRARIES,
    ("kshadow_kubernetes_requests", "outcome"): ("ok", "denied", "expired", "failed"),
    ("kshadow_kubernetes_watch_healthy", "kind"): [it.kind for it in WATCHED],
    ("kshadow_lag_requests", "outcome"): OffsetOutcome,
    ("kshadow_records", "type"): (*(it.name for it in RECORD_TYPES.values()), "transaction_marker"),
    ("kshadow_records_quarantined", "reason"): QuarantineReason,
    ("kshadow_series_left_out", "reason"): Reason,
    ("kshadow_shadow_divergence_groups", "field"): FIELDS,
    ("kshadow_snapshot_refused", "reason"): tuple(RefusalReason),
    ("kshadow_snapshot_writes", "outcome"): ("ok", "failed"),
    ("kshadow_spark_stream_batch_part_seconds", "part"): (*PARTS, "other"),
}
"""Those of one metric alone."""


KNOWN: dict[str, Metric] = {**METRICS, **{it.name: it for it in STREAM_METRICS}}


def page() -> str:
    """The whole page."""
    others = [metric for metric in METRICS.values() if metric not in GROUP_METRICS]
    parts = [
        HEAD,
        "## Of groups\n",
        _table(GROUP_METRICS),
        "## Of the agent and what it reads\n",
        _table(others),
        "## Of a Spark stream\n",
        STREAMS,
        _table(STREAM_METRICS),
        OTLP,
        table(
            ("metric", "attributes", "unit", "is"),
            (
                (code(it.name), prose(", ".join(map(code, it.attributes))), code(it.unit), code(it.ours))
                for it in RECEIVER_METRICS
            ),
        ),
        "## Values of labels\n",
        table(("label", "values"), [*_shared(), *_own()]),
    ]
    return "\n".join(parts)


def unit(metric: Metric) -> str:
    """What its value counts."""
    return next((text for ending, text in UNITS.items() if metric.name.endswith(ending)), "")


def _table(metrics: Iterable[Metric]) -> str:
    rows = (
        (code(it.sample_name), it.kind, ", ".join(code(name) for name in it.labels), unit(it), prose(it.help))
        for it in metrics
    )
    return table(("metric", "type", "labels", "unit", "what"), rows)


def _shared() -> Iterable[tuple[str, str]]:
    return ((code(name), _codes(values)) for name, values in VALUES.items())


def _own() -> Iterable[tuple[str, str]]:
    for (name, label), values in OWN.items():
        metric = KNOWN[name]
        assert label in metric.labels
        yield f"{code(label)} of {code(metric.sample_name)}", _codes(values)


def _codes(values: Iterable[str]) -> str:
    return ", ".join(code(str(value)) for value in values)
