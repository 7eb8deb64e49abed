"""All groups at a glance: which need a look, and what rebalances cost."""

from __future__ import annotations

from typing import Final

from grafana_foundation_sdk.builders import dashboard as frame
from grafana_foundation_sdk.models.dashboard import Dashboard, VariableOption

from helm.dashboards.causes import departures, departures_by_origin, rebalances
from helm.dashboards.frame import (
    FLEET,
    TO_AGENTS,
    TO_GROUP_FROM_ROW,
    TO_GROUP_FROM_SERIES,
    About,
    Mark,
    Row,
    dashboard,
)
from helm.dashboards.looks import ORANGE, SEVERITIES, VERMILION, severity_map, state_names, steps
from helm.dashboards.panels import Column, Q, Says, Size, areas, bars, lines, number, rows
from helm.dashboards.promql import (
    ALERTS,
    AT_END,
    GROUPS,
    in_range,
    linked,
    most,
    selected,
    severity_code,
    since_last_bar,
    state_code,
    timeouts_in_range,
)
from helm.dashboards.words import NO_GROUPS, NO_LAG, NO_REBALANCES

WORST: Final = 25
TOP: Final = 10

_REBALANCES: Final = f"sum by (cluster, group) ({in_range('kshadow_group_rebalances', GROUPS, 'cause')})"
_TIMEOUTS: Final = f"sum by (cluster, group) ({timeouts_in_range(GROUPS)})"
_STOPPED: Final = in_range("kshadow_group_rebalance_stopped_partition_seconds", GROUPS)
_STOPPED_AT_END: Final = in_range("kshadow_group_rebalance_stopped_partition_seconds", GROUPS, over=AT_END)
_IMBALANCE: Final = most("kshadow_group_assignment_imbalance_ratio", GROUPS)
_LAG_S: Final = most("kshadow_group_topic_lag_seconds", GROUPS)
_LAG_RECORDS: Final = f"sum by (cluster, group) ({most('kshadow_group_topic_lag_records', GROUPS, 'topic')})"


def _top(query: str, metric: str) -> str:
    """Of those groups that had the most at some time of the range: the same ones all along."""
    peaks = f"max by (cluster, group) (max_over_time({selected(metric, GROUPS)}{AT_END}))"
    return linked(f"{query} and on (cluster, group) topk({TOP}, {peaks})")


def _among_worst(query: str) -> str:
    """Of the groups that stopped the longest; those follow that rebalanced without a stop that is known."""
    others = f"0 * {most('kshadow_group_rebalances', GROUPS)}"
    return linked(f"{query} and on (cluster, group) topk({WORST}, {_STOPPED} or {others})")


def _open(severity: str) -> str:
    found = selected("kshadow_finding_active", GROUPS, f'severity="{severity}"')
    return f"count(max by (cluster, group) ({found}) == 1) or vector(0)"


def _numbers() -> Row:
    return Row(
        "Now, and within the range shown",
        [
            number(
                Says(
                    "Groups",
                    "How many groups the agents export. A sudden drop: an agent is blind or gone, see the agents' "
                    "dashboard; a plateau: `--max-series` may leave groups out. `kshadow groups` lists them.",
                    "none",
                    NO_GROUPS,
                ),
                Q(f"count({most('kshadow_group_members', GROUPS)})", "groups"),
                decimals=0,
            ),
            number(
                Says(
                    "Groups with open findings, by severity",
                    "Groups of which analyzers hold something open now. Critical is worth waking someone, a warning "
                    "a look by day. `kshadow findings` lists them with advice.",
                    "none",
                ),
                *(Q(_open(severity), str(severity)) for severity in reversed(SEVERITIES)),
                size=Size(7, 4),
                decimals=0,
                names=True,
            ),
            number(
                Says(
                    "Rebalances an hour",
                    "Of all groups together, the mean of the range shown. Every deploy brings some; compare it with "
                    "the same time of another day.",
                    "none",
                ),
                Q(f"(sum({_REBALANCES}) or vector(0)) * 3600 / $__range_s", "rebalances"),
                decimals=1,
            ),
            number(
                Says(
                    "Partitions stood still for",
                    "Time that rebalances left partitions without anybody working on them, summed over all "
                    "partitions within the range shown: two partitions for three seconds make six.",
                    "s",
                    NO_REBALANCES,
                ),
                Q(f"sum({_STOPPED})", "stopped"),
                size=Size(5, 4),
            ),
            number(
                Says(
                    "Agents that read",
                    "Agents whose reading of the topic is known to work. Fewer than you run: look at the agents' "
                    "dashboard and run `kshadow doctor` where one is missing.",
                    "none",
                ),
                Q('count(kshadow_source_healthy{job=~"$job", cluster=~"$cluster"} == 1) or vector(0)', "agents"),
                colors=steps(VERMILION, (1, "text")),
                decimals=0,
                link=TO_AGENTS,
            ),
        ],
    )


def _groups() -> Row:
    return Row(
        "Groups",
        [
            rows(
                Says(
                    "Open findings",
                    "What analyzers hold open at the end of the range, worst first. The group's name leads to its "
                    "dashboard; `kshadow explain GROUP` says why, what it cost and what to change. A finding "
                    "without a group is about the cluster.",
                    empty="No finding is open",
                ),
                Q(linked(f"{severity_code(GROUPS, 'analyzer')} > 0")),
                columns=[
                    Column("Value", "Severity", "none", mappings=severity_map(), width=110),
                    Column("cluster", "Cluster", width=120),
                    Column("group", "Group", link=TO_GROUP_FROM_ROW),
                    Column("analyzer", "Finding"),
                    Column("link", None),
                ],
                sort_by="Severity",
                size=Size(12, 9),
            ),
            areas(
                Says(
                    "Groups by state",
                    "How many groups are in each state. Groups that stay in a yellow or orange state do not get "
                    "through a rebalance; more Empty groups than usual: consumers are down. Of classic groups "
                    "brokers write only Stable, Empty and Dead; `kshadow groups` shows all that is known.",
                    "none",
                    NO_GROUPS,
                ),
                Q(f'count_values("code", {state_code(GROUPS)})', "{{code}}"),
                size=Size(12, 9),
                named=state_names(),
            ),
        ],
    )


def _rebalancing() -> Row:
    return Row(
        "Rebalances",
        [
            rebalances(
                GROUPS,
                "Completed rebalances of all groups by what set them off; each bar counts those since the bar "
                "before. Blue is what deploys and scaling do; red and orange are members thrown out. `kshadow "
                "timeline GROUP` lists them.",
            ),
            departures(GROUPS),
            departures_by_origin(GROUPS),
            bars(
                Says(
                    f"Stopped partition-seconds of the {TOP} groups that stopped the longest",
                    "Time that rebalances left partitions without anybody working on them, counted when the "
                    "rebalance is over. Tall bars of one group: `kshadow explain GROUP`, and `kshadow whatif GROUP` "
                    "for what other settings would have saved.",
                    "s",
                    NO_REBALANCES,
                ),
                Q(
                    linked(
                        since_last_bar("kshadow_group_rebalance_stopped_partition_seconds", GROUPS)
                        + f" and on (cluster, group) topk({TOP}, {_STOPPED_AT_END})"
                    ),
                    "{{group}} {{cluster}}",
                ),
                link=TO_GROUP_FROM_SERIES,
            ),
            rows(
                Says(
                    f"The {WORST} groups that stopped the longest",
                    "By time that partitions stood still within the range shown. Timeouts: members thrown out "
                    "because their session ran out or they did not poll. Imbalance: the largest share by a fair one "
                    "now, 1 is even. An empty cell is not known.",
                    empty=NO_REBALANCES,
                ),
                Q(_among_worst(_STOPPED)),
                Q(_among_worst(_REBALANCES)),
                Q(_among_worst(_TIMEOUTS)),
                Q(_among_worst(_IMBALANCE)),
                Q(_among_worst(_LAG_S)),
                columns=[
                    Column("cluster", "Cluster", width=110),
                    Column("group", "Group", link=TO_GROUP_FROM_ROW),
                    Column("Value #A", "Stopped", "s", 0, width=90),
                    Column("Value #B", "Rebalances", "none", 0, width=100),
                    Column("Value #C", "Timeouts", "none", 0, colors=steps("text", (1, ORANGE)), width=90),
                    Column(
                        "Value #D",
                        "Imbalance",
                        "none",
                        2,
                        colors=steps("text", (1.5, ORANGE), (3, VERMILION)),
                        width=95,
                    ),
                    Column("Value #E", "Lag", "s", 0, width=90),
                    Column("link", None),
                ],
                sort_by="Stopped",
            ),
        ],
    )


def _lag() -> Row:
    return Row(
        "Lag",
        [
            lines(
                Says(
                    f"Lag in seconds, the {TOP} groups that lag most",
                    "How long ago the record was written that a group is to read next, in its slowest partition. A "
                    "line that climbs one second a second stands for a group that does not move: see `kshadow lag "
                    "GROUP`.",
                    "s",
                    NO_LAG,
                ),
                Q(_top(_LAG_S, "kshadow_group_topic_lag_seconds"), "{{group}} {{cluster}}"),
                link=TO_GROUP_FROM_SERIES,
            ),
            lines(
                Says(
                    f"Lag in records, the {TOP} groups that lag most",
                    "Records between what a group committed and the end, summed over its topics. How much that is "
                    "depends on how fast the group works: seconds tell more. `kshadow lag GROUP` has it by "
                    "partition.",
                    "short",
                    NO_LAG,
                ),
                Q(_top(_LAG_RECORDS, "kshadow_group_topic_lag_records"), "{{group}} {{cluster}}"),
                link=TO_GROUP_FROM_SERIES,
            ),
        ],
    )


def _match() -> frame.TextBoxVariable:
    variable = frame.TextBoxVariable("match").label("Groups that match").default_value(".*")
    variable.current(VariableOption(selected=True, text=".*", value=".*"))
    return variable.description("A regular expression for the whole name, such as payments-.* for one team's groups.")


def fleet() -> Dashboard:
    """The dashboard."""
    newest = (
        f"topk(5, sum by (cluster, group, cause) ({since_last_bar('kshadow_group_rebalances', GROUPS, 'cause')}) > 0)"
    )
    return dashboard(
        About(
            FLEET,
            "kshadow / Fleet",
            "Consumer groups of all clusters: findings, rebalances and why, what they cost, lag.",
            "now-6h",
        ),
        [_match()],
        [
            Mark("Rebalances", newest, color=ORANGE, title="Rebalance: {{cause}}", tags=["group", "cluster"]),
            Mark(
                "Alerts",
                f'{ALERTS}, cluster=~"$cluster", group=~"$match"}}',
                color=VERMILION,
                title="{{alertname}}",
                tags=["severity", "group", "cluster"],
            ),
        ],
        [_numbers(), _groups(), _rebalancing(), _lag()],
    )
