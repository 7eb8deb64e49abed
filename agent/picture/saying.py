"""What the drawing and its table say in words: hovers, notes, the summary."""

from __future__ import annotations

from collections import Counter

from agent.picture.lanes import Lanes, Round
from agent.picture.markup import Html, html, shortened
from agent.picture.seats import Departure, Lane
from agent.story.phrases import because, epochs, went
from agent.story.reading import Who
from agent.story.words import count, counted, duration, listed, stamp, sure, times

MAX_NAMED = 4


def how(cause: str, confidence: float) -> str:
    """`was thrown out because its session timed out (very likely, 97 %)`."""
    text = went(cause)
    return text if confidence >= 1 or confidence <= 0 else f"{text} ({sure(confidence)})"


def of_departure(lane: Lane, gone: Departure) -> Html:
    """On hover."""
    said = f"{shortened(lane.label)}, {stamp(gone.at_ms)} UTC: {how(gone.cause, gone.confidence)}"
    if gone.silent_since_ms is not None:
        said += f"; its last commit came {duration(gone.at_ms - gone.silent_since_ms)} before"
    return html(said)


def of_departures(gone: list[Departure]) -> Html:
    """Of several that are drawn as one."""
    ways = counted([it.cause.replace("_", " ") for it in gone])
    return html(f"{count(len(gone), 'departure')}, {stamp(gone[0].at_ms)} to {stamp(gone[-1].at_ms)} UTC: {ways}")


def of_round(it: Round, group_type: str | None) -> Html:
    """On hover."""
    said = f"{epochs(group_type)} {it.number}, {stamp(it.since_ms)} UTC, {count(it.members, 'member')}"
    if it.cause is not None:
        said += f": {because(it.cause)}"
    if it.stopped_ms:
        said += f"; {duration(it.stopped_ms)} of partition time stood still"
    return html(said)


def of_rounds(rounds: list[Round], group_type: str | None) -> Html:
    """Of several that are drawn as one."""
    why = counted([it.cause.replace("_", " ") for it in rounds if it.cause is not None])
    unit = epochs(group_type)
    return html(f"{unit}s {rounds[0].number} to {rounds[-1].number}, {count(len(rounds), 'rebalance')}: {why}")


def stopped_ms(lanes: Lanes) -> int | None:
    """Stopped partition time of all rebalances of which it is known; None if it is of none."""
    known = [it.stopped_ms for it in lanes.rebalances if it.stopped_ms is not None]
    return sum(known) if known else None


def people(who: tuple[Who, ...]) -> str:
    """Client ids, shortened; the most frequent first."""
    return counted([shortened(it.label, 60) for it in who], MAX_NAMED)


def summary(lanes: Lanes) -> str:
    """What the picture shows, in a few sentences."""
    named = f" of {shortened(lanes.group)}" if lanes.group else ""
    out = [
        f"Swim lanes{named} from {stamp(lanes.since_ms)} to {stamp(lanes.until_ms)} UTC: "
        f"{count(len(lanes.lanes) + lanes.unnamed, 'member seat')}, {count(len(lanes.rebalances), 'rebalance')}."
    ]
    gone = Counter(it.cause for lane in lanes.lanes for it in lane.departures)
    if gone:
        ways = [f"{times(n)} {cause.replace('_', ' ')}" for cause, n in gone.most_common()]
        out.append(f"Departures: {listed(ways, 6)}.")
    stopped = stopped_ms(lanes)
    if stopped:
        out.append(f"Partitions stood still for {duration(stopped)}, summed over them.")
    if lanes.troubles:
        out.append(f"Findings: {counted([it.analyzer for it in lanes.troubles], 6)}.")
    return " ".join(out)
