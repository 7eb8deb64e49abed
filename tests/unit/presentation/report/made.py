"""Sources that answer from values, as files or an agent would."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

from agent.core.queries import Capabilities, GroupQueries, Timeline
from agent.presentation.narrative import findings as found
from agent.presentation.narrative.gains import Gain, Gains
from agent.presentation.report.document import document
from agent.presentation.report.fleet_report import FleetReport, ReportOrigin
from agent.presentation.report.gather import ReportRequest, gather
from tests.unit.presentation.narrative import made as m
from tests.unit.presentation.narrative.golden import histories
from tests.unit.presentation.narrative.made import T0

Event = dict[str, Any]
MADE = ReportOrigin(source="in made", version="1.2.3", made_at_ms=T0)


GAIN = Gain("static membership", ("group.instance.id=a",), "in every client", 8, 4, 234.0, 63.0, 5_500, None)
GAINS = Gains(
    (GAIN,), tried=11, rebalances=8, stopped_s=234.0, log_rebalances=8, log_stopped_s=230.0, generations=8, matched=8
)


class Source(GroupQueries):
    """`asked` are the groups whose past somebody wanted."""

    def __init__(
        self,
        events: Sequence[Event],
        forms: dict[str, Any],
        now_ms: int,
        complete_ms: int | None = None,
    ) -> None:
        self._now_ms, self.has_all_events = now_ms, False
        self._events, self._forms, self._complete_ms = events, forms, complete_ms
        self.asked: list[str] = []

    @property
    def capabilities(self) -> Capabilities:
        return Capabilities(live=False, has_all_events=self.has_all_events)

    @property
    def now_ms(self) -> int:
        return self._now_ms

    def all_events(self, groups: Collection[str] = ()) -> list[Event]:
        return [event for event in self._events if not groups or event["group"] in groups]

    def groups(self) -> list[dict[str, Any]]:
        return [{**form, "group": group, "members": len(form["members"])} for group, form in self._forms.items()]

    def describe(self, group: str) -> dict[str, Any] | None:
        return self._forms.get(group)

    def timeline(self, group: str, since_ms: int | None = None, until_ms: int | None = None) -> Timeline | None:
        self.asked.append(group)
        return Timeline([event for event in self._events if event["group"] == group], self._complete_ms)

    def findings(
        self, since_ms: int | None = None, until_ms: int | None = None, group: str | None = None
    ) -> list[Event]:
        return found.select_findings(self._events, since_ms, until_ms)


def with_all_events(source: Source) -> Source:
    """The same source, which has all events at hand."""
    source.has_all_events = True
    return source


def wanted(*groups: str, since_ms: int | None = None, until_ms: int | None = None, most: int = 20) -> ReportRequest:
    return ReportRequest(groups, since_ms, until_ms, most)


def captured() -> tuple[Source, list[Event]]:
    """The captured groups, and all their events in order."""
    told = histories()
    events = sorted((event for it in told.values() for event in it.events), key=lambda event: event["at_ms"])
    forms = {group: it.form for group, it in told.items() if it.form is not None}
    return Source(events, forms, max(it.now_ms for it in told.values())), events


def of_capture(*groups: str, made: ReportOrigin = MADE, **more: Any) -> FleetReport:
    source, _ = captured()
    return gather(with_all_events(source), made, wanted(*groups, **more))


def page_of(facts: FleetReport) -> str:
    return document(facts)


def form(**changed: Any) -> dict[str, Any]:
    return m.form(members=[m.member("a"), m.member("b")], **changed)
