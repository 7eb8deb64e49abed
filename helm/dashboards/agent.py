"""The agents themselves: whether they see everything, keep up, and get rid of what they tell.

By agent (`instance`), and by cluster where one reads several. Nothing is summed over agents.
"""

from __future__ import annotations

from typing import Final

from grafana_foundation_sdk.models.dashboard import Dashboard

from helm.dashboards import frame
from helm.dashboards.agent_edges import asking, writing
from helm.dashboards.frame import About, Mark, Row, dashboard
from helm.dashboards.looks import BLUE, GREEN, ORANGE, VERMILION, steps, value_map
from helm.dashboards.panels import Q, Says, Size, lines, name_only, number
from helm.dashboards.promql import AGENT, ALERTS, AT_END, PROCESS, counted_or_none, of_agent, process, rate, selected
from helm.dashboards.words import NO_ADMIN, NO_AGENT, NO_FILE, NO_SHARES, NO_TRANSACTION

TOP: Final = 10
_NAME: Final = "{{instance}} {{cluster}}"
_HALF: Final = Size(12, 7)
_YES: Final = {"0": ("no", VERMILION), "1": ("yes", BLUE)}


def _furthest_behind() -> str:
    """Of the partitions that were the furthest behind at some time of the range: the same ones all along."""
    behind = selected("kshadow_topic_behind_records", AGENT)
    peaks = f"max by (cluster, instance, partition) (max_over_time({behind}{AT_END}))"
    by_partition = of_agent("kshadow_topic_behind_records", "partition")
    return f"{by_partition} and on (cluster, instance, partition) topk({TOP}, {peaks})"


def _numbers() -> Row:
    return Row(
        "Now",
        [
            number(
                Says(
                    "Caught up",
                    "Whether every partition was read to where it ended at the start. Before that nothing of groups "
                    "is exported. No for long: see records behind, and `kshadow doctor`.",
                    "none",
                    NO_AGENT,
                ),
                Q(f"min by (cluster, instance) ({selected('kshadow_caught_up', AGENT)})", _NAME),
                mappings=value_map(_YES),
            ),
            number(
                Says(
                    "Reading works",
                    "Whether reading the topic is known to work now. No: no broker answers, or a right is missing; "
                    "the agent's log and `/readyz` say which, `kshadow doctor` how to fix it.",
                    "none",
                    NO_AGENT,
                ),
                Q(of_agent("kshadow_source_healthy"), _NAME),
                mappings=value_map(_YES),
            ),
            number(
                Says(
                    "Records behind",
                    "Offsets between what was read and the end of the topic, in the partition that is furthest "
                    "behind. Some hundreds come and go; what stays is an open transaction "
                    "(kshadow_topic_open_transaction_seconds), or an agent that does not keep up.",
                    "short",
                    NO_AGENT,
                ),
                Q(of_agent("kshadow_topic_behind_records"), _NAME),
                colors=steps("text", (10_000, ORANGE), (1_000_000, VERMILION)),
            ),
            number(
                Says(
                    "Groups seen otherwise by the brokers",
                    "Groups of which brokers and mirror say different things, confirmed by a second look. Any for "
                    "longer than some minutes is a fault of kshadow's or of the log: the agent's log has the "
                    "details.",
                    "none",
                    NO_ADMIN,
                ),
                Q(
                    f"sum by (cluster, instance) ({of_agent('kshadow_shadow_divergence_groups', 'field')})",
                    _NAME,
                ),
                colors=steps("text", (1, VERMILION)),
                decimals=0,
            ),
            number(
                Says(
                    "Configuration was read",
                    "Whether the configuration file could be read when it last was. No: the agent runs on with what "
                    "it had; `kshadow config check FILE` says what is wrong.",
                    "none",
                    NO_FILE,
                ),
                Q(f"kshadow_config_last_reload_successful{{{PROCESS}}}", "{{instance}}"),
                mappings=value_map(_YES),
            ),
            name_only(
                Says(
                    "Version",
                    "The agents' versions. Different ones for longer than an upgrade takes: a roll-out hangs.",
                    "none",
                    NO_AGENT,
                ),
                Q(f"count by (version) (kshadow_build_info{{{PROCESS}}})", "{{version}}"),
            ),
        ],
    )


def _reading() -> Row:
    return Row(
        "Reading",
        [
            lines(
                Says(
                    f"Records behind, the {TOP} partitions that were furthest behind",
                    "Offsets between what was read and the end of a partition of the topic; at its end it is zero. "
                    "One that climbs alone: an open transaction, or a partition without a leader; all of them: the "
                    "agent does not keep up, or reads nothing.",
                    "short",
                    NO_AGENT,
                ),
                Q(_furthest_behind(), f"{{{{partition}}}} {_NAME}"),
                size=_HALF,
                calcs=("max", "lastNotNull"),
            ),
            lines(
                Says(
                    "Age of the oldest open transaction, by partition",
                    "For how long a transaction has been open in a partition of the topic; nothing where none is. "
                    "What was written behind it cannot be read, so groups there are told as of its beginning. Over "
                    "a minute: the client hangs; the agent's log has its transactional id.",
                    "s",
                    NO_TRANSACTION,
                ),
                Q(
                    f"{of_agent('kshadow_topic_open_transaction_seconds', 'partition')} > 0",
                    f"{{{{partition}}}} {_NAME}",
                ),
                size=_HALF,
                calcs=("max", "lastNotNull"),
            ),
            lines(
                Says(
                    "Partitions caught up",
                    "How many partitions of the topic each agent has read to where they ended at the start. Fewer "
                    "than before: partitions moved to another agent, or are read anew.",
                    "none",
                    NO_AGENT,
                ),
                Q(f"sum by (cluster, instance) ({selected('kshadow_caught_up', AGENT)})", _NAME),
                size=Size(6, 7),
                calcs=("lastNotNull", "min"),
                decimals=0,
                steps_=True,
            ),
            lines(
                Says(
                    "Partitions taken over",
                    "Partitions that each of several agents holds of those they share out. Their sum should be the "
                    "topic's partitions.",
                    "none",
                    NO_SHARES,
                ),
                Q(of_agent("kshadow_partitions_owned"), _NAME),
                size=Size(6, 7),
                calcs=("lastNotNull",),
                decimals=0,
                steps_=True,
            ),
            lines(
                Says(
                    "Records a second by type",
                    "Records of the topic that were read. Most are offset commits: groups that commit after each "
                    "record cost the brokers most, and can be told by `kshadow findings` (coordinator_hotspot).",
                    "cps",
                    NO_AGENT,
                ),
                Q(rate("kshadow_records", AGENT, "type"), f"{{{{type}}}} {_NAME}"),
                size=_HALF,
                calcs=("mean", "max"),
            ),
            lines(
                Says(
                    "Records that could not be decoded, by reason",
                    "Counted since the agent began to read; what was left out because it could not be decoded. "
                    "unknown_version or unknown_key_type: brokers are newer than kshadow; internal: a fault of "
                    "kshadow, which its log tells; the others: damage. "
                    "`kshadow decode` shows such records.",
                    "none",
                    NO_AGENT,
                ),
                Q(counted_or_none("kshadow_decode_errors"), f"{{{{reason}}}} {_NAME}"),
                size=_HALF,
                decimals=0,
                steps_=True,
            ),
        ],
    )


def _process() -> Row:
    return Row(
        "The process",
        [
            lines(
                Says(
                    "CPU",
                    "Cores that each agent uses; more than one is possible, but the reader is one thread. All the "
                    "time near one: give each agent fewer partitions (`--shard`).",
                    "short",
                    NO_AGENT,
                ),
                Q(
                    f"rate(process_cpu_seconds_total{{{PROCESS}}}[$__rate_interval])"
                    f" and on (job, instance) kshadow_build_info{{{PROCESS}}}",
                    "{{instance}}",
                ),
                size=Size(6, 7),
                calcs=("mean", "max"),
                decimals=3,
            ),
            lines(
                Says(
                    "Memory",
                    "Resident memory of each agent. It grows with groups, members and committed partitions; compare "
                    "it with the container's limit.",
                    "bytes",
                    NO_AGENT,
                ),
                Q(process("process_resident_memory_bytes"), "{{instance}}"),
                size=Size(6, 7),
            ),
            lines(
                Says(
                    "Open files",
                    "File descriptors in use as a part of those allowed. Near one: raise the limit (`ulimit -n`).",
                    "percentunit",
                    NO_AGENT,
                ),
                Q(f"process_open_fds{{{PROCESS}}} / {process('process_max_fds')}", "{{instance}}"),
                size=Size(6, 7),
            ),
            lines(
                Says(
                    "Time that a scrape takes",
                    "How long Prometheus waits for an agent's metrics. Near the scrape timeout scrapes get lost: "
                    "raise it, or export less (`--granularity`, `--max-series`, `--allow-group`).",
                    "s",
                    NO_AGENT,
                ),
                Q(process("scrape_duration_seconds"), "{{instance}}"),
                size=Size(6, 7),
            ),
        ],
    )


def agent() -> Dashboard:
    """The dashboard."""
    return dashboard(
        About(
            frame.AGENT,
            "kshadow / Agents",
            "The agents: whether they read everything, keep up, and get rid of what they tell.",
            "now-3h",
        ),
        [
            frame.asked(
                "instance",
                "Instance",
                'kshadow_build_info{job=~"$job"}',
                "Which agents, by their addresses.",
                all_value=".+",
            )
        ],
        [
            Mark(
                "Alerts about agents",
                f'{ALERTS}, cluster=~"$cluster", group=""}}',
                color=VERMILION,
                title="{{alertname}}",
                tags=["severity", "instance", "cluster"],
            ),
            Mark(
                "Starts",
                f"changes(process_start_time_seconds{{{PROCESS}}}[$__interval])"
                f" and on (job, instance) kshadow_build_info{{{PROCESS}}}",
                color=GREEN,
                title="Agent started",
                tags=["instance"],
            ),
        ],
        [_numbers(), _reading(), asking(), writing(), _process()],
    )
