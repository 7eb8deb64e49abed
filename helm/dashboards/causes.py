"""Rebalances and departures by cause, as the fleet and one group show them."""

from __future__ import annotations

from typing import Final

from grafana_foundation_sdk.builders import timeseries

from agent.core.causes import Cause
from helm.dashboards.panels import Q, Says, bars
from helm.dashboards.promql import since_last_bar
from helm.dashboards.words import NO_DEPARTURES, NO_REBALANCES

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


def _by_cause(name: str, where: str) -> Q:
    return Q(f"sum by (cause) ({since_last_bar(name, where, 'cause')})", "{{cause}}")
