"""What could not be seen, and why: said as plainly as what was."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from agent.story.advice import clients
from agent.story.evidence import why_unknown
from agent.story.phrases import GROUP_TYPES, epochs, work
from agent.story.reading import Gone
from agent.story.sums import Sums
from agent.story.timeline import Entry
from agent.story.words import Calendar, capital, count, listed

Form = Mapping[str, Any]


def not_seen(
    told: Sums,
    lines: Sequence[Entry],
    group_type: str | None,
    form: Form | None,
    complete_since_ms: int | None,
    calendar: Calendar,
) -> list[str]:
    """Sentences. `complete_since_ms`: from when on all events are known; None if all are that the log holds."""
    out = []
    if complete_since_ms is not None:
        out.append(
            f"What was before {calendar.at(complete_since_ms)}: the agent keeps the latest events only. The same "
            "question with --bootstrap-server reads all that the topic still holds."
        )
    if any(event["type"] == "group_created" and not event["observed"] for line in lines for event in line.events):
        out.append("The beginning: the group may be older than what the log still holds.")
    out += _departures(told, group_type)
    out += _causes(told, group_type)
    if told.never_completed:
        out.append(
            f"What happened in {count(told.never_completed, 'rebalance')} that never completed: only a jump of the "
            f"{epochs(group_type)} shows {'it' if told.never_completed == 1 else 'them'}."
        )
    out += _cost(told, group_type)
    kinds = {} if form is None else dict.fromkeys(str(item["kind"]).replace("_", " ") for item in form["anomalies"])
    # Rebalances that never completed were told of above.
    kinds.pop("generation gap", None)
    if kinds:
        out.append(f"Whether all of this is right: the log holds what it should not ({listed(list(kinds))}).")
    return out


def _cost(told: Sums, group_type: str | None) -> list[str]:
    if not told.uncounted:
        return []
    what = f"What {count(told.uncounted, 'rebalance')} cost"
    if group_type in ("classic", "connect", None):
        return [f"{what}: the log does not show when partitions stopped."]
    kind = GROUP_TYPES.get(group_type, "group")
    return [
        f"{what}: members of a {kind} hand {work(group_type)}s over one by one, and for how long each stood still "
        "does not show."
    ]


def _departures(told: Sums, group_type: str | None) -> list[str]:
    reasons: dict[str, list[Gone]] = {}
    for gone in told.departures:
        if gone.cause == "unknown_departure":
            reasons.setdefault(why_unknown(gone, group_type), []).append(gone)
    said = [f"How {clients(gone)} went: {reason}." for reason, gone in reasons.items()]
    return said[:MAX_REASONS] + (
        [f"How {count(_rest(reasons), 'more member')} went: for reasons like these."]
        if len(said) > MAX_REASONS
        else []
    )


MAX_REASONS = 4


def _rest(reasons: Mapping[str, Sequence[Gone]]) -> int:
    return sum(map(len, list(reasons.values())[MAX_REASONS:]))


def _causes(told: Sums, group_type: str | None) -> list[str]:
    unknown = [it for it in told.rebalances if it.cause == "unknown"]
    if not unknown:
        return []
    which = listed([str(it.generation) for it in unknown], 6)
    text = f"what set off {count(len(unknown), 'rebalance')} ({epochs(group_type)} {which})"
    both = sum(bool(it.joined and it.left) for it in unknown)
    if both == len(unknown):
        return [capital(f"{text}: members came and went, and nothing tells in which order.")]
    return [capital(f"{text}: nothing in the log tells.")]
