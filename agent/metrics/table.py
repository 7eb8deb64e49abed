"""Every metric: name, type, labels and what it means. The exporter and the documentation read this table."""

from __future__ import annotations

from typing import NamedTuple


class Metric(NamedTuple):
    """A metric as it is exported. `kind` is Prometheus': counter names leave out the `_total` that is added."""

    name: str
    kind: str
    labels: tuple[str, ...]
    help: str


METRICS = {
    metric.name: metric
    for metric in (
        Metric("kshadow_group_state", "gauge", ("group", "group_type", "state"), "1 for the state the group is in."),
        Metric("kshadow_group_members", "gauge", ("group",), "Members of the group."),
        Metric(
            "kshadow_group_generation",
            "gauge",
            ("group",),
            "Generation of the group, its epoch in newer group types.",
        ),
        Metric("kshadow_group_idle_members", "gauge", ("group",), "Members that hold no partition."),
        Metric(
            "kshadow_group_rebalances",
            "counter",
            ("group", "cause"),
            "Rebalances that completed since the log begins.",
        ),
        Metric("kshadow_group_member_departures", "counter", ("group", "cause"), "Members that left the group."),
        Metric(
            "kshadow_group_rebalance_stopped_partition_seconds",
            "counter",
            ("group",),
            "Time that rebalances left partitions without anybody working on them, summed over the partitions.",
        ),
        Metric(
            "kshadow_group_assignment_imbalance_ratio",
            "gauge",
            ("group",),
            "Largest share of partitions (or tasks) by a fair share; 1 is even.",
        ),
        Metric(
            "kshadow_group_load_imbalance_ratio",
            "gauge",
            ("group",),
            "Largest share of the records consumed in the last 15 minutes by a fair share; 1 is even.",
        ),
        Metric(
            "kshadow_group_last_commit_timestamp_seconds",
            "gauge",
            ("group",),
            "When the group last committed an offset that it still keeps, Unix time.",
        ),
        Metric(
            "kshadow_group_topic_lag_records",
            "gauge",
            ("group", "topic"),
            "Records between what the group committed and the end of the topic; absent where an end is not known.",
        ),
        Metric(
            "kshadow_group_topic_lag_seconds",
            "gauge",
            ("group", "topic"),
            "How long ago the record was written that the group is to read next, in its slowest partition.",
        ),
        Metric(
            "kshadow_group_partition_committed_offset",
            "gauge",
            ("group", "topic", "partition"),
            "The offset that the group committed.",
        ),
        Metric(
            "kshadow_group_partition_lag_records",
            "gauge",
            ("group", "topic", "partition"),
            "Records between the committed offset and the end of the partition; absent where the end is not known.",
        ),
        Metric(
            "kshadow_finding_active",
            "gauge",
            ("group", "analyzer", "severity"),
            "1 while a finding is open, 0 once it has closed; the group is empty where it is about the cluster.",
        ),
        Metric("kshadow_records", "counter", ("type",), "Records of the topic that were read, by type."),
        Metric("kshadow_decode_errors", "counter", ("reason",), "Records of the topic that could not be decoded."),
        Metric(
            "kshadow_topic_behind_records",
            "gauge",
            ("partition",),
            "Offsets between what was read and the end of the topic's partition.",
        ),
        Metric(
            "kshadow_caught_up",
            "gauge",
            ("partition",),
            "1 once the partition was read to where it ended at the start.",
        ),
        Metric(
            "kshadow_shadow_divergence_groups",
            "gauge",
            ("field",),
            "Groups of which the brokers and the mirror say different things, seen twice, by what differs.",
        ),
        Metric(
            "kshadow_shadow_compared_groups",
            "gauge",
            (),
            "Groups of which the mirror was compared with what the brokers say.",
        ),
        Metric(
            "kshadow_rebalancing_groups",
            "gauge",
            ("state",),
            "Groups of classic consumers that the brokers say are rebalancing now, by state.",
        ),
        Metric(
            "kshadow_admin_requests",
            "counter",
            ("outcome",),
            "Lists and descriptions of groups that the brokers were asked for, by how that ended.",
        ),
        Metric("kshadow_source_healthy", "gauge", (), "1 while reading the topic is known to work."),
        Metric("kshadow_partitions_owned", "gauge", (), "Partitions of the topic that this agent reads."),
        Metric(
            "kshadow_lag_requests",
            "counter",
            ("outcome",),
            "Requests for the ends of the topics that groups consume, by how they ended.",
        ),
        Metric(
            "kshadow_series_left_out",
            "gauge",
            ("reason",),
            "Series that groups would have and have not got in this scrape, by reason.",
        ),
        Metric("kshadow_history_events", "counter", ("sink",), "Events of the history that a sink has taken."),
        Metric("kshadow_history_buffered_events", "gauge", ("sink",), "Events that wait for a sink to take them."),
        Metric("kshadow_history_dropped", "counter", ("sink",), "Events that were dropped before a sink took them."),
        Metric(
            "kshadow_history_oldest_buffered_seconds",
            "gauge",
            ("sink",),
            "For how long the oldest event that waits for a sink has waited.",
        ),
        Metric(
            "kshadow_snapshot_age_seconds", "gauge", (), "Time since the oldest of the newest snapshots was taken."
        ),
        Metric("kshadow_snapshot_writes", "counter", ("outcome",), "Snapshots that were written, by how that ended."),
        Metric(
            "kshadow_snapshot_refused",
            "counter",
            ("reason",),
            "Snapshots that were found at the start and not used, by reason.",
        ),
        Metric(
            "kshadow_config_last_reload_successful",
            "gauge",
            (),
            "1 if the configuration could be read when it last was.",
        ),
        Metric(
            "kshadow_config_last_reload_success_timestamp_seconds",
            "gauge",
            (),
            "When the configuration was last read and taken, Unix time.",
        ),
        Metric("kshadow_build_info", "gauge", ("version",), "1; the version is the label."),
    )
}
