"""The answer before the story: what is going on, what it cost and how the group is, the first thing to do."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from agent.story.chapters import causes, departures
from agent.story.gains import Gains, at_a_glance
from agent.story.patterns import ROLLING, Loop, loops, restarts
from agent.story.phrases import went, work
from agent.story.reading import TAKEN_OUT, Event, Gone
from agent.story.sums import Sums
from agent.story.words import (
    Calendar,
    capital,
    count,
    duration,
    first_sentence,
    listed,
    name,
    percent,
    sentence,
    stamp,
    sure,
    times,
)

OFTEN = 3
"""So many times is again and again, whatever the reasons."""

LITTLE_MS = 1_000
"""Less stopped partition time than this is not worth a word here."""

SEVERITIES = ("critical", "warning", "info")
"""The worst first."""

OF_LOSSES = ("session_timeout", "poll_timeout", "rebalance_storm", "static_membership_advice")
"""Analyzers that find what is told here from the departures themselves."""

FELL = {
    "session_timeout": "its session timed out",
    "poll_timeout": "it did not poll in time",
    "unknown_departure": "it went for reasons that do not show",
}

FIRST = {
    "session_timeout": "First, find out why {who} fell silent: its own log, its exit code, an OOM kill or a liveness "
    "probe may tell.",
    "poll_timeout": "First, let {who} poll more often: smaller batches (max.poll.records), or a "
    "max.poll.interval.ms above what the slowest one takes.",
}
"""What to do first about members that were taken out, by cause."""


@dataclass(frozen=True, slots=True)
class Scene:
    """What is known of the group and of the range that is told of. `deleted_ms`: when it was, if it was; `open` are
    the findings that are, `over` those that were; `live` as in `Asked`."""

    group: str
    group_type: str | None
    form: Mapping[str, Any] | None
    deleted_ms: int | None
    told: Sums
    open: Sequence[Event]
    over: Sequence[Event]
    calendar: Calendar
    since_ms: int
    until_ms: int
    now_ms: int
    live: bool
    gains: Gains | None = None


def summary(scene: Scene) -> str:
    """One to three sentences."""
    trouble = _lost(scene) or _found(scene)
    what, first = trouble or (f"{_in_order(scene)}{_over(scene)}", at_a_glance(scene.gains))
    return " ".join(part for part in (what, _cost(scene, is_in_order=trouble is None), first) if part)


def _lost(scene: Scene) -> tuple[str, str] | None:
    """Members that were taken out, again and again or at all, and what to do first. None where worse is found."""
    again = _loops(scene.told)
    lost = [gone for gone in scene.told.departures if gone.cause in TAKEN_OUT] or [
        it for one in again for it in one.losses
    ]
    worst = _worst(scene.open)
    if not lost or (worst is not None and worst["severity"] == "critical" and worst["analyzer"] not in OF_LOSSES):
        return None
    if not again:
        ways: dict[str, list[Gone]] = {}
        for gone in lost:
            ways.setdefault(gone.cause, []).append(gone)
        said = [f"{_when(same, scene.calendar)} {departures(same)[0]}" for same in ways.values()]
        return f"{capital('; '.join(said))}; {_back(lost, scene)}.", _first(lost)
    loop = again[0]
    how = Counter(it.cause for it in loop.losses)
    fell = listed(
        [f"{FELL[cause]} {times(number)}{_likely(cause, loop.losses)}" for cause, number in how.most_common()]
    )
    more = f" {capital(count(len(again) - 1, 'other client'))} did the same." if len(again) > 1 else ""
    return (
        f"{name(loop.client)} on {loop.host} went and came back again and again: "
        f"{_when(loop.losses, scene.calendar)} {fell}, and each time all of {name(scene.group)} "
        f"rebalanced.{more}",
        _first(loop.losses),
    )


def _loops(told: Sums) -> list[Loop]:
    """Who goes and comes back again and again: whether or not it is known each time how it went."""
    often = [it for it in loops(told.rebalances, FELL) if len(it.losses) >= OFTEN]
    return often or loops(told.rebalances)


def _likely(cause: str, losses: Sequence[Gone]) -> str:
    """How sure that is, in brackets; nothing of what is not known at all."""
    same = [it for it in losses if it.cause == cause]
    inferred = [it.confidence for it in same if not it.observed]
    if cause not in TAKEN_OUT:
        return ""
    return f" ({sure(min(inferred))})" if inferred else " (observed)"


def _when(gone: Sequence[Gone], calendar: Calendar) -> str:
    first, last = gone[0].at_ms, gone[-1].at_ms
    same = calendar.at(first) == calendar.at(last)
    return f"at {calendar.at(first)}" if same else calendar.between(first, last)


def _back(lost: Sequence[Gone], scene: Scene) -> str:
    """Whether they came back, as far as their names tell."""
    seats = {(gone.who.label, gone.who.host): gone.at_ms for gone in lost}
    back = {
        (it.label, it.host): done.at_ms
        for done in reversed(scene.told.rebalances)
        for it in done.joined
        if done.at_ms >= seats.get((it.label, it.host), done.at_ms + 1)
    }
    if len(lost) == 1:
        return f"it came back at {scene.calendar.at(*back.values())}" if back else "it has not come back"
    if len(back) == len(lost):
        return "all came back"
    return f"{len(back)} came back" if back else "none came back"


def _first(lost: Sequence[Gone]) -> str:
    ((cause, _), *_) = Counter(it.cause for it in lost if it.cause in FIRST).most_common(1) or [
        ("session_timeout", 0)
    ]
    labels = list(dict.fromkeys(it.who.label for it in lost if it.cause in (cause, "unknown_departure")))
    return FIRST[cause].format(who=name(labels[0]) if len(labels) == 1 else "each of them")


def _worst(found: Sequence[Event]) -> Event | None:
    return min(found, key=_rank, default=None)


def _rank(event: Event) -> int:
    severity = event["severity"]
    return SEVERITIES.index(severity) if severity in SEVERITIES else len(SEVERITIES)


def _found(scene: Scene) -> tuple[str, str] | None:
    """The worst of what the analyzers hold open, and what they would do first."""
    worst = _worst(scene.open)
    if worst is None:
        return None
    what = sentence(worst["summary"])
    if worst["severity"] == "info":
        what = f"Nothing is broken in {name(scene.group)}, but something could be better. {what}"
    more = len(scene.open) - 1
    if more:
        what += f" {capital(count(more, 'other finding'))} {'is' if more == 1 else 'are'} open, too."
    advice = first_sentence(worst["advice"])
    return what, f"First: {advice}" if advice else ""


def _in_order(scene: Scene) -> str:
    """Where nothing is found to be wrong."""
    who, told = name(scene.group), scene.told
    if scene.form is None:
        if scene.deleted_ms is None:
            return f"{who} is not there any more."
        return f"{who} was deleted at {stamp(scene.deleted_ms)} UTC. Nothing is found to be wrong."
    if scene.form["generation"] < 0:
        return f"Nothing is wrong with {who}: it has no members that Kafka knows of, and only commits offsets."
    unknown = sum(gone.cause == "unknown_departure" for gone in told.departures)
    if not scene.form["members"]:
        emptied = _how_emptied(scene)
        rest = "Nothing else is found to be wrong." if emptied else "Nothing is found to be wrong."
        return f"{who} has no members{emptied}. {rest}"
    clean = f"Nothing is wrong with {who}"
    if scene.form["state"] != "Stable":
        clean = f"Nothing is found to be wrong with {who}"
    if unknown:
        clean = f"Nothing is found to be wrong with {who}, but how {count(unknown, 'member')} went is not known"
    if not told.rebalances:
        return f"{clean}. It did not rebalance in the {duration(scene.until_ms - scene.since_ms)} that this tells of."
    restarted = restarts(told.rebalances)
    if len(restarted) >= ROLLING:
        away = duration(max(it.away_ms for it in restarted))
        return (
            f"{clean}: {times(len(restarted))} a member said goodbye and another joined within {away}, as in a "
            f"rolling restart, which came to {count(len(told.rebalances), 'rebalance')}."
        )
    parted = ":" if len(told.causes) > 1 else ""
    return f"{clean}. It rebalanced {times(len(told.rebalances))}{parted} {causes(told.causes)}."


def _over(scene: Scene) -> str:
    """What was found and is over."""
    if not scene.over:
        return ""
    worst, more = min(scene.over, key=_rank), len(scene.over) - 1
    if not more:
        return f" In that time {worst['analyzer']} was open, and is over."
    return f" In that time {worst['analyzer']} and {count(more, 'other finding')} were open, and are over."


def _how_emptied(scene: Scene) -> str:
    """Since when nobody is there, and how the last ones went, as far as the range tells."""
    last = scene.told.rebalances[-1] if scene.told.rebalances else None
    if last is None or last.members or not last.left:
        return ""
    number, ways = len(last.left), Counter(gone.cause for gone in last.left)
    since = f" since {scene.calendar.at(last.at_ms)}: its last {'member' if number == 1 else f'{number} members'}"
    if len(ways) > 1:
        return f"{since} are gone, {listed([f'{some} {went(cause, some)}' for cause, some in ways.most_common()])}"
    (cause,) = ways
    stopped = ", as when a group is stopped" if cause == "member_left" else ""
    return f"{since} {went(cause, number)}{stopped}"


def _cost(scene: Scene, *, is_in_order: bool) -> str:
    """What it cost, and how the group is."""
    told, out = scene.told, []
    if told.stopped_ms is not None and told.stopped_ms >= LITTLE_MS:
        of_all = "" if told.share is None else f", {percent(told.share)} of their time"
        out.append(
            f"rebalances stopped the group's {work(scene.group_type)}s for {duration(told.stopped_ms)} in sum{of_all}"
        )
    form, who = scene.form, name(scene.group)
    if form is not None and form["generation"] >= 0:
        is_, when = ("is", "now") if scene.live else ("was", "when the log ended")
        if form["members"]:
            state = form["state"]
            if state != "Stable" and form["state_since_ms"] > 0:
                state += f" for {duration(max(scene.now_ms - form['state_since_ms'], 0))}"
            out.append(f"{who} {is_} {state} {when}, with {count(len(form['members']), 'member')}")
        elif not is_in_order:
            out.append(f"nobody {is_} in {who} {when}")
    elif form is None and not is_in_order:
        out.append(f"{who} is not there any more")
    return f"{capital('; '.join(out))}." if out else ""
