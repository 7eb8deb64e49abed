"""Rows of the group's dashboard: who works on what, and how far behind that is."""

from __future__ import annotations

from typing import Final

from helm.dashboards.frame import Row
from helm.dashboards.panels import Q, Says, Size, lines
from helm.dashboards.promql import GROUP, TOPICS, most, selected
from helm.dashboards.words import NO_COMMITS, NO_GROUPS, NO_LAG, NO_LOAD, NO_PARTITIONS

_NAME: Final = "{{group}} {{cluster}}"
_LAST_COMMIT: Final = most("kshadow_group_last_commit_timestamp_seconds", GROUP)


def members() -> Row:
    """Members and balance."""
    return Row(
        "Members and balance",
        [
            lines(
                Says(
                    "Members",
                    "Members, and those of them that hold no partition. Idle members for long: more members than "
                    "partitions, or subscriptions that differ. `kshadow members GROUP`.",
                    "none",
                    NO_GROUPS,
                ),
                Q(most("kshadow_group_members", GROUP), f"members {_NAME}"),
                Q(most("kshadow_group_idle_members", GROUP), f"idle {_NAME}"),
                size=Size(8, 8),
                calcs=("lastNotNull", "min", "max"),
                decimals=0,
                steps_=True,
            ),
            lines(
                Says(
                    "Imbalance",
                    "The largest member's share by a fair share, of partitions and of the records consumed in the "
                    "last 15 minutes: 1 is even, 2 means that one member has twice its share. From 1.5 on it is "
                    "worth a look: `kshadow assign GROUP` shows what other assignors would give.",
                    "none",
                    NO_LOAD,
                ),
                Q(most("kshadow_group_assignment_imbalance_ratio", GROUP), f"partitions {_NAME}"),
                Q(most("kshadow_group_load_imbalance_ratio", GROUP), f"load {_NAME}"),
                size=Size(8, 8),
                decimals=2,
            ),
            lines(
                Says(
                    "Time since the last commit",
                    "How long ago the group last committed an offset. It grows where nobody consumes, where there "
                    "is nothing to consume (see lag), or where all members hang. `kshadow describe GROUP` has it by "
                    "partition.",
                    "s",
                    NO_COMMITS,
                ),
                Q(f"clamp_min(time() - {_LAST_COMMIT}, 0)", _NAME),
                size=Size(8, 8),
            ),
        ],
    )


def lag() -> Row:
    """Lag by topic."""
    return Row(
        "Lag",
        [
            lines(
                Says(
                    "Lag in seconds by topic",
                    "How long ago the record was written that the group is to read next, in its slowest partition. "
                    "A line that climbs one second a second stands for a partition that does not move. A gap is "
                    "unknown, never zero.",
                    "s",
                    NO_LAG,
                ),
                Q(most("kshadow_group_topic_lag_seconds", TOPICS, "topic"), f"{{{{topic}}}} {_NAME}"),
            ),
            lines(
                Says(
                    "Lag in records by topic",
                    "Records between what the group committed and the end of each topic, as Kafka's tools count. "
                    "`kshadow lag GROUP` has it by partition, and why it is not known where it is not.",
                    "short",
                    NO_LAG,
                ),
                Q(most("kshadow_group_topic_lag_records", TOPICS, "topic"), f"{{{{topic}}}} {_NAME}"),
            ),
        ],
    )


def partitions() -> Row:
    """What agents with that granularity tell."""
    return Row(
        "By partition (agents with --granularity partition)",
        [
            lines(
                Says(
                    "Lag in records by partition",
                    "Records between the committed offset and the end of each partition. One line far above the "
                    "others: a hot or stuck partition, see `kshadow lag GROUP`.",
                    "short",
                    NO_PARTITIONS,
                ),
                Q(
                    most("kshadow_group_partition_lag_records", TOPICS, "topic", "partition"),
                    "{{topic}}-{{partition}} {{group}}",
                ),
            ),
            lines(
                Says(
                    "Consumed by partition",
                    "How fast the committed offset of each partition moves. A flat line at zero with lag above is a "
                    "partition that nobody works on.",
                    "cps",
                    NO_PARTITIONS,
                ),
                Q(
                    "max by (cluster, group, topic, partition) (clamp_min(deriv("
                    f"{selected('kshadow_group_partition_committed_offset', TOPICS)}[$__rate_interval]), 0))",
                    "{{topic}}-{{partition}} {{group}}",
                ),
            ),
        ],
        collapsed=True,
    )
