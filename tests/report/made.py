"""Sources that answer from values, as files or an agent would."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from agent.report.document import document
from agent.report.facts import Facts, Made
from agent.report.gather import Wanted, gather
from agent.story import findings as found
from agent.story.gains import Gain, Gains
from tests.story import made as m
from tests.story.golden import histories
from tests.story.made import T0

Event = dict[str, Any]
MADE = Made(where="in made", version="1.2.3", at_ms=T0)


GAIN = Gain("static membership", ("group.instance.id=a",), "in every client", 8, 4, 234.0, 63.0, 5_500, None)
GAINS = Gains(
    (GAIN,), tried=11, rebalances=8, stopped_s=234.0, log_rebalances=8, log_stopped_s=230.0, generations=8, matched=8
)


class Past(NamedTuple):
    events: list[Event]
    complete_since_ms: int | None


class Source:
    """`asked` are the groups whose past somebody wanted."""

    live = False

    def __init__(self, events: Sequence[Event], forms: dict[str, Any], now_ms: int, complete_ms: int | None = None):
        self.now_ms = now_ms
        self._events, self._forms, self._complete_ms = events, forms, complete_ms
        self.asked: list[str] = []

    def groups(self) -> list[dict[str, Any]]:
        return [{**form, "group": group, "members": len(form["members"])} for group, form in self._forms.items()]

    def describe(self, group: str) -> dict[str, Any] | None:
        return self._forms.get(group)

    def past(self, group: str) -> Past | None:
        self.asked.append(group)
        return Past([event for event in self._events if event["group"] == group], self._complete_ms)

    def findings(self, since_ms: int | None, until_ms: int | None) -> list[Event]:
        return found.asked_for(self._events, since_ms, until_ms)


def wanted(*groups: str, since_ms: int | None = None, until_ms: int | None = None, most: int = 20) -> Wanted:
    return Wanted(groups, since_ms, until_ms, most)


def captured() -> tuple[Source, list[Event]]:
    """The captured groups, and all their events in order."""
    told = histories()
    events = sorted((event for it in told.values() for event in it.events), key=lambda event: event["at_ms"])
    forms = {group: it.form for group, it in told.items() if it.form is not None}
    return Source(events, forms, max(it.now_ms for it in told.values())), events


def of_capture(*groups: str, made: Made = MADE, **more: Any) -> Facts:
    source, events = captured()
    return gather(source, made, wanted(*groups, **more), events)


def page_of(facts: Facts) -> str:
    return document(facts)


def form(**changed: Any) -> dict[str, Any]:
    return m.form(members=[m.member("a"), m.member("b")], **changed)
