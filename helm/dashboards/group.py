"""One group (or some): what happened to it, why, what that cost, how far behind it is."""

from __future__ import annotations

from typing import Final

from grafana_foundation_sdk.models.dashboard import Dashboard

from helm.dashboards import frame
from helm.dashboards.causes import departures, departures_by_origin, rebalances
from helm.dashboards.frame import About, Mark, Row, dashboard
from helm.dashboards.group_work import lag, members, partitions
from helm.dashboards.looks import ORANGE, SKY, VERMILION, YELLOW, severity_map, state_map, steps
from helm.dashboards.panels import Q, Says, Size, bars, lines, number, timeline
from helm.dashboards.promql import (
    ALERTS,
    GROUP,
    TOPICS,
    in_range,
    most,
    selected,
    severity_code,
    since_last_bar,
    state_code,
    timeouts_in_range,
)
from helm.dashboards.words import NO_FINDINGS, NO_GROUPS, NO_LAG, NO_REBALANCES

_NAME: Final = "{{group}} {{cluster}}"
_EMPTY_TIMEOUTS: Final = f"0 * {most('kshadow_group_members', GROUP)}"
_STOPPED: Final = "kshadow_group_rebalance_stopped_partition_seconds"


def _numbers() -> Row:
    return Row(
        "Now, and within the range shown",
        [
            number(
                Says(
                    "State",
                    "The group's state as the log or the brokers tell it. `kshadow describe GROUP`.",
                    "none",
                    NO_GROUPS,
                ),
                Q(state_code(GROUP), _NAME),
                mappings=state_map(),
            ),
            number(
                Says(
                    "Members",
                    "Members of the group now. None: nobody consumes. `kshadow members GROUP` lists them with what "
                    "they hold.",
                    "none",
                    NO_GROUPS,
                ),
                Q(most("kshadow_group_members", GROUP), _NAME),
                size=Size(3, 4),
                colors=steps(ORANGE, (1, "text")),
                decimals=0,
            ),
            number(
                Says(
                    "Open findings",
                    "How many findings analyzers hold open now. `kshadow findings` and `kshadow explain GROUP` say "
                    "which and why.",
                    "none",
                    NO_FINDINGS,
                ),
                Q(
                    f"sum by (cluster, group) ({most('kshadow_finding_active', GROUP, 'analyzer', 'severity')})",
                    _NAME,
                ),
                size=Size(3, 4),
                colors=steps("text", (1, ORANGE)),
                decimals=0,
            ),
            number(
                Says(
                    "Rebalances",
                    "Completed rebalances within the range shown. More than a deploy or two explain: `kshadow "
                    "explain GROUP`.",
                    "none",
                    NO_REBALANCES,
                ),
                Q(f"sum by (cluster, group) ({in_range('kshadow_group_rebalances', GROUP, 'cause')})", _NAME),
                size=Size(3, 4),
                decimals=0,
            ),
            number(
                Says(
                    "Members thrown out",
                    "Members whose session or poll timeout ran out within the range shown. Any is worth a look: "
                    "`kshadow explain GROUP` says who and what timeout it would have taken.",
                    "none",
                    NO_GROUPS,
                ),
                Q(
                    f"sum by (cluster, group) ({timeouts_in_range(GROUP)}) or {_EMPTY_TIMEOUTS}",
                    _NAME,
                ),
                size=Size(3, 4),
                colors=steps("text", (1, VERMILION)),
                decimals=0,
            ),
            number(
                Says(
                    "Partitions stood still for",
                    "Time that rebalances left partitions without anybody working on them, summed over the "
                    "partitions within the range shown. `kshadow whatif GROUP` tells what other settings would have "
                    "saved.",
                    "s",
                    NO_REBALANCES,
                ),
                Q(in_range(_STOPPED, GROUP), _NAME),
            ),
            number(
                Says(
                    "Lag",
                    "How long ago the record was written that the group is to read next, in its slowest partition. "
                    "`kshadow lag GROUP` has it by partition.",
                    "s",
                    NO_LAG,
                ),
                Q(most("kshadow_group_topic_lag_seconds", TOPICS), _NAME),
            ),
        ],
    )


def _course() -> Row:
    return Row(
        "What happened",
        [
            timeline(
                Says(
                    "State",
                    "The group's state over time. Long stretches of orange or yellow are rebalances that do not get "
                    "through; a gap is time in which no agent told of the group. Of classic groups brokers write "
                    "only Stable, Empty and Dead: their rebalances are the marks and the bars below. `kshadow "
                    "timeline GROUP`.",
                    "none",
                    NO_GROUPS,
                ),
                Q(state_code(GROUP), _NAME),
                mappings=state_map(),
                size=Size(24, 4),
            ),
            timeline(
                Says(
                    "Findings",
                    "When each analyzer held a finding open, and how severe it was. `kshadow findings` has the "
                    "advice and the numbers, `kshadow analyzers` when each fires.",
                    "none",
                    NO_FINDINGS,
                ),
                Q(severity_code(GROUP, "analyzer"), "{{analyzer}}"),
                mappings=severity_map(),
            ),
        ],
    )


def _rebalancing() -> Row:
    return Row(
        "Rebalances",
        [
            rebalances(
                GROUP,
                "Completed rebalances by what set them off; each bar counts those since the bar before. Blue is "
                "what deploys and scaling do; red and orange are members thrown out. `kshadow timeline GROUP` "
                "lists them with confidence and evidence.",
            ),
            departures(GROUP),
            departures_by_origin(GROUP, Size(24, 6)),
            lines(
                Says(
                    "Partitions stopped, on average",
                    "How many partitions stood still at a time because of rebalances: stopped partition-seconds a "
                    "second. By the number of the group's partitions it is the share of its work that rebalances "
                    "cost. A rebalance is counted when it is over, so a short peak may stand for a longer time "
                    "before.",
                    "none",
                    NO_REBALANCES,
                ),
                Q(f"max by (cluster, group) (rate({selected(_STOPPED, GROUP)}[$__rate_interval]))", _NAME),
                size=Size(8, 8),
                calcs=("mean", "max"),
                decimals=2,
            ),
            bars(
                Says(
                    "Stopped partition-seconds",
                    "Time that rebalances left partitions without anybody working on them, counted when the "
                    "rebalance is over: two partitions for three seconds make six.",
                    "s",
                    NO_REBALANCES,
                ),
                Q(since_last_bar(_STOPPED, GROUP), _NAME),
                size=Size(8, 8),
            ),
            lines(
                Says(
                    "Generation",
                    "The group's generation (its epoch in newer group types). Each step is a rebalance, also those "
                    "that never completed: a step of more than one is rounds that failed.",
                    "none",
                    NO_GROUPS,
                ),
                Q(most("kshadow_group_generation", GROUP), _NAME),
                size=Size(8, 8),
                calcs=("lastNotNull",),
                decimals=0,
                steps_=True,
            ),
        ],
    )


def group() -> Dashboard:
    """The dashboard."""
    rebalanced = f"sum by (cluster, group, cause) ({since_last_bar('kshadow_group_rebalances', GROUP, 'cause')})"
    seen = 'kshadow_group_members{job=~"$job", cluster=~"$cluster"}'
    lagging = f"kshadow_group_topic_lag_records{{{GROUP}}}"
    return dashboard(
        About(
            frame.GROUP,
            "kshadow / Group",
            "One consumer group: its states, rebalances and why, members, balance, lag, findings.",
            "now-3h",
        ),
        [
            frame.asked("group", "Group", seen, "Several may be compared.", all_value=None),
            frame.asked("topic", "Topic", lagging, "For lag alone.", all_value=".*"),
        ],
        [
            Mark("Rebalances", rebalanced, color=YELLOW, title="Rebalance: {{cause}}", tags=["group", "cluster"]),
            Mark(
                "Findings",
                severity_code(GROUP, "analyzer"),
                color=SKY,
                title="Finding open: {{analyzer}}",
                tags=["group", "cluster"],
                enable=False,
            ),
            Mark(
                "Alerts",
                f'{ALERTS}, cluster=~"$cluster", group=~"$group"}}',
                color=VERMILION,
                title="{{alertname}}",
                tags=["severity", "group", "cluster"],
            ),
        ],
        [_numbers(), _course(), _rebalancing(), members(), lag(), partitions()],
    )
