"""Findings from their events: which are open, and which were at some time in a range."""

from __future__ import annotations

from collections.abc import Iterable

from agent.core.diagnosis.severity import Severity
from agent.presentation.narrative.events import Event

_SEVERITY_RANKS = {str(severity): rank for rank, severity in enumerate(reversed(Severity))}


def severity_rank(severity: str) -> int:
    """How bad: 0 is the worst; a severity that is not known here comes last."""
    return _SEVERITY_RANKS.get(severity, len(_SEVERITY_RANKS))


def select_findings(
    events: Iterable[Event], since_ms: int | None, until_ms: int | None, group: str | None = None
) -> list[Event]:
    """From any events: the findings (of one group) that were open in a range; without one, those open at the end.

    The newest event of each, in the order in which they opened.
    """
    found = [event for event in events if event["type"] == "finding" and (group is None or event["group"] == group)]
    if since_ms is None and until_ms is None:
        return [event for event in _newest_of_each(found) if event["state"] != "resolved"]
    return open_within(found, since_ms, until_ms)


def open_within(events: Iterable[Event], since_ms: int | None, until_ms: int | None) -> list[Event]:
    """The newest event up to `until_ms` of each finding that was open at some time in the range, bounds included."""
    seen = (event for event in events if until_ms is None or event["at_ms"] <= until_ms)
    return [
        event
        for event in _newest_of_each(seen)
        if since_ms is None or event["state"] != "resolved" or event["at_ms"] >= since_ms
    ]


def _newest_of_each(events: Iterable[Event]) -> list[Event]:
    latest = {finding_key(event): event for event in events}
    return sorted(latest.values(), key=lambda event: (event["since_ms"], event["analyzer"], event["group"] or ""))


def finding_key(event: Event) -> tuple[object, ...]:
    """What stays the same from a finding's opening to its end."""
    return event.get("cluster"), event["analyzer"], event["group"], event["since_ms"]
