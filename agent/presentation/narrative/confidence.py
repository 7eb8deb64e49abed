"""How sure it is what happened: what the log records, what is inferred from it, and what would make it certain."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from agent.core.causes import UNKNOWN_CAUSES, Cause, cause_info
from agent.core.inference.parameters import PARAMETERS
from agent.presentation.narrative.context import StoryContext
from agent.presentation.narrative.events import Departure, Evidence, Rebalance
from agent.presentation.narrative.origins import unexplained
from agent.presentation.narrative.words import (
    CERTAINTY_WORDS,
    Calendar,
    capitalized,
    certainty,
    count,
    duration,
    grouped,
    join_words,
    name,
    percent_range,
)

DOUBTFUL_BELOW = 0.9
"""What is less sure than this is named by itself."""

MAX_DOUBTS = 3
"""So many of those."""


def confidence_text(scene: StoryContext) -> str | None:
    """Some sentences; None where there was nothing to find out."""
    totals = scene.totals
    members = [it for it in totals.departures if it.cause not in UNKNOWN_CAUSES and _is_inferred(it)]
    others = [
        it
        for it in totals.rebalances
        if cause_info(it.cause).reason and it.cause not in UNKNOWN_CAUSES and _is_inferred(it)
    ]
    unknown = unexplained(totals.departures)
    if not (members or others or unknown):
        return "All of it is certain: the broker's log states the reasons." if scene.has_broker_log else None
    inferred = [f"why {count(len(members), 'member')} left ({_certainty_phrase(members)})"] if members else []
    if others:
        inferred.append(f"what triggered {count(len(others), 'rebalance')} ({_certainty_phrase(others)})")
    when = ", when," if scene.has_times else ""
    out = f"Who joined and left{when} and what was assigned is certain: it is in the log."
    if scene.is_looked_at:
        out = "Who joined and left and what was assigned is as the Admin API showed it."
    if inferred:
        out += f" Inferred is {join_words(inferred)}."
    out += _least_sure(members, scene.calendar)
    if (assumed := assumed_session([it for it in totals.departures if not it.observed], scene)) is not None:
        out += f" {assumed}"
    if unknown:
        out += f" Why {count(unknown, 'member')} left is not known."
    if scene.has_broker_log or scene.is_looked_at or unknown:
        # Of what is not known at all, what could not be seen tells who would know. Nobody who may not read the topic
        # has a use for a broker's log.
        return out
    who = capitalized(scene.broker_log_reader)
    return f"{out} {who} --broker-log PATH (the coordinator's server.log) adds the broker's own reasons."


def _is_inferred(it: Departure | Rebalance) -> bool:
    return not it.observed and 0 < it.confidence < 1


def assumed_session(departures: Iterable[Departure], scene: StoryContext) -> str | None:
    """That a session timeout was assumed, where what is inferred of any of these rests on it, or it is not known of
    one whether that timed out."""
    gaps = [
        item
        for it in departures
        for item in it.evidence
        if item.get("kind") == "commit_gap"
        and (it.cause not in UNKNOWN_CAUSES or Cause.SESSION_TIMEOUT in str(item.get("candidates")))
    ]
    if all(it.get("session_timeout_ms") or it.get("group_session_timeout_ms") for it in gaps):
        return None
    usual = duration(PARAMETERS.kip848_session_timeout_ms)
    told = "the agent's --broker-config" if scene.asked.is_inferred_before else "--broker-config"
    return f"Assumed: a session timeout of {usual}, the brokers' default; {told} tells another."


def _certainty_phrase(them: Iterable[Departure | Rebalance]) -> str:
    """`very likely, 94 to 97 %`; where several words apply, how many of each."""
    sure = grouped((it.confidence for it in them), certainty)
    said = [(f"{word}, {percent_range(sure[word])}", len(sure[word])) for _, word in CERTAINTY_WORDS if word in sure]
    return said[0][0] if len(said) == 1 else join_words([f"{number} {text}" for text, number in said])


def _else_it_was(it: Departure) -> str | None:
    """What else it may have been; None where nothing is said of that."""
    gaps = [item for item in it.evidence if item.get("kind") == "commit_gap"]
    if it.cause == Cause.MEMBER_LEFT and gaps and not any(_may_have_timed_out(gap) for gap in gaps):
        return "a removal by an admin"
    return cause_info(it.cause).else_it_was


def _may_have_timed_out(gap: Evidence) -> bool:
    """Whether a timeout may have run out: of a session perhaps a heartbeat sooner than a commit tells."""
    lived = [it for it in (gap.get("gap_ms"), gap.get("generation_lasted_ms")) if it is not None]
    own, of_group = gap.get("session_timeout_ms"), gap.get("group_session_timeout_ms")
    beat_ms = PARAMETERS.kip848_heartbeat_interval_ms if own is None else PARAMETERS.heartbeat_interval_ms
    limits = [it for it in (own, of_group, gap.get("rebalance_timeout_ms")) if it is not None]
    return not lived or (own or of_group) is None or min(lived) + beat_ms >= min(limits)


def _least_sure(members: Sequence[Departure], calendar: Calendar) -> str:
    """Those that are least sure, and what else they may have been; "" if all are sure enough."""
    doubtful = sorted((it for it in members if it.confidence < DOUBTFUL_BELOW), key=lambda it: it.confidence)
    said = [
        f"{name(it.member.label)} at {calendar.at(it.at_ms)}, {percent_range([it.confidence])}"
        + (f" (or {otherwise})" if (otherwise := _else_it_was(it)) else "")
        for it in doubtful[:MAX_DOUBTS]
    ]
    if len(doubtful) > MAX_DOUBTS:
        said.append(f"{len(doubtful) - MAX_DOUBTS} more")
    return f" Least sure: {'; '.join(said)}." if said else ""
