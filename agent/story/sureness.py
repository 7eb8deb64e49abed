"""How sure it is what happened: what the log records, what is inferred from it, and what would make it certain."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from agent.story.phrases import REASONS
from agent.story.reading import STATES_CAUSES, Gone, Rebalance
from agent.story.sums import Sums
from agent.story.words import SURENESS, Calendar, certainty, count, listed, name, percents

DOUBTFUL = 0.9
"""What is less sure than this is named by itself."""

MOST = 3
"""So many of those."""

OTHERWISE = {
    "session_timeout": "a poll timeout or a goodbye",
    "poll_timeout": "a session timeout or a goodbye",
    "member_left": "a timeout",
    "admin_removed": "a goodbye or a timeout",
}
"""What it may have been instead."""

UNKNOWN = ("unknown", "unknown_departure")


def how_sure(told: Sums, calendar: Calendar, of_agent: bool) -> str | None:
    """Some sentences; None where there was nothing to find out. `of_agent`: an agent told of it, not the log."""
    members = [it for it in told.departures if it.cause not in UNKNOWN and _is_inferred(it)]
    others = [it for it in told.rebalances if it.cause in REASONS and it.cause not in UNKNOWN and _is_inferred(it)]
    unknown = sum(it.cause == "unknown_departure" for it in told.departures)
    seen = any(item.get("kind") == STATES_CAUSES for it in told.rebalances for item in it.evidence)
    if not (members or others or unknown):
        return "All of it is certain: the broker's own log says why." if seen else None
    inferred = [f"how {count(len(members), 'member')} went ({_by_word(members)})"] if members else []
    if others:
        inferred.append(f"what set off {count(len(others), 'rebalance')} ({_by_word(others)})")
    out = "Who came and went, when, and what moved is certain: the log records it."
    if inferred:
        out += f" Inferred is {listed(inferred)}."
    out += _doubts(members, calendar)
    if unknown:
        out += f" How {count(unknown, 'member')} went is not known."
    if seen or unknown:
        # Of what is not known at all, what could not be seen tells who would know.
        return out
    who = "An agent with" if of_agent else "The same question with"
    return f"{out} {who} --broker-log PATH (the coordinator's server.log) would have the broker's own reasons."


def _is_inferred(it: Gone | Rebalance) -> bool:
    return not it.observed and 0 < it.confidence < 1


def _by_word(them: Iterable[Gone | Rebalance]) -> str:
    """`very likely, 94 to 97 %`; where several words apply, how many of each."""
    sure: dict[str, list[float]] = {}
    for it in them:
        sure.setdefault(certainty(it.confidence), []).append(it.confidence)
    said = [(f"{word}, {percents(sure[word])}", len(sure[word])) for _, word in SURENESS if word in sure]
    return said[0][0] if len(said) == 1 else listed([f"{number} {text}" for text, number in said])


def _doubts(members: Sequence[Gone], calendar: Calendar) -> str:
    """Those that are least sure, and what else they may have been; "" if all are sure enough."""
    doubtful = sorted((it for it in members if it.confidence < DOUBTFUL), key=lambda it: it.confidence)
    said = [
        f"{name(it.who.label)} at {calendar.at(it.at_ms)}, {percents([it.confidence])}"
        + (f" (else {OTHERWISE[it.cause]})" if it.cause in OTHERWISE else "")
        for it in doubtful[:MOST]
    ]
    if len(doubtful) > MOST:
        said.append(f"{len(doubtful) - MOST} more")
    return f" Least sure: {'; '.join(said)}." if said else ""
