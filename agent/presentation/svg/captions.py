"""What the drawing and its table say in words: hovers, notes, the summary."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from agent.presentation.markup import Markup, escape, shortened
from agent.presentation.narrative.events import MemberRef
from agent.presentation.narrative.origins import short_words
from agent.presentation.narrative.phrases import because, epochs, generation_phrase, went
from agent.presentation.narrative.words import (
    at_least,
    certainty_percent,
    count,
    duration,
    join_counted,
    join_words,
    times,
    timestamp,
)
from agent.presentation.svg.lanes import Generation, Lanes
from agent.presentation.svg.member_slots import Lane, LaneDeparture

MAX_NAMED = 4


def departure_phrase(cause: str, confidence: float) -> str:
    """`was thrown out because its session timed out (very likely, 97 %)`."""
    text = went(cause)
    return text if confidence >= 1 or confidence <= 0 else f"{text} ({certainty_percent(confidence)})"


def departure_caption(lane: Lane, gone: LaneDeparture) -> Markup:
    """What is shown over the mark of a departure."""
    said = f"{shortened(lane.label)}, {timestamp(gone.at_ms)} UTC: {departure_phrase(gone.cause, gone.confidence)}"
    if gone.silent_since_ms is not None:
        said += f"; its last commit came {duration(gone.at_ms - gone.silent_since_ms)} before"
    if gone.origin is not None:
        said += f"; by Kubernetes: {shortened(short_words(gone.origin), 80)} (pod {shortened(gone.origin.pod, 60)})"
    return escape(said)


def departures_caption(gone: list[LaneDeparture]) -> Markup:
    """Of several that are drawn as one."""
    ways = join_counted([it.cause.replace("_", " ") for it in gone])
    return escape(
        f"{count(len(gone), 'departure')}, {timestamp(gone[0].at_ms)} to {timestamp(gone[-1].at_ms)} UTC: {ways}"
        f"{origins_of(gone)}"
    )


def origins_of(gone: Iterable[LaneDeparture]) -> str:
    """`; by Kubernetes: OOM-killed (2) and scaled down`; "" where nothing is known."""
    words = [it.origin.words for it in gone if it.origin is not None]
    return f"; by Kubernetes: {join_counted(words)}" if words else ""


def generation_caption(generation: Generation, group_type: str | None) -> Markup:
    """What is shown over the block of a generation."""
    which = generation_phrase(group_type, generation.generation, "rebalance")
    said = f"{which}, {timestamp(generation.since_ms)} UTC"
    said += f", {count(generation.members, 'member')}"
    if generation.cause is not None:
        said += f": {because(generation.cause)}"
    if generation.stopped_ms:
        said += f"; partitions were stopped for {duration(generation.stopped_ms)} in sum"
    return escape(said)


def generations_caption(rounds: list[Generation], group_type: str | None) -> Markup:
    """Of several that are drawn as one."""
    why = join_counted([it.cause.replace("_", " ") for it in rounds if it.cause is not None])
    which = f"{epochs(group_type)}s {rounds[0].generation} to {rounds[-1].generation}, "
    if rounds[0].generation is None or rounds[-1].generation is None:
        which = ""
    return escape(f"{which}{count(len(rounds), 'rebalance')}: {why}")


def total_stopped(lanes: Lanes) -> str:
    """Stopped partition time of all rebalances, `at least` that where it is not known of some; "" if of none."""
    done = [it.rebalance for it in lanes.rebalances if it.rebalance is not None]
    known_ms = sum(it.stopped_ms or 0 for it in done)
    return at_least(duration(known_ms), any(it.is_cost_unknown for it in done)) if known_ms else ""


def member_names(who: Iterable[MemberRef]) -> str:
    """Client ids, shortened; the most frequent first."""
    return join_counted([shortened(it.label, 60) for it in who], MAX_NAMED)


def summary(lanes: Lanes) -> str:
    """What the picture shows, in a few sentences."""
    named = f" of {shortened(lanes.group)}" if lanes.group else ""
    out = [
        f"Swim lanes{named} from {timestamp(lanes.since_ms)} to {timestamp(lanes.until_ms)} UTC: "
        f"{count(len(lanes.lanes) + lanes.unnamed, 'member seat')}, {count(len(lanes.rebalances), 'rebalance')}."
    ]
    gone = Counter(it.cause for lane in lanes.lanes for it in lane.departures)
    if gone:
        ways = [f"{times(n)} {cause.replace('_', ' ')}" for cause, n in gone.most_common()]
        every = (it for lane in lanes.lanes for it in lane.departures)
        out.append(f"Departures: {join_words(ways, 6)}{origins_of(every)}.")
    if stopped := total_stopped(lanes):
        out.append(f"Partitions were stopped for {stopped} in sum.")
    if lanes.issues:
        out.append(f"Findings: {join_counted([it.analyzer for it in lanes.issues], 6)}.")
    return " ".join(out)
