"""Asks a source what a report tells of: all groups in numbers, and those in most trouble in full."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from agent.core.queries import GroupQueries
from agent.presentation.narrative import findings as found
from agent.presentation.narrative.events import Event, lost_before_ms
from agent.presentation.narrative.explain import StoryRequest, explain
from agent.presentation.narrative.gains import Gains
from agent.presentation.narrative.phrases import may_have_rebalanced
from agent.presentation.report.fleet_report import (
    FleetReport,
    GroupDetail,
    GroupSummary,
    ReportOrigin,
    summarize_group,
)
from agent.presentation.svg.lanes import build_lanes

MAX_ASKED = 200
"""Groups whose past is fetched from a running agent, one request each."""


class ReportRequest(NamedTuple):
    """What is asked for: these groups in full, or the `max_groups` that are in most trouble."""

    groups: tuple[str, ...]
    since_ms: int | None
    until_ms: int | None
    max_groups: int


class NoSuchGroup(LookupError):
    """There is and was none of that name."""


ReplayGains = Callable[[GroupSummary], Gains | None]
"""What other settings would have made of a group's history, where somebody replays it."""


def gather(
    source: GroupQueries,
    made: ReportOrigin,
    wanted: ReportRequest,
    gains: ReplayGains | None = None,
) -> FleetReport:
    """The facts. Where not all events are at hand, each group's timeline is asked for.

    Raises `NoSuchGroup`.
    """
    asking = _Gatherer(source, wanted)
    rows = sorted(map(asking.summary, asking.group_names()), key=GroupSummary.severity_key)
    if wanted.groups:
        chosen = [next(row for row in rows if row.group == group) for group in dict.fromkeys(wanted.groups)]
    else:
        chosen = [row for row in rows if row.rebalances is not None and row.is_noteworthy][: wanted.max_groups]
    return FleetReport(
        origin=made,
        since_ms=asking.since_ms,
        until_ms=asking.until_ms,
        groups=tuple(rows),
        details=tuple(asking.detail(row, gains) for row in chosen),
        are_groups_named=bool(wanted.groups),
        are_deleted_listed=asking.are_deleted_listed,
        cluster_findings=() if wanted.groups else asking.findings_of(None),
        findings_complete_since_ms=asking.findings_complete_since_ms(),
    )


class _Gatherer:
    """What was asked so far: each group's past once."""

    def __init__(self, source: GroupQueries, wanted: ReportRequest) -> None:
        self._source, self._wanted = source, wanted
        self._forms = {str(row["group"]): row for row in source.groups()}
        self._events: dict[str, list[Event]] = {}
        self._complete: dict[str, int | None] = {}
        self._all = source.capabilities.has_all_events
        self._found: dict[str | None, list[Event]] = {}
        for event in source.all_events(wanted.groups) if self._all else ():
            if event["group"] is not None:
                self._events.setdefault(event["group"], []).append(event)
            if event["type"] == "finding":
                self._found.setdefault(event["group"], []).append(event)
        if not self._all:
            # Without a range an agent tells of those that are open; of a range, of those that were, too.
            for event in source.findings(wanted.since_ms or 0, wanted.until_ms):
                self._found.setdefault(event["group"], []).append(event)
            for group in wanted.groups or self._candidates():
                self._ask(group)
        for group in wanted.groups:
            if group not in self._forms and group not in self._events:
                raise NoSuchGroup(group)
        self.since_ms, self.until_ms = self._range_ms()

    def _candidates(self) -> list[str]:
        """Those to whom something may have happened: an agent's rows tell since when each is as it is."""
        since_ms = self._wanted.since_ms or 0

        def order(group: str) -> tuple[bool, bool, int]:
            row = self._forms.get(group, {})
            is_older = row.get("state_since_ms", since_ms) < since_ms
            return group not in self._found, is_older, -int(row.get("rebalances") or 0)

        moved = [it for it, row in self._forms.items() if it in self._found or may_have_rebalanced(row, since_ms)]
        deleted = [it for it in self._found if it is not None and it not in self._forms]
        return sorted([*moved, *deleted], key=order)[:MAX_ASKED]

    def _ask(self, group: str) -> None:
        past = self._source.timeline(group)
        if past is not None:
            self._events[group] = past.events
            self._complete[group] = past.complete_since_ms

    @property
    def are_deleted_listed(self) -> bool:
        """Whether groups that were deleted have rows: an agent lists those there are."""
        return self._all

    def group_names(self) -> list[str]:
        """The groups that have rows: those asked for, or all that are known."""
        if self._wanted.groups:
            return list(dict.fromkeys(self._wanted.groups))
        return list(dict.fromkeys([*self._forms, *self._events]))

    def _range_ms(self) -> tuple[int, int]:
        """The range, to where there is something."""
        pasts = [events for group in self.group_names() if (events := self._events.get(group))]
        now_ms = max([self._source.now_ms, *(events[-1]["at_ms"] for events in pasts)])
        until_ms = now_ms if self._wanted.until_ms is None else min(self._wanted.until_ms, now_ms)
        since_ms = self._wanted.since_ms
        if since_ms is None:
            since_ms = min([until_ms, *(events[0]["at_ms"] for events in pasts)])
        return since_ms, max(until_ms, since_ms)

    def findings_of(self, group: str | None) -> tuple[Event, ...]:
        """The newest event of each that was open in the range."""
        return tuple(found.open_within(self._found.get(group, ()), self.since_ms, self.until_ms))

    def findings_complete_since_ms(self) -> int | None:
        """From when on all findings are there; None if in the whole range."""
        groups = self._wanted.groups or (None,)
        told = [] if self._all else [self._within_range(self._source.findings_complete_since_ms(it)) for it in groups]
        return max((it for it in told if it is not None), default=None)

    def _within_range(self, complete_since_ms: int | None) -> int | None:
        """From when on all of something is there; None if in the whole range."""
        return lost_before_ms(complete_since_ms, self._wanted.since_ms)

    def summary(self, group: str) -> GroupSummary:
        """A row; without numbers where nobody was asked."""
        form, findings = self._forms.get(group), self.findings_of(group)
        is_quiet = form is not None and not may_have_rebalanced(form, self.since_ms)
        row = summarize_group(
            group,
            form,
            self._events.get(group, ()),
            findings,
            self.since_ms,
            self.until_ms,
            is_state_known=self._source.capabilities.has_state,
            complete_since_ms=None if is_quiet else self._within_range(self._complete.get(group)),
        )
        if self._all or is_quiet or group in self._events:
            return row
        return GroupSummary(row.group, row.group_type, row.state, row.members, None, findings=findings)

    def detail(self, row: GroupSummary, gains: ReplayGains | None) -> GroupDetail:
        """The group in full."""
        group = row.group
        events = self._events.get(group, [])
        form = self._source.describe(group)
        complete = self._within_range(self._complete.get(group))
        source, wanted = self._source, self._wanted
        asked = StoryRequest(
            group,
            source.now_ms,
            wanted.since_ms,
            wanted.until_ms,
            is_live=source.capabilities.live,
            complete_since_ms=complete,
            of_agent=not self._all,
            is_state_known=source.capabilities.has_state,
        )
        now = {} if form is None else {"members": form["members"], "generation": form["generation"]}
        # What an agent has forgotten the beginning of is told by its findings all the same.
        known = {event["event_id"] for event in events}
        more = [event for event in self._found.get(group, ()) if event["event_id"] not in known]
        return GroupDetail(
            summary=row,
            story=explain(asked, events, row.findings, form, gains=None if gains is None else gains(row)),
            lanes=build_lanes(
                [*more, *events], since_ms=self.since_ms, until_ms=self.until_ms, known_since_ms=complete, **now
            ),
            description=form,
            complete_since_ms=complete,
        )
