"""The answer before the story: what is going on, what it cost and how the group is, the first thing to do."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from agent.core.causes import TIMEOUT_CAUSES, Cause, cause_info
from agent.core.protocol.client_libraries import spell_settings
from agent.presentation.narrative.context import StoryContext
from agent.presentation.narrative.events import Departure, Event
from agent.presentation.narrative.findings import severity_rank
from agent.presentation.narrative.gains import best_gain_sentence
from agent.presentation.narrative.paragraphs import causes_phrase, departure_clauses
from agent.presentation.narrative.patterns import CrashLoop, find_crash_loops, rolling_restart_phrase
from agent.presentation.narrative.phrases import is_simple, went, work
from agent.presentation.narrative.totals import Totals
from agent.presentation.narrative.words import (
    Calendar,
    capitalized,
    certainty_percent,
    count,
    duration,
    first_sentence,
    grouped,
    join_words,
    name,
    percent,
    sentence,
    times,
    timestamp,
)

REPEATED_FROM = 3
"""So many times is again and again, whatever the reasons."""

NEGLIGIBLE_MS = 1_000
"""Less stopped partition time than this is not worth a word here."""

DEPARTURE_ANALYZERS = (
    "session_timeout",
    "poll_timeout",
    "rejoin_timeout",
    "rebalance_storm",
    "static_membership_advice",
)
"""Analyzers that find what is told here from the departures themselves."""


def summary(scene: StoryContext) -> str:
    """The answer in one to three sentences: the trouble, what it cost and how the group is, what to do first."""
    trouble = _timeouts(scene) or _worst_finding(scene)
    what, first = trouble or (f"{_healthy(scene)}{_resolved_sentence(scene)}", best_gain_sentence(scene.gains))
    return " ".join(part for part in (what, _cost(scene, is_in_order=trouble is None), first) if part)


def _timeouts(scene: StoryContext) -> tuple[str, str] | None:
    """Members that were taken out, again and again or at all, and what to do first. None where worse is found."""
    again = _loops(scene.totals)
    lost = [gone for gone in scene.totals.departures if gone.cause in TIMEOUT_CAUSES] or [
        it for one in again for it in one.losses
    ]
    worst = _worst(scene.open_findings)
    if not lost or (
        worst is not None and worst["severity"] == "critical" and worst["analyzer"] not in DEPARTURE_ANALYZERS
    ):
        return None
    if not again:
        ways = grouped(lost, lambda gone: gone.cause).values()
        said = [f"{_when(same, scene.calendar)} {departure_clauses(same)[0]}" for same in ways]
        return f"{capitalized('; '.join(said))}; {_return_clause(lost, scene)}.", _first_step(lost)
    loop = again[0]
    how = Counter(it.cause for it in loop.losses)
    fell = join_words(
        [
            f"{cause_info(cause).fell} {times(number)}{_certainty_of(cause, loop.losses)}"
            for cause, number in how.most_common()
        ]
    )
    more = f" {capitalized(count(len(again) - 1, 'other client'))} did the same." if len(again) > 1 else ""
    return (
        f"{name(loop.client)} on {loop.host} went and came back again and again: "
        f"{_when(loop.losses, scene.calendar)} {fell}, and each time all of {scene.who} "
        f"rebalanced.{more}",
        _first_step(loop.losses),
    )


def _loops(told: Totals) -> list[CrashLoop]:
    """Who goes and comes back again and again: whether or not it is known each time how it went."""
    often = [
        it
        for it in find_crash_loops(told.rebalances, (*TIMEOUT_CAUSES, Cause.UNKNOWN_DEPARTURE))
        if len(it.losses) >= REPEATED_FROM
    ]
    return often or find_crash_loops(told.rebalances)


def _certainty_of(cause: str, losses: Sequence[Departure]) -> str:
    """How sure that is, in brackets; nothing of what is not known at all."""
    same = [it for it in losses if it.cause == cause]
    inferred = [it.confidence for it in same if not it.observed]
    if cause not in TIMEOUT_CAUSES:
        return ""
    return f" ({certainty_percent(min(inferred))})" if inferred else " (observed)"


def _when(gone: Sequence[Departure], calendar: Calendar) -> str:
    first, last = gone[0].at_ms, gone[-1].at_ms
    same = calendar.at(first) == calendar.at(last)
    return f"at {calendar.at(first)}" if same else calendar.between(first, last)


def _return_clause(lost: Sequence[Departure], scene: StoryContext) -> str:
    """Whether they came back, as far as their names tell."""
    seats = {(gone.member.label, gone.member.host): gone.at_ms for gone in lost}
    back = {
        (it.label, it.host): done.at_ms
        for done in reversed(scene.totals.rebalances)
        for it in done.joined
        if done.at_ms >= seats.get((it.label, it.host), done.at_ms + 1)
    }
    if len(lost) == 1:
        return f"it came back at {scene.calendar.at(*back.values())}" if back else "it has not come back"
    if len(back) == len(lost):
        return "all came back"
    return f"{len(back)} came back" if back else "none came back"


def _first_step(lost: Sequence[Departure]) -> str:
    steps = Counter(it.cause for it in lost if cause_info(it.cause).first_step is not None)
    cause = steps.most_common(1)[0][0] if steps else str(Cause.SESSION_TIMEOUT)
    labels = list(dict.fromkeys(it.member.label for it in lost if it.cause in (cause, Cause.UNKNOWN_DEPARTURE)))
    step = (cause_info(cause).first_step or "").format(who=name(labels[0]) if len(labels) == 1 else "each of them")
    return spell_settings(step, {it.member.library for it in lost if it.cause == cause})


def _worst(found: Sequence[Event]) -> Event | None:
    return min(found, key=lambda event: severity_rank(event["severity"]), default=None)


def _worst_finding(scene: StoryContext) -> tuple[str, str] | None:
    """The worst of what the analyzers hold open, and what they would do first."""
    worst = _worst(scene.open_findings)
    if worst is None:
        return None
    what = sentence(worst["summary"])
    if worst["severity"] == "info":
        what = f"Nothing is broken in {scene.who}, but something could be better. {what}"
    more = len(scene.open_findings) - 1
    if more:
        what += f" {capitalized(count(more, 'other finding'))} {'is' if more == 1 else 'are'} open, too."
    advice = first_sentence(worst["advice"])
    return what, f"First: {advice}" if advice else ""


def _healthy(scene: StoryContext) -> str:
    """Where nothing is found to be wrong."""
    who, told = scene.who, scene.totals
    if scene.form is None:
        if scene.deleted_ms is None and not scene.asked.is_state_known:
            return f"Nothing is found to be wrong with {who} in its history."
        if scene.deleted_ms is None:
            return f"{who} is not there any more."
        return f"{who} was deleted at {timestamp(scene.deleted_ms)} UTC. Nothing is found to be wrong."
    if is_simple(scene.form):
        return f"Nothing is wrong with {who}: it has no members that Kafka knows of, and only commits offsets."
    unknown = sum(gone.cause == Cause.UNKNOWN_DEPARTURE for gone in told.departures)
    if not scene.form["members"]:
        emptied = _emptied_clause(scene)
        rest = "Nothing else is found to be wrong." if emptied else "Nothing is found to be wrong."
        return f"{who} has no members{emptied}. {rest}"
    clean = f"Nothing is wrong with {who}"
    if scene.form["state"] != "Stable":
        clean = f"Nothing is found to be wrong with {who}"
    if unknown:
        clean = f"Nothing is found to be wrong with {who}, but how {count(unknown, 'member')} went is not known"
    if not told.rebalances:
        return f"{clean}. It did not rebalance in the {duration(scene.until_ms - scene.since_ms)} that this tells of."
    restarts = rolling_restart_phrase(told.rebalances)
    if restarts:
        return f"{clean}: {restarts}, which came to {count(len(told.rebalances), 'rebalance')}."
    parted = ":" if len(told.causes) > 1 else ""
    return f"{clean}. It rebalanced {times(len(told.rebalances))}{parted} {causes_phrase(told.causes)}."


def _resolved_sentence(scene: StoryContext) -> str:
    """What was found and is over."""
    worst, more = _worst(scene.resolved_findings), len(scene.resolved_findings) - 1
    if worst is None:
        return ""
    if not more:
        return f" In that time {worst['analyzer']} was open, and is over."
    return f" In that time {worst['analyzer']} and {count(more, 'other finding')} were open, and are over."


def _emptied_clause(scene: StoryContext) -> str:
    """Since when nobody is there, and how the last ones went, as far as the range tells."""
    last = scene.totals.rebalances[-1] if scene.totals.rebalances else None
    if last is None or last.members or not last.left:
        return ""
    number, ways = len(last.left), Counter(gone.cause for gone in last.left)
    since = f" since {scene.calendar.at(last.at_ms)}: its last {'member' if number == 1 else f'{number} members'}"
    if len(ways) > 1:
        return (
            f"{since} are gone, {join_words([f'{some} {went(cause, some)}' for cause, some in ways.most_common()])}"
        )
    (cause,) = ways
    stopped = ", as when a group is stopped" if cause == "member_left" else ""
    return f"{since} {went(cause, number)}{stopped}"


def _cost(scene: StoryContext, *, is_in_order: bool) -> str:
    """What it cost, and how the group is."""
    told, out = scene.totals, []
    if told.stopped_ms is not None and told.stopped_ms >= NEGLIGIBLE_MS:
        of_all = "" if told.stopped_share is None else f", {percent(told.stopped_share)} of their time"
        out.append(
            f"rebalances stopped the group's {work(scene.group_type)}s for {duration(told.stopped_ms)} in sum{of_all}"
        )
    form, who = scene.form, scene.who
    if form is not None and not is_simple(form):
        is_, when = ("is", "now") if scene.asked.is_live else ("was", "when the log ended")
        if form["members"]:
            state = form["state"]
            if state != "Stable" and form["state_since_ms"] > 0:
                state += f" for {duration(max(scene.asked.now_ms - form['state_since_ms'], 0))}"
            out.append(f"{who} {is_} {state} {when}, with {count(len(form['members']), 'member')}")
        elif not is_in_order:
            out.append(f"nobody {is_} in {who} {when}")
    elif form is None and not is_in_order and scene.asked.is_state_known:
        out.append(f"{who} is not there any more")
    return f"{capitalized('; '.join(out))}." if out else ""
