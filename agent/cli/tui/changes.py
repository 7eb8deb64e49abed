"""What is new between two looks at the fleet, in words: lines of `--plain`, latest news of the screen."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from msgspec import Struct

from agent.cli.tui.fleet import Fleet, FleetRow, JsonView, Key, display_text, severity_rank
from agent.presentation.narrative.findings import finding_key
from agent.presentation.narrative.timeline import TimelineEntry, timeline_entries
from agent.presentation.narrative.words import count, duration

MAX_TEXT = 600
"""Characters of one happening."""


class Change(Struct, frozen=True):
    """One thing that changed, at a time (epoch milliseconds). `rank`: of a finding that opened, -1 of all else.

    `cause`: of a rebalance, empty of all else."""

    at_ms: int
    key: Key
    name: str
    text: str
    rank: int = -1
    cause: str = ""


def change_of_entry(key: Key, name: str, entry: TimelineEntry) -> Change:
    """A line of a group's timeline."""
    cost = "" if not entry.cost_ms else f"; partitions stopped for {duration(entry.cost_ms)}"
    what = display_text(f"{entry.text or entry.label}{cost}", MAX_TEXT)
    if entry.rebalance is None:
        return Change(entry.at_ms, key, name, what)
    return Change(entry.at_ms, key, name, f"rebalance, {what}", cause=entry.rebalance.cause)


def changes_of_events(
    key: Key, name: str, events: Sequence[dict[str, Any]], rebalances: int | None = None
) -> list[Change]:
    """What events tell, findings apart. Of `rebalances`, the newest so many and what came with and after them."""
    lines = timeline_entries(event for event in events if event["type"] != "finding")
    if rebalances is not None:
        at = [number for number, line in enumerate(lines) if line.rebalance is not None]
        lines = lines[at[-rebalances] if rebalances <= len(at) else 0 :] if rebalances > 0 else []
    return [change_of_entry(key, name, line) for line in lines]


def rebalanced_groups(before: Fleet, after: Fleet) -> list[tuple[FleetRow, int]]:
    """Groups that rebalanced between two looks, and how often; a group that came anew counts with all it has."""
    out = []
    for key, row in after.by_key.items():
        if key.group is None or row.rebalances is None:
            continue
        was = before.by_key.get(key)
        more = row.rebalances - (0 if was is None else was.rebalances or 0)
        if more > 0:
            out.append((row, more))
    return out


def differences(before: Fleet, after: Fleet) -> list[Change]:
    """Groups that came, went or changed their state, and findings that opened, changed or closed."""
    out = []
    for key, row in after.by_key.items():
        if key.group is None:
            continue
        was = before.by_key.get(key)
        at_ms = row.state_since_ms or after.at_ms
        if was is None:
            out.append(Change(at_ms, key, row.name, f"group appeared: {row.state}, {_members(row)}"))
        elif was.state != row.state:
            what = f"state {row.state}, was {was.state}; {_members(row)}"
            out.append(Change(at_ms, key, row.name, what))
    for key, row in before.by_key.items():
        if key.group is not None and key not in after.by_key:
            out.append(Change(after.at_ms, key, row.name, "group is gone"))
    return [*out, *_findings(before, after)]


def _members(row: FleetRow) -> str:
    return "members unknown" if row.members is None else count(row.members, "member")


def _findings(before: Fleet, after: Fleet) -> list[Change]:
    was = {finding_key(dict(event)): event for event in before.findings}
    now = {finding_key(dict(event)): event for event in after.findings}
    out = []
    for key, event in now.items():
        old = was.get(key)
        if old is None:
            out.append(_finding_change(after, event, "finding opened"))
        elif old["severity"] != event["severity"]:
            out.append(_finding_change(after, event, f"finding changed, was {display_text(old['severity'], 20)}"))
    for key, event in was.items():
        if key not in now:
            after_ms = max(after.at_ms - event["since_ms"], 0)
            what = f"finding closed after {duration(after_ms)}: {display_text(event['analyzer'], 60)}"
            out.append(Change(after.at_ms, *before.subject_of(event), what))
    return out


def _finding_change(fleet: Fleet, event: JsonView, what: str) -> Change:
    text = f"{what}: {event['severity']}: {event['analyzer']}: {event['summary']} Advice: {event['advice']}"
    return Change(event["at_ms"], *fleet.subject_of(event), display_text(text, MAX_TEXT), severity_rank(event))
