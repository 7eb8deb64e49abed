"""What a story is asked for and told from: all its parts read it, none changes it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Self

from msgspec import Struct
from msgspec.structs import replace

from agent.core.protocol.client_libraries import UNKNOWN
from agent.presentation.narrative.events import (
    BROKER_LOG_EVIDENCE,
    Departure,
    Event,
    events_within,
    lost_before_ms,
)
from agent.presentation.narrative.gains import Gains
from agent.presentation.narrative.phrases import is_sampled, is_simple
from agent.presentation.narrative.timeline import TimelineEntry, timeline_entries
from agent.presentation.narrative.totals import Totals, totals_of
from agent.presentation.narrative.words import NO_TIMESTAMP_MS, Calendar, name, timestamp

Form = Mapping[str, Any]


class StoryRequest(Struct, frozen=True):
    """What is asked: a group, and the range as far as it is bounded (epoch milliseconds).

    `now_ms` is the time up to which the events go; `is_live` says that this is now and not where files end.
    `complete_since_ms` is from when on the events are all there are, None if from the log's beginning. `of_agent`: an
    agent told them, and not the log. `is_state_known`: without a `form` the group is not there any more; otherwise
    nobody knows. `unread_reason`: why the agent has read nothing after `now_ms`; empty where it has.
    """

    group: str
    now_ms: int
    since_ms: int | None = None
    until_ms: int | None = None
    is_live: bool = False
    complete_since_ms: int | None = None
    of_agent: bool = False
    is_state_known: bool = True
    unread_reason: str = ""

    @property
    def is_inferred_before(self) -> bool:
        """Whether an agent inferred the causes, or who wrote the history tables: the question adds no evidence."""
        return self.of_agent or not self.is_state_known

    @property
    def lost_before_ms(self) -> int | None:
        """Before when events of the range are not kept; None where all of it is known."""
        return lost_before_ms(self.complete_since_ms, self.since_ms)


class StoryContext(Struct, frozen=True):
    """What is known of the group and of the range that is told of.

    `since_ms` and `until_ms` bound the part of what was asked for of which all events are kept, so that counts and
    shares are of that; all of what was asked for where there is no such part. `first_ms` is when its first event was.
    `form` is its describe form, None if it is not there any more; `deleted_ms` is when it was deleted, if it was;
    `findings` are the newest event of each that was open at some time in the range; `gains` is what other settings
    would have made of it, where somebody replayed it.
    """

    asked: StoryRequest
    form: Form | None
    group_type: str | None
    deleted_ms: int | None
    since_ms: int
    until_ms: int
    first_ms: int | None
    calendar: Calendar
    entries: Sequence[TimelineEntry]
    totals: Totals
    findings: Sequence[Event]
    gains: Gains | None

    @property
    def has_times(self) -> bool:
        """Whether the records say when they were written."""
        return self.since_ms != NO_TIMESTAMP_MS

    @classmethod
    def of(
        cls,
        asked: StoryRequest,
        events: Sequence[Event],
        findings: Sequence[Event],
        form: Form | None,
        gains: Gains | None,
    ) -> Self:
        """From what `agent.presentation.narrative.explain.explain` is given."""
        # A broker's clock may be ahead of ours: what has happened is not to come.
        asked = replace(asked, now_ms=max([asked.now_ms, *(it["at_ms"] for it in events[-1:])]))
        until_ms = asked.now_ms if asked.until_ms is None else min(asked.until_ms, asked.now_ms)
        lost_before_ms = asked.lost_before_ms
        ranged = events_within(events, asked.since_ms if lost_before_ms is None else lost_before_ms, until_ms)
        since_ms = asked.since_ms
        if lost_before_ms is not None and lost_before_ms <= until_ms:
            since_ms = lost_before_ms
        if asked.since_ms is None and ranged:
            since_ms = ranged[0]["at_ms"]
        elif since_ms is None or since_ms > until_ms:
            since_ms = until_ms
        entries = [entry for entry in timeline_entries(ranged) if entry.label != "finding"]
        # Without times nothing tells how long anything lasted.
        end_ms = since_ms if since_ms == NO_TIMESTAMP_MS else until_ms
        totals = totals_of(entries, 0 if form is None else form["partitions"], since_ms, end_ms)
        return cls(
            asked=asked,
            form=form,
            group_type=form["group_type"] if form is not None else events[-1]["group_type"] if events else None,
            deleted_ms=_deleted_ms(events),
            since_ms=since_ms,
            until_ms=until_ms,
            first_ms=events[0]["at_ms"] if events else None,
            calendar=Calendar(since_ms, until_ms),
            entries=entries,
            totals=totals,
            findings=findings,
            gains=gains if totals.rebalances else None,
        )

    @property
    def sampled_every_ms(self) -> Sequence[int]:
        """How far apart the looks were through which events of the range were seen."""
        events = (it for entry in self.entries for it in entry.events)
        return [it["sampled_every_ms"] for it in events if it.get("sampled_every_ms")]

    @property
    def is_looked_at(self) -> bool:
        """Whether the group, or some of what happened to it, was seen through the Admin API, and is in no log."""
        return bool(self.sampled_every_ms) or (self.form is not None and is_sampled(self.form))

    @property
    def is_unknown(self) -> bool:
        """Whether no event of the range is kept."""
        return self.until_ms < (self.asked.lost_before_ms or 0)

    @property
    def beyond(self) -> str | None:
        """Why nothing of the range can be known though all events are kept; None where it can."""
        asked = self.asked
        if asked.lost_before_ms is not None or not self.has_times:
            return None
        if asked.since_ms is not None and asked.since_ms > asked.now_ms:
            return f"what is known ends at {timestamp(asked.now_ms)} UTC"
        if asked.until_ms is not None and self.first_ms is not None and asked.until_ms < self.first_ms:
            return f"its first event is from {timestamp(self.first_ms)} UTC"
        return None

    @property
    def when_known(self) -> str:
        """` between 10:02:31 and 10:04:00`, behind what is counted in less than was asked for."""
        return "" if self.asked.lost_before_ms is None else f" {self.calendar.between(self.since_ms, self.until_ms)}"

    @property
    def who(self) -> str:
        """The group's name in a sentence."""
        return name(self.asked.group)

    @property
    def open_findings(self) -> list[Event]:
        """Findings that are still open."""
        return [it for it in self.findings if it["state"] != "resolved"]

    @property
    def resolved_findings(self) -> list[Event]:
        """Findings of the range that are over."""
        return [it for it in self.findings if it["state"] == "resolved"]

    @property
    def is_empty(self) -> bool:
        """Whether it is a group of members that has none."""
        return self.form is not None and not self.form["members"] and not is_simple(self.form)

    def departures_since(self, finding: Event) -> list[Departure]:
        """Who left for the cause that a finding is about after its text was written, which is not written anew with
        each case; empty if it is about none."""
        return [
            gone
            for gone in self.totals.departures
            if gone.at_ms > finding["at_ms"] and gone.cause == finding["analyzer"]
        ]

    @property
    def libraries(self) -> set[str]:
        """The client libraries of its members, present and past, as far as they are known."""
        events = (it.member.library for it in self.totals.departures)
        joined = (it.library for done in self.totals.rebalances for it in done.joined)
        now = () if self.form is None else (it.get("client_library", UNKNOWN) for it in self.form["members"])
        return {*events, *joined, *now} - {UNKNOWN}

    @property
    def has_broker_log(self) -> bool:
        """Whether a broker's log was read that told of one of the rebalances."""
        return any(it.get("kind") == BROKER_LOG_EVIDENCE for done in self.totals.rebalances for it in done.evidence)

    @property
    def broker_log_reader(self) -> str:
        """What would read the broker's log."""
        return "an agent with" if self.asked.is_inferred_before else "the same question with"


def _deleted_ms(events: Sequence[Event]) -> int | None:
    last = next((event for event in reversed(events) if event["type"] != "finding"), None)
    return last["at_ms"] if last is not None and last["type"] == "group_deleted" else None
