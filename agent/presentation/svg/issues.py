"""The findings on a group as spans of time."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from agent.presentation.narrative.events import Event
from agent.presentation.narrative.findings import finding_key, severity_rank
from agent.presentation.narrative.words import grouped


class Issue(Struct, frozen=True):
    """A finding and when it was open: `until_ms` is None while it is. `severity` is the worst it had."""

    analyzer: str
    severity: str
    since_ms: int
    until_ms: int | None
    summary: str


def issues(events: Sequence[Event], since_ms: int, until_ms: int) -> tuple[Issue, ...]:
    """Those that were open at some time in the range, the worst first."""
    seen = (event for event in events if event["type"] == "finding" and event["at_ms"] <= until_ms)
    out = []
    for told in grouped(seen, finding_key).values():
        last = told[-1]
        ended = last["at_ms"] if last["state"] == "resolved" else None
        if ended is None or ended >= since_ms:
            worst = min((str(it["severity"]) for it in told), key=severity_rank)
            out.append(Issue(last["analyzer"], worst, last["since_ms"], ended, last["summary"]))
    return tuple(sorted(out, key=lambda it: (severity_rank(it.severity), it.analyzer, it.since_ms)))
