"""Every metric: those of groups, and those of a cluster's reader, of which the values are functions of `Readings`.

The exporter, the documentation and the dashboards read `METRICS`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from agent.serving.metrics.group_metrics import GROUP_METRICS
from agent.serving.metrics.readings import Readings
from agent.serving.metrics.text import Metric

Values = Mapping[str, float] | Mapping[int, float] | float | None
"""By the value of a metric's one label; or the value of a metric without labels; None: there is no sample."""


class ClusterMetric(Metric, frozen=True):
    """A metric of one cluster and of the agent's reader of it."""

    values: Callable[[Readings], Values]

    def samples(self, readings: Readings) -> Iterator[tuple[tuple[str, ...], float]]:
        """The values of the labels, and the value."""
        values = self.values(readings)
        if isinstance(values, Mapping):
            for key, value in values.items():
                yield (str(key),), value
        elif values is not None:
            yield (), values


def _gauge(name: str, text: str, values: Callable[[Readings], Values], *labels: str) -> ClusterMetric:
    return ClusterMetric(name, "gauge", labels, text, values)


def _counter(name: str, text: str, values: Callable[[Readings], Values], *labels: str) -> ClusterMetric:
    return ClusterMetric(name, "counter", labels, text, values)


CLUSTER_METRICS = (
    _counter(
        "kshadow_records",
        "Records of the topic that were read, by type.",
        lambda it: dict(sorted(it.record_counts.items())),
        "type",
    ),
    _counter(
        "kshadow_decode_errors",
        "Records of the topic that could not be decoded.",
        lambda it: it.error_counts,
        "reason",
    ),
    _counter(
        "kshadow_records_ahead",
        "Records of the topic whose timestamps are ahead of the agent's clock or of the records around them, and so "
        "move no clock.",
        lambda it: it.records_ahead,
        "partition",
    ),
    _counter(
        "kshadow_records_quarantined",
        "Records of the topic that could not be fetched or unpacked and were passed over, by reason.",
        lambda it: it.records_quarantined,
        "reason",
    ),
    _gauge(
        "kshadow_topic_behind_records",
        "Records between the reader's position and the end of the topic's partition; absent while it cannot be read.",
        lambda it: it.behind_records,
        "partition",
    ),
    _gauge(
        "kshadow_topic_open_transaction_seconds",
        "For how long the oldest open transaction of the topic's partition has been open: what was written since is "
        "hidden; 0 if none is, absent while the partition cannot be read.",
        lambda it: it.open_transaction_s,
        "partition",
    ),
    _gauge(
        "kshadow_caught_up",
        "1 once the reader reached the end offset that the partition had when the agent started.",
        lambda it: it.caught_up,
        "partition",
    ),
    _gauge(
        "kshadow_shadow_divergence_groups",
        "Groups whose state in the mirror differs from the brokers' in two checks, by field; absent while the topic "
        "cannot be read, and while no group can be compared.",
        lambda it: it.observed.divergences if it.observed else None,
        "field",
    ),
    _gauge(
        "kshadow_shadow_compared_groups",
        "Groups whose state in the mirror was compared with the brokers', the last time that it was asked for.",
        lambda it: it.observed.compared_groups if it.observed else None,
    ),
    _gauge(
        "kshadow_rebalancing_groups",
        "Classic groups that rebalance now according to the brokers, by state.",
        lambda it: it.observed.rebalancing if it.observed else None,
        "state",
    ),
    _counter(
        "kshadow_admin_requests",
        "Requests to the brokers for lists and descriptions of groups, by outcome.",
        lambda it: it.observed.requests if it.observed else None,
        "outcome",
    ),
    _gauge(
        "kshadow_source_healthy",
        "1 while the topic is being read without errors; with --source admin, while the coordinators of all groups "
        "answer.",
        lambda it: it.healthy,
    ),
    _gauge(
        "kshadow_partitions_owned",
        "Partitions of the topic that this agent reads now, with --share-group.",
        lambda it: it.partitions_owned,
    ),
    _gauge(
        "kshadow_kubernetes_watch_healthy",
        "1 while the objects of this kind are watched, with --kubernetes.",
        lambda it: it.kubernetes.watching if it.kubernetes else None,
        "kind",
    ),
    _counter(
        "kshadow_kubernetes_requests",
        "Lists and watches that the Kubernetes API server was asked for, by outcome.",
        lambda it: it.kubernetes.requests if it.kubernetes else None,
        "outcome",
    ),
    _gauge(
        "kshadow_kubernetes_pods",
        "Pods that are known, those that went within six hours included.",
        lambda it: it.kubernetes.pods if it.kubernetes else None,
    ),
    _counter(
        "kshadow_kubernetes_objects_left_out",
        "Objects of Kubernetes for which there was no room.",
        lambda it: it.kubernetes.left_out if it.kubernetes else None,
    ),
    _counter(
        "kshadow_lag_requests",
        "Requests for the end offsets of the groups' topics, by outcome.",
        lambda it: it.lag_requests,
        "outcome",
    ),
    _gauge(
        "kshadow_series_left_out",
        "Series of groups that this scrape leaves out, by reason.",
        lambda it: it.series_left_out,
        "reason",
    ),
    _counter(
        "kshadow_history_events",
        "Events of the history that a sink has written.",
        lambda it: {sink: of.events for sink, of in it.history.items()},
        "sink",
    ),
    _gauge(
        "kshadow_history_buffered_events",
        "Events that wait for a sink.",
        lambda it: {sink: of.buffered for sink, of in it.history.items()},
        "sink",
    ),
    _counter(
        "kshadow_history_dropped",
        "Events that were dropped before a sink wrote them.",
        lambda it: {sink: of.dropped for sink, of in it.history.items()},
        "sink",
    ),
    _gauge(
        "kshadow_history_oldest_buffered_seconds",
        "Waiting time of the oldest event that waits for a sink.",
        lambda it: {sink: of.oldest_s for sink, of in it.history.items() if of.oldest_s is not None},
        "sink",
    ),
    _gauge(
        "kshadow_snapshot_age_seconds",
        "Age of the newest snapshot, of the partition where that is oldest.",
        lambda it: it.snapshots.age_s if it.snapshots else None,
    ),
    _counter(
        "kshadow_snapshot_writes",
        "Attempts to write a snapshot, by outcome.",
        lambda it: it.snapshots.writes if it.snapshots else None,
        "outcome",
    ),
    _counter(
        "kshadow_snapshot_refused",
        "Snapshots that were found at the start and rejected, by reason.",
        lambda it: it.snapshots.refused if it.snapshots else None,
        "reason",
    ),
)

_AGENT_METRICS = (
    Metric(
        "kshadow_config_last_reload_successful", "gauge", (), "1 if the last reload of the configuration succeeded."
    ),
    Metric(
        "kshadow_config_last_reload_success_timestamp_seconds",
        "gauge",
        (),
        "Time of the last successful reload of the configuration, Unix time.",
    ),
    Metric("kshadow_build_info", "gauge", ("version",), "1; the version is the label."),
)
"""Their values are those of the whole agent: the exporter has them."""

METRICS: Mapping[str, Metric] = {it.name: it for it in (*GROUP_METRICS, *CLUSTER_METRICS, *_AGENT_METRICS)}
"""By name, in the order in which they are exported."""
