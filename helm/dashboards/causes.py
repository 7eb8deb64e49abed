"""Rebalances and departures by cause, as the fleet and one group show them."""

from __future__ import annotations

from typing import Final

from grafana_foundation_sdk.builders import timeseries

from agent.core.causes import Cause
from agent.core.inference.origins import OriginKind
from helm.dashboards.panels import HALF, Q, Says, Size, bars
from helm.dashboards.promql import since_last_bar
from helm.dashboards.words import NO_DEPARTURES, NO_ORIGINS, NO_REBALANCES

_ORIGIN_COLORS: Final = {str(kind): kind.info.plot_color for kind in OriginKind}
_COLORS: Final = {str(cause): cause.info.dashboard_color for cause in Cause}


def rebalances(where: str, description: str) -> timeseries.Panel:
    """Completed rebalances of the groups that `where` selects."""
    says = Says("Rebalances by cause", description, "none", NO_REBALANCES)
    return bars(says, _by_cause("kshadow_group_rebalances", where), colors=_COLORS)


def departures(where: str) -> timeseries.Panel:
    """Members that left, of the groups that `where` selects."""
    says = Says(
        "Departures by cause",
        "Members that left, by how. session_timeout: killed, frozen or cut off; poll_timeout: one batch took longer "
        "than max.poll.interval.ms; unknown_departure: the log does not tell. `kshadow explain GROUP` says who.",
        "none",
        NO_DEPARTURES,
    )
    return bars(says, _by_cause("kshadow_group_member_departures", where), colors=_COLORS)


def departures_by_origin(where: str, size: Size = HALF) -> timeseries.Panel:
    """The same members by what happened to their pods."""
    says = Says(
        "Departures by origin",
        "Members that left, by what Kubernetes reports of their pods: oom_killed: the kernel, at the memory limit; "
        "rolled_out, scaled_down, drained: planned. Members of which nothing is known are missing here. `kshadow "
        "explain GROUP` has the container, its limit and the node.",
        "none",
        NO_ORIGINS,
    )
    query = f"sum by (origin) ({since_last_bar('kshadow_group_departures_by_origin', where, 'origin')})"
    return bars(says, Q(query, "{{origin}}"), size=size, colors=_ORIGIN_COLORS)


def _by_cause(name: str, where: str) -> Q:
    return Q(f"sum by (cause) ({since_last_bar(name, where, 'cause')})", "{{cause}}")
