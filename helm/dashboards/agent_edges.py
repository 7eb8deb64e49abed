"""Rows of the agents' dashboard: what agents ask the brokers, and what becomes of what they tell."""

from __future__ import annotations

from typing import Final

from helm.dashboards.frame import Row
from helm.dashboards.looks import BLUE, GREY, ORANGE, PURPLE, VERMILION, YELLOW
from helm.dashboards.panels import Q, Says, Size, bars, fixed_by_start, lines
from helm.dashboards.promql import AGENT, BY_AGENT, PROCESS, counted_or_none, of_agent, rate, since_last_bar
from helm.dashboards.words import NO_ADMIN, NO_AGENT, NO_FILE, NO_HISTORY, NO_LAG, NO_SNAPSHOTS

_NAME: Final = "{{instance}} {{cluster}}"
_THIRD: Final = Size(8, 7)
_OUTCOMES: Final = {
    "answered": BLUE,
    "ok": BLUE,
    "failed": VERMILION,
    "denied": ORANGE,
    "timed_out": PURPLE,
    "missing": GREY,
    "unsupported": YELLOW,
}


def _since_last_bar(name: str, by: str) -> str:
    return since_last_bar(name, AGENT, by, each=BY_AGENT, seen="kshadow_source_healthy")


def asking() -> Row:
    """What the brokers say, and what is told of that."""
    return Row(
        "What the brokers say",
        [
            lines(
                Says(
                    "Groups seen otherwise by the brokers, by what differs",
                    "Confirmed differences between brokers and mirror: assignment, members, presence, protocol, "
                    "state, type. Should be zero; the agent's log has the details.",
                    "none",
                    NO_ADMIN,
                ),
                Q(of_agent("kshadow_shadow_divergence_groups", "field"), f"{{{{field}}}} {_NAME}"),
                size=_THIRD,
                decimals=0,
                steps_=True,
            ),
            lines(
                Says(
                    "Groups compared, and rebalancing now",
                    "Groups of which the mirror was compared with the brokers, and classic groups that the brokers "
                    "say are rebalancing at this moment, by state.",
                    "none",
                    NO_ADMIN,
                ),
                Q(of_agent("kshadow_shadow_compared_groups"), f"compared {_NAME}"),
                Q(of_agent("kshadow_rebalancing_groups", "state"), f"{{{{state}}}} {_NAME}"),
                size=_THIRD,
                decimals=0,
            ),
            fixed_by_start(
                lines(
                    Says(
                        "Questions to the brokers by outcome",
                        "Lists and descriptions of groups a second. denied: a right is missing, see `kshadow "
                        "doctor`; timed_out or failed: brokers are down or slow.",
                        "reqps",
                        NO_ADMIN,
                    ),
                    Q(rate("kshadow_admin_requests", AGENT, "outcome"), f"{{{{outcome}}}} {_NAME}"),
                    size=_THIRD,
                    calcs=("mean", "max"),
                ),
                _OUTCOMES,
            ),
            fixed_by_start(
                lines(
                    Says(
                        "Questions for lag by outcome",
                        "Requests a second for the ends of the topics that groups consume. denied: no Describe on a "
                        "topic, whose lag is then absent; missing: the topic is gone. `kshadow lag GROUP` says why a "
                        "lag is not known.",
                        "reqps",
                        NO_LAG,
                    ),
                    Q(rate("kshadow_lag_requests", AGENT, "outcome"), f"{{{{outcome}}}} {_NAME}"),
                    size=_THIRD,
                    calcs=("mean", "max"),
                ),
                _OUTCOMES,
            ),
            lines(
                Says(
                    "Series left out by reason",
                    "Series that groups would have and have not: max_series: there are more than `--max-series`, so "
                    "some groups are invisible here; expired: groups without members and commits for "
                    "`--expire-after`.",
                    "none",
                    NO_AGENT,
                ),
                Q(of_agent("kshadow_series_left_out", "reason"), f"{{{{reason}}}} {_NAME}"),
                size=_THIRD,
                decimals=0,
                steps_=True,
            ),
            lines(
                Says(
                    "Time since the configuration was read",
                    "How long ago the configuration was last read and taken. It does not fall when you change the "
                    "file: the change was refused, see `kshadow config check FILE`.",
                    "s",
                    NO_FILE,
                ),
                Q(
                    f"time() - kshadow_config_last_reload_success_timestamp_seconds{{{PROCESS}}}",
                    "{{instance}}",
                ),
                size=_THIRD,
                calcs=("lastNotNull",),
            ),
        ],
    )


def writing() -> Row:
    """History and snapshots."""
    return Row(
        "History and snapshots",
        [
            lines(
                Says(
                    "Events a second by sink",
                    "Events of the history that each sink took. None while groups rebalance: the sink is down, see "
                    "what waits.",
                    "cps",
                    NO_HISTORY,
                ),
                Q(rate("kshadow_history_events", AGENT, "sink"), f"{{{{sink}}}} {_NAME}"),
                size=_THIRD,
                calcs=("mean", "max"),
            ),
            lines(
                Says(
                    "Events that wait, by sink",
                    "Events that a sink has not taken yet. They wait on disk up to `--spool-size`; when that is "
                    "full events are dropped. `/api/v1/status` says what is wrong with the sink.",
                    "short",
                    NO_HISTORY,
                ),
                Q(of_agent("kshadow_history_buffered_events", "sink"), f"{{{{sink}}}} {_NAME}"),
                size=_THIRD,
            ),
            lines(
                Says(
                    "The oldest event that waits, by sink",
                    "For how long the oldest event has waited; nothing waits where there is no line. Minutes for "
                    "Parquet files, which are written in batches, seconds for a topic; what climbs beyond is a sink "
                    "that is down.",
                    "s",
                    "Nothing waits, or no history is written",
                ),
                Q(of_agent("kshadow_history_oldest_buffered_seconds", "sink"), f"{{{{sink}}}} {_NAME}"),
                size=_THIRD,
            ),
            bars(
                Says(
                    "Events dropped, by sink",
                    "Events that were lost: there was no more room to wait in, the sink refuses them for good, or "
                    "they were damaged on disk. Any is a gap in the history. `/api/v1/status` says which it was.",
                    "none",
                    NO_HISTORY,
                ),
                Q(_since_last_bar("kshadow_history_dropped", "sink"), f"{{{{sink}}}} {_NAME}"),
                size=_THIRD,
            ),
            lines(
                Says(
                    "Age of the snapshots",
                    "Time since the oldest of the newest snapshots was taken. Partitions that stand still are kept "
                    "anew every half hour; a snapshot of more than 23 hours is of no use at a restart, which then "
                    "reads everything.",
                    "s",
                    NO_SNAPSHOTS,
                ),
                Q(of_agent("kshadow_snapshot_age_seconds"), _NAME),
                size=Size(5, 7),
                calcs=("lastNotNull", "max"),
            ),
            fixed_by_start(
                bars(
                    Says(
                        "Snapshots written, by outcome",
                        "Partitions' snapshots. failed: the store is full, denied or down; the agent's log says why.",
                        "none",
                        NO_SNAPSHOTS,
                    ),
                    Q(_since_last_bar("kshadow_snapshot_writes", "outcome"), f"{{{{outcome}}}} {_NAME}"),
                    size=Size(6, 7),
                ),
                _OUTCOMES,
            ),
            lines(
                Says(
                    "Snapshots refused, by reason",
                    "Snapshots that were found at the agent's start and not used: those partitions were read from "
                    "their beginning. Right after an upgrade that is as it should be.",
                    "none",
                    NO_AGENT,
                ),
                Q(counted_or_none("kshadow_snapshot_refused"), f"{{{{reason}}}} {_NAME}"),
                size=Size(5, 7),
                calcs=("lastNotNull",),
                decimals=0,
                steps_=True,
            ),
        ],
    )
