"""Asks a source what a report tells of: all groups in numbers, and those in most trouble in full."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple, Protocol

from agent.picture.lanes import lanes
from agent.report.facts import Detailed, Facts, Form, Made, Row, row_of
from agent.story import findings as found
from agent.story.explain import Asked, explain
from agent.story.gains import Gains
from agent.story.reading import Event

MAX_ASKED = 200
"""Groups whose past is fetched from a running agent, one request each."""


class Past(Protocol):
    """Events of one group in order, and from when on they are all there are."""

    @property
    def events(self) -> list[Event]:
        """In order."""

    @property
    def complete_since_ms(self) -> int | None:
        """None: from the log's beginning."""


class Source(Protocol):
    """Whom to ask, as `agent.cli.access.Answers`."""

    @property
    def live(self) -> bool:
        """Whether answers are of now."""

    @property
    def now_ms(self) -> int:
        """Up to when."""

    def groups(self) -> Sequence[Form]:
        """A row for each."""

    def describe(self, group: str) -> Form | None:
        """One in full."""

    def past(self, group: str) -> Past | None:
        """Its events."""

    def findings(self, since_ms: int | None, until_ms: int | None) -> Sequence[Event]:
        """Those that were open in a range."""


class Wanted(NamedTuple):
    """What is asked for: these groups in full, or the `most` that are in most trouble."""

    groups: tuple[str, ...]
    since_ms: int | None
    until_ms: int | None
    most: int


class NoSuchGroup(LookupError):
    """There is and was none of that name."""


Gained = Callable[[Row], Gains | None]
"""What other settings would have made of a group's history, where somebody replays it."""


def gather(
    source: Source, made: Made, wanted: Wanted, history: Iterable[Event] | None = None, gains: Gained | None = None
) -> Facts:
    """The facts. `history` has all events in order, where they are at hand; else each group's past is asked for.

    Raises `NoSuchGroup`.
    """
    asking = _Asking(source, wanted, history)
    since_ms, until_ms = asking.range_ms()
    rows = sorted((asking.row(group, since_ms, until_ms) for group in asking.names()), key=Row.trouble)
    if wanted.groups:
        chosen = [next(row for row in rows if row.group == group) for group in dict.fromkeys(wanted.groups)]
    else:
        chosen = [row for row in rows if row.rebalances is not None and row.is_worth_telling][: wanted.most]
    return Facts(
        made=made,
        since_ms=since_ms,
        until_ms=until_ms,
        rows=tuple(rows),
        detailed=tuple(asking.detailed(row, since_ms, until_ms, gains) for row in chosen),
        asked_for=bool(wanted.groups),
        cluster_findings=() if wanted.groups else asking.findings_of(None, since_ms, until_ms),
    )


class _Asking:
    """What was asked so far: each group's past once."""

    def __init__(self, source: Source, wanted: Wanted, history: Iterable[Event] | None) -> None:
        self._source, self._wanted = source, wanted
        self._forms = {str(row["group"]): row for row in source.groups()}
        self._events: dict[str, list[Event]] = {}
        self._complete: dict[str, int | None] = {}
        self._all = history is not None
        self._found: dict[str | None, list[Event]] = {}
        for event in history or ():
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

    def _candidates(self) -> list[str]:
        """Those to whom something may have happened: an agent's rows tell since when each is as it is."""
        since_ms = self._wanted.since_ms or 0

        def order(group: str) -> tuple[bool, int]:
            return group not in self._found, -int(self._forms[group].get("rebalances") or 0)

        moved = [it for it, row in self._forms.items() if it in self._found or row["state_since_ms"] >= since_ms]
        return sorted(moved, key=order)[:MAX_ASKED]

    def _ask(self, group: str) -> None:
        past = self._source.past(group)
        if past is not None:
            self._events[group] = past.events
            self._complete[group] = past.complete_since_ms

    def names(self) -> list[str]:
        """Of whom there are rows."""
        if self._wanted.groups:
            return list(dict.fromkeys(self._wanted.groups))
        return list(dict.fromkeys([*self._forms, *self._events]))

    def range_ms(self) -> tuple[int, int]:
        """The range, to where there is something."""
        names = set(self.names())
        times = [events[0]["at_ms"] for group, events in self._events.items() if events and group in names]
        last = [events[-1]["at_ms"] for group, events in self._events.items() if events and group in names]
        now_ms = max([self._source.now_ms, *last])
        until_ms = now_ms if self._wanted.until_ms is None else min(self._wanted.until_ms, now_ms)
        since_ms = min([*times, until_ms]) if self._wanted.since_ms is None else self._wanted.since_ms
        return since_ms, max(until_ms, since_ms)

    def findings_of(self, group: str | None, since_ms: int, until_ms: int) -> tuple[Event, ...]:
        """The newest event of each that was open in the range."""
        return tuple(found.open_within(self._found.get(group, ()), since_ms, until_ms))

    def row(self, group: str, since_ms: int, until_ms: int) -> Row:
        """A row; without numbers where nobody was asked."""
        form = self._forms.get(group)
        findings = self.findings_of(group, since_ms, until_ms)
        row = row_of(group, form, self._events.get(group, ()), findings, since_ms, until_ms)
        known = self._all or group in self._events
        quiet = form is not None and 0 <= form["state_since_ms"] < since_ms
        return (
            row if known or quiet else Row(row.group, row.group_type, row.state, row.members, None, findings=findings)
        )

    def detailed(self, row: Row, since_ms: int, until_ms: int, gains: Gained | None) -> Detailed:
        """The group in full."""
        group = row.group
        events = self._events.get(group, [])
        form = self._source.describe(group)
        complete = self._complete.get(group)
        if complete is not None and self._wanted.since_ms is not None and since_ms >= complete:
            complete = None
        source, wanted = self._source, self._wanted
        asked = Asked(
            group,
            source.now_ms,
            wanted.since_ms,
            wanted.until_ms,
            live=source.live,
            complete_since_ms=complete,
            of_agent=not self._all,
        )
        now = {} if form is None else {"members": form["members"], "generation": form["generation"]}
        # What an agent has forgotten the beginning of is told by its findings all the same.
        known = {event["event_id"] for event in events}
        more = [event for event in self._found.get(group, ()) if event["event_id"] not in known]
        return Detailed(
            row=row,
            story=explain(asked, events, row.findings, form, gains=None if gains is None else gains(row)),
            lanes=lanes([*more, *events], since_ms=since_ms, until_ms=until_ms, known_since_ms=complete, **now),
            form=form,
            complete_since_ms=complete,
        )
