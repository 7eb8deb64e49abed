"""What could not be seen, and why: said as plainly as what was."""

from __future__ import annotations

from itertools import takewhile

from agent.core.causes import Cause
from agent.presentation.narrative import gains as gained
from agent.presentation.narrative.advice import clients_phrase
from agent.presentation.narrative.context import StoryContext
from agent.presentation.narrative.evidence import why_unknown
from agent.presentation.narrative.origins import is_explained
from agent.presentation.narrative.phrases import GROUP_TYPES, epochs, work
from agent.presentation.narrative.sampling import missed_phrase
from agent.presentation.narrative.totals import Totals
from agent.presentation.narrative.words import capitalized, count, grouped, join_words

MAX_REASONS = 4
"""So many reasons why it is not known how members went are told, each with its members."""

LAG_MATTERS_FROM_MS = 60_000
"""From how much stopped partition time on it is worth asking what piled up."""


def limitations(scene: StoryContext) -> list[str]:
    """Sentences, each with what would let it be seen, where anything would."""
    told, group_type = scene.totals, scene.group_type
    out = _sampling_limitation(scene)
    if (lost_before_ms := scene.asked.lost_before_ms) is not None:
        whole = "" if scene.is_looked_at else " With --bootstrap-server the whole topic is read."
        out.append(
            f"What was before {scene.calendar.at(lost_before_ms)}: the agent keeps the latest events only.{whole}"
        )
    events = (it for entry in scene.entries for it in entry.events)
    # One that was deleted before is not older than the log.
    known = takewhile(lambda it: it["type"] != "group_deleted", events)
    if any(it["type"] == "group_created" and not it["observed"] and not it.get("sampled") for it in known):
        out.append(
            "The beginning: the group may be older than the log. An agent that writes history "
            "(`kshadow run --history-topic`) keeps it."
        )
    unknown = [*_departure_limitations(told, group_type), *_cause_limitations(told, group_type)]
    if told.never_completed:
        unknown.append(
            f"What happened in {count(told.never_completed, 'rebalance')} that never completed: only a jump of the "
            f"{epochs(group_type)} shows {'it' if told.never_completed == 1 else 'them'}."
        )
    if unknown and not scene.is_looked_at:
        unknown[-1] += f" {_broker_log_hint(scene)}"
    out += unknown
    out += _cost_limitation(told, group_type)
    if told.stopped_ms is not None and told.stopped_ms >= LAG_MATTERS_FROM_MS:
        out.append(_lag_limitation(group_type))
    anomalies = () if scene.form is None else scene.form["anomalies"]
    kinds = dict.fromkeys(str(item["kind"]).replace("_", " ") for item in anomalies)
    # Rebalances that never completed were told of above.
    kinds.pop("generation gap", None)
    if kinds:
        out.append(f"Whether all of this is right: the log holds what it should not ({join_words(list(kinds))}).")
    return out if scene.gains is None else [*out, *gained.limitations(scene.gains)]


def _sampling_limitation(scene: StoryContext) -> list[str]:
    """What looks at the group can have missed."""
    if not scene.is_looked_at:
        return []
    out = (
        "What was between two samples: the group is read through the Admin API, which has no generations, timeouts "
        "and subscriptions, and nothing from before the agent started."
    )
    if every := scene.sampled_every_ms:
        out += f" {capitalized(missed_phrase(max(every)))}."
    return [out]


def _broker_log_hint(scene: StoryContext) -> str:
    """What would know how members went and what became of rounds."""
    if scene.has_broker_log:
        return "The broker's log that was read does not contain it."
    return f"The coordinator's server.log has it: {scene.broker_log_reader} --broker-log PATH."


def _lag_limitation(group_type: str | None) -> str:
    """What stood still behind the group is not in this topic."""
    return (
        f"How many records arrived while {work(group_type)}s were stopped: the log has no end offsets of topics. An "
        "agent with --lag has them; `kshadow lag` shows the lag of now."
    )


def _cost_limitation(told: Totals, group_type: str | None) -> list[str]:
    if not told.rebalances_of_unknown_cost:
        return []
    what = f"What {count(told.rebalances_of_unknown_cost, 'rebalance')} cost"
    if group_type in ("classic", "connect", None):
        return [f"{what}: the log does not show when partitions were stopped."]
    kind = GROUP_TYPES.get(group_type, "group")
    # Java's consumer counts rebalances and their latency under either protocol.
    theirs = " The clients' own metrics have it (consumer-coordinator-metrics)." if group_type == "consumer" else ""
    return [
        f"{what}: members of a {kind} hand {work(group_type)}s over one by one, and how long each was stopped is "
        f"not in the log.{theirs}"
    ]


def _departure_limitations(told: Totals, group_type: str | None) -> list[str]:
    unknown = (gone for gone in told.departures if not is_explained(gone))
    reasons = grouped(unknown, lambda gone: why_unknown(gone, group_type))
    said = [f"Why {clients_phrase(gone)} left: {reason}." for reason, gone in reasons.items()]
    beyond = sum(map(len, list(reasons.values())[MAX_REASONS:]))
    more = [f"Why {count(beyond, 'more member')} left: as with these."] if beyond else []
    return said[:MAX_REASONS] + more


def _cause_limitations(told: Totals, group_type: str | None) -> list[str]:
    unknown = [it for it in told.rebalances if it.cause == Cause.UNKNOWN]
    if not unknown:
        return []
    which = [str(it.generation) for it in unknown if it.generation is not None]
    numbers = f" ({epochs(group_type)} {join_words(which, 6)})" if which else ""
    text = f"what triggered {count(len(unknown), 'rebalance')}{numbers}"
    both = sum(bool(it.joined and it.left) for it in unknown)
    if both == len(unknown):
        return [capitalized(f"{text}: members joined and left, and the log does not show in which order.")]
    return [capitalized(f"{text}: the log does not show it.")]
